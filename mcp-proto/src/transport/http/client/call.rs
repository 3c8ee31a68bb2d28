//! Requests: the table of unresolved ones, and sending, resolving and cancelling them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::Instant;
use crate::peer::{LostReason, Outcome, RequestError};
use crate::rpc::{ErrorObject, Frame, Id, Message, Raw, Response};
use crate::schema::{Cancelled, ListTools, Method, Notification, Revision};
use crate::transport::http::{ExchangeId, Verb};

use super::chunked_results::ResultChunks;
use super::exchange::ExchangeKind;
use super::listen::Reconnects;
use super::outbox::OneWayMessage;
use super::request::{EncodedRequest, RequestHeaders};
use super::response::ResumePoint;
use super::{HttpClient, Timer, request};

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

impl HttpClient {
    // --- Sending ---

    /// Queues a request of the peer.
    pub(super) fn take_request(
        &mut self,
        id: i64,
        method: Cow<'static, str>,
        revision: Revision,
        encoded: EncodedRequest,
        is_unbounded: bool,
    ) {
        let owner =
            if self.peer.sent_request(id).is_some() { CallOwner::Application } else { CallOwner::Peer };
        // The peer does not cancel its own requests, and a server may leave any of them unanswered.
        if owner == CallOwner::Peer
            && let Some(before) = self.calls.replace_peer_call(&method, id)
            && let Some(call) = self.take_call(before)
            && let Some(exchange) = call.exchange()
        {
            self.abort_exchange(exchange);
        }
        // A ping queued behind many requests would time out.
        let lasting = owner == CallOwner::Peer || is_unbounded;
        self.enqueue(id, owner, method, revision, encoded, lasting);
    }

    /// Queues another input round of a request: a new request to the server, under the number of the first.
    pub(super) fn take_input_round(
        &mut self,
        number: i64,
        wire: i64,
        method: Cow<'static, str>,
        revision: Revision,
        encoded: EncodedRequest,
    ) {
        // The request may have been cancelled in the same call.
        if self.peer.wire_id(number) != Some(wire) {
            return;
        }
        self.enqueue(number, CallOwner::Application, method, revision, encoded, false);
        if let Some(call) = self.calls.get_mut(number) {
            call.wire_id = wire;
        }
    }

    pub(super) fn enqueue(
        &mut self,
        number: i64,
        owner: CallOwner,
        method: Cow<'static, str>,
        revision: Revision,
        encoded: EncodedRequest,
        lasting: bool,
    ) {
        self.outbox.enqueue_request(number, encoded.body.len(), lasting);
        let call = Call::queued(owner, method, revision, number, encoded, lasting);
        self.calls.insert(number, call);
    }

    /// Sends a queued request.
    pub(super) fn send_call(&mut self, now: Instant, number: i64) {
        let Some(call) = self.calls.get(number) else { return };
        let Some(encoded) = &call.encoded else { return };
        match self.call_headers(call, encoded) {
            Ok(headers) => {
                let (url, body) = (self.post_url(), encoded.body.clone());
                let exchange =
                    //= C4.1 "Every message is a new POST"
                    self.begin_exchange(ExchangeKind::Call(number), Verb::Post, url, headers, body);
                self.suspend_sent_deadline(number);
                self.calls.enter_exchange(number, exchange);
            }
            Err(refusal) => self.fail_call(now, number, Outcome::Refused(refusal)),
        }
    }

    pub(super) fn call_headers(
        &self,
        call: &Call,
        encoded: &EncodedRequest,
    ) -> Result<RequestHeaders, RequestError> {
        let headers = if request::is_modern(call.revision) {
            let params = self.tools.param_headers(&call.method, encoded);
            request::modern_request_headers(call.method.clone(), call.revision, encoded, params)?
        } else {
            self.session_headers().post()
        };
        let limit = self.limits().header_bytes;
        match request::longest_header(&headers) {
            longest if longest > limit => Err(RequestError::Encode(format!(
                "a header of {longest} bytes is over the limit of {limit}, `Limits::header_bytes`"
            ))),
            _ => Ok(headers),
        }
    }

    /// Puts a request back into the queue, at its old position.
    pub(super) fn requeue(&mut self, now: Instant, number: i64) {
        self.calls.free_slot(number);
        let Some(call) = self.calls.get_mut(number) else { return };
        call.queue_again();
        match &call.encoded {
            Some(encoded) => {
                self.outbox.enqueue_request(number, encoded.body.len(), call.is_long_lived);
            }
            None => self.fail_call(now, number, Outcome::Lost(LostReason::Disconnected(String::new()))),
        }
    }

