//! Change subscriptions, and their registry: of the legacy session to resources, and of modern clients' listen requests. It is
//! indexed by topic, so that the cost of a notification grows with the number of its subscribers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use super::answer::{internal_error, missing_capabilities, resource_not_found};
use super::{Event, PendingRequest, Server};
use crate::inline_map::InlineMap;
use crate::lazy_box::Initial;
use crate::ordered_set::OrderedSet;
use crate::peer::encode::write_notification;
use crate::peer::topic::{ListKind, Topic};
use crate::peer::{AnyResult, InboundId, Outbox, ResultDefaults};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, write};
use crate::schema::{
    Cancelled, CancelledParams, ClientCapabilities, ClientCapability, Notification, ResultType, Revision,
    ServerCapabilities, ServerCapability, SubscriptionFilter, SubscriptionsAcknowledged,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, SubscriptionsListenResult,
};

/// A subscriber to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subscriber {
    Session,
    Listen(InboundId),
}

/// The subscriptions of one connection.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// The number of `subscriptions/listen` requests. Each knows its topics itself.
    pub(super) listens: usize,
    subscribers: InlineMap<Topic, InlineMap<Subscriber, ()>>,
    /// The number of pairs of topic and subscriber, and the bytes of their topics.
    pairs: usize,
    bytes: usize,
    /// The topics whose changes have not been sent yet.
    pub(super) changed: InlineMap<Topic, ()>,
}

impl Initial for Subscriptions {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

impl Subscriptions {
    const fn new() -> Self {
        Self { listens: 0, subscribers: InlineMap::new(), pairs: 0, bytes: 0, changed: InlineMap::new() }
    }

    /// The number of subscriptions: each resource, list and task counts as one, and so does a listen request that is
    /// granted nothing.
    pub(super) fn len(&self) -> usize {
        self.pairs.max(self.listens)
    }

    pub(super) fn has(&self, topic: &Topic, subscriber: Subscriber) -> bool {
        self.subscribers.get(topic).is_some_and(|subscribers| subscribers.contains_key(&subscriber))
    }

    /// Adds a subscriber; returns whether it is the topic's first.
    pub(super) fn add(&mut self, topic: Topic, subscriber: Subscriber) -> bool {
        let bytes = topic.bytes();
        let subscribers = self.subscribers.get_or_insert_with(topic, InlineMap::new);
        let first = subscribers.is_empty();
        if subscribers.insert(subscriber, ()).is_none() {
            self.pairs = self.pairs.saturating_add(1);
            self.bytes = self.bytes.saturating_add(bytes);
        }
        first
    }

    /// Removes a subscriber; returns whether it was the topic's last.
    pub(super) fn remove(&mut self, topic: &Topic, subscriber: Subscriber) -> bool {
        let Some(subscribers) = self.subscribers.get_mut(topic) else { return false };
        if subscribers.remove(&subscriber).is_some() {
            self.pairs = self.pairs.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(topic.bytes());
        }
        let unused = subscribers.is_empty();
        if unused {
            self.subscribers.remove(topic);
        }
        unused
    }

    /// Adds a listen request; returns the resources that had no subscriber before.
    pub(super) fn listen(&mut self, subscription: InboundId, topics: &[Topic]) -> Vec<String> {
        let mut fresh = Vec::new();
        for topic in topics {
            if self.add(topic.clone(), Subscriber::Listen(subscription))
                && let Topic::Resource(uri) = topic
            {
                fresh.push(String::from(&**uri));
            }
        }
        self.listens = self.listens.saturating_add(1);
        fresh
    }

    /// Removes a listen request; returns the resources that have no subscriber left.
    fn unlisten(&mut self, subscription: InboundId, topics: Vec<Topic>) -> Vec<String> {
        self.listens = self.listens.saturating_sub(1);
        self.remove_all(topics, Subscriber::Listen(subscription))
    }

    fn remove_all(&mut self, topics: Vec<Topic>, subscriber: Subscriber) -> Vec<String> {
        let mut unused = Vec::new();
        for topic in topics {
            if self.remove(&topic, subscriber)
                && let Topic::Resource(uri) = topic
            {
                unused.push(String::from(&*uri));
            }
        }
        unused
    }

    /// Removes the session's subscriptions; returns the resources that have no subscriber left.
    pub(super) fn forget_session(&mut self) -> Vec<String> {
        let of_session = |(topic, subscribers): (&Topic, &InlineMap<Subscriber, ()>)| {
            subscribers.contains_key(&Subscriber::Session).then(|| topic.clone())
        };
        let topics = self.subscribers.iter().filter_map(of_session).collect();
        self.remove_all(topics, Subscriber::Session)
    }

    /// The topics that have subscribers.
    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.subscribers.keys()
    }

    /// The subscribers of a topic.
    pub(super) fn subscribers_of(&self, topic: &Topic) -> impl Iterator<Item = Subscriber> + use<'_> {
        self.subscribers.get(topic).into_iter().flat_map(InlineMap::keys).copied()
    }
}

