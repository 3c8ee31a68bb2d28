//! The carriage of a request: its state in a transport that sends each request in an exchange of its own. Plain data.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::Revision;

/// The id of an HTTP exchange: one request and its answer. A client or server never reuses one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct ExchangeId(u64);

impl ExchangeId {
    /// Returns the id of an exchange that an adapter opens by itself, such as the upgrade to a WebSocket.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the plain number, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

debug_fields! { ExchangeId(inner) => "exchange {inner}" }

/// The transport's part of the record of a request, while the transport has the request.
#[derive(Debug)]
pub struct Carriage {
    pub(crate) method: Cow<'static, str>,
    pub(crate) revision: Revision,
    /// The message, as long as it may have to be resent.
    pub(crate) encoded: Option<EncodedRequest>,
    pub(crate) state: CarriageState,
    /// Whether the request takes no slot: it may be answered at any time.
    pub(crate) is_long_lived: bool,
    /// Whether it occupies one of the slots that limit concurrent exchanges.
    pub(crate) has_slot: bool,
    /// The number of consecutive attempts in which it was not sent.
    pub(crate) failures: u32,
    /// The event streams of its answer that have ended, and where the last one broke off.
    pub(crate) streams: ResumedStreams,
    /// The parts of its result so far, if the server sends results in parts.
    pub(crate) chunks: Option<Box<ResultChunks>>,
    /// Whether it was resent because its answer was lost.
    pub(crate) reissued: bool,
    /// Whether it was resent because of its headers.
    pub(crate) headers_retried: bool,
    /// Whether it was resent because of its version.
    pub(crate) version_retried: bool,
    /// The number of sessions lost while it was pending.
    pub(crate) renewals: u32,
    /// Whether the server has received an attempt that is over.
    pub(crate) was_received: bool,
}

/// The state of a request that a transport has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CarriageState {
    /// Queued for sending.
    Queued,
    /// Sent in this exchange.
    InExchange(ExchangeId),
    /// Waiting for a delay to end, before it is resent or its answer resumed.
    BackingOff { until: Instant },
    /// Accepted by the server, which answers on another stream.
    Accepted,
    /// Waiting for a new listing of the tools; the error is its answer if that fails.
    AwaitingTools(Box<ErrorObject>),
}

impl Carriage {
    /// The carriage of a request that is queued for sending.
    pub(crate) fn new(
        method: Cow<'static, str>,
        revision: Revision,
        encoded: EncodedRequest,
        is_long_lived: bool,
    ) -> Self {
        Self {
            method,
            revision,
            encoded: Some(encoded),
            state: CarriageState::Queued,
            is_long_lived,
            has_slot: false,
            failures: 0,
            streams: ResumedStreams::default(),
            chunks: None,
            reissued: false,
            headers_retried: false,
            version_retried: false,
            renewals: 0,
            was_received: false,
        }
    }

    /// The parameters of the message, as long as it is stored.
    pub(crate) fn params(&self) -> Option<Bytes> {
        let EncodedRequest { body, params, .. } = self.encoded.as_ref()?;
        body.get(params.clone()).map(|params| body.slice_ref(params))
    }

    /// The exchange of the request, if it is in one.
    pub(crate) fn exchange(&self) -> Option<ExchangeId> {
        match self.state {
            CarriageState::InExchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// The end of the delay, if the request waits for one.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.state {
            CarriageState::BackingOff { until } => Some(until),
            _ => None,
        }
    }

    /// The size in bytes of a request that is queued.
    pub(crate) fn queued_bytes(&self) -> usize {
        let encoded = self.encoded.as_ref().filter(|_| self.state == CarriageState::Queued);
        encoded.map_or(0, |encoded| encoded.body.len())
    }

    /// Puts the request back into the queue.
    pub(crate) fn requeue(&mut self) {
        self.was_received |= !self.is_unsent();
        self.streams.forget_position();
        self.chunks = None;
        self.has_slot = false;
        self.state = CarriageState::Queued;
    }

    /// Whether the server has certainly received no attempt.
    pub(crate) fn is_unsent(&self) -> bool {
        let waits = matches!(self.state, CarriageState::Queued | CarriageState::BackingOff { .. });
        waits && !self.is_with_server() && !self.was_received
    }

    /// Whether the server may be working on the request.
    pub(crate) fn is_with_server(&self) -> bool {
        match self.state {
            CarriageState::InExchange(_) | CarriageState::Accepted => true,
            CarriageState::BackingOff { .. } => self.streams.has_position(),
            CarriageState::Queued | CarriageState::AwaitingTools(_) => false,
        }
    }
}

/// How a request with a carriage ended.
#[derive(Debug)]
pub enum CarriageEnd {
    /// Its answer arrived, outside of its exchange or in a batch.
    Answered,
    /// Its outcome is no longer wanted, and the server is not notified.
    Forgotten,
    /// It is cancelled: the server is notified with its id on the wire, and a reason.
    Cancelled {
        /// Its id on the wire.
        wire: i64,
        /// The reason.
        reason: Option<String>,
    },
}

/// An encoded request.
#[derive(Clone, Debug)]
pub(crate) struct EncodedRequest {
    /// UTF-8, as this side has written it.
    pub(crate) body: Bytes,
    /// Where its parameters lie in `body`.
    pub(crate) params: Range<usize>,
    /// The name of the parameter that identifies the subject of the request, if its method has one.
    pub(crate) subject: Option<Cow<'static, str>>,
}

/// The event streams of one answer: each resumes the one before.
#[derive(Debug, Default)]
pub(crate) struct ResumedStreams {
    /// The event after which the next stream resumes.
    pub(crate) last_event: Option<Arc<str>>,
    /// The reconnection delay that the server asked for.
    pub(crate) retry: Option<Duration>,
    /// Whether a stream has ended before.
    pub(crate) has_reconnected: bool,
    /// The number of streams in a row that delivered no message but a position.
    pub(crate) idle: u32,
    /// The number of streams in a row that delivered nothing, plus the stream before them.
    pub(crate) failures: u32,
}

impl ResumedStreams {
    /// Whether there is a position to resume from.
    pub(crate) fn has_position(&self) -> bool {
        self.last_event.is_some()
    }

    /// Discards the position: the rest is not available, or not needed.
    pub(crate) fn forget_position(&mut self) {
        (self.last_event, self.retry) = (None, None);
    }
}

/// The parts of a result received so far.
#[derive(Debug, Default)]
pub(crate) struct ResultChunks {
    /// The elements of `content`, separated by commas.
    pub(crate) content: Vec<u8>,
    pub(crate) members: OrderedMap<Box<str>, Raw>,
    /// The number of stored bytes that the server sent.
    pub(crate) bytes: usize,
}
