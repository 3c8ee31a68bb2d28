//! A legacy session: opened by `initialize`, lost when the server says so, and then opened anew.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::peer::client::{CloseReason, Diagnostic};
use crate::peer::{HttpError, LostReason};
use crate::schema::{Era, Initialized, Notification};

use crate::transport::http::{ExchangeId, Sent};

use super::HttpClient;
use super::answer::{Ended, Trail};
use super::exchange::Purpose;
use super::outbox::Post;
use super::timers::Timer;

/// Whether requests go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// The server is not known.
    Shut,
    /// It is being told that the session has begun: what comes before that is refused by some.
    Opening,
    Open,
}

/// What is kept of a session. Its id is a secret.
#[derive(Default)]
pub(super) struct Session {
    pub(super) id: Option<Arc<str>>,
    /// Counts the sessions, so that news of an old one is not taken for news of this one.
    pub(super) generation: u32,
    /// Whether a request was answered in it.
    pub(super) worked: bool,
    /// How many sessions in a row were lost before anything was answered.
    pub(super) fruitless: u32,
    /// Whether a stream could be had by GET.
    pub(super) streams: bool,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { generation, worked, fruitless, streams, .. } = self;
        f.debug_struct("Session")
            .field("generation", generation)
            .field("worked", worked)
            .field("fruitless", fruitless)
            .field("streams", streams)
            .finish_non_exhaustive()
    }
}

/// How long the answer to a message that is not answered may take to end.
pub(super) const POSTED: Duration = Duration::from_secs(5);

impl HttpClient {
    /// Something was answered.
    pub(super) fn note_answered(&mut self) {
        self.session.worked = true;
        self.session.fruitless = 0;
        self.proven = true;
        if let Some(events) = &mut self.events {
            events.failures = 0;
        }
    }

    /// The server has forgotten the session: it is opened anew. Returns whether it is.
    pub(super) fn lose_session(&mut self, now: Instant) -> bool {
        if self.session.id.is_none() || self.session.fruitless >= self.config.backoff.attempts {
            return false;
        }
        let Some(version) = self.peer.server().map(|server| server.revision) else { return false };
        if !self.peer.restart_detection() {
            return false;
        }
        self.forget_session(now);
        let act = self.detect.renew(now, version);
        self.perform(now, act);
        true
    }

    /// What belonged to the session goes with it.
    pub(super) fn forget_session(&mut self, now: Instant) {
        self.peer.report(Diagnostic::SessionLost);
        self.session = Session {
            generation: self.session.generation.wrapping_add(1),
            fruitless: self.session.fruitless.saturating_add(1),
            ..Session::default()
        };
        self.gate = Gate::Shut;
        self.timers.clear(Timer::Opening);
        self.opening = None;
        self.out.drop_replies();
        self.paused.retain(|post| post.notification.is_some());
        self.stop_listening();
        let resumed = self.calls.iter().filter(|(_, call)| call.trail.is_some());
        let resumed: alloc::vec::Vec<i64> = resumed.map(|(&number, _)| number).collect();
        for number in resumed {
            if let Some(super::call::Place::Out(exchange)) = self.calls.get(&number).map(|call| call.place) {
                self.abort_exchange(exchange);
            }
            self.break_call(now, number, "the session was lost", Trail::default());
        }
    }

    // --- Notifications and replies ---

    /// The peer has something to say that is not answered.
    pub(super) fn take_post(&mut self, now: Instant, post: Post) {
        let opens = post.notification.as_ref().is_some_and(|(method, _)| **method == *Initialized::NAME);
        if opens && self.gate == Gate::Shut {
            self.gate = Gate::Opening;
            self.opening = Some(post);
            self.open_again(now);
        } else {
            self.out.push_post(post);
        }
    }

