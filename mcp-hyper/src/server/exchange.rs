//! One request and its response, between hyper and an [`HttpExchange`]; the streams of an HTTP/2 connection, polled by the
//! connection itself.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::rt::Executor;
use hyper::{Response, StatusCode};
#[cfg(feature = "http2")]
use hyper::{body::Incoming, rt::bounds::Http2ServerConnExec};
use mcp_proto::front::http::HttpExchange;
use mcp_proto::front::{HandlerMode, LocalHandlers, SendHandlers};
use mcp_proto::transport::http::server::{BodyKind, ResponseHead};

#[cfg(feature = "auth")]
use super::guard::TokenVerification;
use super::monitor::ExchangeGuard;
use super::observed::ObservedExchange;
use crate::task_set::TaskSet;
use crate::time::{Alarm, RuntimeClock, Timers};

/// An exchange with the timer for its deadlines.
struct TimedExchange<H: HandlerMode> {
    /// Boxed: hyper moves the response to the request, and its body, from hand to hand.
    exchange: Box<HttpExchange<H>>,
    clock: Arc<RuntimeClock>,
    alarm: Alarm,
}

impl<H: HandlerMode> TimedExchange<H> {
    fn new(exchange: HttpExchange<H>, clock: Arc<RuntimeClock>) -> Self {
        Self { exchange: Box::new(exchange), clock, alarm: Alarm::default() }
    }

    /// Polls the exchange until it has an output, or waits for input or for its next deadline.
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        output: impl Fn(&mut HttpExchange<H>, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        loop {
            if let Poll::Ready(output) = output(&mut self.exchange, cx) {
                return Poll::Ready(output);
            }
            ready!(self.poll_timeout(cx));
        }
    }

    /// Handles the exchange's next deadline. Ready once it has passed.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.exchange.next_timeout().and_then(|at| self.clock.at(at));
        ready!(self.alarm.poll_until(deadline, self.clock.timers(), cx));
        self.exchange.handle_timeout();
        Poll::Ready(())
    }
}

/// Per-connection state that each exchange reports to.
#[derive(Default)]
pub(super) struct ConnectionHooks {
    pub(super) exchange_guard: Option<ExchangeGuard>,
    pub(super) body_demand: Option<BodyDemand>,
    pub(super) observed: Option<ObservedExchange>,
}

/// The stage of an exchange until it has returned the response head.
enum ExchangeStage<H: ServerMode> {
    /// Its token is being verified.
    #[cfg(feature = "auth")]
    Unverified(Box<TokenVerification<H>>),
    Open(TimedExchange<H>),
    Ended,
}

pin_project_lite::pin_project! {
    /// The future of the response to one request.
    #[must_use = "nothing happens unless it is polled"]
    pub struct ResponseFuture<B, H: ServerMode = SendHandlers> {
        #[pin]
        request: Option<B>,
        stage: ExchangeStage<H>,
        attached: ConnectionHooks,
    }
}

impl<B, H: ServerMode> ResponseFuture<B, H> {
    pub(super) fn new(
        request: B,
        exchange: HttpExchange<H>,
        clock: Arc<RuntimeClock>,
        attached: ConnectionHooks,
    ) -> Self {
        let stage = ExchangeStage::Open(TimedExchange::new(exchange, clock));
        Self { request: Some(request), stage, attached }
    }

    /// Verifies the request's token before the exchange starts.
    #[cfg(feature = "auth")]
    pub(super) fn unverified(
        request: B,
        unverified: Box<TokenVerification<H>>,
        attached: ConnectionHooks,
    ) -> Self {
        Self { request: Some(request), stage: ExchangeStage::Unverified(unverified), attached }
    }
}

impl<B: Body, H: ServerMode> Future for ResponseFuture<B, H> {
    type Output = Result<Response<ResponseBody<H>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        #[cfg(feature = "auth")]
        if let ExchangeStage::Unverified(unverified) = this.stage {
            let (exchange, clock) = ready!(unverified.poll(cx));
            *this.stage = ExchangeStage::Open(TimedExchange::new(exchange, clock));
        }
        let ExchangeStage::Open(live) = this.stage else { return Poll::Pending };
        let refusal = ready!(poll_request(this.request.as_mut(), live, &mut this.attached.observed, cx));
        this.attached.observed.iter_mut().for_each(ObservedExchange::end_request);
        if this.request.as_ref().as_pin_ref().is_some_and(|request| !request.is_end_stream())
            && let Some(guard) = &this.attached.exchange_guard
        {
            guard.note_unread();
        }
        this.request.set(None);
        let head = match refusal {
            None => {
                let mut head = ready!(live.poll(cx, HttpExchange::poll_head));
                // The rest of the body remains unread.
                if head.status == StatusCode::REQUEST_TIMEOUT.as_u16() {
                    head.headers.to_mut().push((CONNECTION.as_str(), Cow::Borrowed("close")));
                }
                head
            }
            Some(status) => {
                *this.stage = ExchangeStage::Ended;
                let headers = vec![(CONNECTION.as_str(), Cow::Borrowed("close"))];
                ResponseHead { status: status.as_u16(), headers: headers.into(), body: BodyKind::Empty }
            }
        };
        let live = match std::mem::replace(this.stage, ExchangeStage::Ended) {
            ExchangeStage::Open(live) => Some(live),
            _ => None,
        };
        let attached = std::mem::take(this.attached);
        Poll::Ready(Ok(response(head, live, attached)))
    }
}

