//! Implementation of the client's commands. [`ClientCommands`](super::ClientCommands) has their documentation.

use alloc::borrow::Cow;
use core::mem;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::peer::admission::{self, undeclared};
use crate::peer::encode::{MetaEntries, ProtocolMeta, Template, write_notification};
use crate::peer::{
    AnyParams, InvalidAnswerError, MessageKind, Outbox, Outcome, OutgoingRequest, ProgressOption,
    ReissuePolicy, RequestError, RequestId, RequestOptions, RequestTimes, RequiredCapability, TaskMode,
    asks_for_progress,
};
use crate::prelude::*;
use crate::rpc::{Id, Raw, write};
use crate::schema::{
    ClientCapability, Direction, Era, Extension, LoggingLevel, Method, MethodInfo, NotificationInfo,
    ResultType, Revision, ServerCapability, SubscriptionsListen,
};

use super::cache::CacheLookup;
use super::request_record::{
    ClientRequest, QueuedRequest, Removed, RequestOwner, Stage, StoredParams, TaskOptions,
};
use super::{Client, ClientConfig, CloseReason, LinkAction, Phase, ServerInfo};

impl Client {
    /// Sends a request, or queues it until the server is known.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        mut request: OutgoingRequest<'_>,
        out: &mut dyn Outbox,
    ) -> Result<RequestId, RequestError> {
        self.check_room(out)?;
        let by_name = request.info.is_none();
        if by_name {
            admission::check_request(request.method)?;
            request.info = self.method_by_name(request.method);
        }
        self.note_time(now);
        let mut record = self.record(now, request.info, &request.options);
        match self.connection.phase {
            Phase::Ready => {
                self.admit_application(request.method, request.info)?;
                match self.look_up(now, &request) {
                    CacheLookup::Hit(result) => {
                        let id = self.requests.mint();
                        self.push_outcome(id, Outcome::Result(result));
                        return Ok(id);
                    }
                    CacheLookup::Miss(fill) => record.fill = Some(fill),
                    CacheLookup::Uncacheable => {}
                }
                let id = self.requests.mint();
                self.transmit(id, &mut record, request.method, request.params, &request.options, out)?;
                self.requests.insert(id, record);
                Ok(id)
            }
            Phase::Disconnected | Phase::Connecting | Phase::Detecting => {
                let mut template =
                    request.template().map_err(|error| RequestError::Encode(error.to_string()))?;
                if by_name {
                    template.info = None;
                }
                if let CacheLookup::Miss(fill) = self.look_up(now, &request) {
                    record.fill = Some(fill);
                }
                Ok(self.queue(record, QueuedRequest::Request(template)))
            }
            Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed => Err(RequestError::Closed),
        }
    }

    /// Queues a request until the server is known.
    pub(super) fn queue(&mut self, mut record: ClientRequest, queued: QueuedRequest) -> RequestId {
        let id = self.requests.mint();
        record.stage = Stage::Queued(Box::new(queued));
        self.requests.insert(id, record);
        id
    }

    /// Sends a notification that the revision in use has.
    pub(crate) fn notify(
        &mut self,
        info: &NotificationInfo,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        let revision = self
            .revision()
            .filter(|_| matches!(self.connection.phase, Phase::Ready))
            .ok_or(RequestError::NotReady)?;
        if !info.revisions.contains(revision) {
            return Err(RequestError::Revision { method: info.name.to_string(), revision });
        }
        self.write_notification(info.name, params, out)
    }

    /// Sends a notification of any name that no other command sends.
    pub(crate) fn notify_custom(
        &mut self,
        method: &str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        admission::check_client_notification(method)?;
        self.write_notification(method, params, out)
    }

    fn write_notification(
        &mut self,
        method: &str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        let revision = self
            .revision()
            .filter(|_| matches!(self.connection.phase, Phase::Ready))
            .ok_or(RequestError::NotReady)?;
        self.admit_extension_notification(method)?;
        let needed =
            NotificationInfo::all().find(|info| info.name == method).and_then(|info| info.client_capability);
        if let Some(needed) = needed.filter(|needed| !self.config.capabilities.has(*needed)) {
            return Err(RequestError::Capability {
                method: method.to_string(),
                needed: RequiredCapability::Client(needed),
            });
        }
        if self.is_overloaded(out) {
            return Err(RequestError::Overloaded { limit: self.config.limits.queued_bytes });
        }
        write_notification(method, None, params, revision, None, out)
            .map_err(|error| RequestError::Encode(error.to_string()))
    }

    /// Cancels a request of this side.
    pub(crate) fn cancel(
        &mut self,
        now: Instant,
        request: RequestId,
        reason: Option<&str>,
        out: &mut dyn Outbox,
    ) {
        //= C7.6 "Cancel only own, still running requests"
        let Some(record) = self.requests.get_mut(request).filter(|record| !record.owner.is_for_task()) else {
            return;
        };
        // `notifications/cancelled` must not be used for it: the task is cancelled once its identifier is known.
        // <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>
        if record.is_sent() && record.task.requested {
            record.owner = RequestOwner::Orphan;
            record.stored_params = None;
            self.deliver_last_progress(request);
            return self.push_outcome(request, Outcome::Cancelled);
        }
        let Some(mut removed) = self.take(request) else { return };
        self.abandon_task(now, &mut removed, out);
        removed.notify_cancelled(reason, out);
        self.resolve(removed, Outcome::Cancelled);
        self.advance_close(now);
    }

    /// Starts an orderly close.
    pub(crate) fn close(&mut self, now: Instant, out: &mut dyn Outbox) {
        match self.connection.phase {
            Phase::Ready => {
                self.connection.phase = Phase::Finishing { until: now + self.config.close_timeout };
                self.pings.stop();
                let requests = self.requests.iter().map(|(id, _)| id);
                let subscriptions: Vec<RequestId> = requests.filter(|&id| self.is_subscription(id)).collect();
                for subscription in subscriptions {
                    self.cancel(now, subscription, None, out);
                }
                self.advance_close(now);
            }
            Phase::Disconnected | Phase::Connecting | Phase::Detecting => self.abort(CloseReason::Done),
            Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed => {}
        }
    }

    /// Ends the connection at once.
    pub(crate) fn abort(&mut self, closed: CloseReason) {
        if !self.is_closed() {
            self.finish(closed);
            self.connection.request(LinkAction::Abort);
        }
    }

    // --- Shared with the other modules ---

    /// Checks that one more request may be made.
    pub(super) fn check_room(&self, out: &dyn Outbox) -> Result<(), RequestError> {
        let limits = &self.config.limits;
        if self.requests.len() >= limits.requests_out {
            return Err(RequestError::InFlight { limit: limits.requests_out });
        }
        if self.is_overloaded(out) {
            return Err(RequestError::Overloaded { limit: limits.queued_bytes });
        }
        Ok(())
    }

    /// Whether too many bytes wait to be sent.
    pub(super) fn is_overloaded(&self, out: &dyn Outbox) -> bool {
        out.queued().saturating_add(self.requests.queued_bytes()) > self.config.limits.queued_bytes
    }

    /// Advances a closing connection once nothing is in flight.
    pub(super) fn advance_close(&mut self, now: Instant) {
        if matches!(self.connection.phase, Phase::Finishing { .. }) && self.requests.is_empty() {
            self.connection.phase = Phase::Ending { until: now + self.config.close_timeout };
            if let Some(batches) = self.batches.used_mut() {
                batches.clear();
            }
            self.connection.request(LinkAction::CloseWrite);
        }
    }

    pub(super) fn is_subscription(&self, id: RequestId) -> bool {
        let info = self.requests.get(id).and_then(|request| request.info);
        info.is_some_and(|info| info.name == SubscriptionsListen::NAME)
    }

    /// Sends the requests that were queued until the server was known, in the order in which they were made.
    pub(super) fn flush_queued(&mut self, now: Instant, out: &mut dyn Outbox) {
        let is_queued = |request: &ClientRequest| matches!(request.stage, Stage::Queued(_));
        let requests = self.requests.iter();
        let queued: Vec<RequestId> =
            requests.filter(|(_, request)| is_queued(request)).map(|(id, _)| id).collect();
        for id in queued {
            let Some(mut removed) = self.take(id) else { continue };
            let Stage::Queued(queued) = mem::replace(&mut removed.request.stage, Stage::Sent) else {
                continue;
            };
            let sent = match *queued {
                QueuedRequest::Request(template) => self.send_queued(&mut removed, &template, out),
                QueuedRequest::Task { id, command, options } => {
                    self.send_command(&mut removed, &id, command, &options, out)
                }
            };
            match sent {
                Ok(()) => {
                    self.restore(removed);
                    self.perform_task(now, id, out);
                }
                Err(error) => self.resolve(removed, Outcome::Refused(error)),
            }
        }
    }

    fn send_queued(
        &mut self,
        removed: &mut Removed,
        template: &Template,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        let Template { method, info, options, params, .. } = template;
        let info = info.or_else(|| self.method_by_name(method));
        removed.request.info = info;
        self.admit_application(method, info)?;
        self.transmit(removed.id, &mut removed.request, method, &**params, options, out)
    }

    /// The protocol's method of this name, in the revision in use or the newest.
    fn method_by_name(&self, method: &str) -> Option<&'static MethodInfo> {
        let revision = self.revision().unwrap_or(Revision::LATEST);
        MethodInfo::find(method, Direction::ClientToServer, revision)
    }

    /// Checks that the server, as far as it is known, supports a method.
    pub(super) fn admit(&self, method: &str, info: Option<&'static MethodInfo>) -> Result<(), RequestError> {
        self.admit_extension_method(method)?;
        let (Some(info), Some(server)) = (info, &self.server) else { return Ok(()) };
        //= C2.14 "keep to the negotiated version"
        if !info.revisions.contains(server.revision) || !info.direction.includes(Direction::ClientToServer) {
            return Err(RequestError::Revision { method: method.to_string(), revision: server.revision });
        }
        //= C2.9 "only use an extension that both sides declare"
        //= C2.14 "Use only capabilities that were negotiated"
        //= C9.12 "Call only what the server's capabilities declare (tools/resources/prompts/completions/…)"
        match info.server_capability.filter(|&needed| !server.allows(needed)) {
            Some(needed) => Err(RequestError::Capability {
                method: method.to_string(),
                needed: RequiredCapability::Server(needed),
            }),
            None => Ok(()),
        }
    }

    /// The record of a request that is not sent yet.
    pub(super) fn record(
        &self,
        now: Instant,
        info: Option<&'static MethodInfo>,
        options: &RequestOptions,
    ) -> ClientRequest {
        let ClientConfig { request_timeout, request_hard_timeout, tasks, .. } = self.config;
        ClientRequest {
            info,
            owner: RequestOwner::Application,
            stage: Stage::Sent,
            times: RequestTimes::new(now, info, options, request_timeout, request_hard_timeout),
            wire: None,
            progress: asks_for_progress(info, options),
            reissue: options.reissue,
            task: TaskOptions {
                mode: options.task.unwrap_or(tasks),
                requested: false,
                hard_timeout: options.hard_timeout,
                input: options.input,
            },
            stored_params: None,
            round: None,
            fill: None,
            carriage: None,
        }
    }

    /// Sends a request.
    pub(super) fn transmit(
        &mut self,
        id: RequestId,
        record: &mut ClientRequest,
        method: &str,
        params: &dyn AnyParams,
        options: &RequestOptions,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        let number = id.number();
        //= C1.17 "Capabilities are declared fresh on each request"
        //= C7.8 "Progress token string/integer, unique over active requests"
        let entries = self.meta.entries(record.progress.then_some(number), options);
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let goes_round = self.has_rounds(record.info, options.input, revision);
        let (has_carriage, mut stored) = (out.has_carriages(), None);
        let written = write::request(out.buffer(), &Id::Number(number), method, |buffer| {
            let start = buffer.len();
            params.write_params(buffer, revision, entries)?;
            let (info, mode) = (record.info, record.task.mode);
            // Most servers run no calls as tasks, and most applications ask for none.
            let support = &self.tasks.support;
            let may_request_task = support.is_offered() || params.may_have_field("task");
            record.task.requested =
                may_request_task && support.request_task(info, revision, mode, buffer, start)?;
            if goes_round && !has_carriage {
                stored = buffer.get(start..).map(Bytes::copy_from_slice);
            }
            Ok(())
        })
        .map_err(|error| RequestError::Encode(error.to_string()))?;
        let name_param = self.extension_name_param(method);
        out.commit(MessageKind::Request {
            id: number,
            method,
            info: record.info,
            params: written,
            name_param,
            related: None,
            revision,
        });
        record.carriage = out.take_carriage();
        let stored = stored.or_else(|| record.carriage.as_ref().filter(|_| goes_round)?.params());
        record.stored_params = stored.map(|params| StoredParams { params, revision });
        Ok(())
    }

    // --- The machine's own requests ---

    /// Sends one of the machine's own requests, if one can be sent now.
    pub(super) fn own_request(
        &mut self,
        now: Instant,
        owner: RequestOwner,
        info: &'static MethodInfo,
        params: &dyn AnyParams,
        timeout: Duration,
        out: &mut dyn Outbox,
    ) -> Option<RequestId> {
        let ready = match self.connection.phase {
            Phase::Ready | Phase::Finishing { .. } => true,
            // The transport sends it once the era is known again.
            Phase::Detecting => owner == RequestOwner::ToolListing,
            _ => false,
        };
        let exists = self.revision().is_some_and(|revision| info.exists_in(revision));
        // At the limit of requests, those that follow tasks must not stop their own polls: as many again are allowed.
        let most = self.config.limits.requests_out.saturating_mul(2);
        let has_room = || self.requests.len() < most && !self.is_overloaded(out);
        if !ready || !exists || !(owner.is_own() || has_room()) {
            return None;
        }
        let options = RequestOptions {
            timeout: Some(timeout),
            hard_timeout: Some(if owner.is_own() { Duration::MAX } else { timeout }),
            progress: ProgressOption::Never,
            reissue: if owner.is_own() { ReissuePolicy::Never } else { ReissuePolicy::WhereSafe },
            task: Some(TaskMode::Await),
            ..RequestOptions::default()
        };
        let id = self.requests.mint();
        let mut request = self.record(now, Some(info), &options);
        request.owner = owner;
        self.transmit(id, &mut request, info.name, params, &options, out).ok()?;
        if let Some(carriage) = request.carriage.as_mut().filter(|_| owner.is_own()) {
            // Behind many other requests it would time out.
            carriage.is_long_lived = true;
        }
        self.requests.insert(id, request);
        Some(id)
    }

    /// Cancels one of the machine's own requests, whose outcome is no longer wanted.
    pub(crate) fn cancel_own(&mut self, id: RequestId, out: &mut dyn Outbox) {
        if let Some(mut removed) = self.take(id) {
            removed.notify_cancelled(None, out);
            removed.discard();
        }
    }
}

