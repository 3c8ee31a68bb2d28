//! One client exchange: its purpose, and the received part of its response.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use crate::schema::Revision;

use super::address::Address;
use super::head::AnswerHead;
use super::outbox::OneWayMessage;
use super::response::{BufferedBody, EventBody, ExchangeOutcome};

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
