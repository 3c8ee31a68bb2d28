//! A legacy session, shared between the driver and the exchanges of its client.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use core::{fmt, mem};
use std::sync::Mutex;

use super::change_hub::{ConnectionKind, Hub, Mailbox, Subscriber};
use super::service::Service;
use crate::front::handler::connection::ServerCore;
use crate::front::handler::inbound_request::Caller;
use crate::front::router::ServedRouter;
use crate::front::server::ServerDriver;
use crate::front::shared::{Core as _, Shared};
use crate::front::tasks::TaskRunner;
use crate::front::wakers::{TaskWaker, Wakers, lock};
use crate::front::{Clock, HandlerMode, SendHandlers};
use crate::inline_map::InlineMap;
use crate::peer::server::{Server, ServerLoan, ServerTransport};
use crate::peer::{LostReason, Principal, server};
use crate::quota::QuotaOwner;
use crate::transport::http::server::{
    Chunk, ConnectionId, IdleSession, Post, PostOutcome, ResponseHead, Session, SessionId,
};
use crate::{Bytes, Instant};

/// The connection of a session, which its driver and its streams share.
pub(super) type ActiveSession = Shared<ServerCore, SessionMachine>;

/// The references to an active session that is not in use: those of its cell, and the two of its driver.
const UNUSED_REFERENCES: usize = 3;

/// A session in the session table.
pub(super) struct SessionCell {
    pub(super) id: SessionId,
    /// The owner whose quota it uses.
    pub(super) owner: QuotaOwner,
    /// The principal that it belongs to.
    pub(super) principal: Option<Principal>,
    mailbox: Arc<Mailbox>,
    state: Mutex<CellState>,
}

enum CellState {
    Active(Arc<ActiveSession>),
    /// Nothing is in progress, and the session takes little memory.
    Idle(Box<IdleCell>),
}

struct IdleCell {
    session: IdleSession,
    subscriber: Subscriber,
    clock: Arc<dyn Clock>,
}

impl SessionCell {
    pub(super) fn new(
        hub: &Arc<Hub>,
        clock: Arc<dyn Clock>,
        id: SessionId,
        mut session: Session,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Arc<Self> {
        session.at(clock.now()).set_principal(principal.clone());
        let subscriber = hub.connect(&Arc::default(), ConnectionKind::Session);
        let mailbox = subscriber.mailbox.clone();
        let state = Mutex::new(CellState::Active(activate(session, subscriber, clock)));
        Arc::new(Self { id, owner, principal, mailbox, state })
    }

    /// The active session; an idle one becomes active.
    pub(super) fn activate(&self) -> Arc<ActiveSession> {
        let mut state = lock(&self.state);
        match &mut *state {
            CellState::Active(active) => active.clone(),
            CellState::Idle(idle) => {
                let session = Session::from_idle(&mut idle.session);
                let active = activate(session, idle.subscriber.take(), idle.clock.clone());
                *state = CellState::Active(active.clone());
                active
            }
        }
    }

    /// Makes the session idle, if only its driver has it and nothing is in progress. The driver is then of no use.
    pub(super) fn deactivate(&self) -> bool {
        let mut state = lock(&self.state);
        let CellState::Active(active) = &*state else { return false };
        // All others have a reference of their own, which they get from here, under the lock.
        if Arc::strong_count(active) > UNUSED_REFERENCES {
            return false;
        }
        let taken = active.update(|core, machine, _| {
            if !core.is_idle() {
                return None;
            }
            Some((machine.session.take_idle()?, machine.subscriber.take()))
        });
        let Some((session, subscriber)) = taken else { return false };
        let idle = IdleCell { session, subscriber, clock: active.clock().clone() };
        let before = mem::replace(&mut *state, CellState::Idle(Box::new(idle)));
        drop(state);
        drop(before);
        true
    }

    /// Whether changes arrived after the session was last polled.
    pub(super) fn has_changes(&self) -> bool {
        self.mailbox.has_mail()
    }

    /// Runs `act` on the session, and wakes the driver to carry out the result.
    pub(super) fn with_session<R>(&self, act: impl FnOnce(&mut Session, Instant) -> R) -> R {
        self.activate().command(|_, machine, now, _| act(&mut machine.session, now))
    }

    /// Handles a message that the client posted.
    pub(super) fn post(&self, post: Post, caller: Caller) -> PostOutcome {
        self.activate()
            .command(|core, machine, now, wakers| {
                core.caller = caller;
                let outcome = machine.session.handle_post(now, post);
                // The requests of the post take them; the session does not keep them.
                core.drain(machine, wakers);
                (outcome, mem::take(&mut core.caller.attachments))
            })
            .0
    }

    /// Ends the session, which another one replaces.
    pub(super) fn end(&self) {
        self.with_session(|session, now| session.at(now).abort(LostReason::LimitExceeded));
    }
}

fn activate(session: Session, subscriber: Subscriber, clock: Arc<dyn Clock>) -> Arc<ActiveSession> {
    let signal = subscriber.mailbox.signal.clone();
    let machine = SessionMachine {
        session,
        subscriber,
        wakers: None,
        waiting: InlineMap::new(),
        closing: false,
        deadline: None,
    };
    let core = ServerCore::over_http(Caller::default(), machine.subscriber.hub.clone());
    Arc::new(Shared::with_signal(signal, core, machine, clock))
}

/// A reader of a session's stream; dropping it disconnects the reader.
pub(super) struct StreamReader {
    session: Arc<ActiveSession>,
    connection: ConnectionId,
}

impl StreamReader {
    /// Creates the reader of a connection that is open.
    pub(super) fn new(cell: &SessionCell, connection: ConnectionId) -> Self {
        Self { session: cell.activate(), connection }
    }

