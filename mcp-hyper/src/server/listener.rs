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

/// Implements [`Listener`] for a listening socket: its connections, how it accepts one, and for TCP that a client's
/// address has an `ip`. The whole address is attached.
#[cfg(any(feature = "smol", feature = "tokio"))]
macro_rules! listen_on {
    ($listener:ty, $io:ty, |$socket:ident, $cx:ident| $accept:expr $(, $ip:ident)?) => {
        impl Listener for $listener {
            type Io = $io;

            fn poll_accept(&mut self, $cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
                let $socket = self;
                $accept
            }

            $(fn peer_address(io: &Self::Io) -> Option<IpAddr> {
                io.peer_address().map(|address| address.$ip())
            })?

            fn attachments(io: &Self::Io) -> Attachments {
                let address = io.peer_address();
                address.map_or_else(Attachments::new, |address| Attachments::new().with(address))
            }
        }
    };
}

/// Smol's listening sockets.
#[cfg(feature = "smol")]
mod smol {
    #[cfg(unix)]
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;

    use async_io::Async;

    use super::*;
    #[cfg(unix)]
    use crate::runtime::smol::poll_until;
    use crate::runtime::smol::{SmolSocket, poll_tcp};

    type TcpSocket = SmolSocket<std::net::TcpStream>;
    type TcpListener = Async<std::net::TcpListener>;

    listen_on!(TcpListener, TcpSocket, |listener, cx| poll_tcp(listener, cx).map_ok(|(io, _)| io), ip);

    listen_on!(
        async_net::TcpListener,
        TcpSocket,
        |listener, cx| poll_tcp(&Arc::<TcpListener>::from(listener.clone()), cx).map_ok(|(io, _)| io),
        ip
    );

    #[cfg(unix)]
    listen_on!(async_net::unix::UnixListener, SmolSocket<UnixStream>, |listener, cx| {
        let listener: Arc<Async<UnixListener>> = listener.clone().into();
        poll_until(&listener, cx, |listener| {
            let (stream, _) = listener.accept()?;
            Ok(SmolSocket::new(Async::new(stream)?, UnixStream::shutdown))
        })
    });
}

/// Tokio's listening sockets.
#[cfg(feature = "tokio")]
mod tokio {
    use ::tokio::net::{TcpListener, TcpStream};
    #[cfg(unix)]
    use ::tokio::net::{UnixListener, UnixStream};

    use super::*;
    use crate::runtime::TokioSocket;
    use crate::runtime::tokio::poll_tcp;

    listen_on!(
        TcpListener,
        TokioSocket<TcpStream>,
        |listener, cx| poll_tcp(listener, cx).map_ok(|(io, _)| io),
        ip
    );

    #[cfg(unix)]
    listen_on!(UnixListener, TokioSocket<UnixStream>, |listener, cx| {
        UnixListener::poll_accept(listener, cx).map_ok(|(stream, _)| stream.into())
    });
}
