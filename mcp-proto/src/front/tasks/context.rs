//! What a handler can do for the task that it works on.

use alloc::string::String;

use super::RunningTask;
use super::methods::related_task_meta;
use crate::front::Context;
use crate::schema::tasks::legacy::{TaskStatusChanged, TaskStatusParams};
use crate::schema::{Era, LoggingMessageParams, Notification, Progress, ProgressParams, meta};

/// In a task.
impl Context {
    /// Says how the work is doing, in a few words for the person or the model: the task's `statusMessage`. Outside of a
    /// task nothing happens; there is [`progress`](Self::progress).
    pub fn status(&self, message: impl Into<String>) {
        if let Some(task) = self.task() {
            task.status(message.into());
        }
    }

    /// The identifier of the task that the handler works on, if it does.
    pub fn task_id(&self) -> Option<&str> {
        self.task().map(|task| task.id())
    }

    /// R7: the token of the call is good for as long as the task runs. The tasks extension has no progress.
    pub(in crate::front) fn progress_of_task(&self, task: &RunningTask, mut params: ProgressParams) {
        if self.era() == Era::Legacy && task.accept_progress(&params.progress) {
            params.meta.insert(meta::RELATED_TASK, related_task_meta(task.id()));
            self.connection()
                .command(|_, machine, now, _| machine.at(now).notify_session(Progress::INFO, &params));
        }
    }

    /// The tasks extension has no log messages.
    pub(in crate::front) fn log_of_task(&self, task: &RunningTask, mut params: LoggingMessageParams) {
        if self.era() == Era::Legacy && !task.has_ended() {
            params.meta.insert(meta::RELATED_TASK, related_task_meta(task.id()));
            self.connection().command(|_, machine, now, _| machine.at(now).log(None, &params));
        }
    }

    /// Tells a client of 2025-11-25 how its task is doing.
    pub(super) fn notify_task_status(&self, params: &TaskStatusParams) {
        self.connection()
            .command(|_, machine, now, _| machine.at(now).notify_session(TaskStatusChanged::INFO, params));
    }
}
