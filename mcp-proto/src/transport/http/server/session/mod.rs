//! A legacy-era session on the server: a peer and its response streams.

mod connections;
mod streams;

use bytes::Bytes;
use streams::{ResponseStreams, SessionTransport, UnknownEvent};

#[cfg(all(feature = "trace-file", feature = "std"))]
use super::recorded::whole_body_step;
#[cfg(feature = "trace-file")]
use super::recorded::{SESSION, SessionInput, SessionOrigin, chunk_step, head_step, listen_text};
use super::request_head::{RetainedHead, SESSION_QUERY, SessionId};
#[cfg(feature = "std")]
use super::response::AnswerBody;
use super::response::{AcceptedTypes, Chunk, HttpResponse, ResponseHead, ResponseHeaders, session_header};
use super::route::is_answered;
use super::{LegacyPaths, Post, Setup};
use crate::Instant;
use crate::peer::server::{Server, ServerCommands, ServerLoan, ServerTransport};
use crate::peer::{LostReason, Machine as _, server as peer};
use crate::prelude::*;
use crate::quota::{ByteAccount, BytePermit, FairTable};
use crate::rpc::{Batch, ErrorId, ErrorObject, Frame, Id, Malformed, Message, code};
use crate::schema::{Cancelled, CancelledParams, Initialize, Method, Notification};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineOrigin, MachineRecorder, MachineStep, json};

pub use connections::ConnectionId;
#[cfg(feature = "std")]
pub(crate) use streams::IdleSession;

/// Why a request with the id of an unanswered request is refused.
const DUPLICATE_ID: &str = "a request with this id is still unanswered";

/// A legacy-era session on the server, which outlives the client's connections together with the requests in it.
///
/// Each posted request is answered on a stream of its own: with one JSON value if no other message precedes the
/// response, otherwise with events. Messages that belong to no request go to the stream that the client opens with GET,
/// or wait for it. Events are numbered and stored, so that a client can resume a stream that broke off. At 2025-11-25 a
/// stream begins with an event that has only an id, and the application may [close](ServerCommands::close_sse_stream)
/// it.
///
/// **Inputs** are the `handle_*` methods, [`listen`](Self::listen) and [`delete`](Self::delete), **outputs** the
/// `poll_*` methods, here and of [`ServerTransport`]; they can be called in any order. [`at`](Self::at) returns the **commands**; among them
/// [`set_principal`](ServerCommands::set_principal) binds the session to its client, so that other clients get the
/// answer for unknown sessions.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>
pub struct Session {
    server: Server,
    streams: ResponseStreams,
    /// When the session became idle: no stream open, no request and no handler running.
    idle_since: Option<Instant>,
    #[cfg(feature = "trace-file")]
    recorder: Option<MachineRecorder>,
}

/// How a posted message is answered.
#[derive(Debug)]
pub enum PostOutcome {
    /// The answer is complete.
    Answer(HttpResponse),
    /// The answer follows on this connection.
    Connection(ConnectionId),
}

impl Session {
    /// Opens a session with the posted handshake; returns it with the answer to the handshake.
    ///
    /// `id` must be made of fresh entropy.
    ///
    /// # Errors
    /// The answer to a handshake that fails.
    pub fn open(
        setup: &Setup,
        id: SessionId,
        post: Post,
        now: Instant,
    ) -> Result<(Self, HttpResponse), HttpResponse> {
        let mut session = Self::new(setup, SessionTransport::Streamable, now);
        #[cfg(feature = "trace-file")]
        session.begin_recording(setup, id, Some(&post.head), now);
        if let Some(permit) = &post.head.permit {
            session.charge_to(permit.account());
        }
        let answer = match session.take_post(now, post) {
            PostOutcome::Answer(answer) => answer,
            PostOutcome::Connection(connection) => session.read_to_end(connection, now),
        };
        record!(session, Some(now), MachineStep::Returned(answer.whole_text()));
        if session.server.session().is_none() {
            return Err(answer);
        }
        let (name, id) = session_header(setup.session_text(id));
        Ok((session, answer.with_header(name, id)))
    }

