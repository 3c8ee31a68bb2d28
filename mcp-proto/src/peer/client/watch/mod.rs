//! Watches: change notifications of every era, for as long as the connection lasts.
//!
//! Each watch has a filter of its own. The client asks the server to report the union of all filters: a modern
//! one with one request that [listens](modern_subscription), a legacy one with a [subscription](legacy_subscriptions)
//! for each resource.

mod drive;
mod filter;
mod legacy_subscriptions;
mod modern_subscription;
mod notify;
mod retry_class;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, BackoffTimer};
use crate::peer::Outcome;
use crate::peer::client::{Event, ServerInfo};
use crate::peer::event_queue::EventQueue;
use crate::rpc::Raw;
use crate::schema::{Era, ServerCapability};

pub(super) use drive::NotificationScope;
pub(crate) use filter::Topic;
pub use filter::{Change, ChangeEvidence, WatchFilter};

use legacy_subscriptions::LegacySubscriptions;
use modern_subscription::ModernSubscription;

/// The identifier of a watch; the events about its changes carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

impl fmt::Debug for WatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch {}", self.0)
    }
}

/// Configuration of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchConfig {
    /// The pause after the server was lost for the first time; each further pause is twice as long. Half of each pause
    /// is random, so that not all clients reconnect to a restarted server at once. Default 500 ms.
    pub first_pause: Duration,
    /// The longest pause. Default 30 s: once the server is back, changes are missed for no longer than that.
    pub longest_pause: Duration,
    /// How a watch reacts when the server ends it in an orderly way. Default: the watch ends.
    pub on_server_end: OnServerEnd,
    /// The seed of the random part of the pauses; it should differ between clients. Over HTTP the
    /// [seed](crate::transport) of the transport is used instead. Default 0.
    pub seed: u64,
}

impl WatchConfig {
    /// The pauses between attempts to listen again.
    fn backoff_timer(&self) -> BackoffTimer {
        /// How often a reachable server may refuse before its refusal is final.
        const MAX_REFUSALS: u32 = 5;
        let Self { first_pause: first, longest_pause: longest, seed, .. } = *self;
        BackoffTimer::new(Backoff { first, longest, attempts: MAX_REFUSALS }, seed)
    }
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            on_server_end: OnServerEnd::default(),
            seed: 0,
        }
    }
}

/// How a watch reacts when a server ends its subscription in an orderly way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerEnd {
    /// The watches end.
    #[default]
    Stop,
    /// The client subscribes again after a pause, as if the server had been lost: for deployments where another
    /// instance takes over from one that shuts down.
    Listen,
}

/// Whether the application has older copies of the topics that it starts to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchStart {
    /// It has none: it fetches the data once the watch is [on](WatchState::On).
    #[default]
    Now,
    /// It has fetched copies earlier, perhaps on another connection: every topic is reported as possibly changed.
    Before,
}

/// The state of a watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchState {
    /// Changes are reported from now on. Data fetched after this event is kept up to date.
    On {
        /// The part of the filter that the server does not report.
        missing: WatchFilter,
    },
    /// No notifications arrive for now. The client subscribes again, unless the server is a legacy one over HTTP that
    /// offers no stream of its own. Once notifications arrive again, every topic is reported as possibly changed.
    Interrupted,
    /// The watch has ended; no event about it follows.
    Ended(WatchEnd),
}

/// Why a watch ended, other than by the client or with the connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchEnd {
    /// The server ended it in an orderly way. The application may watch again.
    ByServer,
    /// The server does not report changes, or not these; with its answer.
    Refused(Box<Outcome>),
}

impl fmt::Display for WatchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByServer => f.write_str("the server has ended the subscription"),
            Self::Refused(outcome) => write!(f, "the server does not notify of changes: {outcome}"),
        }
    }
}

/// The kind of channel that carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChannelKind {
    /// All on one channel, in order.
    #[default]
    Shared,
    /// Each exchange on its own.
    #[cfg(feature = "http")]
    Separate,
}

