//! The legacy session of a client: opened by `initialize`, renewed when the server has lost it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use crate::Instant;
use crate::peer::LostReason;
use crate::peer::client::{CloseReason, Diagnostic};
use crate::schema::Era;

use crate::transport::http::{ExchangeId, SentState};

use super::HttpClient;
use super::client_session::POST_RESPONSE_TIMEOUT;
use super::exchange::ExchangeKind;
use super::head::http_error;
use super::outbox::OneWayMessage;
use super::request::SessionHeaders;
use super::response::{ExchangeOutcome, ResumePoint};
use super::timers::Timer;

impl HttpClient {
    /// Records that the server has answered a request.
    pub(super) fn note_answered(&mut self) {
        self.session.note_answered();
        self.detection.is_era_proven = true;
        if let Some(events) = &mut self.legacy_sse {
            events.note_answered();
        }
    }

    /// Opens a new session in place of one that the server has lost. Returns whether it does.
    pub(super) fn renew_session(&mut self, now: Instant) -> bool {
        if self.session.id().is_none() || self.session.fruitless_renewals() >= self.config.backoff.attempts {
            return false;
        }
        let Some(version) = self.peer.server().map(|server| server.revision) else { return false };
        if !self.peer.restart_detection() {
            return false;
        }
        self.discard_session(now);
        //= C4.19 "404 to a request with a session id → new `initialize` without session id"
        let act = self.detection.repeat_handshake(now, version);
        self.perform_detection(now, act);
        true
    }

    /// Discards the session and everything that depends on it.
    pub(super) fn discard_session(&mut self, now: Instant) {
        self.peer.report(Diagnostic::SessionLost);
        self.session.discard();
        self.timers.clear(Timer::Opening);
        self.outbox.drop_replies();
        self.stop_listening();
        for number in self.calls.numbers(|call| call.resume_point.is_some()) {
            if let Some(exchange) = self.calls.exchange_of(number) {
                self.abort_exchange(exchange);
            }
            self.handle_broken_call(now, number, "the session was lost", ResumePoint::default());
        }
        if self.legacy_sse.is_none() {
            self.fail_accepted_calls(now, "the session was lost");
        }
    }

    /// Returns the headers that every request of the session carries.
    pub(super) fn session_headers(&self) -> SessionHeaders<'_> {
        let server = self.peer.server().filter(|server| server.era == Era::Legacy);
        SessionHeaders { session: self.session.id(), revision: server.map(|server| server.revision) }
    }

    // --- Notifications and replies ---

    /// Queues a notification or a reply of the peer.
    pub(super) fn take_post(&mut self, now: Instant, post: OneWayMessage) {
        match self.session.start_opening(post) {
            Some(post) => self.outbox.push_post(post),
            None => self.resend_initialized(now),
        }
    }

    pub(super) fn send_post(&mut self, now: Instant, post: OneWayMessage) {
        // The message may have been queued before the server's era was known, or for another era. Replies are legacy.
        let era = post.notification.as_ref().map_or(Era::Legacy, |(_, revision)| revision.era());
        if self.peer.server().map(|server| server.era) != Some(era) {
            return;
        }
        let purpose = ExchangeKind::Post(post);
        if let Some((verb, headers, body)) = self.rebuild_request(&purpose) {
            let url = self.post_url();
            //= C4.1 "Every message is a new POST"
            let exchange = self.begin_exchange(purpose, verb, url, headers, body);
            self.limit_post_response(now, exchange);
        }
    }

    /// Limits the time of a one-way message's exchange: its response is not needed, but the exchange occupies a slot.
    pub(super) fn limit_post_response(&mut self, now: Instant, exchange: ExchangeId) {
        self.timers.set(Timer::Drain(exchange), now + self.config.client.request_timeout);
    }

    /// Handles a successful response head to a one-way message.
    pub(super) fn handle_post_accepted(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.get(id)
            && let ExchangeKind::Post(post) = &exchange.kind
            && self.session.is_opened_by(post)
            && exchange.generation == self.session.generation()
        {
            self.open_gate();
        }
    }

    fn open_gate(&mut self) {
        if self.session.open_gate() {
            self.timers.clear(Timer::Opening);
            self.start_listening();
        }
    }

    /// Handles a one-way message that was not accepted, or whose outcome is unknown.
    pub(super) fn handle_post_end(
        &mut self,
        now: Instant,
        post: OneWayMessage,
        generation: u32,
        ended: ExchangeOutcome,
    ) {
        if generation != self.session.generation() {
            return;
        }
        let opens = self.session.is_opened_by(&post);
        let (status, error) = match ended {
            // An intermediary, most likely. A server that never received `notifications/initialized` sends no messages
            // of its own.
            ExchangeOutcome::NoAnswer(error) | ExchangeOutcome::Broken { refused: Some(error), .. }
                if opens
                    && matches!(error.status, 408 | 425 | 429 | 502..=504)
                    && post.failures < self.config.backoff.attempts =>
            {
                return self.retry_post_later(now, post, "");
            }
            ExchangeOutcome::Answer { http, answer: Err(_), .. } if !(200..300).contains(&http.status) => {
                (http.status, http)
            }
            ExchangeOutcome::NoAnswer(error) | ExchangeOutcome::Broken { refused: Some(error), .. } => {
                (error.status, error)
            }
            ExchangeOutcome::Broken { sent: SentState::NotSent, detail, .. }
            | ExchangeOutcome::Unreachable { detail } => {
                return self.retry_post_later(now, post, &detail);
            }
            ExchangeOutcome::Broken { detail, .. } if opens => {
                return self.retry_post_later(now, post, &detail);
            }
            _ => (200, http_error(200, "")),
        };
        let lost = status == 404 && self.renew_session(now);
        if lost {
            return;
        }
        if !(200..300).contains(&status) {
            let method = post.notification.map_or("a reply".into(), |(method, _)| method);
            self.peer.report(Diagnostic::MessageRejected { message: method.into(), error });
        }
        if opens {
            self.open_gate();
        }
    }

    fn retry_post_later(&mut self, now: Instant, mut post: OneWayMessage, detail: &str) {
        let backoff = self.config.backoff;
        let opens = self.session.is_opened_by(&post);
        if post.failures >= backoff.attempts {
            if opens {
                self.peer.close_lost(CloseReason::Lost(LostReason::Disconnected(detail.into())));
            }
            return;
        }
        let pause = backoff.pause(post.failures, &mut self.rng);
        post.failures = post.failures.saturating_add(1);
        if opens {
            self.session.keep_initialized(post);
            self.timers.set(Timer::Opening, now + pause);
        } else {
            let limit = self.limits().exchanges;
            if self.session.pause_post(post, limit) {
                self.timers.set_if_unset(Timer::Posts, now + pause);
            }
        }
    }

    /// Sends `notifications/initialized` again.
    ///
    /// If it was sent already and the server has not responded in time, opens the gate.
    pub(super) fn resend_initialized(&mut self, now: Instant) {
        match self.session.take_initialized() {
            Some(post) => {
                self.send_post(now, post);
                self.timers.set(Timer::Opening, now + POST_RESPONSE_TIMEOUT);
            }
            None => self.open_gate(),
        }
    }

    /// Queues the one-way messages whose delay has ended.
    pub(super) fn resend_posts(&mut self) {
        for post in self.session.take_paused_posts() {
            self.outbox.push_post(post);
        }
    }
}
