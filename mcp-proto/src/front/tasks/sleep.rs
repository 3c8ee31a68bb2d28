//! Timers of requests that wait. Their handlers have no timers; the runner wakes them.

use alloc::collections::BTreeMap;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use super::errors::server_ended;
use super::key::TaskKey;
use crate::Instant;
use crate::front::Clock;
use crate::front::signal::{Signal, Wakers, lock};
use crate::rpc::ErrorObject;

/// The waiting requests, at most one timer for each active request.
#[derive(Default)]
pub(super) struct SleepQueue(Mutex<SleepTable>);

#[derive(Default)]
struct SleepTable {
    waiting: BTreeMap<SleepKey, Waker>,
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
        let mut wakers = Wakers::default();
        {
            let mut table = lock(&self.0);
            let later = table.waiting.split_off(&(now, u64::MAX));
            for waker in core::mem::replace(&mut table.waiting, later).into_values() {
                wakers.wake(Some(waker));
            }
        }
        wakers.release();
    }

    /// Ends all waits with an error, because the runner has ended.
    pub(super) fn close(&self) {
        let mut wakers = Wakers::default();
        {
            let mut table = lock(&self.0);
            table.closed = true;
            for waker in core::mem::take(&mut table.waiting).into_values() {
                wakers.wake(Some(waker));
            }
        }
        wakers.release();
    }
}

/// The future of a wait.
pub(super) struct SleepFuture<'a> {
    queue: &'a SleepQueue,
    clock: &'a dyn Clock,
    signal: &'a Signal<TaskKey>,
    until: Instant,
    key: Option<SleepKey>,
}

impl<'a> SleepFuture<'a> {
    pub(super) fn new(
        queue: &'a SleepQueue,
        clock: &'a dyn Clock,
        signal: &'a Signal<TaskKey>,
        until: Instant,
    ) -> Self {
        Self { queue, clock, signal, until, key: None }
    }
}

impl Future for SleepFuture<'_> {
    /// An error if the server ends first.
    type Output = Result<(), ErrorObject>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { queue, clock, signal, until, key } = self.get_mut();
        let mut wakers = Wakers::default();
        let left = cx.waker().clone();
        let is_over = clock.now() >= *until;
        let is_new = key.is_none();
        let polled = {
            let mut table = lock(&queue.0);
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
        };
        wakers.release();
        if is_new && polled.is_pending() {
            // The driver's timer may have to fire earlier now.
            signal.notify();
        }
        polled
    }
}

impl Drop for SleepFuture<'_> {
    fn drop(&mut self) {
        let waker = self.key.and_then(|key| lock(&self.queue.0).waiting.remove(&key));
        drop(waker);
    }
}
