//! Listeners: sources of connections.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::front::Attachments;

use crate::smol_socket::SmolSocket;
use crate::time::{Alarm, Timers};

/// A source of incoming connections, such as a listening socket.
///
/// smol's listening sockets implement it; so can other sources:
///
/// ```
/// use std::io;
/// use std::net::IpAddr;
/// use std::task::{Context, Poll};
///
/// use async_net::{TcpListener, TcpStream};
/// use mcp_hyper::Listener;
///
/// /// Two ports, one server.
/// struct Both(TcpListener, TcpListener);
///
/// impl Listener for Both {
///     type Io = <TcpListener as Listener>::Io;
///
///     fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
///         match self.0.poll_accept(cx) {
///             Poll::Pending => self.1.poll_accept(cx),
///             accepted => accepted,
///         }
///     }
///
///     fn peer_address(io: &Self::Io) -> Option<IpAddr> {
///         TcpListener::peer_address(io)
///     }
/// }
/// ```
pub trait Listener {
    /// An accepted connection.
    type Io: AsyncRead + AsyncWrite + Unpin + 'static;

    /// Accepts the next connection. An error does not end the listener: the server polls it again, after a delay if the
    /// error concerns system resources.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;

    /// The client's address, by which quotas keep one client from taking the capacity of the others. Default: `None`,
    /// for connections without an address; all of them share one quota.
    fn peer_address(io: &Self::Io) -> Option<IpAddr> {
        let _ = io;
        None
    }

    /// What handlers can learn about the connection, in
    /// [`Context::attachments`](mcp_proto::front::Context::attachments). Default: nothing. smol's listening sockets
    /// attach the address of the other end, a [`std::net::SocketAddr`] or a `std::os::unix::net::SocketAddr`.
    fn attachments(io: &Self::Io) -> Attachments {
        let _ = io;
        Attachments::new()
    }
}

impl Listener for Async<std::net::TcpListener> {
    type Io = SmolSocket<std::net::TcpStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        poll_tcp(self, cx)
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
        poll_tcp(&listener, cx)
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
    type Io = SmolSocket<std::os::unix::net::UnixStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        let listener: Arc<Async<std::os::unix::net::UnixListener>> = self.clone().into();
        let (stream, _) = ready!(poll_until(&listener, cx, |listener| listener.accept()))?;
        Poll::Ready(Async::new(stream).map(SmolSocket::new))
    }

    fn attachments(io: &Self::Io) -> Attachments {
        io.peer_address().map_or_else(Attachments::new, |address| Attachments::new().with(address))
    }
}

fn poll_tcp(
    listener: &Async<std::net::TcpListener>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<SmolSocket<std::net::TcpStream>>> {
    let (stream, _) = ready!(poll_until(listener, cx, |listener| listener.accept()))?;
    // Responses and events are small and written whole. The call fails for a client that has disconnected, which the
    // next read or write reports.
    let _ = stream.set_nodelay(true);
    Poll::Ready(Async::new(stream).map(SmolSocket::new))
}

fn poll_until<L, T>(
    listener: &Async<L>,
    cx: &mut Context<'_>,
    accept: impl Fn(&L) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        // The reactor is cheaper to ask than the system while no client is connecting.
        ready!(listener.poll_readable(cx))?;
        match accept(listener.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            accepted => return Poll::Ready(accepted),
        }
    }
}

/// Delay after the first system error of a listener.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// Upper bound of the delay, which doubles with each error.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A listener that waits before it accepts again after an error.
pub(super) struct RetryingListener<L> {
    listener: L,
    wait: Duration,
    until: Option<Instant>,
    alarm: Alarm,
    timers: Timers,
}

impl<L: Listener> RetryingListener<L> {
    pub(super) fn new(listener: L, timers: Timers) -> Self {
        Self { listener, wait: FIRST_WAIT, until: None, alarm: Alarm::default(), timers }
    }

    /// Accepts the next connection, or returns an error to report; the next call applies the delay.
    pub(super) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<L::Io>> {
        if self.until.is_some() {
            ready!(self.alarm.poll_until(self.until, &self.timers, cx));
            self.until = None;
        }
        let accepted = ready!(self.listener.poll_accept(cx));
        match &accepted {
            Ok(_) => self.wait = FIRST_WAIT,
            // The error concerns this one connection, which the client has already closed.
            Err(error) if is_client_error(error) => {}
            Err(_) => {
                self.until = self.timers.now().checked_add(self.wait);
                self.wait = self.wait.saturating_mul(2).min(LONGEST_WAIT);
            }
        }
        Poll::Ready(accepted)
    }
}

fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
