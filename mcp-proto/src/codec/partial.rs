//! A buffer for a line or an event's data that arrives in pieces.

use alloc::collections::VecDeque;
use core::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use crate::prelude::*;

/// How much is kept of the beginning of over-long contents, in bytes.
const HEAD_BYTES: usize = 4096;
/// How much is kept of the end of over-long contents, in bytes: some peers write the id last.
const TAIL_BYTES: usize = 1024;
/// The longest contents, in bytes, whose buffer is reused once the contents are dropped; longer contents take the
/// buffer along.
const KEPT_BYTES: usize = 128 * 1024;

/// One line, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Line {
    /// A line within the limit.
    Whole(#[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))] Bytes),
    /// The two ends of a line over the limit.
    TooLong {
        /// The beginning of the line: at most 4 KiB, and no more than the limit.
        #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))]
        head: Bytes,
        /// The end of the line, without any bytes that are in `head`: at most 1 KiB.
        #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))]
        tail: Bytes,
        /// The whole length of the line, in bytes; saturating.
        bytes: usize,
    },
}

/// Joins pieces of contents: the whole up to a limit, the two ends of longer contents. Linear, however small the
/// pieces.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    max_bytes: usize,
    state: State,
    /// The longest contents so far whose buffer was kept.
    longest: usize,
}

#[derive(Clone, Debug)]
enum State {
    Buffered(BytesMut),
    Skipping { head: Bytes, tail: Vec<u8>, bytes: usize },
}

impl Partial {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, state: State::Buffered(BytesMut::new()), longest: 0 }
    }

    /// Counts contents, of which `bytes` bytes are counted already, and holds only their end.
    pub(super) fn counting(bytes: usize) -> Self {
        let state = State::Skipping { head: Bytes::new(), tail: Vec::new(), bytes };
        Self { max_bytes: 0, state, longest: 0 }
    }

    /// The length up to which the contents are kept whole.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The length of the contents so far; saturating.
    pub(super) fn len(&self) -> usize {
        match &self.state {
            State::Buffered(held) => held.len(),
            State::Skipping { bytes, .. } => *bytes,
        }
    }

    /// The number of bytes held.
    pub(super) fn buffered(&self) -> usize {
        match &self.state {
            State::Buffered(held) => held.len(),
            State::Skipping { head, tail, .. } => head.len().saturating_add(tail.len()),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, piece: &[u8]) {
        match &mut self.state {
            State::Buffered(held)
                if held.len().saturating_add(piece.len()) <= self.max_bytes.min(held.capacity()) =>
            {
                held.extend_from_slice(piece);
            }
            _ => self.push_outgrowing(piece),
        }
    }

    /// Appends a piece for which the buffer or the limit has no room.
    fn push_outgrowing(&mut self, piece: &[u8]) {
        match &mut self.state {
            State::Buffered(held) => {
                let length = held.len().saturating_add(piece.len());
                if length <= self.max_bytes {
                    // Twice the required capacity, so that the copies made by growing stay linear.
                    let wanted = length.saturating_mul(2).max(self.longest).min(self.max_bytes);
                    if wanted < self.max_bytes {
                        held.reserve(wanted.saturating_sub(held.len()));
                    } else {
                        // `reserve` doubles the capacity, which may exceed the limit.
                        let mut largest = BytesMut::with_capacity(wanted);
                        largest.extend_from_slice(held);
                        *held = largest;
                    }
                    held.extend_from_slice(piece);
                    return;
                }
                let head_bytes = HEAD_BYTES.min(self.max_bytes);
                let mut start = core::mem::take(held);
                let missing = head_bytes.saturating_sub(start.len());
                let (of_head, rest) = piece.split_at_checked(missing).unwrap_or((piece, &[]));
                start.extend_from_slice(of_head);
                let mut tail = Vec::new();
                keep_end(&mut tail, start.get(head_bytes..).unwrap_or_default());
                keep_end(&mut tail, rest);
                let head = Bytes::copy_from_slice(start.get(..head_bytes).unwrap_or_default());
                self.state = State::Skipping { head, tail, bytes: length };
            }
            State::Skipping { tail, bytes, .. } => {
                *bytes = bytes.saturating_add(piece.len());
                keep_end(tail, piece);
            }
        }
    }

    /// Ends the contents and takes them out.
    pub(super) fn take(&mut self) -> Line {
        if let State::Buffered(held) = &mut self.state {
            let contents = held.split().freeze();
            if contents.len() > KEPT_BYTES {
                *held = BytesMut::new();
            } else {
                self.longest = self.longest.max(contents.len());
            }
            return Line::Whole(contents);
        }
        match core::mem::replace(&mut self.state, State::Buffered(BytesMut::new())) {
            State::Buffered(held) => Line::Whole(held.freeze()),
            State::Skipping { head, mut tail, bytes } => {
                let surplus = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..surplus);
                Line::TooLong { head, tail: Bytes::from(tail), bytes }
            }
        }
    }

    /// Applies the same limit to contents that lie in one chunk.
    pub(super) fn limit(&self, contents: Bytes) -> Line {
        let bytes = contents.len();
        if bytes <= self.max_bytes {
            return Line::Whole(contents);
        }
        let mut head = contents;
        let mut tail = head.split_off(HEAD_BYTES.min(self.max_bytes).min(bytes));
        tail.advance(tail.len().saturating_sub(TAIL_BYTES));
        Line::TooLong { head, tail, bytes }
    }
}

/// Appends to a tail of which only the last [`TAIL_BYTES`] are needed, in amortised linear time.
fn keep_end(tail: &mut Vec<u8>, piece: &[u8]) {
    let surplus = piece.len().saturating_sub(TAIL_BYTES);
    tail.extend_from_slice(piece.get(surplus..).unwrap_or_default());
    if tail.len() > TAIL_BYTES.saturating_mul(4) {
        let surplus = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..surplus);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_moves_its_contents_a_few_times_while_growing_by_single_bytes() {
        const BYTES: usize = 1024 * 1024;
        let mut partial = Partial::new(BYTES);
        let (mut moves, mut capacity) = (0, 0);
        for _ in 0..BYTES {
            partial.push(b"x");
            let State::Buffered(held) = &partial.state else { panic!("the contents are within the limit") };
            if held.capacity() != capacity {
                (moves, capacity) = (moves + 1, held.capacity());
            }
        }
        assert!(moves <= 21, "{moves} moves");
        assert_eq!(capacity, BYTES, "the buffer outgrows the limit");
    }

    #[test]
    fn partial_gives_up_its_buffer_with_very_long_contents() {
        let mut partial = Partial::new(usize::MAX);
        for length in [KEPT_BYTES + 1, KEPT_BYTES] {
            partial.push(&alloc::vec![b'x'; length]);
            drop(partial.take());
            let State::Buffered(held) = &mut partial.state else { panic!("the contents are not over-long") };
            assert_eq!(held.try_reclaim(KEPT_BYTES), length == KEPT_BYTES);
        }
    }
}
