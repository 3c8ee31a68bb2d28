//! The runner of task handlers, which saves their tasks and notifies clients.

use alloc::sync::Arc;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use super::running::{RunningTask, TaskKey, encode_result};
use super::service::{NewTask, TaskService, TaskWork, server_ended};
use super::{StoreError, StoredTaskState, TaskRecord};
use crate::Instant;
use crate::front::handler::context::Context;
use crate::front::handler_error::catch_panic;
use crate::front::mode::HandlerMode;
use crate::front::reply::Reply;
use crate::front::router::ServedRouter;
use crate::front::wakers::{TaskWaker, Wakers};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::server::adapt_error;
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::tasks::TaskStatus;
use crate::schema::tasks::legacy::TaskStatusChanged;
use crate::schema::{CallTool, Era, Method as _, Notification as _, ResultType};

/// The interval at which the store deletes expired tasks, while there may be any.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How often in a row a record is read again after a conflict. Other instances only cancel tasks and answer input
/// requests.
const MAX_CONFLICTS: u8 = 8;

/// Runs tasks. It belongs to a driver, which polls it.
pub(in crate::front) struct TaskRunner<M: HandlerMode> {
    service: Arc<TaskService>,
    router: ServedRouter<M>,
    runs: OrderedMap<TaskKey, TaskRun<M>>,
    /// When each task has the next thing to do that nothing wakes it for: its [`TaskRun::due`].
    timers: OrderedSet<(Instant, TaskKey)>,
    sweep: ExpirySweep,
}

impl<M: HandlerMode> TaskRunner<M> {
    pub(in crate::front) fn new(service: Arc<TaskService>, router: ServedRouter<M>) -> Self {
        let sweep = ExpirySweep::new(&service);
        Self { service, router, runs: OrderedMap::new(), timers: OrderedSet::new(), sweep }
    }

    /// Runs all tasks that are ready, and stores the driver's waker.
    pub(in crate::front) fn poll(&mut self, cx: &mut TaskContext<'_>) {
        let now = self.service.clock.now();
        let ready = self.service.signal.begin();
        for order in self.service.take_new() {
            self.start(order, now);
        }
        for key in ready {
            self.run(key);
        }
        while let Some(&(due, key)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            if let Some(run) = self.runs.get_mut(&key) {
                run.scheduled = None;
                run.handle_timeout(&self.service, now);
            }
            self.run(key);
        }
        self.service.sleeps.wake(now);
        self.sweep.poll(&self.service, now);
        let mut wakers = Wakers::default();
        let rest = self.service.signal.park(cx.waker().clone(), &mut wakers);
        wakers.release();
        // Later changes call the stored waker. Changes before it was stored would be missed.
        if !rest || self.service.has_new() {
            cx.waker().wake_by_ref();
        }
    }

    /// The time at which [`poll`](Self::poll) is due, if the waker is not called earlier.
    pub(in crate::front) fn next_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(due, _)| *due);
        [timer, self.service.sleeps.due(), self.sweep.due()].into_iter().flatten().min()
    }

    fn start(&mut self, order: NewTask, now: Instant) {
        let key = order.task.waker.task;
        let deadline = order.task.initial.ttl.map(|ttl| now + ttl);
        if let Some(deadline) = deadline {
            self.sweep.until(deadline, now);
        }
        let mut run =
            TaskRun::new(&self.service, ServedRouter::unchanging(self.router.router()), order, deadline);
        run.schedule_refresh(&self.service, now);
        self.runs.insert(key, run);
        self.run(key);
    }

    fn run(&mut self, key: TaskKey) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let is_over = run.poll(&self.service).is_ready();
        let due = run.due().filter(|_| !is_over);
        if run.scheduled != due {
            self.timers.extend(due.map(|due| (due, key)));
            if let Some(before) = mem::replace(&mut run.scheduled, due) {
                self.timers.remove(&(before, key));
            }
        }
        if is_over && let Some(run) = self.runs.remove(&key) {
            run.retire(&self.service);
        }
    }
}

