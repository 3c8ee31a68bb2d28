//! The requests that this side has made and that have not ended.

use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::rpc::Pending;
use crate::schema::MethodInfo;

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
    /// It has been handed to the binding.
    Sent,
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The method, where it is one of the protocol's.
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) stage: Stage,
    /// Whether progress was asked for.
    pub(crate) progress: bool,
    /// The time without progress that ends it.
    timeout: Duration,
    started: Instant,
    /// When the current wait without progress began.
    waiting_since: Instant,
    /// The end whatever happens.
    last: Option<Instant>,
}

impl Entry {
    /// A request made at `now` that ends after `timeout` without progress and after `maximum` in any case.
    /// `Duration::MAX` stands for no limit.
    pub(crate) fn new(
        info: Option<&'static MethodInfo>,
        now: Instant,
        timeout: Duration,
        maximum: Duration,
        progress: bool,
    ) -> Self {
        let last = (maximum != Duration::MAX).then(|| now + maximum);
        Self { info, stage: Stage::Queued, progress, timeout, started: now, waiting_since: now, last }
    }

    fn deadline(&self) -> Option<Instant> {
        let soft = (self.timeout != Duration::MAX).then(|| self.waiting_since + self.timeout);
        match (soft, self.last) {
            (Some(soft), Some(last)) => Some(soft.min(last)),
            (soft, last) => soft.or(last),
        }
    }
}

/// A request whose time is over.
pub(crate) struct Expired {
    pub(crate) number: i64,
    pub(crate) entry: Entry,
    pub(crate) after: Duration,
    /// Whether the hard maximum struck.
    pub(crate) maximum: bool,
}

/// The table of requests in flight, by the number that is both local handle and, at first, id on the wire.
#[derive(Debug)]
pub(crate) struct Outbound {
    entries: Pending<Entry>,
    next: i64,
}

impl Outbound {
    pub(crate) fn new() -> Self {
        Self { entries: Pending::new(), next: 1 }
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

    pub(crate) fn insert(&mut self, number: i64, entry: Entry) {
        self.entries.insert(number, entry.deadline(), entry);
    }

    pub(crate) fn get(&self, number: i64) -> Option<&Entry> {
        self.entries.get(number)
    }

    pub(crate) fn get_mut(&mut self, number: i64) -> Option<&mut Entry> {
        self.entries.get_mut(number)
    }

    pub(crate) fn remove(&mut self, number: i64) -> Option<Entry> {
        self.entries.remove(number)
    }

    /// Takes any one request out, oldest first.
    pub(crate) fn pop(&mut self) -> Option<(i64, Entry)> {
        self.entries.pop_first()
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
    pub(crate) fn extend(&mut self, number: i64, now: Instant) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        entry.waiting_since = entry.waiting_since.max(now);
        let deadline = entry.deadline();
        self.entries.set_deadline(number, deadline);
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.entries.next_deadline()
    }

    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<Expired> {
        let (number, entry) = self.entries.pop_expired(now)?;
        let maximum = entry.last.is_some_and(|last| last <= now);
        let since = if maximum { entry.started } else { entry.waiting_since };
        Some(Expired { number, after: now.saturating_since(since), maximum, entry })
    }
}
