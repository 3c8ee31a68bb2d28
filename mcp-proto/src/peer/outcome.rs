//! Outcomes of requests and the errors in them.

use core::fmt;
use core::time::Duration;

use crate::HumanDuration;
use crate::peer::TaskReport;
use crate::peer::event_queue::MakeOwned;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Malformed, MalformedKind, Raw};
use crate::schema::{ClientCapability, Method, ResultFields as _, Revision, ServerCapability};
use crate::text::SafeText;

//= F64 "Cancellation and timeout are told apart"
/// How a request ended. Every accepted request ends exactly once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer's result, not yet decoded: see [`Outcome::decode`].
    Result(Raw),
    /// The server's result is of a type that a negotiated [extension](crate::schema::Extension) defines.
    ExtensionResult {
        /// Its `resultType`.
        result_type: Box<str>,
        /// The result, not decoded.
        result: Raw,
    },
    /// The server needs input first (2026-07-28): an [`InputRequiredResult`](crate::schema::InputRequiredResult). Only
    /// for requests made with [`InputMode::Manual`](crate::peer::InputMode::Manual).
    InputRequired(Raw),
    /// The input that the server needs could not be provided.
    Input(InputError),
    /// The server runs the request as a task ([`TaskMode::Handle`](crate::peer::TaskMode::Handle)).
    Task(Box<TaskReport>),
    /// The request's task was cancelled, and not by this side.
    TaskCancelled {
        /// The reason, in the server's words.
        message: Option<String>,
    },
    /// The peer's error.
    Error(ErrorObject),
    /// The peer's answer is not a valid answer to this request.
    Invalid(InvalidAnswerError),
    /// The transport's exchange ended with a status instead of an answer (HTTP only).
    Transport(TransportError),
    /// The connection ended first; whether the peer has acted on the request is unknown.
    Lost(LostReason),
    /// No answer arrived in time. If the request was sent, the peer has been notified that it is cancelled.
    TimedOut {
        /// How long the request waited: since its last progress, or with `hard` since it was made.
        after: Duration,
        /// Whether the hard timeout expired, rather than the timeout without progress.
        hard: bool,
        /// The last error without an id received in the meantime: it may have been the answer.
        error_without_id: Option<Box<ErrorObject>>,
    },
    /// This side cancelled the request.
    Cancelled,
    /// The request was never sent.
    Refused(RequestError),
}

impl Outcome {
    /// The size in bytes of its peer-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Result(raw) | Self::ExtensionResult { result: raw, .. } | Self::InputRequired(raw) => {
                raw.as_bytes().len()
            }
            Self::Error(error) => error.bytes(),
            Self::Invalid(InvalidAnswerError::Malformed(text) | InvalidAnswerError::ResultType(text)) => {
                text.len()
            }
            Self::Transport(error) => error.bytes(),
            Self::Input(fault) => fault.bytes(),
            Self::Task(report) => report.bytes(),
            Self::TaskCancelled { message } => message.as_ref().map_or(0, String::len),
            Self::TimedOut { error_without_id: unaddressed, .. } => {
                unaddressed.as_ref().map_or(0, |error| error.message.len())
            }
            _ => 0,
        }
    }

    /// Decodes a result as the result of method `M`.
    ///
    /// # Errors
    /// Returns the outcome itself if it is not a result, or the reason why the result does not decode.
    pub fn decode<M: Method>(self) -> Result<M::Result, DecodeError> {
        match self {
            Self::Result(raw) => M::Result::from_json(raw.as_str()).map_err(|error| DecodeError::Result {
                method: M::NAME,
                error,
                raw,
            }),
            other => Err(DecodeError::Outcome(other)),
        }
    }
}

impl MakeOwned for Outcome {
    fn make_owned(&mut self) {
        match self {
            Self::Result(raw) | Self::ExtensionResult { result: raw, .. } | Self::InputRequired(raw) => {
                *raw = raw.detached();
            }
            Self::Error(error) => error.make_owned(),
            _ => {}
        }
    }
}

