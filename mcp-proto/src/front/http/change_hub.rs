//! The change-notification hub of a server, over all exchanges and sessions.
//!
//! Publishing marks the change in the mailbox of each subscriber and wakes it; the subscriber takes its changes when it
//! is polled. A mailbox holds each topic once, so it never holds more topics than its owner subscribed to. The messages
//! of the application to legacy sessions take the same way, in a bounded queue.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};
use std::sync::Mutex;

use serde::Serialize;

use super::{HttpHandle, HttpServerEvent};
use crate::Instant;
use crate::front::events::{EventSource, Listeners};
use crate::front::handler::connection::HandlerReports;
use crate::front::router::ChangeListener;
use crate::front::wakers::{Signal, Wakers, lock};
use crate::front::{BlockedHandler, Error};
use crate::inline_map::InlineMap;
use crate::peer::reserved_methods::check_server_notification;
use crate::peer::server::{ListKind, ServerCommands, ServerTransport, Topic};
use crate::peer::{AnyParams, RequestError};
use crate::rpc::Raw;
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{CustomParams, Json, LoggingLevel, LoggingMessageParams, Notification};

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
        self.changes.is_empty() && self.broadcasts.messages.is_empty()
    }

    /// Passes changes and messages to a machine, which drops the messages that its client does not read.
    pub(super) fn deliver<M: ServerTransport>(&self, machine: &mut M, now: Instant) {
        let mut commands = ServerCommands::new(machine, now);
        for (topic, task) in self.changes.iter() {
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
}

/// The subscribers by topic.
#[derive(Default)]
pub(super) struct Hub(Mutex<SubscriberIndex>);

#[derive(Default)]
struct SubscriberIndex {
    topics: BTreeMap<Topic, InlineMap<u64, Arc<Mailbox>>>,
    connections: BTreeMap<u64, (ConnectionKind, Arc<Mailbox>)>,
    next: u64,
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
    fn broadcast(&self, message: Broadcast) {
        let mailboxes: Vec<Arc<Mailbox>> =
            lock(&self.0).connections.values().map(|(_, mailbox)| mailbox.clone()).collect();
        let message = Arc::new(message);
        for mailbox in mailboxes {
            mailbox.add(|mail| mail.broadcasts.push(message.clone()));
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
        self.publish(&Topic::List(list), None);
    }

    fn resource_updated(&self, uri: &str) {
        self.publish(&Topic::Resource(uri.into()), None);
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
enum Broadcast {
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

/// Messages outside of requests.
impl HttpHandle {
    /// Logs to the clients of legacy sessions, independently of their requests: to each that has set a log level which
    /// includes `level`, and that has the stream for such messages open (GET). Other clients never receive the message.
    ///
    /// A client of 2026-07-28 receives none: its log messages belong to a request, for which the handler
    /// [logs](crate::front::Context::log). The capability must have been [declared](crate::front::Router::declare).
    ///
    /// The message goes to clients of all principals: it must contain no secrets, and nothing about one of them. A
    /// client that does not read loses messages and delays no other.
    ///
    /// ```
    /// # use mcp_proto::front::http::HttpHandle;
    /// # use mcp_proto::schema::LoggingLevel;
    /// # fn example(server: &HttpHandle) {
    /// server.log(LoggingLevel::Warning, Some("disk".into()), "almost full");
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, logger: Option<String>, data: impl Serialize) {
        // Data that does not serialize cannot be sent.
        let Ok(data) = Json::encode(&data) else { return };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger;
        //= S8.18 "only on that request's stream"
        self.service.hub.broadcast(Broadcast::Log(params));
    }

    /// Sends a notification that the protocol does not define to all legacy sessions.
    ///
    /// A session without an open stream for such messages (GET) receives it when the stream is opened; a client that
    /// does not read loses notifications and delays no other. A client of 2026-07-28 receives only the notifications
    /// that it subscribed to, so none of these.
    ///
    /// # Errors
    /// If the parameters do not serialize, or the name is one of the protocol's, which other methods send.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#opening-a-stream>
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.broadcast(N::NAME, params.to_raw())
    }

    /// Sends a notification by its name to all legacy sessions, like [`notify`](Self::notify). `params` is any value
    /// that serializes to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::Error;
    /// # use mcp_proto::front::http::HttpHandle;
    /// # use serde_json::json;
    /// # fn example(server: &HttpHandle) -> Result<(), Error> {
    /// server.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        self.broadcast(method, Raw::encode(&params))
    }

    fn broadcast(&self, method: &str, params: Result<Raw, serde_json::Error>) -> Result<(), Error> {
        let unencodable = |error: serde_json::Error| RequestError::Encode(error.to_string());
        check_server_notification(method)?;
        let raw = params.map_err(unencodable)?;
        let bytes = raw.as_bytes().len();
        let params = match raw.as_str() {
            "null" => CustomParams::new(),
            _ => raw.decode().map_err(unencodable)?,
        };
        self.service.hub.broadcast(Broadcast::Notification { method: method.into(), params, bytes });
        Ok(())
    }
}
