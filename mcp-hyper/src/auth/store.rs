//! Token stores: their trait, and those in memory and in files that only their owner can read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::{Future, ready};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::auth::Secret;
use mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};
use sha2::{Digest as _, Sha256};

use crate::private_files::{lock, make_private, open, private_file, random, replace, sync};
use crate::runtime::{AnyRuntime, Runtime};

/// The future of a [`TokenStore`] operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

//= F110 "Storage and redirects are supplied by the application"
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

/// The record of a client's tokens, as the client knows it.
#[cfg(feature = "host")]
#[derive(Clone)]
pub(crate) struct KnownRecord {
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) key: Arc<str>,
    pub(super) version: Option<RecordVersion>,
}

#[cfg(feature = "host")]
impl KnownRecord {
    /// Whether another process has stored tokens since. A store that cannot be read has none.
    pub(crate) async fn has_new_tokens(&self) -> bool {
        let stored = self.store.load(&self.key).await.ok().flatten();
        stored.is_some_and(|stored| Some(stored.version) != self.version && stored.record.has_tokens())
    }
}

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
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = table.records.get(key);
        if current.map(|stored| stored.version) != expected {
            return SaveOutcome::Conflict(current.cloned());
        }
        table.last = table.last.saturating_add(1);
        let version = RecordVersion(table.last);
        match record {
            Some(record) => table.records.insert(key.to_owned(), StoredRecord { record, version }),
            None => table.records.remove(key),
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

debug_fields! { MemoryStore => "MemoryStore(..)" }

/// First line of every file.
const HEADING: &str = "mcp tokens 1";

/// File extension of a new version that is not written completely yet.
const NEW: &str = ".new";

/// Maximum bytes of a file that is read. Real ones stay below 20 KiB.
const MOST_BYTES: u64 = 1024 * 1024;

/// Stores tokens in a folder, each record in a file that is replaced atomically.
///
/// On Unix only their owner can access the folder (0700) and the files (0600); a folder that other users can access is
/// rejected. On other systems, the parent folder must keep other users out. Processes that use the same folder
/// synchronise by file locks, which some network file systems lack.
#[derive(Clone, Debug)]
pub struct FileStore {
    folder: PathBuf,
    runtime: AnyRuntime,
}

impl FileStore {
    /// A store in this folder, which is created when the first record is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), runtime: AnyRuntime::default() }
    }

    /// Sets the runtime, on whose threads for blocking work files are read and written. Default:
    /// [`DefaultRuntime`](crate::DefaultRuntime).
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = AnyRuntime::new(runtime);
        self
    }

    fn record_file(&self, key: &str) -> RecordFile {
        let mut name = String::new();
        for byte in Sha256::digest(key.as_bytes()) {
            name.push_str(&format!("{byte:02x}"));
        }
        RecordFile { folder: self.folder.clone(), name, key: key.to_owned() }
    }
}

impl TokenStore for FileStore {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        let file = self.record_file(key);
        let reading = self.runtime.blocking(move || file.read().map_err(|error| file.describe_error(&error)));
        Box::pin(async { reading.await? })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<RecordVersion>,
        record: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome> {
        let file = self.record_file(key);
        let writing = self.runtime.blocking(move || {
            file.swap(expected, record.as_ref()).map_err(|error| file.describe_error(&error))
        });
        Box::pin(async { writing.await? })
    }
}

/// The file of one record.
struct RecordFile {
    folder: PathBuf,
    name: String,
    key: String,
}

impl RecordFile {
    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Adds the file's path to an error.
    fn describe_error(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("the tokens in {}: {error}", self.folder.display()))
    }

    fn read(&self) -> io::Result<Option<StoredRecord>> {
        let Some(file) = open(&self.folder, &self.name)? else { return Ok(None) };
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text)?;
        parse(&text).map(Some)
    }

    fn swap(&self, expected: Option<RecordVersion>, record: Option<&Record>) -> io::Result<SaveOutcome> {
        make_private(&self.folder)?;
        let _lock = self.lock()?;
        self.remove_leftovers();
        let current = self.read()?;
        if current.as_ref().map(|stored| stored.version) != expected {
            return Ok(SaveOutcome::Conflict(current));
        }
        let version = RecordVersion(random()?);
        match record {
            Some(record) => self.write(version, record)?,
            None if current.is_some() => fs::remove_file(self.path())?,
            None => {}
        }
        sync(&self.folder);
        Ok(SaveOutcome::Done(version))
    }

    /// Locks the record against other writers.
    fn lock(&self) -> io::Result<File> {
        lock(&self.folder.join(format!("{}.lock", self.name)))
    }

    /// Removes files of writers that ended before the rename, as these files contain tokens. A running writer holds the
    /// lock of its record, so its file stays.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let file = entry.file_name();
            let Some(name) = file.to_str().and_then(record_being_written) else { continue };
            // The lock of this record is already held.
            let lock = (name != self.name).then(|| {
                let lock = private_file().create(true).open(self.folder.join(format!("{name}.lock"))).ok()?;
                lock.try_lock().is_ok().then_some(lock)
            });
            if !matches!(lock, Some(None)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes the file atomically: readers find the old file or the new one, whole.
    fn write(&self, version: RecordVersion, record: &Record) -> io::Result<()> {
        let new = self.folder.join(format!("{}.{:016x}{NEW}", self.name, random()?));
        let (json, key) = (record.to_json(), self.key.escape_debug());
        let contents = Secret::new(format!("{HEADING}\n{:016x}\n{key}\n{}", version.0, json.expose()));
        replace(&self.path(), &new, contents.expose().as_bytes())
    }
}

/// The name of the record that a file, by its name, is a new version of.
fn record_being_written(file: &str) -> Option<&str> {
    let (name, rest) = file.split_once('.')?;
    let is_record = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_record && rest.ends_with(NEW)).then_some(name)
}

fn parse(text: &str) -> io::Result<StoredRecord> {
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut lines = text.splitn(4, '\n');
    let heading = lines.next().unwrap_or_default();
    let version = lines.next().and_then(|version| u64::from_str_radix(version, 16).ok());
    let record = lines.nth(1);
    match (heading, version, record) {
        (HEADING, Some(version), Some(record)) => {
            let record = Record::from_json(record.as_bytes()).map_err(|error| odd(&error.to_string()))?;
            Ok(StoredRecord { record, version: RecordVersion(version) })
        }
        (HEADING, ..) => Err(odd("a file is damaged")),
        _ => Err(odd("a file is none of this store's")),
    }
}
