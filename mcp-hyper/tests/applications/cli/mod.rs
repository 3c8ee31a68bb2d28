//! The command-line client.

mod commands;
mod connect;
mod discovery;
#[cfg(unix)]
mod hostile;
mod many;
mod recorded;
#[cfg(unix)]
mod session;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod skills;
mod tap;
#[cfg(unix)]
mod watch;
