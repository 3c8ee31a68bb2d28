//! State of the HTTP+SSE event stream (2024-11-05), which carries all server messages.
//!
//! The HTTP+SSE transport (2024-11-05): one stream for all server messages, and a URL to post to.
//!
//! The end of the stream ends the session, and the client opens a new one.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use alloc::string::ToString;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::{CloseReason, ConnectError};
use crate::peer::{LostReason, RetryAdvice};
use crate::transport::http::{ExchangeId, Verb};

use super::address::Address;
use super::call::CallState;
use super::exchange::ExchangeKind;
use super::listen::STABLE_AFTER;
use super::response::{ExchangeOutcome, ResumePoint, http_error};
use super::{HttpClient, Timer};

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

/// The timeout of the head of the event stream's response, and then again of its `endpoint` event.
pub(super) const EVENTS_TIMEOUT: Duration = Duration::from_secs(5);

impl HttpClient {
    /// Requests the event stream.
    pub(super) fn open_events(&mut self, now: Instant) {
        let headers = self.session_headers().get(None);
        let url = self.url.clone();
        let exchange = self.begin_exchange(ExchangeKind::Events, Verb::Get, url, headers, Bytes::new());
        self.legacy_sse.get_or_insert_default().open(exchange);
        self.timers.set(Timer::Events, now + EVENTS_TIMEOUT);
    }

    /// Closes the event stream: detection continues with another transport.
    pub(super) fn close_events(&mut self) {
        self.timers.clear(Timer::Events);
        if let Some(exchange) = self.legacy_sse.take().and_then(|events| events.exchange()) {
            self.abort_exchange(exchange);
        }
    }

    /// Handles the head of the stream's response; from now on the `endpoint` event is due.
    pub(super) fn handle_events_head(&mut self, now: Instant) {
        self.timers.set(Timer::Events, now + EVENTS_TIMEOUT);
    }

    /// Handles the `endpoint` event, the first of the stream, which names the URL for messages.
    pub(super) fn handle_endpoint(&mut self, now: Instant, id: ExchangeId, data: &Bytes) {
        let Some(events) = self.legacy_sse.as_mut().filter(|events| events.endpoint().is_none()) else {
            return;
        };
        let Some(exchange) = self.exchanges.get(id) else { return };
        let reference = core::str::from_utf8(data).unwrap_or_default().trim();
        let Some(endpoint) = exchange.url.resolve_same_origin(reference) else {
            self.abort_exchange(id);
            let what = "the endpoint that it names is not at the same origin";
            return self.fail_events(now, ExchangeOutcome::NoAnswer(http_error(200, what)), what);
        };
        let known = events.set_endpoint(now, endpoint);
        self.timers.clear(Timer::Events);
        self.resume_detection(now);
        let act = match self.peer.server().filter(|_| known) {
            Some(server) => self.detection.repeat_handshake(now, server.revision),
            None => self.detection.handle_events(now, Ok(())),
        };
        self.perform_detection(now, act);
    }

    /// Handles a stream that has ended or never began.
    pub(super) fn handle_events_end(&mut self, now: Instant, ended: ExchangeOutcome) {
        self.timers.clear(Timer::Events);
        let detail = match &ended {
            ExchangeOutcome::Answer { http: error, .. }
            | ExchangeOutcome::Unanswered(error, _)
            | ExchangeOutcome::NoAnswer(error)
            | ExchangeOutcome::Invalid(_, error) => error.to_string(),
            ExchangeOutcome::Unreachable { detail } | ExchangeOutcome::Broken { detail, .. } => {
                detail.clone()
            }
        };
        let ended = match ended {
            // No message answers the GET itself.
            ExchangeOutcome::Answer { http, .. } => ExchangeOutcome::NoAnswer(http),
            ended => ended,
        };
        self.fail_events(now, ended, &detail);
    }

    /// Handles the timeout of the stream's head or `endpoint` event.
    pub(super) fn time_out_events(&mut self, now: Instant) {
        if let Some(exchange) = self.legacy_sse.as_mut().and_then(LegacySseStream::take_exchange) {
            self.abort_exchange(exchange);
        }
        let detail = "no `endpoint` event came in time";
        self.fail_events(now, ExchangeOutcome::broken(detail), detail);
    }

