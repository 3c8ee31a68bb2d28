//! Calls of a host: each waits for its server, is sent, and ends once.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_lite::FutureExt as _;
use futures_lite::future::{Boxed, poll_once};
use mcp_proto::adapter::Clock;
use mcp_proto::front::layer::{LayerFuture, LayerRequest, Reply};
use mcp_proto::front::{Client, Error};
use mcp_proto::host::config::ServerId;
use mcp_proto::host::control::{CallId, CallOptions, CallRefusal, Delivery, Repeat};
use mcp_proto::host::tools::{Catalogue, LookupError};
use mcp_proto::peer::{CacheMode, LostReason, RequestError};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    CallTool, ListTools, Meta, Method, PaginatedParams, Params as _, ProgressParams, TraceContext,
};
use mcp_proto::{Instant, UnixTime};

use super::connection::{check_connection, failure_of, is_unauthorized};
use super::events::{CallEnd, CallError};
use super::shared::{CallRecord, FirstPoll, OpenHost, SendCall, Sent, Shared};
#[cfg(feature = "tracing")]
use super::trace::CallerSpan;

type OnProgress = Box<dyn FnMut(ProgressParams) + Send>;

/// A request to one of the servers, which is made when it is first polled, waits for the server, and is cancelled when
/// it is dropped before its answer.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_hyper::host::{CallError, Host};
/// use serde_json::json;
///
/// # async fn example(host: Host) -> Result<(), CallError> {
/// let report = host
///     .call_tool("mcp__files__search", json!({ "text": "MCP" }))
///     .timeout(Duration::from_secs(300))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// # drop(report);
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is made when it is polled"]
pub struct HostRequest<M: Method> {
    state: RequestState<M>,
}

enum RequestState<M: Method> {
    Draft(Box<Draft<M>>),
    Layered(Boxed<Result<M::Result, CallError>>),
    Made(MadeRequest<M>),
    Finished,
}

struct MadeRequest<M: Method> {
    host: Arc<OpenHost>,
    id: CallId,
    call: Arc<PendingCall<M>>,
    /// Reports a driver that was not polled yet.
    unpolled: Option<Boxed<()>>,
}

struct Draft<M: Method> {
    host: Arc<OpenHost>,
    target: Result<Target, CallError>,
    params: Result<M::Params, Error>,
    lookup: Option<Lookup<M>>,
    /// The name of the item on the wire that the layers let pass.
    passed: Option<String>,
    options: CallOptions,
    meta: Meta,
    on_progress: Option<OnProgress>,
    cache: CacheMode,
}

/// Finds the item of a call in the catalogue, puts its name for the wire into the parameters, and returns it.
///
/// It runs whenever the call is sent: while the call waited, a new connection may have brought another definition, which
/// the user has not approved.
pub(super) type Lookup<M> =
    Box<dyn Fn(&Catalogue, &mut <M as Method>::Params) -> Result<Arc<str>, LookupError> + Send + Sync>;

/// The server and the item that a request names.
pub(super) struct Target {
    pub(super) id: ServerId,
    pub(super) server: Arc<str>,
    pub(super) item: Option<Arc<str>>,
}

impl<M: Method<Params: Send + Sync, Result: Send>> HostRequest<M> {
    pub(super) fn new(
        host: Arc<OpenHost>,
        target: Result<Target, CallError>,
        params: Result<M::Params, Error>,
        repeat: Repeat,
        lookup: Option<Lookup<M>>,
    ) -> Self {
        Self { state: RequestState::Draft(Box::new(Draft::new(host, target, params, repeat, lookup))) }
    }

