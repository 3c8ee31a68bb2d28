//! Locks, atomics and threads of the async front: those of the standard library.
//!
//! The package `tests/concurrency` compiles this crate with those of shuttle, to run its threads in many orders. It alone sets
//! `mcp_shuttle`, which is not `shuttle`, because programs that use shuttle set that for all their crates.

#[cfg(not(mcp_shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic},
    thread,
};

#[cfg(mcp_shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic},
    thread,
};
