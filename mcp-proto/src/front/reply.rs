//! The type-erased answer of a handler.

use core::fmt;

use super::error::Error;
#[cfg(feature = "server")]
use super::handler::output::DetachedCall;
use super::handler_error::HandlerPanic;
use super::handler_error::{HandlerError, HandlerErrorKind};
#[cfg(feature = "server")]
use crate::peer::server::resource_not_found;
use crate::peer::{AnyResult, Denial, Outcome};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code, first_member};
use crate::schema::{CallToolResult, CustomResult, InputRequiredResult, Method, ResultFields, Revision};

/// Uninhabited, as only servers have detached work.
#[cfg(not(feature = "server"))]
type DetachedCall = core::convert::Infallible;

/// The reply to a request, as [layers](super::layer) see it: a result, an error, or the input that the client must supply
/// first.
///
/// ```
/// use mcp_proto::front::layer::Reply;
/// use mcp_proto::rpc::code;
/// use mcp_proto::schema::CallToolResult;
///
/// let reply = Reply::result(CallToolResult::text("done"));
/// assert_eq!(reply.decode::<CallToolResult>().unwrap().text_content(), "done");
/// assert!(Reply::error(code::INTERNAL_ERROR, "the disk is full").is_failure());
/// ```
pub enum Reply {
    #[doc(hidden)]
    Result(Box<dyn AnyResult + Send>),
    #[doc(hidden)]
    InputRequired(InputRequiredResult),
    #[doc(hidden)]
    Error(ErrorObject),
    /// The server denies the request: the error, and the reason.
    #[doc(hidden)]
    Denied(ErrorObject, Denial),
    /// The rest of the work runs as a task if the client supports tasks.
    #[doc(hidden)]
    Detached(Box<DetachedCall>),
    /// The result of a server, not decoded.
    #[doc(hidden)]
    Received(Raw),
    /// A call of this client failed.
    #[doc(hidden)]
    Failed(Box<Error>),
}

impl Reply {
    /// Creates a reply with this result. It should be of the type that the method has.
    pub fn result(result: impl AnyResult + Send + 'static) -> Self {
        Self::Result(Box::new(result))
    }

    /// Creates a reply with an error of this code: see [`code`].
    pub fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error(ErrorObject::new(code, message))
    }

    /// The reply to a tool call whose handler panicked: a failure that the model reads, without the text of the panic.
    #[cfg(feature = "server")]
    pub(crate) fn tool_panic() -> Self {
        Self::result(CallToolResult::error(
            "the tool failed unexpectedly, by a bug in the server; the reason is in the server's log",
        ))
    }

    /// Whether the request failed: by an error, or by the result of a tool with `isError`.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Result(result) => is_tool_error(&**result),
            Self::Received(raw) => {
                first_member(raw.as_str(), "isError").is_ok_and(|value| value == Some("true"))
            }
            Self::InputRequired(_) | Self::Detached(_) => false,
            Self::Error(_) | Self::Denied(..) | Self::Failed(_) => true,
        }
    }

    /// The error of the request as JSON-RPC has it: that of a server, or of a layer. `None` for a result, and for a call of a
    /// client that failed without one.
    pub fn error_object(&self) -> Option<&ErrorObject> {
        match self {
            Self::Error(error) | Self::Denied(error, _) => Some(error),
            Self::Failed(error) => match &**error {
                Error::Peer(error) | Error::Layer(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }

    /// Why a call of this client failed, unless a layer answered it.
    pub fn call_error(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether a server requires input first (2026-07-28): a round, after which the client repeats its request. A
    /// client's calls end after all rounds, unless the application has chosen
    /// [`InputMode::Manual`](crate::peer::InputMode::Manual).
    pub fn is_input_required(&self) -> bool {
        match self {
            Self::InputRequired(_) => true,
            Self::Failed(error) => matches!(**error, Error::InputRequired(_)),
            _ => false,
        }
    }

    /// The result as JSON, with the fields that `revision` has; `None` for an error and a round, and if it cannot be encoded.
    pub fn to_raw(&self, revision: Revision) -> Option<Raw> {
        let result = match self {
            Self::Result(result) => result,
            Self::Received(raw) => return Some(raw.clone()),
            _ => return None,
        };
        let mut out = Vec::new();
        result.write_result(&mut out, revision, None).ok()?;
        Raw::new(String::from_utf8(out).ok()?).ok()
    }

    /// Converts the reply to a call of a client into its result. What a layer answered may be of another type with the same
    /// JSON, such as [`CustomResult`].
    ///
    /// # Errors
    /// The error of the call, or [`Error::Layer`] if a layer answered with one.
    pub fn into_result<M: Method>(self) -> Result<M::Result, Error> {
        let no_result = |why| Error::Layer(ErrorObject::new(code::INTERNAL_ERROR, why));
        let mismatched = || no_result("the result of a layer is not of the type of the method");
        match self {
            Self::Received(raw) => Ok(Outcome::Result(raw).decode::<M>()?),
            Self::Result(result) if (*result).as_any().is::<M::Result>() => {
                result.into_any().downcast().map_or_else(|_| Err(mismatched()), |result| Ok(*result))
            }
            Self::Result(_) => self.decode().ok_or_else(mismatched),
            Self::Failed(error) => Err(*error),
            Self::Error(error) | Self::Denied(error, _) => Err(Error::Layer(error)),
            Self::InputRequired(_) | Self::Detached(_) => Err(no_result("only servers reply in this way")),
        }
    }

    /// Creates the reply to a call of a client that failed.
    pub fn failed(error: impl Into<Error>) -> Self {
        Self::Failed(Box::new(error.into()))
    }

    /// The result, if a handler or a layer returned it as this type. `None` for any other, such as the creation of a task,
    /// and for what a server answered to a client: [`decode`](Self::decode) that.
    pub fn result_as<R: ResultFields>(&self) -> Option<&R> {
        match self {
            Self::Result(result) => result.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Decodes the result: as the type that the method has, or as [`CustomResult`], which fits any method. `None` for an error
    /// and a round, and if the result does not match the type.
    pub fn decode<R: ResultFields>(&self) -> Option<R> {
        let result = match self {
            Self::Result(result) => result,
            Self::Received(raw) => return R::from_json(raw.as_str()).ok(),
            _ => return None,
        };
        match result.as_any().downcast_ref::<R>() {
            Some(typed) => Some(typed.clone()),
            None => R::from_json(self.to_raw(Revision::LATEST)?.as_str()).ok(),
        }
    }
}

/// Whether it is the result of a tool with `isError`.
fn is_tool_error(result: &(dyn AnyResult + Send)) -> bool {
    let result = result.as_any();
    if let Some(result) = result.downcast_ref::<CallToolResult>() {
        return result.is_error == Some(true);
    }
    let untyped = result.downcast_ref::<CustomResult>();
    untyped.and_then(|result| result.extra.get("isError")).is_some_and(|value| value.as_str() == "true")
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
            Self::Received(_) => f.write_str("Received"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
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
