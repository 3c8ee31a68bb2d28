//! The events that a session stores for clients that reconnect.
//!
//! The events of a response stream that was written to its end are *delivered*. They stay for a short grace period, and
//! take up to a sixteenth of the session's bytes: a connection that breaks after the end of a body was taken does not
//! report whether the last bytes arrived.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::Instant;
use crate::lazy_box::Initial;

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
    streams: BTreeMap<u64, StoredStream>,
    /// The stream of each event, by the event's position in the order of all events.
    order: BTreeMap<u64, u64>,
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
            streams: BTreeMap::new(),
            order: BTreeMap::new(),
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
