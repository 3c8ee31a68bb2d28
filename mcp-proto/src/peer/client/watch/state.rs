//! The identifiers and states of watches.

use alloc::boxed::Box;
use core::fmt;

use crate::peer::Outcome;

use super::filter::WatchFilter;

/// The identifier of a watch; the events about its changes carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(super) u64);

impl fmt::Debug for WatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch {}", self.0)
    }
}

/// The state of a watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchState {
    /// Changes are reported from now on. Data fetched after this event is kept up to date.
    On {
        /// The part of the filter that the server does not report.
        missing: WatchFilter,
    },
    /// No notifications arrive for now. The client subscribes again, unless the server is a legacy one over HTTP that
    /// offers no stream of its own. Once notifications arrive again, every topic is reported as possibly changed.
    Interrupted,
    /// The watch has ended; no event about it follows.
    Ended(WatchEnd),
}

/// Why a watch ended, other than by the client or with the connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchEnd {
    /// The server ended it in an orderly way. The application may watch again.
    ByServer,
    /// The server does not report changes, or not these; with its answer.
    Refused(Box<Outcome>),
}

impl fmt::Display for WatchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByServer => f.write_str("the server has ended the subscription"),
            Self::Refused(outcome) => write!(f, "the server does not notify of changes: {outcome}"),
        }
    }
}
