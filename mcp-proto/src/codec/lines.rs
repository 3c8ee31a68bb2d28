//! Newline framing, as in the stdio transport.

use alloc::collections::VecDeque;
use core::ops::Range;

use bytes::{Buf, Bytes};
use memchr::{memchr, memrchr};

use super::BYTE_ORDER_MARK;
use super::partial::Partial;

/// Splits a byte stream into lines; the stream may arrive in pieces of any size.
///
/// A line that lies in one chunk is a slice of that chunk; one that crosses chunks is copied into a buffer of at most
/// twice the limit. The work is linear in the input, and the lines are the same however the input is cut into chunks.
///
/// Lines end with `\n` or `\r\n`. Lines of nothing but whitespace are skipped, and so is a byte order mark at the very
/// start. A line over the limit is skipped to its end and then reported once, with its two ends and its length; the
/// rest of it is not held. One `Lines` splits one stream.
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
    /// The chunk that is being searched.
    front: Bytes,
    /// How far `front` has been searched.
    at: usize,
    /// The chunks behind `front`.
    chunks: VecDeque<Bytes>,
    /// The beginning of the line whose end has not arrived.
    partial: Partial,
    /// Whether a line has ended: until then, a byte order mark may come.
    started: bool,
    /// Whether a line has ended, and `partial` holds nothing of the next one.
    plain: bool,
}

/// One line, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit.
    Whole(Bytes),
    /// The two ends of a line over the limit.
    TooLong {
        /// The beginning of the line: at most 4 KiB, and no more than the limit.
        head: Bytes,
        /// The end of the line, without any bytes that are in `head`: at most 1 KiB.
        tail: Bytes,
        /// The whole length of the line, in bytes; saturating.
        bytes: usize,
    },
}

impl Lines {
    /// A splitter for lines of up to `max_bytes` bytes, counted without `\n`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            front: Bytes::new(),
            at: 0,
            chunks: VecDeque::new(),
            partial: Partial::new(max_bytes),
            started: false,
            plain: false,
        }
    }

    /// Appends a chunk of the stream. Several chunks may wait for [`poll_line`](Self::poll_line).
    pub fn handle_input(&mut self, chunk: Bytes) {
        if self.at >= self.front.len() && self.chunks.is_empty() {
            self.front = chunk;
            self.at = 0;
        } else if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next line that has ended, if any.
    #[must_use]
    pub fn poll_line(&mut self) -> Option<Line> {
        loop {
            let start = self.at;
            let rest = self.front.get(start..).unwrap_or_default();
            let Some(length) = memchr(b'\n', rest) else {
                self.next_chunk()?;
                continue;
            };
            let end = start.saturating_add(length);
            self.at = end.saturating_add(1);
            if !self.plain || length > self.partial.max_bytes() {
                match self.end_of_line(start..end) {
                    Some(line) => return Some(line),
                    None => continue,
                }
            }
            if let Some(length) = content(rest.get(..length).unwrap_or_default()) {
                return Some(Line::Whole(self.front.slice(start..start.saturating_add(length))));
            }
        }
    }

    /// Moves the rest of the front chunk into the unfinished line, and advances to the next chunk.
    fn next_chunk(&mut self) -> Option<()> {
        let mut piece = core::mem::take(&mut self.front);
        piece.advance(self.at.min(piece.len()));
        self.at = 0;
        if !piece.is_empty() {
            self.plain = false;
            self.partial.push(&piece);
        }
        self.front = self.chunks.pop_front()?;
        Some(())
    }

    /// Ends a line that crosses chunks, is over-long or is the stream's first.
    #[cold]
    fn end_of_line(&mut self, piece: Range<usize>) -> Option<Line> {
        let piece = self.front.slice(piece);
        let line = if self.partial.len() == 0 {
            self.partial.limit(piece)
        } else {
            self.partial.push(&piece);
            self.partial.take()
        };
        self.plain = true;
        self.trim_line(line)
    }

    /// Ends the input; returns the text after the last newline unless it is blank.
    ///
    /// That text is a last line that lacks its newline, or one that was cut off. Lines that ended before can still be
    /// polled.
    pub fn handle_eof(&mut self) -> Option<Line> {
        let mut rest = Self::new(self.partial.max_bytes());
        rest.started = self.started;
        loop {
            let (mut chunk, last) = match self.chunks.pop_back() {
                Some(chunk) => (chunk, false),
                None => {
                    let front = core::mem::take(&mut self.front);
                    (front.slice(core::mem::take(&mut self.at).min(front.len())..), true)
                }
            };
            if let Some(newline) = memrchr(b'\n', &chunk) {
                rest.started = true;
                rest.chunks.push_front(chunk.split_off(newline.saturating_add(1)));
                if last {
                    self.front = chunk;
                } else {
                    self.chunks.push_back(chunk);
                }
                break;
            }
            rest.chunks.push_front(chunk);
            if last {
                core::mem::swap(&mut rest.partial, &mut self.partial);
                break;
            }
        }
        rest.chunks.push_back(Bytes::from_static(b"\n"));
        rest.poll_line()
    }

    /// The number of bytes held: input not yet polled, and the line that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let partial = self.partial.buffered().saturating_add(self.front.len().saturating_sub(self.at));
        self.chunks.iter().fold(partial, |sum, chunk| sum.saturating_add(chunk.len()))
    }

    /// Strips the byte order mark and the carriage return; `None` for a blank line.
    fn trim_line(&mut self, mut line: Line) -> Option<Line> {
        let (Line::Whole(text) | Line::TooLong { head: text, .. }) = &mut line;
        if !self.started {
            self.started = true;
            if text.starts_with(BYTE_ORDER_MARK) {
                text.advance(BYTE_ORDER_MARK.len());
            }
        }
        let Line::Whole(text) = &mut line else { return Some(line) };
        text.truncate(content(text)?);
        Some(line)
    }
}

/// The length of a line without its carriage return; `None` if it is blank.
fn content(line: &[u8]) -> Option<usize> {
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    (!text.iter().all(u8::is_ascii_whitespace)).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Together with the linear time of [`Partial`]: a line costs linear time however it is cut into chunks.
    #[test]
    fn lines_search_no_byte_twice() {
        let mut lines = Lines::new(99);
        for _ in 0..9 {
            lines.handle_input(Bytes::from_static(b"x"));
            assert_eq!(lines.poll_line(), None);
            assert!(lines.front.is_empty() && lines.chunks.is_empty());
        }
    }
}
