//! The context of a handler: the request that it answers, and what it can do on its behalf.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use serde::Serialize;

#[cfg(feature = "auth")]
use super::caller::CallerAccess;
use super::connection::HandlerConnection;
use super::inbound_request::InboundRequest;
use super::input_rounds::InputRounds;
use super::progress::Progress;
use super::task::{HandlerTask, related_task, related_task_meta};
#[cfg(feature = "auth")]
use crate::auth::Scopes;
use crate::front::{Error, Request};
use crate::peer::{InboundId, Principal, RequestError};
use crate::quota::QuotaOwner;
use crate::schema::{
    ClientCapabilities, Era, Implementation, Json, LoggingLevel, LoggingMessageParams, Method,
    Notification as _, Progress as ProgressNotification, ProgressParams, Revision, meta,
};

/// The request that a handler answers: who asks, and how to keep them informed.
///
/// It is cheap to clone, and may be taken to other threads. Once the request is answered or cancelled, what is reported
/// by it is dropped in silence.
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
#[derive(Clone)]
pub struct Context {
    info: Arc<RequestInfo>,
    /// The task that the request has become, in the handler that works on it.
    task: Option<Arc<dyn HandlerTask>>,
    /// The scopes that the tool needs whatever its arguments.
    #[cfg(feature = "auth")]
    declared_scopes: Option<Arc<Scopes>>,
}

/// The state of a request that all clones of its context share.
struct RequestInfo {
    request: InboundRequest,
    /// How the client is asked, if that is by the result of its request.
    input_rounds: Option<InputRounds>,
}

impl Context {
    pub(in crate::front) fn new(request: InboundRequest, input_rounds: Option<InputRounds>) -> Self {
        Self {
            info: Arc::new(RequestInfo { request, input_rounds }),
            task: None,
            #[cfg(feature = "auth")]
            declared_scopes: None,
        }
    }

    /// The handle by which the machine knows the request.
    pub fn id(&self) -> InboundId {
        self.info.request.id
    }

    /// The era that the request is made in.
    pub fn era(&self) -> Era {
        self.info.request.context.era
    }

    /// The revision that the request is made at.
    pub fn revision(&self) -> Revision {
        self.info.request.context.revision
    }

    /// What the client calls itself. For display and logs only: it proves nothing.
    pub fn client(&self) -> Option<&Implementation> {
        self.info.request.context.client_info.as_deref()
    }