    /// Sets how long the call may take, the wait for its server included; `Duration::MAX` is no limit. Default: the
    /// timeout that the configuration has for calls of the server, 30 s if it has none.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|draft| draft.options.timeout = Some(timeout))
    }

    /// Sets when the call is sent again after its connection broke. Default: only if it did not reach the server; a
    /// tool that is read-only or idempotent by its annotations, a prompt and a resource also if their answer was lost.
    pub fn repeat(self, repeat: Repeat) -> Self {
        self.with(|draft| draft.options.repeat = repeat)
    }

    /// Requests progress, and calls `follow` with each report before the answer.
    ///
    /// The driver calls it: it should be quick.
    pub fn on_progress(self, follow: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.with(|draft| draft.on_progress = Some(Box::new(follow)))
    }

    /// Sets whether a cached answer is used. By default it is, within the lifetime that the server has set.
    pub fn cache(self, cache: CacheMode) -> Self {
        self.with(|draft| draft.cache = cache)
    }

    /// Sets the `_meta` entries of the call, which [`HostEvent::CallEnded`](super::HostEvent::CallEnded) repeats.
    pub fn meta(self, meta: Meta) -> Self {
        self.with(|draft| draft.meta = meta)
    }

    /// Sets the trace context of the call, as `traceparent` and `tracestate` in its `_meta`. Nothing changes without one.
    /// It follows [`meta`](Self::meta), which replaces all entries.
    ///
    /// ```no_run
    /// use mcp_hyper::host::{CallError, Host};
    /// use mcp_hyper::mcp_proto::schema::TraceContext;
    /// use serde_json::json;
    ///
    /// # async fn example(host: Host, step: TraceContext) -> Result<(), CallError> {
    /// host.call_tool("mcp__files__search", json!({ "text": "MCP" })).trace_context(step).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
    pub fn trace_context(self, context: impl Into<Option<TraceContext>>) -> Self {
        match context.into() {
            Some(context) => self.with(|draft| draft.meta.set_trace_context(&context)),
            None => self,
        }
    }

    fn with(mut self, set: impl FnOnce(&mut Draft<M>)) -> Self {
        if let RequestState::Draft(draft) = &mut self.state {
            set(draft);
        }
        self
    }
}

impl<M: Method<Params: Send + Sync, Result: Send>> Draft<M> {
    fn new(
        host: Arc<OpenHost>,
        target: Result<Target, CallError>,
        params: Result<M::Params, Error>,
        repeat: Repeat,
        lookup: Option<Lookup<M>>,
    ) -> Self {
        let options = CallOptions { timeout: None, repeat };
        let (meta, cache) = (Meta::new(), CacheMode::Use);
        let (passed, on_progress) = (None, None);
        Self { host, target, params, lookup, passed, options, meta, on_progress, cache }
    }

    /// Makes the request within the layers of the host.
    fn run_layers(self) -> Boxed<Result<M::Result, CallError>> {
        Box::pin(async move {
            let mut draft = self;
            let (target, mut params) = (draft.target?, draft.params.map_err(CallError::Call)?);
            let (host, mut seen) = (draft.host.clone(), params.clone());
            if let Some(lookup) = &draft.lookup {
                find_item::<M>(&host, &target, lookup, &mut seen).await?;
            }
            for (key, value) in draft.meta.iter() {
                seen.meta_mut().insert(key, value.clone());
            }
            let clock = Arc::new(HostClock(host.shared.clone()));
            let request = LayerRequest::of_host(M::NAME, &seen, target.server.clone(), clock);
            let layers = host.layers.clone();
            let innermost = move |request: LayerRequest| -> LayerFuture {
                Box::pin(async move {
                    let passed = draft.lookup.is_some().then(|| request.item().unwrap_or_default());
                    if request.is_changed() {
                        match request.decode::<M::Params>() {
                            Ok(changed) => params = changed,
                            Err(error) => return error.into(),
                        }
                        draft.meta = params.meta().clone();
                    }
                    match (Self { target: Ok(target), params: Ok(params), passed, ..draft }).make() {
                        Ok(made) => reply::<M>(HostRequest { state: RequestState::Made(made) }.await),
                        Err(error) => reply::<M>(Err(error)),
                    }
                })
            };
            let run = async move { layers.run(request, innermost).await };
            let replied = AssertUnwindSafe(run).catch_unwind().await;
            replied.unwrap_or_else(|_| panicked()).into_result::<M>().map_err(|error| match error {
                Error::Other(error) => match error.downcast::<CallError>() {
                    Ok(error) => *error,
                    Err(error) => CallError::Call(Error::Other(error)),
                },
                error => CallError::Call(error),
            })
        })
    }

