//! The clocks of the system. This file is the only one in the crate that reads them.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the only system clock of the crate, for adapters to pass in"
)]

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use std::time;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
use web_time as time;

use crate::front::Clock;
use crate::{Instant, UnixTime};

/// The clocks of the operating system: the monotonic clock and the time of day.
///
/// The monotonic clock counts from the creation of this value. No other code in the crate reads these clocks.
///
/// On the target `wasm32-unknown-unknown`, which has no clocks, the type needs the feature `js`: it then reads those of
/// JavaScript, `performance.now` and `Date`.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: time::Instant,
}

impl SystemClock {
    /// Creates a clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::from_origin(self.origin.elapsed())
    }

    fn unix_time(&self) -> UnixTime {
        let elapsed = time::SystemTime::now().duration_since(time::SystemTime::UNIX_EPOCH);
        // A clock set to before 1970 reads as 1970.
        elapsed.map_or(UnixTime::EPOCH, UnixTime::from_epoch)
    }
}
