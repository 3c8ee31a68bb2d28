//! A runtime of any type, for types that have no parameter for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use futures_lite::future::Boxed;
use hyper::rt::Timer;

use super::{Acceptor, DefaultRuntime, Endpoint, Runtime, Stream};

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

impl fmt::Debug for AnyRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyRuntime")
    }
}
