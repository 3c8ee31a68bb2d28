//! The change-notification hub of a server, over all exchanges and sessions.
//!
//! Publishing marks the change in the mailbox of each subscriber and wakes it; the subscriber takes its changes when it
//! is polled. A mailbox holds each topic once, so it never holds more topics than its owner subscribed to. The messages
//! of the application to legacy sessions take the same way, in a bounded queue.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::{Poll, Waker};

use super::relay::{Change, RelayOutbox};
use crate::Instant;
use crate::front::BlockedHandler;
use crate::front::events::{EventSource, ListenerEvent, Listeners};
use crate::front::handler::connection::HandlerReports;
use crate::front::router::ChangeListener;
use crate::front::wakers::{Signal, Wakers, lock};
use crate::inline_map::InlineMap;
use crate::ordered_map::OrderedMap;
use crate::peer::server::{ListKind, ServerCommands, ServerTransport, Topic};
use crate::prelude::*;
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{CustomParams, LoggingMessageParams};
use crate::sync::Mutex;

/// An event of a server over HTTP: mostly a change in the resource subscriptions of all its clients.
///
/// Its clients are listening clients of 2026-07-28 and sessions of earlier revisions. A server that watches files, for
/// example, learns here which files to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpServerEvent {
    /// A client subscribed to a resource that no other client was subscribed to. The application reports its changes
    /// with [`HttpHandle::resource_updated`](super::HttpHandle::resource_updated).
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// The last subscription to a resource ended.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// A handler blocked the driver or the task of its request, for the log.
    HandlerBlocked(BlockedHandler),
    /// A handler logged, and the server does not declare `logging`: its messages are dropped. Reported once. Declare the
    /// capability ([`Router::declare`](crate::front::Router::declare)).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    UndeclaredLogging,
    /// A layer wanted to drop a message that is no notification, or one on which others depend. It was not dropped.
    LayerDropIgnored {
        /// Its method, or a note that it is an answer.
        message: String,
    },
    /// This listener lost events, because it did not take them in time.
    ///
    /// [`HttpHandle::subscribed_resources`](super::HttpHandle::subscribed_resources) returns the current subscriptions.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// Nothing has polled the [driver](super::HttpServerDriver): a request of a legacy session, or a call that becomes a
    /// task, has waited for a second, or a WebSocket was requested that the driver would serve. Such a request of a
    /// session or for a WebSocket is answered with 503; the task does not begin.
    DriverNotPolled,
    /// A change could not be published to the other instances, and neither could any after it so far: the relay failed,
    /// with this message for logs. The driver tries again.
    RelayFailed {
        /// The message of the [relay](super::ChangeRelay).
        message: String,
    },
    /// The server was closed. This is the last event.
    Closed,
}

impl ListenerEvent for HttpServerEvent {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        *self == Self::Closed
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Subscribed { uri } | Self::Unsubscribed { uri } => uri.len(),
            Self::HandlerBlocked(blocked) => blocked.bytes(),
            Self::LayerDropIgnored { message } | Self::RelayFailed { message } => message.len(),
            _ => 0,
        }
    }
}

/// The pending changes and messages of a subscriber, with the signal that wakes it.
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    pub(super) signal: Arc<Signal>,
}

/// What a subscriber takes from its mailbox.
#[derive(Default)]
pub(super) struct Mail {
    /// The changed topics; for a task, with its latest status.
    changes: InlineMap<Topic, Option<Arc<TaskUpdatedParams>>>,
    /// Whether other changes were lost, of any list or resource.
    has_lost_changes: bool,
    /// The messages for a legacy session or a channel.
    broadcasts: BroadcastQueue,
}

impl Mailbox {
    /// Adds mail, and wakes the owner; earlier mail has already woken it. What `add` returns is dropped outside of the lock.
    fn add<R>(&self, add: impl FnOnce(&mut Mail) -> R) {
        let (is_first, added) = {
            let mut mail = lock(&self.mail);
            (mail.is_empty(), add(&mut mail))
        };
        drop(added);
        if is_first {
            self.signal.notify();
        }
    }

    pub(super) fn has_mail(&self) -> bool {
        !lock(&self.mail).is_empty()
    }

