//! Response bodies in progress: each one is a client connection, as far as a session can tell.

use alloc::collections::VecDeque;
use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::inline_map::InlineMap;
use crate::lazy_box::{Initial, LazyBox};
use crate::rpc::Pending;
use crate::transport::http::server::Setup;
use crate::transport::http::server::response::{Chunk, HttpResponse, ResponseHead};

/// The id of one response body in a session, from its request to its end. A session never reuses one.
///
/// A stream that is resumed goes on in another connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(NonZeroU64);

impl ConnectionId {
    /// Returns the plain number, for maps and logs.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

struct Connection {
    /// The response stream that feeds it.
    stream: u64,
    head: Option<ResponseHead>,
    /// The bytes to send, each with its event number; 0 for bytes that are no numbered event.
    queue: VecDeque<(u64, Bytes)>,
    /// The length of the part taken last, which may still be unwritten.
    taken_bytes: usize,
    ended: bool,
    /// When queued output started to wait without being taken.
    waiting_since: Option<Instant>,
    /// When a keep-alive comment is due.
    keepalive_at: Option<Instant>,
}

impl fmt::Debug for Connection {
    /// Omits the queued bytes, which may contain the session id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("stream", &self.stream)
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Returns the number of queued bytes.
    fn queued(&self) -> usize {
        self.queue.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes.len()))
    }
}

/// A timer that is due on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionTimeout {
    /// Nothing was sent for the keep-alive interval.
    Keepalive,
    /// The client does not read; the connection was given up.
    WriteTimeout,
}

/// The kind of a chunk taken from a connection, as reported to its response stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenPart {
    Nothing,
    /// The event `number` of `stream`.
    Event {
        stream: u64,
        number: u64,
    },
    /// The end, after all queued bytes.
    End {
        stream: u64,
    },
}

#[derive(Debug)]
pub(super) struct Connections {
    /// The state while there are connections: an idle session has none.
    table: LazyBox<ConnectionTable>,
    next: NonZeroU64,
    setup: Setup,
}

#[derive(Debug)]
struct ConnectionTable {
    open: Pending<Connection, ConnectionId>,
    /// The connections with new output.
    readable: InlineMap<ConnectionId, ()>,
    queued: usize,
    /// The total length of the parts taken last.
    taken_bytes: usize,
}

impl Initial for ConnectionTable {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

impl ConnectionTable {
    const fn new() -> Self {
        Self { open: Pending::new(), readable: InlineMap::new(), queued: 0, taken_bytes: 0 }
    }

    fn subtract_queued(&mut self, connection: &Connection) {
        self.taken_bytes = self.taken_bytes.saturating_sub(connection.taken_bytes);
        self.queued = self.queued.saturating_sub(connection.queued());
    }

    fn schedule(&mut self, id: ConnectionId, write_timeout: Duration) {
        let Some(connection) = self.open.get(id) else { return };
        let deadline = match connection.waiting_since {
            Some(since) => Some(since + write_timeout),
            None => connection.keepalive_at,
        };
        self.open.set_deadline(id, deadline);
    }
}

impl Connections {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { table: LazyBox::new(), next: NonZeroU64::MIN, setup: setup.clone() }
    }

    fn write_timeout(&self) -> Duration {
        self.setup.config().server.write_timeout
    }

    /// Whether there are no connections, nor any that a reader has yet to look at.
    #[cfg(feature = "std")]
    pub(super) fn is_unused(&self) -> bool {
        self.table.open.is_empty() && self.table.readable.is_empty()
    }

