//! What an exchange brought, and what that says about the server.

use alloc::string::String;
use core::time::Duration;

use crate::peer::TransportError;
use crate::peer::client::ConnectError;
use crate::rpc::{ErrorObject, Raw, code};
use crate::transport::http::client::status::http_error;

/// What became of an exchange.
#[derive(Debug)]
pub(in crate::transport::http::client) enum Reply {
    /// A result.
    Result { status: u16, result: Raw },
    /// An error of JSON-RPC, and the exchange that it came in.
    Error { error: ErrorObject, http: TransportError },
    /// A status, and nothing that is a message.
    Other(TransportError),
    /// No answer, or one that broke off.
    Failed { detail: String, retry_after: Option<Duration> },
    /// There is no connection, nor will there be if it is tried again.
    Unreachable { detail: String },
}

/// An error that only modern servers know.
pub(super) fn is_modern(code: i64) -> bool {
    matches!(
        code,
        code::UNSUPPORTED_PROTOCOL_VERSION | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::HEADER_MISMATCH
    )
}

/// What a reply says about the server, if it is not the one that was hoped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyClass {
    /// Nothing; it may be over by the next attempt, and the server may have said when.
    Temporary(Option<Duration>),
    /// Nothing; whoever answered lets nobody through.
    Forbidden,
    /// It does not know what was asked.
    NotUnderstood,
    /// It does not know what was asked, and its status is one of those that stand for the older transport.
    NoEndpoint { unknown_method: bool },
}

/// A reply that is not the one that was hoped for.
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
            // A status of success explains nothing; the error does.
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