impl<M: HandlerMode> Drop for TaskRunner<M> {
    fn drop(&mut self) {
        for order in self.service.close() {
            order.task.set_created(Err(StoreError::Failed("the server has ended".into())));
            order.task.end(StoredTaskState::Failed(server_ended()));
            self.service.registry.remove(&order.task);
            let _ = catch_panic(|| drop(order));
        }
        while let Some((_, mut run)) = self.runs.pop_first() {
            run.task.set_created(Err(StoreError::Failed("the server has ended".into())));
            run.task.end(StoredTaskState::Failed(server_ended()));
            // A store that completes at once saves the failure; in any other, the task stays until it expires.
            let _ = run.poll(&self.service);
            run.retire(&self.service);
        }
    }
}

/// A running task.
struct TaskRun<M: HandlerMode> {
    /// The router at its start.
    router: ServedRouter<M>,
    task: Arc<RunningTask>,
    /// The context of the task.
    context: Context,
    /// The work of the task, until it starts.
    work: Option<TaskWork>,
    handler: Option<M::HandlerFuture>,
    /// The tool whose call it is, unless the work is the rest of one.
    tool: Option<String>,
    storing: Option<StoreOperation>,
    /// The version in the store; `None` until the task is created there.
    version: Option<u64>,
    /// Whether the store has lost the task: the next save creates it again.
    is_lost: bool,
    /// The status that the client was last notified of.
    published_status: TaskStatus,
    /// When the task expires, until then.
    deadline: Option<Instant>,
    /// The next lookup in a shared store.
    next_refresh: Option<Instant>,
    /// The time of its entry among the timers of the runner.
    scheduled: Option<Instant>,
    /// The number of changes that the pending save covers; their listeners are notified after it.
    saving: u64,
    pending_publish: Option<TaskRecord>,
    /// Whether the store failed to save a change.
    save_failed: bool,
    /// The number of successive conflicts with changes of other instances.
    conflicts: u8,
    /// Whether the final state is kept in memory, because the store failed to save it.
    retains_result: bool,
}

/// A pending operation of the store.
type StoreOperation = Pin<Box<dyn Future<Output = StoreResult> + Send>>;

enum StoreResult {
    Created(Result<(), StoreError>),
    Updated(Result<u64, StoreError>),
    /// `Reread` follows a conflict; `Refreshed` is a periodic lookup.
    Reread(Result<Option<TaskRecord>, StoreError>),
    Refreshed(Result<Option<TaskRecord>, StoreError>),
}

impl<M: HandlerMode> TaskRun<M> {
    fn new(
        service: &TaskService,
        router: ServedRouter<M>,
        order: NewTask,
        deadline: Option<Instant>,
    ) -> Self {
        let NewTask { task: live, work, context, .. } = order;
        let tool = match &work {
            TaskWork::Call(call) => Some(call.name.to_string()),
            TaskWork::Detached(_) => None,
        };
        let (store, seed, now) = (service.registry.config.store.clone(), live.initial.clone(), service.now());
        let storing = Box::pin(async move {
            // Expired tasks make room for new ones; if that fails, `create` decides whether there is room.
            let _ = store.expire(now).await;
            StoreResult::Created(store.create(seed).await)
        });
        Self {
            router,
            task: live,
            context,
            work: Some(work),
            handler: None,
            tool,
            storing: Some(storing),
            version: None,
            is_lost: false,
            published_status: TaskStatus::Working,
            deadline,
            next_refresh: None,
            scheduled: None,
            saving: 0,
            pending_publish: None,
            save_failed: false,
            conflicts: 0,
            retains_result: false,
        }
    }

