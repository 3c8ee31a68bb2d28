//! Both sides on Tokio, on one thread.

use std::future::Future;

use mcp_hyper::Tokio;

pub(crate) const NAME: &str = "tools/call on Tokio";
pub(crate) const RUNTIME: Tokio = Tokio;

#[derive(Clone, Copy)]
pub(crate) struct Executor(&'static tokio::runtime::Runtime);

/// It lives as long as the program.
pub(crate) fn start() -> Executor {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Executor(Box::leak(Box::new(runtime.expect("a runtime"))))
}

impl Executor {
    pub(crate) fn spawn(self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }

    /// Runs a future, as a task like the others.
    pub(crate) fn on<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.block_on(self.0.spawn(future)).expect("it does not panic")
    }
}

pub(crate) fn listener() -> (tokio::net::TcpListener, std::net::SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("no blocking");
    let address = listener.local_addr().expect("its address");
    (tokio::net::TcpListener::from_std(listener).expect("a listener"), address)
}
