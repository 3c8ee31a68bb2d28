//! The dispatch of requests to their handlers, and the replies.

use alloc::sync::Arc;

use super::registry::Registry;
use super::{Context, HandlerMode, Router, SendHandlers};
use crate::front::handler::output::{PromptOutput, ResultOrInput, ToolResult};
use crate::front::handler_error::HandlerError;
use crate::front::params::{ToolCall, decode_params, params_error};
use crate::front::reply::Reply;
use crate::front::spawned_handler::{AwaitedHandler, SpawnedHandler};
use crate::front::tasks;
use crate::front::tasks::TaskService;
use crate::peer::AnyResult;
use crate::peer::server::resource_not_found;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
#[cfg(feature = "skills")]
use crate::schema::skills::{GetSkill, ListSkills, ReadDirectory};
use crate::schema::{
    CallTool, CallToolResult, GetPrompt, ListPrompts, ListPromptsResult, ListResourceTemplates,
    ListResourceTemplatesResult, ListResources, ListResourcesResult, ListTools, ListToolsResult, Method,
    PaginatedParams, Prompt, ReadResource, Revision, ServerCapability,
};

/// The started handler of a request, with its tool, its prompt or the URI of its resource; an error is the reply of a
/// request that needs none.
pub(crate) type Dispatch<F> = Result<(F, Option<Arc<str>>), Reply>;

impl<M: HandlerMode> Router<M> {
    /// Finds the handler of a request and starts it. `service` holds the tasks. The request counts for the rates unless it has
    /// been counted.
    pub(crate) fn dispatch(
        &self,
        method: &str,
        params: Option<Raw>,
        context: Context,
        service: Option<&Arc<TaskService>>,
        count_rate: bool,
    ) -> Dispatch<M::HandlerFuture> {
        self.check_valid()?;
        if let Some(handler) = self.contents.methods.get(method) {
            #[cfg(feature = "auth")]
            let context = self.check_call_scopes(method, params.as_ref(), context)?;
            if count_rate {
                self.check_rate(method, params.as_ref(), &context)?;
            }
            return match self.completed_item(method, params.as_ref())? {
                Some((origin, params)) => {
                    if count_rate {
                        origin.check_completion_rates(&context)?;
                    }
                    origin.complete(params, context)
                }
                None => Ok((handler(params, context), None)),
            };
        }
        if let Some(service) = service
            && let Some(answering) =
                tasks::answer(service, method, params.as_ref(), &context, self.contents.page_size)
        {
            return Ok((M::wrap_future(answering), None));
        }
        self.serve(method, params, context, service, count_rate)
    }

    /// Checks that the router is valid.
    pub(super) fn check_valid(&self) -> Result<(), Reply> {
        let Some(error) = &self.contents.error else { return Ok(()) };
        let message = alloc::format!("the router of this server is invalid: {error}");
        Err(Reply::error(code::INTERNAL_ERROR, message))
    }

    /// Answers a method that the router knows by itself, or by its fallback.
    fn serve(
        &self,
        method: &str,
        params: Option<Raw>,
        context: Context,
        service: Option<&Arc<TaskService>>,
        count_rate: bool,
    ) -> Dispatch<M::HandlerFuture> {
        let declared = |capability| self.contents.capabilities.has(capability);
        //= S8.2 "Declared capability → list method answered (empty list allowed)"
        match method {
            CallTool::NAME if declared(ServerCapability::Tools) => {
                self.call_tool(params, context, service, count_rate)
            }
            //= S8.2 "Declared capability → list method answered (empty list allowed)"
            ListTools::NAME if declared(ServerCapability::Tools) => self.list::<ListTools, _, _, _, _>(
                &self.contents.tools,
                params,
                |item| &item.tool,
                |tools, next| ListToolsResult { next_cursor: next, ..ListToolsResult::new(tools) },
            ),
            ReadResource::NAME if declared(ServerCapability::Resources) => {
                self.read_resource(params, context)
            }
            ListResources::NAME if declared(ServerCapability::Resources) => self
                .list::<ListResources, _, _, _, _>(
                    &self.contents.resources,
                    params,
                    |item| item,
                    |resources, next| ListResourcesResult {
                        next_cursor: next,
                        ..ListResourcesResult::new(resources)
                    },
                ),
            ListResourceTemplates::NAME if declared(ServerCapability::Resources) => self
                .list::<ListResourceTemplates, _, _, _, _>(
                    &self.contents.templates,
                    params,
                    |(template, _)| template,
                    |templates, next| ListResourceTemplatesResult {
                        next_cursor: next,
                        ..ListResourceTemplatesResult::new(templates)
                    },
                ),
            #[cfg(feature = "skills")]
            ListSkills::NAME if declared(ServerCapability::SkillsExtension) => {
                Ok((self.list_skills(decode_params::<ListSkills>(params)?, &context), None))
            }
            #[cfg(feature = "skills")]
            GetSkill::NAME if declared(ServerCapability::SkillsExtension) => {
                Ok((self.get_skill(decode_params::<GetSkill>(params)?, &context), None))
            }
            #[cfg(feature = "skills")]
            ReadDirectory::NAME if declared(ServerCapability::DirectoryRead) => {
                Ok((self.read_directory(decode_params::<ReadDirectory>(params)?, &context), None))
            }
            GetPrompt::NAME if declared(ServerCapability::Prompts) => self.get_prompt(params, context),
            //= S8.2 "Declared capability → list method answered (empty list allowed)"
            ListPrompts::NAME if declared(ServerCapability::Prompts) => self.list::<ListPrompts, _, _, _, _>(
                &self.contents.prompts,
                params,
                |item| item,
                |prompts, next| ListPromptsResult { next_cursor: next, ..ListPromptsResult::new(prompts) },
            ),
            _ => match &self.contents.fallback {
                Some(fallback) => Ok((fallback((method.into(), params), context), None)),
                None => {
                    let message = alloc::format!("this server has no method {method}");
                    Err(Reply::error(code::METHOD_NOT_FOUND, message))
                }
            },
        }
    }

