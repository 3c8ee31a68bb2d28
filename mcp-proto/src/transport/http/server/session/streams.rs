//! Which message of a session goes out on which stream.
//!
//! A lane is a stream as the client sees it: one for the answers to each POST, and one, the general lane, for what
//! belongs to no request. A connection carries one lane; when it breaks, another may carry on with the same lane, from
//! the event that the client has.
//!
//! | message | goes to |
//! |---|---|
//! | an answer | the lane of its request |
//! | a notification about a request | the lane of that request; dropped if nobody can read that any more |
//! | a request of the server on behalf of a request | the lane of that request; the general lane if nobody can read that |
//! | a change | the general lane, once somebody reads that |
//! | anything else | the general lane, kept until somebody reads it |
//!
//! | a lane | is |
//! |---|---|
//! | undecided | until anything but the last answer is sent on it, or it is quiet for long |
//! | one JSON value | if it was undecided to the end |
//! | a stream of events | otherwise |

mod memory;
mod outbox;

use alloc::format;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use super::connections::{ConnectionTimeout, Connections, StreamId, TakenPart};
use super::event_store::EventStore;
use crate::Instant;
use crate::codec::sse::write as sse;
use crate::inline_map::InlineMap;
use crate::peer::{Denial, Outbox};
use crate::quota::BytePermit;
use crate::rpc::{ErrorId, ErrorObject, Id, code, write};
use crate::schema::Revision;
use crate::transport::http::server::request_intake::AcceptedTypes;
use crate::transport::http::server::response::{
    Chunk, HttpResponse, ResponseHead, json_head, shrink, stream_head,
};
use crate::transport::http::server::{BodyKind, Setup};

/// The lane of what belongs to no request.
const GENERAL_STREAM: u64 = 0;

/// What is kept free before a message, so that it need not be moved to make an event of it.
const EVENT_PREFIX_ROOM: usize = 64;

/// Why a request that was accepted is not answered otherwise.
const SESSION_ENDED: &str = "the session has ended before the server could answer";

/// Which transport a session is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionTransport {
    /// A stream for each request, and one for everything else.
    Streamable,
    /// One stream for everything, of 2024-11-05.
    HttpSse,
}

#[derive(Debug)]
struct ResponseStream {
    accepts: AcceptedTypes,
    form: StreamForm,
    /// How many answers are to come.
    answers_due: usize,
    /// Whether the answers are to be an array.
    is_batch: bool,
    /// The number of its next event.
    next_event: u64,
    /// The last event that was taken by a connection.
    last_taken_event: u64,
    /// Answers that wait for the others.
    batched_answers: Vec<Bytes>,
    /// What the client is to show to be allowed what it has asked for, if that is the answer.
    denial: Option<Denial>,
    connection: Option<StreamId>,
    /// Whether nothing more will be sent on it.
    is_over: bool,
    /// The connection that carries the last of its events, once it is over.
    last_connection: Option<StreamId>,
    /// Whether that connection was written to its end.
    is_delivered: bool,
    /// The permit for the posted body, which the application may hold until it has answered.
    body_permit: Option<BytePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamForm {
    Undecided,
    Events,
}

#[derive(Debug)]
pub(super) struct ResponseStreams {
    setup: Setup,
    transport: SessionTransport,
    /// Whether streams begin with an event that makes them resumable.
    primed: bool,
    pub(super) now: Instant,
    streams: InlineMap<u64, ResponseStream>,
    next_stream: u64,
    connections: Connections,
    store: EventStore,
    /// The lane of each request of the client that has not been answered.
    requests: InlineMap<Id, u64>,
    /// The lane of each request of this side that has not been answered, unless it is the general one.
    server_requests: InlineMap<i64, u64>,
    /// The message that is being written, behind some room.
    scratch: Vec<u8>,
    /// The bytes of answers that wait for others.
    batched_bytes: usize,
    /// What the client is to show to be allowed what it has asked for, while that is being answered.
    pub(super) denial: Option<Denial>,
    /// The permit for queued bytes and stored events.
    permit: Option<BytePermit>,
    /// The permits for the bodies of unanswered requests that have no lane of their own.
    body_permits: InlineMap<Id, BytePermit>,
}

/// A stream that the client can not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownEvent;

impl ResponseStreams {
    pub(super) fn new(setup: &Setup, transport: SessionTransport, now: Instant) -> Self {
        let config = setup.config();
        let general = ResponseStream {
            accepts: AcceptedTypes::Events,
            form: StreamForm::Events,
            answers_due: 0,
            is_batch: false,
            next_event: 1,
            last_taken_event: 0,
            batched_answers: Vec::new(),
            denial: None,
            connection: None,
            is_over: false,
            last_connection: None,
            is_delivered: false,
            body_permit: None,
        };
        Self {
            setup: setup.clone(),
            transport,
            primed: false,
            now,
            streams: [(GENERAL_STREAM, general)].into_iter().collect(),
            next_stream: 1,
            connections: Connections::new(config.keepalive, config.server.write_timeout),
            store: EventStore::new(config.stored_events, config.stored_bytes, config.resume_grace),
            requests: InlineMap::new(),
            server_requests: InlineMap::new(),
            scratch: Vec::new(),
            batched_bytes: 0,
            denial: None,
            permit: None,
            body_permits: InlineMap::new(),
        }
    }

