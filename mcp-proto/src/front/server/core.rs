//! The state that a server's handles and its driver share.

use alloc::sync::Arc;

use alloc::boxed::Box;

use super::events::ServerEvent;
use crate::front::blocked_handler::HandlerReports;
use crate::front::events::Listeners;
use crate::front::handler::caller::Caller;
use crate::front::handler::notification_context::NotificationContext;
use crate::front::handler::request_state::RequestState;
use crate::front::notification_handlers::NotificationQueue;
use crate::front::request_slots::RequestSlots;
use crate::front::shared::Core;
use crate::front::signal::{Waiters, Wakers};
use crate::front::{BlockedHandler, Error, Notification};
use crate::inline_map::{InlineMap, InlineQueue};
use crate::peer::server::{self, Cancellation, CloseReason, RequestContext, ServerTransport};
use crate::peer::{InboundId, LostReason};
use crate::rpc::{Raw, Text};

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
    pub(in crate::front) reports: Option<Arc<dyn HandlerReports>>,
}

impl ServerCore {
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
