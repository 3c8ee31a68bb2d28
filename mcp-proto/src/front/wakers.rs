//! The wakers of drivers, their tasks and their waiters.
//!
//! A connection has one waker slot. The driver fills it under the lock of the machine, only if no work was left there;
//! commands and handlers take the waker out and call it. Wakers are cloned, called and dropped outside every lock.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::{Future, poll_fn};
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Poll, Waker};

use crate::inline_map::InlineQueue;
use crate::ordered_map::OrderedMap;
use crate::peer::InboundId;
use crate::prelude::*;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose content stays valid across panics.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs code under a lock, then calls and drops the wakers that it collected outside the lock.
pub(crate) fn update<T, R>(mutex: &Mutex<T>, act: impl FnOnce(&mut T, &mut Wakers) -> R) -> R {
    let mut wakers = Wakers::default();
    let result = act(&mut lock(mutex), &mut wakers);
    wakers.release();
    result
}

/// Wakers collected under a lock, to be called and dropped after its release.
#[derive(Default)]
#[must_use = "wakers are for waking"]
pub(crate) struct Wakers {
    due: InlineQueue<Waker>,
    discarded: InlineQueue<Waker>,
}

impl Wakers {
    /// Adds a waker to call.
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.due.push_back(waker);
        }
    }

    /// Adds all of these wakers to call.
    pub(crate) fn wake_all(&mut self, waiters: &mut Waiters) {
        if let Some(waiting) = &mut waiters.0 {
            core::mem::take(&mut waiting.wakers).into_values().for_each(|waker| self.due.push_back(waker));
        }
    }

    /// Adds a replaced waker, which is only dropped.
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.discarded.push_back(waker);
        }
    }

    /// Takes one of the wakers to call.
    pub(crate) fn next(&mut self) -> Option<Waker> {
        self.due.pop_front()
    }

    /// Calls the wakers. No lock may be held.
    #[inline]
    pub(crate) fn release(mut self) {
        // Mostly there are none.
        if self.due.is_empty() && self.discarded.is_empty() {
            return core::mem::forget(self);
        }
        while let Some(waker) = self.due.pop_front() {
            waker.wake();
        }
    }

    /// Returns what was found. Where that is nothing, `waker` waits in `slot`.
    pub(crate) fn found_or_wait<T>(
        &mut self,
        found: Option<T>,
        slot: &mut Option<Waker>,
        waker: Waker,
    ) -> Poll<T> {
        let (unused, polled) = match found {
            Some(found) => (Some(waker), Poll::Ready(found)),
            None => (slot.replace(waker), Poll::Pending),
        };
        self.discard(unused);
        polled
    }
}

/// The wakers of any number of tasks that wait for the same event. Allocated with the first: most events have none.
#[derive(Default)]
pub(crate) struct Waiters(Option<Box<WaitingTasks>>);

#[derive(Default)]
struct WaitingTasks {
    wakers: OrderedMap<u64, Waker>,
    next: u64,
}

impl Waiters {
    /// Stores the waker of a task, under its present key or a new one.
    pub(crate) fn wait(&mut self, key: &mut Option<u64>, waker: Waker, wakers: &mut Wakers) {
        let waiting = self.0.get_or_insert_default();
        let key = *key.get_or_insert_with(|| {
            waiting.next = waiting.next.saturating_add(1);
            waiting.next
        });
        wakers.discard(waiting.wakers.insert(key, waker));
    }

    /// Removes a task that no longer waits.
    pub(crate) fn leave(&mut self, key: Option<u64>, wakers: &mut Wakers) {
        if let (Some(key), Some(waiting)) = (key, &mut self.0) {
            wakers.discard(waiting.wakers.remove(&key));
        }
    }
}

/// A state under a lock, for whose changes tasks wait.
pub(crate) trait WaitPoint {
    type State;

    /// Runs code under the lock, then calls the collected wakers outside the lock.
    fn visit<R>(&self, act: impl FnOnce(&mut Self::State, &mut Wakers) -> R) -> R;

    /// The tasks that wait; `None` once nothing changes any more.
    fn waiters<'s>(&self, state: &'s mut Self::State) -> Option<&'s mut Waiters>;
}

/// A task that waits for a change, until it is dropped.
pub(crate) struct WaitingTask<'a, P: WaitPoint + ?Sized> {
    pub(crate) point: &'a P,
    key: Option<u64>,
}

impl<'a, P: WaitPoint + ?Sized> WaitingTask<'a, P> {
    pub(crate) fn new(point: &'a P) -> Self {
        Self { point, key: None }
    }

    /// Returns what `found` finds in the state. Where that is nothing, `waker` waits.
    pub(crate) fn poll<T>(
        &mut self,
        waker: &Waker,
        found: impl FnOnce(&mut P::State) -> Option<T>,
    ) -> Poll<T> {
        let left = waker.clone();
        self.point.visit(|state, wakers| {
            let found = found(state);
            match self.point.waiters(state) {
                Some(waiters) if found.is_none() => waiters.wait(&mut self.key, left, wakers),
                _ => wakers.discard(Some(left)),
            }
            found.map_or(Poll::Pending, Poll::Ready)
        })
    }
}

impl<P: WaitPoint + ?Sized> Drop for WaitingTask<'_, P> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.point.visit(|state, wakers| {
                if let Some(waiters) = self.point.waiters(state) {
                    waiters.leave(self.key, wakers);
                }
            });
        }
    }
}

