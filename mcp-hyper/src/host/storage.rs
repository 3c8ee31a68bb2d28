//! Files of a host: values that it stores between runs, and results that are too long for a model.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File};
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_lite::future::Boxed;
use futures_util::future::join_all;
use mcp_proto::UnixTime;
use mcp_proto::adapter::Clock as _;
use mcp_proto::host::config::{ServerEntry, ServerId};
use mcp_proto::host::consent::{Approval, Approvals};
use mcp_proto::host::tools::{CatalogueSnapshot, Pins, Spill};
use mcp_proto::peer::client::KnownEra;
use mcp_proto::schema::Revision;
use serde::{Deserialize, Serialize};

use crate::private_files::{check_private, lock, make_private, open, private_file, random, replace, sync};
use crate::runtime::{AnyRuntime, Runtime};

use super::shared::{Shared, Unsaved};

/// The future of a [`Storage`] operation.
pub type StorageFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A store of named values, in which a host keeps the approvals of the user, and for each server its lists, the pins of
/// their definitions and its era. No value has a secret in it, unless a server puts one into its lists.
///
/// Names have at most 64 lower-case letters, digits and hyphens, none of which a server chooses. A value replaces the
/// one before it as a whole. A process that can write here can approve servers: keep it away from projects.
pub trait Storage: Send + Sync + 'static {
    /// Reads a value; `None` if it was not stored.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn get<'a>(&'a self, name: &'a str) -> StorageFuture<'a, Option<Vec<u8>>>;

    /// Writes a value.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>) -> StorageFuture<'a, ()>;

    /// Removes a value, if there is one.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn remove<'a>(&'a self, name: &'a str) -> StorageFuture<'a, ()>;
}

/// Maximum bytes of a value.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// End of the name of a file that is not written completely yet.
const NEW: &str = ".new";

/// Stores values in a folder, each in a file that is replaced atomically.
///
/// On Unix only their owner can access the folder (0700) and the files (0600); a folder that other users can access is
/// rejected. On other systems, the parent folder must keep other users out. Processes that use the same folder
/// synchronise by a file lock, which some network file systems lack. A value has at most 32 MiB.
#[derive(Clone, Debug)]
pub struct FileStorage {
    folder: PathBuf,
    runtime: AnyRuntime,
}

impl FileStorage {
    /// A storage in this folder, which is created when the first value is stored.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), runtime: AnyRuntime::default() }
    }

    /// Sets the runtime, on whose threads for blocking work files are read and written. Default:
    /// [`DefaultRuntime`](crate::DefaultRuntime).
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = AnyRuntime::new(runtime);
        self
    }

    /// Changes a value, which no other process changes meanwhile: `change` gets the stored value, if there is one, and
    /// returns the new one beside its result.
    ///
    /// ```
    /// use mcp_hyper::host::FileStorage;
    ///
    /// async fn count(storage: &FileStorage) -> std::io::Result<usize> {
    ///     storage
    ///         .update("starts", |stored| {
    ///             let starts = stored.unwrap_or_default().len() + 1;
    ///             (vec![b'+'; starts], starts)
    ///         })
    ///         .await
    /// }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn update<T: Send + 'static>(
        &self,
        name: &str,
        change: impl FnOnce(Option<Vec<u8>>) -> (Vec<u8>, T) + Send + 'static,
    ) -> io::Result<T> {
        self.run(name, |folder, name| {
            let _lock = locked(folder)?;
            let (value, result) = change(read(folder, name)?);
            write(folder, name, &value)?;
            sync(folder);
            Ok(result)
        })
        .await
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        name: &str,
        work: impl FnOnce(&Path, &str) -> io::Result<T> + Send + 'static,
    ) -> StorageFuture<'a, T> {
        let (folder, name) = (self.folder.clone(), name.to_owned());
        let working = self.runtime.blocking(move || {
            let place = |error: io::Error| {
                io::Error::new(error.kind(), format!("the stored values in {}: {error}", folder.display()))
            };
            check_name(&name).and_then(|()| work(&folder, &name)).map_err(place)
        });
        Box::pin(async { working.await? })
    }
}

