//! Where tokens are kept.

mod file;
mod memory;

use std::future::Future;
use std::io;
use std::pin::Pin;

use mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};

pub use file::FileStore;
pub use memory::MemoryStore;

/// What a [`TokenStore`] does, while it does it.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A place where records are kept, each under a key. What is in them is secret: see
/// [`Record::to_json`](mcp_proto::auth::client::Record::to_json).
///
/// Several processes may use one place. Each record then has a version that no other record of that place ever had, and
/// is replaced only by whoever names it, in one step: of two processes that would renew one token, one does.
pub trait TokenStore: Send + Sync + 'static {
    /// What is kept under this key.
    ///
    /// # Errors
    /// If that can not be told. It is shown to people.
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<StoredRecord>>;

    /// Keeps a record, or removes what there is, if what is there is of the version `expected`, or nothing where none is.
    ///
    /// # Errors
    /// If that can not be done. It is shown to people.
    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<RecordVersion>,
        record: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome>;
}
