//! Items that wait for one listener.

use alloc::collections::VecDeque;

/// How many items wait for one listener.
pub(crate) const MAX_ITEMS: usize = 1024;
/// How many bytes wait for one listener, in whichever queue of the front.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How many items may wait as slices of the input. Each may hold on to all the input that was read with it, so what waits
/// behind them is copied out.
const MAX_SLICES: usize = 16;

/// A bounded queue that loses the oldest and counts what it lost.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    most_items: usize,
    missed: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self::with_items(MAX_ITEMS)
    }

    /// A queue of at most `most_items` items.
    pub(crate) fn with_items(most_items: usize) -> Self {
        Self { items: VecDeque::new(), bytes: 0, most_items, missed: 0 }
    }

    pub(crate) fn push(&mut self, item: T, bytes: usize) {
        self.items.push_back((item, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        // The one that has just come is kept, however long it is.
        while self.items.len() > self.most_items || (self.bytes > MAX_BYTES && self.items.len() > 1) {
            self.pop();
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(item)
    }

    /// Whether the next item should have memory of its own.
    pub(crate) fn wants_copies(&self) -> bool {
        self.items.len() >= MAX_SLICES
    }

    /// How many were lost since [`take_missed`](Self::take_missed) was called, if ever.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// How many were lost since this was last asked. They came before the ones that wait.
    pub(crate) fn take_missed(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.missed)).filter(|&missed| missed > 0)
    }
}
