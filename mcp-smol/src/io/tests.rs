use std::collections::VecDeque;
use std::task::Waker;

use super::*;

/// Reads the scripted pieces, one per call; writes `accept` bytes per call while there are calls left.
#[derive(Debug, Default)]
struct ScriptedIo {
    read: VecDeque<Vec<u8>>,
    taken: Vec<u8>,
    accept: usize,
    calls: usize,
    flushes: usize,
    closes: usize,
}

impl AsyncRead for ScriptedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(mut piece) = self.read.pop_front() else { return Poll::Pending };
        let rest = piece.split_off(piece.len().min(buffer.len()));
        if !rest.is_empty() {
            self.read.push_front(rest);
        }
        buffer[..piece.len()].copy_from_slice(&piece);
        Poll::Ready(Ok(piece.len()))
    }
}

impl AsyncWrite for ScriptedIo {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.calls == 0 {
            return Poll::Pending;
        }
        self.calls -= 1;
        let length = self.accept.min(bytes.len());
        self.taken.extend_from_slice(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closes += 1;
        Poll::Ready(Ok(()))
    }
}

fn reading(pieces: &[&[u8]]) -> Io<ScriptedIo, ScriptedIo> {
    let read = pieces.iter().map(|piece| piece.to_vec()).collect();
    Io::new(ScriptedIo { read, ..ScriptedIo::default() }, ScriptedIo::default())
}

fn writing(accept: usize, calls: usize) -> Io<ScriptedIo, ScriptedIo> {
    Io::new(ScriptedIo::default(), ScriptedIo { accept, calls, ..ScriptedIo::default() })
}

fn read(io: &mut Io<ScriptedIo, ScriptedIo>) -> Bytes {
    match io.poll_read(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn write(io: &mut Io<ScriptedIo, ScriptedIo>) -> Poll<Result<(), io::ErrorKind>> {
    io.poll_write(&mut Context::from_waker(Waker::noop())).map_err(|error| error.kind())
}

/// F25
#[test]
fn large_read_is_not_copied_and_small_read_holds_no_block() {
    let large = vec![b'x'; BLOCK];
    let mut io = reading(&[&large, b"small"]);
    let block = {
        io.block.resize(BLOCK, 0);
        io.block.as_ptr()
    };
    let first = read(&mut io);
    assert_eq!((first.as_ptr(), first.len()), (block, BLOCK));
    let second = read(&mut io);
    assert_eq!(&second[..], b"small");
    assert_eq!(io.block.len(), BLOCK, "a small read leaves the block whole");
    assert!(!io.block.as_ptr_range().contains(&second.as_ptr()));
}

#[test]
fn block_is_small_until_a_read_fills_it() {
    let large = vec![b'x'; BLOCK];
    let mut io = reading(&[&large[..FIRST_BLOCK - 1], b"small", &large[..FIRST_BLOCK], &large]);
    read(&mut io);
    read(&mut io);
    assert_eq!(io.block.len(), FIRST_BLOCK);
    assert_eq!(read(&mut io).len(), FIRST_BLOCK);
    assert_eq!(read(&mut io).len(), BLOCK);
}

/// F25
#[test]
fn read_bytes_stay_unchanged_while_more_are_read() {
    let pieces: Vec<Vec<u8>> = (0..40_u8).map(|n| vec![n; 1 + 1_700 * usize::from(n)]).collect();
    let mut io = reading(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut chunks = Vec::new();
    let total: usize = pieces.iter().map(Vec::len).sum();
    while chunks.iter().map(Bytes::len).sum::<usize>() < total {
        chunks.push(read(&mut io));
    }
    assert_eq!(chunks.concat(), pieces.concat());
}

/// F36
#[test]
fn ended_stream_stays_ended() {
    let mut io = reading(&[b"last", b"", b"after the end"]);
    assert_eq!(&read(&mut io)[..], b"last");
    assert!(read(&mut io).is_empty());
    assert!(read(&mut io).is_empty());
}

/// F26
#[test]
fn partial_write_resumes_where_it_stopped() {
    let mut io = writing(3, 2);
    io.outgoing().unwrap().extend_from_slice(b"message\n");
    assert!(write(&mut io).is_pending());
    assert_eq!(io.unwritten(), 2);
    assert!(io.outgoing().is_none(), "not before all is written");
    io.writer.calls = 1;
    assert_eq!(write(&mut io), Poll::Ready(Ok(())));
    assert_eq!(io.writer.taken, b"message\n");
    assert!(io.outgoing().is_some_and(|outgoing| outgoing.is_empty()));
}

/// F26
#[test]
fn written_message_is_flushed_once() {
    let mut io = writing(100, 1);
    io.outgoing().unwrap().extend_from_slice(b"message\n");
    assert_eq!(write(&mut io), Poll::Ready(Ok(())));
    assert_eq!(write(&mut io), Poll::Ready(Ok(())));
    assert_eq!(io.writer.flushes, 1);
}

/// F36
#[test]
fn writer_that_accepts_no_bytes_is_an_error() {
    let mut io = writing(0, 1);
    io.outgoing().unwrap().push(b'x');
    assert_eq!(write(&mut io), Poll::Ready(Err(io::ErrorKind::WriteZero)));
}

/// F34
#[test]
fn close_writes_the_rest_first_and_happens_once() {
    let mut io = writing(100, 0);
    io.outgoing().unwrap().extend_from_slice(b"bye\n");
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(io.poll_close(cx).is_pending());
    assert_eq!(io.writer.closes, 0);
    io.writer.calls = 1;
    assert!(io.poll_close(cx).is_ready());
    assert_eq!((io.writer.taken.as_slice(), io.writer.closes), (b"bye\n".as_slice(), 1));
    assert!(io.poll_close(cx).is_ready());
    assert_eq!(io.writer.closes, 1, "a socket refuses to be shut down twice");
}

/// F37
#[test]
fn output_buffer_shrinks_after_a_huge_message() {
    let mut io = writing(usize::MAX, 1);
    io.outgoing().unwrap().resize(4 * KEPT_OUTPUT, b'x');
    assert_eq!(write(&mut io), Poll::Ready(Ok(())));
    assert!(io.outgoing().unwrap().capacity() <= KEPT_OUTPUT);
}

#[test]
fn duplex_writes_once_what_is_flushed_together() {
    let mut cx = Context::from_waker(Waker::noop());
    let writer = ScriptedIo { accept: 3, calls: 1, ..ScriptedIo::default() };
    let mut stream = Duplex::new(ScriptedIo::default(), writer);
    for piece in [&b"head"[..], b"body"] {
        assert!(matches!(Pin::new(&mut stream).poll_write(&mut cx, piece), Poll::Ready(Ok(4))));
    }
    assert_eq!(stream.writer.calls, 1, "nothing is written before");
    assert!(Pin::new(&mut stream).poll_flush(&mut cx).is_pending());
    stream.writer.calls = 2;
    assert!(matches!(Pin::new(&mut stream).poll_flush(&mut cx), Poll::Ready(Ok(()))));
    assert_eq!((&*stream.writer.taken, stream.writer.flushes), (&b"headbody"[..], 1));
}

#[test]
fn duplex_keeps_little_more_than_a_block() {
    let mut cx = Context::from_waker(Waker::noop());
    let mut stream = Duplex::new(ScriptedIo::default(), ScriptedIo::default());
    let block = vec![0; BLOCK];
    assert!(Pin::new(&mut stream).poll_write(&mut cx, &block).is_ready());
    assert!(Pin::new(&mut stream).poll_write(&mut cx, &block).is_pending());
}
