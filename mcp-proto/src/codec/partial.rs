//! A piece of the input whose end has not come.

use alloc::vec::Vec;

use bytes::{Buf, Bytes, BytesMut};

use super::Line;

/// How much is kept of the beginning of what is over-long, in bytes.
const HEAD_BYTES: usize = 4096;
/// How much is kept of its end, in bytes: some peers write the id last.
const TAIL_BYTES: usize = 1024;
/// What crosses chunks is put together in a buffer that is used again once its contents are dropped; contents of more
/// than this take the buffer along.
const KEPT_BYTES: usize = 128 * 1024;

/// Puts together what comes in pieces: all of it up to a limit, its two ends beyond. Linear, however small the pieces.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    max_bytes: usize,
    state: State,
    /// The longest contents so far that left the buffer here.
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

    /// Counts what comes behind the first `bytes` bytes, and holds next to nothing of it.
    pub(super) fn counting(bytes: usize) -> Self {
        let state = State::Skipping { head: Bytes::new(), tail: Vec::new(), bytes };
        Self { max_bytes: 0, state, longest: 0 }
    }

    /// Up to which length the contents are kept whole.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// How long the contents are so far; saturating.
    pub(super) fn len(&self) -> usize {
        match &self.state {
            State::Buffered(held) => held.len(),
            State::Skipping { bytes, .. } => *bytes,
        }
    }

    /// How many bytes are kept of them.
    pub(super) fn buffered(&self) -> usize {
        match &self.state {
            State::Buffered(held) => held.len(),
            State::Skipping { head, tail, .. } => head.len().saturating_add(tail.len()),
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        match &mut self.state {
            State::Buffered(held) => {
                let length = held.len().saturating_add(piece.len());
                if length <= self.max_bytes {
                    if length > held.capacity() {
                        // Twice what it takes, so that the copies that growing costs stay linear.
                        let wanted = length.saturating_mul(2).max(self.longest).min(self.max_bytes);
                        held.reserve(wanted.saturating_sub(held.len()));
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

    /// The contents, whose end has come; nothing is left here.
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

    /// What lies in one chunk, under the same limit.
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

/// Appends to a tail of which only the last [`TAIL_BYTES`] count, in amortised linear time.
fn keep_end(tail: &mut Vec<u8>, piece: &[u8]) {
    let surplus = piece.len().saturating_sub(TAIL_BYTES);
    tail.extend_from_slice(piece.get(surplus..).unwrap_or_default());
    if tail.len() > TAIL_BYTES.saturating_mul(4) {
        let surplus = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_by_single_bytes_is_moved_a_few_times_only() {
        const BYTES: usize = 1024 * 1024;
        let mut partial = Partial::new(BYTES);
        let (mut moves, mut capacity) = (0, 0);
        for _ in 0..BYTES {
            partial.push(b"x");
            let State::Buffered(held) = &partial.state else { panic!("it is within the limit") };
            if held.capacity() != capacity {
                (moves, capacity) = (moves + 1, held.capacity());
            }
        }
        assert!(moves <= 21, "{moves} moves");
        assert!(capacity <= 2 * BYTES, "{capacity} bytes for {BYTES}");
    }

    #[test]
    fn the_buffer_of_very_long_contents_goes_with_them() {
        let mut partial = Partial::new(usize::MAX);
        for length in [KEPT_BYTES + 1, KEPT_BYTES] {
            partial.push(&alloc::vec![b'x'; length]);
            drop(partial.take());
            let State::Buffered(held) = &mut partial.state else { panic!("nothing is over-long") };
            assert_eq!(held.try_reclaim(KEPT_BYTES), length == KEPT_BYTES);
        }
    }
}
