//! The tasks extension of 2026-07-28: work that outlives its request.
//!
//! The experimental tasks of 2025-11-25, which have the same names for other things, are in [`legacy`].
//!
//! <https://modelcontextprotocol.io/extensions/tasks>

pub mod legacy;

use alloc::string::String;

use super::input::{InputRequests, InputResponses};
use super::json::Json;
use super::lifecycle::EmptyResult;
use super::object::{names, object};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::ResultType;

pub use super::method::{CancelTask, GetTask, TaskUpdated, UpdateTask};

/// The identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

names! {
    /// How a task is doing.
    pub enum TaskStatus {
        /// It is being worked on.
        Working = "working",
        /// It needs input.
        InputRequired = "input_required",
        /// It is done.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// It was given up.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether it stays so for good.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Declares an object that is a task.
macro_rules! task {
    ($(#[$attr:meta])* pub $kind:ident $name:ident { $($more:tt)* }) => {
        object! {
            $(#[$attr])*
            pub $kind $name {
                required {
                    /// Its identifier.
                    task_id: String = "taskId";
                    /// How it is doing.
                    status: TaskStatus = "status";
                    /// When it began, as in ISO 8601.
                    created_at: String = "createdAt";
                    /// When it last changed, as in ISO 8601.
                    last_updated_at: String = "lastUpdatedAt";
                    /// How long it is kept, in milliseconds from when it began; `None` is for ever.
                    ttl_ms: Option<u64> = "ttlMs";
                }
                optional {
                    /// How it is doing, in words.
                    status_message: Option<String> = "statusMessage";
                    /// How often to ask for it, in milliseconds.
                    poll_interval_ms: Option<u64> = "pollIntervalMs";
                    $($more)*
                }
            }
        }
    };
}

task! {
    /// The result of a request that has become a task: its `resultType` is `task`.
    pub result CreateTaskResult {}
}

impl CreateTaskResult {
    /// The same with the `resultType` that tells it from other results.
    #[must_use]
    pub fn stamped(mut self) -> Self {
        self.result_type = Some(ResultType::Task);
        self
    }
}

/// Declares a task with what it has come to.
macro_rules! detailed {
    ($(#[$attr:meta])* pub $kind:ident $name:ident) => {
        task! {
            $(#[$attr])*
            pub $kind $name {
                /// What it asks for, if its status is `input_required`.
                input_requests: Option<InputRequests> = "inputRequests";
                /// What it has come to, if its status is `completed`: the result of the request that began it.
                result: Option<Json> = "result";
                /// How it failed, if its status is `failed`.
                error: Option<TaskError> = "error";
            }
        }

        impl $name {
            /// What the task has come to.
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

/// What a task has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskState<'a> {
    /// Nothing yet.
    Working,
    /// It needs input.
    InputRequired(&'a InputRequests),
    /// The result of the request that began it.
    Completed(&'a Json),
    /// The error of the request that began it.
    Failed(&'a TaskError),
    /// It was given up.
    Cancelled,
    /// The message lacks what its status promises.
    Incomplete,
}

object! {
    /// How a task failed: a JSON-RPC error.
    pub struct TaskError {
        required {
            /// What kind of error.
            code: i64 = "code";
            /// One sentence for people.
            message: String = "message";
        }
        optional {
            /// What else there is to say.
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
            /// The task.
            task_id: String = "taskId";
        }
        optional {}
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
            /// The task.
            task_id: String = "taskId";
            /// Answers to what it asked for.
            input_responses: InputResponses = "inputResponses";
        }
        optional {}
    }
}

/// The result of `tasks/update`.
pub type UpdateTaskResult = EmptyResult;
/// The result of `tasks/cancel`: the request to cancel was heard.
pub type CancelTaskResult = EmptyResult;
