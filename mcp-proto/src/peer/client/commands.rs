//! Implementation of the client's commands. [`ClientCommands`](super::ClientCommands) has their documentation.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::encode::{MetaEntries, Template};
use crate::peer::reserved;
use crate::peer::{
    AnyParams, MessageKind, OutboundEntry, Outbox, Outcome, OutgoingRequest, ProgressOption, RequestError,
    RequestId, RequestOptions, RequiredCapability, Stage, StoredParams, TaskOptions,
};
use crate::rpc::{Id, write};
use crate::schema::{
    Direction, Method, MethodInfo, Notification, NotificationInfo, Revision, SubscriptionsListen,
};

use super::cache::CacheLookup;
use super::{Client, CloseReason, LinkAction, Phase};

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
            reserved::check_request(request.method)?;
            request.info = self.method_by_name(request.method);
        }
        self.note_time(now);
        match self.connection.phase() {
            Phase::Ready => {
                self.admit_application(request.method, request.info)?;
                let fill = match self.look_up(now, &request) {
                    CacheLookup::Hit(result) => {
                        let number = self.outbound.mint();
                        self.resolve(number, Outcome::Result(result));
                        return Ok(RequestId::new(number));
                    }
                    CacheLookup::Miss(fill) => Some(fill),
                    CacheLookup::Uncacheable => None,
                };
                let number = self.outbound.mint();
                let entry = self.entry(now, request.info, &request.options);
                self.transmit(
                    number,
                    entry,
                    request.method,
                    &write_of(request.params),
                    &request.options,
                    out,
                )?;
                self.cache.note_sent(number, fill);
                Ok(RequestId::new(number))
            }
            Phase::Disconnected | Phase::Connecting | Phase::Detecting => {
                let mut template =
                    request.template().map_err(|error| RequestError::Encode(error.to_string()))?;
                if by_name {
                    template.info = None;
                }
                let number = self.outbound.mint();
                let entry = self.entry(now, request.info, &request.options);
                self.outbound.insert(number, entry);
                self.parked.park(number, template);
                if let CacheLookup::Miss(fill) = self.look_up(now, &request) {
                    self.cache.note_sent(number, Some(fill));
                }
                Ok(RequestId::new(number))
            }
            Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed => Err(RequestError::Closed),
        }
    }

    /// Sends a notification that the revision in use has.
    pub(crate) fn notify<N: Notification>(
        &mut self,
        params: &N::Params,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        let revision = self
            .revision()
            .filter(|_| matches!(self.connection.phase(), Phase::Ready))
            .ok_or(RequestError::NotReady)?;
        if !N::INFO.revisions.contains(revision) {
            return Err(RequestError::Revision { method: N::NAME.to_string(), revision });
        }
        self.write_notification(N::NAME, params, out)
    }

    /// Sends a notification of any name that no other command sends.
    pub(crate) fn notify_custom(
        &mut self,
        method: &str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        reserved::check_client_notification(method)?;
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
            .filter(|_| matches!(self.connection.phase(), Phase::Ready))
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
        if out.queued() > self.config.limits.queued_bytes {
            return Err(RequestError::Overloaded { limit: self.config.limits.queued_bytes });
        }
        write::notification(out.buffer(), method, |buffer| {
            params.write_params(buffer, revision, MetaEntries::default())
        })
        .map_err(|error| RequestError::Encode(error.to_string()))?;
        out.commit(MessageKind::Notification { method, request: None, revision });
        Ok(())
    }

    /// Cancels a request of this side.
    pub(crate) fn cancel(
        &mut self,
        now: Instant,
        request: RequestId,
        reason: Option<&str>,
        out: &mut dyn Outbox,
    ) {
        let number = request.number();
        //= C7.6 "Cancel only own, still running requests"
        let Some(entry) = self.outbound.get(number).filter(|_| !self.tasks.is_own_request(number)) else {
            return;
        };
        if entry.stage == Stage::Sent && entry.task.requested {
            self.make_orphan(number);
            return self.push_outcome(number, Outcome::Cancelled);
        }
        self.abandon_task(now, number, out);
        let Some(entry) = self.take_outbound(number) else { return };
        notify_cancelled(number, &entry, reason, out);
        self.resolve(number, Outcome::Cancelled);
        self.advance_close(now);
    }

    /// Starts an orderly close.
    pub(crate) fn close(&mut self, now: Instant, out: &mut dyn Outbox) {
        match self.connection.phase() {
            Phase::Ready => {
                self.connection.enter(Phase::Finishing { until: now + self.config.close_timeout });
                self.pings.stop();
                let subscriptions: Vec<i64> =
                    self.outbound.numbers().filter(|&number| self.is_subscription(number)).collect();
                for number in subscriptions {
                    self.cancel(now, RequestId::new(number), None, out);
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
        if self.outbound.len() >= limits.requests_out {
            return Err(RequestError::InFlight { limit: limits.requests_out });
        }
        if out.queued().saturating_add(self.parked.bytes()) > limits.queued_bytes {
            return Err(RequestError::Overloaded { limit: limits.queued_bytes });
        }
        Ok(())
    }

    /// Advances a closing connection once nothing is in flight.
    pub(super) fn advance_close(&mut self, now: Instant) {
        if matches!(self.connection.phase(), Phase::Finishing { .. }) && self.outbound.is_empty() {
            self.connection.enter(Phase::Ending { until: now + self.config.close_timeout });
            if let Some(batches) = self.batches.used_mut() {
                batches.clear();
            }
            self.connection.request(LinkAction::CloseWrite);
        }
    }

    pub(super) fn is_subscription(&self, number: i64) -> bool {
        let info = self.outbound.get(number).and_then(|entry| entry.info);
        info.is_some_and(|info| info.name == SubscriptionsListen::NAME)
    }

    /// Sends the requests that were queued until the server was known.
    pub(super) fn flush_queued(&mut self, out: &mut dyn Outbox) {
        while let Some((number, template)) = self.parked.pop() {
            let Some(mut entry) = self.outbound.remove(number) else { continue };
            let Template { method, info, options, .. } = &template;
            let info = info.or_else(|| self.method_by_name(method));
            entry.info = info;
            let write = |buffer: &mut _, revision, entries: MetaEntries<'_>| {
                template.write(buffer, revision, entries)
            };
            let sent = self
                .admit_application(method, info)
                .and_then(|()| self.transmit(number, entry, method, &write, options, out));
            if let Err(error) = sent {
                self.resolve(number, Outcome::Refused(error));
            }
        }
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

    pub(super) fn entry(
        &self,
        now: Instant,
        info: Option<&'static MethodInfo>,
        options: &RequestOptions,
    ) -> OutboundEntry {
        let progress = match options.progress {
            ProgressOption::WhereLong => info.is_some_and(|info| info.long_running),
            ProgressOption::Always => true,
            ProgressOption::Never => false,
        };
        let lasting = info.is_some_and(|info| info.unbounded);
        let default = |ordinary: Duration| if lasting { Duration::MAX } else { ordinary };
        let timeout = options.timeout.unwrap_or(default(self.config.request_timeout));
        let maximum = options.hard_timeout.unwrap_or(default(self.config.request_hard_timeout.max(timeout)));
        let mut entry = OutboundEntry::new(info, now, timeout, maximum, progress);
        entry.reissue = options.reissue;
        let mode = options.task.unwrap_or(self.config.tasks);
        entry.task =
            TaskOptions { mode, requested: false, hard_timeout: options.hard_timeout, input: options.input };
        entry
    }

    /// Sends a request, whose parameters `write_params` appends.
    pub(super) fn transmit(
        &mut self,
        number: i64,
        mut entry: OutboundEntry,
        method: &str,
        write_params: WriteParams<'_>,
        options: &RequestOptions,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        //= C1.17 "Capabilities are declared fresh on each request"
        //= C7.8 "Progress token string/integer, unique over active requests"
        let entries = self.meta.entries(entry.progress.then_some(number), options);
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let goes_round = self.has_rounds(entry.info, options.input, revision);
        let mut asked = false;
        let params = write::request(out.buffer(), &Id::Number(number), method, |buffer| {
            let start = buffer.len();
            write_params(buffer, revision, entries)?;
            asked = self.tasks.support.request_task(entry.info, revision, entry.task.mode, buffer, start)?;
            entry.stored_params = goes_round.then(|| store_params(buffer, start, revision));
            Ok(())
        })
        .map_err(|error| RequestError::Encode(error.to_string()))?;
        let name_param = self.extension_name_param(method);
        out.commit(MessageKind::Request { id: number, method, params, name_param, related: None, revision });
        entry.task.requested = asked;
        entry.stage = Stage::Sent;
        self.outbound.insert(number, entry);
        Ok(())
    }
}

/// Notifies the server that a request is cancelled, if the server has it.
pub(super) fn notify_cancelled(
    number: i64,
    entry: &OutboundEntry,
    reason: Option<&str>,
    out: &mut dyn Outbox,
) {
    match entry.stage {
        // The cancellation would have to name the task, which is not known.
        Stage::Sent if entry.task.requested => out.forget(number),
        Stage::Sent => out.cancel_retry(number, entry.wire_id(number), reason),
        Stage::Queued | Stage::AwaitingInput | Stage::Task => {}
    }
}

/// Appends parameters for a revision, with the entries merged into their `_meta`.
type WriteParams<'a> = &'a dyn Fn(&mut Vec<u8>, Revision, MetaEntries<'_>) -> Result<(), serde_json::Error>;

/// The function that writes these parameters.
pub(super) fn write_of(
    params: &dyn AnyParams,
) -> impl Fn(&mut Vec<u8>, Revision, MetaEntries<'_>) -> Result<(), serde_json::Error> {
    |buffer, revision, entries| params.write_params(buffer, revision, entries)
}

/// Stores the encoded parameters that start at `start`.
fn store_params(buffer: &[u8], start: usize, revision: Revision) -> StoredParams {
    StoredParams { params: buffer.get(start..).unwrap_or_default().into(), revision }
}
