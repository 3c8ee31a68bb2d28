//! Errors of a server and of its connections.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Why a connection ended with an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The TLS handshake failed.
    Handshake(io::Error),
    /// The socket failed before the HTTP version was known.
    Io(io::Error),
    /// The client sent invalid HTTP, or disconnected in the middle of a message.
    Http(hyper::Error),
    /// The client violated the WebSocket protocol or a limit; the text describes the violation.
    #[cfg(feature = "websocket")]
    WebSocket(String),
    /// The client reached a limit of the connection.
    LimitReached(ConnectionLimit),
}

display_text! { ConnectionError:
    Handshake(error) => "the TLS handshake failed: {error}";
    Io(error) => "the socket failed: {error}";
    Http(error) => "{error}";
    #[cfg(feature = "websocket")]
    WebSocket(detail) => "a client's WebSocket was closed: {detail}";
    LimitReached(limit) => "{limit}";
}

impl std::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handshake(error) | Self::Io(error) => Some(error),
            Self::Http(error) => Some(error),
            #[cfg(feature = "websocket")]
            Self::WebSocket(_) => None,
            Self::LimitReached(_) => None,
        }
    }
}

pub(super) type OnError = Arc<dyn Fn(&ServerError) + Send + Sync>;

/// An error that a server survives, for logs.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// Accepting a connection failed. The server tries again, after up to a second if the error concerns system
    /// resources, such as open files.
    Accept(io::Error),
    /// The server refused a connection from this address: the server is full, and this client has its share of
    /// connections.
    Refused(Option<IpAddr>),
    /// A connection ended with an error.
    Connection(ConnectionError),
}

display_text! { ServerError:
    Accept(error) => "no connection could be accepted: {error}";
    Refused(None) => "a connection was refused: too many are open";
    Refused(Some(address)) => "a connection from {address} was refused: too many are open";
    Connection(error) => "{error}";
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Accept(error) => Some(error),
            Self::Refused(_) => None,
            Self::Connection(error) => error.source(),
        }
    }
}

/// The limit that a connection reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionLimit {
    /// [`ServerLimits::header_timeout`](super::ServerLimits::header_timeout).
    Headers,
    /// [`ServerLimits::write_timeout`](super::ServerLimits::write_timeout).
    Write,
    /// [`ServerLimits::idle_timeout`](super::ServerLimits::idle_timeout) or
    /// [`ServerLimits::lifetime`](super::ServerLimits::lifetime), and the client did not close its side.
    Idle,
    /// [`ServerLimits::connections`](super::ServerLimits::connections): the server was full, and this client had more
    /// connections than its share.
    Displaced,
    /// The server's [`close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout) has passed since it was
    /// closed.
    Closed,
}

display_text! { ConnectionLimit:
    Headers => "the client took too long to send the headers of a request";
    Write => "the client does not read the responses";
    Idle => "the client did not close the connection in time";
    Displaced => "the server is full, and the client has more connections than its share";
    Closed => "the server has closed";
}
