//! What a handler knows of the request that it answers, and can do on its behalf.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "auth")]
use super::CallerAccess;
#[cfg(feature = "seal")]
use super::server_requests::InputRounds;
use super::server_requests::{ElicitationCompletion, InputFuture, InputMechanism, require_url};
use super::{Caller, Connection, ServerLink};
use crate::UnixTime;
#[cfg(feature = "auth")]
use crate::auth::Scopes;
use crate::front::tasks::RunningTask;
use crate::front::{Entropy, Error, HandlerError, Request};
use crate::peer::server::RequestContext;
use crate::peer::{InboundId, Principal, RequestError};
use crate::quota::QuotaOwner;
use crate::schema::{
    ClientCapabilities, CreateMessage, CreateMessageParams, Elicit, ElicitParams, Era, Implementation, Json,
    ListRoots, ListRootsParams, LoggingLevel, LoggingMessageParams, Method, Number, ProgressParams, Revision,
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
    connection: Arc<Connection>,
    id: InboundId,
    info: Arc<RequestInfo>,
    /// What the request has become, in a handler that works on that.
    task: Option<Arc<RunningTask>>,
    /// The scopes that the tool needs whatever its arguments.
    #[cfg(feature = "auth")]
    declared_scopes: Option<Arc<Scopes>>,
}

/// What is known of a request while it is answered.
pub(super) struct RequestInfo {
    pub(super) request: RequestContext,
    pub(super) entropy: Arc<dyn Entropy>,
    /// Who makes it.
    pub(super) caller: Caller,
    /// How the client is asked, if that is by its result.
    #[cfg(feature = "seal")]
    pub(super) input_rounds: Option<InputRounds>,
}

impl Context {
    pub(super) fn new(connection: Arc<Connection>, id: InboundId, served: RequestInfo) -> Self {
        Self {
            connection,
            id,
            info: Arc::new(served),
            task: None,
            #[cfg(feature = "auth")]
            declared_scopes: None,
        }
    }

    /// The handle by which the machine knows the request.
    pub fn id(&self) -> InboundId {
        self.id
    }

    /// The era that the request is made in.
    pub fn era(&self) -> Era {
        self.info.request.era
    }

    /// The revision that the request is made at.
    pub fn revision(&self) -> Revision {
        self.info.request.revision
    }

    /// What the client calls itself. For display and logs only: it proves nothing.
    pub fn client(&self) -> Option<&Implementation> {
        self.info.request.client_info.as_deref()
    }

