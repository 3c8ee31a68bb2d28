//! The command-line client.

mod commands;
mod connect;
mod discovery;
mod hostile;
mod many;
mod recorded;
mod session;
mod signals;
mod skills;
mod tap;
mod watch;
