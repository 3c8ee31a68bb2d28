//! The state that a client's handles and its driver share, its events, and the timers of calls whose driver is never polled.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::future::Future;
use core::ops::ControlFlow;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;

use super::Connection;
use super::watch::{WatchQueues, WatchUpdate};
use crate::Instant;
use crate::front::events::{ListenerEvent, Listeners};
use crate::front::notification::NotificationQueue;
use crate::front::request_slots::RequestSlots;
use crate::front::shared::Core;
use crate::front::wakers::{Waiters, Wakers};
use crate::front::{Error, Notification};
use crate::peer::client::{ClientTransport, CloseReason, ConnectProgress, Diagnostic, ServerInfo, State};
use crate::peer::{InboundId, LostReason, Outcome, RequestError, RequestId, TaskReport, client};
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
            client::Event::Changed { watch, change, evidence } => {
                self.watch_queues.push(watch, WatchUpdate::Changed { change, evidence }, wakers);
            }
            client::Event::Watch { watch, state } => self.watch_queues.state(watch, state, wakers),
            client::Event::Request { id, method, params } => {
                let (method, on_behalf_of) = (Text::from_static(method.name), client.on_behalf_of(id));
                self.work.push_back(ClientWork::Start { id, method, params, on_behalf_of });
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

/// The time after which a driver without a first poll is reported.
const FIRST_POLL: Duration = Duration::from_secs(1);

/// A sleep on the adapter's runtime.
pub(super) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Starts a sleep of this duration.
pub(super) type StartSleep = Arc<dyn Fn(Duration) -> Sleep + Send + Sync>;

/// Whether the driver may not have been polled yet. It saves calls the lock of the connection.
pub(super) struct FirstPoll(AtomicBool);

impl Default for FirstPoll {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl FirstPoll {
    /// Returns a timer for a call, unless the driver has been polled or the adapter has set no timer.
    pub(super) fn timer(&self, connection: &Arc<Connection>) -> Option<DriverTimer> {
        // A stale value costs one more look.
        if !self.0.load(Ordering::Relaxed) {
            return None;
        }
        let (start, polled) = connection.read(|core, _| (core.start_sleep.clone(), core.driver_polled));
        self.0.store(!polled && start.is_some(), Ordering::Relaxed);
        let start = start.filter(|_| !polled)?;
        let report_at = connection.now() + FIRST_POLL;
        Some(DriverTimer { connection: connection.clone(), start, sleep: None, report_at, limit: None })
    }
}

/// A timer of one waiting future. It reports an unpolled driver after a second, and fires the timeouts of the connection
/// in the driver's place.
pub(crate) struct DriverTimer {
    connection: Arc<Connection>,
    start: StartSleep,
    sleep: Option<Sleep>,
    report_at: Instant,
    /// The end of a wait that the machine does not limit.
    limit: Option<Instant>,
}

impl DriverTimer {
    /// Limits the wait.
    pub(super) fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = self.connection.now().after(limit);
        self
    }

    /// Ready once the timer is not needed any more; true if the driver was not polled before the limit.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let (report_at, limit) = (self.report_at, self.limit);
            let next = self.connection.with(|core, machine, now, wakers| {
                if core.driver_polled {
                    return ControlFlow::Break(false);
                }
                if report_at <= now {
                    core.report_unpolled_driver(wakers);
                }
                machine.handle_timeout(now);
                if limit.is_some_and(|limit| limit <= now) {
                    return ControlFlow::Break(true);
                }
                let due = [Some(report_at), machine.poll_timeout(), limit].into_iter().flatten();
                match due.filter(|due| *due > now).min() {
                    Some(due) => ControlFlow::Continue(due.saturating_since(now)),
                    None => ControlFlow::Break(false),
                }
            });
            let pause = match next {
                ControlFlow::Break(expired) => return Poll::Ready(expired),
                ControlFlow::Continue(pause) => pause,
            };
            let sleep = self.sleep.get_or_insert_with(|| (self.start)(pause));
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
    }
}

/// An event that concerns the connection rather than one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The state of the connection changed.
    State(State),
    /// A connection that is not ready yet reached another step: it waits for another answer, or retries. The `Display`
    /// form of the report is one line of text.
    Connecting(Box<ConnectProgress>),
    /// The server sent a notification that belongs to no request of the client.
    ///
    /// Notifications of a subscription arrive in its [`Subscription`](super::Subscription).
    Notification(Notification),
    /// A fragment of a result, from a server that sends results in fragments.
    ///
    /// Only with a transport that is configured to accept them, as the HTTP client can be. The request's own answer
    /// contains all fragments.
    PartialResult {
        /// The request: see [`Call::id`](crate::front::Call::id).
        request: RequestId,
        /// Members of the result, undecoded.
        fragment: Raw,
    },
    /// A request became a task, or the status of its task changed.
    TaskStatus {
        /// The request: see [`Call::id`](crate::front::Call::id).
        request: RequestId,
        /// The status of its task.
        report: Box<TaskReport>,
    },
    /// A problem that ended no request, for the log.
    Diagnostic(Diagnostic),
    /// This listener lost events, because it did not take them in time. Lists and resources may have changed.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// The connection has ended. This is the last event.
    Closed(CloseReason),
}

impl Event {
    /// The approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Notification(notification) => notification.bytes(),
            Self::PartialResult { fragment, .. } => fragment.as_bytes().len(),
            Self::TaskStatus { report, .. } => report.bytes(),
            Self::Connecting(progress) => progress.bytes(),
            Self::Diagnostic(diagnostic) => diagnostic.bytes(),
            Self::State(_) | Self::Missed { .. } | Self::Closed(_) => 0,
        }
    }
}

impl ListenerEvent for Event {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    fn make_owned(&mut self) {
        match self {
            Self::Notification(notification) => notification.make_owned(),
            Self::PartialResult { fragment, .. } => *fragment = fragment.detached(),
            Self::Diagnostic(diagnostic) => diagnostic.make_owned(),
            _ => {}
        }
    }
}
