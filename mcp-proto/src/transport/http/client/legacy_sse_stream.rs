//! State of the HTTP+SSE event stream (2024-11-05), which carries all server messages.

use crate::Instant;
use crate::transport::http::ExchangeId;

use super::address::Address;
use super::reconnect::STABLE_AFTER;

/// The event stream of HTTP+SSE, across reconnects.
#[derive(Debug, Default)]
pub(super) struct LegacySseStream {
    exchange: Option<ExchangeId>,
    /// The URL for messages, from the `endpoint` event.
    endpoint: Option<Address>,
    /// When the `endpoint` event arrived.
    endpoint_since: Option<Instant>,
    /// Whether a session was ever opened over it.
    ///
    /// If so, failures count as lost connections and not as failed detection.
    had_session: bool,
    /// The number of consecutive failures.
    failures: u32,
}

/// The state of a stream at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedStream {
    /// Whether the `endpoint` event had arrived.
    pub(super) had_endpoint: bool,
    /// Whether the stream has lasted long enough to count as working.
    pub(super) was_stable: bool,
}

impl LegacySseStream {
    pub(super) fn exchange(&self) -> Option<ExchangeId> {
        self.exchange
    }

    pub(super) fn endpoint(&self) -> Option<&Address> {
        self.endpoint.as_ref()
    }

    pub(super) fn had_session(&self) -> bool {
        self.had_session
    }

    /// Records that the stream was requested.
    pub(super) fn open(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
        self.endpoint = None;
    }

    /// Moves the request for the stream to another exchange.
    pub(super) fn move_to(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
    }

    pub(super) fn take_exchange(&mut self) -> Option<ExchangeId> {
        self.exchange.take()
    }

    /// Stores the URL for messages. Returns whether the server had named one before.
    pub(super) fn set_endpoint(&mut self, now: Instant, endpoint: Address) -> bool {
        self.endpoint = Some(endpoint);
        self.endpoint_since = Some(now);
        core::mem::replace(&mut self.had_session, true)
    }

    /// Ends the stream. A stable one resets the failures.
    ///
    /// That holds even if no request was made on it: proxies may end idle streams.
    pub(super) fn end(&mut self, now: Instant) -> EndedStream {
        self.exchange = None;
        let since = self.endpoint_since.take();
        let was_stable = since.is_some_and(|since| now.saturating_since(since) >= STABLE_AFTER);
        if was_stable {
            self.failures = 0;
        }
        EndedStream { had_endpoint: self.endpoint.take().is_some(), was_stable }
    }

    /// Counts a failure; returns the number before it, which is at least `least`.
    pub(super) fn count_failure(&mut self, least: u32) -> u32 {
        let failures = self.failures.max(least);
        self.failures = failures.saturating_add(1);
        failures
    }

    /// Records that a request was answered on the stream.
    pub(super) fn note_answered(&mut self) {
        self.failures = 0;
    }
}
