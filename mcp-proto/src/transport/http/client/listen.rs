//! Streams that are asked for by GET: what a legacy server says of its own accord, and the rest of an answer whose stream
//! broke off.
//!
//! | the stream of | ends | is asked for again |
//! |---|---|---|
//! | an answer | before the answer, behind an event with an id | from that event, until it is there or was refused |
//! | an answer | otherwise | never |
//! | the server's own messages | anyhow | from its last event, as long as that does not fail too often in a row |
//!
//! The pauses between are those of [`reconnect`](super::reconnect).
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::peer::client::Diagnostic;
use crate::schema::{Era, Revision};
use crate::transport::http::{ExchangeId, Verb};

use super::HttpClient;
use super::answer::{Ended, Trail};
use super::call::Place;
use super::config::Listen;
use super::exchange::Purpose;
use super::reconnect::{FLOOR, Reconnects, Yield};
use super::timers::Timer;

/// How long a stream must last to count as one that works, whether anything comes on it or not.
pub(super) const STEADY: Duration = Duration::from_secs(10);

/// The stream of what the server says of its own accord.
#[derive(Debug, Default)]
pub(super) struct Listener {
    pub(super) exchange: Option<ExchangeId>,
    last_event: Option<Arc<str>>,
    /// How long the server wants to be left alone.
    retry: Option<Duration>,
    /// When the stream began, if the server has ever offered one in this session.
    since: Option<Instant>,
    /// The streams that have ended.
    reconnects: Reconnects,
}

impl HttpClient {
    /// Asks for the server's own messages, now that the session has begun.
    pub(super) fn listen(&mut self) {
        let revision = self.peer.server().map(|server| server.revision);
        let offered = revision
            .is_some_and(|revision| revision.era() == Era::Legacy && revision >= Revision::V2025_03_26);
        if !offered || self.events.is_some() {
            return;
        }
        if self.config.listen == Listen::IfOffered {
            self.listener = Listener::default();
            self.open_listener();
        } else {
            self.peer.note_event_stream_lost();
        }
    }

    pub(super) fn open_listener(&mut self) {
        let last_event = self.listener.last_event.clone();
        let headers = self.session_headers().get(last_event.as_deref());
        let purpose = Purpose::Listen { last_event };
        let url = self.url.clone();
        let exchange = self.begin(purpose, Verb::Get, url, headers, bytes::Bytes::new());
        self.listener.exchange = Some(exchange);
    }

    pub(super) fn stop_listening(&mut self) {
        self.timers.clear(Timer::Listen);
        if let Some(exchange) = core::mem::take(&mut self.listener).exchange {
            self.abort_exchange(exchange);
        }
    }

    /// A stream that was asked for has begun.
    pub(super) fn note_stream(&mut self, now: Instant, purpose: &Purpose) {
        self.session.streams = true;
        if let Purpose::Listen { last_event } = purpose {
            self.listener.since = Some(now);
            // From an event on nothing is missed.
            if last_event.is_none() {
                self.peer.note_event_stream_open();
            }
        }
    }

    /// The stream of the server's own messages has ended, or was refused.
    pub(super) fn conclude_listening(&mut self, now: Instant, generation: u32, ended: Ended) {
        if generation != self.session.generation {
            return;
        }
        self.listener.exchange = None;
        let began = self.listener.since.take();
        let (trail, detail) = match ended {
            Ended::Unanswered(_, trail) => (trail, String::from("the stream ended")),
            Ended::Broken { detail, trail, refused: None, .. } => (trail, detail),
            Ended::Unreachable { detail } => (Trail::default(), detail),
            Ended::Other(error) | Ended::Invalid(_, error) | Ended::Broken { refused: Some(error), .. } => {
                // Whoever never offered the stream does not have to say so in any particular way.
                let known = self.session.streams;
                if error.status == 404 && known && self.lose_session(now) {
                    return;
                }
                if !matches!(error.status, 408 | 425 | 429 | 500..) || !known {
                    self.peer.note_event_stream_lost();
                    if !matches!(error.status, 404 | 405) {
                        let detail = format!("{error}");
                        self.peer.report(Diagnostic::EventStreamUnavailable { detail });
                    }
                    return;
                }
                (Trail { retry: error.retry_after, ..Trail::default() }, format!("{error}"))
            }
            Ended::Answer { http, .. } => (Trail::default(), format!("status {}", http.status)),
        };
        let steady = began.is_some_and(|began| now.saturating_since(began) >= STEADY);
        let brought = if steady { Yield::Message } else { Yield::from(&trail) };
        self.listener.retry = trail.retry.or(self.listener.retry);
        self.listener.last_event = trail.last_event.or(self.listener.last_event.take());
        let backoff = self.config.backoff;
        if brought == Yield::Nothing && self.listener.reconnects.failures() >= backoff.attempts {
            self.peer.note_event_stream_lost();
            return self.peer.report(Diagnostic::EventStreamUnavailable { detail });
        }
        let wish = self.listener.retry.unwrap_or(self.config.retry);
        let pause = self.listener.reconnects.next_pause(brought, wish, &backoff, &mut self.chance);
        self.timers.set(Timer::Listen, now + pause.max(FLOOR));
    }

