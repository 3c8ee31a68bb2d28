//! A legacy session: opened by `initialize`, lost when the server says so, and then opened anew.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::peer::LostReason;
use crate::peer::client::{CloseReason, Diagnostic};
use crate::schema::{Era, Initialized, Notification};

use crate::transport::http::{ExchangeId, SentState};

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::outbox::OneWayMessage;
use super::response::{ExchangeOutcome, ResumePoint};
use super::status::http_error;
use super::timers::Timer;

/// Whether requests go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendGate {
    /// The server is not known.
    Closed,
    /// It is being told that the session has begun: what comes before that is refused by some.
    Opening,
    Open,
}

/// What is kept of a session. Its id is a secret.
#[derive(Default)]
pub(super) struct ClientSession {
    pub(super) id: Option<Arc<str>>,
    /// Counts the sessions, so that news of an old one is not taken for news of this one.
    pub(super) generation: u32,
    /// Whether a request was answered in it.
    pub(super) has_answered: bool,
    /// How many sessions in a row were lost before anything was answered.
    pub(super) fruitless_renewals: u32,
    /// Whether a stream could be had by GET.
    pub(super) offers_stream: bool,
}

impl core::fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            generation,
            has_answered: worked,
            fruitless_renewals: fruitless,
            offers_stream: streams,
            ..
        } = self;
        f.debug_struct("Session")
            .field("generation", generation)
            .field("worked", worked)
            .field("fruitless", fruitless)
            .field("streams", streams)
            .finish_non_exhaustive()
    }
}

/// How long the answer to a message that is not answered may take to end.
pub(super) const POST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

impl HttpClient {
    /// Something was answered.
    pub(super) fn note_answered(&mut self) {
        self.session.has_answered = true;
        self.session.fruitless_renewals = 0;
        self.is_era_proven = true;
        if let Some(events) = &mut self.legacy_sse {
            events.failures = 0;
        }
    }

    /// The server has forgotten the session: it is opened anew. Returns whether it is.
    pub(super) fn renew_session(&mut self, now: Instant) -> bool {
        if self.session.id.is_none() || self.session.fruitless_renewals >= self.config.backoff.attempts {
            return false;
        }
        let Some(version) = self.peer.server().map(|server| server.revision) else { return false };
        if !self.peer.restart_detection() {
            return false;
        }
        self.discard_session(now);
        let act = self.detection.repeat_handshake(now, version);
        self.perform_detection(now, act);
        true
    }

    /// What belonged to the session goes with it.
    pub(super) fn discard_session(&mut self, now: Instant) {
        self.peer.report(Diagnostic::SessionLost);
        self.session = ClientSession {
            generation: self.session.generation.wrapping_add(1),
            fruitless_renewals: self.session.fruitless_renewals.saturating_add(1),
            ..ClientSession::default()
        };
        self.gate = SendGate::Closed;
        self.timers.clear(Timer::Opening);
        self.pending_initialized = None;
        self.outbox.drop_replies();
        self.paused_posts.retain(|post| post.notification.is_some());
        self.stop_listening();
        let resumed = self.calls.iter().filter(|(_, call)| call.resume_point.is_some());
        let resumed: alloc::vec::Vec<i64> = resumed.map(|(&number, _)| number).collect();
        for number in resumed {
            if let Some(super::call::CallState::InExchange(exchange)) =
                self.calls.get(&number).map(|call| call.state)
            {
                self.abort_exchange(exchange);
            }
            self.handle_broken_call(now, number, "the session was lost", ResumePoint::default());
        }
    }

    // --- Notifications and replies ---

    /// The peer has something to say that is not answered.
    pub(super) fn take_post(&mut self, now: Instant, post: OneWayMessage) {
        let opens = post.notification.as_ref().is_some_and(|(method, _)| **method == *Initialized::NAME);
        if opens && self.gate == SendGate::Closed {
            self.gate = SendGate::Opening;
            self.pending_initialized = Some(post);
            self.resend_initialized(now);
        } else {
            self.outbox.push_post(post);
        }
    }

    pub(super) fn send_post(&mut self, now: Instant, post: OneWayMessage) {
        // It may have been said before the server's era was known, or to the server that it was then. Replies are legacy.
        let era = post.notification.as_ref().map_or(Era::Legacy, |(_, revision)| revision.era());
        if self.peer.server().map(|server| server.era) != Some(era) {
            return;
        }
        let purpose = ExchangeKind::Post(post);
        if let Some((verb, headers, body)) = self.rebuild_request(&purpose) {
            let url = self.post_url();
            let exchange = self.begin_exchange(purpose, verb, url, headers, body);
            self.limit_post_response(now, exchange);
        }
    }

    /// Nobody waits for the answer to a message that is not answered, but its exchange takes the place of others.
    pub(super) fn limit_post_response(&mut self, now: Instant, exchange: ExchangeId) {
        self.timers.set(Timer::Drain(exchange), now + self.config.client.request_timeout);
    }

    /// The head of the answer to a message that is not answered has come, and is a success.
    pub(super) fn handle_post_accepted(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.get(&id)
            && let ExchangeKind::Post(post) = &exchange.kind
            && opens_session(post)
            && exchange.generation == self.session.generation
        {
            self.open_gate();
        }
    }

    fn open_gate(&mut self) {
        if self.gate == SendGate::Opening {
            self.gate = SendGate::Open;
            self.timers.clear(Timer::Opening);
            self.start_listening();
        }
    }

    /// A message that is not answered was not taken, or it is not known whether it was.
    pub(super) fn handle_post_end(
        &mut self,
        now: Instant,
        post: OneWayMessage,
        generation: u32,
        ended: ExchangeOutcome,
    ) {
        if generation != self.session.generation {
            return;
        }
        let opens = opens_session(&post) && self.gate == SendGate::Opening;
        let (status, error) = match ended {
            // Somebody on the way, most likely. A server that was never told that the session has begun says nothing of
            // its own accord.
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
            ExchangeOutcome::Broken { sent: SentState::No, detail, .. }
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
        let opens = opens_session(&post) && self.gate == SendGate::Opening;
        if post.failures >= backoff.attempts {
            if opens {
                self.peer.close_lost(CloseReason::Lost(LostReason::Disconnected(detail.into())));
            }
            return;
        }
        let pause = backoff.pause(post.failures, &mut self.rng);
        post.failures = post.failures.saturating_add(1);
        if opens {
            self.pending_initialized = Some(post);
            self.timers.set(Timer::Opening, now + pause);
        } else if self.paused_posts.len() < self.limits().exchanges {
            self.paused_posts.push_back(post);
            self.timers.set_if_unset(Timer::Posts, now + pause);
        }
    }

    /// Says that the session has begun. A server that has not answered that for long is asked all the same.
    pub(super) fn resend_initialized(&mut self, now: Instant) {
        match self.pending_initialized.take() {
            Some(post) => {
                self.send_post(now, post);
                self.timers.set(Timer::Opening, now + POST_RESPONSE_TIMEOUT);
            }
            None => self.open_gate(),
        }
    }

    /// A pause is over.
    pub(super) fn resend_posts(&mut self) {
        for post in core::mem::take(&mut self.paused_posts) {
            self.outbox.push_post(post);
        }
    }
}

pub(super) fn opens_session(post: &OneWayMessage) -> bool {
    post.notification.as_ref().is_some_and(|(method, _)| **method == *Initialized::NAME)
}
