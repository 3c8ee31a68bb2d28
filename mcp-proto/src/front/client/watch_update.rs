//! Updates of watches.

use crate::peer::client::{Change, ChangeEvidence, WatchFilter};

/// An update of a watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// The watch reports changes from now on: fetch the watched items after this, and again at each change.
    Active {
        /// The part of the filter for which the server sends no notifications.
        missing: WatchFilter,
    },
    /// The subscription was lost and is being renewed. Then everything of the filter is reported as possibly changed.
    Interrupted,
    /// Something has changed, or may have.
    Changed {
        /// The thing that changed.
        change: Change,
        /// The evidence of the change.
        evidence: ChangeEvidence,
    },
    /// Updates were dropped because they were not taken in time: anything may have changed.
    Missed {
        /// The number of updates.
        count: u64,
    },
}
