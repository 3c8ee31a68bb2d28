//! Errors of connections and requests: their texts, and whether another attempt can help.

use std::error::Error;
use std::fmt;
use std::io;

use hyper::client::conn::TrySendError;
use mcp_proto::transport::http::SentState;

/// The error of a failed connection attempt, whose text tells the user what to do.
#[derive(Clone, Debug)]
pub(crate) struct DialError {
    /// What failed, with host and port.
    pub(super) detail: String,
    /// Whether another attempt would fail in the same way, as long as nothing changes.
    pub(super) is_definite: bool,
}

error_text! { DialError { detail } => "{detail}" }

pub(super) fn explained_error(message: impl Into<String>, is_definite: bool) -> io::Error {
    io::Error::other(DialError { detail: message.into(), is_definite })
}

/// An error that every further attempt would meet as well.
pub(super) fn definite_error(error: impl fmt::Display) -> io::Error {
    explained_error(error.to_string(), true)
}

impl DialError {
    /// Describes an `error` from a connection attempt to `address`, a host and its port.
    pub(super) fn new(address: &str, error: &io::Error) -> Self {
        let Self { detail, is_definite } = explain(error);
        Self { detail: format!("cannot connect to {address}: {detail}"), is_definite }
    }
}

fn explain(error: &io::Error) -> DialError {
    if let Some(explained) = error.get_ref().and_then(|inner| inner.downcast_ref::<DialError>()) {
        return explained.clone();
    }
    let (message, is_definite) = match error.kind() {
        io::ErrorKind::ConnectionRefused => ("connection refused", true),
        io::ErrorKind::HostUnreachable => ("the host cannot be reached", false),
        io::ErrorKind::NetworkUnreachable => ("the network cannot be reached", false),
        io::ErrorKind::TimedOut => ("no answer", false),
        _ => return DialError { detail: error.to_string(), is_definite: false },
    };
    DialError { detail: message.to_owned(), is_definite }
}

/// Describes the error of a connection to a proxy.
pub(super) fn proxy_error(address: &str, error: &io::Error) -> io::Error {
    let DialError { detail, is_definite } = explain(error);
    explained_error(format!("the proxy {address}: {detail}"), is_definite)
}

/// Describes a failed name lookup. It is definite only if a resolver replied that the name does not exist.
pub(super) fn lookup_error(error: &io::Error) -> io::Error {
    const UNKNOWN: [&str; 6] = [
        "not known",
        "No address associated",
        "does not resolve",
        "no usable address",
        "No such host is known",
        "no address",
    ];
    let text = error.to_string();
    if error.kind() == io::ErrorKind::NotFound || UNKNOWN.iter().any(|message| text.contains(message)) {
        return definite_error("unknown host");
    }
    explained_error(format!("the host's name cannot be looked up: {text}"), false)
}

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
            if let Some((sent, ends_connection)) = loss(error) {
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

/// The text of an error and all of its sources.
pub(crate) fn error_chain(error: &dyn Error) -> String {
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

/// What an error of HTTP/2 says about a request; `None` if the error is none of HTTP/2. The server names requests that
/// it did not process: RFC 9113, section 8.7. Returns whether the server may have acted on the request, and whether the
/// connection has also ended for other requests.
#[cfg(feature = "http2")]
fn loss(error: &(dyn Error + 'static)) -> Option<(SentState, bool)> {
    let error = error.downcast_ref::<h2::Error>()?;
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // GOAWAY ends only those streams that are above the last one that the server processed.
    let gone = error.is_go_away();
    let sent = if error.is_remote() && (refused || gone) { SentState::NotSent } else { SentState::MaybeSent };
    Some((sent, !error.is_reset()))
}

/// Whether the peer sent invalid frames.
#[cfg(feature = "http2")]
pub(super) fn is_invalid_http2(error: &hyper::Error) -> bool {
    let source = error.source().and_then(<dyn Error>::downcast_ref::<h2::Error>);
    source.is_some_and(|error| error.is_go_away() && error.is_library())
}

#[cfg(not(feature = "http2"))]
fn loss(_: &(dyn Error + 'static)) -> Option<(SentState, bool)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: &io::Error) -> (String, bool) {
        let DialError { detail, is_definite } = DialError::new("server.example:80", error);
        (detail, is_definite)
    }

    #[test]
    fn refused_connection_is_definite() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let message = "cannot connect to server.example:80: connection refused";
        assert_eq!(failure(&refused), (message.to_owned(), true));
        let message = "cannot connect to server.example:80: the proxy proxy.example:1: connection refused";
        assert_eq!(failure(&proxy_error("proxy.example:1", &refused)), (message.to_owned(), true));
        assert!(!failure(&io::ErrorKind::ConnectionReset.into()).1);
        assert!(!failure(&io::ErrorKind::NetworkUnreachable.into()).1);
    }

    #[test]
    fn unknown_host_is_definite_only_if_the_resolver_answered() {
        let text = "failed to lookup address information: ";
        for message in
            ["Name or service not known", "No address associated with hostname", "Name does not resolve"]
        {
            let error = lookup_error(&io::Error::other(format!("{text}{message}")));
            assert_eq!(
                failure(&error),
                ("cannot connect to server.example:80: unknown host".to_owned(), true)
            );
        }
        let error = lookup_error(&io::Error::other(format!("{text}Temporary failure in name resolution")));
        let (message, is_definite) = failure(&error);
        assert!(message.ends_with("Temporary failure in name resolution") && !is_definite, "{message}");
    }
}
