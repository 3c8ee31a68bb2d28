//! What an adapter supplies: the clocks and the source of random numbers.

use alloc::sync::Arc;
use core::time::Duration;

use crate::prelude::*;
use crate::{Instant, UnixTime};

/// The clock of a connection. An adapter supplies its runtime's clock; tests supply one that they set.
///
/// Each command reads it, on the thread of its caller.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::adapter::Clock;
/// use mcp_proto::{Instant, UnixTime};
///
/// /// A clock that always shows noon.
/// struct Noon;
///
/// impl Clock for Noon {
///     fn now(&self) -> Instant {
///         Instant::from_origin(Duration::from_secs(12 * 60 * 60))
///     }
///
///     fn unix_time(&self) -> UnixTime {
///         UnixTime::from_epoch(Duration::from_secs(1_785_240_000))
///     }
/// }
/// ```
pub trait Clock: Send + Sync {
    /// The time since an origin that stays the same for the life of the connection.
    fn now(&self) -> Instant;

    /// The time of day, for times that other processes interpret: the expiry of a sealed request state, for example. It
    /// may be set while the connection lives.
    fn unix_time(&self) -> UnixTime;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn unix_time(&self) -> UnixTime {
        (**self).unix_time()
    }
}

/// A source of random bytes for ids of sessions and tasks, and for keys. They must be unguessable: a client that
/// guesses them could act for others. An adapter asks the operating system; tests may count.
///
/// ```
/// use mcp_proto::adapter::Entropy;
///
/// /// Good for tests alone.
/// struct Fixed;
///
/// impl Entropy for Fixed {
///     fn fill(&self, bytes: &mut [u8]) {
///         bytes.fill(4);
///     }
/// }
/// ```
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl<E: Entropy + ?Sized> Entropy for Arc<E> {
    fn fill(&self, bytes: &mut [u8]) {
        (**self).fill(bytes);
    }
}

/// A duration in whole milliseconds.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a time as ISO 8601.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) fn iso_8601(time: UnixTime) -> String {
    /// The end of the year 9999, beyond which the format has no dates.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let elapsed = time.since_epoch().min(LAST);
    let time = std::time::SystemTime::UNIX_EPOCH;
    let time = time.checked_add(elapsed).unwrap_or(time);
    humantime::format_rfc3339_millis(time).to_string()
}
