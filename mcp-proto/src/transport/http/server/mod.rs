//! The server role over HTTP: one exchange per request in the modern era, sessions in the legacy era.
//!
//! The HTTP adapter drives each request like this:
//!
//! ```text
//! RequestIntake::new(setup, head) checks the head                → Err(HttpResponse): send it
//! intake.handle_body(bytes) …     collects the body, bounded     → Err(HttpResponse): send it
//! intake.finish()                 → RequestRoute:
//!     Answer                      send it
//!     Modern                      Exchange::open; then send its head and body, until it ends
//!     Stateless                   Exchange::open_stateless; the same
//!     OpenSession                 Session::open, stored by its id; send the answer
//!     Session                     find the session; Session::handle_post
//!     Listen, Delete              find the session; Session::listen, Session::delete
//!     LegacyEvents, LegacyPost    the same for clients of 2024-11-05
//! ```
//!
//! The adapter drives an open exchange in a loop:
//!
//! ```text
//! loop {
//!     drain poll_event            → act
//!     drain poll_head, poll_body  → write
//!     again, until none of them has anything
//!     wait for: the client leaves → handle_disconnect | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! An [`Exchange`] shares only the [`Setup`] with other exchanges. A [`Session`] has several streams, each the body of
//! one answer. This module takes no locks, never waits, reads no clock and generates no random numbers.
//!
//! How requests are answered:
//!
//! | request | answer |
//! |---|---|
//! | a version in `_meta`, or a modern one in the header | an exchange: 400 with -32020 if headers and body differ, -32022 if the version is not supported, -32602 if `_meta` lacks a required member; 404 with -32601 for unknown methods |
//! | `initialize` without a version in `_meta` | a new session |
//! | any other request with a session id | in that session, or 404 |
//! | any other request | 400 |
//! | either, on a [stateless](HttpServerConfig::stateless) server | an exchange |
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

mod cors;
mod exchange;
mod origin;
#[cfg(feature = "trace-file")]
#[cfg_attr(not(feature = "std"), allow(dead_code, reason = "machines run again with `std` alone"))]
mod recorded;
mod request_head;
mod request_intake;
mod response;
mod route;
mod session;

use alloc::sync::Arc;
use core::time::Duration;

use crate::Limits;
use crate::peer::admission;
use crate::peer::server::{Eras, PreparedConfig, ServerConfig};
use crate::prelude::*;
use crate::quota::{ByteLimits, RateLimit};
use crate::schema::{CallTool, Direction, Extension, Method as _, ServerCapabilities};
#[cfg(feature = "trace-file")]
use crate::trace_file::MachineRecorder;

pub use cors::CorsOrigins;
pub use exchange::Exchange;
pub use origin::{Hosts, Origins, ProxyAddressError, TrustedProxies, TrustedProxy};
#[cfg(all(feature = "trace-file", feature = "std"))]
pub(crate) use recorded::{
    EXCHANGE, ExchangeInput, ExchangeOrigin, SERVER, SESSION, SessionInput, SessionOrigin,
};
pub use request_head::{RequestHead, SessionId, SessionPrefix, SessionPrefixError};
pub use request_intake::RequestIntake;
#[cfg(feature = "std")]
pub(crate) use request_intake::check_upgrade;
#[cfg(feature = "std")]
pub(crate) use response::AnswerBody;
pub use response::{BodyKind, Chunk, HttpResponse, ResponseHead, ResponseHeaders};
#[cfg(feature = "auth")]
pub(crate) use response::{RETRY_AFTER_SECS, WWW_AUTHENTICATE};
pub use route::{ModernRequest, Post, PostedNotification, RequestRoute, StatelessPost};
#[cfg(feature = "std")]
pub(crate) use session::IdleSession;
pub use session::{ConnectionId, PostOutcome, Session, Sessions};

// Configuration of an HTTP server.

