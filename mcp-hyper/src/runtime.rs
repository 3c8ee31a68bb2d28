//! Runtimes: name lookup, sockets and timers.

mod reactor;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Sleep, Timer};

use crate::smol_socket::SmolSocket;

/// A runtime, which resolves names, opens connections and provides timers.
///
/// [`Smol`] works under every executor, as its reactor starts a thread if no other thread runs it. Implement another
/// runtime to avoid a second reactor. The crate never spawns tasks.
///
/// ```
/// use std::io;
/// use std::net::SocketAddr;
/// use std::sync::Arc;
///
/// use hyper::rt::Timer;
/// use mcp_hyper::{Endpoint, Runtime, Smol, Stream};
///
/// /// Smol, except that nothing leaves this machine.
/// #[derive(Debug)]
/// struct AtHome;
///
/// impl Runtime for AtHome {
///     async fn resolve(&self, _host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
///         Ok(vec![([127, 0, 0, 1], port).into()])
///     }
///
///     async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
///         Smol.connect(endpoint).await
///     }
///
///     fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
///         Smol.timer()
///     }
/// }
/// ```
pub trait Runtime: Send + Sync + 'static {
    /// Starts the runtime, unless it runs already. A client calls this before anything else. Default: does nothing.
    ///
    /// # Errors
    /// If the runtime cannot be started now: for want of file descriptors, say.
    fn start(&self) -> io::Result<()> {
        Ok(())
    }

    /// Resolves a host name. Each returned address has the given port.
    ///
    /// # Errors
    /// If the name does not exist, or no resolver answers.
    fn resolve(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Opens a connection. TCP connections should send small writes at once: `TCP_NODELAY`.
    ///
    /// # Errors
    /// If the connection fails, or the runtime does not support this kind of endpoint.
    fn connect(&self, endpoint: &Endpoint) -> impl Future<Output = io::Result<Box<dyn Stream>>> + Send;

    /// The runtime's timers, as hyper's trait.
    fn timer(&self) -> Arc<dyn Timer + Send + Sync>;
}

/// The remote endpoint of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

/// A bidirectional byte stream. A blanket implementation covers all suitable types.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

impl fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

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
                Ok(Box::new(SmolSocket::new(stream)))
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => Ok(Box::new(SmolSocket::new(Async::<UnixStream>::connect(path).await?))),
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(Self)
    }
}

impl Timer for Smol {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(SmolSleep(async_io::Timer::after(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(SmolSleep(async_io::Timer::at(deadline)))
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