/// An outcome that could not be decoded as the method's result.
#[derive(Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// The request did not end with a result.
    Outcome(Outcome),
    /// The result does not have the shape that the method defines.
    Result {
        /// The method.
        method: &'static str,
        /// The error and its position.
        error: serde_json::Error,
        /// The result as received.
        raw: Raw,
    },
}

error_text! { DecodeError:
    Outcome(outcome) => "{outcome}";
    Result { method, error, .. } => "the result of {method} is not valid: {error}";
}

display_text! { Outcome:
    Result(_) => "the peer answered";
    ExtensionResult { result_type, .. } =>
        "the peer answered with a result of the type {result_type:?} of an extension";
    InputRequired(_) => "the server needs input before it can answer";
    Input(fault) => "{fault}";
    Task(report) => "the server works on it as the task {:?}", report.id;
    TaskCancelled { message: None } => "the server cancelled the task";
    TaskCancelled { message: Some(why) } => "the server cancelled the task: {}", SafeText::block(why);
    Error(error) => "the peer answered with an error: {error}";
    Invalid(invalid) => "{invalid}";
    Transport(error) => "{error}";
    Lost(lost) => "{lost}";
    TimedOut { after, hard, error_without_id } => |f| { write_timeout(f, *after, *hard, error_without_id.as_deref()) };
    Cancelled => "cancelled";
    Refused(refusal) => "{refusal}";
}

/// Writes that a timeout ended a request, with the error that may have been its answer.
pub(crate) fn write_timeout(
    f: &mut fmt::Formatter<'_>,
    after: Duration,
    hard: bool,
    error_without_id: Option<&ErrorObject>,
) -> fmt::Result {
    let limit = if hard { "within the maximum of" } else { "and no progress within" };
    write!(f, "no answer {limit} {}", HumanDuration(after))?;
    match error_without_id {
        Some(error) => write!(f, "; meanwhile the peer sent an error without an id: {error}"),
        None => Ok(()),
    }
}

/// An answer from the peer that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidAnswerError {
    /// The message could not be read, except for its id.
    Malformed(String),
    /// The answer is longer than this side accepts.
    TooLong {
        /// Its length in bytes, as far as known.
        bytes: usize,
    },
    /// Its `resultType` is not one that client and server have agreed on.
    ResultType(String),
}

impl From<&Malformed> for InvalidAnswerError {
    fn from(malformed: &Malformed) -> Self {
        match malformed.kind {
            MalformedKind::TooLong { bytes } => Self::TooLong { bytes },
            _ => Self::Malformed(malformed.to_string()),
        }
    }
}

display_text! { InvalidAnswerError:
    Malformed(what) => "the answer could not be read: {what}";
    TooLong { bytes } => "the answer of {bytes} bytes is over the limit, `Limits::message_bytes`";
    ResultType(name) => "the answer is of the unknown type {name:?}";
}

/// The text about a client whose driver was never polled.
pub(crate) const UNPOLLED_DRIVER: &str = "nothing polls the connection's `driver`: spawn it on an executor, or await it \
                                          beside the calls (a driver that is only kept in a variable does nothing)";

/// Why a request can no longer be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum LostReason {
    /// The peer ended the connection; with details from the transport, such as an exit status.
    Disconnected(String),
    /// This side closed the connection before the answer arrived.
    Closed,
    /// The connection failed on this side: output was not accepted in time, or too much was queued.
    Failed(String),
    /// The peer speaks another transport than this client: the configuration is wrong, and another attempt would fail in
    /// the same way. With a message that says what to change.
    WrongTransport(String),
    /// The peer stopped answering pings.
    KeepaliveFailed,
    /// The answer arrived when this application's event queue was fuller than [`Limits`](crate::Limits) allow.
    LimitExceeded,
    /// The peer ended this subscription without a result.
    Ended,
    /// The driver of the connection was dropped.
    DriverDropped,
    /// Nothing has polled the driver of the connection, so that nothing was sent.
    DriverNotPolled,
}

