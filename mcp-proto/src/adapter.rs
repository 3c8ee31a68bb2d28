//! What adapters need: drivers, the machines that drivers poll, clocks and random seeds.
//!
//! An adapter makes a machine of [`transport`](crate::transport), joins it to a handle and a driver with `client` or
//! `server`, and polls the driver. [`front`](crate::front) has a complete one, and the [`guide`] explains how to write others.

#[cfg(doc)]
pub mod guide;
mod wakers;

use core::fmt;
use std::io;

pub use wakers::{Repoll, WakeFlag};

pub use crate::front::clock::{Clock, Entropy, SystemClock};

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

/// The error that ended a server: an invalid [router](crate::front::Router::check), or an error of its sockets or streams.
///
/// Its `Debug` is its `Display`, because a program prints the error that its `main` returns by `Debug`:
///
/// ```
/// use std::io;
///
/// use mcp_proto::adapter::ServeError;
///
/// let error = ServeError::from(io::Error::new(io::ErrorKind::InvalidInput, "two tools have the name \"add\""));
/// assert_eq!(format!("{error:?}"), "two tools have the name \"add\"");
/// assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
/// ```
pub struct ServeError(io::Error);

impl ServeError {
    /// Its kind; [`io::ErrorKind::InvalidInput`] for an invalid router.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<ServeError> for io::Error {
    fn from(error: ServeError) -> Self {
        error.0
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.0.source()
    }
}
