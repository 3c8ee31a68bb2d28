//! How a server has tasks.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::{MemoryStore, TaskStore};

/// How a server has tasks.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::front::tasks::TaskConfig;
///
/// let mut config = TaskConfig::default();
/// config.ttl = Duration::from_secs(24 * 60 * 60);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct TaskConfig {
    /// Where tasks are kept. Default: a [`MemoryStore`] of this process, with its default limits.
    pub store: Arc<dyn TaskStore>,
    /// How long a task is kept from when it began, whatever has come of it; one that still runs then fails. A client of
    /// 2025-11-25 may ask for less. `Duration::MAX` is for ever.
    ///
    /// Default one hour: long enough for a client that was restarted, or for a person who comes back from lunch.
    pub ttl: Duration,
    /// The most that a client of 2025-11-25 may ask for in place of [`ttl`](Self::ttl). Default 24 hours.
    pub ttl_most: Duration,
    /// How often a client should ask for a task. Default one second: a person waits for most of them.
    ///
    /// So often, but ten times a second at most, a task that runs is looked up in a store that is
    /// [shared](TaskStore::is_shared): that is how long it takes input and cancellation to arrive from another instance.
    pub poll_interval: Duration,
    /// How many tasks may run at once, over all connections of the router. One more is refused with -32603, over HTTP with
    /// 503 and `Retry-After`. So is one of an owner with [more than its share](crate::quota::Shares::try_take). Default
    /// 1,000.
    pub running: usize,
    /// How many of them may be of one owner, which is a principal or an address. Default 100. Those over standard input and
    /// output, and over local sockets, are bounded by [`running`](Self::running) alone.
    pub running_each: usize,
    /// Whether clients of 2025-11-25 may list tasks.
    pub listing: TaskListing,
}

impl Default for TaskConfig {
    fn default() -> Self {
        Self {
            store: Arc::new(MemoryStore::default()),
            ttl: Duration::from_secs(60 * 60),
            ttl_most: Duration::from_secs(24 * 60 * 60),
            poll_interval: Duration::from_secs(1),
            running: 1000,
            running_each: 100,
            listing: TaskListing::default(),
        }
    }
}

impl TaskConfig {
    /// How long a task is kept for which so much was asked; `None` is for ever.
    pub(super) fn ttl_of(&self, asked: Option<Duration>) -> Option<Duration> {
        let ttl = asked.map_or(self.ttl, |asked| asked.min(self.ttl_most));
        (ttl != Duration::MAX).then_some(ttl)
    }
}

impl fmt::Debug for TaskConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskConfig")
            .field("ttl", &self.ttl)
            .field("poll_interval", &self.poll_interval)
            .field("running", &self.running)
            .field("listing", &self.listing)
            .finish_non_exhaustive()
    }
}

/// Whether clients of 2025-11-25 may list tasks. (2026-07-28 has no such list.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskListing {
    /// They may not. A server that can't tell its clients apart would show the tasks of one to all others.
    #[default]
    Hidden,
    /// They may list what belongs to the same principal, or, without one, what belongs to none. That is right where each
    /// client has a principal, and where there is one client alone: at the other end of standard input and output.
    Shown,
}

/// Whether calls of a tool become tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskChoice {
    /// They do for clients that can have tasks (2026-07-28), or ask for one (2025-11-25). For others the tool runs as any
    /// other does.
    Optional,
    /// They always do. Clients that can't have tasks can't call the tool.
    Required,
}
