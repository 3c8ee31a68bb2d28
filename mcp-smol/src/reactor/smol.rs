//! Starts async-io's reactor at a point where a failure can be returned.
//!
//! The reactor starts on first use. If the system has no file descriptors left, it panics in the thread that uses
//! it and in the helper thread `async-io`, which never runs again.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;

/// Starts the reactor for all I/O and timers of this crate, unless it is running.
///
/// Every function of this crate that returns an error calls this first. A program that may start without free file
/// descriptors calls it at the beginning of `main`, before any other part of smol (`smol::block_on`, `smol::spawn`),
/// which would panic.
///
/// # Errors
///
/// The system's error if the process or the system has no file descriptors left. The call may be repeated.
///
/// ```
/// fn main() -> std::io::Result<()> {
///     mcp_smol::start_reactor()?;
///     futures_lite::future::block_on(async {
///         // …
///         Ok(())
///     })
/// }
/// ```
pub fn start_reactor() -> io::Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        check_descriptors()?;
        // Setting a timer is the first use of the reactor.
        let mut timer = Timer::after(Duration::from_secs(1));
        let _ = Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop()));
        *started = true;
    }
    Ok(())
}

/// Fails unless four descriptors are free: event queue, timer and wake-up of the reactor, and one spare.
fn check_descriptors() -> io::Result<()> {
    let _reserved = (io::pipe()?, io::pipe()?);
    Ok(())
}