config! {
    /// The configuration of an HTTP server.
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
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct HttpServerConfig {
        /// The configuration of the server independent of HTTP.
        ///
        /// Its [limits](ServerConfig::limits) apply to each exchange and to each session.
        pub server: Arc<ServerConfig> = server.into(),
        /// The path of the endpoint, such as `/mcp`; other paths are answered with 404.
        ///
        /// Default: none, any path is the endpoint, for callers that route by path themselves.
        pub path: Option<String> = None,
        /// The web origins that are served. Default: those of this machine.
        pub origins: Origins = Origins::default(),
        /// The `Host` values that are served. Default: this machine's loopback names.
        ///
        /// Set it if clients connect from other machines.
        pub hosts: Hosts = Hosts::default(),
        /// The web pages of other origins that may call the server from a browser (CORS). Default: none.
        ///
        /// The server answers the browser's preflight requests, before any authentication, and adds the headers that let
        /// a page read an answer to every one of them. These origins need not be among the [`origins`](Self::origins).
        pub cors: Option<CorsOrigins> = None,
        /// Keep-alive interval: the time without output after which an open stream sends a comment.
        ///
        /// A request without an answer for this long gets a stream, to carry the comment; for a client that can resume
        /// streams (2025-11-25), after one second already. Default 15 s: proxies wait at least 30 s. `Duration::MAX`
        /// sends no comments.
        pub keepalive: Duration = Duration::from_secs(15),
        /// Whether results of tools are also sent in parts, for clients of a dialect that no revision defines. Default:
        /// no.
        ///
        /// In that dialect an event stream of a tool call has events with names: `result` for a part
        /// ([`ServerCommands::partial_result`](crate::peer::server::ServerCommands::partial_result)), `complete` or
        /// `error` for the answer. The answer follows once more as an event without a name, so that other clients,
        /// which ignore events with names, are served as well: on a stream it is sent twice.
        ///
        /// Clients of that dialect make no handshake: serve them with [`stateless`](Self::stateless). Sessions of
        /// HTTP+SSE (2024-11-05) get no parts.
        pub chunked_results: bool = false,
        /// The delay that clients are asked to wait before they reconnect to a stream. Default 1 s.
        pub retry: Duration = Duration::from_secs(1),
        /// The longest request body accepted, in bytes; a longer one is refused with 413.
        ///
        /// Default 4 MiB: requests carry arguments, and every client may send several at a time.
        /// [`Limits::message_bytes`] applies as well if it is lower.
        pub body_bytes: usize = 4 * 1024 * 1024,
        /// The time allowed for a request body, however steadily it arrives.
        ///
        /// It runs from the end of the request's headers to the end of the body.
        ///
        /// Afterwards the request is refused with 408. Default 30 s: a body of `body_bytes` needs 140 KB/s.
        /// `Duration::MAX` waits as long as the connection lasts.
        pub body_timeout: Duration = Duration::from_secs(30),
        /// The byte budgets for data that the server holds for its clients.
        ///
        /// They cover request bodies, stored events and queued answers. Requests beyond them are refused with 503 and
        /// `Retry-After`.
        pub byte_limits: ByteLimits = ByteLimits::default(),
        /// How often each [owner](crate::quota::QuotaOwner) may send a request: its principal, or its address. Default:
        /// no limit, because clients behind a proxy that is not [trusted](TrustedProxies) share one address, and only
        /// the author knows what a request costs.
        ///
        /// Each HTTP request counts, of any method: a notification and the answer to a server's request too. One beyond
        /// the rate is refused with 429 and `Retry-After` before its body is read. Clients of this crate send it again
        /// by themselves, within limits; other clients mostly report the status.
        ///
        /// ```
        /// # use mcp_proto::transport::http::server::HttpServerConfig;
        /// # use mcp_proto::peer::server::ServerConfig;
        /// # use mcp_proto::schema::Implementation;
        /// use mcp_proto::quota::RateLimit;
        ///
        /// # let server = ServerConfig::new(Implementation::new("weather", "1.0.0"));
        /// let mut config = HttpServerConfig::new(server);
        /// config.request_rate = Some(RateLimit::per_second(50).burst(200));
        /// ```
        pub request_rate: Option<RateLimit> = None,
        /// The maximum number of sessions. Default 10,000.
        ///
        /// An owner who opens one more loses its own oldest idle session; others lose one only to an
        /// [owner](crate::quota::QuotaOwner) with less than its fair share.
        pub max_sessions: usize = 10_000,
        /// The name of this instance, for a balancer in front of several: the ids of its sessions are the name, `.` and
        /// 32 hexadecimal digits. Default: the digits alone.
        ///
        /// A session lives in the memory of the instance that opened it, and the balancer routes its requests there by
        /// the name. An id of another instance is answered with 404, and the client opens a new session. Give an
        /// instance that replaces another the same name, or let the balancer send the requests of unknown names to any
        /// instance.
        ///
        /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
        pub session_prefix: Option<SessionPrefix> = None,
        /// The time without an open stream, a request or a running handler after which a session expires. Default 30
        /// min.
        pub session_idle: Duration = Duration::from_secs(30 * 60),
        /// The maximum number of events that a session stores for clients that reconnect. Default 1,024.
        pub stored_events: usize = 1024,
        /// The maximum size of a session's stored events, in bytes. Default 1 MiB.
        ///
        /// The newest event is stored whatever its size.
        pub stored_bytes: usize = 1024 * 1024,
        /// How long a session stores the events of a stream after delivery, that is, after it was written to its end.
        ///
        /// Default 30 s: the last bytes may be lost in transit, and the client then reconnects at once. Delivered
        /// events are limited to a sixteenth of `stored_bytes`, and are evicted first. The events of a stream that
        /// broke off are not delivered: they stay, within the limits above, until a client has read the rest of the
        /// stream.
        pub resume_grace: Duration = Duration::from_secs(30),
        /// The endpoints for clients of 2024-11-05. Default: none, such clients are not served.
        pub legacy_sse: Option<LegacyPaths> = None,
        /// Whether clients of 2025-11-25 and earlier are served without sessions, for deployments whose instances share
        /// nothing and may end after each request. Default: no.
        ///
        /// `initialize` is answered without `Mcp-Session-Id`, and each later POST on its own, by any instance, at the
        /// revision of its `MCP-Protocol-Version` (2025-03-26 without one). The client's information and capabilities
        /// are then unknown. A disconnect cancels the request. GET and DELETE are answered with 405, and
        /// [`legacy_sse`](Self::legacy_sse) is not served.
        ///
        /// Not available to these clients, and not declared to them: subscriptions, changed lists, log messages,
        /// requests to the client such as elicitation, and resuming a stream. `Router::check_stateless` finds a router
        /// that declares one of them. Requests of 2026-07-28 have no sessions anyway; nothing changes for them.
        ///
        /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
        pub stateless: bool = false,
    }

    /// Creates a configuration with every default.
    pub fn new(server: impl Into<Arc<ServerConfig>>);
}

