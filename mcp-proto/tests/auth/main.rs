//! OAuth: each part on its own, and the machines built from them.
#![cfg(feature = "auth")]

mod challenges;
mod client;
#[cfg(feature = "server")]
#[path = "../front_common/mod.rs"]
mod front_common;
#[cfg(feature = "server")]
#[path = "../http_front_common/mod.rs"]
mod http_front_common;
mod keys;
mod metadata;
mod reach;
mod scopes;
mod secrets;
#[cfg(feature = "server")]
mod server;
mod tokens;
