//! Events that wait for the application, within bounds.

use crate::inline_map::InlineQueue;
use crate::rpc::{ErrorObject, Malformed, Raw, Text};

/// What is charged for an event beside the bytes it holds.
const OVERHEAD: usize = 64;

/// How full the queue is: what may still be put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Anything.
    None,
    /// Notifications are dropped.
    Notifications,
    /// Requests of the other side are refused as well.
    Requests,
    /// Results are lost as well; only that a request ended is kept.
    Results,
}

/// How many events may wait as slices of the input. Each may hold on to all the input that was read with it, so what
/// waits behind them is copied out.
const MAX_SLICES: usize = 16;

/// What an event must be able to do to wait for long.
pub(crate) trait MakeOwned {
    /// Copies what it has of the input into memory of its own.
    fn make_owned(&mut self);
}

impl MakeOwned for ErrorObject {
    fn make_owned(&mut self) {
        self.data = self.data.as_ref().map(Raw::detached);
    }
}

impl MakeOwned for Malformed {
    fn make_owned(&mut self) {
        self.recovered.method = self.recovered.method.as_ref().map(Text::detached);
    }
}

/// A queue of events in wire order that knows its size.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    events: InlineQueue<(E, usize)>,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
    dropped: u64,
}

impl<E: MakeOwned> EventQueue<E> {
    pub(crate) fn new(most_events: usize, most_bytes: usize) -> Self {
        Self {
            events: InlineQueue::default(),
            bytes: 0,
            max_events: most_events,
            max_bytes: most_bytes,
            dropped: 0,
        }
    }

    /// How full the queue would be with `bytes` more.
    pub(crate) fn pressure(&self, bytes: usize) -> Pressure {
        let fits = |tenths: usize| {
            // Rounded up, so that the least of limits leaves room for something.
            let part = |most: usize| {
                let rest = (most % 10).saturating_mul(tenths).div_ceil(10);
                (most / 10).saturating_mul(tenths).saturating_add(rest)
            };
            self.events.len() < part(self.max_events)
                && self.bytes.saturating_add(bytes) <= part(self.max_bytes)
        };
        match () {
            () if fits(5) => Pressure::None,
            () if fits(7) => Pressure::Notifications,
            () if fits(10) => Pressure::Requests,
            () => Pressure::Results,
        }
    }

    /// Queues an event that must not be lost; there are only as many as there are requests, commands and links.
    pub(crate) fn push(&mut self, mut event: E, bytes: usize) {
        if self.events.len() >= MAX_SLICES {
            event.make_owned();
        }
        let bytes = bytes.saturating_add(OVERHEAD);
        self.bytes = self.bytes.saturating_add(bytes);
        self.events.push_back((event, bytes));
    }

    /// Queues an event if there is room for it, and counts it otherwise.
    pub(crate) fn push_or_drop(&mut self, event: E, bytes: usize) {
        if self.pressure(bytes) == Pressure::None {
            self.push(event, bytes);
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<E> {
        let (event, bytes) = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(event)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many events were dropped since this was last asked, if any.
    pub(crate) fn take_dropped(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.dropped)).filter(|&dropped| dropped > 0)
    }
}
