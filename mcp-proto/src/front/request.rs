//! Requests as futures.

use alloc::sync::Arc;
use core::any::Any;
use core::future::{Future, poll_fn};
use core::marker::PhantomData;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use super::Error;
#[cfg(feature = "client")]
use super::layered_call::{DraftCall, LayeredCall};
use super::request_slots::{FollowQueue, RequestTable};
use super::trace::{RequestSpan, SpanEnd};
#[cfg(feature = "client")]
use super::{Clock, reply::Reply, wakers::SendFuture};
use crate::peer::{
    CacheMode, DecodeError, InputMode, Outcome, OutgoingRequest, ProgressOption, RequestId, RequestOptions,
};
use crate::prelude::*;
use crate::schema::{CallToolParams, LoggingLevel, Meta, Method, ProgressParams, Revision, TraceContext};
#[cfg(feature = "client")]
use crate::{
    peer::RequestError,
    peer::client::{ServerInfo, TaskCommand},
    rpc::{Raw, Text},
    schema::ListTools,
};

/// A request that is sent when it is first polled, and cancelled on the wire when it is dropped before its answer.
///
/// ```
/// # use core::time::Duration;
/// # use mcp_proto::front::{Client, Error};
/// # async fn example(client: Client) -> Result<(), Error> {
/// let report = client
///     .call_tool("export", serde_json::json!({ "format": "pdf" }))
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// # drop(report);
/// # Ok(())
/// # }
/// ```
///
/// It is an ordinary future: it can be raced in a `select!`, joined or dropped, which loses only its own answer.
#[must_use = "a request is sent when it is polled, or by `start`"]
pub struct Request<M: Method> {
    state: State<M>,
    /// The length of the result in bytes, once it has arrived.
    received: usize,
}

/// What is called with the reports that nothing else takes.
type OnProgress = Option<Box<dyn FnMut(ProgressParams) + Send>>;

enum State<M: Method> {
    Draft(Draft<M>),
    Sent(Call<M>),
    Finished,
}

/// A request that is not sent yet.
pub(super) struct Draft<M: Method> {
    pub(super) link: Arc<dyn RequestLink>,
    /// Its name, if that is not the name of `M`.
    pub(super) name: Option<Box<str>>,
    pub(super) params: Result<M::Params, Error>,
    pub(super) options: RequestOptions,
    on_progress: OnProgress,
    /// Whether it passes the layers of the client by.
    #[cfg(feature = "client")]
    pub(super) skips_layers: bool,
}

/// Nothing in it is ever pinned.
impl<M: Method> Unpin for Request<M> {}

impl<M: Method> Request<M> {
    pub(crate) fn new(link: Arc<dyn RequestLink>, params: Result<M::Params, Error>) -> Self {
        let draft = Draft {
            link,
            name: None,
            params,
            options: RequestOptions::default(),
            on_progress: None,
            #[cfg(feature = "client")]
            skips_layers: false,
        };
        Self { state: State::Draft(draft), received: 0 }
    }

    /// Creates a request of the method `name`, with the parameters and the result of `M`.
    pub(super) fn by_name(
        link: Arc<dyn RequestLink>,
        name: impl Into<Box<str>>,
        params: Result<M::Params, Error>,
    ) -> Self {
        let mut request = Self::new(link, params);
        if let State::Draft(draft) = &mut request.state {
            draft.name = Some(name.into());
        }
        request
    }

    /// Makes the request pass the layers of the client by, or not.
    #[cfg(feature = "client")]
    pub(super) fn skip_layers(mut self, skips: bool) -> Self {
        if let State::Draft(draft) = &mut self.state {
            draft.skips_layers = skips;
        }
        self
    }

