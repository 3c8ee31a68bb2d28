//! Newline framing.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memrchr};

/// How much is kept of the beginning of an over-long line, in bytes.
const HEAD_BYTES: usize = 4096;
/// How much is kept of the end of an over-long line, in bytes: some peers write the id last.
const TAIL_BYTES: usize = 1024;
/// Lines that cross chunks are put together in a buffer that is used again once they are dropped; one of more than this
/// takes the buffer along.
const KEPT_BYTES: usize = 128 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Cuts a byte stream into lines, whatever the pieces it comes in.
///
/// A line that lies in one chunk is a slice of that chunk; one that crosses chunks is copied together, in a buffer of at
/// most twice the limit. The work is linear in the input however it is chopped, and the same lines come out.
///
/// Lines end with `\n` or `\r\n`. Lines of nothing but whitespace are skipped, and so is a byte order mark at the very
/// start. A line of more than the limit is skipped to its end and then reported once, by its two ends and its length; the
/// rest of it is not held. One `Lines` serves one stream.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>
///
/// ```
/// use mcp_proto::Bytes;
/// use mcp_proto::codec::{Line, Lines};
///
/// let mut lines = Lines::new(1024);
/// lines.handle_input(Bytes::from_static(b"{}\r\n\n[1,"));
/// assert_eq!(lines.poll_line(), Some(Line::Whole(Bytes::from_static(b"{}"))));
/// assert_eq!(lines.poll_line(), None);
/// lines.handle_input(Bytes::from_static(b"2]\n"));
/// assert_eq!(lines.poll_line(), Some(Line::Whole(Bytes::from_static(b"[1,2]"))));
/// assert_eq!(lines.handle_eof(), None);
/// ```
#[derive(Debug)]
pub struct Lines {
    max_bytes: usize,
    /// The chunk that is being searched.
    front: Bytes,
    /// How far it has been.
    at: usize,
    /// The chunks behind it.
    chunks: VecDeque<Bytes>,
    /// What came of the line whose end has not come yet.
    partial: Partial,
    /// The longest line so far that crossed chunks and left its buffer.
    longest: usize,
    /// Whether a line has ended yet: before that, a byte order mark may come.
    started: bool,
    /// Whether a line has ended, and nothing is held of the next one.
    plain: bool,
}

/// One line, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit.
    Whole(Bytes),
    /// A line over the limit, and what was kept of it.
    TooLong {
        /// Its beginning: at most 4 KiB, and no more than the limit.
        head: Bytes,
        /// Its end, as far as `head` does not reach: at most 1 KiB.
        tail: Bytes,
        /// Its whole length, in bytes; saturating.
        bytes: usize,
    },
}

#[derive(Debug)]
enum Partial {
    Held(BytesMut),
    Skipping { head: Bytes, tail: Vec<u8>, bytes: usize },
}

impl Default for Partial {
    fn default() -> Self {
        Self::Held(BytesMut::new())
    }
}

