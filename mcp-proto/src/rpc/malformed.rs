//! Malformed messages: what is wrong, and what can be recovered of them: the id, the kind and the method.

use alloc::borrow::Cow;
use core::fmt;

use memchr::memrchr;

use super::envelope::{is_notification, read_id};
use super::scan::{Cursor, ScanMode, Shape, Value, member_name};
use super::{Id, Text, code};

/// Why and where a frame is not a valid message, with the members that could be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The kind of error.
    pub kind: MalformedKind,
    /// The error's position, in bytes from the beginning of the frame.
    pub offset: usize,
    /// The members that could be read.
    pub recovered: Recovered,
}

/// Why a frame is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MalformedKind {
    /// A byte that is not UTF-8.
    NotUtf8,
    /// A string has an escape such as `\ud83d` that stands for half of a character.
    LoneSurrogate,
    /// The text is not JSON.
    Syntax {
        /// The token that the parser expected here.
        expected: &'static str,
    },
    /// The text ends within a value.
    Truncated,
    /// Arrays and objects are nested beyond the limit.
    TooDeep {
        /// The limit, in levels.
        limit: usize,
    },
    /// The message is longer than the limit and was skipped.
    TooLong {
        /// Its length, in bytes; saturating.
        bytes: usize,
    },
    /// The batch has more elements than [`Batch::MAX`](super::Batch::MAX).
    BatchTooLong,
    /// The text is JSON, but not a JSON-RPC message.
    NotAMessage(InvalidMessageKind),
}

/// Why JSON is not a JSON-RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidMessageKind {
    /// It is not an object.
    NotAnObject,
    /// A member that may occur once occurs again.
    Duplicate(&'static str),
    /// There is no `jsonrpc`.
    VersionMissing,
    /// `jsonrpc` is not `"2.0"`.
    VersionUnknown,
    /// A request or a result with `"id": null`.
    IdNull,
    /// A result without an id.
    IdMissing,
    /// The id is a number, but not an integer of 64 bits.
    IdNotInteger,
    /// The id is neither a number nor a string.
    IdType,
    /// There is neither `method` nor `result` nor `error`.
    NoMethodOrOutcome,
    /// `method` is not a string.
    MethodType,
    /// There is a `method` together with a `result` or an `error`.
    MethodAndOutcome,
    /// `params` is neither an object nor an array.
    ParamsType,
    /// There is both a `result` and an `error`.
    ResultAndError,
    /// `error` is not an object.
    ErrorType,
    /// The error's `code` is missing, or not an integer of 64 bits.
    ErrorCode,
    /// The error's `message` is missing, or not a string.
    ErrorMessage,
}

/// The members that could be read of a message that is malformed, over-long or cut off.
///
/// They suffice to fail the request that the message answers, or to answer the request that the message is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The id, if there is exactly one and it is valid.
    pub id: Option<Id>,
    /// The kind of message that the sender intended.
    pub kind: Option<EnvelopeKind>,
    /// The method.
    pub method: Option<Text>,
}

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnvelopeKind {
    /// A message with a method and an id.
    Request,
    /// A message with a method and no id.
    Notification,
    /// A message with a result or an error.
    Response,
}

impl Malformed {
    /// Whether the receiver must not answer it: it is an answer itself, or a notification.
    #[cfg(feature = "server")]
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.recovered.kind, Some(EnvelopeKind::Response | EnvelopeKind::Notification))
    }

    /// Whether it may be the answer to the request with its id: it has a `result` or an `error`, or it breaks off
    /// before either could appear. Complete JSON that has neither, such as a line of a log, answers nothing.
    #[cfg(any(feature = "client", feature = "server"))]
    pub(crate) fn may_be_answer(&self) -> bool {
        match self.recovered.kind {
            Some(kind) => kind == EnvelopeKind::Response,
            None => self.recovered.method.is_none() && !matches!(self.kind, MalformedKind::NotAMessage(_)),
        }
    }

    //= S1.11 "-32700 parse, -32600 request"
    /// The error code to answer with: [`PARSE_ERROR`](code::PARSE_ERROR) if the text is not JSON, and
    /// [`INVALID_REQUEST`](code::INVALID_REQUEST) if it is, or may be, JSON.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self.kind {
            MalformedKind::NotUtf8
            | MalformedKind::LoneSurrogate
            | MalformedKind::Syntax { .. }
            | MalformedKind::Truncated => code::PARSE_ERROR,
            MalformedKind::TooDeep { .. }
            | MalformedKind::TooLong { .. }
            | MalformedKind::BatchTooLong
            | MalformedKind::NotAMessage(_) => code::INVALID_REQUEST,
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            MalformedKind::TooLong { .. } => self.kind.fmt(f),
            kind => write!(f, "{kind} at byte {}", self.offset),
        }
    }
}

