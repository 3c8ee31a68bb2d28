//! The store of tasks in Redis and the one in memory, called alike.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_hyper::redis::{Redis, RedisOptions};
use mcp_hyper::rustls::crypto::ring::default_provider;
use mcp_hyper::rustls::pki_types::CertificateDer;
use mcp_hyper::rustls::pki_types::pem::PemObject as _;
use mcp_hyper::rustls::{ClientConfig, RootCertStore};
use mcp_proto::UnixTime;
use mcp_proto::front::tasks::{MemoryStore, StoreError, StoredTaskState, TaskPage, TaskRecord, TaskStore};
use mcp_proto::peer::Principal;
use mcp_proto::schema::Json;
use serde_json::json;
use smol::Timer;

use crate::Outcome;
use crate::instance_log::ensure;

/// How many tasks each owner has.
const TASKS: u64 = 7;

/// Calls the Redis at this URL, which must be empty, and a store in memory, and compares their answers. With TLS, it trusts the
/// certificate in a file.
pub(crate) async fn compare(url: &str, certificate: Option<&str>) -> Outcome {
    let mut options = RedisOptions::new(url)?;
    if let Some(certificate) = certificate {
        options = options.tls(trust(Path::new(certificate))?);
    }
    let (redis, driver) = options.connect()?;
    smol::spawn(driver).detach();
    redis.ready().await?;
    let memory = MemoryStore::default();
    let begin = Duration::from_secs(std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs());
    let mut calls = 0;
    for number in 0..2 * TASKS {
        let record = record(number, begin)?;
        calls += compare_changes(&redis, &memory, record).await?;
    }
    let (alice, eve) = (Principal::new("alice"), Principal::new("eve"));
    for owner in [None, Some(&alice), Some(&eve)] {
        for most in [1, 3, 20] {
            let (left, right) = (all(&redis, owner, most).await?, all(&memory, owner, most).await?);
            ensure(left == right, || format!("the tasks of {owner:?} differ: {left:?}, {right:?}"))?;
            calls += left.len();
        }
        let (left, right) = (redis.list(owner, Some("x"), 1).await, memory.list(owner, Some("x"), 1).await);
        ensure(left == right, || format!("with an unknown cursor: {left:?}, {right:?}"))?;
    }
    check_expiry(&redis).await?;
    println!(
        "{calls} operations in Redis and in memory have the same results; a task expires by the clock of Redis"
    );
    Ok(())
}

/// A configuration that trusts only this certificate.
fn trust(certificate: &Path) -> Outcome<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    Ok(config.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// A task, whose owner depends on its number.
fn record(number: u64, begin: Duration) -> Outcome<TaskRecord> {
    let created = u64::try_from(begin.as_millis())? + number;
    let owner = if number.is_multiple_of(2) { json!("alice") } else { json!(null) };
    let json = json!({
        "id": format!("task{number}"), "owner": owner, "version": 0, "created_at": created, "updated_at": created,
        "ttl": if number < 3 { json!(null) } else { json!(60_000) }, "poll_interval": 1000, "message": "é\n",
        "status": "working", "asked": null, "result": null, "error": null
    });
    Ok(TaskRecord::from_json(&json.to_string())?)
}

/// Creates a task twice, and changes it: from its version, from an old one, and from none.
async fn compare_changes(redis: &Redis, memory: &MemoryStore, record: TaskRecord) -> Outcome<usize> {
    let mut ended = record.clone();
    ended.state = StoredTaskState::Completed(Json::encode(&json!({"content": []}))?);
    ended.ttl = Some(Duration::from_secs(120));
    let missing = TaskRecord::from_json(&record.to_json()?.as_str().replace("\"task", "\"other"))?;
    let mut calls = 0;
    for (name, record) in [
        ("update", &missing),
        ("create", &record),
        ("create", &record),
        ("update", &ended),
        ("update", &ended),
    ] {
        let (left, right) = match name {
            "create" => (redis.create(record.clone()).await, memory.create(record.clone()).await),
            _ => {
                (redis.update(record.clone()).await.map(drop), memory.update(record.clone()).await.map(drop))
            }
        };
        ensure(left == right, || format!("{name} of {}: {left:?}, {right:?}", record.id))?;
        let id = &record.id;
        let (left, right) = (redis.get(id).await?.map(unversioned), memory.get(id).await?.map(unversioned));
        ensure(left == right, || format!("{} after {name}: {left:?}, {right:?}", record.id))?;
        calls += 2;
    }
    Ok(calls)
}

/// Versions differ: those of Redis are random.
fn unversioned(mut record: TaskRecord) -> TaskRecord {
    record.version = 0;
    record
}

/// The pages of an owner's tasks.
async fn all(
    store: &dyn TaskStore,
    owner: Option<&Principal>,
    most: usize,
) -> Result<Vec<TaskPage>, StoreError> {
    let mut pages = vec![store.list(owner, None, most).await?];
    while let Some(next) = pages.last().and_then(|page| page.next.clone()) {
        pages.push(store.list(owner, Some(&next), most).await?);
    }
    for page in &mut pages {
        page.tasks = mem::take(&mut page.tasks).into_iter().map(unversioned).collect();
    }
    Ok(pages)
}

/// A task is gone when its time is over, and its owner's list is empty after the next sweep.
async fn check_expiry(redis: &Redis) -> Outcome {
    let mut short = record(1, Duration::from_secs(std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs()))?;
    short.id = "short".to_owned();
    short.owner = Some(Principal::new("bob"));
    short.ttl = Some(Duration::from_millis(1500));
    redis.create(short).await?;
    ensure(redis.get("short").await?.is_some(), || "a task expires at once".to_owned())?;
    while redis.get("short").await?.is_some() {
        Timer::after(Duration::from_millis(50)).await;
    }
    let bob = Principal::new("bob");
    ensure(redis.list(Some(&bob), None, 1).await?.tasks.is_empty(), || {
        "an expired task is listed".to_owned()
    })?;
    redis.expire(UnixTime::EPOCH).await?;
    let cursor = redis.list(Some(&bob), Some("short"), 1).await;
    ensure(cursor == Err(StoreError::Cursor), || format!("the id of an expired task remains: {cursor:?}"))
}