    fn make(self) -> Result<MadeRequest<M>, CallError> {
        let Self { host, target, params, lookup, passed, options, meta, on_progress, cache } = self;
        let target = target?;
        let meta = (!meta.is_empty()).then(|| Arc::new(meta));
        let call = Arc::new(PendingCall::<M> {
            server: target.id,
            params: params.map_err(CallError::Call)?,
            lookup,
            passed,
            cache,
            meta: meta.clone(),
            on_progress: on_progress.map(|follow| Arc::new(Mutex::new(follow))),
            slot: Mutex::new(Slot::default()),
            #[cfg(feature = "tracing")]
            caller: CallerSpan::current(),
        });
        let (server, name) = (target.id, target.server.clone());
        let made = host.shared.command(|state, now| {
            let made = state.plane.call(now, server, options);
            if let Ok(id) = made {
                state.count(server, |counters| counters.calls = counters.calls.saturating_add(1));
                let record = CallRecord {
                    server,
                    name: target.server,
                    method: M::NAME,
                    item: target.item,
                    meta,
                    began: now,
                    call: call.clone(),
                };
                state.calls.insert(id, record);
            }
            let failure = state.plane.server(server).and_then(|server| server.failure.cloned());
            made.map(|id| (id, state.first_poll == FirstPoll::Done)).map_err(|refusal| (refusal, failure))
        });
        match made {
            Ok((id, was_polled)) => {
                Ok(MadeRequest { unpolled: (!was_polled).then(|| report(&host.shared)), host, id, call })
            }
            Err((refusal, failure)) => Err(match refusal {
                CallRefusal::Unavailable(status) => {
                    CallError::Unavailable { server: name, status, failure: failure.map(Box::new) }
                }
                CallRefusal::TooMany => CallError::TooMany,
                CallRefusal::Closed => CallError::Closed,
                _ => CallError::UnknownServer,
            }),
        }
    }
}

/// The reply to a call, as layers see it.
fn reply<M: Method<Result: Send>>(ended: Result<M::Result, CallError>) -> Reply {
    match ended {
        Ok(result) => Reply::result(result),
        Err(CallError::Call(error)) => Reply::failed(error),
        Err(error) => Reply::failed(Error::Other(Box::new(error))),
    }
}

/// The reply to a call whose layer panicked.
fn panicked() -> Reply {
    Reply::error(code::INTERNAL_ERROR, "a layer failed unexpectedly")
}

/// Puts the name of the item on the wire into the parameters that layers see. For an item that its server has not listed
/// yet, the server is started first.
async fn find_item<M: Method>(
    host: &Arc<OpenHost>,
    target: &Target,
    lookup: &Lookup<M>,
    params: &mut M::Params,
) -> Result<(), CallError> {
    let shared = &host.shared;
    let found = shared.catalogue(|catalogue| lookup(catalogue, params));
    if found != Err(LookupError::Unknown) {
        return found.map(drop).map_err(CallError::Name);
    }
    let server = Target { id: target.id, server: target.server.clone(), item: None };
    let first = Ok(PaginatedParams::new());
    let draft = Draft::<ListTools>::new(host.clone(), Ok(server), first, Repeat::IfLost, None);
    // It waits for the server, which has listed its tools when it is connected.
    match (HostRequest { state: RequestState::Made(draft.make()?) }).await {
        Ok(_) | Err(CallError::Call(Error::Peer(_) | Error::NotSent(_))) => {}
        Err(error) => return Err(error),
    }
    if M::NAME != CallTool::NAME {
        shared.wait(|state| state.is_listed(target.id)).await;
    }
    shared.catalogue(|catalogue| lookup(catalogue, params)).map(drop).map_err(CallError::Name)
}

/// The clock of a host.
struct HostClock(Arc<Shared>);

