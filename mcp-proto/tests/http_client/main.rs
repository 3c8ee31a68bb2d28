//! The client role over HTTP, without a socket.
#![cfg(all(feature = "client", feature = "http"))]

#[path = "../http_common/mod.rs"]
mod http_common;

mod contracts;
mod detection;
mod dialect;
mod events;
mod holds;
mod legacy;
mod lenient;
mod modern;
mod reconnects;
mod refusals;
mod review;
mod rounds;
mod streams;
mod tools;
mod watch;
