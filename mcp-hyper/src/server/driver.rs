//! The futures that run a server: [`ServiceDriver`] and [`ServerDriver`].

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::WakeFlag;
use mcp_proto::front::http::HttpServerDriver;
use mcp_proto::front::{Attachments, RouterError, SendHandlers};
use mcp_proto::quota::QuotaOwner;

use super::connection::{Connection, EmbeddedWebSockets};
use super::exchange::ServerMode;
#[cfg(feature = "auth")]
use super::guard::Fetcher;
use super::monitor::{ConnectionLimit, OnError, ServerError, ShutdownOrder};
use super::service::HttpService;
use crate::task_set::TaskSet;
use crate::time::{Alarm, Timers};

/// Maximum number of connections accepted before the open ones are polled again.
const ACCEPTED_AT_ONCE: usize = 16;

/// The order to close all connections now.
const CUT: ShutdownOrder = ShutdownOrder::Cut(ConnectionLimit::Closed);

/// Time to send the last responses after the close timeout has passed.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The future that runs a server's sessions and their handlers, which outlive connections, and the WebSockets on
/// connections of another server.
///
/// Unless it is polled, no session of revision 2025-11-25 or older and no such WebSocket works (requests of sessions are
/// answered with 503), and no token that requires a fetch is verified. Dropping it closes these WebSockets at once. It ends when the server has been closed,
/// and the connections have finished or the close timeout has passed.
///
/// # Errors
///
/// A misconfigured [router](mcp_proto::front::Router::check), as [`io::ErrorKind::InvalidInput`], before the first
/// request is served.
#[must_use = "requests of legacy sessions wait until the driver is polled: spawn it on an executor"]
pub struct ServiceDriver<H: ServerMode = SendHandlers> {
    pub(super) service: HttpService<H>,
    pub(super) sessions: HttpServerDriver<H>,
    pub(super) sessions_ended: bool,
    pub(super) startup_error: Option<RouterError>,
    pub(super) alarm: Alarm,
    pub(super) close_timeout: Duration,
    pub(super) patience: Alarm,
    /// When the remaining connections are cut, once the server is closing.
    pub(super) deadline: Option<Instant>,
    /// Fetches keys and introspection results for token verification.
    #[cfg(feature = "auth")]
    pub(super) fetcher: Option<Fetcher>,
    pub(super) websockets: EmbeddedWebSockets<H>,
}

impl<H: ServerMode> ServiceDriver<H> {
    /// Runs the sessions. Ready once the server is closed and they have ended.
    fn poll_sessions(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.sessions_ended {
            return Poll::Ready(());
        }
        let shared = self.service.shared();
        loop {
            if self.sessions.poll(cx).is_ready() {
                self.sessions_ended = true;
                return Poll::Ready(());
            }
            let timeout = self.sessions.next_timeout().and_then(|at| shared.clock.at(at));
            ready!(self.alarm.poll_until(timeout, shared.clock.timers(), cx));
        }
    }
}

impl<H: ServerMode> Future for ServiceDriver<H> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(problem) = this.startup_error.take() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        let sessions = this.poll_sessions(cx);
        #[cfg(feature = "auth")]
        if let Some(fetcher) = &mut this.fetcher {
            fetcher.poll(&this.service.shared().clock, cx);
        }
        let shared = this.service.shared();
        this.websockets.poll(&shared.upgrades, cx);
        if !shared.server.is_closing() {
            return Poll::Pending;
        }
        if this.deadline.is_none() {
            shared.registry.shut_down(ShutdownOrder::Retire);
            let patience = this.close_timeout.saturating_add(LAST_ANSWERS);
            this.deadline = shared.clock.after(patience);
        }
        let connections = shared.registry.poll_fewer(1, cx);
        if sessions.is_pending() || connections.is_pending() {
            ready!(this.patience.poll_until(this.deadline, shared.clock.timers(), cx));
            shared.registry.shut_down(CUT);
            this.websockets.clear();
        }
        Poll::Ready(Ok(()))
    }
}

impl<H: ServerMode> Drop for ServiceDriver<H> {
    fn drop(&mut self) {
        self.service.shared().upgrades.close();
    }
}

debug_fields! { [H: ServerMode] ServiceDriver<H> {} }

