//! What an application asks of a server.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::Instant;
use crate::peer::declared::undeclared;
use crate::peer::encode::MetaEntries;
use crate::peer::{
    About, AnyResult, Entry, InboundId, Lost, Needed, Outbox, Outcome, Outgoing, ProgressOption, Refusal, RequestId,
    Stage, Stamp,
};
use crate::rpc::{ErrorObject, Id, Raw, code, write};
use crate::schema::{
    Cancelled, CancelledParams, ClientCapabilities, ClientCapability, ElicitParams, Era, InputRequest, InputRequiredResult,
    LoggingLevel, LoggingMessage, LoggingMessageParams, Meta, MissingCapabilityData, Notification, Number, Params,
    PromptListChanged, Progress, ProgressParams, ResourceListChanged, ResourceUpdated, ResourceUpdatedParams, Revision,
    ServerCapability, SubscriptionsListenResult, ToolListChanged, meta,
};

use super::{Closed, ListKind, Phase, Served, Server};

/// The answer to a request.
pub enum Answer<'a> {
    /// The method's result. What its revision lacks is left out; what a modern result must carry beside is added.
    Result(&'a dyn AnyResult),
    /// The client's input is needed first: only for modern requests to call a tool, get a prompt or read a resource.
    InputRequired(&'a InputRequiredResult),
    /// An error.
    Error(ErrorObject),
}

impl Server {
    /// Answers a request. One that was answered or cancelled already is left alone.
    ///
    /// An answer that the protocol does not allow for this request is replaced by an error: -32603 for one that does
    /// not encode or asks for input where that is not possible, -32021 for one that asks for input of a kind that the
    /// client did not declare.
    pub fn respond(&mut self, request: InboundId, answer: Answer<'_>, out: &mut dyn Outbox) {
        let Some((id, served)) = self.inbound.remove(request) else { return };
        self.forget_subscription(request);
        let written = match answer {
            Answer::Result(result) => self.write_result(&id, &served, result, "complete", out),
            Answer::InputRequired(required) => input_allowed(&served, required)
                .and_then(|()| self.write_result(&id, &served, required, "input_required", out)),
            Answer::Error(error) => Err(error),
        };
        if let Err(error) = written {
            self.reply_error(Some(&id), served.batch, &error, out);
        }
        self.advance_close();
    }

    fn write_result(
        &mut self,
        id: &Id,
        served: &Served,
        result: &dyn AnyResult,
        kind: &'static str,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let info = self.info.clone();
        let cacheable = kind == "complete" && served.info.is_some_and(|info| info.cacheable);
        let stamp = (served.era == Era::Modern).then(|| Stamp {
            kind,
            server_info: info.as_deref(),
            hint: cacheable.then_some(self.config.cache),
            subscription: None,
        });
        let revision = served.revision;
        self.reply(Some(id), served.batch, out, |buffer| {
            write::result(buffer, id, |buffer| result.write_result(buffer, revision, stamp))
        })
        .map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, format!("the result does not encode: {error}")))
    }

    /// Reports progress on a request. Returns whether it was sent: the client must have asked for it, each report must
    /// exceed the one before, and none follows the answer. The token in `params` is replaced by the client's.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
    pub fn progress(&mut self, request: InboundId, params: &ProgressParams, out: &mut dyn Outbox) -> bool {
        let Some((id, served)) = self.inbound.get_mut(request) else { return false };
        let Some(token) = served.progress_token.clone() else { return false };
        let rises = served.progress.as_ref().is_none_or(|last| last.as_f64() < params.progress.as_f64());
        if !rises {
            return false;
        }
        served.progress = Some(Number::clone(&params.progress));
        let (id, revision) = (id.clone(), served.revision);
        let params = ProgressParams { progress_token: token, ..params.clone() };
        self.notify(Progress::NAME, Some(&id), &params, revision, out)
    }

    /// Logs, on behalf of a request or of the connection. Returns whether it was sent: a modern client must have asked
    /// for this level with the request; a legacy one is sent what it asked for, or from `info` upwards until it asks.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log(&mut self, request: Option<InboundId>, params: &LoggingMessageParams, out: &mut dyn Outbox) -> bool {
        if !self.config.capabilities.has(ServerCapability::Logging) {
            return false;
        }
        let of_request = match request {
            None => None,
            Some(request) => match self.inbound.get(request) {
                None => return false,
                Some((id, served)) => Some((id.clone(), served.era, served.revision, served.log_level)),
            },
        };
        let (id, revision, least) = match of_request {
            Some((id, Era::Modern, revision, Some(least))) => (Some(id), revision, least),
            Some((_, Era::Modern, _, None)) => return false,
            Some((id, Era::Legacy, revision, _)) => (Some(id), revision, self.legacy_level()),
            None => match &self.session {
                Some(session) => (None, session.revision, self.legacy_level()),
                None => return false,
            },
        };
        params.level >= least && self.notify(LoggingMessage::NAME, id.as_ref(), params, revision, out)
    }

    fn legacy_level(&self) -> LoggingLevel {
        self.session.as_ref().and_then(|session| session.level).unwrap_or(LoggingLevel::Info)
    }

    /// Tells those who asked that a list has changed.
    pub fn list_changed(&mut self, list: ListKind, out: &mut dyn Outbox) {
        if !self.config.capabilities.has(list.capability()) {
            return;
        }
        let method = match list {
            ListKind::Tools => ToolListChanged::NAME,
            ListKind::Prompts => PromptListChanged::NAME,
            ListKind::Resources => ResourceListChanged::NAME,
        };
        let interested = self.subscriptions.of_list(list);
        self.tell(method, interested, &crate::schema::EmptyParams::default(), true, out);
    }

    /// Tells those who asked that a resource has changed.
    pub fn resource_updated(&mut self, uri: &str, out: &mut dyn Outbox) {
        let subscribed = self.session.as_ref().is_some_and(|session| session.resources.contains(uri));
        let interested = self.subscriptions.of_resource(uri);
        self.tell(ResourceUpdated::NAME, interested, &ResourceUpdatedParams::new(uri), subscribed, out);
    }

    /// Tells a change to modern subscriptions, each under its own id, and to the legacy session.
    fn tell<P: Params>(
        &mut self,
        method: &'static str,
        interested: Vec<InboundId>,
        params: &P,
        legacy: bool,
        out: &mut dyn Outbox,
    ) {
        let session = self.session.as_ref().filter(|session| legacy && session.initialized);
        if let Some(revision) = session.map(|session| session.revision) {
            self.notify(method, None, params, revision, out);
        }
        for subscription in interested {
            let Some((id, served)) = self.inbound.get(subscription) else { continue };
            let (id, revision) = (id.clone(), served.revision);
            let params = under(params, &id);
            self.notify(method, Some(&id), &params, revision, out);
        }
    }

    /// Asks the client: only in a legacy session, and only what the client has declared.
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    pub fn request(&mut self, now: Instant, request: Outgoing<'_>, out: &mut dyn Outbox) -> Result<RequestId, Refusal> {
        let limits = &self.config.limits;
        let session = match &self.session {
            _ if !matches!(self.phase, Phase::Open) => return Err(Refusal::Closed),
            Some(session) => session,
            None => return Err(Refusal::NotReady),
        };
        let (revision, capabilities) = (session.revision, session.capabilities.clone());
        // Before the client has said that it is ready, it may only be pinged.
        if !session.initialized && request.method != <crate::schema::Ping as crate::schema::Method>::NAME {
            return Err(Refusal::NotReady);
        }
        if self.outbound.len() >= limits.requests_out {
            return Err(Refusal::InFlight { limit: limits.requests_out });
        }
        if out.queued() > limits.queued_bytes {
            return Err(Refusal::Overloaded { limit: limits.queued_bytes });
        }
        let refused = |needed| Refusal::Capability { method: request.method.into(), needed: Needed::Client(needed) };
        if let Some(info) = request.info {
            if !info.revisions.contains(revision) {
                return Err(Refusal::Revision { method: request.method.into(), revision });
            }
            if let Some(needed) = info.client.filter(|&needed| !capabilities.has(needed)) {
                return Err(refused(needed));
            }
        }
        let mut params = Vec::new();
        let number = self.outbound.mint();
        let progress = match request.options.progress {
            ProgressOption::WhereLong => request.info.is_some_and(|info| info.long),
            ProgressOption::Ask => true,
            ProgressOption::No => false,
        };
        let entries = MetaEntries {
            protocol: None,
            progress: progress.then_some(number),
            log_level: None,
            options: Some(&request.options.meta),
        };
        request
            .params
            .write_params(&mut params, revision, entries)
            .map_err(|error| Refusal::Encode(error.to_string()))?;
        let params = Raw::from_scan(params.into());
        if let Some(needed) = request.info.and_then(|info| undeclared(&capabilities, info, Some(&params))) {
            return Err(refused(needed));
        }
        write::request(out.buffer(), &Id::Number(number), request.method, |buffer| {
            buffer.extend_from_slice(params.as_bytes());
            Ok(())
        })
        .map_err(|error| Refusal::Encode(error.to_string()))?;
        out.commit(About::Request { id: number, method: request.method });
        let timeout = request.options.timeout.unwrap_or(self.config.request_timeout);
        let maximum = request.options.maximum.unwrap_or(self.config.request_maximum.max(timeout));
        let mut entry = Entry::new(request.info, now, timeout, maximum, progress);
        entry.stage = Stage::Sent;
        self.outbound.insert(number, entry);
        Ok(RequestId::new(number))
    }

    /// Stops waiting for a request of this side, and tells the client so. It ends as [`Outcome::Cancelled`]; one that
    /// has ended already is left alone.
    pub fn cancel(&mut self, request: RequestId, reason: Option<&str>, out: &mut dyn Outbox) {
        if self.outbound.remove(request.number()).is_some() {
            out.cancel(request.number(), reason);
            self.end(request.number(), Outcome::Cancelled);
        }
    }

    /// Closes in an orderly way: takes no more requests, ends subscriptions by their results, gives up this side's own
    /// requests, and lets those in flight finish within [`ServerConfig::close_timeout`](super::ServerConfig::close_timeout).
    pub fn close(&mut self, now: Instant, out: &mut dyn Outbox) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        self.phase = Phase::Finishing { until: now + self.config.close_timeout };
        for subscription in self.subscriptions.all() {
            self.end_subscription(subscription, out);
        }
        while let Some((number, _)) = self.outbound.pop() {
            self.end(number, Outcome::Lost(Lost::Closed));
        }
        self.advance_close();
    }

    /// Ends a subscription gracefully: by its result, which says so, and by the notification that ends it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure>
    fn end_subscription(&mut self, subscription: InboundId, out: &mut dyn Outbox) {
        let Some((id, served)) = self.inbound.remove(subscription) else { return };
        self.forget_subscription(subscription);
        let info = self.info.clone();
        let stamp = Stamp {
            kind: "complete",
            server_info: info.as_deref(),
            hint: None,
            subscription: Some(&id),
        };
        let result = SubscriptionsListenResult::new();
        let written = self.reply(Some(&id), None, out, |buffer| {
            write::result(buffer, &id, |buffer| result.write_result(buffer, served.revision, Some(stamp)))
        });
        if written.is_ok() {
            self.notify(Cancelled::NAME, Some(&id), &CancelledParams::request(id.clone()), served.revision, out);
        }
    }

    /// Ends everything at once.
    pub fn abort(&mut self, closed: Closed) {
        if !self.is_closed() {
            self.finish(closed);
        }
    }
}

