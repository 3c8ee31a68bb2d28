//! Bounded queues of items for one listener.

use alloc::collections::VecDeque;

/// The maximum number of items queued for one listener.
pub(crate) const MAX_ITEMS: usize = 1024;
/// The maximum number of bytes queued for one listener, in each queue of the front.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of queued items that are slices of the input. Each may keep alive all the input that was read
/// with it, so later items are copied.
const MAX_SLICES: usize = 16;

/// A bounded queue that drops the oldest items and counts them.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    most_items: usize,
    most_bytes: usize,
    missed: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self::with_items(MAX_ITEMS)
    }

    /// Creates a queue of at most `most_items` items.
    pub(crate) fn with_items(most_items: usize) -> Self {
        Self::with_limits(most_items, MAX_BYTES)
    }

    /// Creates a queue of at most `most_items` items and `most_bytes` bytes.
    pub(crate) fn with_limits(most_items: usize, most_bytes: usize) -> Self {
        Self { items: VecDeque::new(), bytes: 0, most_items, most_bytes, missed: 0 }
    }

    pub(crate) fn push(&mut self, item: T, bytes: usize) {
        self.items.push_back((item, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        // The newest item is kept, however long it is.
        while self.items.len() > self.most_items || (self.bytes > self.most_bytes && self.items.len() > 1) {
            self.pop();
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(item)
    }

    /// Whether the next item should be copied out of the input.
    pub(crate) fn wants_copies(&self) -> bool {
        self.items.len() >= MAX_SLICES
    }

    /// The number of items dropped since the last [`take_missed`](Self::take_missed).
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns and resets the number of dropped items, which preceded those in the queue; `None` if it is 0.
    pub(crate) fn take_missed(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.missed)).filter(|&missed| missed > 0)
    }
}
