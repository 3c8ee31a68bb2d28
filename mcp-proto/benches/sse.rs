//! Speed of decoding event streams.
//!
//! The theoretical limit is a search for line breaks in the chunks; `sse-core` is another sans-IO decoder. Both
//! decoders share the chunks, and copy only if they must.
//!
//! `cargo bench -p mcp-proto --bench sse`; arguments as in [`rows::measure_row`]. Run it with `MALLOC_MMAP_MAX_=0` and
//! `MALLOC_TRIM_THRESHOLD_=4294967296`: otherwise glibc maps each large buffer anew, and the page faults look like
//! super-linear growth.

mod events;
mod measure;
mod rows;

use std::hint::black_box;
use std::num::NonZeroUsize;

use bytes::Bytes;
use events::{Stream, events};
use mcp_proto::codec::sse::{Sse, write};
use rows::measure_row;
use sse_core::SseDecoder;

const KIB: usize = 1024;
const LIMIT: usize = 64 * KIB * KIB;

fn main() {
    println!(
        "{:34} {:>10} {:>10} {:>10} {:>7} {:>7} {:>9} {:>12}",
        "", "limit GB/s", "ours GB/s", "peer GB/s", "÷ limit", "× peer", "ns/event", "allocations"
    );
    let (small, large) = (events(&[120]), events(&[64_000]));
    let mix = events(&[120, 1_000, 64_000]);
    row("120 B events, 64 KiB chunks", &small, 64 * KIB);
    row("64 KB events, 64 KiB chunks", &large, 64 * KIB);
    row("64 KB events, 1 MiB chunks", &large, KIB * KIB);
    for chunk in [64 * KIB, KIB, 16] {
        row(&format!("mix of 120 B, 1 KB, 64 KB, {chunk} B chunks"), &mix, chunk);
    }
    growth();
}

fn chunks(stream: &[u8], size: usize) -> Vec<Bytes> {
    stream.chunks(size).map(Bytes::copy_from_slice).collect()
}

fn ours(chunks: &[Bytes]) {
    let mut events = Sse::new(LIMIT);
    for chunk in chunks {
        events.handle_input(chunk.clone());
        while let Some(item) = &events.poll_item() {
            black_box(item);
        }
    }
}

fn row(name: &str, stream: &Stream, size: usize) {
    let chunks = chunks(&stream.bytes, size);
    let mut limit = || {
        for chunk in &chunks {
            for newline in memchr::memchr_iter(b'\n', black_box(chunk)) {
                black_box(newline);
            }
        }
    };
    let mut decode = || ours(&chunks);
    let mut peer = || {
        let mut events = SseDecoder::with_limit(NonZeroUsize::new(LIMIT).expect("it is not zero"));
        for chunk in &chunks {
            let mut chunk = chunk.clone();
            while let Some(event) = events.next(&mut chunk) {
                let _ = black_box(event);
            }
        }
    };
    let candidates: [(&str, &mut dyn FnMut()); 3] =
        [("limit", &mut limit), ("ours", &mut decode), ("peer", &mut peer)];
    let Some([limit, decode, peer]) = measure_row(name, candidates) else { return };
    let speed = |nanoseconds: f64| stream.bytes.len() as f64 / nanoseconds;
    println!(
        "{name:34} {:>10.1} {:>10.1} {:>10.1} {:>7.2} {:>7.1} {:>9.1} {:>12}",
        speed(limit.nanoseconds),
        speed(decode.nanoseconds),
        speed(peer.nanoseconds),
        limit.nanoseconds / decode.nanoseconds,
        peer.nanoseconds / decode.nanoseconds,
        decode.nanoseconds / stream.events as f64,
        decode.allocations,
    );
}

/// Prints the exponent of the time's growth when the event doubles: 1 if it is linear, 2 if it is quadratic. The limit
/// is a copy of the chunks into a growing vector: both pay for memory that no cache holds.
fn growth() {
    println!("\n{:34} {:>10} {:>10} {:>9} {:>9}", "", "limit GB/s", "ours GB/s", "limit ^", "ours ^");
    let mut before = None;
    for mebibytes in [1, 2, 4, 8, 16, 32] {
        let mut stream = Vec::new();
        write::event(&mut stream, None, None, &vec![b'a'; mebibytes * KIB * KIB]);
        let chunks = chunks(&stream, KIB);
        let mut limit = || {
            let mut data = Vec::new();
            for chunk in &chunks {
                black_box(memchr::memchr(b'\n', chunk));
                data.extend_from_slice(chunk);
            }
            black_box(data);
        };
        let name = format!("one event of {mebibytes} MiB in 1 KiB chunks");
        let mut decode = || ours(&chunks);
        let candidates: [(&str, &mut dyn FnMut()); 2] = [("limit", &mut limit), ("ours", &mut decode)];
        let Some(costs) = measure_row(&name, candidates) else { continue };
        let costs = costs.map(|cost| cost.nanoseconds);
        let exponents =
            before.map_or([1.0; 2], |before: [f64; 2]| [0, 1].map(|n| (costs[n] / before[n]).log2()));
        let speed = |nanoseconds: f64| stream.len() as f64 / nanoseconds;
        println!(
            "{:34} {:>10.1} {:>10.1} {:>9.2} {:>9.2}",
            name,
            speed(costs[0]),
            speed(costs[1]),
            exponents[0],
            exponents[1],
        );
        before = Some(costs);
    }
}