    /// What the client can be asked for, as it declared with this request or with its session.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        self.info.request.client_capabilities()
    }

    /// On whose behalf the request is made, if the transport knows: by the token that came with it, say. What the client
    /// says of itself proves nothing.
    pub fn principal(&self) -> Option<&Principal> {
        self.info.request.principal()
    }

    /// Whose quota the request uses: its principal's, or that of the address which it came from.
    pub fn owner(&self) -> QuotaOwner {
        self.info.request.owner()
    }

    /// Whether the client wants to be told of progress. If not, there is no need to work it out.
    pub fn wants_progress(&self) -> bool {
        let possible = self.task.is_none() || self.era() == Era::Legacy;
        possible && self.info.request.context.progress_token.is_some()
    }

    /// The least serious log messages that the client wants while the request runs, if any; what is less serious is not
    /// sent.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.info.request.context.log_level
    }

    /// Tells the client how far the work has come, if it wants to know. Each report must be further than the last.
    ///
    /// A report right before the answer may be lost by the client: clients of the official TypeScript SDK drop a report
    /// that reaches them in one read with its result, because they handle the result first. A handler that must show its
    /// last step to them says it in the result as well, or does something that takes time after the report.
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
        let Some(token) = self.info.request.context.progress_token.clone() else { return };
        let params = progress.into().into_params(token);
        match &self.task {
            Some(task) => self.progress_of_task(&**task, params),
            None => self.connection().progress(self.id(), &params),
        }
    }

    /// Logs to the client, if it wants messages of this level: a text, or anything that serializes.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        // Data that does not serialize cannot be sent.
        let Ok(data) = Json::encode(&data) else { return };
        let params = LoggingMessageParams::new(level, data);
        match &self.task {
            Some(task) => self.log_of_task(&**task, params),
            None => self.connection().log(Some(self.id()), &params),
        }
    }

    /// Lets go of the connection that waits for the answer, for work that takes long: the client fetches the answer
    /// later (2025-11-25 over HTTP). Where that is not possible, nothing happens.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn close_sse_stream(&self) {
        self.connection().close_sse_stream(self.id());
    }

    /// Makes a request of the client, where the revision lets servers do that (2025-11-25 and earlier). To ask clients of
    /// every revision, see [`elicit`](Self::elicit).
    ///
    /// It is refused if the client has not declared that it can be asked, and cancelled when it is dropped.
    pub fn request<M: Method>(&self, params: M::Params) -> Request<M> {
        // A session may be open on the same connection; it is not the one that this request belongs to.
        let params = match self.era() {
            Era::Legacy => Ok(params),
            Era::Modern => Err(Error::NotSent(RequestError::Revision {
                method: M::NAME.into(),
                revision: self.revision(),
            })),
        };
        let link = self.connection().clone().request_link(Some(self.id()));
        let request = Request::new(link, params);
        match &self.task {
            Some(task) => request.meta(related_task_meta(task.id())),
            None => request,
        }
    }

    // --- In a task ---

    /// Says how the work is doing, in a few words for the person or the model: the task's `statusMessage`. Outside of a
    /// task nothing happens; there is [`progress`](Self::progress).
    pub fn status(&self, message: impl Into<String>) {
        if let Some(task) = &self.task {
            task.set_status(message.into());
        }
    }

    /// The identifier of the task that the handler works on, if it does.
    pub fn task_id(&self) -> Option<&str> {
        self.task.as_ref().map(|task| task.id())
    }

    /// R7: the token of the call is good for as long as the task runs. The tasks extension has no progress.
    fn progress_of_task(&self, task: &dyn HandlerTask, mut params: ProgressParams) {
        if self.era() == Era::Legacy && task.accept_progress(&params.progress) {
            params.meta.insert(meta::RELATED_TASK, related_task(task.id()));
            self.connection().notify_session(ProgressNotification::INFO, &params);
        }
    }

    /// The tasks extension has no log messages.
    fn log_of_task(&self, task: &dyn HandlerTask, mut params: LoggingMessageParams) {
        if self.era() == Era::Legacy && !task.has_ended() {
            params.meta.insert(meta::RELATED_TASK, related_task(task.id()));
            self.connection().log(None, &params);
        }
    }

    // --- For other parts of the front ---

    /// The same request, in the handler of the task that it has become: the client is asked by that.
    pub(in crate::front) fn for_task(&self, task: Arc<dyn HandlerTask>) -> Self {
        Self { task: Some(task), ..self.clone() }
    }

    pub(in crate::front) fn task(&self) -> Option<&Arc<dyn HandlerTask>> {
        self.task.as_ref()
    }

    pub(in crate::front) fn inbound_request(&self) -> &InboundRequest {
        &self.info.request
    }

    pub(in crate::front) fn connection(&self) -> &Arc<dyn HandlerConnection> {
        &self.info.request.connection
    }

    pub(in crate::front) fn input_rounds(&self) -> Option<&InputRounds> {
        self.info.input_rounds.as_ref()
    }

    #[cfg(feature = "auth")]
    pub(super) fn caller_access(&self) -> &CallerAccess {
        &self.info.request.caller.access
    }

    #[cfg(feature = "auth")]
    pub(super) fn declared_scopes(&self) -> Option<&Scopes> {
        self.declared_scopes.as_deref()
    }

    #[cfg(feature = "auth")]
    pub(super) fn with_declared_scopes(self, scopes: Arc<Scopes>) -> Self {
        Self { declared_scopes: Some(scopes), ..self }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id())
            .field("request", &self.info.request.context)
            .finish_non_exhaustive()
    }
}
