//! Messages over HTTP: what both roles share.
//!
//! The machines know requests and answers as heads, pieces of bodies and ends; whoever drives them brings an HTTP
//! implementation.

#[cfg(feature = "client")]
pub mod client;
mod fields;
pub mod param_headers;
#[cfg(feature = "server")]
pub mod server;

use alloc::string::String;
use core::fmt;

pub use fields::Fields;

/// One exchange of HTTP: a request and its answer. Never reused on one machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(u64);

impl ExchangeId {
    #[cfg(feature = "client")]
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number alone, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange {}", self.0)
    }
}

/// The methods of HTTP that MCP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Asks for a stream of events.
    Get,
    /// Sends a message.
    Post,
    /// Ends a session.
    Delete,
}

impl Verb {
    /// As it stands in a request line.
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
    /// The body is whole.
    Complete,
    /// The body broke off; with what the transport knows about it.
    Truncated(String),
    /// There was no answer.
    Failed {
        /// Whether the other side may have the request.
        sent: SentState,
        /// What the transport knows about it, for people.
        detail: String,
    },
    /// No connection could be made, and another attempt would end alike: the host is unknown, it refuses connections, or
    /// its certificate is not accepted. The message names host and port.
    Unreachable(String),
}

/// Whether the other side may have received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SentState {
    /// Certainly not: it is safe to send it again.
    No,
    /// Perhaps.
    Maybe,
}

/// The names of the protocol's own headers, in lower case.
pub mod header {
    /// The revision of the protocol.
    pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
    /// The method of the message (2026-07-28).
    pub const METHOD: &str = "mcp-method";
    /// What the message is about: a tool, a prompt, a resource, a task (2026-07-28).
    pub const NAME: &str = "mcp-name";
    /// What the name of each mirrored tool parameter begins with (2026-07-28).
    pub const PARAM_PREFIX: &str = "mcp-param-";
    /// The session (2025-03-26 to 2025-11-25).
    pub const SESSION_ID: &str = "mcp-session-id";
    /// The last event that was received of a stream.
    pub const LAST_EVENT_ID: &str = "last-event-id";
}