impl core::error::Error for Malformed {}

display_text! { MalformedKind:
    NotUtf8 => "not UTF-8";
    LoneSurrogate => "half of a character (a lone surrogate)";
    Syntax { expected } => "not JSON: expected {expected}";
    Truncated => "the message ends within a value";
    TooDeep { limit } => "nested deeper than {limit} levels, the limit `Limits::depth`";
    TooLong { bytes } => "the message of {bytes} bytes is over the limit, `Limits::message_bytes`";
    BatchTooLong => "the batch has too many messages";
    NotAMessage(kind) => "not a JSON-RPC message: {kind}";
}

display_text! { InvalidMessageKind:
    NotAnObject => "neither an object nor a batch";
    Duplicate(name) => "`{name}` occurs twice";
    VersionMissing => "`jsonrpc` is missing";
    VersionUnknown => "`jsonrpc` is not \"2.0\"";
    IdNull => "`id` is null";
    IdMissing => "a result without `id`";
    IdNotInteger => "`id` is not an integer of 64 bits";
    IdType => "`id` is neither an integer nor a string";
    NoMethodOrOutcome => "neither `method` nor `result` nor `error`";
    MethodType => "`method` is not a string";
    MethodAndOutcome => "`method` beside `result` or `error`";
    ParamsType => "`params` is neither an object nor an array";
    ResultAndError => "`result` beside `error`";
    ErrorType => "`error` is not an object";
    ErrorCode => "the error has no integer `code`";
    ErrorMessage => "the error has no string `message`";
}

/// Recovers top-level members of a message that is cut off, over-long or invalid.
///
/// `head` is the beginning of the message, or all of it.
///
/// ```
/// use mcp_proto::rpc::{Id, EnvelopeKind, recover};
///
/// let recovered = recover(br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"te"#);
/// assert_eq!(recovered.id, Some(Id::Number(7)));
/// assert_eq!(recovered.kind, Some(EnvelopeKind::Response));
/// ```
#[must_use]
pub fn recover(head: &[u8]) -> Recovered {
    let mut found = RecoveredMembers::default();
    let complete = found.read(head).is_some();
    found.recovered(complete)
}

/// Recovers top-level members of a message from its two ends.
///
/// [`Line::TooLong`](crate::codec::Line::TooLong) has both ends, since many peers write the id behind a long result.
///
/// ```
/// use mcp_proto::rpc::{Id, recover_ends};
///
/// let recovered = recover_ends(br#"{"result":{"content":[{"te"#, br#" over"}]},"jsonrpc":"2.0","id":7}"#);
/// assert_eq!(recovered.id, Some(Id::Number(7)));
/// ```
#[must_use]
pub fn recover_ends(head: &[u8], tail: &[u8]) -> Recovered {
    let mut found = RecoveredMembers::default();
    if found.read(head).is_none() {
        found.read_back(tail);
    }
    found.recovered(false)
}

impl Malformed {
    /// The error for a skipped message of `bytes` bytes, with the members recovered from its two ends.
    #[must_use]
    pub fn too_long(head: &[u8], tail: &[u8], bytes: usize) -> Self {
        Self { kind: MalformedKind::TooLong { bytes }, offset: 0, recovered: recover_ends(head, tail) }
    }
}

#[derive(Default)]
struct RecoveredMembers {
    /// The id, and whether it is an exact id rather than an integral float.
    id: UniqueMember<(Id, bool)>,
    method: UniqueMember<Text>,
    outcome: bool,
    /// Whether the id is `null`.
    null_id: bool,
}

