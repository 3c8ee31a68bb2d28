//! The transport, which carries exchanges over pooled connections.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use http::header::{self, HeaderMap};
use http::{HeaderName, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use hyper::rt::Sleep;
use mcp_proto::Instant;
use mcp_proto::peer::LostReason;
use mcp_proto::transport::http::client::HttpRequest;
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState};

use crate::io::BufferedBody;
use crate::runtime::Runtime;
use crate::task_set::{TaskKey, TaskSet};
use crate::wire::{Tap, WireEvent, mark_secrets};

use super::connection::{Background, Connection, Connector, Http1, Http2};
use super::error::{DialError, SendError, error_chain};
use super::headers::{ExtraHeaders, header_name, header_value, method};
use super::pool::{Pool, SETTLE};
use super::target::{Origin, Target};

/// Maximum number of events that wait to be handled before tasks are polled again, unless one task causes several.
const EVENTS: usize = 32;

/// Number of usual headers besides those of the protocol: `user-agent`, `host`, and hyper's `content-length`.
const MORE_HEADERS: usize = 3;

/// An event of an exchange.
pub(super) enum TransportEvent {
    Head { exchange: ExchangeId, status: StatusCode, headers: HeaderMap },
    Body { exchange: ExchangeId, bytes: Bytes },
    End { exchange: ExchangeId, end: ExchangeEnd },
}

/// Carries exchanges over pooled connections. [`poll`](Self::poll) drives all of its tasks; dropping it ends them.
pub(super) struct Transport<R> {
    pub(super) connector: Arc<Connector<R>>,
    extra_headers: ExtraHeaders,
    wire: Tap,
    idle: Duration,
    /// The URL of the last request, parsed. Most clients have one.
    target: Option<(Arc<str>, Arc<Target>)>,
    pools: BTreeMap<Arc<Origin>, Pool>,
    exchanges: BTreeMap<ExchangeId, Exchange>,
    /// Responses whose next piece has not been requested.
    unread: BTreeMap<ExchangeId, OpenResponse>,
    tasks: TaskSet<Task>,
    /// The events to handle. [`show_events`](Transport::show_events) comes first.
    pub(super) events: VecDeque<TransportEvent>,
}

struct Exchange {
    origin: Arc<Origin>,
    /// The exchange's current task; absent while it has none.
    task: Option<TaskKey>,
    /// The shared connection that carries the exchange.
    shared: Option<u64>,
}

impl<R: Runtime> Transport<R> {
    pub(super) fn new(
        connector: Arc<Connector<R>>,
        extra_headers: ExtraHeaders,
        wire: Tap,
        idle: Duration,
    ) -> Self {
        Self {
            connector,
            extra_headers,
            wire,
            idle,
            target: None,
            pools: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            unread: BTreeMap::new(),
            tasks: TaskSet::default(),
            events: VecDeque::new(),
        }
    }

    /// Starts an exchange.
    pub(super) fn open(&mut self, now: Instant, request: HttpRequest) {
        let exchange = request.exchange;
        self.connector.stream.note_opened(now);
        let (target, request) = match self.prepare(request) {
            Ok(prepared) => prepared,
            Err(detail) => {
                return self.resolve(exchange, ExchangeEnd::Failed { sent: SentState::NotSent, detail });
            }
        };
        self.enqueue(now, exchange, target, request);
    }

    /// Parses the URL of a request, unless it is that of the last one.
    fn target(&mut self, url: &Arc<str>) -> Result<Arc<Target>, String> {
        if let Some((last, target)) = &self.target
            && last == url
        {
            return Ok(target.clone());
        }
        let target = Target::parse(url).ok_or("the request's URL is neither http: nor https:")?;
        let target = Arc::new(target);
        self.target = Some((url.clone(), target.clone()));
        Ok(target)
    }

    /// Makes a request of the protocol's, with the application's headers, and shows it to its observer.
    pub(super) fn prepare(
        &mut self,
        request: HttpRequest,
    ) -> Result<(Arc<Target>, Request<BufferedBody>), String> {
        let target = self.target(&request.url)?;
        let mut prepared = Request::new(BufferedBody(request.body));
        *prepared.method_mut() = method(request.verb);
        *prepared.headers_mut() = HeaderMap::with_capacity(request.headers.len() + MORE_HEADERS);
        let headers = prepared.headers_mut();
        for (name, value) in request.headers {
            let converted = header_name(&name).zip(header_value(value));
            let Some(((name, is_secret), mut value)) = converted else {
                return Err(format!("the header {name} is not valid in HTTP"));
            };
            value.set_sensitive(is_secret);
            headers.append(name, value);
        }
        self.extra_headers.apply(headers);
        if let Some(credentials) = &target.credentials {
            headers.entry(header::AUTHORIZATION).or_insert_with(|| credentials.clone());
        }
        self.wire.show(WireEvent::Request {
            exchange: request.exchange,
            method: prepared.method(),
            url: &request.url,
            headers: prepared.headers(),
            body: &prepared.body().0,
        });
        Ok((target, prepared))
    }

