//! The keys of tasks within their runner.

/// The key of a task within its runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskKey(pub(super) u64);

impl TaskKey {
    /// The key of the runner's own work.
    pub(super) const HOUSEKEEPING: Self = Self(0);
}
