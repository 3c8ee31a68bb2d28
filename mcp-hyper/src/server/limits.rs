//! What a client may make the server hold, and for how long.

use std::time::Duration;

/// What connections may cost. What single messages may is up to
/// [`HttpServerConfig`](mcp_proto::transport::http::server::HttpServerConfig).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Connections at a time. Default 8,192: with 20 KiB each, as an idle one costs, that is 160 MiB.
    ///
    /// When there are so many, a client with less than its fair share of them takes the place of one of the client that
    /// has most, of one without a request if there is any. Clients are told apart by their addresses. Others wait until
    /// one of theirs ends: an eighth as many, beyond which they are refused. The system may allow fewer files than that:
    /// then new connections wait in its queue.
    pub connections: usize,
    /// Requests at a time on one connection of HTTP/2. Default 200.
    pub streams: u32,
    /// Bytes of a request's headers, its first line among them. More is refused with 431. Default 32 KiB: tokens and
    /// mirrored tool parameters fit.
    pub header_bytes: u32,
    /// How many headers. More is refused with 431. Default 100. (HTTP/2 counts bytes alone.)
    pub headers: usize,
    /// How long the headers of a request may take from their first byte, and the handshake of TLS. Default 10 s: who
    /// needs longer does it on purpose.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request. Default 2 min.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of what is written to it. Then its connection is closed; with HTTP/2 it is
    /// the stream, if that alone stands still. Default 30 s.
    pub write_timeout: Duration,
    /// How long a connection is used. After that it takes no more requests, and ends once those under way are answered.
    /// Default: for as long as its client likes. Something finite spreads long-lived clients over servers again.
    pub lifetime: Option<Duration>,
    /// How often a silent client of HTTP/2 is asked whether it is still there; it has [`write_timeout`](Self::write_timeout)
    /// to say so. Default 30 s.
    pub ping_interval: Option<Duration>,
}

/// hyper needs no memory of its own for this many.
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