    pub(super) fn take(&self) -> Mail {
        core::mem::take(&mut *lock(&self.mail))
    }
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.has_lost_changes && self.broadcasts.messages.is_empty()
    }

    /// Passes changes and messages to a machine, which drops the messages that its client does not read.
    pub(super) fn deliver<M: ServerTransport>(&self, machine: &mut M, now: Instant) {
        if self.has_lost_changes {
            Self::deliver_all(machine, now);
        }
        let mut commands = ServerCommands::new(machine, now);
        let is_new = |topic: &Topic| !self.has_lost_changes || matches!(topic, Topic::Task(_));
        for (topic, task) in self.changes.iter().filter(|(topic, _)| is_new(topic)) {
            match (topic, task) {
                (Topic::List(list), _) => commands.list_changed(*list),
                (Topic::Resource(uri), _) => commands.resource_updated(uri),
                (Topic::Task(_), Some(task)) => {
                    commands.task_updated(task);
                }
                (Topic::Task(_), None) => {}
            }
        }
        for message in &self.broadcasts.messages {
            message.deliver(machine, now);
        }
    }

    /// Passes a change of every list, and of every resource that the client subscribed to.
    fn deliver_all<M: ServerTransport>(machine: &mut M, now: Instant) {
        let topics: Vec<Topic> = machine.peer().topics().cloned().collect();
        let mut commands = ServerCommands::new(machine, now);
        for list in ListKind::ALL {
            commands.list_changed(list);
        }
        for topic in topics {
            if let Topic::Resource(uri) = topic {
                commands.resource_updated(&uri);
            }
        }
    }
}

/// The subscribers by topic.
#[derive(Default)]
pub(super) struct Hub(Mutex<SubscriberIndex>);

#[derive(Default)]
struct SubscriberIndex {
    topics: OrderedMap<Topic, InlineMap<u64, Arc<Mailbox>>>,
    connections: OrderedMap<u64, (ConnectionKind, Arc<Mailbox>)>,
    next: u64,
    /// The changes for other instances, if the server has a relay.
    outbox: Option<Arc<RelayOutbox>>,
    /// The listeners for changes in resource subscriptions.
    listeners: Listeners<HttpServerEvent>,
    /// Whether it was reported that handlers log although the server does not declare it.
    has_reported_logging: bool,
}

/// A connection of several requests, which receives changes without a subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    /// A legacy session receives the changes of all lists.
    Session,
    /// A channel receives all changes, as its machine knows what its client subscribed to.
    Channel,
}

impl Hub {
    /// Runs `act` under the lock, then calls the collected wakers.
    fn update<R>(&self, act: impl FnOnce(&mut SubscriberIndex, &mut Wakers) -> R) -> R {
        let mut wakers = Wakers::default();
        let result = act(&mut lock(&self.0), &mut wakers);
        wakers.release();
        result
    }

    /// Adds a connection of several requests, which `signal` wakes.
    pub(super) fn connect(self: &Arc<Self>, signal: &Arc<Signal>, kind: ConnectionKind) -> Subscriber {
        self.update(|index, wakers| {
            let subscriber = self.enter(index, signal, InlineMap::new(), wakers);
            index.connections.insert(subscriber.key, (kind, subscriber.mailbox.clone()));
            subscriber
        })
    }

    /// Opens a subscriber with `open` and adds it, unless it has no topics. No change is published between its opening
    /// and its entry.
    pub(super) fn open<R>(
        self: &Arc<Self>,
        signal: &Arc<Signal>,
        open: impl FnOnce() -> (R, InlineMap<Topic, ()>),
    ) -> (R, Option<Subscriber>) {
        self.update(|index, wakers| {
            let (opened, topics) = open();
            let subscriber = (!topics.is_empty()).then(|| self.enter(index, signal, topics, wakers));
            (opened, subscriber)
        })
    }

    fn enter(
        self: &Arc<Self>,
        index: &mut SubscriberIndex,
        signal: &Arc<Signal>,
        topics: InlineMap<Topic, ()>,
        wakers: &mut Wakers,
    ) -> Subscriber {
        let key = index.next;
        index.next = key.saturating_add(1);
        let mailbox = Arc::new(Mailbox { mail: Mutex::default(), signal: signal.clone() });
        for topic in topics.keys() {
            index.add(topic.clone(), key, &mailbox, wakers);
        }
        Subscriber { hub: self.clone(), key, mailbox, topics }
    }

    pub(super) fn task_updated(&self, params: &TaskUpdatedParams) {
        let topic = Topic::Task(params.task_id.as_str().into());
        self.publish(&topic, Some(&Arc::new(params.clone())));
    }

    /// Queues a message for every legacy session and every channel.
    pub(super) fn broadcast(&self, message: Broadcast) {
        let mailboxes: Vec<Arc<Mailbox>> =
            lock(&self.0).connections.values().map(|(_, mailbox)| mailbox.clone()).collect();
        let message = Arc::new(message);
        for mailbox in mailboxes {
            mailbox.add(|mail| mail.broadcasts.push(message.clone()));
        }
    }

