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
use crate::transport::http::ExchangeId;

use super::chunked_results::ResultChunks;
use super::encoded_request::{EncodedRequest, RequestHeaders};
use super::exchange::ExchangeKind;
use super::listen::ResumedStreams;
use super::outbox::OneWayMessage;
use super::{HttpClient, Timer, encoded_request};

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
    /// Whether it is long-lived and takes no slot: it may be answered at any time.
    pub(super) is_long_lived: bool,
    /// Whether it occupies one of the slots that limit concurrent exchanges.
    pub(super) has_slot: bool,
    /// The number of consecutive attempts in which it was not sent.
    pub(super) failures: u32,
    /// The event streams of its answer that have ended, and where the last one broke off.
    pub(super) streams: ResumedStreams,
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
    /// Creates a queued request of the application.
    pub(super) fn new(
        method: Cow<'static, str>,
        revision: Revision,
        wire_id: i64,
        encoded: EncodedRequest,
        is_long_lived: bool,
    ) -> Self {
        Self {
            owner: CallOwner::Application,
            method,
            revision,
            wire_id,
            encoded: Some(encoded),
            state: CallState::Queued,
            is_long_lived,
            has_slot: false,
            failures: 0,
            streams: ResumedStreams::default(),
            chunks: None,
            reissued: false,
            headers_retried: false,
            version_retried: false,
            renewals: 0,
        }
    }

    pub(super) fn body_bytes(&self) -> usize {
        self.encoded.as_ref().map_or(0, |encoded| encoded.body.len())
    }

    pub(super) fn exchange(&self) -> Option<ExchangeId> {
        match self.state {
            CallState::InExchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// Marks a failure; the request waits for a delay.
    pub(super) fn back_off(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.state = CallState::BackingOff;
    }

    /// Returns whether the server may be working on the request.
    pub(super) fn is_with_server(&self) -> bool {
        match self.state {
            CallState::InExchange(_) | CallState::Accepted => true,
            CallState::BackingOff => self.streams.has_position(),
            CallState::Queued | CallState::AwaitingTools => false,
        }
    }
}

/// The unresolved requests, by number.
#[derive(Debug, Default)]
pub(super) struct CallTable {
    calls: BTreeMap<i64, Call>,
    /// The peer's own last request of each method.
    peer_calls: BTreeMap<Cow<'static, str>, i64>,
    /// The number of requests that occupy a slot.
    pub(super) used_slots: usize,
}

impl CallTable {
    pub(super) fn get(&self, number: i64) -> Option<&Call> {
        self.calls.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: i64) -> Option<&mut Call> {
        self.calls.get_mut(&number)
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

    pub(super) fn free_slot(&mut self, number: i64) {
        if let Some(call) = self.calls.get_mut(&number).filter(|call| call.has_slot) {
            call.has_slot = false;
            self.used_slots = self.used_slots.saturating_sub(1);
        }
    }
}

impl HttpClient {
    // --- Sending ---

    /// Queues a request of the peer.
    pub(super) fn take_request(&mut self, number: i64, mut call: Call) {
        if number != call.wire_id {
            // Another input round: a new request to the server, under the number of the first, which may have been
            // cancelled in the same call.
            if self.peer.wire_id(number) != Some(call.wire_id) {
                return;
            }
            call.is_long_lived = false;
        } else if self.peer.sent_request(number).is_none() {
            call.owner = CallOwner::Peer;
            // A ping queued behind many requests would time out.
            call.is_long_lived = true;
            // The peer does not cancel its own requests, and a server may leave any of them unanswered.
            if let Some(before) = self.calls.peer_calls.insert(call.method.clone(), number) {
                self.forget_call(before);
            }
        }
        self.enqueue(number, call);
    }

    pub(super) fn enqueue(&mut self, number: i64, call: Call) {
        self.outbox.enqueue_request(number, call.body_bytes(), call.is_long_lived);
        self.calls.calls.insert(number, call);
    }

    /// Sends a queued request, which takes a slot unless it is long-lived.
    pub(super) fn send_call(&mut self, now: Instant, number: i64) {
        match self.open_exchange(ExchangeKind::Call(number)) {
            Ok(exchange) => {
                self.suspend_sent_deadline(number);
                let Some(call) = self.calls.get_mut(number) else { return };
                call.state = CallState::InExchange(exchange);
                if !call.is_long_lived && !call.has_slot {
                    call.has_slot = true;
                    self.calls.used_slots = self.calls.used_slots.saturating_add(1);
                }
            }
            Err(refusal) => self.refuse_call(now, number, refusal),
        }
    }

    /// Ends a request of which no exchange can be made: with the reason, or because its message is not stored any more.
    pub(super) fn refuse_call(&mut self, now: Instant, number: i64, refusal: Option<RequestError>) {
        let lost = || Outcome::Lost(LostReason::Disconnected("the request cannot be sent again".into()));
        self.fail_call(now, number, refusal.map_or_else(lost, Outcome::Refused));
    }

    pub(super) fn call_headers(
        &self,
        call: &Call,
        encoded: &EncodedRequest,
    ) -> Result<RequestHeaders, RequestError> {
        let headers = if encoded_request::is_modern(call.revision) {
            let params = self.tools.param_headers(&call.method, encoded);
            encoded_request::modern_request_headers(call.method.clone(), call.revision, encoded, params)?
        } else {
            self.with_session_headers(encoded_request::sessionless_headers())
        };
        let longest = headers.iter().map(|(name, value)| name.len().saturating_add(value.len())).max();
        let (longest, limit) = (longest.unwrap_or(0), self.limits().header_bytes);
        if longest > limit {
            return Err(RequestError::Encode(format!(
                "a header of {longest} bytes is over the limit of {limit}, `Limits::header_bytes`"
            )));
        }
        Ok(headers)
    }

    /// Puts a request back into the queue, at its old position.
    pub(super) fn requeue(&mut self, now: Instant, number: i64) {
        self.calls.free_slot(number);
        let Some(call) = self.calls.get_mut(number) else { return };
        call.streams.forget_position();
        call.chunks = None;
        call.state = CallState::Queued;
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
            call.encoded = call.encoded.as_ref().and_then(|encoded| encoded.with_id(wire, &call.method));
            call.wire_id = wire;
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
        self.calls.free_slot(number);
        self.calls.calls.remove(&number)
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
            CallState::InExchange(exchange) => self.abort_exchange(exchange) || call.streams.has_position(),
            _ => call.is_with_server(),
        };
        if sent && !encoded_request::is_modern(call.revision) {
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
