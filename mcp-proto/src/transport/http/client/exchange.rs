//! The exchanges of the client: their purposes, the table of the open ones, and how they are opened, redirected and
//! replaced.

use alloc::sync::Arc;
use core::mem;
use core::ops::{Deref, DerefMut};

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::ConnectStep;
use crate::peer::{CarriageState, Leniency, RequestError, RequestId};
use crate::prelude::*;
use crate::rpc::{Pending, Text};
use crate::schema::{Discover, Method, Revision};
use crate::transport::http::{ExchangeId, Verb, header};

use super::HttpClient;
use super::address::Address;
use super::outbox::{HttpRequest, OneWayMessage};
use super::outbox::{RequestHeaders, is_modern, modern_headers, sessionless_headers};
use super::response::{AnswerHead, BufferedBody, EventBody, ExchangeOutcome, HeadDetails};

/// The purpose of an exchange.
#[derive(Clone, Debug)]
pub(super) enum ExchangeKind {
    /// The era probe, at this revision, or else the legacy handshake, `initialize`.
    Handshake { wire: i64, body: Bytes, probe: Option<Revision> },
    /// A request, by number.
    Call(RequestId),
    /// A GET for the rest of the stream that answers a request.
    Resume { number: RequestId, last_event: Arc<str> },
    /// A notification or a reply.
    Post(OneWayMessage),
    /// A GET for the messages that a legacy server sends outside requests.
    Listen { last_event: Option<Arc<str>> },
    /// A GET for the event stream of HTTP+SSE.
    Events,
    /// A DELETE that ends the session.
    Delete,
}

impl ExchangeKind {
    /// Returns the number of the request whose answer the exchange carries.
    pub(super) fn call(&self) -> Option<RequestId> {
        match *self {
            Self::Call(number) | Self::Resume { number, .. } => Some(number),
            _ => None,
        }
    }
}

/// A request of era detection, in an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    pub(super) exchange: ExchangeId,
    pub(super) wire_id: i64,
}

/// The received part of a response.
#[derive(Debug)]
pub(super) enum ResponseState {
    /// Nothing yet.
    AwaitingHead,
    /// A body that is parsed once it is complete.
    Buffered(BufferedBody),
    /// An event stream.
    Events(Box<EventBody>),
    /// A refusal for lack of authorization; the exchange is parked.
    Parked(Box<ExchangeOutcome>),
}

pub(super) struct ClientExchange {
    pub(super) kind: ExchangeKind,
    pub(super) url: Address,
    pub(super) redirects: u8,
    /// The number of times that the exchange was parked and its request resent.
    pub(super) authorization_attempts: u32,
    /// The number of the session that it belongs to.
    pub(super) generation: u32,
    /// The rare headers of the response.
    pub(super) details: Option<Box<HeadDetails>>,
    pub(super) response: ResponseState,
    /// The number of bytes that may still follow the answer, once the answer has arrived.
    pub(super) trailing_bytes_left: Option<usize>,
}

impl ClientExchange {
    pub(super) fn is_parked(&self) -> bool {
        matches!(self.response, ResponseState::Parked(_))
    }

    /// Returns whether the answer has arrived.
    pub(super) fn is_answered(&self) -> bool {
        self.trailing_bytes_left.is_some()
    }

    /// Returns the status of the response, once its head has arrived.
    pub(super) fn status(&self) -> Option<u16> {
        match &self.response {
            ResponseState::AwaitingHead | ResponseState::Parked(_) => None,
            ResponseState::Buffered(whole) => Some(whole.status),
            ResponseState::Events(events) => Some(events.status),
        }
    }
}

// Omits the session id and the bytes read so far.
debug_fields! { ClientExchange(self) { purpose = self.kind, url, generation } }

/// The open exchanges, and counts of them by kind.
#[derive(Debug, Default)]
pub(super) struct ExchangeTable {
    /// Those with a deadline are aborted then: the rest of their bodies is not needed.
    exchanges: Pending<ClientExchange, ExchangeId>,
    /// The number of exchanges opened so far.
    opened: u64,
    /// The number of open exchanges for notifications and replies.
    pub(super) posts: usize,
    /// The number of parked exchanges.
    parked: usize,
    /// Whether a parked exchange has left the table since [`record_unparked`](Self::record_unparked).
    has_unparked: bool,
    /// When a parked exchange last left the table.
    ///
    /// The waiting time of requests queued behind it counts from then on.
    pub(super) last_unparked: Option<Instant>,
}

