//! Response bodies in progress: each one is a client connection, as far as a session can tell.

use alloc::collections::VecDeque;
use core::num::NonZeroU64;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::inline_map::{InlineMap, InlineQueue};
use crate::lazy_box::Initial;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::Pending;
use crate::transport::http::server::Setup;
use crate::transport::http::server::response::{Chunk, HttpResponse, ResponseHead};

/// The id of one response body in a session, from its request to its end. A session never reuses one.
///
/// A stream that is resumed goes on in another connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(NonZeroU64);

impl ConnectionId {
    /// Creates the id of this number.
    #[cfg(all(feature = "trace-file", feature = "std"))]
    pub(crate) fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the plain number, for maps and logs.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

debug_fields! { ConnectionId(inner) => "connection {inner}" }

struct Connection {
    /// The response stream that feeds it.
    stream: u64,
    head: Option<ResponseHead>,
    /// The bytes to send, each with its event number; 0 for bytes that are no numbered event.
    queue: InlineQueue<(u64, Bytes)>,
    /// The length of the part taken last, which may still be unwritten.
    taken_bytes: usize,
    ended: bool,
    /// When queued output started to wait without being taken.
    waiting_since: Option<Instant>,
    /// When a keep-alive comment is due.
    keepalive_at: Option<Instant>,
}

// Omits the queued bytes, which may contain the session id.
debug_fields! { Connection(self) { stream, queued = self.queue.len() } }

impl Connection {
    /// Returns the number of queued bytes.
    fn queued(&self) -> usize {
        self.queue.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes.len()))
    }
}

#[derive(Debug)]
pub(super) struct Connections {
    /// The state while there are connections: an idle session has none.
    table: Option<Box<ConnectionTable>>,
    next: NonZeroU64,
    pub(super) setup: Setup,
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

impl ConnectionTable {
    fn new() -> Self {
        Self { open: Pending::new(), readable: InlineMap::new(), queued: 0, taken_bytes: 0 }
    }

    fn subtract_queued(&mut self, connection: &Connection) {
        self.taken_bytes = self.taken_bytes.saturating_sub(connection.taken_bytes);
        self.queued = self.queued.saturating_sub(connection.queued());
    }
}

impl Connections {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { table: None, next: NonZeroU64::MIN, setup: setup.clone() }
    }

