//! Timers of detection: of the present step, and of connecting as a whole.

use core::time::Duration;

use crate::Instant;
use crate::peer::client::ConnectTimeouts;

#[derive(Debug)]
pub(super) struct DetectTimers {
    pub(super) config: ConnectTimeouts,
    step: Option<Instant>,
    /// The duration that the timer of the step was set for.
    step_timeout: Duration,
    total: Option<Instant>,
    /// When the present link was opened.
    opened_at: Option<Instant>,
}

impl DetectTimers {
    pub(super) fn new(config: ConnectTimeouts) -> Self {
        Self { config, step: None, step_timeout: Duration::ZERO, total: None, opened_at: None }
    }

    /// When the next timer is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.step, self.total].into_iter().flatten().min()
    }

    /// Stops both timers.
    pub(super) fn stop(&mut self) {
        (self.step, self.total) = (None, None);
    }

    // --- The total timeout ---

    /// Starts the total timeout, unless it runs already.
    pub(super) fn start(&mut self, now: Instant) {
        self.total.get_or_insert(now + self.config.total);
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.total.is_some_and(|end| end <= now)
    }

    /// The time left for connecting.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.total.map(|end| end.saturating_since(now))
    }

    pub(super) fn note_opened(&mut self, now: Instant) {
        self.opened_at = Some(now);
    }

    /// Whether time remains for another start, even one that takes twice as long as the start of the present link.
    pub(super) fn has_time_to_restart(&self, now: Instant) -> bool {
        let (Some(opened), Some(rest)) = (self.opened_at, self.remaining(now)) else { return false };
        now.saturating_since(opened).saturating_mul(2) <= rest
    }

    // --- The timeout of the step ---

    pub(super) fn start_step(&mut self, now: Instant, timeout: Duration) {
        self.step_timeout = timeout;
        self.step = Some(now + timeout);
    }

    /// Shortens the timeout of the step.
    pub(super) fn limit_step(&mut self, until: Instant) {
        self.step = self.step.map(|timer| timer.min(until));
    }

    pub(super) fn stop_step(&mut self) {
        self.step = None;
    }

    /// Returns the timeout of the step if it is over, and stops its timer.
    pub(super) fn take_step_timeout(&mut self, now: Instant) -> Option<Duration> {
        self.step.take_if(|timer| *timer <= now).map(|_| self.step_timeout)
    }
}
