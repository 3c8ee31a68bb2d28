//! Tasks: tool calls that outlive their requests, in both of their forms.
//!
//! A [`Router`](super::Router) has tasks once it has a [`TaskConfig`]; the [`TaskChoice`] at the registration of a tool
//! decides whether its calls become tasks. The handlers are those of any tool:
//!
//! ```
//! use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
//! use mcp_proto::front::{Context, NoArguments, Router};
//! use mcp_proto::schema::{Json, Tool};
//!
//! let tool = Tool::new("index", "Indexes everything", Json::empty_object());
//! let router = Router::new("archive", "1.0.0")
//!     .tasks(TaskConfig::default())
//!     .task_tool(tool, TaskChoice::Optional, async |NoArguments {}, cx: Context| {
//!         cx.status("reading the catalogue");
//!         // …
//!         "Everything is indexed."
//!     });
//! assert!(router.check().is_ok());
//! ```
//!
//! | | 2026-07-28, extension `io.modelcontextprotocol/tasks` | 2025-11-25 |
//! |---|---|---|
//! | requested by | the server decides, for clients that declare the extension | the client, by `task` |
//! | a client without tasks | the tool runs like any other, or -32021 if a task is [required](TaskChoice::Required) | the same, or -32601 |
//! | input | `tasks/get` returns the input requests, `tasks/update` answers them | requests of the server, on the stream of `tasks/result` over HTTP |
//! | result | in `tasks/get` | by `tasks/result`, which waits |
//! | notifications | `notifications/tasks`, if the client listens | `notifications/tasks/status`, and progress |
//! | cancellation | acknowledged in every state | rejected once the task has ended |
//!
//! Task records are stored in a [`TaskStore`]; the handlers run in the driver that received the call: that of the
//! connection, or, over HTTP, that of the server. They are dropped with it, and their tasks fail. Several instances of
//! a server may share a [store](TaskStore::is_shared): each of them then answers `tasks/get`, takes input, cancels, and
//! waits for the result (2025-11-25). A change is visible once the store has it; if it fails to save one, requests for
//! the task are unavailable until it has. The instance that runs the task reads the others' changes from the store at
//! the [poll interval](TaskConfig::poll_interval). Only the instance that runs a task notifies its listeners, and
//! requests input from a client of 2025-11-25, in the session of the call. Without a shared store, operations on
//! another instance's tasks are rejected with -32603.
//!
//! A task belongs to the [principal](crate::peer::Principal) that called the tool, and is unknown to any other. Without
//! principals, its id grants access to it: 128 random bits.
//!
//! <https://modelcontextprotocol.io/extensions/tasks>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

mod methods;
mod record;
mod runner;
pub(super) mod running;
mod service;
mod store;

use alloc::sync::Arc;
use core::time::Duration;

use crate::UnixTime;
use crate::front::reply::Reply;
use crate::front::wakers::lock;
use crate::ordered_map::OrderedMap;
use crate::peer::Principal;
use crate::prelude::*;
use crate::quota::{QuotaError, QuotaOwner, Shares};
use crate::rpc::{ErrorObject, code};
use crate::sync::Mutex;

pub use super::handler::output::{DetachedWork, TaskChoice};
pub(super) use methods::answer;
pub use record::{StoredTaskState, TaskRecord};
pub(super) use runner::TaskRunner;
use running::RunningTask;
pub(super) use service::{TaskService, TaskWork};
pub use store::{MemoryLimits, MemoryStore, StoreError, StoreFuture, TaskPage, TaskStore};

// The task configuration of a server.

config! {
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
        pub store: Arc<dyn TaskStore> = Arc::new(MemoryStore::default()),
        /// How long a task is stored from its creation, whatever its state; a task that still runs then fails. A client
        /// of 2025-11-25 may request less. `Duration::MAX` means forever.
        ///
        /// Default one hour: long enough for a client that restarts, or for a user who returns from lunch.
        pub ttl: Duration = Duration::from_secs(60 * 60),
        /// The longest time that a client of 2025-11-25 may request in place of [`ttl`](Self::ttl). Default 24 hours.
        pub ttl_most: Duration = Duration::from_secs(24 * 60 * 60),
        /// The poll interval suggested to clients. Default one second: a user waits for most tasks.
        ///
        /// A running task is looked up in a [shared](TaskStore::is_shared) store at this interval, but ten times a
        /// second at most: that is how long input and cancellation from another instance take to arrive.
        pub poll_interval: Duration = Duration::from_secs(1),
        /// The maximum number of running tasks, over all connections of the router. One more is rejected with -32603,
        /// over HTTP with 503 and `Retry-After`. So is a task of an owner with [more than its
        /// share](crate::quota::Shares::try_take). Default 1,000.
        pub running: usize = 1000,
        /// The maximum number of running tasks of one owner, which is a principal or an address. Default 100. Tasks
        /// over standard input and output, and over local sockets, are limited by [`running`](Self::running) alone.
        pub running_each: usize = 100,
        /// Whether clients of 2025-11-25 may list tasks.
        pub listing: TaskListing = TaskListing::default(),
    }
}

