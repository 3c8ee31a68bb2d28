//! The host: configuration of servers and approval of project servers.
#![cfg(feature = "host")]

mod config;
mod consent;
