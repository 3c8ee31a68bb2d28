//! Runtimes: name lookup, sockets, timers, and threads for blocking work.

#[cfg(feature = "smol")]
pub(crate) mod smol;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_lite::future::Boxed;
use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::Timer;

#[cfg(feature = "smol")]
pub use smol::Smol;
#[cfg(feature = "tokio")]
pub use tokio::{Tokio, TokioSocket};

/// The runtime of clients, servers and stores that are given no other: `Smol` where the feature `smol` is enabled,
/// otherwise `Tokio`.
#[cfg(feature = "smol")]
pub type DefaultRuntime = Smol;

/// The runtime of clients, servers and stores that are given no other: `Smol` where the feature `smol` is enabled,
/// otherwise `Tokio`.
#[cfg(all(feature = "tokio", not(feature = "smol")))]
pub type DefaultRuntime = Tokio;

/// A runtime, which resolves names, opens and accepts connections, and provides timers and threads for blocking work.
///
/// `Smol` works under every executor, as its reactor starts a thread if no other thread runs it. `Tokio` uses the
/// sockets and timers of the Tokio runtime that polls the driver. The crate never spawns tasks.
///
/// ```
/// use std::io;
/// use std::net::SocketAddr;
/// use std::sync::Arc;
///
/// use hyper::rt::Timer;
/// use mcp_hyper::{DefaultRuntime, Endpoint, Runtime, Stream};
///
/// /// The default runtime, except that nothing leaves this machine.
/// #[derive(Debug, Default)]
/// struct AtHome(DefaultRuntime);
///
/// impl Runtime for AtHome {
///     async fn resolve(&self, _host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
///         Ok(vec![([127, 0, 0, 1], port).into()])
///     }
///
///     async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
///         self.0.connect(endpoint).await
///     }
///
///     fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
///         self.0.timer()
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

    /// Accepts the connections of a socket that is bound and listening. Default: as [`DefaultRuntime`] does.
    ///
    /// # Errors
    /// If the runtime cannot watch the socket.
    fn listen(&self, listener: TcpListener) -> io::Result<Box<dyn Acceptor>> {
        Runtime::listen(&DefaultRuntime::default(), listener)
    }

    /// The runtime's timers, as hyper's trait. [`Timer::reset`] is called wherever a timer's deadline changes; it
    /// should not allocate.
    fn timer(&self) -> Arc<dyn Timer + Send + Sync>;

    /// Runs work that blocks, such as access to files, on another thread. Default: as [`DefaultRuntime`] does.
    ///
    /// # Errors
    /// If the work panics, or the runtime ends first.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        async move { Runtime::blocking(&DefaultRuntime::default(), work).await }
    }
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

/// A listening socket of a [`Runtime`].
pub trait Acceptor: Send + Sync + 'static {
    /// Accepts the next connection; returns it and the address of its client.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>>;
}

impl fmt::Debug for dyn Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// A shared runtime.
#[derive(Clone)]
pub(crate) struct AnyRuntime(Arc<dyn DynRuntime>);

impl AnyRuntime {
    pub(crate) fn new(runtime: impl Runtime) -> Self {
        Self(Arc::new(runtime))
    }
}

impl Default for AnyRuntime {
    fn default() -> Self {
        Self::new(DefaultRuntime::default())
    }
}

/// [`Runtime`] with boxed futures.
trait DynRuntime: Send + Sync {
    fn start(&self) -> io::Result<()>;
    fn resolve(self: Arc<Self>, host: String, port: u16) -> Boxed<io::Result<Vec<SocketAddr>>>;
    fn connect(self: Arc<Self>, endpoint: Endpoint) -> Boxed<io::Result<Box<dyn Stream>>>;
    fn listen(&self, listener: TcpListener) -> io::Result<Box<dyn Acceptor>>;
    fn timer(&self) -> Arc<dyn Timer + Send + Sync>;
    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> Boxed<io::Result<()>>;
}

impl<R: Runtime> DynRuntime for R {
    fn start(&self) -> io::Result<()> {
        Runtime::start(self)
    }

    fn resolve(self: Arc<Self>, host: String, port: u16) -> Boxed<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Runtime::resolve(&*self, &host, port).await })
    }

    fn connect(self: Arc<Self>, endpoint: Endpoint) -> Boxed<io::Result<Box<dyn Stream>>> {
        Box::pin(async move { Runtime::connect(&*self, &endpoint).await })
    }

    fn listen(&self, listener: TcpListener) -> io::Result<Box<dyn Acceptor>> {
        Runtime::listen(self, listener)
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Runtime::timer(self)
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> Boxed<io::Result<()>> {
        Box::pin(Runtime::blocking(self, work))
    }
}

impl Runtime for AnyRuntime {
    fn start(&self) -> io::Result<()> {
        self.0.start()
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.0.clone().resolve(host.to_owned(), port).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        self.0.clone().connect(endpoint.clone()).await
    }

    fn listen(&self, listener: TcpListener) -> io::Result<Box<dyn Acceptor>> {
        self.0.listen(listener)
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        self.0.timer()
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        let working = self.0.blocking(Box::new(move || {
            let value = work();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }));
        async move {
            working.await?;
            let value = result.lock().unwrap_or_else(PoisonError::into_inner).take();
            value.ok_or_else(|| io::Error::other("the work ended without a result"))
        }
    }
}

debug_fields! { AnyRuntime => "AnyRuntime" }
