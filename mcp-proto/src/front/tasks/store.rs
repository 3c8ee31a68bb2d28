//! Task stores.

use core::future::{Future, ready};
use core::ops::Bound;
use core::pin::Pin;

use super::TaskRecord;
use crate::UnixTime;
use crate::front::reply::Reply;
use crate::front::wakers::lock;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::{Denial, Principal};
use crate::prelude::*;
use crate::quota::Shares;
use crate::rpc::{ErrorObject, code};
use crate::sync::Mutex;

/// The future of a store operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store of tasks: in memory, or in a database that several instances of a server share.
///
/// A store only keeps records: its caller compares the [owner](TaskRecord::owner) in the record on every access.
/// [`TaskRecord::to_json`] and [`TaskRecord::from_json`] are for stores that keep text.
///
/// A database that fails over to a replica may forget its last writes. The instance that runs a task stores it again at
/// its next [lookup](super::TaskConfig::poll_interval). A task whose result was forgotten shows as working until it
/// expires, and one that was forgotten after its end is unknown.
///
/// Drivers poll its futures, which must not block. They may be dropped at any time; the operation may then have
/// happened or not.
///
/// A request for which the store has no room, or fails, gets [`INTERNAL_ERROR`](code::INTERNAL_ERROR), over HTTP with
/// status 503 and `Retry-After`; the same request may succeed later.
pub trait TaskStore: Send + Sync {
    /// Stores a new task. Once the future is done, [`get`](Self::get) finds it, on every instance.
    ///
    /// # Errors
    /// If there is no room for it, or a task with its id exists.
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()>;

    /// Returns the task with this id, if there is one.
    ///
    /// # Errors
    /// If the lookup fails.
    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>>;

    /// Compare-and-swap: replaces the stored record if `record.version` is still the stored version; otherwise fails with
    /// [`Conflict`](StoreError::Conflict). Returns the new version.
    ///
    /// No record of the task has had that version before: it is the next number, or a random one in a database whose
    /// failover may forget the last versions.
    ///
    /// # Errors
    /// If the record is not stored.
    fn update(&self, record: TaskRecord) -> StoreFuture<'_, u64>;

    /// Lists up to `most` tasks of one owner, from the oldest to the newest, starting after the cursor `after`.
    ///
    /// # Errors
    /// If the lookup fails, or the cursor is invalid.
    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage>;

    /// Deletes expired tasks: those that [expire](TaskRecord::expires_at) at `now` or earlier. It is called
    /// periodically.
    ///
    /// # Errors
    /// If the tasks are not deleted.
    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()>;

    /// Whether other instances of the server may change its tasks. Each running task is then looked up at its [poll
    /// interval](super::TaskConfig::poll_interval), and whenever a client polls it; and clients see its input requests
    /// and its result only once the store has them, because they may go on at another instance. Default `true`.
    fn is_shared(&self) -> bool {
        true
    }
}

/// One page of a list of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskRecord>,
    /// The cursor of the next page, if there is one: clients return it unchanged.
    pub next: Option<String>,
}

/// The error of a store operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is full.
    Full,
    /// The task does not exist, exists although it should not, or has changed since it was read.
    Conflict,
    /// The cursor is invalid.
    Cursor,
    /// Any other error, with its message for logs: clients learn only that the store failed.
    Failed(String),
}

error_text! { StoreError:
    Full => "there is no room for more tasks";
    Conflict => "the task has changed meanwhile";
    Cursor => "unknown cursor";
    Failed(why) => "the task store failed: {why}";
}

config! {
    /// The limits of a [`MemoryStore`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MemoryLimits {
        /// The maximum number of tasks, including ended tasks that have not expired. Default 10,000.
        pub tasks: usize = 10_000,
        /// The maximum number of bytes in all tasks, including results. Default 64 MiB: some thousand results of usual
        /// size.
        pub bytes: usize = 64 * 1024 * 1024,
    }
}

/// A task store in the memory of this process: lost when it ends, and invisible to other instances.
///
/// Tasks are kept until they expire: beyond the limits, new ones are rejected. An [owner](TaskRecord::quota_owner) with
/// [more than its share](crate::quota::Shares::try_take) of the tasks or of the bytes is rejected earlier.
#[derive(Debug)]
pub struct MemoryStore {
    table: Mutex<TaskTable>,
}

#[derive(Debug)]
struct TaskTable {
    tasks: OrderedMap<String, StoredTask>,
    /// The tasks of each owner, in the order of their creation.
    by_owner: OrderedMap<(Option<Principal>, u64), String>,
    expiry: OrderedSet<(UnixTime, String)>,
    next_sequence: u64,
    counts: Shares,
    bytes: Shares,
}

#[derive(Debug)]
struct StoredTask {
    record: TaskRecord,
    sequence: u64,
    bytes: usize,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryLimits::default())
    }
}

impl MemoryStore {
    /// Creates a store with these limits.
    pub fn new(limits: MemoryLimits) -> Self {
        let table = TaskTable {
            tasks: OrderedMap::new(),
            by_owner: OrderedMap::new(),
            expiry: OrderedSet::new(),
            next_sequence: 0,
            counts: Shares::new(limits.tasks),
            bytes: Shares::new(limits.bytes),
        };
        Self { table: Mutex::new(table) }
    }

    /// Puts a record back that this or another store has accepted before, whatever its version and the limits: for stores
    /// that keep a journal, from which they make the table again. It replaces the record with its id.
    pub fn restore(&self, record: TaskRecord) {
        let mut table = lock(&self.table);
        match table.tasks.contains_key(&record.id) {
            true => table.replace(record),
            false => table.insert(record),
        }
    }

