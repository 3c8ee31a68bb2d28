//! Commands for the many servers of configuration files.

pub(crate) mod approve;
pub(crate) mod call;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod login;
pub(crate) mod options;
pub(crate) mod servers;
pub(crate) mod tools;

mod checks;
mod files;
mod hints;
mod inputs;
mod session;
mod state;
