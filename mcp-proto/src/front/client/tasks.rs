//! Tasks: those of the server that tool calls became, and those into which a server of 2025-11-25 turns its own requests.

use alloc::sync::Arc;
use core::future::{poll_fn, ready};
use core::time::Duration;

use super::Client;
use crate::front::clock::{iso_8601, millis};
use crate::front::error::Error;
use crate::front::layered_call::{DraftCall, LayeredCall};
use crate::front::params::{decode_as, decode_params};
use crate::front::reply::Reply;
use crate::front::request::{Call, CalledTool, Request, RequestLink};
use crate::front::request_slots::FollowQueue;
use crate::front::wakers::SendFuture;
use crate::ordered_map::OrderedMap;
use crate::peer::client::TaskCommand;
use crate::peer::task::with_related_task;
use crate::peer::{AnyParams, InboundId, InvalidAnswerError, Outcome, RequestOptions, TaskMode, TaskReport};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code, decode_member, read_members};
use crate::schema::tasks::legacy::{
    CancelTask, CreateTaskResult, GetTask, ListTasks, ListTasksResult, Task, TaskInfoResult, TaskMetadata,
    TaskResult,
};
use crate::schema::tasks::{TaskIdParams, TaskStatus};
use crate::schema::{CallTool, CallToolResult, CreateMessage, Elicit, EmptyResult, Method, Revision};
use crate::{Instant, UnixTime};

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
        let mut call = self.send(|options| options.task = Some(TaskMode::Handle), FollowQueue::Nothing)?;
        match (&mut call).await {
            Ok(result) => Ok(ToolCallOutcome::Completed(result)),
            Err(Error::Task(report)) => Ok(ToolCallOutcome::Task(TaskHandle {
                link: call.link(),
                skips_layers: !call.is_layered(),
                called_tool: call.called_tool(),
                id: report.id.clone(),
                initial_report: Some(report),
            })),
            Err(error) => Err(error),
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
            skips_layers: self.skips_layers,
            called_tool: Default::default(),
            id: id.into(),
            initial_report: None,
        }
    }
}

//= F102 "call as a task, get, await, cancel"
/// A task of the server, which a tool call has become. Dropping the handle does not affect the task.
///
/// It keeps the connection open, as requests in flight do.
#[derive(Clone)]
pub struct TaskHandle {
    link: Arc<dyn RequestLink>,
    /// Whether its requests pass the layers of the client by.
    skips_layers: bool,
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
        let raw = self.command(TaskCommand::Status).await?;
        TaskReport::read(&raw).map_err(|what| Error::Invalid(InvalidAnswerError::Malformed(what)))
    }

    /// Follows the task until it ends. Its input requests go to the client's handlers, and its status changes to the
    /// [events](Client::events).
    ///
    /// Dropping the future does not affect the task; it can be awaited again.
    ///
    /// # Errors
    /// The errors of a call that is awaited from the beginning.
    pub async fn wait(&self) -> Result<CallToolResult, Error> {
        match self.layered(TaskCommand::Follow).await {
            Some(reply) => reply.into_result::<CallTool>(),
            None => self.send_command(TaskCommand::Follow)?.await,
        }
    }

    /// Requests the cancellation of the task. The task may still end in another way: see [`status`](Self::status).
    ///
    /// # Errors
    /// If the server rejects it: the task has ended, or the server supports no cancellation.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.command(TaskCommand::Cancel).await.map(drop)
    }

    /// Sends a command, and waits for its result.
    async fn command(&self, command: TaskCommand) -> Result<Raw, Error> {
        let Some(reply) = self.layered(command).await else {
            let mut call = self.send_command(command)?;
            return match call.outcome().await {
                Outcome::Result(raw) => Ok(raw),
                outcome => Err(call.error(outcome)),
            };
        };
        let revision = self.link.revision().unwrap_or(Revision::LATEST);
        match reply.to_raw(revision) {
            Some(raw) => Ok(raw),
            None => Err(reply.into_result::<CallTool>().err().unwrap_or(Error::Finished)),
        }
    }

    fn send_command(&self, command: TaskCommand) -> Result<Call<CallTool>, Error> {
        let id = self.link.task(&self.id, command, RequestOptions::default())?;
        Ok(Call::from_id(self.link.clone(), id, self.called_tool.clone()))
    }

    /// Sends a command within the layers of the client, and waits for their reply; `None` if there are none.
    async fn layered(&self, command: TaskCommand) -> Option<Reply> {
        if self.skips_layers || !self.link.has_layers() {
            return None;
        }
        let params = AnyParams::to_raw(&TaskIdParams::new(&self.id)).ok();
        let call = Box::new(TaskCall { handle: self.clone(), command, params });
        let mut call = LayeredCall::of_task(self.link.clone(), method_of(command), call);
        Some(poll_fn(|cx| call.poll_reply(cx)).await)
    }

    /// Sends a command, with these parameters if layers changed them.
    fn send_changed(
        &self,
        command: TaskCommand,
        changed: Option<Option<Raw>>,
    ) -> Result<Call<CallTool>, Reply> {
        let TaskIdParams { task_id, meta, .. } = match changed {
            Some(params) => decode_as(method_of(command), params)?,
            None => TaskIdParams::new(&self.id),
        };
        let options = RequestOptions { meta, ..RequestOptions::default() };
        let id = self.link.task(&task_id, command, options).map_err(Reply::failed)?;
        // Only the result of a task is one of its tool.
        let tool = self.called_tool.clone().filter(|_| command == TaskCommand::Follow);
        Ok(Call::from_id(self.link.clone(), id, tool))
    }
}

