//! The HTTP transport: types that client and server share.
//!
//! The state machines see requests and answers as heads, body chunks and ends; the driver brings an HTTP
//! implementation.

#[cfg(feature = "client")]
pub mod client;
mod fields;
mod ip_network;
pub mod param_headers;
#[cfg(feature = "server")]
pub mod server;

use alloc::string::String;
use core::fmt;

pub use fields::Fields;
pub use ip_network::{IpNetwork, IpNetworkError};

/// The id of an HTTP exchange: one request and its answer. A client or server never reuses one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(u64);

impl ExchangeId {
    /// Returns the id of an exchange that an adapter opens by itself, such as the upgrade to a WebSocket.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the plain number, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange {}", self.0)
    }
}

/// The HTTP methods that MCP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Requests an event stream.
    Get,
    /// Sends a message.
    Post,
    /// Ends a session.
    Delete,
}

impl Verb {
    /// Returns the method as written in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// The body is complete.
    Complete,
    /// The body was truncated; with the transport's description.
    Truncated(String),
    /// No answer arrived.
    Failed {
        /// Whether the other side may have received the request.
        sent: SentState,
        /// A human-readable description by the transport.
        detail: String,
    },
    /// No connection could be made, and another attempt would fail in the same way.
    ///
    /// The host is unknown, it refuses connections, or its certificate is not accepted. The message names host and
    /// port.
    Unreachable(String),
}

/// Whether the other side may have received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SentState {
    /// The other side has not received it: it is safe to send it again.
    NotSent,
    /// The other side may have received it.
    MaybeSent,
}

/// The names of the protocol's own headers, in lower case.
pub mod header {
    /// The protocol revision.
    pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
    /// The method of the message (2026-07-28).
    pub const METHOD: &str = "mcp-method";
    /// The name of the tool, prompt, resource or task that the message is about (2026-07-28).
    pub const NAME: &str = "mcp-name";
    /// The prefix of the headers that mirror tool parameters (2026-07-28).
    pub const PARAM_PREFIX: &str = "mcp-param-";
    /// The session id (2025-03-26 to 2025-11-25).
    pub const SESSION_ID: &str = "mcp-session-id";
    /// The id of the last event received on a stream.
    pub const LAST_EVENT_ID: &str = "last-event-id";
}