    /// The revision has been agreed upon.
    pub(super) fn set_revision(&mut self, revision: Revision) {
        self.primed = self.transport == SessionTransport::Streamable && revision.differences().primed_streams;
    }

    // --- Lanes come and go ---

    /// Opens a lane for as many answers, on a connection of its own.
    pub(super) fn open(&mut self, accepts: AcceptedTypes, awaiting: usize, many: bool) -> (u64, StreamId) {
        let lane = self.next_stream;
        self.next_stream = self.next_stream.saturating_add(1);
        let config = self.setup.config();
        let patience = if self.primed { config.stream_after.min(config.keepalive) } else { config.keepalive };
        let connection = self.connections.open(lane, patience, self.now);
        let opened = ResponseStream {
            accepts,
            form: StreamForm::Undecided,
            answers_due: awaiting,
            is_batch: many,
            next_event: 1,
            last_taken_event: 0,
            batched_answers: Vec::new(),
            denial: None,
            connection: Some(connection),
            is_over: false,
            last_connection: None,
            is_delivered: false,
            body_permit: None,
        };
        self.streams.insert(lane, opened);
        (lane, connection)
    }

    /// A request of the client is to be answered on a lane; `false` if one with this id has not been answered yet.
    #[must_use]
    pub(super) fn register_request(&mut self, id: &Id, lane: u64) -> bool {
        if self.requests.contains_key(id) {
            return false;
        }
        self.requests.insert(id.clone(), lane);
        true
    }

    /// Answers with an error, on a lane, for the peer.
    pub(super) fn refuse(&mut self, lane: u64, id: Option<&Id>, error: &ErrorObject) {
        let id = id.map_or(ErrorId::Null, ErrorId::Known);
        // It has no data that could fail to encode.
        if write::error(self.buffer(), id, error).is_ok() {
            self.send_answer(lane);
        }
    }

    /// A request that was to be answered will not be.
    pub(super) fn abandon_request(&mut self, id: &Id) {
        self.body_permits.remove(id);
        if let Some(lane) = self.requests.remove(id) {
            self.finish_answer(lane);
        }
    }

    /// Takes note of an answer to a request of this side.
    pub(super) fn forget_server_request(&mut self, number: i64) {
        self.server_requests.remove(&number);
    }

    /// Carries the general lane on a new connection, in place of the one before.
    pub(super) fn listen(&mut self) -> StreamId {
        let taken = self.streams.get(&GENERAL_STREAM).map_or(0, |lane| lane.last_taken_event);
        self.attach_connection(GENERAL_STREAM, taken, Priming::IfPrimed)
    }

