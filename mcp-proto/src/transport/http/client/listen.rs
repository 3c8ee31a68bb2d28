//! Streams requested by GET: the messages a legacy server sends outside requests, and the rest of interrupted answers.
//!
//! | the stream of | ends | the client requests it again |
//! |---|---|---|
//! | an answer | before the answer, after an event with an id | from that event, until the answer arrives or the server refuses |
//! | an answer | in any other way | never |
//! | the server's own messages | in any way | from its last event, unless that fails too often in a row |
//!
//! | the stream delivered | the pause before the next one |
//! |---|---|
//! | a message | the server's `retry` |
//! | only a new event id, `retry` or comments | the server's `retry` the first time, then from 100 ms doubling up to [`MAX_IDLE_PAUSE`] |
//! | nothing, or an error | the server's `retry` the first time, then the backoff |
//!
//! No pause is shorter than the server's `retry`, and none but the first is shorter than [`MIN_PAUSE`].
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use core::mem;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, SplitMix64};
use crate::peer::client::{Diagnostic, State};
use crate::peer::{Carriage, CarriageState, Leniency, RequestId, ResumedStreams, RetryAdvice};
use crate::prelude::*;
use crate::schema::{Era, Revision};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::ListenPolicy;
use super::exchange::ExchangeKind;
use super::response::{ExchangeOutcome, ResumePoint};

/// The shortest pause, which limits the rate of requests to a server that ends every stream at once.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause added because streams carry no message.
///
/// It is the maximum delay of an answer from a server that is polled this way.
const MAX_IDLE_PAUSE: Duration = Duration::from_secs(2);

/// How long a stream must last to count as working, with or without events.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(10);

impl ResumedStreams {
    /// Records the end of a stream; returns the pause before the next.
    fn next_pause(
        &mut self,
        ended: ResumePoint,
        default_retry: Duration,
        backoff: &Backoff,
        rng: &mut SplitMix64,
    ) -> Duration {
        let pause = if ended.has_events {
            (self.idle, self.failures) = (0, 0);
            Duration::ZERO
        } else if ended.last_event.is_some() {
            let doubled = MIN_PAUSE.saturating_mul(2u32.saturating_pow(self.idle.saturating_sub(1)));
            let pause = if self.idle == 0 { Duration::ZERO } else { doubled.min(MAX_IDLE_PAUSE) };
            (self.idle, self.failures) = (self.idle.saturating_add(1), 0);
            pause
        } else if self.failures == 0 {
            Duration::ZERO
        } else {
            backoff.pause(self.failures, rng)
        };
        self.failures = self.failures.saturating_add(1);
        self.last_event = ended.last_event.or(self.last_event.take());
        self.retry = ended.retry.or(self.retry);
        let floor = if mem::replace(&mut self.has_reconnected, true) { MIN_PAUSE } else { Duration::ZERO };
        //= C4.22 "SSE `retry` respected before reconnect"
        pause.max(self.retry.unwrap_or(default_retry)).max(floor)
    }
}

/// The stream of a legacy server's own messages, across reconnects.
#[derive(Debug, Default)]
pub(super) struct Listener {
    exchange: Option<ExchangeId>,
    /// Whether it is requested again after a pause.
    is_pausing: bool,
    /// When the current stream began.
    started_at: Option<Instant>,
    /// The streams that have ended.
    streams: ResumedStreams,
}

impl Listener {
    /// Records the exchange in which the stream is requested.
    pub(super) fn open(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
        self.is_pausing = false;
    }
}

impl HttpClient {
    //= K3 "in legacy sessions only"
    /// Returns whether the server may offer streams for GET, as the revisions from 2025-03-26 to 2025-11-25 define.
    fn may_have_get_streams(&self) -> bool {
        let revision = self.peer.server().map(|server| server.revision);
        self.legacy_sse.is_none()
            && revision
                .is_some_and(|revision| revision.era() == Era::Legacy && revision >= Revision::V2025_03_26)
    }

