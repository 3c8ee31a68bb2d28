//! Points in time, as the caller's clock gives them.

use core::fmt;
use core::time::Duration;

/// A reading of the caller's clock: the time since an origin that the caller picks.
///
/// Nothing in this crate reads a clock. Every command and every input takes a reading, and
/// [`poll_timeout`](crate::bind) tells when the next one is due. Readings should not go backwards;
/// one that does is treated as if no time had passed.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::Instant;
///
/// let start = Instant::ORIGIN;
/// let later = start + Duration::from_secs(30);
/// assert_eq!(later.saturating_since(start), Duration::from_secs(30));
/// assert_eq!(start.saturating_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// The origin of the caller's clock.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The reading that lies `elapsed` after the origin.
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Self;

    /// The reading `duration` later; the far end of time saturates.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", self.0)
    }
}

/// A time of day, for what leaves the process or outlives it: when a state given to a client lapses, when a task began.
///
/// Timeouts are counted in [`Instant`]s, which nobody sets.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::UnixTime;
///
/// let noon = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));
/// assert!(noon + Duration::from_secs(600) > noon);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(Duration);

impl UnixTime {
    /// The first moment of 1970, in UTC.
    pub const EPOCH: Self = Self(Duration::ZERO);

    /// The time that lies `elapsed` after the epoch, leap seconds not counted.
    pub const fn from_epoch(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the epoch, leap seconds not counted.
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl core::ops::Add<Duration> for UnixTime {
    type Output = Self;

    /// The time `duration` later; the far end of time saturates.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Debug for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixTime({:?})", self.0)
    }
}
