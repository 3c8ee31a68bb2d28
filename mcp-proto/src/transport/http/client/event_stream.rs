//! HTTP+SSE: one stream for all that the server says, and a URL to send to (2024-11-05).
//!
//! The end of the stream is the end of the session, which is then opened anew.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::{CloseReason, ConnectError};
use crate::peer::{HttpError, LostReason};
use crate::transport::http::{ExchangeId, Verb};

use super::HttpClient;
use super::address::Address;
use super::answer::{Ended, Trail};
use super::call::Place;
use super::detect::Reply;
use super::exchange::Purpose;
use super::listen::STEADY;
use super::timers::Timer;

#[derive(Debug, Default)]
pub(super) struct EventStream {
    pub(super) exchange: Option<ExchangeId>,
    /// Where to send to, once the server has said so.
    pub(super) endpoint: Option<Address>,
    /// Whether a session has been opened over it: what fails now is not the first attempt.
    known: bool,
    /// How often in a row it ended.
    pub(super) failures: u32,
    /// When the server said so.
    since: Option<Instant>,
}

impl HttpClient {
    /// Asks for the stream.
    pub(super) fn open_events(&mut self, now: Instant) {
        let headers = self.session_headers().get(None);
        let url = self.url.clone();
        let exchange = self.begin(Purpose::Events, Verb::Get, url, headers, Bytes::new());
        let events = self.events.get_or_insert_default();
        events.exchange = Some(exchange);
        events.endpoint = None;
        self.timers.set(Timer::Events, now + self.config.events_timeout);
    }

    /// The server is asked in another way.
    pub(super) fn close_events(&mut self) {
        self.timers.clear(Timer::Events);
        if let Some(exchange) = self.events.take().and_then(|events| events.exchange) {
            self.abort_exchange(exchange);
        }
    }

    /// The head has come; now the endpoint must.
    pub(super) fn note_events_begun(&mut self, now: Instant) {
        self.timers.set(Timer::Events, now + self.config.events_timeout);
    }

    /// The first event: where messages are to be sent.
    pub(super) fn handle_endpoint(&mut self, now: Instant, id: ExchangeId, data: &Bytes) {
        let Some(events) = self.events.as_mut().filter(|events| events.endpoint.is_none()) else { return };
        let Some(exchange) = self.exchanges.get(&id) else { return };
        let reference = core::str::from_utf8(data).unwrap_or_default().trim();
        let Some(endpoint) = exchange.url.follow(reference) else {
            self.abort_exchange(id);
            let what = "the endpoint that it names is not at the same origin";
            return self.fail_events(now, Reply::Other(HttpError::new(200, what)), what, None);
        };
        events.endpoint = Some(endpoint);
        events.since = Some(now);
        let known = core::mem::replace(&mut events.known, true);
        self.timers.clear(Timer::Events);
        self.unstall(now);
        let act = match self.peer.server().filter(|_| known) {
            Some(server) => self.detect.renew(now, server.revision),
            None => self.detect.handle_events(now, Ok(())),
        };
        self.perform(now, act);
    }

    /// The stream has ended, or never began.
    pub(super) fn conclude_events(&mut self, now: Instant, ended: Ended) {
        self.timers.clear(Timer::Events);
        let retry = match &ended {
            Ended::Unanswered(_, trail) | Ended::Broken { trail, .. } => trail.retry,
            Ended::Other(error) => error.retry_after,
            _ => None,
        };
        let (reply, detail) = match ended {
            Ended::Answer { http: error, .. }
            | Ended::Unanswered(error, _)
            | Ended::Other(error)
            | Ended::Invalid(_, error) => {
                let detail = alloc::format!("{error}");
                (Reply::Other(error), detail)
            }
            Ended::Unreachable { detail } => (Reply::Unreachable { detail: detail.clone() }, detail),
            Ended::Broken { detail, .. } => {
                (Reply::Failed { detail: detail.clone(), retry_after: None }, detail)
            }
        };
        self.fail_events(now, reply, &detail, retry);
    }

    /// Neither head nor endpoint came in time.
    pub(super) fn time_out_events(&mut self, now: Instant) {
        if let Some(exchange) = self.events.as_mut().and_then(|events| events.exchange.take()) {
            self.abort_exchange(exchange);
        }
        let detail = "no `endpoint` event came in time";
        self.fail_events(now, Reply::Failed { detail: detail.into(), retry_after: None }, detail, None);
    }