    /// Requests the stream of the server's own messages, now that the session is open.
    pub(super) fn start_listening(&mut self) {
        if !self.may_have_get_streams() {
            return;
        }
        if self.config.listen == ListenPolicy::IfOffered {
            self.listener = Listener::default();
            self.open_listener();
        } else {
            self.peer.note_event_stream_lost();
        }
    }

    pub(super) fn open_listener(&mut self) {
        let kind = ExchangeKind::Listen { last_event: self.listener.streams.last_event.clone() };
        if let Ok(exchange) = self.open_exchange(kind) {
            self.listener.open(exchange);
        }
    }

    pub(super) fn stop_listening(&mut self) {
        self.timers.listen = None;
        if let Some(exchange) = mem::take(&mut self.listener).exchange {
            self.abort_exchange(exchange);
        }
    }

    /// Records that a stream requested by GET has begun.
    pub(super) fn note_stream(&mut self, now: Instant, kind: &ExchangeKind) {
        self.session.offers_stream = true;
        if let ExchangeKind::Listen { last_event } = kind {
            self.listener.started_at = Some(now);
            // A stream resumed after an event misses no message.
            if last_event.is_none() {
                self.peer.note_event_stream_open();
            }
        }
    }

    /// Handles the end or refusal of the stream of the server's own messages.
    pub(super) fn handle_listener_end(&mut self, now: Instant, is_current: bool, ended: ExchangeOutcome) {
        if !is_current {
            return;
        }
        self.listener.exchange = None;
        let began = self.listener.started_at.take();
        let answered = |status| (ResumePoint::default(), format!("status {status}"));
        let (mut trail, detail) = match ended {
            ExchangeOutcome::Unanswered(_, trail) => (trail, String::from("the stream ended")),
            ExchangeOutcome::Broken { detail, trail, refused: None, .. } => (trail, detail),
            ExchangeOutcome::Unreachable { detail } => (ResumePoint::default(), detail),
            ExchangeOutcome::NoAnswer(error)
            | ExchangeOutcome::Invalid(_, error)
            | ExchangeOutcome::Broken { refused: Some(error), .. } => {
                // A server that never offered the stream may refuse it with any status.
                let known = self.session.offers_stream;
                if error.status == 404 && known && self.may_renew_unasked() && self.renew_session(now) {
                    return;
                }
                let detail = error.to_string();
                if error.retry != RetryAdvice::Later || !known {
                    //= F52 "405, another status or no body switch it off silently"
                    //= C4.21 "405 = not offered"
                    let is_offered = !matches!(error.status, 404 | 405);
                    return self.give_up_listening(now, detail, is_offered);
                }
                (ResumePoint { retry: error.retry_after, ..ResumePoint::default() }, detail)
            }
            ExchangeOutcome::Result { status, .. } => answered(status),
            ExchangeOutcome::Error { http, .. } => answered(http.status),
        };
        trail.has_events |= began.is_some_and(|began| now.saturating_since(began) >= STABLE_AFTER);
        if trail.has_events {
            self.session.fruitless_renewals = 0;
        }
        let Self { listener, config, rng, .. } = self;
        if !trail.has_advanced() && listener.streams.failures >= config.backoff.attempts {
            return self.give_up_listening(now, detail, true);
        }
        listener.is_pausing = true;
        //= F55 "lost streams are opened again with backoff"
        let pause = listener.streams.next_pause(trail, config.retry, &config.backoff, rng);
        self.timers.listen = Some(now + pause.max(MIN_PAUSE));
    }

    fn give_up_listening(&mut self, now: Instant, detail: String, is_reported: bool) {
        self.fail_accepted_calls(now, &detail);
        self.peer.note_event_stream_lost();
        if is_reported {
            self.peer.report(Diagnostic::EventStreamUnavailable { detail });
        }
    }

    // --- Answers on the stream ---

