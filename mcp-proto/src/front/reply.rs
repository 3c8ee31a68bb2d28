//! The type-erased answer of a handler.

use core::fmt;

#[cfg(feature = "server")]
use super::handler::output::DetachedCall;
use super::handler_error::HandlerPanic;
use super::handler_error::{HandlerError, HandlerErrorKind};
use crate::peer::{AnyResult, Denial};
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::InputRequiredResult;
#[cfg(feature = "server")]
use crate::{
    peer::server::resource_not_found,
    schema::{CallToolResult, Revision},
};

/// Uninhabited, as only servers have detached work.
#[cfg(not(feature = "server"))]
type DetachedCall = core::convert::Infallible;

/// The answer of a handler.
#[doc(hidden)]
pub enum Reply {
    Result(Box<dyn AnyResult + Send>),
    InputRequired(InputRequiredResult),
    Error(ErrorObject),
    /// The server denies the request: the error, and the reason.
    Denied(ErrorObject, Denial),
    /// The rest of the work runs as a task if the client supports tasks.
    Detached(Box<DetachedCall>),
}

impl Reply {
    pub(crate) fn result(result: impl AnyResult + Send + 'static) -> Self {
        Self::Result(Box::new(result))
    }

    /// The reply to a tool call whose handler panicked: a failure that the model reads, without the text of the panic.
    #[cfg(feature = "server")]
    pub(crate) fn tool_panic() -> Self {
        Self::result(CallToolResult::error(
            "the tool failed unexpectedly, by a bug in the server; the reason is in the server's log",
        ))
    }

    pub(crate) fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error(ErrorObject::new(code, message))
    }
}

impl From<ErrorObject> for Reply {
    fn from(error: ErrorObject) -> Self {
        Self::Error(error)
    }
}

impl From<HandlerPanic> for Reply {
    fn from(_: HandlerPanic) -> Self {
        Self::error(code::INTERNAL_ERROR, "the handler of this request failed unexpectedly")
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(_) => f.write_str("Result"),
            Self::InputRequired(_) => f.write_str("InputRequired"),
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::Denied(error, _) => f.debug_tuple("Denied").field(error).finish(),
            Self::Detached(_) => f.write_str("Detached"),
        }
    }
}

impl HandlerError {
    /// Converts the error of a tool into a message for the model, or into the reply of a protocol error.
    pub(crate) fn into_message(self) -> Result<String, Reply> {
        match self.0 {
            HandlerErrorKind::Protocol(error) => Err(Reply::Error(error)),
            HandlerErrorKind::Denied { error, denial } => Err(Reply::Denied(error, denial)),
            kind => Ok(Self(kind).to_string()),
        }
    }

    /// Converts the error of any other handler.
    #[cfg(feature = "server")]
    pub(crate) fn into_reply(self, revision: Revision) -> Reply {
        match self.0 {
            HandlerErrorKind::Denied { error, denial } => Reply::Denied(error, denial),
            kind => Reply::Error(Self(kind).into_object(|uri| resource_not_found(uri, revision))),
        }
    }
}