    /// Sets the timeout for the answer, which restarts with each progress notification.
    ///
    /// The default is the peer's: [`ClientConfig::request_timeout`](crate::peer::client::ClientConfig::request_timeout).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.timeout = Some(timeout))
    }

    /// Sets the timeout for the answer independent of progress.
    pub fn hard_timeout(self, maximum: Duration) -> Self {
        self.with(|options| options.hard_timeout = Some(maximum))
    }

    /// Requests log messages of at least this level along with the answer (2026-07-28 only).
    pub fn log_level(self, level: LoggingLevel) -> Self {
        self.with(|options| options.log_level = Some(level))
    }

    /// Sets whether a cached answer is used. By default it is, within the lifetime that the server has set.
    pub fn cache(self, cache: CacheMode) -> Self {
        self.with(|options| options.cache = cache)
    }

    /// Sets the `_meta` entries of the request.
    pub fn meta(self, meta: Meta) -> Self {
        self.with(|options| options.meta = meta)
    }

    /// Sets the trace context of the request, as `traceparent` and `tracestate` in its `_meta`. Nothing changes without
    /// one. It follows [`meta`](Self::meta), which replaces all entries.
    ///
    /// A handler that calls another server passes on the trace of its own request, which nothing does by itself:
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// # #[cfg(feature = "server")]
    /// async fn forecast(cx: mcp_proto::front::Context, upstream: Client) -> Result<String, Error> {
    ///     let call = upstream.call_tool("forecast", serde_json::json!({ "city": "Bern" }));
    ///     Ok(call.trace_context(cx.trace_context()).await?.text_content())
    /// }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
    pub fn trace_context(self, context: impl Into<Option<TraceContext>>) -> Self {
        match context.into() {
            Some(context) => self.with(|options| options.meta.set_trace_context(&context)),
            None => self,
        }
    }

    /// Sets the reaction to input requests of the server.
    ///
    /// By default they go to the [handlers](crate::front::ClientHandlers), and the request continues with their
    /// answers. With [`InputMode::Manual`] it ends with [`Error::InputRequired`].
    pub fn input(self, input: InputMode) -> Self {
        self.with(|options| options.input = input)
    }

    /// Sets every option at once.
    pub fn options(self, chosen: RequestOptions) -> Self {
        self.with(|options| *options = chosen)
    }

    /// Requests progress and calls `follow` with each report, in order, before the answer.
    ///
    /// The task that awaits the request, or its [`Call`], calls it. For a stream of progress, also for callbacks that are not
    /// `Send`, such as those of JavaScript, see [`start`](Self::start).
    pub fn on_progress(mut self, follow: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        if let State::Draft(draft) = &mut self.state {
            draft.on_progress = Some(Box::new(follow));
        }
        self.with(|options| options.progress = ProgressOption::Always)
    }

    /// Sends the request now, to follow its progress or to run several concurrently.
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let mut call = client.call_tool("index", serde_json::json!({})).start()?;
    /// while let Some(progress) = call.progress().await {
    ///     println!("{}", progress.progress);
    /// }
    /// let result = call.await?;
    /// # drop(result);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it cannot be sent. Before the connection is ready, the request waits instead.
    pub fn start(self) -> Result<Call<M>, Error> {
        let always = |options: &mut RequestOptions| {
            if options.progress == ProgressOption::WhereLong {
                options.progress = ProgressOption::Always;
            }
        };
        self.send(always, FollowQueue::progress())
    }

    /// The length of the result in bytes, once it has arrived.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Sends the request, with its options overridden by `set`, and returns the call.
    pub(super) fn send(
        self,
        set: impl FnOnce(&mut RequestOptions),
        follow: FollowQueue,
    ) -> Result<Call<M>, Error> {
        match self.with(set).state {
            #[cfg(feature = "client")]
            State::Draft(draft) => Call::start(draft, follow)?.started(),
            #[cfg(not(feature = "client"))]
            State::Draft(draft) => Call::start(draft, follow),
            State::Sent(call) => Ok(call),
            State::Finished => Err(Error::Finished),
        }
    }

    fn with(mut self, set: impl FnOnce(&mut RequestOptions)) -> Self {
        if let State::Draft(Draft { options, .. }) = &mut self.state {
            set(options);
        }
        self
    }
}

