//! The tasks extension of 2026-07-28: operations that continue after the response to their request.
//!
//! The experimental tasks of 2025-11-25 have the same names with other meanings; they are in [`legacy`].
//!
//! <https://modelcontextprotocol.io/extensions/tasks>

pub mod legacy;

use super::elicitation::{InputRequests, InputResponses};
use super::json::Json;
use super::lifecycle::EmptyResult;
use super::object::{names, object};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::ResultType;

pub use super::method::{CancelTask, GetTask, TaskUpdated, UpdateTask};

/// Identifier of the tasks extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

names! {
    /// Status of a task.
    pub enum TaskStatus {
        /// The operation is in progress.
        Working = "working",
        /// The task needs input from the client.
        InputRequired = "input_required",
        /// The operation has completed.
        Completed = "completed",
        /// The operation has failed.
        Failed = "failed",
        /// The task was cancelled before it completed.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether the status is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Declares an object with the fields of a task.
macro_rules! task {
    ($(#[$attr:meta])* pub $kind:ident $name:ident { $($more:tt)* }) => {
        object! {
            $(#[$attr])*
            pub $kind $name {
                required {
                    /// Id of the task.
                    task_id: String = "taskId";
                    /// Status of the task.
                    status: TaskStatus = "status";
                    /// Time of creation, in ISO 8601.
                    created_at: String = "createdAt";
                    /// Time of the last change, in ISO 8601.
                    last_updated_at: String = "lastUpdatedAt";
                    /// Time to keep the task, in milliseconds from its creation; `None` means without limit.
                    ttl_ms: Option<u64> = "ttlMs";
                }
                optional {
                    /// Human-readable description of the status.
                    status_message: Option<String> = "statusMessage";
                    /// Suggested polling interval in milliseconds.
                    poll_interval_ms: Option<u64> = "pollIntervalMs";
                    $($more)*
                }
            }
        }
    };
}

task! {
    /// The result of a request that runs as a task: its `resultType` is `task`.
    pub result CreateTaskResult {}
}

impl CreateTaskResult {
    /// Sets the `resultType` that distinguishes it from other results.
    #[must_use]
    pub fn stamped(mut self) -> Self {
        self.result_type = Some(ResultType::Task);
        self
    }
}

/// Declares a task with its input requests, result and error.
macro_rules! detailed {
    ($(#[$attr:meta])* pub $kind:ident $name:ident) => {
        task! {
            $(#[$attr])*
            pub $kind $name {
                /// The input that the task needs, if its status is `input_required`.
                input_requests: Option<InputRequests> = "inputRequests";
                /// The result of the request that created the task, if its status is `completed`.
                result: Option<Json> = "result";
                /// The error, if the status is `failed`.
                error: Option<TaskError> = "error";
            }
        }

        impl $name {
            /// The status of the task, with its input requests, result or error.
            pub fn state(&self) -> TaskState<'_> {
                match (self.status, &self.input_requests, &self.result, &self.error) {
                    (TaskStatus::Working, ..) => TaskState::Working,
                    (TaskStatus::InputRequired, Some(requests), ..) => TaskState::InputRequired(requests),
                    (TaskStatus::Completed, _, Some(result), _) => TaskState::Completed(result),
                    (TaskStatus::Failed, _, _, Some(error)) => TaskState::Failed(error),
                    (TaskStatus::Cancelled, ..) => TaskState::Cancelled,
                    _ => TaskState::Incomplete,
                }
            }
        }
    };
}

detailed! {
    /// The result of `tasks/get`.
    pub result GetTaskResult
}

detailed! {
    /// The parameters of `notifications/tasks`.
    pub params TaskUpdatedParams
}

/// Status of a task, with its input requests, result or error.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum TaskState<'a> {
    /// The operation is in progress.
    Working,
    /// The task needs this input.
    InputRequired(&'a InputRequests),
    /// The result of the request that created the task.
    Completed(&'a Json),
    /// The error of the request that created the task.
    Failed(&'a TaskError),
    /// The task was cancelled.
    Cancelled,
    /// The field that the status requires is missing.
    Incomplete,
}

object! {
    /// Error of a failed task: a JSON-RPC error.
    pub struct TaskError {
        required {
            /// JSON-RPC error code.
            code: i64 = "code";
            /// Human-readable description of the error, in one sentence.
            message: String = "message";
        }
        optional {
            /// Further details of the error.
            data: Option<Json> = "data";
        }
    }
}

impl From<TaskError> for ErrorObject {
    fn from(error: TaskError) -> Self {
        Self { code: error.code, message: error.message, data: error.data.map(Raw::from) }
    }
}

object! {
    /// The parameters of `tasks/get` and `tasks/cancel`.
    pub params TaskIdParams {
        required {
            /// Id of the task.
            task_id: String = "taskId";
        }
    }
}

/// The parameters of `tasks/get`.
pub type GetTaskParams = TaskIdParams;
/// The parameters of `tasks/cancel`.
pub type CancelTaskParams = TaskIdParams;

object! {
    /// The parameters of `tasks/update`.
    pub params UpdateTaskParams {
        required {
            /// Id of the task.
            task_id: String = "taskId";
            /// Answers to the task's input requests.
            input_responses: InputResponses = "inputResponses";
        }
    }
}

/// The result of `tasks/update`.
pub type UpdateTaskResult = EmptyResult;
/// The result of `tasks/cancel`: the server has received the request to cancel.
pub type CancelTaskResult = EmptyResult;
