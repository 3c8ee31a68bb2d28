//! Configuration of watches.

use core::time::Duration;

use crate::backoff::{Backoff, BackoffTimer};

/// Configuration of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchConfig {
    /// The pause after the server was lost for the first time; each further pause is twice as long. Half of each pause
    /// is random, so that not all clients reconnect to a restarted server at once. Default 500 ms.
    pub first_pause: Duration,
    /// The longest pause. Default 30 s: once the server is back, changes are missed for no longer than that.
    pub longest_pause: Duration,
    /// How a watch reacts when the server ends it in an orderly way. Default: the watch ends.
    pub on_server_end: OnServerEnd,
    /// The seed of the random part of the pauses; it should differ between clients. Over HTTP the
    /// [seed](crate::transport) of the transport is used instead. Default 0.
    pub seed: u64,
}

impl WatchConfig {
    /// The pauses between attempts to listen again.
    pub(super) fn backoff_timer(&self) -> BackoffTimer {
        /// How often a reachable server may refuse before its refusal is final.
        const MAX_REFUSALS: u32 = 5;
        let Self { first_pause: first, longest_pause: longest, seed, .. } = *self;
        BackoffTimer::new(Backoff { first, longest, attempts: MAX_REFUSALS }, seed)
    }
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            on_server_end: OnServerEnd::default(),
            seed: 0,
        }
    }
}

/// How a watch reacts when a server ends its subscription in an orderly way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerEnd {
    /// The watches end.
    #[default]
    Stop,
    /// The client subscribes again after a pause, as if the server had been lost: for deployments where another
    /// instance takes over from one that shuts down.
    Listen,
}

/// Whether the application has older copies of the topics that it starts to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchStart {
    /// It has none: it fetches the data once the watch is [on](super::WatchState::On).
    #[default]
    Now,
    /// It has fetched copies earlier, perhaps on another connection: every topic is reported as possibly changed.
    Before,
}

/// The kind of channel that carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChannelKind {
    /// All on one channel, in order.
    #[default]
    Shared,
    /// Each exchange on its own.
    Separate,
}
