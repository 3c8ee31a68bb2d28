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
use crate::peer::HttpError;
use crate::peer::client::{ConnectProgress, ConnectStep};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::answer::Ended;
use super::call::{Owner, Place};
use super::exchange::{Exchange, Purpose, Reading};
use super::session::{self, Gate};
use super::timers::Timer;

/// What to do with an exchange that is refused because this side is not authorized: with 401, or with 403 and a challenge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unauthorized {
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
pub struct Challenge {
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

impl fmt::Debug for Challenge {
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
pub(super) struct Holds {
    /// How many exchanges are held.
    count: usize,
    /// Whether there is one less since this was last looked at.
    freed: bool,
    /// When that was last noticed. What waited behind it has waited for the server since then only.
    until: Option<Instant>,
    /// Since when what detection has asked is held.
    detection: Option<Instant>,
}

impl HttpClient {
    /// This side is authorized now, as far as it knows: what was held goes out again, in another exchange. Nothing happens
    /// if this exchange is held no longer.
    pub fn resume(&mut self, now: Instant, exchange: ExchangeId) {
        if self.is_held(exchange) {
            self.open_anew(now, exchange);
            self.advance(now);
        }
    }

    /// This side will not be authorized, for people to read why: what was held ends as the server has refused it. Nothing
    /// happens if this exchange is held no longer.
    pub fn refuse(&mut self, now: Instant, exchange: ExchangeId, detail: &str) {
        if self.is_held(exchange)
            && let Some(held) = self.remove_exchange(exchange)
        {
            self.out.withdraw(exchange);
            let Exchange { purpose, generation, reading, .. } = held;
            if let Reading::Held(mut ended) = reading {
                if let Some(http) = ended.refusal_mut() {
                    http.unauthorized = Some(HttpError::new(0, detail).excerpt.into());
                }
                self.conclude(now, purpose, generation, None, *ended);
            }
            self.advance(now);
        }
    }

    pub(super) fn is_held(&self, id: ExchangeId) -> bool {
        self.exchanges.get(&id).is_some_and(|exchange| matches!(exchange.reading, Reading::Held(_)))
    }

    /// Holds an exchange that has come to this, if it was refused for what authorization may change; gives back what it
    /// has come to otherwise.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        id: ExchangeId,
        exchange: Exchange,
        mut ended: Ended,
    ) -> Option<(Exchange, Ended)> {
        let refusal = ended.refusal_mut();
        let refusal = refusal
            .filter(|http| http.status == 401 || (http.status == 403 && http.challenge.is_some()))
            .filter(|_| self.config.authorization == Unauthorized::Park && !self.peer.is_closed());
        let Some(http) = refusal else { return Some((exchange, ended)) };
        let challenge = Challenge {
            exchange: id,
            status: http.status,
            header: http.challenge.clone(),
            dpop_nonce: exchange.dpop_nonce.clone(),
            attempt: exchange.resumed,
        };
        match &exchange.purpose {
            Purpose::Probe { .. } | Purpose::Initialize { .. } => self.stall(now),
            Purpose::Events => {
                self.timers.clear(Timer::Events);
                self.stall(now);
            }
            Purpose::Call(number) if self.is_relisting(*number) => self.timers.clear(Timer::Relist),
            Purpose::Post(post) => {
                if session::opens_session(post) && self.gate == Gate::Opening {
                    self.timers.clear(Timer::Opening);
                }
                self.posting = self.posting.saturating_add(1);
            }
            _ => {}
        }
        self.holds.count = self.holds.count.saturating_add(1);
        self.exchanges.insert(id, Exchange { reading: Reading::Held(Box::new(ended)), ..exchange });
        self.out.challenge(challenge);
        None
    }

    /// An exchange that was held is taken out.
    pub(super) fn note_freed(&mut self) {
        self.holds.count = self.holds.count.saturating_sub(1);
        self.holds.freed = true;
    }

    /// Notes when something was held last.
    pub(super) fn mark_freed(&mut self, now: Instant) {
        if core::mem::take(&mut self.holds.freed) {
            self.holds.until = Some(now);
        }
    }

    fn open_anew(&mut self, now: Instant, id: ExchangeId) {
        let Some(held) = self.remove_exchange(id) else { return };
        self.out.withdraw(id);
        let Exchange { purpose, url, redirects, generation, resumed, .. } = held;
        let outdated = generation != self.session.generation;
        if let Purpose::Call(number) = purpose
            && (outdated || self.gate != Gate::Open)
        {
            return self.requeue(now, number);
        }
        let (false, Some((verb, headers, body))) = (outdated, self.request_of(&purpose)) else { return };
        let again = self.begin(purpose.clone(), verb, url, headers, body);
        if let Some(exchange) = self.exchanges.get_mut(&again) {
            exchange.redirects = redirects;
            exchange.resumed = resumed.saturating_add(1);
        }
        self.moved(&purpose, id, again);
        match &purpose {
            Purpose::Probe { .. } | Purpose::Initialize { .. } => self.unstall(now),
            Purpose::Events => {
                self.unstall(now);
                self.timers.set(Timer::Events, now + self.config.events_timeout);
            }
            Purpose::Call(number) | Purpose::Resume { number, .. } => {
                self.peer.suspend_deadline_until(*number, now);
                if self.is_relisting(*number) {
                    self.timers.set(Timer::Relist, now + self.config.client.request_timeout);
                }
            }
            Purpose::Post(post) => {
                self.limit_post(now, again);
                if session::opens_session(post) && self.gate == Gate::Opening {
                    self.timers.set(Timer::Opening, now + session::POSTED);
                }
            }
            Purpose::Listen { .. } | Purpose::Delete => {}
        }
    }

    fn is_relisting(&self, number: i64) -> bool {
        self.calls.get(&number).is_some_and(|call| call.owner == Owner::Relist)
    }

    // --- What stands still ---

    /// What detection has asked is held: its time stands still.
    fn stall(&mut self, now: Instant) {
        self.holds.detection.get_or_insert(now);
        self.peer.set_connect_progress(Some(ConnectProgress::new(ConnectStep::Authorization)));
    }

    /// Detection has asked once more, or has heard something.
    pub(super) fn unstall(&mut self, now: Instant) {
        if let Some(since) = self.holds.detection.take() {
            self.detect.postpone(now.saturating_since(since));
            self.peer.set_connect_progress(self.detect.progress(now));
        }
    }

    /// Whether the time of detection stands still.
    pub(super) fn is_stalled(&self) -> bool {
        self.holds.detection.is_some()
    }

    /// A request has left the queue: the time that it stood there behind what was held does not count.
    pub(super) fn excuse_sent(&mut self, number: i64) {
        if let Some(until) = self.holds.until {
            self.peer.suspend_deadline_until(number, until);
        }
    }

    /// Gives requests their time again that were held, or stood behind what was.
    pub(super) fn excuse_held(&mut self, now: Instant) {
        let held = (self.holds.count > 0).then_some(now).or(self.holds.until);
        let Some(until) = held else { return };
        let Self { peer, calls, exchanges, .. } = self;
        peer.suspend_deadlines(now, |number| match calls.get(&number).map(|call| call.place) {
            Some(Place::Out(exchange)) => {
                let exchange = exchanges.get(&exchange)?;
                matches!(exchange.reading, Reading::Held(_)).then_some(now)
            }
            // It is in the queue, or waits until the server is known.
            Some(Place::Waiting | Place::Parked) | None => Some(until),
            Some(Place::Pausing | Place::Accepted) => None,
        });
    }
}
