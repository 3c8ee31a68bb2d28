//! Parser of JSON-RPC envelopes.

use core::ops::{Deref, Range};

use bytes::Bytes;

use super::members::{KnownObject, MAX_NOTED_BYTES, NotedMembers};
use super::repair::{is_opaque_member_lost, replace_non_unicode};
use super::scan::{Cursor, ScanError, ScanMode, Shape, Value, member_name, not_a_string};
use super::{
    Batch, EnvelopeKind, ErrorObject, Frame, Id, InvalidMessageKind, Malformed, MalformedKind, Message,
    Notification, Raw, Recovered, Request, Response, Text, code, recover,
};
use crate::prelude::*;

/// Reads one frame: a message or a batch.
///
/// Parameters, results and error data are returned as slices of `frame`, delimited by their structure; the caller
/// decodes them to their types. Members that JSON-RPC does not define are ignored. `params: null` counts as absent, and
/// so does a `null` in one of `result` and `error` if the other is present. Some breaches of JSON-RPC in a response or a
/// notification are tolerated and reported in its [`deviation`](Response::deviation).
///
/// In the result or error of a response, U+FFFD replaces each lone surrogate and each sequence of bytes that is not
/// UTF-8. The `requestState` of a result stays as it is.
///
/// `max_depth` limits the nesting of the whole frame; values over 128 count as 128, so that the inner values never
/// reach serde_json's own limit. The scan does not recurse.
///
/// # Errors
/// If the frame is not valid: [`Malformed`] tells why and where, with the members that could be read.
///
/// ```
/// use mcp_proto::Bytes;
/// use mcp_proto::rpc::{Frame, Id, Message, read};
///
/// let line = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
/// let Ok(Frame::Single(Message::Request(request))) = read(&line, 128) else { panic!() };
/// assert_eq!(request.id, Id::Number(7));
/// assert_eq!(request.method, "ping");
///
/// let malformed = read(&line.slice(..line.len() - 1), 128).unwrap_err();
/// assert_eq!(malformed.to_string(), "the message ends within a value at byte 39");
/// assert_eq!(malformed.recovered.id, Some(Id::Number(7)));
/// ```
pub fn read(frame: &Bytes, max_depth: usize) -> Result<Frame, Malformed> {
    read_knowing(frame, max_depth, &|_| None)
}

/// Like [`read`], with a `_meta` of parameters that earlier messages had, which were read with the same `max_depth`.
pub(crate) fn read_knowing(
    frame: &Bytes,
    max_depth: usize,
    known: KnownObject<'_>,
) -> Result<Frame, Malformed> {
    scan(frame, max_depth, known).map_err(|stop| malformed(stop, frame))
}

fn malformed(stop: ScanError, message: &[u8]) -> Malformed {
    Malformed { kind: stop.kind, offset: stop.offset, recovered: recover(message) }
}

fn not_a_message(offset: usize, kind: InvalidMessageKind) -> ScanError {
    ScanError { offset, kind: MalformedKind::NotAMessage(kind) }
}

#[inline]
fn scan(frame: &Bytes, max_depth: usize, known: KnownObject<'_>) -> Result<Frame, ScanError> {
    //= C1.22 "JSON-RPC text is UTF-8"
    let text = match Text::try_from(frame.clone()) {
        Ok(text) => text,
        Err(error) => return scan_not_utf8(frame, max_depth, error.valid_up_to()),
    };
    let mut cursor = Cursor::new(frame, 0, ScanMode::Strict { max_depth });
    cursor.space();
    match cursor.peek() {
        Some(b'{') => {
            let mut parts = Parts::default();
            parts.read(&mut cursor, frame, &text, known)?;
            cursor.finish()?;
            parts.message(&Source::Text(&text), max_depth).map(Frame::Single)
        }
        Some(b'[') => {
            cursor.enter()?;
            let start = cursor.at();
            let mut count = 0usize;
            while cursor.item(count == 0, b']', "a comma or the end of the array")? {
                if count == Batch::MAX {
                    return Err(ScanError { offset: cursor.at(), kind: MalformedKind::BatchTooLong });
                }
                cursor.value()?;
                count = count.saturating_add(1);
            }
            cursor.finish()?;
            Ok(Frame::Batch(Batch::new(text, start, count, max_depth)))
        }
        _ => {
            let value = cursor.value()?;
            cursor.finish()?;
            Err(not_a_message(value.start, InvalidMessageKind::NotAnObject))
        }
    }
}