// The `_meta` of the client's requests.

/// The entries that the client adds to the `_meta` of its requests.
#[derive(Debug)]
pub(super) struct RequestMeta {
    /// The defaults of requests that set no option of their own.
    tasks: TaskMode,
    log_level: Option<LoggingLevel>,
    /// The protocol's entries, if the server is a modern one.
    protocol: Option<ModernMeta>,
}

#[derive(Debug)]
struct ModernMeta {
    /// For requests that may become tasks.
    tasks: ProtocolMeta,
    /// For all others.
    no_tasks: ProtocolMeta,
}

impl RequestMeta {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self { tasks: config.tasks, log_level: config.log_level, protocol: None }
    }

    /// Encodes the entries for a server that is now known.
    pub(super) fn set_server(&mut self, config: &ClientConfig, era: Era, revision: Revision) {
        self.protocol = (era == Era::Modern).then(|| ModernMeta {
            tasks: protocol_meta(config, revision, true),
            no_tasks: protocol_meta(config, revision, false),
        });
    }

    /// The entries of a request with these options; `progress` is its progress token.
    pub(super) fn entries<'a>(
        &'a self,
        progress: Option<i64>,
        options: &'a RequestOptions,
    ) -> MetaEntries<'a> {
        let never = options.task.unwrap_or(self.tasks) == TaskMode::Never;
        MetaEntries {
            protocol: self.protocol.as_ref().map(|meta| if never { &meta.no_tasks } else { &meta.tasks }),
            progress,
            //= C9.14 "Log messages only if asked by `_meta["io.modelcontextprotocol/logLevel"]` on that request"
            log_level: options.log_level.or(self.log_level),
            options: Some(&options.meta),
            subscription: None,
        }
    }
}

