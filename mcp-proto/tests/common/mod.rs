//! Helpers of the test programs: peers that a test plays by hand, on a simulated clock.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test program uses its part")]

#[cfg(feature = "client")]
pub mod client;
pub mod exhaustive;
#[cfg(all(feature = "std", feature = "client", feature = "server", feature = "testing"))]
pub mod front;
#[cfg(all(feature = "std", feature = "client", feature = "server", feature = "http", feature = "testing"))]
pub mod front_http;
#[cfg(all(feature = "client", feature = "http"))]
pub mod http_client;
#[cfg(all(feature = "server", feature = "http"))]
pub mod http_server;
pub mod messages;
#[cfg(all(feature = "std", feature = "client", feature = "server", feature = "testing"))]
pub mod polling;
#[cfg(all(feature = "std", feature = "client", feature = "server", feature = "testing"))]
pub mod router;
#[cfg(feature = "server")]
pub mod server;
pub mod tools;
