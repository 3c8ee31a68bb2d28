//! Commands for the many servers of configuration files.

pub(crate) mod call;
pub(crate) mod options;
pub(crate) mod servers;
pub(crate) mod tools;

mod files;
mod inputs;
mod session;
mod state;
