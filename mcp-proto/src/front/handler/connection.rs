//! The connection of a handler's client: the state that a server's handles, its driver and the contexts of its handlers
//! share, its events, and reports of handlers that block.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::inbound_request::{Caller, NotificationContext, RequestState};
use crate::front::clock::Entropy;
use crate::front::events::ListenerEvent;
use crate::front::shared::{ConnectionState, Core, LayeredCore, Shared};
use crate::front::wakers::{WaitPoint, Waiters, Wakers};
use crate::front::{Error, Notification};
use crate::inline_map::{InlineMap, InlineQueue};
use crate::peer::Passage;
use crate::peer::server::{
    Cancellation, CloseReason, Diagnostic, RequestContext, ServerCommands, ServerTransport,
};
use crate::peer::{InboundId, LostReason, Principal, server};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::{Raw, Text};
use crate::schema::tasks::legacy::RelatedTask;
use crate::schema::{Json, LoggingLevel, LoggingMessageParams, Meta, Revision, meta};
use crate::{Instant, Limits};

/// Work on the client's requests, queued for the driver.
pub(crate) enum ServerWork {
    Start(NewRequest),
    Stop(InboundId),
    /// A layer calls this tool in place of the one that the request names.
    Redirect(InboundId, String),
}

impl ServerWork {
    pub(crate) fn is_start(&self) -> bool {
        matches!(self, Self::Start(_))
    }
}

/// A request whose handler has not been started yet.
pub(crate) struct NewRequest {
    pub(crate) id: InboundId,
    pub(crate) method: Text,
    pub(crate) params: Option<Raw>,
    pub(crate) caller: Caller,
    pub(in crate::front) state: Arc<RequestState>,
}

/// An active request.
pub(crate) struct ActiveRequest {
    state: Arc<RequestState>,
    /// The tasks that wait for its end.
    waiters: Waiters,
}

#[derive(Default)]
pub(crate) struct ServerCore {
    pub(crate) common: ConnectionState<ServerEvent, CloseReason, ServerWork, NotificationContext>,
    active: InlineMap<InboundId, ActiveRequest>,
    /// The caller of the requests that arrive now.
    pub(crate) caller: Caller,
    /// Takes the reports about handlers beside the listeners.
    reports: Option<Arc<dyn HandlerReports>>,
}

impl ServerCore {
    /// The core of a server over HTTP, whose requests arrive from `caller`, and which reports about its handlers to all its
    /// listeners.
    #[cfg(feature = "http")]
    pub(in crate::front) fn over_http(caller: Caller, reports: Arc<dyn HandlerReports>) -> Self {
        Self { caller, reports: Some(reports), ..Self::default() }
    }

    /// Rejects commands once the driver is dropped.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.common.driver_dropped { Err(Error::Lost(LostReason::DriverDropped)) } else { Ok(()) }
    }

    /// Handles the drop of the driver: resolves all pending requests as lost. Returns the work that was not begun, to
    /// be dropped outside the lock.
    pub(crate) fn handle_driver_dropped(&mut self, wakers: &mut Wakers) -> InlineQueue<ServerWork> {
        if self.common.closed.is_none() {
            self.finish(CloseReason::Lost(LostReason::DriverDropped), wakers);
        }
        self.common.handle_driver_dropped(wakers)
    }

    /// Sets the `_meta` of the active requests, in memory that they share with other connections.
    #[cfg(feature = "http")]
    pub(crate) fn share_meta(&self, meta: &Raw) {
        for active in self.active.values() {
            active.state.share_meta(meta.clone());
        }
    }

    /// Whether no request is active and no handler has work.
    #[cfg(feature = "http")]
    pub(crate) fn is_idle(&self) -> bool {
        self.common.closed.is_none() && self.active.is_empty() && self.common.is_idle()
    }

    /// Removes a request that was answered, cancelled or lost.
    pub(crate) fn remove_request(&mut self, request: InboundId, end: Cancellation, wakers: &mut Wakers) {
        if let Some(mut ended) = self.active.remove(&request) {
            ended.state.set_end(end);
            wakers.wake_all(&mut ended.waiters);
        }
    }

    fn finish(&mut self, closed: CloseReason, wakers: &mut Wakers) {
        while let Some((_, mut ended)) = self.active.pop_first() {
            ended.state.set_end(Cancellation::by_close(&closed));
            wakers.wake_all(&mut ended.waiters);
        }
        self.common.finish(closed, ServerEvent::Closed, wakers);
    }

    fn begin(&mut self, id: InboundId, method: Text, params: Option<Raw>, context: RequestContext) {
        let state = Arc::new(RequestState::new(context, params.as_ref()));
        self.active.insert(id, ActiveRequest { state: state.clone(), waiters: Waiters::default() });
        let caller = self.caller.clone();
        self.common.work.push_back(ServerWork::Start(NewRequest { id, method, params, caller, state }));
    }
}