impl ExchangeTable {
    /// Adds an exchange whose request is not sent yet, under a new id.
    fn open(&mut self, kind: ExchangeKind, url: Address, generation: u32) -> ExchangeId {
        self.opened = self.opened.saturating_add(1);
        let id = ExchangeId::new(self.opened);
        let exchange = ClientExchange {
            kind,
            url,
            redirects: 0,
            authorization_attempts: 0,
            generation,
            details: None,
            response: ResponseState::AwaitingHead,
            trailing_bytes_left: None,
        };
        self.insert(id, exchange);
        id
    }

    fn insert(&mut self, id: ExchangeId, exchange: ClientExchange) {
        self.posts = self.posts.saturating_add(usize::from(matches!(exchange.kind, ExchangeKind::Post(_))));
        self.exchanges.insert(id, None, exchange);
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<ClientExchange> {
        let exchange = self.exchanges.remove(id)?;
        self.posts = self.posts.saturating_sub(usize::from(matches!(exchange.kind, ExchangeKind::Post(_))));
        if exchange.is_parked() {
            self.parked = self.parked.saturating_sub(1);
            self.has_unparked = true;
        }
        Some(exchange)
    }

    pub(super) fn ids(&self) -> Vec<ExchangeId> {
        self.exchanges.iter().map(|(&id, _)| id).collect()
    }

    /// Returns the next exchange whose deadline is not later than `now`.
    pub(super) fn next_due(&self, now: Instant) -> Option<ExchangeId> {
        self.exchanges.due(now).next().copied()
    }

    /// Parks an exchange that was refused, until the client is authorized.
    pub(super) fn park(&mut self, id: ExchangeId, mut exchange: ClientExchange, refusal: ExchangeOutcome) {
        self.parked = self.parked.saturating_add(1);
        exchange.response = ResponseState::Parked(Box::new(refusal));
        self.insert(id, exchange);
    }

    pub(super) fn is_parked(&self, id: ExchangeId) -> bool {
        self.exchanges.get(id).is_some_and(ClientExchange::is_parked)
    }

    pub(super) fn has_parked(&self) -> bool {
        self.parked > 0
    }

    /// Records when a parked exchange has left the table.
    pub(super) fn record_unparked(&mut self, now: Instant) {
        if mem::take(&mut self.has_unparked) {
            self.last_unparked = Some(now);
        }
    }
}

impl Deref for ExchangeTable {
    type Target = Pending<ClientExchange, ExchangeId>;

    fn deref(&self) -> &Self::Target {
        &self.exchanges
    }
}

impl DerefMut for ExchangeTable {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.exchanges
    }
}

/// What an exchange sends to its URL.
pub(super) type RequestParts = (Verb, RequestHeaders, Bytes);

impl HttpClient {
    // --- Begin ---

    /// Builds the request of an exchange.
    ///
    /// # Errors
    /// If its message cannot be sent over HTTP; `None` if it is not kept any more.
    pub(super) fn build_request(&self, kind: &ExchangeKind) -> Result<RequestParts, Option<RequestError>> {
        let get = |last_event: Option<&str>| {
            //= C4.21 "GET stream: `Accept: text/event-stream`"
            let accept = Vec::from([("accept".into(), Text::from_static("text/event-stream"))]);
            let mut headers = self.with_session_headers(accept);
            headers.extend(last_event.map(|last| (header::LAST_EVENT_ID.into(), Text::from(last))));
            (Verb::Get, headers, Bytes::new())
        };
        Ok(match kind {
            ExchangeKind::Handshake { body, probe: Some(revision), .. } => {
                (Verb::Post, modern_headers(Discover::NAME.into(), *revision), body.clone())
            }
            ExchangeKind::Handshake { body, probe: None, .. } => {
                (Verb::Post, sessionless_headers(), body.clone())
            }
            ExchangeKind::Call(number) => {
                //= C4.1 "Every message is a new POST"
                let (headers, body) = self.build_call(*number)?;
                (Verb::Post, headers, body)
            }
            ExchangeKind::Post(OneWayMessage { notification, body, .. }) => {
                let headers = match notification {
                    Some((method, revision)) if is_modern(*revision) => {
                        modern_headers(method.clone(), *revision)
                    }
                    _ => self.with_session_headers(sessionless_headers()),
                };
                //= C4.1 "Every message is a new POST"
                (Verb::Post, headers, body.clone())
            }
            ExchangeKind::Resume { last_event, .. } => get(Some(last_event)),
            ExchangeKind::Listen { last_event } => get(last_event.as_deref()),
            ExchangeKind::Events => get(None),
            ExchangeKind::Delete => (Verb::Delete, self.with_session_headers(Vec::new()), Bytes::new()),
        })
    }

