//! Connection pools, one per origin.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use mcp_proto::Instant;
use mcp_proto::transport::http::ExchangeId;

use super::connection::{Connection, Http1, Http2};
use super::target::Target;
use crate::io::BufferedBody;

/// Assumed number of concurrent requests on an HTTP/2 connection until the server announces its limit: the minimum that
/// RFC 9113, section 6.5.2, recommends.
const EXPECTED_STREAMS: usize = 100;
/// How much earlier than the server the client closes an idle connection, so that no request meets the closing.
const MARGIN: Duration = Duration::from_secs(1);

/// After this time without a request, a connection waits for [`SETTLE`] before it serves the next one.
const REST: Duration = Duration::from_secs(1);

/// How long a connection that has rested waits before its next request. If the task was blocked meanwhile, the runtime
/// has not yet told that the server has closed the connection, and the request would be lost.
pub(super) const SETTLE: Duration = Duration::from_millis(1);

/// The connections to one origin, and the requests that wait for one.
#[derive(Default)]
pub(super) struct Pool {
    /// Idle connections in the order of their expiry. The most recently used one is used next.
    idle: VecDeque<IdleConnection>,
    shared: BTreeMap<u64, SharedConnection>,
    /// Waiting requests, in the order of their exchanges.
    waiting: VecDeque<(ExchangeId, Arc<Target>, Request<BufferedBody>)>,
    /// Number of connections being opened.
    opening: usize,
    /// Number of concurrent requests that a connection accepts, as far as known.
    stream_limit: Option<usize>,
    next_number: u64,
}

/// A connection that serves no request.
struct IdleConnection {
    since: Instant,
    until: Instant,
    connection: Http1,
}

/// A connection that accepts many concurrent requests.
struct SharedConnection {
    connection: Http2,
    requests: usize,
    idle_since: Instant,
}

/// The connection assigned to a request.
pub(super) struct PooledConnection {
    pub(super) connection: Connection,
    /// The shared connection to return it to, if it is shared.
    pub(super) shared: Option<u64>,
    /// Whether it has served no request for so long that it must [`SETTLE`].
    pub(super) has_rested: bool,
}

impl Pool {
    pub(super) fn wait(&mut self, exchange: ExchangeId, target: Arc<Target>, request: Request<BufferedBody>) {
        let at = self.waiting.partition_point(|(other, ..)| *other < exchange);
        self.waiting.insert(at, (exchange, target, request));
    }

    pub(super) fn remove(&mut self, exchange: ExchangeId) {
        if let Ok(at) = self.waiting.binary_search_by_key(&exchange, |(waiting, ..)| *waiting) {
            self.waiting.remove(at);
        }
    }

    /// Takes the next waiting request that a connection is ready for.
    pub(super) fn next_ready(
        &mut self,
        now: Instant,
    ) -> Option<(ExchangeId, Arc<Target>, Request<BufferedBody>, PooledConnection)> {
        if self.waiting.is_empty() {
            return None;
        }
        let pooled = self.checkout(now)?;
        let (exchange, target, request) = self.waiting.pop_front()?;
        Some((exchange, target, request, pooled))
    }

    /// Returns how many more connections to open, of `most` altogether, and counts them as being opened.
    pub(super) fn connections_to_open(&mut self, most: usize) -> usize {
        let missing = self.waiting.len().div_ceil(self.expected_streams()).saturating_sub(self.opening);
        let missing = missing.min(most.saturating_sub(self.opening + self.shared.len()));
        self.opening += missing;
        missing
    }

    fn expected_streams(&self) -> usize {
        self.stream_limit.map_or(1, |streams| streams.max(1))
    }