    /// Carries the lane of an event on a new connection, in place of the one before, from behind that event.
    pub(super) fn resume(&mut self, last_event: &str) -> Result<StreamId, UnknownEvent> {
        let (lane, number) = last_event.split_once('-').ok_or(UnknownEvent)?;
        let lane: u64 = lane.parse().map_err(|_| UnknownEvent)?;
        let number: u64 = number.parse().map_err(|_| UnknownEvent)?;
        let known = self.streams.get(&lane).ok_or(UnknownEvent)?;
        if known.form != StreamForm::Events || number >= known.next_event {
            return Err(UnknownEvent);
        }
        let over = known.is_over;
        let connection = self.attach_connection(lane, number, Priming::No);
        if over {
            self.connections.end(connection, self.now);
            self.clear_connection(lane);
            self.set_last_connection(lane, connection);
        }
        Ok(connection)
    }

    /// Ends the connection of a lane, so that the client asks for the rest later.
    pub(super) fn close_sse_stream(&mut self, id: &Id) {
        let Some(&lane) = self.requests.get(id).filter(|_| self.primed) else { return };
        let Some(known) = self.streams.get(&lane) else { return };
        let Some(connection) = known.connection.filter(|_| known.accepts != AcceptedTypes::Json) else {
            return;
        };
        self.begin_events(lane, Priming::Retry);
        self.connections.end(connection, self.now);
        self.clear_connection(lane);
    }

    /// Ends everything: the session is over. What was accepted and not answered is answered by an error: that there is no
    /// such session would say that it was not accepted, and clients send it again then.
    pub(super) fn close(&mut self) {
        let error = ErrorObject::new(code::INTERNAL_ERROR, SESSION_ENDED);
        for (id, lane) in mem::take(&mut self.requests) {
            self.refuse(lane, Some(&id), &error);
        }
        // What is left has more to come that was not looked at.
        let gone = HttpResponse::error(200, ErrorId::Null, &error);
        for lane in mem::take(&mut self.streams).into_iter().map(|(_, lane)| lane) {
            let Some(connection) = lane.connection else { continue };
            if lane.form == StreamForm::Undecided {
                self.connections.set_head(connection, gone.head());
                self.connections.send(connection, 0, gone.body.clone(), self.now);
            }
            self.connections.end(connection, self.now);
        }
        self.requests = InlineMap::new();
        self.server_requests = InlineMap::new();
        self.body_permits = InlineMap::new();
        self.store.clear();
        self.scratch = Vec::new();
        self.batched_bytes = 0;
    }

    /// Sends the URL for messages, first of all.
    pub(super) fn send_endpoint(&mut self, connection: StreamId, url: &str) {
        let mut event = Vec::new();
        sse::event(&mut event, None, Some("endpoint"), url.as_bytes());
        self.connections.send(connection, 0, Bytes::from(event), self.now);
    }

    // --- Connections ---

    pub(super) fn handle_disconnect(&mut self, connection: StreamId) {
        if let Some(lane) = self.connections.remove(connection) {
            self.detach_connection(lane, connection);
        }
    }

    pub(super) fn handle_timeout(&mut self) {
        while let Some(lane) = self.store.expire(self.now) {
            self.forget(lane);
        }
        while let Some((connection, lane, due)) = self.connections.poll_due(self.now) {
            match due {
                ConnectionTimeout::WriteTimeout => self.detach_connection(lane, connection),
                ConnectionTimeout::Keepalive => self.send_keepalive(lane, connection),
            }
        }
    }

    pub(super) fn head(&self, connection: StreamId) -> Option<ResponseHead> {
        self.connections.head(connection)
    }

    pub(super) fn take(&mut self, connection: StreamId, now: Instant) -> Chunk {
        let (chunk, taken) = self.connections.take(connection, now);
        match taken {
            TakenPart::Nothing => {}
            TakenPart::Event { stream: lane, number } => {
                if let Some(lane) = self.streams.get_mut(&lane) {
                    lane.last_taken_event = lane.last_taken_event.max(number);
                }
            }
            TakenPart::End { stream: lane } => self.handle_connection_end(lane, connection, now),
        }
        self.update_permit();
        chunk
    }

