//! One client exchange: its purpose, and the received part of its response.
//!
//! The table of open exchanges.
//!
//! Resends the request of an exchange: to the target of a redirect, or once the client is authorized.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::Instant;
use crate::peer::Leniency;
use crate::schema::{Discover, Method, Revision};
use crate::transport::http::{ExchangeId, Verb};

use super::address::Address;
use super::call::CallState;
use super::detect::Handshake;
use super::outbox::OneWayMessage;
use super::request::RequestHeaders;
use super::response::{AnswerHead, BufferedBody, EventBody, ExchangeOutcome};
use super::{HttpClient, request};

/// The purpose of an exchange.
#[derive(Clone, Debug)]
pub(super) enum ExchangeKind {
    /// The era probe.
    Probe { wire: i64, body: Bytes, revision: Revision },
    /// The legacy handshake, `initialize`.
    Initialize { wire: i64, body: Bytes },
    /// A request, by number.
    Call(i64),
    /// A GET for the rest of the stream that answers a request.
    Resume { number: i64, last_event: Arc<str> },
    /// A notification or a reply.
    Post(OneWayMessage),
    /// A GET for the messages that a legacy server sends outside requests.
    Listen { last_event: Option<Arc<str>> },
    /// A GET for the event stream of HTTP+SSE.
    Events,
    /// A DELETE that ends the session.
    Delete,
}

/// The received part of a response.
#[derive(Debug)]
pub(super) enum ResponseState {
    /// Nothing yet.
    AwaitingHead,
    /// A body that is parsed once it is complete.
    Buffered(Box<BufferedBody>),
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
    /// The session id in the response's head.
    pub(super) new_session: Option<String>,
    /// The DPoP nonce (RFC 9449) in the response's head.
    pub(super) dpop_nonce: Option<String>,
    pub(super) response: ResponseState,
    /// The number of bytes that may still follow the answer, once the answer has arrived.
    trailing_bytes_left: Option<usize>,
}

impl ClientExchange {
    /// Creates an exchange whose request is not sent yet.
    pub(super) fn new(kind: ExchangeKind, url: Address, generation: u32) -> Self {
        Self {
            kind,
            url,
            redirects: 0,
            authorization_attempts: 0,
            generation,
            new_session: None,
            dpop_nonce: None,
            response: ResponseState::AwaitingHead,
            trailing_bytes_left: None,
        }
    }

    pub(super) fn is_parked(&self) -> bool {
        matches!(self.response, ResponseState::Parked(_))
    }

    /// Stores the session id and the DPoP nonce of the response's head.
    pub(super) fn take_head(&mut self, head: &mut AnswerHead) {
        self.new_session = head.session.take().filter(|_| head.is_success());
        self.dpop_nonce = head.dpop_nonce.take();
    }

    /// Takes over the counters of the exchange that this one replaces.
    pub(super) fn continue_after(&mut self, redirects: u8, authorization_attempts: u32) {
        self.redirects = redirects;
        self.authorization_attempts = authorization_attempts;
    }

    /// Marks the response as answered: at most `bytes` bytes may follow the answer.
    pub(super) fn limit_trailing(&mut self, bytes: usize) {
        self.trailing_bytes_left = Some(bytes);
    }

    /// Counts bytes that follow the answer; returns whether they are within the limit.
    pub(super) fn count_trailing(&mut self, bytes: usize) -> bool {
        let Some(left) = &mut self.trailing_bytes_left else { return true };
        let rest = left.checked_sub(bytes);
        *left = rest.unwrap_or(0);
        rest.is_some()
    }

    /// Returns whether the answer has arrived.
    pub(super) fn is_answered(&self) -> bool {
        self.trailing_bytes_left.is_some()
    }

    /// Returns whether the exchange carries a single request, so that its response may hold only that request's result.
    pub(super) fn carries_one_request(&self) -> bool {
        matches!(
            self.kind,
            ExchangeKind::Probe { .. } | ExchangeKind::Initialize { .. } | ExchangeKind::Call(_)
        )
    }
}

