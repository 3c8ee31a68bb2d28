//! Ring buffer with the last bytes of a stream, and readers at positions of their own in it.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, Waker};

use super::StderrLine;

/// Positions count bytes from the beginning of the stream, so that a slow reader knows how many it missed.
pub(super) struct Ring {
    buffer: VecDeque<u8>,
    capacity: usize,
    /// Position just after the last byte received.
    end: u64,
    /// Whether the first buffered byte begins a line.
    at_line_start: bool,
    closed: bool,
    next_reader: u64,
    waiting: Vec<(u64, Waker)>,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            buffer: VecDeque::new(),
            capacity,
            end: 0,
            at_line_start: true,
            closed: false,
            next_reader: 0,
            waiting: Vec::new(),
        }
    }

    /// Appends bytes. Wake the returned wakers once the lock is released.
    #[must_use]
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<(u64, Waker)> {
        self.end += bytes.len() as u64;
        let (skipped, bytes) = bytes.split_at(bytes.len().saturating_sub(self.capacity));
        let excess = (self.buffer.len() + bytes.len()).saturating_sub(self.capacity);
        let last_dropped = match (skipped.last(), excess) {
            (Some(byte), _) => Some(*byte),
            (None, 0) => None,
            (None, _) => self.buffer.get(excess - 1).copied(),
        };
        if let Some(byte) = last_dropped {
            self.at_line_start = byte == b'\n';
        }
        self.buffer.drain(..excess);
        self.buffer.extend(bytes);
        mem::take(&mut self.waiting)
    }

    /// Marks the end of the stream. Wake the returned wakers once the lock is released.
    #[must_use]
    pub(super) fn close(&mut self) -> Vec<(u64, Waker)> {
        self.closed = true;
        mem::take(&mut self.waiting)
    }

    pub(super) fn tail(&self) -> String {
        let from = if self.at_line_start {
            0
        } else {
            // Prefer whole lines to a leading partial one; a partial line alone is still better than nothing.
            match self.buffer.iter().position(|byte| *byte == b'\n') {
                Some(newline) if newline + 1 < self.buffer.len() => newline + 1,
                _ => 0,
            }
        };
        // Programs for Windows end lines so.
        self.text(from, self.buffer.len()).replace("\r\n", "\n")
    }

    /// Registers a reader: its id, and its first position.
    pub(super) fn add_reader(&mut self) -> (u64, u64) {
        self.next_reader += 1;
        (self.next_reader, self.start())
    }

    #[must_use]
    pub(super) fn remove_reader(&mut self, reader: u64) -> Option<Waker> {
        let index = self.waiting.iter().position(|(waiting, _)| *waiting == reader)?;
        Some(self.waiting.swap_remove(index).1)
    }

    pub(super) fn poll_line(
        &mut self,
        reader: u64,
        position: &mut u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<StderrLine>> {
        let start = self.start();
        let lost = start.saturating_sub(*position);
        // At most the length of the buffer, so it fits.
        let from = (*position).saturating_sub(start) as usize;
        let unread = self.buffer.len() - from;
        let newline = self.buffer.range(from..).position(|byte| *byte == b'\n');
        let (to, next) = match newline {
            Some(length) => (from + length, from + length + 1),
            None if unread > 0 && (self.closed || unread >= self.capacity / 2) => {
                let cut = Some(self.cut_character()).filter(|cut| *cut < unread);
                let to = self.buffer.len() - cut.unwrap_or_default();
                (to, to)
            }
            None if self.closed => return Poll::Ready(None),
            None => {
                // The position stays, so that bytes lost meanwhile are still counted.
                match self.waiting.iter_mut().find(|(waiting, _)| *waiting == reader) {
                    Some((_, waker)) => waker.clone_from(cx.waker()),
                    None => self.waiting.push((reader, cx.waker().clone())),
                }
                return Poll::Pending;
            }
        };
        *position = start + next as u64;
        let mut text = self.text(from, to);
        if newline.is_some() && text.ends_with('\r') {
            text.pop();
        }
        Poll::Ready(Some(StderrLine { text, lost, goes_on: newline.is_none() && !self.closed }))
    }

    /// The bytes at the end that are the beginning of a character, if more may follow.
    fn cut_character(&self) -> usize {
        let last = self.buffer.iter().rev().take(3).zip(1..);
        let lead = last.into_iter().find(|(byte, _)| **byte & 0b1100_0000 != 0b1000_0000);
        let missing = |(byte, length): &(&u8, usize)| byte.leading_ones() as usize > *length;
        lead.filter(missing).filter(|_| !self.closed).map_or(0, |(_, length)| length)
    }

    fn start(&self) -> u64 {
        self.end - self.buffer.len() as u64
    }

    fn text(&self, from: usize, to: usize) -> String {
        let bytes: Vec<u8> = self.buffer.range(from..to).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(ring: &mut Ring, text: &str) {
        drop(ring.push(text.as_bytes()));
    }

    fn lines(ring: &mut Ring, position: &mut u64) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        while let Poll::Ready(Some(line)) =
            ring.poll_line(1, position, &mut Context::from_waker(Waker::noop()))
        {
            lines.push((line.text, line.lost));
        }
        lines
    }

    /// K8
    #[test]
    fn tail_is_bounded_and_begins_with_a_whole_line() {
        let mut ring = Ring::new(8);
        push(&mut ring, "one\ntwo\nthree");
        assert_eq!(ring.tail(), "three");
        push(&mut ring, "\nfour\nx");
        assert_eq!(ring.tail(), "four\nx");
        push(&mut ring, "\nfive\ns");
        assert_eq!(ring.tail(), "x\nfive\ns");
    }

    /// K8
    #[test]
    fn tail_of_one_endless_line_is_its_end() {
        let mut ring = Ring::new(4);
        push(&mut ring, "abcdefgh");
        assert_eq!(ring.tail(), "efgh");
        push(&mut ring, "i\n");
        assert_eq!(ring.tail(), "ghi\n");
    }

    /// K8
    #[test]
    fn tail_does_not_depend_on_how_the_input_is_split() {
        let input = b"first\nsecond line\nthird\n\nfifth and last".as_slice();
        for capacity in 0..45 {
            let mut whole = Ring::new(capacity);
            drop(whole.push(input));
            let mut bytes = Ring::new(capacity);
            for byte in input {
                drop(bytes.push(&[*byte]));
            }
            assert_eq!(whole.tail(), bytes.tail(), "capacity {capacity}");
            assert!(whole.tail().len() <= capacity);
        }
    }

    /// K8
    #[test]
    fn slow_reader_loses_the_oldest_bytes_and_learns_how_many() {
        let mut ring = Ring::new(8);
        let (_, mut position) = ring.add_reader();
        push(&mut ring, "a\nb\n");
        assert_eq!(lines(&mut ring, &mut position), [("a".into(), 0), ("b".into(), 0)]);
        push(&mut ring, "c\nd\ne\nf\ng\nh\n");
        assert_eq!(
            lines(&mut ring, &mut position),
            [("e".into(), 4), ("f".into(), 0), ("g".into(), 0), ("h".into(), 0)]
        );
    }

    /// K8
    #[test]
    fn tail_has_the_line_ends_of_this_project() {
        let mut ring = Ring::new(64);
        push(&mut ring, "one\r\ntwo\rthree\r\n");
        assert_eq!(ring.tail(), "one\ntwo\rthree\n");
    }

    /// K8
    #[test]
    fn reader_gets_whole_lines_and_a_last_one_without_newline() {
        let mut ring = Ring::new(64);
        let (_, mut position) = ring.add_reader();
        push(&mut ring, "start\r\nhal");
        assert_eq!(lines(&mut ring, &mut position), [("start".into(), 0)]);
        push(&mut ring, "f\n\nend");
        assert_eq!(lines(&mut ring, &mut position), [("half".into(), 0), ("".into(), 0)]);
        drop(ring.close());
        assert_eq!(lines(&mut ring, &mut position), [("end".into(), 0)]);
        let end = ring.poll_line(1, &mut position, &mut Context::from_waker(Waker::noop()));
        assert_eq!(end, Poll::Ready(None));
    }

    /// K8
    #[test]
    fn line_longer_than_the_buffer_arrives_in_pieces() {
        let mut ring = Ring::new(8);
        let (_, mut position) = ring.add_reader();
        push(&mut ring, "abcd");
        assert_eq!(lines(&mut ring, &mut position), [("abcd".into(), 0)]);
        push(&mut ring, "efgh\n");
        assert_eq!(lines(&mut ring, &mut position), [("efgh".into(), 0)]);
    }

    /// K8
    #[test]
    fn piece_of_a_line_is_marked_and_ends_behind_a_character() {
        let mut ring = Ring::new(16);
        let (_, mut position) = ring.add_reader();
        let mut piece = |bytes: &[u8]| {
            drop(ring.push(bytes));
            let polled = ring.poll_line(1, &mut position, &mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Some(line)) = polled else { panic!("{polled:?}") };
            (line.text, line.goes_on)
        };
        assert_eq!(piece(b"abcdefg\xe2\x82"), ("abcdefg".into(), true));
        assert_eq!(piece(b"\xac12345\xc3"), ("€12345".into(), true));
        assert_eq!(piece(b"\xbc\n"), ("ü".into(), false));
    }

    /// K8
    #[test]
    fn dropped_reader_leaves_no_waker_behind() {
        let mut ring = Ring::new(8);
        for _ in 0..10 {
            let (reader, mut position) = ring.add_reader();
            assert!(
                ring.poll_line(reader, &mut position, &mut Context::from_waker(Waker::noop())).is_pending()
            );
            assert!(ring.remove_reader(reader).is_some());
        }
        assert!(ring.waiting.is_empty());
    }
}