impl Lines {
    /// For lines of up to `max_bytes`, counted without `\n`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            front: Bytes::new(),
            at: 0,
            chunks: VecDeque::new(),
            partial: Partial::default(),
            longest: 0,
            started: false,
            plain: false,
        }
    }

    /// Takes what was read. Several chunks may wait for [`poll_line`](Self::poll_line).
    pub fn handle_input(&mut self, chunk: Bytes) {
        if self.at >= self.front.len() && self.chunks.is_empty() {
            self.front = chunk;
            self.at = 0;
        } else if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next line that has ended, if any.
    #[must_use]
    pub fn poll_line(&mut self) -> Option<Line> {
        loop {
            let start = self.at;
            let rest = self.front.get(start..).unwrap_or_default();
            let Some(length) = memchr(b'\n', rest) else {
                self.next_chunk()?;
                continue;
            };
            let end = start.saturating_add(length);
            self.at = end.saturating_add(1);
            if !self.plain || length > self.max_bytes {
                match self.end_of_line(start..end) {
                    Some(line) => return Some(line),
                    None => continue,
                }
            }
            if let Some(length) = content(rest.get(..length).unwrap_or_default()) {
                return Some(Line::Whole(self.front.slice(start..start.saturating_add(length))));
            }
        }
    }

    /// Holds what is left of the front chunk, and goes on to the next one.
    fn next_chunk(&mut self) -> Option<()> {
        let mut piece = core::mem::take(&mut self.front);
        piece.advance(self.at.min(piece.len()));
        self.at = 0;
        self.hold(&piece);
        self.front = self.chunks.pop_front()?;
        Some(())
    }

    /// Ends a line that crosses chunks, is over-long or is the first one.
    #[cold]
    fn end_of_line(&mut self, piece: Range<usize>) -> Option<Line> {
        let piece = self.front.slice(piece);
        let line = match &self.partial {
            Partial::Held(held) if held.is_empty() => self.whole(piece),
            _ => {
                self.hold(&piece);
                self.take_partial()
            }
        };
        self.plain = true;
        self.present(line)
    }

    /// Takes the end of the input, and gives what lay after the last newline unless it was blank: a last
    /// line that lacks its newline, or one that was cut off.
    ///
    /// Lines that had ended before are still polled.
    pub fn handle_eof(&mut self) -> Option<Line> {
        let mut rest = Self::new(self.max_bytes);
        rest.started = self.started;
        loop {
            let (mut chunk, last) = match self.chunks.pop_back() {
                Some(chunk) => (chunk, false),
                None => {
                    let front = core::mem::take(&mut self.front);
                    (front.slice(core::mem::take(&mut self.at).min(front.len())..), true)
                }
            };
            if let Some(newline) = memrchr(b'\n', &chunk) {
                rest.started = true;
                rest.chunks.push_front(chunk.split_off(newline.saturating_add(1)));
                if last {
                    self.front = chunk;
                } else {
                    self.chunks.push_back(chunk);
                }
                break;
            }
            rest.chunks.push_front(chunk);
            if last {
                core::mem::swap(&mut rest.partial, &mut self.partial);
                break;
            }
        }
        rest.chunks.push_back(Bytes::from_static(b"\n"));
        rest.poll_line()
    }

    /// How many bytes are held: input not yet polled, and the line that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let partial = match &self.partial {
            Partial::Held(held) => held.len(),
            Partial::Skipping { head, tail, .. } => head.len().saturating_add(tail.len()),
        };
        let partial = partial.saturating_add(self.front.len().saturating_sub(self.at));
        self.chunks.iter().fold(partial, |sum, chunk| sum.saturating_add(chunk.len()))
    }

    /// Adds a piece to the line that has not ended.
    fn hold(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.plain = false;
        match &mut self.partial {
            Partial::Held(held) => {
                let length = held.len().saturating_add(piece.len());
                if length <= self.max_bytes {
                    if length > held.capacity() {
                        // Twice what it takes, so that the copies that growing costs stay linear.
                        let wanted = length.saturating_mul(2).max(self.longest).min(self.max_bytes);
                        held.reserve(wanted.saturating_sub(held.len()));
                    }
                    held.extend_from_slice(piece);
                    return;
                }
                let head_bytes = HEAD_BYTES.min(self.max_bytes);
                let mut line = core::mem::take(held);
                let missing = head_bytes.saturating_sub(line.len());
                let (of_head, rest) = piece.split_at_checked(missing).unwrap_or((piece, &[]));
                line.extend_from_slice(of_head);
                let mut tail = Vec::new();
                keep_end(&mut tail, line.get(head_bytes..).unwrap_or_default());
                keep_end(&mut tail, rest);
                let head = Bytes::copy_from_slice(line.get(..head_bytes).unwrap_or_default());
                self.partial = Partial::Skipping { head, tail, bytes: length };
            }
            Partial::Skipping { tail, bytes, .. } => {
                *bytes = bytes.saturating_add(piece.len());
                keep_end(tail, piece);
            }
        }
    }

    /// The line that was held, whose end has come.
    fn take_partial(&mut self) -> Line {
        if let Partial::Held(held) = &mut self.partial {
            let line = held.split().freeze();
            if line.len() > KEPT_BYTES {
                *held = BytesMut::new();
            } else {
                self.longest = self.longest.max(line.len());
            }
            return Line::Whole(line);
        }
        match core::mem::take(&mut self.partial) {
            Partial::Held(held) => Line::Whole(held.freeze()),
            Partial::Skipping { head, mut tail, bytes } => {
                let surplus = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..surplus);
                Line::TooLong { head, tail: Bytes::from(tail), bytes }
            }
        }
    }

    /// A line that lies in one chunk.
    fn whole(&self, line: Bytes) -> Line {
        let bytes = line.len();
        if bytes <= self.max_bytes {
            return Line::Whole(line);
        }
        let mut head = line;
        let mut tail = head.split_off(HEAD_BYTES.min(self.max_bytes).min(bytes));
        tail.advance(tail.len().saturating_sub(TAIL_BYTES));
        Line::TooLong { head, tail, bytes }
    }

    /// Strips what is not the line's own; nothing is left of a blank line.
    fn present(&mut self, mut line: Line) -> Option<Line> {
        let (Line::Whole(text) | Line::TooLong { head: text, .. }) = &mut line;
        if !self.started {
            self.started = true;
            if text.starts_with(BYTE_ORDER_MARK) {
                text.advance(BYTE_ORDER_MARK.len());
            }
        }
        let Line::Whole(text) = &mut line else { return Some(line) };
        text.truncate(content(text)?);
        Some(line)
    }
}

