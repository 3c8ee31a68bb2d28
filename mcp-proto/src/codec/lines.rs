//! Newline framing, as in the stdio transport.

use bytes::{Buf, Bytes};
use memchr::{memchr, memrchr};

use super::BYTE_ORDER_MARK;
use super::partial::{Chunks, Line, Partial};
use crate::prelude::*;

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
    chunks: Chunks,
    /// The beginning of the line whose end has not arrived.
    partial: Partial,
    /// Whether a line has ended: until then, a byte order mark may come.
    started: bool,
    /// Whether a line has ended, and `partial` holds nothing of the next one.
    plain: bool,
}

impl Lines {
    /// A splitter for lines of up to `max_bytes` bytes, counted without `\n`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { chunks: Chunks::default(), partial: Partial::new(max_bytes), started: false, plain: false }
    }

    /// Appends a chunk of the stream. Several chunks may wait for [`poll_line`](Self::poll_line).
    #[inline]
    pub fn handle_input(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// The next line that has ended, if any.
    #[inline]
    #[must_use]
    pub fn poll_line(&mut self) -> Option<Line> {
        loop {
            let rest = self.chunks.rest();
            let newline = if rest.is_empty() { None } else { memchr(b'\n', rest) };
            let Some(length) = newline else {
                if !rest.is_empty() {
                    self.plain = false;
                    self.partial.push(rest);
                }
                if !self.chunks.next() {
                    return None;
                }
                continue;
            };
            let consumed = length.saturating_add(1);
            if self.plain && length <= self.partial.max_bytes() {
                if let Some(kept) = content(rest.get(..length).unwrap_or_default()) {
                    return Some(Line::Whole(self.chunks.take(kept, consumed)));
                }
                self.chunks.advance(consumed);
            } else {
                let line = self.end_of_line(length);
                self.chunks.advance(consumed);
                if line.is_some() {
                    return line;
                }
            }
        }
    }

    /// Ends a line that crosses chunks, is over-long or is the stream's first, `length` bytes into the front chunk.
    fn end_of_line(&mut self, length: usize) -> Option<Line> {
        let line = if self.partial.len() == 0 {
            self.partial.limit(self.chunks.slice(0..length))
        } else {
            self.partial.push(self.chunks.rest().get(..length).unwrap_or_default());
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
        let mut last = Self::new(self.partial.max_bytes());
        last.started = self.started;
        let mut pieces = Vec::new();
        loop {
            let Some(mut chunk) = self.chunks.pop_back() else {
                core::mem::swap(&mut last.partial, &mut self.partial);
                break;
            };
            if let Some(newline) = memrchr(b'\n', &chunk) {
                last.started = true;
                pieces.push(chunk.split_off(newline.saturating_add(1)));
                self.chunks.push(chunk);
                break;
            }
            pieces.push(chunk);
        }
        pieces.into_iter().rev().for_each(|piece| last.chunks.push(piece));
        last.chunks.push(Bytes::from_static(b"\n"));
        last.poll_line()
    }

    /// The number of bytes held: input not yet polled, and the line that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.partial.buffered().saturating_add(self.chunks.bytes())
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

//= F27 "Carriage returns and blank lines are skipped"
/// The length of a line without its carriage return; `None` if it is blank.
#[inline]
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
            assert!(lines.chunks.is_empty());
        }
    }
}
