//! The driver of the legacy sessions and the tasks of a server, and the watch over the token of an open stream.

use alloc::sync::Arc;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use crate::Instant;
#[cfg(feature = "auth")]
use crate::UnixTime;
#[cfg(feature = "auth")]
use crate::auth::{
    Now,
    server::{GrantedAccess, Reverification},
};
use crate::front::handler::connection::ServerCore;
use crate::front::handler::inbound_request::CallerAccess;
use crate::front::router::ServedRouter;
use crate::front::server::ServerDriver;
use crate::front::shared::Shared;
use crate::front::tasks::TaskRunner;
use crate::front::wakers::{TaskWaker, Wakers};
use crate::front::{HandlerMode, SendHandlers};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::server::{ServerCommands, ServerTransport};
use crate::prelude::*;
use crate::transport::http::server::SessionId;

use super::change_hub::Subscriber;
use super::relay::{ChangeRelay, RelayRun};
use super::service::Service;
use super::session::{SessionCell, SessionMachine};

/// How long a session without open streams and requests stays as it is, before it gives up what an idle session does
/// not need: long enough that a client which sends one request after another does not notice.
const IDLE_DELAY: Duration = Duration::from_secs(1);

/// Drives the legacy sessions and the tasks of an HTTP server.
///
/// It runs the handlers of sessions, which outlive the connections of their requests, the sessions' timeouts, and
/// [tasks](crate::front::tasks) of either era.
///
/// Other requests of 2026-07-28 do not need it: each runs in its own [`HttpExchange`](super::HttpExchange). Sessions
/// can be opened, and tasks started, only while the driver exists, and they make progress only while it is polled;
/// dropping it ends them all.
#[must_use = "requests of legacy sessions and tasks wait until the driver is polled: spawn it on an executor"]
pub struct HttpServerDriver<H: HandlerMode = SendHandlers> {
    service: Arc<Service>,
    router: ServedRouter<H>,
    /// Boxed: the nodes of the tree are partly empty.
    sessions: OrderedMap<SessionId, Box<SessionRun<H>>>,
    /// The time at which each session must be polled at the latest.
    timers: OrderedSet<(Instant, SessionId)>,
    /// The runner of tasks that any request started.
    tasks: Option<TaskRunner<H>>,
    relay: Option<RelayRun>,
}

struct SessionRun<H: HandlerMode> {
    cell: Arc<SessionCell>,
    /// `None` after a pause, until the session is polled next.
    driver: Option<Box<ServerDriver<SessionMachine, H>>>,
    state: Arc<TaskWaker<SessionId>>,
    deadline: Option<Instant>,
}

impl<H: HandlerMode> HttpServerDriver<H> {
    pub(super) fn new(service: Arc<Service>, router: ServedRouter<H>) -> Self {
        let tasks =
            service.task_service.as_ref().map(|service| TaskRunner::new(service.clone(), router.clone()));
        Self { service, router, sessions: OrderedMap::new(), timers: OrderedSet::new(), tasks, relay: None }
    }

    /// Relays change notifications between this instance and others. Default: each instance notifies its own clients of
    /// what the application reports there.
    pub fn relay_changes(mut self, relay: Arc<dyn ChangeRelay>) -> Self {
        self.relay = Some(RelayRun::new(relay, &self.service.hub));
        self
    }