impl TaskConfig {
    /// Returns the lifetime of a task for the requested one; `None` means forever.
    fn ttl_of(&self, asked: Option<Duration>) -> Option<Duration> {
        let ttl = asked.map_or(self.ttl, |asked| asked.min(self.ttl_most));
        (ttl != Duration::MAX).then_some(ttl)
    }
}

debug_fields! { TaskConfig { ttl, poll_interval, running, listing } }

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

/// The tasks of a router, over all its connections: their configuration, and those that run.
pub(crate) struct TaskRegistry {
    config: TaskConfig,
    running: Mutex<RunningTasks>,
}

struct RunningTasks {
    tasks: OrderedMap<String, Arc<RunningTask>>,
    shares: Shares,
}

impl TaskRegistry {
    pub(in crate::front) fn new(config: TaskConfig) -> Self {
        let index = RunningTasks { tasks: OrderedMap::new(), shares: Shares::new(config.running) };
        Self { config, running: Mutex::new(index) }
    }

    /// Registers a task before it starts.
    fn insert(&self, live: &Arc<RunningTask>) -> Result<(), QuotaError> {
        let owner = &live.initial.quota_owner;
        let mut index = lock(&self.running);
        // All clients on this machine are one owner.
        if *owner != QuotaOwner::LOCAL && index.shares.held(owner) >= self.config.running_each {
            return Err(QuotaError);
        }
        index.shares.try_take(owner, 1)?;
        index.tasks.insert(live.id().into(), live.clone());
        Ok(())
    }

    /// Removes a task that has ended: from now on its record is in the store.
    fn remove(&self, live: &RunningTask) {
        let gone = {
            let mut index = lock(&self.running);
            let gone = index.tasks.remove(live.id());
            if gone.is_some() {
                index.shares.give_back(&live.initial.quota_owner, 1);
            }
            gone
        };
        drop(gone);
    }

    /// Returns a running task, for its owner.
    fn find(&self, id: &str, owner: Option<&Principal>) -> Option<Arc<RunningTask>> {
        //= S11.11 "context binding"
        lock(&self.running).tasks.get(id).filter(|live| live.initial.owner.as_ref() == owner).cloned()
    }

    /// Whether a principal may listen for a task: it owns the task, and the task is running.
    pub(in crate::front) fn is_watchable(&self, id: &str, owner: Option<&Principal>) -> bool {
        self.find(id, owner).is_some_and(|live| !live.has_ended())
    }

    /// Looks up a task for its owner.
    ///
    /// # Errors
    /// The reply for an unknown task or a failed lookup.
    async fn lookup(&self, id: &str, owner: Option<&Principal>, now: UnixTime) -> Result<TaskLookup, Reply> {
        if let Some(live) = self.find(id, owner) {
            return Ok(TaskLookup::Running(live));
        }
        let record = self.config.store.get(id).await?;
        //= S11.9 "authorization on every tasks/*"
        let theirs = |record: &TaskRecord| record.owner.as_ref() == owner && !record.is_expired(now);
        record
            .filter(theirs)
            .map(|record| TaskLookup::Stored(Box::new(record)))
            .ok_or_else(|| unknown_task(id).into())
    }
}

/// A task that was looked up.
enum TaskLookup {
    /// It runs in this process.
    Running(Arc<RunningTask>),
    /// It does not run in this process, or has ended.
    Stored(Box<TaskRecord>),
}

//= S11.7 "Unknown taskId → -32602"
/// The error for a task that does not exist, or belongs to another client: the client must not learn which.
fn unknown_task(id: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, alloc::format!("unknown task {id:?}, or one that has expired"))
}
