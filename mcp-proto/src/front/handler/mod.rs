//! The handlers' side of a server: what handlers take, request of the client and return.
//!
//! Each file imports only those above it in this list:
//!
//! - [`error`], [`params`], [`progress`], [`caller`], [`arguments`]: small types.
//! - [`connection`], [`task`]: the traits through which a context uses its connection and its task. The
//!   [server](super::server) implements the first, [tasks](super::tasks) the second.
//! - [`inbound_request`]: the request as the peer delivered it.
//! - [`input_rounds`]: the client's answers in earlier rounds of its request (2026-07-28).
//! - [`context`], [`cancellation`], [`access`], [`extensions`]: the [`Context`](context::Context) that handlers take.
//! - [`server_requests`]: the requests of a handler to the client.
//! - [`output`], [`output_check`], [`detached`]: the return values of handlers.
//! - [`reply`], [`mode`]: type-erased handlers and answers.
//!
//! The handlers of a client use [`error`], [`params`], [`reply`] and [`mode`].

pub(super) mod error;
pub(super) mod mode;
pub(super) mod params;
pub(super) mod reply;

#[cfg(all(feature = "server", feature = "auth"))]
mod access;
#[cfg(feature = "server")]
pub(super) mod arguments;
#[cfg(feature = "server")]
pub(super) mod caller;
#[cfg(feature = "server")]
mod cancellation;
#[cfg(feature = "server")]
pub(super) mod connection;
#[cfg(feature = "server")]
pub(super) mod context;
#[cfg(feature = "server")]
pub(super) mod detached;
#[cfg(feature = "server")]
mod extensions;
#[cfg(feature = "server")]
pub(super) mod inbound_request;
#[cfg(feature = "server")]
pub(super) mod input_rounds;
#[cfg(all(feature = "server", feature = "schemars"))]
pub(super) mod json_schema;
#[cfg(feature = "server")]
pub(super) mod output;
#[cfg(feature = "server")]
pub(super) mod output_check;
#[cfg(feature = "server")]
pub(super) mod progress;
#[cfg(feature = "server")]
pub(super) mod server_requests;
#[cfg(feature = "server")]
pub(super) mod task;