    /// Ready once the task has ended and is saved.
    fn poll(&mut self, service: &TaskService) -> Poll<()> {
        self.task.waker.arm();
        let waker = Waker::from(self.task.waker.clone());
        let mut cx = TaskContext::from_waker(&waker);
        let mut answered = false;
        loop {
            if let Some(stored) = self.poll_store(&mut cx) {
                self.handle_stored(service, stored);
                if self.version.is_none() {
                    return Poll::Ready(());
                }
                continue;
            }
            if self.version.is_none() {
                return Poll::Pending;
            }
            if !answered {
                answered = true;
                self.poll_handler(&mut cx);
            }
            if self.storing.is_none()
                && let Some(changes) = self.task.take_unsaved()
            {
                self.save(service, changes);
                continue;
            }
            let done = self.task.has_ended() && self.storing.is_none() && !self.retains_result;
            return if done { Poll::Ready(()) } else { Poll::Pending };
        }
    }

    // --- Timers ---

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    fn due(&self) -> Option<Instant> {
        [self.deadline, self.next_refresh, self.task.progress_due()].into_iter().flatten().min()
    }

    /// Expires the task, looks up the changes of other instances and sends the waiting report, as far as it is time.
    fn handle_timeout(&mut self, service: &TaskService, now: Instant) {
        if self.deadline.take_if(|deadline| *deadline <= now).is_some() {
            self.retains_result = false;
            let error =
                ErrorObject::new(code::INTERNAL_ERROR, "the task did not end within its time to live");
            self.task.end(StoredTaskState::Failed(error));
        }
        if self.next_refresh.is_some_and(|due| due <= now) {
            self.refresh(service);
            self.schedule_refresh(service, now);
        }
        self.task.send_due_progress(now);
    }

    fn schedule_refresh(&mut self, service: &TaskService, now: Instant) {
        let is_shared = service.registry.config.store.is_shared();
        self.next_refresh = is_shared.then(|| now + self.task.initial.refresh_interval());
    }

    /// Lets go of a task that has ended.
    fn retire(&self, service: &TaskService) {
        service.registry.remove(&self.task);
        self.task.mark_saved();
        self.task.waker.retire();
    }

    // --- The handler ---

    fn poll_handler(&mut self, cx: &mut TaskContext<'_>) {
        loop {
            if self.task.has_ended() {
                let (work, handler) = (self.work.take(), self.handler.take());
                let _ = catch_panic(|| drop((work, handler)));
                return;
            }
            let connection = self.context.connection().clone();
            let call = (self.context.inbound_request().id, Some(CallTool::NAME), self.tool.as_deref());
            if let Some(work) = self.work.take() {
                let (context, begun) = (self.context.clone(), connection.now());
                let started = catch_panic(|| self.router.begin_task(work, context));
                connection.report_if_blocked(begun, call);
                match started {
                    Ok(handler) => self.handler = Some(handler),
                    Err(_) => return self.finish(Reply::tool_panic()),
                }
            }
            let Some(handler) = &mut self.handler else { return };
            let begun = connection.now();
            let polled = catch_panic(|| Pin::new(handler).poll(cx));
            connection.report_if_blocked(begun, call);
            let reply = match polled {
                Ok(Poll::Pending) => return,
                Ok(Poll::Ready(reply)) => reply,
                Err(_) => Reply::tool_panic(),
            };
            let handler = self.handler.take();
            let _ = catch_panic(|| drop(handler));
            match reply {
                Reply::Detached(rest) => self.work = Some(TaskWork::Detached(rest.work)),
                reply => return self.finish(reply),
            }
        }
    }

    //= S11.4 "`failed` only for JSON-RPC errors (with `error`); isError result → `completed`"
    /// A result with `isError` completes the task like any other result.
    fn finish(&self, reply: Reply) {
        let revision = self.context.revision();
        let failed = |message| {
            StoredTaskState::Failed(adapt_error(ErrorObject::new(code::INTERNAL_ERROR, message), revision))
        };
        self.task.end(match reply {
            Reply::Result(result) => match result.result_type() {
                None | Some(ResultType::Complete) => {
                    match catch_panic(|| encode_result(&*result, revision)) {
                        Ok(Ok(result)) => StoredTaskState::Completed(result),
                        Ok(Err(error)) => failed(alloc::format!("the result cannot be encoded: {error}")),
                        Err(_) => return self.finish(Reply::tool_panic()),
                    }
                }
                Some(_) => failed("a task cannot have a result of this type".into()),
            },
            //= S1.10 "Emit only defined codes of -32020…-32099; not -32002/-32042"
            Reply::Error(error) | Reply::Denied(error, _) => {
                StoredTaskState::Failed(adapt_error(error, revision))
            }
            Reply::InputRequired(_) | Reply::Detached(_) | Reply::Received(_) | Reply::Failed(_) => {
                failed("a task requests input through its context, not in its result".into())
            }
        });
    }