/// The method of a command, as layers see it.
fn method_of(command: TaskCommand) -> &'static str {
    if command == TaskCommand::Cancel { CancelTask::NAME } else { GetTask::NAME }
}

/// A command that its layers have not sent yet.
struct TaskCall {
    handle: TaskHandle,
    command: TaskCommand,
    params: Option<Raw>,
}

impl DraftCall for TaskCall {
    fn params(&self, _: Revision) -> Option<&Raw> {
        self.params.as_ref()
    }

    fn send(self: Box<Self>, changed: Option<Option<Raw>>) -> SendFuture<Reply> {
        match self.handle.send_changed(self.command, changed) {
            Ok(mut call) => Box::pin(poll_fn(move |cx| call.poll_reply(cx))),
            Err(reply) => Box::pin(ready(reply)),
        }
    }
}

// Omits the id, which may be all that protects the task.
debug_fields! { TaskHandle {} }

/// The maximum number of stored tasks: each involves a user or a model.
const MAX_TASKS: usize = 256;
/// The maximum lifetime of a task, and its default when the server requests none.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// The suggested interval between polls of the server: users answer slowly.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The number of tasks on a page of `tasks/list`.
const PAGE_SIZE: usize = 50;

/// The disposition of a request of the server.
pub(super) enum ReceiveOutcome {
    /// It does not concern tasks.
    Ordinary,
    /// It becomes a task: its handler runs, and this reply goes out first.
    Task(Reply),
    /// This reply answers it.
    Answered(Reply),
    /// It is answered when its task ends.
    Deferred,
    /// It cancelled a task: this reply answers it, the task's handler is dropped, and each waiting request gets its
    /// reply.
    Cancelled { reply: Reply, handler: InboundId, waiting: Vec<(InboundId, Reply)> },
}

impl From<Result<Self, ErrorObject>> for ReceiveOutcome {
    fn from(received: Result<Self, ErrorObject>) -> Self {
        received.unwrap_or_else(|error| Self::Answered(Reply::Error(error)))
    }
}

/// The outcome of a task.
type TaskOutcome = Result<EmptyResult, ErrorObject>;

struct ClientTask {
    task: Task,
    /// When it may be deleted.
    expires: Instant,
    end: Option<TaskOutcome>,
    waiting: Vec<InboundId>,
}

/// The tasks of one connection, by the requests that they were.
#[derive(Default)]
pub(super) struct ClientTasks(OrderedMap<InboundId, ClientTask>);

/// The current time on both clocks.
#[derive(Clone, Copy)]
pub(super) struct Timestamps {
    pub(super) now: Instant,
    pub(super) unix: UnixTime,
}

