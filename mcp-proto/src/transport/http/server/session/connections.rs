//! The bodies of answers that are under way, each a connection of the client's as far as a session knows it.

use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::inline_map::InlineMap;
use crate::rpc::Pending;
use crate::transport::http::server::answer::{Answer, Chunk, ResponseHead};

/// One answer of a session, from the request that it answers to its end. Never reused in a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The number alone, for maps and logs.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

struct Connection {
    /// The lane that feeds it.
    lane: u64,
    head: Option<ResponseHead>,
    /// What is to be sent, with the number of the event that it is; 0 for what is none.
    out: VecDeque<(u64, Bytes)>,
    /// The length of the part taken last, which may not be written yet.
    taken: usize,
    ended: bool,
    /// Since when something waits without anything being taken.
    waiting_since: Option<Instant>,
    /// When something is to be sent to show that it is alive.
    quiet_until: Option<Instant>,
}

impl fmt::Debug for Connection {
    /// Omits the queued bytes, which may name the session.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("lane", &self.lane)
            .field("queued", &self.out.len())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// The bytes that wait.
    fn queued(&self) -> usize {
        self.out.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes.len()))
    }
}

/// What is due on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing has been sent for long.
    Quiet,
    /// The client does not read; the connection has been given up.
    Unread,
}

/// What was taken of a connection, as far as it concerns its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Nothing,
    /// The event `number` of `lane`.
    Event {
        lane: u64,
        number: u64,
    },
    /// The end of it, after everything that it had to carry.
    End {
        lane: u64,
    },
}

#[derive(Debug)]
pub(super) struct Connections {
    open: Pending<Connection, StreamId>,
    next: u64,
    /// Those of which something can be taken that could not before.
    changed: InlineMap<StreamId, ()>,
    queued: usize,
    /// The sum of the parts taken last.
    taken: usize,
    keepalive: Duration,
    write_timeout: Duration,
}

impl Connections {
    pub(super) fn new(keepalive: Duration, write_timeout: Duration) -> Self {
        Self {
            open: Pending::new(),
            next: 1,
            changed: InlineMap::new(),
            queued: 0,
            taken: 0,
            keepalive,
            write_timeout,
        }
    }

    /// Opens one that is fed by `lane`, and that is quiet for at most `patience` before its head is known.
    pub(super) fn open(&mut self, lane: u64, patience: Duration, now: Instant) -> StreamId {
        let id = StreamId(self.next);
        self.next = self.next.saturating_add(1);
        let connection = Connection {
            lane,
            head: None,
            out: VecDeque::new(),
            taken: 0,
            ended: false,
            waiting_since: None,
            quiet_until: after(patience, now),
        };
        self.open.insert(id, None, connection);
        self.schedule(id);
        id
    }

    pub(super) fn begin(&mut self, id: StreamId, head: ResponseHead) {
        if let Some(connection) = self.open.get_mut(id) {
            connection.head = Some(head);
            self.changed.insert(id, ());
        }
    }

    pub(super) fn send(&mut self, id: StreamId, number: u64, bytes: Bytes, now: Instant) {
        let quiet_until = after(self.keepalive, now);
        let Some(connection) = self.open.get_mut(id).filter(|connection| !connection.ended) else { return };
        self.queued = self.queued.saturating_add(bytes.len());
        connection.out.push_back((number, bytes));
        connection.waiting_since.get_or_insert(now);
        connection.quiet_until = quiet_until;
        self.changed.insert(id, ());
        self.schedule(id);
    }

    /// Nothing more will be sent on it.
    pub(super) fn end(&mut self, id: StreamId, now: Instant) {
        let Some(connection) = self.open.get_mut(id) else { return };
        connection.ended = true;
        connection.waiting_since.get_or_insert(now);
        self.changed.insert(id, ());
        self.schedule(id);
    }

    /// Nothing more will be sent on it, not even what waits: another has taken its place.
    pub(super) fn cut(&mut self, id: StreamId, now: Instant) {
        if let Some(connection) = self.open.get_mut(id) {
            let bytes = connection.queued();
            connection.out.clear();
            self.queued = self.queued.saturating_sub(bytes);
        }
        self.end(id, now);
    }

    /// Forgets one; returns its lane.
    pub(super) fn remove(&mut self, id: StreamId) -> Option<u64> {
        let connection = self.open.remove(id)?;
        self.changed.remove(&id);
        self.discharge(&connection);
        Some(connection.lane)
    }

    /// Never minds that one is quiet.
    pub(super) fn let_be(&mut self, id: StreamId) {
        if let Some(connection) = self.open.get_mut(id) {
            connection.quiet_until = None;
            self.schedule(id);
        }
    }

    pub(super) fn head(&self, id: StreamId) -> Option<ResponseHead> {
        match self.open.get(id) {
            Some(connection) => connection.head.clone(),
            None => Some(Answer::empty(404).head()),
        }
    }

    /// Takes the next part of a body.
    pub(super) fn take(&mut self, id: StreamId, now: Instant) -> (Chunk, Taken) {
        let Some(connection) = self.open.get_mut(id) else { return (Chunk::End, Taken::Nothing) };
        let lane = connection.lane;
        let before = core::mem::take(&mut connection.taken);
        self.taken = self.taken.saturating_sub(before);
        let Some((number, bytes)) = connection.out.pop_front() else {
            if connection.ended {
                self.remove(id);
                return (Chunk::End, Taken::End { lane });
            }
            return (Chunk::Pending, Taken::Nothing);
        };
        connection.taken = bytes.len();
        self.taken = self.taken.saturating_add(bytes.len());
        self.queued = self.queued.saturating_sub(bytes.len());
        let more = connection.ended || !connection.out.is_empty();
        connection.waiting_since = more.then_some(now);
        let taken = if number > 0 { Taken::Event { lane, number } } else { Taken::Nothing };
        self.schedule(id);
        (Chunk::Bytes(bytes), taken)
    }

    /// The next one with something new.
    pub(super) fn poll_changed(&mut self) -> Option<StreamId> {
        self.changed.pop_first().map(|(id, ())| id)
    }

    /// The next one on which something is due.
    pub(super) fn poll_due(&mut self, now: Instant) -> Option<(StreamId, u64, Due)> {
        let (id, connection) = self.open.pop_expired(now)?;
        let lane = connection.lane;
        if connection.waiting_since.is_some() {
            self.discharge(&connection);
            self.changed.insert(id, ());
            return Some((id, lane, Due::Unread));
        }
        self.open.insert(id, None, connection);
        Some((id, lane, Due::Quiet))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.next_deadline()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// The bytes of the parts taken last, which may not be written yet.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    fn discharge(&mut self, connection: &Connection) {
        self.taken = self.taken.saturating_sub(connection.taken);
        self.queued = self.queued.saturating_sub(connection.queued());
    }

    fn schedule(&mut self, id: StreamId) {
        let Some(connection) = self.open.get(id) else { return };
        let deadline = match connection.waiting_since {
            Some(since) => Some(since + self.write_timeout),
            None => connection.quiet_until,
        };
        self.open.set_deadline(id, deadline);
    }
}

fn after(duration: Duration, now: Instant) -> Option<Instant> {
    (duration != Duration::MAX).then(|| now + duration)
}
