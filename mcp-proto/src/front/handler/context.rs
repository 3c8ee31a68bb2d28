//! The contexts of handlers: the request that a handler answers and the operations on its behalf, and the sender of a
//! notification.

use alloc::sync::Arc;

use serde::Serialize;

use super::connection::{Connection, InboundRequest, RequestEnd, related_task};
use super::inbound_request::DeclaredScopes;
use super::input_rounds::InputRounds;
use crate::front::Attachments;
use crate::front::handler_error::HandlerError;
use crate::front::params::{HandlerContext, log_params};
use crate::front::tasks::running::RunningTask;
use crate::front::wakers::wait_until;
use crate::peer::server::{Cancellation, missing_capabilities};
use crate::peer::{InboundId, Principal, RequestError};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorObject, Id, code};
use crate::schema::{
    CallToolResult, ClientCapabilities, Era, Implementation, Json, LoggingLevel, LoggingMessageParams, Meta,
    Notification as _, Number, Progress as ProgressNotification, ProgressParams, Revision, TraceContext,
    meta,
};
use crate::sync::atomic::{AtomicU32, Ordering};

/// The request that a handler answers: its caller, progress reports, logging and requests to the client.
///
/// It is cheap to clone, and may move to other threads. Once the request is answered or cancelled, reports through it
/// are silently dropped.
///
/// ```
/// use mcp_proto::front::{Context, Progress};
/// use mcp_proto::schema::LoggingLevel;
///
/// async fn copy(cx: Context, files: &[&str]) -> String {
///     for (done, file) in files.iter().enumerate() {
///         cx.progress(Progress::new(done as u64).total(files.len() as u64).message(*file));
///         // …
///     }
///     cx.log(LoggingLevel::Info, "all files copied");
///     format!("{} files", files.len())
/// }
/// ```
///
/// `S` is the [state of the router](crate::front::Router::with_state), if it has one.
pub struct Context<S = ()> {
    info: Arc<RequestInfo>,
    /// The task that the request became, in the handler that works on it.
    task: Option<Arc<RunningTask>>,
    /// The scopes that the tool requires for all arguments.
    pub(super) declared_scopes: DeclaredScopes,
    /// The state of the router.
    state: Arc<S>,
}

/// The state of a request that all clones of its context share.
struct RequestInfo {
    request: InboundRequest,
    /// The input rounds, if the client receives input requests in the result of its own request.
    input_rounds: Option<InputRounds>,
    /// How often the handler has continued a conversation by sending the results of tools.
    tool_rounds: AtomicU32,
}

impl Context {
    #[inline]
    pub(in crate::front) fn new(
        request: InboundRequest,
        input_rounds: Option<InputRounds>,
        state: Arc<()>,
    ) -> Self {
        Self {
            info: Arc::new(RequestInfo { request, input_rounds, tool_rounds: AtomicU32::new(0) }),
            task: None,
            declared_scopes: Default::default(),
            state,
        }
    }
}

impl<S> Context<S> {
    /// The id by which the machine knows the request.
    pub fn id(&self) -> InboundId {
        self.info.request.id
    }

    /// The era of the request.
    pub fn era(&self) -> Era {
        self.info.request.state.context.era
    }

    /// The protocol revision of the request.
    pub fn revision(&self) -> Revision {
        self.info.request.state.context.revision
    }

    /// The client's name and version as it reports them. For display and logs only: they prove nothing.
    pub fn client(&self) -> Option<&Implementation> {
        self.info.request.state.context.client_info.as_deref()
    }

