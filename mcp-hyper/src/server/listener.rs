//! Listeners: sources of connections, such as the listening sockets of smol and Tokio.

use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::WakeFlag;
use mcp_proto::front::Attachments;

use crate::time::{Alarm, Timers};

/// A source of incoming connections, such as a listening socket.
///
/// The listening sockets of smol and Tokio implement it, each with its feature; so can other sources:
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
    /// [`Context::attachments`](mcp_proto::front::Context::attachments). Default: nothing. Listening sockets attach the
    /// address of the other end, a [`std::net::SocketAddr`] or a `std::os::unix::net::SocketAddr`.
    fn attachments(io: &Self::Io) -> Attachments {
        let _ = io;
        Attachments::new()
    }
}

/// Delay after the first system error of a listener.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Upper bound of the delay, which doubles with each error.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A listener that waits before it accepts again after an error.
pub(super) struct RetryingListener<L> {
    listener: L,
    /// Most polls of a server are for requests, and need not try to accept.
    flag: WakeFlag,
    wait: Duration,
    until: Option<Instant>,
    alarm: Alarm,
    timers: Timers,
}

impl<L: Listener> RetryingListener<L> {
    pub(super) fn new(listener: L, timers: Timers) -> Self {
        Self {
            listener,
            flag: WakeFlag::default(),
            wait: FIRST_WAIT,
            until: None,
            alarm: Alarm::default(),
            timers,
        }
    }

    /// Accepts the next connection, or returns an error to report; the next call applies the delay.
    pub(super) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<L::Io>> {
        if self.until.is_some() {
            ready!(self.alarm.poll_until(self.until, &self.timers, cx));
            self.until = None;
        }
        let Self { listener, flag, .. } = self;
        let accepted = ready!(flag.poll_woken(cx, |cx| listener.poll_accept(cx)));
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

/// Attaches the address of a client.
#[cfg(any(feature = "smol", feature = "tokio"))]
fn with_address<A: Send + Sync + 'static>(address: Option<A>) -> Attachments {
    address.map_or_else(Attachments::new, |address| Attachments::new().with(address))
}

/// Smol's listening sockets.
#[cfg(feature = "smol")]
mod smol {
    use std::io;
    use std::net::IpAddr;
    #[cfg(unix)]
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use async_io::Async;
    use mcp_proto::front::Attachments;

    use super::{Listener, with_address};
    #[cfg(unix)]
    use crate::runtime::smol::poll_until;
    use crate::runtime::smol::{SmolSocket, poll_tcp};

    impl Listener for Async<std::net::TcpListener> {
        type Io = SmolSocket<std::net::TcpStream>;

        fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
            poll_tcp(self, cx).map_ok(|(socket, _)| socket)
        }

        fn peer_address(io: &Self::Io) -> Option<IpAddr> {
            io.peer_address().map(|address| address.ip())
        }

        fn attachments(io: &Self::Io) -> Attachments {
            with_address(io.peer_address())
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
            with_address(io.peer_address())
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
            with_address(io.peer_address())
        }
    }
}

/// Tokio's listening sockets.
#[cfg(feature = "tokio")]
mod tokio {
    use std::io;
    use std::net::IpAddr;
    use std::task::{Context, Poll};

    use mcp_proto::front::Attachments;
    use tokio::net::{TcpListener, TcpStream};
    #[cfg(unix)]
    use tokio::net::{UnixListener, UnixStream};

    use super::{Listener, with_address};
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
            with_address(io.peer_address())
        }
    }

    #[cfg(unix)]
    impl Listener for UnixListener {
        type Io = TokioSocket<UnixStream>;

        fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
            UnixListener::poll_accept(self, cx).map_ok(|(stream, _)| stream.into())
        }

        fn attachments(io: &Self::Io) -> Attachments {
            with_address(io.peer_address())
        }
    }
}