    pub(super) fn poll_head(&self, cx: &mut Context<'_>) -> Poll<ResponseHead> {
        self.poll(cx, |session, _| session.poll_head(self.connection))
    }

    pub(super) fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll(cx, |session, now| match session.poll_body(now, self.connection) {
            Chunk::Bytes(bytes) => Some(Some(bytes)),
            Chunk::End => Some(None),
            Chunk::Pending => None,
        })
    }

    /// Polls the stream with `take`; if it has no output, stores the reader's waker under the same lock.
    fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Session, Instant) -> Option<R>,
    ) -> Poll<R> {
        let left = cx.waker().clone();
        let (taken, late) = self.session.with(|_, machine, now, wakers| {
            let taken = take(&mut machine.session, now);
            if taken.is_some() {
                wakers.discard(Some(left));
            } else {
                wakers.discard(machine.waiting.insert(self.connection, left));
            }
            (taken, machine.is_late())
        });
        if late {
            self.session.signal().notify();
        }
        taken.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.session.command(|_, machine, now, wakers| {
            wakers.discard(machine.waiting.remove(&self.connection));
            machine.session.handle_disconnect(now, self.connection);
        });
    }
}

/// A session with its subscriber and wakers.
pub(super) struct SessionMachine {
    pub(super) session: Session,
    subscriber: Subscriber,
    /// The wakers of listeners for changes in the client's subscriptions.
    wakers: Option<Box<Wakers>>,
    /// The wakers of stream readers, by stream.
    waiting: InlineMap<ConnectionId, Waker>,
    closing: bool,
    /// The time of the driver's next poll.
    deadline: Option<Instant>,
}

impl SessionMachine {
    /// Handles timeouts, published changes and the end of the server. Ready once the session has ended.
    pub(super) fn advance(&mut self, now: Instant, closing: bool) -> Poll<()> {
        let mail = self.subscriber.mailbox.take();
        mail.deliver(self, now);
        if closing && !self.closing {
            self.closing = true;
            self.session.at(now).close();
        }
        self.session.handle_timeout(now);
        self.deadline = self.session.poll_timeout();
        if self.session.is_closed() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether the session's timeout is before the driver's next poll.
    fn is_late(&self) -> bool {
        let due = self.session.poll_timeout();
        due.is_some_and(|due| self.deadline.is_none_or(|deadline| due < deadline))
    }
}

impl ServerTransport for SessionMachine {
    fn peer(&self) -> &Server {
        self.session.peer()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
    }

    /// Registers a subscription with the hub first, under the session's lock: before the application learns of it.
    fn poll_event(&mut self) -> Option<server::Event> {
        let event = self.session.poll_event()?;
        let topic = |uri: &String| server::Topic::Resource(uri.as_str().into());
        match &event {
            server::Event::Subscribed { uri } => {
                self.subscriber.add(topic(uri), self.wakers.get_or_insert_default());
            }
            server::Event::Unsubscribed { uri } => {
                self.subscriber.remove(&topic(uri), self.wakers.get_or_insert_default());
            }
            _ => {}
        }
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    /// The next waker of a hub listener, or of the reader of a stream that has become readable.
    fn poll_waker(&mut self) -> Option<Waker> {
        if let Some(wakers) = &mut self.wakers {
            match wakers.next() {
                Some(waker) => return Some(waker),
                None => self.wakers = None,
            }
        }
        while let Some(connection) = self.session.poll_connection() {
            if let Some(waker) = self.waiting.remove(&connection) {
                return Some(waker);
            }
        }
        None
    }

    fn lend(&mut self, now: Instant) -> ServerLoan<'_> {
        self.session.lend(now)
    }

