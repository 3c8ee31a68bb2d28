//! What a server is told: by its client, by the end of the link, by the clock.

use alloc::boxed::Box;
use alloc::string::ToString;

use crate::Instant;
use crate::peer::batch::BatchId;
use crate::peer::events::Pressure;
use crate::peer::{AnyResult, InboundId, InvalidAnswer, Lost, Outbox, Outcome, Refused, RequestId};
use crate::rpc::{Batch, ErrorObject, Frame, Id, Kind, Malformed, MalformedKind, Message, Raw, Request, Response, Text, code, write};
use crate::schema::{
    Cancelled, CancelledParams, Discover, DiscoverResult, EmptyResult, Initialize, InitializeParams, InitializeResult,
    Initialized, Method, MethodInfo, Notification, Progress, ProgressParams, SetLoggingLevel, SetLoggingLevelParams,
    SubscribeResource, SubscribeResourceParams, SubscriptionsAcknowledged, SubscriptionsAcknowledgedParams,
    SubscriptionsListen, SubscriptionsListenParams, UnsubscribeResource,
};

use super::admit::{Admitted, Place, admit};
use super::commands::{Answer, under};
use super::session::Session;
use super::subscriptions::Subscriptions;
use super::{Closed, Diagnostic, Event, Phase, RequestContext, Served, Server};

