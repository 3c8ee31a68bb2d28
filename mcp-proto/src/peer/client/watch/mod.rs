//! Watches: change notifications of every era, for as long as the connection lasts.
//!
//! Each watch has a filter of its own. The client asks the server to report the union of all filters: a modern
//! one with one request that [listens](modern_subscription), a legacy one with a [subscription](legacy_subscriptions)
//! for each resource.

mod drive;
mod legacy_subscriptions;
mod modern_subscription;
mod notify;
mod registry;

use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, BackoffTimer};
use crate::ordered_set::OrderedSet;
use crate::peer::event_queue::EventQueue;
use crate::peer::topic::{ListKind, Topic};
use crate::peer::{LostReason, Outcome, RequestError, RequestId, RetryAdvice, TransportError};
use crate::prelude::*;
use crate::rpc::{Raw, code};
use crate::schema::{ClientCapability, SubscriptionFilter};

use super::{ClientConfig, Event, ServerInfo};
pub(super) use drive::NotificationScope;
use registry::WatchRegistry;

/// The application's watches, and the channel that carries their notifications.
#[derive(Debug)]
pub(super) struct Watches {
    config: WatchConfig,
    /// Whether this client may watch tasks.
    can_watch_tasks: bool,
    channel: ChannelKind,
    /// Whether messages outside of any request cannot be received (legacy revisions over HTTP).
    lacks_event_stream: bool,
    /// Created by the first watch.
    registry: Option<Box<WatchRegistry>>,
}

impl Watches {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self {
            config: config.watch,
            can_watch_tasks: config.capabilities.has(ClientCapability::TasksExtension),
            channel: ChannelKind::default(),
            lacks_event_stream: false,
            registry: None,
        }
    }

    /// The registry, created by the first watch; `server` is set if the client is ready.
    fn open_registry(
        &mut self,
        server: Option<&ServerInfo>,
        events: &mut EventQueue<Event>,
    ) -> &mut WatchRegistry {
        let Self { config, can_watch_tasks, channel, lacks_event_stream, ref mut registry } = *self;
        registry.get_or_insert_with(|| {
            let mut registry = Box::new(WatchRegistry::new(config, can_watch_tasks));
            if let Some(server) = server {
                registry.begin(server, channel, events);
                registry.lacks_event_stream = lacks_event_stream;
            }
            registry
        })
    }

    /// When the watches next have work to do, if nothing else happens first.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.registry.as_ref()?.deadline()
    }

    /// Queues the outcome of a request that a watch has made.
    pub(super) fn queue_outcome(&mut self, request: RequestId, outcome: Outcome) {
        if let Some(registry) = &mut self.registry {
            registry.ended.push((request, outcome));
            registry.dirty = true;
        }
    }

    /// Completes an event that leaves the queue; `false` if it has become void meanwhile.
    pub(super) fn complete_event(&mut self, event: &mut Event) -> bool {
        self.registry.as_mut().is_none_or(|registry| registry.pending.complete(event))
    }

    /// The covered part of a watch's filter: without what is `missing`.
    pub(super) fn covered_topics(&self, watch: WatchId, missing: &WatchFilter) -> Vec<Topic> {
        self.registry.as_ref().map_or_else(Vec::new, |registry| registry.covered_topics(watch, missing))
    }
}

/// Configuration of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct WatchConfig {
    /// How a watch reacts when the server ends it in an orderly way. Default: the watch ends.
    pub on_server_end: OnServerEnd,
    /// The seed of the random part of the pauses; it should differ between clients. Over HTTP the
    /// [seed](crate::transport) of the transport is used instead. Default 0.
    pub seed: u64,
}

impl WatchConfig {
    /// The pauses between attempts to listen again: each twice as long as the one before, half of it random, so that not
    /// all clients reconnect to a restarted server at once. Changes are missed for no longer than the longest pause.
    pub(super) fn backoff_timer(&self) -> BackoffTimer {
        let (first, longest) = (Duration::from_millis(500), Duration::from_secs(30));
        // How often a reachable server may refuse before its refusal is final.
        BackoffTimer::new(Backoff { first, longest, attempts: 5 }, self.seed)
    }
}

/// How a watch reacts when a server ends its subscription in an orderly way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum OnServerEnd {
    /// The watches end.
    #[default]
    Stop,
    /// The client subscribes again after a pause, as if the server had been lost: for deployments where another
    /// instance takes over from one that shuts down. If it ends several requests in a row before it has acknowledged them,
    /// the watches end.
    Listen,
}

