//! The errors and the panics of handlers.

use core::any::Any;
use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::peer::Denial;
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};

/// The error of a handler. Any error converts into it with `?`.
///
/// In a tool it becomes a result with `isError`, which the model sees; elsewhere it becomes a JSON-RPC error of the
/// code [`INTERNAL_ERROR`](code::INTERNAL_ERROR). An [`ErrorObject`] is sent unchanged from either.
///
/// A value that does not implement [`Error`](core::error::Error), such as a `String` or a boxed error, converts by
/// `map_err(HandlerError::new)`. Handlers return no other error type, so that a closure that ends with `Ok(…)` needs no
/// type annotation.
///
/// ```
/// use mcp_proto::front::HandlerError;
///
/// fn read(path: &str) -> Result<String, HandlerError> {
///     if path.contains("..") {
///         return Err(HandlerError::new("that path leads out of the folder"));
///     }
///     Ok(std::fs::read_to_string(path)?)
/// }
/// # assert!(read("..").is_err());
/// ```
#[derive(Debug)]
pub struct HandlerError(pub(super) HandlerErrorKind);

#[derive(Debug)]
pub(super) enum HandlerErrorKind {
    /// A message for the caller.
    Message(String),
    /// A JSON-RPC error, sent unchanged.
    Protocol(ErrorObject),
    /// The server denies the request: the error, and the reason.
    Denied { error: ErrorObject, denial: Denial },
    /// The resource does not exist; the code depends on the revision.
    NoResource(String),
}

impl HandlerError {
    /// Creates an error with a message for the caller: a text, or anything else that can be displayed.
    ///
    /// The message is in the alternate form (`{:#}`), in which the errors of some crates name their sources.
    ///
    /// ```
    /// use mcp_proto::front::HandlerError;
    ///
    /// fn find(name: &str) -> Result<String, Box<dyn std::error::Error>> {
    ///     Err(format!("there is no note {name}").into())
    /// }
    ///
    /// let error = find("today").map_err(HandlerError::new).unwrap_err();
    /// assert_eq!(error.to_string(), "there is no note today");
    /// ```
    pub fn new(message: impl fmt::Display) -> Self {
        Self(HandlerErrorKind::Message(format!("{message:#}")))
    }

    /// Creates an error for well-formed but unacceptable parameters: [`INVALID_PARAMS`](code::INVALID_PARAMS).
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::protocol(ErrorObject::new(code::INVALID_PARAMS, message))
    }

    /// Creates the error for a resource that does not exist. Its code depends on the revision in use.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling>
    pub fn no_resource(uri: impl Into<String>) -> Self {
        Self(HandlerErrorKind::NoResource(uri.into()))
    }

    /// Denies a request that the client is not allowed to make. Over HTTP the answer is 403 with `challenge` as
    /// `WWW-Authenticate` if nothing else was sent yet; otherwise it is an error of the code
    /// [`INVALID_REQUEST`](code::INVALID_REQUEST).
    ///
    /// For servers that check tokens in their own layer. With the feature `auth`, use `Context::require`.
    pub fn denied(message: impl Into<String>, challenge: impl Into<String>) -> Self {
        let error = ErrorObject::new(code::INVALID_REQUEST, message);
        Self(HandlerErrorKind::Denied { error, denial: Denial::Challenge(challenge.into()) })
    }

    /// Denies a request that the server cannot serve now, for lack of room or of a store that it needs. Over HTTP the
    /// answer is 503 with `Retry-After` if nothing else was sent yet; otherwise it is an error of the code
    /// [`INTERNAL_ERROR`](code::INTERNAL_ERROR).
    pub fn unavailable(message: impl Into<String>) -> Self {
        let error = ErrorObject::new(code::INTERNAL_ERROR, message);
        Self(HandlerErrorKind::Denied { error, denial: Denial::Unavailable })
    }

    /// An error that is sent unchanged.
    pub(crate) fn protocol(error: ErrorObject) -> Self {
        Self(HandlerErrorKind::Protocol(error))
    }

    /// Returns the error to send; `no_resource` makes the error for a resource that does not exist.
    pub(crate) fn into_object(self, no_resource: impl FnOnce(&str) -> ErrorObject) -> ErrorObject {
        match self.0 {
            //= S1.11 "-32603 internal"
            HandlerErrorKind::Message(message) => ErrorObject::new(code::INTERNAL_ERROR, message),
            HandlerErrorKind::Protocol(error) => error,
            HandlerErrorKind::Denied { error, .. } => error,
            HandlerErrorKind::NoResource(uri) => no_resource(&uri),
        }
    }
}

/// Converts any error, with its chain of sources in the message. An [`ErrorObject`] is passed on unchanged.
impl<E: core::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let mut slot = Some(error);
        if let Some(object) =
            (&mut slot as &mut dyn Any).downcast_mut::<Option<ErrorObject>>().and_then(Option::take)
        {
            return Self::protocol(object);
        }
        let mut message = String::new();
        let mut next = slot.as_ref().map(|error| error as &dyn core::error::Error);
        while let Some(error) = next {
            let text = error.to_string();
            // Many errors already quote their source.
            if !message.contains(&text) {
                if !message.is_empty() {
                    message.push_str(": ");
                }
                message.push_str(&text);
            }
            next = error.source();
        }
        Self(HandlerErrorKind::Message(message))
    }
}

/// The message for the caller.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandlerErrorKind::Message(message) => f.write_str(message),
            HandlerErrorKind::Protocol(error) | HandlerErrorKind::Denied { error, .. } => error.fmt(f),
            HandlerErrorKind::NoResource(uri) => write!(f, "there is no resource {uri}"),
        }
    }
}

/// A handler's return value: its result, or a `Result` of that and a [`HandlerError`].
#[diagnostic::on_unimplemented(
    message = "this handler cannot return `{Self}`",
    label = "the handler returns `{Self}`",
    note = "return `{R}`, or a `Result<{R}, HandlerError>`",
    note = "other errors convert with `?`, or with `map_err(HandlerError::new)`"
)]
pub trait IntoAnswer<R> {
    /// Returns the result.
    ///
    /// # Errors
    /// The error that the handler returned.
    fn into_answer(self) -> Result<R, HandlerError>;
}

impl<R> IntoAnswer<R> for R {
    fn into_answer(self) -> Result<R, HandlerError> {
        Ok(self)
    }
}

impl<R> IntoAnswer<R> for Result<R, HandlerError> {
    fn into_answer(self) -> Self {
        self
    }
}

/// A handler panicked. The panic hook has reported it; the handler's request is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerPanic;

/// Runs application code, and keeps its panic from ending the connection.
pub(crate) fn catch_panic<R>(run: impl FnOnce() -> R) -> Result<R, HandlerPanic> {
    // The state that `run` leaves inconsistent is only dropped afterwards.
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        HandlerPanic
    })
}
