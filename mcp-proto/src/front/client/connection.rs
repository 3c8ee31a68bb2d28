//! The state that a client's handles and its driver share, its events, and the timers of calls whose driver is never polled.

use alloc::sync::Arc;
use core::future::Future;
use core::ops::ControlFlow;
use core::pin::Pin;
use core::time::Duration;

use super::watch::{WatchQueues, WatchUpdate};
use crate::front::events::ListenerEvent;
use crate::front::request::DriverTimer;
use crate::front::shared::{ConnectionState, Core, LayeredCore, Shared};
use crate::front::wakers::Wakers;
use crate::front::{Error, Notification};
use crate::peer::Passage;
use crate::peer::client::{
    ClientCommands, ClientTransport, CloseReason, ConnectError, ConnectProgress, Diagnostic, ServerInfo,
    State,
};
use crate::peer::{InboundId, LostReason, Machine, Outcome, RequestError, RequestId, TaskReport, client};
use crate::prelude::*;
use crate::rpc::{Id, Raw, Text};
use crate::schema::Revision;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Instant, Limits};

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
    pub(crate) common: ConnectionState<Event, CloseReason, ClientWork, ()>,
    pub(super) watch_queues: WatchQueues,
    pub(crate) server: Option<Arc<ServerInfo>>,
    /// Starts a sleep on the adapter's runtime, for futures that wait while the driver is not polled.
    pub(super) start_sleep: Option<StartSleep>,
    /// Whether the driver has been polled.
    pub(super) driver_polled: bool,
    /// Whether the application was told that the driver is not polled.
    unpolled_reported: bool,
    /// Whether the driver has released everything that it opened.
    link_down: bool,
}

impl ClientCore {
    /// Rejects commands once the connection has ended, with the reason for which it has.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match &self.common.closed {
            None => Ok(()),
            Some(closed) => Err(Error::Closed(closed.clone())),
        }
    }

    /// The error of a request that ended with this outcome: requests that waited for the connection, and
    /// [`ready`](super::Client::ready), fail for one reason.
    pub(crate) fn error(&self, outcome: Outcome) -> Error {
        match (outcome, &self.common.closed) {
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
            self.common.publish(&Event::Diagnostic(Diagnostic::DriverNotPolled), wakers);
        }
    }

    /// Handles the drop of the driver: resolves all pending requests as lost.
    pub(crate) fn handle_driver_dropped(&mut self, wakers: &mut Wakers) {
        if self.common.closed.is_none() {
            self.finish(CloseReason::Lost(LostReason::DriverDropped), wakers);
        }
        self.common.handle_driver_dropped(wakers);
    }

    /// How the connection ended, once the driver has released its link.
    pub(crate) fn link_released(&self) -> Option<CloseReason> {
        // A driver that was never polled has opened nothing.
        self.common
            .closed
            .clone()
            .filter(|_| self.link_down || self.common.driver_dropped || !self.driver_polled)
    }

    /// Handles the driver's report that it has released everything that it opened.
    pub(crate) fn handle_link_down(&mut self, wakers: &mut Wakers) {
        self.link_down = true;
        wakers.wake_all(&mut self.common.waiters);
    }

    fn finish(&mut self, closed: CloseReason, wakers: &mut Wakers) {
        let closed = match closed {
            // Beside invalid extensions, only timeouts end a connection that nothing has opened.
            closed @ CloseReason::Connect(ConnectError::Extensions(_)) => closed,
            CloseReason::Connect(_) if !self.driver_polled => CloseReason::Lost(LostReason::DriverNotPolled),
            closed => closed,
        };
        self.watch_queues.end_all(&closed, wakers);
        self.common.finish(closed, Event::Closed, wakers);
    }

    /// Dispatches an event to its waiters. One copy serves every machine.
    fn handle_event(&mut self, event: client::Event, client: &client::Client, wakers: &mut Wakers) {
        let event = match event {
            client::Event::State(state) => {
                if state == State::Ready {
                    self.server = client.server().cloned().map(Arc::new);
                    wakers.wake_all(&mut self.common.waiters);
                }
                Event::State(state)
            }
            client::Event::Connecting(progress) => Event::Connecting(progress),
            client::Event::PartialResult { request, fragment } => Event::PartialResult { request, fragment },
            client::Event::TaskStatus { request, report } => Event::TaskStatus { request, report },
            client::Event::Diagnostic(diagnostic) => Event::Diagnostic(diagnostic),
            client::Event::Notification { method, params, subscription } => {
                let notification = Notification { method, params };
                let rest = match subscription {
                    Some(request) => self.common.slots.notify(request, notification, wakers),
                    None => Some(notification),
                };
                let Some(notification) = rest else { return };
                if let Some(count) = self.common.queue_notification(&notification, || ()) {
                    let dropped = Diagnostic::NotificationsDropped { count };
                    self.common.publish(&Event::Diagnostic(dropped), wakers);
                }
                Event::Notification(notification)
            }
            client::Event::Progress { request, params } => {
                return self.common.slots.progress(request, params, wakers);
            }
            client::Event::Outcome { request, outcome } => {
                return self.common.slots.resolve(request, outcome, wakers);
            }
            client::Event::Changed { watch, change, evidence } => {
                return self.watch_queues.push(watch, WatchUpdate::Changed { change, evidence }, wakers);
            }
            client::Event::Watch { watch, state } => return self.watch_queues.state(watch, state, wakers),
            client::Event::Request { id, method, params } => {
                let (method, on_behalf_of) = (Text::from_static(method.name), client.on_behalf_of(id));
                return self.common.work.push_back(ClientWork::Start { id, method, params, on_behalf_of });
            }
            client::Event::CustomRequest { id, method, params } => {
                let work = ClientWork::Start { id, method, params, on_behalf_of: None };
                return self.common.work.push_back(work);
            }
            client::Event::RequestCancelled { id, .. } => {
                return self.common.work.push_back(ClientWork::Stop(id));
            }
            client::Event::Closed(closed) => return self.finish(closed, wakers),
        };
        self.common.publish(&event, wakers);
    }
}

