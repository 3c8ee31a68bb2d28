//! The server role, without a transport.
#![cfg(feature = "server")]

#[path = "../server_common/mod.rs"]
mod server_common;

mod answers;
mod backpressure;
mod contracts;
mod eras;
mod lenient;
mod limits;
mod requests;
mod session;
mod subscriptions;