    // --- Notifications ---

    fn publish(&mut self, service: &TaskService, record: &TaskRecord) {
        (service.listener)(&record.updated());
        let status = record.legacy_status();
        if self.context.era() == Era::Legacy && status != self.published_status {
            let changed = record.legacy_changed();
            self.context
                .connection()
                .act(|mut server| server.notify_session(TaskStatusChanged::INFO, &changed));
        }
        self.published_status = status;
    }

    // --- The store ---

    fn poll_store(&mut self, cx: &mut TaskContext<'_>) -> Option<StoreResult> {
        let storing = self.storing.as_mut()?;
        let stored = match catch_panic(|| storing.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(stored)) => stored,
            Err(_) => {
                let error = StoreError::Failed("the store has failed unexpectedly".into());
                if self.version.is_none() {
                    StoreResult::Created(Err(error))
                } else {
                    StoreResult::Updated(Err(error))
                }
            }
        };
        let storing = self.storing.take();
        let _ = catch_panic(|| drop(storing));
        Some(stored)
    }

    fn save(&mut self, service: &TaskService, changes: u64) {
        let Some(version) = self.version else { return };
        self.saving = changes;
        self.pending_publish = self.task.take_unpublished().or(self.pending_publish.take());
        let record = TaskRecord { version, ..self.task.record() };
        let store = service.registry.config.store.clone();
        let is_lost = mem::take(&mut self.is_lost);
        self.storing = Some(Box::pin(async move {
            StoreResult::Updated(if is_lost {
                let version = version.saturating_add(1);
                store.create(TaskRecord { version, ..record }).await.map(|()| version)
            } else {
                store.update(record).await
            })
        }));
    }

    /// Handles the end of a save, successful or of a store that is not shared. Listeners are notified only now: their
    /// answers may reach an instance that knows only the store.
    fn handle_saved(&mut self, service: &TaskService) {
        self.task.set_saved(self.saving);
        if let Some(record) = self.pending_publish.take() {
            self.publish(service, &record);
        }
    }

    /// Looks up changes of other instances. A pending save would detect them as well.
    fn refresh(&mut self, service: &TaskService) {
        if self.storing.is_some() || self.version.is_none() {
            return;
        }
        if mem::take(&mut self.save_failed) {
            return self.task.mark_unsaved();
        }
        if self.task.has_ended() {
            return;
        }
        let (store, id) = (service.registry.config.store.clone(), self.task.initial.id.clone());
        self.storing = Some(Box::pin(async move { StoreResult::Refreshed(store.get(&id).await) }));
    }

    /// Merges the changes of other instances.
    fn merge(&mut self, service: &TaskService, record: Option<TaskRecord>) {
        match record {
            // The answers that were taken must be removed from the store.
            Some(record) if !record.state.is_terminal() => {
                self.version = Some(record.version);
                self.task.merge(record);
                return self.task.mark_unsaved();
            }
            Some(record) => self.task.force_end(record.state),
            // The store deleted it because it expired.
            None if self.task.initial.is_expired(service.now()) => {
                self.task.force_end(StoredTaskState::Cancelled);
            }
            // A failover forgot its creation.
            None => {
                self.is_lost = true;
                return self.task.mark_unsaved();
            }
        }
        self.task.mark_saved();
        if let Some(record) = self.task.take_unpublished() {
            self.publish(service, &record);
        }
    }

    fn handle_stored(&mut self, service: &TaskService, stored: StoreResult) {
        match stored {
            StoreResult::Created(created) => {
                self.version = created.is_ok().then_some(0);
                if let Err(error) = &created {
                    self.task.end(StoredTaskState::Failed(error.clone().into()));
                }
                self.task.set_created(created);
            }
            StoreResult::Updated(Ok(version)) => {
                self.conflicts = 0;
                self.retains_result = false;
                self.version = Some(version);
                self.handle_saved(service);
            }
            StoreResult::Updated(Err(StoreError::Conflict)) if self.conflicts < MAX_CONFLICTS => {
                self.conflicts = self.conflicts.saturating_add(1);
                let (store, id) = (service.registry.config.store.clone(), self.task.initial.id.clone());
                self.storing = Some(Box::pin(async move { StoreResult::Reread(store.get(&id).await) }));
            }
            StoreResult::Updated(Err(error)) | StoreResult::Reread(Err(error)) => {
                self.handle_save_failure(service, &error)
            }
            StoreResult::Refreshed(Ok(Some(record))) if Some(record.version) == self.version => {}
            // The next refresh tries again.
            StoreResult::Refreshed(Err(_)) => {}
            StoreResult::Reread(Ok(record)) | StoreResult::Refreshed(Ok(record)) => {
                self.merge(service, record)
            }
        }
    }

    /// Handles a failed save. Changes are saved with the next change or refresh; a final state is kept until then, and
    /// without a shared store until the task expires.
    fn handle_save_failure(&mut self, service: &TaskService, error: &StoreError) {
        let is_over = self.task.has_ended();
        if is_over && *error == StoreError::Full && !self.retains_result && !self.task.is_result_lost() {
            let message = "the store has no room for the result of the task";
            return self.task.fail_unsaved(ErrorObject::new(code::INTERNAL_ERROR, message));
        }
        let is_shared = service.registry.config.store.is_shared();
        if is_shared {
            self.task.set_save_error(error.clone());
        } else {
            self.handle_saved(service);
        }
        // The next save reads the record again if others have changed it.
        self.conflicts = 0;
        self.save_failed = true;
        let is_saved_later = is_shared && self.task.initial.ttl.is_none();
        self.retains_result = is_over && (self.deadline.is_some() || is_saved_later);
    }
}