    fn enqueue(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        target: Arc<Target>,
        request: Request<BufferedBody>,
    ) {
        let origin = target.origin.clone();
        self.exchanges.insert(exchange, Exchange { origin: origin.clone(), task: None, shared: None });
        self.pools.entry(origin.clone()).or_default().wait(exchange, target, request);
        self.assign_connections(now, &origin);
    }

    /// Assigns connections to waiting requests, and opens more if there are not enough.
    fn assign_connections(&mut self, now: Instant, origin: &Arc<Origin>) {
        let Some(pool) = self.pools.get_mut(origin) else { return };
        while let Some((exchange, target, request, pooled)) = pool.next_ready(now) {
            // The end of an only connection is reported by itself.
            let has_rested = pooled.has_rested && !self.connector.stream.is_given();
            let settled = has_rested.then(|| self.connector.runtime.timer().sleep(SETTLE));
            let task = self.tasks.insert(Task::send(exchange, request, target, pooled.connection, settled));
            if let Some(exchange) = self.exchanges.get_mut(&exchange) {
                exchange.task = Some(task);
                exchange.shared = pooled.shared;
            }
        }
        let most = if self.connector.stream.is_given() { 1 } else { usize::MAX };
        for _ in 0..pool.connections_to_open(most) {
            let (connector, origin) = (self.connector.clone(), origin.clone());
            self.tasks.insert(Task::new(async move {
                let opened = connector.connect(&origin, |_| true).await;
                TaskOutcome::Connected { origin, opened }
            }));
        }
    }

    /// Aborts an exchange; no event follows for the machine.
    pub(super) fn abort(&mut self, now: Instant, exchange: ExchangeId) {
        self.unread.remove(&exchange);
        let Some(Exchange { origin, task, shared }) = self.exchanges.remove(&exchange) else { return };
        self.wire.show(WireEvent::Aborted { exchange });
        if let Some(task) = task {
            self.tasks.remove(task);
        }
        if let Some(pool) = self.pools.get_mut(&origin) {
            pool.remove(exchange);
            if let Some(shared) = shared {
                pool.return_shared(now, shared);
            }
        }
        self.assign_connections(now, &origin);
    }

    /// The exchanges with a response that is not being read.
    pub(super) fn unread(&self) -> impl Iterator<Item = ExchangeId> {
        self.unread.keys().copied()
    }

    /// Reads the next piece of a response.
    pub(super) fn read(&mut self, now: Instant, exchange: ExchangeId) {
        if let Some(answer) = self.unread.remove(&exchange) {
            self.read_piece(now, exchange, answer);
        }
    }

    fn read_piece(&mut self, now: Instant, exchange: ExchangeId, answer: OpenResponse) {
        let mut reading = BodyRead::new(exchange, answer);
        // The piece is often there already, together with the head. Otherwise the task polls again.
        if let Poll::Ready(outcome) = Pin::new(&mut reading).poll(&mut Context::from_waker(Waker::noop())) {
            return self.handle_outcome(now, outcome);
        }
        let task = self.tasks.insert(Task::Reading(reading));
        if let Some(exchange) = self.exchanges.get_mut(&exchange) {
            exchange.task = Some(task);
        }
    }

    /// Runs the tasks. Ready if there are [events](Self::events): poll again once they are handled. A response is read
    /// beyond its first piece only after a call of [`read`](Self::read).
    pub(super) fn poll(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        while self.events.len() < EVENTS {
            match self.tasks.poll_next(cx) {
                Poll::Ready(outcome) => self.handle_outcome(now, outcome),
                // The tasks may have opened connections.
                Poll::Pending if self.start_background() => {}
                Poll::Pending => break,
            }
        }
        if self.events.is_empty() {
            return Poll::Pending;
        }
        self.tasks.unpark();
        Poll::Ready(())
    }

