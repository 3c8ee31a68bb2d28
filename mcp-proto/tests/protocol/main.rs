//! The machines, from the codec to the transports, without the async front.

#[path = "../common/mod.rs"]
mod common;

mod client;
#[cfg(feature = "fuzzing")]
mod exhaustive;
mod growth;
mod http_client;
mod http_server;
mod redact;
mod schema;
mod server;
mod validate;
mod wire;
