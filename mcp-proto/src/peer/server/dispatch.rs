//! Inputs of a server: messages, the end of the link, timeouts; and the dispatch of the client's requests to the
//! protocol's own handlers, or to the application.

use core::time::Duration;

use super::admit::{AdmittedRequest, RequestDetails, admit};
use super::answer::{internal_error, invalid_request};
use super::event::RequestContext;
use super::session::Session;
use super::subscriptions::Subscriptions;
use super::{Cancellation, CloseReason, Diagnostic, Event, PendingRequest, Phase, Server, text_bytes};
use crate::ordered_map::OrderedMap;
#[cfg(all(feature = "std", feature = "http"))]
use crate::peer::MessageCharge;
use crate::peer::event_queue::Pressure;
use crate::peer::inbound::BatchId;
use crate::peer::{
    AnyResult, InboundId, InsertError, Leniency, LostReason, Machine, Outbox, Outcome, RequestId, Strictness,
    WireId,
};
use crate::prelude::*;
use crate::rpc::{
    Batch, ErrorObject, Frame, Id, Malformed, Message, Raw, Request, Response, Text, code, write,
};
use crate::schema::{
    Cancelled, CancelledParams, Discover, DiscoverResult, EmptyResult, Era, Initialize, InitializeParams,
    InitializeResult, Initialized, Json, Method, MethodInfo, Notification, Params, Progress, SetLoggingLevel,
    SetLoggingLevelParams, SubscribeResource, SubscribeResourceParams, SubscriptionsListen,
    UnsubscribeResource, UnsubscribeResourceParams, remove_modern_extensions,
};
use crate::{Instant, Limits};

impl Machine for Server {
    type Event = Event;

    /// The length of the `_meta` that `text` begins with, if that is the one of the last request.
    fn known_meta_length(&self, text: &str) -> Option<usize> {
        self.last_meta.as_ref()?.length_in(text)
    }

    /// Handles a message, or a batch of them.
    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        match frame {
            Frame::Single(message) => self.handle_message(now, message, None, out),
            Frame::Batch(batch) => self.handle_batch(now, batch, out),
        }
        self.retry_notifications(now, out);
        // At the end only: the answers to a batch are sent with its last message.
        self.advance_close();
    }

    /// Handles input that is not a message: answers it with an error, under its id if that could be read.
    fn handle_malformed(&mut self, _: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        if !self.resolve_unreadable(&malformed) {
            self.refuse_malformed(malformed, None, out);
        }
    }

    /// Handles the end of the link's input: as [`close`](super::ServerCommands::close), but requests of this side are
    /// lost at once, with `detail`, and held requests are served first. The transport may still take answers from the
    /// queue, for a client that only closed its sending half.
    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        self.resolve_outbound(&LostReason::Disconnected(detail.to_string()));
        self.begin_close(now, true, out);
    }

    /// Handles the timeouts that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some(connection) = self.connection.used_mut()
            && let Some(id) = connection.outbound.next_due(now)
            && let Some(expired) = connection.outbound.remove(id)
        {
            let outcome = connection.outbound.timeout_outcome(now, &expired);
            out.cancel(id.number(), Some("timed out"));
            self.resolve(id, outcome);
        }
        self.send_due_progress(now, out);
        self.deliver_due_progress(now);
        self.retry_notifications(now, out);
        self.release(now, out);
        let over = matches!(self.phase, Phase::Finishing { until, .. } if until <= now);
        if over && !self.is_waiting_for_client() {
            self.refuse_remaining(out);
            self.advance_close();
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    fn poll_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Open => None,
            Phase::Finishing { .. } if self.is_waiting_for_client() => None,
            Phase::Finishing { until, .. } => Some(until),
            Phase::Closed => return None,
        };
        let release = self.is_release_due().then_some(Instant::ORIGIN);
        let (sent, received) = (self.sent_progress.deadline(), self.received_progress.deadline());
        let outbound = self.connection.outbound.next_deadline();
        [phase, self.notify_again_at, release, outbound, sent, received].into_iter().flatten().min()
    }

    /// The next event, in wire order.
    fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_idle() {
            return None;
        }
        if self.events.is_empty() {
            self.report_dropped();
        }
        self.events.pop()
    }

    fn wants_read(&self) -> bool {
        Self::wants_read(self)
    }

    fn dispatch_deferred(&mut self, now: Instant, out: &mut dyn Outbox) {
        self.release(now, out);
    }

    /// Sets the charge for the message that is handled next: its requests share it until they are answered. If there is
    /// no room for it, they are refused; pings, responses and notifications are handled all the same.
    #[cfg(all(feature = "std", feature = "http"))]
    fn charge_message(&mut self, charged: Option<MessageCharge>) {
        self.connection.is_over_budget = matches!(charged, Some(Err(_)));
        self.connection.charge = charged.and_then(Result::ok).map(alloc::sync::Arc::new);
    }

    fn handle_transmitted(&mut self, queued: usize) {
        self.note_transmitted(queued);
    }

    /// Closes the connection because of a failure on this side.
    fn fail(&mut self, why: String) {
        self.abort(CloseReason::Lost(LostReason::Failed(why)));
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn limits(&self) -> &Limits {
        &self.config().limits
    }

    fn write_timeout(&self) -> Duration {
        self.config().write_timeout
    }
}