    /// The capabilities that the client declared with this request or with its session.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.info.request.state.context.client_capabilities
    }

    /// The principal on whose behalf the request is made, if the transport knows one.
    ///
    /// It comes from the token of the request, for example. The client's own description of itself proves nothing.
    pub fn principal(&self) -> Option<&Principal> {
        self.info.request.principal()
    }

    /// The owner whose quota the request uses: its principal, or the address it came from.
    pub fn owner(&self) -> QuotaOwner {
        self.info.request.owner()
    }

    /// Whether the client wants progress reports. If not, the handler need not compute them.
    pub fn wants_progress(&self) -> bool {
        let possible = self.task.is_none() || self.era() == Era::Legacy;
        possible && self.info.request.state.context.progress_token.is_some()
    }

    /// The least severe level of log messages that the client wants while the request runs.
    ///
    /// Less severe messages are not sent; `None` means that it wants none.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.info.request.state.context.log_level
    }

    /// Reports progress to the client, if it wants reports. Each report must be further than the last.
    ///
    /// Handlers may report as often as they like: at most [`Limits::progress_out`](crate::Limits::progress_out) reports
    /// a second are sent, 50 by default. The first is sent at once; later ones wait for their turn or for the answer,
    /// and a newer report replaces one that waits.
    ///
    /// The client may lose a report that is sent right before the answer: clients of the official TypeScript SDK drop a
    /// report that reaches them in one read with its result, because they handle the result first. A handler that must
    /// show them its last step repeats it in the result, or does something that takes time after the report.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, Progress};
    /// # fn example(cx: &Context) {
    /// cx.progress(Progress::new(3).total(10).message("copying"));
    /// cx.progress(4);
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
    pub fn progress(&self, progress: impl Into<Progress>) {
        let Some(token) = self.info.request.state.context.progress_token.clone() else { return };
        let params = progress.into().into_params(token);
        match &self.task {
            Some(task) => self.progress_of_task(task, params),
            None => {
                self.connection().act(|mut server| server.progress(self.id(), &params));
            }
        }
    }

    /// Shows the client of a tool call a part of the result before the handler returns. Its result is still the whole: a
    /// client that reads no parts gets nothing less. Returns whether the part was sent.
    ///
    /// Only servers over HTTP with `HttpServerConfig::chunked_results` send parts, on the stream of the call. Elsewhere, in a
    /// task, and while the client leaves too much unread, nothing happens.
    ///
    /// ```
    /// # use mcp_proto::front::Context;
    /// # use mcp_proto::schema::CallToolResult;
    /// fn write_page(cx: &Context, page: &str) {
    ///     cx.partial_result(&CallToolResult::text(page));
    /// }
    /// ```
    pub fn partial_result(&self, part: &CallToolResult) -> bool {
        self.task.is_none() && self.connection().act(|mut server| server.partial_result(self.id(), part))
    }

    /// Logs a text or any serializable value to the client, if it wants messages of this level and the server declares
    /// logging: [`Router::declare`](crate::front::Router::declare) with
    /// [`ServerCapability::Logging`](crate::schema::ServerCapability::Logging). If it does not, the message is dropped,
    /// which [`UndeclaredLogging`](crate::peer::server::Diagnostic::UndeclaredLogging) reports.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.send_log(level, None, &data);
    }

    fn send_log(&self, level: LoggingLevel, logger: Option<String>, data: &impl Serialize) {
        let Some(params) = log_params(level, logger, data) else { return };
        match &self.task {
            Some(task) => self.log_of_task(task, params),
            None => self.connection().log(Some(self.id()), &params),
        }
    }

    /// Closes the SSE stream that would carry the answer, for work that takes long.
    ///
    /// The client fetches the answer later (2025-11-25 over HTTP). Where that is not possible, nothing happens.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn close_sse_stream(&self) {
        self.connection().act(|mut server| server.close_sse_stream(self.id()));
    }

    // --- The router's state ---

    /// The [state of the router](crate::front::Router::with_state).
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The state of the router, for work that outlives the handler.
    pub fn shared_state(&self) -> Arc<S> {
        self.state.clone()
    }

    /// The context of the same request without the router's state, for functions that take any router's context.
    ///
    /// ```
    /// use mcp_proto::front::Context;
    ///
    /// /// Part of a library: it knows nothing of the server's state.
    /// fn report(cx: &Context) {
    ///     cx.progress(1);
    /// }
    ///
    /// struct Notes(Vec<String>);
    ///
    /// async fn count(cx: Context<Notes>) -> String {
    ///     report(&cx.without_state());
    ///     cx.state().0.len().to_string()
    /// }
    /// ```
    pub fn without_state(&self) -> Context {
        self.clone().replace_state(Arc::default())
    }

    fn replace_state<T>(self, state: Arc<T>) -> Context<T> {
        let Self { info, task, declared_scopes, state: _ } = self;
        Context { info, task, declared_scopes, state }
    }

    // --- In a task ---

    /// Sets the task's `statusMessage`: the state of the work in a few words for the user or the model. Outside a task
    /// nothing happens; use [`progress`](Self::progress) there.
    pub fn status(&self, message: impl Into<String>) {
        if let Some(task) = &self.task {
            task.status(message.into());
        }
    }

    /// The id of the task that the handler works on, if any.
    pub fn task_id(&self) -> Option<&str> {
        self.task.as_ref().map(|task| task.id())
    }

    //= R7 "progress token valid until terminal"
    /// The progress token of the call stays valid for as long as the task runs. The tasks extension has no
    /// progress.
    fn progress_of_task(&self, task: &RunningTask, mut params: ProgressParams) {
        //= S11.10 "No progress/message for tasks on listen"
        if self.era() == Era::Legacy {
            params.meta.insert(meta::RELATED_TASK, related_task(task.id()));
            let (connection, progress) = (self.connection().clone(), params.progress.clone());
            let per_second = connection.read(|_, machine| machine.peer().config().limits.progress_out);
            let send = move || {
                connection.act(|mut server| server.notify_session(ProgressNotification::INFO, &params));
            };
            task.report_progress(&progress, per_second, Box::new(send));
        }
    }

    /// The tasks extension has no log messages.
    fn log_of_task(&self, task: &RunningTask, mut params: LoggingMessageParams) {
        //= S11.10 "No progress/message for tasks on listen"
        if self.era() == Era::Legacy && !task.has_ended() {
            params.meta.insert(meta::RELATED_TASK, related_task(task.id()));
            self.connection().log(None, &params);
        }
    }

    // --- For other parts of the front ---

    /// Returns the context of the same request for its task's handler, which requests input through the task.
    pub(in crate::front) fn for_task(&self, task: Arc<RunningTask>) -> Self {
        self.info.request.state.release_message();
        Self { task: Some(task), ..self.clone() }
    }

    pub(in crate::front) fn task(&self) -> Option<&Arc<RunningTask>> {
        self.task.as_ref()
    }

    pub(in crate::front) fn inbound_request(&self) -> &InboundRequest {
        &self.info.request
    }

    pub(in crate::front) fn connection(&self) -> &Arc<Connection> {
        &self.info.request.connection
    }

    pub(in crate::front) fn input_rounds(&self) -> Option<&InputRounds> {
        self.info.input_rounds.as_ref()
    }

    /// Counts a request that continues a conversation by the results of tools.
    ///
    /// # Errors
    /// If [`Limits::input_rounds`](crate::Limits::input_rounds) of them were made.
    pub(super) fn count_tool_round(&self) -> Result<(), RequestError> {
        let limit = self.connection().read(|_, machine| machine.peer().config().limits.input_rounds);
        //= S9.12 "A server's loop of sampling with tools has a limit"
        match self.info.tool_rounds.fetch_add(1, Ordering::Relaxed) {
            made if made < limit => Ok(()),
            _ => Err(RequestError::ToolLoop { limit }),
        }
    }
}

