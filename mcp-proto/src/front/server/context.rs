//! What a handler knows of the request that it answers, and can do on its behalf.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use serde::Serialize;

use super::{Connection, Link};
use crate::front::{Error, Request};
use crate::peer::server::RequestContext;
use crate::peer::{InboundId, Principal, Refusal};
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
    request: Arc<RequestContext>,
}

impl Context {
    pub(super) fn new(connection: Arc<Connection>, id: InboundId, request: RequestContext) -> Self {
        Self { connection, id, request: Arc::new(request) }
    }

    /// The handle by which the machine knows the request.
    pub fn id(&self) -> InboundId {
        self.id
    }

    /// The era that the request is made in.
    pub fn era(&self) -> Era {
        self.request.era
    }

    /// The revision that the request is made at.
    pub fn revision(&self) -> Revision {
        self.request.revision
    }

    /// What the client calls itself. For display and logs only: it proves nothing.
    pub fn client(&self) -> Option<&Implementation> {
        self.request.client_info.as_deref()
    }

    /// What the client can be asked for, as it declared with this request or with its session.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.request.client_capabilities
    }

    /// On whose behalf the request is made, if the transport knows: by the token that came with it, say. What the client
    /// says of itself proves nothing.
    pub fn principal(&self) -> Option<&Principal> {
        self.request.principal.as_ref()
    }

    /// Whether the client wants to be told of progress. If not, there is no need to work it out.
    pub fn wants_progress(&self) -> bool {
        self.request.progress_token.is_some()
    }

    /// The least serious log messages that the client wants while the request runs, if any; what is less serious is not
    /// sent.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.request.log_level
    }

    /// Tells the client how far the work has come, if it wants to know. Each report must be further than the last.
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
        let Some(token) = self.request.progress_token.clone() else { return };
        let Progress { done, total, message } = progress.into();
        let mut params = ProgressParams::new(token, done);
        params.total = total;
        params.message = message;
        self.connection.command(|_, machine, now, _| machine.progress(now, self.id, &params));
    }

    /// Logs to the client, if it wants messages of this level: a text, or anything that serializes.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        // What does not serialize can not be told.
        let Ok(data) = Json::encode(&data) else { return };
        let params = LoggingMessageParams::new(level, data);
        self.connection.command(|_, machine, now, _| machine.log(now, Some(self.id), &params));
    }

    /// Whether nobody waits for the answer any more: the request was cancelled or lost, or is answered.
    ///
    /// A handler is dropped then, and learns of it in no other way; this is for work that it has given to a thread.
    pub fn is_cancelled(&self) -> bool {
        self.connection.look(|core, _| !core.live.contains_key(&self.id))
    }

    /// Waits until nobody waits for the answer any more. See [`is_cancelled`](Self::is_cancelled).
    pub async fn cancelled(&self) {
        let mut waiting = Waiting { context: self, key: None };
        poll_fn(|cx| waiting.poll(cx.waker())).await;
    }

    /// Lets go of the connection that waits for the answer, for work that takes long: the client fetches the answer
    /// later (2025-11-25 over HTTP). Where that is not possible, nothing happens.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn release_stream(&self) {
        self.connection.command(|_, machine, now, _| machine.release(now, self.id));
    }

    /// Asks the client, where the revision lets servers do that (2025-11-25 and earlier).
    ///
    /// It is refused if the client has not declared that it can be asked, and cancelled when it is dropped. To newer
    /// clients, return an [`InputRequiredResult`](crate::schema::InputRequiredResult).
    pub fn request<M: Method>(&self, params: M::Params) -> Request<M> {
        // A session may be open on the same connection; it is not the one that this request belongs to.
        let params = match self.era() {
            Era::Legacy => Ok(params),
            Era::Modern => {
                Err(Error::Refused(Refusal::Revision { method: M::NAME.into(), revision: self.revision() }))
            }
        };
        let link = Link { connection: self.connection.clone(), of: Some(self.id) };
        Request::new(Arc::new(link), params)
    }

    /// Asks the person who uses the client. As [`request`](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>
    pub fn elicit(&self, params: ElicitParams) -> Request<Elicit> {
        self.request(params)
    }

    /// Asks the client's model. As [`request`](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/sampling>
    pub fn sample(&self, params: CreateMessageParams) -> Request<CreateMessage> {
        self.request(params)
    }

    /// Asks where the server may work. As [`request`](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/roots>
    pub fn roots(&self) -> Request<ListRoots> {
        self.request(ListRootsParams::new())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// Somebody who waits for the end of a request.
struct Waiting<'a> {
    context: &'a Context,
    key: Option<u64>,
}

impl Waiting<'_> {
    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let left = waker.clone();
        self.context.connection.with(|core, _, _, wakers| match core.live.get_mut(&self.context.id) {
            Some(waiters) => {
                waiters.wait(&mut self.key, left, wakers);
                Poll::Pending
            }
            None => {
                wakers.spend(Some(left));
                Poll::Ready(())
            }
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.context.connection.with(|core, _, _, wakers| {
                if let Some(waiters) = core.live.get_mut(&self.context.id) {
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
