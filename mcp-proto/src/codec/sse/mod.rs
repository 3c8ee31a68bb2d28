//! Server-sent events: decoder and [encoder](mod@write).

pub mod write;

use alloc::borrow::Cow;
use core::time::Duration;

use bytes::Bytes;
use memchr::memchr2;

use crate::prelude::*;

use super::partial::{Chunks, Partial};
use super::{BYTE_ORDER_MARK, Line};

/// The longest value of a field other than `data`, in bytes: ids travel back in a header, where no server accepts more.
const FIELD_BYTES: usize = 4096;
/// The longest chunk, in bytes, that is searched before it is queued: a break in it is then searched for again.
const SMALL_CHUNK_BYTES: usize = 256;

/// Splits an event stream into events; the stream may arrive in pieces of any size.
///
/// It decodes as browsers do: lines end with `\n`, `\r\n` or `\r`, a byte order mark at the very start is skipped,
/// `data` of several lines is joined with `\n`. An id with a NUL, a `retry` of anything but digits, comments and
/// unknown fields of any length are ignored. An event with empty data carries no message and is not reported, but it
/// still sets [`last_event_id`](Self::last_event_id) and [`retry`](Self::retry).
///
/// Data on one line that lies in one chunk is a slice of that chunk; other data is copied into a buffer of at most
/// twice the limit. The work is linear in the input, and the events are the same however the input is cut into chunks.
/// An event whose data is over the limit is skipped to its end and then reported once, with the two ends of its data;
/// the rest is not held. The value of any other field is limited to 4 KiB: a longer id or `retry` is ignored, a longer
/// event name is cut. One `Sse` decodes one stream.
///
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>
///
/// ```
/// use mcp_proto::Bytes;
/// use mcp_proto::codec::sse::{Sse, SseItem};
///
/// let mut events = Sse::new(1024);
/// events.handle_input(Bytes::from_static(b": hello\n\nid: 1\ndata: {}\n\nda"));
/// let Some(SseItem::Event(event)) = events.poll_item() else { panic!() };
/// assert_eq!(event.data, "{}");
/// assert_eq!(events.last_event_id(), Some("1"));
/// assert_eq!(events.poll_item(), None);
/// events.handle_input(Bytes::from_static(b"ta: [1"));
/// assert_eq!(events.poll_item(), None);
/// assert_eq!(events.handle_eof(), Some(2), "an event was cut off");
/// ```
#[derive(Clone, Debug)]
pub struct Sse {
    chunks: Chunks,
    /// Whether the last line ended with a carriage return, to which a line feed may belong.
    after_carriage_return: bool,
    event: PartialEvent,
    at_eof: bool,
}

/// The event that has not ended, and the id and delay that the events before it set.
#[derive(Clone, Debug)]
struct PartialEvent {
    line: PartialLine,
    /// The value of a field other than `data`, on the line that has not ended.
    value: Vec<u8>,
    data: Data,
    /// Data that does not lie in one piece.
    joined: Partial,
    name: Cow<'static, str>,
    /// The last id within the event that has not ended; set if `has_id`.
    next_id: String,
    has_id: bool,
    /// The last id of the events that have ended.
    id: String,
    retry: Option<Duration>,
}

/// The data of the event that has not ended.
#[derive(Clone, Debug, Default)]
enum Data {
    #[default]
    None,
    /// One line, within the limit, in one piece.
    Slice(Bytes),
    /// The contents of [`PartialEvent::joined`].
    Joined,
}

/// One event of a stream, whole or over the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum SseItem {
    /// An event within the limit.
    Event(SseEvent),
    /// An event whose data is over the limit, with the two ends of its data, as in [`Line::TooLong`].
    TooLong {
        /// The beginning of the data: at most 4 KiB, and no more than the limit.
        #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))]
        head: Bytes,
        /// The end of the data, without any bytes that are in `head`: at most 1 KiB.
        #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))]
        tail: Bytes,
        /// The whole length of the data, in bytes; saturating.
        bytes: usize,
    },
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct SseEvent {
    /// The event's type; empty for `message`, which is the type of an event without a name.
    pub name: Cow<'static, str>,
    /// The event's data, never empty; not checked to be UTF-8.
    #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))]
    pub data: Bytes,
}

impl Sse {
    /// A decoder for events of up to `event_bytes` bytes of data.
    ///
    /// A line break within the data counts as one byte.
    #[must_use]
    pub fn new(event_bytes: usize) -> Self {
        Self {
            chunks: Chunks::default(),
            after_carriage_return: false,
            event: PartialEvent::new(Partial::new(event_bytes)),
            at_eof: false,
        }
    }

