//! Event streams from outside: fields, chunks, limits, endings; and what is written.

use std::time::Duration;

use bytes::Bytes;
use mcp_proto::codec::sse::{Sse, SseEvent, SseItem, write};
use proptest::prelude::*;

fn event(name: &'static str, data: &'static str) -> SseItem {
    SseItem::Event(SseEvent { name: name.into(), data: data.into() })
}

fn message(data: &'static str) -> SseItem {
    event("", data)
}

/// What a stream says: its items, each with the id that counts after it, and how it ends.
#[derive(Debug, PartialEq)]
struct DecodedStream {
    items: Vec<(SseItem, Option<String>)>,
    id: Option<String>,
    retry: Option<Duration>,
    lost: Option<usize>,
}

impl DecodedStream {
    fn items(&self) -> Vec<SseItem> {
        self.items.iter().map(|(item, _)| item.clone()).collect()
    }
}

fn decode_chunks<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> DecodedStream {
    let mut events = Sse::new(limit);
    let mut items = Vec::new();
    for chunk in chunks {
        events.handle_input(Bytes::copy_from_slice(chunk));
        while let Some(item) = events.poll_item() {
            items.push((item, events.last_event_id().map(Into::into)));
        }
    }
    let lost = events.handle_eof();
    assert_eq!(events.poll_item(), None);
    DecodedStream { items, id: events.last_event_id().map(Into::into), retry: events.retry(), lost }
}

/// Sees the stream as a whole and by single bytes, which has to be the same.
fn decode(stream: &str) -> DecodedStream {
    let seen = decode_chunks(99, [stream.as_bytes()]);
    assert_eq!(seen, decode_chunks(99, stream.as_bytes().chunks(1)), "by single bytes");
    seen
}

#[test]
fn a_blank_line_ends_an_event() {
    assert_eq!(
        decode("data: a\n\ndata: b\n\n\n\ndata: c\n\n").items(),
        [message("a"), message("b"), message("c")]
    );
}

#[test]
fn any_of_the_three_line_endings_will_do() {
    assert_eq!(
        decode("data: a\r\rdata: b\r\n\r\ndata: c\n\ndata: d\r\n\rdata: e\n\r\n").items(),
        ["a", "b", "c", "d", "e"].map(message)
    );
    assert_eq!(decode("data: a\rdata: b\r\ndata: c\n\n").items(), [message("a\nb\nc")]);
}

#[test]
fn an_event_is_there_as_soon_as_its_blank_line_is() {
    let mut events = Sse::new(99);
    events.handle_input(Bytes::from_static(b"data: a\r\r"));
    assert_eq!(events.poll_item(), Some(message("a")));
    events.handle_input(Bytes::from_static(b"\ndata: b\n\r"));
    assert_eq!(events.poll_item(), Some(message("b")));
    events.handle_input(Bytes::from_static(b"\n"));
    assert_eq!((events.poll_item(), events.buffered()), (None, 0));
}

#[test]
fn data_on_several_lines_is_joined() {
    assert_eq!(decode("data: {\ndata\ndata:\ndata:  }\n\n").items(), [message("{\n\n\n }")]);
}

#[test]
fn one_space_behind_the_colon_does_not_belong_to_the_value() {
    assert_eq!(
        decode("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n").items(),
        ["a", "a", " a", "\ta"].map(message)
    );
}

/// C4.25
#[test]
fn comments_and_unknown_fields_are_ignored() {
    let stream =
        ": comment\n:\ndata : a\nDATA: b\n data: c\ndataa: d\ndat: e\nd\n: data: f\ndata: yes\n:\n\n:\n\n";
    assert_eq!(decode(stream).items(), [message("yes")]);
}

#[test]
fn an_event_may_have_a_name() {
    assert_eq!(
        decode("event: endpoint\ndata: a\n\ndata: b\n\nevent: x\nevent: y z\ndata: c\n\n").items(),
        [event("endpoint", "a"), message("b"), event("y z", "c")]
    );
    assert_eq!(
        decode("event: message\ndata: a\n\nevent: x\nevent\ndata: b\n\nevent:x\n\ndata: c\n\n").items(),
        ["a", "b", "c"].map(message)
    );
}

