//! Reads responses and dispatches their messages.

use core::mem;
use core::time::Duration;

use bytes::Bytes;

use crate::codec::{SseEvent, SseItem};
use crate::peer::client::Diagnostic;
use crate::peer::{InvalidAnswerError, Leniency, Machine as _, Outcome, RequestId, Strictness};
use crate::prelude::*;
use crate::rpc::{self, EnvelopeKind, Frame, Id, Malformed, Message, Response};
use crate::transport::http::{ExchangeEnd, ExchangeId, Fields, SentState};
use crate::{Instant, Limits};

use super::HttpClient;
use super::exchange::{ExchangeKind, ResponseState};
use super::legacy_sse::EVENTS_TIMEOUT;
use super::response::{
    AnswerHead, BodyType, BufferedBody, EventBody, ExchangeOutcome, HeadDetails, ResumePoint, http_error,
    is_success,
};
use super::session::POST_RESPONSE_TIMEOUT;

/// How much may follow an answer on its stream, in bytes of events.
///
/// Servers end the stream, or send a few more messages.
const TRAILING_BYTES: usize = 64 * 1024;
/// How long a stream may continue after the answer.
const TRAILING_TIME: Duration = Duration::from_secs(1);

impl HttpClient {
    // --- Heads ---

    /// Reads the head of a response.
    pub(super) fn take_head(&mut self, now: Instant, id: ExchangeId, status: u16, fields: &dyn Fields) {
        let Limits { header_bytes, message_bytes, .. } = *self.limits();
        let Some(exchange) = self.exchanges.get(id) else { return };
        let is_interim = (100..200).contains(&status);
        if is_interim || !matches!(exchange.response, ResponseState::AwaitingHead) {
            return;
        }
        let mut head = AnswerHead::read(status, fields, header_bytes);
        let redirected = self.follow_redirect(now, id, &head);
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        let has_encoding = |details: &HeadDetails| details.encoding.is_some();
        let (success, encoded) = (head.is_success(), head.details.as_deref().is_some_and(has_encoding));
        let streams = success
            && !encoded
            && !redirected
            && head.content == BodyType::Events
            && !matches!(status, 202 | 204);
        if !redirected {
            exchange.details = head.details.take();
        }
        let answered = exchange.is_answered();
        exchange.response = if streams {
            ResponseState::Events(Box::new(EventBody::new(status, message_bytes)))
        } else {
            let strictness = self.config.client.strictness;
            ResponseState::Buffered(BufferedBody::new(&head, message_bytes, strictness))
        };
        if redirected {
            return;
        }
        let kind = exchange.kind.clone();
        if encoded {
            // The client cannot read an encoded body.
            self.outbox.abort(id);
            return self.handle_exchange_end(now, id, ExchangeEnd::Complete);
        }
        match kind {
            ExchangeKind::Call(number) if success && !answered => self.note_success(number),
            ExchangeKind::Post(post) => {
                // The response to a one-way message is not needed.
                self.exchanges.set_deadline(id, Some(now + POST_RESPONSE_TIMEOUT));
                if success {
                    //= F41 "Any 2xx accepts a notification"
                    self.handle_post_accepted(id, &post);
                }
            }
            // From now on the `endpoint` event is due.
            ExchangeKind::Events if streams => self.timers.events = Some(now + EVENTS_TIMEOUT),
            ExchangeKind::Listen { .. } | ExchangeKind::Resume { .. } if streams => {
                self.note_stream(now, &kind)
            }
            _ => {}
        }
    }

    // --- Streams ---

    /// Reads the events that have arrived on a stream.
    pub(super) fn read_events(&mut self, now: Instant, id: ExchangeId) {
        loop {
            // Each event may end the exchange.
            let Some(exchange) = self.exchanges.get_mut(id) else { return };
            //= F45 "The answer is JSON, or the first event with the id of the request"
            //= C4.2 "both answer forms supported"
            let ResponseState::Events(events) = &mut exchange.response else { return };
            let Some(item) = events.poll_item() else { return };
            self.handle_item(now, id, item);
        }
    }

