//! OAuth: every part by itself, and the machines made of them.
#![cfg(feature = "auth")]

mod scopes;
