//! Why a handler has no result.

use alloc::string::{String, ToString};
use core::any::Any;

#[cfg(feature = "server")]
use crate::peer::Denial;
use crate::rpc::{ErrorObject, code};

/// Why a handler has no result. Any error becomes one by `?`.
///
/// In a tool it becomes a result that says `isError`, which the model is shown; elsewhere it becomes a JSON-RPC error
/// of the code [`INTERNAL_ERROR`](code::INTERNAL_ERROR). An [`ErrorObject`] is sent as it is from either.
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
    /// In words, for the one who asked.
    Message(String),
    /// Exactly this.
    Protocol(ErrorObject),
    /// It is not worked on, for this reason.
    Denied { error: ErrorObject, denial: Denial },
    /// The resource does not exist; the code depends on the revision.
    NoResource(String),
}

impl HandlerError {
    /// A failure in words, for the one who asked.
    pub fn new(message: impl Into<String>) -> Self {
        Self(HandlerErrorKind::Message(message.into()))
    }

    /// The parameters are well formed and make no sense: [`INVALID_PARAMS`](code::INVALID_PARAMS).
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self(HandlerErrorKind::Protocol(ErrorObject::new(code::INVALID_PARAMS, message)))
    }

    /// There is no resource at this URI. The revision in use decides on the code.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling>
    pub fn no_resource(uri: impl Into<String>) -> Self {
        Self(HandlerErrorKind::NoResource(uri.into()))
    }

    /// The client is not allowed to ask for it. Over HTTP the answer is 403 with `challenge` as `WWW-Authenticate`, as
    /// long as nothing else was sent; otherwise it is an error of the code [`INVALID_REQUEST`](code::INVALID_REQUEST).
    ///
    /// For servers that check tokens in a layer of their own.
    #[cfg_attr(feature = "auth", doc = "With the feature `auth`, `Context::require` says it better.")]
    pub fn denied(message: impl Into<String>, challenge: impl Into<String>) -> Self {
        let error = ErrorObject::new(code::INVALID_REQUEST, message);
        Self(HandlerErrorKind::Denied { error, denial: Denial::Challenge(challenge.into()) })
    }

    /// There is no room for what the request would make the server keep. Over HTTP the answer is 503 with `Retry-After`, as
    /// long as nothing else was sent; otherwise it is an error of the code [`INTERNAL_ERROR`](code::INTERNAL_ERROR).
    pub fn no_room(message: impl Into<String>) -> Self {
        let error = ErrorObject::new(code::INTERNAL_ERROR, message);
        Self(HandlerErrorKind::Denied { error, denial: Denial::NoRoom })
    }

    /// Why the request is denied, if that is what it says.
    pub(crate) fn into_denial(self) -> Option<Denial> {
        match self.0 {
            HandlerErrorKind::Denied { denial, .. } => Some(denial),
            _ => None,
        }
    }

    /// The error to send; `no_resource` makes that of a resource that does not exist.
    pub(crate) fn into_object(self, no_resource: impl FnOnce(&str) -> ErrorObject) -> ErrorObject {
        match self.0 {
            HandlerErrorKind::Message(message) => ErrorObject::new(code::INTERNAL_ERROR, message),
            HandlerErrorKind::Protocol(error) => error,
            HandlerErrorKind::Denied { error, .. } => error,
            HandlerErrorKind::NoResource(uri) => no_resource(&uri),
        }
    }
}

/// Errors of every kind, with those that lie behind them. [`ErrorObject`] is passed on as it is.
impl<E: core::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let mut slot = Some(error);
        if let Some(object) =
            (&mut slot as &mut dyn Any).downcast_mut::<Option<ErrorObject>>().and_then(Option::take)
        {
            return Self(HandlerErrorKind::Protocol(object));
        }
        let mut message = String::new();
        let mut next = slot.as_ref().map(|error| error as &dyn core::error::Error);
        while let Some(error) = next {
            let text = error.to_string();
            // Many errors quote what lies behind them already.
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

/// What a handler may return: its result, or that or a [`HandlerError`].
pub trait IntoAnswer<R> {
    /// The result, or why there is none.
    ///
    /// # Errors
    /// What the handler says.
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