    /// Runs all sessions and tasks that are ready, and stores the task's waker. Ready once the server was closed and
    /// its sessions have ended.
    ///
    /// Poll it again at [`next_timeout`](Self::next_timeout) as well.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.service.note_driver();
        let ready = self.service.session_signal.begin();
        if self.service.closes_at().is_some_and(|at| at <= self.service.now()) {
            self.service.close();
        }
        let closing = self.service.is_closing();
        let arrivals = self.service.sessions.take_new();
        self.start(arrivals);
        for id in ready {
            self.run_session(id, closing);
        }
        let now = self.service.now();
        let is_due = |(deadline, _): &&(Instant, SessionId)| *deadline <= now;
        let due: Vec<SessionId> = self.timers.iter().take_while(is_due).map(|&(_, id)| id).collect();
        for id in due {
            self.run_session(id, closing);
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.poll(cx);
        }
        if let Some(relay) = &mut self.relay {
            relay.poll(&self.service, cx);
        }
        if closing && self.sessions.is_empty() {
            let late = self.service.sessions.close();
            self.start(late);
            // They mostly end at once, without waking the driver.
            if self.sessions.is_empty() {
                return Poll::Ready(());
            }
        }
        let mut wakers = Wakers::default();
        let rest = self.service.session_signal.park(cx.waker().clone(), &mut wakers);
        wakers.release();
        // Later changes call the stored waker. Changes before it was stored would be missed.
        if !rest || self.service.sessions.has_new() || closing != self.service.is_closing() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The time at which [`poll`](Self::poll) is due, if its waker is not called earlier.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let of_sessions = self.timers.first().map(|(deadline, _)| *deadline);
        let of_tasks = self.tasks.as_ref().and_then(TaskRunner::next_timeout);
        let of_relay = self.relay.as_ref().and_then(RelayRun::next_timeout);
        [of_sessions, of_tasks, of_relay, self.service.closes_at()].into_iter().flatten().min()
    }

    /// Runs the sessions and the tasks until the server was closed and its sessions have ended: [`poll`](Self::poll), and
    /// again after each [timeout](Self::next_timeout). `sleep` returns a future that ends after that time.
    pub async fn run(mut self, sleep: impl AsyncFn(Duration)) {
        self.service.clone().next_output(&mut self, Self::next_timeout, Self::poll, sleep).await;
    }

    /// Adds new sessions, which are polled next.
    fn start(&mut self, arrivals: Vec<Arc<SessionCell>>) {
        for cell in arrivals {
            let id = cell.id;
            let state = TaskWaker::new(id, self.service.session_signal.clone());
            self.sessions.insert(id, Box::new(SessionRun { cell, driver: None, state, deadline: None }));
            self.run_session(id, self.service.is_closing());
        }
    }

    /// Polls a session.
    fn run_session(&mut self, id: SessionId, closing: bool) {
        let Some(running) = self.sessions.get_mut(&id) else { return };
        running.state.arm();
        if let Some(deadline) = running.deadline.take() {
            self.timers.remove(&(deadline, id));
        }
        let waker = Waker::from(running.state.clone());
        let mut cx = Context::from_waker(&waker);
        let driver = running
            .driver
            .get_or_insert_with(|| Box::new(session_driver(&self.service, &self.router, &running.cell)));
        let (mut idle_since, mut is_due) = (None, false);
        let polled = driver.poll(&mut cx, |machine, now| {
            let turned = machine.advance(now, closing);
            idle_since = machine.session.idle_since();
            is_due = idle_since.is_some_and(|since| since + IDLE_DELAY <= now);
            turned
        });
        if polled.is_ready() {
            running.state.retire();
            self.sessions.remove(&id);
            self.service.sessions.remove(id);
            return;
        }
        running.deadline = driver.next_timeout();
        if is_due {
            if driver.retire() {
                running.driver = None;
                running.cell.deactivate();
            }
        } else if let Some(since) = idle_since {
            let until_idle = since + IDLE_DELAY;
            running.deadline = Some(running.deadline.map_or(until_idle, |deadline| deadline.min(until_idle)));
        }
        self.timers.extend(running.deadline.map(|deadline| (deadline, id)));
        self.service.sessions.set_idle(id, idle_since);
        // Later changes call the waker. Changes before it was stored would be missed.
        if running.cell.has_changes() || closing != self.service.is_closing() {
            waker.wake();
        }
    }
}

fn session_driver<H: HandlerMode>(
    service: &Service,
    router: &ServedRouter<H>,
    cell: &SessionCell,
) -> ServerDriver<SessionMachine, H> {
    let (entropy, tasks) = (service.entropy.clone(), service.task_service.clone());
    ServerDriver::new(cell.activate(), entropy, router.clone(), tasks)
}

impl<H: HandlerMode> Drop for HttpServerDriver<H> {
    fn drop(&mut self) {
        self.service.note_driver();
        for cell in self.service.sessions.close() {
            self.service.sessions.remove(cell.id);
            drop(session_driver(&self.service, &self.router, &cell));
        }
        while let Some((id, running)) = self.sessions.pop_first() {
            running.state.retire();
            self.service.sessions.remove(id);
            if running.driver.is_none() {
                // Without a driver, the session would go on if a request has it.
                drop(session_driver(&self.service, &self.router, &running.cell));
            }
        }
    }
}

debug_fields! { [H: HandlerMode] HttpServerDriver<H>(self) { sessions = self.sessions.len() } }

// The driver of an exchange or a channel: it also passes on published changes and the end of the server.

/// The driver of a machine that may listen for changes.
pub(super) struct ListeningDriver<M: ServerTransport, H: HandlerMode> {
    pub(super) machine: ServerDriver<M, H>,
    pub(super) service: Arc<Service>,
    /// What only a machine that listens for changes has.
    pub(super) listening: Option<Box<Listening>>,
    /// Whether the machine has been closed, with the server or before.
    pub(super) closing: bool,
}

pub(super) struct Listening {
    /// The subscriber to the changes that the client listens for.
    pub(super) subscriber: Option<Subscriber>,
    /// Ends the subscriptions with their token.
    pub(super) token: TokenWatch,
    /// Whether the token is no longer valid.
    pub(super) has_expired: bool,
}

impl<M: ServerTransport + Send + 'static, H: HandlerMode> ListeningDriver<M, H> {
    pub(super) fn new(
        service: &Arc<Service>,
        router: ServedRouter<H>,
        shared: Arc<Shared<ServerCore, M>>,
        listening: Option<Box<Listening>>,
    ) -> Self {
        let (entropy, tasks) = (service.entropy.clone(), service.task_service.clone());
        let machine = ServerDriver::new(shared, entropy, router, tasks);
        Self { machine, service: service.clone(), listening, closing: false }
    }

    /// Makes all messages of the machine pass through the layers of the router.
    pub(super) fn with_message_layers(mut self) -> Self {
        self.machine = self.machine.with_message_layers();
        self
    }
}