impl<M: ServerTransport + ?Sized> Core<M> for ServerCore {
    type Event = ServerEvent;
    type End = CloseReason;
    type Work = ServerWork;
    type Context = NotificationContext;

    fn common(&mut self) -> &mut ConnectionState<ServerEvent, CloseReason, ServerWork, NotificationContext> {
        &mut self.common
    }

    fn drain(&mut self, machine: &mut M, wakers: &mut Wakers) {
        while let Some(event) = machine.poll_event() {
            let event = match event {
                server::Event::Request { id, method, params, context } => {
                    self.begin(id, method, params, context);
                    continue;
                }
                server::Event::Cancelled { id, cancellation } => {
                    if let Cancellation::Client { reason } = &cancellation {
                        let reason = reason.clone();
                        self.common.publish(&ServerEvent::RequestCancelled { request: id, reason }, wakers);
                    }
                    self.remove_request(id, cancellation, wakers);
                    self.common.work.push_back(ServerWork::Stop(id));
                    continue;
                }
                server::Event::Progress { request, params } => {
                    self.common.slots.progress(request, params, wakers);
                    continue;
                }
                server::Event::Outcome { request, outcome } => {
                    self.common.slots.resolve(request, outcome, wakers);
                    continue;
                }
                server::Event::Closed(closed) => {
                    self.finish(closed, wakers);
                    continue;
                }
                server::Event::Notification { method, params } => {
                    let notification = Notification { method, params };
                    let owner = &self.caller.owner;
                    let context =
                        || NotificationContext::new(machine.peer().principal().cloned(), owner.clone());
                    if let Some(count) = self.common.queue_notification(&notification, context) {
                        let dropped = Diagnostic::NotificationsDropped { count };
                        self.common.publish(&ServerEvent::Diagnostic(dropped), wakers);
                    }
                    ServerEvent::Notification(notification)
                }
                server::Event::Initialized => ServerEvent::Initialized,
                server::Event::LogLevelSet(level) => ServerEvent::LevelSet(level),
                server::Event::Subscribed { uri } => ServerEvent::Subscribed { uri },
                server::Event::Unsubscribed { uri } => ServerEvent::Unsubscribed { uri },
                server::Event::Diagnostic(diagnostic) => ServerEvent::Diagnostic(diagnostic),
            };
            self.common.publish(&event, wakers);
        }
        while let Some(waker) = machine.poll_waker() {
            wakers.wake(Some(waker));
        }
    }
}

/// The connection as handles and contexts see it, independent of the machine's type.
pub(in crate::front) type Connection = Shared<ServerCore, dyn ServerTransport + Send>;

