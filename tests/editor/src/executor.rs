//! The editor's executor: a run queue and timers that its event loop owns. Tasks run on the thread of the event loop, a
//! few at a time between two frames, and are cancelled when their handle is dropped.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::AppEvent;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

pub struct Executor {
    /// A task is absent from its entry while it is polled.
    tasks: RefCell<BTreeMap<u64, Option<LocalFuture>>>,
    next_id: Cell<u64>,
    run_queue: Arc<RunQueue>,
}

struct RunQueue {
    woken: Mutex<VecDeque<u64>>,
    events: Sender<AppEvent>,
}

/// A running task. Dropping the handle cancels the task.
#[must_use = "dropping it cancels the task"]
pub struct Task {
    id: u64,
    executor: Weak<Executor>,
}

struct TaskWaker {
    id: u64,
    run_queue: Arc<RunQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut woken = self.run_queue.woken.lock().unwrap();
        if !woken.contains(&self.id) {
            woken.push_back(self.id);
            // The event loop waits for events alone. It is gone if this fails.
            let _ = self.run_queue.events.send(AppEvent::Wake);
        }
    }
}

impl Executor {
    pub fn new(events: Sender<AppEvent>) -> Rc<Self> {
        let run_queue = Arc::new(RunQueue { woken: Mutex::default(), events });
        Rc::new(Self { tasks: RefCell::default(), next_id: Cell::default(), run_queue })
    }

    pub fn spawn(self: &Rc<Self>, future: impl Future<Output = ()> + 'static) -> Task {
        let id = self.next_id.replace(self.next_id.get() + 1);
        self.tasks.borrow_mut().insert(id, Some(Box::pin(future)));
        self.waker(id).wake();
        Task { id, executor: Rc::downgrade(self) }
    }

    /// Polls the next task that was woken. Returns whether there was one.
    pub fn poll_one(&self) -> bool {
        let Some(id) = self.run_queue.woken.lock().unwrap().pop_front() else { return false };
        let Some(mut task) = self.tasks.borrow_mut().get_mut(&id).and_then(Option::take) else { return true };
        if task.as_mut().poll(&mut Context::from_waker(&self.waker(id))).is_ready() {
            self.tasks.borrow_mut().remove(&id);
        } else if let Some(entry) = self.tasks.borrow_mut().get_mut(&id) {
            *entry = Some(task);
        }
        true
    }

    pub fn is_idle(&self) -> bool {
        self.run_queue.woken.lock().unwrap().is_empty()
    }

    fn waker(&self, id: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker { id, run_queue: self.run_queue.clone() }))
    }
}

impl Task {
    /// Lets the task run to its end.
    pub fn detach(mut self) {
        self.executor = Weak::new();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(executor) = self.executor.upgrade() {
            // Dropped only after the tasks are no longer borrowed: a task may own handles of others.
            let _task = executor.tasks.borrow_mut().remove(&self.id);
        }
    }
}

/// The timers of the event loop, in the order of their deadlines.
#[derive(Clone)]
pub struct Timers {
    wakers: Arc<Mutex<BTreeMap<(Instant, u64), Waker>>>,
    next_id: Arc<Mutex<u64>>,
    events: Sender<AppEvent>,
}

impl Timers {
    pub fn new(events: Sender<AppEvent>) -> Self {
        Self { wakers: Arc::default(), next_id: Arc::default(), events }
    }

    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(Instant::now() + duration)
    }

    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        let mut next = self.next_id.lock().unwrap();
        *next += 1;
        Sleep { timers: self.clone(), key: (deadline, *next) }
    }

    /// Wakes the tasks whose deadline has passed. Returns how long the event loop may wait for the next.
    pub fn fire(&self) -> Option<Duration> {
        let now = Instant::now();
        let due = {
            let mut wakers = self.wakers.lock().unwrap();
            let later = wakers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut *wakers, later)
        };
        due.into_values().for_each(Waker::wake);
        let next = self.wakers.lock().unwrap().keys().next().map(|(deadline, _)| *deadline)?;
        Some(next.saturating_duration_since(now))
    }
}

pub struct Sleep {
    timers: Timers,
    key: (Instant, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= Instant::now() {
            return Poll::Ready(());
        }
        let mut wakers = self.timers.wakers.lock().unwrap();
        wakers.insert(self.key, cx.waker().clone());
        if wakers.keys().next() == Some(&self.key) {
            // The event loop waits for less time now.
            let _ = self.timers.events.send(AppEvent::Wake);
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.timers.wakers.lock().unwrap().remove(&self.key);
    }
}
