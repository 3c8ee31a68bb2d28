//! The errors of calls.

use core::fmt;
use core::time::Duration;

use crate::peer::{
    DecodeError, InputError, InvalidAnswerError, LostReason, Outcome, RequestError, TaskReport,
    TransportError, write_timeout,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{CallToolResult, FormError, List};
use crate::text::SafeText;

#[cfg(feature = "client")]
use crate::peer::client::CloseReason;
#[cfg(all(feature = "client", feature = "skills"))]
use crate::skills::{SkillError, SkillErrorKind};
#[cfg(all(feature = "client", feature = "schema-validate"))]
use crate::validate::OutputError;

/// Uninhabited, as there is no client.
#[cfg(not(feature = "client"))]
type CloseReason = core::convert::Infallible;
/// Uninhabited, as nothing is checked.
#[cfg(not(all(feature = "client", feature = "schema-validate")))]
type OutputError = core::convert::Infallible;

//= F96 "`isError` is a result, not an error"
//= K13 "Errors made here have a type of their own and no code of the peer"
/// The error of a call.
///
/// A tool reports its failure in its result, by [`is_error`](crate::schema::CallToolResult::is_error): that is not an
/// error of the call.
///
/// ```
/// # use mcp_proto::front::{Client, Error};
/// # async fn example(client: Client) {
/// match client.read_resource("file:///notes.txt").await {
///     Ok(read) => drop(read),
///     Err(Error::Peer(error)) => println!("the server says: {error}"),
///     Err(error) if error.is_timeout() => println!("too slow"),
///     Err(error) if error.is_unsent() => println!("safe to try again: {error}"),
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The peer answered with an error.
    Peer(ErrorObject),
    /// The result is of a type that a negotiated [extension](crate::schema::Extension) defines, and not the method's own.
    ///
    /// A [request by name](crate::front::Client::request_custom) returns such a result instead.
    ExtensionResult {
        /// Its `resultType`.
        result_type: Box<str>,
        /// The result, not decoded.
        result: Raw,
    },
    /// The server requires input before it answers (2026-07-28).
    ///
    /// The value is an [`InputRequiredResult`](crate::schema::InputRequiredResult), not decoded. Only for requests with
    /// [`InputMode::Manual`](crate::peer::InputMode::Manual).
    InputRequired(Raw),
    /// The server requires input first, and the client could not supply it.
    Input(InputError),
    /// The request became a task that the client does not follow.
    ///
    /// See [`TaskMode::Handle`](crate::peer::TaskMode::Handle).
    Task(Box<TaskReport>),
    /// The task that the request became was cancelled by the server.
    TaskCancelled {
        /// The server's status message.
        message: Option<String>,
    },
    /// The peer's answer is not a valid response.
    Invalid(InvalidAnswerError),
    /// The exchange of an HTTP transport ended with a status instead of an answer.
    Transport(TransportError),
    /// The peer's result does not match the result type of the method.
    Decode {
        /// The method.
        method: &'static str,
        /// The decoding error, with its position.
        error: serde_json::Error,
        /// The undecoded result.
        raw: Raw,
    },
    /// The structured result of a tool does not match its output schema, or cannot be checked.
    Output {
        /// The tool.
        tool: String,
        /// The error of the check.
        error: OutputError,
        /// The result: unchecked, so do not pass it to a model.
        result: Box<CallToolResult>,
    },
    /// The client's answer does not match the form of the server.
    Form(FormError),
    /// No answer arrived in time; the request was cancelled at the peer.
    TimedOut {
        /// The time until the timeout.
        after: Duration,
        /// Whether it was the hard timeout, rather than the timeout between progress reports.
        hard_timeout: bool,
        /// The last error without an id that arrived meanwhile: it may have been the answer.
        unaddressed: Option<Box<ErrorObject>>,
    },
    /// The connection ended before the answer; the peer may or may not have acted on the request.
    Lost(LostReason),
    /// The request was not sent.
    NotSent(RequestError),
    /// The connection never became ready, or has ended.
    Closed(CloseReason),
    /// A [layer](crate::front::layer) of this client answered with an error.
    Layer(ErrorObject),
    /// The program that makes the call has an error of its own: a [layer](crate::front::layer) of a host sees the host's.
    Other(Box<dyn core::error::Error + Send + Sync>),
    /// This side cancelled the request.
    Cancelled,
    /// The pages of a list exceeded a limit or repeated.
    Pages(PagesError),
    /// A skill cannot be used, or a file of it cannot.
    #[cfg(all(feature = "client", feature = "skills"))]
    Skill(Box<SkillError>),
    /// The answer was already taken from this future.
    Finished,
}

