//! The state that a server's handles and its driver share.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::{Poll, Waker};

use super::ServerEvent;
use crate::front::events::Listeners;
use crate::front::handler::connection::HandlerConnection;
use crate::front::handler::connection::HandlerReports;
use crate::front::handler::context::NotificationContext;
use crate::front::handler::inbound_request::Caller;
use crate::front::handler::inbound_request::RequestState;
use crate::front::notification::NotificationQueue;
use crate::front::request_slots::{FollowKind, RequestLink, RequestSlots};
use crate::front::router::ChangeListener;
use crate::front::shared::{Core, Shared};
use crate::front::wakers::{Waiters, Wakers};
use crate::front::{BlockedHandler, Error, Notification, trace};
use crate::inline_map::{InlineMap, InlineQueue};
use crate::peer::server::{
    Cancellation, CloseReason, Diagnostic, ListKind, RequestContext, ServerCommands, ServerTransport,
};
use crate::peer::{
    AnyParams, InboundId, LostReason, Outcome, OutgoingRequest, RequestError, RequestId, server,
};
use crate::rpc::{Raw, Text};
use crate::schema::{InputRequest, LoggingMessageParams, NotificationInfo, ProgressParams};
use crate::{Instant, UnixTime};

/// Work on the client's requests, queued for the driver.
pub(crate) enum ServerWork {
    Start(NewRequest),
    Stop(InboundId),
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
    pub(crate) context: RequestContext,
    pub(crate) caller: Caller,
    pub(crate) state: Arc<RequestState>,
}

/// An active request.
pub(crate) struct ActiveRequest {
    state: Arc<RequestState>,
    /// The tasks that wait for its end.
    pub(crate) waiters: Waiters,
}

#[derive(Default)]
pub(crate) struct ServerCore {
    pub(crate) slots: RequestSlots,
    pub(crate) closed: Option<CloseReason>,
    driver_dropped: bool,
    /// The tasks that wait for the end of the connection.
    pub(crate) waiters: Waiters,
    /// The listeners for events, allocated with the first.
    pub(crate) listeners: Option<Box<Listeners<ServerEvent>>>,
    pub(crate) active: InlineMap<InboundId, ActiveRequest>,
    work: InlineQueue<ServerWork>,
    /// The notifications that wait for their handlers, if there are handlers.
    pub(crate) notifications: Option<Box<NotificationQueue<NotificationContext>>>,
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
        if self.driver_dropped { Err(Error::Lost(LostReason::DriverDropped)) } else { Ok(()) }
    }

    /// Handles the drop of the driver: resolves all pending requests as lost. Returns the work that was not begun, to
    /// be dropped outside the lock.
    pub(crate) fn handle_driver_dropped(&mut self, wakers: &mut Wakers) -> InlineQueue<ServerWork> {
        self.driver_dropped = true;
        self.notifications = None;
        self.slots.resolve_all(&LostReason::DriverDropped, wakers);
        if self.closed.is_none() {
            self.finish(CloseReason::Lost(LostReason::DriverDropped), wakers);
        }
        self.take_work()
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
        self.closed.is_none()
            && self.active.is_empty()
            && self.work.is_empty()
            && self.notifications.as_ref().is_none_or(|queue| queue.is_idle())
    }

    pub(crate) fn take_work(&mut self) -> InlineQueue<ServerWork> {
        core::mem::take(&mut self.work)
    }

    /// Removes a request that was answered, cancelled or lost.
    pub(crate) fn remove_request(&mut self, request: InboundId, end: Cancellation, wakers: &mut Wakers) {
        if let Some(mut ended) = self.active.remove(&request) {
            ended.state.set_end(end);
            wakers.wake_all(&mut ended.waiters);
        }
    }

    /// Adds a listener, which learns of an end that has happened already.
    pub(crate) fn add_listener(&mut self) -> u64 {
        let closed = &self.closed;
        let listeners = self.listeners.get_or_insert_with(|| {
            let mut listeners = Box::<Listeners<ServerEvent>>::default();
            if let Some(closed) = closed {
                listeners.finish(ServerEvent::Closed(closed.clone()), &mut Wakers::default());
            }
            listeners
        });
        listeners.add()
    }

    fn publish(&mut self, event: &ServerEvent, wakers: &mut Wakers) {
        if let Some(listeners) = &mut self.listeners {
            listeners.publish(event, event.bytes(), wakers);
        }
    }

    /// Reports a blocked handler to the listeners.
    pub(super) fn report_blocked(&mut self, blocked: BlockedHandler, wakers: &mut Wakers) {
        self.publish(&ServerEvent::HandlerBlocked(blocked), wakers);
    }

    fn finish(&mut self, closed: CloseReason, wakers: &mut Wakers) {
        for (_, mut ended) in core::mem::take(&mut self.active) {
            ended.state.set_end(Cancellation::by_close(&closed));
            wakers.wake_all(&mut ended.waiters);
        }
        if let Some(listeners) = &mut self.listeners {
            listeners.finish(ServerEvent::Closed(closed.clone()), wakers);
        }
        self.closed = Some(closed);
        wakers.wake_all(&mut self.waiters);
    }
}

