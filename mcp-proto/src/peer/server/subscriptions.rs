//! Who is told of which changes: the legacy session of the resources that it has subscribed to, and modern clients of
//! what they listen for. The index is by what changes, so that telling costs as much as there are interested.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::inline_map::InlineMap;
use crate::peer::InboundId;
use crate::rpc::{ErrorObject, Id};
use crate::schema::{
    ClientCapabilities, ClientCapability, Json, Meta, Revision, ServerCapabilities, ServerCapability,
    SubscriptionFilter, meta,
};

use super::commands::missing_capabilities;

/// A list that a client can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// Of tools.
    Tools,
    /// Of prompts.
    Prompts,
    /// Of resources and templates.
    Resources,
}

impl ListKind {
    /// The capability that promises news of it.
    pub(super) fn capability(self) -> ServerCapability {
        match self {
            Self::Tools => ServerCapability::ToolsListChanged,
            Self::Prompts => ServerCapability::PromptsListChanged,
            Self::Resources => ServerCapability::ResourcesListChanged,
        }
    }
}

/// Something that changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// A list.
    List(ListKind),
    /// A resource, by its URI.
    Resource(Box<str>),
    /// A task of the tasks extension.
    Task(Box<str>),
}

impl Topic {
    /// How many bytes it has that a client has chosen.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::List(_) => 0,
            Self::Resource(name) | Self::Task(name) => name.len(),
        }
    }
}

/// Somebody who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subscriber {
    Session,
    Listen(InboundId),
}

/// One request that listens.
#[derive(Debug)]
pub(super) struct ListenRequest {
    pub(super) id: Id,
    pub(super) revision: Revision,
    /// What each of its notifications carries: its id.
    pub(super) meta: Meta,
    topics: Vec<Topic>,
}

impl ListenRequest {
    pub(super) fn new(id: Id, revision: Revision, topics: Vec<Topic>) -> Self {
        let meta = Json::encode(&id).into_iter().map(|id| (meta::SUBSCRIPTION_ID, id)).collect();
        Self { id, revision, meta, topics }
    }
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    listens: InlineMap<InboundId, ListenRequest>,
    subscribers: InlineMap<Topic, InlineMap<Subscriber, ()>>,
    /// How many pairs of topic and subscriber there are, and the bytes of their topics.
    pairs: usize,
    bytes: usize,
    /// What has changed and has not been told of yet.
    changed: InlineMap<Topic, ()>,
}

impl Subscriptions {
    /// How many requests listen.
    pub(super) fn listen_count(&self) -> usize {
        self.listens.len()
    }

    /// How many subscriptions are held: each resource, list and task counts, and one that is granted nothing as well.
    pub(super) fn len(&self) -> usize {
        self.pairs.max(self.listens.len())
    }

    /// How many bytes their names have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, subscription: InboundId) -> Option<&ListenRequest> {
        self.listens.get(&subscription)
    }

    pub(super) fn all(&self) -> Vec<InboundId> {
        self.listens.keys().copied().collect()
    }

    pub(super) fn has(&self, topic: &Topic, subscriber: Subscriber) -> bool {
        self.subscribers.get(topic).is_some_and(|subscribers| subscribers.contains_key(&subscriber))
    }

    /// Takes in a subscriber; returns whether nobody was interested before.
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

    /// Forgets a subscriber; returns whether nobody is interested any more, and somebody was.
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

    /// Takes in a request that listens; returns the resources that nobody was interested in before.
    pub(super) fn listen(&mut self, subscription: InboundId, listen: ListenRequest) -> Vec<String> {
        let mut fresh = Vec::new();
        for topic in &listen.topics {
            if self.add(topic.clone(), Subscriber::Listen(subscription))
                && let Topic::Resource(uri) = topic
            {
                fresh.push(String::from(&**uri));
            }
        }
        self.listens.insert(subscription, listen);
        fresh
    }

    /// Forgets a request that listened; returns it and the resources that nobody is interested in any more.
    pub(super) fn unlisten(&mut self, subscription: InboundId) -> Option<(ListenRequest, Vec<String>)> {
        let listen = self.listens.remove(&subscription)?;
        let mut unused = Vec::new();
        for topic in &listen.topics {
            if self.remove(topic, Subscriber::Listen(subscription))
                && let Topic::Resource(uri) = topic
            {
                unused.push(String::from(&**uri));
            }
        }
        Some((listen, unused))
    }

    /// Forgets the session; returns the resources that nobody is interested in any more.
    pub(super) fn forget_session(&mut self) -> Vec<String> {
        let of_session = |(topic, subscribers): (&Topic, &InlineMap<Subscriber, ()>)| {
            subscribers.contains_key(&Subscriber::Session).then(|| topic.clone())
        };
        let topics: Vec<Topic> = self.subscribers.iter().filter_map(of_session).collect();
        let mut unused = Vec::new();
        for topic in topics {
            if self.remove(&topic, Subscriber::Session)
                && let Topic::Resource(uri) = topic
            {
                unused.push(String::from(uri));
            }
        }
        unused
    }

    /// What anybody wants to know of.
    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.subscribers.keys()
    }

    /// Who wants to know.
    pub(super) fn subscribers_of(&self, topic: &Topic) -> impl Iterator<Item = Subscriber> + use<'_> {
        self.subscribers.get(topic).into_iter().flat_map(InlineMap::keys).copied()
    }

    /// Notes that something has changed that somebody wants to know of.
    pub(super) fn mark_changed(&mut self, topic: Topic) {
        self.changed.insert(topic, ());
    }

    pub(super) fn take_changed(&mut self) -> Option<Topic> {
        self.changed.pop_first().map(|(topic, ())| topic)
    }

    pub(super) fn has_pending_changes(&self) -> bool {
        !self.changed.is_empty()
    }
}

/// What of `asked` a server with the capabilities `declared` grants to a client with those of `client`; of tasks, what
/// `hears` says.
///
/// # Errors
/// If the client asks for tasks and has not declared that it knows them.
pub(super) fn grant(
    asked: &SubscriptionFilter,
    declared: &ServerCapabilities,
    client: &ClientCapabilities,
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
        if asked == Some(true) && declared.has(list.capability()) {
            *granted = Some(true);
            topics.push(Topic::List(list));
        }
    }
    if let Some(uris) = asked.resource_subscriptions.as_deref()
        && declared.has(ServerCapability::ResourcesSubscribe)
    {
        let uris = deduplicated(uris);
        topics.extend(uris.iter().map(|uri| Topic::Resource(uri.as_str().into())));
        granted.resource_subscriptions = Some(uris);
    }
    if let Some(tasks) = asked.task_ids.as_deref()
        && declared.has(ServerCapability::TasksExtension)
    {
        let needed = ClientCapability::TasksExtension;
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
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(name.as_str())).cloned().collect()
}
