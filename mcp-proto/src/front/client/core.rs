//! The state that a client's handles and its driver share.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::driver_timer::StartSleep;
use super::events::Event;
use super::watch_queues::WatchQueues;
use crate::front::events::Listeners;
use crate::front::notification_handlers::NotificationQueue;
use crate::front::request_slots::RequestSlots;
use crate::front::shared::Core;
use crate::front::signal::{Waiters, Wakers};
use crate::front::{Error, Notification};
use crate::peer::client::{self, ClientTransport, CloseReason, ServerInfo, State};
use crate::peer::{InboundId, LostReason, Outcome, RequestError, RequestId};
use crate::rpc::{Raw, Text};

/// Work on the server's requests, queued for the driver.
pub(crate) enum ClientWork {
    /// `of` is the client's own request that waits for this one's answer, if there is one.
    Start {
        id: InboundId,
        method: Text,
        params: Option<Raw>,
        on_behalf_of: Option<RequestId>,
    },
    Stop(InboundId),
}

#[derive(Default)]
pub(crate) struct ClientCore {
    pub(crate) slots: RequestSlots,
    pub(super) watch_queues: WatchQueues,
    pub(crate) server: Option<Arc<ServerInfo>>,
    pub(crate) closed: Option<CloseReason>,
    /// Starts a sleep on the adapter's runtime, for futures that wait while the driver is not polled.
    pub(super) start_sleep: Option<StartSleep>,
    /// Whether the driver has been polled.
    pub(super) driver_polled: bool,
    /// Whether the application was told that the driver is not polled.
    unpolled_reported: bool,
    /// Whether the driver is dropped, so that no output of the machine is carried out any more.
    driver_dropped: bool,
    /// Whether the driver has released everything that it opened.
    link_down: bool,
    /// The tasks that wait until the server is known or the connection has ended.
    pub(crate) waiters: Waiters,
    pub(crate) listeners: Listeners<Event>,
    work: VecDeque<ClientWork>,
    /// The notifications that wait for their handlers, if there are handlers.
    pub(super) notifications: Option<Box<NotificationQueue<()>>>,
}

