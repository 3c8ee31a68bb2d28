//! A request on its way: sent, sent again, answered, given up.
//!
//! | what comes of its exchange | what follows |
//! |---|---|
//! | the answer | it ends |
//! | -32020 to a tool call (2026-07-28) | the tools are listed again, then it goes out once more |
//! | -32022 with the very version asked for (2026-07-28) | it goes out once more |
//! | the session is gone (legacy) | the session is opened anew, then it goes out once more |
//! | 429 or 503 with `Retry-After`, and it may be repeated within its time | it goes out again after that, a few times |
//! | another status without an answer | it ends with that status |
//! | it never left | it goes out again after a pause, a few times |
//! | the stream broke off behind an event with an id (legacy) | the rest of the stream is asked for |
//! | the connection broke otherwise | it goes out once more if that is safe, otherwise it is lost |

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::Diagnostic;
use crate::peer::{HttpError, LostReason, Outcome, ReissuePolicy, RequestError};
use crate::rpc::{ErrorObject, Frame, Id, Message, Raw, Response, code};
use crate::schema::{
    CallTool, Cancelled, Direction, ListTools, Method, MethodInfo, Notification, Revision,
    SubscriptionsListen,
};
use crate::transport::http::{ExchangeId, Sent, Verb};

use super::answer::{Ended, Trail};
use super::dialect::Fragments;
use super::exchange::Purpose;
use super::headers::Headers;
use super::outbox::Post;
use super::reconnect::{FLOOR, Reconnects, Yield};
use super::session::Gate;
use super::timers::Timer;
use super::{HttpClient, headers};

/// Who wants the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The application.
    Application,
    /// The peer, for itself: a ping.
    Peer,
    /// This transport, to learn of the tools' headers.
    Relist,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the queue.
    Waiting,
    /// In an exchange.
    Out(ExchangeId),
    /// It, or the rest of its answer, is asked for again later.
    Pausing,
    /// With the server, which answers elsewhere (HTTP+SSE).
    Accepted,
    /// Waiting for the tools to be listed.
    Parked,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) owner: Owner,
    pub(super) method: Box<str>,
    pub(super) revision: Revision,
    /// Its id on the wire.
    pub(super) wire: i64,
    /// The message, as long as it may have to go out again.
    pub(super) body: Option<Bytes>,
    pub(super) place: Place,
    /// Whether it does not count as an exchange, because it lasts.
    pub(super) lasting: bool,
    /// Whether it counts as one now.
    pub(super) slot: bool,
    /// How often in a row it never left.
    pub(super) failures: u32,
    /// The streams of its answer that have ended.
    pub(super) reconnects: Reconnects,
    /// Where its answer broke off.
    pub(super) trail: Option<Trail>,
    /// What has come of its result, of a server that sends it in parts.
    pub(super) fragments: Option<Box<Fragments>>,
    /// Whether it has gone out once more because its answer was lost.
    reissued: bool,
    /// Whether it has gone out once more because of its headers.
    pub(super) mismatched: bool,
    /// Whether it has gone out once more because of its version.
    version_repeated: bool,
    /// How often its session was lost.
    renewals: u32,
}

impl HttpClient {
    // --- Sending ---

    /// The peer has a request to send.
    pub(super) fn take_request(&mut self, id: i64, method: Box<str>, revision: Revision, body: Bytes) {
        let owner = if self.peer.sent_request(id).is_some() { Owner::Application } else { Owner::Peer };
        let info = MethodInfo::find(&method, Direction::ClientToServer, revision);
        // What the peer asks for itself it does not cancel, and a server may leave any of it unanswered.
        if owner == Owner::Peer
            && let Some(before) = self.own_calls.insert(method.clone(), id)
            && let Some(Call { place: Place::Out(exchange), .. }) = self.take_call(before)
        {
            self.abort_exchange(exchange);
        }
        // A ping behind many requests would count as missed.
        let lasting = owner == Owner::Peer || info.is_some_and(|info| info.unbounded);
        self.enqueue(id, owner, method, revision, body, lasting);
    }