    /// Opens an exchange with the server.
    ///
    /// # Errors
    /// If its request cannot be [built](Self::build_request).
    pub(super) fn open_exchange(&mut self, kind: ExchangeKind) -> Result<ExchangeId, Option<RequestError>> {
        let request = self.build_request(&kind)?;
        let url = if request.0 == Verb::Post { self.post_url() } else { self.url.clone() };
        Ok(self.begin_exchange(kind, url, request))
    }

    fn begin_exchange(
        &mut self,
        kind: ExchangeKind,
        url: Address,
        (verb, headers, body): RequestParts,
    ) -> ExchangeId {
        // The URL may be older than a redirect to `https`.
        let url = url.secured_by(&self.url);
        let text = url.text();
        let exchange = self.exchanges.open(kind, url, self.session.generation);
        self.outbox.push_open(HttpRequest { exchange, verb, url: text, headers, body });
        exchange
    }

    /// Sends the request of an exchange again, in a new exchange, which takes over everything that waits for the old one.
    ///
    /// `counters` are the redirects that the request has followed and the times that it was parked.
    pub(super) fn replace_exchange(
        &mut self,
        now: Instant,
        from: ExchangeId,
        kind: ExchangeKind,
        url: Address,
        counters: (u8, u32),
        request: RequestParts,
    ) {
        let to = self.begin_exchange(kind.clone(), url, request);
        if let Some(exchange) = self.exchanges.get_mut(to) {
            (exchange.redirects, exchange.authorization_attempts) = counters;
        }
        match kind {
            ExchangeKind::Handshake { wire, .. } => self.add_handshake(to, wire),
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => {
                if self.exchange_of(number) == Some(from) {
                    self.peer.update_carriage(number, |call| call.state = CarriageState::InExchange(to));
                }
            }
            ExchangeKind::Post(_) => self.limit_post_response(now, to),
            ExchangeKind::Listen { .. } => self.listener.open(to),
            ExchangeKind::Events => {
                if let Some(events) = &mut self.legacy_sse {
                    events.exchange = Some(to);
                }
            }
            ExchangeKind::Delete => {}
        }
    }

    /// Follows a redirect to the same origin, or to the same host by `https`, by resending the request; returns whether
    /// the response is handled. Once one has led to `https`, every later request goes there.
    pub(super) fn follow_redirect(&mut self, now: Instant, id: ExchangeId, head: &AnswerHead) -> bool {
        const MAX_REDIRECTS: u8 = 5;
        if !matches!(head.status, 307 | 308) {
            return false;
        }
        // The response to a request that was answered elsewhere is of no use.
        let exchange = self.exchanges.get(id).filter(|exchange| !exchange.is_answered());
        let Some(exchange) = exchange else { return false };
        if exchange.generation != self.session.generation {
            // The session is lost. The server did not accept the request, which waits for the next session.
            let ExchangeKind::Call(number) = exchange.kind else { return false };
            self.drain_after_answer(now, id);
            self.requeue(now, number);
            return true;
        }
        let target = head.details.as_deref().and_then(|details| details.location.as_deref());
        let target = target.and_then(|location| exchange.url.resolve_redirect(location));
        let (Some(target), true) = (target, exchange.redirects < MAX_REDIRECTS) else { return false };
        let Ok(request) = self.build_request(&exchange.kind) else { return false };
        let upgrades = exchange.url.is_plain() && !target.is_plain();
        let is_own = exchange.url == self.url;
        if upgrades && self.url.is_plain() && !self.peer.tolerate(Leniency::RedirectToHttps) {
            return false;
        }
        let (kind, counters) =
            (exchange.kind.clone(), (exchange.redirects.saturating_add(1), exchange.authorization_attempts));
        if is_own && (head.status == 308 || upgrades) {
            self.url = target.clone();
        } else if upgrades {
            self.url = self.url.clone().secured_by(&target);
        }
        self.drain_after_answer(now, id);
        self.replace_exchange(now, id, kind, target, counters, request);
        true
    }