/// The same parameters, marked as belonging to the subscription `id`.
pub(super) fn under<P: Params>(params: &P, id: &Id) -> P {
    let mut params = params.clone();
    let id = match id {
        Id::Number(number) => crate::schema::Json::from(*number),
        Id::String(text) => crate::schema::Json::from(&**text),
    };
    let meta: &mut Meta = params.meta_mut();
    meta.insert(meta::SUBSCRIPTION_ID, id);
    params
}

/// Whether a request may be answered by asking for this input.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#supported-requests>
fn input_allowed(served: &Served, required: &InputRequiredResult) -> Result<(), ErrorObject> {
    let possible = served.era == Era::Modern && served.info.is_some_and(|info| info.input_required);
    let asks = required.input_requests.as_ref().is_some_and(|requests| !requests.is_empty());
    if !possible || !(asks || required.request_state.is_some()) {
        return Err(ErrorObject::new(code::INTERNAL_ERROR, "this request can not be answered by asking for input"));
    }
    let missing = |needed: &ClientCapability| !served.capabilities.has(*needed);
    let needed = required.input_requests.iter().flat_map(|requests| requests.iter()).map(|(_, request)| needs(request));
    let missing = needed.filter(missing).fold(None, |all: Option<ClientCapabilities>, needed| {
        Some(all.unwrap_or_default().with(needed))
    });
    missing.map_or(Ok(()), |missing| Err(missing_capabilities(missing)))
}

