//! Runs the handlers of tasks, and tells the store and the clients what becomes of them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use super::home::{Home, Order, TaskKey, ended};
use super::live::{Live, encoded};
use super::{Standing, StoreError, TaskRecord, Work};
use crate::Instant;
use crate::front::handling::contain;
use crate::front::reply::Reply;
use crate::front::router::Router;
use crate::front::signal::{TaskWaker, Wakers};
use crate::front::{Context, Mode};
use crate::peer::server::adapt_error;
use crate::rpc::{ErrorObject, code};
use crate::schema::tasks::TaskStatus;
use crate::schema::{Era, ResultType};

/// How often the store is asked to forget tasks whose time is over, while there may be such.
const CLEANING: Duration = Duration::from_secs(60);

/// How often in a row a record is read again because somebody else has changed it. Others only ever cancel, and answer
/// what is asked.
const CONFLICTS: u8 = 8;

/// How long to wait before a task is looked up again, given its poll interval. A store is not asked more often than this,
/// however often clients ask.
pub(super) fn looking(poll_interval: Duration) -> Duration {
    poll_interval.max(Duration::from_millis(100))
}

/// Runs tasks. It belongs to a driver, which polls it.
pub(crate) struct Runner<H: Mode> {
    home: Arc<Home>,
    router: Arc<Router<H>>,
    runs: BTreeMap<TaskKey, Run<H>>,
    /// When the time of each is over.
    timers: BTreeSet<(Instant, TaskKey)>,
    /// When each is to be looked up in the store, if others may change it there.
    looks: BTreeSet<(Instant, TaskKey)>,
    cleaning: Cleaning,
}

impl<H: Mode> Runner<H> {
    pub(in crate::front) fn new(home: Arc<Home>, router: Arc<Router<H>>) -> Self {
        let cleaning = Cleaning::new(&home);
        let (runs, timers, looks) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { home, router, runs, timers, looks, cleaning }
    }

    /// Does what there is to do, and leaves the driver's waker for when there is more.
    pub(in crate::front) fn poll(&mut self, cx: &mut TaskContext<'_>) {
        let now = self.home.clock.now();
        let ready = self.home.signal.begin();
        for order in self.home.take_orders() {
            self.start(order, now);
        }
        for key in ready {
            self.run(key);
        }
        while let Some(&(due, key)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            self.expire(key);
        }
        while let Some(&(due, key)) = self.looks.first()
            && due <= now
        {
            self.looks.pop_first();
            self.look(key, now);
        }
        self.home.pauses.wake(now);
        self.cleaning.poll(&self.home, now);
        let mut wakers = Wakers::default();
        let rest = self.home.signal.park(cx.waker().clone(), &mut wakers);
        wakers.release();
        // What comes after the waker was left calls it. What came before would be missed.
        if !rest || self.home.has_orders() {
            cx.waker().wake_by_ref();
        }
    }

    /// When [`poll`](Self::poll) is due, if the waker is not called before.
    pub(in crate::front) fn next_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(due, _)| *due);
        let look = self.looks.first().map(|(due, _)| *due);
        [timer, look, self.home.pauses.due(), self.cleaning.due()].into_iter().flatten().min()
    }

    fn start(&mut self, order: Order, now: Instant) {
        let key = order.key;
        let deadline = order.live.ttl().map(|ttl| now + ttl);
        self.timers.extend(deadline.map(|deadline| (deadline, key)));
        if let Some(deadline) = deadline {
            self.cleaning.until(deadline, now);
        }
        let run = Run::new(&self.home, order, deadline);
        self.runs.insert(key, run);
        self.look_later(key, now);
        self.run(key);
    }

    /// Others may have changed a task.
    fn look(&mut self, key: TaskKey, now: Instant) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.look(&self.home);
        self.look_later(key, now);
        self.run(key);
    }

    fn look_later(&mut self, key: TaskKey, now: Instant) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.next_look =
            self.home.desk.config.store.is_shared().then(|| now + looking(run.live.seed().poll_interval));
        self.looks.extend(run.next_look.map(|due| (due, key)));
    }

    fn run(&mut self, key: TaskKey) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        if run.poll(&self.home, &self.router).is_ready() {
            self.remove(key);
        }
    }

    /// The time of a task is over.
    fn expire(&mut self, key: TaskKey) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.patient = false;
        let error = ErrorObject::new(code::INTERNAL_ERROR, "the task did not end in its time");
        run.live.end(Standing::Failed(error));
        self.run(key);
    }

    fn remove(&mut self, key: TaskKey) {
        let Some(run) = self.runs.remove(&key) else { return };
        if let Some(deadline) = run.deadline {
            self.timers.remove(&(deadline, key));
        }
        if let Some(due) = run.next_look {
            self.looks.remove(&(due, key));
        }
        self.home.desk.dismiss(&run.live);
        run.live.settle();
        run.live.waker().retire();
    }
}

