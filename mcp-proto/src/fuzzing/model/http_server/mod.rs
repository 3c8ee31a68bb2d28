//! The reference model of an HTTP server of both eras, behind the router of its fuzz target.
//!
//! It predicts the status and the kind of each response, the answer to each request, and the ends of streams and sessions. With
//! low limits ([`HttpServerKind::is_tight`]) it allows refusals and errors in place of them, at any time.

mod answer;
mod output;
mod request;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;

use answer::Content;
use request::{Destination, HttpRequest, Refusals};

use super::{LEGACY, Message};
use crate::Instant;

pub(in crate::fuzzing) use request::HttpServerKind;

const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

/// How an exchange is answered.
#[derive(Debug)]
enum Expected {
    /// Not at all: its request is incomplete.
    Nothing,
    /// With one of these errors.
    Refusal(Refusals),
    /// With a status and no body.
    Empty(u16),
    /// With the messages of a stream.
    Stream(usize),
}

#[derive(Debug)]
struct Exchange {
    request: HttpRequest,
    begun_at: Instant,
    expected: Expected,
    /// The statuses of refusals that may come instead.
    other_statuses: Vec<u16>,
    /// The id of its request, for a refusal.
    id: Value,
    status: Option<u16>,
    /// Whether the response is an event stream.
    has_events: bool,
    /// The part of the body that is not read yet.
    text: Vec<u8>,
    /// The position of the last event that the client has received, if it resumes a stream.
    resumes_after: Option<usize>,
    is_over: bool,
    /// Whether the client no longer reads.
    is_gone: bool,
}