/// Periodically deletes expired tasks from the store.
struct ExpirySweep {
    waker: Arc<TaskWaker<TaskKey>>,
    next: Option<Instant>,
    /// The latest expiry of the tasks that started here.
    last: Instant,
    running: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ExpirySweep {
    fn new(service: &TaskService) -> Self {
        let waker = TaskWaker::new(TaskKey::HOUSEKEEPING, service.signal.clone());
        Self { waker, next: None, last: Instant::ORIGIN, running: None }
    }

    /// Schedules sweeps until after `deadline`, the expiry of a new task.
    fn until(&mut self, deadline: Instant, now: Instant) {
        self.last = self.last.max(deadline);
        self.next.get_or_insert(now + SWEEP_INTERVAL);
    }

    fn due(&self) -> Option<Instant> {
        self.next.filter(|_| self.running.is_none())
    }

    /// Continues the sweep in progress, and begins the next one if that is due.
    fn poll(&mut self, service: &TaskService, now: Instant) {
        loop {
            if let Some(running) = &mut self.running {
                self.waker.arm();
                let waker = Waker::from(self.waker.clone());
                let mut cx = TaskContext::from_waker(&waker);
                if matches!(catch_panic(|| running.as_mut().poll(&mut cx)), Ok(Poll::Pending)) {
                    return;
                }
                let running = self.running.take();
                let _ = catch_panic(|| drop(running));
            }
            if self.next.is_none_or(|due| due > now) {
                return;
            }
            self.next = (self.last >= now).then(|| now + SWEEP_INTERVAL);
            let (store, time) = (service.registry.config.store.clone(), service.now());
            self.running = Some(Box::pin(async move {
                // A later sweep tries again.
                let _ = store.expire(time).await;
            }));
        }
    }
}