/// An event without data does nothing; one whose data is empty would be dispatched to a page, and carries no message.
#[test]
fn an_event_without_data_is_not_reported_but_its_id_and_retry_count() {
    let seen = decode("id: 1\nretry: 1500\ndata:\n\n");
    assert_eq!(seen.items(), []);
    assert_eq!((seen.id.as_deref(), seen.retry), (Some("1"), Some(Duration::from_millis(1500))));
    let seen = decode("id: 1\nretry: 1500\ndata: \n\nid: 2\n\n");
    assert_eq!((seen.items().len(), seen.id.as_deref()), (0, Some("2")));
}

#[test]
fn an_id_counts_once_its_event_has_ended() {
    let seen = decode("id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\nid: 3\n\nid: 4\ndata: d\n");
    let ids: Vec<_> = seen.items.iter().map(|(_, id)| id.as_deref()).collect();
    assert_eq!(ids, [Some("1"), Some("1"), Some("3")]);
    assert_eq!(seen.id.as_deref(), Some("3"));
}

#[test]
fn an_id_that_counts_no_longer_is_not_held() {
    let mut events = Sse::new(99);
    events.handle_input(Bytes::from_static(b"id: 1\n\nid: 2\n\n"));
    assert_eq!((events.poll_item(), events.buffered()), (None, 0));
}

#[test]
fn an_empty_id_takes_the_last_one_back() {
    assert_eq!(decode("id: 1\n\nid\n\n").id, None);
    assert_eq!(decode("id: 1\n\nid:\n\n").id, None);
}

#[test]
fn an_id_with_a_nul_is_ignored() {
    assert_eq!(decode("id: 1\n\nid: 2\0\n\n").id.as_deref(), Some("1"));
}

#[test]
fn a_retry_of_anything_but_digits_is_ignored() {
    let stream = "retry: 10\nretry: 1s\nretry: -1\nretry: 1.5\nretry:  5\nretry:\nretry\nretry: \u{661}\n";
    assert_eq!(decode(stream).retry, Some(Duration::from_millis(10)));
    assert_eq!(decode("retry: 99999999999999999999\n").retry, Some(Duration::from_millis(u64::MAX)));
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_very_start_only() {
    assert_eq!(decode("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n").items(), [message("a")]);
    assert_eq!(decode("\u{FEFF}\u{FEFF}data: a\n\n").items(), []);
    assert_eq!(decode("\u{FEFF}\ndata: a\n\n").items(), [message("a")]);
    let half = b"\xEF\xBBdata: a\ndata: b\n\n";
    assert_eq!(decode_chunks(99, [&half[..]]).items(), [message("b")]);
    assert_eq!(decode_chunks(99, half.chunks(1)).items(), [message("b")]);
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_in_names_and_ids_and_kept_in_data() {
    let seen = decode_chunks(99, [&b"id: \xFF\nevent: \xFF\ndata: \xFF\n\n"[..]]);
    assert_eq!(seen.id.as_deref(), Some("\u{FFFD}"));
    let data = Bytes::from_static(b"\xFF");
    assert_eq!(seen.items(), [SseItem::Event(SseEvent { name: "\u{FFFD}".into(), data })]);
}

#[test]
fn an_event_that_has_not_ended_is_discarded() {
    let seen = decode("retry: 7\nid: 1\ndata: ab\ndata: c");
    assert_eq!((seen.items().len(), seen.id, seen.lost), (0, None, Some(4)));
    assert_eq!(seen.retry, Some(Duration::from_millis(7)));
    assert_eq!(decode("data: ab\n").lost, Some(2));
    assert_eq!(decode("data: ab\n\n").lost, None);
    assert_eq!(decode("data: ab\n\n: bye\nid: 3\ndat").lost, None);
}

#[test]
fn the_end_of_the_input_leaves_ended_events_to_be_polled() {
    let mut events = Sse::new(99);
    for chunk in ["data: a\n\nda", "ta: b\nid: 1\n", "\ndata: cd\nid: 2", "\ndata: e"] {
        events.handle_input(Bytes::from_static(chunk.as_bytes()));
    }
    assert_eq!(events.handle_eof(), Some(4));
    assert_eq!(events.handle_eof(), None);
    events.handle_input(Bytes::from_static(b"\n\ndata: late\n\n"));
    assert_eq!(events.poll_item(), Some(message("a")));
    assert_eq!(events.last_event_id(), None);
    assert_eq!(events.poll_item(), Some(message("b")));
    assert_eq!(events.poll_item(), None);
    assert_eq!((events.last_event_id(), events.buffered()), (Some("1"), 0));
}

#[test]
fn chunks_may_wait() {
    let mut events = Sse::new(99);
    for chunk in ["data: a\n\nda", "", "ta: b\n", "\n"] {
        events.handle_input(Bytes::from_static(chunk.as_bytes()));
    }
    assert_eq!(events.buffered(), 18);
    assert_eq!(std::iter::from_fn(|| events.poll_item()).collect::<Vec<_>>(), [message("a"), message("b")]);
    assert_eq!(events.buffered(), 0);
}

#[test]
fn data_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"\ndata: first\nid: 1\n\ndata:second\n");
    let mut events = Sse::new(99);
    events.handle_input(chunk.clone());
    events.handle_input(Bytes::from_static(b"\n"));
    for at in [7, 25] {
        let Some(SseItem::Event(event)) = events.poll_item() else { panic!() };
        assert_eq!(event.data.as_ptr(), chunk[at..].as_ptr());
    }
}

