//! A legacy session, as its driver and the exchanges of its client share it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::task::{Context, Poll, Waker};

use super::hub::{ChangeTopic, Hub, Mailbox, Subscriber, deliver};
use crate::front::Clock;
use crate::front::handler::caller::Caller;
use crate::front::server::ServerCore;
use crate::front::shared::Shared;
use crate::front::signal::Wakers;
use crate::peer::server::{self, Server, ServerCommands, ServerLoan, ServerTransport};
use crate::peer::{LostReason, Principal};
use crate::quota::QuotaOwner;
use crate::transport::http::server::{Chunk, Post, PostOutcome, ResponseHead, Session, SessionId, StreamId};
use crate::{Bytes, Instant};

/// A session in the table.
pub(super) struct SessionCell {
    id: SessionId,
    /// Whose quota it uses.
    owner: QuotaOwner,
    /// To whom it belongs.
    principal: Option<Principal>,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared<ServerCore, SessionMachine>>,
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
        let signal = Arc::default();
        // Lists are told of without having been asked for.
        let subscriber = hub.subscribe(&signal, [(ChangeTopic::Lists, ())].into_iter().collect());
        let mailbox = subscriber.mailbox().clone();
        let machine = SessionMachine {
            session,
            subscriber,
            wakers: Wakers::default(),
            waiting: BTreeMap::new(),
            closing: false,
            deadline: None,
        };
        let core = ServerCore::default();
        let shared = Arc::new(Shared::with_signal(signal, core, machine, clock));
        Arc::new(Self { id, owner, principal, mailbox, shared })
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn owner(&self) -> &QuotaOwner {
        &self.owner
    }

    pub(super) fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    pub(super) fn shared(&self) -> &Arc<Shared<ServerCore, SessionMachine>> {
        &self.shared
    }

    /// Whether there is something to tell the session that came after its last turn.
    pub(super) fn has_changes(&self) -> bool {
        self.mailbox.has_changes()
    }

    /// Has the driver poll the session.
    pub(super) fn notify(&self) {
        self.shared.signal().notify();
    }

    /// Gives the session an input; the driver is told to carry out what comes of it.
    pub(super) fn with_session<R>(&self, act: impl FnOnce(&mut Session, Instant) -> R) -> R {
        self.shared.command(|_, machine, now, _| act(&mut machine.session, now))
    }

    /// The client has posted something.
    pub(super) fn post(&self, post: Post, caller: Caller) -> PostOutcome {
        self.shared.command(|core, machine, now, _| {
            core.caller = caller;
            machine.session.handle_post(now, post)
        })
    }

    /// Ends the session: another one is to have its place.
    pub(super) fn end(&self) {
        self.with_session(|session, now| session.at(now).abort(LostReason::LimitExceeded));
    }

    // --- Streams ---

    pub(super) fn poll_head(&self, stream: StreamId, cx: &mut Context<'_>) -> Poll<ResponseHead> {
        self.poll(stream, cx, |session, _| session.poll_head(stream))
    }

    pub(super) fn poll_body(&self, stream: StreamId, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll(stream, cx, |session, now| match session.poll_body(now, stream) {
            Chunk::Bytes(bytes) => Some(Some(bytes)),
            Chunk::End => Some(None),
            Chunk::Pending => None,
        })
    }

    /// Takes something of a stream, or leaves the waker of who waits for it under the lock in which there was nothing.
    fn poll<R>(
        &self,
        stream: StreamId,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Session, Instant) -> Option<R>,
    ) -> Poll<R> {
        let left = cx.waker().clone();
        let (taken, late) = self.shared.with(|_, machine, now, wakers| {
            let taken = take(&mut machine.session, now);
            if taken.is_some() {
                wakers.discard(Some(left));
            } else {
                wakers.discard(machine.waiting.insert(stream, left));
            }
            (taken, machine.is_late())
        });
        if late {
            self.notify();
        }
        taken.map_or(Poll::Pending, Poll::Ready)
    }

    /// The client does not read a stream any more.
    pub(super) fn leave(&self, stream: StreamId) {
        self.shared.command(|_, machine, now, wakers| {
            wakers.discard(machine.waiting.remove(&stream));
            machine.session.handle_disconnect(now, stream);
        });
    }
}

/// A session, with what it takes to tell the right ones.
pub(super) struct SessionMachine {
    pub(super) session: Session,
    subscriber: Subscriber,
    /// Those who want to know what the client subscribes to.
    wakers: Wakers,
    /// Those who wait for something to be sent on a stream.
    waiting: BTreeMap<StreamId, Waker>,
    closing: bool,
    /// When the driver comes by, if nothing else happens.
    deadline: Option<Instant>,
}

impl SessionMachine {
    /// Acts on the time, on what was published, and on the end of the server. Ready once the session is over.
    pub(super) fn advance(&mut self, now: Instant, closing: bool) -> Poll<()> {
        let changes = self.subscriber.mailbox().take();
        deliver(&changes, self, now);
        if closing && !self.closing {
            self.closing = true;
            self.session.at(now).close();
        }
        self.session.handle_timeout(now);
        self.deadline = self.session.poll_timeout();
        if self.session.is_closed() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether the driver would come by too late.
    fn is_late(&self) -> bool {
        match (self.session.poll_timeout(), self.deadline) {
            (Some(due), Some(deadline)) => due < deadline,
            (due, None) => due.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// The next event. A subscription is registered with the hub on the way, under the session's lock: before the
    /// application learns of it.
    fn next_event(&mut self) -> Option<server::Event> {
        let event = self.session.poll_event()?;
        match &event {
            server::Event::Subscribed { uri } => {
                self.subscriber.add(ChangeTopic::Resource(uri.as_str().into()), &mut self.wakers);
            }
            server::Event::Unsubscribed { uri } => {
                self.subscriber.remove(&ChangeTopic::Resource(uri.as_str().into()), &mut self.wakers);
            }
            _ => {}
        }
        Some(event)
    }

    /// The next waker of a task that waits for the hub's listeners or for a stream that has become readable.
    fn next_waker(&mut self) -> Option<Waker> {
        if let Some(waker) = self.wakers.next() {
            return Some(waker);
        }
        while let Some(stream) = self.session.poll_stream() {
            if let Some(waker) = self.waiting.remove(&stream) {
                return Some(waker);
            }
        }
        None
    }
}

impl ServerTransport for SessionMachine {
    fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        self.session.at(now)
    }

    fn peer(&self) -> &Server {
        self.session.peer()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
    }

    fn poll_event(&mut self) -> Option<server::Event> {
        self.next_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    fn poll_waker(&mut self) -> Option<Waker> {
        self.next_waker()
    }

    fn has_streams(&self) -> bool {
        self.session.has_streams()
    }

    fn lend(&mut self, now: Instant) -> ServerLoan<'_> {
        self.session.lend(now)
    }

    fn settle(&mut self, now: Instant) {
        ServerTransport::settle(&mut self.session, now);
    }
}
