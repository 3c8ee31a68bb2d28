//! The HTTP+SSE transport (2024-11-05): one stream for all server messages, and a URL to post to.
//!
//! The end of the stream ends the session, and the client opens a new one.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use core::mem;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::{CloseReason, ConnectError};
use crate::peer::{CarriageState, LostReason, RequestId, RetryAdvice};
use crate::prelude::*;
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::address::Address;
use super::exchange::ExchangeKind;
use super::listen::STABLE_AFTER;
use super::response::{ExchangeOutcome, ResumePoint, http_error};

//= K6 "a transport of its own, to which detection falls back"
/// The event stream of HTTP+SSE, across reconnects.
#[derive(Debug, Default)]
pub(super) struct LegacySseStream {
    pub(super) exchange: Option<ExchangeId>,
    /// The URL for messages, from the `endpoint` event.
    endpoint: Option<Address>,
    /// When the `endpoint` event arrived.
    endpoint_since: Option<Instant>,
    /// Whether a session was ever opened over it.
    ///
    /// If so, failures count as lost connections and not as failed detection.
    had_session: bool,
    /// The number of consecutive failures.
    pub(super) failures: u32,
}

/// The timeout of the head of the event stream's response, and then again of its `endpoint` event.
pub(super) const EVENTS_TIMEOUT: Duration = Duration::from_secs(5);

impl HttpClient {
    /// Requests the event stream.
    pub(super) fn open_events(&mut self, now: Instant) {
        if let Ok(exchange) = self.open_exchange(ExchangeKind::Events) {
            let events = self.legacy_sse.get_or_insert_default();
            (events.exchange, events.endpoint) = (Some(exchange), None);
        }
        self.timers.events = Some(now + EVENTS_TIMEOUT);
    }

    /// Closes the event stream: detection continues with another transport.
    pub(super) fn close_events(&mut self) {
        self.timers.events = None;
        if let Some(exchange) = self.legacy_sse.take().and_then(|events| events.exchange) {
            self.abort_exchange(exchange);
        }
    }

    /// Handles the `endpoint` event, the first of the stream, which names the URL for messages.
    pub(super) fn handle_endpoint(&mut self, now: Instant, id: ExchangeId, data: &Bytes) {
        let Some(events) = self.legacy_sse.as_mut().filter(|events| events.endpoint.is_none()) else {
            return;
        };
        let Some(exchange) = self.exchanges.get(id) else { return };
        let reference = core::str::from_utf8(data).unwrap_or_default().trim();
        let Some(endpoint) = exchange.url.resolve_same_origin(reference) else {
            self.abort_exchange(id);
            let what = "the endpoint that it names is not at the same origin";
            return self.fail_events(now, ExchangeOutcome::NoAnswer(http_error(200, what)), what);
        };
        (events.endpoint, events.endpoint_since) = (Some(endpoint), Some(now));
        let known = mem::replace(&mut events.had_session, true);
        self.timers.events = None;
        self.resume_detection(now);
        let act = match self.peer.server().filter(|_| known) {
            Some(server) => self.detection.repeat_handshake(now, server.revision),
            None => self.detection.handle_events(now, Ok(())),
        };
        self.perform_detection(now, act);
    }

    /// Handles a stream that has ended or never began.
    pub(super) fn handle_events_end(&mut self, now: Instant, ended: ExchangeOutcome) {
        self.timers.events = None;
        let detail = match &ended {
            ExchangeOutcome::Unanswered(error, _)
            | ExchangeOutcome::NoAnswer(error)
            | ExchangeOutcome::Error { http: error, .. }
            | ExchangeOutcome::Invalid(_, error) => error.to_string(),
            ExchangeOutcome::Result { status, .. } => http_error(*status, "").to_string(),
            ExchangeOutcome::Unreachable { detail } | ExchangeOutcome::Broken { detail, .. } => {
                detail.clone()
            }
        };
        self.fail_events(now, ended, &detail);
    }

    /// Handles the stream's timer: the `endpoint` event is overdue, or a pause before reopening the stream is over.
    pub(super) fn handle_events_timer(&mut self, now: Instant) {
        let Some(events) = &mut self.legacy_sse else { return };
        let Some(exchange) = events.exchange.take() else { return self.open_events(now) };
        self.abort_exchange(exchange);
        let detail = "no `endpoint` event came in time";
        self.fail_events(now, ExchangeOutcome::broken(detail), detail);
    }

    fn fail_events(&mut self, now: Instant, ended: ExchangeOutcome, detail: &str) {
        self.resume_detection(now);
        let Some(events) = &mut self.legacy_sse else { return };
        events.exchange = None;
        let had_endpoint = events.endpoint.take().is_some();
        let since = events.endpoint_since.take();
        let was_stable = since.is_some_and(|since| now.saturating_since(since) >= STABLE_AFTER);
        if !events.had_session {
            let act = self.detection.handle_events(now, Err(ended));
            return self.perform_detection(now, act);
        }
        // A stable stream counts even if no request was made on it: proxies may end idle streams.
        if was_stable {
            events.failures = 0;
            self.session.fruitless_renewals = 0;
        }
        if had_endpoint && !self.handshakes.is_empty() {
            // The answer to the handshake was expected on the stream.
            self.session.fruitless_renewals = self.session.fruitless_renewals.saturating_add(1);
        }
        let backoff = self.config.backoff;
        let failures = events.failures.max(self.session.fruitless_renewals);
        events.failures = failures.saturating_add(1);
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
        self.timers.events = Some(now + pause.max(retry.unwrap_or(Duration::ZERO)));
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
        let events = self.legacy_sse.as_mut().filter(|events| events.had_session);
        let Some(exchange) = events.and_then(|events| events.exchange.take()) else { return false };
        self.abort_exchange(exchange);
        self.session.fruitless_renewals = self.session.fruitless_renewals.saturating_add(1);
        let detail = error.to_string();
        self.fail_events(now, ExchangeOutcome::broken(&detail), &detail);
        true
    }

    /// Fails the requests that the server can no longer answer.
    fn fail_sent_calls(&mut self, now: Instant, detail: &str) {
        for number in self.peer.carried(|call| call.exchange().is_some()) {
            if let Some(exchange) = self.exchange_of(number) {
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

    /// Returns whether the answer to a message arrives on the HTTP+SSE stream.
    pub(super) fn is_answered_on_sse(&self, kind: &ExchangeKind) -> bool {
        self.legacy_sse.is_some()
            && matches!(
                kind,
                ExchangeKind::Call(_) | ExchangeKind::Handshake { probe: None, .. } | ExchangeKind::Post(_)
            )
    }

    /// Marks a request as accepted by the server, which answers it on the stream.
    pub(super) fn mark_accepted(&mut self, number: RequestId) {
        self.note_success(number);
        self.peer.update_carriage(number, |call| {
            call.has_slot = false;
            call.state = CarriageState::Accepted;
        });
    }

    /// Returns the URL for messages.
    pub(super) fn post_url(&self) -> Address {
        let endpoint = self.legacy_sse.as_ref().and_then(|events| events.endpoint.as_ref());
        endpoint.unwrap_or(&self.url).clone()
    }
}
