//! OAuth: each part on its own, and the machines built from them.
#![cfg(feature = "auth")]

mod challenges;
mod client;
#[cfg(all(feature = "client", feature = "server", feature = "testing"))]
#[path = "../common/mod.rs"]
mod common;
mod fetch_policy;
mod keys;
mod metadata;
mod scopes;
mod secrets;
#[cfg(all(feature = "client", feature = "server", feature = "testing"))]
mod server;
mod tokens;
