//! Speed of newline framing compared with its theoretical limit.
//!
//! The limit is one copy per chunk into a shared buffer, as reading from a pipe does, and a search for newlines. A line
//! that crosses chunks must be copied again, which the limit leaves out.
//!
//! `cargo bench -p mcp-proto --bench framing`

mod measure;

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use mcp_proto::codec::Lines;
use measure::measure;

fn main() {
    println!("{:28} {:>10} {:>10} {:>7} {:>12}", "", "limit GB/s", "ours GB/s", "ratio", "allocations");
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
    let mut input = Vec::new();
    while input.len() < 6_000_000 {
        for &length in lengths {
            for _ in 0..longest / length {
                input.extend((0..length - 1).map(|n| b'a' + (n % 26) as u8));
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
    let [limit, ours] = measure([&mut limit, &mut ours]);
    let speed = |nanoseconds: f64| input.len() as f64 / nanoseconds;
    println!(
        "{name:28} {:>10.1} {:>10.1} {:>7.2} {:>12}",
        speed(limit.nanoseconds),
        speed(ours.nanoseconds),
        limit.nanoseconds / ours.nanoseconds,
        ours.allocations,
    );
}
