//! Tool calls that became tasks, for callers that do not await them at once.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::Client;
use crate::front::error::Error;
use crate::front::outputs::CalledTool;
use crate::front::request::{Call, Request};
use crate::front::request_slots::RequestLink;
use crate::peer::client::TaskCommand;
use crate::peer::{InvalidAnswerError, Outcome, RequestOptions, TaskMode, TaskReport};
use crate::schema::{CallTool, CallToolResult};

/// The outcome of a tool call that may become a task.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum ToolCallOutcome {
    /// The call is complete.
    Completed(CallToolResult),
    /// The server works on it.
    Task(TaskHandle),
}

impl Request<CallTool> {
    /// Makes the call, and returns early if the server turns it into a task.
    ///
    /// A tool of a 2025-11-25 server that may or must run as a task does so. [`TaskHandle::id`] is all that is needed
    /// to resume the task, even after a restart.
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error, ToolCallOutcome};
    /// # use serde_json::json;
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let report = match client.call_tool("audit", json!({ "year": 2025 })).start_task().await? {
    ///     ToolCallOutcome::Completed(report) => report,
    ///     ToolCallOutcome::Task(task) => {
    ///         println!("{} is {:?}", task.id(), task.status().await?.status);
    ///         task.wait().await?
    ///     }
    /// };
    /// # drop(report);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/extensions/tasks>
    ///
    /// # Errors
    /// If the call fails before a task exists.
    pub async fn start_task(self) -> Result<ToolCallOutcome, Error> {
        let mut call = self.send(|options| options.task = Some(TaskMode::Handle))?;
        match call.outcome().await {
            Outcome::Task(report) => {
                let (link, called) = call.call_parts();
                Ok(ToolCallOutcome::Task(TaskHandle {
                    link,
                    called_tool: called,
                    id: report.id.clone(),
                    initial_report: Some(report),
                }))
            }
            outcome => Ok(ToolCallOutcome::Completed(call.decode_outcome(outcome)?)),
        }
    }
}

impl Client {
    /// Returns a handle of the task with this id, from this connection or an earlier one.
    ///
    /// Nothing is sent until a method of the handle is called; only then an unknown task shows. The called tool is no
    /// longer known, so its result is not checked against its output schema.
    pub fn resume_task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle {
            link: self.inner.clone(),
            called_tool: Default::default(),
            id: id.into(),
            initial_report: None,
        }
    }
}

/// A task of the server, which a tool call has become. Dropping the handle does not affect the task.
///
/// It keeps the connection open, as requests in flight do.
#[derive(Clone)]
pub struct TaskHandle {
    link: Arc<dyn RequestLink>,
    called_tool: CalledTool,
    id: String,
    initial_report: Option<Box<TaskReport>>,
}

impl TaskHandle {
    /// The task's id, to be stored for [`Client::resume_task`]. It may be all that protects the task: do not log it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The status of the task at its creation, if this handle was returned by the call.
    pub fn initial_report(&self) -> Option<&TaskReport> {
        self.initial_report.as_deref()
    }

    /// Requests the task's status.
    ///
    /// # Errors
    /// If the server does not answer, or does not know the task (any more).
    pub async fn status(&self) -> Result<TaskReport, Error> {
        let mut call = self.send_command(TaskCommand::Status)?;
        match call.outcome().await {
            Outcome::Result(raw) => {
                TaskReport::read(&raw).map_err(|what| Error::Invalid(InvalidAnswerError::Malformed(what)))
            }
            outcome => Err(call.error(outcome)),
        }
    }

    /// Follows the task until it ends. Its input requests go to the client's handlers, and its status changes to the
    /// [events](Client::events).
    ///
    /// Dropping the future does not affect the task; it can be awaited again.
    ///
    /// # Errors
    /// The errors of a call that is awaited from the beginning.
    pub async fn wait(&self) -> Result<CallToolResult, Error> {
        self.send_command(TaskCommand::Follow)?.await
    }

    /// Requests the cancellation of the task. The task may still end in another way: see [`status`](Self::status).
    ///
    /// # Errors
    /// If the server rejects it: the task has ended, or the server supports no cancellation.
    pub async fn cancel(&self) -> Result<(), Error> {
        let mut call = self.send_command(TaskCommand::Cancel)?;
        match call.outcome().await {
            Outcome::Result(_) => Ok(()),
            outcome => Err(call.error(outcome)),
        }
    }

    fn send_command(&self, command: TaskCommand) -> Result<Call<CallTool>, Error> {
        let id = self.link.task(&self.id, command, RequestOptions::default())?;
        Ok(Call::from_id(self.link.clone(), id, &self.called_tool))
    }
}

impl fmt::Debug for TaskHandle {
    /// Omits the id, which may be all that protects the task.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}
