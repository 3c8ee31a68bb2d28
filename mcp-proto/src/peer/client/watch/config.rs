//! Configuration of watches.

use core::time::Duration;

use crate::backoff::{Backoff, BackoffTimer};

/// Configuration of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchConfig {
    /// How a watch reacts when the server ends it in an orderly way. Default: the watch ends.
    pub on_server_end: OnServerEnd,
    /// The seed of the random part of the pauses; it should differ between clients. Over HTTP the
    /// [seed](crate::transport) of the transport is used instead. Default 0.
    pub seed: u64,
}

impl WatchConfig {
    /// The pauses between attempts to listen again: each twice as long as the one before, half of it random, so that not
    /// all clients reconnect to a restarted server at once. Changes are missed for no longer than the longest pause.
    pub(super) fn backoff_timer(&self) -> BackoffTimer {
        let (first, longest) = (Duration::from_millis(500), Duration::from_secs(30));
        // How often a reachable server may refuse before its refusal is final.
        BackoffTimer::new(Backoff { first, longest, attempts: 5 }, self.seed)
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
