//! Smol as a runtime: its reactor, sockets and timers.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Sleep, Timer};
use mcp_proto::adapter::WakeFlag;

use super::{Acceptor, Endpoint, Runtime, Stream};

/// Smol's sockets and timers: [`async_net`] and [`async_io`]. They need no particular executor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smol;

impl Runtime for Smol {
    /// Starts async-io's reactor, which otherwise starts on first use and panics if no file descriptors are left.
    fn start(&self) -> io::Result<()> {
        start_reactor()
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        async_net::resolve((host, port)).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        match endpoint {
            Endpoint::Tcp(address) => {
                let stream = Async::<TcpStream>::connect(*address).await?;
                stream.get_ref().set_nodelay(true)?;
                Ok(Box::new(SmolSocket::new(stream, TcpStream::shutdown)))
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => {
                let stream = Async::<UnixStream>::connect(path).await?;
                Ok(Box::new(SmolSocket::new(stream, UnixStream::shutdown)))
            }
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn listen(&self, listener: TcpListener) -> io::Result<Box<dyn Acceptor>> {
        Ok(Box::new(Async::new(listener)?))
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(Self)
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        // Its task panics if the work did.
        let task = blocking::unblock(work);
        async move { Ok(task.await) }
    }
}

impl Acceptor for Async<TcpListener> {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let (socket, address) = ready!(poll_tcp(self, cx))?;
        Poll::Ready(Ok((Box::new(socket), address)))
    }
}

/// Accepts a connection that sends small writes at once.
pub(crate) fn poll_tcp(
    listener: &Async<TcpListener>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(SmolSocket<TcpStream>, SocketAddr)>> {
    let (stream, address) = ready!(poll_until(listener, cx, |listener| listener.accept()))?;
    // Responses and events are small and written whole. The call fails for a client that has disconnected, which the
    // next read or write reports.
    let _ = stream.set_nodelay(true);
    Poll::Ready(Async::new(stream).map(|stream| (SmolSocket::new(stream, TcpStream::shutdown), address)))
}

/// Tries to accept, and waits for the reactor only if no client is connecting: where the reactor has a thread of its
/// own, its answer alone may never be that one is.
pub(crate) fn poll_until<L, T>(
    listener: &Async<L>,
    cx: &mut Context<'_>,
    accept: impl Fn(&L) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        match accept(listener.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(listener.poll_readable(cx))?,
            accepted => return Poll::Ready(accepted),
        }
    }
}

impl Timer for Smol {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(SmolSleep(async_io::Timer::after(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(SmolSleep(async_io::Timer::at(deadline)))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<SmolSleep>() {
            Some(mut sleep) => sleep.0.set_at(new_deadline),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

struct SmolSleep(async_io::Timer);

impl Future for SmolSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl Sleep for SmolSleep {}

/// Starts the reactor that all sockets and timers of [`Smol`] use, unless it runs already.
fn start_reactor() -> io::Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        check_descriptors()?;
        // Setting a timer is the reactor's first use.
        let mut timer = async_io::Timer::after(Duration::from_secs(1));
        let _ = Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop()));
        *started = true;
    }
    Ok(())
}

/// Checks that four descriptors are free: an event queue, a timer and a wake-up descriptor for the reactor, and one to
/// spare.
fn check_descriptors() -> io::Result<()> {
    let _reserved = (io::pipe()?, io::pipe()?);
    Ok(())
}

/// A connected socket that is read and written only when the reactor says that it is ready.
///
/// `async_io`'s own type tries every operation first, in every poll: most of these system calls find nothing. Its
/// `close` does not shut down the write side either.
pub struct SmolSocket<T> {
    socket: Async<T>,
    /// The socket's own method, which no trait of the standard library has.
    shutdown: fn(&T, Shutdown) -> io::Result<()>,
    reading: Readiness,
    writing: Readiness,
}

/// Whether a direction of a socket is ready.
#[derive(Default)]
struct Readiness {
    is_awaited: bool,
    /// Where the reactor has a thread of its own, only the wake tells. Most sockets take every write at once, so that it
    /// is made when it is first needed.
    wake: Option<WakeFlag>,
}

impl Readiness {
    /// Runs an operation, once the reactor says that the socket is ready if an earlier one found that it was not.
    fn poll_with<T>(
        &mut self,
        socket: &Async<T>,
        cx: &mut Context<'_>,
        poll_ready: fn(&Async<T>, &mut Context<'_>) -> Poll<io::Result<()>>,
        mut operate: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.is_awaited {
                ready!(self.wake.get_or_insert_default().poll_ready(cx, |cx| poll_ready(socket, cx)))?;
                self.is_awaited = false;
            }
            match operate(socket.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_awaited = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl<T> SmolSocket<T> {
    pub(crate) fn new(socket: Async<T>, shutdown: fn(&T, Shutdown) -> io::Result<()>) -> Self {
        Self { socket, shutdown, reading: Readiness::default(), writing: Readiness::default() }
    }
}

impl SmolSocket<TcpStream> {
    /// The peer's address, unless it has disconnected already.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        self.socket.get_ref().peer_addr().ok()
    }
}

#[cfg(unix)]
impl SmolSocket<UnixStream> {
    /// The peer's address, which has a path if the peer has bound its socket to one.
    pub(crate) fn peer_address(&self) -> Option<std::os::unix::net::SocketAddr> {
        self.socket.get_ref().peer_addr().ok()
    }
}

impl<T> AsyncRead for SmolSocket<T>
where
    for<'s> &'s T: Read,
{
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { socket, reading, .. } = &mut *self;
        let count =
            ready!(reading.poll_with(socket, cx, Async::poll_readable, |mut socket| socket.read(buf)))?;
        // A read that leaves room has emptied the socket. If more arrives, the reactor says so.
        reading.is_awaited = 0 < count && count < buf.len();
        Poll::Ready(Ok(count))
    }
}

impl<T> AsyncWrite for SmolSocket<T>
where
    for<'s> &'s T: Write,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, writing, .. } = &mut *self;
        writing.poll_with(socket, cx, Async::poll_writable, |mut socket| socket.write(buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match (self.shutdown)(self.socket.get_ref(), Shutdown::Write) {
            // The peer has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            closed => closed,
        })
    }
}

debug_fields! { [T] SmolSocket<T> {} }