/// Encodes the protocol's entries of a modern request that may become a task, or may not.
pub(super) fn protocol_meta(config: &ClientConfig, revision: Revision, tasks: bool) -> ProtocolMeta {
    let ClientConfig { info, send_info, capabilities, .. } = config;
    let mut capabilities = Cow::Borrowed(capabilities);
    if tasks {
        //= C14.1 "Declare `io.modelcontextprotocol/tasks` on each request"
        capabilities = Cow::Owned(capabilities.into_owned().with(ClientCapability::TasksExtension));
    }
    ProtocolMeta::new(revision, send_info.then_some(info), &capabilities)
}

impl Client {
    // The extensions that the client has registered.
    //
    // <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>

    /// Registers more extensions, before the handshake.
    #[cfg(feature = "std")]
    pub(crate) fn add_extensions(&mut self, extensions: Vec<Extension>) {
        self.config.extensions.extend(extensions);
        self.config.capabilities.declare_extensions(&self.config.extensions);
    }

    /// Checks that the server, as far as it is known, declares the extension that defines a method.
    pub(super) fn admit_extension_method(&self, method: &str) -> Result<(), RequestError> {
        let direction = Direction::ClientToServer;
        let found = admission::find_method(&self.config.extensions, method, direction);
        self.admit_extension(method, found.map(|(extension, _)| extension))
    }

