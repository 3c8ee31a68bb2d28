//! The watches of a connection, by topic.

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::client::{Event, ServerInfo};
use crate::peer::event_queue::EventQueue;
use crate::peer::topic::{ListKind, Topic};
use crate::peer::{Outcome, RequestId};
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::ServerCapability;

use super::legacy_subscriptions::LegacySubscriptions;
use super::modern_subscription::ModernSubscription;
use super::{Change, ChangeEvidence, WatchFilter};
use super::{WatchConfig, WatchId, WatchStart, WatchState};

#[derive(Debug)]
pub(super) struct Watch {
    pub(super) filter: WatchFilter,
    /// Whether the server reports this topic.
    pub(super) is_covered: bool,
    /// The missing part that was last reported to the application, if any.
    pub(super) reported_missing: Option<WatchFilter>,
    /// Whether a change may have been missed that has not been reported yet.
    pub(super) stale: bool,
}

/// How the client subscribes at this server.
#[derive(Debug)]
pub(super) enum WatchMechanism {
    /// The server's era is not known yet.
    Unknown,
    Modern(Box<ModernSubscription>),
    Legacy(Box<LegacyWatches>),
}

#[derive(Debug)]
pub(super) struct LegacyWatches {
    pub(super) subscriptions: LegacySubscriptions,
    /// The lists whose changes the server reports.
    lists: Vec<ListKind>,
    has_subscribe: bool,
    tasks: bool,
}

impl LegacyWatches {
    pub(super) fn new(server: &ServerInfo, subscriptions: LegacySubscriptions) -> Self {
        Self {
            subscriptions,
            //= C6.7 "list_changed notifications only as declared"
            lists: ListKind::ALL.into_iter().filter(|list| server.allows(list.capability())).collect(),
            //= C6.7 "resources/subscribe + unsubscribe only if `resources.subscribe`"
            has_subscribe: server.allows(ServerCapability::ResourcesSubscribe),
            tasks: server.allows(ServerCapability::Tasks),
        }
    }

    /// Subscribes to a topic that is watched now, if that is a resource and the server lets clients subscribe.
    pub(super) fn subscribe(&mut self, topic: &Topic) {
        if let (Topic::Resource(uri), true) = (topic, self.has_subscribe) {
            self.subscriptions.subscribe(uri);
        }
    }

    /// Whether the server reports this topic, once that is known.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#capabilities>
    pub(super) fn is_covered(&self, topic: &Topic) -> Option<bool> {
        match topic {
            Topic::List(list) => Some(self.lists.contains(list)),
            Topic::Task(_) => Some(self.tasks),
            Topic::Resource(_) if !self.has_subscribe => Some(false),
            Topic::Resource(uri) => self.subscriptions.is_covered(uri),
        }
    }
}

/// The watches of a connection.
#[derive(Debug)]
pub(super) struct WatchRegistry {
    pub(super) config: WatchConfig,
    pub(super) watches: OrderedMap<WatchId, Watch>,
    next: u64,
    /// The watches of each topic.
    pub(super) index: OrderedMap<Topic, OrderedSet<WatchId>>,
    pub(super) mechanism: WatchMechanism,
    /// Whether this client may watch tasks.
    can_watch_tasks: bool,
    /// Whether messages outside of any request cannot be received at all (legacy revisions over HTTP).
    pub(super) lacks_event_stream: bool,
    pub(super) pending: PendingEvents,
    /// Requests that have ended and are not processed yet.
    pub(super) ended: Vec<(RequestId, Outcome)>,
    /// Requests whose outcomes are ignored.
    pub(super) abandoned: OrderedSet<RequestId>,
    /// Whether `drive` may have work to do.
    pub(super) dirty: bool,
}

impl WatchRegistry {
    pub(super) fn new(config: WatchConfig, asks_tasks: bool) -> Self {
        Self {
            config,
            watches: OrderedMap::new(),
            next: 1,
            index: OrderedMap::new(),
            mechanism: WatchMechanism::Unknown,
            can_watch_tasks: asks_tasks,
            lacks_event_stream: false,
            pending: PendingEvents::default(),
            ended: Vec::new(),
            abandoned: OrderedSet::new(),
            dirty: false,
        }
    }

    /// The covered part of a watch's filter: without what is `missing`.
    pub(super) fn covered_topics(&self, id: WatchId, missing: &WatchFilter) -> Vec<Topic> {
        let interest = self.watches.get(&id).map(|watch| watch.filter.0.difference(&missing.0));
        interest.into_iter().flatten().cloned().collect()
    }

    // --- Filters ---

    pub(super) fn add(&mut self, interest: WatchFilter, since: WatchStart) -> WatchId {
        let id = WatchId(self.next);
        self.next = self.next.saturating_add(1);
        for topic in &interest.0 {
            self.add_to_index(topic, id);
        }
        let stale = since == WatchStart::Before;
        self.watches.insert(id, Watch { filter: interest, is_covered: false, reported_missing: None, stale });
        self.dirty = true;
        id
    }