    /// Opens a session for a client of 2024-11-05.
    ///
    /// The first event of the stream names the URL for messages, where the client then posts the handshake. The session
    /// ends with the stream.
    ///
    /// <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>
    #[must_use]
    pub fn open_legacy(setup: &Setup, id: SessionId, now: Instant) -> (Self, ConnectionId) {
        let mut session = Self::new(setup, SessionTransport::HttpSse, now);
        #[cfg(feature = "trace-file")]
        session.begin_recording(setup, id, None, now);
        let connection = session.run(now, |_, streams| {
            let connection = streams.listen();
            let paths = setup.config().legacy_sse.clone();
            let LegacyPaths { messages, .. } = paths.unwrap_or_default();
            //= R2 "`endpoint` event on connect"
            let id = setup.session_text(id);
            streams.send_endpoint(connection, &format!("{messages}?{SESSION_QUERY}{id}"));
            connection
        });
        (session, connection)
    }

    /// Returns the server's commands, executed at `now`.
    pub fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        ServerCommands::new(self, now)
    }

    fn new(setup: &Setup, transport: SessionTransport, now: Instant) -> Self {
        Self {
            server: Server::for_connection(setup.legacy()),
            streams: ResponseStreams::new(setup, transport, now),
            idle_since: Some(now),
            #[cfg(feature = "trace-file")]
            recorder: None,
        }
    }

    /// Begins to record the session, if its server is recorded.
    #[cfg(feature = "trace-file")]
    fn begin_recording(&mut self, setup: &Setup, id: SessionId, head: Option<&RetainedHead>, now: Instant) {
        let Some(server) = setup.recorder() else { return };
        let post = head.and_then(|head| head.recorder.as_ref()).map(MachineRecorder::machine);
        let origin = SessionOrigin { server: server.machine(), id: id.to_string(), post };
        let recorder = server.begin(Some(now), MachineOrigin::new(SESSION, &origin));
        self.server = Server::for_connection(&setup.legacy().recorded(&recorder));
        self.recorder = Some(recorder);
    }

    /// Collects everything queued on a stream into one response.
    fn read_to_end(&mut self, connection: ConnectionId, now: Instant) -> HttpResponse {
        let head = self.streams.connections.head(connection);
        let mut body = Vec::new();
        while let Chunk::Bytes(bytes) = self.take_chunk(now, connection) {
            body.extend_from_slice(&bytes);
        }
        let (status, headers) =
            head.map_or((500, ResponseHeaders::default()), |head| (head.status, head.headers));
        HttpResponse { status, headers, body: Bytes::from(body) }
    }

    fn run<R>(&mut self, now: Instant, act: impl FnOnce(&mut Server, &mut ResponseStreams) -> R) -> R {
        self.streams.now = now;
        let result = act(&mut self.server, &mut self.streams);
        self.settle(now);
        result
    }

    fn settle(&mut self, now: Instant) {
        if self.server.is_closed() {
            self.streams.close();
        }
        self.update_idle(now);
        self.streams.update_permit();
    }

    fn update_idle(&mut self, now: Instant) {
        if self.streams.is_connected() || self.server.unanswered() > 0 {
            self.idle_since = None;
        } else {
            self.idle_since.get_or_insert(now);
        }
    }

    // --- Inputs ---

    /// Handles a posted message.
    pub fn handle_post(&mut self, now: Instant, post: Post) -> PostOutcome {
        #[cfg(feature = "trace-file")]
        let exchange = post.head.recorder.as_ref().map_or(0, MachineRecorder::machine);
        record!(self, Some(now), MachineStep::Http(json(&SessionInput::Post(exchange))));
        let outcome = self.take_post(now, post);
        record!(self, Some(now), MachineStep::Returned(outcome.whole_text()));
        outcome
    }

    fn take_post(&mut self, now: Instant, post: Post) -> PostOutcome {
        if self.is_closed() {
            return PostOutcome::Answer(HttpResponse::unknown_session(post.request_id()));
        }
        self.idle_since = None;
        let Post { content, head: RetainedHead { accepts, permit, .. } } = post;
        match content {
            Err(malformed) => {
                let answer = HttpResponse::malformed(&malformed, ErrorId::Null);
                self.run(now, |server, streams| server.handle_malformed(now, *malformed, streams));
                PostOutcome::Answer(answer)
            }
            Ok(frame) if self.streams.transport == SessionTransport::HttpSse => {
                self.handle_sse_post(now, frame, permit)
            }
            Ok(Frame::Single(message)) => self.handle_single(now, message, accepts, permit),
            Ok(Frame::Batch(batch)) => self.handle_batch(now, batch, accepts, permit),
        }
    }

    /// Handles what a client of 2024-11-05 posted, whose answers go to its only stream.
    fn handle_sse_post(&mut self, now: Instant, frame: Frame, permit: Option<BytePermit>) -> PostOutcome {
        let request = match &frame {
            Frame::Single(Message::Request(request)) => Some(request.id.clone()),
            _ => None,
        };
        // On that stream, a refusal would be taken for the answer to the earlier request.
        if request.as_ref().is_some_and(|id| self.server.is_unanswered(id)) {
            self.update_idle(now);
            return PostOutcome::Answer(HttpResponse::bad_request(DUPLICATE_ID));
        }
        match frame {
            Frame::Single(message) => self.handle_message(now, None, message),
            frame => self.run(now, |server, streams| server.handle_frame(now, frame, streams)),
        }
        if let Some(id) = request.filter(|id| self.server.is_unanswered(id)) {
            self.streams.retain_request_permit(id, permit);
        }
        PostOutcome::Answer(HttpResponse::empty(202))
    }

    fn handle_single(
        &mut self,
        now: Instant,
        message: Message,
        accepts: AcceptedTypes,
        body: Option<BytePermit>,
    ) -> PostOutcome {
        //= S3.6 "Notification accepted → 202 without body"
        if !matches!(message, Message::Request(_)) {
            self.handle_message(now, None, message);
            return PostOutcome::Answer(HttpResponse::empty(202));
        }
        self.streams.now = now;
        let (stream, connection) = self.streams.open(accepts, 1, false, body);
        if let Message::Request(request) = &message
            && self.streams.setup().config().has_parts(&request.method)
        {
            self.streams.send_parts(stream);
        }
        self.handle_message(now, Some(stream), message);
        PostOutcome::Connection(connection)
    }

    //= R1 "POST arrays over HTTP"
    /// Handles each message of a batch; the answers go out together.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
    fn handle_batch(
        &mut self,
        now: Instant,
        batch: Batch,
        accepts: AcceptedTypes,
        body: Option<BytePermit>,
    ) -> PostOutcome {
        let session = self.server.session();
        let allowed = session.is_some_and(|session| session.revision.differences().batches);
        //= R1 "-32600 for an empty array"
        if !allowed || batch.is_empty() {
            self.update_idle(now);
            let what = if allowed { "an empty batch" } else { "batches are not part of this revision" };
            return PostOutcome::Answer(HttpResponse::bad_request(what));
        }
        let messages: Vec<Result<Message, Malformed>> = batch.collect();
        let awaiting = messages.iter().filter(|message| is_answered(message)).count();
        self.streams.now = now;
        let opened = (awaiting > 0).then(|| self.streams.open(accepts, awaiting, true, body));
        let stream = opened.map(|(stream, _)| stream);
        for message in messages {
            match (message, stream) {
                //= R1 "`initialize` never in one"
                (Ok(Message::Request(request)), Some(stream)) if &*request.method == Initialize::NAME => {
                    self.refuse(now, stream, &request.id, "initialize must not be part of a batch");
                }
                (Ok(message), stream) => self.handle_message(now, stream, message),
                (Err(malformed), Some(stream)) if !malformed.is_silent() => {
                    let error = ErrorObject::new(malformed.code(), format!("{malformed}"));
                    self.run(now, |_, streams| {
                        streams.refuse(stream, malformed.recovered.id.as_ref(), &error)
                    });
                }
                (Err(malformed), _) => {
                    self.run(now, |server, streams| server.handle_malformed(now, malformed, streams));
                }
            }
        }
        match opened {
            Some((_, connection)) => PostOutcome::Connection(connection),
            None => PostOutcome::Answer(HttpResponse::empty(202)),
        }
    }

    /// Refuses a request in place of the peer.
    fn refuse(&mut self, now: Instant, stream: u64, id: &Id, what: &str) {
        let error = ErrorObject::new(code::INVALID_REQUEST, what);
        self.run(now, |_, streams| streams.refuse(stream, Some(id), &error));
    }

    /// Handles one message; a request is answered on `stream`.
    fn handle_message(&mut self, now: Instant, stream: Option<u64>, message: Message) {
        let cancelled = match (&message, stream) {
            (Message::Request(request), Some(stream)) => {
                if !self.streams.register_request(&request.id, stream) {
                    return self.refuse(now, stream, &request.id, DUPLICATE_ID);
                }
                None
            }
            (Message::Response(response), _) => {
                let strictness = self.server.config().strictness;
                if let Some(number) = response.id.as_ref().and_then(|id| strictness.number_of(id)) {
                    self.streams.forget_server_request(number);
                }
                None
            }
            (Message::Notification(notification), _) if &*notification.method == Cancelled::NAME => {
                let params = notification.params.as_ref();
                params
                    .and_then(|params| params.decode::<CancelledParams>().ok())
                    .and_then(|params| params.request_id)
            }
            _ => None,
        };
        self.run(now, |server, streams| {
            server.handle_frame(now, Frame::Single(message), streams);
            // A request that the client has cancelled is not answered.
            if let Some(id) = cancelled.filter(|id| !server.is_unanswered(id)) {
                streams.abandon_request(&id);
            }
            if let Some(session) = server.session() {
                streams.set_revision(session.revision);
            }
        });
    }

    /// Opens the general stream of the session, or the rest of the stream that holds `last_event`.
    ///
    /// If another connection carries that stream, it ends: it is most likely dead.
    ///
    /// # Errors
    /// The answer to the client, if there is no such event or the session is over.
    pub fn listen(&mut self, now: Instant, last_event: Option<&str>) -> Result<ConnectionId, HttpResponse> {
        record!(self, Some(now), MachineStep::Http(json(&SessionInput::Listen(last_event.map(Into::into)))));
        let listening = self.open_stream(now, last_event);
        record!(self, Some(now), MachineStep::Returned(listen_text(&listening)));
        listening
    }

    fn open_stream(&mut self, now: Instant, last_event: Option<&str>) -> Result<ConnectionId, HttpResponse> {
        if self.is_closed() || self.streams.transport == SessionTransport::HttpSse {
            return Err(HttpResponse::unknown_session(None));
        }
        self.run(now, |server, streams| {
            let listening = match last_event {
                None => Ok(streams.listen()),
                Some(event) => streams.resume(event).map_err(|UnknownEvent| {
                    let what = "unknown event id, or the event is no longer stored";
                    HttpResponse::bad_request(what)
                }),
            };
            // Sends the changes that happened meanwhile.
            server.retry_notifications(now, streams);
            listening
        })
    }

    /// Ends the session at the client's request; returns the answer.
    pub fn delete(&mut self, now: Instant) -> HttpResponse {
        record!(self, Some(now), MachineStep::Http(json(&SessionInput::Delete)));
        let answer = if self.is_closed() {
            HttpResponse::unknown_session(None)
        } else {
            self.run(now, |server, _| server.abort(peer::CloseReason::Done));
            HttpResponse::empty(200)
        };
        record!(self, Some(now), MachineStep::Returned(answer.whole_text()));
        answer
    }

    /// Handles the client's disconnect from a connection. Requests continue; only a session of a 2024-11-05 client ends.
    pub fn handle_disconnect(&mut self, now: Instant, connection: ConnectionId) {
        record!(self, Some(now), MachineStep::Http(json(&SessionInput::Disconnect(connection.number()))));
        self.run(now, |server, streams| {
            streams.handle_disconnect(connection);
            if streams.transport == SessionTransport::HttpSse {
                server.abort(peer::CloseReason::Lost(LostReason::Disconnected(String::new())));
            }
        });
    }

    /// Charges queued bytes and stored events to an account of the byte budget.
    ///
    /// [`open`](Self::open) uses the account of the request.
    pub fn charge(&mut self, account: &ByteAccount) {
        record!(self, None, MachineStep::Http(json(&SessionInput::Charge)));
        self.charge_to(account);
    }

    fn charge_to(&mut self, account: &ByteAccount) {
        #[cfg(feature = "trace-file")]
        if let Some(recorder) = &self.recorder {
            return self.streams.charge(&account.recorded(recorder));
        }
        self.streams.charge(account);
    }

    // --- Outputs ---

    /// Returns the head of the answer on a connection once it is decided; an empty 404 if there is no such connection.
    #[must_use]
    pub fn poll_head(&mut self, connection: ConnectionId) -> Option<ResponseHead> {
        let head = self.streams.connections.head(connection)?;
        record!(self, None, head_step(connection.number(), &head));
        Some(head)
    }

    /// Returns the next part of the body of a connection; the end if there is no such connection.
    ///
    /// Call it again only when that part has been written: the write timeout and the limits cover only bytes that are
    /// still queued here.
    #[must_use]
    pub fn poll_body(&mut self, now: Instant, connection: ConnectionId) -> Chunk {
        let chunk = self.take_chunk(now, connection);
        #[cfg(feature = "trace-file")]
        if chunk != Chunk::Pending {
            record!(self, Some(now), chunk_step(connection.number(), &chunk));
        }
        chunk
    }

    fn take_chunk(&mut self, now: Instant, connection: ConnectionId) -> Chunk {
        let chunk = self.streams.take(connection, now);
        self.update_idle(now);
        chunk
    }

    /// Takes the body of a JSON answer whose head was taken: its connection is over. `None` for an event stream.
    #[cfg(feature = "std")]
    pub(crate) fn take_answer(&mut self, now: Instant, connection: ConnectionId) -> Option<AnswerBody> {
        let body = self.streams.take_answer(connection)?;
        self.update_idle(now);
        record!(self, Some(now), whole_body_step(connection.number(), &body.bytes));
        Some(body)
    }

    /// Returns the next connection with new output.
    #[must_use]
    pub fn poll_connection(&mut self) -> Option<ConnectionId> {
        let connection = self.streams.connections.poll_readable()?;
        record!(self, None, MachineStep::Action(format!("{connection:?}")));
        Some(connection)
    }

    // --- Getters ---

    /// Returns whether the session is over. Queued output may still be sent.
    pub fn is_closed(&self) -> bool {
        self.server.is_closed()
    }

    /// Returns when the session became idle: no stream open, no request being answered and no message posted.
    pub fn idle_since(&self) -> Option<Instant> {
        self.idle_since
    }

    fn expiry(&self) -> Option<Instant> {
        self.idle_since.filter(|_| !self.is_closed())?.after(self.streams.setup().config().session_idle)
    }
}

