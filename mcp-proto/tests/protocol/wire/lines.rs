//! Newline framing: chunks, limits, line endings and the end of input.

use bytes::Bytes;
use mcp_proto::codec::{Line, Lines};
use proptest::prelude::*;

fn whole(text: &'static str) -> Line {
    Line::Whole(Bytes::from_static(text.as_bytes()))
}

/// All lines of an input in the given chunks, with the unended line at its end.
fn cut<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    let mut found = Vec::new();
    for chunk in chunks {
        lines.handle_input(Bytes::copy_from_slice(chunk));
        found.extend(std::iter::from_fn(|| lines.poll_line()));
    }
    found.extend(lines.handle_eof());
    found
}

/// C3.1
#[test]
fn each_line_is_one_frame() {
    assert_eq!(cut(99, [&b"{}\n[]\n"[..]]), [whole("{}"), whole("[]")]);
}

#[test]
fn lines_do_not_copy_a_line_within_one_chunk() {
    let chunk = Bytes::from_static(b"first\nsecond\n");
    let mut lines = Lines::new(99);
    lines.handle_input(chunk.clone());
    let _ = lines.poll_line();
    let Some(Line::Whole(second)) = lines.poll_line() else { panic!() };
    assert_eq!(second.as_ptr(), chunk[6..].as_ptr());
}

/// Nothing but the line itself keeps the memory of a consumed chunk.
#[test]
fn last_line_of_a_chunk_takes_the_chunk_along() {
    let mut lines = Lines::new(99);
    lines.handle_input(Bytes::from(b"first\nlast\n".to_vec()));
    let _ = lines.poll_line();
    let Some(Line::Whole(last)) = lines.poll_line() else { panic!() };
    assert_eq!(last, "last");
    assert!(last.is_unique());
}

/// F27
#[test]
fn lines_skip_carriage_returns_and_blank_lines() {
    assert_eq!(cut(99, [&b"\r\n \t\na\r\n\n\r\r\nb\r\r\n"[..]]), [whole("a"), whole("b\r")]);
}

#[test]
fn lines_skip_a_byte_order_mark_only_at_the_start() {
    let input = "\u{FEFF}a\n\u{FEFF}b\n".as_bytes();
    assert_eq!(cut(99, [input]), [whole("a"), whole("\u{FEFF}b")]);
    assert_eq!(cut(99, input.chunks(1)), [whole("a"), whole("\u{FEFF}b")]);
}

#[test]
fn lines_accept_several_chunks_before_a_poll() {
    let mut lines = Lines::new(99);
    for chunk in ["a\nb", "", "c", "\nd\n"] {
        lines.handle_input(Bytes::from_static(chunk.as_bytes()));
    }
    assert_eq!(lines.buffered(), 7);
    assert_eq!(
        std::iter::from_fn(|| lines.poll_line()).collect::<Vec<_>>(),
        [whole("a"), whole("bc"), whole("d")]
    );
    assert_eq!(lines.buffered(), 0);
}

#[test]
fn line_of_exactly_the_limit_is_whole() {
    assert_eq!(cut(3, [&b"abc\n"[..]]), [whole("abc")]);
}

/// F29
#[test]
fn lines_report_an_over_long_line_once_and_go_on() {
    let too_long =
        Line::TooLong { head: Bytes::from_static(b"abc"), tail: Bytes::from_static(b"def"), bytes: 6 };
    assert_eq!(cut(3, [&b"abcdef\nok\n"[..]]), [too_long.clone(), whole("ok")]);
    assert_eq!(cut(3, [&b"abc"[..], b"d", b"ef\no", b"k\n"]), [too_long, whole("ok")]);
}

#[test]
fn over_long_line_keeps_both_ends() {
    let line: Vec<u8> = (0..100_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let mut input = line.clone();
    input.push(b'\n');
    let expected = Line::TooLong {
        head: Bytes::copy_from_slice(&line[..4096]),
        tail: Bytes::copy_from_slice(&line[line.len() - 1024..]),
        bytes: line.len(),
    };
    for size in [1, 7, 1024, 4096, 65_536, input.len()] {
        assert_eq!(cut(10_000, input.chunks(size)), std::slice::from_ref(&expected), "chunks of {size}");
    }
}

#[test]
fn lines_hold_a_bounded_part_of_an_over_long_line() {
    for size in [1_000, 9_000] {
        let mut lines = Lines::new(10_000);
        for _ in 0..100 {
            lines.handle_input(Bytes::from(vec![b'a'; size]));
            assert_eq!(lines.poll_line(), None);
            assert!(lines.buffered() <= 10_000, "chunks of {size}");
        }
    }
}

#[test]
fn end_of_input_returns_the_unended_line() {
    assert_eq!(cut(99, [&b"a\nb"[..], b"c"]), [whole("a"), whole("bc")]);
    assert_eq!(cut(99, [&b"a\n \r"[..]]), [whole("a")]);
    assert_eq!(cut(1, [&b"bc"[..]]), [Line::TooLong { head: "b".into(), tail: "c".into(), bytes: 2 }]);
}

#[test]
fn ended_lines_can_be_polled_after_the_end_of_input() {
    let mut lines = Lines::new(99);
    lines.handle_input(Bytes::from_static(b"a\nb"));
    lines.handle_input(Bytes::from_static(b"c\nd"));
    assert_eq!(lines.handle_eof(), Some(whole("d")));
    assert_eq!(lines.poll_line(), Some(whole("a")));
    assert_eq!(lines.poll_line(), Some(whole("bc")));
    assert_eq!(lines.poll_line(), None);
    assert_eq!(lines.handle_eof(), None);
}

#[test]
fn lines_join_sixteen_mebibytes_of_single_bytes() {
    const BYTES: usize = 16 * 1024 * 1024;
    let mut lines = Lines::new(BYTES);
    let byte = Bytes::from_static(b"x");
    for _ in 0..BYTES {
        lines.handle_input(byte.clone());
        assert_eq!(lines.poll_line(), None);
    }
    lines.handle_input(Bytes::from_static(b"\n"));
    assert!(matches!(lines.poll_line(), Some(Line::Whole(line)) if line.len() == BYTES));
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop::sample::select(b"\n\n\r ab{\xEF\xBB\xBF".to_vec()), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Contract 4.
    #[test]
    fn lines_do_not_depend_on_chunks(
        input in noise(), limit in 0usize..30, sizes in proptest::collection::vec(1usize..20, 1..200)
    ) {
        let mut chunks = Vec::new();
        let mut rest = &input[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, behind) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk);
            rest = behind;
        }
        let expected = cut(limit, [&input[..]]);
        prop_assert_eq!(&cut(limit, chunks), &expected);
        prop_assert_eq!(&cut(limit, input.chunks(1)), &expected);
    }
}

#[cfg(feature = "fuzzing")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fuzz_body_finds_no_error(limit in 0u8..4, size in any::<u8>(), input in noise()) {
        mcp_proto::fuzzing::lines(&[&[limit, size], &input[..]].concat());
    }
}
