//! The table of unresolved requests and their states.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::schema::Revision;
use crate::transport::http::ExchangeId;

use super::reconnect::Reconnects;
use super::request::EncodedRequest;
use super::response::ResumePoint;
use super::result_chunks::ResultChunks;

/// The part of the client that receives the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOwner {
    /// The application.
    Application,
    /// The peer itself: a ping.
    Peer,
    /// The HTTP transport, which lists the tools to learn their headers.
    ToolListing,
}

/// The state of an unresolved request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// Queued for sending.
    Queued,
    /// Sent in this exchange.
    InExchange(ExchangeId),
    /// Waiting for a delay to end, before it is resent or its answer resumed.
    BackingOff,
    /// Accepted by the server, which answers on the HTTP+SSE stream or on the stream of its own messages.
    Accepted,
    /// Waiting for a new listing of the tools.
    AwaitingTools,
}

/// An unresolved request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) owner: CallOwner,
    pub(super) method: Cow<'static, str>,
    pub(super) revision: Revision,
    /// Its JSON-RPC id.
    pub(super) wire_id: i64,
    /// The message, as long as it may have to be resent.
    pub(super) encoded: Option<EncodedRequest>,
    pub(super) state: CallState,
    /// Whether it is long-lived and takes no slot.
    pub(super) is_long_lived: bool,
    /// Whether it occupies one of the slots that limit concurrent exchanges.
    has_slot: bool,
    /// The number of consecutive attempts in which it was not sent.
    pub(super) failures: u32,
    /// The event streams of its answer that have ended.
    pub(super) reconnects: Reconnects,
    /// Where its answer broke off, to be resumed.
    pub(super) resume_point: Option<ResumePoint>,
    /// The parts of its result so far, if the server sends results in parts.
    pub(super) chunks: Option<Box<ResultChunks>>,
    /// Whether it was resent because its answer was lost.
    pub(super) reissued: bool,
    /// Whether it was resent because of its headers.
    pub(super) headers_retried: bool,
    /// Whether it was resent because of its version.
    pub(super) version_retried: bool,
    /// The number of sessions lost while it was pending.
    pub(super) renewals: u32,
}

impl Call {
    /// Creates a queued request.
    pub(super) fn queued(
        owner: CallOwner,
        method: Cow<'static, str>,
        revision: Revision,
        wire_id: i64,
        encoded: EncodedRequest,
        is_long_lived: bool,
    ) -> Self {
        Self {
            owner,
            method,
            revision,
            wire_id,
            encoded: Some(encoded),
            state: CallState::Queued,
            is_long_lived,
            has_slot: false,
            failures: 0,
            reconnects: Reconnects::default(),
            resume_point: None,
            chunks: None,
            reissued: false,
            headers_retried: false,
            version_retried: false,
            renewals: 0,
        }
    }

    pub(super) fn exchange(&self) -> Option<ExchangeId> {
        match self.state {
            CallState::InExchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    pub(super) fn has_slot(&self) -> bool {
        self.has_slot
    }

    /// Returns the request to the queue and discards any partial answer.
    pub(super) fn queue_again(&mut self) {
        self.resume_point = None;
        self.chunks = None;
        self.state = CallState::Queued;
    }

    /// Changes its JSON-RPC id, in the message too.
    pub(super) fn set_wire_id(&mut self, wire_id: i64) {
        self.encoded = self.encoded.as_ref().and_then(|encoded| encoded.with_id(wire_id, &self.method));
        self.wire_id = wire_id;
    }

    /// Marks a failure; the request waits for a delay.
    pub(super) fn back_off(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.state = CallState::BackingOff;
    }

    /// Stores the resume point; the rest of the answer is requested after a delay.
    pub(super) fn await_resumption(&mut self, resume_point: ResumePoint) {
        self.resume_point = Some(resume_point);
        self.state = CallState::BackingOff;
    }

    /// Discards the resume point: the rest of the answer is not available.
    pub(super) fn stop_resuming(&mut self) {
        self.resume_point = None;
    }

    /// Makes the request wait until the tools are listed.
    pub(super) fn await_tools(&mut self) {
        self.headers_retried = true;
        self.state = CallState::AwaitingTools;
    }

    /// Returns whether the server may be working on the request.
    pub(super) fn is_with_server(&self) -> bool {
        match self.state {
            CallState::InExchange(_) | CallState::Accepted => true,
            CallState::BackingOff => self.resume_point.is_some(),
            CallState::Queued | CallState::AwaitingTools => false,
        }
    }
}

/// The unresolved requests, by number.
#[derive(Debug, Default)]
pub(super) struct CallTable {
    calls: BTreeMap<i64, Call>,
    /// The peer's own last request of each method.
    peer_calls: BTreeMap<Box<str>, i64>,
    /// The number of requests that occupy a slot.
    used_slots: usize,
}

impl CallTable {
    pub(super) fn insert(&mut self, number: i64, call: Call) {
        self.calls.insert(number, call);
    }

    /// Removes a request and frees its slot.
    pub(super) fn remove(&mut self, number: i64) -> Option<Call> {
        self.free_slot(number);
        self.calls.remove(&number)
    }

    pub(super) fn get(&self, number: i64) -> Option<&Call> {
        self.calls.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: i64) -> Option<&mut Call> {
        self.calls.get_mut(&number)
    }

    pub(super) fn contains(&self, number: i64) -> bool {
        self.calls.contains_key(&number)
    }

    pub(super) fn state(&self, number: i64) -> Option<CallState> {
        self.calls.get(&number).map(|call| call.state)
    }

    pub(super) fn set_state(&mut self, number: i64, state: CallState) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.state = state;
        }
    }

    /// Returns the exchange of a request, if it is in one.
    pub(super) fn exchange_of(&self, number: i64) -> Option<ExchangeId> {
        self.calls.get(&number)?.exchange()
    }

    /// Returns the numbers of the requests that match.
    pub(super) fn numbers(&self, matches: impl Fn(&Call) -> bool) -> Vec<i64> {
        self.calls.iter().filter(|(_, call)| matches(call)).map(|(&number, _)| number).collect()
    }

    /// Records the peer's own last request of a method; returns the previous one.
    pub(super) fn replace_peer_call(&mut self, method: &str, number: i64) -> Option<i64> {
        self.peer_calls.insert(method.into(), number)
    }

    /// Records that a request was sent in an exchange: it takes a slot, unless it is long-lived.
    pub(super) fn enter_exchange(&mut self, number: i64, exchange: ExchangeId) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.state = CallState::InExchange(exchange);
        if !call.is_long_lived && !call.has_slot {
            call.has_slot = true;
            self.used_slots = self.used_slots.saturating_add(1);
        }
    }

    pub(super) fn free_slot(&mut self, number: i64) {
        if let Some(call) = self.calls.get_mut(&number).filter(|call| call.has_slot) {
            call.has_slot = false;
            self.used_slots = self.used_slots.saturating_sub(1);
        }
    }

    /// Returns the number of requests that occupy a slot.
    pub(super) fn used_slots(&self) -> usize {
        self.used_slots
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
