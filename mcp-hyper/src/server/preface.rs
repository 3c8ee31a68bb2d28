//! Detection of a client's HTTP version.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::AsyncRead;

/// The HTTP/2 client preface. (RFC 9113, section 3.4)
const HTTP2: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first bytes of a connection, read to detect the protocol and then replayed to its implementation.
#[derive(Debug, Default)]
pub(super) struct Preface {
    bytes: [u8; HTTP2.len()],
    read: usize,
    taken: usize,
}

/// The protocol detected on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    /// The client closed its side before sending anything.
    Closed,
}

impl Preface {
    /// Reads until the protocol is certain. Calls `heard` for every read.
    pub(super) fn poll_read<Io: AsyncRead + Unpin>(
        &mut self,
        io: &mut Io,
        mut heard: impl FnMut(),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Protocol>> {
        loop {
            let (seen, rest) = self.bytes.split_at_mut(self.read.min(HTTP2.len()));
            if !HTTP2.starts_with(seen) {
                return Poll::Ready(Ok(Protocol::Http1));
            }
            if rest.is_empty() {
                return Poll::Ready(Ok(Protocol::Http2));
            }
            match ready!(Pin::new(&mut *io).poll_read(cx, rest))? {
                0 if self.read == 0 => return Poll::Ready(Ok(Protocol::Closed)),
                // A connection that ends within the preface does not speak HTTP/2.
                0 => return Poll::Ready(Ok(Protocol::Http1)),
                count => self.read = self.read.saturating_add(count),
            }
            heard();
        }
    }

    /// Copies buffered bytes to the front of `buf`, and returns their number.
    pub(super) fn take(&mut self, buf: &mut [u8]) -> usize {
        let rest = self.bytes.get(self.taken..self.read).unwrap_or_default();
        let count = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.taken = self.taken.saturating_add(count);
        count
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::task::Waker;

    use super::*;

    /// A reader that returns at most the given number of bytes at a time.
    struct Chunks(Cursor<Vec<u8>>, usize);

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let most = self.1.min(buf.len());
            Poll::Ready(io::Read::read(&mut self.0, &mut buf[..most]))
        }
    }

    fn begin(input: &[u8], chunk: usize) -> (Protocol, Vec<u8>) {
        let mut reader = Chunks(Cursor::new(input.to_vec()), chunk);
        let mut preface = Preface::default();
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(beginning)) = preface.poll_read(&mut reader, || {}, &mut cx) else { panic!() };
        let mut again = Vec::new();
        let mut buf = [0; 7];
        loop {
            match preface.take(&mut buf) {
                0 => break,
                count => again.extend_from_slice(&buf[..count]),
            }
        }
        io::Read::read_to_end(&mut reader.0, &mut again).unwrap();
        (beginning, again)
    }

    #[test]
    fn first_bytes_determine_the_http_version_and_none_is_lost() {
        let post = b"POST /mcp HTTP/1.1\r\nhost: a\r\n\r\n";
        let put = b"PRIVATE / HTTP/1.1\r\n\r\n";
        let two = [&HTTP2[..], b"frames"].concat();
        for chunk in [1, 2, 5, 24, 100] {
            assert_eq!(begin(post, chunk), (Protocol::Http1, post.to_vec()), "{chunk}");
            assert_eq!(begin(put, chunk), (Protocol::Http1, put.to_vec()), "{chunk}");
            assert_eq!(begin(&two, chunk), (Protocol::Http2, two.clone()), "{chunk}");
            assert_eq!(begin(b"PRI", chunk), (Protocol::Http1, b"PRI".to_vec()), "{chunk}");
            assert_eq!(begin(b"", chunk), (Protocol::Closed, Vec::new()), "{chunk}");
        }
    }
}