    /// Appends a chunk of the stream.
    ///
    /// Several chunks may wait for [`poll_item`](Self::poll_item). Chunks after [`handle_eof`](Self::handle_eof) are
    /// discarded.
    #[inline]
    pub fn handle_input(&mut self, chunk: Bytes) {
        if self.at_eof {
            return;
        }
        // Most small chunks lie within a line of data.
        if chunk.len() <= SMALL_CHUNK_BYTES
            && self.chunks.is_released()
            && self.event.line.is_data()
            && !chunk.is_empty()
            && memchr2(b'\n', b'\r', &chunk).is_none()
        {
            self.event.joined.push(&chunk);
            return;
        }
        self.chunks.push(chunk);
    }

    /// The next event that has ended, if any.
    #[inline]
    #[must_use]
    pub fn poll_item(&mut self) -> Option<SseItem> {
        if self.chunks.is_released() && !self.at_eof { None } else { self.next_item() }
    }

    fn next_item(&mut self) -> Option<SseItem> {
        loop {
            let rest = self.chunks.rest();
            // Most lines of data are followed by a blank line: a search would cost more than this comparison.
            let blank = (rest.first() == Some(&b'\n')).then_some(0);
            let Some(length) = blank.or_else(|| memchr2(b'\n', b'\r', rest)) else {
                self.next_chunk()?;
                continue;
            };
            let mut end = length.saturating_add(1);
            let returned = core::mem::take(&mut self.after_carriage_return);
            if rest.get(length) == Some(&b'\r') {
                match rest.get(end) {
                    Some(b'\n') => end = end.saturating_add(1),
                    Some(_) => {}
                    None => self.after_carriage_return = true,
                }
            } else if returned && length == 0 {
                self.chunks.advance(end);
                continue;
            }
            self.event.line.begin(rest);
            let item = if self.event.line.has_started() {
                self.event.end_of_line(rest.get(..length).unwrap_or_default())
            } else if length == 0 {
                self.event.end()
            } else {
                self.event.whole_line(&self.chunks, length);
                None
            };
            self.chunks.advance(end);
            if item.is_some() {
                return item;
            }
        }
    }

    /// Ends the input and discards an unfinished event; returns how many bytes of data it had, if any.
    ///
    /// The standard requires that such an event is discarded, and its id with it. Events that ended before can still be
    /// polled.
    pub fn handle_eof(&mut self) -> Option<usize> {
        if core::mem::replace(&mut self.at_eof, true) {
            return None;
        }
        // Counts the remaining data without holding it.
        let counting = Partial::counting(self.event.joined.len());
        let joined = core::mem::replace(&mut self.event.joined, counting);
        let mut rest = Self { at_eof: false, ..self.clone() };
        self.event.joined = joined;
        while rest.poll_item().is_some() {}
        if self.chunks.is_empty() {
            self.event.discard();
        }
        let lost = match &rest.event.data {
            Data::None => 0,
            Data::Slice(data) => data.len(),
            Data::Joined => rest.event.joined.len(),
        };
        (lost > 0).then_some(lost)
    }

    /// The id to resume the stream from.
    ///
    /// It is the id of the last event that was polled, or that was skipped because it has no data. `None` if the server
    /// sent no id or an empty one. Invalid UTF-8 in it is replaced.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        (!self.event.id.is_empty()).then_some(self.event.id.as_str())
    }

    /// The reconnection delay that the server last requested.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.event.retry
    }

    /// The number of bytes held: input not yet polled, and the event that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.event.buffered().saturating_add(self.chunks.bytes())
    }

    /// Moves the rest of the front chunk into the unfinished line, and advances to the next chunk.
    #[inline]
    fn next_chunk(&mut self) -> Option<()> {
        let rest = self.chunks.rest();
        if !rest.is_empty() {
            self.after_carriage_return = false;
            self.event.extend_line(rest);
        }
        if self.chunks.next() {
            return Some(());
        }
        if self.at_eof {
            self.event.discard();
        }
        None
    }
}

impl PartialEvent {
    fn new(joined: Partial) -> Self {
        Self {
            line: PartialLine::FIRST,
            value: Vec::new(),
            data: Data::None,
            joined,
            name: Cow::Borrowed(""),
            next_id: String::new(),
            has_id: false,
            id: String::new(),
            retry: None,
        }
    }

    /// The number of bytes held.
    fn buffered(&self) -> usize {
        let data = match &self.data {
            Data::None => 0,
            Data::Slice(data) => data.len(),
            Data::Joined => self.joined.buffered(),
        };
        data.saturating_add(self.value.len())
            .saturating_add(self.name.len())
            .saturating_add(self.next_id.len())
    }

    /// Drops the unfinished event.
    fn discard(&mut self) {
        self.line = PartialLine::default();
        self.value = Vec::new();
        self.data = Data::None;
        let _ = self.joined.take();
        self.name = Cow::Borrowed("");
        self.next_id = String::new();
        self.has_id = false;
    }