impl fmt::Debug for ClientExchange {
    /// Omits the session id and the bytes read so far.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientExchange")
            .field("purpose", &self.kind)
            .field("url", &self.url)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// The open exchanges, and counts of them by kind.
#[derive(Debug)]
pub(super) struct ExchangeTable {
    exchanges: BTreeMap<ExchangeId, ClientExchange>,
    next_id: u64,
    /// The number of open exchanges for notifications and replies.
    posts: usize,
    /// The number of parked exchanges.
    parked: usize,
    /// Whether a parked exchange has left the table since [`record_unparked`](Self::record_unparked).
    has_unparked: bool,
    /// When a parked exchange last left the table.
    last_unparked: Option<Instant>,
}

impl Default for ExchangeTable {
    fn default() -> Self {
        Self {
            exchanges: BTreeMap::new(),
            next_id: 1,
            posts: 0,
            parked: 0,
            has_unparked: false,
            last_unparked: None,
        }
    }
}

impl ExchangeTable {
    /// Adds an exchange under a new id.
    pub(super) fn open(&mut self, kind: ExchangeKind, url: Address, generation: u32) -> ExchangeId {
        let id = ExchangeId::new(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        self.insert(id, ClientExchange::new(kind, url, generation));
        id
    }

    fn insert(&mut self, id: ExchangeId, exchange: ClientExchange) {
        if matches!(exchange.kind, ExchangeKind::Post(_)) {
            self.posts = self.posts.saturating_add(1);
        }
        self.exchanges.insert(id, exchange);
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<ClientExchange> {
        let exchange = self.exchanges.remove(&id)?;
        if matches!(exchange.kind, ExchangeKind::Post(_)) {
            self.posts = self.posts.saturating_sub(1);
        }
        if exchange.is_parked() {
            self.parked = self.parked.saturating_sub(1);
            self.has_unparked = true;
        }
        Some(exchange)
    }

    pub(super) fn get(&self, id: ExchangeId) -> Option<&ClientExchange> {
        self.exchanges.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut ClientExchange> {
        self.exchanges.get_mut(&id)
    }

    pub(super) fn contains(&self, id: ExchangeId) -> bool {
        self.exchanges.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.exchanges.len()
    }

    pub(super) fn ids(&self) -> Vec<ExchangeId> {
        self.exchanges.keys().copied().collect()
    }

    /// Returns the number of open exchanges for notifications and replies.
    pub(super) fn posts(&self) -> usize {
        self.posts
    }

    // --- Parked exchanges ---

    /// Parks an exchange that was refused, until the client is authorized.
    pub(super) fn park(&mut self, id: ExchangeId, mut exchange: ClientExchange, refusal: ExchangeOutcome) {
        self.parked = self.parked.saturating_add(1);
        exchange.response = ResponseState::Parked(Box::new(refusal));
        self.insert(id, exchange);
    }

    pub(super) fn is_parked(&self, id: ExchangeId) -> bool {
        self.exchanges.get(&id).is_some_and(ClientExchange::is_parked)
    }

    /// Records when a parked exchange has left the table.
    pub(super) fn record_unparked(&mut self, now: Instant) {
        if core::mem::take(&mut self.has_unparked) {
            self.last_unparked = Some(now);
        }
    }

    /// Returns when a parked exchange last left the table.
    ///
    /// The waiting time of requests queued behind it counts from then on.
    pub(super) fn last_unparked(&self) -> Option<Instant> {
        self.last_unparked
    }

    pub(super) fn has_parked(&self) -> bool {
        self.parked > 0
    }
}

impl HttpClient {
    /// Follows a redirect to the same origin, or to the same host by `https`, by resending the request; returns whether
    /// the response is handled. Once one has led to `https`, every later request goes there.
    pub(super) fn follow_redirect(&mut self, now: Instant, id: ExchangeId, head: &AnswerHead) -> bool {
        const MAX_REDIRECTS: u8 = 5;
        if !matches!(head.status, 307 | 308) {
            return false;
        }
        let Some(exchange) = self.exchanges.get(id) else { return false };
        if exchange.generation != self.session.generation() {
            // The session is lost. The server did not accept the request, which waits for the next session.
            let ExchangeKind::Call(number) = exchange.kind else { return false };
            self.drain_after_answer(now, id);
            self.requeue(now, number);
            return true;
        }
        let target = head.location.as_deref().and_then(|location| exchange.url.resolve_redirect(location));
        let (Some(target), true) = (target, exchange.redirects < MAX_REDIRECTS) else { return false };
        let (purpose, redirects) = (exchange.kind.clone(), exchange.redirects.saturating_add(1));
        let resumed = exchange.authorization_attempts;
        let Some((verb, headers, body)) = self.rebuild_request(&purpose) else { return false };
        let upgrades = exchange.url.is_plain() && !target.is_plain();
        let is_own = exchange.url == self.url;
        if upgrades && self.url.is_plain() && !self.peer.tolerate(Leniency::RedirectToHttps) {
            return false;
        }
        if is_own && (head.status == 308 || upgrades) {
            self.url = target.clone();
        } else if upgrades {
            self.url = self.url.clone().secured_by(&target);
        }
        self.drain_after_answer(now, id);
        let again = self.begin_exchange(purpose.clone(), verb, target, headers, body);
        if let Some(exchange) = self.exchanges.get_mut(again) {
            exchange.continue_after(redirects, resumed);
        }
        if matches!(purpose, ExchangeKind::Post(_)) {
            self.limit_post_response(now, again);
        }
        self.move_exchange(&purpose, id, again);
        true
    }

    /// Builds the request of an exchange again.
    pub(super) fn rebuild_request(&self, purpose: &ExchangeKind) -> Option<(Verb, RequestHeaders, Bytes)> {
        let session = self.session_headers();
        Some(match purpose {
            ExchangeKind::Probe { body, revision, .. } => {
                (Verb::Post, request::modern_headers(Discover::NAME.into(), *revision), body.clone())
            }
            ExchangeKind::Initialize { body, .. } => {
                (Verb::Post, request::sessionless_headers(), body.clone())
            }
            ExchangeKind::Call(number) => {
                let call = self.calls.get(*number)?;
                let encoded = call.encoded.as_ref()?;
                (Verb::Post, self.call_headers(call, encoded).ok()?, encoded.body.clone())
            }
            ExchangeKind::Post(post) => {
                let headers = match &post.notification {
                    Some((method, revision)) if request::is_modern(*revision) => {
                        request::modern_headers(method.clone(), *revision)
                    }
                    _ => session.post(),
                };
                (Verb::Post, headers, post.body.clone())
            }
            ExchangeKind::Resume { last_event, .. } => {
                (Verb::Get, session.get(Some(last_event)), Bytes::new())
            }
            ExchangeKind::Listen { last_event } => {
                (Verb::Get, session.get(last_event.as_deref()), Bytes::new())
            }
            ExchangeKind::Events => (Verb::Get, session.get(None), Bytes::new()),
            ExchangeKind::Delete => (Verb::Delete, session.delete(), Bytes::new()),
        })
    }

    /// Moves everything that waits for the exchange `from` to the exchange `to`.
    pub(super) fn move_exchange(&mut self, purpose: &ExchangeKind, from: ExchangeId, to: ExchangeId) {
        match purpose {
            ExchangeKind::Probe { wire, .. } | ExchangeKind::Initialize { wire, .. } => {
                self.handshakes.retain(|request| request.wire_id != *wire);
                self.handshakes.push(Handshake { exchange: to, wire_id: *wire });
            }
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => {
                if self.calls.exchange_of(*number) == Some(from) {
                    self.calls.set_state(*number, CallState::InExchange(to));
                }
            }
            ExchangeKind::Listen { .. } => self.listener.open(to),
            ExchangeKind::Events => {
                if let Some(events) = &mut self.legacy_sse {
                    events.move_to(to);
                }
            }
            ExchangeKind::Post(_) | ExchangeKind::Delete => {}
        }
    }
}