impl HttpServerConfig {
    fn limits(&self) -> &Limits {
        &self.server.limits
    }

    /// Returns whether the results of a method are also sent in parts.
    fn has_parts(&self, method: &str) -> bool {
        self.chunked_results && method == CallTool::NAME
    }

    /// Returns the longest request body that both limits allow, in bytes.
    pub(crate) fn body_limit(&self) -> usize {
        self.body_bytes.min(self.limits().message_bytes)
    }
}

config! {
    /// The two endpoints of the HTTP+SSE transport (2024-11-05), as clients see them.
    ///
    /// <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct LegacyPaths {
        /// The path where a client opens its event stream. It may equal the path of the endpoint. Default `/sse`.
        pub events: String = "/sse".into(),
        /// The path where a client posts its messages. Default `/messages`.
        pub messages: String = "/messages".into(),
    }
}

/// The capabilities that need no session.
fn without_sessions(mut capabilities: ServerCapabilities) -> ServerCapabilities {
    for list in [&mut capabilities.tools, &mut capabilities.prompts].into_iter().flatten() {
        list.list_changed = None;
    }
    if let Some(resources) = &mut capabilities.resources {
        (resources.list_changed, resources.subscribe) = (None, None);
    }
    capabilities.logging = None;
    capabilities
}