    pub(super) fn poll_readable(&mut self) -> Option<StreamId> {
        self.connections.poll_readable()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        [self.connections.next_deadline(), self.store.next_expiry()].into_iter().flatten().min()
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.connections.is_empty()
    }

    fn send_keepalive(&mut self, lane: u64, connection: StreamId) {
        match self.streams.get(&lane) {
            Some(known) if known.accepts == AcceptedTypes::Json => {
                self.connections.stop_keepalive(connection)
            }
            Some(known) => {
                let undecided = known.form == StreamForm::Undecided;
                if undecided {
                    self.begin_events(lane, Priming::IfPrimed);
                }
                if !undecided || !self.primed {
                    let mut comment = Vec::new();
                    sse::comment(&mut comment);
                    self.connections.send(connection, 0, Bytes::from(comment), self.now);
                }
            }
            None => self.connections.stop_keepalive(connection),
        }
    }

    /// The connection of a lane is gone. The lane stays for who may come back for it, and for what is still to come.
    fn detach_connection(&mut self, lane: u64, connection: StreamId) {
        if self.streams.get(&lane).is_some_and(|lane| lane.connection == Some(connection)) {
            self.clear_connection(lane);
        }
    }

    fn clear_connection(&mut self, lane: u64) {
        if let Some(lane) = self.streams.get_mut(&lane) {
            lane.connection = None;
        }
    }

    /// Carries a lane of events on a new connection, from behind event `number`.
    fn attach_connection(&mut self, lane: u64, number: u64, priming: Priming) -> StreamId {
        let connection = self.connections.open(lane, self.setup.config().keepalive, self.now);
        let before = self.streams.get_mut(&lane).and_then(|lane| lane.connection.replace(connection));
        if let Some(before) = before {
            self.connections.discard_queued(before, self.now);
        }
        self.connections.set_head(connection, stream_head());
        let mut replayed = false;
        for (number, event) in self.store.after(lane, number) {
            self.connections.send(connection, number, event, self.now);
            replayed = true;
        }
        // Events have numbers themselves.
        if priming == Priming::IfPrimed && !replayed {
            self.send_priming_event(lane, priming);
        }
        connection
    }

    /// Makes a lane a stream of events.
    fn begin_events(&mut self, lane: u64, priming: Priming) {
        let Some(known) = self.streams.get_mut(&lane) else { return };
        let undecided = mem::replace(&mut known.form, StreamForm::Events) == StreamForm::Undecided;
        let held = mem::take(&mut known.batched_answers);
        if undecided && let Some(connection) = known.connection {
            self.connections.set_head(connection, stream_head());
        }
        if undecided || priming == Priming::Retry {
            self.send_priming_event(lane, priming);
        }
        for answer in held {
            self.batched_bytes = self.batched_bytes.saturating_sub(answer.len());
            self.buffer().extend_from_slice(&answer);
            self.send_event(lane);
        }
    }

    /// Sends an event that has only a number.
    fn send_priming_event(&mut self, lane: u64, priming: Priming) {
        let retry = self.setup.config().retry;
        let Some(known) = self.streams.get_mut(&lane).filter(|_| self.primed) else { return };
        let number = known.next_event;
        known.next_event = number.saturating_add(1);
        if let Some(connection) = known.connection {
            let mut event = Vec::new();
            let retry = (priming == Priming::Retry).then_some(retry);
            sse::priming(&mut event, &format!("{lane}-{number}"), retry);
            self.connections.send(connection, 0, Bytes::from(event), self.now);
        }
    }

    // --- Messages ---

    /// Whether somebody reads the events of a lane, or may come back for them.
    fn is_readable(&self, lane: u64) -> bool {
        self.streams.get(&lane).is_some_and(|lane| {
            let readable = lane.connection.is_some() || lane.form == StreamForm::Events;
            readable && lane.accepts != AcceptedTypes::Json && !lane.is_over
        })
    }

    /// Sends the message in the scratch buffer on a lane, before its answer.
    fn send_message(&mut self, lane: u64) {
        if self.streams.get(&lane).is_some_and(|lane| lane.form == StreamForm::Undecided) {
            let message = mem::take(&mut self.scratch);
            self.begin_events(lane, Priming::IfPrimed);
            self.scratch = message;
        }
        self.send_event(lane);
    }