    /// Puts a request back into the queue under a new id.
    pub(super) fn requeue_with_new_id(&mut self, now: Instant, number: i64) {
        self.assign_new_id(number);
        self.requeue(now, number);
    }

    pub(super) fn assign_new_id(&mut self, number: i64) {
        let wire = self.peer.renumber(number);
        if let Some(call) = self.calls.get_mut(number) {
            call.set_wire_id(wire);
        }
    }

    /// Records a successful status: the request's body is dropped unless the request may be resent.
    pub(super) fn note_success(&mut self, number: i64) {
        let safe = self.may_reissue(number, false);
        if let Some(call) = self.calls.get_mut(number)
            && !safe
        {
            call.encoded = None;
        }
    }

    // --- Resolving ---

    /// Removes a request from every queue and table. The caller ends its exchange.
    pub(super) fn take_call(&mut self, number: i64) -> Option<Call> {
        self.outbox.remove_request(number);
        self.timers.clear(Timer::Call(number));
        self.calls.remove(number)
    }

    /// Resolves a request with its answer.
    pub(super) fn answer_call(&mut self, now: Instant, number: i64, answer: Result<Raw, ErrorObject>) {
        let Some(call) = self.take_call(number) else { return };
        let answer = match answer {
            Ok(result) if *call.method == *ListTools::NAME => Ok(self.read_tools(&call, result)),
            answer => answer,
        };
        match call.owner {
            CallOwner::Application => self.peer.handle_answer(now, number, answer, &mut self.outbox),
            CallOwner::Peer => {
                let response = Response { id: Some(Id::Number(number)), outcome: answer, deviation: None };
                let frame = Frame::Single(Message::Response(response));
                self.peer.handle_frame(now, frame, &mut self.outbox);
            }
            CallOwner::ToolListing => self.handle_tools_page(now, answer.ok()),
        }
    }

    /// Resolves a request without an answer.
    pub(super) fn fail_call(&mut self, now: Instant, number: i64, outcome: Outcome) {
        let Some(call) = self.take_call(number) else { return };
        match call.owner {
            CallOwner::Application => self.peer.handle_no_answer(now, number, outcome, &mut self.outbox),
            // The peer's own deadline counts the ping as missed.
            CallOwner::Peer => {}
            CallOwner::ToolListing => self.handle_tools_page(now, None),
        }
    }

    /// Resolves a request that was answered on another request's stream.
    pub(super) fn answer_from_other_stream(
        &mut self,
        now: Instant,
        number: i64,
        answer: Result<Raw, ErrorObject>,
    ) {
        let exchange = self.calls.exchange_of(number);
        self.note_answered();
        self.answer_call(now, number, answer);
        if let Some(exchange) = exchange {
            self.drain_after_answer(now, exchange);
        }
    }

    /// Cancels a request whose answer is no longer needed.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    pub(super) fn cancel_call(&mut self, number: i64, reason: Option<&str>) {
        let Some(call) = self.take_call(number) else { return };
        self.tools.forget_waiting_call(number);
        let sent = match call.state {
            // If the rest of its answer was about to be requested, the server is working on it.
            //= C4.16 "Cancel = close the response stream"
            CallState::InExchange(exchange) => self.abort_exchange(exchange) || call.resume_point.is_some(),
            _ => call.is_with_server(),
        };
        if sent && !request::is_modern(call.revision) {
            self.post_cancelled(call.wire_id, reason, call.revision);
        }
    }

    /// Drops a request whose answer is no longer needed, without notifying the server.
    pub(super) fn forget_call(&mut self, number: i64) {
        let Some(call) = self.take_call(number) else { return };
        self.tools.forget_waiting_call(number);
        if let Some(exchange) = call.exchange() {
            self.abort_exchange(exchange);
        }
    }

    /// Sends `notifications/cancelled` to a legacy server:
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>
    fn post_cancelled(&mut self, wire: i64, reason: Option<&str>, revision: Revision) {
        let mut body = alloc::vec::Vec::new();
        if crate::transport::framing::write_cancelled(&mut body, wire, reason).is_ok() {
            let notification = Some((Cancelled::NAME.into(), revision));
            self.outbox.push_post(OneWayMessage { notification, body: Bytes::from(body), failures: 0 });
        }
    }
}