impl Storage for FileStorage {
    fn get<'a>(&'a self, name: &'a str) -> StorageFuture<'a, Option<Vec<u8>>> {
        self.run(name, read)
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>) -> StorageFuture<'a, ()> {
        self.run(name, move |folder, name| {
            let _lock = locked(folder)?;
            write(folder, name, &value)?;
            sync(folder);
            Ok(())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> StorageFuture<'a, ()> {
        self.run(name, |folder, name| {
            let _lock = locked(folder)?;
            match fs::remove_file(folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }
}

/// Locks the folder, which is made if need be.
fn locked(folder: &Path) -> io::Result<File> {
    make_private(folder)?;
    lock(&folder.join(".lock"))
}

fn check_name(name: &str) -> io::Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of a value"))
}

fn read(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(folder, name)? else { return Ok(None) };
    let mut value = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut value)?;
    if value.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a value is too long"));
    }
    Ok(Some(value))
}

/// Writes a file atomically: readers find the old one or the new one, whole. The caller holds the lock.
fn write(folder: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}{NEW}"));
    // Of a writer that ended before the rename.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    replace(&folder.join(name), &new, value)
}

/// Where results go that are too long for a model, and for how long.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_hyper::host::{HostOptions, SpillFolder};
///
/// let mut folder = SpillFolder::new("/home/ann/.cache/my-agent/results");
/// folder.expiry = Duration::from_secs(3600);
/// let options = HostOptions::new("my-agent", "1.0.0").spill_folder(folder);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpillFolder {
    /// The folder, which is created for the first file. Only its owner can access it (0700) and its files (0600); a
    /// folder that other users can access is rejected.
    pub path: PathBuf,
    /// How many bytes the files may have together. The oldest are removed for new ones. Default 256 MiB.
    pub quota: u64,
    /// How old a file may become. Older ones are removed when another is written. Default one day.
    pub expiry: Duration,
}

impl SpillFolder {
    /// A folder with the default limits. Nothing else may be in it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), quota: 256 * 1024 * 1024, expiry: Duration::from_secs(24 * 3600) }
    }

    /// Writes files, each under a new name; returns their paths, or why they could not be written.
    pub(super) fn write_all(&self, spills: Vec<Spill>) -> Vec<Result<String, String>> {
        let prepared = locked(&self.path);
        spills
            .into_iter()
            .map(|spill| {
                let _lock = prepared.as_ref().map_err(ToString::to_string)?;
                self.write(&spill).map_err(|error| error.to_string())
            })
            .collect()
    }

    /// Writes a file under a new name. The caller holds the lock.
    fn write(&self, spill: &Spill) -> io::Result<String> {
        self.make_room(spill.contents.len() as u64)?;
        let random = random()?;
        let path = self.path.join(format!("{random:016x}-{}", spill.file_name));
        let shown = path.to_str().ok_or_else(|| io::Error::other("the folder has a name that is no text"))?;
        let mut file = private_file().create_new(true).open(&path)?;
        if let Err(error) = file.write_all(&spill.contents) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(shown.to_owned())
    }

    /// Removes files that are too old, then the oldest, until so many bytes fit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.quota {
            return Err(io::Error::other("it is longer than all files together may be"));
        }
        check_private(&self.path)?;
        let now = SystemTime::now();
        let mut files: Vec<(SystemTime, u64, PathBuf)> =
            fs::read_dir(&self.path)?.flatten().filter_map(|entry| describe(&entry)).collect();
        files.sort_unstable();
        let mut total: u64 = files.iter().map(|(_, length, _)| *length).fold(0, u64::saturating_add);
        for (modified, length, path) in files {
            let age = now.duration_since(modified).unwrap_or_default();
            if age > self.expiry || total.saturating_add(bytes) > self.quota {
                fs::remove_file(path)?;
                total = total.saturating_sub(length);
            }
        }
        Ok(())
    }
}

/// Age, length and path of a file of the host.
fn describe(entry: &DirEntry) -> Option<(SystemTime, u64, PathBuf)> {
    let path = entry.path();
    let name = Path::new(&path).file_name()?.to_str()?.to_owned();
    let metadata = entry.metadata().ok()?;
    let is_own = metadata.is_file() && name.split_once('-').is_some_and(|(random, _)| random.len() == 16);
    is_own.then_some((metadata.modified().ok()?, metadata.len(), path))
}

// The stored form of servers' lists, pins, eras and approvals, and how a host reads and writes it.

/// The version of the stored form.
const VERSION: u32 = 1;

