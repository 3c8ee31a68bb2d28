//! The table of this side's requests in flight.

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

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waiting for the connection to be ready.
    Queued,
    /// Handed to the transport.
    Sent,
    /// The peer has asked for input; the request is sent again with it. The timeout without progress is paused: the
    /// request does not wait for the peer.
    AwaitingInput,
    /// The request has become a task that the client follows.
    Task,
}

/// The stored parameters of a request, for sending it again with the input that the peer has asked for.
#[derive(Debug)]
pub(crate) struct StoredParams {
    /// The parameters, as they were sent.
    pub(crate) params: Box<[u8]>,
    /// The revision that they are encoded for.
    pub(crate) revision: Revision,
}

/// The task options of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskOptions {
    pub(crate) mode: TaskMode,
    /// Whether its parameters ask for a task (2025-11-25).
    pub(crate) requested: bool,
    /// The hard timeout as a task, if one was set.
    pub(crate) hard_timeout: Option<Duration>,
    /// How the client proceeds when the task asks for input.
    pub(crate) input: InputMode,
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct OutboundEntry {
    /// The method, where it is one of the protocol's.
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) stage: Stage,
    /// Whether the request asks for progress.
    pub(crate) progress: bool,
    /// Whether the request may be sent again if its answer is lost on the way.
    pub(crate) reissue: ReissuePolicy,
    pub(crate) task: TaskOptions,
    /// The parameters of a request that the peer may answer by asking for input, in automatic mode.
    pub(crate) stored_params: Option<StoredParams>,
    /// The id on the wire, if it differs from the number.
    wire_id: Option<i64>,
    /// The time without progress after which the request ends.
    timeout: Duration,
    started: Instant,
    /// When the current wait without progress began.
    waiting_since: Instant,
    /// The deadline that progress does not extend.
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
            hard_deadline: now.after(maximum),
        }
    }

    /// The same request with the start time and timeouts of `earlier`.
    pub(crate) fn with_times_of(mut self, earlier: &Self) -> Self {
        self.timeout = earlier.timeout;
        self.started = earlier.started;
        self.waiting_since = earlier.waiting_since;
        self.hard_deadline = earlier.hard_deadline;
        self
    }

    /// Turns the wait for an answer into the wait for a task's end: only a hard timeout of its own ends it earlier.
    pub(crate) fn become_task(&mut self) {
        self.stage = Stage::Task;
        self.stored_params = None;
        self.timeout = Duration::MAX;
        self.hard_deadline = self.task.hard_timeout.and_then(|timeout| self.started.after(timeout));
    }

    /// The id on the wire of the request with this number.
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

/// A request that has timed out.
pub(crate) struct ExpiredRequest {
    pub(crate) number: i64,
    pub(crate) entry: OutboundEntry,
    pub(crate) after: Duration,
    /// Whether the hard timeout expired.
    pub(crate) hard: bool,
    /// The last error without an id received since the request was made.
    pub(crate) error_without_id: Option<Box<ErrorObject>>,
}

impl ExpiredRequest {
    /// The outcome of the request.
    pub(crate) fn outcome(self) -> Outcome {
        let Self { after, hard: maximum, error_without_id: unaddressed, .. } = self;
        Outcome::TimedOut { after, hard: maximum, error_without_id: unaddressed }
    }
}

/// The table of requests in flight, by the number that is both the local handle and the first id on the wire.
#[derive(Debug)]
pub(crate) struct Outbound {
    entries: Pending<OutboundEntry>,
    /// The numbers of requests that were sent again, by their ids on the wire.
    by_wire_id: BTreeMap<i64, i64>,
    next: i64,
    /// The peer's last error without an id, and when it arrived.
    error_without_id: Option<(Instant, Box<ErrorObject>)>,
}

impl Outbound {
    pub(crate) const fn new() -> Self {
        Self { entries: Pending::new(), by_wire_id: BTreeMap::new(), next: 1, error_without_id: None }
    }

    /// A number that this side has never used before.
    pub(crate) fn mint(&mut self) -> i64 {
        //= C1.2 "Id not equal to any other id this sender has in flight"
        let number = self.next;
        //= C1.3 "Id never reused by this requestor within the same session"
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

    /// Removes and returns the oldest request.
    pub(crate) fn pop(&mut self) -> Option<(i64, OutboundEntry)> {
        let (number, entry) = self.entries.pop_first()?;
        self.forget_wire_id(&entry);
        Some((number, entry))
    }

    /// The number of the request that currently has the id `wire`, if any.
    pub(crate) fn number_awaiting(&self, wire: i64) -> Option<i64> {
        let number = self.number_for_wire(wire);
        let entry = self.entries.get(number)?;
        (entry.stage == Stage::Sent && entry.wire_id(number) == wire).then_some(number)
    }

    /// Assigns a new id on the wire to a request that is sent again. Its number stays the same.
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

    /// Restarts the timeout of a request without progress, because the peer is working on it.
    pub(crate) fn extend_deadline(&mut self, number: i64, now: Instant) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        entry.waiting_since = entry.waiting_since.max(now);
        let deadline = entry.deadline();
        self.entries.set_deadline(number, deadline);
    }

    /// Resumes the wait for the peer after a request was sent again.
    pub(crate) fn resume(&mut self, number: i64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.stage = Stage::Sent;
        }
        self.extend_deadline(number, now);
    }

    /// Stores an error without an id, and without its data: it may answer any request in flight.
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

    /// Extends requests that have timed out, where `until` says that they have only waited for the peer since then.
    /// Hard timeouts are not extended, and neither is a timeout of zero.
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
