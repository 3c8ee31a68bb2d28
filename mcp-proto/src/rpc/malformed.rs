//! Malformed messages: the error, its position and the members that could be recovered.

use core::fmt;

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

impl fmt::Display for MalformedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::LoneSurrogate => f.write_str("half of a character (a lone surrogate)"),
            Self::Syntax { expected } => write!(f, "not JSON: expected {expected}"),
            Self::Truncated => f.write_str("the message ends within a value"),
            Self::TooDeep { limit } => {
                write!(f, "nested deeper than {limit} levels, the limit `Limits::depth`")
            }
            Self::TooLong { bytes } => {
                write!(f, "the message of {bytes} bytes is over the limit, `Limits::message_bytes`")
            }
            Self::BatchTooLong => f.write_str("the batch has too many messages"),
            Self::NotAMessage(kind) => write!(f, "not a JSON-RPC message: {kind}"),
        }
    }
}

impl fmt::Display for InvalidMessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnObject => "neither an object nor a batch",
            Self::Duplicate(name) => return write!(f, "`{name}` occurs twice"),
            Self::VersionMissing => "`jsonrpc` is missing",
            Self::VersionUnknown => "`jsonrpc` is not \"2.0\"",
            Self::IdNull => "`id` is null",
            Self::IdMissing => "a result without `id`",
            Self::IdNotInteger => "`id` is not an integer of 64 bits",
            Self::IdType => "`id` is neither an integer nor a string",
            Self::NoMethodOrOutcome => "neither `method` nor `result` nor `error`",
            Self::MethodType => "`method` is not a string",
            Self::MethodAndOutcome => "`method` beside `result` or `error`",
            Self::ParamsType => "`params` is neither an object nor an array",
            Self::ResultAndError => "`result` beside `error`",
            Self::ErrorType => "`error` is not an object",
            Self::ErrorCode => "the error has no integer `code`",
            Self::ErrorMessage => "the error has no string `message`",
        })
    }
}
