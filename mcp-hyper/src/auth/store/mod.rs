//! Token stores.

mod file;
mod memory;

use std::future::Future;
use std::io;
use std::pin::Pin;

use mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};

pub use file::FileStore;
pub use memory::MemoryStore;

/// The future of a [`TokenStore`] operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A store of token records, each under a key. Records contain secrets: see
/// [`Record::to_json`](mcp_proto::auth::client::Record::to_json).
///
/// Several processes may share one store. Each record then has a version that is unique in the store, and is replaced
/// only by a writer that names this version, in one atomic step: of two processes that would renew the same token, one
/// does.
pub trait TokenStore: Send + Sync + 'static {
    /// Loads the record under this key.
    ///
    /// # Errors
    /// If the store cannot be read. The error's text is shown to the user.
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<StoredRecord>>;

    /// Compare-and-swap: replaces or deletes the record if its version is `expected`; `None` expects no record.
    ///
    /// # Errors
    /// If the store cannot be read or written. The error's text is shown to the user.
    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<RecordVersion>,
        record: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome>;
}
