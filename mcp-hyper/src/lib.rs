//! [`mcp_proto`] over HTTP: clients and servers on hyper.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod alarm;
mod client;
mod fields;
mod runtime;
mod server;
#[cfg(feature = "tls")]
mod tls;

pub use http;
pub use mcp_proto;

pub use client::{
    ClientDriver, ClientOptions, ConnectError, HeaderError, HeaderProblem, Proxy, ProxyError, WireEvent,
    connect,
};
#[cfg(feature = "tls")]
pub use futures_rustls::rustls;
pub use runtime::{Endpoint, Runtime, Smol, Stream};
pub use server::{
    Connection, ConnectionError, ConnectionTask, HttpService, Listener, Overrun, ResponseBody,
    ResponseFuture, ServerDriver, ServerError, ServerLimits, ServerMode, ServerOptions, ServiceDriver, serve,
};
#[cfg(feature = "tls")]
pub use tls::TlsError;