impl Server {
    /// Answers a request, or hands it to the application.
    pub(super) fn handle_request(
        &mut self,
        mut request: Request,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
    ) {
        // The client would take its answer for the answer to the other request. Over HTTP the exchange distinguishes
        // them, and such a request does not arrive here.
        if self.inbound.find(&request.id).is_some() || self.connection.backlog.contains(&request.id) {
            self.close_batch(batch, out);
            let Request { id, method, .. } = request;
            return self.diagnose(Diagnostic::DuplicateRequest { id, method });
        }
        let answered = match self.admit(&request, batch) {
            //= S1.20 "ping answered promptly"
            Ok(AdmittedRequest::Ping) => self.answer_locally(&request.id, batch, &EmptyResult::new(), out),
            Ok(AdmittedRequest::Initialize) => self.open_session(&request.id, request.params.as_ref(), out),
            Ok(AdmittedRequest::Request(asked)) => {
                if asked.context.era == Era::Legacy
                    && let Some(session) = self.session_mut()
                {
                    session.has_requested = true;
                }
                self.serve(&mut request, asked, batch, out)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            self.reply_error(Some(&request.id), batch, &error, out);
            if !self.is_closed() {
                self.diagnose(Diagnostic::Refused { method: request.method, error });
            }
        }
    }

    fn admit(&mut self, request: &Request, batch: Option<BatchId>) -> Result<AdmittedRequest, ErrorObject> {
        // Held requests are served after the end of the input; a subscription would never end.
        let held = matches!(self.phase, Phase::Finishing { serves_backlog: true, .. })
            && request.method != *SubscriptionsListen::NAME;
        if !(matches!(self.phase, Phase::Open) || held) {
            return Err(internal_error("the server is closing"));
        }
        admit(
            &self.config,
            self.connection.session.as_ref(),
            self.caches_sender.then_some(&mut self.last_meta),
            &request.method,
            request.params.as_ref(),
            batch.is_some(),
        )
    }

    fn open_session(
        &mut self,
        id: &Id,
        params: Option<&Raw>,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let params = match decode::<InitializeParams>(Initialize::NAME, params) {
            Err(_) if self.config.strictness == Strictness::Lenient && lacks_client_info(params) => {
                let params = decode(Initialize::NAME, with_client_info(params).as_ref())?;
                self.diagnose(Diagnostic::Tolerated(Leniency::ClientInfo));
                params
            }
            params => params?,
        };
        let session = Session::open(params);
        let mut capabilities = self.config.capabilities.clone();
        remove_modern_extensions(&mut capabilities.extensions, &self.config.extensions);
        let result = InitializeResult {
            instructions: self.config.instructions.clone(),
            ..InitializeResult::new(session.revision.as_str(), capabilities, self.config.info.clone())
        };
        // The event `Initialized` follows once the client is ready: bounded like all other events.
        self.check_event_room(0)?;
        let unused = self.subscriptions.used_mut().map(Subscriptions::forget_session);
        for uri in unused.into_iter().flatten() {
            self.report_unsubscribed(uri);
        }
        self.connection.session = Some(session);
        self.answer_locally(id, None, &result, out)
    }

    /// Answers a legacy request that the peer answers itself.
    fn answer_locally(
        &mut self,
        id: &Id,
        batch: Option<BatchId>,
        result: &dyn AnyResult,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let revision =
            self.session().map_or(crate::schema::Revision::LATEST_LEGACY, |session| session.revision);
        self.reply(Some(id), batch, out, |buffer| {
            write::result(buffer, id, |buffer| result.write_result(buffer, revision, None))
        })
        .map_err(|error| internal_error(error.to_string()))
    }

    /// Answers requests that the protocol itself defines, and hands all others to the application.
    fn serve(
        &mut self,
        request: &mut Request,
        asked: RequestDetails,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let Request { id, method, params } = request;
        let RequestDetails { info, context, stored_bytes: kept } = asked;
        // By the method that it is in its revision: a custom method may have the name of another revision's.
        let name = info.map(|info| info.name);
        let given = params.as_ref();
        let is_local = match name {
            Some(SetLoggingLevel::NAME) => {
                let SetLoggingLevelParams { level, .. } = decode(method, given)?;
                if let Some(session) = self.session_mut() {
                    session.log_level = Some(level);
                }
                self.events.push_or_drop(Event::LogLevelSet(level), 0);
                true
            }
            //= S5.8 "resources/subscribe"
            Some(SubscribeResource::NAME) => {
                self.subscribe(decode::<SubscribeResourceParams>(method, given)?.uri)?;
                true
            }
            //= S5.8 "unsubscribe"
            Some(UnsubscribeResource::NAME) => {
                self.unsubscribe(decode::<UnsubscribeResourceParams>(method, given)?.uri)?;
                true
            }
            _ => false,
        };
        if is_local {
            return self.answer_locally(id, batch, &EmptyResult::new(), out);
        }
        let served = PendingRequest {
            era: context.era,
            revision: context.revision,
            info,
            capabilities: context.client_capabilities.clone(),
            progress_token: context.progress_token.clone(),
            progress: None,
            log_level: context.log_level,
            batch,
            listening: None,
            // The id is stored with the request, and in the index of ids.
            stored_bytes: kept.saturating_add(text_bytes(id).saturating_mul(2)),
            _charge: self.connection.charge.clone(),
        };
        match name {
            Some(Discover::NAME) => {
                let result = self.discover_result();
                self.write_result(id, &served, &result, None, out)
            }
            //= S5.6 "progress/message never on a listen stream"
            Some(SubscriptionsListen::NAME) => self.listen(id.clone(), served, decode(method, given)?, out),
            _ => {
                let bytes = given.map_or(0, |params| params.as_bytes().len());
                self.check_event_room(bytes)?;
                if self.unanswered() >= self.config.limits.requests_in {
                    return Err(internal_error("too many requests are unanswered"));
                }
                let id = self.track_request(id.clone(), served)?;
                // A name of the protocol needs no slice of the message.
                let method = name.map_or_else(|| method.clone(), Text::from_static);
                let params = params.take();
                let context = RequestContext { principal: self.principal.clone(), ..context };
                self.events.push(Event::Request { id, method, params, context }, bytes);
                Ok(())
            }
        }
    }

    /// Checks that the application takes its events, so that one more of `bytes` bytes may be queued.
    pub(super) fn check_event_room(&self, bytes: usize) -> Result<(), ErrorObject> {
        let busy = self.events.pressure(bytes) >= Pressure::Requests;
        let refused = || internal_error("the server is overloaded");
        (!busy).then_some(()).ok_or_else(refused)
    }

    /// Stores a request until it is answered. The stored bytes are bounded like those of the queued events.
    pub(super) fn track_request(&mut self, id: Id, served: PendingRequest) -> Result<InboundId, ErrorObject> {
        let kept = self.stored_bytes.saturating_add(served.stored_bytes);
        if kept > self.config.limits.event_bytes {
            return Err(internal_error(
                "the unanswered requests are too large: more than `Limits::event_bytes` allows",
            ));
        }
        let request = self.inbound.insert(id, served).map_err(|refused| match refused {
            InsertError::Duplicate => invalid_request("a request with this id is still unanswered"),
            InsertError::Full => internal_error("too many requests are unanswered"),
        })?;
        self.stored_bytes = kept;
        Ok(request)
    }

    //= S1.14 "Implement `server/discover` (supportedVersions, capabilities"
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>
    fn discover_result(&self) -> DiscoverResult {
        let versions: alloc::vec::Vec<alloc::string::String> =
            self.config.eras.modern().iter().map(|revision| revision.as_str().into()).collect();
        DiscoverResult {
            instructions: self.config.instructions.clone(),
            ..DiscoverResult::new(versions, self.config.capabilities.clone())
        }
    }
}

/// The default for a name or version that a client leaves out.
const UNKNOWN: &str = "unknown";

type Members = OrderedMap<String, Json>;

/// The members of `clientInfo` in the parameters of `initialize`; none if it is absent or `null`.
fn client_info(params: &Members) -> Option<Members> {
    match params.get("clientInfo") {
        Some(info) if !info.is_null() => info.decode().ok(),
        _ => Some(Members::new()),
    }
}

/// Whether the parameters of `initialize` lack `clientInfo`, or its name or version.
fn lacks_client_info(params: Option<&Raw>) -> bool {
    let info = params.and_then(|params| client_info(&params.decode().ok()?));
    info.is_some_and(|info| !info.contains_key("name") || !info.contains_key("version"))
}

/// The parameters of `initialize`, with defaults for the members that `clientInfo` lacks.
fn with_client_info(params: Option<&Raw>) -> Option<Raw> {
    let mut params: Members = params?.decode().ok()?;
    let mut info = client_info(&params)?;
    for name in ["name", "version"] {
        info.entry(name.into()).or_insert(Json::encode(UNKNOWN).ok()?);
    }
    params.insert("clientInfo".into(), Json::encode(&info).ok()?);
    Raw::encode(&params).ok()
}

/// Decodes the parameters of a method, or returns an error that says why they are invalid.
pub(super) fn decode<P: Params>(method: &str, params: Option<&Raw>) -> Result<P, ErrorObject> {
    //= S1.11 "-32602 params"
    let invalid = |what: alloc::string::String| {
        ErrorObject::new(code::INVALID_PARAMS, alloc::format!("invalid parameters for {method}: {what}"))
    };
    match params {
        Some(params) => P::from_raw(params).map_err(|error| invalid(error.to_string())),
        None => Err(invalid("there are none".into())),
    }
}

impl Server {
    /// Handles the only request of an exchange.
    #[cfg(feature = "http")]
    pub(crate) fn handle_exchange(&mut self, now: Instant, request: Request, out: &mut dyn Outbox) {
        self.handle_request(request, None, out);
        self.retry_notifications(now, out);
        self.advance_close();
    }

    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
    fn handle_batch(&mut self, now: Instant, batch: Batch, out: &mut dyn Outbox) {
        let allowed = self.session().is_some_and(|session| session.revision.differences().batches);
        //= R1 "-32600 for an empty array"
        if !allowed || batch.is_empty() {
            let what = if allowed { "an empty batch" } else { "batches are not part of this revision" };
            return self.reply_error(None, None, &invalid_request(what), out);
        }
        let id = self.connection.batches.open();
        //= R1 "Receive batches: requests and notifications mixed"
        for message in batch {
            match message {
                Ok(message) => self.handle_message(now, message, Some(id), out),
                Err(malformed) if self.resolve_unreadable(&malformed) => {}
                Err(malformed) => {
                    self.expect_answer(Some(id));
                    self.refuse_malformed(malformed, Some(id), out);
                }
            }
            // Its answers may have exceeded the limit for a client that reads none.
            if self.is_closed() {
                return;
            }
        }
        self.close_batch(Some(id), out);
    }