impl<H: Mode> Drop for Runner<H> {
    fn drop(&mut self) {
        for order in self.home.close() {
            order.live.set_created(Err(StoreError::Failed("the server has ended".into())));
            order.live.end(Standing::Failed(ended()));
            self.home.desk.dismiss(&order.live);
            let _ = contain(|| drop(order));
        }
        while let Some((_, mut run)) = self.runs.pop_first() {
            run.live.set_created(Err(StoreError::Failed("the server has ended".into())));
            run.live.end(Standing::Failed(ended()));
            // A store that does things at once is told; another finds out when the time of the task is over.
            let _ = run.poll(&self.home, &self.router);
            self.home.desk.dismiss(&run.live);
            run.live.settle();
            run.live.waker().retire();
        }
    }
}

/// One task that runs.
struct Run<H: Mode> {
    live: Arc<Live>,
    waker: Waker,
    /// That of the task.
    context: Context,
    /// What it does, until it has begun.
    work: Option<Work>,
    handler: Option<H::Answering>,
    storing: Option<Storing>,
    /// The version that the store has; none before it has one.
    version: Option<u64>,
    /// How the client was last told that it is doing.
    told: TaskStatus,
    deadline: Option<Instant>,
    next_look: Option<Instant>,
    /// After how many changes the store is being told, and of which those who listen are told then.
    saving: u64,
    telling: Option<TaskRecord>,
    /// Whether the store has failed to take a change.
    behind: bool,
    /// How often in a row somebody else had changed the record.
    conflicts: u8,
    /// Whether what it has come to is kept here in place of a store that fails, until its time is over.
    patient: bool,
}

/// What the store is doing, of the result of which kind.
type Storing = Pin<Box<dyn Future<Output = Stored> + Send>>;

enum Stored {
    Created(Result<(), StoreError>),
    Updated(Result<(), StoreError>),
    /// Read because somebody else has changed it, and because somebody might have.
    Read(Result<Option<TaskRecord>, StoreError>),
    Looked(Result<Option<TaskRecord>, StoreError>),
}

impl<H: Mode> Run<H> {
    fn new(home: &Home, order: Order, deadline: Option<Instant>) -> Self {
        let Order { live, work, context, .. } = order;
        let (store, seed, now) = (home.desk.config.store.clone(), live.seed().clone(), home.now());
        let storing = Box::pin(async move {
            // What is over makes room for what begins; if that fails, there is room or none.
            let _ = store.expire(now).await;
            Stored::Created(store.create(seed).await)
        });
        Self {
            waker: Waker::from(live.waker().clone()),
            live,
            context,
            work: Some(work),
            handler: None,
            storing: Some(storing),
            version: None,
            told: TaskStatus::Working,
            deadline,
            next_look: None,
            saving: 0,
            telling: None,
            behind: false,
            conflicts: 0,
            patient: false,
        }
    }

    /// Ready once there is nothing left to do.
    fn poll(&mut self, home: &Home, router: &Router<H>) -> Poll<()> {
        self.live.waker().arm();
        let waker = self.waker.clone();
        let mut cx = TaskContext::from_waker(&waker);
        let mut answered = false;
        loop {
            if let Some(stored) = self.poll_store(&mut cx) {
                self.take_note(home, stored);
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
                self.poll_handler(router, &mut cx);
            }
            if self.storing.is_none()
                && let Some(changes) = self.live.take_unsaved()
            {
                self.save(home, changes);
                continue;
            }
            let done = self.live.is_over() && self.storing.is_none() && !self.patient;
            return if done { Poll::Ready(()) } else { Poll::Pending };
        }
    }

