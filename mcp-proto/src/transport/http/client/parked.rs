//! Exchanges that were refused because this side is not authorized: they are held while somebody sees to that.
//!
//! An exchange that is held is over for the driver. It keeps its place among the others, and what it is for stands still:
//!
//! | what comes | what follows |
//! |---|---|
//! | [`resume`](HttpClient::resume) | the same request, in a new exchange |
//! | [`refuse`](HttpClient::refuse) | what follows the refusal where nothing is held |
//! | its request is cancelled, or its time is over whatever happens | it is gone; the server, which refused it, is not told |
//! | another session, or an end of the connection | a request waits for the next session; anything else is gone |
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use crate::Instant;
use crate::peer::TransportError;
use crate::peer::client::{ConnectProgress, ConnectStep};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::call::{CallOwner, CallState};
use super::exchange::{ClientExchange, ExchangeKind, ResponseState};
use super::response::ExchangeOutcome;
use super::session::{self, SendGate};
use super::timers::Timer;

/// What to do with an exchange that is refused because this side is not authorized: with 401, or with 403 and a challenge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnauthorizedPolicy {
    /// What it is for ends with that.
    #[default]
    Report,
    /// It is held, and told of as [`Action::Challenge`](super::Action::Challenge). Whoever sees to the authorization ends
    /// that by [`resume`](HttpClient::resume) or [`refuse`](HttpClient::refuse); there is no other limit to it than that
    /// of the request.
    Park,
}

/// An exchange is held, because the server wants to know more of who asks.
#[derive(Clone)]
pub struct AuthorizationRequired {
    /// The exchange. It has ended, and its name is what it is resumed or refused by.
    pub exchange: ExchangeId,
    /// Its status, 401 or 403.
    pub status: u16,
    /// The `WWW-Authenticate` headers, joined by commas; as long as [`Limits::header_bytes`](crate::Limits::header_bytes).
    pub header: Option<String>,
    /// The nonce for the next proof of possession, by RFC 9449.
    pub dpop_nonce: Option<String>,
    /// How often this request was resumed before.
    pub attempt: u32,
}

impl fmt::Debug for AuthorizationRequired {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("exchange", &self.exchange)
            .field("status", &self.status)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What is known of all that is held.
#[derive(Debug, Default)]
pub(super) struct ParkingState {
    /// How many exchanges are held.
    count: usize,
    /// Whether there is one less since this was last looked at.
    has_unparked: bool,
    /// When that was last noticed. What waited behind it has waited for the server since then only.
    last_unparked: Option<Instant>,
    /// Since when what detection has asked is held.
    detection_since: Option<Instant>,
}

impl HttpClient {
    /// This side is authorized now, as far as it knows: what was held goes out again, in another exchange. Nothing happens
    /// if this exchange is held no longer.
    pub fn resume(&mut self, now: Instant, exchange: ExchangeId) {
        if self.is_parked(exchange) {
            self.reopen_exchange(now, exchange);
            self.advance(now);
        }
    }

    /// This side will not be authorized, for people to read why: what was held ends as the server has refused it. Nothing
    /// happens if this exchange is held no longer.
    pub fn refuse(&mut self, now: Instant, exchange: ExchangeId, detail: &str) {
        if self.is_parked(exchange)
            && let Some(held) = self.remove_exchange(exchange)
        {
            self.outbox.withdraw_challenge(exchange);
            let ClientExchange { kind: purpose, generation, response: reading, .. } = held;
            if let ResponseState::Parked(mut ended) = reading {
                if let Some(http) = ended.http_error_mut() {
                    http.unauthorized = Some(TransportError::excerpt(detail).into());
                }
                self.resolve_exchange(now, purpose, generation, None, *ended);
            }
            self.advance(now);
        }
    }

    pub(super) fn is_parked(&self, id: ExchangeId) -> bool {
        self.exchanges.get(&id).is_some_and(|exchange| matches!(exchange.response, ResponseState::Parked(_)))
    }

    /// Holds an exchange that has come to this, if it was refused for what authorization may change; gives back what it
    /// has come to otherwise.
    pub(super) fn park(
        &mut self,
        now: Instant,
        id: ExchangeId,
        exchange: ClientExchange,
        mut ended: ExchangeOutcome,
    ) -> Option<(ClientExchange, ExchangeOutcome)> {
        let refusal = ended.http_error_mut();
        let refusal = refusal
            .filter(|http| http.needs_authorization)
            .filter(|_| self.config.authorization == UnauthorizedPolicy::Park && !self.peer.is_closed());
        let Some(http) = refusal else { return Some((exchange, ended)) };
        let challenge = AuthorizationRequired {
            exchange: id,
            status: http.status,
            header: http.challenge.clone(),
            dpop_nonce: exchange.dpop_nonce.clone(),
            attempt: exchange.authorization_attempts,
        };
        match &exchange.kind {
            ExchangeKind::Probe { .. } | ExchangeKind::Initialize { .. } => self.pause_detection(now),
            ExchangeKind::Events => {
                self.timers.clear(Timer::Events);
                self.pause_detection(now);
            }
            ExchangeKind::Call(number) if self.is_relisting(*number) => self.timers.clear(Timer::Relist),
            ExchangeKind::Post(post) => {
                if session::opens_session(post) && self.gate == SendGate::Opening {
                    self.timers.clear(Timer::Opening);
                }
                self.posts_in_flight = self.posts_in_flight.saturating_add(1);
            }
            _ => {}
        }
        self.parking.count = self.parking.count.saturating_add(1);
        self.exchanges
            .insert(id, ClientExchange { response: ResponseState::Parked(Box::new(ended)), ..exchange });
        self.outbox.push_challenge(challenge);
        None
    }

