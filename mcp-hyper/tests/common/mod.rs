//! Helpers of the test programs: servers, clients and the command line, over real sockets.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

pub mod auth_testbed;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod h2_server;
pub mod runtime;
#[cfg(feature = "server")]
pub mod server;
#[cfg(all(unix, feature = "cli"))]
pub mod terminal;
