//! Both sides on smol, on one thread.

use std::future::Future;

use mcp_hyper::Smol;

pub(crate) const NAME: &str = "tools/call on smol";
pub(crate) const RUNTIME: Smol = Smol;

#[derive(Clone, Copy)]
pub(crate) struct Executor(&'static smol::Executor<'static>);

/// It lives as long as the program.
pub(crate) fn start() -> Executor {
    Executor(Box::leak(Box::new(smol::Executor::new())))
}

impl Executor {
    pub(crate) fn spawn(self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    /// Runs a future, as a task like the others: the future of `block_on` itself returns to the reactor, five system
    /// calls, whenever it is woken.
    pub(crate) fn on<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> T {
        smol::block_on(self.0.run(self.0.spawn(future)))
    }
}

pub(crate) fn listener() -> (smol::net::TcpListener, std::net::SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener.try_into().expect("a listener"), address)
}
