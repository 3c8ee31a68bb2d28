//! Smol as a runtime.

mod reactor;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_io::Async;
use hyper::rt::{Sleep, Timer};

use super::smol_socket::SmolSocket;
use super::{Acceptor, Endpoint, Runtime, Stream};

/// Smol's sockets and timers: [`async_net`] and [`async_io`]. They need no particular executor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smol;

impl Runtime for Smol {
    /// Starts async-io's reactor, which otherwise starts on first use and panics if no file descriptors are left.
    fn start(&self) -> io::Result<()> {
        reactor::start()
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
