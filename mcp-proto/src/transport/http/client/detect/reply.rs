//! Replies to detection's requests, and the evidence that they give about the server.

use alloc::string::String;
use core::time::Duration;

use crate::peer::TransportError;
use crate::peer::client::ConnectError;
use crate::rpc::{ErrorObject, Raw, code};
use crate::transport::http::client::head::http_error;

/// The outcome of an exchange of detection.
#[derive(Debug)]
pub(in crate::transport::http::client) enum Reply {
    /// A result.
    Result { status: u16, result: Raw },
    /// A JSON-RPC error, and the exchange that carried it.
    Error { error: ErrorObject, http: TransportError },
    /// A status without any message.
    Other(TransportError),
    /// No answer, or a truncated one.
    Failed { detail: String, retry_after: Option<Duration> },
    /// No connection, and none to be expected on a retry.
    Unreachable { detail: String },
}

/// Returns whether only modern servers use this error code.
pub(super) fn is_modern(code: i64) -> bool {
    matches!(
        code,
        code::UNSUPPORTED_PROTOCOL_VERSION | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::HEADER_MISMATCH
    )
}

/// What an unexpected reply says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyClass {
    /// No evidence: a temporary failure, with the server's `Retry-After` if it sent one.
    Temporary(Option<Duration>),
    /// No evidence: the responder refuses all requests.
    Forbidden,
    /// The server does not know the request.
    NotUnderstood,
    /// The server does not know the request, and its status is one that may indicate the older transport.
    NoEndpoint { unknown_method: bool },
}

/// A reply that does not complete the step.
pub(super) struct UnexpectedReply {
    pub(super) class: ReplyClass,
    pub(super) error: ConnectError,
}

impl UnexpectedReply {
    pub(super) fn new(during: &'static str, reply: Reply) -> Self {
        let (code, http) = match reply {
            Reply::Failed { detail, retry_after } => {
                let error = ConnectError::Failed { during, detail };
                return Self { class: ReplyClass::Temporary(retry_after), error };
            }
            Reply::Unreachable { detail } => {
                return Self { class: ReplyClass::Forbidden, error: ConnectError::Unreachable(detail) };
            }
            Reply::Result { status, result } => (None, http_error(status, result.as_str())),
            // A success status explains nothing, so the JSON-RPC error is quoted.
            Reply::Error { error, http } if (200..300).contains(&http.status) => {
                let error = ConnectError::Refused { during, error };
                return Self { class: ReplyClass::NotUnderstood, error };
            }
            Reply::Error { error, http } => (Some(error.code), http),
            Reply::Other(http) => (None, http),
        };
        let meaning = match http.status {
            500 | 501 if code.is_some() => ReplyClass::NotUnderstood,
            408 | 425 | 429 | 500..=599 => ReplyClass::Temporary(http.retry_after),
            400 | 404 | 405 => ReplyClass::NoEndpoint {
                unknown_method: http.status == 404 && code == Some(code::METHOD_NOT_FOUND),
            },
            401 | 403 | 407 | 421 | 451 => ReplyClass::Forbidden,
            200..=299 | 400..=499 => ReplyClass::NotUnderstood,
            _ => ReplyClass::Forbidden,
        };
        Self { class: meaning, error: ConnectError::Transport { during, error: http } }
    }
}