impl<M: Method> Future for Request<M> {
    type Output = Result<M::Result, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if matches!(this.state, State::Draft(_))
            && let State::Draft(draft) = mem::replace(&mut this.state, State::Finished)
        {
            match Call::start(draft, FollowQueue::Nothing) {
                Ok(call) => this.state = State::Sent(call),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let State::Sent(call) = &mut this.state else { return Poll::Ready(Err(Error::Finished)) };
        let answer = ready!(Pin::new(&mut *call).poll(cx));
        this.received = call.received;
        this.state = State::Finished;
        Poll::Ready(answer)
    }
}

debug_fields! { [M: Method] Request<M> { method = M::NAME } }

/// The tool that a request calls, if its result may be checked.
pub(super) type CalledTool = Option<Box<str>>;

fn called_tool<M: Method>(params: &M::Params) -> CalledTool {
    if !cfg!(all(feature = "client", feature = "schema-validate")) {
        return None;
    }
    let call = (params as &dyn Any).downcast_ref::<CallToolParams>();
    call.map(|call| call.name.as_str().into())
}

/// A sent request: the future of its answer, and the stream of its progress before that.
///
/// Dropping it before the answer cancels it on the wire.
#[must_use = "dropping a call cancels it"]
pub struct Call<M: Method> {
    link: Arc<dyn RequestLink>,
    id: RequestId,
    /// The called tool, against whose output schema the result is checked.
    tool: CalledTool,
    /// Whether its result may be of any type.
    by_name: bool,
    finished: bool,
    /// The length of the result in bytes, once it has arrived.
    received: usize,
    on_progress: OnProgress,
    span: RequestSpan,
    driver_timer: Option<DriverTimer>,
    /// The layers around the request, which send it.
    #[cfg(feature = "client")]
    layered: Option<LayeredCall>,
    method: PhantomData<fn() -> M>,
}

impl<M: Method> Call<M> {
    /// Sends a draft, or passes it to the layers of the client.
    fn start(mut draft: Draft<M>, follow: FollowQueue) -> Result<Self, Error> {
        let on_progress = draft.on_progress.take();
        let follow = if on_progress.is_some() { FollowQueue::progress() } else { follow };
        #[cfg(feature = "client")]
        if !draft.skips_layers && draft.link.has_layers() {
            let link = draft.link.clone();
            let layered = LayeredCall::new(draft, follow)?;
            // Its timer and its tool are those of the request that the layers send.
            let mut call = Self::new(link, RequestId::UNSENT, None, None);
            (call.layered, call.on_progress) = (Some(layered), on_progress);
            return Ok(call);
        }
        let Draft { link, name, params, options, .. } = draft;
        let mut call = Self::send(link, name.as_deref(), &params?, options, follow)?;
        call.on_progress = on_progress;
        Ok(call)
    }

    /// Sends a request.
    pub(super) fn send(
        link: Arc<dyn RequestLink>,
        name: Option<&str>,
        params: &M::Params,
        mut options: RequestOptions,
        follow: FollowQueue,
    ) -> Result<Self, Error> {
        let mut span = RequestSpan::of_call::<M>(name, params, || link.revision(), &mut options);
        let request = match name {
            Some(name) => OutgoingRequest::by_name::<M>(name, params, options),
            None => OutgoingRequest::new::<M>(params, options),
        };
        let sent = link.send(request, follow);
        span.record_sent(&sent);
        let mut call = Self::from_id(link, sent?, called_tool::<M>(params));
        (call.by_name, call.span) = (name.is_some(), span);
        Ok(call)
    }

    /// Lets the layers send the request now, if there are any.
    #[cfg(feature = "client")]
    fn started(mut self) -> Result<Self, Error> {
        if let Some(reply) = self.layered.as_mut().and_then(|layered| layered.start()) {
            self.finished = true;
            self.decode_reply(reply)?;
        }
        Ok(self)
    }

    /// Follows a request with this id, whose result is checked like that of `called`.
    pub(super) fn from_id(link: Arc<dyn RequestLink>, id: RequestId, tool: CalledTool) -> Self {
        let driver_timer = link.driver_timer();
        Self::new(link, id, tool, driver_timer)
    }

    fn new(
        link: Arc<dyn RequestLink>,
        id: RequestId,
        tool: CalledTool,
        driver_timer: Option<DriverTimer>,
    ) -> Self {
        Self {
            driver_timer,
            link,
            id,
            tool,
            #[cfg(feature = "client")]
            layered: None,
            by_name: false,
            finished: false,
            received: 0,
            on_progress: None,
            span: RequestSpan::none(),
            method: PhantomData,
        }
    }

    /// The link, for another request that continues this call.
    pub(super) fn link(&self) -> Arc<dyn RequestLink> {
        self.link.clone()
    }

    /// Whether it passes through the layers of the client.
    #[cfg(feature = "client")]
    pub(super) fn is_layered(&self) -> bool {
        self.layered.is_some()
    }

