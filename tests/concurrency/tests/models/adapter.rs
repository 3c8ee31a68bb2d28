//! The wakers between an adapter's task and its work.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use mcp_proto::adapter::{Repoll, WakeFlag};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::explore::explore;

/// A source of readiness, such as a socket.
#[derive(Default)]
struct Source(Mutex<(u32, Option<Waker>)>);

impl Source {
    fn add(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 += 1;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<u32> {
        let mut state = self.0.lock().unwrap();
        match core::mem::take(&mut state.0) {
            0 => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
            added => Poll::Ready(added),
        }
    }
}

/// Work that another thread wakes during or between two polls is polled again. Fails if the state is not `POLLING` before the
/// work, or is set to `IDLE` without a look at it after the work.
#[test]
fn repoll_loses_no_wake() {
    explore(|| {
        let sources = [(); 2].map(|()| Arc::new(Source::default()));
        let threads = sources.clone().map(|source| thread::spawn(move || source.add()));
        let (mut repoll, mut added) = (Repoll::default(), 0);
        block_on(poll_fn(|cx| {
            repoll.poll(cx, |cx| {
                for source in &sources {
                    if let Poll::Ready(new) = source.poll(cx) {
                        added += new;
                    }
                }
                if added == 2 { Poll::Ready(()) } else { Poll::Pending }
            })
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A source that woke its task is asked again. Fails if the flag is taken after the source was polled, or is set after the
/// task was woken.
#[test]
fn wake_flag_loses_no_wake() {
    explore(|| {
        let source = Arc::new(Source::default());
        let adder = source.clone();
        let thread = thread::spawn(move || (0..2).for_each(|_| adder.add()));
        let (mut flag, mut added) = (WakeFlag::default(), 0);
        block_on(poll_fn(|cx| {
            while let Poll::Ready(new) = flag.poll_woken(cx, |cx| source.poll(cx)) {
                added += new;
            }
            if added == 2 { Poll::Ready(()) } else { Poll::Pending }
        }));
        thread.join().unwrap();
    });
}

/// A wake that reaches a source's waker makes the source ready, although it has forgotten the event by then.
#[test]
fn wake_flag_remembers_what_its_source_forgets() {
    explore(|| {
        let source = Arc::new(Source::default());
        let adder = source.clone();
        let thread = thread::spawn(move || adder.add());
        let mut flag = WakeFlag::default();
        block_on(poll_fn(|cx| {
            flag.poll_ready(cx, |cx| match source.poll(cx) {
                // The event counts only for those that registered before it.
                Poll::Ready(_) => {
                    cx.waker().wake_by_ref();
                    Poll::<Result<(), ()>>::Pending
                }
                Poll::Pending => Poll::Pending,
            })
        }))
        .unwrap();
        thread.join().unwrap();
    });
}

/// A task that has moved is woken at its new place. Fails if the waker of its latest poll is not stored, or only after the
/// look at the flag.
#[test]
fn task_that_moves_between_threads_is_woken() {
    explore(|| {
        let source = Arc::new(Source::default());
        let adder = source.clone();
        let thread = thread::spawn(move || adder.add());
        let (mut repoll, mut flag) = (Repoll::default(), WakeFlag::default());
        let has_flag = thread_rng().gen_bool(0.5);
        let mut poll = move |cx: &mut Context<'_>| {
            let poll = |cx: &mut Context<'_>| source.poll(cx);
            if has_flag { flag.poll_woken(cx, poll) } else { repoll.poll(cx, poll) }
        };
        if poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            thread::spawn(move || block_on(poll_fn(poll))).join().unwrap();
        }
        thread.join().unwrap();
    });
}
