//! The table of this side's requests in flight.

use core::time::Duration;

use crate::Instant;
use crate::inline_map::InlineMap;
use crate::ordered_map::OrderedMap;
use crate::peer::{InboundId, Outcome, ProgressOption, RequestOptions};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Pending};
use crate::schema::MethodInfo;

/// A request that this side has made: a local handle that stays the same if the request has to be sent again.
///
/// Handles are numbered in the order in which requests are made. The number is also the first id on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(i64);

impl RequestId {
    /// The id of no request.
    #[cfg(feature = "std")]
    pub(crate) const UNSENT: Self = Self(-1);

    pub(crate) const fn new(number: i64) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> i64 {
        self.0
    }
}

debug_fields! { RequestId(inner) => "request {inner}" }

/// An id of this side's request on the wire. A request that is sent again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WireId(pub(crate) i64);

/// The timeouts of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimes {
    /// The time without progress after which the request ends; `Duration::MAX` for no limit.
    timeout: Duration,
    started: Instant,
    /// When the current wait without progress began.
    waiting_since: Instant,
    /// The deadline that progress does not extend.
    hard_deadline: Option<Instant>,
}

impl RequestTimes {
    /// The times of a request of the method `info` made at `now`; `timeout` and `hard_timeout` are the defaults of its
    /// role.
    pub(crate) fn new(
        now: Instant,
        info: Option<&MethodInfo>,
        options: &RequestOptions,
        timeout: Duration,
        hard_timeout: Duration,
    ) -> Self {
        let lasting = info.is_some_and(|info| info.unbounded);
        let default = |ordinary: Duration| if lasting { Duration::MAX } else { ordinary };
        let timeout = options.timeout.unwrap_or(default(timeout));
        let hard_timeout = options.hard_timeout.unwrap_or(default(hard_timeout.max(timeout)));
        Self { timeout, started: now, waiting_since: now, hard_deadline: now.after(hard_timeout) }
    }

    /// Restarts the wait without progress, unless it began later.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.waiting_since = self.waiting_since.max(now);
    }

    /// Leaves only this hard timeout, if any.
    pub(crate) fn keep_only(&mut self, hard_timeout: Option<Duration>) {
        self.timeout = Duration::MAX;
        self.hard_deadline = hard_timeout.and_then(|timeout| self.started.after(timeout));
    }

    fn deadline(&self, is_paused: bool) -> Option<Instant> {
        let waits = self.timeout != Duration::MAX && !is_paused;
        earlier(waits.then(|| self.waiting_since + self.timeout), self.hard_deadline)
    }
}

/// Whether a request with these options asks for progress.
pub(crate) fn asks_for_progress(info: Option<&MethodInfo>, options: &RequestOptions) -> bool {
    match options.progress {
        ProgressOption::WhereLong => info.is_some_and(|info| info.long_running),
        ProgressOption::Always => true,
        ProgressOption::Never => false,
    }
}

/// The knowledge of one role about one of its requests.
pub(crate) trait RequestRecord {
    fn times(&self) -> &RequestTimes;

    fn times_mut(&mut self) -> &mut RequestTimes;

    /// Whether the timeout without progress is paused: the request does not wait for the peer.
    fn is_paused(&self) -> bool {
        false
    }

    /// When the request needs attention, other than by its timeouts.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The properties that the table counts, or finds the request by.
    fn properties(&self) -> RequestProperties {
        RequestProperties::default()
    }

    /// Whether one of its timeouts has expired.
    fn has_expired(&self, now: Instant) -> bool {
        self.times().deadline(self.is_paused()).is_some_and(|deadline| deadline <= now)
    }
}

/// The properties of a request that its table counts, or finds it by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestProperties {
    /// The id on the wire, if it differs from the number.
    pub(crate) wire: Option<WireId>,
    /// The size in bytes of a request that is not sent yet.
    pub(crate) queued_bytes: usize,
    /// Whether a request that waits for an exchange needs a slot for it; `None` for one that does not wait.
    pub(crate) waits_for_slot: Option<bool>,
    /// Whether it occupies one of the slots that limit concurrent exchanges.
    pub(crate) has_slot: bool,
    /// Whether it is the machine's own, which no limit counts.
    pub(crate) is_own: bool,
    /// Whether the peer works on it for the application: it was sent, and is not the machine's own.
    pub(crate) is_working: bool,
    /// The peer's request on whose behalf it is made.
    pub(crate) related: Option<InboundId>,
}