/// Whether the application has older copies of the topics that it starts to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum WatchStart {
    /// It has none: it fetches the data once the watch is [on](WatchState::On).
    #[default]
    Now,
    /// It has fetched copies earlier, perhaps on another connection: every topic is reported as possibly changed.
    Before,
}

/// The kind of channel that carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChannelKind {
    /// All on one channel, in order.
    #[default]
    Shared,
    /// Each exchange on its own.
    Separate,
}

/// The identifier of a watch; the events about its changes carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct WatchId(pub(super) u64);

debug_fields! { WatchId(inner) => "watch {inner}" }

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

display_text! { WatchEnd:
    ByServer => "the server has ended the subscription";
    Refused(outcome) => "the server does not notify of changes: {outcome}";
}

// Filters of topics, and changes of topics.

/// The topics that a watch covers: lists, resources, tasks.
///
/// ```
/// use mcp_proto::peer::client::WatchFilter;
///
/// let interest = WatchFilter::new().tools().resource("file:///project/config.json");
/// assert!(interest.has_tools() && !interest.has_prompts());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a filter does nothing without a watch"]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct WatchFilter(OrderedSet<Topic>);

impl WatchFilter {
    /// A filter that covers nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the list of tools.
    pub fn tools(self) -> Self {
        self.with(Topic::List(ListKind::Tools))
    }

    /// Adds the list of prompts.
    pub fn prompts(self) -> Self {
        self.with(Topic::List(ListKind::Prompts))
    }

    /// Adds the lists of resources and templates.
    pub fn resources(self) -> Self {
        self.with(Topic::List(ListKind::Resources))
    }

    /// Adds the resource `uri` and its sub-resources.
    pub fn resource(self, uri: impl AsRef<str>) -> Self {
        self.with(Topic::Resource(uri.as_ref().into()))
    }

    /// Adds the task `id`.
    pub fn task(self, id: impl AsRef<str>) -> Self {
        self.with(Topic::Task(id.as_ref().into()))
    }

    /// Whether the filter covers the list of tools.
    pub fn has_tools(&self) -> bool {
        self.0.contains(&Topic::List(ListKind::Tools))
    }

    /// Whether the filter covers the list of prompts.
    pub fn has_prompts(&self) -> bool {
        self.0.contains(&Topic::List(ListKind::Prompts))
    }

    /// Whether the filter covers the lists of resources and templates.
    pub fn has_resources(&self) -> bool {
        self.0.contains(&Topic::List(ListKind::Resources))
    }

    /// The single resources that the filter covers, in the order of their URIs.
    pub fn resource_uris(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|topic| match topic {
            Topic::Resource(uri) => Some(&**uri),
            _ => None,
        })
    }

    /// The tasks that the filter covers, in the order of their ids.
    pub fn task_ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|topic| match topic {
            Topic::Task(id) => Some(&**id),
            _ => None,
        })
    }

    /// Whether the filter covers nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn with(mut self, topic: Topic) -> Self {
        self.0.insert(topic);
        self
    }

    /// The filter as a parameter of the subscription request.
    fn to_subscription_filter(&self) -> SubscriptionFilter {
        let some = |names: Vec<String>| Some(names).filter(|names| !names.is_empty());
        let mut filter = SubscriptionFilter::new();
        //= C6.1 "filter keys toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions[]"
        filter.tools_list_changed = self.has_tools().then_some(true);
        filter.prompts_list_changed = self.has_prompts().then_some(true);
        filter.resources_list_changed = self.has_resources().then_some(true);
        filter.resource_subscriptions = some(self.resource_uris().map(String::from).collect());
        filter.task_ids = some(self.task_ids().map(String::from).collect());
        filter
    }

    /// The part of this filter that a server grants by answering with `filter`.
    fn granted(&self, filter: &SubscriptionFilter) -> Self {
        let names = |names: &Option<Vec<String>>| -> OrderedSet<Arc<str>> {
            names.iter().flatten().map(|name| name.as_str().into()).collect()
        };
        let (uris, tasks) = (names(&filter.resource_subscriptions), names(&filter.task_ids));
        let granted = |topic: &&Topic| match topic {
            Topic::List(ListKind::Tools) => filter.tools_list_changed == Some(true),
            Topic::List(ListKind::Prompts) => filter.prompts_list_changed == Some(true),
            Topic::List(ListKind::Resources) => filter.resources_list_changed == Some(true),
            Topic::Resource(uri) => uris.contains(uri),
            Topic::Task(id) => tasks.contains(id),
        };
        Self(self.0.iter().filter(granted).cloned().collect())
    }
}

