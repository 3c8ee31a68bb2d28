//! Where tasks are kept.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;

use super::TaskRecord;
use crate::UnixTime;
use crate::peer::Principal;

/// What a store is doing.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where tasks are kept: in memory, or in a database that several instances of a server share.
///
/// A store keeps what it is given and decides nothing: to whom a task is shown is checked by its caller, each time, by
/// the [owner](TaskRecord::owner) in the record. [`TaskRecord::to_json`] and [`TaskRecord::from_json`] are for stores
/// that keep text.
///
/// Its futures are polled by drivers and must not block. They may be dropped at any time; whether what they were to do is
/// done is then open.
pub trait TaskStore: Send + Sync {
    /// Keeps a new task. Once the future is done, [`get`](Self::get) finds it, on every instance.
    ///
    /// # Errors
    /// If there is no room for it, or one of the same identifier.
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()>;

    /// The task of this identifier, if there is one.
    ///
    /// # Errors
    /// If that can not be found out.
    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>>;

    /// Keeps what has become of a task, if the one that is kept is of the version before; a
    /// [`Conflict`](StoreError::Conflict) otherwise.
    ///
    /// # Errors
    /// If it is not kept.
    fn update(&self, record: TaskRecord) -> StoreFuture<'_, ()>;

    /// Up to `most` tasks of one owner, from the oldest to the newest, after those that end with the cursor `after`.
    ///
    /// # Errors
    /// If that can not be found out, or the cursor is none.
    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage>;

    /// Forgets the tasks whose time is over: those that [expire](TaskRecord::expires_at) at `now` or earlier. It is called
    /// now and then.
    ///
    /// # Errors
    /// If they are still there.
    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()>;

    /// Whether other instances of the server may change its tasks. Each task that runs is then looked up at its
    /// [poll interval](super::TaskConfig::poll_interval), and whenever a client asks for it; and what
    /// it asks or has come to is shown once the store has it, as the client may go on at another instance. Default `true`.
    fn is_shared(&self) -> bool {
        true
    }
}

/// One page of a list of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskRecord>,
    /// Where the next page begins, if there is one: a text that clients hand back unread.
    pub next: Option<String>,
}

/// Why a store has not done what it was to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no room.
    Full,
    /// There is no such task, or one is there that should not be, or it has changed since it was read.
    Conflict,
    /// No page begins at this cursor.
    Cursor,
    /// Anything else, in words.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("there is no room for more tasks"),
            Self::Conflict => f.write_str("the task has changed meanwhile"),
            Self::Cursor => f.write_str("no page of this list begins there"),
            Self::Failed(why) => write!(f, "the store of tasks failed: {why}"),
        }
    }
}

impl core::error::Error for StoreError {}