/// Parses a frame that is not UTF-8, from `offset` on: it must be one response.
#[cold]
fn scan_not_utf8(frame: &Bytes, max_depth: usize, offset: usize) -> Result<Frame, ScanError> {
    let not_utf8 = || ScanError { offset, kind: MalformedKind::NotUtf8 };
    let response = || {
        let mut cursor = Cursor::new(frame, 0, ScanMode::Strict { max_depth });
        cursor.space();
        if cursor.peek() != Some(b'{') {
            return Err(not_utf8());
        }
        let mut parts = Parts::default();
        parts.read(&mut cursor, frame, "", &|_| None)?;
        cursor.finish()?;
        if parts.result.is_some_and(|result| is_opaque_member_lost(result.of(frame))) {
            return Err(not_utf8());
        }
        parts.not_utf8 = Some(offset);
        parts.message(&Source::NotUtf8(frame), max_depth)
    };
    match response() {
        Ok(message @ Message::Response(_)) => Ok(Frame::Single(message)),
        Ok(_) | Err(_) => Err(not_utf8()),
    }
}

/// Parses one element of a batch that has been scanned.
pub(super) fn element(frame: &Text, value: Value, max_depth: usize) -> Result<Message, Malformed> {
    let message = || {
        if value.shape != Shape::Object {
            return Err(not_a_message(value.start, InvalidMessageKind::NotAnObject));
        }
        let mut cursor = Cursor::new(frame.as_bytes(), value.start, ScanMode::Strict { max_depth });
        let mut parts = Parts::default();
        parts.read(&mut cursor, frame.as_bytes(), frame, &|_| None)?;
        parts.message(&Source::Text(frame), max_depth)
    };
    message().map_err(|stop| malformed(stop, value.of(frame.as_bytes())))
}

/// What a message is read from.
enum Source<'a> {
    Text(&'a Text),
    /// A frame that is not UTF-8 everywhere.
    NotUtf8(&'a Bytes),
}

impl Deref for Source<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::NotUtf8(frame) => frame,
        }
    }
}

impl Source<'_> {
    /// A part of it that is UTF-8, or else nothing.
    #[inline]
    fn part(&self, range: Range<usize>) -> Text {
        match self {
            Self::Text(text) => text.get(range).map(|part| text.slice_ref(part)).unwrap_or_default(),
            Self::NotUtf8(frame) => Text::try_from(frame.slice(range)).unwrap_or_default(),
        }
    }
}

/// A member of messages that JSON-RPC defines.
#[derive(Clone, Copy)]
enum Member {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Member {
    /// The name with its quotes and the colon, as nearly all writers write it.
    const fn written(self) -> &'static str {
        match self {
            Self::Version => r#""jsonrpc":"#,
            Self::Id => r#""id":"#,
            Self::Method => r#""method":"#,
            Self::Params => r#""params":"#,
            Self::Result => r#""result":"#,
            Self::Error => r#""error":"#,
        }
    }

    fn name(self) -> &'static str {
        self.written().trim_matches(['"', ':'])
    }

    /// The only one whose name begins with this byte.
    fn by_initial(byte: u8) -> Option<Self> {
        Some(match byte {
            b'j' => Self::Version,
            b'i' => Self::Id,
            b'm' => Self::Method,
            b'p' => Self::Params,
            b'r' => Self::Result,
            b'e' => Self::Error,
            _ => return None,
        })
    }

    /// Reads the name at the cursor; `None` for another one.
    #[inline]
    fn read(cursor: &mut Cursor<'_>, frame: &[u8]) -> Result<Option<Self>, ScanError> {
        let initial = cursor.rest().get(1).copied();
        let probable = initial.and_then(Self::by_initial).map(|member| (member, member.written().as_bytes()));
        if let Some((member, written)) = probable
            && cursor.rest().starts_with(written)
        {
            cursor.skip(written);
            return Ok(Some(member));
        }
        let name = cursor.any_name()?;
        let name = member_name(&name, frame)?;
        let member = name.first().copied().and_then(Self::by_initial);
        Ok(member.filter(|member| member.name().as_bytes() == &*name))
    }
}