impl Server {
    /// A message, or a batch of them, has come.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        match frame {
            Frame::Single(message) => self.handle_message(now, message, None, out),
            Frame::Batch(batch) => self.handle_batch(now, batch, out),
        }
        // Not before: the answers to a batch go out with its last message.
        self.advance_close();
    }

    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
    fn handle_batch(&mut self, now: Instant, batch: Batch, out: &mut dyn Outbox) {
        let session = self.session.as_ref();
        let allowed = session.is_some_and(|session| session.revision.differences().batches);
        if !allowed || batch.is_empty() {
            let what = if allowed { "an empty batch" } else { "batches are not part of this revision" };
            return self.reply_error(None, None, &ErrorObject::new(code::INVALID_REQUEST, what), out);
        }
        let id = self.batches.open();
        for message in batch {
            match message {
                Ok(message) => self.handle_message(now, message, Some(id), out),
                Err(malformed) => {
                    self.batches.expect(id);
                    self.refuse_malformed(malformed, Some(id), out);
                }
            }
            // Its answers may have been too much for a client that reads none.
            if self.is_closed() {
                return;
            }
        }
        self.close_batch(id, out);
    }

    /// Something came that is no message: it is answered with an error, under its id if that could be read.
    pub fn handle_malformed(&mut self, _now: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        let recovered = &malformed.recovered;
        // What breaks off before it says what it is, under an id that is waited for, was the answer.
        let answer = match recovered.kind {
            Some(kind) => kind == Kind::Response,
            None => recovered.method.is_none(),
        };
        if let (Some(Id::Number(number)), true) = (&recovered.id, answer) {
            let number = *number;
            if self.outbound.remove(number).is_some() {
                let invalid = match malformed.kind {
                    MalformedKind::TooLong { bytes } => InvalidAnswer::TooLong { bytes },
                    _ => InvalidAnswer::Malformed(malformed.to_string()),
                };
                return self.end(number, Outcome::Invalid(invalid));
            }
        }
        self.refuse_malformed(malformed, None, out);
    }

    fn refuse_malformed(&mut self, malformed: Malformed, batch: Option<BatchId>, out: &mut dyn Outbox) {
        // An answer is never answered, and neither is a notification.
        let silent = matches!(malformed.recovered.kind, Some(Kind::Response | Kind::Notification));
        if silent {
            if let Some(batch) = batch {
                self.close_batch(batch, out);
            }
        } else {
            let error = ErrorObject::new(malformed.code(), malformed.to_string());
            self.reply_error(malformed.recovered.id.as_ref(), batch, &error, out);
        }
        if !self.is_closed() {
            self.diagnose(Diagnostic::Malformed(Box::new(malformed)));
        }
    }

    /// The link has ended, or will bring nothing more: as [`close`](Self::close), but that requests of this side are
    /// lost at once, by `detail`. Answers may still be taken from the queue, for a client that only closed its sending
    /// half.
    pub fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        self.end_outbound(&Lost::Disconnected(detail.to_string()));
        self.close(now, out);
    }

    /// Time has passed. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some(expired) = self.outbound.pop_expired(now) {
            out.cancel(expired.number, Some("timed out"));
            self.end(expired.number, Outcome::TimedOut { after: expired.after, maximum: expired.maximum });
        }
        if matches!(self.phase, Phase::Finishing { until } if until <= now) {
            self.refuse_rest(out);
            self.advance_close();
        }
    }

    fn handle_message(&mut self, now: Instant, message: Message, batch: Option<BatchId>, out: &mut dyn Outbox) {
        match message {
            Message::Request(request) => {
                if let Some(batch) = batch {
                    self.batches.expect(batch);
                }
                self.handle_request(request, batch, out);
            }
            Message::Notification(notification) => {
                self.handle_notification(now, notification.method, notification.params, out);
            }
            Message::Response(response) => self.handle_response(response),
        }
    }

    // --- Requests ---

    fn handle_request(&mut self, request: Request, batch: Option<BatchId>, out: &mut dyn Outbox) {
        let Request { id, method, params } = request;
        let admitted = if !matches!(self.phase, Phase::Open) {
            Err(ErrorObject::new(code::INTERNAL_ERROR, "the server is closing"))
        } else if self.inbound.find(&id).is_some() {
            Err(ErrorObject::new(code::INVALID_REQUEST, "a request with this id is still unanswered"))
        } else {
            let place = if batch.is_some() { Place::Batch } else { Place::Alone };
            admit(&self.config, self.session.as_ref(), &method, params.as_ref(), place)
        };
        let answered = match admitted {
            Ok(Admitted::Ping) => self.answer(&id, batch, &EmptyResult::new(), out),
            Ok(Admitted::Initialize) => self.open_session(&id, params.as_ref(), out),
            Ok(Admitted::Request { info, context }) => {
                self.dispatch(id.clone(), batch, &method, params, info, context, out)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            self.reply_error(Some(&id), batch, &error, out);
            if !self.is_closed() {
                self.diagnose(Diagnostic::Refused { method, error });
            }
        }
    }

    fn open_session(&mut self, id: &Id, params: Option<&Raw>, out: &mut dyn Outbox) -> Result<(), ErrorObject> {
        let session = Session::open(decode::<InitializeParams>(Initialize::NAME, params)?);
        let result = InitializeResult {
            instructions: self.config.instructions.clone(),
            ..InitializeResult::new(
                session.revision.as_str(),
                self.config.capabilities.clone(),
                self.config.info.clone(),
            )
        };
        for uri in self.session.take().map(|old| old.resources).unwrap_or_default() {
            self.tell_unsubscribed(uri);
        }
        self.session = Some(session);
        self.answer(id, None, &result, out)
    }

    /// Answers a legacy request that the peer answers itself.
    fn answer(
        &mut self,
        id: &Id,
        batch: Option<BatchId>,
        result: &dyn AnyResult,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let session = self.session.as_ref();
        let revision = session.map_or(crate::schema::Revision::LATEST_LEGACY, |session| session.revision);
        self.reply(Some(id), batch, out, |buffer| {
            write::result(buffer, id, |buffer| result.write_result(buffer, revision, None))
        })
        .map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, error.to_string()))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    fn dispatch(
        &mut self,
        id: Id,
        batch: Option<BatchId>,
        method: &Text,
        params: Option<Raw>,
        info: Option<&'static MethodInfo>,
        context: RequestContext,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        match &**method {
            SetLoggingLevel::NAME => {
                let params: SetLoggingLevelParams = decode(method, params.as_ref())?;
                if let Some(session) = &mut self.session {
                    session.level = Some(params.level);
                }
                self.events.push(Event::LevelSet(params.level), 0);
                return self.answer(&id, batch, &EmptyResult::new(), out);
            }
            SubscribeResource::NAME | UnsubscribeResource::NAME => {
                let params: SubscribeResourceParams = decode(method, params.as_ref())?;
                self.subscribe(params.uri, &**method == SubscribeResource::NAME)?;
                return self.answer(&id, batch, &EmptyResult::new(), out);
            }
            _ => {}
        }
        let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
        if self.events.pressure(bytes) >= Pressure::Requests {
            return Err(ErrorObject::new(code::INTERNAL_ERROR, "the server is overloaded"));
        }
        let served = Served {
            era: context.era,
            revision: context.revision,
            info,
            capabilities: context.client_capabilities.clone(),
            progress_token: context.progress_token.clone(),
            progress: None,
            log_level: context.log_level,
            batch,
        };
        let request = self.inbound.insert(id, served).map_err(|refused| match refused {
            Refused::Duplicate => {
                ErrorObject::new(code::INVALID_REQUEST, "a request with this id is still unanswered")
            }
            Refused::Full => ErrorObject::new(code::INTERNAL_ERROR, "too many requests are unanswered"),
        })?;
        match &**method {
            Discover::NAME => {
                let result = self.discovered();
                self.respond(request, Answer::Result(&result), out);
            }
            SubscriptionsListen::NAME => self.listen(request, params.as_ref(), out),
            _ => self.events.push(Event::Request { id: request, method: method.clone(), params, context }, bytes),
        }
        Ok(())
    }

    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>
    fn discovered(&self) -> DiscoverResult {
        let versions: alloc::vec::Vec<alloc::string::String> =
            self.config.eras.modern().iter().map(|revision| revision.as_str().into()).collect();
        DiscoverResult {
            instructions: self.config.instructions.clone(),
            ..DiscoverResult::new(versions, self.config.capabilities.clone())
        }
    }

    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>
    fn subscribe(&mut self, uri: alloc::string::String, wanted: bool) -> Result<(), ErrorObject> {
        let held = self.subscriptions.len();
        let limit = self.config.limits.subscriptions;
        let Some(session) = &mut self.session else { return Ok(()) };
        if !wanted {
            if session.resources.remove(&uri) {
                self.tell_unsubscribed(uri);
            }
            return Ok(());
        }
        if session.resources.contains(&uri) {
            return Ok(());
        }
        if held.saturating_add(session.resources.len()) >= limit {
            return Err(ErrorObject::new(code::INTERNAL_ERROR, "too many subscriptions"));
        }
        session.resources.insert(uri.clone());
        if self.subscriptions.of_resource(&uri).is_empty() {
            self.events.push(Event::Subscribed { uri }, 0);
        }
        Ok(())
    }

    /// Opens a subscription; its acknowledgement is the first thing sent for it.
    fn listen(&mut self, request: InboundId, params: Option<&Raw>, out: &mut dyn Outbox) {
        let params: SubscriptionsListenParams = match decode(SubscriptionsListen::NAME, params) {
            Ok(params) => params,
            Err(error) => return self.respond(request, Answer::Error(error), out),
        };
        let granted = Subscriptions::grant(&params.notifications, &self.config.capabilities);
        let resources = granted.resource_subscriptions.as_ref().map_or(0, |uris| uris.len());
        let held = self.subscriptions.len().saturating_add(resources);
        if held >= self.config.limits.subscriptions {
            let error = ErrorObject::new(code::INTERNAL_ERROR, "too many subscriptions");
            return self.respond(request, Answer::Error(error), out);
        }
        let Some((id, served)) = self.inbound.get(request) else { return };
        let (id, revision) = (id.clone(), served.revision);
        let acknowledged = under(&SubscriptionsAcknowledgedParams::new(granted.clone()), &id);
        for uri in self.subscriptions.insert(request, granted) {
            let known = self.session.as_ref().is_some_and(|session| session.resources.contains(&uri));
            if !known {
                self.events.push(Event::Subscribed { uri }, 0);
            }
        }
        if !self.notify(SubscriptionsAcknowledged::NAME, Some(&id), &acknowledged, revision, out) {
            // Nothing may come before the acknowledgement, so there is no subscription without it.
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the client does not read what it is sent");
            self.respond(request, Answer::Error(error), out);
        }
    }

    // --- Notifications and answers ---

    fn handle_notification(&mut self, now: Instant, method: Text, params: Option<Raw>, out: &mut dyn Outbox) {
        match &*method {
            Initialized::NAME => {
                if let Some(session) = self.session.as_mut().filter(|session| !session.initialized) {
                    session.initialized = true;
                    self.events.push(Event::Initialized, 0);
                }
            }
            Cancelled::NAME => match decode::<CancelledParams>(&method, params.as_ref()) {
                Ok(params) => self.handle_cancelled(params, out),
                Err(error) => self.diagnose(Diagnostic::InvalidNotification { method, error: error.message }),
            },
            Progress::NAME => match decode::<ProgressParams>(&method, params.as_ref()) {
                Ok(params) => {
                    let Id::Number(number) = params.progress_token else { return };
                    if self.outbound.get(number).is_some_and(|entry| entry.progress) {
                        self.outbound.extend(number, now);
                        let request = RequestId::new(number);
                        self.events.push_or_drop(Event::Progress { request, params }, 0);
                    }
                }
                Err(error) => self.diagnose(Diagnostic::InvalidNotification { method, error: error.message }),
            },
            _ => {
                let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
                self.events.push_or_drop(Event::Notification { method, params }, bytes);
            }
        }
    }

    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    fn handle_cancelled(&mut self, params: CancelledParams, out: &mut dyn Outbox) {
        // Unknown and answered requests are nobody's fault: the notification crossed the answer.
        let Some(request) = params.request_id.and_then(|id| self.inbound.find(&id)) else { return };
        let Some((_, served)) = self.inbound.remove(request) else { return };
        self.abandon(request, &served, params.reason);
        if let Some(batch) = served.batch {
            self.close_batch(batch, out);
        }
    }

    fn handle_response(&mut self, response: Response) {
        let number = match (response.id, response.outcome) {
            (Some(Id::Number(number)), outcome) if self.outbound.is_ours(number) => {
                // The answer to a request that was given up is dropped.
                if self.outbound.remove(number).is_some() {
                    let outcome = match outcome {
                        Ok(result) => Outcome::Result(result),
                        Err(error) => Outcome::Error(error),
                    };
                    self.end(number, outcome);
                }
                return;
            }
            (None, Err(error)) => return self.diagnose(Diagnostic::Error(error)),
            (id, _) => id,
        };
        self.diagnose(Diagnostic::UnknownAnswer(number));
    }

    /// Ends the connection for a reason of this side.
    pub(crate) fn fail(&mut self, why: alloc::string::String) {
        self.abort(Closed::Lost(Lost::Failed(why)));
    }
}

/// Decodes the parameters of a method, or says what is wrong with them.
fn decode<'a, T: serde::Deserialize<'a>>(method: &str, params: Option<&'a Raw>) -> Result<T, ErrorObject> {
    let invalid = |what: alloc::string::String| {
        ErrorObject::new(code::INVALID_PARAMS, alloc::format!("invalid parameters of {method}: {what}"))
    };
    match params {
        Some(params) => params.decode().map_err(|error| invalid(error.to_string())),
        None => Err(invalid("there are none".into())),
    }
}
