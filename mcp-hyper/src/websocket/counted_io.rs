//! The stream below a WebSocket: counts of its bytes, and the position within its frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

/// A stream that counts the bytes read from it and written to it.
pub(super) struct CountedIo<Io> {
    /// `None` once it was taken.
    io: Option<Io>,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) frames: FrameHeads,
}

/// The position within the frames that were read (RFC 6455, section 5.2).
#[derive(Default)]
pub(super) struct FrameHeads {
    /// The bytes of the current head that have arrived.
    position: u8,
    /// Where its length ends, and where the mask behind it ends.
    ends: (u8, u8),
    /// The length of the payload, as far as it is known.
    length: u64,
    /// How many bytes of the current payload have not arrived.
    pub(super) missing: u64,
}

impl FrameHeads {
    pub(super) fn advance(&mut self, mut bytes: &[u8]) {
        loop {
            let skipped = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
            self.missing -= skipped as u64;
            let Some((byte, rest)) = bytes.get(skipped..).unwrap_or_default().split_first() else { return };
            self.read_head(*byte);
            bytes = rest;
        }
    }

    fn read_head(&mut self, byte: u8) {
        match self.position {
            0 => self.ends = (2, 2),
            1 => {
                let (end, length) = match byte & 0x7f {
                    126 => (4, 0),
                    127 => (10, 0),
                    length => (2, length),
                };
                self.ends = (end, if byte & 0x80 == 0 { end } else { end + 4 });
                self.length = length.into();
            }
            position if position < self.ends.0 => self.length = self.length << 8 | u64::from(byte),
            _ => {}
        }
        self.position += 1;
        if self.position == self.ends.1 {
            (self.position, self.missing) = (0, self.length);
        }
    }
}

impl<Io> CountedIo<Io> {
    pub(super) fn new(io: Io) -> Self {
        Self { io: Some(io), read: 0, written: 0, frames: FrameHeads::default() }
    }

    /// Takes the stream out.
    pub(super) fn take(&mut self) -> Self {
        Self { io: self.io.take(), frames: std::mem::take(&mut self.frames), ..*self }
    }

    #[cfg(test)]
    pub(super) fn get_mut(&mut self) -> &mut Io {
        self.io.as_mut().unwrap()
    }
}

/// Adds the bytes of a read or write to their count.
fn count(total: &mut u64, moved: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
    if let Poll::Ready(Ok(bytes)) = moved {
        *total = total.wrapping_add(bytes as u64);
    }
    moved
}

impl<Io: AsyncRead + Unpin> AsyncRead for CountedIo<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(io) = &mut self.io else { return Poll::Ready(Ok(0)) };
        let read = Pin::new(io).poll_read(cx, buf);
        if let Poll::Ready(Ok(bytes)) = read {
            self.frames.advance(buf.get(..bytes).unwrap_or_default());
        }
        count(&mut self.read, read)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for CountedIo<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Some(io) = &mut self.io else { return Poll::Ready(Ok(0)) };
        let written = Pin::new(io).poll_write(cx, buf);
        count(&mut self.written, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().map_or(Poll::Ready(Ok(())), |io| Pin::new(io).poll_flush(cx))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().map_or(Poll::Ready(Ok(())), |io| Pin::new(io).poll_close(cx))
    }
}
