//! The experimental tasks of 2025-11-25: the requestor asks for a task, and either side may be the receiver.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use alloc::string::String;

use super::TaskStatus;
use crate::schema::lifecycle::{EmptyResult, PaginatedParams};
use crate::schema::object::object;
use crate::schema::{Json, List};

pub use crate::schema::method::{
    LegacyCancelTask as CancelTask, LegacyGetTask as GetTask, LegacyListTasks as ListTasks,
    LegacyTaskResult as TaskResult, TaskStatusChanged,
};
pub use crate::schema::tasks::TaskIdParams;

object! {
    /// In the parameters of a request: asks for it to become a task.
    pub struct TaskMetadata {
        required {}
        optional {
            /// How long the task should be kept, in milliseconds from when it began.
            ttl: Option<u64> = "ttl";
        }
    }
}

object! {
    /// In `_meta`: the task that a message belongs to.
    pub struct RelatedTask {
        required {
            /// The task.
            task_id: String = "taskId";
        }
        optional {}
    }
}

/// Declares an object that is a task.
macro_rules! task {
    ($(#[$attr:meta])* pub $kind:ident $name:ident) => {
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
                    ttl: Option<u64> = "ttl";
                }
                optional {
                    /// How it is doing, in words.
                    status_message: Option<String> = "statusMessage";
                    /// How often to ask for it, in milliseconds.
                    poll_interval: Option<u64> = "pollInterval";
                }
            }
        }
    };
}

task! {
    /// A task.
    pub struct Task
}

task! {
    /// The result of `tasks/get` and `tasks/cancel`.
    pub result TaskInfoResult
}

/// The result of `tasks/get`.
pub type GetTaskResult = TaskInfoResult;
/// The result of `tasks/cancel`.
pub type CancelTaskResult = TaskInfoResult;

task! {
    /// The parameters of `notifications/tasks/status`.
    pub params TaskStatusParams
}

object! {
    /// The result of a request that has become a task.
    pub result CreateTaskResult {
        required {
            /// The task.
            task: Task = "task";
        }
        optional {}
    }
}

/// The parameters of `tasks/get`.
pub type GetTaskParams = TaskIdParams;
/// The parameters of `tasks/result`.
pub type TaskResultParams = TaskIdParams;
/// The parameters of `tasks/cancel`.
pub type CancelTaskParams = TaskIdParams;
/// The result of `tasks/result`: that of the request that began the task, in `extra`.
pub type TaskResultResult = EmptyResult;
/// The parameters of `tasks/list`.
pub type ListTasksParams = PaginatedParams;

object! {
    /// The result of `tasks/list`.
    pub result ListTasksResult {
        required {
            /// One page of tasks.
            tasks: List<Task> = "tasks";
        }
        optional {
            /// Where the next page begins; absent on the last one. The empty string is a cursor like any other.
            next_cursor: Option<String> = "nextCursor";
        }
    }
}

object! {
    /// What of tasks a client receives.
    pub struct ClientTasksCapability {
        required {}
        optional {
            /// Whether they can be listed: an object.
            list: Option<Json> = "list";
            /// Whether they can be cancelled: an object.
            cancel: Option<Json> = "cancel";
            /// The requests that can become tasks.
            requests: Option<ClientTaskRequests> = "requests";
        }
    }
}

object! {
    /// The requests to a client that can become tasks.
    pub struct ClientTaskRequests {
        required {}
        optional {
            /// Those of sampling.
            sampling: Option<SamplingTasks> = "sampling";
            /// Those of elicitation.
            elicitation: Option<ElicitationTasks> = "elicitation";
        }
    }
}

object! {
    /// The requests of sampling that can become tasks.
    pub struct SamplingTasks {
        required {}
        optional {
            /// `sampling/createMessage`: an object.
            create_message: Option<Json> = "createMessage";
        }
    }
}

object! {
    /// The requests of elicitation that can become tasks.
    pub struct ElicitationTasks {
        required {}
        optional {
            /// `elicitation/create`: an object.
            create: Option<Json> = "create";
        }
    }
}

object! {
    /// What of tasks a server receives.
    pub struct ServerTasksCapability {
        required {}
        optional {
            /// Whether they can be listed: an object.
            list: Option<Json> = "list";
            /// Whether they can be cancelled: an object.
            cancel: Option<Json> = "cancel";
            /// The requests that can become tasks.
            requests: Option<ServerTaskRequests> = "requests";
        }
    }
}

object! {
    /// The requests to a server that can become tasks.
    pub struct ServerTaskRequests {
        required {}
        optional {
            /// Those of tools.
            tools: Option<ToolTasks> = "tools";
        }
    }
}

object! {
    /// The requests of tools that can become tasks.
    pub struct ToolTasks {
        required {}
        optional {
            /// `tools/call`: an object.
            call: Option<Json> = "call";
        }
    }
}