    // --- The rest of an answer ---

    /// Whether streams can be resumed in this session.
    pub(super) fn is_resumable(&self) -> bool {
        let revision = self.peer.server().map(|server| server.revision);
        self.events.is_none()
            && self.peer.state() == crate::peer::client::State::Ready
            && revision
                .is_some_and(|revision| revision.era() == Era::Legacy && revision >= Revision::V2025_03_26)
    }

    /// The stream of an answer broke off: the rest is asked for after a pause.
    pub(super) fn resume_later(&mut self, now: Instant, number: i64, trail: Trail, brought: Yield) {
        let backoff = self.config.backoff;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let wish = trail.retry.unwrap_or(self.config.retry);
        let pause = call.reconnects.next_pause(brought, wish, &backoff, &mut self.chance);
        call.trail = Some(trail);
        call.place = Place::Pausing;
        self.timers.set(Timer::Call(number), now + pause);
    }

    /// Asks for the rest of an answer.
    pub(super) fn ask_for_rest(&mut self, number: i64) {
        let trail = self.calls.get(&number).and_then(|call| call.trail.as_ref());
        let Some(last_event) = trail.and_then(|trail| trail.last_event.clone()) else { return };
        let headers = self.session_headers().get(Some(&last_event));
        let purpose = Purpose::Resume { number, last_event };
        let url = self.url.clone();
        let exchange = self.begin(purpose, Verb::Get, url, headers, bytes::Bytes::new());
        if let Some(call) = self.calls.get_mut(&number) {
            call.place = Place::Out(exchange);
        }
    }

    /// What came of the rest of an answer.
    pub(super) fn conclude_resumed(&mut self, now: Instant, number: i64, generation: u32, ended: Ended) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let before = call.trail.clone().unwrap_or_default();
        let failed = call.reconnects.failures() > self.config.backoff.attempts;
        match ended {
            Ended::Unanswered(_, trail) | Ended::Broken { trail, refused: None, .. }
                if !failed || trail.has_advanced() =>
            {
                let brought = Yield::from(&trail);
                let last_event = trail.last_event.or(before.last_event);
                let trail = Trail { last_event, retry: trail.retry.or(before.retry), heard: trail.heard };
                self.resume_later(now, number, trail, brought);
            }
            Ended::Other(error) | Ended::Broken { refused: Some(error), .. }
                if matches!(error.status, 408 | 425 | 429 | 500..) && !failed =>
            {
                let retry = error.retry_after.or(before.retry);
                self.resume_later(now, number, Trail { retry, heard: false, ..before }, Yield::Nothing);
            }
            Ended::Other(error) => {
                call.trail = None;
                // A server that has had streams by GET, and knows no such thing any more, has lost the session.
                if error.status == 404 && self.session.streams && generation == self.session.generation {
                    self.lose_session(now);
                }
                let detail = format!("the rest of the answer can not be had: {error}");
                self.break_call(now, number, &detail, Trail::default());
            }
            Ended::Unreachable { .. } if !failed => {
                self.resume_later(now, number, Trail { heard: false, ..before }, Yield::Nothing);
            }
            Ended::Unanswered(..) | Ended::Broken { .. } | Ended::Unreachable { .. } => {
                call.trail = None;
                self.break_call(now, number, "the stream of the answer keeps ending", Trail::default());
            }
            ended => self.conclude_call(now, number, generation, ended),
        }
    }
}