    /// Counts a message of a batch that will be answered.
    fn expect_answer(&mut self, batch: Option<BatchId>) {
        if let Some(batch) = batch {
            self.connection.batches.expect(batch);
        }
    }

    /// Resolves the request of this side that an unreadable message was to answer; returns whether there is one.
    fn resolve_unreadable(&mut self, malformed: &Malformed) -> bool {
        let recovered = &malformed.recovered;
        let number = recovered.id.as_ref().and_then(|id| self.config.strictness.number_of(id));
        let (Some(number), true) = (number, malformed.may_be_answer()) else { return false };
        let request = RequestId::new(number);
        if self.connection.used_mut().and_then(|connection| connection.outbound.remove(request)).is_none() {
            return false;
        }
        self.resolve(request, Outcome::Invalid(malformed.into()));
        true
    }

    fn refuse_malformed(&mut self, malformed: Malformed, batch: Option<BatchId>, out: &mut dyn Outbox) {
        // An answer is never answered, and neither is a notification.
        //= S1.12 "Notifications, known or not, get no answer"
        if malformed.is_silent() {
            self.close_batch(batch, out);
        } else {
            let error = ErrorObject::new(malformed.code(), malformed.to_string());
            self.reply_error(malformed.recovered.id.as_ref(), batch, &error, out);
        }
        if !self.is_closed() {
            self.diagnose(Diagnostic::Malformed(Box::new(malformed)));
        }
    }

