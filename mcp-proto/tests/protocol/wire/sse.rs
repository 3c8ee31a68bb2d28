//! Event streams: fields, chunks, limits and endings of the decoder; output of the encoder.

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

/// A decoded stream: its items, each with the last event id after it, and the state at its end.
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

/// Decodes the stream as a whole and by single bytes, and asserts that the results are equal.
fn decode(stream: &str) -> DecodedStream {
    let decoded = decode_chunks(99, [stream.as_bytes()]);
    assert_eq!(decoded, decode_chunks(99, stream.as_bytes().chunks(1)), "by single bytes");
    decoded
}

#[test]
fn blank_line_ends_an_event() {
    assert_eq!(
        decode("data: a\n\ndata: b\n\n\n\ndata: c\n\n").items(),
        [message("a"), message("b"), message("c")]
    );
}

#[test]
fn decoder_accepts_all_three_line_endings() {
    assert_eq!(
        decode("data: a\r\rdata: b\r\n\r\ndata: c\n\ndata: d\r\n\rdata: e\n\r\n").items(),
        ["a", "b", "c", "d", "e"].map(message)
    );
    assert_eq!(decode("data: a\rdata: b\r\ndata: c\n\n").items(), [message("a\nb\nc")]);
}

#[test]
fn event_is_ready_as_soon_as_its_blank_line_arrives() {
    let mut events = Sse::new(99);
    events.handle_input(Bytes::from_static(b"data: a\r\r"));
    assert_eq!(events.poll_item(), Some(message("a")));
    events.handle_input(Bytes::from_static(b"\ndata: b\n\r"));
    assert_eq!(events.poll_item(), Some(message("b")));
    events.handle_input(Bytes::from_static(b"\n"));
    assert_eq!((events.poll_item(), events.buffered()), (None, 0));
}

#[test]
fn decoder_joins_data_of_several_lines() {
    assert_eq!(decode("data: {\ndata\ndata:\ndata:  }\n\n").items(), [message("{\n\n\n }")]);
}

#[test]
fn decoder_strips_one_space_after_the_colon() {
    assert_eq!(
        decode("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n").items(),
        ["a", "a", " a", "\ta"].map(message)
    );
}

/// C4.25
#[test]
fn decoder_ignores_comments_and_unknown_fields() {
    let stream =
        ": comment\n:\ndata : a\nDATA: b\n data: c\ndataa: d\ndat: e\nd\n: data: f\ndata: yes\n:\n\n:\n\n";
    assert_eq!(decode(stream).items(), [message("yes")]);
}

#[test]
fn event_may_have_a_name() {
    assert_eq!(
        decode("event: endpoint\ndata: a\n\ndata: b\n\nevent: x\nevent: y z\ndata: c\n\n").items(),
        [event("endpoint", "a"), message("b"), event("y z", "c")]
    );
    assert_eq!(
        decode("event: message\ndata: a\n\nevent: x\nevent\ndata: b\n\nevent:x\n\ndata: c\n\n").items(),
        ["a", "b", "c"].map(message)
    );
}

/// A browser ignores an event without data, and dispatches one with empty data; neither carries a message.
#[test]
fn decoder_reports_no_event_without_data_but_keeps_its_id_and_retry() {
    let decoded = decode("id: 1\nretry: 1500\ndata:\n\n");
    assert_eq!(decoded.items(), []);
    assert_eq!((decoded.id.as_deref(), decoded.retry), (Some("1"), Some(Duration::from_millis(1500))));
    let decoded = decode("id: 1\nretry: 1500\ndata: \n\nid: 2\n\n");
    assert_eq!((decoded.items().len(), decoded.id.as_deref()), (0, Some("2")));
}

#[test]
fn id_takes_effect_when_its_event_ends() {
    let decoded = decode("id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\nid: 3\n\nid: 4\ndata: d\n");
    let ids: Vec<_> = decoded.items.iter().map(|(_, id)| id.as_deref()).collect();
    assert_eq!(ids, [Some("1"), Some("1"), Some("3")]);
    assert_eq!(decoded.id.as_deref(), Some("3"));
}

#[test]
fn decoder_does_not_hold_replaced_ids() {
    let mut events = Sse::new(99);
    events.handle_input(Bytes::from_static(b"id: 1\n\nid: 2\n\n"));
    assert_eq!((events.poll_item(), events.buffered()), (None, 0));
}

