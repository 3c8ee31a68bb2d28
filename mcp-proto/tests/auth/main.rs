//! OAuth: every part by itself, and the machines made of them.
#![cfg(feature = "auth")]

mod challenges;
mod client;
mod keys;
mod metadata;
mod reach;
mod scopes;
mod secrets;
mod tokens;
