//! The requests that this side has made and that have not ended.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::peer::{InputMode, Outcome, ReissuePolicy, TaskMode};
use crate::rpc::{ErrorObject, Pending};
use crate::schema::{MethodInfo, Revision};

/// A request that this side has made: a local handle that stays the same if the request has to be sent again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(i64);

impl RequestId {
    pub(crate) const fn new(number: i64) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for the connection to be ready.
    Queued,
    /// It has been handed to the transport.
    Sent,
    /// It was answered by asking for input, and goes out again once that is there. Its time without progress stands
    /// still: it does not wait for the peer.
    AwaitingInput,
    /// It has become a task, which is followed.
    Task,
}

/// What a request is written from when it goes out again with the input that the peer has asked for.
#[derive(Debug)]
pub(crate) struct StoredParams {
    /// Its parameters, as they went out.
    pub(crate) params: Box<[u8]>,
    /// The revision that they are written at.
    pub(crate) revision: Revision,
}

/// What one request has to do with tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskOptions {
    pub(crate) mode: TaskMode,
    /// Whether its parameters ask for one (2025-11-25).
    pub(crate) requested: bool,
    /// How long it may take as a task, where that was said.
    pub(crate) hard_timeout: Option<Duration>,
    /// Who sees to what the task asks for.
    pub(crate) input: InputMode,
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct OutboundEntry {
    /// The method, where it is one of the protocol's.
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) stage: Stage,
    /// Whether progress was asked for.
    pub(crate) progress: bool,
    /// Whether it may be made once more if its answer is lost on the way.
    pub(crate) reissue: ReissuePolicy,
    pub(crate) task: TaskOptions,
    /// Where it may be answered by asking for input, and that is this side's to deal with.
    pub(crate) stored_params: Option<StoredParams>,
    /// Its id on the wire, where that is not its number.
    wire_id: Option<i64>,
    /// The time without progress that ends it.
    timeout: Duration,
    started: Instant,
    /// When the current wait without progress began.
    waiting_since: Instant,
    /// The end whatever happens.
    hard_deadline: Option<Instant>,
}

impl OutboundEntry {
    /// A request made at `now` that ends after `timeout` without progress and after `hard_timeout` in any case.
    /// `Duration::MAX` stands for no limit.
    pub(crate) fn new(
        info: Option<&'static MethodInfo>,
        now: Instant,
        timeout: Duration,
        maximum: Duration,
        progress: bool,
    ) -> Self {
        let last = (maximum != Duration::MAX).then(|| now + maximum);
        Self {
            info,
            stage: Stage::Queued,
            progress,
            reissue: ReissuePolicy::default(),
            task: TaskOptions::default(),
            stored_params: None,
            wire_id: None,
            timeout,
            started: now,
            waiting_since: now,
            hard_deadline: last,
        }
    }

    /// The same, begun when `earlier` was, with the time that was given to that.
    pub(crate) fn with_times_of(mut self, earlier: &Self) -> Self {
        self.timeout = earlier.timeout;
        self.started = earlier.started;
        self.waiting_since = earlier.waiting_since;
        self.hard_deadline = earlier.hard_deadline;
        self
    }

    /// From now on it waits for the end of a task: only a maximum of its own ends it before.
    pub(crate) fn become_task(&mut self) {
        self.stage = Stage::Task;
        self.stored_params = None;
        self.timeout = Duration::MAX;
        self.hard_deadline =
            self.task.hard_timeout.filter(|&most| most != Duration::MAX).map(|most| self.started + most);
    }

    /// The id that the request of this number has on the wire.
    pub(crate) fn wire_id(&self, number: i64) -> i64 {
        self.wire_id.unwrap_or(number)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waits = self.timeout != Duration::MAX && self.stage != Stage::AwaitingInput;
        let soft = waits.then(|| self.waiting_since + self.timeout);
        match (soft, self.hard_deadline) {
            (Some(soft), Some(last)) => Some(soft.min(last)),
            (soft, last) => soft.or(last),
        }
    }
}

/// A request whose time is over.
pub(crate) struct ExpiredRequest {
    pub(crate) number: i64,
    pub(crate) entry: OutboundEntry,
    pub(crate) after: Duration,
    /// Whether the hard maximum struck.
    pub(crate) hard: bool,
    /// The last error without an id that came since the request was made.
    pub(crate) error_without_id: Option<Box<ErrorObject>>,
}

impl ExpiredRequest {
    /// How the request ends.
    pub(crate) fn outcome(self) -> Outcome {
        let Self { after, hard: maximum, error_without_id: unaddressed, .. } = self;
        Outcome::TimedOut { after, hard: maximum, error_without_id: unaddressed }
    }
}

/// The table of requests in flight, by the number that is both local handle and, at first, id on the wire.
#[derive(Debug)]
pub(crate) struct Outbound {
    entries: Pending<OutboundEntry>,
    /// The numbers of requests that went out once more, by their ids on the wire.
    by_wire_id: BTreeMap<i64, i64>,
    next: i64,
    /// The last error of the peer that had no id, and when it came.
    error_without_id: Option<(Instant, Box<ErrorObject>)>,
}

