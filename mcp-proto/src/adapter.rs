//! What adapters need: drivers, the machines that drivers poll, clocks and random seeds.
//!
//! An adapter makes a machine of [`transport`](crate::transport), joins it to a handle and a driver with `client` or
//! `server`, and polls the driver. [`front`](crate::front) has a complete one, and the [`guide`] explains how to write others.

#[cfg(doc)]
pub mod guide;
mod repoll;
#[cfg(feature = "server")]
mod serve_error;
mod wake_flag;

pub use repoll::Repoll;
#[cfg(feature = "server")]
pub use serve_error::ServeError;
pub use wake_flag::WakeFlag;

pub use super::front::clock::Entropy;
pub use crate::front::clock::{Clock, SystemClock};

#[cfg(feature = "client")]
pub use crate::{
    front::client::{CacheContextEnder, ClientDriver, client},
    peer::client::ClientTransport,
};
#[cfg(feature = "server")]
pub use crate::{
    front::server::{ServerDriver, server},
    peer::server::ServerTransport,
};
