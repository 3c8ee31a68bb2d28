//! Stands in for `http2` without that feature.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::task::{Context, Poll};

use super::maybe_tls::MaybeTlsStream;
use super::monitor::ConnectionMonitor;
use super::service::ConnectionService;
use super::socket::Socket;
use super::streams::{DemandQueue, ServerMode};

/// Uninhabited, as this build has no HTTP/2.
pub(super) struct Http2<Io, H>(Infallible, PhantomData<fn() -> (Io, H)>);

impl<Io, H: ServerMode> Http2<Io, H> {
    /// Returns the socket.
    pub(super) fn start(
        socket: Socket<MaybeTlsStream<Io>>,
        _: &ConnectionMonitor,
        _: impl FnOnce(Option<DemandQueue<H>>) -> ConnectionService<H>,
    ) -> Result<Self, Socket<MaybeTlsStream<Io>>> {
        Err(socket)
    }

    pub(super) fn poll(&mut self, _: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match self.0 {}
    }

    pub(super) fn shut_down(&mut self) {
        match self.0 {}
    }
}
