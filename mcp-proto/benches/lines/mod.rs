//! Lines, and chunks of them as a driver reads them: the input of the benchmarks of newline framing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_lite::io::AsyncRead;

/// A mix of lines with the same number of bytes for each length: about 6 MB, more than the caches of a core hold.
pub(crate) fn lines(lengths: &[usize]) -> Vec<u8> {
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let text: Vec<u8> = (b'a'..=b'z').cycle().take(longest).collect();
    let mut input = Vec::new();
    while input.len() < 6_000_000 {
        for &length in lengths {
            for _ in 0..longest / length {
                input.extend_from_slice(&text[..length - 1]);
                input.push(b'\n');
            }
        }
    }
    input
}

/// Reads a chunk as a driver does: into a buffer that is reused once no slice shares it.
pub(crate) fn chunk_of(buffer: &mut BytesMut, size: usize, piece: &[u8]) -> Bytes {
    buffer.reserve(size);
    buffer.extend_from_slice(piece);
    buffer.split().freeze()
}

/// A reader that returns at most `size` bytes at once.
pub(crate) struct Chunks<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) size: usize,
}

impl AsyncRead for Chunks<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let (piece, rest) = self.rest.split_at(self.size.min(self.rest.len()).min(buffer.len()));
        buffer[..piece.len()].copy_from_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(piece.len()))
    }
}