/// The members of a message, delimited.
#[derive(Default)]
struct Parts {
    /// The offset of the message.
    start: usize,
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<Value>,
    /// The name and offset of the first member that occurred twice.
    duplicate: Option<(&'static str, usize)>,
    /// The members noted in the parameters.
    noted: Option<NotedMembers>,
    /// Whether a string has an escape of the form `\u`.
    has_unicode_escapes: bool,
    /// The offset of the first byte that is not UTF-8.
    not_utf8: Option<usize>,
}

impl Parts {
    /// Reads the object at the cursor. `text` is the frame, or empty if that is not UTF-8: in text, parameters that are
    /// valid JSON are scanned once for all layers.
    fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        frame: &[u8],
        text: &str,
        known_meta: KnownObject<'_>,
    ) -> Result<(), ScanError> {
        self.start = cursor.at();
        cursor.enter()?;
        let mut first = true;
        while cursor.next_member(first)? {
            first = false;
            let start = cursor.at();
            let Some(member) = Member::read(cursor, frame)? else {
                cursor.value()?;
                continue;
            };
            let noted = match member {
                Member::Params if text.len() <= MAX_NOTED_BYTES => cursor.note_members(text, known_meta),
                _ => None,
            };
            let value = match noted {
                Some((value, noted)) => {
                    self.noted = Some(noted);
                    value
                }
                None => cursor.value()?,
            };
            let slot = self.slot(member);
            if slot.is_none() {
                *slot = Some(value);
            } else if self.duplicate.is_none() {
                self.duplicate = Some((member.name(), start));
            }
        }
        self.has_unicode_escapes = cursor.has_unicode_escapes();
        Ok(())
    }

    fn slot(&mut self, member: Member) -> &mut Option<Value> {
        match member {
            Member::Version => &mut self.jsonrpc,
            Member::Id => &mut self.id,
            Member::Method => &mut self.method,
            Member::Params => &mut self.params,
            Member::Result => &mut self.result,
            Member::Error => &mut self.error,
        }
    }

    fn message(&self, frame: &Source<'_>, max_depth: usize) -> Result<Message, ScanError> {
        if let Some((name, offset)) = self.duplicate {
            return Err(not_a_message(offset, InvalidMessageKind::Duplicate(name)));
        }
        let Some(version) = self.jsonrpc else {
            return Err(not_a_message(self.start, InvalidMessageKind::VersionMissing));
        };
        if version.of(frame) != b"\"2.0\"" && version.unescaped(frame).as_deref() != Some("2.0") {
            return Err(not_a_message(version.start, InvalidMessageKind::VersionUnknown));
        }
        //= F19 "Id without method is a response"
        let Some(method) = self.method else { return self.response(frame, max_depth).map(Message::Response) };
        if let Some(outcome) = self.result.or(self.error) {
            return Err(not_a_message(outcome.start, InvalidMessageKind::MethodAndOutcome));
        }
        if let Some(offset) = self.not_utf8 {
            return Err(ScanError { offset, kind: MalformedKind::NotUtf8 });
        }
        let method = text(&method, frame, InvalidMessageKind::MethodType)?;
        let params = match self.params {
            Some(value) => match value.shape {
                Shape::Object | Shape::Array => Some(raw(&value, frame).with_noted(self.noted)),
                Shape::Null => None,
                _ => return Err(not_a_message(value.start, InvalidMessageKind::ParamsType)),
            },
            None => None,
        };
        let deviation = match self.id {
            Some(id) if id.shape == Shape::Null && is_notification(&method) => {
                // Strictly it is a request.
                let recovered =
                    Recovered { id: None, kind: Some(EnvelopeKind::Request), method: Some(method.clone()) };
                let kind = MalformedKind::NotAMessage(InvalidMessageKind::IdNull);
                Some(Box::new(Malformed { kind, offset: id.start, recovered }))
            }
            Some(id) => {
                return Ok(Message::Request(Request { id: read_id(&id, frame)?, method, params }));
            }
            None => None,
        };
        Ok(Message::Notification(Notification { method, params, deviation }))
    }