    /// Makes an event of the message in the scratch buffer, and sends and keeps it.
    fn send_event(&mut self, lane: u64) {
        let Some(known) = self.streams.get_mut(&lane) else { return };
        let number = known.next_event;
        known.next_event = number.saturating_add(1);
        let connection = known.connection;
        let prefix = match self.transport {
            SessionTransport::Streamable => format!("id: {lane}-{number}\ndata: "),
            SessionTransport::HttpSse => "event: message\ndata: ".into(),
        };
        let mut event = mem::take(&mut self.scratch);
        let start = EVENT_PREFIX_ROOM.saturating_sub(prefix.len());
        if let Some(room) = event.get_mut(start..EVENT_PREFIX_ROOM) {
            room.copy_from_slice(prefix.as_bytes());
        }
        event.extend_from_slice(b"\n\n");
        shrink(&mut event);
        let event = Bytes::from(event).slice(start..);
        if self.transport == SessionTransport::Streamable {
            self.store(lane, number, event.clone());
        }
        if let Some(connection) = connection {
            self.connections.send(connection, number, event, self.now);
        }
    }

    /// Sends the message in the scratch buffer on a lane as an answer.
    fn send_answer(&mut self, lane: u64) {
        let Some(known) = self.streams.get_mut(&lane) else { return };
        let lost = known.form == StreamForm::Undecided && known.connection.is_none();
        if lost {
            // Nobody can come back for it.
        } else if known.form == StreamForm::Undecided
            && (known.accepts != AcceptedTypes::Events || self.denial.is_some())
        {
            known.denial = self.denial.take().filter(|_| !known.is_batch);
            let mut message = mem::take(&mut self.scratch);
            shrink(&mut message);
            let message = Bytes::from(message);
            let message = message.slice(EVENT_PREFIX_ROOM.min(message.len())..);
            self.batched_bytes = self.batched_bytes.saturating_add(message.len());
            known.batched_answers.push(message);
        } else {
            self.send_message(lane);
        }
        self.finish_answer(lane);
    }

    /// One answer less is to come on a lane: with the last one it ends.
    fn finish_answer(&mut self, lane: u64) {
        let Some(known) = self.streams.get_mut(&lane) else { return };
        known.answers_due = known.answers_due.saturating_sub(1);
        if known.answers_due > 0 {
            return;
        }
        known.body_permit = None;
        let connection = known.connection.take();
        if known.form == StreamForm::Events {
            known.is_over = true;
            known.last_connection = connection;
            if let Some(connection) = connection {
                self.connections.end(connection, self.now);
            }
            self.forget(lane);
            return;
        }
        let Some(ResponseStream { batched_answers: held, is_batch: many, denial, .. }) =
            self.streams.remove(&lane)
        else {
            return;
        };
        self.batched_bytes =
            held.iter().fold(self.batched_bytes, |sum, answer| sum.saturating_sub(answer.len()));
        let Some(connection) = connection else { return };
        let body = if many { join_batch(&held) } else { held.into_iter().next() };
        match body {
            Some(body) => {
                self.connections.set_head(connection, json_head(200, body.len(), denial.as_ref()));
                self.connections.send(connection, 0, body, self.now);
            }
            // It was cancelled, and so is not answered.
            None => {
                let head = ResponseHead { status: 202, headers: Vec::new(), body: BodyKind::Empty };
                self.connections.set_head(connection, head);
            }
        }
        self.connections.end(connection, self.now);
    }
}

/// Whether an event that has only a number is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priming {
    No,
    /// Where the revision has it.
    IfPrimed,
    /// The same, with the time to wait before coming back.
    Retry,
}

fn join_batch(answers: &[Bytes]) -> Option<Bytes> {
    if answers.is_empty() {
        return None;
    }
    let mut array = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        array.push(if number == 0 { b'[' } else { b',' });
        array.extend_from_slice(answer);
    }
    array.push(b']');
    Some(Bytes::from(array))
}
