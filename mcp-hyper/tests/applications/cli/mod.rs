//! The command-line client.

mod commands;
mod hostile;
mod many;
mod signals;
mod watch;