/// How long lists of an earlier run stand in for a server.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The lists, pins and era of a server, valid as long as its connection is configured in the same way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// The fingerprint of the connection, in hexadecimal digits.
    connection: String,
    /// When the lists were stored, in seconds.
    stored: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    era: Option<StoredEra>,
    pub(super) pins: Pins,
    pub(super) lists: CatalogueSnapshot,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredEra {
    revision: String,
    probe_breaks_server: bool,
}

impl Record {
    pub(super) fn new(
        entry: &ServerEntry,
        now: UnixTime,
        era: Option<KnownEra>,
        pins: Pins,
        lists: CatalogueSnapshot,
    ) -> Self {
        let era = era.map(|era| StoredEra {
            revision: era.version.as_str().to_owned(),
            probe_breaks_server: era.probe_breaks_server,
        });
        let connection = entry.connection().to_string();
        Self { version: VERSION, connection, stored: now.since_epoch().as_secs(), era, pins, lists }
    }

    /// The record of a server; `None` if it is not configured.
    fn of_server(shared: &Shared, server: ServerId) -> Option<Self> {
        let (entry, era) = shared.with(|state, _| {
            let entry = state.entries.get(&server)?.clone();
            let era = state.eras.get(&entry.connection()).copied();
            Some((entry, era))
        })?;
        let (pins, lists) = shared.catalogue(|catalogue| {
            Some((catalogue.pins(entry.name())?.clone(), catalogue.snapshot(entry.name())?))
        })?;
        Some(Self::new(&entry, shared.clock.unix_time(), era, pins, lists))
    }

    /// Reads the stored form; `None` if it is of another connection or version, or damaged. Lists older than
    /// [`MAX_AGE`] are left out.
    pub(super) fn read(text: &[u8], entry: &ServerEntry, now: UnixTime) -> Option<Self> {
        let mut record: Self = serde_json::from_slice(text).ok()?;
        if record.version != VERSION || record.connection != entry.connection().to_string() {
            return None;
        }
        let stored = UnixTime::from_epoch(Duration::from_secs(record.stored));
        if now.saturating_since(stored) > MAX_AGE {
            record.lists = CatalogueSnapshot::default();
        }
        Some(record)
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn era(&self) -> Option<KnownEra> {
        let era = self.era.as_ref()?;
        let version = Revision::parse(&era.revision)?;
        Some(KnownEra { era: version.era(), version, probe_breaks_server: era.probe_breaks_server })
    }
}

/// Where the host remembers things.
#[derive(Clone)]
pub(super) struct Memory(pub(super) Arc<dyn Storage>);

/// Stored values, as read.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) records: BTreeMap<ServerId, Record>,
    pub(super) approvals: Vec<Approval>,
    pub(super) errors: Vec<String>,
}

fn server_name(server: ServerId) -> String {
    format!("server-{server}")
}

fn approval_name(server: ServerId) -> String {
    format!("approval-{server}")
}

impl Memory {
    /// Reads the stored values of these servers.
    pub(super) async fn load(
        self,
        shared: Arc<Shared>,
        entries: Vec<Arc<ServerEntry>>,
        has_approvals: bool,
    ) -> Loaded {
        let now = shared.clock.unix_time();
        let storage = &*self.0;
        let reads = join_all(entries.iter().map(|entry| async move {
            let record = storage.get(&server_name(entry.id())).await;
            let approval = match has_approvals {
                true => storage.get(&approval_name(entry.id())).await,
                false => Ok(None),
            };
            (entry, record, approval)
        }))
        .await;
        let mut loaded = Loaded::default();
        for (entry, record, approval) in reads {
            let mut read = |value: std::io::Result<Option<Vec<u8>>>| {
                value.unwrap_or_else(|error| {
                    loaded.errors.push(error.to_string());
                    None
                })
            };
            let (record, approval) = (read(record), read(approval));
            let record = record.and_then(|text| Record::read(&text, entry, now));
            loaded.records.extend(record.map(|record| (entry.id(), record)));
            // An approval that cannot be read is none.
            match approval.map(|text| Approvals::from_json(&text)) {
                Some(Ok(approvals)) => loaded.approvals.extend(approvals.iter().cloned()),
                Some(Err(error)) => loaded.errors.push(format!("{}: {error}", entry.name())),
                None => {}
            }
        }
        loaded
    }