/// Passes the request body to the exchange as long as it accepts more. Ready with the status if the exchange rejects
/// the request.
fn poll_request<B: Body, H: HandlerMode>(
    mut request: Pin<&mut Option<B>>,
    live: &mut TimedExchange<H>,
    observed: &mut Option<ObservedExchange>,
    cx: &mut Context<'_>,
) -> Poll<Option<StatusCode>> {
    while live.exchange.wants_body()
        && let Some(body) = request.as_mut().as_pin_mut()
    {
        match body.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(mut data) = frame.into_data() {
                    let data = data.copy_to_bytes(data.remaining());
                    observed.iter_mut().for_each(|observed| observed.handle_body(&data));
                    live.exchange.handle_body(data);
                }
            }
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(StatusCode::BAD_REQUEST)),
            Poll::Ready(None) => {
                live.exchange.handle_body_end();
                request.set(None);
            }
            Poll::Pending => ready!(live.poll_timeout(cx)),
        }
    }
    Poll::Ready(None)
}

debug_fields! { [B, H: ServerMode] ResponseFuture<B, H> {} }

fn response<H: HandlerMode>(
    head: ResponseHead,
    live: Option<TimedExchange<H>>,
    attached: ConnectionHooks,
) -> Response<ResponseBody<H>> {
    let left = match head.body {
        BodyKind::Empty => Some(0),
        BodyKind::Sized(bytes) => Some(bytes as u64),
        BodyKind::Stream => None,
    };
    let mut response =
        Response::new(ResponseBody { exchange: live, buffered: Bytes::new(), remaining: left, attached });
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.reserve(head.headers.len());
    for (name, value) in head.headers.iter() {
        let value = match value {
            // Not copied, as it is static.
            Cow::Borrowed(value) => HeaderValue::from_maybe_shared(Bytes::from_static(value.as_bytes())),
            Cow::Owned(value) => HeaderValue::from_str(value),
        };
        // The exchange emits only valid header values.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
            headers.append(name, value);
        }
    }
    if let Some(mut observed) = response.body_mut().attached.observed.take() {
        observed.show_head(&response);
        if left == Some(0) {
            observed.end();
        }
        response.body_mut().attached.observed = Some(observed);
    }
    response
}

/// Maximum bytes of a body handed to hyper at a time: hyper copies each chunk, and accepts it whole whether the client
/// reads or not.
const MAX_CHUNK: usize = 64 * 1024;

//= S3.16 "Client disconnect = cancel"
/// The body of a response. Dropping it before its end tells the exchange that the client has disconnected.
pub struct ResponseBody<H: HandlerMode = SendHandlers> {
    exchange: Option<TimedExchange<H>>,
    /// Bytes that the exchange produced and hyper has not taken yet.
    buffered: Bytes,
    /// The number of body bytes not sent yet; `None` if it is unknown until the body ends.
    remaining: Option<u64>,
    attached: ConnectionHooks,
}

