//! Limits on the memory and time that clients can take of a server.

use std::time::Duration;

/// Limits on connections and streams. [`HttpServerConfig`](mcp_proto::transport::http::server::HttpServerConfig) limits
/// single messages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Maximum number of open connections. Default 8,192: with 20 KiB per idle connection, that is 160 MiB.
    ///
    /// At the limit, a new connection of a client with less than its fair share displaces a connection of the client
    /// that has most, preferably one without a request. The server distinguishes clients by address. Other connections
    /// wait until one of the same client ends; up to an eighth of the limit can wait, further ones are refused. If the
    /// system allows fewer open files than this, new connections wait in its queue.
    pub connections: usize,
    /// Maximum number of concurrent requests on one HTTP/2 connection. Default 200.
    pub streams: u32,
    /// Maximum bytes of a request's headers, including the request line. Larger heads are rejected with 431. Default 32
    /// KiB: tokens and mirrored tool parameters fit.
    pub header_bytes: u32,
    /// Maximum number of headers. More are rejected with 431. Default 100. (HTTP/2 limits only the bytes.)
    pub headers: usize,
    /// Time for the headers of a request, from their first byte, and for the TLS handshake. Default 10 s: only a
    /// deliberately slow client needs longer.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request. Default 2 min.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of the data written to it. After that its connection is closed; with HTTP/2,
    /// only the stream is reset if no other stream is blocked. Default 30 s.
    pub write_timeout: Duration,
    /// Maximum age of a connection. After that it accepts no more requests, and closes once the open ones are answered.
    /// Default: unlimited. A finite value redistributes long-lived clients over servers.
    pub lifetime: Option<Duration>,
    /// Interval of pings to a silent HTTP/2 or WebSocket client, which has [`write_timeout`](Self::write_timeout) to
    /// reply. Default 30 s; `None` sends none. Over WebSocket, less than a second counts as a second.
    pub ping_interval: Option<Duration>,
}

/// hyper allocates nothing for up to this many headers.
pub(super) const HEADERS: usize = 100;

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 8192,
            streams: 200,
            header_bytes: 32 * 1024,
            headers: HEADERS,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
            lifetime: None,
            ping_interval: Some(Duration::from_secs(30)),
        }
    }
}