impl Error {
    /// Whether no answer arrived in time, or the connection was not ready in time.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            #[cfg(feature = "client")]
            Self::Closed(closed) => closed.is_timeout(),
            _ => false,
        }
    }

    /// Whether the connection has ended, or was never made.
    pub fn is_disconnect(&self) -> bool {
        matches!(
            self,
            Self::Closed(_) | Self::Lost(_) | Self::NotSent(RequestError::Closed | RequestError::Connect(_))
        )
    }

    /// Whether the request certainly never reached the peer, so that it is safe to repeat.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Closed(_))
    }

    /// The origin of the error.
    pub fn origin(&self) -> ErrorOrigin {
        match self {
            Self::Peer(_)
            | Self::ExtensionResult { .. }
            | Self::Invalid(_)
            | Self::Transport(_)
            | Self::Decode { .. }
            | Self::InputRequired(_)
            | Self::Task(_)
            | Self::TaskCancelled { .. }
            | Self::Form(_)
            | Self::Output { .. }
            | Self::Pages(_) => ErrorOrigin::Peer,
            #[cfg(all(feature = "client", feature = "skills"))]
            Self::Skill(error) => match error.kind {
                SkillErrorKind::Outside | SkillErrorKind::Unlisted | SkillErrorKind::Dynamic => {
                    ErrorOrigin::Local
                }
                _ => ErrorOrigin::Peer,
            },
            Self::Closed(_) | Self::TimedOut { .. } | Self::Lost(_) => ErrorOrigin::Connection,
            Self::NotSent(RequestError::Connect(_)) => ErrorOrigin::Connection,
            Self::Input(InputError::Failed { .. }) => ErrorOrigin::Local,
            Self::Input(_) => ErrorOrigin::Peer,
            Self::NotSent(_) | Self::Layer(_) | Self::Other(_) | Self::Cancelled | Self::Finished => {
                ErrorOrigin::Local
            }
        }
    }

    /// The server's challenge, if it requires authorization: a status of 401, or of 403 with a challenge.
    pub fn unauthorized(&self) -> Option<&TransportError> {
        let error = match self {
            Self::Transport(error) => error,
            #[cfg(feature = "client")]
            Self::Closed(closed) => closed.transport_error()?,
            _ => return None,
        };
        error.needs_authorization.then_some(error)
    }

    /// Whether a resource that was read does not exist, by the code of any revision: see
    /// [`ErrorObject::is_resource_not_found`].
    pub fn is_resource_not_found(&self) -> bool {
        matches!(self, Self::Peer(error) if error.is_resource_not_found())
    }

    /// The code of the peer's error.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Peer(error) => Some(error.code),
            _ => None,
        }
    }
}

/// The origin of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorOrigin {
    /// The caller: an invalid request, or one that it cancelled.
    Local,
    /// The peer's answer.
    Peer,
    /// The connection or its transport, or a peer that is gone.
    Connection,
}

/// The error that ended a list early.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagesError {
    /// The server repeated an earlier cursor, so the list would never end.
    Repeated {
        /// The cursor.
        cursor: String,
    },
    /// The list has more pages than the limit.
    TooMany {
        /// The limit of pages.
        limit: usize,
    },
    /// The pages hold more bytes than the limit, and the list goes on.
    TooLong {
        /// The limit of bytes.
        limit: usize,
    },
}

error_text! { PagesError:
    Repeated { cursor } => "the list does not end: the server returned the cursor {cursor:?} twice";
    TooMany { limit } => "the list has more than {limit} pages, the limit `Pages::page_limit`";
    TooLong { limit } => "the list has more than {limit} bytes, the limit `Pages::byte_limit`";
}

/// The error of a list that could not be read to its end, with the items of the pages that were read.
///
/// It converts into its [`Error`].
#[derive(Debug)]
pub struct ListError<T> {
    /// The items of the pages that were read, in order.
    pub items: List<T>,
    /// The error that ended the list.
    pub error: Error,
}