/// A member that counts only if it occurs once and is valid.
#[derive(Default)]
enum UniqueMember<T> {
    #[default]
    Absent,
    Once(Option<T>),
    Repeated,
}

impl<T> UniqueMember<T> {
    fn add(&mut self, value: Option<T>) {
        *self = match self {
            Self::Absent => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }

    fn value(self) -> Option<T> {
        match self {
            Self::Once(value) => value,
            Self::Absent | Self::Repeated => None,
        }
    }
}

impl RecoveredMembers {
    /// Reads members until the object ends (`Some`) or a member cannot be read (`None`).
    fn read(&mut self, head: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(head, 0, ScanMode::Lenient);
        cursor.space();
        if cursor.peek() != Some(b'{') {
            return None;
        }
        cursor.enter().ok()?;
        let mut first = true;
        while let Some(name) = cursor.name(first).ok()? {
            first = false;
            let name = member_name(&name, head).unwrap_or(Cow::Borrowed(b""));
            // The name suffices: the value may be cut off.
            self.outcome |= matches!(&*name, b"result" | b"error");
            let value = cursor.value().ok()?;
            if value.end == head.len() && value.shape == Shape::Number {
                // More digits may have followed.
                return None;
            }
            self.add(&name, &value, head);
        }
        Some(())
    }

    /// Reads members backwards from the end of the message, as long as their values are strings or scalars.
    ///
    /// Going backwards from outside of strings, a quote is the end of a string, and the next quote that is not escaped
    /// is its beginning.
    fn read_back(&mut self, tail: &[u8]) -> Option<()> {
        let mut rest = tail.trim_ascii_end().strip_suffix(b"}")?;
        loop {
            let (before, value) = last_token(rest)?;
            let (before, name) = last_token(before.trim_ascii_end().strip_suffix(b":")?)?;
            let (separator, before) = before.trim_ascii_end().split_last()?;
            if *separator != b',' && *separator != b'{' {
                return None;
            }
            let delimited = Cursor::new(name, 0, ScanMode::Lenient).value().ok()?;
            let name = member_name(&delimited, name).ok()?;
            let delimited = Cursor::new(value, 0, ScanMode::Lenient).value().ok()?;
            self.outcome |= matches!(&*name, b"result" | b"error");
            self.add(&name, &delimited, value);
            rest = before;
        }
    }

    fn add(&mut self, name: &[u8], value: &Value, text: &[u8]) {
        match name {
            b"id" => {
                self.null_id |= value.shape == Shape::Null;
                self.id.add(match read_id(value, text) {
                    Ok(id) => Some((id, true)),
                    Err(_) => value.integral_float(text).map(|number| (Id::Number(number), false)),
                });
            }
            b"method" => self.method.add(value.unescaped(text).map(|method| Text::from(&*method))),
            _ => {}
        }
    }

    fn recovered(self, complete: bool) -> Recovered {
        let called = !matches!(self.method, UniqueMember::Absent);
        let method = self.method.value();
        let notifies = matches!(self.id, UniqueMember::Absent)
            || (self.null_id && method.as_ref().is_some_and(|method| is_notification(method)));
        let kind = match (called, self.outcome) {
            (false, true) => Some(EnvelopeKind::Response),
            (true, false) if notifies => complete.then_some(EnvelopeKind::Notification),
            (true, false) => Some(EnvelopeKind::Request),
            _ => None,
        };
        // A response with an integral float as its id answers the request with that number; a request cannot have such
        // an id.
        let id = self.id.value().filter(|(_, exact)| *exact || kind == Some(EnvelopeKind::Response));
        Recovered { id: id.map(|(id, _)| id), kind, method }
    }
}

/// Splits `text` before the string or scalar at its end.
fn last_token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let start = match text.strip_suffix(b"\"") {
        Some(mut inside) => loop {
            let quote = memrchr(b'"', inside)?;
            inside = inside.get(..quote)?;
            let escapes = inside.iter().rev().take_while(|byte| **byte == b'\\').count();
            if escapes % 2 == 0 {
                break quote;
            }
        },
        None => {
            let scalar = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            text.iter().rposition(|byte| !scalar(byte))?.saturating_add(1)
        }
    };
    text.split_at_checked(start)
}
