//! Notifications from a server: log messages, changes, and those that the protocol does not define.

use alloc::string::ToString;
use core::time::Duration;

use super::admit::admit_notification;
use super::subscriptions::Subscriber;
use super::{Diagnostic, Eras, ListKind, Phase, Server, ServerCommands, Session, Topic};
use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{AnyParams, InboundId, MessageKind, Outbox, RequestError, reserved_methods};
use crate::rpc::{Id, write};
use crate::schema::tasks::{TaskUpdated, TaskUpdatedParams};
use crate::schema::{
    ElicitationComplete, ElicitationCompleteParams, EmptyParams, Era, LoggingLevel, LoggingMessage,
    LoggingMessageParams, Notification, NotificationInfo, ResourceUpdated, ResourceUpdatedParams, Revision,
    ServerCapability,
};

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
        let of_request = match request {
            None => None,
            Some(request) => match self.inbound.get(request) {
                None => return false,
                Some((id, served)) => Some((id.clone(), served.era, served.revision, served.log_level)),
            },
        };
        let (id, revision, least) = match of_request {
            //= S8.18 "only on that request's stream; at or above the level"
            Some((id, Era::Modern, revision, Some(least))) => (Some(id), revision, least),
            //= S8.18 "No notifications/message without logLevel on that request"
            Some((_, Era::Modern, _, None)) => return false,
            Some((id, Era::Legacy, revision, _)) => (Some(id), revision, self.legacy_level()),
            None => match self.session() {
                Some(session) => (None, session.revision, self.legacy_level()),
                None => return false,
            },
        };
        params.level >= least && self.notify(LoggingMessage::NAME, id.as_ref(), params, revision, out)
    }

    fn legacy_level(&self) -> LoggingLevel {
        self.session().and_then(|session| session.log_level).unwrap_or(LoggingLevel::Info)
    }

    /// Notifies subscriptions that a list has changed.
    pub(crate) fn list_changed(&mut self, now: Instant, list: ListKind, out: &mut dyn Outbox) {
        //= S1.19 "Only negotiated capabilities used"
        if self.config.capabilities.has(list.capability()) {
            self.notify_changed(now, Topic::List(list), out);
        }
    }

    //= S5.8 "updated if `resources.subscribe` declared"
    /// Notifies subscriptions that a resource has changed.
    pub(crate) fn resource_updated(&mut self, now: Instant, uri: &str, out: &mut dyn Outbox) {
        self.notify_changed(now, Topic::Resource(uri.into()), out);
    }

    /// Sends the status of a task to the subscriptions to it.
    pub(crate) fn task_updated(&mut self, params: &TaskUpdatedParams, out: &mut dyn Outbox) -> bool {
        let topic = Topic::Task(params.task_id.as_str().into());
        //= S11.10 "notifications/tasks only with taskIds"
        let listening: alloc::vec::Vec<Subscriber> = self.subscriptions.subscribers_of(&topic).collect();
        if listening.is_empty() || !self.has_room(out) {
            return false;
        }
        for subscriber in listening {
            self.notify_subscriber(subscriber, TaskUpdated::NAME, params, out);
        }
        true
    }

    /// Sends a notification that belongs to no open request of a legacy session.
    pub(crate) fn notify_session(
        &mut self,
        info: &'static NotificationInfo,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some(session) = self.session().filter(|session| session.initialized) else { return false };
        let revision = session.revision;
        info.revisions.contains(revision) && self.notify(info.name, None, params, revision, out)
    }

    /// Notifies the client that the interaction with a page is complete.
    pub(crate) fn elicitation_complete(&mut self, id: &str, out: &mut dyn Outbox) -> bool {
        let revision = match self.session().filter(|session| session.initialized) {
            //= S9.4 "no completion notification"
            Some(session) if session.revision.differences().url_elicitation_error => session.revision,
            _ => return false,
        };
        let params = ElicitationCompleteParams::new(id);
        self.notify(ElicitationComplete::NAME, None, &params, revision, out)
    }

    // --- Changes ---

    fn notify_changed(&mut self, now: Instant, topic: Topic, out: &mut dyn Outbox) {
        if self.subscriptions.subscribers_of(&topic).next().is_some() || self.is_implied_for_session(&topic) {
            self.subscriptions.mark_changed(topic);
            self.notify_changes(now, out);
        }
    }

    /// Whether a legacy client is notified of the topic without a subscription.
    fn is_implied_for_session(&self, topic: &Topic) -> bool {
        matches!(topic, Topic::List(_)) && self.session().is_some()
    }

    /// Whether change notifications may be sent. A legacy client gets none before it is ready or sends requests, and
    /// then those of all changes since the handshake.
    fn is_ready(&self) -> bool {
        self.session().is_none_or(Session::can_be_notified)
    }

    /// Sends the change notifications that found no room, or no reader, before.
    pub(crate) fn retry_notifications(&mut self, now: Instant, out: &mut dyn Outbox) {
        if self.subscriptions.has_pending_changes() {
            self.notify_changes(now, out);
        }
    }

    fn notify_changes(&mut self, now: Instant, out: &mut dyn Outbox) {
        let limit = self.config.limits.queued_bytes;
        while !self.is_closed()
            && out.queued() <= limit
            && out.has_reader()
            && self.is_ready()
            && let Some(topic) = self.subscriptions.take_changed()
        {
            let interested: alloc::vec::Vec<Subscriber> = self
                .is_implied_for_session(&topic)
                .then_some(Subscriber::Session)
                .into_iter()
                .chain(self.subscriptions.subscribers_of(&topic))
                .collect();
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
        let left = self.subscriptions.has_pending_changes()
            && !self.is_closed()
            && out.has_reader()
            && self.is_ready();
        self.notify_again_at = left.then(|| now + RETRY_PAUSE);
    }

    /// Writes one notification to one subscriber, under its id if it is a listen request.
    fn notify_subscriber(
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
        if let Err(error) = written {
            self.diagnose(Diagnostic::Unencodable { method: method.to_string(), error: error.to_string() });
        }
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
        match write_notification(method, request, params, revision, None, out) {
            Ok(()) => true,
            Err(error) => {
                self.diagnose(Diagnostic::Unencodable {
                    method: method.to_string(),
                    error: error.to_string(),
                });
                false
            }
        }
    }
}

/// Writes a notification that belongs to `request`, or to a listen request, which is then its `subscription` too.
pub(super) fn write_notification(
    method: &str,
    request: Option<&Id>,
    params: &dyn AnyParams,
    revision: Revision,
    subscription: Option<&Id>,
    out: &mut dyn Outbox,
) -> Result<(), serde_json::Error> {
    let entries = MetaEntries { subscription, ..MetaEntries::default() };
    write::notification(out.buffer(), method, |buffer| params.write_params(buffer, revision, entries))?;
    out.commit(MessageKind::Notification { method, request, revision });
    Ok(())
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
        reserved_methods::check_server_notification(method)?;
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
                let session = self.session().filter(|session| session.initialized);
                let session = session.ok_or(RequestError::NotReady)?;
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