    /// Starts to drive new connections. Returns whether there are any.
    fn start_background(&mut self) -> bool {
        let new = self.connector.background.take();
        let any = !new.is_empty();
        for future in new {
            self.tasks.insert(Task::Background(future));
        }
        any
    }

    fn handle_outcome(&mut self, now: Instant, outcome: TaskOutcome) {
        match outcome {
            TaskOutcome::Nothing => {}
            TaskOutcome::Connected { origin, opened } => {
                let Some(pool) = self.pools.get_mut(&origin) else { return };
                match opened {
                    Ok(connection) => pool.add_opened(now, connection, self.idle),
                    Err(DialError { detail, is_definite }) => {
                        let end = if is_definite {
                            ExchangeEnd::Unreachable(detail)
                        } else {
                            ExchangeEnd::Failed { sent: SentState::NotSent, detail }
                        };
                        for exchange in pool.note_open_failed() {
                            self.resolve(exchange, end.clone());
                        }
                    }
                }
                self.assign_connections(now, &origin);
            }
            TaskOutcome::Ready { origin, connection, keep } => {
                self.return_connection(now, &origin, connection, keep);
                self.assign_connections(now, &origin);
            }
            TaskOutcome::Answered { exchange, status, headers, answer } => {
                if let Some(running) = self.exchanges.get(&exchange)
                    && let Some(shared) = running.shared
                    && let Some(pool) = self.pools.get_mut(&running.origin)
                {
                    pool.note_served(shared);
                }
                self.events.push_back(TransportEvent::Head { exchange, status, headers });
                self.read_piece(now, exchange, answer);
            }
            TaskOutcome::Data { exchange, bytes, answer } => {
                self.events.push_back(TransportEvent::Body { exchange, bytes });
                // The body is complete, so no further read is needed.
                if answer.body.is_end_stream() {
                    return self.handle_outcome(
                        now,
                        TaskOutcome::Ended { exchange, end: ExchangeEnd::Complete, answer },
                    );
                }
                self.pause_reading(exchange, answer);
            }
            TaskOutcome::Ended { exchange, end, answer } => {
                let OpenResponse { origin, connection, keep, .. } = answer;
                self.release(now, exchange);
                match (&end, connection) {
                    (ExchangeEnd::Complete, Some(connection)) if connection.sender.is_ready() => {
                        self.return_connection(now, &origin, connection, keep);
                    }
                    (ExchangeEnd::Complete, Some(connection)) => {
                        self.tasks.insert(Task::wait_ready(origin.clone(), connection, keep));
                    }
                    _ => {}
                }
                if end != ExchangeEnd::Complete && self.connector.stream.has_ended() {
                    return;
                }
                self.resolve(exchange, end);
                self.assign_connections(now, &origin);
            }
            TaskOutcome::Unanswered { exchange, target, failure, reused } => {
                let origin = target.origin.clone();
                let shared = self.release(now, exchange);
                if failure.ends_connection() && self.connector.stream.has_ended() {
                    return;
                }
                if let Some(pool) = self.pools.get_mut(&origin)
                    && let Some(shared) = shared
                    && failure.ends_connection()
                {
                    pool.discard(shared);
                }
                match (failure, reused) {
                    (SendError::Unsent(request, _), true) => self.enqueue(now, exchange, target, request),
                    (SendError::Unsent(_, detail), false) => {
                        self.resolve(exchange, ExchangeEnd::Failed { sent: SentState::NotSent, detail });
                    }
                    (SendError::Lost { sent, detail, .. }, _) => {
                        self.resolve(exchange, ExchangeEnd::Failed { sent, detail })
                    }
                }
                self.assign_connections(now, &origin);
            }
        }
    }

    /// Returns why the client's only connection has ended, once. The requests in flight then fail with the client.
    pub(super) fn take_end(&self) -> Option<LostReason> {
        self.connector.stream.take_end()
    }

