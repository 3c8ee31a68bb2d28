//! Who wants to be told of which changes (2026-07-28): indexed, so that telling costs as much as there are interested.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::peer::InboundId;
use crate::schema::{ServerCapabilities, ServerCapability, SubscriptionFilter};

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

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    filters: BTreeMap<InboundId, SubscriptionFilter>,
    lists: BTreeMap<ListKind, BTreeSet<InboundId>>,
    resources: BTreeMap<String, BTreeSet<InboundId>>,
    /// How many pairs of subscription and resource there are.
    pairs: usize,
}

impl Subscriptions {
    /// What of `asked` a server with `capabilities` grants.
    pub(super) fn grant(asked: &SubscriptionFilter, capabilities: &ServerCapabilities) -> SubscriptionFilter {
        let granted = |wanted: Option<bool>, kind: ListKind| {
            wanted.filter(|&wanted| wanted && capabilities.has(kind.capability()))
        };
        let subscribe = capabilities.has(ServerCapability::ResourcesSubscribe);
        SubscriptionFilter {
            tools_list_changed: granted(asked.tools_list_changed, ListKind::Tools),
            prompts_list_changed: granted(asked.prompts_list_changed, ListKind::Prompts),
            resources_list_changed: granted(asked.resources_list_changed, ListKind::Resources),
            resource_subscriptions: asked.resource_subscriptions.clone().filter(|_| subscribe),
            ..SubscriptionFilter::default()
        }
    }

    /// How many resources subscriptions name, and how many subscriptions there are.
    pub(super) fn len(&self) -> usize {
        self.pairs.saturating_add(self.filters.len())
    }

    /// Takes in a subscription; returns the resources that nobody was interested in before.
    pub(super) fn insert(&mut self, subscription: InboundId, filter: SubscriptionFilter) -> Vec<String> {
        for kind in lists(&filter) {
            self.lists.entry(kind).or_default().insert(subscription);
        }
        let mut fresh = Vec::new();
        for uri in filter.resource_subscriptions.iter().flatten() {
            let interested = self.resources.entry(uri.clone()).or_default();
            if interested.is_empty() {
                fresh.push(uri.clone());
            }
            if interested.insert(subscription) {
                self.pairs = self.pairs.saturating_add(1);
            }
        }
        self.filters.insert(subscription, filter);
        fresh
    }

    /// Forgets a subscription; returns the resources that nobody is interested in any more.
    pub(super) fn remove(&mut self, subscription: InboundId) -> Vec<String> {
        let Some(filter) = self.filters.remove(&subscription) else { return Vec::new() };
        for kind in lists(&filter) {
            if let Some(interested) = self.lists.get_mut(&kind) {
                interested.remove(&subscription);
            }
        }
        let mut unused = Vec::new();
        for uri in filter.resource_subscriptions.into_iter().flatten() {
            let Some(interested) = self.resources.get_mut(&uri) else { continue };
            if interested.remove(&subscription) {
                self.pairs = self.pairs.saturating_sub(1);
            }
            if interested.is_empty() {
                self.resources.remove(&uri);
                unused.push(uri);
            }
        }
        unused
    }

    /// Who wants to know of a list.
    pub(super) fn of_list(&self, kind: ListKind) -> Vec<InboundId> {
        self.lists.get(&kind).into_iter().flatten().copied().collect()
    }

    /// Who wants to know of a resource.
    pub(super) fn of_resource(&self, uri: &str) -> Vec<InboundId> {
        self.resources.get(uri).into_iter().flatten().copied().collect()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<InboundId> {
        self.filters.keys().copied().collect()
    }
}

fn lists(filter: &SubscriptionFilter) -> impl Iterator<Item = ListKind> + use<> {
    let wanted = [
        (filter.tools_list_changed, ListKind::Tools),
        (filter.prompts_list_changed, ListKind::Prompts),
        (filter.resources_list_changed, ListKind::Resources),
    ];
    wanted.into_iter().filter(|(wanted, _)| *wanted == Some(true)).map(|(_, kind)| kind)
}
