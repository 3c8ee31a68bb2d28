//! Child processes, their standard streams, and sockets.
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod descriptors;
mod driver_child;
mod driver_server;
mod driver_stream;
mod shutdown;
mod spawn;
mod stderr;
mod streams;
mod transport;