    /// The peer has another round of a request to send: a request of its own to the server, under the number of the
    /// first.
    pub(super) fn take_round(
        &mut self,
        number: i64,
        wire: i64,
        method: Box<str>,
        revision: Revision,
        body: Bytes,
    ) {
        // It may have been given up in the same breath.
        if self.peer.wire_id(number) != Some(wire) {
            return;
        }
        self.enqueue(number, Owner::Application, method, revision, body, false);
        if let Some(call) = self.calls.get_mut(&number) {
            call.wire = wire;
        }
    }

    pub(super) fn enqueue(
        &mut self,
        number: i64,
        owner: Owner,
        method: Box<str>,
        revision: Revision,
        body: Bytes,
        lasting: bool,
    ) {
        self.out.wait(number, body.len(), lasting);
        let call = Call {
            owner,
            method,
            revision,
            wire: number,
            body: Some(body),
            place: Place::Waiting,
            lasting,
            slot: false,
            failures: 0,
            reconnects: Reconnects::default(),
            trail: None,
            fragments: None,
            reissued: false,
            mismatched: false,
            version_repeated: false,
            renewals: 0,
        };
        self.calls.insert(number, call);
    }

    /// Sends a request that was waiting.
    pub(super) fn send_call(&mut self, now: Instant, number: i64) {
        let Some(call) = self.calls.get(&number) else { return };
        let Some(body) = call.body.clone() else { return };
        match self.headers_of_call(call, &body) {
            Ok(headers) => {
                let url = self.post_url();
                let exchange = self.begin(Purpose::Call(number), Verb::Post, url, headers, body);
                self.excuse_sent(number);
                if let Some(call) = self.calls.get_mut(&number) {
                    call.place = Place::Out(exchange);
                    if !call.lasting && !call.slot {
                        call.slot = true;
                        self.busy = self.busy.saturating_add(1);
                    }
                }
            }
            Err(refusal) => self.end_call(now, number, Outcome::Refused(refusal)),
        }
    }

    pub(super) fn headers_of_call(&self, call: &Call, body: &Bytes) -> Result<Headers, RequestError> {
        let headers = if headers::is_modern(call.revision) {
            let params = self.tools.headers_of(&call.method, body);
            headers::modern(&call.method, call.revision, body, params)?
        } else {
            self.session_headers().post()
        };
        let limit = self.limits().header_bytes;
        match headers::longest(&headers) {
            longest if longest > limit => {
                Err(RequestError::Encode(format!("a header of {longest} bytes is over the limit of {limit}")))
            }
            _ => Ok(headers),
        }
    }

    /// Puts a request back into the queue, at its old place.
    pub(super) fn requeue(&mut self, now: Instant, number: i64) {
        self.free_slot(number);
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.trail = None;
        call.fragments = None;
        call.place = Place::Waiting;
        match &call.body {
            Some(body) => self.out.wait(number, body.len(), call.lasting),
            None => self.end_call(now, number, Outcome::Lost(LostReason::Disconnected(String::new()))),
        }
    }

    /// Puts a request back into the queue as a new one, which has an id of its own.
    pub(super) fn requeue_renamed(&mut self, now: Instant, number: i64) {
        self.rename(number);
        self.requeue(now, number);
    }

    fn rename(&mut self, number: i64) {
        let wire = self.peer.renumber(number);
        let Some(call) = self.calls.get_mut(&number) else { return };
        let renamed = call.body.as_ref().and_then(|body| headers::renamed(body, &call.method, wire));
        call.body = renamed;
        call.wire = wire;
    }

    pub(super) fn free_slot(&mut self, number: i64) {
        if let Some(call) = self.calls.get_mut(&number).filter(|call| call.slot) {
            call.slot = false;
            self.busy = self.busy.saturating_sub(1);
        }
    }

    /// The head of the answer is a success: what is kept of the request only to send it again may go.
    pub(super) fn note_success(&mut self, number: i64) {
        let safe = self.may_reissue(number, false);
        if let Some(call) = self.calls.get_mut(&number)
            && !safe
        {
            call.body = None;
        }
    }

    // --- Ending ---

