//! Waiting for a while. Handlers of requests have no timers of their own; the runner has.

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

/// Those who wait, at most one for each request that is being answered.
#[derive(Default)]
pub(super) struct SleepQueue(Mutex<SleepTable>);

#[derive(Default)]
struct SleepTable {
    waiting: BTreeMap<SleepKey, Waker>,
    last: u64,
    closed: bool,
}

/// Until when, and a number.
type SleepKey = (Instant, u64);

impl SleepQueue {
    /// When the next is over.
    pub(super) fn due(&self) -> Option<Instant> {
        lock(&self.0).waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Wakes those whose time has come.
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

    /// Nobody wakes any more: all who wait are told.
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

/// A wait.
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
            // The driver's timer may have to be earlier now.
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