    /// Writes; returns the errors.
    pub(super) fn save(&self, shared: &Shared, runtime: &AnyRuntime, unsaved: Unsaved) -> Boxed<Vec<String>> {
        let records: Vec<_> = unsaved
            .servers
            .into_iter()
            .filter_map(|server| Some((server_name(server), Record::of_server(shared, server)?)))
            .collect();
        let approvals: Vec<_> = shared.with(|state, _| {
            let of = |server| state.approvals.iter().filter(move |approval| approval.server_id() == server);
            unsaved
                .approvals
                .iter()
                .map(|server| (approval_name(*server), of(*server).cloned().collect()))
                .collect()
        });
        let (storage, runtime) = (self.0.clone(), runtime.clone());
        Box::pin(async move {
            let mut errors = Vec::new();
            for (name, approvals) in approvals {
                let approvals: Approvals = approvals;
                // What was stored before may be revoked by now.
                let text = if approvals.is_empty() { None } else { Some(approvals.to_json()) };
                errors.extend(
                    text.as_ref().and_then(|text| text.as_ref().err().copied()).map(io::Error::other),
                );
                let written = match text {
                    Some(Ok(text)) => storage.put(&name, text.into_bytes()).await,
                    Some(Err(_)) | None => storage.remove(&name).await,
                };
                errors.extend(written.err());
            }
            for (name, record) in records {
                // Long lists take a while.
                let written = match runtime.blocking(move || record.to_json()).await {
                    Ok(value) => storage.put(&name, value).await,
                    Err(error) => Err(error),
                };
                errors.extend(written.err());
            }
            errors.iter().map(ToString::to_string).collect()
        })
    }
}

#[cfg(test)]
mod record_tests {
    use super::*;
    use mcp_proto::host::config::ServerSpec;
    use mcp_proto::schema::Tool;

    /// F81
    #[test]
    fn record_is_read_only_for_the_connection_it_was_stored_for_and_lists_expire() {
        let entry = |program: &str| ServerEntry::user("one", ServerSpec::stdio(program, [] as [&str; 0]));
        let now = UnixTime::from_epoch(Duration::from_secs(1_000_000));
        let era = KnownEra {
            era: Revision::V2025_11_25.era(),
            version: Revision::V2025_11_25,
            probe_breaks_server: true,
        };
        let tools = vec![Tool::new("t", "", serde_json::json!({ "type": "object" }))];
        let lists = CatalogueSnapshot { tools: Some(tools), ..CatalogueSnapshot::default() };
        let text = Record::new(&entry("a"), now, Some(era), Pins::default(), lists.clone()).to_json();
        let read = Record::read(&text, &entry("a"), now).unwrap();
        assert_eq!((read.era(), &read.lists), (Some(era), &lists));
        assert!(Record::read(&text, &entry("b"), now).is_none());
        let later = UnixTime::from_epoch(now.since_epoch() + MAX_AGE + Duration::from_secs(1));
        let read = Record::read(&text, &entry("a"), later).unwrap();
        assert_eq!((read.era(), read.lists), (Some(era), CatalogueSnapshot::default()));
        assert!(Record::read(b"{}", &entry("a"), now).is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("mcp-storage-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[cfg(feature = "smol")]
    #[test]
    fn values_are_replaced_as_a_whole_and_removed() {
        let folder = Folder::new("values");
        let storage = FileStorage::in_folder(&folder.0);
        futures_lite::future::block_on(async {
            assert_eq!(storage.get("one").await.unwrap(), None);
            storage.put("one", b"long value".to_vec()).await.unwrap();
            storage.put("one", b"short".to_vec()).await.unwrap();
            assert_eq!(storage.get("one").await.unwrap().as_deref(), Some(b"short".as_slice()));
            storage.remove("one").await.unwrap();
            storage.remove("one").await.unwrap();
            assert_eq!(storage.get("one").await.unwrap(), None);
            for name in ["", "../x", "X", ".lock", "a/b", &"a".repeat(65)] {
                assert_eq!(storage.get(name).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
        });
    }

    #[cfg(all(unix, feature = "smol"))]
    #[test]
    fn values_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = Folder::new("modes");
        let storage = FileStorage::in_folder(&folder.0);
        futures_lite::future::block_on(async {
            storage.put("one", b"value".to_vec()).await.unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder.0), mode(&folder.0.join("one"))), (0o700, 0o600));
            // A link in place of a new file is not followed.
            let target = folder.0.join("target");
            fs::write(&target, "untouched").unwrap();
            symlink(&target, folder.0.join("one.new")).unwrap();
            storage.put("one", b"other".to_vec()).await.unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
            let refused = storage.get("one").await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        });
    }
}
