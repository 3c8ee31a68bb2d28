//! Where the front reads the time.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one clock that the crate has to offer, for adapters to pass in"
)]

use alloc::sync::Arc;

use crate::Instant;

/// The clock of a connection. An adapter supplies its runtime's; tests supply one that they set.
///
/// It is read for every command, on the thread that gives it.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::Instant;
/// use mcp_proto::front::Clock;
///
/// /// A clock that stands still.
/// struct Noon;
///
/// impl Clock for Noon {
///     fn now(&self) -> Instant {
///         Instant::from_origin(Duration::from_secs(12 * 60 * 60))
///     }
/// }
/// ```
pub trait Clock: Send + Sync {
    /// The time since an origin that stays the same for the life of the connection.
    fn now(&self) -> Instant;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// The monotonic clock of the operating system, counted from the moment this value was made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
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
}
