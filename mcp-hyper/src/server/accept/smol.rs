//! Smol's listening sockets.

use std::io;
use std::net::IpAddr;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_io::Async;
use mcp_proto::front::Attachments;

use super::Listener;
use crate::runtime::smol::poll_tcp;
#[cfg(unix)]
use crate::runtime::smol::poll_until;
use crate::runtime::smol_socket::SmolSocket;

impl Listener for Async<std::net::TcpListener> {
    type Io = SmolSocket<std::net::TcpStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        poll_tcp(self, cx).map_ok(|(socket, _)| socket)
    }

    fn peer_address(io: &Self::Io) -> Option<IpAddr> {
        io.peer_address().map(|address| address.ip())
    }

    fn attachments(io: &Self::Io) -> Attachments {
        io.peer_address().map_or_else(Attachments::new, |address| Attachments::new().with(address))
    }
}

impl Listener for async_net::TcpListener {
    type Io = SmolSocket<std::net::TcpStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        let listener: Arc<Async<std::net::TcpListener>> = self.clone().into();
        poll_tcp(&listener, cx).map_ok(|(socket, _)| socket)
    }

    fn peer_address(io: &Self::Io) -> Option<IpAddr> {
        io.peer_address().map(|address| address.ip())
    }

    fn attachments(io: &Self::Io) -> Attachments {
        io.peer_address().map_or_else(Attachments::new, |address| Attachments::new().with(address))
    }
}

#[cfg(unix)]
impl Listener for async_net::unix::UnixListener {
    type Io = SmolSocket<UnixStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        let listener: Arc<Async<std::os::unix::net::UnixListener>> = self.clone().into();
        poll_until(&listener, cx, |listener| {
            let (stream, _) = listener.accept()?;
            Ok(SmolSocket::new(Async::new(stream)?, UnixStream::shutdown))
        })
    }

    fn attachments(io: &Self::Io) -> Attachments {
        io.peer_address().map_or_else(Attachments::new, |address| Attachments::new().with(address))
    }
}
