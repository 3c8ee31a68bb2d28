//! Fuzzing of event streams, in arbitrary chunks.

use core::time::Duration;

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;

use crate::codec::sse::{Sse, SseEvent, SseItem, write};
use crate::prelude::*;
use crate::redact::Redactor;

use super::wire::{Decoder, check_chunks, chopped};

/// The maximum length of a field other than `data`.
const FIELD_BYTES: usize = 4096;
/// A limit above the size of any input.
const UNLIMITED_BYTES: usize = 1 << 30;

/// Checks that the events of the input do not depend on its chunks.
///
/// Decodes the input as a whole, by single bytes and in chunks of the sizes that it selects, and checks that the
/// results are the same, and correct; then writes events with parts of the input and reads them back.
///
/// The first byte selects the limit, the second the sizes of the chunks.
pub fn sse(data: &[u8]) {
    check_chunks::<(Sse, Items)>(data, reference_decoder);
    if let [_, sizes, stream @ ..] = data {
        check_round_trip(stream, usize::from(*sizes));
    }
}

/// Each event, with the id to resume from after it.
type Items = Vec<(SseItem, Option<String>)>;

/// The decoded content of a stream.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DecodedStream {
    items: Items,
    id: Option<String>,
    retry: Option<Duration>,
    truncated_bytes: Option<usize>,
}

impl Decoder for (Sse, Items) {
    type Decoded = DecodedStream;

    /// A value, a name and an id; invalid UTF-8 takes three times the space.
    const OTHER_BYTES: usize = 7 * FIELD_BYTES + 1;

    fn new(limit: usize) -> Self {
        (Sse::new(limit), Vec::new())
    }

    fn handle_input(&mut self, bytes: Bytes) {
        self.0.handle_input(bytes);
    }

    fn drain(&mut self) {
        while let Some(item) = self.0.poll_item() {
            self.1.push((item, self.0.last_event_id().map(ToOwned::to_owned)));
        }
    }

    fn buffered(&self) -> usize {
        self.0.buffered()
    }

    fn end(mut self) -> DecodedStream {
        let truncated_bytes = self.0.handle_eof();
        self.drain();
        let (mut events, items) = self;
        assert_eq!(events.buffered(), 0, "something is left");
        events.handle_input(Bytes::from_static(b"\n\ndata: late\n\n"));
        assert_eq!((events.handle_eof(), events.poll_item()), (None, None), "something comes behind the end");
        let id = events.last_event_id().map(ToOwned::to_owned);
        DecodedStream { items, id, retry: events.retry(), truncated_bytes }
    }
}

/// A reference implementation of [`Sse`], after the specification.
fn reference_decoder(limit: usize, stream: &[u8]) -> DecodedStream {
    let mut said = DecodedStream::default();
    let (mut data, mut name, mut id) = (Vec::new(), String::new(), None);
    let mut rest = stream.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(stream);
    while let Some(length) = rest.iter().position(|byte| b"\r\n".contains(byte)) {
        let (line, behind) = rest.split_at(length);
        rest = behind.strip_prefix(b"\r\n").unwrap_or(&behind[1..]);
        if line.is_empty() {
            said.id = id.clone().or(said.id);
            let (data, name) = (core::mem::take(&mut data), core::mem::take(&mut name));
            said.items.extend(item(limit, &data, name).map(|item| (item, said.id.clone())));
            continue;
        }
        let (field, value) = field(line);
        let short = value.len() <= FIELD_BYTES;
        let text = String::from_utf8_lossy(&value[..value.len().min(FIELD_BYTES)]);
        match field {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => name = text.into_owned(),
            b"id" if short && !value.contains(&0) => id = Some(text.into_owned()),
            b"retry" if short && !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                said.retry = Some(Duration::from_millis(text.parse().unwrap_or(u64::MAX)));
            }
            _ => {}
        }
    }
    let mut lost = data.len().saturating_sub(1);
    if let (b"data", value) = field(rest)
        && rest.contains(&b':')
    {
        lost = data.len() + value.len();
    }
    said.truncated_bytes = (lost > 0).then_some(lost);
    said.id = said.id.filter(|id| !id.is_empty());
    for (_, id) in &mut said.items {
        *id = id.take().filter(|id| !id.is_empty());
    }
    said
}

fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return (line, b"") };
    let value = &line[colon + 1..];
    (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
}

fn item(limit: usize, data: &[u8], name: String) -> Option<SseItem> {
    let data = data.strip_suffix(b"\n")?;
    if data.len() > limit {
        let head = limit.min(4096);
        let tail = head.max(data.len().saturating_sub(1024));
        return Some(SseItem::TooLong {
            head: Bytes::copy_from_slice(&data[..head]),
            tail: Bytes::copy_from_slice(&data[tail..]),
            bytes: data.len(),
        });
    }
    let name = if name == "message" { String::new() } else { name };
    let data = Bytes::copy_from_slice(data);
    (!data.is_empty()).then_some(SseItem::Event(SseEvent { name: name.into(), data }))
}

/// Writes events and reads them back.
fn check_round_trip(input: &[u8], sizes: usize) {
    let (id, data) = input.split_at(sizes.min(input.len()));
    let id = String::from_utf8_lossy(id);
    let mut out = Vec::new();
    write::comment(&mut out);
    write::priming(&mut out, "first", Some(Duration::from_millis(sizes as u64)));
    write::event(&mut out, Some(&id), Some(&id), data);
    let said = chopped::<(Sse, Items)>(UNLIMITED_BYTES, &out, |n| 1 + (n * 17 + sizes) % (sizes + 1));
    assert_eq!(said, reference_decoder(UNLIMITED_BYTES, &out));

    let clean: String = id.chars().filter(|c| !"\r\n\0".contains(*c)).collect();
    let data: Vec<u8> = data.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte }).collect();
    let breaks = |input: &[u8]| input.windows(2).filter(|pair| pair == b"\r\n").count();
    let expected = data.len() - breaks(&input[sizes.min(input.len())..]);
    assert_eq!(said.retry, Some(Duration::from_millis(sizes as u64)));
    assert_eq!(said.id.unwrap_or_default(), clean, "another id comes back");
    assert_eq!(said.truncated_bytes, None, "an event that was written does not end");
    match &said.items[..] {
        [] => assert_eq!(expected, 0, "an event does not come back"),
        [(SseItem::Event(event), _)] => {
            let name = if clean == "message" { "" } else { &clean };
            assert_eq!(event.name, name, "another name comes back");
            assert_eq!(event.data.len(), expected, "other data comes back");
            let text = |data: &[u8]| data.iter().copied().filter(|byte| *byte != b'\n').collect::<Vec<u8>>();
            assert_eq!(text(&event.data), text(&data), "other data comes back");
        }
        items => panic!("one event comes back as {items:?}"),
    }
}

// Fuzzing of the redaction of frames.

const SECRET: &[u8] = "hunter2 ü\"".as_bytes();

/// Redacts the input as a frame, in which a zero byte stands for a known secret.
///
/// Nothing panics, the secret is not shown, valid JSON stays valid, and UTF-8 stays UTF-8.
pub fn redact(data: &[u8]) {
    let frame = data.split(|byte| *byte == 0).collect::<Vec<_>>().join(SECRET);
    let mut redactor = Redactor::new().known(SECRET).pointer("/params/*/x").name("y");
    let shown = redactor.frame(&frame).into_owned();
    assert!(memmem::find(&shown, SECRET).is_none(), "the secret is shown");
    let beginning = redactor.cut_frame(&frame, &redactor.digest());
    assert!(memmem::find(&beginning, SECRET).is_none(), "the secret is shown in a beginning");
    let is_json =
        |text: &[u8]| matches!(serde_json::from_slice(text), Ok(Value::Object(_) | Value::Array(_)));
    assert!(is_json(&shown) || !is_json(&frame), "JSON is no JSON any more");
    if let Ok(text) = str::from_utf8(&frame) {
        assert!(str::from_utf8(&shown).is_ok(), "UTF-8 is no UTF-8 any more");
        let shown = redactor.cut_text(text);
        assert!(memmem::find(shown.as_bytes(), SECRET).is_none(), "the secret is shown in a text");
    }
}
