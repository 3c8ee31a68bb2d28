//! What can go wrong with a call.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::HumanDuration;
#[cfg(feature = "client")]
use crate::peer::client::CloseReason;
use crate::peer::{
    DecodeError, InputError, InvalidAnswerError, LostReason, Outcome, RequestError, TaskReport,
    TransportError, quote_error_without_id,
};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::FormError;
use crate::schema::List;

/// Why a call has no result.
///
/// A tool that fails says so in its result, by [`is_error`](crate::schema::CallToolResult::is_error): that is no error
/// of the call.
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
    /// The other side answered with an error.
    Peer(ErrorObject),
    /// The server wants input first (2026-07-28): an
    /// [`InputRequiredResult`](crate::schema::InputRequiredResult), not decoded. Only of requests that were made with
    /// [`InputMode::Manual`](crate::peer::InputMode::Manual).
    InputRequired(Raw),
    /// The server wants input first, and it could not be given.
    Input(InputError),
    /// The request has become a task that nobody follows: see [`TaskMode::Handle`](crate::peer::TaskMode::Handle).
    Task(Box<TaskReport>),
    /// The task that the request had become was given up, and not by this side.
    TaskCancelled {
        /// Why, in the server's words.
        message: Option<String>,
    },
    /// The other side answered with something that is no answer.
    Invalid(InvalidAnswerError),
    /// The transport's exchange ended with a status instead of an answer: over HTTP.
    Transport(TransportError),
    /// The other side answered with a result that is not what the method promises.
    Decode {
        /// The method.
        method: &'static str,
        /// What is wrong and where.
        error: serde_json::Error,
        /// The result as it came.
        raw: Raw,
    },
    /// The structured result of a tool is not what its output schema promises, or that can not be told.
    #[cfg(all(feature = "client", feature = "schema-validate"))]
    Output {
        /// The tool.
        tool: String,
        /// What is wrong.
        error: crate::validate::OutputError,
        /// The result as it came: not to be given to a model unseen.
        result: alloc::boxed::Box<crate::schema::CallToolResult>,
    },
    /// The client's answer is not the form filled in as it asks.
    Form(FormError),
    /// No answer came in time; the other side has been told that nobody waits any more.
    TimedOut {
        /// How long it took.
        after: Duration,
        /// Whether it was the hard maximum that struck, rather than the time without progress.
        hard_timeout: bool,
        /// The last error without an id that came meanwhile: it may have been the answer.
        unaddressed: Option<Box<ErrorObject>>,
    },
    /// The connection ended first; whether the other side has acted on the request is not known.
    Lost(LostReason),
    /// The request was not sent.
    NotSent(RequestError),
    /// The connection never became ready, or is over.
    #[cfg(feature = "client")]
    Closed(CloseReason),
    /// This side cancelled the request.
    Cancelled,
    /// The pages of a list do not end.
    Pages(PagesError),
    /// The answer has been taken from this future already.
    Finished,
}

impl Error {
    /// Whether no answer came in time, or the connection was not ready in time.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            #[cfg(feature = "client")]
            Self::Closed(CloseReason::Connect(error)) => error.is_timeout(),
            _ => false,
        }
    }

    /// Whether the connection is over, or never was.
    pub fn is_disconnect(&self) -> bool {
        match self {
            #[cfg(feature = "client")]
            Self::Closed(_) => true,
            Self::Lost(_) | Self::NotSent(RequestError::Closed | RequestError::Connect(_)) => true,
            _ => false,
        }
    }

    /// Whether the request certainly never reached the other side, so that making it again is safe.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::NotSent(_) => true,
            #[cfg(feature = "client")]
            Self::Closed(_) => true,
            _ => false,
        }
    }

    /// Whose doing it is.
    pub fn origin(&self) -> ErrorOrigin {
        match self {
            Self::Peer(_)
            | Self::Invalid(_)
            | Self::Transport(_)
            | Self::Decode { .. }
            | Self::InputRequired(_)
            | Self::Task(_)
            | Self::TaskCancelled { .. }
            | Self::Form(_)
            | Self::Pages(_) => ErrorOrigin::Peer,
            #[cfg(all(feature = "client", feature = "schema-validate"))]
            Self::Output { .. } => ErrorOrigin::Peer,
            #[cfg(feature = "client")]
            Self::Closed(_) => ErrorOrigin::Connection,
            Self::TimedOut { .. } | Self::Lost(_) => ErrorOrigin::Connection,
            Self::NotSent(RequestError::Connect(_)) => ErrorOrigin::Connection,
            Self::Input(InputError::Failed { .. }) => ErrorOrigin::Local,
            Self::Input(_) => ErrorOrigin::Peer,
            Self::NotSent(_) | Self::Cancelled | Self::Finished => ErrorOrigin::Local,
        }
    }

    /// What the server said, if it has to be told first who asks, or that is not enough for it: a status of 401, or of
    /// 403 with a challenge.
    #[cfg(feature = "client")]
    pub fn unauthorized(&self) -> Option<&TransportError> {
        use crate::peer::client::ConnectError;

        fn connecting(error: &ConnectError) -> Option<&TransportError> {
            match error {
                ConnectError::Transport { error, .. } => Some(error),
                ConnectError::AllFailed(tried) => tried.last().and_then(connecting),
                _ => None,
            }
        }
        let http = match self {
            Self::Transport(error) => error,
            Self::Closed(CloseReason::Connect(error)) => connecting(error)?,
            _ => return None,
        };
        http.needs_authorization.then_some(http)
    }

    /// The code of the other side's error.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Peer(error) => Some(error.code),
            _ => None,
        }
    }
}

