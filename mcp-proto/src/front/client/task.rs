//! Tool calls that have become tasks, for those who do not wait for them at once.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::Client;
use crate::front::error::Error;
use crate::front::request::{Call, CalledTool, Request};
use crate::front::request_slots::RequestLink;
use crate::peer::client::TaskCommand;
use crate::peer::{InvalidAnswerError, Outcome, RequestOptions, TaskMode, TaskReport};
use crate::schema::{CallTool, CallToolResult};

/// What a tool call has come to that may become a task.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum ToolCallOutcome {
    /// It is done.
    Completed(CallToolResult),
    /// The server works on it.
    Task(TaskHandle),
}

impl Request<CallTool> {
    /// Makes the call, and does not wait for what it comes to if the server makes a task of it.
    ///
    /// A tool of a 2025-11-25 server that may or must run as a task runs as one. [`TaskHandle::id`] is all that is needed
    /// to take the task up again, after a restart too.
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
    /// If the call fails before there is a task.
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
    /// A task that a tool call has become, by its identifier: of this connection or of an earlier one.
    ///
    /// Nothing is sent until something is asked of the handle; whether there is such a task shows then. Which tool was
    /// called is not known any more, so its result is not held to what the tool promises.
    pub fn resume_task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle {
            link: self.inner.clone(),
            called_tool: CalledTool::default(),
            id: id.into(),
            initial_report: None,
        }
    }
}

/// A task of the server, which a tool call has become. Dropping the handle leaves the task alone.
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
    /// The identifier, to be kept for [`Client::resume_task`]. Whoever has it may have the task: it is not for logs.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How the task was doing when it was created, if this handle is from then.
    pub fn initial_report(&self) -> Option<&TaskReport> {
        self.initial_report.as_deref()
    }

    /// Asks how the task is doing.
    ///
    /// # Errors
    /// If the server does not answer, or knows no such task (any more).
    pub async fn status(&self) -> Result<TaskReport, Error> {
        match self.send_command(TaskCommand::Status)?.outcome().await {
            Outcome::Result(raw) => {
                TaskReport::read(&raw).map_err(|what| Error::Invalid(InvalidAnswerError::Malformed(what)))
            }
            outcome => Err(outcome.into()),
        }
    }

    /// Follows the task until it ends. What it asks for meanwhile goes to the handlers of the client, and how it is doing
    /// to its [events](Client::events).
    ///
    /// Dropping the future leaves the task alone; it can be waited for again.
    ///
    /// # Errors
    /// As for a call that was waited for from the beginning.
    pub async fn wait(&self) -> Result<CallToolResult, Error> {
        self.send_command(TaskCommand::Follow)?.await
    }

    /// Tells the server that the task is not wanted any more. It may end otherwise all the same: see
    /// [`status`](Self::status).
    ///
    /// # Errors
    /// If the server does not take it: the task has ended, or the server cancels none.
    pub async fn cancel(&self) -> Result<(), Error> {
        match self.send_command(TaskCommand::Cancel)?.outcome().await {
            Outcome::Result(_) => Ok(()),
            outcome => Err(outcome.into()),
        }
    }

    fn send_command(&self, command: TaskCommand) -> Result<Call<CallTool>, Error> {
        let id = self.link.task(&self.id, command, RequestOptions::default())?;
        Ok(Call::from_id(self.link.clone(), id, &self.called_tool))
    }
}

impl fmt::Debug for TaskHandle {
    /// Without the identifier, which may be all that guards the task.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}