#[test]
fn an_event_of_exactly_the_limit_is_whole() {
    assert_eq!(
        decode_chunks(3, [&b"data: abc\n\ndata: a\ndata: b\n\n"[..]]).items(),
        [message("abc"), message("a\nb")]
    );
}

#[test]
fn an_over_long_event_is_reported_once_and_the_next_one_is_read() {
    let stream = b"data: abcdef\nid: 1\n\ndata: a\ndata: b\ndata\n\ndata: ok\n\n";
    let too_long = |head: &'static str, tail: &'static str| SseItem::TooLong {
        head: head.into(),
        tail: tail.into(),
        bytes: head.len() + tail.len(),
    };
    let expected = [too_long("abc", "def"), too_long("a\nb", "\n"), message("ok")];
    for size in 1..stream.len() {
        let seen = decode_chunks(3, stream.chunks(size));
        assert_eq!(seen.items(), expected, "chunks of {size}");
        assert_eq!(seen.id.as_deref(), Some("1"));
    }
}

#[test]
fn an_over_long_event_keeps_both_ends_of_its_data() {
    let line: Vec<u8> = (0..50_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let data = [&line[..], &line[..]].join(&b'\n');
    let mut stream = Vec::new();
    write::event(&mut stream, None, None, &data);
    let expected = SseItem::TooLong {
        head: Bytes::copy_from_slice(&data[..4096]),
        tail: Bytes::copy_from_slice(&data[data.len() - 1024..]),
        bytes: data.len(),
    };
    for size in [1, 7, 1024, 4096, 65_536, stream.len()] {
        let seen = decode_chunks(60_000, stream.chunks(size));
        assert_eq!(seen.items(), std::slice::from_ref(&expected), "chunks of {size}");
        assert_eq!(decode_chunks(60_000, stream[..stream.len() - 1].chunks(size)).lost, Some(data.len()));
    }
}

#[test]
fn nothing_that_does_not_end_is_held() {
    for start in ["data: ", ": ", "unknown: ", "unknown", "id: ", "event: ", "retry: ", "", "data: a\ndata:"]
    {
        let mut events = Sse::new(10_000);
        events.handle_input(Bytes::from_static(start.as_bytes()));
        for _ in 0..100 {
            events.handle_input(Bytes::from(vec![b'7'; 9_000]));
            assert_eq!(events.poll_item(), None);
            assert!(events.buffered() <= 10_000, "{start}");
        }
    }
    for line in ["data\n", "data: \r\n", ":\n", "x\r", "id: 1\n", "event: x\n"] {
        let mut events = Sse::new(10_000);
        for _ in 0..20_000 {
            events.handle_input(Bytes::from_static(line.as_bytes()));
            assert_eq!(events.poll_item(), None);
            assert!(events.buffered() <= 10_000, "{line}");
        }
    }
}

#[test]
fn other_values_count_up_to_four_kibibytes() {
    let stream = |length: usize| {
        let value = "7".repeat(length);
        let zeros = "0".repeat(length);
        format!("id: old\n\nid: {value}\nevent: {value}\nretry: {zeros}\ndata: a\n\n")
    };
    for size in [1, 5000, usize::MAX] {
        let longest = decode_chunks(99, stream(4096).as_bytes().chunks(size));
        assert_eq!(longest.id.map(|id| id.len()), Some(4096));
        assert_eq!(longest.retry, Some(Duration::ZERO));
        let longer = decode_chunks(99, stream(4097).as_bytes().chunks(size));
        assert_eq!((longer.id.as_deref(), longer.retry), (Some("old"), None));
        let [SseItem::Event(event)] = &longer.items()[..] else { panic!() };
        assert_eq!(event.name, "7".repeat(4096));
    }
}

#[test]
fn two_mebibytes_in_single_bytes_are_one_event() {
    const BYTES: usize = 2 * 1024 * 1024;
    let mut events = Sse::new(BYTES);
    events.handle_input(Bytes::from_static(b"data:"));
    let byte = Bytes::from_static(b"x");
    for _ in 0..BYTES {
        events.handle_input(byte.clone());
        assert_eq!(events.poll_item(), None);
    }
    events.handle_input(Bytes::from_static(b"\n\n"));
    assert!(matches!(events.poll_item(), Some(SseItem::Event(event)) if event.data.len() == BYTES));
}

#[test]
fn an_event_is_written_with_its_name_and_id() {
    let mut out = Vec::new();
    write::event(&mut out, Some("1"), Some("endpoint"), b"/mcp");
    assert_eq!(out, b"event: endpoint\nid: 1\ndata: /mcp\n\n");
}

#[test]
fn line_breaks_in_data_make_several_lines() {
    let mut out = Vec::new();
    write::event(&mut out, None, None, b"a\r\nb\rc\nd\n");
    assert_eq!(out, b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

#[test]
fn line_breaks_in_names_and_ids_forge_nothing() {
    let mut out = Vec::new();
    write::event(&mut out, Some("1\ndata: no\r\0"), Some("x\r\n\r\ndata: no"), b"yes");
    assert_eq!(decode_chunks(99, [&out[..]]).items(), [event("xdata: no", "yes")]);
}

/// C4.25, S3.15
#[test]
fn a_comment_that_is_written_is_no_event() {
    let mut out = Vec::new();
    write::comment(&mut out);
    write::event(&mut out, None, None, b"a");
    write::comment(&mut out);
    assert_eq!(decode_chunks(99, [&out[..]]).items(), [message("a")]);
}

/// S3.21
#[test]
fn a_priming_event_gives_an_id_and_a_delay_and_is_no_message() {
    let mut out = Vec::new();
    write::priming(&mut out, "7", Some(Duration::from_millis(1500)));
    let seen = decode_chunks(99, [&out[..]]);
    assert_eq!((seen.items().len(), seen.id.as_deref()), (0, Some("7")));
    assert_eq!(seen.retry, Some(Duration::from_millis(1500)));
    out.clear();
    write::priming(&mut out, "8", None);
    assert_eq!(out, b"id: 8\ndata: \n\n");
}

/// Streams of pieces that mean something, and of noise.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "data", "data:", "data: ", "event: x", "event:", "id: 1", "id:2\0", "retry: 5", ":", " ", "\n", "\r",
        "\r\n", "\n\n", "\u{FEFF}", "a", "{}", "x: ",
    ]);
    proptest::collection::vec(word, 0..60).prop_map(|words| words.concat().into_bytes())
}