#[derive(Debug)]
struct Watch {
    filter: WatchFilter,
    /// Whether the server reports this topic.
    is_covered: bool,
    /// The missing part that was last reported to the application, if any.
    reported_missing: Option<WatchFilter>,
    /// Whether a change may have been missed that has not been reported yet.
    stale: bool,
}

/// How the client subscribes at this server.
#[derive(Debug)]
enum WatchMechanism {
    /// The server's era is not known yet.
    Unknown,
    Modern(Box<ModernSubscription>),
    Legacy(Box<LegacyWatches>),
}

#[derive(Debug)]
struct LegacyWatches {
    subscriptions: LegacySubscriptions,
    tools: bool,
    prompts: bool,
    resources: bool,
    subscribe: bool,
    tasks: bool,
}

impl LegacyWatches {
    /// Whether the server reports this topic, once that is known.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#capabilities>
    fn is_covered(&self, topic: &Topic) -> Option<bool> {
        match topic {
            Topic::Tools => Some(self.tools),
            Topic::Prompts => Some(self.prompts),
            Topic::Resources => Some(self.resources),
            Topic::Task(_) => Some(self.tasks),
            Topic::Resource(_) if !self.subscribe => Some(false),
            Topic::Resource(uri) => self.subscriptions.is_covered(uri),
        }
    }
}

/// The watches of a connection.
#[derive(Debug)]
pub(super) struct WatchRegistry {
    config: WatchConfig,
    watches: BTreeMap<WatchId, Watch>,
    next: u64,
    /// The watches of each topic.
    index: BTreeMap<Topic, BTreeSet<WatchId>>,
    mechanism: WatchMechanism,
    /// Whether this client may watch tasks.
    can_watch_tasks: bool,
    /// Whether messages outside of any request cannot be received at all (legacy revisions over HTTP).
    lacks_event_stream: bool,
    /// The changes queued as events, each of them once.
    pending: BTreeMap<(WatchId, Topic), (Option<Raw>, ChangeEvidence)>,
    /// The states queued as events: the latest of each watch.
    states: BTreeMap<WatchId, WatchState>,
    /// Requests that have ended and are not processed yet.
    ended: Vec<(i64, Outcome)>,
    /// Requests whose outcomes are ignored.
    abandoned: BTreeSet<i64>,
    /// Whether `drive` may have work to do.
    dirty: bool,
}

impl WatchRegistry {
    fn new(config: WatchConfig, asks_tasks: bool) -> Self {
        Self {
            config,
            watches: BTreeMap::new(),
            next: 1,
            index: BTreeMap::new(),
            mechanism: WatchMechanism::Unknown,
            can_watch_tasks: asks_tasks,
            lacks_event_stream: false,
            pending: BTreeMap::new(),
            states: BTreeMap::new(),
            ended: Vec::new(),
            abandoned: BTreeSet::new(),
            dirty: false,
        }
    }

    /// The covered part of a watch's filter: without what is `missing`.
    pub(super) fn covered_topics(&self, id: WatchId, missing: &WatchFilter) -> Vec<Topic> {
        let interest = self.watches.get(&id).map(|watch| watch.filter.0.difference(&missing.0));
        interest.into_iter().flatten().cloned().collect()
    }

    // --- Filters ---

    fn add(&mut self, interest: WatchFilter, since: WatchStart) -> WatchId {
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

    fn change(&mut self, id: WatchId, interest: WatchFilter) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        watch.reported_missing = None;
        let before = core::mem::replace(&mut watch.filter, interest.clone());
        for topic in interest.0.difference(&before.0) {
            self.add_to_index(topic, id);
        }
        for topic in before.0.difference(&interest.0) {
            self.remove_from_index(topic, id);
            self.pending.remove(&(id, topic.clone()));
        }
        self.dirty = true;
    }

    /// Removes a watch together with its queued events.
    fn remove(&mut self, id: WatchId) {
        let Some(watch) = self.watches.remove(&id) else { return };
        for topic in &watch.filter.0 {
            self.remove_from_index(topic, id);
        }
        self.states.remove(&id);
        let first = (id, Topic::Tools);
        let waiting: Vec<Topic> = (self.pending.range(first..))
            .take_while(|((watch, _), _)| *watch == id)
            .map(|((_, topic), _)| topic.clone())
            .collect();
        for topic in waiting {
            self.pending.remove(&(id, topic));
        }
        self.dirty = true;
    }

