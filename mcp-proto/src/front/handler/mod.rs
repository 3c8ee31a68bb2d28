//! The handlers' side of a server: what handlers take, request of the client and return.
//!
//! Each file imports only those above it in this list:
//!
//! - [`progress`], [`caller_access`], [`caller`], [`arguments`], [`round_reply`]: small types.
//! - [`connection`], [`task`]: the traits through which a context uses its connection and its task. The
//!   [server](super::server) implements the first, [tasks](super::tasks) the second.
//! - [`request_state`], [`inbound_request`]: the request as the peer delivered it.
//! - [`input_rounds`]: the client's answers in earlier rounds of its request (2026-07-28).
//! - [`context`], [`attachments`], [`cancellation`], `access`, [`custom`], [`experimental`], [`extensions`], [`logging`],
//!   [`meta`]: the [`Context`](context::Context) that handlers take. [`notification_context`] is that of notifications.
//! - [`server_requests`]: the requests of a handler to the client.
//! - [`output`], `json_schema`, [`output_schema`], [`output_check`], [`detached`]: the return values of handlers.

// First what most handlers use: rustdoc lists methods in the order of the modules.
pub(super) mod context;
pub(super) mod server_requests;

#[cfg_attr(not(feature = "auth"), path = "no_access.rs")]
pub(super) mod access;
pub(super) mod arguments;
mod attachments;
pub(super) mod caller;
#[cfg_attr(not(feature = "auth"), path = "no_caller_access.rs")]
pub(super) mod caller_access;
mod cancellation;
pub(super) mod connection;
mod custom;
pub(super) mod detached;
mod experimental;
mod extensions;
pub(super) mod inbound_request;
#[cfg_attr(not(feature = "seal"), path = "no_input_rounds.rs")]
pub(super) mod input_rounds;
#[cfg(feature = "schemars")]
pub(super) mod json_schema;
mod logging;
mod meta;
pub(super) mod notification_context;
pub(super) mod output;
pub(super) mod output_check;
#[cfg_attr(not(feature = "schema-validate"), path = "no_output_schema.rs")]
pub(super) mod output_schema;
pub(super) mod progress;
pub(super) mod request_state;
pub(super) mod round_reply;
pub(super) mod task;
