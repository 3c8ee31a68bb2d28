//! Reads response bodies and dispatches their messages.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::Instant;
use crate::codec::{SseEvent, SseItem};
use crate::peer::client::Diagnostic;
use crate::peer::{InvalidAnswerError, Leniency, Outcome, Strictness};
use crate::rpc::{self, EnvelopeKind, Frame, Id, Malformed, MalformedKind, Message, Response};
use crate::schema::{Cancelled, CancelledParams, Notification as _};
use crate::transport::http::{ExchangeEnd, ExchangeId, SentState};

use super::call::{CallOwner, CallState};
use super::detect::Handshake;
use super::exchange::{ClientExchange, ExchangeKind, ResponseState};
use super::response::{BufferedBody, EventBody, ExchangeOutcome, FinishedBody, http_error};
use super::{HttpClient, Timer};

/// How much may follow an answer on its stream, in bytes of events.
///
/// Servers end the stream, or send a few more messages.
const TRAILING_BYTES: usize = 64 * 1024;
/// How long a stream may continue after the answer.
const TRAILING_TIME: core::time::Duration = core::time::Duration::from_secs(1);

impl HttpClient {
    // --- Streams ---

    /// Reads the events that have arrived on a stream.
    pub(super) fn read_events(&mut self, now: Instant, id: ExchangeId) {
        loop {
            // Each event may end the exchange.
            let Some(exchange) = self.exchanges.get_mut(id) else { return };
            //= C4.2 "both answer forms supported"
            let ResponseState::Events(events) = &mut exchange.response else { return };
            let Some(item) = events.poll_item() else { return };
            let bytes = match &item {
                SseItem::Event(event) => event.data.len(),
                SseItem::TooLong { bytes, .. } => *bytes,
            };
            if !exchange.count_trailing(bytes) {
                self.abort_exchange(id);
                return;
            }
            match item {
                SseItem::Event(event) => self.handle_event(now, id, event),
                SseItem::TooLong { head, tail, bytes } => {
                    self.handle_malformed(now, id, Malformed::too_long(&head, &tail, bytes));
                }
            }
        }
    }

