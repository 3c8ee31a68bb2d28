//! The keys of tasks within their runner.

/// A task among those of one runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskKey(pub(super) u64);

impl TaskKey {
    /// The runner's own work.
    pub(super) const HOUSEKEEPING: Self = Self(0);
}
