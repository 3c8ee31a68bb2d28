//! The requests that have not ended, each with where it is.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::schema::Revision;
use crate::transport::http::ExchangeId;

use super::headers;
use super::reconnect::Reconnects;
use super::response::ResumePoint;
use super::result_chunks::ResultChunks;

/// Which part of the client takes the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOwner {
    /// The application.
    Application,
    /// The peer, for itself: a ping.
    Peer,
    /// This transport, to learn of the tools' headers.
    ToolListing,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// In the queue.
    Queued,
    /// In an exchange.
    InExchange(ExchangeId),
    /// Waiting for a pause to end, before it or the rest of its answer is asked for again.
    BackingOff,
    /// With the server, which answers elsewhere (HTTP+SSE).
    Accepted,
    /// Waiting for the tools to be listed.
    AwaitingTools,
}

/// A request that has not ended.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) owner: CallOwner,
    pub(super) method: Box<str>,
    pub(super) revision: Revision,
    /// Its id on the wire.
    pub(super) wire_id: i64,
    /// The message, as long as it may have to go out again.
    pub(super) body: Option<Bytes>,
    pub(super) state: CallState,
    /// Whether it takes no slot, because it lasts.
    pub(super) is_long_lived: bool,
    /// Whether it takes one of the slots that limit how many requests are in exchanges at once.
    has_slot: bool,
    /// How often in a row it never left.
    pub(super) failures: u32,
    /// The streams of its answer that have ended.
    pub(super) reconnects: Reconnects,
    /// Where its answer broke off.
    pub(super) resume_point: Option<ResumePoint>,
    /// The parts of its result so far, of a server that sends results in parts.
    pub(super) chunks: Option<Box<ResultChunks>>,
    /// Whether it has gone out once more because its answer was lost.
    pub(super) reissued: bool,
    /// Whether it has gone out once more because of its headers.
    pub(super) headers_retried: bool,
    /// Whether it has gone out once more because of its version.
    pub(super) version_retried: bool,
    /// How often its session was lost.
    pub(super) renewals: u32,
}

impl Call {
    /// A request in the queue.
    pub(super) fn queued(
        owner: CallOwner,
        method: Box<str>,
        revision: Revision,
        wire_id: i64,
        body: Bytes,
        is_long_lived: bool,
    ) -> Self {
        Self {
            owner,
            method,
            revision,
            wire_id,
            body: Some(body),
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

    /// Goes back into the queue. Nothing of an answer is kept.
    pub(super) fn queue_again(&mut self) {
        self.resume_point = None;
        self.chunks = None;
        self.state = CallState::Queued;
    }

    /// Takes another id on the wire.
    pub(super) fn set_wire_id(&mut self, wire_id: i64) {
        self.body = self.body.as_ref().and_then(|body| headers::with_request_id(body, &self.method, wire_id));
        self.wire_id = wire_id;
    }

    /// Waits for a pause after a failure.
    pub(super) fn back_off(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.state = CallState::BackingOff;
    }

    /// Waits for a pause, after which the rest of its answer is requested.
    pub(super) fn await_resumption(&mut self, resume_point: ResumePoint) {
        self.resume_point = Some(resume_point);
        self.state = CallState::BackingOff;
    }

    /// The rest of its answer is not available.
    pub(super) fn stop_resuming(&mut self) {
        self.resume_point = None;
    }

    /// Waits until the tools are listed.
    pub(super) fn await_tools(&mut self) {
        self.headers_retried = true;
        self.state = CallState::AwaitingTools;
    }

    /// Whether the server may be working on it.
    pub(super) fn is_with_server(&self) -> bool {
        match self.state {
            CallState::InExchange(_) | CallState::Accepted => true,
            CallState::BackingOff => self.resume_point.is_some(),
            CallState::Queued | CallState::AwaitingTools => false,
        }
    }
}

/// The requests that have not ended, by number.
#[derive(Debug, Default)]
pub(super) struct CallTable {
    calls: BTreeMap<i64, Call>,
    /// The last request of each method that the peer made for itself.
    peer_calls: BTreeMap<Box<str>, i64>,
    /// The number of requests that have a slot.
    used_slots: usize,
}

impl CallTable {
    pub(super) fn insert(&mut self, number: i64, call: Call) {
        self.calls.insert(number, call);
    }

    /// Takes a request out, and frees its slot.
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

    /// The exchange of a request, if it is in one.
    pub(super) fn exchange_of(&self, number: i64) -> Option<ExchangeId> {
        self.calls.get(&number)?.exchange()
    }

    /// The numbers of the requests that match.
    pub(super) fn numbers(&self, matches: impl Fn(&Call) -> bool) -> Vec<i64> {
        self.calls.iter().filter(|(_, call)| matches(call)).map(|(&number, _)| number).collect()
    }

    /// Notes the last request of a method that the peer makes for itself; returns the one before.
    pub(super) fn replace_peer_call(&mut self, method: &str, number: i64) -> Option<i64> {
        self.peer_calls.insert(method.into(), number)
    }

    /// A request has gone into an exchange: takes a slot, unless the request lasts.
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

    /// The number of requests that have a slot.
    pub(super) fn used_slots(&self) -> usize {
        self.used_slots
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
