//! A connection's socket: TLS if the options say so, the detection of the HTTP version, and reports to the monitor.

#[cfg(feature = "tls")]
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
#[cfg(feature = "tls")]
use futures_rustls::{Accept, TlsAcceptor, rustls::pki_types::CertificateDer, server::TlsStream};
#[cfg(feature = "tls")]
use mcp_proto::front::Attachments;

use super::monitor::ConnectionMonitor;

/// A bidirectional byte stream.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// The acceptor that encrypts connections.
#[cfg(feature = "tls")]
pub(super) type Tls = TlsAcceptor;
/// Uninhabited, as this build has no TLS.
#[cfg(not(feature = "tls"))]
pub(super) enum Tls {}

/// A stream, which exists once [`poll_handshake`](Self::poll_handshake) has returned ready.
pub(super) enum MaybeTlsStream<Io> {
    Plain(Io),
    #[cfg(feature = "tls")]
    Handshaking(Box<Accept<Io>>),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Io>>),
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> MaybeTlsStream<Io> {
    pub(super) fn new(io: Io, tls: Option<&Tls>) -> Self {
        match tls {
            #[cfg(feature = "tls")]
            Some(tls) => Self::Handshaking(Box::new(tls.accept(io))),
            #[cfg(not(feature = "tls"))]
            Some(tls) => match *tls {},
            None => Self::Plain(io),
        }
    }

    /// The stream, readable and writable.
    pub(super) fn stream(&mut self) -> io::Result<Pin<&mut dyn Duplex>> {
        match self {
            Self::Plain(io) => Ok(Pin::new(io)),
            #[cfg(feature = "tls")]
            Self::Handshaking(_) => Err(io::ErrorKind::NotConnected.into()),
            #[cfg(feature = "tls")]
            Self::Tls(io) => Ok(Pin::new(&mut **io)),
        }
    }
}

#[cfg(feature = "tls")]
impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> MaybeTlsStream<Io> {
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Handshaking(_))
    }

    /// Whether a TLS handshake is in progress.
    /// Advances the TLS handshake; ready at once without one.
    pub(super) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Handshaking(accept) = self {
            *self = Self::Tls(Box::new(ready!(Pin::new(accept).poll(cx))?));
        }
        Poll::Ready(Ok(()))
    }

    /// Attaches the client's certificates and the server's name from the handshake.
    pub(super) fn attach_peer(&self, attachments: &mut Attachments) {
        if let Self::Tls(io) = self {
            let (_, connection) = io.get_ref();
            attachments.insert(TlsPeer {
                server_name: connection.server_name().map(str::to_owned),
                certificates: connection.peer_certificates().unwrap_or_default().to_vec(),
            });
        }
    }
}

/// The client of an encrypted connection, as its TLS handshake describes it.
///
/// Handlers read it from [`Context::attachments`](mcp_proto::front::Context::attachments).
#[cfg(feature = "tls")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsPeer {
    /// The name of the server that the client asked for (SNI).
    pub server_name: Option<String>,
    /// The client's certificates, its own first; empty if it presented none. They are valid as far as the
    /// configuration's client verifier has checked them.
    pub certificates: Vec<CertificateDer<'static>>,
}

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
    /// Reads until the protocol is certain. Calls `on_read` for every read.
    pub(super) fn poll_read<Io: AsyncRead + ?Sized>(
        &mut self,
        mut io: Pin<&mut Io>,
        mut on_read: impl FnMut(),
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
            match ready!(io.as_mut().poll_read(cx, rest))? {
                0 if self.read == 0 => return Poll::Ready(Ok(Protocol::Closed)),
                // A connection that ends within the preface does not speak HTTP/2.
                0 => return Poll::Ready(Ok(Protocol::Http1)),
                count => self.read = self.read.saturating_add(count),
            }
            on_read();
        }
    }

    /// The bytes read so far.
    pub(super) fn received(&self) -> &[u8] {
        self.bytes.get(..self.read).unwrap_or_default()
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

/// Maximum number of consecutive reads, after the server closed its side, before other connections get a turn.
const READS: usize = 16;

/// A socket that replays the preface and then reads on. It reports activity to the [`ConnectionMonitor`], and closes
/// such that the client can still read the last response.
pub(super) struct Socket<Io> {
    io: MaybeTlsStream<Io>,
    preface: Preface,
    monitor: Arc<ConnectionMonitor>,
    write_blocked: bool,
    /// The server has closed its side.
    closed: bool,
    /// The client has closed its side.
    ended: bool,
}

impl<Io> Socket<Io> {
    /// A socket whose first bytes, `ahead`, were already read.
    pub(super) fn new(io: MaybeTlsStream<Io>, ahead: Preface, monitor: Arc<ConnectionMonitor>) -> Self {
        Self { io, preface: ahead, monitor, write_blocked: false, closed: false, ended: false }
    }

    fn report_write<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() != self.write_blocked {
            self.write_blocked = written.is_pending();
            if self.write_blocked { self.monitor.note_blocked() } else { self.monitor.note_written() }
        }
        written
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> AsyncRead for Socket<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = self.preface.take(buf);
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        let count = ready!(self.io.stream()?.poll_read(cx, buf))?;
        if count > 0 {
            self.monitor.note_read();
        } else if !buf.is_empty() {
            self.ended = true;
        }
        Poll::Ready(Ok(count))
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> AsyncWrite for Socket<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.io.stream()?.poll_write(cx, buf);
        self.report_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.io.stream()?.poll_write_vectored(cx, bufs);
        self.report_write(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.io.stream()?.poll_flush(cx);
        self.report_write(flushed)
    }

    /// Closes the socket. The system resets a connection that is closed while input is unread, so this waits, if need
    /// be, for the client to close its side; the monitor limits that wait.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            let closed = self.io.stream()?.poll_close(cx);
            ready!(self.report_write(closed))?;
            self.closed = true;
        }
        if !self.monitor.note_closed() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [0; 4096];
        for _ in 0..READS {
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let read = ready!(self.io.stream()?.poll_read(cx, &mut scratch));
            self.ended = matches!(read, Ok(0) | Err(_));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::task::Waker;

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
        let Poll::Ready(Ok(beginning)) = preface.poll_read(Pin::new(&mut reader), || {}, &mut cx) else {
            panic!()
        };
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