/// The part of `asked` that a server with the capabilities `declared` grants to a client with those of `client`; for
/// resources, `watches` decides, and for tasks `hears`.
///
/// # Errors
/// If the client asks for tasks without declaring support for them.
pub(super) fn grant(
    asked: &SubscriptionFilter,
    declared: &ServerCapabilities,
    client: &ClientCapabilities,
    watches: impl Fn(&str) -> bool,
    hears: impl Fn(&str) -> bool,
) -> Result<(SubscriptionFilter, Vec<Topic>), ErrorObject> {
    let mut granted = SubscriptionFilter::new();
    let mut topics = Vec::new();
    let lists = [
        (asked.tools_list_changed, &mut granted.tools_list_changed, ListKind::Tools),
        (asked.prompts_list_changed, &mut granted.prompts_list_changed, ListKind::Prompts),
        (asked.resources_list_changed, &mut granted.resources_list_changed, ListKind::Resources),
    ];
    for (asked, granted, list) in lists {
        //= S5.1 "No notification types that were not asked"
        if asked == Some(true) && declared.has(list.capability()) {
            *granted = Some(true);
            topics.push(Topic::List(list));
        }
    }
    if let Some(uris) = asked.resource_subscriptions.as_deref()
        && declared.has(ServerCapability::ResourcesSubscribe)
    {
        let mut uris = deduplicated(uris);
        uris.retain(|uri| watches(uri));
        topics.extend(uris.iter().map(|uri| Topic::Resource(uri.as_str().into())));
        granted.resource_subscriptions = Some(uris);
    }
    if let Some(tasks) = asked.task_ids.as_deref()
        && declared.has(ServerCapability::TasksExtension)
    {
        let needed = ClientCapability::TasksExtension;
        //= S11.6 "Undeclared client asking taskIds in listen → -32021"
        if !client.has(needed) {
            return Err(missing_capabilities(ClientCapabilities::default().with(needed)));
        }
        let mut tasks = deduplicated(tasks);
        tasks.retain(|task| hears(task));
        topics.extend(tasks.iter().map(|task| Topic::Task(task.as_str().into())));
        granted.task_ids = Some(tasks);
    }
    Ok((granted, topics))
}

fn deduplicated(names: &[String]) -> Vec<String> {
    let mut seen = OrderedSet::new();
    names.iter().filter(|name| seen.insert(name.as_str())).cloned().collect()
}

impl Server {
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>
    pub(super) fn subscribe(&mut self, uri: String) -> Result<(), ErrorObject> {
        let topic = Topic::Resource(uri.as_str().into());
        if self.subscriptions.has(&topic, Subscriber::Session) {
            return Ok(());
        }
        if !self.may_watch(&uri) {
            let revision = self.session().map_or(Revision::LATEST_LEGACY, |session| session.revision);
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
            return Err(internal_error("the client does not read its messages"));
        }
        served.stored_bytes = served.stored_bytes.saturating_add(bytes);
        let revision = served.revision;
        //= S5.2 "`notifications/subscriptions/acknowledged` first, with granted filter"
        let acknowledged = SubscriptionsAcknowledgedParams::new(granted);
        let subscription = self.track_request(id.clone(), served)?;
        let name = SubscriptionsAcknowledged::NAME;
        let written = write_notification(name, Some(&id), &acknowledged, revision, Some(&id), out);
        if written.is_err() {
            self.take(subscription);
            return Err(internal_error("the acknowledgement cannot be encoded"));
        }
        for uri in self.subscriptions.listen(subscription, &topics) {
            let bytes = uri.len();
            self.events.push(Event::Subscribed { uri }, bytes);
        }
        if let Some((_, served)) = self.inbound.get_mut(subscription) {
            served.listening = Some(topics);
        }
        self.close_if_unread(out);
        Ok(())
    }

    /// Checks that there is room for `count` more subscriptions, with names of `bytes` bytes in all.
    fn check_subscription_room(&self, count: usize, bytes: usize) -> Result<(), ErrorObject> {
        self.check_event_room(bytes)?;
        let limits = &self.config.limits;
        let fits = self.subscriptions.len().saturating_add(count) <= limits.subscriptions
            && self.subscriptions.listens < limits.subscriptions
            && self.subscriptions.bytes.saturating_add(bytes) <= limits.event_bytes;
        let refused = || internal_error("too many subscriptions");
        fits.then_some(()).ok_or_else(refused)
    }

    //= R4 "Server ending a listen on a byte stream: its result, then `notifications/cancelled`"
    /// Ends a subscription gracefully: sends its result and the notification that ends it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure>
    pub(super) fn end_subscription(&mut self, subscription: InboundId, out: &mut dyn Outbox) {
        let Some((id, PendingRequest { revision, listening, .. })) = self.take(subscription) else { return };
        self.forget_subscription(subscription, listening.unwrap_or_default());
        let info = self.info.clone();
        let stamp = ResultDefaults {
            kind: Some(&ResultType::Complete),
            server_info: info.as_deref(),
            hint: None,
            subscription: Some(&id),
        };
        let result = SubscriptionsListenResult::new();
        let written = self.reply(Some(&id), None, out, |buffer| {
            write::result(buffer, &id, |buffer| result.write_result(buffer, revision, Some(stamp)))
        });
        if written.is_ok() && !self.is_closed() {
            let params = CancelledParams::request(id.clone());
            //= S5.3 "Every listen notification has subscriptionId in `_meta`"
            // Its content always encodes.
            //= S5.5 "notifications/cancelled from a server only for a listen request"
            let _ = write_notification(Cancelled::NAME, Some(&id), &params, revision, Some(&id), out);
        }
    }

    /// Removes a subscription from the index, and reports the resources without subscribers to the application.
    pub(super) fn forget_subscription(&mut self, subscription: InboundId, topics: Vec<Topic>) {
        for uri in self.subscriptions.unlisten(subscription, topics) {
            self.report_unsubscribed(uri);
        }
    }

    pub(super) fn report_unsubscribed(&mut self, uri: String) {
        let bytes = uri.len();
        self.events.push(Event::Unsubscribed { uri }, bytes);
    }
}
