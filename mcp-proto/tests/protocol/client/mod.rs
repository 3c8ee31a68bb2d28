//! The client role, without a transport.
#![cfg(all(feature = "std", feature = "client", feature = "server", feature = "http", feature = "testing"))]

mod batches;
mod blocking_loop;
mod cache;
mod capabilities;
mod detection;
mod input_rounds;
mod lenient;
mod limits;
mod progress;
mod requests;
mod robustness;
mod server_requests;
mod slow;
pub(crate) mod tasks;
mod watch;
mod wire_rules;
