//! Opening and ending subscriptions.

use alloc::string::String;

use crate::peer::topic::Topic;
use crate::peer::{AnyResult, InboundId, Outbox, ResultDefaults};
use crate::rpc::{ErrorObject, Id, code, write};
use crate::schema::{
    Cancelled, CancelledParams, Notification, ResultType, Revision, SubscriptionsAcknowledged,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, SubscriptionsListenResult,
};

use super::commands::resource_not_found;
use super::notify::write_notification;
use super::subscriptions::{ListenRequest, Subscriber, grant};
use super::{Event, PendingRequest, Server};

impl Server {
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>
    pub(super) fn subscribe(&mut self, uri: String) -> Result<(), ErrorObject> {
        let topic = Topic::Resource(uri.as_str().into());
        if self.subscriptions.has(&topic, Subscriber::Session) {
            return Ok(());
        }
        if !self.may_watch(&uri) {
            let revision = self.session.as_ref().map_or(Revision::LATEST_LEGACY, |session| session.revision);
            return Err(resource_not_found(&uri, revision));
        }
        self.check_subscription_room(1, uri.len())?;
        if self.subscriptions.add(topic, Subscriber::Session) {
            let bytes = uri.len();
            self.events.push(Event::Subscribed { uri }, bytes);
        }
        Ok(())
    }

    /// Whether the client may learn of the changes of a resource.
    fn may_watch(&self, uri: &str) -> bool {
        let access = self.config.subscription_access.as_ref();
        access.is_none_or(|access| access.allows(uri, self.principal.as_ref()))
    }

    pub(super) fn unsubscribe(&mut self, uri: String) -> Result<(), ErrorObject> {
        self.check_event_room(uri.len())?;
        if self.subscriptions.remove(&Topic::Resource(uri.as_str().into()), Subscriber::Session) {
            self.report_unsubscribed(uri);
        }
        Ok(())
    }

    /// Opens a subscription; its acknowledgement is the first thing sent for it.
    pub(super) fn listen(
        &mut self,
        id: Id,
        mut served: PendingRequest,
        params: SubscriptionsListenParams,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let access = self.config.task_access.as_ref();
        let hears = |task: &str| access.is_none_or(|access| access.allows(task, self.principal.as_ref()));
        let watches = |uri: &str| self.may_watch(uri);
        let declared = &self.config.capabilities;
        let (granted, topics) = grant(&params.notifications, declared, &served.capabilities, watches, hears)?;
        let bytes = topics.iter().map(Topic::bytes).fold(0, usize::saturating_add);
        self.check_subscription_room(topics.len().max(1), bytes)?;
        if !self.has_room(out) {
            // The acknowledgement must be sent first, so without room for it the subscription fails.
            return Err(ErrorObject::new(code::INTERNAL_ERROR, "the client does not read its messages"));
        }
        served.stored_bytes = served.stored_bytes.saturating_add(bytes);
        let listen = ListenRequest::new(id.clone(), served.revision, topics);
        //= S5.2 "`notifications/subscriptions/acknowledged` first, with granted filter"
        let acknowledged = SubscriptionsAcknowledgedParams::new(granted);
        let subscription = self.track_request(id.clone(), served)?;
        let name = SubscriptionsAcknowledged::NAME;
        let written = write_notification(name, Some(&id), &acknowledged, listen.revision, Some(&id), out);
        if written.is_err() {
            self.take(subscription);
            return Err(ErrorObject::new(code::INTERNAL_ERROR, "the acknowledgement cannot be encoded"));
        }
        for uri in self.subscriptions.listen(subscription, listen) {
            let bytes = uri.len();
            self.events.push(Event::Subscribed { uri }, bytes);
        }
        self.close_if_unread(out);
        Ok(())
    }

    /// Checks that there is room for `count` more subscriptions, with names of `bytes` bytes in all.
    fn check_subscription_room(&self, count: usize, bytes: usize) -> Result<(), ErrorObject> {
        self.check_event_room(bytes)?;
        let limits = &self.config.limits;
        let fits = self.subscriptions.len().saturating_add(count) <= limits.subscriptions
            && self.subscriptions.listen_count() < limits.subscriptions
            && self.subscriptions.bytes().saturating_add(bytes) <= limits.event_bytes;
        let refused = || ErrorObject::new(code::INTERNAL_ERROR, "too many subscriptions");
        fits.then_some(()).ok_or_else(refused)
    }

    //= R4 "Server ending a listen on a byte stream: its result, then `notifications/cancelled`"
    /// Ends a subscription gracefully: sends its result and the notification that ends it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure>
    pub(super) fn end_subscription(&mut self, subscription: InboundId, out: &mut dyn Outbox) {
        let Some((id, _)) = self.take(subscription) else { return };
        let Some(listen) = self.forget_subscription(subscription) else { return };
        let info = self.info.clone();
        let stamp = ResultDefaults {
            kind: Some(&ResultType::Complete),
            server_info: info.as_deref(),
            hint: None,
            subscription: Some(&id),
        };
        let result = SubscriptionsListenResult::new();
        let written = self.reply(Some(&id), None, out, |buffer| {
            write::result(buffer, &id, |buffer| result.write_result(buffer, listen.revision, Some(stamp)))
        });
        if written.is_ok() && !self.is_closed() {
            let params = CancelledParams::request(id.clone());
            //= S5.3 "Every listen notification has subscriptionId in `_meta`"
            // Its content always encodes.
            //= S5.5 "notifications/cancelled from a server only for a listen request"
            let _ = write_notification(Cancelled::NAME, Some(&id), &params, listen.revision, Some(&id), out);
        }
    }

    /// Removes a subscription from the index, and reports the resources without subscribers to the application.
    pub(super) fn forget_subscription(&mut self, subscription: InboundId) -> Option<ListenRequest> {
        let (listen, unused) = self.subscriptions.used_mut()?.unlisten(subscription)?;
        for uri in unused {
            self.report_unsubscribed(uri);
        }
        Some(listen)
    }

    pub(super) fn report_unsubscribed(&mut self, uri: String) {
        let bytes = uri.len();
        self.events.push(Event::Unsubscribed { uri }, bytes);
    }
}
