//! How the driver of a connection is woken.
//!
//! A connection has one waker slot. It is filled by the driver, under the lock of the machine and only if nothing was
//! found to do there; commands and handlers empty it. Wakers are cloned, called and dropped outside every lock.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::inline_map::InlineQueue;
use crate::peer::InboundId;

/// Locks a mutex whose content stays valid whatever panics.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakers collected under a lock, to be called and dropped once it is released.
#[derive(Default)]
#[must_use = "wakers are for waking"]
pub(crate) struct Wakers {
    due: SmallList<Waker>,
    discarded: SmallList<Waker>,
}

/// Mostly one, so that the usual answer allocates nothing.
struct SmallList<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Default for SmallList<T> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<T> SmallList<T> {
    fn push(&mut self, item: T) {
        match &self.first {
            None => self.first = Some(item),
            Some(_) => self.rest.push(item),
        }
    }
}

impl Wakers {
    /// This one is to be called.
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.due.push(waker);
        }
    }

    /// All of these are to be called.
    pub(crate) fn wake_all(&mut self, waiters: &mut Waiters) {
        self.due.rest.extend(core::mem::take(&mut waiters.wakers).into_values());
    }

    /// This one was replaced, and is only to be dropped.
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.discarded.push(waker);
        }
    }

    /// Takes one of those that are to be called.
    pub(crate) fn next(&mut self) -> Option<Waker> {
        self.due.rest.pop().or_else(|| self.due.first.take())
    }

    /// Calls them. No lock may be held.
    pub(crate) fn release(self) {
        for waker in self.due.first.into_iter().chain(self.due.rest) {
            waker.wake();
        }
    }
}

/// Any number of tasks that wait for the same thing.
#[derive(Default)]
pub(crate) struct Waiters {
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl Waiters {
    /// Lets a task wait, under the key it already has or under a new one.
    pub(crate) fn wait(&mut self, key: &mut Option<u64>, waker: Waker, wakers: &mut Wakers) {
        let key = *key.get_or_insert_with(|| {
            self.next = self.next.saturating_add(1);
            self.next
        });
        wakers.discard(self.wakers.insert(key, waker));
    }

    /// A task no longer waits.
    pub(crate) fn leave(&mut self, key: Option<u64>, wakers: &mut Wakers) {
        wakers.discard(key.and_then(|key| self.wakers.remove(&key)));
    }
}

/// The waker slot of a driver, and those of its tasks that are to be polled, by their keys: the handlers of a connection,
/// the sessions of a server.
pub(crate) struct Signal<K = InboundId>(Mutex<SignalState<K>>);

struct SignalState<K> {
    driver: Option<Waker>,
    ready: InlineQueue<K>,
}

impl<K> Default for Signal<K> {
    fn default() -> Self {
        Self(Mutex::new(SignalState { driver: None, ready: InlineQueue::default() }))
    }
}

impl<K> Signal<K> {
    /// Leaves the driver's waker. Returns whether the driver may rest: whether no task is to be polled.
    pub(crate) fn park(&self, waker: Waker, wakers: &mut Wakers) -> bool {
        let mut slot = lock(&self.0);
        let rest = slot.ready.is_empty();
        wakers.discard(slot.driver.replace(waker));
        rest
    }

    /// Wakes the driver.
    pub(crate) fn notify(&self) {
        let waker = lock(&self.0).driver.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Notes that a task is to be polled, without waking the driver.
    pub(crate) fn mark_ready(&self, task: K) {
        lock(&self.0).ready.push_back(task);
    }

    /// The driver runs: it need not be woken until it parks again. Returns the tasks to poll, each once; what becomes
    /// ready meanwhile comes next time.
    pub(super) fn begin(&self) -> InlineQueue<K> {
        let (ready, waker) = {
            let mut slot = lock(&self.0);
            (core::mem::take(&mut slot.ready), slot.driver.take())
        };
        drop(waker);
        ready
    }
}

/// The waker of one task of a driver.
pub(super) struct TaskWaker<K = InboundId> {
    task: K,
    /// Whether it is among the ready ones, or is never to be again.
    queued: AtomicBool,
    signal: Arc<Signal<K>>,
}

impl<K> TaskWaker<K> {
    /// The waker of a task that has not been polled yet.
    pub(super) fn new(task: K, signal: Arc<Signal<K>>) -> Arc<Self> {
        Arc::new(Self { task, queued: AtomicBool::new(false), signal })
    }

    /// From now on the task may be woken again.
    pub(super) fn arm(&self) {
        self.queued.store(false, Ordering::Release);
    }

    /// Whether it is to be polled again.
    pub(super) fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Acquire)
    }

    /// The task is gone: waking it does nothing from now on.
    pub(super) fn retire(&self) {
        self.queued.store(true, Ordering::Release);
    }
}

impl<K: Copy + Send + Sync + 'static> Wake for TaskWaker<K> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.signal.mark_ready(self.task);
            self.signal.notify();
        }
    }
}