    /// Closes the client's only connection. Ready once it is closed, and at once if the client opens its connections.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.connector.stream.is_given() {
            return Poll::Ready(());
        }
        self.pools.clear();
        self.unread.clear();
        for task in std::mem::take(&mut self.exchanges).into_values().filter_map(|exchange| exchange.task) {
            self.tasks.remove(task);
        }
        while self.start_background() || self.tasks.len() > 0 {
            // Nothing is left that an outcome would matter to.
            ready!(self.tasks.poll_next(cx));
        }
        Poll::Ready(())
    }

    /// Returns a connection to its pool for the next request.
    fn return_connection(
        &mut self,
        now: Instant,
        origin: &Arc<Origin>,
        connection: Http1,
        keep: Option<Duration>,
    ) {
        let pool = self.pools.entry(origin.clone()).or_default();
        pool.return_idle(now, connection, self.idle, keep);
    }

    /// Stores a response until its next piece is requested.
    fn pause_reading(&mut self, exchange: ExchangeId, answer: OpenResponse) {
        if let Some(running) = self.exchanges.get_mut(&exchange) {
            running.task = None;
            self.unread.insert(exchange, answer);
        }
    }

    /// Releases an exchange's connection; returns the number of a shared one.
    fn release(&mut self, now: Instant, exchange: ExchangeId) -> Option<u64> {
        let exchange = self.exchanges.get_mut(&exchange)?;
        let shared = exchange.shared.take()?;
        if let Some(pool) = self.pools.get_mut(&exchange.origin) {
            pool.return_shared(now, shared);
        }
        Some(shared)
    }

    /// Ends an exchange.
    pub(super) fn resolve(&mut self, exchange: ExchangeId, end: ExchangeEnd) {
        self.exchanges.remove(&exchange);
        self.events.push_back(TransportEvent::End { exchange, end });
    }

    /// Shows the events to the application's observer.
    pub(super) fn show_events(&mut self) {
        if self.wire.0.is_none() {
            return;
        }
        for event in &mut self.events {
            self.wire.show(match event {
                TransportEvent::Head { exchange, status, headers } => {
                    mark_secrets(headers);
                    WireEvent::Head { exchange: *exchange, status: *status, headers }
                }
                TransportEvent::Body { exchange, bytes } => WireEvent::Body { exchange: *exchange, bytes },
                TransportEvent::End { exchange, end } => WireEvent::End { exchange: *exchange, end },
            });
        }
    }

    /// Shows an event to the application's observer.
    #[cfg(feature = "websocket")]
    pub(super) fn show(&mut self, event: WireEvent<'_>) {
        self.wire.show(event);
    }

    /// Closes connections that were idle for too long.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            for pool in self.pools.values_mut() {
                pool.expire(now, self.idle);
            }
            self.pools.retain(|_, pool| !pool.is_empty());
        }
    }

    /// When the next idle connection expires.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.pools.values().filter_map(|pool| pool.next_expiry(self.idle)).min()
    }
}

debug_fields! { [R] Transport<R>(self) { connector, exchanges = self.exchanges.len() } }

// The tasks that a client's transport polls: connections, and requests on them.

/// A future that the transport polls. Its output is a [`TaskOutcome`].
pub(super) enum Task {
    Boxed(Pin<Box<dyn Future<Output = TaskOutcome> + Send>>),
    Background(Background),
    Reading(BodyRead),
}

/// The result of a task.
pub(super) enum TaskOutcome {
    /// No event follows.
    Nothing,
    Connected {
        origin: Arc<Origin>,
        opened: Result<Connection, DialError>,
    },
    /// A connection is ready for another request.
    Ready {
        origin: Arc<Origin>,
        connection: Http1,
        keep: Option<Duration>,
    },
    Answered {
        exchange: ExchangeId,
        status: StatusCode,
        headers: HeaderMap,
        answer: OpenResponse,
    },
    Unanswered {
        exchange: ExchangeId,
        target: Arc<Target>,
        failure: SendError<Request<BufferedBody>>,
        /// Whether the connection had served a request before.
        reused: bool,
    },
    Data {
        exchange: ExchangeId,
        bytes: Bytes,
        answer: OpenResponse,
    },
    Ended {
        exchange: ExchangeId,
        end: ExchangeEnd,
        answer: OpenResponse,
    },
}

/// A response whose body has not ended.
pub(super) struct OpenResponse {
    pub(super) origin: Arc<Origin>,
    pub(super) body: Incoming,
    /// The connection, unless other requests share it.
    pub(super) connection: Option<Http1>,
    /// How long the server keeps the idle connection, according to its `keep-alive` header.
    pub(super) keep: Option<Duration>,
}

/// Reads a piece of a response's body.
pub(super) struct BodyRead {
    exchange: ExchangeId,
    answer: Option<OpenResponse>,
}

impl Task {
    pub(super) fn new(future: impl Future<Output = TaskOutcome> + Send + 'static) -> Self {
        Self::Boxed(Box::pin(future))
    }