impl Clock for HostClock {
    fn now(&self) -> Instant {
        self.0.clock.now()
    }

    fn unix_time(&self) -> UnixTime {
        self.0.clock.unix_time()
    }
}

fn report(shared: &Arc<Shared>) -> Boxed<()> {
    let shared = shared.clone();
    Box::pin(async move { shared.report_unpolled_driver().await })
}

/// Nothing in it is ever pinned.
impl<M: Method> Unpin for HostRequest<M> {}

impl<M: Method<Params: Send + Sync, Result: Send>> Future for HostRequest<M> {
    type Output = Result<M::Result, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut made = match std::mem::replace(&mut self.state, RequestState::Finished) {
            RequestState::Draft(draft) if !draft.host.layers.is_empty() => {
                self.state = RequestState::Layered(draft.run_layers());
                return self.poll(cx);
            }
            RequestState::Draft(draft) => draft.make()?,
            RequestState::Layered(mut layered) => {
                let polled = layered.as_mut().poll(cx);
                if polled.is_pending() {
                    self.state = RequestState::Layered(layered);
                }
                return polled;
            }
            RequestState::Made(made) => made,
            RequestState::Finished => return Poll::Ready(Err(CallError::Call(Error::Finished))),
        };
        let polled = made.call.poll(cx);
        if polled.is_pending() {
            if let Some(report) = &mut made.unpolled {
                let _: Poll<()> = report.as_mut().poll(cx);
            }
            self.state = RequestState::Made(made);
        }
        polled
    }
}

impl<M: Method> Drop for HostRequest<M> {
    fn drop(&mut self) {
        if let RequestState::Made(MadeRequest { host, id, .. }) = &self.state {
            host.shared.command(|state, now| state.plane.cancel(now, *id));
        }
    }
}

debug_fields! { [M: Method] HostRequest<M> { method = M::NAME } }

/// A call that was made.
struct PendingCall<M: Method> {
    server: ServerId,
    params: M::Params,
    lookup: Option<Lookup<M>>,
    /// The name of the item on the wire that the layers let pass.
    passed: Option<String>,
    cache: CacheMode,
    meta: Option<Arc<Meta>>,
    on_progress: Option<Arc<Mutex<OnProgress>>>,
    slot: Mutex<Slot<M::Result>>,
    #[cfg(feature = "tracing")]
    caller: CallerSpan,
}

struct Slot<T> {
    /// The answer to the last time that it was sent, or why it was not sent again.
    answer: Option<Result<T, CallError>>,
    /// Whether it was sent, and may have reached the server.
    was_sent: bool,
    end: Option<Option<CallError>>,
    waker: Option<Waker>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { answer: None, was_sent: false, end: None, waker: None }
    }
}

