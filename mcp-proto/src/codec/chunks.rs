//! The chunks of a byte stream that wait to be split.

use alloc::collections::VecDeque;
use core::ops::Range;

use bytes::{Buf, Bytes};

/// A queue of chunks. The first one is consumed from its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// The chunk that is being consumed.
    front: Bytes,
    /// How much of `front` has been consumed.
    at: usize,
    /// The chunks behind `front`, none of them empty.
    queue: VecDeque<Bytes>,
}

impl Chunks {
    #[inline]
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.at >= self.front.len() && self.queue.is_empty() {
            self.front = chunk;
            self.at = 0;
        } else if !chunk.is_empty() {
            self.queue.push_back(chunk);
        }
    }

    /// The bytes of the front chunk that are not consumed.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        self.front.get(self.at..).unwrap_or_default()
    }

    /// A part of [`rest`](Self::rest), without copying; `range` lies within it.
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> Bytes {
        self.front.slice(self.at.saturating_add(range.start)..self.at.saturating_add(range.end))
    }

    /// Consumes `bytes` bytes of [`rest`](Self::rest) and returns the first `kept` of them, without copying.
    #[inline]
    pub(super) fn take(&mut self, kept: usize, bytes: usize) -> Bytes {
        let start = self.at;
        self.at = start.saturating_add(bytes);
        if self.at < self.front.len() {
            return self.front.slice(start..start.saturating_add(kept));
        }
        // The last part of a chunk takes the chunk along: no reference is counted.
        let mut part = core::mem::take(&mut self.front);
        part.advance(start.min(part.len()));
        part.truncate(kept);
        part
    }

    /// Consumes the next bytes of the front chunk.
    #[inline]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// Drops the front chunk and proceeds to the next one; returns whether there is one.
    #[inline]
    pub(super) fn next(&mut self) -> bool {
        self.at = 0;
        self.front = self.queue.pop_front().unwrap_or_default();
        !self.front.is_empty()
    }

    /// Removes and returns the last chunk.
    pub(super) fn pop_back(&mut self) -> Option<Bytes> {
        self.queue.pop_back().or_else(|| {
            let front = core::mem::take(&mut self.front);
            let rest = front.slice(core::mem::take(&mut self.at).min(front.len())..);
            (!rest.is_empty()).then_some(rest)
        })
    }

    /// Whether no chunk is held, consumed or not.
    #[inline]
    pub(super) fn is_released(&self) -> bool {
        self.front.is_empty()
    }

    /// Whether everything has been consumed.
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.front.len() && self.queue.is_empty()
    }

    /// The number of bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.queue.iter().fold(self.rest().len(), |sum, chunk| sum.saturating_add(chunk.len()))
    }
}