error_text! { LostReason:
    Disconnected(detail) if detail.is_empty() => "the peer ended the connection";
    Disconnected(detail) => "the peer ended the connection: {}", SafeText::block(detail);
    Closed => "the connection was closed before the answer came";
    Failed(what) => "the connection failed: {}", SafeText::block(what);
    WrongTransport(what) => "{}", SafeText::block(what);
    KeepaliveFailed => "the peer stopped answering pings";
    LimitExceeded =>
        "the answer was dropped: more answers wait to be taken than `Limits::event_bytes` allows";
    Ended => "the peer ended the subscription";
    DriverDropped => "the driver of the connection was dropped";
    DriverNotPolled => "{UNPOLLED_DRIVER}";
}

/// Why a request was never sent. Decided when the request is made if the peer is known by then, otherwise once it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The other side did not declare the capability that the method needs.
    Capability {
        /// The method.
        method: String,
        /// The capability.
        needed: RequiredCapability,
    },
    /// The revision in use has no such method.
    Revision {
        /// The method.
        method: String,
        /// The revision.
        revision: Revision,
    },
    /// The message belongs to an extension that is not negotiated: the other side does not declare it, or the revision in
    /// use has no messages of extensions.
    Extension {
        /// The method.
        method: String,
        /// The identifier of the extension.
        extension: String,
    },
    /// The name belongs to the protocol, whose rules a message by name alone would bypass.
    Reserved {
        /// The name.
        method: String,
        /// The typed command to use instead.
        instead: &'static str,
    },
    /// It needs a feature of the crate that is not enabled.
    Feature {
        /// The method.
        method: String,
        /// The feature.
        feature: &'static str,
    },
    /// The request to which the notification belongs is answered or cancelled.
    Answered,
    /// The connection could not be established: the first one, or over HTTP the one for this request.
    Connect(String),
    /// The connection is not ready yet; notifications do not wait for that.
    NotReady,
    /// The connection was closed, or lost, before the request could be sent.
    Closed,
    /// The parameters could not be encoded.
    Encode(String),
    /// The request directs the user to a page with a URL that clients must not open.
    UnsafePage(String),
    /// The content of the request breaks a rule of the specification: a form that requests a secret, or a conversation
    /// whose tool calls and results do not match.
    Content(String),
    /// A handler has answered the model's calls of tools as often as [`Limits::input_rounds`](crate::Limits::input_rounds)
    /// allows for one request of the client.
    ToolLoop {
        /// The limit.
        limit: u32,
    },
    /// The maximum number of requests in flight that [`Limits`](crate::Limits) allow is reached.
    InFlight {
        /// The limit.
        limit: usize,
    },
    /// The maximum of queued output that [`Limits`](crate::Limits) allow is reached.
    Overloaded {
        /// The limit, in bytes.
        limit: usize,
    },
}

error_text! { RequestError:
    Capability { method, needed } => "{method} was not sent: the other side does not declare {needed}";
    Revision { method, revision } =>
        "{method} was not sent: revision {} has no such method", revision.as_str();
    Extension { method, extension } =>
        "{method} was not sent: the other side does not declare the extension {extension}";
    Reserved { method, instead } => "{method} was not sent: the name belongs to the protocol; use {instead}";
    Feature { method, feature } =>
        "{method} was not sent: add {feature:?} to the features of mcp-smol, mcp-hyper or mcp-proto";
    Answered => "not sent: the request that it belongs to is answered already";
    Connect(why) => "{why}";
    UnsafePage(why) => "not sent: {why}";
    Content(why) => "not sent: {why}";
    ToolLoop { limit } =>
        "not sent: this request has led to {limit} requests with results of tools already: let the last one \
                 forbid tools, or raise `Limits::input_rounds`";
    NotReady => "not sent: the connection is not ready yet";
    Closed => "not sent: the connection is closed";
    Encode(why) => "not sent: the parameters could not be encoded: {why}";
    InFlight { limit } =>
        "not sent: {limit} requests are in flight already, the limit `Limits::requests_out`";
    Overloaded { limit } =>
        "not sent: more than {limit} bytes wait to be sent already, the limit `Limits::queued_bytes`";
}

