//! Stands in for `encrypted` without the feature `tls`: the stream itself.

use mcp_proto::front::Attachments;

use super::*;

/// Uninhabited, as this build has no TLS.
pub(in crate::server) enum Tls {}

pub(in crate::server) struct MaybeTlsStream<Io>(Io);

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> MaybeTlsStream<Io> {
    pub(in crate::server) fn new(io: Io, _: Option<&Tls>) -> Self {
        Self(io)
    }

    pub(in crate::server) fn is_handshaking(&self) -> bool {
        false
    }

    pub(in crate::server) fn poll_handshake(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    pub(in crate::server) fn attach_peer(&self, _: &mut Attachments) {}

    pub(super) fn stream(&mut self) -> io::Result<Pin<&mut dyn Duplex>> {
        Ok(Pin::new(&mut self.0))
    }
}
