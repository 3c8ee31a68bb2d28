//! Notifications from a server: log messages, changes, and those that the protocol does not define.

use core::time::Duration;

use crate::Instant;
use crate::peer::encode::write_notification;
use crate::peer::event_queue::RemainingProgress;
#[cfg(feature = "trace-file")]
use crate::peer::recorded::{RecordedParams, ServerCommand};
use crate::peer::{
    AnyParams, AnyResult as _, InboundId, MessageKind, Outbox, RequestError, RequestId, admission,
};
use crate::prelude::*;
use crate::rpc::{Id, Text};
use crate::schema::{
    CallTool, CallToolResult, EmptyParams, Era, LoggingLevel, LoggingMessage, LoggingMessageParams,
    Method as _, Notification as _, Number, Progress, ProgressParams, ResourceUpdated, ResourceUpdatedParams,
    Revision, ServerCapability,
};

use super::admit::admit_notification;
use super::subscriptions::Subscriber;
use super::{Diagnostic, Eras, Event, Phase, Server, ServerCommands, Session, Topic};

/// The pause before pending change notifications are tried again, if no input arrives earlier.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Server {
    /// Logs, on behalf of a request or of the connection.
    pub(crate) fn log(
        &mut self,
        request: Option<InboundId>,
        params: &LoggingMessageParams,
        out: &mut dyn Outbox,
    ) -> bool {
        //= S8.22 "`logging` is declared before messages are sent"
        if !self.config.capabilities.has(ServerCapability::Logging) {
            if !core::mem::replace(&mut self.reported_logging, true) {
                self.diagnose(Diagnostic::UndeclaredLogging);
            }
            return false;
        }
        let legacy_level = |server: &Self| {
            server.session().and_then(|session| session.log_level).unwrap_or(LoggingLevel::Info)
        };
        let (id, revision, least) = match request {
            Some(request) => {
                let Some((id, served)) = self.inbound.get(request) else { return false };
                let least = match served.era {
                    //= S8.18 "only on that request's stream; at or above the level"
                    //= S8.18 "No notifications/message without logLevel on that request"
                    Era::Modern => served.log_level,
                    Era::Legacy => Some(legacy_level(self)),
                };
                (Some(id.clone()), served.revision, least)
            }
            None => {
                let Some(session) = self.session() else { return false };
                (None, session.revision, Some(legacy_level(self)))
            }
        };
        least.is_some_and(|least| params.level >= least)
            && self.notify(LoggingMessage::NAME, id.as_ref(), params, revision, out)
    }

    /// The legacy session, once its client is ready.
    pub(super) fn ready_session(&self) -> Option<&Session> {
        self.session().filter(|session| session.initialized)
    }

    // --- Changes ---

    /// Notifies subscriptions of a change.
    pub(super) fn notify_changed(&mut self, now: Instant, topic: Topic, out: &mut dyn Outbox) {
        let is_ready = self.is_ready();
        if let Topic::List(list) = topic
            && let Some(session) = self.session_mut().filter(|_| !is_ready)
            && !session.changed_lists.contains(&list)
        {
            session.changed_lists.push(list);
        }
        let for_session = is_ready && self.is_implied_for_session(&topic);
        if for_session || self.subscriptions.subscribers_of(&topic).next().is_some() {
            self.subscriptions.changed.insert(topic, ());
            self.notify_changes(now, out);
        }
    }

    /// Whether a legacy client is notified of the topic without a subscription.
    fn is_implied_for_session(&self, topic: &Topic) -> bool {
        matches!(topic, Topic::List(_)) && self.session().is_some()
    }

    /// Whether the session may be sent change notifications. A legacy client gets none before it is ready or sends requests,
    /// and then those of all changes since the handshake.
    fn is_ready(&self) -> bool {
        self.session().is_none_or(Session::can_be_notified)
    }

    /// Sends the change notifications that found no room, or no reader, before.
    pub(crate) fn retry_notifications(&mut self, now: Instant, out: &mut dyn Outbox) {
        if self.has_changes() {
            self.notify_changes(now, out);
        }
    }

    /// Whether change notifications wait that may be sent.
    fn has_changes(&self) -> bool {
        let for_session = self.session().filter(|_| self.is_ready());
        !self.subscriptions.changed.is_empty()
            || for_session.is_some_and(|session| !session.changed_lists.is_empty())
    }

    /// Takes the next topic that has changed, with the subscribers to notify.
    fn next_change(&mut self) -> Option<(Topic, Vec<Subscriber>)> {
        let is_ready = self.is_ready();
        if let Some((topic, ())) = self.subscriptions.used_mut().and_then(|it| it.changed.pop_first()) {
            let session = (is_ready && self.is_implied_for_session(&topic)).then_some(Subscriber::Session);
            let interested = session.into_iter().chain(self.subscriptions.subscribers_of(&topic)).collect();
            return Some((topic, interested));
        }
        let lists = &mut self.session_mut().filter(|_| is_ready)?.changed_lists;
        let list = *lists.first()?;
        lists.remove(0);
        Some((Topic::List(list), Vec::from([Subscriber::Session])))
    }

    fn notify_changes(&mut self, now: Instant, out: &mut dyn Outbox) {
        let limit = self.config.limits.queued_bytes;
        while !self.is_closed()
            && out.queued() <= limit
            && out.has_reader()
            && let Some((topic, interested)) = self.next_change()
        {
            for subscriber in interested {
                match &topic {
                    Topic::List(list) => {
                        self.notify_subscriber(subscriber, list.notification(), &EmptyParams::new(), out)
                    }
                    Topic::Resource(uri) => {
                        self.notify_subscriber(
                            subscriber,
                            ResourceUpdated::NAME,
                            &ResourceUpdatedParams::new(&**uri),
                            out,
                        );
                    }
                    // The status of the task is not stored here.
                    Topic::Task(_) => {}
                }
            }
        }
        // With no readable stream, the next reader triggers a retry.
        let left = self.has_changes() && !self.is_closed() && out.has_reader();
        self.notify_again_at = left.then(|| now + RETRY_PAUSE);
    }

    /// Writes one notification to one subscriber, under its id if it is a listen request.
    pub(super) fn notify_subscriber(
        &mut self,
        subscriber: Subscriber,
        method: &'static str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) {
        let written = match subscriber {
            Subscriber::Session => match self.session().filter(|session| session.can_be_notified()) {
                Some(session) => write_notification(method, None, params, session.revision, None, out),
                None => return,
            },
            Subscriber::Listen(subscription) => match self.inbound.get(subscription) {
                //= S5.3 "Every listen notification has subscriptionId in `_meta`"
                Some((id, served)) => {
                    write_notification(method, Some(id), params, served.revision, Some(id), out)
                }
                None => return,
            },
        };
        self.report_written(method, written);
    }

    /// Sends a part of the result of a request, if the transport delivers such parts and the client has read enough.
    pub(crate) fn partial_result(
        &mut self,
        request: InboundId,
        part: &CallToolResult,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some((id, served)) = self.inbound.get(request) else { return false };
        let (id, revision) = (id.clone(), served.revision);
        if !out.takes_parts(&id) || !self.has_room(out) {
            return false;
        }
        let written = part.write_result(out.buffer(), revision, None);
        if written.is_ok() {
            out.commit(MessageKind::PartialResult(&id));
        }
        self.report_written(CallTool::NAME, written)
    }

    /// Reports a notification that cannot be encoded. Returns whether it was written.
    fn report_written(&mut self, method: &str, written: Result<(), serde_json::Error>) -> bool {
        let is_written = written.is_ok();
        if let Err(error) = written {
            self.diagnose(Diagnostic::Unencodable { method: method.to_string(), error: error.to_string() });
        }
        is_written
    }

    // --- Notifications of any kind ---

    /// Whether the client is connected, and has read enough to be sent more notifications.
    pub(super) fn has_room(&mut self, out: &dyn Outbox) -> bool {
        if self.is_closed() {
            return false;
        }
        let room = !out.is_full(self.config.limits.queued_bytes);
        if !room {
            self.events.note_dropped();
        }
        room
    }

    /// Writes a notification, or counts it as unsent if the client leaves too much unread.
    pub(super) fn notify(
        &mut self,
        method: &str,
        request: Option<&Id>,
        params: &dyn AnyParams,
        revision: Revision,
        out: &mut dyn Outbox,
    ) -> bool {
        if !self.has_room(out) {
            return false;
        }
        let written = write_notification(method, request, params, revision, None, out);
        self.report_written(method, written)
    }
}