fn chop<'a>(mut rest: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, behind) = rest.split_at((*size).min(rest.len()));
        chunks.push(chunk);
        rest = behind;
    }
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Contract 4.
    #[test]
    fn events_do_not_depend_on_chunks(
        stream in noise(), limit in 0usize..30, sizes in proptest::collection::vec(1usize..20, 1..200)
    ) {
        let expected = decode_chunks(limit, [&stream[..]]);
        prop_assert_eq!(&decode_chunks(limit, chop(&stream, &sizes)), &expected);
        prop_assert_eq!(&decode_chunks(limit, stream.chunks(1)), &expected);
    }

    #[test]
    fn what_is_written_is_read(
        id in "[^\r\n\0]{1,8}", name in "[^\r\n\0]{1,8}", data in "[a-z:\n ]{1,80}",
        sizes in proptest::collection::vec(1usize..20, 1..200),
    ) {
        let mut out = Vec::new();
        write::comment(&mut out);
        write::event(&mut out, Some(&id), Some(&name), data.as_bytes());
        let seen = decode_chunks(usize::MAX, chop(&out, &sizes));
        let name = if name == "message" { String::new() } else { name };
        let event = SseItem::Event(SseEvent { name: name.into(), data: data.into() });
        prop_assert_eq!(seen, DecodedStream { items: vec![(event, Some(id.clone()))], id: Some(id), retry: None, lost: None });
    }
}

#[cfg(feature = "fuzzing")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fuzz_body_finds_nothing(limit in 0u8..4, size in any::<u8>(), stream in noise()) {
        mcp_proto::fuzzing::sse(&[&[limit, size], &stream[..]].concat());
    }
}