    /// Processes the next line of `chunks`, of `length` bytes, if it is not blank.
    #[inline]
    fn whole_line(&mut self, chunks: &Chunks, length: usize) {
        let line = chunks.rest().get(..length).unwrap_or_default();
        let (field, skipped) = Field::of_line(line);
        let value = line.get(skipped..).unwrap_or_default();
        match field {
            None => {}
            Some(Field::Data) => {
                if matches!(self.data, Data::None) && value.len() <= self.joined.max_bytes() {
                    self.data = Data::Slice(chunks.slice(skipped.min(length)..length));
                } else {
                    self.begin_data();
                    self.joined.push(value);
                }
            }
            Some(field) => self.set(field, value),
        }
    }

    /// Processes the end of a line that crosses chunks, or of the first line.
    fn end_of_line(&mut self, piece: &[u8]) -> Option<SseItem> {
        self.extend_line(piece);
        match core::mem::take(&mut self.line).end() {
            LineEnd::Blank => return self.end(),
            LineEnd::Bare(field) => {
                self.begin_value(field);
                self.end_value(field);
            }
            LineEnd::Value(field) => self.end_value(field),
            LineEnd::Ignored => {}
        }
        None
    }

    /// Adds a piece to the unfinished line.
    #[inline]
    fn extend_line(&mut self, piece: &[u8]) {
        if self.line.is_data() {
            self.joined.push(piece);
        } else {
            self.step_line(piece);
        }
    }

    /// Adds a piece to the unfinished line byte by byte, up to its value.
    fn step_line(&mut self, mut piece: &[u8]) {
        while let Some((byte, rest)) = piece.split_first() {
            match self.line.step(*byte) {
                ByteStep::Taken => {}
                ByteStep::Colon(field) => self.begin_value(field),
                ByteStep::Value(Field::Data) => return self.joined.push(piece),
                ByteStep::Value(_) => {
                    let room = FIELD_BYTES.saturating_add(1).saturating_sub(self.value.len());
                    return self.value.extend_from_slice(piece.get(..room).unwrap_or(piece));
                }
                ByteStep::Ignored => return,
            }
            piece = rest;
        }
    }

    fn begin_value(&mut self, field: Field) {
        match field {
            Field::Data => self.begin_data(),
            _ => self.value.clear(),
        }
    }

    /// Begins a line of data that is not the event's only one, or does not lie in one chunk.
    fn begin_data(&mut self) {
        match core::mem::replace(&mut self.data, Data::Joined) {
            Data::None => return,
            Data::Slice(line) => self.joined.push(&line),
            Data::Joined => {}
        }
        self.joined.push(b"\n");
    }

    fn end_value(&mut self, field: Field) {
        if field != Field::Data {
            let value = core::mem::take(&mut self.value);
            self.set(field, &value);
        }
    }

    /// Sets a field's value, which is cut after [`FIELD_BYTES`] and at least one more byte.
    fn set(&mut self, field: Field, value: &[u8]) {
        match field {
            Field::Data => {}
            Field::Event => {
                self.name = match value.get(..FIELD_BYTES).unwrap_or(value) {
                    b"" | b"message" => Cow::Borrowed(""),
                    b"endpoint" => Cow::Borrowed("endpoint"),
                    name => Cow::Owned(String::from_utf8_lossy(name).into_owned()),
                }
            }
            Field::Id => {
                if value.len() <= FIELD_BYTES && !value.contains(&0) {
                    self.next_id.clear();
                    self.next_id.push_str(&String::from_utf8_lossy(value));
                    self.has_id = true;
                }
            }
            Field::Retry => {
                if (1..=FIELD_BYTES).contains(&value.len()) && value.iter().all(u8::is_ascii_digit) {
                    let milliseconds = value.iter().fold(0u64, |sum, digit| {
                        sum.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
                    });
                    self.retry = Some(Duration::from_millis(milliseconds));
                }
            }
        }
    }

    /// Ends the event.
    #[inline]
    fn end(&mut self) -> Option<SseItem> {
        if core::mem::take(&mut self.has_id) {
            core::mem::swap(&mut self.id, &mut self.next_id);
            self.next_id.clear();
        }
        let name = core::mem::replace(&mut self.name, Cow::Borrowed(""));
        let data = match core::mem::take(&mut self.data) {
            Data::None => return None,
            Data::Slice(data) => Line::Whole(data),
            Data::Joined => self.joined.take(),
        };
        match data {
            Line::Whole(data) if data.is_empty() => None,
            Line::Whole(data) => Some(SseItem::Event(SseEvent { name, data })),
            Line::TooLong { head, tail, bytes } => Some(SseItem::TooLong { head, tail, bytes }),
        }
    }
}

// An incremental parser for the lines of an event stream.

/// The fields that the standard defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
}

/// The longest name of a defined field.
const NAME_BYTES: usize = 5;

