//! The one event stream of HTTP+SSE (2024-11-05), on which the server says everything.

use crate::Instant;
use crate::transport::http::ExchangeId;

use super::address::Address;
use super::reconnect::STABLE_AFTER;

/// The event stream of HTTP+SSE, through its reconnects.
#[derive(Debug, Default)]
pub(super) struct LegacySseStream {
    exchange: Option<ExchangeId>,
    /// The URL for messages, once the server has named it.
    endpoint: Option<Address>,
    /// When the server named it.
    endpoint_since: Option<Instant>,
    /// Whether a session was ever opened over it: then a failure is not one of the first attempt.
    had_session: bool,
    /// How often in a row the stream ended.
    failures: u32,
}

/// What a stream that ended had come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedStream {
    /// Whether the server had named the URL for messages.
    pub(super) had_endpoint: bool,
    /// Whether the stream has lasted long enough to count as one that works.
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

    /// The stream was requested.
    pub(super) fn open(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
        self.endpoint = None;
    }

    /// The request for the stream goes on in another exchange.
    pub(super) fn move_to(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
    }

    pub(super) fn take_exchange(&mut self) -> Option<ExchangeId> {
        self.exchange.take()
    }

    /// The server has named the URL for messages. Returns whether it had named one before.
    pub(super) fn set_endpoint(&mut self, now: Instant, endpoint: Address) -> bool {
        self.endpoint = Some(endpoint);
        self.endpoint_since = Some(now);
        core::mem::replace(&mut self.had_session, true)
    }

    /// The stream ended. One that was stable resets the failures, even if nothing was asked on it: a proxy may end
    /// streams that are idle.
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

    /// A request was answered on the stream.
    pub(super) fn note_answered(&mut self) {
        self.failures = 0;
    }
}