impl ServerCommands<'_> {
    /// Sends the client a notification whose name the protocol does not define: with `request`, on the stream of that
    /// request of the client; without, to the client of a legacy session. A client of 2026-07-28 gets notifications of
    /// its own requests only.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages>
    ///
    /// # Errors
    /// If it cannot be sent now: [`Answered`](RequestError::Answered) once the request is over,
    /// [`NotReady`](RequestError::NotReady) without a session that is ready, [`Overloaded`](RequestError::Overloaded)
    /// while the client reads nothing. [`Reserved`](RequestError::Reserved) for names of the protocol, which other
    /// commands send; [`Extension`](RequestError::Extension) for notifications of a registered extension that the client
    /// does not declare.
    pub fn notify_custom(
        &mut self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError> {
        record!(self, ServerCommand::NotifyCustom(request, method.into(), RecordedParams::new(params)));
        self.run(|server, _, out| server.notify_custom(request, method, params, out))
    }
}

impl Server {
    fn notify_custom(
        &mut self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        admission::check_server_notification(method)?;
        if matches!(self.phase, Phase::Closed) {
            return Err(RequestError::Closed);
        }
        let (id, revision) = match request {
            Some(request) => {
                let (id, served) = self.inbound.get(request).ok_or(RequestError::Answered)?;
                admit_notification(&self.config, method, served.revision, &served.capabilities)?;
                (Some(id.clone()), served.revision)
            }
            None if self.config.eras == Eras::ModernOnly => {
                return Err(RequestError::Revision { method: method.into(), revision: Revision::LATEST });
            }
            None => {
                let session = self.ready_session().ok_or(RequestError::NotReady)?;
                admit_notification(&self.config, method, session.revision, &session.capabilities)?;
                (None, session.revision)
            }
        };
        let limit = self.config.limits.queued_bytes;
        if out.is_full(limit) {
            return Err(RequestError::Overloaded { limit });
        }
        write_notification(method, id.as_ref(), params, revision, None, out)
            .map_err(|error| RequestError::Encode(alloc::format!("{error}")))
    }
}

