//! Tools whose calls become tasks.

use alloc::sync::Arc;
use core::future::Future;
use core::time::Duration;

use super::dispatch::{tool_reply, unknown_tool};
use super::tools::{TaskTool, TaskTrigger, decode_arguments};
use super::{Router, RouterError, ServedRouter};
use crate::front::handler::arguments::Arguments;
use crate::front::handler::context::Context;
use crate::front::handler::output::{DetachedCall, DetachedWork, TaskChoice, ToolOutput};
use crate::front::handler_error::HandlerError;
use crate::front::mode::{Handler, HandlerMode};
use crate::front::params::ToolCall;
use crate::front::reply::Reply;
use crate::front::tasks::{TaskConfig, TaskListing, TaskRegistry, TaskService, TaskWork};
use crate::front::wakers::SendFuture;
use crate::peer::server::{TaskAccess, missing_capabilities};
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::tasks::legacy;
use crate::schema::tasks::legacy::TaskMetadata;
use crate::schema::{
    ClientCapabilities, ClientCapability, Era, Json, Method as _, ServerCapability, TaskSupport, Tool,
    ToolExecution,
};

/// Tasks.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Enables tasks: declares them, and answers `tasks/*`. The registration of a tool decides whether its calls become
    /// tasks.
    pub fn tasks(mut self, config: TaskConfig) -> Self {
        let listing = config.listing;
        self.contents.task_registry = Some(Arc::new(TaskRegistry::new(config)));
        let mut router = self
            .declare(ServerCapability::TasksExtension)
            .declare(ServerCapability::Tasks)
            .declare(ServerCapability::TasksCancel);
        if listing == TaskListing::Shown {
            router = router.declare(ServerCapability::TasksList);
        }
        let requests = &mut router.contents.capabilities.tasks.get_or_insert_default().requests;
        let tools = &mut requests.get_or_insert_default().tools;
        tools.get_or_insert_default().call = Some(Json::empty_object());
        router
    }

    /// Registers a tool whose calls become tasks, depending on the client's support and on `choice`. The handler is
    /// that of any [tool](Self::tool_with); its input requests and its [status](Context::status) go through the task.
    /// It is dropped when the task is cancelled.
    ///
    /// ```
    /// use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
    /// use mcp_proto::front::{Context, NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let tool = Tool::new("backup", "Copies everything to a safe place", Json::empty_object());
    /// let router = Router::new("archive", "1.0.0").tasks(TaskConfig::default()).task_tool(
    ///     tool,
    ///     TaskChoice::Optional,
    ///     async |NoArguments {}, cx: Context| {
    ///         cx.status("copying");
    ///         "Everything is copied."
    ///     },
    /// );
    /// # drop(router);
    /// ```
    pub fn task_tool<A, F, H>(self, tool: Tool, choice: TaskChoice, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: ToolOutput> + 'static,
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>,
    {
        let (tool, task) = task_tool(tool, choice, TaskTrigger::OnCall);
        self.register_tool(tool, task, decode_arguments, handler)
    }

    /// Registers a tool whose handler decides when its call becomes a task.
    ///
    /// For example, the handler may first request the input that it needs to start. For a client that cannot have a
    /// task, the rest of the work is done before the call is answered.
    ///
    /// ```
    /// use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
    /// use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let tool = Tool::new("publish", "Publishes the draft", Json::empty_object());
    /// let router = Router::new("press", "1.0.0").tasks(TaskConfig::default()).detaching_tool(
    ///     tool,
    ///     TaskChoice::Optional,
    ///     async |NoArguments {}, cx: Context| {
    ///         // Input requested here is requested before the task starts.
    ///         let draft = "the draft";
    ///         Ok(DetachedWork::new(async move |cx: Context| {
    ///             cx.status("printing");
    ///             format!("{draft} is published")
    ///         }))
    ///     },
    /// );
    /// # drop(router);
    /// ```
    pub fn detaching_tool<A, F, H>(mut self, tool: Tool, choice: TaskChoice, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output = Result<DetachedWork, HandlerError>> + 'static,
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>,
    {
        let check = self.output_check(&tool);
        let erased = handler.erase(
            self.state.clone(),
            |call: ToolCall, context: &Context| {
                let aside = (call.name.to_string(), call.task.clone(), context.clone());
                Ok((decode_arguments(call, context)?, aside))
            },
            move |(tool, asked, context): (String, Option<TaskMetadata>, Context), output| match output {
                Ok(rest) => {
                    let rest = rest.with_check(check.clone());
                    Reply::Detached(Box::new(DetachedCall {
                        tool,
                        choice,
                        metadata: asked,
                        context,
                        work: rest,
                    }))
                }
                Err(error) => tool_reply(check.check(Err::<(), _>(error))),
            },
        );
        let (tool, task) = task_tool(tool, choice, TaskTrigger::Detached);
        self.add_tool(tool, task, erased)
    }

    /// Returns a tool that runs as a task although the router has no tasks.
    pub(super) fn missing_tasks(&self) -> Option<RouterError> {
        let mut tools = self.contents.tools.iter().filter(|_| self.contents.task_registry.is_none());
        let tool = &tools.find(|entry| entry.item.task.is_some())?.item.tool;
        Some(RouterError::NoTasks { tool: tool.name.clone() })
    }

    pub(crate) fn task_registry(&self) -> Option<&Arc<TaskRegistry>> {
        self.contents.task_registry.as_ref()
    }

    /// The check which principal may listen for which task.
    pub(super) fn task_access(&self) -> Option<TaskAccess> {
        let registry = self.contents.task_registry.clone()?;
        Some(TaskAccess::new(move |task, principal| registry.is_watchable(task, principal)))
    }

    /// Starts a call as a task, if it becomes one before its handler starts.
    pub(super) fn begin_call(
        &self,
        task: Option<TaskTool>,
        call: &ToolCall,
        context: &Context,
        service: Option<&Arc<TaskService>>,
    ) -> Result<Option<M::HandlerFuture>, Reply> {
        if task.is_none() && self.contents.task_registry.is_none() {
            return Ok(None);
        }
        let choice = task.map(|task| task.choice);
        let becomes = self.becomes_task(&call.name, choice, call.task.as_ref(), context)?;
        match (task, service) {
            (Some(TaskTool { trigger: TaskTrigger::OnCall, .. }), Some(service)) if becomes => {
                let ttl = requested_ttl(call.task.as_ref(), context);
                let begun = service.begin(TaskWork::Call(call.detached()), context.clone(), ttl)?;
                Ok(Some(M::wrap_future(begun)))
            }
            _ => Ok(None),
        }
    }

    /// Continues a call whose handler has finished the part before its task.
    pub(crate) fn detach(
        &self,
        detachment: DetachedCall,
        service: Option<&Arc<TaskService>>,
    ) -> Result<M::HandlerFuture, Reply> {
        let DetachedCall { tool, choice, metadata: asked, context, work: rest } = detachment;
        let becomes = self.becomes_task(&tool, Some(choice), asked.as_ref(), &context)?;
        Ok(M::wrap_future(match service.filter(|_| becomes) {
            Some(service) => {
                let ttl = requested_ttl(asked.as_ref(), &context);
                service.begin(TaskWork::Detached(rest), context, ttl)?
            }
            None => begin_detached(rest, context),
        }))
    }

    /// Whether a call becomes a task.
    ///
    /// # Errors
    /// If the tool requires a task that the client cannot have, or the client requests one that the tool cannot have.
    fn becomes_task(
        &self,
        tool: &str,
        choice: Option<TaskChoice>,
        asked: Option<&TaskMetadata>,
        context: &Context,
    ) -> Result<bool, ErrorObject> {
        // 2026-07-28: decided by the capabilities that this very request declares; before, by the `task` parameter of
        // the call.
        let needed = ClientCapability::TasksExtension;
        //= S11.1 "CreateTaskResult only to a client that declared the extension on that request; else -32021"
        let possible = self.contents.task_registry.is_some()
            && match context.era() {
                Era::Modern => context.client_capabilities().has(needed),
                Era::Legacy => legacy::GetTask::INFO.exists_in(context.revision()) && asked.is_some(),
            };
        match (choice, possible, context.era()) {
            (Some(_), true, _) => Ok(true),
            (Some(TaskChoice::Optional), false, _) | (None, false, _) | (None, true, Era::Modern) => {
                Ok(false)
            }
            (Some(TaskChoice::Required), false, Era::Modern) => {
                Err(missing_capabilities(ClientCapabilities::default().with(needed)))
            }
            //= R7 "`required` without `task` → -32601"
            (Some(TaskChoice::Required), false, Era::Legacy) => Err(ErrorObject::new(
                code::METHOD_NOT_FOUND,
                format!("the tool {tool:?} runs only as a task"),
            )),
            (None, true, Era::Legacy) => Err(ErrorObject::new(
                code::METHOD_NOT_FOUND,
                format!("the tool {tool:?} cannot run as a task"),
            )),
        }
    }
}

impl<M: HandlerMode> ServedRouter<M> {
    /// Starts the work of a task, in the context of that task.
    pub(in crate::front) fn begin_task(&self, work: TaskWork, context: Context) -> M::HandlerFuture {
        let router = self.router();
        let handler = match work {
            TaskWork::Detached(rest) => M::wrap_future(begin_detached(rest, context)),
            TaskWork::Call(call) => match router.contents.tools.get(&call.name) {
                Some(entry) => (entry.handler)(call, context),
                None => M::wrap_future(Box::pin(core::future::ready(Reply::Error(unknown_tool(&call.name))))),
            },
        };
        router.spawned(handler, None)
    }
}

/// The settings of a tool whose calls become tasks, and the tool that says so to clients of 2025-11-25.
fn task_tool(mut tool: Tool, choice: TaskChoice, trigger: TaskTrigger) -> (Tool, Option<TaskTool>) {
    let support = match choice {
        TaskChoice::Optional => TaskSupport::Optional,
        TaskChoice::Required => TaskSupport::Required,
    };
    tool.execution.get_or_insert_with(ToolExecution::new).task_support = Some(support);
    (tool, Some(TaskTool { choice, trigger }))
}

/// Starts the rest of a call whose handler has run.
fn begin_detached(work: DetachedWork, context: Context) -> SendFuture<Reply> {
    let working = work.begin(context);
    Box::pin(async move { tool_reply(working.await) })
}

/// The time to live that the client requests for its task, in eras that let it choose.
fn requested_ttl(asked: Option<&TaskMetadata>, context: &Context) -> Option<Duration> {
    let asked = asked.filter(|_| context.era() == Era::Legacy)?;
    asked.ttl.map(Duration::from_millis)
}