    /// Takes a request out, wherever it is; its exchange is left to the caller.
    pub(super) fn take_call(&mut self, number: i64) -> Option<Call> {
        self.free_slot(number);
        self.out.stop_waiting(number);
        self.timers.clear(Timer::Call(number));
        self.calls.remove(&number)
    }

    /// A request has its answer.
    fn answer_call(&mut self, now: Instant, number: i64, answer: Result<Raw, ErrorObject>) {
        let Some(call) = self.take_call(number) else { return };
        let answer = match answer {
            Ok(result) if *call.method == *ListTools::NAME => Ok(self.read_tools(&call, result)),
            answer => answer,
        };
        match call.owner {
            Owner::Application => self.peer.handle_answer(now, number, answer, &mut self.out),
            Owner::Peer => {
                let response = Response { id: Some(Id::Number(number)), outcome: answer, deviation: None };
                let frame = Frame::Single(Message::Response(response));
                self.peer.handle_frame(now, frame, &mut self.out);
            }
            Owner::Relist => self.handle_relisted(now, answer.ok()),
        }
    }

    /// A request has ended without an answer.
    pub(super) fn end_call(&mut self, now: Instant, number: i64, outcome: Outcome) {
        let Some(call) = self.take_call(number) else { return };
        match call.owner {
            Owner::Application => self.peer.handle_no_answer(now, number, outcome, &mut self.out),
            // It counts as missed by its time.
            Owner::Peer => {}
            Owner::Relist => self.handle_relisted(now, None),
        }
    }

    /// A request was answered on a stream that is not its own.
    pub(super) fn answer_elsewhere(&mut self, now: Instant, number: i64, answer: Result<Raw, ErrorObject>) {
        let place = self.calls.get(&number).map(|call| call.place);
        self.note_answered();
        self.answer_call(now, number, answer);
        if let Some(Place::Out(exchange)) = place {
            self.detach(now, exchange);
        }
    }