impl ClientTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    //= R7 "the client as receiver (sampling, elicitation)"
    /// Receives a request of the server. `offers` tells which methods may become tasks.
    pub(super) fn receive(
        &mut self,
        at: Timestamps,
        request: InboundId,
        method: &str,
        params: Option<&Raw>,
        offers: impl FnOnce(&str) -> bool,
    ) -> ReceiveOutcome {
        match method {
            Elicit::NAME | CreateMessage::NAME => match requested_task(params) {
                //= R7 "receiver without the capability ignores `task`"
                Some(wish) if offers(method) => self.create(at, request, &wish),
                _ => ReceiveOutcome::Ordinary,
            },
            GetTask::NAME => self
                .find::<GetTask>(params, |params| &params.task_id)
                .map(|(_, entry)| ReceiveOutcome::Answered(Reply::result(entry.info())))
                .into(),
            TaskResult::NAME => self
                .find::<TaskResult>(params, |params| &params.task_id)
                .map(|(_, entry)| match entry.reply() {
                    Some(reply) => ReceiveOutcome::Answered(reply),
                    None => {
                        entry.waiting.push(request);
                        ReceiveOutcome::Deferred
                    }
                })
                .into(),
            ListTasks::NAME => {
                self.list(params).map(|page| ReceiveOutcome::Answered(Reply::result(page))).into()
            }
            //= R7 "cancelled by `tasks/cancel` alone"
            CancelTask::NAME => self.cancel(at, params).into(),
            _ => ReceiveOutcome::Ordinary,
        }
    }

    /// Drops a request that was cancelled or lost. Returns whether its answer would have come from a task.
    pub(super) fn stop_waiting(&mut self, request: InboundId) -> bool {
        for entry in self.0.values_mut() {
            if let Some(at) = entry.waiting.iter().position(|waiting| *waiting == request) {
                entry.waiting.swap_remove(at);
                return true;
            }
        }
        false
    }

    /// Takes the reply of a handler: returns it if its request is no task, and otherwise the replies to the requests
    /// that wait for the task.
    pub(super) fn finish(
        &mut self,
        at: Timestamps,
        request: InboundId,
        reply: Reply,
    ) -> Result<Vec<(InboundId, Reply)>, Reply> {
        let Some(entry) = self.0.get_mut(&request) else { return Err(reply) };
        let end = match reply {
            Reply::Result(result) => with_related_task(&*result, Revision::V2025_11_25, &entry.task.task_id),
            Reply::Error(error) | Reply::Denied(error, _) => Err(error),
            // Only the handlers of servers request input in their results, or continue after them.
            _ => Err(ErrorObject::new(code::INTERNAL_ERROR, "no result")),
        };
        let status = if end.is_ok() { TaskStatus::Completed } else { TaskStatus::Failed };
        Ok(entry.resolve(at, status, end))
    }

    fn create(&mut self, at: Timestamps, request: InboundId, wish: &TaskMetadata) -> ReceiveOutcome {
        self.make_room(at.now);
        if self.0.len() >= MAX_TASKS {
            return ReceiveOutcome::Answered(Reply::error(
                code::INTERNAL_ERROR,
                "too many tasks are running",
            ));
        }
        let ttl = wish.ttl.map_or(MAX_TTL, Duration::from_millis).min(MAX_TTL);
        // Unique on this connection and across connections to the same server.
        let id = format!("{:x}-{}", at.unix.since_epoch().as_nanos(), request.number());
        let created = iso_8601(at.unix);
        let mut task =
            Task::new(id, TaskStatus::Working, created.as_str(), created.as_str(), Some(millis(ttl)));
        task.poll_interval = Some(millis(POLL_INTERVAL));
        let reply = Reply::result(CreateTaskResult::new(task.clone()));
        let entry = ClientTask { task, expires: at.now + ttl, end: None, waiting: Vec::new() };
        self.0.insert(request, entry);
        ReceiveOutcome::Task(reply)
    }

    /// Deletes the task of a request whose handler could not be started.
    pub(super) fn forget(&mut self, request: InboundId) {
        self.0.remove(&request);
    }

    /// Deletes expired tasks, and the oldest ended task if there is still no room.
    fn make_room(&mut self, now: Instant) {
        let over = |entry: &ClientTask| entry.end.is_some();
        self.0.retain(|_, entry| !over(entry) || entry.expires > now);
        if self.0.len() >= MAX_TASKS
            && let Some(oldest) = self.0.iter().find(|(_, entry)| over(entry)).map(|(key, _)| *key)
        {
            self.0.remove(&oldest);
        }
    }

    fn cancel(&mut self, at: Timestamps, params: Option<&Raw>) -> Result<ReceiveOutcome, ErrorObject> {
        let (request, entry) = self.find::<CancelTask>(params, |params| &params.task_id)?;
        if entry.task.status.is_terminal() {
            let what = format!("the task has already ended: {}", entry.task.status.as_str());
            return Err(ErrorObject::new(code::INVALID_PARAMS, what));
        }
        let end = Err(ErrorObject::new(code::INTERNAL_ERROR, "the task was cancelled by the server"));
        let waiting = entry.resolve(at, TaskStatus::Cancelled, end);
        Ok(ReceiveOutcome::Cancelled { reply: Reply::result(entry.info()), handler: request, waiting })
    }

    fn list(&self, params: Option<&Raw>) -> Result<ListTasksResult, ErrorObject> {
        let params = decode_params::<ListTasks>(params.cloned())?;
        let from = match &params.cursor {
            None => 0,
            Some(cursor) => {
                cursor.parse::<u64>().map_err(|_| ErrorObject::new(code::INVALID_PARAMS, "unknown cursor"))?
            }
        };
        let mut rest = self.0.iter().filter(|(request, _)| request.number() >= from);
        let tasks: Vec<Task> = rest.by_ref().take(PAGE_SIZE).map(|(_, entry)| entry.task.clone()).collect();
        let mut page = ListTasksResult::new(tasks);
        page.next_cursor = rest.next().map(|(request, _)| request.number().to_string());
        Ok(page)
    }

    fn find<M: Method>(
        &mut self,
        params: Option<&Raw>,
        id: impl FnOnce(&M::Params) -> &String,
    ) -> Result<(InboundId, &mut ClientTask), ErrorObject> {
        let params = decode_params::<M>(params.cloned())?;
        let id = id(&params);
        // At most `MAX_TASKS`.
        let found = self.0.iter_mut().find(|(_, entry)| entry.task.task_id == *id);
        found
            .map(|(request, entry)| (*request, entry))
            .ok_or_else(|| ErrorObject::new(code::INVALID_PARAMS, "unknown task, or one that has expired"))
    }
}