impl Connection {
    /// Gives a command to the server.
    pub(in crate::front) fn act<R>(&self, command: impl FnOnce(ServerCommands<'_>) -> R) -> R {
        self.command(|_, machine, now, _| command(machine.at(now)))
    }

    /// Logs on behalf of a request or of the connection, if the client wants messages of this level.
    pub(super) fn log(&self, request: Option<InboundId>, params: &LoggingMessageParams) {
        let reports = self.command(|core, machine, now, _| {
            let is_first = machine.peer().is_first_undeclared_log();
            machine.at(now).log(request, params);
            is_first.then(|| core.reports.clone())
        });
        if reports.is_some_and(|reports| reports.is_none_or(|reports| reports.undeclared_logging())) {
            warn(&Diagnostic::UndeclaredLogging);
        }
    }

    /// Whether a request is neither answered nor cancelled.
    pub(in crate::front) fn is_active(&self, request: InboundId) -> bool {
        self.read(|core, _| core.active.contains_key(&request))
    }

    /// Schedules the handler of a request to be polled by its driver.
    pub(in crate::front) fn wake_handler(&self, request: InboundId) {
        self.signal().mark_ready(request);
        self.signal().notify();
    }

    /// Reports the handler of a request if it kept the driver for long: in a poll that began at `begun`, or before it
    /// returned its future. Without a method it is that of the request. Returns the time.
    pub(in crate::front) fn report_if_blocked(
        &self,
        begun: Instant,
        (request, method, name): (InboundId, Option<&'static str>, Option<&str>),
    ) -> Instant {
        let now = self.now();
        let elapsed = now.saturating_since(begun);
        if elapsed <= PATIENCE {
            return now;
        }
        let mut blocked = BlockedHandler { method, name: name.map(String::from), elapsed };
        let reports = self.with_events(|core, machine, wakers| {
            blocked.method = method.or_else(|| machine.peer().method(request));
            core.common.publish(&ServerEvent::HandlerBlocked(blocked.clone()), wakers);
            core.reports.clone()
        });
        warn(&blocked);
        if let Some(reports) = reports {
            reports.handler_blocked(blocked);
        }
        now
    }
}

/// Emits a report about the application's handlers, for its log.
fn warn(report: &dyn fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "mcp_proto::server", "{report}");
    #[cfg(not(feature = "tracing"))]
    let _ = report;
}

/// A request of the client, for whose end tasks wait.
pub(super) struct RequestEnd<'a> {
    pub(super) connection: &'a Connection,
    pub(super) request: InboundId,
}

impl WaitPoint for RequestEnd<'_> {
    type State = InlineMap<InboundId, ActiveRequest>;

    fn visit<R>(&self, act: impl FnOnce(&mut Self::State, &mut Wakers) -> R) -> R {
        self.connection.with_events(|core, _, wakers| act(&mut core.active, wakers))
    }

    fn waiters<'s>(&self, active: &'s mut Self::State) -> Option<&'s mut Waiters> {
        active.get_mut(&self.request).map(|request| &mut request.waiters)
    }
}

/// A request that a handler answers: its state, caller and connection.
pub(in crate::front) struct InboundRequest {
    pub(in crate::front) connection: Arc<Connection>,
    pub(in crate::front) id: InboundId,
    pub(in crate::front) caller: Caller,
    pub(in crate::front) entropy: Arc<dyn Entropy>,
    pub(in crate::front) state: Arc<RequestState>,
}

impl InboundRequest {
    pub(in crate::front) fn principal(&self) -> Option<&Principal> {
        self.state.context.principal.as_ref()
    }

    /// The owner whose quota the request uses.
    pub(in crate::front) fn owner(&self) -> QuotaOwner {
        self.principal().map_or_else(|| self.caller.owner.clone(), |principal| principal.clone().into())
    }

    /// Lets the driver know that a layer calls another tool.
    pub(in crate::front) fn redirect(&self, tool: String) {
        self.connection
            .command(|core, _, _, _| core.common.work.push_back(ServerWork::Redirect(self.id, tool)));
    }

    /// An unguessable id in letters and digits.
    pub(in crate::front) fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
    }
}

/// The `_meta` of a message that belongs to a task (2025-11-25).
pub(in crate::front) fn related_task_meta(id: &str) -> Meta {
    [(meta::RELATED_TASK, related_task(id))].into_iter().collect()
}

/// The value of [`meta::RELATED_TASK`].
pub(in crate::front) fn related_task(id: &str) -> Json {
    Json::encode(&RelatedTask::new(String::from(id))).unwrap_or_else(|_| Json::null())
}

/// How long a handler may keep its driver before it is reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handler that kept its driver for more than a second in one poll, or before it returned its future. Every client of
/// that driver waited. The feature `tracing` also emits it as an event of the target `mcp_proto::server`.
///
/// Work that blocks belongs on another thread: with `unblock` of the crate `blocking`, or `spawn_blocking` of Tokio.
/// [`Router::spawn_handlers`](crate::front::Router::spawn_handlers) makes each handler a task apart from the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedHandler {
    /// The method of its request; `None` for a notification, and for a method that the protocol does not define.
    pub method: Option<&'static str>,
    /// The tool, the prompt, or the URI of the resource.
    pub name: Option<String>,
    /// How long the poll took.
    pub elapsed: Duration,
}