impl<M: Method> PendingCall<M> {
    fn slot(&self) -> MutexGuard<'_, Slot<M::Result>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parameters with the present name of the item on the wire, which must be the one that the layers let pass.
    async fn find_item(&self, shared: &Shared) -> Result<M::Params, CallError> {
        let mut params = self.params.clone();
        let Some(lookup) = &self.lookup else { return Ok(params) };
        let mut found = shared.catalogue(|catalogue| lookup(catalogue, &mut params));
        // A connected server has listed its tools, but may not have listed its prompts and resources.
        if found == Err(LookupError::Unknown) && M::NAME != CallTool::NAME {
            shared.wait(|state| state.is_listed(self.server)).await;
            found = shared.catalogue(|catalogue| lookup(catalogue, &mut params));
        }
        let found = found.map_err(CallError::Name)?;
        match &self.passed {
            Some(passed) if **passed != *found => Err(CallError::OtherItem { passed: passed.clone(), found }),
            _ => Ok(params),
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Result<M::Result, CallError>> {
        let waker = cx.waker().clone();
        // Dropped after the lock.
        let _left;
        let mut slot = self.slot();
        match slot.end.take() {
            Some(Some(error)) => Poll::Ready(Err(error)),
            Some(None) => Poll::Ready(slot.answer.take().unwrap_or(Err(CallError::Call(Error::Finished)))),
            None => {
                _left = slot.waker.replace(waker);
                Poll::Pending
            }
        }
    }
}

impl<M: Method<Params: Send + Sync, Result: Send>> SendCall for PendingCall<M> {
    fn send(self: Arc<Self>, shared: Arc<Shared>, client: Client, is_http: bool) -> Boxed<Sent> {
        Box::pin(async move {
            let params = match self.find_item(&shared).await {
                Ok(params) => params,
                Err(refusal) => {
                    let mut slot = self.slot();
                    slot.answer = Some(Err(if slot.was_sent { CallError::Lost } else { refusal }));
                    return Sent { delivery: Delivery::Refused, failure: None };
                }
            };
            self.slot().was_sent = true;
            // The control plane has the time limits.
            let request = client.request::<M>(params);
            let mut request = request.timeout(Duration::MAX).hard_timeout(Duration::MAX).cache(self.cache);
            if let Some(meta) = &self.meta {
                request = request.meta((**meta).clone());
            }
            if let Some(follow) = self.on_progress.clone() {
                request = request.on_progress(move |progress| {
                    follow.lock().unwrap_or_else(PoisonError::into_inner)(progress);
                });
            }
            #[cfg(feature = "tracing")]
            let request = self.caller.surround(request);
            let answer = request.await;
            let sent = match &answer {
                Ok(_) => Sent { delivery: Delivery::Answered, failure: None },
                Err(error) => judge(error, &client, is_http).await,
            };
            match sent.delivery {
                Delivery::Answered => self.slot().answer = Some(answer.map_err(CallError::Call)),
                Delivery::NotSent => self.slot().was_sent = false,
                _ => {}
            }
            sent
        })
    }

    fn was_sent(&self) -> bool {
        self.slot().was_sent
    }

    fn summary(&self) -> Result<CallEnd, String> {
        match &self.slot().answer {
            Some(Ok(result)) => {
                let result: &dyn std::any::Any = result;
                let tool = result.downcast_ref::<mcp_proto::CallToolResult>();
                let failed = tool.is_some_and(mcp_proto::CallToolResult::failed);
                Ok(if failed { CallEnd::ToolFailed } else { CallEnd::Answered })
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(CallEnd::Answered),
        }
    }

    fn end(&self, error: Option<CallError>) -> Option<Waker> {
        let mut slot = self.slot();
        slot.end = Some(error);
        slot.waker.take()
    }
}

/// Derives from an error whether the call arrived, and whether its connection still works.
async fn judge(error: &Error, client: &Client, is_http: bool) -> Sent {
    let sent = |delivery| Sent { delivery, failure: None };
    match error {
        Error::Closed(_) | Error::NotSent(RequestError::Closed) => sent(Delivery::NotSent),
        Error::NotSent(RequestError::Connect(_)) if poll_once(client.closed()).await.is_some() => {
            sent(Delivery::NotSent)
        }
        // No connection could be made for this request. The next one may succeed, and nothing waits for that.
        Error::NotSent(RequestError::Connect(_)) => match check_connection(client).await {
            Ok(()) => sent(Delivery::Answered),
            Err(error) => Sent { delivery: Delivery::NotSent, failure: Some(failure_of(&error)) },
        },
        Error::Lost(LostReason::LimitExceeded | LostReason::Ended) => sent(Delivery::Answered),
        Error::Lost(_) if !is_http || poll_once(client.closed()).await.is_some() => sent(Delivery::Lost),
        // One exchange is lost. Is the server?
        Error::Lost(_) => match check_connection(client).await {
            Ok(()) => sent(Delivery::ExchangeLost),
            Err(error) => Sent { delivery: Delivery::Lost, failure: Some(failure_of(&error)) },
        },
        error if is_unauthorized(error) => {
            Sent { delivery: Delivery::Answered, failure: Some(failure_of(error)) }
        }
        _ => sent(Delivery::Answered),
    }
}