#[test]
fn empty_id_resets_the_last_one() {
    assert_eq!(decode("id: 1\n\nid\n\n").id, None);
    assert_eq!(decode("id: 1\n\nid:\n\n").id, None);
}

#[test]
fn decoder_ignores_an_id_with_a_nul() {
    assert_eq!(decode("id: 1\n\nid: 2\0\n\n").id.as_deref(), Some("1"));
}

#[test]
fn decoder_ignores_a_retry_that_is_not_digits() {
    let stream = "retry: 10\nretry: 1s\nretry: -1\nretry: 1.5\nretry:  5\nretry:\nretry\nretry: \u{661}\n";
    assert_eq!(decode(stream).retry, Some(Duration::from_millis(10)));
    assert_eq!(decode("retry: 99999999999999999999\n").retry, Some(Duration::from_millis(u64::MAX)));
}

#[test]
fn decoder_skips_a_byte_order_mark_only_at_the_start() {
    assert_eq!(decode("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n").items(), [message("a")]);
    assert_eq!(decode("\u{FEFF}\u{FEFF}data: a\n\n").items(), []);
    assert_eq!(decode("\u{FEFF}\ndata: a\n\n").items(), [message("a")]);
    let half = b"\xEF\xBBdata: a\ndata: b\n\n";
    assert_eq!(decode_chunks(99, [&half[..]]).items(), [message("b")]);
    assert_eq!(decode_chunks(99, half.chunks(1)).items(), [message("b")]);
}

#[test]
fn decoder_replaces_invalid_utf8_in_names_and_ids_and_keeps_it_in_data() {
    let decoded = decode_chunks(99, [&b"id: \xFF\nevent: \xFF\ndata: \xFF\n\n"[..]]);
    assert_eq!(decoded.id.as_deref(), Some("\u{FFFD}"));
    let data = Bytes::from_static(b"\xFF");
    assert_eq!(decoded.items(), [SseItem::Event(SseEvent { name: "\u{FFFD}".into(), data })]);
}

#[test]
fn decoder_discards_an_event_that_has_not_ended() {
    let decoded = decode("retry: 7\nid: 1\ndata: ab\ndata: c");
    assert_eq!((decoded.items().len(), decoded.id, decoded.lost), (0, None, Some(4)));
    assert_eq!(decoded.retry, Some(Duration::from_millis(7)));
    assert_eq!(decode("data: ab\n").lost, Some(2));
    assert_eq!(decode("data: ab\n\n").lost, None);
    assert_eq!(decode("data: ab\n\n: bye\nid: 3\ndat").lost, None);
}

