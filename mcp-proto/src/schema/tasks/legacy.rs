//! The experimental tasks of 2025-11-25: the requestor asks for a task, and either side may be the receiver.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use super::TaskStatus;
use crate::prelude::*;
use crate::schema::lifecycle::{EmptyResult, PaginatedParams};
use crate::schema::object::object;
use crate::schema::{Json, List};

pub use crate::schema::method::{
    LegacyCancelTask as CancelTask, LegacyGetTask as GetTask, LegacyListTasks as ListTasks,
    LegacyTaskResult as TaskResult, TaskStatusChanged,
};
pub use crate::schema::tasks::TaskIdParams;

object! {
    /// Request parameter `task`: asks the receiver to run the request as a task.
    pub struct TaskMetadata {
        optional {
            /// Requested time to keep the task, in milliseconds from its creation.
            ttl: Option<u64> = "ttl";
        }
    }

    /// The value of [`RELATED_TASK`](crate::schema::meta::RELATED_TASK) in `_meta`: the task that a message belongs to.
    pub struct RelatedTask {
        required {
            /// Id of the task.
            task_id: String = "taskId";
        }
    }
}

/// Declares an object with the fields of a task.
macro_rules! task {
    ($(#[$attr:meta])* pub $kind:ident $name:ident) => {
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
                    ttl: Option<u64> = "ttl";
                }
                optional {
                    /// Human-readable description of the status.
                    status_message: Option<String> = "statusMessage";
                    /// Suggested polling interval in milliseconds.
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
    /// The result of a request that runs as a task.
    pub result CreateTaskResult {
        required {
            /// The task.
            task: Task = "task";
        }
    }
}

/// The parameters of `tasks/get`.
pub type GetTaskParams = TaskIdParams;
/// The parameters of `tasks/result`.
pub type TaskResultParams = TaskIdParams;
/// The parameters of `tasks/cancel`.
pub type CancelTaskParams = TaskIdParams;
/// The result of `tasks/result`: the result of the request that created the task, in `extra`.
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
            /// Cursor of the next page; absent on the last page. The empty string is a valid cursor.
            next_cursor: Option<String> = "nextCursor";
        }
    }

    /// Task support of a client that receives requests.
    pub struct ClientTasksCapability {
        optional {
            /// Declares that the client lists its tasks: an object.
            list: Option<Json> = "list";
            /// Declares that the client cancels tasks: an object.
            cancel: Option<Json> = "cancel";
            /// The requests that can run as tasks.
            requests: Option<ClientTaskRequests> = "requests";
        }
    }

    /// The requests to a client that can run as tasks.
    pub struct ClientTaskRequests {
        optional {
            /// Sampling requests.
            sampling: Option<SamplingTasks> = "sampling";
            /// Elicitation requests.
            elicitation: Option<ElicitationTasks> = "elicitation";
        }
    }

    /// The sampling requests that can run as tasks.
    pub struct SamplingTasks {
        optional {
            /// Declares `sampling/createMessage`: an object.
            create_message: Option<Json> = "createMessage";
        }
    }

    /// The elicitation requests that can run as tasks.
    pub struct ElicitationTasks {
        optional {
            /// Declares `elicitation/create`: an object.
            create: Option<Json> = "create";
        }
    }

    /// Task support of a server that receives requests.
    pub struct ServerTasksCapability {
        optional {
            /// Declares that the server lists its tasks: an object.
            list: Option<Json> = "list";
            /// Declares that the server cancels tasks: an object.
            cancel: Option<Json> = "cancel";
            /// The requests that can run as tasks.
            requests: Option<ServerTaskRequests> = "requests";
        }
    }

    /// The requests to a server that can run as tasks.
    pub struct ServerTaskRequests {
        optional {
            /// Tool requests.
            tools: Option<ToolTasks> = "tools";
        }
    }

    /// The tool requests that can run as tasks.
    pub struct ToolTasks {
        optional {
            /// Declares `tools/call`: an object.
            call: Option<Json> = "call";
        }
    }
}