impl<M: ServerTransport + ?Sized> Core<M> for ServerCore {
    fn drain(&mut self, machine: &mut M, wakers: &mut Wakers) {
        while let Some(event) = machine.poll_event() {
            match event {
                server::Event::Request { id, method, params, context } => {
                    let state = Arc::new(RequestState::new(params.clone()));
                    let active = ActiveRequest { state: state.clone(), waiters: Waiters::default() };
                    self.active.insert(id, active);
                    let caller = self.caller.clone();
                    self.work.push_back(ServerWork::Start(NewRequest {
                        id,
                        method,
                        params,
                        context,
                        caller,
                        state,
                    }));
                }
                server::Event::Cancelled { id, cancellation } => {
                    if let Cancellation::Client { reason } = &cancellation {
                        let reason = reason.clone();
                        self.publish(&ServerEvent::RequestCancelled { request: id, reason }, wakers);
                    }
                    self.remove_request(id, cancellation, wakers);
                    self.work.push_back(ServerWork::Stop(id));
                }
                server::Event::Progress { request, params } => self.slots.progress(request, params, wakers),
                server::Event::Outcome { request, outcome } => self.slots.resolve(request, outcome, wakers),
                server::Event::Notification { method, params } => {
                    let notification = Notification { method, params };
                    if let Some(queue) = &mut self.notifications {
                        let principal = machine.peer().principal().cloned();
                        let context = || NotificationContext::new(principal, self.caller.owner.clone());
                        if let Some(count) = queue.push(&notification, context) {
                            let dropped = server::Diagnostic::NotificationsDropped { count };
                            self.publish(&ServerEvent::Diagnostic(dropped), wakers);
                        }
                    }
                    self.publish(&ServerEvent::Notification(notification), wakers);
                }
                server::Event::Initialized => self.publish(&ServerEvent::Initialized, wakers),
                server::Event::LogLevelSet(level) => self.publish(&ServerEvent::LevelSet(level), wakers),
                server::Event::Subscribed { uri } => self.publish(&ServerEvent::Subscribed { uri }, wakers),
                server::Event::Unsubscribed { uri } => {
                    self.publish(&ServerEvent::Unsubscribed { uri }, wakers)
                }
                server::Event::Diagnostic(diagnostic) => {
                    self.publish(&ServerEvent::Diagnostic(diagnostic), wakers)
                }
                server::Event::Closed(closed) => self.finish(closed, wakers),
            }
        }
        while let Some(waker) = machine.poll_waker() {
            wakers.wake(Some(waker));
        }
    }

    fn has_work(&self) -> bool {
        !self.work.is_empty() || self.notifications.as_ref().is_some_and(|queue| queue.is_ready())
    }
}

/// The connection as handles see it, independent of the machine's type.
pub(super) type Connection = Shared<ServerCore, dyn ServerTransport + Send>;

/// The link of a connection for requests to the client.
pub(super) struct ServerLink {
    pub(super) connection: Arc<Connection>,
    /// The client's request on whose behalf the server sends its own, if there is one.
    pub(super) on_behalf_of: Option<InboundId>,
}

impl RequestLink for ServerLink {
    fn send(&self, request: OutgoingRequest<'_>, follow: FollowKind) -> Result<RequestId, Error> {
        self.connection.command(|core, machine, now, _| {
            core.check_open()?;
            let request = machine.at(now).send(self.on_behalf_of, request)?;
            core.slots.open(request, follow);
            Ok(request)
        })
    }

    fn missed_progress(&self, request: RequestId) -> u64 {
        self.connection.with(|core, _, _, _| core.slots.missed_progress(request))
    }

    fn poll_progress(&self, request: RequestId, waker: Waker) -> Poll<Option<ProgressParams>> {
        self.connection.update(|core, _, wakers| core.slots.poll_progress(request, waker, wakers))
    }