    pub(super) fn change(&mut self, id: WatchId, interest: WatchFilter) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        watch.reported_missing = None;
        let before = core::mem::replace(&mut watch.filter, interest.clone());
        for topic in interest.0.difference(&before.0) {
            self.add_to_index(topic, id);
        }
        for topic in before.0.difference(&interest.0) {
            self.remove_from_index(topic, id);
            self.pending.remove_change(id, topic);
        }
        self.dirty = true;
    }

    /// Removes a watch together with its queued events.
    pub(super) fn remove(&mut self, id: WatchId) {
        let Some(watch) = self.watches.remove(&id) else { return };
        for topic in &watch.filter.0 {
            self.remove_from_index(topic, id);
        }
        self.pending.remove_watch(id);
        self.dirty = true;
    }

    fn add_to_index(&mut self, topic: &Topic, id: WatchId) {
        let interested = self.index.entry(topic.clone()).or_default();
        let first = interested.is_empty();
        interested.insert(id);
        if let (true, WatchMechanism::Legacy(legacy)) = (first, &mut self.mechanism) {
            legacy.subscribe(topic);
        }
    }

    fn remove_from_index(&mut self, topic: &Topic, id: WatchId) {
        let Some(interested) = self.index.get_mut(topic) else { return };
        interested.remove(&id);
        if !interested.is_empty() {
            return;
        }
        self.index.remove(topic);
        if let (Topic::Resource(uri), WatchMechanism::Legacy(legacy)) = (topic, &mut self.mechanism) {
            legacy.subscriptions.unsubscribe(uri);
        }
    }

    /// The union of all filters: the filter to request of a modern server.
    pub(super) fn combined_filter(&self) -> WatchFilter {
        self.index.keys().filter(|topic| self.can_watch(topic)).cloned().collect()
    }

    pub(super) fn can_watch(&self, topic: &Topic) -> bool {
        self.can_watch_tasks || !matches!(topic, Topic::Task(_))
    }

    /// When the watches next have work to do, if nothing else happens first.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.mechanism {
            WatchMechanism::Unknown => None,
            WatchMechanism::Modern(listening) => listening.deadline(),
            WatchMechanism::Legacy(legacy) => legacy.subscriptions.deadline(),
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.dirty || self.deadline().is_some_and(|deadline| deadline <= now)
    }
}

// The queued events of watches: each change and each state once, with its latest content.

/// The contents of the queued events. Each change and each state is queued once; its event gets the latest content when
/// it leaves the queue.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    changes: OrderedMap<(WatchId, Topic), (Option<Raw>, ChangeEvidence)>,
    states: OrderedMap<WatchId, WatchState>,
}

impl PendingEvents {
    /// Queues a change.
    pub(super) fn push_change(
        &mut self,
        id: WatchId,
        topic: Topic,
        update: Option<Raw>,
        why: ChangeEvidence,
        events: &mut EventQueue<Event>,
    ) {
        if let Some(pending) = self.changes.get_mut(&(id, topic.clone())) {
            // The latest status of a task replaces all earlier ones; any other change only says that the topic has
            // changed.
            if update.is_some() || why == ChangeEvidence::MaybeMissed {
                *pending = (update, why);
            }
            return;
        }
        let bytes = topic.bytes().saturating_add(update.as_ref().map_or(0, |update| update.as_bytes().len()));
        self.changes.insert((id, topic.clone()), (update, why));
        events.push(Event::Changed { watch: id, change: Change::new(topic, None), evidence: why }, bytes);
    }

    /// Queues a state, other than the last one.
    pub(super) fn push_state(&mut self, id: WatchId, state: WatchState, events: &mut EventQueue<Event>) {
        if self.states.insert(id, state).is_none() {
            events.push(Event::Watch { watch: id, state: WatchState::Interrupted }, 0);
        }
    }

    pub(super) fn has_change(&self, id: WatchId, topic: &Topic) -> bool {
        self.changes.contains_key(&(id, topic.clone()))
    }

    /// Completes an event that leaves the queue; `false` if it has become void meanwhile.
    pub(super) fn complete(&mut self, event: &mut Event) -> bool {
        match event {
            Event::Changed { watch, change, evidence: why } => {
                let topic = change.topic();
                let Some((update, latest)) = self.changes.remove(&(*watch, topic.clone())) else {
                    return false;
                };
                *change = Change::new(topic, update);
                *why = latest;
            }
            Event::Watch { state: WatchState::Ended(_), .. } => {}
            Event::Watch { watch, state } => {
                let Some(latest) = self.states.remove(watch) else { return false };
                *state = latest;
            }
            _ => {}
        }
        true
    }

    /// Removes a change of a topic that a watch no longer covers.
    pub(super) fn remove_change(&mut self, id: WatchId, topic: &Topic) {
        self.changes.remove(&(id, topic.clone()));
    }

    /// Removes all events of a watch.
    pub(super) fn remove_watch(&mut self, id: WatchId) {
        self.states.remove(&id);
        let first = (id, Topic::List(ListKind::Tools));
        let waiting: Vec<Topic> = (self.changes.range(first..))
            .take_while(|((watch, _), _)| *watch == id)
            .map(|((_, topic), _)| topic.clone())
            .collect();
        for topic in waiting {
            self.changes.remove(&(id, topic));
        }
    }
}