/// The future that runs a whole server: it accepts connections and serves them.
///
/// Spawn it on any executor, or await it; it does nothing until it is polled. It is `Send` unless the router is
/// [`LocalHandlers`](mcp_proto::front::LocalHandlers). It ends when the server has been
/// [closed](mcp_proto::front::http::HttpHandle::close): it then accepts no more connections, and open exchanges have
/// [`close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout) to finish. Dropping it closes all
/// connections at once.
///
/// # Errors
///
/// Those of [`ServiceDriver`]. A failure to accept a connection does not end the server; it is reported to
/// [`on_error`](super::ServerOptions::on_error).
#[must_use = "no connection is accepted until the driver is polled: await it, or spawn it on an executor"]
pub struct ServerDriver<L: Listener, H: ServerMode = SendHandlers> {
    listener: Option<RetryingListener<L>>,
    driver: ServiceDriver<H>,
    /// What the driver waits for: mostly only connections have work.
    driver_wake: WakeFlag,
    /// The connections that are served here. Boxed: the set moves them when it grows.
    open: TaskSet<Box<Connection<L::Io, H>>>,
    /// Spawns each connection as its own task, where the application has an executor for it.
    spawn: Option<Spawn<L::Io, H>>,
    on_error: OnError,
    /// Accepted connections that wait until another connection of the same owner ends.
    parked: VecDeque<L::Io>,
}

/// A task that serves one connection, for an executor to run.
pub type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(super) type Spawn<Io, H> = Box<dyn Fn(Connection<Io, H>) + Send>;

impl<L: Listener, H: ServerMode> ServerDriver<L, H> {
    pub(super) fn new(
        listener: L,
        driver: ServiceDriver<H>,
        on_error: OnError,
        spawn: Option<Spawn<L::Io, H>>,
    ) -> Self {
        let timers = driver.service.shared().clock.timers().clone();
        let listener = Some(RetryingListener::new(listener, timers));
        Self {
            listener,
            driver,
            driver_wake: WakeFlag::default(),
            open: TaskSet::default(),
            spawn,
            on_error,
            parked: VecDeque::new(),
        }
    }

    /// Accepts connections. Ready once it has accepted as many as it may before the open ones are polled again.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.resume_parked(cx);
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = &mut self.listener else { return Poll::Pending };
            match ready!(listener.poll_accept(cx)) {
                Ok(io) => {
                    let peer = L::peer_address(&io);
                    let shared = self.driver.service.shared();
                    if shared.registry.has_room(&QuotaOwner::from_client(None, peer)) {
                        self.begin(io);
                        continue;
                    }
                    if self.parked.len() < shared.limits.connections.div_ceil(8) {
                        self.parked.push_back(io);
                        if self.poll_room(cx).is_ready() {
                            return Poll::Ready(());
                        }
                    } else {
                        (self.on_error)(&ServerError::Refused(peer));
                    }
                }
                Err(error) => (self.on_error)(&ServerError::Accept(error)),
            }
        }
        Poll::Ready(())
    }

    /// Serves parked connections while there is room. If some remain parked, the waker is called once there is room.
    fn resume_parked(&mut self, cx: &mut Context<'_>) {
        while !self.parked.is_empty() && self.poll_room(cx).is_ready() {
            if let Some(io) = self.parked.pop_front() {
                self.begin(io);
            }
        }
    }

    /// Ready if fewer connections are open than the limit allows.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.driver.service.shared();
        shared.registry.poll_fewer(shared.limits.connections, cx)
    }

    /// Starts to serve an accepted connection.
    fn begin(&mut self, io: L::Io) {
        let (peer, attachments) = (L::peer_address(&io), L::attachments(&io));
        let connection = self.driver.service.connection_with(io, peer, attachments);
        match &self.spawn {
            Some(spawn) => spawn(connection),
            None => _ = self.open.insert(Box::new(connection)),
        }
    }
}

impl<L: Listener + Unpin, H: ServerMode> Future for ServerDriver<L, H> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let driver = Pin::new(&mut this.driver);
        if let Poll::Ready(ended) = this.driver_wake.poll_woken(cx, |cx| driver.poll(cx)) {
            return Poll::Ready(ended);
        }
        if this.driver.service.shared().server.is_closing() {
            this.listener = None;
            this.parked.clear();
        }
        let accepted = this.poll_accept(cx);
        while let Poll::Ready(ended) = this.open.poll_next(cx) {
            if let Err(error) = ended {
                (this.on_error)(&ServerError::Connection(error));
            }
        }
        if accepted.is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<L: Listener, H: ServerMode> Drop for ServerDriver<L, H> {
    fn drop(&mut self) {
        self.driver.service.shared().registry.shut_down(CUT);
    }
}

debug_fields! { [L: Listener, H: ServerMode] ServerDriver<L, H>(self) { connections = self.open.len() } }

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