    fn handle_message(
        &mut self,
        now: Instant,
        message: Message,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
    ) {
        match message {
            Message::Request(request) => {
                self.expect_answer(batch);
                self.receive_request(request, batch, out);
            }
            //= S1.12 "Notifications, known or not, get no answer"
            Message::Notification(mut notification) => {
                if let Some(deviation) = notification.deviation.take() {
                    if self.config.strictness == Strictness::Strict {
                        self.expect_answer(batch);
                        return self.refuse_malformed(*deviation, batch, out);
                    }
                    self.diagnose(Diagnostic::Tolerated(Leniency::Notification(deviation)));
                }
                let overtakes = [Cancelled::NAME, Progress::NAME].contains(&&*notification.method);
                let due = if overtakes { Some(notification) } else { self.queue_notification(notification) };
                if let Some(notification) = due {
                    self.handle_notification(now, notification.method, notification.params, out);
                }
            }
            Message::Response(response) => self.handle_response(now, response),
        }
    }

    // --- Notifications and answers ---

    pub(super) fn handle_notification(
        &mut self,
        now: Instant,
        method: Text,
        params: Option<Raw>,
        out: &mut dyn Outbox,
    ) {
        let handled = match &*method {
            Initialized::NAME => {
                if let Some(session) = self.session_mut().filter(|session| !session.initialized) {
                    session.initialized = true;
                    self.events.push(Event::Initialized, 0);
                }
                Ok(())
            }
            Cancelled::NAME => {
                decode(&method, params.as_ref()).map(|params| self.handle_cancelled(params, out))
            }
            Progress::NAME => {
                decode(&method, params.as_ref()).map(|params| self.handle_progress(now, &method, params))
            }
            _ => {
                let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
                return self.events.push_or_drop(Event::Notification { method, params }, bytes);
            }
        };
        if let Err(error) = handled {
            self.diagnose(Diagnostic::InvalidNotification { method, error: error.message });
        }
    }

    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    fn handle_cancelled(&mut self, params: CancelledParams, out: &mut dyn Outbox) {
        // Unknown and answered requests are no error: the notification crossed the answer.
        let Some(id) = params.request_id else { return };
        let Some(request) = self.inbound.find(&id) else { return self.cancel_queued(&id, out) };
        //= S2.3 "nothing more is sent for it"
        let Some((_, served)) = self.take(request) else { return };
        let batch = served.batch;
        self.abandon(request, served, Cancellation::by_client(params.reason.as_deref()));
        self.close_batch(batch, out);
    }

