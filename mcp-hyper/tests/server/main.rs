//! Servers over real sockets.

#[path = "../server_common/mod.rs"]
mod server_common;

mod embedding;
mod exchanges;
mod http2;
mod limits;
mod owners;
#[cfg(feature = "auth-jwt")]
mod protected;
mod shutdown;
