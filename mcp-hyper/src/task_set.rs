//! A set of futures of which only those that were woken are polled.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Maximum number of futures polled before other work of the same task gets a turn.
const POLLS: usize = 256;

/// Slots that are kept for futures to come, besides three for each present one.
const SPARE: usize = 16;

/// Futures of one task, each polled when it was woken.
///
/// The place of a future that has ended is used again, with its waker, so that a future costs no allocation. The places
/// of a rush are freed after it. A wake during [`poll_next`](Self::poll_next), or between [`insert`](Self::insert) and that,
/// does not reach the task: the same call polls the future again.
pub(crate) struct TaskSet<F> {
    slots: Vec<Slot<F>>,
    /// Slots without a future. The first is used next, so that those at the end can be freed.
    free: BTreeSet<usize>,
    /// Slots to poll before those in the queue.
    batch: VecDeque<usize>,
    queue: Arc<ReadyQueue>,
    /// Number of futures inserted so far.
    inserted: u64,
}

struct Slot<F> {
    /// The future, and its number.
    future: Option<(u64, F)>,
    state: Arc<SlotWaker>,
    waker: Waker,
}

/// Identifies a future of a [`TaskSet`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskKey {
    slot: usize,
    number: u64,
}

struct SlotWaker {
    slot: usize,
    /// Whether the slot is in the queue or in the batch.
    is_queued: AtomicBool,
    queue: Arc<ReadyQueue>,
}

struct ReadyQueue(Mutex<Ready>);

struct Ready {
    slots: VecDeque<usize>,
    /// The waker of the task.
    task: Waker,
    /// Whether the task waits for a wake.
    is_parked: bool,
}

impl<F> TaskSet<F> {
    /// The number of futures.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a future. It does not wake the task, which must call [`poll_next`](Self::poll_next) before it waits.
    pub(crate) fn insert(&mut self, future: F) -> TaskKey {
        self.inserted += 1;
        let number = self.inserted;
        let slot = self.free.pop_first().unwrap_or_else(|| {
            let slot = self.slots.len();
            let state =
                Arc::new(SlotWaker { slot, is_queued: AtomicBool::new(false), queue: self.queue.clone() });
            self.slots.push(Slot { future: None, waker: Waker::from(state.clone()), state });
            slot
        });
        if let Some(place) = self.slots.get_mut(slot) {
            place.future = Some((number, future));
            if !place.state.is_queued.swap(true, Ordering::AcqRel) {
                self.batch.push_back(slot);
            }
        }
        self.unpark();
        TaskKey { slot, number }
    }

    /// Drops a future, unless it has ended.
    pub(crate) fn remove(&mut self, key: TaskKey) {
        if let Some(place) = self.slots.get_mut(key.slot)
            && let Some((_, future)) = place.future.take_if(|(number, _)| *number == key.number)
        {
            self.release(key.slot);
            drop(future);
        }
    }

    /// Frees the place of a future that has ended.
    fn release(&mut self, slot: usize) {
        self.free.insert(slot);
        while self.slots.len() > self.len().saturating_mul(4).saturating_add(SPARE)
            && self.free.last().is_some_and(|last| last + 1 == self.slots.len())
        {
            self.free.pop_last();
            self.slots.pop();
        }
        if self.slots.capacity() > self.slots.len().saturating_mul(4).saturating_add(SPARE) {
            self.slots.shrink_to(self.slots.len().saturating_mul(2));
            self.batch.shrink_to(self.slots.len());
        }
    }

    /// Keeps wakes from reaching the task, which polls the set again before it waits.
    pub(crate) fn unpark(&self) {
        self.queue.lock().is_parked = false;
    }

    /// The next slot to poll. Without one, the next wake reaches the task.
    fn next_slot(&mut self, cx: &Context<'_>) -> Option<usize> {
        if self.batch.is_empty() {
            let mut ready = self.queue.lock();
            mem::swap(&mut ready.slots, &mut self.batch);
            ready.is_parked = self.batch.is_empty();
            if ready.is_parked && !ready.task.will_wake(cx.waker()) {
                ready.task.clone_from(cx.waker());
            }
        }
        self.batch.pop_front()
    }
}