impl Outbound {
    pub(crate) fn new() -> Self {
        Self { entries: Pending::new(), by_wire_id: BTreeMap::new(), next: 1, error_without_id: None }
    }

    /// A number that this side has never used before.
    pub(crate) fn mint(&mut self) -> i64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    /// Whether `number` was ever minted here.
    pub(crate) fn is_ours(&self, number: i64) -> bool {
        (1..self.next).contains(&number)
    }

    pub(crate) fn insert(&mut self, number: i64, entry: OutboundEntry) {
        self.entries.insert(number, entry.deadline(), entry);
    }

    pub(crate) fn get(&self, number: i64) -> Option<&OutboundEntry> {
        self.entries.get(number)
    }

    pub(crate) fn get_mut(&mut self, number: i64) -> Option<&mut OutboundEntry> {
        self.entries.get_mut(number)
    }

    pub(crate) fn remove(&mut self, number: i64) -> Option<OutboundEntry> {
        let entry = self.entries.remove(number)?;
        self.forget_wire_id(&entry);
        Some(entry)
    }

    /// Takes any one request out, oldest first.
    pub(crate) fn pop(&mut self) -> Option<(i64, OutboundEntry)> {
        let (number, entry) = self.entries.pop_first()?;
        self.forget_wire_id(&entry);
        Some((number, entry))
    }

    /// The number of the request that an answer with the id `wire` is for: one that is out under this id.
    pub(crate) fn number_awaiting(&self, wire: i64) -> Option<i64> {
        let number = self.number_for_wire(wire);
        let entry = self.entries.get(number)?;
        (entry.stage == Stage::Sent && entry.wire_id(number) == wire).then_some(number)
    }

    /// A new id on the wire for a request that goes out once more. Whoever has kept it knows it by its number.
    pub(crate) fn renumber(&mut self, number: i64) -> i64 {
        let wire = self.mint();
        if let Some(entry) = self.entries.get_mut(number)
            && let Some(before) = entry.wire_id.replace(wire)
        {
            self.by_wire_id.remove(&before);
        }
        if self.entries.get(number).is_some() {
            self.by_wire_id.insert(wire, number);
        }
        wire
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn number_for_wire(&self, wire: i64) -> i64 {
        self.by_wire_id.get(&wire).copied().unwrap_or(wire)
    }

    fn forget_wire_id(&mut self, entry: &OutboundEntry) {
        if let Some(wire) = entry.wire_id {
            self.by_wire_id.remove(&wire);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = i64> + '_ {
        self.entries.iter().map(|(&number, _)| number)
    }

    /// Notes that the peer works on a request: its time without progress starts again.
    pub(crate) fn extend_deadline(&mut self, number: i64, now: Instant) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        entry.waiting_since = entry.waiting_since.max(now);
        let deadline = entry.deadline();
        self.entries.set_deadline(number, deadline);
    }

    /// A request has gone out again: from now on it waits for the peer.
    pub(crate) fn resume(&mut self, number: i64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.stage = Stage::Sent;
        }
        self.extend_deadline(number, now);
    }

    /// Keeps an error that has no id, without its data: it may be meant for any request that is out.
    pub(crate) fn note_error_without_id(&mut self, now: Instant, error: &ErrorObject) {
        /// Enough characters for the sentences of an error.
        const MOST: usize = 512;
        let message: String = error.message.chars().take(MOST).collect();
        self.error_without_id = Some((now, Box::new(ErrorObject::new(error.code, message))));
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.entries.next_deadline()
    }

    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<ExpiredRequest> {
        let (number, entry) = self.entries.pop_expired(now)?;
        self.forget_wire_id(&entry);
        let maximum = entry.hard_deadline.is_some_and(|last| last <= now);
        let since = if maximum { entry.started } else { entry.waiting_since };
        let unaddressed = self.error_without_id.as_ref().filter(|(came, _)| *came >= entry.started);
        let unaddressed = unaddressed.map(|(_, error)| error.clone());
        Some(ExpiredRequest {
            number,
            after: now.saturating_since(since),
            hard: maximum,
            entry,
            error_without_id: unaddressed,
        })
    }

    /// Gives requests whose time is over more of it, where `until` says that they have waited for the peer since then
    /// only. A hard maximum stays, and what was given no time has none left.
    pub(crate) fn suspend_deadlines(
        &mut self,
        now: Instant,
        until: impl Fn(i64, &OutboundEntry) -> Option<Instant>,
    ) {
        let mut over = Vec::new();
        while let Some((number, mut entry)) = self.entries.pop_expired(now) {
            if let Some(until) = until(number, &entry) {
                entry.waiting_since = entry.waiting_since.max(until);
            }
            if entry.deadline().is_some_and(|deadline| deadline <= now) {
                over.push((number, entry));
            } else {
                self.insert(number, entry);
            }
        }
        for (number, entry) in over {
            self.insert(number, entry);
        }
    }
}
