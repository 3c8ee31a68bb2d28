//! Time: readings of the caller's clock, times of day and durations for messages.

use core::fmt;
use core::time::Duration;

/// A reading of the caller's clock: the time since an origin that the caller chooses.
///
/// This crate never reads a clock. Every command and every input takes a reading, and
/// [`poll_timeout`](crate::transport) returns the deadline of the next one. Readings should not go backwards; one that
/// does is treated as if no time had passed.
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

    /// The reading `elapsed` after the origin.
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

    /// The reading `timeout` later; `None` for `Duration::MAX`, which stands for no timeout.
    pub(crate) fn after(self, timeout: Duration) -> Option<Self> {
        (timeout != Duration::MAX).then(|| self + timeout)
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Self;

    /// The reading `duration` later; saturating.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

debug_fields! { Instant(inner) => "Instant({inner:?})" }

/// A time of day, for data that leaves the process or outlives it: the expiry of a sealed state, the start of a task.
///
/// Timeouts use [`Instant`]s, because a system's time of day can be changed.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::UnixTime;
///
/// let noon = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));
/// assert!(noon + Duration::from_secs(600) > noon);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(Duration);

impl UnixTime {
    /// The start of 1970, in UTC.
    pub const EPOCH: Self = Self(Duration::ZERO);

    /// The time `elapsed` after the epoch, without leap seconds.
    pub const fn from_epoch(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the epoch, without leap seconds.
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

    /// The time `duration` later; saturating.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

debug_fields! { UnixTime(inner) => "UnixTime({inner:?})" }

/// Displays a duration for humans: `250 ms`, `1.5 s`, `45 s`, `2 min 30 s`, `3 h`.
///
/// The value is rounded: to milliseconds below one second, to tenths below ten seconds, to seconds below one hour and
/// to minutes above. Use it in messages; in logs that programs read, write the [`Duration`] itself.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::HumanDuration;
///
/// assert_eq!(HumanDuration(Duration::from_nanos(1_999_873_000)).to_string(), "2 s");
/// assert_eq!(HumanDuration(Duration::from_secs(150)).to_string(), "2 min 30 s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The value in units of `unit` milliseconds, rounded to the nearest.
        fn rounded(millis: u128, unit: u128) -> u128 {
            millis.saturating_add(unit / 2).checked_div(unit).unwrap_or(millis)
        }
        let pair = |f: &mut fmt::Formatter<'_>, large: u128, name: &str, small: u128, unit: &str| match small
        {
            0 => write!(f, "{large} {name}"),
            small => write!(f, "{large} {name} {small} {unit}"),
        };
        let millis = rounded(self.0.as_nanos(), 1_000_000);
        let (tenths, seconds) = (rounded(millis, 100), rounded(millis, 1000));
        match () {
            () if millis == 0 => f.write_str("0 s"),
            () if millis < 1000 => write!(f, "{millis} ms"),
            () if tenths < 100 => match tenths % 10 {
                0 => write!(f, "{} s", tenths / 10),
                tenth => write!(f, "{}.{tenth} s", tenths / 10),
            },
            () if seconds < 120 => write!(f, "{seconds} s"),
            () if seconds < 3600 => pair(f, seconds / 60, "min", seconds % 60, "s"),
            () => {
                let minutes = rounded(millis, 60_000);
                pair(f, minutes / 60, "h", minutes % 60, "min")
            }
        }
    }
}
