//! Speed of newline framing compared with its theoretical limit and with `futures_lite::io::Lines`.
//!
//! The limit is one copy per chunk into a shared buffer, as reading from a pipe does, and a search for newlines. A line
//! that crosses chunks must be copied again, which the limit leaves out.
//!
//! `cargo bench -p mcp-proto --bench framing`; arguments as in [`rows::measure_row`], for example
//! `-- --repeat 10 "120 B lines, 64 KiB"`.

mod lines;
mod measure;
mod rows;

use std::hint::black_box;

use bytes::BytesMut;
use futures_lite::io::{AsyncBufReadExt, BufReader};
use futures_lite::{StreamExt, future};
use lines::{Chunks, chunk_of, lines};
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