    /// What the client can be asked for, as it declared with this request or with its session.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.info.request.client_capabilities
    }

    /// On whose behalf the request is made, if the transport knows: by the token that came with it, say. What the client
    /// says of itself proves nothing.
    pub fn principal(&self) -> Option<&Principal> {
        self.info.request.principal.as_ref()
    }

    /// Whose quota the request uses: its principal's, or that of the address which it came from.
    pub fn owner(&self) -> QuotaOwner {
        self.principal().map_or_else(|| self.info.caller.owner.clone(), |principal| principal.clone().into())
    }

    /// Whether the client wants to be told of progress. If not, there is no need to work it out.
    pub fn wants_progress(&self) -> bool {
        let possible = self.task.is_none() || self.era() == Era::Legacy;
        possible && self.info.request.progress_token.is_some()
    }

    /// The least serious log messages that the client wants while the request runs, if any; what is less serious is not
    /// sent.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.info.request.log_level
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
        let Some(token) = self.info.request.progress_token.clone() else { return };
        let Progress { done, total, message } = progress.into();
        let mut params = ProgressParams::new(token, done);
        params.total = total;
        params.message = message;
        if let Some(task) = &self.task {
            return self.progress_of_task(task, params);
        }
        self.connection.command(|_, machine, now, _| machine.at(now).progress(self.id, &params));
    }

    /// Logs to the client, if it wants messages of this level: a text, or anything that serializes.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        // What does not serialize can not be told.
        let Ok(data) = Json::encode(&data) else { return };
        let params = LoggingMessageParams::new(level, data);
        if let Some(task) = &self.task {
            return self.log_of_task(task, params);
        }
        self.connection.command(|_, machine, now, _| machine.at(now).log(Some(self.id), &params));
    }

    /// Whether nobody waits for the answer any more: the request was cancelled or lost, or is answered.
    ///
    /// A handler is dropped then, and learns of it in no other way; this is for work that it has given to a thread.
    pub fn is_cancelled(&self) -> bool {
        match &self.task {
            Some(task) => task.has_ended(),
            None => self.connection.read(|core, _| !core.active.contains_key(&self.id)),
        }
    }

    /// Waits until nobody waits for the answer any more. See [`is_cancelled`](Self::is_cancelled).
    pub async fn cancelled(&self) {
        if let Some(task) = &self.task {
            return task.wait_ended().await;
        }
        let mut waiting = CancellationWaiter { context: self, key: None };
        poll_fn(|cx| waiting.poll(cx.waker())).await;
    }

    /// Lets go of the connection that waits for the answer, for work that takes long: the client fetches the answer
    /// later (2025-11-25 over HTTP). Where that is not possible, nothing happens.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn close_sse_stream(&self) {
        self.connection.command(|_, machine, now, _| machine.at(now).close_sse_stream(self.id));
    }

    // --- Asking ---

    /// Asks the person who uses the client. The answer says whether they accepted.
    ///
    /// The same code asks clients of either era. A legacy client is asked by a request, for which the handler waits. One of
    /// 2026-07-28 is asked by the result of its own request, and sends that again with the answers: the handler **is
    /// dropped where it waits, and run again from its start**, on whichever instance of the server the request comes to.
    /// Questions that were answered are answered at once then. Therefore
    ///
    /// - what has an effect, costs much or may turn out differently goes into [`keep`](Self::keep), where it comes before
    ///   an answer;
    /// - `key` names the question: each question of a handler has a key of its own, the same in each run, and what is asked
    ///   under it follows from the request and from the answers before;
    /// - what can be asked at once is better asked at once, by joining the futures, than in one round after the other.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    /// use mcp_proto::schema::{BooleanSchema, ElicitAction, ElicitParams, ElicitSchema};
    ///
    /// async fn delete(cx: Context, path: String) -> Result<String, HandlerError> {
    ///     let form = ElicitSchema::new([("sure", BooleanSchema::new().into())]);
    ///     let answer = cx.elicit("sure", ElicitParams::form(format!("Really delete {path}?"), form)).await?;
    ///     if answer.action != ElicitAction::Accept {
    ///         return Ok("Nothing was deleted.".to_owned());
    ///     }
    ///     // …
    ///     Ok(format!("{path} is deleted."))
    /// }
    /// ```
    ///
    /// Never ask for a password or the like by a form: the client sees it. That is what [`elicit_url`](Self::elicit_url) is for.
    ///
    /// A modern client that has not declared what is asked for is answered by
    /// [`MISSING_REQUIRED_CLIENT_CAPABILITY`](crate::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY), and one whose answer
    /// is none, or whose request state is not its own any more, by
    /// [`INVALID_PARAMS`](crate::rpc::code::INVALID_PARAMS): the handler does not come back from there.
    ///
    /// Modern clients can be asked while a tool is called, a prompt is got or a resource is read, and with the feature
    /// `seal`; the answers so far are sealed (`Router::seal`) and kept by the client.
    ///
    /// # Errors
    /// If the client can not be asked, and from legacy clients whatever comes of a [request](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    pub fn elicit(&self, key: impl Into<String>, params: ElicitParams) -> InputFuture<Elicit> {
        InputFuture::elicit(self, key.into(), params)
    }

    /// Asks the person to visit a page on the web, for what the client must not see: a password, a payment, the consent
    /// to something that a third party guards. As [`elicit`](Self::elicit).
    ///
    /// The answer says whether the person agreed to open the page, not what they did there: that is for whoever serves
    /// the page to find out, who must make sure as well that it is the same person. The address is seen by the client and
    /// by whoever it shows it to: it must not contain secrets, nor be good without logging in, and should begin with
    /// `https`. One that no client could open, or that holds credentials, is refused.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    /// use mcp_proto::schema::ElicitAction;
    ///
    /// # async fn is_linked(cx: &Context) -> bool { true }
    /// async fn calendar(cx: Context) -> Result<&'static str, HandlerError> {
    ///     if !is_linked(&cx).await {
    ///         let page = cx.elicit_url("link", "Please link your calendar.", "https://mcp.example/link");
    ///         if page.await?.action != ElicitAction::Accept || !is_linked(&cx).await {
    ///             return Ok("The calendar is not linked.");
    ///         }
    ///     }
    ///     Ok("Nothing today.")
    /// }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests>
    pub fn elicit_url(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> InputFuture<Elicit> {
        self.elicit(key, ElicitParams::url(message, url))
    }

    /// What to answer where a request is not worth waiting for until the person has visited a page (2025-11-25): the
    /// client shows the page, and makes the request again once it is [told](Completion) that the person is done. At other
    /// revisions, and of a client without pages, it is a failure in words, and nobody is to be told.
    ///
    /// [`elicit_url`](Self::elicit_url) does for every revision.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>
    pub fn require_url(
        &self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> (HandlerError, Option<ElicitationCompletion>) {
        require_url(self, message.into(), url.into())
    }

    /// Asks the client's model. As [`elicit`](Self::elicit).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>
    pub fn sample(&self, key: impl Into<String>, params: CreateMessageParams) -> InputFuture<CreateMessage> {
        InputFuture::new(self, key.into(), params)
    }

    /// Asks where the server may work. As [`elicit`](Self::elicit).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    pub fn roots(&self, key: impl Into<String>) -> InputFuture<ListRoots> {
        InputFuture::new(self, key.into(), ListRootsParams::new())
    }

    /// Does `work` once, however often the handler is run for one request of a client: the value is kept by the client of
    /// 2026-07-28, sealed, until the request is answered. Each piece of work has a key of its own.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, HandlerError};
    /// # use mcp_proto::schema::{ElicitParams, ElicitSchema, Map};
    /// # async fn reserve(seat: u32) -> Result<u64, std::io::Error> { Ok(7) }
    /// async fn book(cx: Context, seat: u32) -> Result<String, HandlerError> {
    ///     // CallKind can fail says so by what serializes.
    ///     let reserved = cx.keep("reservation", async { reserve(seat).await.map_err(|error| error.to_string()) }).await;
    ///     let reservation = reserved.map_err(HandlerError::new)?;
    ///     let form = ElicitParams::form("Who travels?", ElicitSchema::new(Map::new()));
    ///     let traveller = cx.elicit("traveller", form).await?;
    ///     # drop(traveller);
    ///     Ok(format!("Booked: {reservation}"))
    /// }
    /// ```
    ///
    /// The client can not read or change the value, and can not give it to another principal or another request. It can
    /// come back with it more than once, unless each state is used once (`Router::single_use`).
    pub async fn run_once<T, F>(&self, key: impl AsRef<str>, work: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = T>,
    {
        #[cfg(feature = "seal")]
        if let InputMechanism::InputRounds(rounds) = self.input_mechanism() {
            return rounds.run_once(self, key.as_ref(), work).await;
        }
        let _ = key;
        work.await
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
        let link = ServerLink { connection: self.connection.clone(), on_behalf_of: Some(self.id) };
        let request = Request::new(Arc::new(link), params);
        match &self.task {
            Some(task) => request.meta(task.related_meta()),
            None => request,
        }
    }

    // --- What other files need ---

    /// The same request, in the handler of the task that it has become: the client is asked by that.
    pub(crate) fn for_task(&self, task: Arc<RunningTask>) -> Self {
        Self { task: Some(task), ..self.clone() }
    }

    pub(crate) fn task(&self) -> Option<&Arc<RunningTask>> {
        self.task.as_ref()
    }

    #[cfg(feature = "auth")]
    pub(super) fn allowed(&self) -> &CallerAccess {
        &self.info.caller.allowed
    }

    #[cfg(feature = "auth")]
    pub(super) fn declared_scopes(&self) -> Option<&Scopes> {
        self.declared_scopes.as_deref()
    }

    #[cfg(feature = "auth")]
    pub(super) fn with_declared_scopes(self, scopes: Arc<Scopes>) -> Self {
        Self { declared_scopes: Some(scopes), ..self }
    }

    /// How the client is asked.
    pub(super) fn input_mechanism(&self) -> InputMechanism<'_> {
        if let Some(task) = &self.task {
            return InputMechanism::Task(task);
        }
        #[cfg(feature = "seal")]
        if let Some(rounds) = &self.info.input_rounds {
            return InputMechanism::InputRounds(rounds);
        }
        InputMechanism::ServerRequests
    }

    #[cfg(feature = "seal")]
    pub(super) fn input_rounds(&self) -> Option<&InputRounds> {
        self.info.input_rounds.as_ref()
    }

    pub(in crate::front) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The time of day.
    #[cfg_attr(not(feature = "seal"), allow(dead_code, reason = "for what a client keeps"))]
    pub(crate) fn unix_time(&self) -> UnixTime {
        self.connection.unix_time()
    }

    /// An id that nobody can guess, in letters and digits.
    pub(crate) fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        self.info.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
    }

    /// Has the handler polled, on behalf of another task to which it has given this.
    #[cfg(feature = "seal")]
    pub(super) fn wake_handler(&self) {
        self.connection.signal().mark_ready(self.id);
        self.connection.signal().notify();
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id)
            .field("request", &self.info.request)
            .finish_non_exhaustive()
    }
}

