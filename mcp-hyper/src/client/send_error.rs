//! What an error of hyper means for the request.

use std::error::Error;

use hyper::client::conn::TrySendError;
use mcp_proto::transport::http::SentState;

/// Why a request got no answer.
pub(super) enum SendError<T> {
    /// The connection had ended before any of it was written; here it is again.
    Unsent(T, String),
    /// It was on its way.
    Lost {
        /// Whether the server may have acted on it.
        sent: SentState,
        detail: String,
        /// Whether that was the end of the connection for other requests too.
        ends_connection: bool,
    },
}

impl<T> SendError<T> {
    /// Whether no other request will be taken on the same connection.
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
    /// HTTP/2 says of some requests that they were not looked at: RFC 9113, section 8.7.
    fn lost(error: &hyper::Error, detail: String) -> Self {
        let mut source = error.source();
        while let Some(error) = source {
            if let Some(error) = error.downcast_ref::<h2::Error>() {
                let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
                // It ends those streams only that are above the last one that the server knows.
                let gone = error.is_go_away();
                let sent =
                    if error.is_remote() && (refused || gone) { SentState::No } else { SentState::Maybe };
                return Self::Lost { sent, detail, ends_connection: !error.is_reset() };
            }
            source = error.source();
        }
        Self::Lost { sent: SentState::Maybe, detail, ends_connection: true }
    }
}

/// An error and all that is behind it.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Some repeat what is behind them.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
