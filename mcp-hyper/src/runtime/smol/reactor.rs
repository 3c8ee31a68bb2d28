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

/// Checks that as many descriptors are free as the reactor opens: an event queue, a timer, a wake-up descriptor, and
/// one to spare.
#[cfg(unix)]
fn check_descriptors() -> io::Result<()> {
    use std::fs::File;
    use std::io::ErrorKind;

    let mut reserved: [Option<File>; 4] = Default::default();
    for place in &mut reserved {
        match File::open("/dev/null") {
            Ok(file) => *place = Some(file),
            // A sandbox without the file gives no information about descriptors.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_descriptors() -> io::Result<()> {
    Ok(())
}
