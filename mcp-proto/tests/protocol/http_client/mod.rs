//! The client role over HTTP, without a socket.
#![cfg(all(feature = "client", feature = "http"))]

mod chunked_results;
mod contracts;
mod detection;
mod http_errors;
mod legacy;
mod legacy_sse;
mod lenient;
mod modern;
mod notifications;
mod parked;
mod reconnects;
mod redirects;
mod regressions;
mod rounds;
mod streams;
mod tools;
mod watch;
