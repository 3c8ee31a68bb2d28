//! The transport, which carries exchanges over pooled connections.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Request, StatusCode};
use hyper::body::Body as _;
use mcp_proto::Instant;
use mcp_proto::transport::http::client::HttpRequest;
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState};

use super::connection::{Connector, Http1};
use super::error::{DialError, SendError};
use super::exchange::{BodyRead, OpenResponse, Task, TaskOutcome};
use super::headers::{ExtraHeaders, header_name, header_value, mark_secrets, method};
use super::pool::{Pool, SETTLE};
use super::target::{Origin, Target};
use super::wire::{Tap, WireEvent};
use crate::io::BufferedBody;
use crate::runtime::Runtime;
use crate::task_set::{TaskKey, TaskSet};

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
            let settled = pooled.has_rested.then(|| self.connector.runtime.timer().sleep(SETTLE));
            let task = self.tasks.insert(Task::send(exchange, request, target, pooled.connection, settled));
            if let Some(exchange) = self.exchanges.get_mut(&exchange) {
                exchange.task = Some(task);
                exchange.shared = pooled.shared;
            }
        }
        for _ in 0..pool.connections_to_open() {
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
            self.tasks.insert(Task::background(future));
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
                self.resolve(exchange, end);
                self.assign_connections(now, &origin);
            }
            TaskOutcome::Unanswered { exchange, target, failure, reused } => {
                let origin = target.origin.clone();
                let shared = self.release(now, exchange);
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