impl BlockedHandler {
    /// The approximate size in bytes.
    pub(in crate::front) fn bytes(&self) -> usize {
        self.name.as_ref().map_or(0, String::len)
    }
}

impl fmt::Display for BlockedHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler of {}", self.method.unwrap_or("a notification or a custom method"))?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(
            f,
            " blocked its driver for {:?}, and every client of it waited: move blocking work to another thread \
             (`blocking::unblock`, `tokio::task::spawn_blocking`), or give each handler a task of its own \
             (`Router::spawn_handlers`)",
            self.elapsed
        )
    }
}

/// Takes the reports about the handlers of a server, where the events of a connection reach no listener.
pub(in crate::front) trait HandlerReports: Send + Sync {
    /// Reports a handler that blocked its driver.
    fn handler_blocked(&self, blocked: BlockedHandler);

    /// Reports that a handler logs although the server does not declare it. Returns whether this is the first report.
    fn undeclared_logging(&self) -> bool;

    /// Reports that a layer wanted to drop a message that cannot be dropped.
    fn layer_drop_ignored(&self, message: String);
}

/// An event that concerns the connection rather than one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A legacy client finished its handshake.
    Initialized,
    /// A legacy client set its log level.
    LevelSet(LoggingLevel),
    /// The client subscribed to a resource: report its changes with [`ServerHandle::resource_updated`].
    ///
    /// [`ServerHandle::resource_updated`]: crate::front::ServerHandle::resource_updated
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// The client unsubscribed from a resource.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// The client cancelled a request, for the log. The handler learns of it from its context.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation#implementation-notes>
    RequestCancelled {
        /// The request, as in the [`id`](crate::front::Context::id) of its context.
        request: InboundId,
        /// The client's reason, as in [`Cancellation::Client`](crate::peer::server::Cancellation::Client).
        reason: Option<String>,
    },
    /// The client sent a notification that belongs to no request of the server.
    Notification(Notification),
    /// A problem that ended no request, for the log.
    Diagnostic(Diagnostic),
    /// A handler blocked the driver, for the log.
    HandlerBlocked(BlockedHandler),
    /// This listener lost events, because it did not take them in time.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// The connection has ended. This is the last event.
    Closed(CloseReason),
}

impl ListenerEvent for ServerEvent {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Notification(notification) => notification.bytes(),
            Self::Diagnostic(diagnostic) => diagnostic.bytes(),
            Self::HandlerBlocked(blocked) => blocked.bytes(),
            Self::Subscribed { uri } | Self::Unsubscribed { uri } => uri.len(),
            Self::RequestCancelled { reason, .. } => reason.as_ref().map_or(0, String::len),
            _ => 0,
        }
    }

    fn make_owned(&mut self) {
        match self {
            Self::Notification(notification) => notification.make_owned(),
            Self::Diagnostic(diagnostic) => diagnostic.make_owned(),
            _ => {}
        }
    }
}

impl<M: ServerTransport> LayeredCore<M> for ServerCore {
    fn limits(machine: &M) -> &Limits {
        &machine.peer().config().limits
    }

    fn handle_timeout(machine: &mut M, now: Instant) {
        machine.handle_timeout(now);
    }

    fn passage(machine: &mut M) -> Option<&mut dyn Passage> {
        machine.passage()
    }

    fn abort(machine: &mut M, now: Instant, why: LostReason) {
        ServerCommands::new(machine, now).abort(why);
    }

    fn revision(machine: &M) -> Option<Revision> {
        machine.peer().session().map(|session| session.revision)
    }

    fn principal(machine: &M) -> Option<Principal> {
        machine.peer().principal().cloned()
    }

    fn report_undropped(shared: &Shared<Self, M>, messages: Vec<String>) {
        let reports = shared.update(|core, _, wakers| {
            for message in messages.iter().cloned() {
                let report = ServerEvent::Diagnostic(Diagnostic::LayerDropIgnored { message });
                core.common.publish(&report, wakers);
            }
            core.reports.clone()
        });
        if let Some(reports) = reports {
            messages.into_iter().for_each(|message| reports.layer_drop_ignored(message));
        }
    }
}