/// Somebody who waits for the end of a request.
struct CancellationWaiter<'a> {
    context: &'a Context,
    key: Option<u64>,
}

impl CancellationWaiter<'_> {
    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let left = waker.clone();
        self.context.connection.with(|core, _, _, wakers| match core.active.get_mut(&self.context.id) {
            Some(waiters) => {
                waiters.wait(&mut self.key, left, wakers);
                Poll::Pending
            }
            None => {
                wakers.discard(Some(left));
                Poll::Ready(())
            }
        })
    }
}

impl Drop for CancellationWaiter<'_> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.context.connection.with(|core, _, _, wakers| {
                if let Some(waiters) = core.active.get_mut(&self.context.id) {
                    waiters.leave(self.key, wakers);
                }
            });
        }
    }
}

/// How far the work on a request has come: see [`Context::progress`].
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: Number,
    total: Option<Number>,
    message: Option<String>,
}

impl Progress {
    /// So much is done, in whatever unit.
    pub fn new(done: impl Into<Number>) -> Self {
        Self { done: done.into(), total: None, message: None }
    }

    /// How much it will be at the end.
    #[must_use]
    pub fn total(mut self, total: impl Into<Number>) -> Self {
        self.total = Some(total.into());
        self
    }

    /// What is being done, for people (2025-03-26 and later).
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl<N: Into<Number>> From<N> for Progress {
    fn from(done: N) -> Self {
        Self::new(done)
    }
}
