//! Task stores.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;

use super::TaskRecord;
use crate::UnixTime;
use crate::peer::Principal;

/// The future of a store operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store of tasks: in memory, or in a database that several instances of a server share.
///
/// A store only keeps records: its caller compares the [owner](TaskRecord::owner) in the record on every access.
/// [`TaskRecord::to_json`] and [`TaskRecord::from_json`] are for stores that keep text.
///
/// Drivers poll its futures, which must not block. They may be dropped at any time; the operation may then have
/// happened or not.
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

    /// Compare-and-swap: replaces the stored record if `record.version` is still the stored version, and increments the
    /// version; otherwise fails with [`Conflict`](StoreError::Conflict).
    ///
    /// # Errors
    /// If the record is not stored.
    fn update(&self, record: TaskRecord) -> StoreFuture<'_, ()>;

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
    /// Any other error, with its message.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("there is no room for more tasks"),
            Self::Conflict => f.write_str("the task has changed meanwhile"),
            Self::Cursor => f.write_str("unknown cursor"),
            Self::Failed(why) => write!(f, "the task store failed: {why}"),
        }
    }
}

impl core::error::Error for StoreError {}