    // --- Other instances ---

    /// Queues the changes of the application from now on for other instances.
    pub(super) fn relay_to_others(&self) -> Arc<RelayOutbox> {
        lock(&self.0).outbox.get_or_insert_default().clone()
    }

    fn publish_everywhere(&self, topic: &Topic, change: Change) {
        self.publish(topic, None);
        let outbox = lock(&self.0).outbox.clone();
        if let Some(outbox) = outbox {
            outbox.add([change]);
        }
    }

    /// Publishes a change that another instance reported.
    pub(super) fn receive(&self, change: &Change) {
        match change {
            Change::List(list) => self.publish(&Topic::List(*list), None),
            Change::Resource(uri) => self.publish(&Topic::Resource(uri.as_str().into()), None),
            Change::Any => self.publish_lost_changes(),
        }
    }

    /// Notifies every subscriber of all its topics, so that it reads them again.
    fn publish_lost_changes(&self) {
        let mailboxes: Vec<Arc<Mailbox>> = {
            let index = lock(&self.0);
            let subscribers = index.topics.values().flat_map(InlineMap::values);
            let connections = index.connections.values().map(|(_, mailbox)| mailbox);
            subscribers.chain(connections).cloned().collect()
        };
        for mailbox in mailboxes {
            mailbox.add(|mail| mail.has_lost_changes = true);
        }
    }

    // --- Listeners for subscription changes ---

    pub(super) fn listen(&self) -> u64 {
        lock(&self.0).listeners.add()
    }

    /// Publishes an event to the application's listeners.
    pub(super) fn report(&self, event: &HttpServerEvent) {
        self.update(|index, wakers| index.listeners.publish(event, wakers));
    }

    /// The resources that have subscribers.
    pub(super) fn resources(&self) -> Vec<String> {
        let uri = |topic: &Topic| match topic {
            Topic::Resource(uri) => Some(String::from(&**uri)),
            _ => None,
        };
        lock(&self.0).topics.keys().filter_map(uri).collect()
    }

    /// Publishes the last event, and wakes the connections.
    pub(super) fn close(&self) {
        let mailboxes: Vec<Arc<Mailbox>> = self.update(|index, wakers| {
            index.listeners.finish(HttpServerEvent::Closed, wakers);
            index.connections.values().map(|(_, mailbox)| mailbox.clone()).collect()
        });
        for mailbox in mailboxes {
            mailbox.signal.notify();
        }
    }

    /// Marks the change as pending for every subscriber of the topic.
    fn publish(&self, topic: &Topic, task: Option<&Arc<TaskUpdatedParams>>) {
        let interested: Vec<Arc<Mailbox>> = {
            let index = lock(&self.0);
            let subscribers = index.topics.get(topic).into_iter().flat_map(InlineMap::values);
            let is_list = matches!(topic, Topic::List(_));
            let connections = index.connections.values();
            let connections = connections.filter(|(kind, _)| is_list || *kind == ConnectionKind::Channel);
            subscribers.chain(connections.map(|(_, mailbox)| mailbox)).cloned().collect()
        };
        for mailbox in interested {
            mailbox.add(|mail| mail.changes.insert(topic.clone(), task.cloned()));
        }
    }
}

/// The key of a subscriber that was moved away. The keys count from 0, so no other has it.
const NO_SUBSCRIBER: u64 = u64::MAX;

/// A subscriber, which is removed when dropped.
pub(super) struct Subscriber {
    pub(super) hub: Arc<Hub>,
    key: u64,
    pub(super) mailbox: Arc<Mailbox>,
    topics: InlineMap<Topic, ()>,
}

impl HandlerReports for Hub {
    fn handler_blocked(&self, blocked: BlockedHandler) {
        let event = HttpServerEvent::HandlerBlocked(blocked);
        self.update(|index, wakers| index.listeners.publish(&event, wakers));
    }

    fn undeclared_logging(&self) -> bool {
        self.update(|index, wakers| {
            let is_first = !core::mem::replace(&mut index.has_reported_logging, true);
            if is_first {
                index.listeners.publish(&HttpServerEvent::UndeclaredLogging, wakers);
            }
            is_first
        })
    }

    fn layer_drop_ignored(&self, message: String) {
        self.report(&HttpServerEvent::LayerDropIgnored { message });
    }
}

impl Subscriber {
    /// Moves the subscriptions to a new value; this one has none afterwards.
    pub(super) fn take(&mut self) -> Self {
        let key = core::mem::replace(&mut self.key, NO_SUBSCRIBER);
        let topics = core::mem::take(&mut self.topics);
        Self { hub: self.hub.clone(), key, mailbox: self.mailbox.clone(), topics }
    }