impl ServerTransport for Session {
    fn peer(&self) -> &Server {
        &self.server
    }

    fn handle_timeout(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Timeout);
        let expired = self.expiry().is_some_and(|expiry| expiry <= now);
        self.run(now, |server, streams| {
            server.handle_timeout(now, streams);
            streams.handle_timeout();
            if expired || (streams.transport == SessionTransport::HttpSse && !streams.is_connected()) {
                server.abort(peer::CloseReason::Done);
            }
        });
    }

    fn poll_event(&mut self) -> Option<peer::Event> {
        let event = self.server.poll_event()?;
        record!(self, None, MachineStep::Event(format!("{event:?}")));
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = [self.server.poll_timeout(), self.streams.next_deadline(), self.expiry()];
        deadlines.into_iter().flatten().min()
    }

    fn lend(&mut self, now: Instant) -> ServerLoan<'_> {
        self.streams.now = now;
        ServerLoan {
            server: &mut self.server,
            outbox: &mut self.streams,
            #[cfg(feature = "trace-file")]
            recorder: self.recorder.as_ref(),
        }
    }

    fn settle(&mut self, now: Instant) {
        Self::settle(self, now);
    }
}

debug_fields! { Session { server } }

/// A bounded table of a server's sessions, or of handles to them.
///
/// Sessions are inserted busy; [`set_idle`](FairTable::set_idle) marks one as idle. If the table is full, the owner who
/// inserts another session loses its own oldest idle one; others lose one only to an owner with less than its fair
/// share.
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::transport::http::server::{SessionId, Sessions};
/// use mcp_proto::quota::QuotaOwner;
///
/// let (a, b) = (SessionId::from_entropy([1; 16]), SessionId::from_entropy([2; 16]));
/// let mut sessions = Sessions::new(1);
/// assert_eq!(sessions.insert(a, &QuotaOwner::LOCAL, "a"), Ok(None));
/// assert!(sessions.insert(b, &QuotaOwner::LOCAL, "b").is_err());
/// sessions.set_idle(a, Some(Instant::ORIGIN));
/// assert_eq!(sessions.insert(b, &QuotaOwner::LOCAL, "b"), Ok(Some((a, "a"))));
/// ```
pub type Sessions<T> = FairTable<SessionId, T>;