impl<H: HandlerMode> Body for ResponseBody<H> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let Some(live) = &mut this.exchange else { return Poll::Ready(None) };
        if let Some(demand) = &this.attached.body_demand {
            demand.set_waiting(false);
        }
        if this.buffered.is_empty() {
            match ready!(live.poll(cx, HttpExchange::poll_body)) {
                Some(bytes) => this.buffered = bytes,
                None => {
                    this.remaining = Some(0);
                    this.attached.observed.iter_mut().for_each(ObservedExchange::end);
                    return Poll::Ready(None);
                }
            }
        }
        let piece = this.buffered.split_to(this.buffered.len().min(MAX_CHUNK));
        if let Some(left) = &mut this.remaining {
            *left = left.saturating_sub(piece.len() as u64);
        }
        if let Some(observed) = &mut this.attached.observed {
            observed.show_body(&piece);
            // hyper does not ask again for a body of known length.
            if this.remaining == Some(0) {
                observed.end();
            }
        }
        if let Some(demand) = &this.attached.body_demand {
            demand.set_waiting(true);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

debug_fields! { [H: HandlerMode] ResponseBody<H> {} }

/// Whether hyper has yet to send the last piece of a body.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyDemand(Arc<AtomicBool>);

impl BodyDemand {
    /// Records whether hyper has a piece left to send.
    fn set_waiting(&self, waiting: bool) {
        self.0.store(waiting, Ordering::Relaxed);
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a server's futures are `Send`, as its router's handlers are: [`SendHandlers`] or [`LocalHandlers`].
/// Applications do not implement it.
pub trait ServerMode: HandlerMode {
    /// The task that answers one request.
    #[doc(hidden)]
    type Task: Future<Output = ()> + Unpin + 'static;

    /// The queue in which hyper leaves the tasks of HTTP/2 streams.
    #[doc(hidden)]
    #[cfg(feature = "http2")]
    type StreamQueue: Http2ServerConnExec<ResponseFuture<Incoming, Self>, ResponseBody<Self>>
        + From<Queue<Self::Task>>
        + Unpin
        + 'static;
}

impl ServerMode for SendHandlers {
    type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
    #[cfg(feature = "http2")]
    type StreamQueue = Queue<Self::Task>;
}

impl ServerMode for LocalHandlers {
    type Task = Pin<Box<dyn Future<Output = ()>>>;
    #[cfg(feature = "http2")]
    type StreamQueue = Queue<Self::Task>;
}

/// The queue from hyper, which starts streams while it is polled, to the connection, which polls them.
#[doc(hidden)]
pub struct Queue<T>(Arc<Mutex<Inbox<T>>>);

/// The queue of a connection, for its service.
pub(super) type DemandQueue<H> = Queue<<H as ServerMode>::Task>;

struct Inbox<T> {
    /// Body demand of the stream that hyper starts next.
    next_demand: Option<BodyDemand>,
    started: Vec<(T, Option<BodyDemand>)>,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inbox { next_demand: None, started: Vec::new() })))
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the body demand of the stream that hyper starts next. hyper starts a stream right after it has called
    /// the service for it.
    pub(super) fn announce(&self) -> BodyDemand {
        let demand = BodyDemand::default();
        self.inbox().next_demand = Some(demand.clone());
        demand
    }

    fn start(&self, task: T) {
        let mut inbox = self.inbox();
        let demand = inbox.next_demand.take();
        inbox.started.push((task, demand));
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

debug_fields! { [T] Queue<T> {} }

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Queue<<SendHandlers as ServerMode>::Task> {
    fn execute(&self, future: F) {
        self.start(Box::pin(future));
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Queue<<LocalHandlers as ServerMode>::Task> {
    fn execute(&self, future: F) {
        self.start(Box::pin(future));
    }
}

/// The open streams of a connection.
pub(super) struct Streams<T> {
    queue: Queue<T>,
    open: TaskSet<DrivenStream<T>>,
    timers: Timers,
    stall_timeout: Duration,
}

impl<T: Future<Output = ()> + Unpin> Streams<T> {
    /// An empty set of streams, each of which may be blocked for up to `stall_timeout`.
    pub(super) fn new(queue: Queue<T>, timers: Timers, stall_timeout: Duration) -> Self {
        Self { queue, open: TaskSet::default(), timers, stall_timeout }
    }

    /// Advances every stream that is ready to progress. Ready if there was one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let started = std::mem::take(&mut self.queue.inbox().started);
        let mut progress = !started.is_empty();
        for (task, demand) in started {
            self.open.insert(DrivenStream {
                task,
                body_demand: demand,
                timers: self.timers.clone(),
                stall_timeout: self.stall_timeout,
                alarm: Alarm::default(),
                deadline: None,
            });
        }
        while self.open.poll_next(cx).is_ready() {
            progress = true;
        }
        if progress { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<T> Drop for Streams<T> {
    /// Drops the streams that were not polled yet: hyper's tasks hold the queue, and would keep it and each other.
    fn drop(&mut self) {
        let started = std::mem::take(&mut self.queue.inbox().started);
        drop(started);
    }
}

/// A stream that the connection drives. When its client has read nothing of it for too long, it is dropped, which
/// resets it.
struct DrivenStream<T> {
    task: T,
    body_demand: Option<BodyDemand>,
    timers: Timers,
    stall_timeout: Duration,
    alarm: Alarm,
    deadline: Option<Instant>,
}

impl<T: Future<Output = ()> + Unpin> Future for DrivenStream<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if Pin::new(&mut this.task).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if this.body_demand.as_ref().is_some_and(BodyDemand::is_waiting) {
            let (timers, stall_timeout) = (&this.timers, this.stall_timeout);
            let deadline = this.deadline.or_else(|| timers.now().checked_add(stall_timeout));
            this.deadline = deadline;
            return this.alarm.poll_until(deadline, timers, cx);
        }
        this.deadline = None;
        Poll::Pending
    }
}
