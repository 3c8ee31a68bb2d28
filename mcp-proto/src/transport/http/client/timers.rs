//! The client's timers.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::Instant;
use crate::transport::http::ExchangeId;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Resend a request, or resume its stream.
    Call(i64),
    /// Abort an exchange whose remaining body is not needed, such as after an answer.
    Drain(ExchangeId),
    /// Request the stream of the server's own messages again.
    Listen,
    /// Reopen the HTTP+SSE stream, or give up waiting for its `endpoint` event.
    Events,
    /// Resend the notification that opens a session, or stop waiting for its response.
    Opening,
    /// Resend one-way messages.
    Posts,
    /// Give up listing the tools.
    Relist,
}

/// The timers that are set, at most one of each kind.
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