    pub(super) fn send_post(&mut self, now: Instant, post: Post) {
        // It may have been said before the server's era was known, or to the server that it was then. Replies are legacy.
        let era = post.notification.as_ref().map_or(Era::Legacy, |(_, revision)| revision.era());
        if self.peer.server().map(|server| server.era) != Some(era) {
            return;
        }
        let purpose = Purpose::Post(post);
        if let Some((verb, headers, body)) = self.request_of(&purpose) {
            let url = self.post_url();
            let exchange = self.begin(purpose, verb, url, headers, body);
            self.limit_post(now, exchange);
        }
    }

    /// Nobody waits for the answer to a message that is not answered, but its exchange takes the place of others.
    pub(super) fn limit_post(&mut self, now: Instant, exchange: ExchangeId) {
        self.timers.set(Timer::Drain(exchange), now + self.config.client.request_timeout);
    }

    /// The head of the answer to a message that is not answered has come, and is a success.
    pub(super) fn note_posted(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.get(&id)
            && let Purpose::Post(post) = &exchange.purpose
            && opens_session(post)
            && exchange.generation == self.session.generation
        {
            self.open_gate();
        }
    }

    fn open_gate(&mut self) {
        if self.gate == Gate::Opening {
            self.gate = Gate::Open;
            self.timers.clear(Timer::Opening);
            self.listen();
        }
    }

    /// A message that is not answered was not taken, or it is not known whether it was.
    pub(super) fn conclude_post(&mut self, now: Instant, post: Post, generation: u32, ended: Ended) {
        if generation != self.session.generation {
            return;
        }
        let opens = opens_session(&post) && self.gate == Gate::Opening;
        let (status, error) = match ended {
            // Somebody on the way, most likely. A server that was never told that the session has begun says nothing of
            // its own accord.
            Ended::Other(error) | Ended::Broken { refused: Some(error), .. }
                if opens
                    && matches!(error.status, 408 | 425 | 429 | 502..=504)
                    && post.failures < self.config.backoff.attempts =>
            {
                return self.post_later(now, post, "");
            }
            Ended::Answer { http, answer: Err(_), .. } if !(200..300).contains(&http.status) => {
                (http.status, http)
            }
            Ended::Other(error) | Ended::Broken { refused: Some(error), .. } => (error.status, error),
            Ended::Broken { sent: Sent::No, detail, .. } | Ended::Unreachable { detail } => {
                return self.post_later(now, post, &detail);
            }
            Ended::Broken { detail, .. } if opens => return self.post_later(now, post, &detail),
            _ => (200, HttpError::new(200, "")),
        };
        let lost = status == 404 && self.lose_session(now);
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

    fn post_later(&mut self, now: Instant, mut post: Post, detail: &str) {
        let backoff = self.config.backoff;
        let opens = opens_session(&post) && self.gate == Gate::Opening;
        if post.failures >= backoff.attempts {
            if opens {
                self.peer.close_lost(CloseReason::Lost(LostReason::Disconnected(detail.into())));
            }
            return;
        }
        let pause = backoff.pause(post.failures, &mut self.chance);
        post.failures = post.failures.saturating_add(1);
        if opens {
            self.opening = Some(post);
            self.timers.set(Timer::Opening, now + pause);
        } else if self.paused.len() < self.limits().exchanges {
            self.paused.push_back(post);
            self.timers.set_if_unset(Timer::Posts, now + pause);
        }
    }

    /// Says that the session has begun. A server that has not answered that for long is asked all the same.
    pub(super) fn open_again(&mut self, now: Instant) {
        match self.opening.take() {
            Some(post) => {
                self.send_post(now, post);
                self.timers.set(Timer::Opening, now + POSTED);
            }
            None => self.open_gate(),
        }
    }

    /// A pause is over.
    pub(super) fn post_again(&mut self) {
        for post in core::mem::take(&mut self.paused) {
            self.out.push_post(post);
        }
    }
}

pub(super) fn opens_session(post: &Post) -> bool {
    post.notification.as_ref().is_some_and(|(method, _)| **method == *Initialized::NAME)
}
