//! TLS over accepted streams.

use std::future::Future as _;
use std::sync::Arc;
use std::task::ready;

use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::pki_types::CertificateDer;
use futures_rustls::server::TlsStream;
use futures_rustls::{Accept, TlsAcceptor};
use mcp_proto::front::{Attachments, HandlerMode};

use super::*;
use crate::server::ServerOptions;

/// The acceptor that encrypts connections.
pub(in crate::server) type Tls = TlsAcceptor;

/// A stream, readable and writable once [`poll_handshake`](Self::poll_handshake) has returned ready.
pub(in crate::server) enum MaybeTlsStream<Io> {
    Plain(Io),
    Handshaking(Box<Accept<Io>>),
    Tls(Box<TlsStream<Io>>),
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> MaybeTlsStream<Io> {
    pub(in crate::server) fn new(io: Io, tls: Option<&Tls>) -> Self {
        match tls {
            Some(tls) => Self::Handshaking(Box::new(tls.accept(io))),
            None => Self::Plain(io),
        }
    }

    /// Whether a TLS handshake is in progress.
    pub(in crate::server) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Handshaking(_))
    }

    /// Advances the TLS handshake; ready at once without one.
    pub(in crate::server) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Handshaking(accept) = self {
            *self = Self::Tls(Box::new(ready!(Pin::new(accept).poll(cx))?));
        }
        Poll::Ready(Ok(()))
    }

    /// Attaches the client's certificates and the server's name from the handshake.
    pub(in crate::server) fn attach_peer(&self, attachments: &mut Attachments) {
        if let Self::Tls(io) = self {
            let (_, connection) = io.get_ref();
            attachments.insert(TlsPeer {
                server_name: connection.server_name().map(str::to_owned),
                certificates: connection.peer_certificates().unwrap_or_default().to_vec(),
            });
        }
    }

    pub(super) fn stream(&mut self) -> io::Result<Pin<&mut dyn Duplex>> {
        match self {
            Self::Plain(io) => Ok(Pin::new(io)),
            Self::Handshaking(_) => Err(io::ErrorKind::NotConnected.into()),
            Self::Tls(io) => Ok(Pin::new(&mut **io)),
        }
    }
}

/// The client of an encrypted connection, as its TLS handshake describes it.
///
/// Handlers read it from [`Context::attachments`](mcp_proto::front::Context::attachments).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsPeer {
    /// The name of the server that the client asked for (SNI).
    pub server_name: Option<String>,
    /// The client's certificates, its own first; empty if it presented none. They are valid as far as the
    /// configuration's client verifier has checked them.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl<H: HandlerMode> ServerOptions<H> {
    /// Encrypts connections. If the configuration names no ALPN protocols, it gets HTTP/1.1 and, with the feature
    /// `http2`, HTTP/2.
    pub fn tls(mut self, config: impl Into<Arc<ServerConfig>>) -> Self {
        let mut config = config.into();
        if config.alpn_protocols.is_empty() {
            let protocols = crate::tls::PROTOCOLS.iter().map(|name| name.to_vec());
            Arc::make_mut(&mut config).alpn_protocols = protocols.collect();
        }
        self.tls = Some(config.into());
        self
    }
}
