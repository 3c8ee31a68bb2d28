//! One exchange: what it is for, and what has come of it so far.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use crate::schema::Revision;

use super::address::Address;
use super::outbox::OneWayMessage;
use super::response::{AnswerHead, BufferedBody, EventBody, ExchangeOutcome};

/// What an exchange is for.
#[derive(Clone, Debug)]
pub(super) enum ExchangeKind {
    /// The era probe.
    Probe { wire: i64, body: Bytes, revision: Revision },
    /// The legacy handshake.
    Initialize { wire: i64, body: Bytes },
    /// A request.
    Call(i64),
    /// The rest of the stream that answers a request.
    Resume { number: i64, last_event: Arc<str> },
    /// A notification or a reply.
    Post(OneWayMessage),
    /// What the server says of its own accord.
    Listen { last_event: Option<Arc<str>> },
    /// The one stream of HTTP+SSE.
    Events,
    /// The end of a session.
    Delete,
}

/// What has come of an exchange.
#[derive(Debug)]
pub(super) enum ResponseState {
    /// Nothing.
    AwaitingHead,
    /// A body that is read when it is whole.
    Buffered(Box<BufferedBody>),
    /// A stream of events.
    Events(Box<EventBody>),
    /// A refusal that is not the end of it.
    Parked(Box<ExchangeOutcome>),
}

pub(super) struct ClientExchange {
    pub(super) kind: ExchangeKind,
    pub(super) url: Address,
    pub(super) redirects: u8,
    /// How often what it is for was held, and went out again.
    pub(super) authorization_attempts: u32,
    /// Which session it belongs to.
    pub(super) generation: u32,
    /// The session that the head named.
    pub(super) new_session: Option<String>,
    /// The nonce of RFC 9449 that the head brought.
    pub(super) dpop_nonce: Option<String>,
    pub(super) response: ResponseState,
    /// How many bytes may still follow the answer, once it has arrived.
    trailing_bytes_left: Option<usize>,
}

impl ClientExchange {
    /// An exchange whose request waits to be sent.
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

    /// Takes what the head of its response says of the exchange.
    pub(super) fn take_head(&mut self, head: &mut AnswerHead) {
        self.new_session = head.session.take().filter(|_| head.is_success());
        self.dpop_nonce = head.dpop_nonce.take();
    }

    /// Carries on an exchange that went before it.
    pub(super) fn continue_after(&mut self, redirects: u8, authorization_attempts: u32) {
        self.redirects = redirects;
        self.authorization_attempts = authorization_attempts;
    }

    /// Its response has brought the answer: so many bytes may follow it.
    pub(super) fn limit_trailing(&mut self, bytes: usize) {
        self.trailing_bytes_left = Some(bytes);
    }

    /// Counts bytes that may follow the answer; returns whether they are within the limit.
    pub(super) fn count_trailing(&mut self, bytes: usize) -> bool {
        let Some(left) = &mut self.trailing_bytes_left else { return true };
        let rest = left.checked_sub(bytes);
        *left = rest.unwrap_or(0);
        rest.is_some()
    }

    /// Whether its response has brought the answer.
    pub(super) fn is_answered(&self) -> bool {
        self.trailing_bytes_left.is_some()
    }

    /// Whether it carries one request, whose result is the only one that its response may hold.
    pub(super) fn carries_one_request(&self) -> bool {
        matches!(
            self.kind,
            ExchangeKind::Probe { .. } | ExchangeKind::Initialize { .. } | ExchangeKind::Call(_)
        )
    }
}

impl fmt::Debug for ClientExchange {
    /// Omits the session and the bytes read so far.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("purpose", &self.kind)
            .field("url", &self.url)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}
