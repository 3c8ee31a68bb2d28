//! OAuth: each part on its own, and the machines built from them.
#![cfg(feature = "auth")]

mod challenges;
mod client;
#[cfg(feature = "server")]
#[path = "../common/mod.rs"]
mod common;
mod keys;
mod metadata;
mod reach;
mod scopes;
mod secrets;
#[cfg(feature = "server")]
mod server;
mod tokens;
