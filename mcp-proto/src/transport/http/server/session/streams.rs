//! Assigns the messages of a session to its response streams.
//!
//! A response stream is a stream as the client sees it: one for the answers to each POST, and the general stream for
//! messages that belong to no request. A connection carries one response stream; when the connection breaks, another
//! may resume the stream after the last event that the client has received.
//!
//! | message | goes to |
//! |---|---|
//! | an answer | the stream of its request |
//! | a notification about a request | the stream of that request; dropped if no client can read it any more |
//! | a server request on behalf of a client request | the stream of that client request; the general stream if no client can read it |
//! | a change notification | the general stream, once a client reads it |
//! | any other message | the general stream, stored until a client reads it |
//!
//! | form of a stream | when |
//! |---|---|
//! | undecided | until any message but the last answer is sent on it, or it is quiet for long |
//! | one JSON value | if it was undecided to the end |
//! | an event stream | otherwise |

#[cfg(feature = "std")]
mod idle;
mod outbox;

use core::mem;
use core::time::Duration;

use bytes::Bytes;

use super::connections::EventStore;
use super::connections::{ConnectionId, Connections};
use crate::Instant;
use crate::codec::sse::write as sse;
use crate::inline_map::InlineMap;
use crate::lazy_box::{Initial, LazyBox};
use crate::peer::{Denial, Outbox};
use crate::prelude::*;
use crate::quota::BytePermit;
use crate::rpc::{ErrorId, ErrorObject, Id, code, write};
use crate::schema::Revision;
use crate::transport::http::server::response::AcceptedTypes;
#[cfg(feature = "std")]
use crate::transport::http::server::response::AnswerBody;
use crate::transport::http::server::response::{
    Chunk, ERROR, HttpResponse, ResponseHead, ResponseHeaders, json_head, shrink, stream_head,
};
use crate::transport::http::server::{BodyKind, Setup};

#[cfg(feature = "std")]
pub(crate) use idle::IdleSession;

/// The time until a request without an answer gets an event stream, if its client can resume streams (2025-11-25): the
/// answer then outlives its connection.
const STREAM_AFTER: Duration = Duration::from_secs(1);

/// The stream of messages that belong to no request.
const GENERAL_STREAM: u64 = 0;

/// Space reserved before a message, in bytes, so that the message need not be moved to become an event.
const EVENT_PREFIX_ROOM: usize = 96;

/// The error message for accepted requests that the session can no longer answer.
const SESSION_ENDED: &str = "the session has ended before the server could answer";

/// The HTTP transport of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionTransport {
    /// Streamable HTTP: a stream for each request, and one for all other messages.
    Streamable,
    /// HTTP+SSE (2024-11-05): one stream for all messages.
    HttpSse,
}

#[derive(Debug, Default)]
struct ResponseStream {
    accepts: AcceptedTypes,
    form: StreamForm,
    /// The number of answers still to be sent.
    answers_due: usize,
    /// Whether the answers form a JSON array.
    is_batch: bool,
    /// Whether the result is also sent in parts.
    has_parts: bool,
    /// The number of its last event.
    last_event: u64,
    /// The number of the last event that a connection took.
    last_taken_event: u64,
    /// Answers that wait for the rest of their batch.
    batched_answers: Vec<Bytes>,
    /// Why the answer denies the request, if it does.
    denial: Option<Box<Denial>>,
    connection: Option<ConnectionId>,
    /// Whether the stream has ended.
    is_over: bool,
    /// The connection that carries the last events of a stream that has ended.
    last_connection: Option<ConnectionId>,
    is_delivered: bool,
    body_permit: Option<BytePermit>,
}

