//! The lock that puts the updates of a live router in order.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use crate::front::signal::lock;

/// A lock that is held while the application's code runs: a second attempt on the same thread fails, instead of a
/// deadlock.
#[derive(Default)]
pub(super) struct UpdateLock {
    holder: Mutex<Option<ThreadId>>,
    released: Condvar,
}

impl UpdateLock {
    /// Waits until no other thread holds the lock; `None` if this thread holds it.
    pub(super) fn acquire(&self) -> Option<UpdateGuard<'_>> {
        let this = thread::current().id();
        let mut holder = lock(&self.holder);
        while let Some(thread) = *holder {
            if thread == this {
                return None;
            }
            holder = self.released.wait(holder).unwrap_or_else(PoisonError::into_inner);
        }
        *holder = Some(this);
        Some(UpdateGuard(self))
    }
}

pub(super) struct UpdateGuard<'a>(&'a UpdateLock);

impl Drop for UpdateGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.holder) = None;
        self.0.released.notify_one();
    }
}