    /// The id of the next connection.
    #[cfg(feature = "std")]
    pub(super) fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next)
    }

    /// Makes `next` the id of the next connection, unless that is higher already.
    #[cfg(feature = "std")]
    pub(super) fn skip_to(&mut self, next: ConnectionId) {
        self.next = self.next.max(next.0);
    }

    /// Opens a connection fed by `stream`. Its first keep-alive is due after `patience`.
    pub(super) fn open(&mut self, stream: u64, patience: Duration, now: Instant) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next = self.next.saturating_add(1);
        let connection = Connection {
            stream,
            head: None,
            queue: VecDeque::new(),
            taken_bytes: 0,
            ended: false,
            waiting_since: None,
            keepalive_at: now.after(patience),
        };
        self.table.open.insert(id, None, connection);
        let write_timeout = self.write_timeout();
        self.table.schedule(id, write_timeout);
        id
    }

    pub(super) fn set_head(&mut self, id: ConnectionId, head: ResponseHead) {
        let Some(table) = self.table.used_mut() else { return };
        if let Some(connection) = table.open.get_mut(id) {
            connection.head = Some(head);
            table.readable.insert(id, ());
        }
    }

    pub(super) fn send(&mut self, id: ConnectionId, number: u64, bytes: Bytes, now: Instant) {
        let (quiet_until, write_timeout) = (now.after(self.setup.config().keepalive), self.write_timeout());
        let Some(table) = self.table.used_mut() else { return };
        let Some(connection) = table.open.get_mut(id).filter(|connection| !connection.ended) else { return };
        table.queued = table.queued.saturating_add(bytes.len());
        connection.queue.push_back((number, bytes));
        connection.waiting_since.get_or_insert(now);
        connection.keepalive_at = quiet_until;
        table.readable.insert(id, ());
        table.schedule(id, write_timeout);
    }

    /// Ends a connection once its queued bytes are taken.
    pub(super) fn end(&mut self, id: ConnectionId, now: Instant) {
        let write_timeout = self.write_timeout();
        let Some(table) = self.table.used_mut() else { return };
        let Some(connection) = table.open.get_mut(id) else { return };
        connection.ended = true;
        connection.waiting_since.get_or_insert(now);
        table.readable.insert(id, ());
        table.schedule(id, write_timeout);
    }

    /// Ends a connection and discards its queued bytes: another connection has replaced it.
    pub(super) fn discard_queued(&mut self, id: ConnectionId, now: Instant) {
        if let Some(table) = self.table.used_mut()
            && let Some(connection) = table.open.get_mut(id)
        {
            let bytes = connection.queued();
            connection.queue.clear();
            table.queued = table.queued.saturating_sub(bytes);
        }
        self.end(id, now);
    }

    /// Removes a connection; returns its response stream.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<u64> {
        let table = self.table.used_mut()?;
        let connection = table.open.remove(id)?;
        table.readable.remove(&id);
        table.subtract_queued(&connection);
        self.release_unused();
        Some(connection.stream)
    }

    /// Frees the table with its last connection.
    fn release_unused(&mut self) {
        if self.table.open.is_empty() && self.table.readable.is_empty() {
            self.table.reset();
        }
    }

    /// Disables the keep-alive of a connection.
    pub(super) fn stop_keepalive(&mut self, id: ConnectionId) {
        let write_timeout = self.write_timeout();
        if let Some(table) = self.table.used_mut()
            && let Some(connection) = table.open.get_mut(id)
        {
            connection.keepalive_at = None;
            table.schedule(id, write_timeout);
        }
    }

    pub(super) fn head(&self, id: ConnectionId) -> Option<ResponseHead> {
        match self.table.open.get(id) {
            Some(connection) => connection.head.clone(),
            None => Some(HttpResponse::empty(404).head()),
        }
    }

    /// Takes the next part of the body.
    pub(super) fn take(&mut self, id: ConnectionId, now: Instant) -> (Chunk, TakenPart) {
        let write_timeout = self.write_timeout();
        let Some(table) = self.table.used_mut() else { return (Chunk::End, TakenPart::Nothing) };
        let Some(connection) = table.open.get_mut(id) else { return (Chunk::End, TakenPart::Nothing) };
        let stream = connection.stream;
        let before = core::mem::take(&mut connection.taken_bytes);
        table.taken_bytes = table.taken_bytes.saturating_sub(before);
        let Some((number, bytes)) = connection.queue.pop_front() else {
            if connection.ended {
                self.remove(id);
                return (Chunk::End, TakenPart::End { stream });
            }
            return (Chunk::Pending, TakenPart::Nothing);
        };
        connection.taken_bytes = bytes.len();
        table.taken_bytes = table.taken_bytes.saturating_add(bytes.len());
        table.queued = table.queued.saturating_sub(bytes.len());
        let more = connection.ended || !connection.queue.is_empty();
        connection.waiting_since = more.then_some(now);
        let taken = if number > 0 { TakenPart::Event { stream, number } } else { TakenPart::Nothing };
        table.schedule(id, write_timeout);
        (Chunk::Bytes(bytes), taken)
    }

    /// Returns the next connection with new output.
    pub(super) fn poll_readable(&mut self) -> Option<ConnectionId> {
        let (id, ()) = self.table.used_mut()?.readable.pop_first()?;
        self.release_unused();
        Some(id)
    }

    /// Returns the next connection with a timer that is due.
    pub(super) fn poll_due(&mut self, now: Instant) -> Option<(ConnectionId, u64, ConnectionTimeout)> {
        let table = self.table.used_mut()?;
        let (id, connection) = table.open.pop_expired(now)?;
        let stream = connection.stream;
        if connection.waiting_since.is_some() {
            table.subtract_queued(&connection);
            table.readable.insert(id, ());
            return Some((id, stream, ConnectionTimeout::WriteTimeout));
        }
        table.open.insert(id, None, connection);
        Some((id, stream, ConnectionTimeout::Keepalive))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.table.open.next_deadline()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.open.is_empty()
    }

    pub(super) fn queued(&self) -> usize {
        self.table.queued
    }

    /// Returns the total length of the parts taken last, which may still be unwritten.
    pub(super) fn taken_bytes(&self) -> usize {
        self.table.taken_bytes
    }
}
