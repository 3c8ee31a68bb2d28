//! The task service of a connection, or of a server over HTTP.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use super::running::{RunningTask, TaskKey};
use super::{StoreError, StoredTaskState, TaskRecord, TaskRegistry};
use crate::front::Clock;
use crate::front::handler::context::Context;
use crate::front::handler::output::DetachedWork;
use crate::front::params::ToolCall;
use crate::front::reply::Reply;
use crate::front::wakers::{SendFuture, Signal, TaskWaker, lock, update};
use crate::ordered_map::OrderedMap;
use crate::peer::Denial;
use crate::prelude::*;
use crate::quota::QuotaError;
use crate::rpc::{ErrorObject, code};
use crate::schema::Era;
use crate::schema::tasks::TaskUpdatedParams;
use crate::sync::Mutex;
use crate::{Instant, UnixTime};

/// Notifies clients that listen for a task.
pub(super) type TaskListener = Box<dyn Fn(&TaskUpdatedParams) + Send + Sync>;

/// The state that the requests of clients and the runner of tasks share.
pub(crate) struct TaskService {
    pub(super) registry: Arc<TaskRegistry>,
    pub(super) clock: Arc<dyn Clock>,
    /// The driver's waker slot, and the tasks that are ready to be polled.
    pub(super) signal: Arc<Signal<TaskKey>>,
    pub(super) listener: TaskListener,
    /// The timers of waiting requests.
    pub(super) sleeps: SleepQueue,
    new_tasks: Mutex<NewTasks>,
}

#[derive(Default)]
struct NewTasks {
    tasks: Vec<NewTask>,
    last: u64,
    closed: bool,
}

/// A task that is queued for the runner.
pub(super) struct NewTask {
    pub(super) task: Arc<RunningTask>,
    pub(super) work: TaskWork,
    /// The context of the task.
    pub(super) context: Context,
}