/// Waits until `found` finds a value in the state.
pub(crate) async fn wait_until<P: WaitPoint + ?Sized, T>(
    point: &P,
    mut found: impl FnMut(&mut P::State) -> Option<T>,
) -> T {
    let mut waiting = WaitingTask::new(point);
    poll_fn(|cx| waiting.poll(cx.waker(), &mut found)).await
}

/// The waker slot of a driver, and the keys of its tasks that are ready to be polled: the handlers of a connection, or
/// the sessions of a server.
///
/// It is itself the waker of a connection's first request: an exchange of HTTP has no other.
pub(crate) struct Signal<K = InboundId> {
    state: Mutex<SignalState<K>>,
    first: ReadyFlag,
}

struct SignalState<K> {
    driver: Option<Waker>,
    ready: InlineQueue<K>,
}

impl<K> Default for Signal<K> {
    fn default() -> Self {
        let state = SignalState { driver: None, ready: InlineQueue::default() };
        Self { state: Mutex::new(state), first: ReadyFlag::default() }
    }
}

impl<K> Signal<K> {
    /// Stores the driver's waker. Returns whether the driver may sleep, because no task is ready.
    pub(crate) fn park(&self, waker: Waker, wakers: &mut Wakers) -> bool {
        let mut slot = lock(&self.state);
        let rest = slot.ready.is_empty();
        wakers.discard(slot.driver.replace(waker));
        rest
    }

    /// Wakes the driver.
    pub(crate) fn notify(&self) {
        let waker = lock(&self.state).driver.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Marks a task as ready, without waking the driver.
    pub(crate) fn mark_ready(&self, task: K) {
        lock(&self.state).ready.push_back(task);
    }

    /// Marks the driver as running, so that it is not woken until it parks again. Returns the ready tasks, each once;
    /// tasks that become ready meanwhile follow next time.
    pub(super) fn begin(&self) -> InlineQueue<K> {
        let (ready, waker) = {
            let mut slot = lock(&self.state);
            (core::mem::take(&mut slot.ready), slot.driver.take())
        };
        drop(waker);
        ready
    }
}

/// Whether a task is queued as ready, or retired, so that its waker does nothing.
#[derive(Default)]
pub(super) struct ReadyFlag(AtomicBool);

impl ReadyFlag {
    /// Makes the task wakeable again, before it is polled.
    pub(super) fn arm(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the task is queued to be polled again.
    pub(super) fn is_queued(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Makes the waker do nothing from now on, because the task has ended.
    pub(super) fn retire(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Queues a task that is not queued yet, and wakes its driver.
    fn wake<K>(&self, task: K, signal: &Signal<K>) {
        if !self.0.swap(true, Ordering::AcqRel) {
            signal.mark_ready(task);
            signal.notify();
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.first.wake(InboundId::FIRST, self);
    }
}

/// The waker of one task of a driver.
pub(super) struct TaskWaker<K = InboundId> {
    pub(super) task: K,
    ready: ReadyFlag,
    signal: Arc<Signal<K>>,
}

impl<K> TaskWaker<K> {
    /// Creates the waker of a task that has not been polled yet.
    pub(super) fn new(task: K, signal: Arc<Signal<K>>) -> Arc<Self> {
        Arc::new(Self { task, ready: ReadyFlag::default(), signal })
    }
}

impl<K> Deref for TaskWaker<K> {
    type Target = ReadyFlag;

    fn deref(&self) -> &ReadyFlag {
        &self.ready
    }
}

impl<K: Copy + Send + Sync + 'static> Wake for TaskWaker<K> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.wake(self.task, &self.signal);
    }
}

/// The waker of a request's handler: the first of a connection shares its driver's signal.
pub(super) enum HandlerWaker {
    First(Arc<Signal>),
    Other(Arc<TaskWaker>),
}

impl HandlerWaker {
    /// Creates the waker of a new handler, in the memory of `spare`, that of a handler which has ended, unless someone kept it.
    pub(super) fn new(request: InboundId, signal: &Arc<Signal>, spare: Option<Arc<TaskWaker>>) -> Self {
        if request == InboundId::FIRST {
            return Self::First(signal.clone());
        }
        if let Some(mut task) = spare
            && let Some(unused) = Arc::get_mut(&mut task)
        {
            (unused.task, unused.ready) = (request, ReadyFlag::default());
            return Self::Other(task);
        }
        Self::Other(TaskWaker::new(request, signal.clone()))
    }

    /// What another handler can take over.
    pub(super) fn into_spare(self) -> Option<Arc<TaskWaker>> {
        match self {
            Self::First(_) => None,
            Self::Other(task) => Some(task),
        }
    }

    pub(super) fn waker(&self) -> Waker {
        match self {
            Self::First(signal) => signal.clone().into(),
            Self::Other(task) => task.clone().into(),
        }
    }
}

impl Deref for HandlerWaker {
    type Target = ReadyFlag;

    fn deref(&self) -> &ReadyFlag {
        match self {
            Self::First(signal) => &signal.first,
            Self::Other(task) => &task.ready,
        }
    }
}

/// A boxed future that stays on its thread.
pub(crate) type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;
/// A boxed future that may move to other threads.
pub(crate) type SendFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