    fn add_to_index(&mut self, topic: &Topic, id: WatchId) {
        let interested = self.index.entry(topic.clone()).or_default();
        let first = interested.is_empty();
        interested.insert(id);
        if let (true, Topic::Resource(uri), WatchMechanism::Legacy(legacy)) =
            (first, topic, &mut self.mechanism)
            && legacy.subscribe
        {
            legacy.subscriptions.subscribe(uri);
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
    fn combined_filter(&self) -> WatchFilter {
        self.index.keys().filter(|topic| self.can_watch(topic)).cloned().collect()
    }

    fn can_watch(&self, topic: &Topic) -> bool {
        self.can_watch_tasks || !matches!(topic, Topic::Task(_))
    }

    // --- The server ---

    /// Starts on a server that is now known, or known again after a new handshake: a legacy server has lost the earlier
    /// subscriptions.
    fn begin(&mut self, server: &ServerInfo, channel: ChannelKind, events: &mut EventQueue<Event>) {
        self.dirty = true;
        self.lacks_event_stream = false;
        match (server.era, &self.mechanism) {
            (Era::Modern, WatchMechanism::Modern(_)) => {}
            (Era::Modern, _) => {
                self.interrupt(events);
                self.abandon();
                self.mechanism =
                    WatchMechanism::Modern(Box::new(ModernSubscription::new(&self.config, channel)));
            }
            (Era::Legacy, _) => {
                self.interrupt(events);
                self.begin_legacy(server);
            }
        }
    }

    fn begin_legacy(&mut self, server: &ServerInfo) {
        let keeping = match core::mem::replace(&mut self.mechanism, WatchMechanism::Unknown) {
            WatchMechanism::Legacy(legacy) => {
                let mut keeping = legacy.subscriptions;
                keeping.resubscribe_all();
                keeping
            }
            before => {
                self.mechanism = before;
                self.abandon();
                LegacySubscriptions::new(&self.config)
            }
        };
        let has = |capability| match &server.capabilities {
            Some(capabilities) => capabilities.allows(capability, server.revision),
            None => true,
        };
        let mut legacy = LegacyWatches {
            subscriptions: keeping,
            tools: has(ServerCapability::ToolsListChanged),
            prompts: has(ServerCapability::PromptsListChanged),
            resources: has(ServerCapability::ResourcesListChanged),
            subscribe: has(ServerCapability::ResourcesSubscribe),
            tasks: has(ServerCapability::Tasks),
        };
        for topic in self.index.keys() {
            match topic {
                Topic::Resource(uri) if legacy.subscribe => legacy.subscriptions.subscribe(uri),
                _ => {}
            }
        }
        self.mechanism = WatchMechanism::Legacy(Box::new(legacy));
    }

    /// Abandons all requests that the watches have made.
    fn abandon(&mut self) {
        match &mut self.mechanism {
            WatchMechanism::Unknown => {}
            WatchMechanism::Modern(listening) => {
                while let modern_subscription::ListenAction::End(number) = listening.end_all() {
                    self.abandoned.insert(number);
                }
            }
            WatchMechanism::Legacy(legacy) => self.abandoned.extend(legacy.subscriptions.abandon()),
        }
        self.mechanism = WatchMechanism::Unknown;
    }

    /// Whether a watch has made this request.
    pub(super) fn owns_request(&self, number: i64) -> bool {
        let current = match &self.mechanism {
            WatchMechanism::Unknown => false,
            WatchMechanism::Modern(listening) => listening.owns_request(number),
            WatchMechanism::Legacy(legacy) => legacy.subscriptions.owns_request(number),
        };
        current || self.abandoned.contains(&number)
    }

    /// Queues the outcome of a request that a watch has made.
    pub(super) fn queue_outcome(&mut self, number: i64, outcome: Outcome) {
        self.ended.push((number, outcome));
        self.dirty = true;
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
