//! The running tasks of a router, over all its connections.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use std::sync::Mutex;

use super::errors::{store_failed, unknown_task};
use super::running::RunningTask;
use super::{TaskConfig, TaskRecord};
use crate::UnixTime;
use crate::front::signal::lock;
use crate::peer::Principal;
use crate::quota::{QuotaError, QuotaOwner, Shares};
use crate::rpc::ErrorObject;

/// The tasks of a router, over all its connections: their configuration, and those that run.
pub(crate) struct TaskRegistry {
    pub(super) config: TaskConfig,
    running: Mutex<RunningTasks>,
}

struct RunningTasks {
    tasks: BTreeMap<String, Arc<RunningTask>>,
    shares: Shares,
}

impl TaskRegistry {
    pub(in crate::front) fn new(config: TaskConfig) -> Self {
        let index = RunningTasks { tasks: BTreeMap::new(), shares: Shares::new(config.running) };
        Self { config, running: Mutex::new(index) }
    }

    /// Registers a task before it starts.
    pub(super) fn insert(&self, live: &Arc<RunningTask>) -> Result<(), QuotaError> {
        let owner = live.quota_owner();
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
    pub(super) fn remove(&self, live: &RunningTask) {
        let gone = {
            let mut index = lock(&self.running);
            let gone = index.tasks.remove(live.id());
            if gone.is_some() {
                index.shares.give_back(live.quota_owner(), 1);
            }
            gone
        };
        drop(gone);
    }

    /// Returns a running task, for its owner.
    pub(super) fn find(&self, id: &str, owner: Option<&Principal>) -> Option<Arc<RunningTask>> {
        //= S11.11 "context binding"
        lock(&self.running).tasks.get(id).filter(|live| live.owner() == owner).cloned()
    }

    /// Whether a principal may listen for a task: it owns the task, and the task is running.
    pub(in crate::front) fn is_watchable(&self, id: &str, owner: Option<&Principal>) -> bool {
        self.find(id, owner).is_some_and(|live| !live.has_ended())
    }

    /// Looks up a task for its owner.
    ///
    /// # Errors
    /// The error for an unknown task or a failed lookup.
    pub(super) async fn lookup(
        &self,
        id: &str,
        owner: Option<&Principal>,
        now: UnixTime,
    ) -> Result<TaskLookup, ErrorObject> {
        if let Some(live) = self.find(id, owner) {
            return Ok(TaskLookup::Running(live));
        }
        let record = self.config.store.get(id).await.map_err(store_failed)?;
        //= S11.9 "authorization on every tasks/*"
        let theirs = |record: &TaskRecord| record.owner.as_ref() == owner && !record.is_expired(now);
        record
            .filter(theirs)
            .map(|record| TaskLookup::Stored(Box::new(record)))
            .ok_or_else(|| unknown_task(id))
    }
}

/// A task that was looked up.
pub(super) enum TaskLookup {
    /// It runs in this process.
    Running(Arc<RunningTask>),
    /// It does not run in this process, or has ended.
    Stored(Box<TaskRecord>),
}