/// A configuration prepared for use, shared by all exchanges and sessions of one server.
#[derive(Clone, Debug)]
pub struct Setup(Arc<SharedSetup>);

#[derive(Debug)]
struct SharedSetup {
    config: HttpServerConfig,
    /// The server configuration for exchanges, restricted to the modern era.
    modern: PreparedConfig,
    /// The server configuration for sessions, or for single requests without them, restricted to the legacy era.
    legacy: PreparedConfig,
    #[cfg(feature = "trace-file")]
    recorder: Option<MachineRecorder>,
}

impl Setup {
    /// Prepares a configuration.
    #[must_use]
    pub fn new(config: HttpServerConfig) -> Self {
        let of = |eras, capabilities| {
            let server = ServerConfig { eras, capabilities, ..ServerConfig::clone(&config.server) };
            PreparedConfig::new(Arc::new(server))
        };
        let all = config.server.capabilities.clone();
        let to_legacy = if config.stateless { without_sessions(all.clone()) } else { all.clone() };
        let (modern, legacy) = (of(Eras::ModernOnly, all), of(Eras::LegacyOnly, to_legacy));
        Self(Arc::new(SharedSetup {
            #[cfg(feature = "trace-file")]
            recorder: (config.server.recorder.as_ref())
                .map(|recorder| recorder.begin(None, recorded::server_origin(&config))),
            config,
            modern,
            legacy,
        }))
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &HttpServerConfig {
        &self.0.config
    }

    /// Returns the headers that the answer to a request has beside its own, whatever it is: those of
    /// [`HttpServerConfig::cors`].
    #[must_use]
    pub fn answer_headers(&self, head: &RequestHead<'_>) -> Option<ResponseHeaders> {
        Some(self.config().cors.as_ref()?.answer_headers(head))
    }

    /// Returns whether a request is a browser's question whether a page may send one, from an origin of
    /// [`HttpServerConfig::cors`]. It bears no token.
    #[cfg(feature = "auth")]
    pub(crate) fn is_preflight(&self, head: &RequestHead<'_>) -> bool {
        let path = head.path.split('?').next().unwrap_or_default();
        self.config().cors.as_ref().is_some_and(|cors| cors.is_preflight(head))
            && request_intake::endpoint_kind(self, path).is_some()
    }

    /// Returns the extension that defines a method, and the parameter of the method that `Mcp-Name` mirrors.
    fn mirrored_param(&self, method: &str) -> Option<(&Extension, &str)> {
        let extensions = &self.0.config.server.extensions;
        let (extension, method) = admission::find_method(extensions, method, Direction::ClientToServer)?;
        Some((extension, method.name_param()?))
    }

    /// Returns the recorder of the server, if its exchanges and sessions are recorded.
    #[cfg(feature = "trace-file")]
    pub(crate) fn recorder(&self) -> Option<&MachineRecorder> {
        self.0.recorder.as_ref()
    }

    /// Returns this configuration with another recorder for an exchange or a session.
    #[cfg(all(feature = "trace-file", feature = "std"))]
    pub(crate) fn recorded_by(&self, recorder: &MachineRecorder) -> Self {
        let SharedSetup { config, modern, legacy, recorder: own } = &*self.0;
        let server = own.as_ref().map_or(0, MachineRecorder::machine);
        Self(Arc::new(SharedSetup {
            config: config.clone(),
            modern: modern.clone(),
            legacy: legacy.clone(),
            recorder: Some(recorder.of_machine(server)),
        }))
    }

    /// Writes a session id as clients know it.
    fn session_text(&self, id: SessionId) -> String {
        id.to_text(self.config().session_prefix.as_ref())
    }

    /// Parses a session id of this instance.
    fn parse_session(&self, text: &[u8]) -> Option<SessionId> {
        SessionId::from_text(text, self.config().session_prefix.as_ref())
    }

    fn eras(&self) -> Eras {
        self.0.config.server.eras
    }

    fn modern(&self) -> &PreparedConfig {
        &self.0.modern
    }

    fn legacy(&self) -> &PreparedConfig {
        &self.0.legacy
    }
}
