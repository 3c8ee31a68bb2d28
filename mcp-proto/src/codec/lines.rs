//! Newline framing.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes};
use memchr::{memchr, memrchr};

/// How much is kept of the beginning of an over-long line, in bytes.
const HEAD_BYTES: usize = 4096;
/// How much is kept of the end of an over-long line, in bytes: some peers write the id last.
const TAIL_BYTES: usize = 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Cuts a byte stream into lines, whatever the pieces it comes in.
///
/// A line that lies in one chunk is a slice of that chunk; one that crosses chunks is copied together
/// once. The work is linear in the input however it is chopped, and the same lines come out.
///
/// Lines end with `\n` or `\r\n`. Lines of nothing but whitespace are skipped, and so is a byte order mark
/// at the very start. A line of more than the limit is skipped to its end and reported once, by its two
/// ends and its length; what is held of it meanwhile is bounded. One `Lines` serves one stream.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>
///
/// ```
/// use mcp_proto::Bytes;
/// use mcp_proto::codec::{Line, Lines};
///
/// let mut lines = Lines::new(1024);
/// lines.handle_input(Bytes::from_static(b"{}\r\n\n[1,"));
/// assert_eq!(lines.poll_line(), Some(Line::Whole(Bytes::from_static(b"{}"))));
/// assert_eq!(lines.poll_line(), None);
/// lines.handle_input(Bytes::from_static(b"2]\n"));
/// assert_eq!(lines.poll_line(), Some(Line::Whole(Bytes::from_static(b"[1,2]"))));
/// assert_eq!(lines.handle_eof(), None);
/// ```
#[derive(Debug)]
pub struct Lines {
    max_bytes: usize,
    /// Input that has not been searched yet, but for the front chunk's beginning when `held` says so.
    chunks: VecDeque<Bytes>,
    /// What came of the line whose end has not come yet.
    partial: Partial,
    /// Whether a line has ended yet: before that, a byte order mark may come.
    started: bool,
}

/// One line, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit.
    Whole(Bytes),
    /// A line over the limit, and what was kept of it.
    TooLong {
        /// Its beginning: at most 4 KiB, and no more than the limit.
        head: Bytes,
        /// Its end, as far as `head` does not reach: at most 1 KiB.
        tail: Bytes,
        /// Its whole length, in bytes; saturating.
        bytes: usize,
    },
}

#[derive(Debug)]
enum Partial {
    Held(Vec<u8>),
    Skipping { head: Bytes, tail: Vec<u8>, bytes: usize },
}

impl Lines {
    /// For lines of up to `max_bytes`, counted without `\n`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, chunks: VecDeque::new(), partial: Partial::Held(Vec::new()), started: false }
    }

    /// Takes what was read. Several chunks may wait for [`poll_line`](Self::poll_line).
    pub fn handle_input(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next line that has ended, if any.
    #[must_use]
    pub fn poll_line(&mut self) -> Option<Line> {
        loop {
            let chunk = self.chunks.front_mut()?;
            let Some(end) = memchr(b'\n', chunk) else {
                if let Some(chunk) = self.chunks.pop_front() {
                    self.hold(chunk);
                }
                continue;
            };
            let piece = chunk.split_to(end);
            chunk.advance(1);
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            let line = match &self.partial {
                Partial::Held(held) if held.is_empty() => self.whole(piece),
                _ => {
                    self.hold(piece);
                    self.take_partial()
                }
            };
            if let Some(line) = self.present(line) {
                return Some(line);
            }
        }
    }

    /// Takes the end of the input, and gives what lay after the last newline unless it was blank: a last
    /// line that lacks its newline, or one that was cut off.
    ///
    /// Lines that had ended before are still polled.
    pub fn handle_eof(&mut self) -> Option<Line> {
        let mut rest = Self::new(self.max_bytes);
        rest.started = self.started;
        loop {
            let Some(mut chunk) = self.chunks.pop_back() else {
                core::mem::swap(&mut rest.partial, &mut self.partial);
                break;
            };
            if let Some(newline) = memrchr(b'\n', &chunk) {
                rest.started = true;
                rest.chunks.push_front(chunk.split_off(newline.saturating_add(1)));
                self.chunks.push_back(chunk);
                break;
            }
            rest.chunks.push_front(chunk);
        }
        rest.chunks.push_back(Bytes::from_static(b"\n"));
        rest.poll_line()
    }

    /// How many bytes are held: input not yet polled, and the line that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let partial = match &self.partial {
            Partial::Held(held) => held.len(),
            Partial::Skipping { head, tail, .. } => head.len().saturating_add(tail.len()),
        };
        self.chunks.iter().fold(partial, |sum, chunk| sum.saturating_add(chunk.len()))
    }

    /// Adds a piece to the line that has not ended.
    fn hold(&mut self, piece: Bytes) {
        match &mut self.partial {
            Partial::Held(held) => {
                let length = held.len().saturating_add(piece.len());
                if length <= self.max_bytes {
                    if length > held.capacity() {
                        let wanted = held.capacity().saturating_mul(2).clamp(length, self.max_bytes);
                        held.reserve_exact(wanted.saturating_sub(held.len()));
                    }
                    held.extend_from_slice(&piece);
                    return;
                }
                let head_bytes = HEAD_BYTES.min(self.max_bytes);
                let mut line = core::mem::take(held);
                let missing = head_bytes.saturating_sub(line.len());
                let (of_head, rest) = piece.split_at_checked(missing).unwrap_or((&piece, &[]));
                line.extend_from_slice(of_head);
                let mut tail = Vec::new();
                keep_end(&mut tail, line.get(head_bytes..).unwrap_or_default());
                keep_end(&mut tail, rest);
                let head = Bytes::copy_from_slice(line.get(..head_bytes).unwrap_or_default());
                self.partial = Partial::Skipping { head, tail, bytes: length };
            }
            Partial::Skipping { tail, bytes, .. } => {
                *bytes = bytes.saturating_add(piece.len());
                keep_end(tail, &piece);
            }
        }
    }

    fn take_partial(&mut self) -> Line {
        match core::mem::replace(&mut self.partial, Partial::Held(Vec::new())) {
            Partial::Held(line) => Line::Whole(Bytes::from(line)),
            Partial::Skipping { head, mut tail, bytes } => {
                let surplus = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..surplus);
                Line::TooLong { head, tail: Bytes::from(tail), bytes }
            }
        }
    }

    /// A line that lies in one chunk.
    fn whole(&self, line: Bytes) -> Line {
        let bytes = line.len();
        if bytes <= self.max_bytes {
            return Line::Whole(line);
        }
        let mut head = line;
        let mut tail = head.split_off(HEAD_BYTES.min(self.max_bytes).min(bytes));
        tail.advance(tail.len().saturating_sub(TAIL_BYTES));
        Line::TooLong { head, tail, bytes }
    }

    /// Strips what is not the line's own; nothing is left of a blank line.
    fn present(&mut self, mut line: Line) -> Option<Line> {
        let (Line::Whole(text) | Line::TooLong { head: text, .. }) = &mut line;
        if !self.started {
            self.started = true;
            if text.starts_with(BYTE_ORDER_MARK) {
                text.advance(BYTE_ORDER_MARK.len());
            }
        }
        let Line::Whole(text) = &mut line else { return Some(line) };
        if text.last() == Some(&b'\r') {
            text.truncate(text.len().saturating_sub(1));
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        Some(line)
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