/// The table of requests in flight. Each has one entry in the order of deadlines: the earliest of its own.
#[derive(Debug)]
pub(crate) struct Requests<R> {
    records: Pending<R, RequestId>,
    /// The requests that were sent again, by their ids on the wire.
    by_wire: OrderedMap<WireId, RequestId>,
    /// The requests that wait for an exchange; those that need no slot for it (`false`) come first.
    waiting: InlineMap<(bool, RequestId), ()>,
    next: i64,
    queued_bytes: usize,
    used_slots: usize,
    /// The number of the machine's own requests.
    own: usize,
    /// The number of requests that the peer works on.
    working: usize,
    /// The peer's requests that wait for answers of the peer, and to how many requests.
    related: InlineMap<InboundId, usize>,
    /// The peer's last error without an id, and when it arrived.
    error_without_id: Option<(Instant, Box<ErrorObject>)>,
}

impl<R: RequestRecord> Requests<R> {
    pub(crate) const fn new() -> Self {
        Self {
            records: Pending::new(),
            by_wire: OrderedMap::new(),
            waiting: InlineMap::new(),
            next: 1,
            queued_bytes: 0,
            used_slots: 0,
            own: 0,
            working: 0,
            related: InlineMap::new(),
            error_without_id: None,
        }
    }

    /// An id that this side has never used before.
    pub(crate) fn mint(&mut self) -> RequestId {
        //= C1.2 "Id not equal to any other id this sender has in flight"
        let number = self.next;
        //= F18 "Request ids are rising integers"
        //= C1.3 "Id never reused by this requestor within the same session"
        self.next = self.next.saturating_add(1);
        RequestId(number)
    }

    /// Whether `wire` was ever minted here.
    pub(crate) fn is_ours(&self, wire: WireId) -> bool {
        (1..self.next).contains(&wire.0)
    }

    // --- Records ---

    pub(crate) fn insert(&mut self, id: RequestId, record: R) {
        self.add(id, record.properties());
        self.records.insert(id, earliest(&record), record);
    }

    fn add(&mut self, id: RequestId, properties: RequestProperties) {
        let RequestProperties { wire, queued_bytes, waits_for_slot, has_slot, is_own, is_working, related } =
            properties;
        self.by_wire.extend(wire.map(|wire| (wire, id)));
        self.queued_bytes = self.queued_bytes.saturating_add(queued_bytes);
        if let Some(needs_slot) = waits_for_slot {
            self.waiting.insert((needs_slot, id), ());
        }
        self.used_slots = self.used_slots.saturating_add(has_slot.into());
        self.own = self.own.saturating_add(is_own.into());
        self.working = self.working.saturating_add(is_working.into());
        if let Some(related) = related {
            let count = self.related.get_or_insert_with(related, || 0);
            *count = count.saturating_add(1);
        }
    }