    #[inline]
    fn response(&self, frame: &Source<'_>, max_depth: usize) -> Result<Response, ScanError> {
        let null = |value: &Value| value.shape == Shape::Null;
        let mut deviation = self.not_utf8.map(|offset| ScanError { offset, kind: MalformedKind::NotUtf8 });
        let mut exact = true;
        let id = match self.id.filter(|id| !null(id)) {
            Some(value) => Some(match read_id(&value, frame) {
                Ok(id) => id,
                Err(stop) => {
                    let Some(number) = value.integral_float(frame) else { return Err(stop) };
                    exact = false;
                    _ = deviation.get_or_insert(stop);
                    Id::Number(number)
                }
            }),
            None => None,
        };
        let outcome = match (self.result, self.error) {
            (None, None) => return Err(not_a_message(self.start, InvalidMessageKind::NoMethodOrOutcome)),
            (Some(result), Some(error)) if !null(&result) && !null(&error) => {
                return Err(not_a_message(error.start.max(result.start), InvalidMessageKind::ResultAndError));
            }
            (result, Some(error)) if result.is_none() || !null(&error) => {
                Err(match self.repair(&error, frame, &mut deviation) {
                    Some(repaired) => {
                        let value = Value { start: 0, end: repaired.len(), shape: error.shape };
                        read_error(&value, &Source::Text(&repaired), max_depth, &mut deviation)
                            .map_err(|stop| ScanError { offset: error.start, ..stop })?
                    }
                    None => read_error(&error, frame, max_depth, &mut deviation)?,
                })
            }
            (Some(result), _) => match (&id, self.id) {
                (Some(_), _) => Ok(match self.repair(&result, frame, &mut deviation) {
                    Some(repaired) => Raw::from_scan(repaired),
                    None => raw(&result, frame),
                }),
                (None, Some(id)) => return Err(not_a_message(id.start, InvalidMessageKind::IdNull)),
                (None, None) => return Err(not_a_message(self.start, InvalidMessageKind::IdMissing)),
            },
            (None, Some(error)) => return Err(not_a_message(error.start, InvalidMessageKind::ErrorType)),
        };
        let deviation = deviation.map(|ScanError { offset, kind }| {
            let recovered = Recovered {
                id: id.clone().filter(|_| exact),
                kind: Some(EnvelopeKind::Response),
                method: None,
            };
            Box::new(Malformed { kind, offset, recovered })
        });
        Ok(Response { id, outcome, deviation })
    }

    /// The text of a value in which U+FFFD replaces all text that is not Unicode; `None` if it is valid. Sets `deviation`,
    /// unless that is set already.
    #[inline]
    fn repair(&self, value: &Value, frame: &[u8], deviation: &mut Option<ScanError>) -> Option<Text> {
        if !self.has_unicode_escapes && self.not_utf8.is_none() {
            return None;
        }
        let (ScanError { offset, kind }, text) =
            replace_non_unicode(value.of(frame), self.not_utf8.is_none())?;
        let offset = value.start.saturating_add(offset);
        _ = deviation.get_or_insert(ScanError { offset, kind });
        Text::try_from(text).ok()
    }
}

/// Whether a method's name is that of a notification.
pub(super) fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

fn raw(value: &Value, frame: &Source<'_>) -> Raw {
    Raw::from_scan(frame.part(value.start..value.end))
}