    // --- End ---

    /// Aborts an exchange; returns whether the server may be working on it.
    pub(super) fn abort_exchange(&mut self, id: ExchangeId) -> bool {
        let Some(exchange) = self.exchanges.remove(id) else { return false };
        let begun = self.outbox.abort(id);
        begun && !exchange.is_parked()
    }

    /// Aborts the exchange of a request, if it is in one.
    pub(super) fn abort_call_exchange(&mut self, number: RequestId) {
        if let Some(exchange) = self.exchange_of(number) {
            self.abort_exchange(exchange);
        }
    }

    /// Dispatches the outcome of an exchange that has ended, unless that parks it.
    pub(super) fn end_exchange(
        &mut self,
        now: Instant,
        id: ExchangeId,
        exchange: ClientExchange,
        mut ended: ExchangeOutcome,
    ) {
        if self.is_to_park(&mut ended) {
            return self.park(now, id, exchange, ended);
        }
        let ClientExchange { kind, generation, details, .. } = exchange;
        let session = details.and_then(|details| details.session);
        self.resolve_exchange(now, id, kind, generation, session, ended);
    }

    /// Dispatches the outcome of an exchange, which arrived on its stream; the rest of the stream is drained.
    pub(super) fn resolve_on_stream(&mut self, now: Instant, id: ExchangeId, ended: ExchangeOutcome) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        let session = exchange.details.as_mut().and_then(|details| details.session.take());
        let (kind, generation) = (exchange.kind.clone(), exchange.generation);
        match (kind, self.handshakes.last()) {
            // On the HTTP+SSE stream only the handshake is expected.
            (ExchangeKind::Events, Some(&Handshake { exchange, wire_id: wire })) => {
                self.drain_after_answer(now, exchange);
                let kind = ExchangeKind::Handshake { wire, body: Bytes::new(), probe: None };
                self.resolve_exchange(now, exchange, kind, generation, session, ended);
            }
            (kind, _) => {
                self.drain_after_answer(now, id);
                self.resolve_exchange(now, id, kind, generation, session, ended);
            }
        }
    }

    /// Dispatches the outcome of an exchange that should have carried an answer.
    pub(super) fn resolve_exchange(
        &mut self,
        now: Instant,
        id: ExchangeId,
        kind: ExchangeKind,
        generation: u32,
        session: Option<String>,
        ended: ExchangeOutcome,
    ) {
        // Whether the exchange belongs to this session, not to one that was lost.
        let is_current = generation == self.session.generation;
        match kind {
            // The request has ended, or is in another exchange.
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. }
                if self.exchange_of(number) != Some(id) => {}
            ExchangeKind::Handshake { wire, probe: Some(_), .. } => {
                self.resolve_handshake(now, wire, ConnectStep::Probe, ended);
            }
            ExchangeKind::Handshake { wire, probe: None, .. } => {
                let found = matches!(ended, ExchangeOutcome::Result { status: 200..300, .. });
                //= K17 "The session id is that of the response to `initialize`"
                //= C4.18 "Store `MCP-Session-Id` from InitializeResult"
                self.session.id = session.filter(|_| found && self.legacy_sse.is_none()).map(Text::from);
                self.resolve_handshake(now, wire, ConnectStep::Initialize, ended);
            }
            ExchangeKind::Call(number) => self.resolve_call(now, number, is_current, ended),
            ExchangeKind::Resume { number, .. } => {
                self.resolve_resumed(now, number, is_current, ended.into_get_outcome())
            }
            ExchangeKind::Listen { .. } => {
                self.handle_listener_end(now, is_current, ended.into_get_outcome())
            }
            ExchangeKind::Events => self.handle_events_end(now, ended),
            ExchangeKind::Post(post) => self.handle_post_end(now, post, is_current, ended),
            // The session has ended, or the server does not let clients end sessions.
            //= F42 "DELETE ends the session at the close, whatever its answer"
            ExchangeKind::Delete => self.end_closing(now),
        }
    }
}