    fn handle_event(&mut self, now: Instant, id: ExchangeId, event: SseEvent) {
        let name: &str = &event.name;
        if name.is_empty() || name == "message" {
            return self.handle_text(now, id, &event.data);
        }
        let Some(exchange) = self.exchanges.get(id) else { return };
        match (&exchange.kind, name) {
            (ExchangeKind::Events, "endpoint") => self.handle_endpoint(now, id, &event.data),
            (ExchangeKind::Probe { .. } | ExchangeKind::Initialize { .. }, "endpoint")
                if !exchange.is_answered() =>
            {
                let act = self.detection.handle_endpoint(now);
                self.perform_detection(now, act);
            }
            (&(ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. }), _)
                if self.config.chunked_results && !exchange.is_answered() =>
            {
                self.handle_chunk_event(now, id, number, &event);
            }
            _ => {}
        }
    }

    fn handle_text(&mut self, now: Instant, id: ExchangeId, text: &Bytes) {
        match rpc::read(text, self.limits().depth) {
            Ok(frame) => self.handle_frame(now, id, frame),
            Err(malformed) => self.handle_malformed(now, id, malformed),
        }
    }

    /// Dispatches a message of a stream.
    fn handle_frame(&mut self, now: Instant, id: ExchangeId, frame: Frame) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        match frame {
            Frame::Single(Message::Response(response)) => {
                if exchange.is_answered() && self.call_answered_by(&response).is_none() {
                    return;
                }
                self.handle_response(now, id, response);
            }
            frame => {
                let number = match exchange.kind {
                    ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => Some(number),
                    _ => None,
                };
                self.handle_other_messages(now, frame);
                if let Some(number) = number {
                    self.drop_ended_call(now, number);
                }
            }
        }
    }

    /// Dispatches a response, preferably to the request that its stream belongs to.
    fn handle_response(&mut self, now: Instant, id: ExchangeId, mut response: Response) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        if self.strictness() == Strictness::Strict
            && let Some(deviation) = response.deviation.take()
        {
            return self.handle_malformed(now, id, *deviation);
        }
        let expected = if !exchange.is_answered() { self.expected_id(&exchange.kind) } else { None };
        let named = response.id.as_ref().and_then(|id| self.strictness().number_of(id));
        let own = named.is_some() && named == expected;
        if !own && let Some(number) = self.call_answered_by(&response) {
            self.note_deviations(&mut response);
            return self.answer_from_other_stream(now, number, response.outcome);
        }
        // An error belongs to its exchange whatever its id, a result only if the id matches.
        let ours = expected.is_some() && (own || response.outcome.is_err());
        if !ours {
            if named.is_none()
                && let Some(foreign) = &response.id
                && expected.is_some()
                && exchange.carries_one_request()
            {
                // The only result that this stream may carry has an id that this client never used.
                let invalid = InvalidAnswerError::Malformed(describe_foreign_result(foreign));
                let (purpose, generation) = (exchange.kind.clone(), exchange.generation);
                self.drain_after_answer(now, id);
                let ended = ExchangeOutcome::Invalid(invalid, http_error(200, ""));
                return self.resolve_exchange(now, purpose, generation, None, ended);
            }
            // The request is queued, or was resent under another id.
            if let (Some(wire), Some(id)) = (named, &response.id)
                && self.calls.contains(self.peer.number_for_wire(wire))
            {
                return self.peer.report(Diagnostic::UnknownAnswer(id.clone()));
            }
            let frame = Frame::Single(Message::Response(response));
            return self.peer.handle_frame(now, frame, &mut self.outbox);
        }
        let status = match &exchange.response {
            ResponseState::Events(events) => events.status,
            _ => 200,
        };
        self.note_deviations(&mut response);
        let Some(exchange) = self.exchanges.get(id) else { return };
        let what = response.outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let http = http_error(status, &what);
        let (mut purpose, generation) = (exchange.kind.clone(), exchange.generation);
        let session = self.exchanges.get_mut(id).and_then(|exchange| exchange.new_session.take());
        match (&purpose, self.handshakes.last()) {
            // On the HTTP+SSE stream only the handshake is expected.
            (ExchangeKind::Events, Some(&handshake)) => {
                purpose = ExchangeKind::Initialize { wire: handshake.wire_id, body: Bytes::new() };
                self.drain_after_answer(now, handshake.exchange);
            }
            _ => self.drain_after_answer(now, id),
        }
        let ended = ExchangeOutcome::Answer { http, answer: response.outcome, has_request_id: own };
        self.resolve_exchange(now, purpose, generation, session, ended);
    }

    /// Returns the id of the answer that an exchange should carry.
    fn expected_id(&self, purpose: &ExchangeKind) -> Option<i64> {
        match purpose {
            ExchangeKind::Probe { wire, .. } | ExchangeKind::Initialize { wire, .. } => Some(*wire),
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => {
                self.calls.get(*number).map(|call| call.wire_id)
            }
            ExchangeKind::Events => self.handshakes.last().map(|handshake| handshake.wire_id),
            _ => None,
        }
    }

    /// Returns the sent request that a response answers.
    fn call_answered_by(&self, response: &Response) -> Option<i64> {
        let wire = self.strictness().number_of(response.id.as_ref()?)?;
        self.call_by_wire_id(wire)
    }

    fn strictness(&self) -> Strictness {
        self.config.client.strictness
    }

    /// Reports the deviations of a response to one of the client's requests.
    fn note_deviations(&mut self, response: &mut Response) {
        if let Some(deviation) = response.deviation.take() {
            self.peer.report(Diagnostic::Tolerated(Leniency::Response(deviation)));
        }
        if let Some(id) = &response.id
            && self.strictness().number_of(id).is_some()
        {
            self.peer.note_number_as_string(id);
        }
    }

    /// Returns the sent request with this JSON-RPC id.
    fn call_by_wire_id(&self, wire: i64) -> Option<i64> {
        let number = self.peer.number_for_wire(wire);
        let call = self.calls.get(number).filter(|call| call.wire_id == wire)?;
        call.is_with_server().then_some(number)
    }

    /// Passes requests, notifications and batches to the peer.
    fn handle_other_messages(&mut self, now: Instant, frame: Frame) {
        let strictness = self.strictness();
        let answered: Vec<i64> = match &frame {
            // A server may end a subscription by a notification on any stream.
            Frame::Single(Message::Notification(said)) if *said.method == *Cancelled::NAME => {
                let params = said.params.as_ref().and_then(|params| params.decode::<CancelledParams>().ok());
                let wire = params.and_then(|params| strictness.number_of(&params.request_id?));
                wire.map(|wire| self.peer.number_for_wire(wire)).into_iter().collect()
            }
            Frame::Single(_) => Vec::new(),
            Frame::Batch(batch) => {
                let answers = batch.clone().filter_map(|element| match element {
                    Ok(Message::Response(response)) => response.id,
                    Ok(_) => None,
                    Err(malformed) => malformed.recovered.id,
                });
                let numbers = answers.filter_map(|id| strictness.number_of(&id));
                numbers.map(|wire| self.peer.number_for_wire(wire)).collect()
            }
        };
        self.peer.handle_frame(now, frame, &mut self.outbox);
        for number in answered {
            self.drop_ended_call(now, number);
        }
    }

    /// Drops a request that the peer has resolved, because of a batch or because the server ended a subscription.
    fn drop_ended_call(&mut self, now: Instant, number: i64) {
        let ended = self.calls.get(number).filter(|call| call.owner == CallOwner::Application);
        // If the ids differ, the request has another input round and this one is over.
        let ended = ended.filter(|call| self.peer.wire_id(number) != Some(call.wire_id));
        let Some(place) = ended.map(|call| call.state) else { return };
        self.take_call(number);
        self.note_answered();
        if let CallState::InExchange(exchange) = place {
            self.drain_after_answer(now, exchange);
        }
    }

    /// Handles stream data that is no valid message, or one that is too long.
    fn handle_malformed(&mut self, now: Instant, id: ExchangeId, malformed: Malformed) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        let recovered = &malformed.recovered;
        let named = recovered.id.as_ref().and_then(|id| self.strictness().number_of(id));
        let answer = !exchange.is_answered()
            && malformed.may_be_answer()
            && match (&recovered.id, self.expected_id(&exchange.kind)) {
                (_, None) => false,
                (None, Some(_)) => recovered.kind == Some(EnvelopeKind::Response),
                (Some(_), Some(wire)) => named == Some(wire),
            };
        let other = named.filter(|_| malformed.may_be_answer() && !answer);
        let elsewhere = other.and_then(|wire| self.call_by_wire_id(wire));
        if !answer && elsewhere.is_none() {
            // Handled like a readable answer to a queued request.
            if other.is_some_and(|wire| self.calls.contains(self.peer.number_for_wire(wire))) {
                return self.peer.report(Diagnostic::Malformed(Box::new(malformed)));
            }
            return self.peer.handle_malformed(now, malformed, &mut self.outbox);
        }
        let invalid = match malformed.kind {
            MalformedKind::TooLong { bytes } => InvalidAnswerError::TooLong { bytes },
            _ => InvalidAnswerError::Malformed(alloc::format!("{malformed}")),
        };
        if let Some(number) = elsewhere {
            let place = self.calls.state(number);
            self.fail_call(now, number, Outcome::Invalid(invalid));
            if let Some(CallState::InExchange(exchange)) = place {
                self.drain_after_answer(now, exchange);
            }
            return;
        }
        let http = http_error(200, "");
        let (purpose, generation) = match (&exchange.kind, self.handshakes.last()) {
            (ExchangeKind::Events, Some(&Handshake { wire_id: wire, .. })) => {
                (ExchangeKind::Initialize { wire, body: Bytes::new() }, exchange.generation)
            }
            (purpose, _) => (purpose.clone(), exchange.generation),
        };
        if !matches!(exchange.kind, ExchangeKind::Events) {
            self.drain_after_answer(now, id);
        }
        self.resolve_exchange(now, purpose, generation, None, ExchangeOutcome::Invalid(invalid, http));
    }

    /// Drains the stream after the answer has arrived, for a limited time and number of bytes.
    pub(super) fn drain_after_answer(&mut self, now: Instant, id: ExchangeId) {
        if self.exchanges.is_parked(id) {
            self.abort_exchange(id);
        }
        if let Some(exchange) = self.exchanges.get_mut(id)
            && !exchange.is_answered()
        {
            exchange.limit_trailing(TRAILING_BYTES);
            self.timers.set(Timer::Drain(id), now + TRAILING_TIME);
        }
    }

    // --- Ends ---

    /// Handles the end of a body, or of the part of it that the client reads.
    pub(super) fn finish_buffered(
        &mut self,
        now: Instant,
        id: ExchangeId,
        exchange: ClientExchange,
        whole: BufferedBody,
    ) {
        let success = whole.head.is_success();
        let expected = self.expected_id(&exchange.kind);
        let FinishedBody { message: found, error, leniency } = whole.finish(self.limits().depth);
        if let Some(leniency) = leniency {
            self.peer.report(Diagnostic::Tolerated(leniency));
        }
        let ended = match found {
            Err(invalid) => ExchangeOutcome::Invalid(invalid, error),
            Ok(None) => ExchangeOutcome::NoAnswer(error),
            Ok(Some(Frame::Single(Message::Response(Response { deviation: Some(deviation), .. }))))
                if self.strictness() == Strictness::Strict =>
            {
                match success {
                    true => {
                        ExchangeOutcome::Invalid(InvalidAnswerError::Malformed(deviation.to_string()), error)
                    }
                    false => ExchangeOutcome::NoAnswer(error),
                }
            }
            Ok(Some(Frame::Single(Message::Response(mut response)))) => {
                let named = response.id.as_ref().and_then(|id| self.strictness().number_of(id));
                let own = named.is_some() && named == expected;
                if own || response.outcome.is_err() {
                    self.note_deviations(&mut response);
                }
                match (response.id, response.outcome) {
                    (Some(id), Ok(_)) if !own => ExchangeOutcome::Invalid(
                        InvalidAnswerError::Malformed(describe_foreign_result(&id)),
                        error,
                    ),
                    (_, answer) => ExchangeOutcome::Answer { http: error, answer, has_request_id: own },
                }
            }
            Ok(Some(frame @ Frame::Batch(_))) if success => {
                // The batch may include the answer.
                self.handle_other_messages(now, frame);
                ExchangeOutcome::NoAnswer(error)
            }
            Ok(Some(_)) => ExchangeOutcome::NoAnswer(error),
        };
        self.park_or_resolve(now, id, exchange, ended);
    }

    /// Handles the end of an exchange.
    pub(super) fn finish_exchange(
        &mut self,
        now: Instant,
        id: ExchangeId,
        mut exchange: ClientExchange,
        end: ExchangeEnd,
    ) {
        if exchange.is_answered() {
            return;
        }
        let status = match &exchange.response {
            ResponseState::AwaitingHead | ResponseState::Parked(_) => None,
            ResponseState::Buffered(whole) => Some(whole.head.status),
            ResponseState::Events(events) => Some(events.status),
        };
        if status.is_some_and(|status| (200..300).contains(&status))
            && self.is_answered_on_sse(&exchange.kind)
        {
            // The body does not matter, even if it is truncated.
            return self.mark_accepted(&exchange.kind);
        }
        if let ExchangeEnd::Unreachable(detail) = end {
            return self.park_or_resolve(now, id, exchange, ExchangeOutcome::Unreachable { detail });
        }
        let (sent, detail) = match &end {
            ExchangeEnd::Complete | ExchangeEnd::Unreachable(_) => (SentState::MaybeSent, String::new()),
            ExchangeEnd::Truncated(detail) => (SentState::MaybeSent, detail.clone()),
            ExchangeEnd::Failed { sent, detail } => (*sent, detail.clone()),
        };
        let ended = match (mem::replace(&mut exchange.response, ResponseState::AwaitingHead), end) {
            (ResponseState::AwaitingHead | ResponseState::Parked(_), _) => {
                ExchangeOutcome::Broken { sent, detail, refused: None, trail: Default::default() }
            }
            (ResponseState::Buffered(whole), ExchangeEnd::Complete) => {
                return self.finish_buffered(now, id, exchange, *whole);
            }
            (ResponseState::Buffered(whole), _) => ExchangeOutcome::Broken {
                sent: SentState::MaybeSent,
                detail,
                refused: whole.into_truncated_error(),
                trail: Default::default(),
            },
            (ResponseState::Events(events), end) => self.event_stream_outcome(&events, end, detail),
        };
        exchange.new_session = None;
        self.park_or_resolve(now, id, exchange, ended);
    }

    /// Parks the exchange, or else dispatches its outcome.
    fn park_or_resolve(
        &mut self,
        now: Instant,
        id: ExchangeId,
        exchange: ClientExchange,
        ended: ExchangeOutcome,
    ) {
        if let Some((exchange, ended)) = self.park(now, id, exchange, ended) {
            let ClientExchange { kind: purpose, generation, new_session: session, .. } = exchange;
            self.resolve_exchange(now, purpose, generation, session, ended);
        }
    }

    fn event_stream_outcome(&self, events: &EventBody, end: ExchangeEnd, detail: String) -> ExchangeOutcome {
        let trail = events.resume_point(self.limits().header_bytes);
        match end {
            ExchangeEnd::Complete => {
                let error = http_error(events.status, "the event stream ended without an answer");
                ExchangeOutcome::Unanswered(error, trail)
            }
            _ => ExchangeOutcome::Broken { sent: SentState::MaybeSent, detail, refused: None, trail },
        }
    }
}

/// Describes a result whose id is not that of the exchange's request.
fn describe_foreign_result(id: &Id) -> String {
    alloc::format!("it is the result of another request: {id}")
}