/// Whose doing an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorOrigin {
    /// This side asked for what can not be, or changed its mind.
    Local,
    /// The other side's answer.
    Peer,
    /// What lies between, or a side that is gone.
    Connection,
}

/// Why a list was given up before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagesError {
    /// The server named a cursor that it had named before: it would go on for ever.
    Repeated {
        /// The cursor.
        cursor: String,
    },
    /// There are more pages than were allowed.
    TooMany {
        /// How many were allowed.
        limit: usize,
    },
    /// The pages hold more bytes than were allowed, and there are more of them.
    TooLong {
        /// How many bytes were allowed.
        limit: usize,
    },
}

impl fmt::Display for PagesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated { cursor } => {
                write!(f, "the pages of the list go round in a circle: the cursor {cursor:?} came twice")
            }
            Self::TooMany { limit } => write!(f, "the list has more than {limit} pages"),
            Self::TooLong { limit } => write!(f, "the list has more than {limit} bytes"),
        }
    }
}

impl core::error::Error for PagesError {}

/// A list that could not be read to its end: the error, and the items of the pages that were read.
///
/// It converts into its [`Error`].
#[derive(Debug)]
pub struct ListError<T> {
    /// The items of the pages that were read, in order.
    pub items: List<T>,
    /// Why there are no more.
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => write!(f, "the peer answered with an error: {error}"),
            Self::InputRequired(_) => f.write_str("the server needs input before it can answer"),
            Self::Input(fault) => fault.fmt(f),
            Self::Task(report) => write!(f, "the server works on it as the task {:?}", report.id),
            Self::TaskCancelled { message: None } => f.write_str("the server gave the task up"),
            Self::TaskCancelled { message: Some(why) } => write!(f, "the server gave the task up: {why}"),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Transport(error) => error.fmt(f),
            Self::Decode { method, error, .. } => write!(f, "the result of {method} is not valid: {error}"),
            #[cfg(all(feature = "client", feature = "schema-validate"))]
            Self::Output { tool, error: fault, .. } => {
                write!(f, "the result of the tool {tool:?} is refused: {fault}")
            }
            Self::Form(error) => write!(f, "the form is not filled in as it asks: {error}"),
            Self::TimedOut { after, hard_timeout: false, unaddressed } => {
                write!(f, "no answer and no progress within {}", HumanDuration(*after))?;
                quote_error_without_id(f, unaddressed.as_deref())
            }
            Self::TimedOut { after, hard_timeout: true, unaddressed } => {
                write!(f, "no answer within the maximum of {}", HumanDuration(*after))?;
                quote_error_without_id(f, unaddressed.as_deref())
            }
            Self::Lost(lost) => lost.fmt(f),
            Self::NotSent(refusal) => refusal.fmt(f),
            #[cfg(feature = "client")]
            Self::Closed(closed) => closed.fmt(f),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::Pages(error) => error.fmt(f),
            Self::Finished => f.write_str("the answer was taken before"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Peer(error) => Some(error),
            Self::Decode { error, .. } => Some(error),
            Self::Input(fault) => Some(fault),
            Self::Transport(error) => Some(error),
            #[cfg(all(feature = "client", feature = "schema-validate"))]
            Self::Output { error: fault, .. } => Some(fault),
            Self::Form(error) => Some(error),
            Self::Lost(lost) => Some(lost),
            Self::NotSent(refusal) => Some(refusal),
            Self::Pages(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Outcome> for Error {
    /// A result is no error; it becomes [`Error::Finished`].
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Result(_) => Self::Finished,
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