    fn poll_outcome(&self, request: RequestId, waker: Waker) -> Poll<Outcome> {
        self.connection.update(|core, _, wakers| core.slots.poll_outcome(request, waker, wakers))
    }

    fn abandon(&self, request: RequestId, reason: Option<&str>) {
        self.connection.command(|core, machine, now, wakers| {
            core.slots.close(request, wakers);
            machine.at(now).cancel(request, reason);
        });
    }
}

impl<M: ServerTransport> Shared<ServerCore, M> {
    /// Gives the machine a command, and wakes the driver to carry it out.
    fn act<R>(&self, command: impl FnOnce(ServerCommands<'_>) -> R) -> R {
        self.command(|_, machine, now, _| command(ServerCommands::new(machine, now)))
    }
}

impl<M: ServerTransport + Send> ChangeListener for Shared<ServerCore, M> {
    fn list_changed(&self, list: ListKind) {
        self.act(|mut server| server.list_changed(list));
    }

    fn resource_updated(&self, uri: &str) {
        self.act(|mut server| server.resource_updated(uri));
    }
}

impl<M: ServerTransport + Send + 'static> HandlerConnection for Shared<ServerCore, M> {
    fn progress(&self, request: InboundId, params: &ProgressParams) {
        self.act(|mut server| server.progress(request, params));
    }

    fn progress_out(&self) -> u32 {
        self.read(|_, machine| machine.peer().config().limits.progress_out)
    }

    fn input_rounds(&self) -> u32 {
        self.read(|_, machine| machine.peer().config().limits.input_rounds)
    }

    fn log(&self, request: Option<InboundId>, params: &LoggingMessageParams) {
        let reports = self.command(|core, machine, now, _| {
            let is_first = machine.peer().is_first_undeclared_log();
            ServerCommands::new(machine, now).log(request, params);
            is_first.then(|| core.reports.clone())
        });
        if reports.is_some_and(|reports| reports.is_none_or(|reports| reports.undeclared_logging())) {
            trace::warn(&Diagnostic::UndeclaredLogging);
        }
    }

    fn notify_session(&self, info: &'static NotificationInfo, params: &dyn AnyParams) {
        self.act(|mut server| server.notify_session(info, params));
    }

    fn notify_custom(
        &self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError> {
        self.act(|mut server| server.notify_custom(request, method, params))
    }

    fn elicitation_complete(&self, id: &str) -> bool {
        self.act(|mut server| server.elicitation_complete(id))
    }

    fn is_active(&self, request: InboundId) -> bool {
        self.read(|core, _| core.active.contains_key(&request))
    }

    fn poll_inactive(&self, request: InboundId, key: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let left = waker.clone();
        self.with(|core, _, _, wakers| match core.active.get_mut(&request) {
            Some(request) => {
                request.waiters.wait(key, left, wakers);
                Poll::Pending
            }
            None => {
                wakers.discard(Some(left));
                Poll::Ready(())
            }
        })
    }

    fn remove_waiter(&self, request: InboundId, key: Option<u64>) {
        self.with(|core, _, _, wakers| {
            if let Some(request) = core.active.get_mut(&request) {
                request.waiters.leave(key, wakers);
            }
        });
    }

    fn close_sse_stream(&self, request: InboundId) {
        self.act(|mut server| server.close_sse_stream(request));
    }

    fn wake_handler(&self, request: InboundId) {
        self.signal().mark_ready(request);
        self.signal().notify();
    }

    fn check_texts(&self, input: &InputRequest) -> Result<(), RequestError> {
        self.act(|mut server| server.check_texts(input))
    }

    fn request_link(self: Arc<Self>, on_behalf_of: Option<InboundId>) -> Arc<dyn RequestLink> {
        Arc::new(ServerLink { connection: self, on_behalf_of })
    }

    fn has_streams(&self) -> bool {
        self.read(|_, machine| machine.has_streams())
    }

    fn handler_blocked(&self, request: InboundId, mut blocked: BlockedHandler) {
        let reports = self.with(|core, machine, _, wakers| {
            blocked.method = blocked.method.or_else(|| machine.peer().method(request));
            core.report_blocked(blocked.clone(), wakers);
            core.reports.clone()
        });
        trace::warn(&blocked);
        if let Some(reports) = reports {
            reports.handler_blocked(blocked);
        }
    }

    fn now(&self) -> Instant {
        Self::now(self)
    }

    fn unix_time(&self) -> UnixTime {
        Self::unix_time(self)
    }
}
