//! The requests that this side has made and that have not ended.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
#[cfg(feature = "client")]
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::peer::{InputMode, Outcome, Reissue, TaskMode};
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
    Between,
    /// It has become a task, which is followed.
    Task,
}

/// What a request is written from when it goes out again with the input that the peer has asked for.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Its parameters, as they went out.
    pub(crate) params: Box<[u8]>,
    /// The revision that they are written at.
    pub(crate) revision: Revision,
}

/// What one request has to do with tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskWish {
    pub(crate) mode: TaskMode,
    /// Whether its parameters ask for one (2025-11-25).
    pub(crate) asked: bool,
    /// How long it may take as a task, where that was said.
    pub(crate) maximum: Option<Duration>,
    /// Who sees to what the task asks for.
    pub(crate) input: InputMode,
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The method, where it is one of the protocol's.
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) stage: Stage,
    /// Whether progress was asked for.
    pub(crate) progress: bool,
    /// Whether it may be made once more if its answer is lost on the way.
    pub(crate) reissue: Reissue,
    pub(crate) task: TaskWish,
    /// Where it may be answered by asking for input, and that is this side's to deal with.
    pub(crate) kept: Option<Kept>,
    /// Its id on the wire, where that is not its number.
    wire: Option<i64>,
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
        Self {
            info,
            stage: Stage::Queued,
            progress,
            reissue: Reissue::default(),
            task: TaskWish::default(),
            kept: None,
            wire: None,
            timeout,
            started: now,
            waiting_since: now,
            last,
        }
    }

    /// The same, begun when `earlier` was, with the time that was given to that.
    pub(crate) fn begun_as(mut self, earlier: &Self) -> Self {
        self.timeout = earlier.timeout;
        self.started = earlier.started;
        self.waiting_since = earlier.waiting_since;
        self.last = earlier.last;
        self
    }

    /// From now on it waits for the end of a task: only a maximum of its own ends it before.
    pub(crate) fn become_task(&mut self) {
        self.stage = Stage::Task;
        self.kept = None;
        self.timeout = Duration::MAX;
        self.last = self.task.maximum.filter(|&most| most != Duration::MAX).map(|most| self.started + most);
    }

    /// The id that the request of this number has on the wire.
    pub(crate) fn wire(&self, number: i64) -> i64 {
        self.wire.unwrap_or(number)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waits = self.timeout != Duration::MAX && self.stage != Stage::Between;
        let soft = waits.then(|| self.waiting_since + self.timeout);
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
    /// The last error without an id that came since the request was made.
    pub(crate) unaddressed: Option<Box<ErrorObject>>,
}

impl Expired {
    /// How the request ends.
    pub(crate) fn outcome(self) -> Outcome {
        let Self { after, maximum, unaddressed, .. } = self;
        Outcome::TimedOut { after, maximum, unaddressed }
    }
}

/// The table of requests in flight, by the number that is both local handle and, at first, id on the wire.
#[derive(Debug)]
pub(crate) struct Outbound {
    entries: Pending<Entry>,
    /// The numbers of requests that went out once more, by their ids on the wire.
    renamed: BTreeMap<i64, i64>,
    next: i64,
    /// The last error of the peer that had no id, and when it came.
    unaddressed: Option<(Instant, Box<ErrorObject>)>,
}

impl Outbound {
    pub(crate) fn new() -> Self {
        Self { entries: Pending::new(), renamed: BTreeMap::new(), next: 1, unaddressed: None }
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
        let entry = self.entries.remove(number)?;
        self.forget_name(&entry);
        Some(entry)
    }

    /// Takes any one request out, oldest first.
    pub(crate) fn pop(&mut self) -> Option<(i64, Entry)> {
        let (number, entry) = self.entries.pop_first()?;
        self.forget_name(&entry);
        Some((number, entry))
    }

    /// The number of the request that an answer with the id `wire` is for: one that is out under this id.
    pub(crate) fn awaits(&self, wire: i64) -> Option<i64> {
        let number = self.named(wire);
        let entry = self.entries.get(number)?;
        (entry.stage == Stage::Sent && entry.wire(number) == wire).then_some(number)
    }

    /// A new id on the wire for a request that goes out once more. Whoever has kept it knows it by its number.
    pub(crate) fn rename(&mut self, number: i64) -> i64 {
        let wire = self.mint();
        if let Some(entry) = self.entries.get_mut(number)
            && let Some(before) = entry.wire.replace(wire)
        {
            self.renamed.remove(&before);
        }
        if self.entries.get(number).is_some() {
            self.renamed.insert(wire, number);
        }
        wire
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn named(&self, wire: i64) -> i64 {
        self.renamed.get(&wire).copied().unwrap_or(wire)
    }

    fn forget_name(&mut self, entry: &Entry) {
        if let Some(wire) = entry.wire {
            self.renamed.remove(&wire);
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
    pub(crate) fn extend(&mut self, number: i64, now: Instant) {
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
        self.extend(number, now);
    }

    /// Keeps an error that has no id, without its data: it may be meant for any request that is out.
    pub(crate) fn note_unaddressed(&mut self, now: Instant, error: &ErrorObject) {
        /// Enough characters for the sentences of an error.
        const MOST: usize = 512;
        let message: String = error.message.chars().take(MOST).collect();
        self.unaddressed = Some((now, Box::new(ErrorObject::new(error.code, message))));
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.entries.next_deadline()
    }

    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<Expired> {
        let (number, entry) = self.entries.pop_expired(now)?;
        self.forget_name(&entry);
        let maximum = entry.last.is_some_and(|last| last <= now);
        let since = if maximum { entry.started } else { entry.waiting_since };
        let unaddressed = self.unaddressed.as_ref().filter(|(came, _)| *came >= entry.started);
        let unaddressed = unaddressed.map(|(_, error)| error.clone());
        Some(Expired { number, after: now.saturating_since(since), maximum, entry, unaddressed })
    }

    /// Gives requests whose time is over more of it, where `until` says that they have waited for the peer since then
    /// only. A hard maximum stays, and what was given no time has none left.
    #[cfg(feature = "client")]
    pub(crate) fn excuse(&mut self, now: Instant, until: impl Fn(i64, &Entry) -> Option<Instant>) {
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
