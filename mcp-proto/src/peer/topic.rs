//! Topics of change notifications.

use alloc::sync::Arc;

use crate::schema::{
    Notification as _, PromptListChanged, ResourceListChanged, ServerCapability, ToolListChanged,
};

/// A list whose changes a client can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum ListKind {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and templates.
    Resources,
}

impl ListKind {
    #[cfg(any(feature = "client", feature = "http"))]
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The capability that permits notifications about it.
    pub(crate) fn capability(self) -> ServerCapability {
        match self {
            Self::Tools => ServerCapability::ToolsListChanged,
            Self::Prompts => ServerCapability::PromptsListChanged,
            Self::Resources => ServerCapability::ResourcesListChanged,
        }
    }

    /// The method of the notifications about it.
    pub(crate) fn notification(self) -> &'static str {
        match self {
            Self::Tools => ToolListChanged::NAME,
            Self::Prompts => PromptListChanged::NAME,
            Self::Resources => ResourceListChanged::NAME,
        }
    }
}

/// A topic that can change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Topic {
    /// A list.
    List(ListKind),
    /// A resource, by its URI.
    Resource(Arc<str>),
    /// A task of the tasks extension.
    Task(Arc<str>),
}

impl Topic {
    /// The size in bytes of its name, which the other side supplies.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::List(_) => 0,
            Self::Resource(name) | Self::Task(name) => name.len(),
        }
    }
}
