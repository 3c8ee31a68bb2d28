//! Speed of newline framing compared with its theoretical limit and with `futures_lite::io::Lines`.
//!
//! The limit is one copy per chunk into a shared buffer, as reading from a pipe does, and a search for newlines. A line
//! that crosses chunks must be copied again, which the limit leaves out.
//!
//! `cargo bench -p mcp-proto --bench framing`; arguments as in [`rows::measure_row`], for example
//! `-- --repeat 10 "120 B lines, 64 KiB"`.

mod measure;
mod rows;

use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_lite::io::{AsyncBufReadExt, AsyncRead, BufReader};
use futures_lite::{StreamExt, future};
use mcp_proto::codec::Lines;
use rows::measure_row;

fn main() {
    println!(
        "{:34} {:>10} {:>10} {:>10} {:>8} {:>8} {:>12}",
        "", "limit GB/s", "ours GB/s", "peer GB/s", "÷ limit", "× peer", "allocations"
    );
    for (name, input) in
        [("mix of 120 B, 1 KB, 64 KB", lines(&[120, 1_000, 64_000])), ("120 B lines", lines(&[120]))]
    {
        for chunk in [64 * 1024, 4 * 1024] {
            row(&format!("{name}, {} KiB", chunk / 1024), &input, chunk);
        }
    }
}

/// A mix of lines with the same number of bytes for each length: about 6 MB, more than the caches of a core hold.
fn lines(lengths: &[usize]) -> Vec<u8> {
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
fn chunk_of(buffer: &mut BytesMut, size: usize, piece: &[u8]) -> Bytes {
    buffer.reserve(size);
    buffer.extend_from_slice(piece);
    buffer.split().freeze()
}

/// A reader that returns at most `size` bytes at once.
struct Chunks<'a> {
    rest: &'a [u8],
    size: usize,
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

fn row(name: &str, input: &[u8], chunk: usize) {
    let mut read = BytesMut::new();
    let mut limit = || {
        for piece in input.chunks(chunk) {
            let piece = chunk_of(&mut read, chunk, piece);
            for newline in memchr::memchr_iter(b'\n', black_box(&piece)) {
                black_box(newline);
            }
        }
    };
    let mut read = BytesMut::new();
    let mut lines = Lines::new(16 * 1024 * 1024);
    let mut ours = || {
        for piece in input.chunks(chunk) {
            lines.handle_input(chunk_of(&mut read, chunk, piece));
            while let Some(line) = &lines.poll_line() {
                black_box(line);
            }
        }
    };
    let mut peer = || {
        let reader = BufReader::with_capacity(chunk, Chunks { rest: input, size: chunk });
        future::block_on(reader.lines().for_each(|line| _ = black_box(line)));
    };
    let candidates: [(&str, &mut dyn FnMut()); 3] =
        [("limit", &mut limit), ("ours", &mut ours), ("peer", &mut peer)];
    let Some([limit, ours, peer]) = measure_row(name, candidates) else { return };
    let speed = |nanoseconds: f64| input.len() as f64 / nanoseconds;
    println!(
        "{name:34} {:>10.1} {:>10.1} {:>10.1} {:>8.2} {:>8.1} {:>12}",
        speed(limit.nanoseconds),
        speed(ours.nanoseconds),
        speed(peer.nanoseconds),
        limit.nanoseconds / ours.nanoseconds,
        peer.nanoseconds / ours.nanoseconds,
        ours.allocations,
    );
}