impl ResponseStream {
    /// The number of the next event.
    fn count_event(&mut self) -> u64 {
        self.last_event = self.last_event.saturating_add(1);
        self.last_event
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StreamForm {
    #[default]
    Undecided,
    Events,
}

#[derive(Debug)]
pub(super) struct ResponseStreams {
    pub(super) transport: SessionTransport,
    /// Whether streams begin with an event that makes them resumable.
    primed: bool,
    pub(super) now: Instant,
    streams: StreamTable,
    next_stream: u64,
    pub(super) connections: Connections,
    store: LazyBox<EventStore>,
    /// The stream of each unanswered client request.
    requests: InlineMap<Id, u64>,
    /// The stream of each unanswered server request, unless it is the general stream.
    server_requests: Option<Box<InlineMap<i64, u64>>>,
    /// The message being written, after the reserved prefix.
    scratch: Vec<u8>,
    /// The bytes of answers that wait for the rest of their batch.
    batched_bytes: usize,
    /// Why the answer now being written denies its request, if it does.
    denial: Option<Box<Denial>>,
    /// The permit for queued bytes and stored events.
    permit: Option<BytePermit>,
    /// The permits for the bodies of unanswered requests without a stream of their own.
    body_permits: Option<Box<InlineMap<Id, BytePermit>>>,
}

/// The client asked for a stream that does not exist or cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownEvent;

impl ResponseStreams {
    pub(super) fn new(setup: &Setup, transport: SessionTransport, now: Instant) -> Self {
        Self {
            transport,
            primed: false,
            now,
            streams: StreamTable::default(),
            next_stream: 1,
            connections: Connections::new(setup),
            store: LazyBox::new(),
            requests: InlineMap::new(),
            server_requests: None,
            scratch: Vec::new(),
            batched_bytes: 0,
            denial: None,
            permit: None,
            body_permits: None,
        }
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.connections.setup
    }

    /// Sets the negotiated revision.
    pub(super) fn set_revision(&mut self, revision: Revision) {
        self.primed = self.transport == SessionTransport::Streamable && revision.differences().primed_streams;
    }

    // --- Opening and closing streams ---

    /// Opens a stream for answers, on a new connection. The permit for the posted body is held until the last answer.
    pub(super) fn open(
        &mut self,
        accepts: AcceptedTypes,
        answers_due: usize,
        is_batch: bool,
        body_permit: Option<BytePermit>,
    ) -> (u64, ConnectionId) {
        let stream = self.next_stream;
        self.next_stream = self.next_stream.saturating_add(1);
        let config = self.setup().config();
        let patience = if self.primed { STREAM_AFTER.min(config.keepalive) } else { config.keepalive };
        let connection = self.connections.open(stream, patience, self.now);
        let opened = ResponseStream {
            accepts,
            answers_due,
            is_batch,
            connection: Some(connection),
            body_permit,
            ..Default::default()
        };
        self.streams.streams.insert(stream, opened);
        (stream, connection)
    }

    /// Sends the result of the stream's only request in parts as well.
    pub(super) fn send_parts(&mut self, stream: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.has_parts = true;
        }
    }

    /// Registers a client request to be answered on a stream; `false` if a request with this id is unanswered.
    #[must_use]
    pub(super) fn register_request(&mut self, id: &Id, stream: u64) -> bool {
        if self.requests.contains_key(id) {
            return false;
        }
        self.requests.insert(id.clone(), stream);
        true
    }

    /// Answers with an error on a stream, in place of the peer.
    pub(super) fn refuse(&mut self, stream: u64, id: Option<&Id>, error: &ErrorObject) {
        let id = id.map_or(ErrorId::Null, ErrorId::Known);
        // The error has no data that could fail to encode.
        if write::error(self.buffer(), id, error).is_ok() {
            self.send_answer(stream, ERROR);
        }
    }

    /// Removes a request that will not be answered.
    pub(super) fn abandon_request(&mut self, id: &Id) {
        self.release_request_permit(id);
        if let Some(stream) = self.requests.remove(id) {
            self.finish_answer(stream, None);
        }
    }

    /// Removes a server request that was answered.
    pub(super) fn forget_server_request(&mut self, number: i64) {
        if let Some(requests) = &mut self.server_requests {
            requests.remove(&number);
        }
    }

    /// Opens a new connection for the general stream; it replaces the previous one.
    pub(super) fn listen(&mut self) -> ConnectionId {
        let taken = self.streams.get(&GENERAL_STREAM).map_or(0, |stream| stream.last_taken_event);
        self.attach_connection(GENERAL_STREAM, taken, Priming::IfPrimed)
    }

    /// Opens a new connection for the stream of an event, resuming after that event; it replaces the previous one.
    pub(super) fn resume(&mut self, last_event: &str) -> Result<ConnectionId, UnknownEvent> {
        let (stream, number) = last_event.split_once('-').ok_or(UnknownEvent)?;
        let stream: u64 = stream.parse().map_err(|_| UnknownEvent)?;
        let number: u64 = number.parse().map_err(|_| UnknownEvent)?;
        let known = self.streams.open(stream).ok_or(UnknownEvent)?;
        if known.form != StreamForm::Events || number > known.last_event {
            return Err(UnknownEvent);
        }
        let over = known.is_over;
        let connection = self.attach_connection(stream, number, Priming::No);
        if over {
            self.connections.end(connection, self.now);
            if let Some(known) = self.streams.get_mut(&stream) {
                (known.connection, known.last_connection) = (None, Some(connection));
            }
        }
        Ok(connection)
    }

    /// Closes all streams at the end of the session.
    ///
    /// Accepted requests without an answer are answered with an error: a 404 would mean that they were not accepted,
    /// and clients would send them again.
    pub(super) fn close(&mut self) {
        if self.streams.closed {
            return;
        }
        let error = ErrorObject::new(code::INTERNAL_ERROR, SESSION_ENDED);
        for (id, stream) in mem::take(&mut self.requests) {
            self.refuse(stream, Some(&id), &error);
        }
        // The remaining streams await messages that were not handled.
        let gone = HttpResponse::error(200, ErrorId::Null, &error);
        for stream in self.streams.close() {
            let Some(connection) = stream.connection else { continue };
            match stream.form {
                StreamForm::Undecided => {
                    self.connections.answer(connection, gone.head(), gone.body.clone(), self.now);
                }
                StreamForm::Events => self.connections.end(connection, self.now),
            }
        }
        self.requests = InlineMap::new();
        self.server_requests = None;
        self.body_permits = None;
        self.store.reset();
        self.scratch = Vec::new();
        self.batched_bytes = 0;
    }

    /// Sends the `endpoint` event with the URL for messages, the first event of an HTTP+SSE stream.
    pub(super) fn send_endpoint(&mut self, connection: ConnectionId, url: &str) {
        let mut event = Vec::new();
        sse::event(&mut event, None, Some("endpoint"), url.as_bytes());
        self.connections.send(connection, 0, Bytes::from(event), self.now);
    }

    // --- Connections ---

    pub(super) fn handle_disconnect(&mut self, connection: ConnectionId) {
        if let Some(stream) = self.connections.remove(connection) {
            self.detach_connection(stream, connection);
        }
    }

    pub(super) fn handle_timeout(&mut self) {
        self.expire();
        while let Some((connection, stream, is_given_up)) = self.connections.poll_due(self.now) {
            if is_given_up {
                self.detach_connection(stream, connection);
            } else {
                self.send_keepalive(stream, connection);
            }
        }
    }

    pub(super) fn take(&mut self, connection: ConnectionId, now: Instant) -> Chunk {
        let Some((chunk, stream, number)) = self.connections.take(connection, now) else {
            return Chunk::End;
        };
        if chunk == Chunk::End {
            self.handle_connection_end(stream, connection, now);
        } else if let Some(stream) = self.streams.get_mut(&stream) {
            stream.last_taken_event = stream.last_taken_event.max(number);
        }
        self.update_permit();
        chunk
    }

    /// Takes the body of a JSON answer, after which its connection is over. `None` for an event stream.
    #[cfg(feature = "std")]
    pub(super) fn take_answer(&mut self, connection: ConnectionId) -> Option<AnswerBody> {
        // The stream of a JSON answer ends with it. An event stream may be resumed once its connection is read to the end.
        let stream = self.connections.stream_of_whole(connection)?;
        if self.streams.get(&stream).is_some() {
            return None;
        }
        let (bytes, deadline) = self.connections.take_whole(connection)?;
        let permit = self.permit.as_ref().map(|permit| permit.account().permit());
        self.update_permit();
        Some(AnswerBody::new(bytes, deadline, permit))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        [self.connections.next_deadline(), self.store.next_expiry()].into_iter().flatten().min()
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.connections.is_empty()
    }

    fn send_keepalive(&mut self, stream: u64, connection: ConnectionId) {
        match self.streams.get(&stream) {
            Some(known) if known.accepts == AcceptedTypes::Json => {
                self.connections.stop_keepalive(connection)
            }
            Some(known) => {
                let undecided = known.form == StreamForm::Undecided;
                if undecided {
                    self.begin_events(stream, Priming::IfPrimed);
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

    /// Detaches a broken connection. The stream stays for a client that resumes it and for later messages.
    fn detach_connection(&mut self, stream: u64, connection: ConnectionId) {
        if self.streams.get(&stream).is_some_and(|stream| stream.connection == Some(connection)) {
            self.clear_connection(stream);
        }
    }

    fn clear_connection(&mut self, stream: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.connection = None;
        }
    }

    /// Opens a new connection for an event stream, resuming after event `number`.
    fn attach_connection(&mut self, stream: u64, number: u64, priming: Priming) -> ConnectionId {
        let connection = self.connections.open(stream, self.setup().config().keepalive, self.now);
        let before = self.streams.open(stream).and_then(|stream| stream.connection.replace(connection));
        if let Some(before) = before {
            self.connections.discard_queued(before, self.now);
        }
        self.connections.set_head(connection, stream_head());
        let mut replayed = false;
        for (number, event) in self.store.after(stream, number) {
            self.connections.send(connection, number, event, self.now);
            replayed = true;
        }
        // The replayed events have ids themselves.
        if priming == Priming::IfPrimed && !replayed {
            self.send_priming_event(stream, priming);
        }
        connection
    }

    /// Makes an undecided stream an event stream.
    fn begin_events(&mut self, stream: u64, priming: Priming) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let undecided = mem::replace(&mut known.form, StreamForm::Events) == StreamForm::Undecided;
        let held = mem::take(&mut known.batched_answers);
        if undecided && let Some(connection) = known.connection {
            self.connections.set_head(connection, stream_head());
        }
        if undecided || priming == Priming::Retry {
            self.send_priming_event(stream, priming);
        }
        for answer in held {
            self.batched_bytes = self.batched_bytes.saturating_sub(answer.len());
            self.buffer().extend_from_slice(&answer);
            self.send_event(stream);
        }
    }

    /// Sends an event that has only an id.
    fn send_priming_event(&mut self, stream: u64, priming: Priming) {
        let retry = self.setup().config().retry;
        let Some(known) = self.streams.get_mut(&stream).filter(|_| self.primed) else { return };
        let number = known.count_event();
        if let Some(connection) = known.connection {
            let mut event = Vec::new();
            let retry = (priming == Priming::Retry).then_some(retry);
            sse::priming(&mut event, &format!("{stream}-{number}"), retry);
            self.connections.send(connection, 0, Bytes::from(event), self.now);
        }
    }

    // --- Messages ---

    /// Returns whether a client reads the events of a stream or may resume it.
    fn is_readable(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| {
            let readable = stream.connection.is_some() || stream.form == StreamForm::Events;
            readable && stream.accepts != AcceptedTypes::Json && !stream.is_over
        })
    }

    /// Sends the scratch message on a stream, before its answer.
    fn send_message(&mut self, stream: u64) {
        self.send_named_message(stream, "");
    }

    /// Sends the scratch message on a stream, as an event of this name.
    fn send_named_message(&mut self, stream: u64, name: &str) {
        if self.streams.get(&stream).is_some_and(|stream| stream.form == StreamForm::Undecided) {
            let message = mem::take(&mut self.scratch);
            self.begin_events(stream, Priming::IfPrimed);
            self.scratch = message;
        }
        self.send_named_event(stream, name);
    }

    /// Turns the scratch message into an event, sends it and stores it.
    fn send_event(&mut self, stream: u64) {
        self.send_named_event(stream, "");
    }

    fn send_named_event(&mut self, stream: u64, name: &str) {
        let Some(known) = self.streams.open(stream) else { return };
        let number = known.count_event();
        let connection = known.connection;
        let prefix = match self.transport {
            //= S3.22 "Event ids unique per session/stream"
            SessionTransport::Streamable if name.is_empty() => format!("id: {stream}-{number}\ndata: "),
            SessionTransport::Streamable => format!("event: {name}\nid: {stream}-{number}\ndata: "),
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
            self.store(stream, number, event.clone());
        }
        if let Some(connection) = connection {
            self.connections.send(connection, number, event, self.now);
        }
    }

    //= S3.24 "no responses on it except resumption"
    /// Sends the scratch message on a stream as an answer. `last_part` is its event on a stream of parts.
    fn send_answer(&mut self, stream: u64, last_part: &'static str) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let lost = known.form == StreamForm::Undecided && known.connection.is_none();
        let mut only = None;
        if lost {
            // The client cannot resume this stream.
        } else if known.form == StreamForm::Undecided
            && (known.accepts != AcceptedTypes::Events || self.denial.is_some())
        {
            known.denial = self.denial.take().filter(|_| !known.is_batch);
            let mut message = mem::take(&mut self.scratch);
            shrink(&mut message);
            let message = Bytes::from(message);
            let message = message.slice(EVENT_PREFIX_ROOM.min(message.len())..);
            if known.is_batch {
                self.batched_bytes = self.batched_bytes.saturating_add(message.len());
                known.batched_answers.push(message);
            } else {
                only = Some(message);
            }
        } else {
            if known.has_parts {
                let answer = self.scratch.clone();
                self.send_named_message(stream, last_part);
                self.scratch = answer;
            }
            self.send_message(stream);
        }
        self.finish_answer(stream, only);
    }

    /// Counts one answer as finished; the last one ends the stream. `only` is the JSON answer of a stream without a batch.
    fn finish_answer(&mut self, stream: u64, only: Option<Bytes>) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
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
            self.forget(stream);
            return;
        }
        let Some(ResponseStream { batched_answers: held, is_batch: many, denial, .. }) =
            self.streams.remove(&stream)
        else {
            return;
        };
        self.batched_bytes =
            held.iter().fold(self.batched_bytes, |sum, answer| sum.saturating_sub(answer.len()));
        let Some(connection) = connection else { return };
        let body = if many { join_batch(&held) } else { only };
        let head = match &body {
            Some(body) => json_head(200, body.len(), denial.as_deref()),
            // The request was cancelled, and gets no answer.
            None => ResponseHead { status: 202, headers: ResponseHeaders::default(), body: BodyKind::Empty },
        };
        self.connections.answer(connection, head, body.unwrap_or_default(), self.now);
    }
}