impl<M: ClientTransport + ?Sized> Core<M> for ClientCore {
    type Event = Event;
    type End = CloseReason;
    type Work = ClientWork;
    type Context = ();

    fn common(&mut self) -> &mut ConnectionState<Event, CloseReason, ClientWork, ()> {
        &mut self.common
    }

    fn drain(&mut self, machine: &mut M, wakers: &mut Wakers) {
        while let Some(event) = machine.poll_event() {
            self.handle_event(event, machine.peer(), wakers);
        }
    }
}

/// The connection as handles see it, independent of the machine's type.
pub(super) type Connection = Shared<ClientCore, dyn ClientTransport + Send>;

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
    pub(super) fn timer(&self, connection: &Arc<Connection>, limit: Option<Duration>) -> Option<DriverTimer> {
        // A stale value costs one more look.
        if !self.0.load(Ordering::Relaxed) {
            return None;
        }
        let (start, polled) = connection.read(|core, _| (core.start_sleep.clone(), core.driver_polled));
        self.0.store(!polled && start.is_some(), Ordering::Relaxed);
        let start = start.filter(|_| !polled)?;
        let report_at = connection.now() + FIRST_POLL;
        let limit = limit.and_then(|limit| connection.now().after(limit));
        Some(Box::pin(replace_driver(connection.clone(), start, report_at, limit)))
    }
}

/// Fires the timeouts of a connection in the place of a driver that has not been polled, and reports that at
/// `report_at`. It ends once the driver is polled or no timer runs, and with `true` at the limit.
async fn replace_driver(
    connection: Arc<Connection>,
    start: StartSleep,
    report_at: Instant,
    limit: Option<Instant>,
) -> bool {
    loop {
        let next = connection.with(|core, machine, now, wakers| {
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
        match next {
            ControlFlow::Break(expired) => return expired,
            ControlFlow::Continue(pause) => start(pause).await,
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

impl ListenerEvent for Event {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Notification(notification) => notification.bytes(),
            Self::PartialResult { fragment, .. } => fragment.as_bytes().len(),
            Self::TaskStatus { report, .. } => report.bytes(),
            Self::Connecting(progress) => progress.bytes(),
            Self::Diagnostic(diagnostic) => diagnostic.bytes(),
            Self::State(_) | Self::Missed { .. } | Self::Closed(_) => 0,
        }
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

impl<M: ClientTransport> LayeredCore<M> for ClientCore {
    fn limits(machine: &M) -> &Limits {
        Machine::limits(machine.peer())
    }

    fn handle_timeout(machine: &mut M, now: Instant) {
        machine.handle_timeout(now);
    }

    fn passage(machine: &mut M) -> Option<&mut dyn Passage> {
        machine.passage()
    }

    fn abort(machine: &mut M, now: Instant, why: LostReason) {
        ClientCommands::new(machine, now).abort(why);
    }

    fn revision(machine: &M) -> Option<Revision> {
        machine.peer().server().map(|server| server.revision)
    }

    fn withhold_answer(machine: &mut M, now: Instant, id: &Id) {
        ClientCommands::new(machine, now).withhold_answer(id);
    }

    fn report_undropped(shared: &Shared<Self, M>, messages: Vec<String>) {
        shared.update(|core, _, wakers| {
            for message in messages {
                core.common.publish(&Event::Diagnostic(Diagnostic::LayerDropIgnored { message }), wakers);
            }
        });
    }
}
