//! Starts async-io's reactor where a failure can be reported.
//!
//! The reactor otherwise starts on first use, and panics if the system has no file descriptors left: in the thread that
//! uses it and in the helper thread `async-io`, which never runs again then.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;

/// Starts the reactor that all sockets and timers of [`Smol`](super::Smol) use, unless it runs already.
pub(super) fn start() -> io::Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        check_descriptors()?;
        // Setting a timer is the reactor's first use.
        let mut timer = Timer::after(Duration::from_secs(1));
        let _ = Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop()));
        *started = true;
    }
    Ok(())
}

/// Checks that four descriptors are free: an event queue, a timer and a wake-up descriptor for the reactor, and one to
/// spare.
fn check_descriptors() -> io::Result<()> {
    let _reserved = (io::pipe()?, io::pipe()?);
    Ok(())
}
