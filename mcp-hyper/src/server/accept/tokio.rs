//! Tokio's listening sockets.

use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};

use mcp_proto::front::Attachments;
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use super::Listener;
use crate::runtime::TokioSocket;
use crate::runtime::tokio::poll_tcp;

impl Listener for TcpListener {
    type Io = TokioSocket<TcpStream>;

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

#[cfg(unix)]
impl Listener for UnixListener {
    type Io = TokioSocket<UnixStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        UnixListener::poll_accept(self, cx).map_ok(|(stream, _)| stream.into())
    }

    fn attachments(io: &Self::Io) -> Attachments {
        io.peer_address().map_or_else(Attachments::new, |address| Attachments::new().with(address))
    }
}