/// A capability of a client or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredCapability {
    /// A server capability.
    Server(ServerCapability),
    /// A client capability.
    Client(ClientCapability),
}

display_text! { RequiredCapability:
    Server(capability) => "the server capability {:?}", capability.path();
    Client(capability) => "the client capability {:?}", capability.path();
}

/// An exchange of the transport that ended with a status instead of an answer.
///
/// Only transports with an exchange for each message report it, as HTTP does, or one that opens the connection, as
/// WebSocket does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportError {
    /// The name of the protocol that the status belongs to, for messages: `HTTP`.
    pub protocol: &'static str,
    /// The status of the exchange. 0 is a redirect whose target a web browser keeps from the client: see
    /// [`is_opaque_redirect`](Self::is_opaque_redirect).
    pub status: u16,
    /// Whether the same request may succeed later.
    pub retry: RetryAdvice,
    /// How long the server asks the client to wait before a retry.
    pub retry_after: Option<Duration>,
    /// Whether the server, or a gateway in front of it, cannot answer any request now.
    pub is_unavailable: bool,
    /// Whether the server requires the client to authenticate, or to obtain a wider grant.
    pub needs_authorization: bool,
    /// The start of the body: at most [`MAX_DETAIL`](Self::MAX_DETAIL) characters, without line breaks and other
    /// characters that cannot be displayed.
    pub detail: Box<str>,
    /// The authentication challenges: the server's `WWW-Authenticate` headers, joined by commas.
    pub challenge: Option<Box<str>>,
    /// The target of a redirect that was not followed.
    pub location: Option<Box<str>>,
    /// The error of the client's own authorization flow, not of the server.
    pub unauthorized: Option<Box<str>>,
    /// The request that the exchange was for. `None` for other exchanges, such as those of the handshake, whose errors name
    /// the step.
    pub request: Option<Box<FailedRequest>>,
}

/// The request of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedRequest {
    /// Its method.
    pub method: Box<str>,
    /// Its id on the wire.
    pub id: i64,
}

impl FailedRequest {
    #[cfg(all(feature = "client", feature = "http"))]
    pub(crate) fn new(method: &str, id: i64) -> Self {
        Self { method: method.into(), id }
    }
}

display_text! { FailedRequest { method, id } => "{}, id {id}", SafeText::line(method) }

/// Whether it helps to repeat a request that ended with a [`TransportError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// The same request may succeed later: the server or a gateway is busy, or failed.
    Later,
    /// The status gives no indication.
    Unknown,
    /// The server rejected the request, and will reject it again.
    Never,
}

impl TransportError {
    /// The maximum length of [`detail`](Self::detail) in characters: enough to identify the program that wrote the
    /// body, and its reason.
    pub const MAX_DETAIL: usize = 512;

    /// Whether the server redirected the request, and the adapter does not know where: a web browser reports status 0 for
    /// a redirect that `fetch` does not follow. Connect to the target instead.
    #[must_use]
    pub fn is_opaque_redirect(&self) -> bool {
        self.status == 0
    }

    /// Adds the error of the client's own authorization flow: at most [`MAX_DETAIL`](Self::MAX_DETAIL) characters.
    #[must_use]
    pub fn with_unauthorized(mut self, why: &str) -> Self {
        self.unauthorized = Some(Self::excerpt(why));
        self
    }

    /// The size in bytes of its server-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let length = |text: Option<&str>| text.map_or(0, str::len);
        let texts = [self.detail.len(), length(self.challenge.as_deref()), length(self.location.as_deref())];
        texts.into_iter().fold(0, usize::saturating_add)
    }
}

