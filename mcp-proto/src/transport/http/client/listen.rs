//! Pauses between an event stream and the next one that resumes it.
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
//!
//! The stream of a legacy server's own messages, requested by GET.
//!
//! Streams requested by GET: the messages a legacy server sends outside requests, and the rest of interrupted answers.
//!
//! | the stream of | ends | the client requests it again |
//! |---|---|---|
//! | an answer | before the answer, after an event with an id | from that event, until the answer arrives or the server refuses |
//! | an answer | in any other way | never |
//! | the server's own messages | in any way | from its last event, unless that fails too often in a row |
//!
//! [`reconnect`](super::reconnect) determines the pauses between them.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, SplitMix64};
use crate::peer::client::Diagnostic;
use crate::peer::{Leniency, RetryAdvice};
use crate::schema::{Era, Revision};
use crate::transport::http::{ExchangeId, Verb};

use super::call::{Call, CallState};
use super::config::ListenPolicy;
use super::exchange::ExchangeKind;
use super::response::{ExchangeOutcome, ResumePoint};
use super::{HttpClient, Timer};

/// The shortest pause, which limits the rate of requests to a server that ends every stream at once.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause added because streams carry no message.
///
/// It is the maximum delay of an answer from a server that is polled this way.
const MAX_IDLE_PAUSE: Duration = Duration::from_secs(2);

/// How long a stream must last to count as working, with or without events.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The most useful item that a stream has delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProgress {
    /// At least one event with data.
    Message,
    /// A new position to resume from.
    Position,
    Nothing,
}

impl From<&ResumePoint> for StreamProgress {
    fn from(trail: &ResumePoint) -> Self {
        match trail {
            ResumePoint { has_events: true, .. } => Self::Message,
            ResumePoint { last_event: Some(_), .. } => Self::Position,
            ResumePoint { last_event: None, .. } => Self::Nothing,
        }
    }
}

/// The streams that have ended so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reconnects {
    /// Whether a stream has ended before.
    has_reconnected: bool,
    /// The number of streams in a row that delivered no message but a position.
    idle: u32,
    /// The number of streams in a row that delivered nothing, plus the stream before them.
    failures: u32,
}

impl Reconnects {
    /// The number of streams in a row that delivered nothing, plus the stream before them.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Records the end of a stream; returns the pause before the next, given the server's `retry` in `wish`.
    pub(super) fn next_pause(
        &mut self,
        brought: StreamProgress,
        wish: Duration,
        backoff: &Backoff,
        rng: &mut SplitMix64,
    ) -> Duration {
        let pause = match brought {
            StreamProgress::Message => {
                (self.idle, self.failures) = (0, 0);
                Duration::ZERO
            }
            StreamProgress::Position => {
                let doubled = MIN_PAUSE.saturating_mul(2u32.saturating_pow(self.idle.saturating_sub(1)));
                let pause = if self.idle == 0 { Duration::ZERO } else { doubled.min(MAX_IDLE_PAUSE) };
                self.idle = self.idle.saturating_add(1);
                self.failures = 0;
                pause
            }
            StreamProgress::Nothing if self.failures == 0 => Duration::ZERO,
            StreamProgress::Nothing => backoff.pause(self.failures, rng),
        };
        self.failures = self.failures.saturating_add(1);
        let floor =
            if core::mem::replace(&mut self.has_reconnected, true) { MIN_PAUSE } else { Duration::ZERO };
        //= C4.22 "SSE `retry` respected before reconnect"
        pause.max(wish).max(floor)
    }
}

/// The stream of a legacy server's own messages, across reconnects.
#[derive(Debug, Default)]
pub(super) struct Listener {
    exchange: Option<ExchangeId>,
    /// Whether it is requested again after a pause.
    is_pausing: bool,
    last_event: Option<Arc<str>>,
    /// The reconnection delay that the server asked for.
    retry: Option<Duration>,
    /// When the current stream began.
    started_at: Option<Instant>,
    /// The streams that have ended.
    reconnects: Reconnects,
}

impl Listener {
    /// Returns the event after which the next stream resumes.
    pub(super) fn last_event(&self) -> Option<Arc<str>> {
        self.last_event.clone()
    }

    /// Records the exchange in which the stream is requested.
    pub(super) fn open(&mut self, exchange: ExchangeId) {
        self.exchange = Some(exchange);
        self.is_pausing = false;
    }

    /// Returns whether the stream is open, or requested, or is requested again after a pause.
    pub(super) fn is_active(&self) -> bool {
        self.exchange.is_some() || self.is_pausing
    }

    /// Records that the server has begun the stream.
    pub(super) fn start(&mut self, now: Instant) {
        self.started_at = Some(now);
    }

    /// Handles the end or refusal of the stream; returns when it began.
    pub(super) fn end(&mut self) -> Option<Instant> {
        self.exchange = None;
        self.started_at.take()
    }