    /// The called tool: within layers, the one that they have called, once they have.
    pub(super) fn called_tool(&self) -> CalledTool {
        #[cfg(feature = "client")]
        if let Some(layered) = &self.layered {
            return layered.called_tool();
        }
        self.tool.clone()
    }

    /// Waits for the undecoded outcome.
    pub(super) async fn outcome(&mut self) -> Outcome {
        let outcome = poll_fn(|cx| self.poll_outcome(cx)).await;
        self.span.resolve(&SpanEnd::of_outcome(&outcome), || self.link.revision());
        outcome
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.poll_driver_timer(cx);
        let outcome = ready!(self.link.table().poll_outcome(self.id, cx.waker().clone()));
        self.finished = true;
        if let Outcome::Result(raw) | Outcome::ExtensionResult { result: raw, .. } = &outcome {
            self.received = raw.as_bytes().len();
        }
        Poll::Ready(outcome)
    }

    /// Decodes an outcome and checks its result.
    pub(super) fn decode_outcome(&self, outcome: Outcome) -> Result<M::Result, Error> {
        let outcome = match outcome {
            Outcome::ExtensionResult { result, .. } if self.by_name => Outcome::Result(result),
            outcome => outcome,
        };
        let decoded = outcome.decode::<M>().map_err(|error| match error {
            DecodeError::Outcome(outcome) => self.error(outcome),
            error => error.into(),
        })?;
        self.link.check_output(self.tool.as_deref(), &decoded)?;
        Ok(decoded)
    }

    /// The error of an outcome that is not a result.
    pub(super) fn error(&self, outcome: Outcome) -> Error {
        self.link.error(outcome)
    }

    /// Polls for the reply, as the layers of the client see it.
    #[cfg(feature = "client")]
    pub(super) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let outcome = ready!(self.poll_outcome(cx));
        let end = SpanEnd::of_outcome(&outcome);
        let checked = self.check_outcome(outcome);
        self.span.resolve(&end.decoded(&checked), || self.link.revision());
        Poll::Ready(checked.map_or_else(|error| Reply::Failed(Box::new(error)), Reply::Received))
    }

    /// Checks the outcome of a request within layers.
    #[cfg(feature = "client")]
    fn check_outcome(&self, outcome: Outcome) -> Result<Raw, Error> {
        match outcome {
            Outcome::ExtensionResult { result, .. } if self.by_name => Ok(result),
            Outcome::Result(raw) => {
                if self.tool.is_some() || M::NAME == ListTools::NAME {
                    self.decode_outcome(Outcome::Result(raw.clone()))?;
                }
                Ok(raw)
            }
            outcome => Err(self.error(outcome)),
        }
    }

    /// Decodes the reply of layers.
    #[cfg(feature = "client")]
    fn decode_reply(&mut self, reply: Reply) -> Result<M::Result, Error> {
        if let Reply::Received(raw) = &reply {
            self.received = raw.as_bytes().len();
        }
        reply.into_result::<M>()
    }

    /// The id by which the machine knows the request. Within a [layer](crate::front::layer) that has not sent it yet, the id is
    /// that of no request.
    pub fn id(&self) -> RequestId {
        #[cfg(feature = "client")]
        if let Some(layered) = &self.layered {
            return layered.id();
        }
        self.id
    }

    /// The next progress report; `None` once the answer has arrived.
    ///
    /// The latest 64 reports are queued, up to 16 MiB of them. If they are not taken, the oldest are dropped, and
    /// [`missed_progress`](Self::missed_progress) counts them.
    pub async fn progress(&mut self) -> Option<ProgressParams> {
        poll_fn(|cx| self.poll_progress(cx)).await
    }

    /// The number of dropped progress reports, which were not taken in time. It is 0 after the answer was taken.
    pub fn missed_progress(&self) -> u64 {
        #[cfg(feature = "client")]
        if let Some(layered) = self.layered.as_ref().filter(|_| !self.finished) {
            // Those of the request that the layers sent, and those that the layers received.
            let missed = self.link.table().missed_progress(layered.id());
            return missed.saturating_add(layered.missed_progress());
        }
        if self.finished { 0 } else { self.link.table().missed_progress(self.id) }
    }

