//! Dispatch of the client's requests: to the protocol's own handlers, or to the application.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use crate::peer::batch::BatchId;
use crate::peer::event_queue::Pressure;
use crate::peer::{AnyResult, InboundId, InsertError, Leniency, Outbox, Strictness};
use crate::rpc::{ErrorObject, Id, Raw, Request, Text, code, write};
use crate::schema::{
    Discover, DiscoverResult, EmptyResult, Era, Initialize, InitializeParams, InitializeResult, Json, Method,
    Params, SetLoggingLevel, SetLoggingLevelParams, SubscribeResource, SubscribeResourceParams,
    SubscriptionsListen, UnsubscribeResource, UnsubscribeResourceParams,
};

use super::admit::{AdmittedRequest, BatchPosition, RequestDetails, admit};
use super::event::RequestContext;
use super::session::Session;
use super::subscriptions::Subscriptions;
use super::{Diagnostic, Event, PendingRequest, Phase, Server};

impl Server {
    /// Answers a request, or hands it to the application. `meta` is the `_meta` of its parameters, if it is known.
    pub(super) fn handle_request(
        &mut self,
        request: Request,
        meta: Option<&Raw>,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
    ) {
        let (id, method) = (request.id.clone(), request.method.clone());
        // The client would take its answer for the answer to the other request. Over HTTP the exchange distinguishes
        // them, and such a request does not arrive here.
        if self.inbound.find(&id).is_some() || self.backlog.contains(&id) {
            if let Some(batch) = batch {
                self.close_batch(batch, out);
            }
            return self.diagnose(Diagnostic::DuplicateRequest { id, method });
        }
        let answered = match self.admit(&request, meta, batch) {
            //= S1.20 "ping answered promptly"
            Ok(AdmittedRequest::Ping) => self.answer_locally(&id, batch, &EmptyResult::new(), out),
            Ok(AdmittedRequest::Initialize) => self.open_session(&id, request.params.as_ref(), out),
            Ok(AdmittedRequest::Request(asked)) => {
                if let (Era::Legacy, Some(session)) = (asked.context.era, &mut self.session) {
                    session.has_requested = true;
                }
                self.serve(request, asked, batch, out)
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

    fn admit(
        &mut self,
        request: &Request,
        meta: Option<&Raw>,
        batch: Option<BatchId>,
    ) -> Result<AdmittedRequest, ErrorObject> {
        // Held requests are served after the end of the input; a subscription would never end.
        let held = matches!(self.phase, Phase::Finishing { serves_backlog: true, .. })
            && request.method != *SubscriptionsListen::NAME;
        if !(matches!(self.phase, Phase::Open) || held) {
            return Err(ErrorObject::new(code::INTERNAL_ERROR, "the server is closing"));
        }
        let place = if batch.is_some() { BatchPosition::Batch } else { BatchPosition::Single };
        admit(
            &self.config,
            self.session.as_ref(),
            self.caches_sender.then_some(&mut self.last_meta),
            &request.method,
            request.params.as_ref(),
            meta,
            place,
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
        let result = InitializeResult {
            instructions: self.config.instructions.clone(),
            ..InitializeResult::new(
                session.revision.as_str(),
                self.config.capabilities.clone(),
                self.config.info.clone(),
            )
        };
        // The event `Initialized` follows once the client is ready: bounded like all other events.
        self.check_event_room(0)?;
        let unused = self.subscriptions.used_mut().map(Subscriptions::forget_session);
        for uri in unused.into_iter().flatten() {
            self.report_unsubscribed(uri);
        }
        self.session = Some(session);
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
        let session = self.session.as_ref();
        let revision = session.map_or(crate::schema::Revision::LATEST_LEGACY, |session| session.revision);
        self.reply(Some(id), batch, out, |buffer| {
            write::result(buffer, id, |buffer| result.write_result(buffer, revision, None))
        })
        .map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, error.to_string()))
    }

    /// Answers requests that the protocol itself defines, and hands all others to the application.
    fn serve(
        &mut self,
        request: Request,
        asked: RequestDetails,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let Request { id, method, params } = request;
        let RequestDetails { info, context, stored_bytes: kept } = asked;
        // By the method that it is in its revision: a custom method may have the name of another revision's.
        let name = info.map(|info| info.name);
        match name {
            Some(SetLoggingLevel::NAME) => {
                let params: SetLoggingLevelParams = decode(&method, params.as_ref())?;
                if let Some(session) = &mut self.session {
                    session.log_level = Some(params.level);
                }
                self.events.push_or_drop(Event::LogLevelSet(params.level), 0);
                return self.answer_locally(&id, batch, &EmptyResult::new(), out);
            }
            //= S5.8 "resources/subscribe"
            Some(SubscribeResource::NAME) => {
                let params: SubscribeResourceParams = decode(&method, params.as_ref())?;
                self.subscribe(params.uri)?;
                return self.answer_locally(&id, batch, &EmptyResult::new(), out);
            }
            //= S5.8 "unsubscribe"
            Some(UnsubscribeResource::NAME) => {
                let params: UnsubscribeResourceParams = decode(&method, params.as_ref())?;
                self.unsubscribe(params.uri)?;
                return self.answer_locally(&id, batch, &EmptyResult::new(), out);
            }
            _ => {}
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
            stored_bytes: kept.saturating_add(id_bytes(&id)),
            _charge: self.charge.clone(),
        };
        match name {
            Some(Discover::NAME) => {
                let result = self.discover_result();
                self.write_result(&id, &served, &result, None, out)
            }
            //= S5.6 "progress/message never on a listen stream"
            Some(SubscriptionsListen::NAME) => {
                self.listen(id, served, decode(&method, params.as_ref())?, out)
            }
            _ => {
                let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
                self.check_event_room(bytes)?;
                if self.unanswered() >= self.config.limits.requests_in {
                    return Err(ErrorObject::new(code::INTERNAL_ERROR, "too many requests are unanswered"));
                }
                let id = self.track_request(id, served)?;
                // A name of the protocol needs no slice of the message.
                let method = name.map_or(method, Text::from_static);
                let context = RequestContext { principal: self.principal.clone(), ..context };
                self.events.push(Event::Request { id, method, params, context }, bytes);
                Ok(())
            }
        }
    }

    /// Checks that the application takes its events, so that one more of `bytes` bytes may be queued.
    pub(super) fn check_event_room(&self, bytes: usize) -> Result<(), ErrorObject> {
        let busy = self.events.pressure(bytes) >= Pressure::Requests;
        let refused = || ErrorObject::new(code::INTERNAL_ERROR, "the server is overloaded");
        (!busy).then_some(()).ok_or_else(refused)
    }

    /// Stores a request until it is answered. The stored bytes are bounded like those of the queued events.
    pub(super) fn track_request(&mut self, id: Id, served: PendingRequest) -> Result<InboundId, ErrorObject> {
        let kept = self.stored_bytes.saturating_add(served.stored_bytes);
        if kept > self.config.limits.event_bytes {
            return Err(ErrorObject::new(code::INTERNAL_ERROR, "the unanswered requests are too large"));
        }
        let request = self.inbound.insert(id, served).map_err(|refused| match refused {
            InsertError::Duplicate => {
                ErrorObject::new(code::INVALID_REQUEST, "a request with this id is still unanswered")
            }
            InsertError::Full => ErrorObject::new(code::INTERNAL_ERROR, "too many requests are unanswered"),
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

type Members = BTreeMap<String, Json>;

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

fn id_bytes(id: &Id) -> usize {
    match id {
        Id::Number(_) => 0,
        // Stored with the request, and in the index of ids.
        Id::String(text) => text.len().saturating_mul(2),
    }
}

/// Decodes the parameters of a method, or returns an error that says why they are invalid.
pub(super) fn decode<P: Params>(method: &str, params: Option<&Raw>) -> Result<P, ErrorObject> {
    //= S1.11 "-32602 params"
    let invalid = |what: alloc::string::String| {
        ErrorObject::new(code::INVALID_PARAMS, alloc::format!("invalid parameters for {method}: {what}"))
    };
    match params {
        Some(params) => P::from_json(params.as_str()).map_err(|error| invalid(error.to_string())),
        None => Err(invalid("there are none".into())),
    }
}