fn text(value: &Value, frame: &Source<'_>, otherwise: InvalidMessageKind) -> Result<Text, ScanError> {
    let Shape::String { escaped } = value.shape else { return Err(not_a_message(value.start, otherwise)) };
    if escaped {
        return value.unescaped(frame).map(|text| Text::from(&*text)).ok_or_else(|| not_a_string(value));
    }
    let text = frame.part(value.inside());
    if text.bytes().any(|byte| byte < b' ') {
        return Err(not_a_string(value));
    }
    Ok(text)
}

/// Converts a value to an id.
pub(super) fn read_id(value: &Value, text: &[u8]) -> Result<Id, ScanError> {
    match value.shape {
        Shape::Number => match value.integer(text) {
            Some(number) => Ok(Id::Number(number)),
            None => Err(not_a_message(value.start, InvalidMessageKind::IdNotInteger)),
        },
        Shape::String { .. } => match value.unescaped(text) {
            Some(id) => Ok(Id::String(id.into())),
            None => Err(not_a_string(value)),
        },
        //= C1.1 "never null"
        Shape::Null => Err(not_a_message(value.start, InvalidMessageKind::IdNull)),
        Shape::Object | Shape::Array | Shape::Bool => {
            Err(not_a_message(value.start, InvalidMessageKind::IdType))
        }
    }
}

/// Reads an error object. If it is not an object, or has no integer code or no string message, keeps the peer's text
/// and sets `deviation`, unless that is set already.
fn read_error(
    error: &Value,
    frame: &Source<'_>,
    max_depth: usize,
    deviation: &mut Option<ScanError>,
) -> Result<ErrorObject, ScanError> {
    let mut deviates = |kind| _ = deviation.get_or_insert(not_a_message(error.start, kind));
    match error.shape {
        Shape::Object => {}
        Shape::Null => return Err(not_a_message(error.start, InvalidMessageKind::ErrorType)),
        _ => {
            deviates(InvalidMessageKind::ErrorType);
            return Ok(ErrorObject::new(code::UNREADABLE, words(error, frame)));
        }
    }
    let (mut code, mut message, mut data) = (None, None, None);
    let mut cursor = Cursor::new(frame, error.start, ScanMode::Strict { max_depth });
    cursor.enter()?;
    let mut first = true;
    while let Some((name, value)) = cursor.member(first)? {
        first = false;
        let (slot, known) = match &*member_name(&name, frame)? {
            b"code" => (&mut code, "code"),
            b"message" => (&mut message, "message"),
            b"data" => (&mut data, "data"),
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return Err(not_a_message(name.start, InvalidMessageKind::Duplicate(known)));
        }
    }
    let data = data.map(|data| raw(&data, frame));
    let mut message = match message {
        Some(value) if matches!(value.shape, Shape::String { .. }) => {
            text(&value, frame, InvalidMessageKind::ErrorMessage)?.to_string()
        }
        other => {
            deviates(InvalidMessageKind::ErrorMessage);
            words(&other.filter(|value| value.shape != Shape::Null).unwrap_or(*error), frame)
        }
    };
    let code = match code.map(|value| (value, value.integer(frame))) {
        Some((_, Some(code))) => code,
        other => {
            deviates(InvalidMessageKind::ErrorCode);
            let value = other.map(|(value, _)| value).filter(|value| value.shape != Shape::Null);
            let meant = value.and_then(|value| {
                let text = value.unescaped(frame);
                value.integral_float(frame).or_else(|| text?.trim().parse().ok())
            });
            if let (Some(value), None) = (value, meant) {
                message = format!("{message} (code {})", words(&value, frame));
            }
            meant.unwrap_or(code::UNREADABLE)
        }
    };
    Ok(ErrorObject { code, message, data })
}

/// The text of a value: a string unescaped and without its quotes, any other value as written in the frame.
fn words(value: &Value, frame: &[u8]) -> String {
    match value.unescaped(frame) {
        Some(text) => text.into_owned(),
        None => String::from_utf8_lossy(value.of(frame)).into_owned(),
    }
}
