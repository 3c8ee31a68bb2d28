//! The editor as a runtime of `mcp-hyper`: its own timers and threads, and smol's sockets, which need no executor.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use hyper::rt::{Sleep as HyperSleep, Timer};
use mcp_hyper::{Endpoint, Runtime, Smol, Stream};

use crate::executor::{Sleep, Timers};

pub struct EditorRuntime {
    pub timers: Timers,
}

impl Runtime for EditorRuntime {
    fn start(&self) -> io::Result<()> {
        Smol.start()
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Smol.resolve(host, port).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        Smol.connect(endpoint).await
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(self.timers.clone())
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let (sender, receiver) = oneshot::channel();
        std::thread::spawn(move || sender.send(work()));
        async { receiver.await.map_err(|_| io::Error::other("the work panicked")) }
    }
}

impl Timer for Timers {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(Timers::sleep(self, duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(Timers::sleep_until(self, deadline))
    }
}

impl HyperSleep for Sleep {}