impl<T> From<ListError<T>> for Error {
    fn from(error: ListError<T>) -> Self {
        error.error
    }
}

impl<T> fmt::Display for ListError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> core::error::Error for ListError<T> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.error.source()
    }
}

impl fmt::Display for Error {
    /// Writes what happened, with texts of the peer as [`SafeText`](crate::consent::SafeText).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SafeText::block(&Unescaped(self).to_string()).fmt(f)
    }
}

/// An error whose text may have any character of the peer.
struct Unescaped<'a>(&'a Error);

impl fmt::Display for Unescaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Error::Peer(error) => write!(f, "the peer answered with an error: {error}"),
            Error::ExtensionResult { result_type, .. } => {
                write!(f, "the result is of the type {result_type:?} of an extension")
            }
            Error::InputRequired(_) => f.write_str("the server needs input before it can answer"),
            Error::Input(fault) => fault.fmt(f),
            Error::Task(report) => write!(f, "the server works on it as the task {:?}", report.id),
            Error::TaskCancelled { message } => {
                f.write_str("the server cancelled the task")?;
                message.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Error::Invalid(invalid) => invalid.fmt(f),
            Error::Transport(error) => error.fmt(f),
            Error::Decode { method, error, .. } => write!(f, "the result of {method} is not valid: {error}"),
            Error::Output { tool, error: fault, .. } => {
                write!(f, "the result of the tool {tool:?} is not valid: {fault}")
            }
            Error::Form(error) => write!(f, "the form is not filled in correctly: {error}"),
            Error::TimedOut { after, hard_timeout, unaddressed } => {
                write_timeout(f, *after, *hard_timeout, unaddressed.as_deref())
            }
            Error::Lost(lost) => lost.fmt(f),
            Error::NotSent(refusal) => refusal.fmt(f),
            Error::Closed(closed) => closed.fmt(f),
            Error::Layer(error) => write!(f, "a layer of this client refused the call: {error}"),
            Error::Other(error) => error.fmt(f),
            Error::Cancelled => f.write_str("the request was cancelled"),
            Error::Pages(error) => error.fmt(f),
            #[cfg(all(feature = "client", feature = "skills"))]
            Error::Skill(error) => error.fmt(f),
            Error::Finished => f.write_str("the outcome was already returned"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Peer(error) | Self::Layer(error) => Some(error),
            Self::Other(error) => Some(&**error),
            Self::Decode { error, .. } => Some(error),
            Self::Input(fault) => Some(fault),
            Self::Transport(error) => Some(error),
            Self::Output { error: fault, .. } => Some(fault),
            Self::Form(error) => Some(error),
            Self::Lost(lost) => Some(lost),
            Self::NotSent(refusal) => Some(refusal),
            Self::Pages(error) => Some(error),
            #[cfg(all(feature = "client", feature = "skills"))]
            Self::Skill(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Outcome> for Error {
    /// A result is not an error; it becomes [`Error::Finished`].
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Result(_) => Self::Finished,
            Outcome::ExtensionResult { result_type, result } => Self::ExtensionResult { result_type, result },
            Outcome::InputRequired(raw) => Self::InputRequired(raw),
            Outcome::Input(fault) => Self::Input(fault),
            Outcome::Task(report) => Self::Task(report),
            Outcome::TaskCancelled { message } => Self::TaskCancelled { message },
            Outcome::Error(error) => Self::Peer(error),
            Outcome::Invalid(invalid) => Self::Invalid(invalid),
            Outcome::Transport(error) => Self::Transport(error),
            Outcome::Lost(lost) => Self::Lost(lost),
            Outcome::TimedOut { after, hard: maximum, error_without_id: unaddressed } => {
                Self::TimedOut { after, hard_timeout: maximum, unaddressed }
            }
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Refused(refusal) => Self::NotSent(refusal),
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Outcome(outcome) => outcome.into(),
            DecodeError::Result { method, error, raw } => Self::Decode { method, error, raw },
        }
    }
}

impl From<RequestError> for Error {
    fn from(refusal: RequestError) -> Self {
        Self::NotSent(refusal)
    }
}
