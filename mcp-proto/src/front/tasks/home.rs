//! Where tasks run: with a connection, or with a server over HTTP.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::Mutex;

use super::desk::{failed, no_room};
use super::live::Live;
use super::pause::{Pause, Pauses};
use super::{Desk, Detached, Standing, StoreError, TaskRecord};
use crate::UnixTime;
use crate::front::handling::SendFuture;
use crate::front::reply::Reply;
use crate::front::signal::{Signal, TaskWaker, lock};
use crate::front::{Clock, Context};
use crate::quota::QuotaError;
use crate::rpc::{ErrorObject, code};
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{CallToolParams, Era};

/// A task among those of one runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskKey(pub(super) u64);

impl TaskKey {
    /// The runner's own work.
    pub(super) const HOUSEKEEPING: Self = Self(0);
}

/// Tells those who listen for a task.
pub(super) type Audience = Box<dyn Fn(&TaskUpdatedParams) + Send + Sync>;

/// Where tasks run: what the requests of clients and the runner share.
pub(crate) struct Home {
    pub(super) desk: Arc<Desk>,
    pub(super) clock: Arc<dyn Clock>,
    /// The driver's waker slot, and the tasks that it is to poll.
    pub(super) signal: Arc<Signal<TaskKey>>,
    pub(super) audience: Audience,
    /// Requests that wait for a while.
    pub(super) pauses: Pauses,
    intake: Mutex<Intake>,
}

#[derive(Default)]
struct Intake {
    orders: Vec<Order>,
    last: u64,
    closed: bool,
}

/// A task that is to run.
pub(super) struct Order {
    pub(super) key: TaskKey,
    pub(super) live: Arc<Live>,
    pub(super) work: Work,
    /// That of the task.
    pub(super) context: Context,
}

/// What a task does.
pub(crate) enum Work {
    /// The handler of a tool.
    Call(CallToolParams),
    /// What a handler has left to do.
    Rest(Detached),
}

/// A task that is to begin.
pub(crate) struct Start {
    pub(in crate::front) work: Work,
    /// The call that becomes a task.
    pub(in crate::front) context: Context,
    /// How long the client wants it kept.
    pub(in crate::front) ttl: Option<Duration>,
}

impl Home {
    pub(in crate::front) fn new(desk: Arc<Desk>, clock: Arc<dyn Clock>, audience: Audience) -> Self {
        let (pauses, intake) = (Pauses::default(), Mutex::default());
        Self { desk, clock, signal: Arc::default(), audience, pauses, intake }
    }

    pub(super) fn now(&self) -> UnixTime {
        self.clock.unix_time()
    }

    /// Waits for so long, for a request of a client.
    pub(super) fn pause(&self, duration: Duration) -> Pause<'_> {
        Pause::new(self, self.clock.now() + duration)
    }

    /// Begins a task. The call is answered once the store has it; if nobody waits for that answer any more, there is no
    /// task.
    ///
    /// # Errors
    /// What to answer instead.
    pub(in crate::front) fn begin(&self, start: Start) -> Result<SendFuture<Reply>, Reply> {
        let Start { work, context, ttl } = start;
        let now = self.now();
        let seed = TaskRecord {
            id: context.random_id(),
            owner: context.principal().cloned(),
            quota_owner: context.owner(),
            version: 0,
            created_at: now,
            updated_at: now,
            ttl: self.desk.config.ttl_of(ttl),
            poll_interval: self.desk.config.poll_interval,
            message: None,
            standing: Standing::Working,
            answers: BTreeMap::new(),
        };
        let era = context.era();
        let live = self.order(seed, work, context)?;
        self.signal.notify();
        let claim = Claim(Some(live));
        Ok(Box::pin(async move {
            match (claim.settle().await, era) {
                (Ok(seed), Era::Modern) => Reply::result(seed.created()),
                (Ok(seed), Era::Legacy) => Reply::result(seed.legacy_created()),
                (Err(StoreError::Full), _) => no_room("there is no room for more tasks"),
                (Err(error), _) => Reply::Error(failed(error)),
            }
        }))
    }

    /// Leaves a task to the runner.
    fn order(&self, seed: TaskRecord, work: Work, context: Context) -> Result<Arc<Live>, Reply> {
        let mut intake = lock(&self.intake);
        if intake.closed {
            return Err(Reply::Error(ended()));
        }
        intake.last = intake.last.saturating_add(1);
        let key = TaskKey(intake.last);
        let waker = TaskWaker::new(key, self.signal.clone());
        let live = Arc::new(Live::new(seed, self.clock.clone(), waker));
        self.desk.admit(&live).map_err(|QuotaError| no_room("too many tasks are running"))?;
        let context = context.in_task(live.clone());
        intake.orders.push(Order { key, live: live.clone(), work, context });
        Ok(live)
    }

    // --- For the runner ---

    pub(super) fn take_orders(&self) -> Vec<Order> {
        core::mem::take(&mut lock(&self.intake).orders)
    }

    pub(super) fn has_orders(&self) -> bool {
        !lock(&self.intake).orders.is_empty()
    }

    /// Nothing runs any more. Returns what had not begun.
    pub(super) fn close(&self) -> Vec<Order> {
        self.pauses.close();
        let mut intake = lock(&self.intake);
        intake.closed = true;
        core::mem::take(&mut intake.orders)
    }
}

/// What is said of tasks that end because nothing runs them any more.
pub(super) fn ended() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, "the server has ended before the task has")
}

/// A task that its client does not know of yet.
struct Claim(Option<Arc<Live>>);

impl Claim {
    /// Waits until there is the task or none. The client is then told.
    async fn settle(mut self) -> Result<TaskRecord, StoreError> {
        if let Some(live) = &self.0 {
            live.created().await?;
        }
        self.0.take().map(|live| live.seed().clone()).ok_or(StoreError::Conflict)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(live) = self.0.take() {
            live.end(Standing::Cancelled);
        }
    }
}