    // --- The handler ---

    fn poll_handler(&mut self, router: &Router<H>, cx: &mut TaskContext<'_>) {
        loop {
            if self.live.is_over() {
                let (work, handler) = (self.work.take(), self.handler.take());
                let _ = contain(|| drop((work, handler)));
                return;
            }
            if let Some(work) = self.work.take() {
                let context = self.context.clone();
                match contain(|| router.begin_task(work, context)) {
                    Ok(handler) => self.handler = Some(handler),
                    Err(panicked) => return self.finish(panicked.into()),
                }
            }
            let Some(handler) = &mut self.handler else { return };
            let reply = match contain(|| Pin::new(handler).poll(cx)) {
                Ok(Poll::Pending) => return,
                Ok(Poll::Ready(reply)) => reply,
                Err(panicked) => panicked.into(),
            };
            let handler = self.handler.take();
            let _ = contain(|| drop(handler));
            match reply {
                Reply::Detached(rest) => self.work = Some(Work::Rest(rest.rest)),
                reply => return self.finish(reply),
            }
        }
    }

    /// S11.4: an error of the tool is a result like any other.
    fn finish(&self, reply: Reply) {
        let revision = self.context.revision();
        let failed = |message| {
            Standing::Failed(adapt_error(ErrorObject::new(code::INTERNAL_ERROR, message), revision))
        };
        self.live.end(match reply {
            Reply::Result(result) => match result.result_type() {
                None | Some(ResultType::Complete) => match contain(|| encoded(&*result, revision)) {
                    Ok(Ok(result)) => Standing::Completed(result),
                    Ok(Err(error)) => failed(alloc::format!("the result does not encode: {error}")),
                    Err(panicked) => return self.finish(panicked.into()),
                },
                Some(_) => failed("the result of a task is of a kind that has no place there".into()),
            },
            Reply::Error(error) | Reply::Denied(error, _) => Standing::Failed(adapt_error(error, revision)),
            Reply::InputRequired(_) | Reply::Detached(_) => {
                failed("a task asks for input by its context, not by its result".into())
            }
        });
    }

    // --- Those who are told ---

    fn tell(&mut self, home: &Home, record: &TaskRecord) {
        (home.audience)(&record.updated());
        let status = record.legacy_status();
        if self.context.era() == Era::Legacy && status != self.told {
            self.context.tell_status(&record.legacy_changed());
        }
        self.told = status;
    }

    // --- The store ---

