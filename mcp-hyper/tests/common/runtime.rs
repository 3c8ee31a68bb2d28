//! The runtime of the tests' clients and servers: smol's or, with the feature `tokio`, Tokio's. The tests themselves
//! run on smol in both cases.

#[cfg(not(feature = "tokio"))]
pub use on_smol::*;
#[cfg(feature = "tokio")]
pub use on_tokio::*;

#[cfg(not(feature = "tokio"))]
mod on_smol {
    pub use mcp_hyper::Smol as TestRuntime;
    pub use smol::net::TcpListener as ServerListener;

    /// The future itself: smol's sockets and timers need no particular executor.
    pub fn within<F: Future>(future: F) -> F {
        future
    }

    pub fn server_listener(listener: std::net::TcpListener) -> ServerListener {
        listener.try_into().unwrap()
    }
}

#[cfg(feature = "tokio")]
mod on_tokio {
    use std::future::{pending, poll_fn};
    use std::sync::OnceLock;

    pub use mcp_hyper::Tokio as TestRuntime;
    pub use tokio::net::TcpListener as ServerListener;
    use tokio::runtime::{Builder, Handle};

    /// A runtime on a thread of its own.
    fn handle() -> &'static Handle {
        static HANDLE: OnceLock<Handle> = OnceLock::new();
        HANDLE.get_or_init(|| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let handle = runtime.handle().clone();
            std::thread::spawn(move || runtime.block_on(pending::<()>()));
            handle
        })
    }

    /// A future that any executor may poll, within the Tokio runtime.
    pub fn within<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
        let mut future = Box::pin(future);
        poll_fn(move |cx| {
            let _runtime = handle().enter();
            future.as_mut().poll(cx)
        })
    }

    pub fn server_listener(listener: std::net::TcpListener) -> ServerListener {
        let _runtime = handle().enter();
        listener.set_nonblocking(true).unwrap();
        ServerListener::from_std(listener).unwrap()
    }
}
