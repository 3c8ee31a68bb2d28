//! Stores of tokens. Row C12.24.

use std::path::PathBuf;
use std::{fs, io};

use mcp_hyper::auth::{FileStore, MemoryStore, StoreFuture, TokenStore};
use mcp_hyper::mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};
use smol::block_on;

use super::auth::stored_login;
use crate::common::auth_testbed::AuthTestbed;
use crate::common::client::{connect, run};

/// A folder of one test, which does not exist yet.
pub(crate) struct TempFolder(pub(crate) PathBuf);

impl TempFolder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcp-hyper-tokens-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(issuer: &str) -> Record {
    let text = format!(
        r#"{{"version":1,"tokens":{{"issuer":"{issuer}","client_id":"c","resource":"r","access":"secret-token","kind":"Bearer","issued":0}}}}"#
    );
    Record::from_json(text.as_bytes()).unwrap()
}

fn saved_version(saved: SaveOutcome) -> RecordVersion {
    match saved {
        SaveOutcome::Done(version) => version,
        conflict => panic!("{conflict:?}"),
    }
}

fn conflicting_record(saved: SaveOutcome) -> Option<StoredRecord> {
    match saved {
        SaveOutcome::Conflict(there) => there,
        done => panic!("{done:?}"),
    }
}

/// Properties of every store.
async fn check_compare_and_swap(store: &dyn TokenStore) {
    let (key, other) = ("https://example.com/mcp", "https://example.com/mcp#ada");
    assert!(store.load(key).await.unwrap().is_none());
    let first = saved_version(store.swap(key, None, Some(record("a"))).await.unwrap());
    assert!(store.load(other).await.unwrap().is_none());
    // A writer that does not know of it.
    let there = conflicting_record(store.swap(key, None, Some(record("b"))).await.unwrap()).unwrap();
    assert_eq!((there.version, there.record), (first, record("a")));
    let second = saved_version(store.swap(key, Some(first), Some(record("b"))).await.unwrap());
    assert_ne!(first, second);
    let stored = store.load(key).await.unwrap().unwrap();
    assert_eq!((stored.version, stored.record), (second, record("b")));
    assert!(conflicting_record(store.swap(key, Some(first), None).await.unwrap()).is_some());
    saved_version(store.swap(key, Some(second), None).await.unwrap());
    assert!(store.load(key).await.unwrap().is_none());
    assert!(conflicting_record(store.swap(key, Some(second), Some(record("c"))).await.unwrap()).is_none());
    // A new record has a new version.
    let third = saved_version(store.swap(key, None, Some(record("a"))).await.unwrap());
    assert!(third != first && third != second);
}

/// F110
#[test]
fn store_replaces_a_record_only_at_its_expected_version() {
    let folder = TempFolder::new("replace");
    block_on(check_compare_and_swap(&FileStore::new(&folder.0)));
    block_on(check_compare_and_swap(&MemoryStore::new()));
}

#[test]
fn one_of_many_concurrent_writers_wins() {
    let folder = TempFolder::new("many");
    let store = FileStore::new(&folder.0);
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let store = store.clone();
            std::thread::spawn(move || {
                let saved = block_on(store.swap("key", None, Some(record(&number.to_string()))));
                matches!(saved.unwrap(), SaveOutcome::Done(_))
            })
        })
        .collect();
    let won = writers.into_iter().filter_map(|writer| writer.join().unwrap().then_some(())).count();
    assert_eq!(won, 1);
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the file and its lock: {left:?}");
}

/// A writer that ends between writing and renaming leaves tokens behind, despite a logout.
#[test]
fn file_store_removes_files_of_writers_that_ended() {
    let folder = TempFolder::new("leftovers");
    let store = FileStore::new(&folder.0);
    let names = || -> Vec<String> {
        let names = fs::read_dir(&folder.0).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let record_of = |key: &str| {
        let before = if folder.0.exists() { names() } else { Vec::new() };
        saved_version(block_on(store.swap(key, None, Some(record("a")))).unwrap());
        names().into_iter().find(|name| !before.contains(name) && !name.contains('.')).unwrap()
    };
    let [own, dead, alive] = ["own", "dead", "alive"].map(record_of);
    let left = |record: &str| folder.0.join(format!("{record}.0123456789abcdef.new"));
    for record in [&own, &dead, &alive] {
        fs::write(left(record), "secret-token").unwrap();
    }
    let foreign = folder.0.join("notes.new");
    fs::write(&foreign, "mine").unwrap();
    // A process that is writing has the lock of its record.
    let writer = fs::File::options().write(true).open(folder.0.join(format!("{alive}.lock"))).unwrap();
    writer.lock().unwrap();
    let version = block_on(store.load("own")).unwrap().unwrap().version;
    saved_version(block_on(store.swap("own", Some(version), None)).unwrap());
    assert!(!left(&own).exists() && !left(&dead).exists(), "{:?}", names());
    assert!(left(&alive).exists() && foreign.exists(), "{:?}", names());
    assert!(block_on(store.load("dead")).unwrap().is_some());
    drop(writer);
    block_on(store.swap("own", None, None)).unwrap();
    assert!(!left(&alive).exists());
}

/// C12.24
#[cfg(unix)]
#[test]
fn file_store_denies_access_to_other_users() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = TempFolder::new("private");
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let store = FileStore::new(folder.0.join("tokens"));
    block_on(store.swap("key", None, Some(record("a")))).unwrap();
    assert_eq!(mode(&folder.0.join("tokens")), 0o700);
    for entry in fs::read_dir(folder.0.join("tokens")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }

    fs::set_permissions(folder.0.join("tokens"), fs::Permissions::from_mode(0o750)).unwrap();
    for refused in [
        block_on(store.load("key")).map(drop).unwrap_err(),
        block_on(store.swap("key", None, None)).map(drop).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("others may look into the folder (mode 750)"), "{refused}");
    }
}

#[test]
fn error_reports_a_damaged_file_without_its_contents() {
    let folder = TempFolder::new("damaged");
    let store = FileStore::new(&folder.0);
    block_on(store.swap("key", None, Some(record("a")))).unwrap();
    let file = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_none()).unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    for damaged in ["", "secret-token", "mcp tokens 1", "mcp tokens 1\nx\nkey\n{}", &whole[..whole.len() - 9]]
    {
        fs::write(&file, damaged).unwrap();
        let error = block_on(store.load("key")).map(drop).unwrap_err().to_string();
        assert!(error.contains(&*folder.0.to_string_lossy()) && !error.contains("secret-token"), "{error}");
    }
}

#[test]
fn debug_output_hides_secrets() {
    let store = MemoryStore::new();
    block_on(store.swap("key", None, Some(record("a")))).unwrap();
    let stored = block_on(store.load("key")).unwrap();
    assert!(!format!("{store:?} {stored:?}").contains("secret-token"));
}

struct FailingStore;

impl TokenStore for FailingStore {
    fn load<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        Box::pin(async { Err(io::Error::other("the keyring is locked")) })
    }

    fn swap<'a>(
        &'a self,
        _: &'a str,
        _: Option<RecordVersion>,
        _: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome> {
        Box::pin(async { Err(io::Error::other("the keyring is locked")) })
    }
}

#[test]
fn error_reports_a_store_that_does_not_open() {
    run(async {
        let town = AuthTestbed::new().await;
        let (client, _driver) = connect(stored_login(FailingStore), &town.url());
        let error = client.ready().await.unwrap_err().to_string();
        assert!(error.contains("the keyring is locked"), "{error}");
    });
}
