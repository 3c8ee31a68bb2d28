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

use super::HttpClient;
use super::address::Address;
use super::call_table::CallState;
use super::exchange::ExchangeKind;
use super::head::http_error;
use super::legacy_sse_stream::{EndedStream, LegacySseStream};
use super::response::{ExchangeOutcome, ResumePoint};
use super::timers::Timer;

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