    /// Changes a connection and the number of queued bytes, and then its deadline.
    fn change<R>(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut Connection, &mut usize) -> R,
    ) -> Option<R> {
        let table = self.table.as_deref_mut()?;
        let connection = table.open.get_mut(id)?;
        let result = change(connection, &mut table.queued);
        let deadline = match connection.waiting_since {
            Some(since) => Some(since + self.setup.config().server.write_timeout),
            None => connection.keepalive_at,
        };
        table.open.set_deadline(id, deadline);
        Some(result)
    }

    /// Marks a connection as one with new output.
    fn mark_readable(&mut self, id: ConnectionId) {
        if let Some(table) = &mut self.table {
            table.readable.insert(id, ());
        }
    }

    /// Whether there are no connections, nor any that a reader has yet to look at.
    #[cfg(feature = "std")]
    pub(super) fn is_unused(&self) -> bool {
        self.table.is_none()
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
            queue: InlineQueue::default(),
            taken_bytes: 0,
            ended: false,
            waiting_since: None,
            keepalive_at: now.after(patience),
        };
        let keepalive_at = connection.keepalive_at;
        let table = self.table.get_or_insert_with(|| Box::new(ConnectionTable::new()));
        table.open.insert(id, keepalive_at, connection);
        id
    }

    pub(super) fn set_head(&mut self, id: ConnectionId, head: ResponseHead) {
        if self.change(id, |connection, _| connection.head = Some(head)).is_some() {
            self.mark_readable(id);
        }
    }

    pub(super) fn send(&mut self, id: ConnectionId, number: u64, bytes: Bytes, now: Instant) {
        let quiet_until = now.after(self.setup.config().keepalive);
        let sent = self.change(id, |connection, queued| {
            if !connection.ended {
                *queued = queued.saturating_add(bytes.len());
                connection.queue.push_back((number, bytes));
                connection.waiting_since.get_or_insert(now);
                connection.keepalive_at = quiet_until;
            }
            !connection.ended
        });
        if sent == Some(true) {
            self.mark_readable(id);
        }
    }

    /// Sends a whole answer on a connection, and ends it.
    pub(super) fn answer(&mut self, id: ConnectionId, head: ResponseHead, body: Bytes, now: Instant) {
        let answered = self.change(id, |connection, queued| {
            connection.head = Some(head);
            if !body.is_empty() && !connection.ended {
                *queued = queued.saturating_add(body.len());
                connection.queue.push_back((0, body));
            }
            connection.ended = true;
            connection.waiting_since.get_or_insert(now);
        });
        if answered.is_some() {
            self.mark_readable(id);
        }
    }

    /// Ends a connection once its queued bytes are taken.
    pub(super) fn end(&mut self, id: ConnectionId, now: Instant) {
        let ended = self.change(id, |connection, _| {
            connection.ended = true;
            connection.waiting_since.get_or_insert(now);
        });
        if ended.is_some() {
            self.mark_readable(id);
        }
    }

    /// Ends a connection and discards its queued bytes: another connection has replaced it.
    pub(super) fn discard_queued(&mut self, id: ConnectionId, now: Instant) {
        self.change(id, |connection, queued| {
            *queued = queued.saturating_sub(connection.queued());
            connection.queue = InlineQueue::default();
        });
        self.end(id, now);
    }

    /// Removes a connection; returns its response stream.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<u64> {
        self.take_out(id).map(|connection| connection.stream)
    }

    fn take_out(&mut self, id: ConnectionId) -> Option<Connection> {
        let table = self.table.as_deref_mut()?;
        let connection = table.open.remove(id)?;
        table.readable.remove(&id);
        table.subtract_queued(&connection);
        self.release_unused();
        Some(connection)
    }

    /// Frees the table with its last connection.
    fn release_unused(&mut self) {
        self.table.take_if(|table| table.open.is_empty() && table.readable.is_empty());
    }

    /// Disables the keep-alive of a connection.
    pub(super) fn stop_keepalive(&mut self, id: ConnectionId) {
        self.change(id, |connection, _| connection.keepalive_at = None);
    }

    pub(super) fn head(&self, id: ConnectionId) -> Option<ResponseHead> {
        match self.table.as_ref().and_then(|table| table.open.get(id)) {
            Some(connection) => connection.head.clone(),
            None => Some(HttpResponse::empty(404).head()),
        }
    }

    /// Takes the next part of the body. Returns it with its stream and the number of its event, which is 0 if it is none.
    pub(super) fn take(&mut self, id: ConnectionId, now: Instant) -> Option<(Chunk, u64, u64)> {
        let (part, stream, before) = self.change(id, |connection, queued| {
            let part = connection.queue.pop_front();
            let taken = part.as_ref().map_or(0, |(_, bytes)| bytes.len());
            let before = core::mem::replace(&mut connection.taken_bytes, taken);
            *queued = queued.saturating_sub(taken);
            if part.is_some() {
                let more = connection.ended || !connection.queue.is_empty();
                connection.waiting_since = more.then_some(now);
            }
            (part.ok_or(connection.ended), connection.stream, before)
        })?;
        let taken = part.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let table = self.table.as_deref_mut()?;
        table.taken_bytes = table.taken_bytes.saturating_sub(before).saturating_add(taken);
        Some(match part {
            Ok((number, bytes)) => (Chunk::Bytes(bytes), stream, number),
            Err(false) => (Chunk::Pending, stream, 0),
            Err(true) => {
                self.remove(id);
                (Chunk::End, stream, 0)
            }
        })
    }

    /// The response stream of a connection whose whole output is at most one part.
    #[cfg(feature = "std")]
    pub(super) fn stream_of_whole(&self, id: ConnectionId) -> Option<u64> {
        let connection = self.table.as_ref()?.open.get(id)?;
        (connection.ended && connection.queue.len() <= 1).then_some(connection.stream)
    }

    /// Takes the only part of a connection that has ended, with the time until which it must be written, and removes the
    /// connection.
    #[cfg(feature = "std")]
    pub(super) fn take_whole(&mut self, id: ConnectionId) -> Option<(Bytes, Option<Instant>)> {
        let mut connection = self.take_out(id)?;
        let deadline = connection.waiting_since.map(|since| since + self.setup.config().server.write_timeout);
        Some((connection.queue.pop_front().map(|(_, bytes)| bytes).unwrap_or_default(), deadline))
    }

    /// Returns the next connection with new output.
    pub(super) fn poll_readable(&mut self) -> Option<ConnectionId> {
        let (id, ()) = self.table.as_deref_mut()?.readable.pop_first()?;
        self.release_unused();
        Some(id)
    }

    /// Returns the next connection with a timer that is due, and its stream. Either nothing was sent for the keep-alive
    /// interval, or the client does not read, and the connection was given up (`true`).
    pub(super) fn poll_due(&mut self, now: Instant) -> Option<(ConnectionId, u64, bool)> {
        let table = self.table.as_deref_mut()?;
        let (id, connection) = table.open.pop_expired(now)?;
        let (stream, is_given_up) = (connection.stream, connection.waiting_since.is_some());
        if is_given_up {
            table.subtract_queued(&connection);
            table.readable.insert(id, ());
        } else {
            table.open.insert(id, None, Connection { keepalive_at: None, ..connection });
        }
        Some((id, stream, is_given_up))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.table.as_ref()?.open.next_deadline()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.as_ref().is_none_or(|table| table.open.is_empty())
    }

    pub(super) fn queued(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.queued)
    }

    /// Returns the total length of the parts taken last, which may still be unwritten.
    pub(super) fn taken_bytes(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.taken_bytes)
    }
}