    /// Whether there is a handler for a method, or for an item that a request names: a tool or a prompt.
    pub(crate) fn serves(&self, method: &str, item: Option<&str>) -> bool {
        match (item, method) {
            (Some(tool), CallTool::NAME) => self.contents.tools.get(tool).is_some(),
            (Some(prompt), GetPrompt::NAME) => self.contents.prompts.get(prompt).is_some(),
            _ => self.contents.methods.contains_key(method),
        }
    }

    fn call_tool(
        &self,
        params: Option<Raw>,
        context: Context,
        service: Option<&Arc<TaskService>>,
        count_rate: bool,
    ) -> Dispatch<M::HandlerFuture> {
        //= S8.7 "malformed → protocol error"
        let call = ToolCall::read(params)?;
        //= S8.7 "Unknown tool"
        let entry = self.contents.tools.get(&call.name).ok_or_else(|| unknown_tool(&call.name))?;
        #[cfg(feature = "auth")]
        let context = self.check_scopes(&call.name, context)?;
        if count_rate {
            self.contents.rates.check_tool(&call.name, &context)?;
            if let Some(origin) = &entry.origin {
                origin.check_tool_rates(&call.name, &context)?;
            }
        }
        #[cfg(feature = "schema-validate")]
        entry.item.check_arguments(&call, &context)?;
        match self.begin_call(entry.item.task, &call, &context, service)? {
            Some(begun) => Ok((begun, None)),
            None => Ok(entry.start(call, context)),
        }
    }

    fn read_resource(&self, params: Option<Raw>, context: Context) -> Dispatch<M::HandlerFuture> {
        let read = decode_params::<ReadResource>(params)?;
        if let Some(entry) = self.contents.resources.get(&read.uri) {
            return Ok(entry.start(read, context));
        }
        let mut templates = self.contents.templates.iter();
        if let Some((entry, variables)) =
            templates.find_map(|entry| Some((entry, entry.item.1.matches(&read.uri)?)))
        {
            return Ok(entry.start((read.uri, variables), context));
        }
        #[cfg(feature = "skills")]
        if let Some(reading) = self.read_skill_file(&read.uri, &context) {
            return Ok((reading, None));
        }
        //= S8.11 "Unknown resource → -32602, never empty contents"
        Err(resource_not_found(&read.uri, context.revision()).into())
    }

    fn get_prompt(&self, params: Option<Raw>, context: Context) -> Dispatch<M::HandlerFuture> {
        let get = decode_params::<GetPrompt>(params)?;
        //= S8.14 "-32602 for unknown name/missing argument"
        let entry = self.contents.prompts.get(&get.name).ok_or_else(|| unknown_prompt(&get.name))?;
        let given = |name: &str| get.arguments.as_ref().is_some_and(|given| given.contains(name));
        //= S8.14 "-32602 for unknown name/missing argument"
        if let Some(missing) = required(&entry.item).find(|name| !given(name)) {
            let what = alloc::format!("the argument {missing:?} is missing");
            return Err(params_error(GetPrompt::NAME, &what).into());
        }
        Ok(entry.start(get, context))
    }

