//! Schedule of the pings to a legacy server.

use core::time::Duration;

use crate::Instant;

use super::Keepalive;

/// The minimum interval between pings, regardless of the configuration: pings without a pause would block all other
/// work.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The pings of one client. They run between [`start`](Self::start) and [`stop`](Self::stop), if configured.
#[derive(Debug)]
pub(super) struct Pings {
    config: Option<Keepalive>,
    /// When the next ping is due; `None` while they do not run.
    next: Option<Instant>,
    /// The ping in flight: its number and its deadline.
    in_flight: Option<(i64, Instant)>,
    /// The number of consecutive pings without an answer.
    misses: u32,
}

/// The next action for the pings.
pub(super) enum PingAction {
    /// Send a ping, and [note its number](Pings::note_sent).
    Send,
    /// Report a ping without an answer, the last of `misses`. If it `is_final`, the connection is lost.
    Missed { misses: u32, is_final: bool },
}

impl Pings {
    pub(super) fn new(config: Option<Keepalive>) -> Self {
        Self { config, next: None, in_flight: None, misses: 0 }
    }

    pub(super) fn start(&mut self, now: Instant) {
        *self = Self::new(self.config);
        self.schedule(now);
    }

    pub(super) fn stop(&mut self) {
        *self = Self::new(self.config);
    }

    /// When [`poll`](Self::poll) has an action.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.in_flight.map(|(_, until)| until).or(self.next)
    }

    /// The action that is due, if any.
    pub(super) fn poll(&mut self, now: Instant) -> Option<PingAction> {
        let config = self.config?;
        if self.deadline()? > now {
            return None;
        }
        self.schedule(now);
        if self.in_flight.take().is_none() {
            return Some(PingAction::Send);
        }
        self.misses = self.misses.saturating_add(1);
        Some(PingAction::Missed { misses: self.misses, is_final: self.misses >= config.misses })
    }

    pub(super) fn note_sent(&mut self, now: Instant, number: i64) {
        self.in_flight = self.config.map(|config| (number, now + config.timeout));
    }

    /// Takes the answer to the request of this number, if it is the ping in flight. Returns whether it is.
    pub(super) fn take_answer(&mut self, number: i64) -> bool {
        let answered = self.in_flight.take_if(|(ping, _)| *ping == number).is_some();
        if answered {
            self.misses = 0;
        }
        answered
    }

    /// Counts the timeout of the ping in flight from the time that `since` returns for it, if that is later.
    pub(super) fn suspend_deadline(&mut self, since: impl Fn(i64) -> Option<Instant>) {
        if let (Some(config), Some((number, deadline))) = (self.config, &mut self.in_flight)
            && let Some(since) = since(*number)
        {
            *deadline = (*deadline).max(since + config.timeout);
        }
    }

    fn schedule(&mut self, now: Instant) {
        self.next = self.config.map(|config| now + config.interval.max(MIN_INTERVAL));
    }
}