    /// Adds a newly opened connection.
    pub(super) fn add_opened(&mut self, now: Instant, connection: Connection, idle: Duration) {
        self.opening = self.opening.saturating_sub(1);
        match connection {
            Connection::Http1(connection) => {
                self.stream_limit = None;
                self.return_idle(now, connection, idle, None);
            }
            Connection::Http2(connection) => {
                self.stream_limit.get_or_insert(EXPECTED_STREAMS);
                // Connections that were opened meanwhile have made this one superfluous.
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

    /// Records that a connection could not be opened; returns the requests that no other connection can serve.
    pub(super) fn note_open_failed(&mut self) -> Vec<ExchangeId> {
        self.opening = self.opening.saturating_sub(1);
        let served = self.opening * self.expected_streams();
        let mut failed = Vec::new();
        while self.waiting.len() > served
            && let Some((exchange, ..)) = self.waiting.pop_front()
        {
            failed.push(exchange);
        }
        failed
    }

    //= F50 "Connections are kept alive"
    /// Returns a connection that is ready for another request. `keep` is the server's announced limit of its idle time.
    pub(super) fn return_idle(
        &mut self,
        now: Instant,
        connection: Http1,
        idle: Duration,
        keep: Option<Duration>,
    ) {
        let idle = keep.map_or(idle, |keep| idle.min(keep.saturating_sub(MARGIN)));
        let until = now + idle;
        let at = self.idle.partition_point(|other| other.until <= until);
        self.idle.insert(at, IdleConnection { since: now, until, connection });
    }

    /// Releases a request's share of a shared connection.
    pub(super) fn return_shared(&mut self, now: Instant, shared: u64) {
        if let Some(shared) = self.shared.get_mut(&shared) {
            shared.requests = shared.requests.saturating_sub(1);
            shared.idle_since = now;
        }
    }

    /// Records that a shared connection has served a request.
    pub(super) fn note_served(&mut self, shared: u64) {
        if let Some(shared) = self.shared.get_mut(&shared) {
            shared.connection.note_served();
            self.stream_limit = Some(shared.connection.limit());
        }
    }

    /// Removes a shared connection that accepts no more requests.
    pub(super) fn discard(&mut self, shared: u64) {
        self.shared.remove(&shared);
    }

    fn checkout(&mut self, now: Instant) -> Option<PooledConnection> {
        self.shared.retain(|_, shared| !shared.connection.is_closed());
        let expected = self.expected_streams();
        for (number, shared) in &mut self.shared {
            if shared.has_room(expected) {
                let has_rested = shared.requests == 0 && shared.idle_since + REST <= now;
                shared.requests += 1;
                let connection = Connection::Http2(shared.connection.clone());
                return Some(PooledConnection { connection, shared: Some(*number), has_rested });
            }
        }
        while let Some(IdleConnection { since, until, connection }) = self.idle.pop_back() {
            // A new connection must first be known to work.
            if !connection.used || (until > now && connection.sender.is_ready()) {
                let has_rested = connection.used && since + REST <= now;
                let connection = Connection::Http1(connection);
                return Some(PooledConnection { connection, shared: None, has_rested });
            }
        }
        None
    }

    /// Closes connections that were idle for too long.
    pub(super) fn expire(&mut self, now: Instant, idle: Duration) {
        while self.idle.pop_front_if(|idle| idle.until <= now).is_some() {}
        self.shared.retain(|_, shared| shared.requests > 0 || shared.idle_since + idle > now);
    }

    /// When the next idle connection expires.
    pub(super) fn next_expiry(&self, idle: Duration) -> Option<Instant> {
        let shared = self.shared.values().filter(|shared| shared.requests == 0);
        let shared = shared.map(|shared| shared.idle_since + idle);
        shared.chain(self.idle.front().map(|idle| idle.until)).min()
    }

    /// Whether the pool holds no connection, no request, and no knowledge about the server.
    pub(super) fn is_empty(&self) -> bool {
        let unused = self.idle.is_empty() && self.shared.is_empty();
        unused && self.waiting.is_empty() && self.opening == 0 && self.stream_limit.is_none()
    }
}

impl SharedConnection {
    /// Whether the connection has room for another request. Before its first response, a server may not have announced
    /// its limit, so `expected` is the limit from its other connections.
    fn has_room(&self, expected: usize) -> bool {
        let limit = self.connection.limit();
        self.requests < if self.connection.is_used() { limit } else { limit.min(expected) }
    }
}