impl TaskService {
    pub(in crate::front) fn new(
        registry: Arc<TaskRegistry>,
        clock: Arc<dyn Clock>,
        listener: TaskListener,
    ) -> Self {
        Self {
            registry,
            clock,
            signal: Arc::default(),
            listener,
            sleeps: SleepQueue::default(),
            new_tasks: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> UnixTime {
        self.clock.unix_time()
    }

    /// Waits for `duration`, on behalf of a client's request.
    pub(super) fn sleep(&self, duration: Duration) -> SleepFuture<'_> {
        SleepFuture { service: self, until: self.clock.now() + duration, key: None }
    }

    /// Starts a task. The call is answered once the store has created the task; if the call is cancelled before that,
    /// the task is discarded.
    ///
    /// # Errors
    /// The reply to the call instead.
    pub(in crate::front) fn begin(
        &self,
        work: TaskWork,
        context: Context,
        ttl: Option<Duration>,
    ) -> Result<SendFuture<Reply>, Reply> {
        let now = self.now();
        let seed = TaskRecord {
            //= S10.9 "handles random and bound to user"
            //= S11.9 "Unguessable ids"
            id: context.inbound_request().random_id(),
            owner: context.principal().cloned(),
            quota_owner: context.owner(),
            version: 0,
            created_at: now,
            updated_at: now,
            ttl: self.registry.config.ttl_of(ttl),
            poll_interval: self.registry.config.poll_interval,
            message: None,
            state: StoredTaskState::Working,
            answers: BTreeMap::new(),
        };
        let era = context.era();
        let live = self.enqueue(seed, work, context)?;
        self.signal.notify();
        let claim = PendingTask(Some(live));
        Ok(Box::pin(async move {
            match (claim.wait_created().await, era) {
                (Ok(seed), Era::Modern) => Reply::result(seed.created()),
                (Ok(seed), Era::Legacy) => Reply::result(seed.legacy_created()),
                (Err(error), _) => error.into(),
            }
        }))
    }

    /// Registers a task and queues it for the runner.
    fn enqueue(&self, seed: TaskRecord, work: TaskWork, context: Context) -> Result<Arc<RunningTask>, Reply> {
        let mut new_tasks = lock(&self.new_tasks);
        if new_tasks.closed {
            return Err(Reply::Error(server_ended()));
        }
        new_tasks.last = new_tasks.last.saturating_add(1);
        let key = TaskKey(new_tasks.last);
        let waker = TaskWaker::new(key, self.signal.clone());
        let live = Arc::new(RunningTask::new(seed, self.clock.clone(), waker));
        self.registry.insert(&live).map_err(|QuotaError| too_many_tasks())?;
        let context = context.for_task(live.clone());
        new_tasks.tasks.push(NewTask { task: live.clone(), work, context });
        Ok(live)
    }

    // --- For the runner ---

    pub(super) fn take_new(&self) -> Vec<NewTask> {
        core::mem::take(&mut lock(&self.new_tasks).tasks)
    }

    pub(in crate::front) fn has_new(&self) -> bool {
        !lock(&self.new_tasks).tasks.is_empty()
    }

    /// Stops accepting tasks. Returns those that have not started.
    pub(super) fn close(&self) -> Vec<NewTask> {
        self.sleeps.close();
        let mut new_tasks = lock(&self.new_tasks);
        new_tasks.closed = true;
        core::mem::take(&mut new_tasks.tasks)
    }
}

/// A started task whose client does not know it yet; dropping it cancels the task.
struct PendingTask(Option<Arc<RunningTask>>);

impl PendingTask {
    //= S11.2 "task durable before return"
    /// Waits until the store has created the task, and returns its record for the client.
    async fn wait_created(mut self) -> Result<TaskRecord, StoreError> {
        if let Some(live) = &self.0 {
            live.wait_created().await?;
        }
        self.0.take().map(|live| live.initial.clone()).ok_or(StoreError::Conflict)
    }
}

impl Drop for PendingTask {
    fn drop(&mut self) {
        if let Some(live) = self.0.take() {
            live.end(StoredTaskState::Cancelled);
        }
    }
}

/// The work of a task.
pub(in crate::front) enum TaskWork {
    /// A call, to be answered by the handler of its tool.
    Call(ToolCall),
    /// The rest of a call whose handler has run.
    Detached(DetachedWork),
}

/// The waiting requests, at most one timer for each active request.
#[derive(Default)]
pub(super) struct SleepQueue(Mutex<SleepTable>);

#[derive(Default)]
struct SleepTable {
    waiting: OrderedMap<SleepKey, Waker>,
    last: u64,
    closed: bool,
}

/// The due time, and a number that makes the key unique.
type SleepKey = (Instant, u64);

impl SleepQueue {
    /// The next due time.
    pub(super) fn due(&self) -> Option<Instant> {
        lock(&self.0).waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Wakes all waits that are due.
    pub(super) fn wake(&self, now: Instant) {
        update(&self.0, |table, wakers| {
            while table.waiting.first_key_value().is_some_and(|((due, _), _)| *due <= now) {
                wakers.wake(table.waiting.pop_first().map(|(_, waker)| waker));
            }
        });
    }

    /// Ends all waits with an error, because the runner has ended.
    fn close(&self) {
        update(&self.0, |table, wakers| {
            table.closed = true;
            let waiting = core::mem::take(&mut table.waiting);
            waiting.into_values().for_each(|waker| wakers.wake(Some(waker)));
        });
    }
}

/// The future of a wait.
pub(super) struct SleepFuture<'a> {
    service: &'a TaskService,
    until: Instant,
    key: Option<SleepKey>,
}

impl Future for SleepFuture<'_> {
    /// An error if the server ends first.
    type Output = Result<(), ErrorObject>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Self { service, until, key } = self.get_mut();
        let left = cx.waker().clone();
        let is_over = service.clock.now() >= *until;
        let is_new = key.is_none();
        let polled = update(&service.sleeps.0, |table, wakers| {
            if table.closed {
                Poll::Ready(Err(server_ended()))
            } else if is_over {
                Poll::Ready(Ok(()))
            } else {
                let key = *key.get_or_insert_with(|| {
                    table.last = table.last.saturating_add(1);
                    (*until, table.last)
                });
                wakers.discard(table.waiting.insert(key, left));
                Poll::Pending
            }
        });
        if is_new && polled.is_pending() {
            // The driver's timer may have to fire earlier now.
            service.signal.notify();
        }
        polled
    }
}

impl Drop for SleepFuture<'_> {
    fn drop(&mut self) {
        let waker = self.key.and_then(|key| lock(&self.service.sleeps.0).waiting.remove(&key));
        drop(waker);
    }
}

/// The reply to a call that exceeds the limits of running tasks.
fn too_many_tasks() -> Reply {
    let error = ErrorObject::new(code::INTERNAL_ERROR, "too many tasks are running");
    Reply::Denied(error, Denial::Unavailable)
}

/// The error of tasks whose runner has ended.
pub(super) fn server_ended() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, "the server ended before the task")
}