    fn fail_events(&mut self, now: Instant, ended: ExchangeOutcome, detail: &str) {
        self.resume_detection(now);
        let Some(events) = &mut self.legacy_sse else { return };
        let had_session = events.had_session();
        let EndedStream { had_endpoint, was_stable } = events.end(now);
        if !had_session {
            let act = self.detection.handle_events(now, Err(ended));
            return self.perform_detection(now, act);
        }
        if was_stable {
            self.session.note_stable();
        }
        if had_endpoint && !self.handshakes.is_empty() {
            // The answer to the handshake was expected on the stream.
            self.session.note_fruitless();
        }
        let backoff = self.config.backoff;
        let failures = events.count_failure(self.session.fruitless_renewals());
        if self.peer.restart_detection() {
            self.discard_session(now);
            self.fail_sent_calls(now, detail);
        }
        if failures >= backoff.attempts || !self.is_detecting() {
            return self.peer.close_lost(CloseReason::Lost(LostReason::Disconnected(detail.into())));
        }
        let retry = match ended {
            ExchangeOutcome::Unanswered(_, trail) | ExchangeOutcome::Broken { trail, .. } => trail.retry,
            ExchangeOutcome::NoAnswer(error) => error.retry_after,
            _ => None,
        };
        let pause = backoff.pause(failures, &mut self.rng);
        self.timers.set(Timer::Events, now + pause.max(retry.unwrap_or(Duration::ZERO)));
    }

    /// Reopens the stream after a temporary failure of the handshake beside it, if there was a session before.
    ///
    /// Returns whether there was.
    pub(super) fn reopen_events(&mut self, now: Instant, error: &ConnectError) -> bool {
        let temporary = match error {
            ConnectError::Failed { .. } | ConnectError::TimedOut { .. } | ConnectError::NotReady { .. } => {
                true
            }
            ConnectError::Transport { error, .. } => error.retry == RetryAdvice::Later,
            _ => false,
        };
        if !temporary || self.peer.server().is_none() {
            return false;
        }
        let exchange = self
            .legacy_sse
            .as_mut()
            .filter(|events| events.had_session())
            .and_then(LegacySseStream::take_exchange);
        let Some(exchange) = exchange else { return false };
        self.abort_exchange(exchange);
        self.session.note_fruitless();
        let detail = error.to_string();
        self.fail_events(now, ExchangeOutcome::broken(&detail), &detail);
        true
    }

    /// Fails the requests that the server can no longer answer.
    fn fail_sent_calls(&mut self, now: Instant, detail: &str) {
        for number in self.calls.numbers(|call| matches!(call.state, CallState::InExchange(_))) {
            if let Some(exchange) = self.calls.exchange_of(number) {
                let is_parked = self.exchanges.is_parked(exchange);
                self.abort_exchange(exchange);
                if is_parked {
                    self.requeue(now, number);
                    continue;
                }
            }
            self.handle_broken_call(now, number, detail, ResumePoint::default());
        }
        self.fail_accepted_calls(now, detail);
    }

    /// Handles the stream's timer: the `endpoint` event is overdue, or a pause before reopening the stream is over.
    pub(super) fn handle_events_timer(&mut self, now: Instant) {
        match self.legacy_sse.as_ref().map(LegacySseStream::exchange) {
            Some(Some(_)) => self.time_out_events(now),
            Some(None) => self.open_events(now),
            None => {}
        }
    }

    /// Returns whether the answer to a message arrives on the HTTP+SSE stream.
    pub(super) fn is_answered_on_sse(&self, purpose: &ExchangeKind) -> bool {
        self.legacy_sse.is_some()
            && matches!(
                purpose,
                ExchangeKind::Call(_) | ExchangeKind::Initialize { .. } | ExchangeKind::Post(_)
            )
    }

    /// Marks a request as accepted by the server, which answers it on the stream.
    pub(super) fn mark_accepted(&mut self, purpose: &ExchangeKind) {
        let &ExchangeKind::Call(number) = purpose else { return };
        self.note_success(number);
        self.calls.free_slot(number);
        self.calls.set_state(number, CallState::Accepted);
    }

    /// Returns the URL for messages.
    pub(super) fn post_url(&self) -> Address {
        let endpoint = self.legacy_sse.as_ref().and_then(LegacySseStream::endpoint);
        endpoint.unwrap_or(&self.url).clone()
    }
}