/// The length of a line without its carriage return; nothing if it is blank.
fn content(line: &[u8]) -> Option<usize> {
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    (!text.iter().all(u8::is_ascii_whitespace)).then_some(text.len())
}

/// Appends to a tail of which only the last [`TAIL_BYTES`] count, in amortised linear time.
fn keep_end(tail: &mut Vec<u8>, piece: &[u8]) {
    let surplus = piece.len().saturating_sub(TAIL_BYTES);
    tail.extend_from_slice(piece.get(surplus..).unwrap_or_default());
    if tail.len() > TAIL_BYTES.saturating_mul(4) {
        let surplus = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte is searched once, as nothing is left to search after a poll; and a line that grows is moved a few
    /// times only.
    #[test]
    fn a_line_in_single_bytes_costs_linear_time() {
        const BYTES: usize = 1024 * 1024;
        let mut lines = Lines::new(BYTES);
        let (mut moves, mut capacity) = (0, 0);
        for _ in 0..BYTES {
            lines.handle_input(Bytes::from_static(b"x"));
            assert_eq!(lines.poll_line(), None);
            assert!(lines.front.is_empty() && lines.chunks.is_empty());
            let Partial::Held(held) = &lines.partial else { panic!("the line is within the limit") };
            if held.capacity() != capacity {
                (moves, capacity) = (moves + 1, held.capacity());
            }
        }
        assert!(moves <= 21, "{moves} moves");
        assert!(capacity <= 2 * BYTES, "{capacity} bytes for a line of {BYTES}");
    }

    #[test]
    fn the_buffer_of_a_very_long_line_goes_with_it() {
        let mut lines = Lines::new(usize::MAX);
        for length in [KEPT_BYTES + 1, KEPT_BYTES] {
            lines.handle_input(Bytes::from(alloc::vec![b'x'; length]));
            assert_eq!(lines.poll_line(), None);
            lines.handle_input(Bytes::from_static(b"\n"));
            drop(lines.poll_line());
            let Partial::Held(held) = &mut lines.partial else { panic!("nothing is over-long") };
            assert_eq!(held.try_reclaim(KEPT_BYTES), length == KEPT_BYTES);
        }
    }
}