    /// Checks that the server declares the extension that defines a notification.
    pub(super) fn admit_extension_notification(&self, name: &str) -> Result<(), RequestError> {
        let direction = Direction::ClientToServer;
        let found = admission::find_notification(&self.config.extensions, name, direction);
        self.admit_extension(name, found)
    }

    fn admit_extension(&self, name: &str, extension: Option<&Extension>) -> Result<(), RequestError> {
        match (extension, &self.server) {
            //= C2.9 "only use an extension that both sides declare, else revert to core or reject with an error"
            (Some(extension), Some(server)) if !negotiated(server, extension) => {
                Err(undeclared(name, extension))
            }
            _ => Ok(()),
        }
    }

    /// The parameter of a method that the header `Mcp-Name` repeats, if an extension defines the method.
    pub(super) fn extension_name_param(&self, method: &str) -> Option<&str> {
        let direction = Direction::ClientToServer;
        admission::find_method(&self.config.extensions, method, direction)?.1.name_param()
    }

    /// The outcome of a request whose result is of a type that the protocol itself does not define.
    pub(super) fn extension_outcome(&self, kind: ResultType, result: Raw) -> Outcome {
        let extension = admission::find_result_type(&self.config.extensions, kind.as_str());
        match (kind, extension, &self.server) {
            //= C1.8 "known set = core (`complete`,`input_required`) + values of extensions negotiated through capabilities"
            (ResultType::Other(result_type), Some(extension), Some(server))
                if negotiated(server, extension) =>
            {
                Outcome::ExtensionResult { result_type, result }
            }
            //= C1.8 "An unknown `resultType` makes the result invalid"
            (kind, ..) => Outcome::Invalid(InvalidAnswerError::ResultType(kind.as_str().into())),
        }
    }

    /// Whether the server, as far as it is known, declares the tasks extension.
    pub(super) fn server_declares_tasks(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.allows(ServerCapability::TasksExtension))
    }
}

/// Whether the server declares an extension that the client has registered; `true` while the capabilities of a modern
/// server are unknown.
fn negotiated(server: &ServerInfo, extension: &Extension) -> bool {
    let declares = |extension: &Extension| {
        server.capabilities.as_ref().is_none_or(|declared| extension.is_declared_by_server(declared))
    };
    server.era == Era::Modern && declares(extension)
}