    /// Handles an event, unless the answer is there and too much has followed it.
    pub(super) fn handle_item(&mut self, now: Instant, id: ExchangeId, item: SseItem) {
        let bytes = match &item {
            SseItem::Event(event) => event.data.len(),
            SseItem::TooLong { bytes, .. } => *bytes,
        };
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if let Some(left) = &mut exchange.trailing_bytes_left {
            let Some(rest) = left.checked_sub(bytes) else {
                self.abort_exchange(id);
                return;
            };
            *left = rest;
        }
        match item {
            SseItem::Event(event) => self.handle_event(now, id, event),
            SseItem::TooLong { head, tail, bytes } => {
                self.handle_malformed(now, id, Malformed::too_long(&head, &tail, bytes));
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
            (ExchangeKind::Handshake { .. }, "endpoint") if !exchange.is_answered() => {
                let act = self.detection.handle_endpoint(now);
                self.perform_detection(now, act);
            }
            (&(ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. }), _)
                //= K15 "are dialects by choice"
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
        let is_outdated = exchange.generation != self.session.generation;
        match frame {
            // Its answer would go to the next session, as that of another request with this id.
            Frame::Single(Message::Request(_)) if is_outdated => {}
            Frame::Batch(batch) if is_outdated => {
                for message in batch.flatten().filter(|message| !matches!(message, Message::Request(_))) {
                    self.handle_other_messages(now, Frame::Single(message));
                }
            }
            Frame::Single(Message::Response(response)) => {
                if !exchange.is_answered() || self.call_answered_by(&response.id).is_some() {
                    self.handle_response(now, id, response);
                }
            }
            frame => self.handle_other_messages(now, frame),
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
        let named = self.number_in(&response.id);
        let own = named.is_some() && named == expected;
        if !own && let Some(number) = self.call_answered_by(&response.id) {
            self.note_deviations(&mut response);
            return self.answer_from_other_stream(now, number, response.outcome);
        }
        // An error belongs to its exchange whatever its id, a result only if the id matches.
        if expected.is_some() && (own || response.outcome.is_err()) {
            let status = exchange.status().unwrap_or(200);
            self.note_deviations(&mut response);
            let ended = match response.outcome {
                Ok(result) => ExchangeOutcome::Result { status, result },
                Err(error) => {
                    let http = http_error(status, &error.to_string());
                    ExchangeOutcome::Error { http, error, has_request_id: own }
                }
            };
            return self.resolve_on_stream(now, id, ended);
        }
        if named.is_none()
            && let Some(foreign) = &response.id
            && expected.is_some()
            && matches!(exchange.kind, ExchangeKind::Handshake { .. } | ExchangeKind::Call(_))
        {
            // The only result that this stream may carry has an id that this client never used.
            let ended = ExchangeOutcome::Invalid(foreign_result(foreign), http_error(200, ""));
            return self.resolve_on_stream(now, id, ended);
        }
        // The request is queued, or was resent under another id.
        if let Some(id) = &response.id
            && self.has_call_for(named)
        {
            return self.peer.report(Diagnostic::UnknownAnswer(id.clone()));
        }
        let frame = Frame::Single(Message::Response(response));
        self.handle_other_messages(now, frame);
    }

    /// Returns the id of the answer that an exchange should carry.
    fn expected_id(&self, kind: &ExchangeKind) -> Option<i64> {
        match kind {
            ExchangeKind::Handshake { wire, .. } => Some(*wire),
            ExchangeKind::Events => self.handshakes.last().map(|handshake| handshake.wire_id),
            kind => self.peer.wire_id(kind.call()?),
        }
    }

    /// Returns the number of this client in an id.
    fn number_in(&self, id: &Option<Id>) -> Option<i64> {
        self.strictness().number_of(id.as_ref()?)
    }

    /// Returns the sent request that a response with this id answers.
    fn call_answered_by(&self, id: &Option<Id>) -> Option<RequestId> {
        let wire = self.number_in(id)?;
        let number = self.peer.number_for_wire(wire);
        let is_named = self.peer.wire_id(number) == Some(wire);
        (is_named && self.peer.carriage(number)?.is_with_server()).then_some(number)
    }

    /// Returns whether there is a request that has, or had, this JSON-RPC id.
    fn has_call_for(&self, wire: Option<i64>) -> bool {
        wire.is_some_and(|wire| self.peer.carriage(self.peer.number_for_wire(wire)).is_some())
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
            && self.number_in(&response.id).is_some()
        {
            self.peer.note_number_as_string(id);
        }
    }

    /// Passes requests, notifications and batches to the peer, which may end requests by them.
    fn handle_other_messages(&mut self, now: Instant, frame: Frame) {
        self.peer.handle_frame(now, frame, &mut self.outbox);
        self.release_calls(now);
    }

    //= F49 "A malformed answer is a parse error of its request"
    /// Handles stream data that is no valid message, or one that is too long.
    fn handle_malformed(&mut self, now: Instant, id: ExchangeId, malformed: Malformed) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        let recovered = &malformed.recovered;
        let named = self.number_in(&recovered.id);
        let answer = !exchange.is_answered()
            && malformed.may_be_answer()
            && match (&recovered.id, self.expected_id(&exchange.kind)) {
                (_, None) => false,
                (None, Some(_)) => recovered.kind == Some(EnvelopeKind::Response),
                (Some(_), Some(wire)) => named == Some(wire),
            };
        let is_other = malformed.may_be_answer() && !answer;
        let elsewhere = if is_other { self.call_answered_by(&recovered.id) } else { None };
        if !answer && elsewhere.is_none() {
            // Handled like a readable answer to a queued request.
            if is_other && self.has_call_for(named) {
                return self.peer.report(Diagnostic::Malformed(Box::new(malformed)));
            }
            return self.peer.handle_malformed(now, malformed, &mut self.outbox);
        }
        let invalid = InvalidAnswerError::from(&malformed);
        let Some(number) = elsewhere else {
            let ended = ExchangeOutcome::Invalid(invalid, http_error(200, ""));
            return self.resolve_on_stream(now, id, ended);
        };
        let exchange = self.exchange_of(number);
        self.fail_call(now, number, Outcome::Invalid(invalid));
        if let Some(exchange) = exchange {
            self.drain_after_answer(now, exchange);
        }
    }

    //= F45 "the rest of the stream is read in the background"
    /// Drains the stream after the answer has arrived, for a limited time and number of bytes.
    pub(super) fn drain_after_answer(&mut self, now: Instant, id: ExchangeId) {
        if self.exchanges.is_parked(id) {
            self.abort_exchange(id);
        }
        if let Some(exchange) = self.exchanges.get_mut(id)
            && !exchange.is_answered()
        {
            exchange.trailing_bytes_left = Some(TRAILING_BYTES);
            self.exchanges.set_deadline(id, Some(now + TRAILING_TIME));
        }
    }

    // --- Ends ---

    /// Handles the end of an exchange.
    pub(super) fn handle_exchange_end(&mut self, now: Instant, id: ExchangeId, end: ExchangeEnd) {
        if self.exchanges.is_parked(id) {
            return;
        }
        let Some(mut exchange) = self.exchanges.remove(id) else { return };
        if exchange.is_answered() {
            return;
        }
        if exchange.status().is_some_and(is_success) && self.is_answered_on_sse(&exchange.kind) {
            // The body does not matter, even if it is truncated.
            if let ExchangeKind::Call(number) = exchange.kind {
                self.mark_accepted(number);
            }
            return;
        }
        let is_complete = end == ExchangeEnd::Complete;
        let (sent, detail) = match end {
            ExchangeEnd::Unreachable(detail) => {
                return self.end_exchange(now, id, exchange, ExchangeOutcome::Unreachable { detail });
            }
            ExchangeEnd::Complete => (SentState::MaybeSent, String::new()),
            ExchangeEnd::Truncated(detail) => (SentState::MaybeSent, detail),
            ExchangeEnd::Failed { sent, detail } => (sent, detail),
        };
        let (sent, refused, trail) = match mem::replace(&mut exchange.response, ResponseState::AwaitingHead) {
            ResponseState::AwaitingHead | ResponseState::Parked(_) => (sent, None, ResumePoint::default()),
            ResponseState::Buffered(whole) if is_complete => {
                let details = exchange.details.as_deref();
                let ended = self.buffered_outcome(now, &exchange.kind, details, whole);
                return self.end_exchange(now, id, exchange, ended);
            }
            ResponseState::Buffered(whole) => {
                let refused = whole.into_truncated_error(exchange.details.as_deref());
                (SentState::MaybeSent, refused, ResumePoint::default())
            }
            ResponseState::Events(events) => {
                let trail = events.resume_point(self.limits().header_bytes);
                if is_complete {
                    let error = http_error(events.status, "the event stream ended without an answer");
                    return self.end_exchange(now, id, exchange, ExchangeOutcome::Unanswered(error, trail));
                }
                (SentState::MaybeSent, None, trail)
            }
        };
        self.end_exchange(now, id, exchange, ExchangeOutcome::Broken { sent, detail, refused, trail });
    }

    /// Reads a body that is complete, or as much of it as the client reads.
    fn buffered_outcome(
        &mut self,
        now: Instant,
        kind: &ExchangeKind,
        details: Option<&HeadDetails>,
        whole: BufferedBody,
    ) -> ExchangeOutcome {
        let expected = self.expected_id(kind);
        let (found, error, leniency) = whole.finish(details, self.limits().depth);
        let success = is_success(error.status);
        if let Some(leniency) = leniency {
            self.peer.report(Diagnostic::Tolerated(leniency));
        }
        match found {
            Err(invalid) => ExchangeOutcome::Invalid(invalid, error.into_error()),
            Ok(Some(Frame::Single(Message::Response(Response { deviation: Some(deviation), .. }))))
                if self.strictness() == Strictness::Strict =>
            {
                let invalid = InvalidAnswerError::Malformed(deviation.to_string());
                if success {
                    ExchangeOutcome::Invalid(invalid, error.into_error())
                } else {
                    ExchangeOutcome::NoAnswer(error.into_error())
                }
            }
            Ok(Some(Frame::Single(Message::Response(mut response)))) => {
                let named = self.number_in(&response.id);
                let own = named.is_some() && named == expected;
                if own || response.outcome.is_err() {
                    self.note_deviations(&mut response);
                }
                match (response.id, response.outcome) {
                    (Some(id), Ok(_)) if !own => {
                        ExchangeOutcome::Invalid(foreign_result(&id), error.into_error())
                    }
                    // No message answers the GET of HTTP+SSE.
                    _ if matches!(kind, ExchangeKind::Events) => {
                        ExchangeOutcome::NoAnswer(error.into_error())
                    }
                    (_, Ok(result)) => ExchangeOutcome::Result { status: error.status, result },
                    (_, Err(answer)) => ExchangeOutcome::Error {
                        http: error.into_error(),
                        error: answer,
                        has_request_id: own,
                    },
                }
            }
            Ok(Some(frame @ Frame::Batch(_))) if success => {
                //= F44 "A JSON body is one message or an array"
                // The batch may include the answer.
                self.handle_other_messages(now, frame);
                ExchangeOutcome::NoAnswer(error.into_error())
            }
            Ok(_) => ExchangeOutcome::NoAnswer(error.into_error()),
        }
    }
}

/// The error of a result whose id is not that of the exchange's request.
fn foreign_result(id: &Id) -> InvalidAnswerError {
    InvalidAnswerError::Malformed(format!("it is the result of another request: {id}"))
}
