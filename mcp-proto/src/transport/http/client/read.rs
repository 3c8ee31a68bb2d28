//! Bodies become messages, and messages go where they belong.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::Instant;
use crate::codec::{SseEvent, SseItem};
use crate::peer::client::Diagnostic;
use crate::peer::{Conduct, HttpError, InvalidAnswerError, Leniency, Outcome};
use crate::rpc::{self, Frame, Id, Kind, Malformed, MalformedKind, Message, Response};
use crate::schema::{Cancelled, CancelledParams, Notification as _};
use crate::transport::http::{End, ExchangeId, Sent};

use super::HttpClient;
use super::answer::{Ended, Events, Finished, Whole};
use super::call::{Owner, Place};
use super::connect::Handshake;
use super::exchange::{Exchange, Purpose, Reading};
use super::timers::Timer;

/// How much may follow an answer on its stream, in bytes of events. Servers end the stream, or say a word or two more.
const REST_BYTES: usize = 64 * 1024;
/// How long a stream may go on after the answer.
const REST_TIME: core::time::Duration = core::time::Duration::from_secs(1);

impl HttpClient {
    // --- Streams ---

    /// Takes what has come on a stream.
    pub(super) fn read_events(&mut self, now: Instant, id: ExchangeId) {
        loop {
            // Each event may end the exchange.
            let Some(Exchange { reading: Reading::Events(events), rest, .. }) = self.exchanges.get_mut(&id)
            else {
                return;
            };
            let Some(item) = events.sse.poll_item() else { return };
            events.heard = true;
            if let Some(rest) = rest {
                let bytes = match &item {
                    SseItem::Event(event) => event.data.len(),
                    SseItem::TooLong { bytes, .. } => *bytes,
                };
                match rest.checked_sub(bytes) {
                    Some(left) => *rest = left,
                    None => {
                        self.abort_exchange(id);
                        return;
                    }
                }
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
        let Some(exchange) = self.exchanges.get(&id) else { return };
        match (&exchange.purpose, name) {
            (Purpose::Events, "endpoint") => self.handle_endpoint(now, id, &event.data),
            (Purpose::Probe { .. } | Purpose::Initialize { .. }, "endpoint") if exchange.rest.is_none() => {
                let act = self.detect.handle_endpoint();
                self.perform(now, act);
            }
            (&(Purpose::Call(number) | Purpose::Resume { number, .. }), _)
                if self.config.dialect_002 && exchange.rest.is_none() =>
            {
                self.handle_dialect(now, id, number, &event);
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

    /// A message on a stream.
    fn handle_frame(&mut self, now: Instant, id: ExchangeId, frame: Frame) {
        let Some(exchange) = self.exchanges.get(&id) else { return };
        match frame {
            Frame::Single(Message::Response(response)) => {
                if exchange.rest.is_some() && self.answered_by(&response).is_none() {
                    return;
                }
                self.handle_response(now, id, response);
            }
            frame => {
                let number = match exchange.purpose {
                    Purpose::Call(number) | Purpose::Resume { number, .. } => Some(number),
                    _ => None,
                };
                self.handle_others(now, frame);
                if let Some(number) = number {
                    self.let_go_if_ended(now, number);
                }
            }
        }
    }

    /// An answer on a stream: to the request that the stream is for, if it can be.
    fn handle_response(&mut self, now: Instant, id: ExchangeId, mut response: Response) {
        let Some(exchange) = self.exchanges.get(&id) else { return };
        if self.conduct() == Conduct::Strict
            && let Some(deviation) = response.deviation.take()
        {
            return self.handle_malformed(now, id, *deviation);
        }
        let expected = if exchange.rest.is_none() { self.expected(&exchange.purpose) } else { None };
        let named = response.id.as_ref().and_then(|id| self.conduct().number_of(id));
        let own = named.is_some() && named == expected;
        if !own && let Some(number) = self.answered_by(&response) {
            self.note_deviations(&mut response);
            return self.answer_elsewhere(now, number, response.outcome);
        }
        // An error belongs to its exchange whatever its id, a result by its id alone.
        let ours = expected.is_some() && (own || response.outcome.is_err());
        if !ours {
            if named.is_none()
                && let Some(foreign) = &response.id
                && expected.is_some()
                && exchange.answers_one()
            {
                // The one result that this stream may bring has an id that this side never wrote.
                let invalid = InvalidAnswerError::Malformed(foreign_result(foreign));
                let (purpose, generation) = (exchange.purpose.clone(), exchange.generation);
                self.detach(now, id);
                let ended = Ended::Invalid(invalid, HttpError::new(200, ""));
                return self.conclude(now, purpose, generation, None, ended);
            }
            // It waits to go out, or has gone out again under another id.
            if let (Some(wire), Some(id)) = (named, &response.id)
                && self.calls.contains_key(&self.peer.number_for_wire(wire))
            {
                return self.peer.report(Diagnostic::UnknownAnswer(id.clone()));
            }
            let frame = Frame::Single(Message::Response(response));
            return self.peer.handle_frame(now, frame, &mut self.out);
        }
        let status = match &exchange.reading {
            Reading::Events(events) => events.status,
            _ => 200,
        };
        self.note_deviations(&mut response);
        let Some(exchange) = self.exchanges.get(&id) else { return };
        let what = response.outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let http = HttpError::new(status, &what);
        let (mut purpose, generation) = (exchange.purpose.clone(), exchange.generation);
        let session = self.exchanges.get_mut(&id).and_then(|exchange| exchange.session.take());
        match (&purpose, self.handshakes.last().copied()) {
            // On the one stream of HTTP+SSE only the handshake is expected.
            (Purpose::Events, Some(handshake)) => {
                purpose = Purpose::Initialize { wire: handshake.wire, body: Bytes::new() };
                self.detach(now, handshake.exchange);
            }
            _ => self.detach(now, id),
        }
        let ended = Ended::Answer { http, answer: response.outcome, own };
        self.conclude(now, purpose, generation, session, ended);
    }

    /// The id of the answer that an exchange is to bring.
    fn expected(&self, purpose: &Purpose) -> Option<i64> {
        match purpose {
            Purpose::Probe { wire, .. } | Purpose::Initialize { wire, .. } => Some(*wire),
            Purpose::Call(number) | Purpose::Resume { number, .. } => {
                self.calls.get(number).map(|call| call.wire)
            }
            Purpose::Events => self.handshakes.last().map(|handshake| handshake.wire),
            _ => None,
        }
    }

    /// The request with the server that has the id of an answer.
    fn answered_by(&self, response: &Response) -> Option<i64> {
        let wire = self.conduct().number_of(response.id.as_ref()?)?;
        self.with_server(wire)
    }

    /// Reports a deviation of the server, if the configuration tolerates deviations: returns whether it does.
    #[cfg(feature = "std")]
    pub(crate) fn tolerate(&mut self, leniency: Leniency) -> bool {
        self.peer.tolerate(leniency)
    }

    fn conduct(&self) -> Conduct {
        self.config.client.conduct
    }

    /// Reports how a response deviates that answers a request of this side.
    fn note_deviations(&mut self, response: &mut Response) {
        if let Some(deviation) = response.deviation.take() {
            self.peer.report(Diagnostic::Tolerated(Leniency::Response(deviation)));
        }
        if let Some(id) = &response.id
            && self.conduct().number_of(id).is_some()
        {
            self.peer.note_number_as_string(id);
        }
    }

    /// The request with the server that has this id.
    fn with_server(&self, wire: i64) -> Option<i64> {
        let number = self.peer.number_for_wire(wire);
        let call = self.calls.get(&number).filter(|call| call.wire == wire)?;
        let with_server = match call.place {
            Place::Out(_) | Place::Accepted => true,
            Place::Pausing => call.trail.is_some(),
            Place::Waiting | Place::Parked => false,
        };
        with_server.then_some(number)
    }

    /// Messages that are no answers, or several at once.
    fn handle_others(&mut self, now: Instant, frame: Frame) {
        let conduct = self.conduct();
        let answered: Vec<i64> = match &frame {
            // A server may say on any stream that a subscription is over.
            Frame::Single(Message::Notification(said)) if *said.method == *Cancelled::NAME => {
                let params = said.params.as_ref().and_then(|params| params.decode::<CancelledParams>().ok());
                let wire = params.and_then(|params| conduct.number_of(&params.request_id?));
                wire.map(|wire| self.peer.number_for_wire(wire)).into_iter().collect()
            }
            Frame::Single(_) => Vec::new(),
            Frame::Batch(batch) => {
                let answers = batch.clone().filter_map(|element| match element {
                    Ok(Message::Response(response)) => response.id,
                    Ok(_) => None,
                    Err(malformed) => malformed.recovered.id,
                });
                let numbers = answers.filter_map(|id| conduct.number_of(&id));
                numbers.map(|wire| self.peer.number_for_wire(wire)).collect()
            }
        };
        self.peer.handle_frame(now, frame, &mut self.out);
        for number in answered {
            self.let_go_if_ended(now, number);
        }
    }

    /// The peer may have ended a request by what it was told: by a batch, or because the server gave a subscription up.
    fn let_go_if_ended(&mut self, now: Instant, number: i64) {
        let ended = self.calls.get(&number).filter(|call| call.owner == Owner::Application);
        // If it is with the server all the same, then in another round.
        let ended = ended.filter(|call| self.peer.wire_id(number) != Some(call.wire));
        let Some(place) = ended.map(|call| call.place) else { return };
        self.take_call(number);
        self.note_answered();
        if let Place::Out(exchange) = place {
            self.detach(now, exchange);
        }
    }

    /// Something on a stream that is no message, or one that was too long.
    fn handle_malformed(&mut self, now: Instant, id: ExchangeId, malformed: Malformed) {
        let Some(exchange) = self.exchanges.get(&id) else { return };
        let recovered = &malformed.recovered;
        let named = recovered.id.as_ref().and_then(|id| self.conduct().number_of(id));
        let answer = exchange.rest.is_none()
            && malformed.may_be_answer()
            && match (&recovered.id, self.expected(&exchange.purpose)) {
                (_, None) => false,
                (None, Some(_)) => recovered.kind == Some(Kind::Response),
                (Some(_), Some(wire)) => named == Some(wire),
            };
        let other = named.filter(|_| malformed.may_be_answer() && !answer);
        let elsewhere = other.and_then(|wire| self.with_server(wire));
        if !answer && elsewhere.is_none() {
            // As with an answer that can be read, to what waits to go out.
            if other.is_some_and(|wire| self.calls.contains_key(&self.peer.number_for_wire(wire))) {
                return self.peer.report(Diagnostic::Malformed(Box::new(malformed)));
            }
            return self.peer.handle_malformed(now, malformed, &mut self.out);
        }
        let invalid = match malformed.kind {
            MalformedKind::TooLong { bytes } => InvalidAnswerError::TooLong { bytes },
            _ => InvalidAnswerError::Malformed(alloc::format!("{malformed}")),
        };
        if let Some(number) = elsewhere {
            let place = self.calls.get(&number).map(|call| call.place);
            self.end_call(now, number, Outcome::Invalid(invalid));
            if let Some(Place::Out(exchange)) = place {
                self.detach(now, exchange);
            }
            return;
        }
        let http = HttpError::new(200, "");
        let (purpose, generation) = match (&exchange.purpose, self.handshakes.last().copied()) {
            (Purpose::Events, Some(Handshake { wire, .. })) => {
                (Purpose::Initialize { wire, body: Bytes::new() }, exchange.generation)
            }
            (purpose, _) => (purpose.clone(), exchange.generation),
        };
        if !matches!(exchange.purpose, Purpose::Events) {
            self.detach(now, id);
        }
        self.conclude(now, purpose, generation, None, Ended::Invalid(invalid, http));
    }

    /// The answer has come: what follows it on the stream is taken for a while.
    pub(super) fn detach(&mut self, now: Instant, id: ExchangeId) {
        if self.is_held(id) {
            self.abort_exchange(id);
        }
        if let Some(exchange) = self.exchanges.get_mut(&id)
            && exchange.rest.is_none()
        {
            exchange.rest = Some(REST_BYTES);
            self.timers.set(Timer::Drain(id), now + REST_TIME);
        }
    }

    // --- Ends ---

    /// All of a body has come, or as much of it as is taken.
    pub(super) fn finish_whole(&mut self, now: Instant, id: ExchangeId, exchange: Exchange, whole: Whole) {
        let success = (200..300).contains(&whole.status);
        let expected = self.expected(&exchange.purpose);
        let Finished { found, error, leniency } = whole.finish(self.limits().depth);
        if let Some(leniency) = leniency {
            self.peer.report(Diagnostic::Tolerated(leniency));
        }
        let ended = match found {
            Err(invalid) => Ended::Invalid(invalid, error),
            Ok(None) => Ended::Other(error),
            Ok(Some(Frame::Single(Message::Response(Response { deviation: Some(deviation), .. }))))
                if self.conduct() == Conduct::Strict =>
            {
                match success {
                    true => Ended::Invalid(InvalidAnswerError::Malformed(deviation.to_string()), error),
                    false => Ended::Other(error),
                }
            }
            Ok(Some(Frame::Single(Message::Response(mut response)))) => {
                let named = response.id.as_ref().and_then(|id| self.conduct().number_of(id));
                let own = named.is_some() && named == expected;
                if own || response.outcome.is_err() {
                    self.note_deviations(&mut response);
                }
                match (response.id, response.outcome) {
                    (Some(id), Ok(_)) if !own => {
                        Ended::Invalid(InvalidAnswerError::Malformed(foreign_result(&id)), error)
                    }
                    (_, answer) => Ended::Answer { http: error, answer, own },
                }
            }
            Ok(Some(frame @ Frame::Batch(_))) if success => {
                // The answer may be among them.
                self.handle_others(now, frame);
                Ended::Other(error)
            }
            Ok(Some(_)) => Ended::Other(error),
        };
        self.end_exchange(now, id, exchange, ended);
    }

    /// An exchange is over.
    pub(super) fn finish(&mut self, now: Instant, id: ExchangeId, mut exchange: Exchange, end: End) {
        if exchange.rest.is_some() {
            return;
        }
        let status = match &exchange.reading {
            Reading::Nothing | Reading::Held(_) => None,
            Reading::Whole(whole) => Some(whole.status),
            Reading::Events(events) => Some(events.status),
        };
        if status.is_some_and(|status| (200..300).contains(&status))
            && self.answers_elsewhere(&exchange.purpose)
        {
            // Whatever the body is, and even if it is cut.
            return self.accepted(&exchange.purpose);
        }
        if let End::Unreachable(detail) = end {
            return self.end_exchange(now, id, exchange, Ended::Unreachable { detail });
        }
        let (sent, detail) = match &end {
            End::Complete | End::Unreachable(_) => (Sent::Maybe, String::new()),
            End::Truncated(detail) => (Sent::Maybe, detail.clone()),
            End::Failed { sent, detail } => (*sent, detail.clone()),
        };
        let ended = match (mem::replace(&mut exchange.reading, Reading::Nothing), end) {
            (Reading::Nothing | Reading::Held(_), _) => {
                Ended::Broken { sent, detail, refused: None, trail: Default::default() }
            }
            (Reading::Whole(whole), End::Complete) => {
                return self.finish_whole(now, id, exchange, *whole);
            }
            (Reading::Whole(whole), _) => {
                Ended::Broken { sent: Sent::Maybe, detail, refused: whole.cut(), trail: Default::default() }
            }
            (Reading::Events(events), end) => self.finish_events(&events, end, detail),
        };
        exchange.session = None;
        self.end_exchange(now, id, exchange, ended);
    }

    /// An exchange has come to this, unless it is held.
    fn end_exchange(&mut self, now: Instant, id: ExchangeId, exchange: Exchange, ended: Ended) {
        if let Some((exchange, ended)) = self.hold(now, id, exchange, ended) {
            let Exchange { purpose, generation, session, .. } = exchange;
            self.conclude(now, purpose, generation, session, ended);
        }
    }

    fn finish_events(&self, events: &Events, end: End, detail: String) -> Ended {
        let trail = events.trail(self.limits().header_bytes);
        match end {
            End::Complete => {
                let error = HttpError::new(events.status, "the event stream ended without an answer");
                Ended::Unanswered(error, trail)
            }
            _ => Ended::Broken { sent: Sent::Maybe, detail, refused: None, trail },
        }
    }
}

/// What is wrong with a result that came in the exchange of a request and is not its own.
fn foreign_result(id: &Id) -> String {
    alloc::format!("it is the result of another request: {id}")
}