    /// The number of stored tasks.
    pub fn len(&self) -> usize {
        lock(&self.table).tasks.len()
    }

    /// Whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl TaskTable {
    fn create(&mut self, record: TaskRecord) -> Result<(), StoreError> {
        if self.tasks.contains_key(&record.id) {
            return Err(StoreError::Conflict);
        }
        let bytes = record.bytes();
        let owner = &record.quota_owner;
        if !self.counts.allows(owner, 1) || !self.bytes.allows(owner, bytes) {
            return Err(StoreError::Full);
        }
        self.insert(record);
        Ok(())
    }

    /// Adds a record whose id is new.
    fn insert(&mut self, record: TaskRecord) {
        let (owner, bytes) = (&record.quota_owner, record.bytes());
        self.counts.take(owner, 1);
        self.bytes.take(owner, bytes);
        let place = self.next_sequence;
        self.next_sequence = place.saturating_add(1);
        self.by_owner.insert((record.owner.clone(), place), record.id.clone());
        self.expiry.extend(record.expires_at().map(|end| (end, record.id.clone())));
        self.tasks.insert(record.id.clone(), StoredTask { record, sequence: place, bytes });
    }

    fn update(&mut self, mut record: TaskRecord) -> Result<u64, StoreError> {
        let kept = self.tasks.get(&record.id).ok_or(StoreError::Conflict)?;
        if kept.record.version != record.version {
            return Err(StoreError::Conflict);
        }
        let more = record.bytes().saturating_sub(kept.bytes);
        if more > 0 && !self.bytes.allows(&kept.record.quota_owner, more) {
            return Err(StoreError::Full);
        }
        let version = record.version.saturating_add(1);
        record.version = version;
        self.replace(record);
        Ok(version)
    }

    /// Replaces the record with the id of this one.
    fn replace(&mut self, mut record: TaskRecord) {
        let Some(kept) = self.tasks.get_mut(&record.id) else { return };
        let bytes = record.bytes();
        record.quota_owner = kept.record.quota_owner.clone();
        self.bytes.give_back(&record.quota_owner, kept.bytes);
        self.bytes.take(&record.quota_owner, bytes);
        kept.bytes = bytes;
        if let Some(end) = kept.record.expires_at() {
            self.expiry.remove(&(end, record.id.clone()));
        }
        self.expiry.extend(record.expires_at().map(|end| (end, record.id.clone())));
        kept.record = record;
    }

    fn list(
        &self,
        owner: Option<&Principal>,
        after: Option<&str>,
        most: usize,
    ) -> Result<TaskPage, StoreError> {
        let start = match after {
            None => Bound::Included((owner.cloned(), 0)),
            Some(cursor) => {
                let last = self.tasks.get(cursor).filter(|kept| kept.record.owner.as_ref() == owner);
                Bound::Excluded((owner.cloned(), last.ok_or(StoreError::Cursor)?.sequence))
            }
        };
        let end = Bound::Included((owner.cloned(), u64::MAX));
        let mut ids = self.by_owner.range((start, end)).map(|(_, id)| id);
        let mut page = TaskPage::default();
        let records = ids.by_ref().filter_map(|id| self.tasks.get(id)).map(|kept| kept.record.clone());
        page.tasks.extend(records.take(most));
        if ids.next().is_some() {
            page.next = page.tasks.last().map(|record| record.id.clone());
        }
        Ok(page)
    }

    fn expire(&mut self, now: UnixTime) {
        while self.expiry.first().is_some_and(|(end, _)| *end <= now) {
            let Some((_, id)) = self.expiry.pop_first() else { return };
            if let Some(kept) = self.tasks.remove(&id) {
                self.counts.give_back(&kept.record.quota_owner, 1);
                self.bytes.give_back(&kept.record.quota_owner, kept.bytes);
                self.by_owner.remove(&(kept.record.owner, kept.sequence));
            }
        }
    }
}

/// Wraps a result, because every operation completes at once.
fn ready_future<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(ready(result))
}

impl TaskStore for MemoryStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        ready_future(lock(&self.table).create(record))
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        ready_future(Ok(lock(&self.table).tasks.get(id).map(|kept| kept.record.clone())))
    }

    fn update(&self, record: TaskRecord) -> StoreFuture<'_, u64> {
        ready_future(lock(&self.table).update(record))
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        ready_future(lock(&self.table).list(owner, after, most))
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        lock(&self.table).expire(now);
        ready_future(Ok(()))
    }

    /// No other process can change the tasks, so the router need not poll for changes.
    fn is_shared(&self) -> bool {
        false
    }
}

impl From<StoreError> for ErrorObject {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Cursor => Self::new(code::INVALID_PARAMS, alloc::format!("{error}")),
            // It may name hosts, users and commands.
            StoreError::Failed(_) => {
                Self::new(code::INTERNAL_ERROR, "the task store failed: try again later")
            }
            _ => Self::new(code::INTERNAL_ERROR, alloc::format!("{error}")),
        }
    }
}

/// A store that is full or fails makes the request unavailable: over HTTP, 503 with `Retry-After`.
impl From<StoreError> for Reply {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full | StoreError::Failed(_) => Self::Denied(error.into(), Denial::Unavailable),
            StoreError::Conflict | StoreError::Cursor => Self::Error(error.into()),
        }
    }
}