    fn handle_response(&mut self, now: Instant, mut response: Response) {
        if let Some(deviation) = response.deviation.take() {
            if self.config.strictness == Strictness::Strict {
                if !self.resolve_unreadable(&deviation) {
                    self.diagnose(Diagnostic::Malformed(deviation));
                }
                return;
            }
            self.diagnose(Diagnostic::Tolerated(Leniency::Response(deviation)));
        }
        let number = response.id.as_ref().and_then(|id| self.config.strictness.number_of(id));
        match (response.id, number, response.outcome) {
            (Some(id), Some(number), outcome) if self.connection.outbound.is_ours(WireId(number)) => {
                self.note_number_as_string(id);
                // The answer to a cancelled request is dropped.
                let request = RequestId::new(number);
                let Some(record) = self.connection.outbound.remove(request) else { return };
                let outcome = match outcome {
                    Ok(result) => Outcome::Result(self.repair_empty_result(record.info, result)),
                    Err(error) => Outcome::Error(error),
                };
                self.resolve(request, outcome);
            }
            (None, _, Err(error)) => {
                self.connection.outbound.note_error_without_id(now, &error);
                self.diagnose(Diagnostic::Error(error));
            }
            (id, ..) => self.diagnose(Diagnostic::UnknownAnswer(id)),
        }
    }

    /// Reports a tolerated deviation if the client has written the number of a request of this side as a string.
    pub(super) fn note_number_as_string(&mut self, id: Id) {
        if matches!(id, Id::String(_)) {
            self.diagnose(Diagnostic::Tolerated(Leniency::NumberAsString { id }));
        }
    }

    /// Replaces the `null` or empty array with which a client answers `ping` by the empty object.
    fn repair_empty_result(&mut self, info: Option<&'static MethodInfo>, result: Raw) -> Raw {
        let Some((empty, leniency)) = self.config.strictness.empty_result(info, &result) else {
            return result;
        };
        self.diagnose(Diagnostic::Tolerated(leniency));
        empty
    }
}