    /// Discards the stream; returns its exchange.
    pub(super) fn stop(&mut self) -> Option<ExchangeId> {
        core::mem::take(self).exchange
    }

    /// Returns the pause before the next stream; `None` if too many streams have failed in a row.
    ///
    /// The last one began at `began` and ended at `trail`.
    pub(super) fn next_pause(
        &mut self,
        now: Instant,
        began: Option<Instant>,
        trail: ResumePoint,
        default_retry: Duration,
        backoff: &Backoff,
        rng: &mut SplitMix64,
    ) -> Option<Duration> {
        let was_stable = began.is_some_and(|began| now.saturating_since(began) >= STABLE_AFTER);
        let progress = if was_stable { StreamProgress::Message } else { StreamProgress::from(&trail) };
        self.retry = trail.retry.or(self.retry);
        self.last_event = trail.last_event.or(self.last_event.take());
        if progress == StreamProgress::Nothing && self.reconnects.failures() >= backoff.attempts {
            return None;
        }
        let retry = self.retry.unwrap_or(default_retry);
        self.is_pausing = true;
        Some(self.reconnects.next_pause(progress, retry, backoff, rng).max(MIN_PAUSE))
    }
}

impl HttpClient {
    /// Requests the stream of the server's own messages, now that the session is open.
    pub(super) fn start_listening(&mut self) {
        let revision = self.peer.server().map(|server| server.revision);
        let offered = revision
            .is_some_and(|revision| revision.era() == Era::Legacy && revision >= Revision::V2025_03_26);
        if !offered || self.legacy_sse.is_some() {
            return;
        }
        if self.config.listen == ListenPolicy::IfOffered {
            self.listener.stop();
            self.open_listener();
        } else {
            self.peer.note_event_stream_lost();
        }
    }

    pub(super) fn open_listener(&mut self) {
        let last_event = self.listener.last_event();
        let headers = self.session_headers().get(last_event.as_deref());
        let purpose = ExchangeKind::Listen { last_event };
        let url = self.url.clone();
        let exchange = self.begin_exchange(purpose, Verb::Get, url, headers, bytes::Bytes::new());
        self.listener.open(exchange);
    }

    pub(super) fn stop_listening(&mut self) {
        self.timers.clear(Timer::Listen);
        if let Some(exchange) = self.listener.stop() {
            self.abort_exchange(exchange);
        }
    }

    /// Records that a stream requested by GET has begun.
    pub(super) fn note_stream(&mut self, now: Instant, purpose: &ExchangeKind) {
        self.session.note_stream_offered();
        if let ExchangeKind::Listen { last_event } = purpose {
            self.listener.start(now);
            // A stream resumed after an event misses no message.
            if last_event.is_none() {
                self.peer.note_event_stream_open();
            }
        }
    }

    /// Handles the end or refusal of the stream of the server's own messages.
    pub(super) fn handle_listener_end(&mut self, now: Instant, generation: u32, ended: ExchangeOutcome) {
        if generation != self.session.generation() {
            return;
        }
        let began = self.listener.end();
        let (trail, detail) = match ended {
            ExchangeOutcome::Unanswered(_, trail) => (trail, String::from("the stream ended")),
            ExchangeOutcome::Broken { detail, trail, refused: None, .. } => (trail, detail),
            ExchangeOutcome::Unreachable { detail } => (ResumePoint::default(), detail),
            ExchangeOutcome::NoAnswer(error)
            | ExchangeOutcome::Invalid(_, error)
            | ExchangeOutcome::Broken { refused: Some(error), .. } => {
                // A server that never offered the stream may refuse it with any status.
                let known = self.session.offers_stream();
                if error.status == 404 && known && self.renew_session(now) {
                    return;
                }
                if error.retry != RetryAdvice::Later || !known {
                    let detail = format!("{error}");
                    self.fail_accepted_calls(now, &detail);
                    self.peer.note_event_stream_lost();
                    //= C4.21 "405 = not offered"
                    if !matches!(error.status, 404 | 405) {
                        self.peer.report(Diagnostic::EventStreamUnavailable { detail });
                    }
                    return;
                }
                (ResumePoint { retry: error.retry_after, ..ResumePoint::default() }, format!("{error}"))
            }
            ExchangeOutcome::Answer { http, .. } => {
                (ResumePoint::default(), format!("status {}", http.status))
            }
        };
        let Self { listener, config, rng, .. } = self;
        match listener.next_pause(now, began, trail, config.retry, &config.backoff, rng) {
            Some(pause) => self.timers.set(Timer::Listen, now + pause),
            None => {
                self.fail_accepted_calls(now, &detail);
                self.peer.note_event_stream_lost();
                self.peer.report(Diagnostic::EventStreamUnavailable { detail });
            }
        }
    }

    // --- Answers on the stream ---

