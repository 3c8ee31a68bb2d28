//! A token store in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};

use super::{StoreFuture, TokenStore};

/// Stores tokens for the lifetime of the process. Clones share the records.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<StoredRecords>>);

#[derive(Default)]
struct StoredRecords {
    records: BTreeMap<String, StoredRecord>,
    last: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn swap_now(&self, key: &str, expected: Option<RecordVersion>, record: Option<Record>) -> SaveOutcome {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = kept.records.get(key);
        if there.map(|stored| stored.version) != expected {
            return SaveOutcome::Conflict(there.cloned());
        }
        kept.last = kept.last.saturating_add(1);
        let version = RecordVersion(kept.last);
        match record {
            Some(record) => kept.records.insert(key.to_owned(), StoredRecord { record, version }),
            None => kept.records.remove(key),
        };
        SaveOutcome::Done(version)
    }
}

impl TokenStore for MemoryStore {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner).records.get(key).cloned();
        Box::pin(ready(Ok(stored)))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<RecordVersion>,
        record: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome> {
        Box::pin(ready(Ok(self.swap_now(key, expected, record))))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore(..)")
    }
}
