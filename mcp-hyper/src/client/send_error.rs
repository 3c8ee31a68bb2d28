//! Classification of hyper's errors: whether the request was sent, and whether the connection is lost.

use std::error::Error;

use hyper::client::conn::TrySendError;
use mcp_proto::transport::http::SentState;

use super::http2::loss;

/// Why a request got no response.
pub(super) enum SendError<T> {
    /// The connection ended before any of the request was written, so the request is returned.
    Unsent(T, String),
    /// The request was lost after it was written in part or whole.
    Lost {
        /// Whether the server may have acted on the request.
        sent: SentState,
        detail: String,
        /// Whether the connection has also ended for other requests.
        ends_connection: bool,
    },
}

impl<T> SendError<T> {
    /// Whether the connection accepts no further request.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Unsent(..) => true,
            Self::Lost { ends_connection, .. } => *ends_connection,
        }
    }
}

impl<T> From<TrySendError<T>> for SendError<T> {
    fn from(mut error: TrySendError<T>) -> Self {
        let message = error.take_message();
        let error = error.into_error();
        let detail = error_chain(&error);
        match message {
            Some(message) => Self::Unsent(message, detail),
            None => Self::lost(&error, detail),
        }
    }
}

impl<T> SendError<T> {
    fn lost(error: &hyper::Error, detail: String) -> Self {
        let mut source = error.source();
        while let Some(error) = source {
            if let Some(Loss { sent, ends_connection }) = loss(error) {
                return Self::Lost { sent, detail, ends_connection };
            }
            source = error.source();
        }
        Self::Lost { sent: SentState::MaybeSent, detail, ends_connection: true }
    }

    /// The error's text.
    #[cfg(feature = "auth")]
    pub(super) fn into_detail(self) -> String {
        match self {
            Self::Unsent(_, detail) | Self::Lost { detail, .. } => detail,
        }
    }
}

/// What an error says about a lost request.
pub(super) struct Loss {
    /// Whether the server may have acted on the request.
    pub(super) sent: SentState,
    /// Whether the connection has also ended for other requests.
    pub(super) ends_connection: bool,
}

/// The text of an error and all of its sources.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Some errors repeat the text of their source.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
