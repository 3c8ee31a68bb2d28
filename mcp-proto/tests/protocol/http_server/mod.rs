//! The server role over HTTP, without a socket.
#![cfg(all(feature = "server", feature = "http"))]

mod batches;
mod chunked_results;
mod contracts;
mod exchange;
mod headers;
mod legacy_sse;
mod regressions;
mod request_intake;
mod sessions;
mod streams;
