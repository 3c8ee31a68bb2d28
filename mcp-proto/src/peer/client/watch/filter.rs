//! Filters of topics, and changes of topics.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use crate::peer::topic::{ListKind, Topic};
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::SubscriptionFilter;

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
pub struct WatchFilter(pub(super) BTreeSet<Topic>);

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
    pub(super) fn to_subscription_filter(&self) -> SubscriptionFilter {
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
    pub(super) fn granted(&self, filter: &SubscriptionFilter) -> Self {
        let names = |names: &Option<Vec<String>>| -> BTreeSet<Arc<str>> {
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
    pub(super) fn new(topic: Topic, update: Option<Raw>) -> Self {
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