    /// Waits for the answer to an accepted request on the stream of the server's own messages, as long as the request
    /// may wait. Returns whether there is such a stream.
    pub(super) fn await_on_listener(&mut self, number: i64) -> bool {
        let is_legacy = |call: &&Call| call.revision.era() == Era::Legacy;
        let Some(call) = self.calls.get(number).filter(is_legacy) else { return false };
        let method = call.method.to_string();
        let waits = self.listener.is_active() && self.peer.tolerate(Leniency::AnswerOnEventStream { method });
        if waits {
            self.mark_accepted(&ExchangeKind::Call(number));
        }
        waits
    }

    /// Fails the requests that the server accepted and whose answers the stream can no longer bring.
    pub(super) fn fail_accepted_calls(&mut self, now: Instant, detail: &str) {
        for number in self.calls.numbers(|call| call.state == CallState::Accepted) {
            self.handle_broken_call(now, number, detail, ResumePoint::default());
        }
    }

    // --- Resuming answers ---

    /// Returns whether streams can be resumed in this session.
    pub(super) fn is_resumable(&self) -> bool {
        let revision = self.peer.server().map(|server| server.revision);
        self.legacy_sse.is_none()
            && self.peer.state() == crate::peer::client::State::Ready
            && revision
                .is_some_and(|revision| revision.era() == Era::Legacy && revision >= Revision::V2025_03_26)
    }

    /// Schedules a request for the rest of an interrupted answer.
    pub(super) fn resume_later(
        &mut self,
        now: Instant,
        number: i64,
        trail: ResumePoint,
        brought: StreamProgress,
    ) {
        let backoff = self.config.backoff;
        let Some(call) = self.calls.get_mut(number) else { return };
        let wish = trail.retry.unwrap_or(self.config.retry);
        let pause = call.reconnects.next_pause(brought, wish, &backoff, &mut self.rng);
        call.await_resumption(trail);
        self.timers.set(Timer::Call(number), now + pause);
    }

    /// Requests the rest of an interrupted answer.
    pub(super) fn request_resumption(&mut self, number: i64) {
        let trail = self.calls.get(number).and_then(|call| call.resume_point.as_ref());
        let Some(last_event) = trail.and_then(|trail| trail.last_event.clone()) else { return };
        let headers = self.session_headers().get(Some(&last_event));
        let purpose = ExchangeKind::Resume { number, last_event };
        let url = self.url.clone();
        let exchange = self.begin_exchange(purpose, Verb::Get, url, headers, bytes::Bytes::new());
        self.calls.set_state(number, CallState::InExchange(exchange));
    }

    /// Handles the outcome of a request for the rest of an answer.
    pub(super) fn resolve_resumed(
        &mut self,
        now: Instant,
        number: i64,
        generation: u32,
        ended: ExchangeOutcome,
    ) {
        let Some(call) = self.calls.get_mut(number) else { return };
        let before = call.resume_point.clone().unwrap_or_default();
        let failed = call.reconnects.failures() > self.config.backoff.attempts;
        match ended {
            ExchangeOutcome::Unanswered(_, trail) | ExchangeOutcome::Broken { trail, refused: None, .. }
                if !failed || trail.has_advanced() =>
            {
                let brought = StreamProgress::from(&trail);
                let last_event = trail.last_event.or(before.last_event);
                let trail = ResumePoint {
                    last_event,
                    retry: trail.retry.or(before.retry),
                    has_events: trail.has_events,
                };
                self.resume_later(now, number, trail, brought);
            }
            ExchangeOutcome::NoAnswer(error) | ExchangeOutcome::Broken { refused: Some(error), .. }
                if error.retry == RetryAdvice::Later && !failed =>
            {
                let retry = error.retry_after.or(before.retry);
                self.resume_later(
                    now,
                    number,
                    ResumePoint { retry, has_events: false, ..before },
                    StreamProgress::Nothing,
                );
            }
            ExchangeOutcome::NoAnswer(error) => {
                call.stop_resuming();
                // If the server has opened streams for GET before, its 404 means that the session is lost.
                if error.status == 404
                    && self.session.offers_stream()
                    && generation == self.session.generation()
                {
                    self.renew_session(now);
                }
                let detail = format!("the rest of the answer cannot be fetched: {error}");
                self.handle_broken_call(now, number, &detail, ResumePoint::default());
            }
            ExchangeOutcome::Unreachable { .. } if !failed => {
                self.resume_later(
                    now,
                    number,
                    ResumePoint { has_events: false, ..before },
                    StreamProgress::Nothing,
                );
            }
            ExchangeOutcome::Unanswered(..)
            | ExchangeOutcome::Broken { .. }
            | ExchangeOutcome::Unreachable { .. } => {
                call.stop_resuming();
                self.handle_broken_call(
                    now,
                    number,
                    "the stream of the answer keeps ending",
                    ResumePoint::default(),
                );
            }
            ended => self.resolve_call(now, number, generation, ended),
        }
    }
}