    fn poll_store(&mut self, cx: &mut TaskContext<'_>) -> Option<Stored> {
        let storing = self.storing.as_mut()?;
        let stored = match contain(|| storing.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(stored)) => stored,
            Err(_) => {
                let error = StoreError::Failed("the store has failed unexpectedly".into());
                if self.version.is_none() { Stored::Created(Err(error)) } else { Stored::Updated(Err(error)) }
            }
        };
        let storing = self.storing.take();
        let _ = contain(|| drop(storing));
        Some(stored)
    }

    fn save(&mut self, home: &Home, changes: u64) {
        let Some(version) = self.version else { return };
        self.saving = changes;
        self.telling = self.live.take_untold().or(self.telling.take());
        let record = TaskRecord { version, ..self.live.record() };
        let store = home.desk.config.store.clone();
        self.storing = Some(Box::pin(async move { Stored::Updated(store.update(record).await) }));
    }

    /// The store has what it was told, or has failed. Those who listen are told no sooner: what they answer may reach an
    /// instance that knows the store alone.
    fn saved(&mut self, home: &Home) {
        self.live.set_kept(self.saving);
        if let Some(record) = self.telling.take() {
            self.tell(home, &record);
        }
    }

    /// Looks whether others have changed it. What is being stored would find that out as well.
    fn look(&mut self, home: &Home) {
        if self.storing.is_some() || self.version.is_none() || self.live.is_over() {
            return;
        }
        if core::mem::take(&mut self.behind) {
            return self.live.mark_unsaved();
        }
        let (store, id) = (home.desk.config.store.clone(), self.live.seed().id.clone());
        self.storing = Some(Box::pin(async move { Stored::Looked(store.get(&id).await) }));
    }

    /// Learns what others have made of it.
    fn learn(&mut self, home: &Home, record: Option<TaskRecord>) {
        match record {
            // Answers that were taken need not be there any longer.
            Some(record) if !record.standing.is_terminal() => {
                self.version = Some(record.version);
                self.live.learn(record);
                return self.live.mark_unsaved();
            }
            Some(record) => self.live.overrule(record.standing),
            // It was forgotten: its time is over.
            None => self.live.overrule(Standing::Cancelled),
        }
        self.live.settle();
        if let Some(record) = self.live.take_untold() {
            self.tell(home, &record);
        }
    }

    fn take_note(&mut self, home: &Home, stored: Stored) {
        match stored {
            Stored::Created(created) => {
                self.version = created.is_ok().then_some(0);
                if let Err(error) = &created {
                    self.live.end(Standing::Failed(super::desk::failed(error.clone())));
                }
                self.live.set_created(created);
            }
            Stored::Updated(Ok(())) => {
                self.conflicts = 0;
                self.version = self.version.map(|version| version.saturating_add(1));
                self.saved(home);
            }
            Stored::Updated(Err(StoreError::Conflict)) if self.conflicts < CONFLICTS => {
                self.conflicts = self.conflicts.saturating_add(1);
                let (store, id) = (home.desk.config.store.clone(), self.live.seed().id.clone());
                self.storing = Some(Box::pin(async move { Stored::Read(store.get(&id).await) }));
            }
            Stored::Updated(Err(error)) | Stored::Read(Err(error)) => self.not_saved(home, &error),
            Stored::Looked(Ok(Some(record))) if Some(record.version) <= self.version => {}
            // There is a next time.
            Stored::Looked(Err(_)) => {}
            Stored::Read(Ok(record)) | Stored::Looked(Ok(record)) => self.learn(home, record),
        }
    }

    /// What the next change will tell the store anyway is let go, until others look. What the task has come to is not.
    fn not_saved(&mut self, home: &Home, error: &StoreError) {
        let is_over = self.live.is_over();
        if is_over && *error == StoreError::Full && !self.patient && !self.live.is_spoilt() {
            let message = "there is no room to keep the result of the task";
            return self.live.spoil(ErrorObject::new(code::INTERNAL_ERROR, message));
        }
        self.saved(home);
        self.behind = !is_over;
        self.patient = is_over && self.deadline.is_some();
    }
}

/// Has the store forget what is over, now and then.
struct Cleaning {
    state: Arc<TaskWaker<TaskKey>>,
    waker: Waker,
    next: Option<Instant>,
    /// When there is nothing left to forget of what began here.
    last: Instant,
    running: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Cleaning {
    fn new(home: &Home) -> Self {
        let state = TaskWaker::new(TaskKey::HOUSEKEEPING, home.signal.clone());
        let waker = Waker::from(state.clone());
        Self { state, waker, next: None, last: Instant::ORIGIN, running: None }
    }

    /// A task has begun whose time is over at `deadline`.
    fn until(&mut self, deadline: Instant, now: Instant) {
        self.last = self.last.max(deadline);
        self.next.get_or_insert(now + CLEANING);
    }

    fn due(&self) -> Option<Instant> {
        self.next.filter(|_| self.running.is_none())
    }

    fn poll(&mut self, home: &Home, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.next = (self.last >= now).then(|| now + CLEANING);
            let (store, time) = (home.desk.config.store.clone(), home.now());
            self.running = Some(Box::pin(async move {
                // It is tried again.
                let _ = store.expire(time).await;
            }));
        }
        let Some(running) = &mut self.running else { return };
        self.state.arm();
        let waker = self.waker.clone();
        let mut cx = TaskContext::from_waker(&waker);
        if !matches!(contain(|| running.as_mut().poll(&mut cx)), Ok(Poll::Pending)) {
            let running = self.running.take();
            let _ = contain(|| drop(running));
        }
    }
}