impl<M: ServerTransport, H: HandlerMode> ListeningDriver<M, H> {
    /// Runs handlers, passes changes to the machine, and polls it with `take`.
    pub(super) fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        loop {
            let mut closes = !self.closing && self.service.is_closing();
            self.closing |= closes;
            let mut listening = self.listening.as_deref_mut();
            if let Some(listening) = &mut listening
                && listening.token.poll(&self.service, cx).is_ready()
            {
                (closes, listening.has_expired) = (true, true);
            }
            let subscriber = listening.and_then(|listening| listening.subscriber.as_ref());
            let mail = subscriber.map(|subscriber| subscriber.mailbox.take());
            let polled = self.machine.poll(cx, |machine, now| {
                if let Some(mail) = &mail {
                    mail.deliver(machine, now);
                }
                if closes {
                    ServerCommands::new(machine, now).close();
                }
                take(machine, now)
            });
            // Later changes call the stored waker. Changes before it was stored would be missed.
            let missed = subscriber.is_some_and(|subscriber| subscriber.mailbox.has_mail())
                || (!self.closing && self.service.is_closing());
            if polled.is_ready() || !missed {
                return polled;
            }
        }
    }

    /// The time at which the machine must be polled at the latest.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let token = self.listening.as_ref().and_then(|listening| listening.token.next_timeout());
        [self.machine.next_timeout(), token].into_iter().flatten().min()
    }
}

/// How long the verification of an open stream's token may take.
#[cfg(feature = "auth")]
const VERIFY_TIMEOUT: Duration = Duration::from_secs(15);

/// Watches over the token of the request that opened a stream: its expiry, and its verification at an interval.
#[cfg(feature = "auth")]
#[derive(Default)]
pub(super) struct TokenWatch(Option<Box<WatchedToken>>);

#[cfg(feature = "auth")]
struct WatchedToken {
    granted: GrantedAccess,
    expires: Option<Instant>,
    /// When the next verification begins; while one runs, when it must be complete.
    due: Option<Instant>,
    verification: Option<Reverification>,
}

#[cfg(feature = "auth")]
impl TokenWatch {
    pub(super) fn new(service: &Service, access: &CallerAccess) -> Self {
        Self(access.as_ref().map(|granted| {
            let expires = deadline(service, granted.access().expires);
            let due = granted.reverifier().and_then(|reverifier| service.now().after(reverifier.interval()));
            Box::new(WatchedToken { granted: granted.clone(), expires, due, verification: None })
        }))
    }

    /// Ready, once, when a request with the token is no longer accepted.
    pub(super) fn poll(&mut self, service: &Service, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.as_mut().is_none_or(|token| token.poll_valid(service, cx)) {
            return Poll::Pending;
        }
        self.0 = None;
        Poll::Ready(())
    }

    /// The time at which [`poll`](Self::poll) is due.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let token = self.0.as_ref()?;
        [token.expires, token.due].into_iter().flatten().min()
    }
}

#[cfg(feature = "auth")]
impl WatchedToken {
    /// Whether the token is valid, as far as that is known.
    fn poll_valid(&mut self, service: &Service, cx: &mut Context<'_>) -> bool {
        let now = service.now();
        if self.expires.is_some_and(|at| at <= now) {
            return false;
        }
        let Some(reverifier) = self.granted.reverifier() else { return true };
        let mut is_due = self.due.is_some_and(|at| at <= now);
        if is_due && self.verification.is_none() {
            let unix = service.clock.unix_time();
            self.verification = Some(reverifier.verify(Now { instant: now, unix }));
            self.due = now.after(VERIFY_TIMEOUT);
            is_due = false;
        }
        let Some(verification) = &mut self.verification else { return true };
        match verification.as_mut().poll(cx) {
            Poll::Ready(Some(access)) if access.principal == self.granted.access().principal => {
                self.expires = deadline(service, access.expires);
                self.due = now.after(reverifier.interval());
                self.verification = None;
                true
            }
            Poll::Ready(_) => false,
            Poll::Pending => !is_due,
        }
    }
}

/// The time of the server's clock at which a token expires.
#[cfg(feature = "auth")]
fn deadline(service: &Service, expires: Option<UnixTime>) -> Option<Instant> {
    service.now().after(expires?.saturating_since(service.clock.unix_time()))
}

/// There are no tokens without the feature `auth`.
#[cfg(not(feature = "auth"))]
#[derive(Default)]
pub(super) struct TokenWatch {}

#[cfg(not(feature = "auth"))]
impl TokenWatch {
    pub(super) fn new(_: &Service, _: &CallerAccess) -> Self {
        Self {}
    }

    pub(super) fn poll(&mut self, _: &Service, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
