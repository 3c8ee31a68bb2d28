//! Where connections come from.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};

use crate::smol_socket::SmolSocket;
use crate::time::{Alarm, Timers};

/// Something that connections come from.
///
/// The sockets of smol are such; other sources implement it:
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
    /// One connection.
    type Io: AsyncRead + AsyncWrite + Unpin + 'static;

    /// The next connection. An error is not the end: it is asked again, after a while if the error is about the
    /// system's means.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;

    /// The address that a connection comes from. By it one client is kept from taking what all others need. Default:
    /// `None`, as of connections that have no address; all of them share one quota then.
    fn peer_address(io: &Self::Io) -> Option<IpAddr> {
        let _ = io;
        None
    }
}

impl Listener for Async<std::net::TcpListener> {
    type Io = SmolSocket<std::net::TcpStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        poll_tcp(self, cx)
    }

    fn peer_address(io: &Self::Io) -> Option<IpAddr> {
        io.peer_address()
    }
}

impl Listener for async_net::TcpListener {
    type Io = SmolSocket<std::net::TcpStream>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        let listener: Arc<Async<std::net::TcpListener>> = self.clone().into();
        poll_tcp(&listener, cx)
    }

    fn peer_address(io: &Self::Io) -> Option<IpAddr> {
        io.peer_address()
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
}

fn poll_tcp(
    listener: &Async<std::net::TcpListener>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<SmolSocket<std::net::TcpStream>>> {
    let (stream, _) = ready!(poll_until(listener, cx, |listener| listener.accept()))?;
    // Answers and events are small, and written when they are whole. It fails for clients that have gone already, which
    // shows soon enough.
    let _ = stream.set_nodelay(true);
    Poll::Ready(Async::new(stream).map(SmolSocket::new))
}

fn poll_until<L, T>(
    listener: &Async<L>,
    cx: &mut Context<'_>,
    accept: impl Fn(&L) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        // The reactor is asked before the system is: that costs nothing as long as nobody comes.
        ready!(listener.poll_readable(cx))?;
        match accept(listener.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            accepted => return Poll::Ready(accepted),
        }
    }
}

/// How long a listener is left alone after an error of the system's.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// It doubles up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A listener that is left alone for a while when it fails.
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

    /// The next connection, or an error to report; after that it waits by itself.
    pub(super) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<L::Io>> {
        if self.until.is_some() {
            ready!(self.alarm.poll_until(self.until, &self.timers, cx));
            self.until = None;
        }
        let accepted = ready!(self.listener.poll_accept(cx));
        match &accepted {
            Ok(_) => self.wait = FIRST_WAIT,
            // About this one connection, which has gone already.
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
