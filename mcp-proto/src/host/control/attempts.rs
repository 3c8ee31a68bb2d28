//! The bound on reconnections over all servers.

use alloc::collections::{BTreeSet, VecDeque};
use core::time::Duration;

use crate::Instant;
use crate::host::config::ServerId;

const MINUTE: Duration = Duration::from_secs(60);

/// Counts the attempts of the last minute, and queues servers in the order in which their attempts were due.
#[derive(Debug)]
pub(super) struct AttemptLimit {
    limit: usize,
    /// The attempts of the last minute, the oldest first.
    recent: VecDeque<Instant>,
    queued: BTreeSet<(Instant, ServerId)>,
}

impl AttemptLimit {
    /// At least one attempt a minute is allowed: with none a server would wait forever.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), recent: VecDeque::new(), queued: BTreeSet::new() }
    }

    /// Whether an attempt that was due at `due` may be made at `now`. If not, it is queued.
    pub(super) fn admit(&mut self, now: Instant, due: Instant, server: ServerId) -> bool {
        self.queued.insert((due, server));
        if self.queued.first() == Some(&(due, server)) && self.is_open(now) {
            self.queued.remove(&(due, server));
            self.recent.push_back(now);
            return true;
        }
        false
    }

    /// The next queued server whose attempt may be made at `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<ServerId> {
        if self.queued.is_empty() || !self.is_open(now) {
            return None;
        }
        let (_, server) = self.queued.pop_first()?;
        self.recent.push_back(now);
        Some(server)
    }

    pub(super) fn remove(&mut self, due: Instant, server: ServerId) {
        self.queued.remove(&(due, server));
    }

    /// When the next queued attempt may be made.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.queued.is_empty() {
            return None;
        }
        Some(
            self.recent
                .front()
                .filter(|_| self.recent.len() >= self.limit)
                .map_or(Instant::ORIGIN, |&oldest| oldest + MINUTE),
        )
    }

    fn is_open(&mut self, now: Instant) -> bool {
        while self.recent.front().is_some_and(|&oldest| oldest + MINUTE <= now) {
            self.recent.pop_front();
        }
        self.recent.len() < self.limit
    }
}
