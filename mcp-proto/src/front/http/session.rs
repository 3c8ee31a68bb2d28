//! A legacy session, shared between the driver and the exchanges of its client.

use alloc::sync::Arc;
use core::mem;
use core::task::{Context, Poll, Waker};

use crate::front::Clock;
use crate::front::handler::connection::ServerCore;
use crate::front::handler::inbound_request::Caller;
use crate::front::shared::{Core as _, Shared};
use crate::front::wakers::{Wakers, lock};
use crate::inline_map::InlineMap;
use crate::peer::server::{Server, ServerLoan, ServerTransport};
use crate::peer::{LostReason, Principal, server};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::transport::http::server::{
    AnswerBody, Chunk, ConnectionId, IdleSession, Post, PostOutcome, ResponseHead, Session, SessionId,
};
use crate::{Bytes, Instant};

use super::change_hub::{ConnectionKind, Hub, Mailbox, Subscriber};
use crate::sync::Mutex;

/// The connection of a session, which its driver and its streams share.
pub(super) type ActiveSession = Shared<ServerCore, SessionMachine>;

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

    /// Makes the session idle, if no driver, stream or context shares it and nothing is in progress.
    pub(super) fn deactivate(&self) {
        let mut state = lock(&self.state);
        // References are handed out only here, under the lock, or cloned from such a reference.
        let CellState::Active(active) = &mut *state else { return };
        let Some(active) = Arc::get_mut(active) else { return };
        let taken = active.update(|core, machine, _| {
            if !core.is_idle() {
                return None;
            }
            Some((machine.session.take_idle()?, machine.subscriber.take()))
        });
        let Some((session, subscriber)) = taken else { return };
        let idle = IdleCell { session, subscriber, clock: active.clock().clone() };
        let before = mem::replace(&mut *state, CellState::Idle(Box::new(idle)));
        drop(state);
        drop(before);
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
        let active = self.activate();
        let now = active.now();
        let (outcome, _attachments) = active.update(|core, machine, wakers| {
            core.caller = caller;
            let outcome = machine.session.handle_post(now, post);
            // The requests of the post take them; the session does not keep them.
            core.drain(machine, wakers);
            (outcome, mem::take(&mut core.caller.attachments))
        });
        active.signal().notify();
        outcome
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
    /// Whether everything was read, so that the session has forgotten the connection.
    is_over: bool,
}

impl StreamReader {
    /// Creates the reader of a connection that is open.
    pub(super) fn new(cell: &SessionCell, connection: ConnectionId) -> Self {
        Self { session: cell.activate(), connection, is_over: false }
    }

    /// Polls for the head. With it comes the body of a JSON answer: then the stream is over.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<(ResponseHead, Option<AnswerBody>)> {
        let connection = self.connection;
        self.poll(cx, |session, now| {
            let head = session.poll_head(connection)?;
            let body = session.take_answer(now, connection);
            let is_over = body.is_some();
            Some(((head, body), is_over))
        })
    }

    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let connection = self.connection;
        self.poll(cx, |session, now| match session.poll_body(now, connection) {
            Chunk::Bytes(bytes) => Some((Some(bytes), false)),
            Chunk::End => Some((None, true)),
            Chunk::Pending => None,
        })
    }

    /// Polls the stream with `take`, which also returns whether the stream is over; if it has no output, stores the
    /// reader's waker under the same lock.
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Session, Instant) -> Option<(R, bool)>,
    ) -> Poll<R> {
        let (now, left) = (self.session.now(), cx.waker().clone());
        // What is taken here causes no event.
        let (taken, wakes_driver) = self.session.update(|_, machine, wakers| {
            let taken = take(&mut machine.session, now);
            if taken.is_some() {
                wakers.discard(Some(left));
                wakers.discard(machine.waiting.remove(&self.connection));
            } else {
                wakers.discard(machine.waiting.insert(self.connection, left));
            }
            // At its end the driver learns that the session may be idle.
            let is_over = taken.as_ref().is_some_and(|(_, is_over)| *is_over);
            (taken, is_over || machine.is_late())
        });
        let (output, is_over) = taken.unzip();
        self.is_over = is_over.unwrap_or_default();
        if wakes_driver {
            self.session.signal().notify();
        }
        output.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
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