fn needs(request: &InputRequest) -> ClientCapability {
    match request {
        InputRequest::Elicit(ElicitParams::Url(_)) => ClientCapability::ElicitationUrl,
        InputRequest::Elicit(_) => ClientCapability::ElicitationForm,
        InputRequest::CreateMessage(params) if params.tools.is_some() || params.tool_choice.is_some() => {
            ClientCapability::SamplingTools
        }
        InputRequest::CreateMessage(_) => ClientCapability::Sampling,
        _ => ClientCapability::Roots,
    }
}

/// The error that a modern client is answered whose request needs capabilities that it did not declare.
///
/// ```
/// use mcp_proto::peer::server::missing_capabilities;
/// use mcp_proto::schema::{ClientCapabilities, ClientCapability};
///
/// let error = missing_capabilities(ClientCapabilities::default().with(ClientCapability::Sampling));
/// assert_eq!(error.code, -32021);
/// assert_eq!(error.data.unwrap().as_str(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#missingrequiredclientcapabilityerror>
pub fn missing_capabilities(required: ClientCapabilities) -> ErrorObject {
    let message = "the request needs capabilities that the client did not declare with it";
    let error = ErrorObject::new(code::MISSING_REQUIRED_CLIENT_CAPABILITY, message);
    match Raw::encode(&MissingCapabilityData::new(required)) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// The error of a resource that does not exist, as `revision` has it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling>
pub fn resource_not_found(uri: &str, revision: Revision) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let error = ErrorObject::new(revision.differences().missing_resource, format!("resource not found: {uri}"));
    match Raw::encode(&Data { uri }) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}
