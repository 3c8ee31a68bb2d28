//! The stream of a legacy server's own messages, requested by GET.

use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, SplitMix64};
use crate::transport::http::ExchangeId;

use super::reconnect::{MIN_PAUSE, Reconnects, STABLE_AFTER, StreamProgress};
use super::response::ResumePoint;

/// The stream of a legacy server's own messages, across reconnects.
#[derive(Debug, Default)]
pub(super) struct Listener {
    exchange: Option<ExchangeId>,
    /// Whether it is requested again after a pause.
    is_pausing: bool,
    last_event: Option<Arc<str>>,
    /// The reconnection delay that the server asked for.
    retry: Option<Duration>,
    /// When the current stream began.
    started_at: Option<Instant>,
    /// The streams that have ended.
    reconnects: Reconnects,
}

impl Listener {
    /// Returns the event after which the next stream resumes.
    pub(super) fn last_event(&self) -> Option<Arc<str>> {
        self.last_event.clone()
    }

    /// Records the exchange in which the stream is requested.
    pub(super) fn open(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
        self.is_pausing = false;
    }

    /// Returns whether the stream is open, or requested, or is requested again after a pause.
    pub(super) fn is_active(&self) -> bool {
        self.exchange.is_some() || self.is_pausing
    }

    /// Records that the server has begun the stream.
    pub(super) fn start(&mut self, now: Instant) {
        self.started_at = Some(now);
    }

    /// Handles the end or refusal of the stream; returns when it began.
    pub(super) fn end(&mut self) -> Option<Instant> {
        self.exchange = None;
        self.started_at.take()
    }

    /// Discards the stream; returns its exchange.
    pub(super) fn stop(&mut self) -> Option<ExchangeId> {
        core::mem::take(self).exchange
    }

    /// Returns the pause before the next stream; `None` if too many streams have failed in a row.
    ///
    /// The last one began at `began` and ended at `trail`.
    pub(super) fn next_pause(
        &mut self,
        now: Instant,
        began: Option<Instant>,
        trail: ResumePoint,
        default_retry: Duration,
        backoff: &Backoff,
        rng: &mut SplitMix64,
    ) -> Option<Duration> {
        let was_stable = began.is_some_and(|began| now.saturating_since(began) >= STABLE_AFTER);
        let progress = if was_stable { StreamProgress::Message } else { StreamProgress::from(&trail) };
        self.retry = trail.retry.or(self.retry);
        self.last_event = trail.last_event.or(self.last_event.take());
        if progress == StreamProgress::Nothing && self.reconnects.failures() >= backoff.attempts {
            return None;
        }
        let retry = self.retry.unwrap_or(default_retry);
        self.is_pausing = true;
        Some(self.reconnects.next_pause(progress, retry, backoff, rng).max(MIN_PAUSE))
    }
}
