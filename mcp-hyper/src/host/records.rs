//! The stored form of servers' lists, pins, eras and approvals, and how a host reads and writes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::Boxed;
use futures_util::future::join_all;
use mcp_proto::UnixTime;
use mcp_proto::adapter::Clock as _;
use mcp_proto::host::config::{ServerEntry, ServerId};
use mcp_proto::host::consent::{Approval, Approvals};
use mcp_proto::host::tools::{CatalogueSnapshot, Pins};
use mcp_proto::peer::client::KnownEra;
use mcp_proto::schema::Revision;
use serde::{Deserialize, Serialize};

use super::shared::{Shared, Unsaved};
use super::storage::Storage;
use crate::runtime::{AnyRuntime, Runtime as _};

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
    pub(super) async fn load(self, shared: Arc<Shared>, entries: Vec<Arc<ServerEntry>>) -> Loaded {
        let now = shared.clock.unix_time();
        let storage = &*self.0;
        let reads = join_all(entries.iter().map(|entry| async move {
            let record = storage.get(&server_name(entry.id())).await;
            let approval = storage.get(&approval_name(entry.id())).await;
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
            let approvals = approval.and_then(|text| Approvals::from_json(&text).ok()).unwrap_or_default();
            loaded.approvals.extend(approvals.iter().cloned());
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
                let written = match approvals.is_empty() {
                    true => storage.remove(&name).await,
                    false => storage.put(&name, approvals.to_json().into_bytes()).await,
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
mod tests {
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