impl Field {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"data" => Some(Self::Data),
            b"event" => Some(Self::Event),
            b"id" => Some(Self::Id),
            b"retry" => Some(Self::Retry),
            _ => None,
        }
    }

    /// The field of a whole line, and the offset of its value: behind the name, the colon and one space.
    fn of_line(line: &[u8]) -> (Option<Self>, usize) {
        if let [b'd', b'a', b't', b'a', b':', value @ ..] = line {
            return (Some(Self::Data), if value.first() == Some(&b' ') { 6 } else { 5 });
        }
        let name_end = line.iter().take(NAME_BYTES.saturating_add(1)).position(|byte| *byte == b':');
        let Some(name_end) = name_end else { return (Self::named(line), line.len()) };
        let value = name_end.saturating_add(1);
        let space = usize::from(line.get(value) == Some(&b' '));
        (Self::named(line.get(..name_end).unwrap_or_default()), value.saturating_add(space))
    }
}

/// The parsed part of a line whose end has not arrived.
#[derive(Clone, Copy, Debug)]
enum PartialLine {
    /// This many bytes of the byte order mark that the first line may begin with.
    Mark(usize),
    /// The beginning of a field name, with its length, which may be 0.
    Name([u8; NAME_BYTES], usize),
    /// A field up to its colon: a space may follow.
    Colon(Field),
    /// A field and some of its value.
    Value(Field),
    /// A comment or an unknown field.
    Ignored,
}

/// The meaning of the next byte of a line.
enum ByteStep {
    /// The byte needs no action.
    Taken,
    /// The colon of a field, whose value begins behind it.
    Colon(Field),
    /// This byte and the rest of the line are the field's value.
    Value(Field),
    /// This byte and the rest of the line are ignored.
    Ignored,
}

/// The kind of a line that has ended.
enum LineEnd {
    /// A blank line, which ends an event.
    Blank,
    /// A field without a colon.
    Bare(Field),
    /// A field with a colon.
    Value(Field),
    /// A comment or an unknown field.
    Ignored,
}

impl Default for PartialLine {
    fn default() -> Self {
        Self::Name([0; NAME_BYTES], 0)
    }
}

impl PartialLine {
    /// The initial state of a stream's first line.
    const FIRST: Self = Self::Mark(0);

    /// Whether the line must be parsed byte by byte: some of it has been consumed, or it is the stream's first.
    fn has_started(&self) -> bool {
        !matches!(self, Self::Name(_, 0))
    }

    /// Begins a line with `text`, which arrives next. A stream's first line is as any other if it begins with no byte
    /// order mark.
    #[inline]
    fn begin(&mut self, text: &[u8]) {
        if matches!(self, Self::Mark(0)) && !text.is_empty() && text.first() != BYTE_ORDER_MARK.first() {
            *self = Self::default();
        }
    }

    /// Whether the next bytes of the line are data.
    #[inline]
    fn is_data(&self) -> bool {
        matches!(self, Self::Value(Field::Data))
    }

    /// Consumes one byte.
    fn step(&mut self, byte: u8) -> ByteStep {
        match self {
            Self::Mark(length) if BYTE_ORDER_MARK.get(*length) == Some(&byte) => {
                *length = length.saturating_add(1);
                if *length == BYTE_ORDER_MARK.len() {
                    *self = Self::default();
                }
                ByteStep::Taken
            }
            Self::Mark(0) => {
                *self = Self::default();
                self.step(byte)
            }
            Self::Name(name, length) if byte == b':' => {
                let field = Field::named(name.get(..*length).unwrap_or_default());
                *self = field.map_or(Self::Ignored, Self::Colon);
                field.map_or(ByteStep::Ignored, ByteStep::Colon)
            }
            Self::Name(name, length) if *length < NAME_BYTES => {
                if let Some(place) = name.get_mut(*length) {
                    *place = byte;
                }
                *length = length.saturating_add(1);
                ByteStep::Taken
            }
            Self::Colon(field) => {
                let field = *field;
                *self = Self::Value(field);
                if byte == b' ' { ByteStep::Taken } else { ByteStep::Value(field) }
            }
            Self::Value(field) => ByteStep::Value(*field),
            Self::Mark(_) | Self::Name(..) | Self::Ignored => {
                *self = Self::Ignored;
                ByteStep::Ignored
            }
        }
    }

    /// Ends the line.
    fn end(self) -> LineEnd {
        match self {
            Self::Mark(0) | Self::Name(_, 0) => LineEnd::Blank,
            Self::Name(name, length) => {
                Field::named(name.get(..length).unwrap_or_default()).map_or(LineEnd::Ignored, LineEnd::Bare)
            }
            Self::Colon(field) | Self::Value(field) => LineEnd::Value(field),
            Self::Mark(_) | Self::Ignored => LineEnd::Ignored,
        }
    }
}