impl<F: Future + Unpin> TaskSet<F> {
    /// Polls the futures that were woken or inserted, until one has ended; returns its output. Pending if none is left
    /// to poll, and after many polls.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        for _ in 0..POLLS {
            let Some(slot) = self.next_slot(cx) else { return Poll::Pending };
            let Some(Slot { future, state, waker }) = self.slots.get_mut(slot) else { continue };
            // Before the poll, so that a wake during it counts. The poll sees what precedes an earlier wake.
            state.is_queued.swap(false, Ordering::AcqRel);
            let Some((_, running)) = future else { continue };
            if let Poll::Ready(output) = Pin::new(running).poll(&mut Context::from_waker(waker)) {
                *future = None;
                self.release(slot);
                return Poll::Ready(output);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<F> Default for TaskSet<F> {
    fn default() -> Self {
        let ready = Ready { slots: VecDeque::new(), task: Waker::noop().clone(), is_parked: false };
        let queue = Arc::new(ReadyQueue(Mutex::new(ready)));
        Self { slots: Vec::new(), free: BTreeSet::new(), batch: VecDeque::new(), queue, inserted: 0 }
    }
}

impl ReadyQueue {
    fn lock(&self) -> std::sync::MutexGuard<'_, Ready> {
        // A panic cannot leave it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut ready = self.queue.lock();
            ready.slots.push_back(self.slot);
            mem::take(&mut ready.is_parked).then(|| ready.task.clone())
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

debug_fields! { [F] TaskSet<F>(self) { len = self.len() } }

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts its wakes.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A future that the test ends.
    #[derive(Clone, Default)]
    struct Step(Arc<Mutex<StepState>>);

    #[derive(Default)]
    struct StepState {
        polls: usize,
        is_over: bool,
        waker: Option<Waker>,
    }

    impl Step {
        fn wake(&self) {
            self.0.lock().unwrap().waker.clone().unwrap().wake();
        }

        fn polls(&self) -> usize {
            self.0.lock().unwrap().polls
        }
    }

    impl Future for Step {
        type Output = usize;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
            let mut state = self.0.lock().unwrap();
            state.polls += 1;
            state.waker = Some(cx.waker().clone());
            if state.is_over { Poll::Ready(state.polls) } else { Poll::Pending }
        }
    }

    struct Case {
        set: TaskSet<Step>,
        task: Arc<Task>,
    }

    impl Case {
        fn new() -> Self {
            Self { set: TaskSet::default(), task: Arc::default() }
        }

        fn poll(&mut self) -> Poll<usize> {
            let waker = Waker::from(self.task.clone());
            self.set.poll_next(&mut Context::from_waker(&waker))
        }

        fn wakes(&self) -> usize {
            self.task.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn set_polls_only_futures_that_were_woken() {
        let mut case = Case::new();
        let (first, second) = (Step::default(), Step::default());
        case.set.insert(first.clone());
        case.set.insert(second.clone());
        assert!(case.poll().is_pending());
        assert_eq!(case.wakes(), 0);
        second.wake();
        second.wake();
        assert_eq!(case.wakes(), 1, "one wake is enough until the next poll");
        assert!(case.poll().is_pending());
        assert_eq!((first.polls(), second.polls()), (1, 2));
    }

    #[test]
    fn new_future_wakes_the_others_of_its_set_without_the_task() {
        let mut case = Case::new();
        let first = Step::default();
        case.set.insert(first.clone());
        assert!(case.poll().is_pending());
        case.set.insert(Step::default());
        first.wake();
        assert!(case.poll().is_pending());
        assert_eq!((first.polls(), case.wakes()), (2, 0));
        first.wake();
        assert_eq!(case.wakes(), 1, "the task waits again");
    }

    #[test]
    fn ended_future_leaves_its_place_to_the_next_one() {
        let mut case = Case::new();
        let (first, second) = (Step::default(), Step::default());
        let ended = case.set.insert(first.clone());
        first.0.lock().unwrap().is_over = true;
        assert_eq!(case.poll(), Poll::Ready(1));
        let stale = first.0.lock().unwrap().waker.clone().unwrap();
        case.set.insert(second.clone());
        assert_eq!((case.set.slots.len(), case.set.len()), (1, 1));
        case.set.remove(ended);
        assert_eq!(case.set.len(), 1, "the key names the future that has ended");
        assert!(case.poll().is_pending());
        stale.wake();
        assert!(case.poll().is_pending());
        assert_eq!(second.polls(), 2, "a late wake causes a poll and no more");
    }

    #[test]
    fn places_of_a_rush_are_freed_after_it() {
        let mut case = Case::new();
        let stays = Step::default();
        case.set.insert(stays.clone());
        for _ in 0..2 {
            let keys: Vec<_> = (0..1000).map(|_| case.set.insert(Step::default())).collect();
            assert!(case.set.slots.len() > 1000);
            keys.into_iter().for_each(|key| case.set.remove(key));
            assert!(case.set.slots.capacity() < 100);
            // Wakes of removed futures are left over.
            (0..10).for_each(|_| assert!(case.poll().is_pending()));
        }
        stays.wake();
        assert!(case.poll().is_pending());
        assert_eq!(stays.polls(), 2);
    }

    #[test]
    fn removed_future_is_dropped_at_once_and_never_polled() {
        let mut case = Case::new();
        let step = Step::default();
        let key = case.set.insert(step.clone());
        assert!(case.poll().is_pending());
        step.wake();
        case.set.remove(key);
        assert!(case.poll().is_pending());
        assert_eq!((step.polls(), Arc::strong_count(&step.0), case.set.len()), (1, 1, 0));
    }

    #[test]
    fn future_that_always_wakes_itself_lets_the_task_yield() {
        let mut polls = 0;
        let busy = poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let mut set = TaskSet::default();
        set.insert(busy);
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
        drop(set);
        assert_eq!((polls, task.0.load(Ordering::SeqCst)), (POLLS, 1));
    }
}
