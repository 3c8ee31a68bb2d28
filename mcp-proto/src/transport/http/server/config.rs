//! How a server behaves over HTTP.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::Limits;
use crate::peer::server::{Eras, PreparedConfig, ServerConfig};
use crate::quota::ByteLimits;

use super::{Hosts, Origins};

/// The configuration of a server over HTTP.
///
/// ```
/// use mcp_proto::transport::http::server::{HttpServerConfig, Hosts};
/// use mcp_proto::peer::server::ServerConfig;
/// use mcp_proto::schema::Implementation;
///
/// let mut config = HttpServerConfig::new(ServerConfig::new(Implementation::new("weather", "1.0.0")));
/// config.hosts = Hosts::Only(vec!["mcp.example".into()]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpServerConfig {
    /// What does not depend on HTTP. Its [limits](ServerConfig::limits) hold for each exchange and for each session.
    pub server: Arc<ServerConfig>,
    /// The path of the endpoint, such as `/mcp`; other paths are not found. Default: none, any path is the endpoint,
    /// for whoever has looked at the path already.
    pub path: Option<String>,
    /// Which origins of web pages are served. Default: those of this machine.
    pub origins: Origins,
    /// Which hosts may be asked for. Default: this machine's loopback names. Set it where clients come from elsewhere.
    pub hosts: Hosts,
    /// How long nothing is sent on an open stream before a comment shows that it is alive, and how long a request may
    /// be without an answer before it gets a stream for that reason. Default 15 s: proxies wait 30 s at the least.
    /// `Duration::MAX` sends none.
    pub keepalive: Duration,
    /// How long a request of a client that can resume streams (2025-11-25) may be without an answer before it gets a
    /// stream, so that the answer outlives its connection. Default 1 s.
    pub stream_after: Duration,
    /// How long clients are asked to wait before they fetch the rest of a stream. Default 1 s.
    pub retry: Duration,
    /// The longest request body accepted, in bytes; a longer one is refused with 413. Default 4 MiB: requests carry
    /// arguments, and every client may send several at a time. [`Limits::message_bytes`] holds as well, if it is less.
    pub body_bytes: usize,
    /// How long a request body may take, from the end of the request's headers to its own end, however steadily it comes.
    /// Then the request is refused with 408. Default 30 s: bodies of `body_bytes` need 140 KB/s. `Duration::MAX` waits
    /// for as long as the connection lasts.
    pub body_timeout: Duration,
    /// How many bytes the server holds for its clients: request bodies, stored events and queued answers. Beyond it
    /// requests are refused with 503 and `Retry-After`.
    pub byte_limits: ByteLimits,
    /// How many sessions there may be. Default 10,000. An owner who asks for one more loses its own oldest idle one; others
    /// lose one only to an [owner](crate::quota::QuotaOwner) with less than its fair share.
    pub max_sessions: usize,
    /// How long a session may be without an open stream, a request and a running handler before it expires. Default
    /// 30 min.
    pub session_idle: Duration,
    /// How many events a session keeps for clients that come back for them. Default 1,024.
    pub stored_events: usize,
    /// How many bytes of events a session keeps so; the newest event is kept whatever its size. Default 1 MiB.
    pub stored_bytes: usize,
    /// How long a session keeps the events of a stream after its last answer was delivered, that is, after the stream was
    /// written to its end. Default 30 s: the last bytes may be lost on their way, and the client then comes back at
    /// once. Until then they count as delivered, are limited to a sixteenth of `stored_bytes`, and are the first to make
    /// room. The events of a stream that broke off are not delivered: they stay, within the limits above, until a
    /// client has read the rest of the stream.
    pub resume_grace: Duration,
    /// Where to serve clients of 2024-11-05, if at all. Default: nowhere.
    pub legacy_sse: Option<LegacyPaths>,
}

impl HttpServerConfig {
    /// A configuration with every default.
    pub fn new(server: impl Into<Arc<ServerConfig>>) -> Self {
        Self {
            server: server.into(),
            path: None,
            origins: Origins::default(),
            hosts: Hosts::default(),
            keepalive: Duration::from_secs(15),
            stream_after: Duration::from_secs(1),
            retry: Duration::from_secs(1),
            body_bytes: 4 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            byte_limits: ByteLimits::default(),
            max_sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
            stored_events: 1024,
            stored_bytes: 1024 * 1024,
            resume_grace: Duration::from_secs(30),
            legacy_sse: None,
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.server.limits
    }

    /// The longest request body that both limits allow.
    pub(super) fn body_limit(&self) -> usize {
        self.body_bytes.min(self.limits().message_bytes)
    }
}

/// The two endpoints of the transport of 2024-11-05, as clients see them.
///
/// <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyPaths {
    /// Where a client opens its stream. It may be the path of the endpoint itself. Default `/sse`.
    pub events: String,
    /// Where it sends its messages. Default `/messages`.
    pub messages: String,
}

impl Default for LegacyPaths {
    fn default() -> Self {
        Self { events: "/sse".into(), messages: "/messages".into() }
    }
}

/// A configuration, and what is made of it once: what exchanges and sessions of one server share.
#[derive(Clone, Debug)]
pub struct Setup(Arc<SharedSetup>);

#[derive(Debug)]
struct SharedSetup {
    config: HttpServerConfig,
    /// Of the peer in an exchange: each knows the era that it is for.
    modern: PreparedConfig,
    /// Of the peer in a session.
    legacy: PreparedConfig,
}

impl Setup {
    /// Makes it.
    #[must_use]
    pub fn new(config: HttpServerConfig) -> Self {
        let of = |eras| {
            PreparedConfig::new(Arc::new(ServerConfig { eras, ..ServerConfig::clone(&config.server) }))
        };
        let (modern, legacy) = (of(Eras::ModernOnly), of(Eras::LegacyOnly));
        Self(Arc::new(SharedSetup { config, modern, legacy }))
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &HttpServerConfig {
        &self.0.config
    }

    pub(super) fn eras(&self) -> Eras {
        self.0.config.server.eras
    }

    pub(super) fn modern(&self) -> &PreparedConfig {
        &self.0.modern
    }

    pub(super) fn legacy(&self) -> &PreparedConfig {
        &self.0.legacy
    }
}
