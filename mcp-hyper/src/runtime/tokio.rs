//! Tokio as a runtime: its sockets and timers.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Sleep, Timer};
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use super::{Acceptor, Endpoint, Runtime, Stream};

/// Tokio's sockets and timers. Create clients, and poll drivers, within a Tokio runtime with both enabled.
///
/// ```
/// use mcp_hyper::{ClientOptions, Tokio};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// runtime.block_on(async {
///     let options = ClientOptions::new("my-host", "1.0.0").runtime(Tokio);
///     let (client, driver) = options.connect("https://example.com/mcp")?;
///     tokio::spawn(driver);
///     drop(client);
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Runtime for Tokio {
    /// Checks that the caller runs within a Tokio runtime.
    fn start(&self) -> io::Result<()> {
        Handle::try_current().map(drop).map_err(io::Error::other)
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        tokio::net::lookup_host((host, port)).await.map(Iterator::collect)
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        match endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(TokioSocket::from(stream)))
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => Ok(Box::new(TokioSocket::from(UnixStream::connect(path).await?))),
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn listen(&self, listener: TcpListener) -> io::Result<Box<dyn Acceptor>> {
        // Registration without a runtime would panic.
        self.start()?;
        listener.set_nonblocking(true)?;
        Ok(Box::new(tokio::net::TcpListener::from_std(listener)?))
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(Self)
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let working = Handle::try_current().map(|runtime| runtime.spawn_blocking(work));
        async move { working.map_err(io::Error::other)?.await.map_err(io::Error::from) }
    }
}

impl Acceptor for tokio::net::TcpListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let (socket, address) = ready!(poll_tcp(self, cx))?;
        Poll::Ready(Ok((Box::new(socket), address)))
    }
}

/// Accepts a connection that sends small writes at once.
pub(crate) fn poll_tcp(
    listener: &tokio::net::TcpListener,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(TokioSocket<TcpStream>, SocketAddr)>> {
    let (stream, address) = ready!(listener.poll_accept(cx))?;
    // The call fails for a client that has disconnected, which the next read or write reports.
    let _ = stream.set_nodelay(true);
    Poll::Ready(Ok((stream.into(), address)))
}

impl Timer for Tokio {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(TokioSleep(Box::pin(tokio::time::sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(TokioSleep(Box::pin(tokio::time::sleep_until(deadline.into()))))
    }

    /// The runtime's time, which its tests can pause.
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<TokioSleep>() {
            Some(mut sleep) => sleep.0.as_mut().reset(new_deadline.into()),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

/// Boxed once more, as Tokio's type must stay where it is.
struct TokioSleep(Pin<Box<tokio::time::Sleep>>);

impl Future for TokioSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for TokioSleep {}

/// A socket of Tokio with the asynchronous traits of this crate: for
/// [`HttpService::connection`](crate::HttpService::connection), say.
pub struct TokioSocket<T>(T);

impl<T> From<T> for TokioSocket<T> {
    fn from(socket: T) -> Self {
        Self(socket)
    }
}

impl TokioSocket<TcpStream> {
    /// The peer's address, unless it has disconnected already.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }
}

#[cfg(unix)]
impl TokioSocket<UnixStream> {
    /// The peer's address, which has a path if the peer has bound its socket to one.
    pub(crate) fn peer_address(&self) -> Option<std::os::unix::net::SocketAddr> {
        self.0.peer_addr().ok().map(Into::into)
    }
}

impl<T: tokio::io::AsyncRead + Unpin> AsyncRead for TokioSocket<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl<T: tokio::io::AsyncWrite + Unpin> AsyncWrite for TokioSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll_shutdown(cx)) {
            // The peer has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            closed => closed,
        })
    }
}

debug_fields! { [T] TokioSocket<T> {} }
