//! Decoding of event streams.
//!
//! The limit is a search for line breaks in the chunks, which every decoder shares.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::rc::Rc;

use bytes::Bytes;
use eventsource_stream::Eventsource as _;
use futures_lite::{StreamExt as _, future};
use mcp_proto::codec::sse::Sse;
use sse_core::SseDecoder;
use sse_stream::SseStream;

use crate::events::events;
use crate::framing::stream_of;
use crate::measure::{Mode, Row, Table, Unit};

const KIB: usize = 1024;
const LIMIT: usize = 64 * KIB * KIB;

pub(crate) fn run(mode: &Mode) {
    let kinds: [(&str, &[usize], &[usize]); 3] = [
        ("120 B", &[120], &[64 * KIB]),
        ("64 KB", &[64_000], &[64 * KIB]),
        ("120 B, 1 KB and 64 KB", &[120, 1_000, 64_000], &[64 * KIB, KIB, 16]),
    ];
    for (name, lengths, sizes) in kinds {
        let stream = events(lengths);
        for &size in sizes {
            let chunks: Rc<[Bytes]> = stream.bytes.chunks(size).map(Bytes::copy_from_slice).collect();
            let title = format!("{} events of {name}, {size} B chunks", stream.events);
            table(title, stream.bytes.len(), &chunks).run(mode);
        }
    }
}

fn table(title: String, bytes: usize, chunks: &Rc<[Bytes]>) -> Table {
    let each = |name, row: fn(&[Bytes])| {
        let chunks = Rc::clone(chunks);
        Row::new(name, 1, move || move || row(&chunks))
    };
    let rows = vec![
        each("limit: memchr", limit),
        each("sse-stream", sse_stream),
        each("sse-core", sse_core),
        each("eventsource-stream", eventsource_stream),
        each("ours", ours),
    ];
    Table { title, unit: Unit::Bytes(bytes), peer: "sse-stream", rows }
}

fn limit(chunks: &[Bytes]) {
    for chunk in chunks {
        for newline in memchr::memchr_iter(b'\n', black_box(chunk)) {
            black_box(newline);
        }
    }
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

fn sse_core(chunks: &[Bytes]) {
    let mut events = SseDecoder::with_limit(NonZeroUsize::new(LIMIT).expect("it is not zero"));
    for chunk in chunks {
        let mut chunk = chunk.clone();
        while let Some(event) = events.next(&mut chunk) {
            let _ = black_box(event);
        }
    }
}

/// The decoder of rmcp, which puts a limiter of its own before it.
fn sse_stream(chunks: &[Bytes]) {
    let mut events = SseStream::from_bytes_stream(stream_of(chunks));
    future::block_on(async {
        while let Some(event) = events.next().await {
            black_box(event.expect("an event"));
        }
    });
}

fn eventsource_stream(chunks: &[Bytes]) {
    let mut events = stream_of(chunks).eventsource();
    future::block_on(async {
        while let Some(event) = events.next().await {
            black_box(event.expect("an event"));
        }
    });
}