    fn fail_events(&mut self, now: Instant, reply: Reply, detail: &str, retry: Option<Duration>) {
        self.unstall(now);
        let Some(events) = &mut self.events else { return };
        events.exchange = None;
        let had_endpoint = events.endpoint.take().is_some();
        if !events.known {
            let act = self.detect.handle_events(now, Err(reply));
            return self.perform(now, act);
        }
        let since = events.since.take();
        if since.is_some_and(|since| now.saturating_since(since) >= STEADY) {
            // It works, even if there was nothing to ask: somebody on the way ends streams that are idle.
            events.failures = 0;
            self.session.fruitless = 0;
        }
        if had_endpoint && !self.handshakes.is_empty() {
            // Whatever was being asked has no way to be answered any more.
            self.session.fruitless = self.session.fruitless.saturating_add(1);
        }
        let backoff = self.config.backoff;
        let failures = events.failures.max(self.session.fruitless);
        events.failures = failures.saturating_add(1);
        if self.peer.restart_detection() {
            self.forget_session(now);
            self.break_accepted(now, detail);
        }
        if failures >= backoff.attempts || !self.is_detecting() {
            return self.peer.close_lost(CloseReason::Lost(LostReason::Disconnected(detail.into())));
        }
        let pause = backoff.pause(failures, &mut self.chance);
        self.timers.set(Timer::Events, now + pause.max(retry.unwrap_or(Duration::ZERO)));
    }

    /// The handshake beside the stream has failed, for a reason that may be over by the next attempt: where there was a
    /// session before, it is as if the stream had ended. Returns whether there was.
    pub(super) fn repeat_events(&mut self, now: Instant, error: &ConnectError) -> bool {
        let temporary = match error {
            ConnectError::Failed { .. } | ConnectError::TimedOut { .. } | ConnectError::NotReady { .. } => {
                true
            }
            ConnectError::Http { error, .. } => matches!(error.status, 408 | 425 | 429 | 500..),
            _ => false,
        };
        if !temporary || self.peer.server().is_none() {
            return false;
        }
        let exchange =
            self.events.as_mut().filter(|events| events.known).and_then(|events| events.exchange.take());
        let Some(exchange) = exchange else { return false };
        self.abort_exchange(exchange);
        self.session.fruitless = self.session.fruitless.saturating_add(1);
        let detail = error.to_string();
        self.fail_events(now, Reply::Failed { detail: detail.clone(), retry_after: None }, &detail, None);
        true
    }

    /// What the server had accepted can not be answered any more.
    fn break_accepted(&mut self, now: Instant, detail: &str) {
        let broken =
            self.calls.iter().filter(|(_, call)| matches!(call.place, Place::Accepted | Place::Out(_)));
        let broken: Vec<(i64, Place)> = broken.map(|(&number, call)| (number, call.place)).collect();
        for (number, place) in broken {
            if let Place::Out(exchange) = place {
                let held = self.is_held(exchange);
                self.abort_exchange(exchange);
                if held {
                    self.requeue(now, number);
                    continue;
                }
            }
            self.break_call(now, number, detail, Trail::default());
        }
    }

    /// The time of the stream is over: it should have begun by now, or is to be asked for again.
    pub(super) fn handle_events_timer(&mut self, now: Instant) {
        match self.events.as_ref().map(|events| events.exchange) {
            Some(Some(_)) => self.time_out_events(now),
            Some(None) => self.open_events(now),
            None => {}
        }
    }

    /// Whether the answer to what is sent comes on the one stream.
    pub(super) fn answers_elsewhere(&self, purpose: &Purpose) -> bool {
        self.events.is_some()
            && matches!(purpose, Purpose::Call(_) | Purpose::Initialize { .. } | Purpose::Post(_))
    }

    /// The server has taken a message, and answers it on the stream.
    pub(super) fn accepted(&mut self, purpose: &Purpose) {
        let &Purpose::Call(number) = purpose else { return };
        self.note_success(number);
        self.free_slot(number);
        if let Some(call) = self.calls.get_mut(&number) {
            call.place = Place::Accepted;
        }
    }

    /// Where messages go.
    pub(super) fn post_url(&self) -> Address {
        let endpoint = self.events.as_ref().and_then(|events| events.endpoint.clone());
        endpoint.unwrap_or_else(|| self.url.clone())
    }
}
