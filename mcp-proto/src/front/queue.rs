//! Notifications that wait for one listener.

use alloc::collections::VecDeque;

/// How many notifications wait for one listener.
const ITEMS: usize = 1024;
/// How many bytes of notifications wait for one listener.
const BYTES: usize = 16 * 1024 * 1024;

/// A bounded queue that loses the oldest and counts what it lost.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    missed: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { items: VecDeque::new(), bytes: 0, missed: 0 }
    }

    pub(crate) fn push(&mut self, item: T, bytes: usize) {
        self.items.push_back((item, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        // The one that has just come is kept, however long it is.
        while self.items.len() > ITEMS || (self.bytes > BYTES && self.items.len() > 1) {
            self.pop();
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(item)
    }

    /// How many were lost since this was last asked. They came before the ones that wait.
    pub(crate) fn take_missed(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.missed)).filter(|&missed| missed > 0)
    }
}
