//! Newline framing: lines out of chunks as they are read.
//!
//! The limit is one copy per chunk into a shared buffer, as reading from a pipe does, and a search for newlines. Every
//! row begins with that copy. The second limit also makes a slice of the chunk for each line, which shares its memory: two
//! atomic operations, without which no line outlives the next read.

use std::convert::Infallible;
use std::hint::black_box;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use futures_lite::{AsyncBufReadExt as _, StreamExt as _};
use mcp_proto::codec::Lines;
use tokio_util::codec::{Decoder as _, LinesCodec};

use crate::lines::{Chunks, chunk_of, lines};
use crate::measure::{Mode, Row, Table, Unit};

const LINE_LIMIT: usize = 16 * 1024 * 1024;

pub(crate) fn run(mode: &Mode) {
    for (name, lengths) in [("120 B, 1 KB and 64 KB", &[120, 1_000, 64_000][..]), ("120 B", &[120])] {
        let input: Rc<[u8]> = lines(lengths).into();
        for chunk in [64 * 1024, 4 * 1024] {
            table(format!("lines of {name}, {} KiB chunks", chunk / 1024), &input, chunk).run(mode);
        }
    }
}

fn table(title: String, input: &Rc<[u8]>, chunk: usize) -> Table {
    let each = |name, row: fn(&[u8], usize)| {
        let input = Rc::clone(input);
        Row::new(name, 1, move || move || row(&input, chunk))
    };
    let rows = vec![
        each("limit: copy and memchr", limit),
        each("limit: and a slice per line", limit_of_slices),
        each("tokio-util LinesCodec", tokio_lines),
        each("futures-lite lines", futures_lines),
        each("ours", ours),
    ];
    Table { title, unit: Unit::Bytes(input.len()), peer: "tokio-util LinesCodec", rows }
}

fn limit(input: &[u8], chunk: usize) {
    let mut read = BytesMut::new();
    for piece in input.chunks(chunk) {
        let piece = chunk_of(&mut read, chunk, piece);
        for newline in memchr::memchr_iter(b'\n', black_box(&piece)) {
            black_box(newline);
        }
    }
}

fn limit_of_slices(input: &[u8], chunk: usize) {
    let mut read = BytesMut::new();
    for piece in input.chunks(chunk) {
        let piece = chunk_of(&mut read, chunk, piece);
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', black_box(&piece)) {
            black_box(piece.slice(start..newline));
            start = newline + 1;
        }
    }
}

fn ours(input: &[u8], chunk: usize) {
    let mut read = BytesMut::new();
    let mut lines = Lines::new(LINE_LIMIT);
    for piece in input.chunks(chunk) {
        lines.handle_input(chunk_of(&mut read, chunk, piece));
        while let Some(line) = &lines.poll_line() {
            black_box(line);
        }
    }
}

fn tokio_lines(input: &[u8], chunk: usize) {
    let mut read = BytesMut::new();
    let mut codec = LinesCodec::new_with_max_length(LINE_LIMIT);
    for piece in input.chunks(chunk) {
        read.extend_from_slice(piece);
        while let Some(line) = codec.decode(&mut read).expect("a line") {
            black_box(line);
        }
    }
}

fn futures_lines(input: &[u8], chunk: usize) {
    let reader = futures_lite::io::BufReader::with_capacity(chunk, Chunks { rest: input, size: chunk });
    let mut lines = reader.lines();
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(line)) = lines.poll_next(&mut cx) {
        let _ = black_box(line);
    }
}

/// Chunks as a stream of bytes, which event decoders read.
pub(crate) fn stream_of(chunks: &[Bytes]) -> impl futures_lite::Stream<Item = Result<Bytes, Infallible>> {
    futures_lite::stream::iter(chunks.to_vec()).map(Ok)
}