impl<S: 'static> HandlerContext for Context<S> {
    type Plain = Context;
    type State = S;

    fn with_state(plain: Context, state: &Arc<S>) -> Self {
        plain.replace_state(state.clone())
    }
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        let Self { info, task, declared_scopes, state } = self;
        Self {
            info: info.clone(),
            task: task.clone(),
            declared_scopes: declared_scopes.clone(),
            state: state.clone(),
        }
    }
}

debug_fields! { [S] Context<S>(self) { id = self.id(), request = self.info.request.state.context } }

impl<S> Context<S> {
    /// Logs like [`log`](Self::log) under the name of a logger, which tells the client the part of the server that the
    /// message comes from.
    ///
    /// ```
    /// # use mcp_proto::front::Context;
    /// # use mcp_proto::schema::LoggingLevel;
    /// # fn example(cx: &Context) {
    /// cx.log_as(LoggingLevel::Error, "database", "connection failed");
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log_as(&self, level: LoggingLevel, logger: impl Into<String>, data: impl Serialize) {
        self.send_log(level, Some(logger.into()), &data);
    }

    /// Whether the request was answered, cancelled or lost, so that its answer is no longer awaited.
    ///
    /// The driver drops the handler at that point; this method is for work that the handler moved to a thread.
    pub fn is_cancelled(&self) -> bool {
        match self.task() {
            Some(task) => task.has_ended(),
            None => !self.connection().is_active(self.id()),
        }
    }

    /// Waits until the request is answered, cancelled or lost, and returns which of them. See
    /// [`is_cancelled`](Self::is_cancelled).
    ///
    /// ```
    /// use mcp_proto::front::Context;
    ///
    /// /// Logs why the work on a request can stop; runs beside its handler.
    /// async fn watch(cx: Context) {
    ///     eprintln!("{}", cx.cancelled().await);
    /// }
    /// ```
    pub async fn cancelled(&self) -> Cancellation {
        match self.task() {
            Some(task) => task.wait_ended().await,
            None => {
                let end = RequestEnd { connection: self.connection(), request: self.id() };
                wait_until(&end, |active| (!active.contains_key(&end.request)).then_some(())).await;
            }
        }
        self.cancellation().unwrap_or(Cancellation::Answered)
    }

    /// Why the answer to the request is no longer awaited; `None` while it is.
    ///
    /// The destructor of a handler's guard may call it, to learn why the handler is dropped.
    pub fn cancellation(&self) -> Option<Cancellation> {
        match self.task() {
            Some(task) => task.cancellation(),
            None => self.inbound_request().state.end(),
        }
    }