impl Server {
    // Progress reports of a server, and those of its client.

    /// Reports progress on a request, now or when its turn comes.
    pub(crate) fn progress(
        &mut self,
        now: Instant,
        request: InboundId,
        params: &ProgressParams,
        out: &mut dyn Outbox,
    ) -> bool {
        //= S6.2 "stop after completion"
        let Some((_, served)) = self.inbound.get_mut(request) else { return false };
        //= S6.2 "only active token"
        let Some(token) = served.progress_token.clone() else { return false };
        //= S6.2 "value strictly rising"
        if served.progress.as_ref().is_some_and(|last| !exceeds(&params.progress, last)) {
            return false;
        }
        let before = served.progress.replace(params.progress.clone());
        let params = ProgressParams { progress_token: token, ..params.clone() };
        //= S6.2 "rate limit"
        let Some(due) = self.sent_progress.offer(now, request, params, 0) else { return true };
        let sent = self.send_progress(request, &due, out);
        if !sent && let Some((_, served)) = self.inbound.get_mut(request) {
            served.progress = before;
        }
        sent
    }

    /// Sends the waiting reports whose time has come.
    pub(super) fn send_due_progress(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some((request, params, _)) = self.sent_progress.pop_due(now) {
            self.send_progress(request, &params, out);
        }
    }

    /// Sends the last report of a request that is about to be answered.
    pub(super) fn send_last_progress(&mut self, request: InboundId, out: &mut dyn Outbox) {
        if let Some(RemainingProgress { last: Some((params, _)), .. }) = self.sent_progress.remove(request) {
            self.send_progress(request, &params, out);
        }
    }

    /// Sends the last reports of all requests.
    pub(super) fn send_all_progress(&mut self, out: &mut dyn Outbox) {
        while let Some((request, params)) = self.sent_progress.pop() {
            self.send_progress(request, &params, out);
        }
    }

    fn send_progress(&mut self, request: InboundId, params: &ProgressParams, out: &mut dyn Outbox) -> bool {
        let Some((id, served)) = self.inbound.get(request) else { return false };
        let (id, revision) = (id.clone(), served.revision);
        self.notify(Progress::NAME, Some(&id), params, revision, out)
    }

    /// Handles the client's report on a request of this side.
    pub(super) fn handle_progress(&mut self, now: Instant, method: &Text, params: ProgressParams) {
        let token = params.progress_token.clone();
        let Some(number) = self.config.strictness.number_of(&token) else { return };
        let request = RequestId::new(number);
        if !self.connection.outbound.get(request).is_some_and(|request| request.progress) {
            return;
        }
        self.note_number_as_string(token);
        self.connection.outbound.restart_timeout(request, now);
        let message = params.message.as_ref().map_or(0, |message| message.len());
        let bytes = message.saturating_add(method.len());
        if !self.events.has_room(self.received_progress.bytes().saturating_add(bytes)) {
            return self.events.note_dropped();
        }
        if let Some(params) = self.received_progress.offer(now, request, params, bytes) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the client's waiting reports whose time has come.
    pub(super) fn deliver_due_progress(&mut self, now: Instant) {
        while let Some((request, params, bytes)) = self.received_progress.pop_due(now) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the client's last report on a request that is over, before its outcome.
    pub(super) fn deliver_last_progress(&mut self, request: RequestId) {
        let Some(RemainingProgress { last, replaced }) = self.received_progress.remove(request) else {
            return;
        };
        if let Some((params, bytes)) = last {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
        if replaced > 0 {
            self.diagnose(Diagnostic::ProgressSkipped { request, count: replaced });
        }
    }
}

/// Whether one number is greater than another. Integers are compared as integers: as floating-point numbers, neighbours
/// beyond 2^53 are equal.
pub(crate) fn exceeds(one: &Number, other: &Number) -> bool {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one > other,
        _ => one.as_f64() > other.as_f64(),
    }
}
