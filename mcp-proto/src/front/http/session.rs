//! A legacy session, as its driver and the exchanges of its client share it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};

use super::hub::{Mailbox, Subscriber, Topic, deliver};
use crate::bind::http::server::{Chunk, ResponseHead, Session, SessionId, StreamId};
use crate::front::server::{ServerCore, ServerMachine};
use crate::front::shared::Shared;
use crate::peer::server::{self, Answer, ListKind};
use crate::peer::{InboundId, Lost, Outgoing, Refusal, RequestId};
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{LoggingMessageParams, ProgressParams};
use crate::{Bytes, Instant};

/// A session, by a number of its own: never reused.
pub(super) type SessionKey = u64;

/// One session in the table.
pub(super) struct SessionCell {
    id: SessionId,
    key: SessionKey,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared<ServerCore, SessionMachine>>,
}

impl SessionCell {
    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn key(&self) -> SessionKey {
        self.key
    }

    pub(super) fn shared(&self) -> &Arc<Shared<ServerCore, SessionMachine>> {
        &self.shared
    }

    pub(super) fn has_mail(&self) -> bool {
        self.mailbox.has_mail()
    }

    /// Has the driver poll the session.
    pub(super) fn notify(&self) {
        self.shared.signal().notify();
    }

    /// Gives the session an input; the driver is told to carry out what comes of it.
    pub(super) fn input<R>(&self, act: impl FnOnce(&mut Session, Instant) -> R) -> R {
        self.shared.command(|_, machine, now, _| act(&mut machine.session, now))
    }

    pub(super) fn poll_head(&self, stream: StreamId, cx: &mut Context<'_>) -> Poll<ResponseHead> {
        self.poll(stream, cx, |session, now| session.poll_head(now, stream))
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
                wakers.spend(Some(left));
            } else {
                wakers.spend(machine.waiting.insert(stream, left));
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
            wakers.spend(machine.waiting.remove(&stream));
            machine.session.handle_disconnect(now, stream);
        });
    }
}

/// A session, with what it takes to tell the right ones.
pub(super) struct SessionMachine {
    session: Session,
    subscriber: Subscriber,
    /// Those who wait for something to be sent on a stream.
    waiting: BTreeMap<StreamId, Waker>,
    closing: bool,
    /// When the driver comes by, if nothing else happens.
    deadline: Option<Instant>,
}

impl SessionMachine {
    /// Acts on the time, on what was published, and on the end of the server. Ready once the session is over.
    pub(super) fn turn(&mut self, now: Instant, closing: bool) -> Poll<()> {
        if closing && !self.closing {
            self.closing = true;
            self.session.close(now);
        }
        deliver(self.subscriber.mailbox().take(), &mut self.session, now);
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
}
