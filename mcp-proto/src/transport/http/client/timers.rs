//! What the client waits for by the clock.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::Instant;
use crate::transport::http::ExchangeId;

/// What is to be done at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A request goes out once more, or its stream is asked for again.
    Call(i64),
    /// What nobody waits for, such as what follows an answer, has gone on for long enough.
    Drain(ExchangeId),
    /// The stream of events is asked for again.
    Listen,
    /// The stream of HTTP+SSE should have got further.
    Events,
    /// The notification that opens a session goes out once more, or should have been answered.
    Opening,
    /// Messages that are not answered go out once more.
    Posts,
    /// The tools should have been listed.
    Relist,
}

/// Timers by what they are for: there is one of each.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, Timer)>,
    deadlines: BTreeMap<Timer, Instant>,
}

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.clear(timer);
        self.deadlines.insert(timer, at);
        self.due.insert((at, timer));
    }

    /// Sets a timer unless it is set already.
    pub(super) fn set_if_unset(&mut self, timer: Timer, at: Instant) {
        if !self.deadlines.contains_key(&timer) {
            self.set(timer, at);
        }
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        if let Some(at) = self.deadlines.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    pub(super) fn clear_all(&mut self) {
        self.due.clear();
        self.deadlines.clear();
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let &(at, timer) = self.due.first().filter(|&&(at, _)| at <= now)?;
        self.due.remove(&(at, timer));
        self.deadlines.remove(&timer);
        Some(timer)
    }
}
