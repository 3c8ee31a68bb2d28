//! Watching: being told of what changes, whatever the era, for as long as the connection lasts.
//!
//! Each watch has an interest of its own. All of them together are what the server is asked to tell: a modern one by one
//! request that [listens](modern_subscription), a legacy one by a [subscription](legacy_subscriptions) for each resource.

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

/// A watch of this side, by which its changes are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

impl fmt::Debug for WatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch {}", self.0)
    }
}

/// How changes are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchConfig {
    /// The pause after the server was lost for the first time; each further one is twice as long. Half of each is left
    /// to chance, so that a server that comes back is not asked by all at once. Default 500 ms.
    pub first_pause: Duration,
    /// The longest pause. Default 30 s: changes are not missed for longer once the server is back.
    pub longest_pause: Duration,
    /// What to do once the server has ended it in good order. Default: leave it at that.
    pub on_server_end: OnServerEnd,
    /// What tells the chance of this client from that of others. Over HTTP it is the
    /// [seed](crate::transport) of the transport. Default 0.
    pub seed: u64,
}

impl WatchConfig {
    /// The pauses between attempts to hear a server again.
    fn backoff_timer(&self) -> BackoffTimer {
        /// How often a server that answers may refuse before that is taken as final.
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

/// What to do once a server has ended a subscription in good order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerEnd {
    /// The watches end.
    #[default]
    Stop,
    /// The server is asked again after a pause, as if it had been lost: where another instance takes over from one that
    /// is shut down.
    Listen,
}

/// What the application knows of what it begins to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchStart {
    /// Nothing: it fetches what it wants to know once the watch is [on](WatchState::On).
    #[default]
    Now,
    /// What it has fetched earlier, on another connection perhaps: everything is told as what may have changed.
    Before,
}

/// How a watch is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchState {
    /// Changes are told from now on. What is fetched after this is kept up to date.
    On {
        /// What the server does not tell of, of what is of interest.
        missing: WatchFilter,
    },
    /// The server is not heard for now; it is asked again, unless it is a legacy one over HTTP that offers no stream of
    /// its own. When it is heard again, everything counts as what may have changed.
    Interrupted,
    /// Nothing follows: the watch is gone.
    Ended(WatchEnd),
}

/// Why a watch has ended, other than by this side or with the connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchEnd {
    /// The server has ended it in good order. It may be asked again by another watch.
    ByServer,
    /// The server does not tell of changes, or not of these; with its answer.
    Refused(Box<Outcome>),
}

impl fmt::Display for WatchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByServer => f.write_str("the server has ended the subscription"),
            Self::Refused(outcome) => write!(f, "the server does not tell of changes: {outcome}"),
        }
    }
}

/// How messages travel.
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
    /// Whether the server is heard about it.
    is_covered: bool,
    /// What was told to be missing, if that was told.
    reported_missing: Option<WatchFilter>,
    /// Whether something may have been missed that was not told.
    stale: bool,
}

/// How the server is asked.
#[derive(Debug)]
enum WatchMechanism {
    /// It is not known yet.
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
    /// Whether the server tells of this, once that is known.
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
    /// Who is interested in what.
    index: BTreeMap<Topic, BTreeSet<WatchId>>,
    mechanism: WatchMechanism,
    /// Whether this client may ask for tasks.
    can_watch_tasks: bool,
    /// Whether what the server says of its own accord is not heard at all (legacy revisions over HTTP).
    lacks_event_stream: bool,
    /// The changes that wait among the events, each of them once.
    pending: BTreeMap<(WatchId, Topic), (Option<Raw>, ChangeEvidence)>,
    /// The states that wait among the events: of each watch the latest.
    states: BTreeMap<WatchId, WatchState>,
    /// Requests that have ended, and not been looked at.
    ended: Vec<(i64, Outcome)>,
    /// Requests that nobody cares about any more.
    abandoned: BTreeSet<i64>,
    /// Whether there may be something to do.
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

    // --- Interests ---

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

    /// Forgets a watch, with what it was not told yet.
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

    /// What a modern server is to be asked for.
    fn combined_filter(&self) -> WatchFilter {
        self.index.keys().filter(|topic| self.can_watch(topic)).cloned().collect()
    }

    fn can_watch(&self, topic: &Topic) -> bool {
        self.can_watch_tasks || !matches!(topic, Topic::Task(_))
    }

    // --- The server ---

    /// The server is known, or known anew: what it was asked before it has forgotten if it is a legacy one.
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

    /// Whatever was asked is of no use any more.
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

    /// Whether this request is of a watch.
    pub(super) fn owns_request(&self, number: i64) -> bool {
        let current = match &self.mechanism {
            WatchMechanism::Unknown => false,
            WatchMechanism::Modern(listening) => listening.owns_request(number),
            WatchMechanism::Legacy(legacy) => legacy.subscriptions.owns_request(number),
        };
        current || self.abandoned.contains(&number)
    }

    /// A request of a watch has ended.
    pub(super) fn queue_outcome(&mut self, number: i64, outcome: Outcome) {
        self.ended.push((number, outcome));
        self.dirty = true;
    }

    /// When there is something to do, if nothing else happens first.
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