    fn settle(&mut self, now: Instant) {
        ServerTransport::settle(&mut self.session, now);
    }
}

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
    sessions: BTreeMap<SessionId, Box<SessionRun<H>>>,
    /// The time at which each session must be polled at the latest.
    timers: BTreeSet<(Instant, SessionId)>,
    /// The runner of tasks that any request started.
    tasks: Option<TaskRunner<H>>,
}

struct SessionRun<H: HandlerMode> {
    cell: Arc<SessionCell>,
    /// `None` while the session is idle.
    driver: Option<Box<ServerDriver<SessionMachine, H>>>,
    state: Arc<TaskWaker<SessionId>>,
    waker: Waker,
    deadline: Option<Instant>,
}

impl<H: HandlerMode> HttpServerDriver<H> {
    pub(super) fn new(service: Arc<Service>, router: ServedRouter<H>) -> Self {
        let tasks =
            service.task_service.as_ref().map(|service| TaskRunner::new(service.clone(), router.clone()));
        Self { service, router, sessions: BTreeMap::new(), timers: BTreeSet::new(), tasks }
    }

    /// Runs all sessions and tasks that are ready, and stores the task's waker. Ready once the server was closed and
    /// its sessions have ended.
    ///
    /// Poll it again at [`next_timeout`](Self::next_timeout) as well.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.service.note_driver();
        let ready = self.service.session_signal.begin();
        let closing = self.service.is_closing();
        let arrivals = self.service.take_new_sessions();
        self.start(arrivals);
        for id in ready {
            self.run(id, closing);
        }
        let now = self.service.now();
        let is_due = |(deadline, _): &&(Instant, SessionId)| *deadline <= now;
        let due: Vec<SessionId> = self.timers.iter().take_while(is_due).map(|&(_, id)| id).collect();
        for id in due {
            self.run(id, closing);
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.poll(cx);
        }
        if closing && self.sessions.is_empty() {
            let late = self.service.refuse_sessions();
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
        if !rest || self.service.has_new_sessions() || closing != self.service.is_closing() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The time at which [`poll`](Self::poll) is due, if its waker is not called earlier.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let of_sessions = self.timers.first().map(|(deadline, _)| *deadline);
        let of_tasks = self.tasks.as_ref().and_then(TaskRunner::next_timeout);
        [of_sessions, of_tasks].into_iter().flatten().min()
    }

    /// Adds new sessions, which are polled next.
    fn start(&mut self, arrivals: Vec<Arc<SessionCell>>) {
        for cell in arrivals {
            let id = cell.id;
            let state = TaskWaker::new(id, self.service.session_signal.clone());
            let waker = Waker::from(state.clone());
            self.sessions
                .insert(id, Box::new(SessionRun { cell, driver: None, state, waker, deadline: None }));
            self.run(id, self.service.is_closing());
        }
    }

    /// Polls a session.
    fn run(&mut self, id: SessionId, closing: bool) {
        let Some(running) = self.sessions.get_mut(&id) else { return };
        running.state.arm();
        if let Some(deadline) = running.deadline.take() {
            self.timers.remove(&(deadline, id));
        }
        let mut cx = Context::from_waker(&running.waker);
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
            self.service.forget(id);
            return;
        }
        running.deadline = driver.next_timeout();
        if is_due {
            if running.cell.deactivate() {
                running.driver = None;
            }
        } else if let Some(since) = idle_since {
            let until_idle = since + IDLE_DELAY;
            running.deadline = Some(running.deadline.map_or(until_idle, |deadline| deadline.min(until_idle)));
        }
        self.timers.extend(running.deadline.map(|deadline| (deadline, id)));
        self.service.set_idle(id, idle_since);
        // Later changes call the stored waker. Changes before it was stored would be missed.
        if running.cell.has_changes() || closing != self.service.is_closing() {
            running.waker.wake_by_ref();
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
        for cell in self.service.refuse_sessions() {
            self.service.forget(cell.id);
            drop(session_driver(&self.service, &self.router, &cell));
        }
        while let Some((id, running)) = self.sessions.pop_first() {
            running.state.retire();
            self.service.forget(id);
            if running.driver.is_none() {
                // Without a driver, the session would go on if a request has it.
                drop(session_driver(&self.service, &self.router, &running.cell));
            }
        }
    }
}

impl<H: HandlerMode> fmt::Debug for HttpServerDriver<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServerDriver").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}