    /// Waits for the answer to an accepted request on the stream of the server's own messages, as long as the request
    /// may wait. Returns whether there is such a stream.
    pub(super) fn await_on_listener(&mut self, number: RequestId) -> bool {
        let is_legacy = |call: &&Carriage| call.revision.era() == Era::Legacy;
        let Some(call) = self.peer.carriage(number).filter(is_legacy) else { return false };
        let method = call.method.to_string();
        let is_listening = self.listener.exchange.is_some() || self.listener.is_pausing;
        let waits = is_listening && self.peer.tolerate(Leniency::AnswerOnEventStream { method });
        if waits {
            self.mark_accepted(number);
        }
        waits
    }

    /// Fails the requests that the server accepted and whose answers the stream can no longer bring.
    pub(super) fn fail_accepted_calls(&mut self, now: Instant, detail: &str) {
        for number in self.peer.carried(|call| call.state == CarriageState::Accepted) {
            self.handle_broken_call(now, number, detail, ResumePoint::default());
        }
    }

    // --- Resuming answers ---

    /// Returns whether streams can be resumed in this session.
    pub(super) fn is_resumable(&self) -> bool {
        self.peer.state() == State::Ready && self.may_have_get_streams()
    }

    /// Schedules a request for the rest of an answer, whose stream ended at `trail`.
    pub(super) fn resume_later(&mut self, now: Instant, number: RequestId, trail: ResumePoint) {
        let Self { peer, config, rng, .. } = self;
        peer.update_carriage(number, |call| {
            let pause = call.streams.next_pause(trail, config.retry, &config.backoff, rng);
            call.state = CarriageState::BackingOff { until: now + pause };
        });
    }

    //= K20 "`Last-Event-ID` resumes legacy streams, those of requests too"
    /// Requests the rest of an interrupted answer.
    pub(super) fn request_resumption(&mut self, number: RequestId) {
        let last_event = self.peer.carriage(number).and_then(|call| call.streams.last_event.clone());
        let Some(last_event) = last_event else { return };
        if let Ok(exchange) = self.open_exchange(ExchangeKind::Resume { number, last_event }) {
            self.peer.update_carriage(number, |call| call.state = CarriageState::InExchange(exchange));
        }
    }

    /// Handles the outcome of a request for the rest of an answer.
    pub(super) fn resolve_resumed(
        &mut self,
        now: Instant,
        number: RequestId,
        is_current: bool,
        ended: ExchangeOutcome,
    ) {
        let Some(call) = self.peer.carriage_mut(number) else { return };
        let failed = call.streams.failures > self.config.backoff.attempts;
        let detail = match ended {
            ExchangeOutcome::Unanswered(_, trail) | ExchangeOutcome::Broken { trail, refused: None, .. }
                if !failed || trail.has_advanced() =>
            {
                return self.resume_later(now, number, trail);
            }
            ExchangeOutcome::NoAnswer(error) | ExchangeOutcome::Broken { refused: Some(error), .. }
                if error.retry == RetryAdvice::Later && !failed =>
            {
                let trail = ResumePoint { retry: error.retry_after, ..ResumePoint::default() };
                return self.resume_later(now, number, trail);
            }
            ExchangeOutcome::Unreachable { .. } if !failed => {
                return self.resume_later(now, number, ResumePoint::default());
            }
            ExchangeOutcome::NoAnswer(error) => {
                call.streams.forget_position();
                // If the server has opened streams for GET before, its 404 means that the session is lost.
                if error.status == 404 && self.session.offers_stream && is_current {
                    self.renew_session(now);
                }
                format!("the rest of the answer cannot be fetched: {error}")
            }
            ExchangeOutcome::Unanswered(..)
            | ExchangeOutcome::Broken { .. }
            | ExchangeOutcome::Unreachable { .. } => {
                call.streams.forget_position();
                "the stream of the answer keeps ending".into()
            }
            ended => return self.resolve_call(now, number, is_current, ended),
        };
        self.handle_broken_call(now, number, &detail, ResumePoint::default());
    }
}
