//! A bounded queue of events for the application.

use crate::inline_map::InlineQueue;
use crate::rpc::{ErrorObject, Malformed, Raw, Text};

/// The size charged for an event beside its own bytes.
const OVERHEAD: usize = 64;

/// The pressure on the event queue: the kinds of events that it no longer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Every event is taken.
    None,
    /// Notifications are dropped.
    Notifications,
    /// Requests of the other side are refused as well.
    Requests,
    /// Results are dropped as well; the application still learns that the request has ended.
    Results,
}

/// The number of events that may be queued as slices of the input. Each slice may keep all the input alive that was
/// read with it, so further events are copied out.
const MAX_SLICES: usize = 16;

/// Events that can detach themselves from the input.
pub(crate) trait MakeOwned {
    /// Copies slices of the input into memory of its own.
    fn make_owned(&mut self);
}

impl MakeOwned for ErrorObject {
    fn make_owned(&mut self) {
        self.data = self.data.as_ref().map(Raw::detached);
    }
}

impl MakeOwned for Malformed {
    fn make_owned(&mut self) {
        self.recovered.method = self.recovered.method.as_deref().map(Text::from);
    }
}

/// A queue of events in wire order that knows its size.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    events: InlineQueue<(E, usize)>,
    bytes: usize,
    max_bytes: usize,
    max_events: u32,
    dropped: u32,
}

impl<E: MakeOwned> EventQueue<E> {
    pub(crate) fn new(most_events: usize, most_bytes: usize) -> Self {
        Self {
            events: InlineQueue::default(),
            bytes: 0,
            max_events: most_events.try_into().unwrap_or(u32::MAX),
            max_bytes: most_bytes,
            dropped: 0,
        }
    }

    /// The pressure with `bytes` more in the queue.
    pub(crate) fn pressure(&self, bytes: usize) -> Pressure {
        let fits = |tenths: usize| {
            // Rounded up, so that even the smallest limits leave some room.
            let part = |most: usize| {
                let rest = (most % 10).saturating_mul(tenths).div_ceil(10);
                (most / 10).saturating_mul(tenths).saturating_add(rest)
            };
            self.events.len() < part(self.max_events as usize)
                && self.bytes.saturating_add(bytes) <= part(self.max_bytes)
        };
        match () {
            () if fits(5) => Pressure::None,
            () if fits(7) => Pressure::Notifications,
            () if fits(10) => Pressure::Requests,
            () => Pressure::Results,
        }
    }

    /// Queues an event that must not be lost; their number is bounded by requests, commands and links.
    pub(crate) fn push(&mut self, mut event: E, bytes: usize) {
        if self.events.len() >= MAX_SLICES {
            event.make_owned();
        }
        let bytes = bytes.saturating_add(OVERHEAD);
        self.bytes = self.bytes.saturating_add(bytes);
        self.events.push_back((event, bytes));
    }

    /// Queues an event if there is room for it; otherwise counts it as dropped.
    pub(crate) fn push_or_drop(&mut self, event: E, bytes: usize) {
        if self.has_room(bytes) {
            self.push(event, bytes);
        } else {
            self.note_dropped();
        }
    }

    /// Whether a notification of `bytes` bytes has room.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.pressure(bytes) == Pressure::None
    }

    /// Counts a notification that was dropped before it was queued.
    pub(crate) fn note_dropped(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }

    pub(crate) fn pop(&mut self) -> Option<E> {
        let (event, bytes) = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(event)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether the queue is empty, and no dropped event is unreported.
    #[cfg(any(feature = "client", feature = "server"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.dropped == 0
    }

    /// The number of events dropped since the last call, if any.
    pub(crate) fn take_dropped(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.dropped).into()).filter(|&dropped| dropped > 0)
    }
}