    /// An exchange that was held is taken out.
    pub(super) fn note_unparked(&mut self) {
        self.parking.count = self.parking.count.saturating_sub(1);
        self.parking.has_unparked = true;
    }

    /// Notes when something was held last.
    pub(super) fn record_unparked(&mut self, now: Instant) {
        if core::mem::take(&mut self.parking.has_unparked) {
            self.parking.last_unparked = Some(now);
        }
    }

    fn reopen_exchange(&mut self, now: Instant, id: ExchangeId) {
        let Some(held) = self.remove_exchange(id) else { return };
        self.outbox.withdraw_challenge(id);
        let ClientExchange {
            kind: purpose, url, redirects, generation, authorization_attempts: resumed, ..
        } = held;
        let outdated = generation != self.session.generation;
        if let ExchangeKind::Call(number) = purpose
            && (outdated || self.gate != SendGate::Open)
        {
            return self.requeue(now, number);
        }
        let (false, Some((verb, headers, body))) = (outdated, self.rebuild_request(&purpose)) else { return };
        let again = self.begin_exchange(purpose.clone(), verb, url, headers, body);
        if let Some(exchange) = self.exchanges.get_mut(&again) {
            exchange.redirects = redirects;
            exchange.authorization_attempts = resumed.saturating_add(1);
        }
        self.move_exchange(&purpose, id, again);
        match &purpose {
            ExchangeKind::Probe { .. } | ExchangeKind::Initialize { .. } => self.resume_detection(now),
            ExchangeKind::Events => {
                self.resume_detection(now);
                self.timers.set(Timer::Events, now + self.config.legacy_sse_timeout);
            }
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => {
                self.peer.suspend_deadline_until(*number, now);
                if self.is_relisting(*number) {
                    self.timers.set(Timer::Relist, now + self.config.client.request_timeout);
                }
            }
            ExchangeKind::Post(post) => {
                self.limit_post_response(now, again);
                if session::opens_session(post) && self.gate == SendGate::Opening {
                    self.timers.set(Timer::Opening, now + session::POST_RESPONSE_TIMEOUT);
                }
            }
            ExchangeKind::Listen { .. } | ExchangeKind::Delete => {}
        }
    }

    fn is_relisting(&self, number: i64) -> bool {
        self.calls.get(&number).is_some_and(|call| call.owner == CallOwner::ToolListing)
    }

    // --- What stands still ---

    /// What detection has asked is held: its time stands still.
    fn pause_detection(&mut self, now: Instant) {
        self.parking.detection_since.get_or_insert(now);
        self.peer.set_connect_progress(Some(ConnectProgress::new(ConnectStep::Authorization)));
    }

    /// Detection has asked once more, or has heard something.
    pub(super) fn resume_detection(&mut self, now: Instant) {
        if let Some(since) = self.parking.detection_since.take() {
            self.detection.extend_deadlines(now.saturating_since(since));
            self.peer.set_connect_progress(self.detection.progress(now));
        }
    }

    /// Whether the time of detection stands still.
    pub(super) fn is_detection_paused(&self) -> bool {
        self.parking.detection_since.is_some()
    }

    /// A request has left the queue: the time that it stood there behind what was held does not count.
    pub(super) fn suspend_sent_deadline(&mut self, number: i64) {
        if let Some(until) = self.parking.last_unparked {
            self.peer.suspend_deadline_until(number, until);
        }
    }

    /// Gives requests their time again that were held, or stood behind what was.
    pub(super) fn suspend_parked_deadlines(&mut self, now: Instant) {
        let held = (self.parking.count > 0).then_some(now).or(self.parking.last_unparked);
        let Some(until) = held else { return };
        let Self { peer, calls, exchanges, .. } = self;
        peer.suspend_deadlines(now, |number| match calls.get(&number).map(|call| call.state) {
            Some(CallState::InExchange(exchange)) => {
                let exchange = exchanges.get(&exchange)?;
                matches!(exchange.response, ResponseState::Parked(_)).then_some(now)
            }
            // It is in the queue, or waits until the server is known.
            Some(CallState::Queued | CallState::AwaitingTools) | None => Some(until),
            Some(CallState::BackingOff | CallState::Accepted) => None,
        });
    }
}
