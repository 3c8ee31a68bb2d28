//! The handlers' side of a server: what handlers take, request of the client and return.
//!
//! - [`arguments`]: the arguments that handlers take, and schemas of Rust types.
//! - [`inbound_request`]: the state of a request and its caller, and the context of a notification.
//! - [`connection`]: the connection that the contexts of handlers share with its [handle and driver](super::server).
//! - [`input_rounds`]: the client's answers in earlier rounds of its request (2026-07-28).
//! - [`context`], [`access`]: the [`Context`](context::Context) that handlers take, and what its caller may do.
//! - [`server_requests`]: the requests and notifications of a handler to the client.
//! - [`output`]: the return values of handlers.

// First what most handlers use: rustdoc lists methods in the order of the modules.
pub(super) mod context;
pub(super) mod server_requests;

pub(super) mod access;
pub(super) mod arguments;
pub(super) mod connection;
pub(super) mod inbound_request;
#[cfg_attr(not(feature = "seal"), path = "no_input_rounds.rs")]
pub(super) mod input_rounds;
pub(super) mod output;
