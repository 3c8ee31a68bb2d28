//! A plain stream, or TLS over one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

#[cfg(feature = "tls")]
pub(super) use encrypted::{MaybeTlsStream, Tls};
#[cfg(not(feature = "tls"))]
pub(super) use plain::{MaybeTlsStream, Tls};

/// A bidirectional byte stream.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> AsyncRead for MaybeTlsStream<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> AsyncWrite for MaybeTlsStream<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_close(cx)
    }
}

/// Stand-ins for builds without TLS: the stream itself.
#[cfg(not(feature = "tls"))]
mod plain {
    use super::*;

    /// Uninhabited, as this build has no TLS.
    pub(in super::super) enum Tls {}

    pub(in super::super) struct MaybeTlsStream<Io>(Io);

    impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> MaybeTlsStream<Io> {
        pub(in super::super) fn new(io: Io, _: Option<&Tls>) -> Self {
            Self(io)
        }

        pub(in super::super) fn is_handshaking(&self) -> bool {
            false
        }

        pub(in super::super) fn poll_handshake(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        pub(super) fn stream(&mut self) -> io::Result<Pin<&mut dyn Duplex>> {
            Ok(Pin::new(&mut self.0))
        }
    }
}

#[cfg(feature = "tls")]
mod encrypted {
    use std::future::Future as _;
    use std::task::ready;

    use futures_rustls::server::TlsStream;
    use futures_rustls::{Accept, TlsAcceptor};

    use super::*;

    /// The acceptor that encrypts connections.
    pub(in super::super) type Tls = TlsAcceptor;

    /// A stream, readable and writable once [`poll_handshake`](Self::poll_handshake) has returned ready.
    pub(in super::super) enum MaybeTlsStream<Io> {
        Plain(Io),
        Handshaking(Box<Accept<Io>>),
        Tls(Box<TlsStream<Io>>),
    }

    impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> MaybeTlsStream<Io> {
        pub(in super::super) fn new(io: Io, tls: Option<&Tls>) -> Self {
            match tls {
                Some(tls) => Self::Handshaking(Box::new(tls.accept(io))),
                None => Self::Plain(io),
            }
        }

        /// Whether a TLS handshake is in progress.
        pub(in super::super) fn is_handshaking(&self) -> bool {
            matches!(self, Self::Handshaking(_))
        }

        /// Advances the TLS handshake; ready at once without one.
        pub(in super::super) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            if let Self::Handshaking(accept) = self {
                *self = Self::Tls(Box::new(ready!(Pin::new(accept).poll(cx))?));
            }
            Poll::Ready(Ok(()))
        }

        pub(super) fn stream(&mut self) -> io::Result<Pin<&mut dyn Duplex>> {
            match self {
                Self::Plain(io) => Ok(Pin::new(io)),
                Self::Handshaking(_) => Err(io::ErrorKind::NotConnected.into()),
                Self::Tls(io) => Ok(Pin::new(&mut **io)),
            }
        }
    }
}
