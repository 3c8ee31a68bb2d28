//! Exchanges parked after 401, or 403 with a challenge, until the client is authorized.
//!
//! For the driver, a parked exchange is over. The client still counts it as open and suspends the deadline of its
//! request:
//!
//! | input | effect |
//! |---|---|
//! | [`resume`](HttpClient::resume) | the same request, in a new exchange |
//! | [`refuse`](HttpClient::refuse) | the same as a refusal that is not parked |
//! | its request is cancelled, or its hard timeout is over | it is removed; the server, which refused it, is not notified |
//! | another session, or the end of the connection | a request waits for the next session; any other exchange is dropped |
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use crate::Instant;
use crate::peer::client::{ConnectProgress, ConnectStep};
use crate::peer::{CarriageState, RequestId, TransportError};
#[cfg(feature = "trace-file")]
use crate::trace_file::MachineStep;
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::UnauthorizedPolicy;
use super::exchange::{ClientExchange, ExchangeKind, ResponseState};
use super::legacy_sse::EVENTS_TIMEOUT;
use super::outbox::AuthorizationRequired;
use super::response::ExchangeOutcome;
use super::session::{POST_RESPONSE_TIMEOUT, SendGate};

impl HttpClient {
    /// Resends the request of a parked exchange, in a new exchange, once the client is authorized.
    ///
    /// Does nothing if the exchange is not parked.
    pub fn resume(&mut self, now: Instant, exchange: ExchangeId) {
        record!(self, Some(now), MachineStep::Resume { exchange: exchange.number() });
        if self.exchanges.is_parked(exchange) {
            self.reopen_exchange(now, exchange);
            self.advance(now);
        }
    }

    /// Ends a parked exchange with the server's refusal, because the client cannot be authorized.
    ///
    /// `detail` is a human-readable reason. Does nothing if the exchange is not parked.
    pub fn refuse(&mut self, now: Instant, exchange: ExchangeId, detail: &str) {
        record!(self, Some(now), MachineStep::Refuse { exchange: exchange.number(), detail: detail.into() });
        if self.exchanges.is_parked(exchange)
            && let Some(held) = self.exchanges.remove(exchange)
        {
            self.outbox.withdraw_challenge(exchange);
            let ClientExchange { kind, generation, response, .. } = held;
            if let ResponseState::Parked(mut ended) = response {
                if let Some(http) = ended.http_error_mut() {
                    http.unauthorized = Some(TransportError::excerpt(detail));
                }
                self.resolve_exchange(now, exchange, kind, generation, None, *ended);
            }
            self.advance(now);
        }
    }

    /// Returns whether an exchange with this outcome is parked: it was refused for lack of authorization, and the
    /// configuration enables that.
    pub(super) fn is_to_park(&self, ended: &mut ExchangeOutcome) -> bool {
        ended.http_error_mut().is_some_and(|http| http.needs_authorization)
            && self.config.authorization == UnauthorizedPolicy::Park
            && !self.peer.is_closed()
    }

    /// Parks an exchange.
    pub(super) fn park(
        &mut self,
        now: Instant,
        id: ExchangeId,
        exchange: ClientExchange,
        mut ended: ExchangeOutcome,
    ) {
        let Some(http) = ended.http_error_mut() else { return };
        let challenge = AuthorizationRequired {
            exchange: id,
            status: http.status,
            header: http.challenge.as_deref().map(Into::into),
            dpop_nonce: exchange.details.as_ref().and_then(|details| details.dpop_nonce.clone()),
            attempt: exchange.authorization_attempts,
        };
        match &exchange.kind {
            ExchangeKind::Handshake { .. } => self.pause_detection(now),
            ExchangeKind::Events => {
                self.timers.events = None;
                self.pause_detection(now);
            }
            ExchangeKind::Call(number) if self.lists_tools(*number) => self.timers.relist = None,
            ExchangeKind::Post(post) if self.session.is_opened_by(post) => self.timers.opening = None,
            _ => {}
        }
        self.exchanges.park(id, exchange, ended);
        self.outbox.challenges.insert(id, challenge);
    }

    fn reopen_exchange(&mut self, now: Instant, id: ExchangeId) {
        let Some(held) = self.exchanges.remove(id) else { return };
        self.outbox.withdraw_challenge(id);
        let ClientExchange { kind, url, redirects, generation, authorization_attempts: attempts, .. } = held;
        let outdated = generation != self.session.generation;
        if let ExchangeKind::Call(number) = kind
            && (outdated || self.session.gate != SendGate::Open)
        {
            return self.requeue(now, number);
        }
        if outdated {
            return;
        }
        let request = match (self.build_request(&kind), &kind) {
            (Ok(request), _) => request,
            (Err(refusal), ExchangeKind::Call(number)) => return self.refuse_call(now, *number, refusal),
            (Err(_), _) => return,
        };
        self.replace_exchange(now, id, kind.clone(), url, (redirects, attempts.saturating_add(1)), request);
        match &kind {
            ExchangeKind::Handshake { .. } => self.resume_detection(now),
            ExchangeKind::Events => {
                self.resume_detection(now);
                self.timers.events = Some(now + EVENTS_TIMEOUT);
            }
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => {
                self.peer.suspend_deadline_until(*number, now);
                if self.lists_tools(*number) {
                    self.timers.relist = Some(now + self.config.client.request_timeout);
                }
            }
            ExchangeKind::Post(post) if self.session.is_opened_by(post) => {
                self.timers.opening = Some(now + POST_RESPONSE_TIMEOUT);
            }
            ExchangeKind::Post(_) | ExchangeKind::Listen { .. } | ExchangeKind::Delete => {}
        }
    }

    // --- Suspended deadlines ---

    /// Suspends the deadlines of detection: its request is parked.
    fn pause_detection(&mut self, now: Instant) {
        self.detection.pause(now);
        self.peer.set_connect_progress(Some(ConnectProgress::new(ConnectStep::Authorization)));
    }

    /// Resumes the deadlines of detection.
    pub(super) fn resume_detection(&mut self, now: Instant) {
        if self.detection.resume(now) {
            self.peer.set_connect_progress(self.detection.progress(now));
        }
    }

    /// Excludes the time that a request was queued behind parked exchanges from its deadline, now that it is sent.
    pub(super) fn suspend_sent_deadline(&mut self, number: RequestId) {
        if let Some(since) = self.exchanges.last_unparked {
            self.peer.suspend_deadline_until(number, since);
        }
    }

    /// Suspends the deadlines of requests that are parked, or queued behind parked exchanges.
    pub(super) fn suspend_parked_deadlines(&mut self, now: Instant) {
        let Self { peer, exchanges, .. } = self;
        let since = if exchanges.has_parked() { Some(now) } else { exchanges.last_unparked };
        let Some(since) = since else { return };
        peer.suspend_deadlines(now, |call| match call.map(|call| &call.state) {
            Some(CarriageState::InExchange(exchange)) => exchanges.is_parked(*exchange).then_some(now),
            // The request is queued, or waits until the server is known.
            Some(CarriageState::Queued | CarriageState::AwaitingTools(_)) | None => Some(since),
            Some(CarriageState::BackingOff { .. } | CarriageState::Accepted) => None,
        });
    }
}
