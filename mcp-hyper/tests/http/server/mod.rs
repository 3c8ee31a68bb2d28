//! Servers over real sockets.

mod attachments;
mod embedding;
mod exchanges;
mod http2;
mod layers;
mod limits;
mod observed;
mod owners;
#[cfg(feature = "auth-jwt")]
mod protected;
mod shutdown;