    /// The `_meta` of the request, in either era: the protocol's own keys and those of applications. It is empty if the
    /// request has none.
    ///
    /// The values are the client's claims. The accessors of [`Meta`] return `None` for a value of the wrong type.
    ///
    /// ```
    /// use mcp_proto::front::Context;
    ///
    /// async fn report(cx: Context) -> String {
    ///     let shard: Option<u32> = cx.meta().get("com.example/shard").and_then(|shard| shard.decode().ok());
    ///     match cx.meta().trace_context() {
    ///         Some(trace) => format!("shard {shard:?} in trace {}", trace.trace_id()),
    ///         None => format!("shard {shard:?}"),
    ///     }
    /// }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
    pub fn meta(&self) -> &Meta {
        self.inbound_request().state.meta()
    }

    /// The client's trace context, if the request has a valid one: data that the client claims, whose flags must decide
    /// nothing. To pass it on to another server, give it to
    /// [`Request::trace_context`](crate::front::Request::trace_context).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.meta().trace_context()
    }

    /// The values that the adapter attached to the request, by their types.
    ///
    /// Over HTTP they belong to the request that carried this one: in a legacy session to its POST. `mcp-hyper` attaches
    /// the head of the HTTP request and the address of the client; code around an adapter can attach more. Headers are the
    /// client's claims, like [`meta`](Self::meta); an address is not. A handler of a task reads the values of the call
    /// that became the task.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use mcp_proto::front::Context;
    ///
    /// async fn whoami(cx: Context) -> String {
    ///     match cx.attachments().get::<SocketAddr>() {
    ///         Some(address) => format!("you connected from {address}"),
    ///         None => "you have no address".to_owned(),
    ///     }
    /// }
    /// ```
    pub fn attachments(&self) -> &Attachments {
        &self.inbound_request().caller.attachments
    }

    /// The settings of an extension, if the client declares it with this request or with its session. Without it the
    /// answer may use only the core protocol.
    pub fn extension(&self, identifier: &str) -> Option<&Json> {
        //= C2.9 "only use an extension that both sides declare, else revert to core"
        self.client_capabilities().extension(identifier)
    }

    /// The settings of an extension that the request requires.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    ///
    /// async fn chart(cx: Context) -> Result<&'static str, HandlerError> {
    ///     cx.require_extension("com.example/charts")?;
    ///     Ok("…")
    /// }
    /// ```
    ///
    /// # Errors
    /// The error that names the extension which the client must declare.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    pub fn require_extension(&self, identifier: &str) -> Result<&Json, HandlerError> {
        //= C2.9 "or reject with an error"
        self.extension(identifier).ok_or_else(|| {
            let error = match self.era() {
                Era::Modern => {
                    let needed = ClientCapabilities::new().with_extension(identifier, Json::empty_object());
                    missing_capabilities(needed.unwrap_or_default())
                }
                Era::Legacy => {
                    let message = alloc::format!("the client must declare the extension {identifier}");
                    ErrorObject::new(code::INVALID_REQUEST, message)
                }
            };
            error.into()
        })
    }

    /// The settings of an experimental capability, if the client declares it with this request or with its session. The
    /// server declares its own with [`Router::experimental`](crate::front::Router::experimental).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities-experimental>
    pub fn experimental(&self, name: &str) -> Option<&Json> {
        self.client_capabilities().experimental(name)
    }
}

/// The progress of a request: see [`Context::progress`](super::context::Context::progress).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: Number,
    total: Option<Number>,
    message: Option<String>,
}

impl Progress {
    /// Creates a report that `done` is complete, in any unit.
    pub fn new(done: impl Into<Number>) -> Self {
        Self { done: done.into(), total: None, message: None }
    }

    setters! {
        /// Sets the value of `done` at which the work is complete.
        #[must_use]
        pub fn total(self, total: impl Into<Number>) { self.total = Some(total.into()) }

        /// Sets a message for the user about the current step (2025-03-26 and later).
        #[must_use]
        pub fn message(self, message: impl Into<String>) { self.message = Some(message.into()) }
    }

    /// Converts the report into the parameters of a notification, for the client that chose `token`.
    fn into_params(self, token: Id) -> ProgressParams {
        let Self { done, total, message } = self;
        let mut params = ProgressParams::new(token, done);
        params.total = total;
        params.message = message;
        params
    }
}

impl<N: Into<Number>> From<N> for Progress {
    fn from(done: N) -> Self {
        Self::new(done)
    }
}
