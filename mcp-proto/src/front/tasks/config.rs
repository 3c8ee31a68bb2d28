//! The task configuration of a server.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::{MemoryStore, TaskStore};

/// The task configuration of a server.
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
    /// The store of tasks. Default: a [`MemoryStore`] of this process, with its default limits.
    pub store: Arc<dyn TaskStore>,
    /// How long a task is stored from its creation, whatever its state; a task that still runs then fails. A client of
    /// 2025-11-25 may request less. `Duration::MAX` means forever.
    ///
    /// Default one hour: long enough for a client that restarts, or for a user who returns from lunch.
    pub ttl: Duration,
    /// The longest time that a client of 2025-11-25 may request in place of [`ttl`](Self::ttl). Default 24 hours.
    pub ttl_most: Duration,
    /// The poll interval suggested to clients. Default one second: a user waits for most tasks.
    ///
    /// A running task is looked up in a [shared](TaskStore::is_shared) store at this interval, but ten times a second
    /// at most: that is how long input and cancellation from another instance take to arrive.
    pub poll_interval: Duration,
    /// The maximum number of running tasks, over all connections of the router. One more is rejected with -32603, over
    /// HTTP with 503 and `Retry-After`. So is a task of an owner with [more than its
    /// share](crate::quota::Shares::try_take). Default 1,000.
    pub running: usize,
    /// The maximum number of running tasks of one owner, which is a principal or an address. Default 100. Tasks over
    /// standard input and output, and over local sockets, are limited by [`running`](Self::running) alone.
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
    /// Returns the lifetime of a task for the requested one; `None` means forever.
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
    /// They may not. A server that cannot distinguish its clients would show the tasks of one to all others.
    #[default]
    Hidden,
    /// They may list the tasks of their principal, or, without a principal, those without one. Use it where each client
    /// has a principal, or where there is only one client: on standard input and output.
    Shown,
}

/// Whether calls of a tool become tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskChoice {
    /// They do for clients that support tasks (2026-07-28), or request one (2025-11-25). For other clients the tool
    /// runs like any other.
    Optional,
    /// They always do. Clients without tasks cannot call the tool.
    Required,
}