/// The messages that one response carries, or several if its client resumes it.
#[derive(Debug)]
struct Stream {
    session: Option<usize>,
    kind: StreamKind,
    /// The exchange that carries it.
    carrier: Option<usize>,
    requests: Vec<usize>,
    is_batch: bool,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StreamKind {
    /// The answers to the requests of a POST.
    Answers,
    /// Messages of a session that belong to no request.
    General,
    /// All messages of a session of 2024-11-05.
    All,
    /// A stream of which the client has received nothing.
    Unknown,
}

/// A request of a client.
#[derive(Debug)]
struct Request {
    id: Value,
    session: Option<usize>,
    state: RequestState,
    /// What its answer may contain.
    contents: Vec<Content>,
    /// The times from which and by which it is answered, if it is.
    from: Option<Instant>,
    by: Option<Instant>,
    /// The request with which its handler asks the client, and how long the handler then takes.
    asks: Option<(&'static str, Duration)>,
    /// Whether its handler ends the connection before the answer.
    releases: bool,
    /// The argument of its tool.
    argument: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RequestState {
    Open,
    /// Its answer may have been sent where the client did not read it.
    Uncertain,
    /// Its answer was sent where the client did not read it.
    Unread,
    Over,
}

#[derive(Debug)]
struct Session {
    id: String,
    general: usize,
    revision: Option<&'static str>,
    is_over: bool,
    /// Whether it may be over already.
    may_be_over: bool,
    was_busy: bool,
    /// The time since which it is idle: between these two.
    idle_since: (Instant, Instant),
    /// The events received: the id, the stream and the data of each.
    events: Vec<(String, usize, String)>,
    is_subscribed: bool,
    /// The numbers of the server's requests.
    own_numbers: BTreeSet<i64>,
    /// The server's requests without an outcome, with the request whose handler asks.
    own: BTreeMap<i64, Option<usize>>,
}

/// The reference model of an HTTP server.
#[derive(Debug)]
pub(in crate::fuzzing) struct HttpServerModel {
    kind: HttpServerKind,
    now: Instant,
    exchanges: Vec<Exchange>,
    streams: Vec<Stream>,
    requests: Vec<Request>,
    sessions: Vec<Session>,
    /// The changes that the application has reported: the method of the notification, and the resource.
    changes: BTreeSet<(String, String)>,
    /// The request states that were issued, with the argument that each is bound to.
    states: BTreeMap<String, u64>,
    is_covered: bool,
}

impl HttpServerModel {
    pub(in crate::fuzzing) fn new(kind: HttpServerKind) -> Self {
        Self {
            kind,
            now: Instant::ORIGIN,
            exchanges: Vec::new(),
            streams: Vec::new(),
            requests: Vec::new(),
            sessions: Vec::new(),
            changes: BTreeSet::new(),
            states: BTreeMap::new(),
            is_covered: true,
        }
    }

    /// Ends the coverage: what follows is not predicted.
    pub(in crate::fuzzing) fn end_coverage(&mut self) {
        self.is_covered = false;
    }

    // --- Inputs ---

    pub(in crate::fuzzing) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    pub(in crate::fuzzing) fn begin(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) {
        let request = HttpRequest::new(method, path, fields);
        let refusals = request.check_head(self.kind);
        let number = self.exchanges.len();
        self.exchanges.push(Exchange {
            request,
            begun_at: self.now,
            expected: Expected::Nothing,
            other_statuses: if self.kind.is_tight { Vec::from([413, 503]) } else { Vec::new() },
            id: Value::Null,
            status: None,
            has_events: false,
            text: Vec::new(),
            resumes_after: None,
            is_over: false,
            is_gone: false,
        });
        if !refusals.is_empty() {
            return self.expect(number, Expected::Refusal(refusals));
        }
        if path == "/sse" {
            let stream = self.open_stream(number, None, StreamKind::All);
            return self.expect(number, Expected::Stream(stream));
        }
        let session = self.find_session(number);
        match method {
            // The session's absence is reported before the body or after it.
            "POST" if session.is_none() && path != "/mcp" => self.exchanges[number].other_statuses.push(404),
            "POST" => {}
            "GET" => self.listen(number, session),
            _ => self.delete(number, session),
        }
    }

    pub(in crate::fuzzing) fn handle_body(&mut self, number: usize, bytes: &[u8]) {
        if let Some(exchange) = self.exchanges.get_mut(number)
            && matches!(exchange.expected, Expected::Nothing)
        {
            exchange.request.body.extend_from_slice(bytes);
        }
    }

    pub(in crate::fuzzing) fn handle_body_end(&mut self, number: usize) {
        if !matches!(self.exchanges[number].expected, Expected::Nothing) || self.exchanges[number].is_gone {
            return;
        }
        let request = &self.exchanges[number].request;
        if self.kind.is_tight && request.body.len() > 512 {
            return self.expect(number, Expected::Refusal(Vec::from([(413, None), (503, None)])));
        }
        let Some((messages, in_batch)) = Message::read_line(&request.body) else {
            // JSON that is no message may be refused, or answer a request.
            self.is_covered &= serde_json::from_slice::<Value>(&request.body).is_err();
            return self.expect(number, Expected::Refusal(Vec::from([(400, Some(-32700))])));
        };
        if let Some(Message::Request { id, .. }) = messages.first().filter(|_| !in_batch) {
            self.exchanges[number].id = id.clone();
        }
        let request = &self.exchanges[number].request;
        let routed = match request.is_for_messages() {
            true => Ok(Destination::Session),
            false => request.route(self.kind, messages.first().filter(|_| !in_batch)),
        };
        match routed {
            Err(refusals) => self.expect(number, Expected::Refusal(refusals)),
            Ok(Destination::Nowhere) => self.expect(number, Expected::Empty(202)),
            Ok(Destination::Modern | Destination::NewSession) => {
                let stream = self.open_stream(number, None, StreamKind::Answers);
                self.expect(number, Expected::Stream(stream));
                if let Some(Message::Request { id, method, params }) = messages.into_iter().next() {
                    self.add_request(stream, id, &method, &params);
                }
            }
            Ok(Destination::Session) => self.post(number, messages, in_batch),
        }
    }

    /// The client leaves. That cancels a request of 2026-07-28, and ends a session of 2024-11-05.
    pub(in crate::fuzzing) fn disconnect(&mut self, number: usize) {
        self.exchanges[number].is_gone = true;
        let Some(stream) = self.carried(number) else { return };
        self.streams[stream].carrier = None;
        match (self.streams[stream].session, self.streams[stream].kind) {
            (None, _) => self.close_stream(stream),
            (Some(session), StreamKind::All) => self.end_session(session),
            _ => {}
        }
    }

    /// The application reports a change.
    pub(in crate::fuzzing) fn change(&mut self, method: &str, about: &str) {
        self.changes.insert((method.to_string(), about.to_string()));
    }

    // --- Sessions ---

    /// Finds the session that a request names, if it may be used.
    fn find_session(&mut self, number: usize) -> Option<usize> {
        let id = self.exchanges[number].request.session()?.to_string();
        let found = self.sessions.iter().position(|session| session.id == id && !session.is_over)?;
        self.check_expiry(found);
        if self.sessions[found].may_be_over {
            self.exchanges[number].other_statuses.push(404);
        }
        (!self.sessions[found].is_over).then_some(found)
    }

    /// Ends a session that has been idle for long.
    fn check_expiry(&mut self, session: usize) {
        let now = self.now;
        let Session { idle_since: (earliest, latest), .. } = self.sessions[session];
        if !self.sessions[session].was_busy && now >= latest + SESSION_IDLE {
            self.sessions[session].is_over = true;
        } else if now >= earliest + SESSION_IDLE {
            self.sessions[session].may_be_over = true;
        }
    }

    fn touch_session(&mut self, session: usize) {
        self.sessions[session].idle_since = (self.now, self.now);
    }

    /// Handles messages posted in a session.
    fn post(&mut self, number: usize, messages: Vec<Message>, in_batch: bool) {
        let Some(session) = self.find_session(number) else { return self.refuse(number, 404) };
        self.touch_session(session);
        let all = self.streams[self.sessions[session].general].kind == StreamKind::All;
        let general = self.sessions[session].general;
        if in_batch && (self.sessions[session].revision != Some("2025-03-26") || messages.is_empty()) {
            if !all {
                return self.refuse(number, 400);
            }
            self.is_covered = false;
            return;
        }
        let id = self.exchanges[number].id.clone();
        let duplicate = self.find_open(session, &id);
        if all && let Some(duplicate) = duplicate {
            // On the only stream, an error would seem to answer the other request.
            match self.requests[duplicate].state {
                RequestState::Open if !self.kind.is_tight => return self.refuse(number, 400),
                _ => self.exchanges[number].other_statuses.push(400),
            }
        }
        let has_requests = messages.iter().any(|message| matches!(message, Message::Request { .. }));
        let stream = match has_requests && !all {
            true => self.open_stream(number, Some(session), StreamKind::Answers),
            false => general,
        };
        self.streams[stream].is_batch |= in_batch && !all;
        let expected = if has_requests && !all { Expected::Stream(stream) } else { Expected::Empty(202) };
        self.expect(number, expected);
        for message in messages {
            match message {
                Message::Request { id, method, params } => self.add_request(stream, id, &method, &params),
                Message::Notification { method, params } if method == "notifications/cancelled" => {
                    self.cancel(session, &params["requestId"]);
                }
                Message::Notification { .. } => {}
                Message::Result { id, .. } | Message::Error { id, .. } => self.resolve_own(session, &id),
            }
        }
        if in_batch {
            // The answers come together.
            let requests = self.streams[stream].requests.clone();
            let dues: Option<Vec<_>> = requests.iter().map(|request| self.requests[*request].by).collect();
            let last = dues.and_then(|dues| dues.into_iter().max());
            requests.iter().for_each(|request| self.requests[*request].by = last);
        }
    }

    /// Opens the general stream of a session, or resumes the stream of an event.
    fn listen(&mut self, number: usize, session: Option<usize>) {
        let of_all = |session: &usize| self.streams[self.sessions[*session].general].kind != StreamKind::All;
        let Some(session) = session.filter(of_all) else { return self.refuse(number, 404) };
        let general = self.sessions[session].general;
        let Some(event) = self.exchanges[number].request.header("last-event-id").map(String::from) else {
            return self.carry(number, general);
        };
        let events = &self.sessions[session].events;
        match events.iter().position(|(id, ..)| *id == event) {
            Some(at) => {
                let stream = events[at].1;
                let is_open = self.is_open(stream) && self.streams[stream].kind != StreamKind::Unknown;
                if !is_open || self.kind.is_tight {
                    self.exchanges[number].other_statuses.push(400);
                }
                self.exchanges[number].resumes_after = Some(at);
                self.carry(number, stream);
            }
            // The client has not received this event, which the server may know nevertheless.
            None => {
                self.exchanges[number].other_statuses.push(400);
                let stream = self.open_stream(number, Some(session), StreamKind::Unknown);
                self.expect(number, Expected::Stream(stream));
            }
        }
    }

    fn delete(&mut self, number: usize, session: Option<usize>) {
        let Some(session) = session else { return self.refuse(number, 404) };
        self.expect(number, Expected::Empty(200));
        self.end_session(session);
    }

    /// Ends a session: its requests get an error, if anything.
    fn end_session(&mut self, session: usize) {
        self.sessions[session].is_over = true;
        for request in self.requests.iter_mut().filter(|request| request.session == Some(session)) {
            request.contents = Vec::from([Content::Error(-32603)]);
            request.from = Some(self.now);
        }
        for stream in 0..self.streams.len() {
            if self.streams[stream].session == Some(session) {
                self.streams[stream].is_closed = true;
            }
        }
    }

    /// Cancels a request of a session.
    fn cancel(&mut self, session: usize, id: &Value) {
        let Some(request) = self.find_open(session, id) else { return };
        let request = &mut self.requests[request];
        request.state = match request.state {
            RequestState::Open if !self.kind.is_tight => RequestState::Over,
            _ => RequestState::Unread,
        };
    }

    /// Handles the client's answer to a request of the server.
    fn resolve_own(&mut self, session: usize, id: &Value) {
        let own = id.as_i64().and_then(|number| self.sessions[session].own.remove(&number));
        let Some(request) = own.flatten().map(|request| &mut self.requests[request]) else { return };
        let (_, delay) = request.asks.unwrap_or_default();
        request.from = Some(self.now + delay);
        request.by = request.from.filter(|_| !self.kind.is_tight);
    }

    // --- Streams ---

    fn open_stream(&mut self, number: usize, session: Option<usize>, kind: StreamKind) -> usize {
        let (carrier, requests) = (Some(number), Vec::new());
        self.streams.push(Stream { session, kind, carrier, requests, is_batch: false, is_closed: false });
        self.streams.len() - 1
    }

    /// Lets an exchange carry a stream, in place of the exchange before.
    fn carry(&mut self, number: usize, stream: usize) {
        self.streams[stream].carrier = Some(number);
        self.expect(number, Expected::Stream(stream));
    }

    fn carried(&self, number: usize) -> Option<usize> {
        match self.exchanges[number].expected {
            Expected::Stream(stream) if self.streams[stream].carrier == Some(number) => Some(stream),
            _ => None,
        }
    }

    /// Returns whether messages may follow on a stream.
    fn is_open(&self, stream: usize) -> bool {
        let Stream { kind, is_closed, requests, .. } = &self.streams[stream];
        let is_open = |request: &usize| {
            matches!(self.requests[*request].state, RequestState::Open | RequestState::Uncertain)
        };
        !is_closed && (*kind != StreamKind::Answers || requests.iter().any(is_open))
    }

    fn close_stream(&mut self, stream: usize) {
        self.streams[stream].is_closed = true;
        for request in self.streams[stream].requests.clone() {
            self.requests[request].state = RequestState::Over;
        }
    }

    fn expect(&mut self, number: usize, expected: Expected) {
        self.exchanges[number].expected = expected;
    }

    fn refuse(&mut self, number: usize, status: u16) {
        self.expect(number, Expected::Refusal(Vec::from([(status, None)])));
    }

    // --- Checks ---

    /// Checks that nothing is missing, after all output of an operation. Returns whether the model covers it.
    pub(in crate::fuzzing) fn settle(&mut self, now: Instant) -> bool {
        self.now = now;
        if !self.is_covered {
            return false;
        }
        for number in 0..self.exchanges.len() {
            let exchange = &self.exchanges[number];
            let must_end = match exchange.expected {
                Expected::Nothing => now >= exchange.begun_at + BODY_TIMEOUT,
                Expected::Refusal(_) | Expected::Empty(_) => true,
                Expected::Stream(stream) if self.streams[stream].kind == StreamKind::Unknown => false,
                Expected::Stream(stream) => {
                    let is_carried = self.streams[stream].carrier == Some(number);
                    !is_carried || !self.is_open(stream)
                }
            };
            assert!(exchange.is_gone || exchange.is_over || !must_end, "model: no end of {exchange:#?}");
        }
        for stream in 0..self.streams.len() {
            self.settle_stream(stream);
        }
        for session in 0..self.sessions.len() {
            self.settle_session(session);
        }
        true
    }

    /// Checks that the requests of a stream are answered in time, where the client reads it.
    fn settle_stream(&mut self, stream: usize) {
        let is_read = self.streams[stream].carrier.is_some();
        let is_unknown = self.streams[stream].kind == StreamKind::Unknown;
        for request in self.streams[stream].requests.clone() {
            let request = &mut self.requests[request];
            if request.state != RequestState::Open {
                continue;
            }
            if request.by.is_some_and(|by| by <= self.now) {
                assert!(!is_read || is_unknown, "model: no answer to {request:#?}");
                request.state = RequestState::Unread;
            } else if request.from.is_some_and(|from| from <= self.now) && (!is_read || is_unknown) {
                request.state = RequestState::Uncertain;
            }
        }
    }

    /// Notes whether a session is idle.
    fn settle_session(&mut self, session: usize) {
        let of_session = |request: &&Request| request.session == Some(session);
        let states: Vec<_> = self.requests.iter().filter(of_session).map(|request| request.state).collect();
        let is_connected = self.exchanges.iter().any(|exchange| {
            matches!(exchange.expected, Expected::Stream(stream) if self.streams[stream].session == Some(session))
                && !exchange.is_over
                && !exchange.is_gone
        });
        let is_busy = is_connected || states.contains(&RequestState::Open);
        let may_be_busy = is_busy || states.contains(&RequestState::Uncertain);
        let now = self.now;
        let session = &mut self.sessions[session];
        if is_busy {
            session.idle_since.0 = now;
        }
        if may_be_busy || session.was_busy {
            session.idle_since.1 = now;
        }
        session.was_busy = may_be_busy;
    }
}

/// Returns the revision of a session whose client asks for one.
fn negotiate(asked: Option<&str>) -> &'static str {
    LEGACY.into_iter().find(|revision| Some(*revision) == asked).unwrap_or("2025-11-25")
}