impl ClientCore {
    /// Rejects commands once the connection has ended, with the reason for which it has.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.closed.clone().map_or(Ok(()), |closed| Err(Error::Closed(closed)))
    }

    /// The error of a request that ended with this outcome: requests that waited for the connection, and
    /// [`ready`](super::Client::ready), fail for one reason.
    pub(crate) fn error(&self, outcome: Outcome) -> Error {
        match (outcome, &self.closed) {
            (Outcome::Refused(RequestError::Connect(_) | RequestError::Closed), Some(closed)) => {
                Error::Closed(closed.clone())
            }
            (Outcome::TimedOut { .. }, _) if !self.driver_polled => Self::unpolled_error(),
            (outcome, _) => outcome.into(),
        }
    }

    /// The error of a wait that ended because the driver is not polled.
    pub(super) fn unpolled_error() -> Error {
        Error::Closed(CloseReason::Lost(LostReason::DriverNotPolled))
    }

    /// Reports, once, that the driver is not polled.
    pub(super) fn report_unpolled_driver(&mut self, wakers: &mut Wakers) {
        if !core::mem::replace(&mut self.unpolled_reported, true) {
            self.publish(&Event::Diagnostic(client::Diagnostic::DriverNotPolled), wakers);
        }
    }

    /// Handles the drop of the driver: resolves all pending requests as lost.
    pub(crate) fn handle_driver_dropped(&mut self, wakers: &mut Wakers) {
        self.driver_dropped = true;
        self.work.clear();
        self.notifications = None;
        self.slots.resolve_all(&LostReason::DriverDropped, wakers);
        if self.closed.is_none() {
            self.finish(CloseReason::Lost(LostReason::DriverDropped), wakers);
        }
        wakers.wake_all(&mut self.waiters);
    }

    /// How the connection ended, once the driver has released its link.
    pub(crate) fn link_released(&self) -> Option<CloseReason> {
        // A driver that was never polled has opened nothing.
        self.closed.clone().filter(|_| self.link_down || self.driver_dropped || !self.driver_polled)
    }

    /// Handles the driver's report that it has released everything that it opened.
    pub(crate) fn handle_link_down(&mut self, wakers: &mut Wakers) {
        self.link_down = true;
        wakers.wake_all(&mut self.waiters);
    }

    pub(crate) fn take_work(&mut self) -> VecDeque<ClientWork> {
        core::mem::take(&mut self.work)
    }

    fn publish(&mut self, event: &Event, wakers: &mut Wakers) {
        self.listeners.publish(event, event.bytes(), wakers);
    }

    fn finish(&mut self, closed: CloseReason, wakers: &mut Wakers) {
        let closed = match closed {
            // Only timeouts end a connection that nothing has opened.
            CloseReason::Connect(_) if !self.driver_polled => CloseReason::Lost(LostReason::DriverNotPolled),
            closed => closed,
        };
        self.watch_queues.end_all(&closed, wakers);
        self.listeners.finish(Event::Closed(closed.clone()), wakers);
        self.closed = Some(closed);
        wakers.wake_all(&mut self.waiters);
    }

    /// Dispatches an event to its waiters. One copy serves every machine.
    fn handle_event(&mut self, event: client::Event, client: &client::Client, wakers: &mut Wakers) {
        match event {
            client::Event::State(state) => {
                if state == State::Ready {
                    self.server = client.server().cloned().map(Arc::new);
                    wakers.wake_all(&mut self.waiters);
                }
                self.publish(&Event::State(state), wakers);
            }
            client::Event::Connecting(progress) => self.publish(&Event::Connecting(progress), wakers),
            client::Event::Progress { request, params } => self.slots.progress(request, params, wakers),
            client::Event::PartialResult { request, fragment } => {
                self.publish(&Event::PartialResult { request, fragment }, wakers);
            }
            client::Event::TaskStatus { request, report } => {
                self.publish(&Event::TaskStatus { request, report }, wakers);
            }
            client::Event::Outcome { request, outcome } => self.slots.resolve(request, outcome, wakers),
            client::Event::Notification { method, params, subscription } => {
                let notification = Notification { method, params };
                let rest = match subscription {
                    Some(request) => self.slots.notify(request, notification, wakers),
                    None => Some(notification),
                };
                if let Some(notification) = rest {
                    let queue = self.notifications.as_mut();
                    if let Some(count) = queue.and_then(|queue| queue.push(&notification, || ())) {
                        let dropped = client::Diagnostic::NotificationsDropped { count };
                        self.publish(&Event::Diagnostic(dropped), wakers);
                    }
                    self.publish(&Event::Notification(notification), wakers);
                }
            }
            client::Event::Changed { watch, change, evidence: why } => {
                self.watch_queues.change(watch, change, why, wakers);
            }
            client::Event::Watch { watch, state } => self.watch_queues.state(watch, state, wakers),
            client::Event::Request { id, method, params } => {
                let of = client.on_behalf_of(id);
                let method = Text::from_static(method.name);
                self.work.push_back(ClientWork::Start { id, method, params, on_behalf_of: of });
            }
            client::Event::CustomRequest { id, method, params } => {
                self.work.push_back(ClientWork::Start { id, method, params, on_behalf_of: None });
            }
            client::Event::RequestCancelled { id, .. } => self.work.push_back(ClientWork::Stop(id)),
            client::Event::Diagnostic(diagnostic) => self.publish(&Event::Diagnostic(diagnostic), wakers),
            client::Event::Closed(closed) => self.finish(closed, wakers),
        }
    }
}

impl<M: ClientTransport + ?Sized> Core<M> for ClientCore {
    fn drain(&mut self, machine: &mut M, wakers: &mut Wakers) {
        while let Some(event) = machine.poll_event() {
            self.handle_event(event, machine.peer(), wakers);
        }
    }

    fn has_work(&self) -> bool {
        !self.work.is_empty() || self.notifications.as_ref().is_some_and(|queue| queue.is_ready())
    }
}
