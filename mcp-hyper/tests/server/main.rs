//! Servers over real sockets.

#[path = "../common/mod.rs"]
mod common;

mod attachments;
mod embedding;
mod exchanges;
mod http2;
mod limits;
mod owners;
#[cfg(feature = "auth-jwt")]
mod protected;
mod shutdown;
