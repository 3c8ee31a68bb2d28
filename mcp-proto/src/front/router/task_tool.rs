//! Tools whose calls become tasks.

use crate::front::tasks::TaskChoice;

/// The task settings of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskTool {
    pub(super) choice: TaskChoice,
    pub(super) trigger: TaskTrigger,
}

/// The moment at which a call becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskTrigger {
    /// Before its handler starts.
    OnCall,
    /// When its handler returns `DetachedWork`.
    Detached,
}
