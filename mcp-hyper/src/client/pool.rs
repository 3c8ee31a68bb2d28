//! The connections to one origin, and the requests that wait for one.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use mcp_proto::Instant;
use mcp_proto::transport::http::ExchangeId;

use super::body::BufferedBody;
use super::connector::{Connection, Http1, Http2};
use super::target::Target;

/// How many requests a connection to a server of HTTP/2 is expected to take at once, before it says so: what
/// RFC 9113, section 6.5.2, recommends as the least.
const EXPECTED_STREAMS: usize = 100;
/// How much sooner than the server a connection is given up, so that they do not meet half-way.
const MARGIN: Duration = Duration::from_secs(1);

/// The connections to one origin, and the requests that wait for one.
#[derive(Default)]
pub(super) struct Pool {
    /// By when they are given up. The one used last is the one to use next.
    idle: BTreeMap<(Instant, u64), Http1>,
    shared: BTreeMap<u64, SharedConnection>,
    /// In the order of their exchanges.
    waiting: BTreeMap<ExchangeId, (Target, Request<BufferedBody>)>,
    /// How many connections are being opened.
    opening: usize,
    /// How many requests a connection takes at once, as far as is known.
    stream_limit: StreamLimit,
    next_number: u64,
}

/// How many requests a connection takes at once.
#[derive(Clone, Copy, Default)]
enum StreamLimit {
    /// It is not known to be more.
    #[default]
    One,
    /// So many, as far as the server has said.
    Many(usize),
}

/// A connection that takes many requests at once.
struct SharedConnection {
    connection: Http2,
    requests: usize,
    idle_since: Instant,
}

/// A connection for one request.
pub(super) struct PooledConnection {
    pub(super) connection: Connection,
    /// To be given back, if it is shared.
    pub(super) shared: Option<u64>,
}

impl Pool {
    pub(super) fn wait(&mut self, exchange: ExchangeId, target: Target, request: Request<BufferedBody>) {
        self.waiting.insert(exchange, (target, request));
    }

    pub(super) fn remove(&mut self, exchange: ExchangeId) {
        self.waiting.remove(&exchange);
    }

    /// A request whose turn it is, and the connection for it.
    pub(super) fn next_ready(
        &mut self,
        now: Instant,
    ) -> Option<(ExchangeId, Target, Request<BufferedBody>, PooledConnection)> {
        if self.waiting.is_empty() {
            return None;
        }
        let lent = self.checkout(now)?;
        let (exchange, (target, request)) = self.waiting.pop_first()?;
        Some((exchange, target, request, lent))
    }

    /// How many more connections to open; they count as being opened from now on.
    pub(super) fn connections_to_open(&mut self) -> usize {
        let missing = self.waiting.len().div_ceil(self.expected_streams()).saturating_sub(self.opening);
        self.opening += missing;
        missing
    }

    fn expected_streams(&self) -> usize {
        match self.stream_limit {
            StreamLimit::One => 1,
            StreamLimit::Many(streams) => streams.max(1),
        }
    }

    /// A connection was opened.
    pub(super) fn add_opened(&mut self, now: Instant, connection: Connection, idle: Duration) {
        self.opening = self.opening.saturating_sub(1);
        match connection {
            Connection::Http1(connection) => {
                self.stream_limit = StreamLimit::One;
                self.return_idle(now, connection, idle, None);
            }
            Connection::Http2(connection) => {
                if let StreamLimit::One = self.stream_limit {
                    self.stream_limit = StreamLimit::Many(EXPECTED_STREAMS);
                }
                // Others that were opened meanwhile have made it superfluous.
                let expected = self.expected_streams();
                if self.waiting.is_empty() && self.shared.values().any(|shared| shared.has_room(expected)) {
                    return;
                }
                self.next_number += 1;
                self.shared
                    .insert(self.next_number, SharedConnection { connection, requests: 0, idle_since: now });
            }
        }
    }

    /// A connection could not be opened; these requests have nothing to wait for.
    pub(super) fn note_open_failed(&mut self) -> Vec<ExchangeId> {
        self.opening = self.opening.saturating_sub(1);
        let served = self.opening * self.expected_streams();
        let mut failed = Vec::new();
        while self.waiting.len() > served
            && let Some((exchange, _)) = self.waiting.pop_first()
        {
            failed.push(exchange);
        }
        failed
    }

    /// A connection can take another request. The server may have said how long it keeps it.
    pub(super) fn return_idle(
        &mut self,
        now: Instant,
        connection: Http1,
        idle: Duration,
        kept: Option<Duration>,
    ) {
        let idle = kept.map_or(idle, |kept| idle.min(kept.saturating_sub(MARGIN)));
        self.next_number += 1;
        self.idle.insert((now + idle, self.next_number), connection);
    }

    /// A request is through with its shared connection.
    pub(super) fn return_shared(&mut self, now: Instant, shared: u64) {
        if let Some(shared) = self.shared.get_mut(&shared) {
            shared.requests = shared.requests.saturating_sub(1);
            shared.idle_since = now;
        }
    }

    /// A request was answered on it.
    pub(super) fn note_served(&mut self, shared: u64) {
        if let Some(shared) = self.shared.get_mut(&shared) {
            shared.connection.used = true;
            self.stream_limit = StreamLimit::Many(shared.connection.limit());
        }
    }

    /// A connection takes no more requests.
    pub(super) fn discard(&mut self, shared: u64) {
        self.shared.remove(&shared);
    }

    fn checkout(&mut self, now: Instant) -> Option<PooledConnection> {
        self.shared.retain(|_, shared| !shared.connection.sender.is_closed());
        let expected = self.expected_streams();
        for (number, shared) in &mut self.shared {
            if shared.has_room(expected) {
                shared.requests += 1;
                let connection = Connection::Http2(shared.connection.clone());
                return Some(PooledConnection { connection, shared: Some(*number) });
            }
        }
        while let Some(((until, _), connection)) = self.idle.pop_last() {
            // One that is new has to be heard of first.
            if !connection.used || (until > now && connection.sender.is_ready()) {
                return Some(PooledConnection { connection: Connection::Http1(connection), shared: None });
            }
        }
        None
    }

    /// Closes what was idle for too long.
    pub(super) fn expire(&mut self, now: Instant, idle: Duration) {
        while let Some(entry) = self.idle.first_entry()
            && entry.key().0 <= now
        {
            entry.remove();
        }
        self.shared.retain(|_, shared| shared.requests > 0 || shared.idle_since + idle > now);
    }

    /// When something will have been idle for too long.
    pub(super) fn next_expiry(&self, idle: Duration) -> Option<Instant> {
        let shared = self.shared.values().filter(|shared| shared.requests == 0);
        let shared = shared.map(|shared| shared.idle_since + idle);
        shared.chain(self.idle.first_key_value().map(|((until, _), _)| *until)).min()
    }

    /// Whether nothing is lost with it: no connection, no request, and nothing that was found out about the server.
    pub(super) fn is_empty(&self) -> bool {
        let unused = self.idle.is_empty() && self.shared.is_empty();
        unused
            && self.waiting.is_empty()
            && self.opening == 0
            && matches!(self.stream_limit, StreamLimit::One)
    }
}

impl SharedConnection {
    /// Before the first answer the server may not have said what it takes, which is then expected to be what it was on
    /// other connections.
    fn has_room(&self, expected: usize) -> bool {
        let limit = self.connection.limit();
        self.requests < if self.connection.used { limit } else { limit.min(expected) }
    }
}
