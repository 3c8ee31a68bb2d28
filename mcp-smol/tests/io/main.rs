//! Child processes, their standard streams, and sockets. The children are shell scripts; those on Windows are in `own_stdio`.

#[path = "../common/mod.rs"]
mod common;

mod descriptors;
#[cfg(unix)]
mod driver_child;
mod driver_server;
mod driver_stream;
#[cfg(unix)]
mod shutdown;
#[cfg(unix)]
mod spawn;
#[cfg(unix)]
mod stderr;
#[cfg(unix)]
mod streams;
mod transport;