impl TransportError {
    /// Creates an error from a status and the start of the body, with no other details.
    pub(crate) fn new(protocol: &'static str, status: u16, body: &str) -> Self {
        Self {
            protocol,
            status,
            retry: RetryAdvice::Unknown,
            retry_after: None,
            is_unavailable: false,
            needs_authorization: false,
            detail: Self::excerpt(body),
            challenge: None,
            location: None,
            unauthorized: None,
            request: None,
        }
    }

    /// The start of a server-supplied text, made fit for display: at most [`MAX_DETAIL`](Self::MAX_DETAIL) characters
    /// on one line.
    pub(crate) fn excerpt(text: &str) -> Box<str> {
        let mut excerpt = alloc::string::String::new();
        let mut room = Self::MAX_DETAIL;
        for word in text.split(|char: char| char.is_whitespace() || char.is_control()) {
            let gap = if excerpt.is_empty() || word.is_empty() { "" } else { " " };
            for char in gap.chars().chain(word.chars()).take(room) {
                excerpt.push(char);
                room = room.saturating_sub(1);
            }
            if room == 0 {
                break;
            }
        }
        excerpt.into()
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            0 => write!(f, "{} redirect to a URL that the browser does not show", self.protocol)?,
            status => write!(f, "{} status {status}", self.protocol)?,
        }
        if let Some(request) = &self.request {
            write!(f, " to {request}")?;
        }
        if let Some(why) = &self.unauthorized {
            write!(f, " ({why})")?;
        }
        //= F47 "what `WWW-Authenticate` says"
        if let Some(challenge) = &self.challenge {
            write!(f, " (WWW-Authenticate: {})", SafeText::line(&Self::excerpt(challenge)))?;
        }
        if let Some(location) = &self.location {
            write!(f, " (it redirects to {}, which is not followed)", SafeText::line(location))?;
        }
        if let Some(pause) = self.retry_after {
            write!(f, " (retry after {})", HumanDuration(pause))?;
        }
        match &*self.detail {
            "" => Ok(()),
            detail => write!(f, ": {}", SafeText::line(detail)),
        }
    }
}

impl core::error::Error for TransportError {}

// Errors of the input that a server asks for before it finishes a request.

/// Why a request ended because of the input that its server asked for. No answer to the input was sent to the server.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The server asked for an input of an unknown method.
    NotAnInput {
        /// The key of the input request.
        key: String,
        /// Its method.
        method: String,
    },
    /// The server asked for an input whose capability this client did not declare.
    Undeclared {
        /// The key of the input request.
        key: String,
        /// Its method.
        method: &'static str,
        /// The missing capability.
        needed: ClientCapability,
    },
    /// The server asked for more inputs at once than this side accepts: see
    /// [`Limits::requests_in`](crate::Limits::requests_in).
    TooMany {
        /// The number of inputs.
        count: usize,
    },
    /// This side answered with an error.
    Failed {
        /// The key of the input request.
        key: String,
        /// The error: this side's own.
        error: ErrorObject,
    },
    /// The server asked for input too many times: see [`Limits::input_rounds`](crate::Limits::input_rounds).
    TooManyRounds {
        /// The number of times that the request was sent again.
        limit: u32,
    },
}

impl InputError {
    /// The key of the input that could not be provided.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::NotAnInput { key, .. } | Self::Undeclared { key, .. } | Self::Failed { key, .. } => {
                Some(key)
            }
            Self::TooMany { .. } | Self::TooManyRounds { .. } => None,
        }
    }

    /// The size in bytes of its peer-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let method = match self {
            Self::NotAnInput { method, .. } => method.len(),
            _ => 0,
        };
        self.key().map_or(0, str::len).saturating_add(method)
    }
}

error_text! { InputError:
    NotAnInput { key, method } =>
        "the input request {key:?} has the method {method:?}, which no input request may have";
    Undeclared { key, method, needed } =>
        "the input request {key:?} ({method}) requires {:?}, which this client does not declare", needed.path();
    TooMany { count: asked } => "the server made {asked} input requests at once, more than the limit";
    Failed { key, error } => "there is no answer to the input {key:?}: {error}";
    TooManyRounds { limit } => "the server still asks for input after {limit} rounds";
}