    /// Subscribes to another topic.
    pub(super) fn add(&mut self, topic: Topic, wakers: &mut Wakers) {
        lock(&self.hub.0).add(topic.clone(), self.key, &self.mailbox, wakers);
        self.topics.insert(topic, ());
    }

    /// Unsubscribes from a topic.
    pub(super) fn remove(&mut self, topic: &Topic, wakers: &mut Wakers) {
        if self.topics.remove(topic).is_some() {
            lock(&self.hub.0).remove(topic, self.key, wakers);
        }
    }
}

impl SubscriberIndex {
    fn add(&mut self, topic: Topic, key: u64, mailbox: &Arc<Mailbox>, wakers: &mut Wakers) {
        if !self.topics.contains_key(&topic) {
            self.publish_interest(&topic, |uri| HttpServerEvent::Subscribed { uri }, wakers);
        }
        self.topics.entry(topic).or_default().insert(key, mailbox.clone());
    }

    /// The subscriber shares the mailbox, so its content is not dropped here.
    fn remove(&mut self, topic: &Topic, key: u64, wakers: &mut Wakers) {
        let Some(interested) = self.topics.get_mut(topic) else { return };
        interested.remove(&key);
        if interested.is_empty() {
            self.topics.remove(topic);
            self.publish_interest(topic, |uri| HttpServerEvent::Unsubscribed { uri }, wakers);
        }
    }

    /// Publishes that a resource got its first subscriber or lost its last one.
    fn publish_interest(&mut self, topic: &Topic, event: fn(String) -> HttpServerEvent, wakers: &mut Wakers) {
        if let (Topic::Resource(uri), false) = (topic, self.listeners.is_empty()) {
            self.listeners.publish(&event(String::from(&**uri)), wakers);
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.hub.update(|index, wakers| {
            index.connections.remove(&self.key);
            for topic in self.topics.keys() {
                index.remove(topic, self.key, wakers);
            }
        });
    }
}

impl ChangeListener for Hub {
    fn list_changed(&self, list: ListKind) {
        self.publish_everywhere(&Topic::List(list), Change::List(list));
    }

    fn resource_updated(&self, uri: &str) {
        self.publish_everywhere(&Topic::Resource(uri.into()), Change::Resource(uri.into()));
    }
}

impl EventSource<HttpServerEvent> for Arc<Hub> {
    fn poll_event(&self, key: u64, waker: Waker) -> Poll<Option<HttpServerEvent>> {
        self.update(|index, wakers| index.listeners.poll(key, waker, wakers))
    }

    fn leave(&self, key: u64) {
        self.update(|index, wakers| index.listeners.remove(key, wakers));
    }
}

/// The number of messages that wait for the driver in one session.
const MAX_MESSAGES: usize = 256;
/// Their size in bytes, unless it is one message alone.
const MAX_BYTES: usize = 1024 * 1024;

/// A message to all sessions.
pub(super) enum Broadcast {
    Log(LoggingMessageParams),
    Notification { method: String, params: CustomParams, bytes: usize },
}

impl Broadcast {
    fn deliver<M: ServerTransport>(&self, machine: &mut M, now: Instant) {
        match self {
            Self::Log(params) => {
                let asked = machine.peer().session().is_some_and(|session| session.log_level.is_some());
                if asked && machine.lend(now).outbox.has_reader() {
                    ServerCommands::new(machine, now).log(None, params);
                }
            }
            Self::Notification { method, params, .. } => {
                // A session that cannot have it yet, or any more, is left out.
                let _ = ServerCommands::new(machine, now).notify_custom(None, method, params);
            }
        }
    }

    /// The approximate size in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Log(params) => {
                params.data.as_str().len().saturating_add(params.logger.as_ref().map_or(0, String::len))
            }
            Self::Notification { method, bytes, .. } => method.len().saturating_add(*bytes),
        }
    }
}

/// The messages that wait for one session, until the driver polls it. All sessions share each message.
#[derive(Default)]
struct BroadcastQueue {
    messages: VecDeque<Arc<Broadcast>>,
    bytes: usize,
}

impl BroadcastQueue {
    /// Queues a message, or drops it if the queue is full.
    fn push(&mut self, message: Arc<Broadcast>) {
        let bytes = self.bytes.saturating_add(message.bytes());
        if self.messages.is_empty() || (self.messages.len() < MAX_MESSAGES && bytes <= MAX_BYTES) {
            self.bytes = bytes;
            self.messages.push_back(message);
        }
    }
}