    /// Waits until the connection is ready for another request.
    pub(super) fn wait_ready(origin: Arc<Origin>, mut connection: Http1, keep: Option<Duration>) -> Self {
        Self::new(async move {
            match connection.sender.ready().await {
                Ok(()) => TaskOutcome::Ready { origin, connection, keep },
                Err(_) => TaskOutcome::Nothing,
            }
        })
    }

    /// Sends a request once the connection has settled, and waits for the head of its response.
    pub(super) fn send(
        exchange: ExchangeId,
        request: Request<BufferedBody>,
        target: Arc<Target>,
        connection: Connection,
        settled: Option<Pin<Box<dyn Sleep>>>,
    ) -> Self {
        // Not one future around both: it would hold the request twice, and it is moved as a whole.
        match connection {
            Connection::Http1(connection) => {
                Self::new(send_http1(exchange, request, target, connection, settled))
            }
            Connection::Http2(connection) => {
                Self::new(send_http2(exchange, request, target, connection, settled))
            }
        }
    }
}

impl Future for Task {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskOutcome> {
        match &mut *self {
            Self::Boxed(future) => future.as_mut().poll(cx),
            Self::Background(future) => future.as_mut().poll(cx).map(|()| TaskOutcome::Nothing),
            Self::Reading(reading) => Pin::new(reading).poll(cx),
        }
    }
}

async fn send_http1(
    exchange: ExchangeId,
    mut request: Request<BufferedBody>,
    target: Arc<Target>,
    mut connection: Http1,
    settled: Option<Pin<Box<dyn Sleep>>>,
) -> TaskOutcome {
    OptionFuture::from(settled).await;
    let reused = connection.used;
    connection.set_target(&mut request, &target);
    if let Err(error) = connection.sender.ready().await {
        let failure = SendError::Unsent(request, error_chain(&error));
        return TaskOutcome::Unanswered { exchange, target, failure, reused };
    }
    match connection.sender.try_send_request(request).await {
        Ok(response) => {
            connection.used = true;
            let (head, body) = response.into_parts();
            let keep = keep_alive_timeout(&head.headers);
            let answer =
                OpenResponse { origin: target.origin.clone(), body, connection: Some(connection), keep };
            TaskOutcome::Answered { exchange, status: head.status, headers: head.headers, answer }
        }
        Err(error) => TaskOutcome::Unanswered { exchange, target, failure: error.into(), reused },
    }
}

async fn send_http2(
    exchange: ExchangeId,
    request: Request<BufferedBody>,
    target: Arc<Target>,
    mut connection: Http2,
    settled: Option<Pin<Box<dyn Sleep>>>,
) -> TaskOutcome {
    OptionFuture::from(settled).await;
    match connection.send(request, &target).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            let answer = OpenResponse { origin: target.origin.clone(), body, connection: None, keep: None };
            TaskOutcome::Answered { exchange, status: head.status, headers: head.headers, answer }
        }
        Err(failure) => TaskOutcome::Unanswered { exchange, target, failure, reused: connection.is_used() },
    }
}

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Parses the timeout of `keep-alive: timeout=…`.
fn keep_alive_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(&KEEP_ALIVE)?.to_str().ok()?;
    let parameters = value.split(',').filter_map(|parameter| parameter.split_once('='));
    let mut timeouts = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"));
    timeouts.next()?.1.trim().parse().ok().map(Duration::from_secs)
}

impl BodyRead {
    pub(super) fn new(exchange: ExchangeId, answer: OpenResponse) -> Self {
        Self { exchange, answer: Some(answer) }
    }
}

impl Future for BodyRead {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskOutcome> {
        let exchange = self.exchange;
        loop {
            let Some(answer) = &mut self.answer else { return Poll::Ready(TaskOutcome::Nothing) };
            let read = match ready!(Pin::new(&mut answer.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => Ok(bytes),
                    // Trailers have no meaning in MCP.
                    Ok(_) | Err(_) => continue,
                },
                Some(Err(error)) => Err(ExchangeEnd::Truncated(error_chain(&error))),
                None => Err(ExchangeEnd::Complete),
            };
            let Some(answer) = self.answer.take() else { return Poll::Ready(TaskOutcome::Nothing) };
            return Poll::Ready(match read {
                Ok(bytes) => TaskOutcome::Data { exchange, bytes, answer },
                Err(end) => TaskOutcome::Ended { exchange, end, answer },
            });
        }
    }
}

debug_fields! { BodyRead { exchange } }