// The events that a session stores for clients that reconnect.
//
// The events of a response stream that was written to its end are *delivered*. They stay for a short grace period, and
// take up to a sixteenth of the session's bytes: a connection that breaks after the end of a body was taken does not
// report whether the last bytes arrived.

/// The overhead charged per event, in bytes.
const OVERHEAD: usize = 64;

/// Delivered events may take one part in this many of a session's bytes.
const DELIVERED_PART: usize = 16;

/// Stored events by response stream.
///
/// If there are too many, delivered events are evicted first, then the oldest of all; the newest stays whatever its
/// size.
#[derive(Debug)]
pub(super) struct EventStore {
    streams: OrderedMap<u64, StoredStream>,
    /// The stream of each event, by the event's position in the order of all events.
    order: OrderedMap<u64, u64>,
    next: u64,
    bytes: usize,
    /// The delivered streams and when each expires, oldest first.
    delivered: VecDeque<(u64, Instant)>,
    delivered_bytes: usize,
}

impl Initial for EventStore {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

#[derive(Debug, Default)]
struct StoredStream {
    events: VecDeque<StoredEvent>,
    bytes: usize,
}

#[derive(Debug)]
struct StoredEvent {
    /// Its position in the order of all events.
    position: u64,
    number: u64,
    event: Bytes,
}

impl EventStore {
    const fn new() -> Self {
        Self {
            streams: OrderedMap::new(),
            order: OrderedMap::new(),
            next: 0,
            bytes: 0,
            delivered: VecDeque::new(),
            delivered_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, stream: u64, number: u64, event: Bytes) {
        let cost = cost(&event);
        let place = self.next;
        self.next = place.saturating_add(1);
        self.order.insert(place, stream);
        let stored = self.streams.entry(stream).or_default();
        stored.bytes = stored.bytes.saturating_add(cost);
        stored.events.push_back(StoredEvent { position: place, number, event });
        self.bytes = self.bytes.saturating_add(cost);
    }

    /// Marks a stream as delivered: it has ended and was written to its end. It stays until `expiry`.
    pub(super) fn mark_delivered(&mut self, stream: u64, expiry: Instant) {
        if let Some(stored) = self.streams.get(&stream) {
            self.delivered_bytes = self.delivered_bytes.saturating_add(stored.bytes);
            self.delivered.push_back((stream, expiry));
        }
    }

    /// Drops the oldest delivered stream if its grace period is over; returns the stream.
    ///
    /// Call it until it returns `None`.
    pub(super) fn expire(&mut self, now: Instant) -> Option<u64> {
        self.next_expiry().filter(|due| *due <= now)?;
        self.evict_delivered()
    }

    /// Returns when the next delivered stream expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.delivered.front().map(|(_, due)| *due)
    }

    /// Drops the oldest delivered stream, or else the oldest event, if the limits are exceeded; returns its stream.
    ///
    /// Call it until it returns `None`.
    pub(super) fn evict(&mut self, max_events: usize, max_bytes: usize) -> Option<u64> {
        if self.delivered_bytes > max_bytes / DELIVERED_PART {
            return self.evict_delivered();
        }
        let too_much = self.order.len() > max_events || self.bytes > max_bytes;
        if too_much && self.order.len() > 1 { self.evict_any() } else { None }
    }

    /// Drops the oldest delivered stream, or else the oldest event; returns its stream.
    pub(super) fn evict_any(&mut self) -> Option<u64> {
        if let Some(stream) = self.evict_delivered() {
            return Some(stream);
        }
        let (_, stream) = self.order.pop_first()?;
        let stored = self.streams.get_mut(&stream)?;
        let cost = stored.events.pop_front().map_or(0, |stored| cost(&stored.event));
        stored.bytes = stored.bytes.saturating_sub(cost);
        self.bytes = self.bytes.saturating_sub(cost);
        if stored.events.is_empty() {
            self.streams.remove(&stream);
        }
        Some(stream)
    }

    fn evict_delivered(&mut self) -> Option<u64> {
        let (stream, _) = self.delivered.pop_front()?;
        if let Some(stored) = self.streams.remove(&stream) {
            self.bytes = self.bytes.saturating_sub(stored.bytes);
            self.delivered_bytes = self.delivered_bytes.saturating_sub(stored.bytes);
            for StoredEvent { position: place, .. } in stored.events {
                self.order.remove(&place);
            }
        }
        Some(stream)
    }

    pub(super) fn has_stream(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Returns the bytes of all events, including their overhead.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the events of a stream sent after event `number`, oldest first.
    pub(super) fn after(&self, stream: u64, number: u64) -> impl Iterator<Item = (u64, Bytes)> + use<'_> {
        //= S3.22 "replay only that stream"
        let events = self.streams.get(&stream).into_iter().flat_map(|stored| &stored.events);
        let later = events.filter(move |stored| stored.number > number);
        later.map(|stored| (stored.number, stored.event.clone()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.delivered.is_empty()
    }
}

fn cost(event: &Bytes) -> usize {
    event.len().saturating_add(OVERHEAD)
}