#[test]
fn ended_events_can_be_polled_after_the_end_of_input() {
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
fn decoder_accepts_several_chunks_before_a_poll() {
    let mut events = Sse::new(99);
    for chunk in ["data: a\n\nda", "", "ta: b\n", "\n"] {
        events.handle_input(Bytes::from_static(chunk.as_bytes()));
    }
    assert_eq!(events.buffered(), 18);
    assert_eq!(std::iter::from_fn(|| events.poll_item()).collect::<Vec<_>>(), [message("a"), message("b")]);
    assert_eq!(events.buffered(), 0);
}

#[test]
fn decoder_does_not_copy_data_within_one_chunk() {
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
fn event_of_exactly_the_limit_is_whole() {
    assert_eq!(
        decode_chunks(3, [&b"data: abc\n\ndata: a\ndata: b\n\n"[..]]).items(),
        [message("abc"), message("a\nb")]
    );
}

#[test]
fn decoder_reports_an_over_long_event_once_and_goes_on() {
    let stream = b"data: abcdef\nid: 1\n\ndata: a\ndata: b\ndata\n\ndata: ok\n\n";
    let too_long = |head: &'static str, tail: &'static str| SseItem::TooLong {
        head: head.into(),
        tail: tail.into(),
        bytes: head.len() + tail.len(),
    };
    let expected = [too_long("abc", "def"), too_long("a\nb", "\n"), message("ok")];
    for size in 1..stream.len() {
        let decoded = decode_chunks(3, stream.chunks(size));
        assert_eq!(decoded.items(), expected, "chunks of {size}");
        assert_eq!(decoded.id.as_deref(), Some("1"));
    }
}

#[test]
fn over_long_event_keeps_both_ends_of_its_data() {
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
        let decoded = decode_chunks(60_000, stream.chunks(size));
        assert_eq!(decoded.items(), std::slice::from_ref(&expected), "chunks of {size}");
        assert_eq!(decode_chunks(60_000, stream[..stream.len() - 1].chunks(size)).lost, Some(data.len()));
    }
}

#[test]
fn decoder_holds_a_bounded_part_of_endless_lines_and_events() {
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

/// Larger chunks wait for the poll, which searches them for the end of the line.
#[test]
fn small_chunks_of_over_long_data_are_not_held_until_the_next_poll() {
    let mut events = Sse::new(3);
    events.handle_input(Bytes::from_static(b"data: a"));
    assert_eq!(events.poll_item(), None);
    for _ in 0..100 {
        events.handle_input(Bytes::from_static(&[b'b'; 100]));
        assert!(events.buffered() <= 5_000);
    }
    events.handle_input(Bytes::from_static(b"\n\n"));
    assert!(matches!(events.poll_item(), Some(SseItem::TooLong { bytes: 10_001, .. })));
}

#[test]
fn decoder_limits_other_fields_to_four_kibibytes() {
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
fn decoder_joins_two_mebibytes_of_single_bytes() {
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
fn encoder_writes_name_and_id() {
    let mut out = Vec::new();
    write::event(&mut out, Some("1"), Some("endpoint"), b"/mcp");
    assert_eq!(out, b"event: endpoint\nid: 1\ndata: /mcp\n\n");
}

#[test]
fn encoder_splits_data_at_line_breaks() {
    let mut out = Vec::new();
    write::event(&mut out, None, None, b"a\r\nb\rc\nd\n");
    assert_eq!(out, b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

#[test]
fn encoder_removes_line_breaks_from_names_and_ids() {
    let mut out = Vec::new();
    write::event(&mut out, Some("1\ndata: no\r\0"), Some("x\r\n\r\ndata: no"), b"yes");
    assert_eq!(decode_chunks(99, [&out[..]]).items(), [event("xdata: no", "yes")]);
}

/// C4.25, S3.15
#[test]
fn written_comment_is_not_an_event() {
    let mut out = Vec::new();
    write::comment(&mut out);
    write::event(&mut out, None, None, b"a");
    write::comment(&mut out);
    assert_eq!(decode_chunks(99, [&out[..]]).items(), [message("a")]);
}

/// S3.21
#[test]
fn priming_event_sets_id_and_retry_without_a_message() {
    let mut out = Vec::new();
    write::priming(&mut out, "7", Some(Duration::from_millis(1500)));
    let decoded = decode_chunks(99, [&out[..]]);
    assert_eq!((decoded.items().len(), decoded.id.as_deref()), (0, Some("7")));
    assert_eq!(decoded.retry, Some(Duration::from_millis(1500)));
    out.clear();
    write::priming(&mut out, "8", None);
    assert_eq!(out, b"id: 8\ndata: \n\n");
}

/// Streams of meaningful pieces mixed with noise.
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
    fn decoder_reads_what_the_encoder_writes(
        id in "[^\r\n\0]{1,8}", name in "[^\r\n\0]{1,8}", data in "[a-z:\n ]{1,80}",
        sizes in proptest::collection::vec(1usize..20, 1..200),
    ) {
        let mut out = Vec::new();
        write::comment(&mut out);
        write::event(&mut out, Some(&id), Some(&name), data.as_bytes());
        let decoded = decode_chunks(usize::MAX, chop(&out, &sizes));
        let name = if name == "message" { String::new() } else { name };
        let event = SseItem::Event(SseEvent { name: name.into(), data: data.into() });
        prop_assert_eq!(decoded, DecodedStream { items: vec![(event, Some(id.clone()))], id: Some(id), retry: None, lost: None });
    }
}

#[cfg(feature = "fuzzing")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fuzz_body_finds_no_error(limit in 0u8..4, size in any::<u8>(), stream in noise()) {
        mcp_proto::fuzzing::sse(&[&[limit, size], &stream[..]].concat());
    }
}