impl FromIterator<Topic> for WatchFilter {
    fn from_iter<I: IntoIterator<Item = Topic>>(topics: I) -> Self {
        Self(topics.into_iter().collect())
    }
}

/// A change of a watched topic.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and templates.
    Resources,
    /// The resource of this URI, which may be a sub-resource of the watched one.
    Resource(String),
    /// A task.
    Task {
        /// Its id.
        id: String,
        /// Its status, where the server has sent it: [`TaskUpdatedParams`](crate::schema::tasks::TaskUpdatedParams),
        /// from a server of 2025-11-25 [`TaskStatusParams`](crate::schema::tasks::legacy::TaskStatusParams).
        update: Option<Raw>,
    },
}

impl Change {
    /// The change of this topic; of a task, with its status where that is known.
    fn new(topic: Topic, update: Option<Raw>) -> Self {
        match topic {
            Topic::List(ListKind::Tools) => Self::Tools,
            Topic::List(ListKind::Prompts) => Self::Prompts,
            Topic::List(ListKind::Resources) => Self::Resources,
            Topic::Resource(uri) => Self::Resource(String::from(&*uri)),
            Topic::Task(id) => Self::Task { id: String::from(&*id), update },
        }
    }

    /// The topic that has changed.
    pub(crate) fn topic(&self) -> Topic {
        match self {
            Self::Tools => Topic::List(ListKind::Tools),
            Self::Prompts => Topic::List(ListKind::Prompts),
            Self::Resources => Topic::List(ListKind::Resources),
            Self::Resource(uri) => Topic::Resource(uri.as_str().into()),
            Self::Task { id, .. } => Topic::Task(id.as_str().into()),
        }
    }
}

/// The evidence for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeEvidence {
    /// The server has notified the client of it.
    Notified,
    /// The topic may have changed while no notifications arrived. Cached copies of it should be fetched again.
    MaybeMissed,
}

// The common part of the subscriptions of both eras: the requests that they need, and when to retry those.

/// The next action of the watches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchAction {
    /// Send a listen request.
    Listen(WatchFilter),
    /// Subscribe to a resource.
    Subscribe(Arc<str>),
    /// Unsubscribe from a resource.
    Unsubscribe(Arc<str>),
    /// End a request.
    End(RequestId),
}

/// The retry class of an outcome.
#[derive(Debug)]
enum RetryClass {
    /// The server has ended the request in an orderly way, or has fulfilled it.
    Done,
    /// A retry may succeed, after at least this long.
    Lost(Duration),
    /// The server has refused; with whether that is permanent.
    Refused(Outcome, RefusalKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusalKind {
    Permanent,
    Transient,
}

impl From<Outcome> for RetryClass {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            // Both are the server's own decision: one page of the specification demands the result, another the
            // notification.
            Outcome::Result(_) | Outcome::Lost(LostReason::Ended) => Self::Done,
            Outcome::Transport(TransportError { retry: RetryAdvice::Later, retry_after, .. }) => {
                Self::Lost(retry_after.unwrap_or_default())
            }
            Outcome::Lost(_)
            | Outcome::TimedOut { .. }
            | Outcome::Cancelled
            | Outcome::Refused(
                RequestError::Connect(_) | RequestError::Overloaded { .. } | RequestError::InFlight { .. },
            ) => Self::Lost(Duration::ZERO),
            Outcome::Error(error) => {
                let made = matches!(
                    error.code,
                    code::METHOD_NOT_FOUND
                        | code::INVALID_PARAMS
                        | code::INVALID_REQUEST
                        | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                        | code::UNSUPPORTED_PROTOCOL_VERSION
                        | code::HEADER_MISMATCH
                );
                Self::Refused(
                    Outcome::Error(error),
                    if made { RefusalKind::Permanent } else { RefusalKind::Transient },
                )
            }
            outcome @ Outcome::Invalid(_) => Self::Refused(outcome, RefusalKind::Transient),
            outcome => Self::Refused(outcome, RefusalKind::Permanent),
        }
    }
}
