//! Fuzzing of line framing, in arbitrary chunks.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::codec::{Line, Lines};

/// Checks that the lines of the input do not depend on its chunks.
///
/// Splits the input into lines as a whole, by single bytes and in chunks of the sizes that the input selects, and
/// checks that the lines are the same, and correct.
///
/// The first byte selects the limit, the second the sizes of the chunks.
pub fn lines(data: &[u8]) {
    let [limit, sizes, text @ ..] = data else { return };
    let limit = usize::from(*limit) * 40;
    let expected = reference_lines(limit, text);
    assert_eq!(expected, chopped(limit, text, |_| text.len().max(1)), "as a whole");
    assert_eq!(expected, chopped(limit, text, |_| 1), "by single bytes");
    let sizes = usize::from(*sizes);
    assert_eq!(expected, chopped(limit, text, |n| 1 + (n * 31 + sizes) % (sizes + 1)), "in chunks");
    assert_eq!(expected, queued(limit, text, sizes + 1), "in chunks that wait");
}

fn chopped(limit: usize, text: &[u8], size: impl Fn(usize) -> usize) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    let mut found = Vec::new();
    let (mut rest, mut n) = (text, 0);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(size(n).min(rest.len()));
        lines.handle_input(Bytes::copy_from_slice(chunk));
        while let Some(line) = lines.poll_line() {
            found.push(line);
        }
        assert!(lines.buffered() <= limit.max(8 * 1024), "holds more than its limit");
        (rest, n) = (behind, n + 1);
    }
    found.extend(lines.handle_eof());
    assert_eq!((lines.buffered(), lines.poll_line()), (0, None), "something is left");
    found
}

/// Feeds all input first, then its end, and reads the lines only then.
fn queued(limit: usize, text: &[u8], size: usize) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    for chunk in text.chunks(size) {
        lines.handle_input(Bytes::copy_from_slice(chunk));
    }
    assert_eq!(lines.buffered(), text.len());
    let last = lines.handle_eof();
    let mut found: Vec<Line> = core::iter::from_fn(|| lines.poll_line()).collect();
    assert_eq!(lines.buffered(), 0, "something is left");
    found.extend(last);
    found
}

/// A reference implementation of [`Lines`].
fn reference_lines(limit: usize, text: &[u8]) -> Vec<Line> {
    let mut found = Vec::new();
    for (n, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let mark = if n == 0 && line.starts_with("\u{FEFF}".as_bytes()) { 3 } else { 0 };
        if line.len() > limit {
            let head = limit.min(4096);
            let tail = head.max(line.len().saturating_sub(1024));
            found.push(Line::TooLong {
                head: Bytes::copy_from_slice(&line[mark.min(head)..head]),
                tail: Bytes::copy_from_slice(&line[tail..]),
                bytes: line.len(),
            });
            continue;
        }
        let line = &line[mark..];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.iter().all(u8::is_ascii_whitespace) {
            found.push(Line::Whole(Bytes::copy_from_slice(line)));
        }
    }
    found
}