impl ClientTask {
    fn resolve(&mut self, at: Timestamps, status: TaskStatus, end: TaskOutcome) -> Vec<(InboundId, Reply)> {
        // A task that has ended no longer changes.
        if self.end.is_some() {
            return Vec::new();
        }
        self.task.status = status;
        self.task.last_updated_at = iso_8601(at.unix);
        self.task.status_message = end.as_ref().err().map(|error| error.message.clone());
        self.end = Some(end);
        let waiting = core::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|request| Some((request, self.reply()?))).collect()
    }

    /// The reply to `tasks/result`, once the task has ended.
    fn reply(&self) -> Option<Reply> {
        Some(match self.end.clone()? {
            Ok(result) => Reply::result(result),
            Err(error) => Reply::Error(error),
        })
    }

    fn info(&self) -> TaskInfoResult {
        let Task { task_id, status, created_at, last_updated_at, ttl, .. } = self.task.clone();
        let mut info = TaskInfoResult::new(task_id, status, created_at, last_updated_at, ttl);
        info.status_message.clone_from(&self.task.status_message);
        info.poll_interval = self.task.poll_interval;
        info
    }
}

/// The `task` parameter of a request, if it has one.
fn requested_task(params: Option<&Raw>) -> Option<TaskMetadata> {
    let [task] = read_members(params?.as_str(), ["task"]).ok()?;
    decode_member(task)
}