    /// Lists one page of the items of a registry, shown by `show`, as the result that `page` makes of them.
    fn list<L: Method<Params = PaginatedParams, Result: Send>, T, H, O, I>(
        &self,
        registry: &Registry<T, H, O>,
        params: Option<Raw>,
        show: impl Fn(&T) -> &I,
        page: impl FnOnce(Vec<I>, Option<String>) -> L::Result,
    ) -> Dispatch<M::HandlerFuture>
    where
        I: Clone,
    {
        let params = decode_params::<L>(params)?;
        //= S8.1 "Lists do not vary per connection"
        let (items, next) = registry.page(params.cursor.as_deref(), self.contents.page_size)?;
        let items = items.into_iter().map(|item| show(item).clone()).collect();
        Err(Reply::result(page(items, next)))
    }
}

/// The arguments that a prompt requires.
fn required(prompt: &Prompt) -> impl Iterator<Item = &str> {
    let arguments = prompt.arguments.iter().flatten();
    arguments.filter(|argument| argument.required == Some(true)).map(|argument| argument.name.as_str())
}

pub(super) fn unknown_tool(name: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, alloc::format!("there is no tool {name:?}"))
}

pub(super) fn unknown_prompt(name: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, alloc::format!("there is no prompt {name:?}"))
}

/// The reply to a tool call. Failures become results for the model, except protocol errors.
pub(super) fn tool_reply(result: ToolResult) -> Reply {
    match result {
        Ok(ResultOrInput::Result(result)) => Reply::result(result),
        Ok(ResultOrInput::InputRequired(needed)) => Reply::InputRequired(needed),
        Err(error) => match error.into_message() {
            //= S8.7 "business failures → isError result"
            Ok(message) => Reply::result(CallToolResult::error(message)),
            Err(reply) => reply,
        },
    }
}

/// The reply to `prompts/get`, with the listed description unless the result has its own.
pub(crate) fn prompt_reply(output: impl PromptOutput, described: Option<&str>, revision: Revision) -> Reply {
    let answered = output.into_prompt_result().and_then(|answered| {
        answered.and_then(|mut result| {
            result.description = result.description.or_else(|| described.map(String::from));
            Ok(ResultOrInput::Result(result))
        })
    });
    reply(answered, revision)
}

/// The reply to any other request.
pub(crate) fn reply<R: AnyResult + Send + 'static>(
    answered: Result<ResultOrInput<R>, HandlerError>,
    revision: Revision,
) -> Reply {
    match answered {
        Ok(ResultOrInput::Result(result)) => Reply::result(result),
        Ok(ResultOrInput::InputRequired(needed)) => Reply::InputRequired(needed),
        Err(error) => error.into_reply(revision),
    }
}

impl<S: 'static> Router<SendHandlers, S> {
    /// Makes each handler a task of its own, which `spawn` starts on the application's executor. Default: the driver
    /// runs the handlers, and one that blocks its thread stops all clients of that driver.
    ///
    /// A task is polled until the handler returns; where its request is cancelled, the task is woken and drops the
    /// handler. Handlers that block for long still belong on other threads (`unblock` of `blocking`, `spawn_blocking` of
    /// Tokio): they use up the executor's. The code of a handler before its future is returned runs in the driver.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let router = Router::new("reports", "1.0.0")
    ///     .tool_with(Tool::new("report", "Writes a report", Json::empty_object()), async |NoArguments {}, _| "Done")
    ///     // `|handler| drop(tokio::spawn(handler))` with Tokio, `|handler| smol::spawn(handler).detach()` with smol.
    ///     .spawn_handlers(|handler| drop(std::thread::spawn(|| futures_lite::future::block_on(handler))));
    /// # drop(router);
    /// ```
    ///
    /// While a client leaves too many answers unread, no further handlers start; those that run go on, and their results
    /// wait in memory. If a task is dropped before its handler returns, the request is answered with
    /// [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR).
    pub fn spawn_handlers(mut self, spawn: impl Fn(SpawnedHandler) + Send + Sync + 'static) -> Self {
        self.contents.spawner = Some(Arc::new(spawn));
        self
    }
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Makes a handler a task of its own, if the application spawns them. `context` is that of a request with input rounds.
    pub(in crate::front) fn spawned(
        &self,
        handler: M::HandlerFuture,
        context: Option<&Context>,
    ) -> M::HandlerFuture {
        let Some(spawner) = &self.contents.spawner else { return handler };
        M::into_send(handler).map_or_else(
            |handler| handler,
            |handler| M::wrap_future(AwaitedHandler::boxed(handler, context.cloned(), spawner.clone())),
        )
    }
}