    fn subtract(&mut self, id: RequestId, properties: RequestProperties) {
        let RequestProperties { wire, queued_bytes, waits_for_slot, has_slot, is_own, is_working, related } =
            properties;
        if let Some(wire) = wire {
            self.by_wire.remove(&wire);
        }
        self.queued_bytes = self.queued_bytes.saturating_sub(queued_bytes);
        if let Some(needs_slot) = waits_for_slot {
            self.waiting.remove(&(needs_slot, id));
        }
        self.used_slots = self.used_slots.saturating_sub(has_slot.into());
        self.own = self.own.saturating_sub(is_own.into());
        self.working = self.working.saturating_sub(is_working.into());
        if let Some(related) = related
            && let Some(count) = self.related.get_mut(&related)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.related.remove(&related);
            }
        }
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&R> {
        self.records.get(id)
    }

    /// A record, whose deadlines and properties the caller does not change.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut R> {
        self.records.get_mut(id)
    }

    /// Changes a record, its properties, and its place in the order of deadlines.
    pub(crate) fn update<T>(&mut self, id: RequestId, act: impl FnOnce(&mut R) -> T) -> Option<T> {
        let record = self.records.get_mut(id)?;
        let before = record.properties();
        let result = act(record);
        let (after, deadline) = (record.properties(), earliest(record));
        if before != after {
            self.subtract(id, before);
            self.add(id, after);
        }
        self.records.set_deadline(id, deadline);
        Some(result)
    }

    /// Restarts the timeout of a request without progress, because the peer is working on it.
    pub(crate) fn restart_timeout(&mut self, id: RequestId, now: Instant) {
        self.update(id, |record| record.times_mut().restart(now));
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<R> {
        let properties = self.records.get(id)?.properties();
        self.subtract(id, properties);
        self.records.remove(id)
    }

    /// Removes the oldest request.
    pub(crate) fn pop_first(&mut self) -> Option<(RequestId, R)> {
        let id = self.first()?;
        Some((id, self.remove(id)?))
    }

    /// The request that has this id on the wire, or had it first.
    pub(crate) fn find(&self, wire: WireId) -> RequestId {
        self.by_wire.get(&wire).copied().unwrap_or(RequestId(wire.0))
    }

    /// The number of requests, without the machine's own.
    pub(crate) fn len(&self) -> usize {
        self.records.len().saturating_sub(self.own)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the peer works on a request of the application.
    #[cfg(feature = "client")]
    pub(crate) fn has_working(&self) -> bool {
        self.working > 0
    }

    /// Whether a request on behalf of this request of the peer is in flight.
    #[cfg(all(feature = "std", feature = "server"))]
    pub(crate) fn has_related(&self, request: InboundId) -> bool {
        self.related.contains_key(&request)
    }

    /// The next of the requests that wait for an exchange, where `most` of them may have a slot.
    pub(crate) fn next_waiting(&self, most: usize) -> Option<RequestId> {
        let &(needs_slot, id) = self.waiting.keys().next()?;
        (!needs_slot || self.used_slots < most).then_some(id)
    }

    /// The size in bytes of the requests that are not sent yet.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// All requests, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &R)> {
        self.records.iter().map(|(&id, record)| (id, record))
    }

    pub(crate) fn first(&self) -> Option<RequestId> {
        self.iter().next().map(|(id, _)| id)
    }

    // --- Deadlines ---

    /// The earliest deadline of a request.
    #[cfg(feature = "client")]
    pub(crate) fn deadline(&self, id: RequestId) -> Option<Instant> {
        self.records.deadline(id)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.records.next_deadline()
    }

    /// The request with the earliest deadline, if that is not later than `now`.
    pub(crate) fn next_due(&self, now: Instant) -> Option<RequestId> {
        self.due(now).next()
    }

    /// The requests with a deadline that is not later than `now`, the earliest first.
    pub(crate) fn due(&self, now: Instant) -> impl Iterator<Item = RequestId> {
        self.records.due(now).copied()
    }

    /// Stores an error without an id, and without its data: it may answer any request in flight.
    pub(crate) fn note_error_without_id(&mut self, now: Instant, error: &ErrorObject) {
        /// Enough characters for the sentences of an error.
        const MOST: usize = 512;
        let message: String = error.message.chars().take(MOST).collect();
        self.error_without_id = Some((now, Box::new(ErrorObject::new(error.code, message))));
    }

    /// The outcome of a request that has expired.
    pub(crate) fn timeout_outcome(&self, now: Instant, record: &R) -> Outcome {
        let times = record.times();
        let hard = times.hard_deadline.is_some_and(|last| last <= now);
        let since = if hard { times.started } else { times.waiting_since };
        // The last error without an id since the request was made.
        let error = self.error_without_id.as_ref().filter(|(came, _)| *came >= times.started);
        let error_without_id = error.map(|(_, error)| error.clone());
        Outcome::TimedOut { after: now.saturating_since(since), hard, error_without_id }
    }

    /// Checks the indexes against the records.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn check(&self) {
        let mut counted = Self::new();
        for (id, record) in self.iter() {
            counted.add(id, record.properties());
            assert_eq!(self.records.deadline(id), earliest(record), "the deadline of {id:?}");
        }
        assert_eq!(counted.by_wire, self.by_wire, "the index of ids on the wire");
        assert!(counted.waiting.keys().eq(self.waiting.keys()), "the index of waiting requests");
        assert!(counted.related.iter().eq(self.related.iter()), "the counts of related requests");
        let counts = |table: &Self| (table.queued_bytes, table.used_slots, table.own, table.working);
        assert_eq!(counts(&counted), counts(self), "queued bytes, used slots, own and working requests");
    }
}

/// The earliest deadline of a request.
fn earliest<R: RequestRecord>(record: &R) -> Option<Instant> {
    earlier(record.times().deadline(record.is_paused()), record.due())
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
