//! The tools whose calls become tasks.

use crate::front::tasks::TaskChoice;

/// How a tool becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskTool {
    pub(super) choice: TaskChoice,
    pub(super) trigger: TaskTrigger,
}

/// When a tool becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskTrigger {
    /// Before its handler begins.
    OnCall,
    /// When its handler says so.
    Detached,
}