    /// Cancels the request, with a reason for the other side's log.
    pub fn cancel(mut self, reason: &str) {
        self.finished = true;
        self.link.abandon(self.id(), Some(reason));
    }

    pub(super) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Option<ProgressParams>> {
        if self.finished {
            return Poll::Ready(None);
        }
        #[cfg(feature = "client")]
        if let Some(layered) = &mut self.layered {
            return layered.poll_progress(cx);
        }
        self.poll_driver_timer(cx);
        self.link.table().poll_progress(self.id, cx.waker().clone())
    }

    /// Fires timeouts in the place of a driver that has not been polled.
    fn poll_driver_timer(&mut self, cx: &mut Context<'_>) {
        if let Some(timer) = &mut self.driver_timer
            && timer.as_mut().poll(cx).is_ready()
        {
            self.driver_timer = None;
        }
    }
}

impl<M: Method> Future for Call<M> {
    type Output = Result<M::Result, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.finished {
            return Poll::Ready(Err(Error::Finished));
        }
        if self.on_progress.is_some() {
            // Progress ends with `None` once the outcome has arrived, so that every report precedes it.
            while let Some(progress) = ready!(self.poll_progress(cx)) {
                if let Some(follow) = &mut self.on_progress {
                    follow(progress);
                }
            }
        }
        #[cfg(feature = "client")]
        if let Some(layered) = &mut self.layered {
            let reply = ready!(layered.poll_reply(cx));
            self.finished = true;
            return Poll::Ready(self.decode_reply(reply));
        }
        let outcome = ready!(self.poll_outcome(cx));
        let end = SpanEnd::of_outcome(&outcome);
        let answer = self.decode_outcome(outcome);
        let this = &mut *self;
        this.span.resolve(&end.decoded(&answer), || this.link.revision());
        Poll::Ready(answer)
    }
}

impl<M: Method> Drop for Call<M> {
    fn drop(&mut self) {
        // A request that layers sent is given up with them.
        if !self.finished && self.id != RequestId::UNSENT {
            self.link.abandon(self.id, None);
        }
    }
}

debug_fields! { [M: Method] Call<M> { method = M::NAME, id } }

/// The future of a wait whose driver is not polled. It returns whether the wait has reached its limit.
pub(crate) type DriverTimer = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A connection as the futures of requests see it.
pub(crate) trait RequestLink: Send + Sync {
    fn send(&self, request: OutgoingRequest<'_>, follow: FollowQueue) -> Result<RequestId, Error>;

    /// Sends a request about a task of the peer. Only servers have tasks that clients follow.
    #[cfg(feature = "client")]
    fn task(&self, id: &str, command: TaskCommand, options: RequestOptions) -> Result<RequestId, Error> {
        let _ = (id, command, options);
        Err(Error::NotSent(RequestError::NotReady))
    }

    fn table(&self) -> &dyn RequestTable;

    /// The timer of a call that is made before the connection's driver has been polled.
    fn driver_timer(&self) -> Option<DriverTimer> {
        None
    }

    /// The error of a request that ended with this outcome.
    fn error(&self, outcome: Outcome) -> Error {
        outcome.into()
    }

    /// Gives up a request whose future was dropped: cancels it unless it has ended.
    fn abandon(&self, request: RequestId, reason: Option<&str>);

    /// Learns output schemas from a list of tools, and checks the structured result of `tool`, if results are checked.
    fn check_output(&self, tool: Option<&str>, result: &dyn Any) -> Result<(), Error> {
        let _ = (tool, result);
        Ok(())
    }

    /// Whether layers stand around the calls of this side.
    #[cfg(feature = "client")]
    fn has_layers(&self) -> bool {
        false
    }

    /// Passes a call through the layers of this side, the innermost of which sends it.
    #[cfg(feature = "client")]
    fn pass_layers(self: Arc<Self>, method: Text, call: Box<dyn DraftCall>) -> SendFuture<Reply> {
        let _ = method;
        call.send(None)
    }

    /// The clock of the connection.
    #[cfg(feature = "client")]
    fn clock(&self) -> &Arc<dyn Clock>;

    /// The server of a client, once it is known.
    #[cfg(feature = "client")]
    fn server(&self) -> Option<Arc<ServerInfo>> {
        None
    }

    /// The revision in use, once it is known.
    fn revision(&self) -> Option<Revision> {
        None
    }
}