/// Whether to send an event that has only an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priming {
    No,
    /// Send it if the revision supports it.
    IfPrimed,
    /// The same, with the delay before the client reconnects.
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

/// The response streams of a session by number. An idle session whose client never opened the general stream has none,
/// and no memory for them.
#[derive(Debug, Default)]
struct StreamTable {
    streams: LazyBox<InlineMap<u64, ResponseStream>>,
    closed: bool,
}

impl Initial for InlineMap<u64, ResponseStream> {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

impl StreamTable {
    fn get(&self, stream: &u64) -> Option<&ResponseStream> {
        self.streams.get(stream)
    }

    fn get_mut(&mut self, stream: &u64) -> Option<&mut ResponseStream> {
        self.streams.used_mut()?.get_mut(stream)
    }

    /// A stream; the general one is added, unless the table is closed.
    fn open(&mut self, stream: u64) -> Option<&mut ResponseStream> {
        if stream != GENERAL_STREAM || self.closed {
            return self.get_mut(&stream);
        }
        let (accepts, form) = (AcceptedTypes::Events, StreamForm::Events);
        let general = || ResponseStream { accepts, form, ..Default::default() };
        Some(self.streams.get_or_insert_with(GENERAL_STREAM, general))
    }

    fn remove(&mut self, stream: &u64) -> Option<ResponseStream> {
        let streams = self.streams.used_mut()?;
        let removed = streams.remove(stream);
        if streams.is_empty() {
            self.streams.reset();
        }
        removed
    }

    /// Removes all streams. The general stream does not come back.
    fn close(&mut self) -> impl Iterator<Item = ResponseStream> + use<> {
        self.closed = true;
        let streams = self.streams.used_mut().map(core::mem::take);
        self.streams.reset();
        streams.into_iter().flatten().map(|(_, stream)| stream)
    }
}
