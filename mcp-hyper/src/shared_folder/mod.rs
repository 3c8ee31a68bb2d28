//! A folder as the store that the processes of one machine share.

mod journal;
mod tables;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::UnixTime;
use mcp_proto::front::tasks::{StoreError, StoreFuture, TaskPage, TaskRecord, TaskStore};
use mcp_proto::front::{Claim, ClaimError, ClaimFuture, SingleUse};
use mcp_proto::peer::Principal;

use self::journal::{Journal, Table};
use self::tables::{Tasks, Used};
use crate::runtime::{AnyRuntime, Runtime};

/// A folder as the store of several processes of a server on one machine: of [tasks](TaskStore), and of request states and
/// proofs [that count once](SingleUse).
///
/// ```no_run
/// use std::sync::Arc;
///
/// use mcp_hyper::SharedFolder;
/// use mcp_hyper::mcp_proto::front::Router;
/// use mcp_hyper::mcp_proto::front::tasks::TaskConfig;
///
/// let folder = SharedFolder::new("/var/lib/parcels/shared");
/// let mut tasks = TaskConfig::default();
/// tasks.store = Arc::new(folder.clone());
/// let router = Router::new("parcels", "1.0.0").tasks(tasks).single_use(Arc::new(folder));
/// # drop(router);
/// ```
///
/// Each operation is atomic: the processes take turns by file locks, which some network file systems lack. What is
/// confirmed is on disk, and a process may end at any moment. One that is stopped while it holds a lock delays the others,
/// whose operations fail after five seconds.
///
/// The folder has the default limits of the stores in memory ([`MemoryStore`](mcp_proto::front::tasks::MemoryStore),
/// [`UsedIds`](mcp_proto::front::UsedIds)), and each process holds all of it in memory. Its files stay below twice the size of
/// what they hold, or a mebibyte. Clients without a principal share one quota of tasks.
///
/// On Unix only its owner can access the folder (0700) and its files (0600); a folder that other users can access is
/// rejected. For several machines, see `redis::Redis`.
#[derive(Clone)]
pub struct SharedFolder {
    tasks: Arc<Mutex<Journal<Tasks>>>,
    used: Arc<Mutex<Journal<Used>>>,
    runtime: AnyRuntime,
    on_error: Arc<dyn Fn(&io::Error) + Send + Sync>,
}

impl SharedFolder {
    /// A store in this folder, which is created by the first operation.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let tasks = Arc::new(Mutex::new(Journal::new(folder.join("tasks"))));
        let used = Arc::new(Mutex::new(Journal::new(folder.join("used"))));
        Self { tasks, used, runtime: AnyRuntime::default(), on_error: Arc::new(|_| {}) }
    }

    /// Sets the runtime, on whose threads for blocking work files are read and written. Default:
    /// [`DefaultRuntime`](crate::DefaultRuntime).
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = AnyRuntime::new(runtime);
        self
    }

    /// Reports each operation that failed, with the path of its file, for logs: clients learn only that the store failed.
    /// `report` must return quickly: the operation waits for it. Default: nothing.
    #[must_use]
    pub fn on_error(mut self, report: impl Fn(&io::Error) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(report);
        self
    }

    /// Uses a journal on a thread for blocking work.
    async fn with<T: Table + Send + 'static, R: Send + 'static>(
        &self,
        journal: &Arc<Mutex<Journal<T>>>,
        act: impl FnOnce(&mut Journal<T>) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let journal = journal.clone();
        let acting =
            self.runtime.blocking(move || act(&mut journal.lock().unwrap_or_else(PoisonError::into_inner)));
        acting.await.and_then(|done| done).inspect_err(|error| (self.on_error)(error))
    }

    fn with_tasks<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Journal<Tasks>) -> io::Result<Result<R, StoreError>> + Send + 'static,
    ) -> StoreFuture<'_, R> {
        Box::pin(async move {
            let done = self.with(&self.tasks, act).await;
            done.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())))
        })
    }
}

impl TaskStore for SharedFolder {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.with_tasks(move |tasks| tasks.create(&record))
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        let id = id.to_owned();
        self.with_tasks(move |tasks| tasks.call(async |store| store.get(&id).await))
    }

    fn update(&self, record: TaskRecord) -> StoreFuture<'_, u64> {
        self.with_tasks(move |tasks| tasks.update(record))
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        let (owner, after) = (owner.cloned(), after.map(str::to_owned));
        self.with_tasks(move |tasks| {
            tasks.call(async |store| store.list(owner.as_ref(), after.as_deref(), most).await)
        })
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        self.with_tasks(move |tasks| tasks.call(async |store| store.expire(now).await))
    }
}

impl SingleUse for SharedFolder {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        let folder = self.clone();
        Box::pin(async move {
            let claimed = folder.with(&folder.used, move |used| used.claim(&claim)).await;
            claimed.unwrap_or_else(|error| Err(ClaimError::Failed(error.to_string())))
        })
    }
}

debug_fields! { SharedFolder => "SharedFolder(..)" }

#[cfg(test)]
mod tests;