    /// Nobody waits for the answer any more.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    pub(super) fn cancel_call(&mut self, number: i64, reason: Option<&str>) {
        let Some(call) = self.take_call(number) else { return };
        self.forget_parked(number);
        let sent = match call.place {
            Place::Waiting | Place::Parked => false,
            Place::Pausing => call.trail.is_some(),
            Place::Accepted => true,
            // If the rest of its answer was about to be asked for, the server works on it.
            Place::Out(exchange) => self.abort_exchange(exchange) || call.trail.is_some(),
        };
        if sent && !headers::is_modern(call.revision) {
            self.post_cancelled(call.wire, reason, call.revision);
        }
    }

    /// Nobody waits for the answer any more, and the server is not told.
    pub(super) fn forget_call(&mut self, number: i64) {
        let Some(call) = self.take_call(number) else { return };
        self.forget_parked(number);
        if let Place::Out(exchange) = call.place {
            self.abort_exchange(exchange);
        }
    }

    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>
    fn post_cancelled(&mut self, wire: i64, reason: Option<&str>, revision: Revision) {
        let mut body = alloc::vec::Vec::new();
        if crate::transport::framing::write_cancelled(&mut body, wire, reason).is_ok() {
            let notification = Some((Cancelled::NAME.into(), revision));
            self.out.push_post(Post { notification, body: Bytes::from(body), failures: 0 });
        }
    }

    // --- What came of an exchange ---

    /// The exchange of a request has come to this.
    pub(super) fn conclude_call(&mut self, now: Instant, number: i64, generation: u32, ended: Ended) {
        if !self.calls.contains_key(&number) {
            return;
        }
        let mut ended = ended;
        if let Some(http) = ended.refusal_mut()
            && self.send_when_asked(now, number, http)
        {
            return;
        }
        match ended {
            // An error has no place for the challenge, which says how to log in.
            Ended::Answer { http, answer: Err(_), .. }
                if http.status == 401 || (http.status == 403 && http.challenge.is_some()) =>
            {
                self.conclude_refused(now, number, generation, http);
            }
            Ended::Answer { http, answer: Err(error), own } => {
                if !self.act_on_error(now, number, generation, http.status, &error, own) {
                    if (200..300).contains(&http.status) {
                        self.note_answered();
                    }
                    self.answer_call(now, number, Err(error));
                }
            }
            Ended::Answer { answer, .. } => {
                self.note_answered();
                self.answer_call(now, number, answer);
            }
            Ended::Other(http) | Ended::Broken { refused: Some(http), .. } => {
                self.conclude_refused(now, number, generation, http);
            }
            Ended::Invalid(invalid, _) => self.end_call(now, number, Outcome::Invalid(invalid)),
            Ended::Unanswered(_, trail) => {
                let trail = self.trail_within(generation, trail);
                self.break_call(now, number, "the stream ended before the answer", trail);
            }
            Ended::Broken { sent: Sent::No, detail, .. } | Ended::Unreachable { detail } => {
                self.send_later(now, number, &detail);
            }
            Ended::Broken { detail, trail, .. } => {
                let trail = self.trail_within(generation, trail);
                self.break_call(now, number, &detail, trail);
            }
        }
    }

    /// What an error says about the request's headers, its version or its session, rather than about the request.
    /// Returns whether it is dealt with.
    fn act_on_error(
        &mut self,
        now: Instant,
        number: i64,
        generation: u32,
        status: u16,
        error: &ErrorObject,
        own: bool,
    ) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        if !headers::is_modern(call.revision) {
            let unknown_method = own && error.code == code::METHOD_NOT_FOUND;
            let lost = match status {
                404 => !unknown_method,
                // Widely used servers do not say 404. A request is sent once more for that, not for ever.
                400 => {
                    !own && call.renewals == 0 && (self.session.worked || speaks_of_session(&error.message))
                }
                _ => false,
            };
            return lost && self.resend_in_new_session(now, number, generation);
        }
        match error.code {
            code::HEADER_MISMATCH
                if *call.method == *CallTool::NAME && !call.mismatched && call.body.is_some() =>
            {
                call.mismatched = true;
                call.place = Place::Parked;
                self.free_slot(number);
                self.relist(now, number, error.clone());
                true
            }
            code::UNSUPPORTED_PROTOCOL_VERSION if !call.version_repeated && call.body.is_some() => {
                let offered = crate::peer::client::handshake::offered_versions(error.data.as_ref());
                let same = offered
                    .is_some_and(|versions| versions.iter().any(|version| version == call.revision.as_str()));
                if same {
                    call.version_repeated = true;
                    self.requeue_renamed(now, number);
                }
                same
            }
            code::HEADER_MISMATCH
            | code::UNSUPPORTED_PROTOCOL_VERSION
            | code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                self.proven = true;
                false
            }
            _ => {
                let unknown_method = status == 404 && error.code == code::METHOD_NOT_FOUND;
                if !unknown_method && matches!(status, 400 | 404 | 405) {
                    self.doubt_era(now);
                }
                false
            }
        }
    }

    fn conclude_refused(&mut self, now: Instant, number: i64, generation: u32, http: HttpError) {
        let Some(call) = self.calls.get(&number) else { return };
        if headers::is_modern(call.revision) {
            if matches!(http.status, 400 | 404 | 405) {
                self.doubt_era(now);
            }
        } else {
            let lost = match http.status {
                404 => true,
                400 => call.renewals == 0 && speaks_of_session(&http.excerpt),
                _ => false,
            };
            if lost && self.resend_in_new_session(now, number, generation) {
                return;
            }
        }
        self.end_call(now, number, Outcome::Http(http));
    }

    /// The session that carried a request is gone: it was not accepted, and goes out in the next one.
    fn resend_in_new_session(&mut self, now: Instant, number: i64, generation: u32) -> bool {
        /// A server that loses more sessions than this while one request is made is not going to answer it.
        const MOST_RENEWALS: u32 = 3;
        let Some(call) = self.calls.get_mut(&number) else { return false };
        if call.body.is_none() || call.renewals >= MOST_RENEWALS {
            return false;
        }
        if generation == self.session.generation && !self.lose_session(now) {
            return false;
        }
        if let Some(call) = self.calls.get_mut(&number) {
            call.renewals = call.renewals.saturating_add(1);
        }
        self.requeue(now, number);
        true
    }

    /// A request never left.
    fn send_later(&mut self, now: Instant, number: i64, detail: &str) {
        let backoff = self.config.backoff;
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.failures >= backoff.attempts || call.body.is_none() {
            return self.end_call(now, number, Outcome::Lost(LostReason::Disconnected(detail.into())));
        }
        let pause = backoff.pause(call.failures, &mut self.chance);
        call.failures = call.failures.saturating_add(1);
        call.place = Place::Pausing;
        self.timers.set(Timer::Call(number), now + pause);
    }

    /// The server refused a request for now, and said when to come back. Returns whether it is sent again then.
    ///
    /// <https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3>
    fn send_when_asked(&mut self, now: Instant, number: i64, http: &HttpError) -> bool {
        let (429 | 503, Some(pause)) = (http.status, http.retry_after) else { return false };
        let in_time = self.peer.deadline_of(number).is_none_or(|deadline| now + pause < deadline);
        if !in_time || !self.is_repeatable(number, false) {
            return false;
        }
        let attempts = self.config.backoff.attempts;
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.failures < attempts) else {
            return false;
        };
        call.failures = call.failures.saturating_add(1);
        self.peer.report(Diagnostic::RequestDelayed {
            method: call.method.clone().into(),
            pause,
            error: http.clone(),
        });
        self.rename(number);
        self.free_slot(number);
        if let Some(call) = self.calls.get_mut(&number) {
            call.place = Place::Pausing;
        }
        self.timers.set(Timer::Call(number), now + pause.max(FLOOR));
        true
    }

    /// The connection that was to bring an answer broke.
    pub(super) fn break_call(&mut self, now: Instant, number: i64, detail: &str, trail: Trail) {
        let resumable = self.is_resumable();
        let Some(call) = self.calls.get_mut(&number) else { return };
        if !headers::is_modern(call.revision) && resumable && trail.last_event.is_some() {
            let brought = Yield::from(&trail);
            return self.resume_later(now, number, trail, brought);
        }
        if self.may_reissue(number, trail.heard) {
            if let Some(call) = self.calls.get_mut(&number) {
                call.reissued = true;
            }
            return self.requeue_renamed(now, number);
        }
        self.end_call(now, number, Outcome::Lost(LostReason::Disconnected(detail.into())));
    }

    /// Where to go on. The ids of events mean something within their session alone.
    fn trail_within(&self, generation: u32, trail: Trail) -> Trail {
        let last_event = trail.last_event.filter(|_| generation == self.session.generation);
        Trail { last_event, ..trail }
    }

    /// Whether a request may be made once more although the server may have acted on it, and `heard` whether something
    /// has come of it.
    fn may_reissue(&self, number: i64, heard: bool) -> bool {
        self.calls.get(&number).is_some_and(|call| !call.reissued) && self.is_repeatable(number, heard)
    }

    /// Whether making a request twice is as good as making it once.
    fn is_repeatable(&self, number: i64, heard: bool) -> bool {
        let Some(call) = self.calls.get(&number) else { return false };
        let Some(body) = &call.body else { return false };
        let Some((info, wish)) = self.peer.sent_request(number) else { return false };
        match wish {
            ReissuePolicy::Always => true,
            ReissuePolicy::Never => false,
            ReissuePolicy::WhereSafe => {
                // Between two streams of a subscription something may be missed, which its owner must know.
                let misses = heard && *call.method == *SubscriptionsListen::NAME;
                info.is_some_and(|info| info.repeatable && !misses)
                    || (*call.method == *CallTool::NAME && self.tools.is_safe(body))
            }
        }
    }

    /// A pause is over.
    pub(super) fn resume_or_send(&mut self, now: Instant, number: i64) {
        let Some(call) = self.calls.get(&number).filter(|call| call.place == Place::Pausing) else { return };
        match (&call.trail, self.gate) {
            (Some(_), _) => self.ask_for_rest(number),
            (None, Gate::Open) if call.slot => self.send_call(now, number),
            // The session was lost meanwhile, or others have taken its place among the exchanges.
            (None, _) => self.requeue(now, number),
        }
    }
}

/// Whether the text of a refusal is about the session.
fn speaks_of_session(text: &str) -> bool {
    text.to_ascii_lowercase().contains("session")
}
