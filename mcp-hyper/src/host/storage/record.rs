//! The stored form of a server's lists, pins and era.

use std::time::Duration;

use mcp_proto::UnixTime;
use mcp_proto::host::config::ServerEntry;
use mcp_proto::host::tools::{CatalogueSnapshot, Pins};
use mcp_proto::peer::client::KnownEra;
use mcp_proto::schema::Revision;
use serde::{Deserialize, Serialize};

/// The version of the stored form.
const VERSION: u32 = 1;

/// The lists, pins and era of a server, valid as long as its connection is configured in the same way.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::host) struct Record {
    version: u32,
    /// The fingerprint of the connection, in hexadecimal digits.
    connection: String,
    /// When the lists were stored, in seconds.
    stored: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    era: Option<StoredEra>,
    pub(in crate::host) pins: Pins,
    pub(in crate::host) lists: CatalogueSnapshot,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredEra {
    revision: String,
    probe_breaks_server: bool,
}

impl Record {
    pub(in crate::host) fn new(
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

    /// Reads the stored form; `None` if it is of another connection or version, or damaged. Lists older than `max_age`
    /// are left out.
    pub(in crate::host) fn read(
        text: &[u8],
        entry: &ServerEntry,
        now: UnixTime,
        max_age: Duration,
    ) -> Option<Self> {
        let mut record: Self = serde_json::from_slice(text).ok()?;
        if record.version != VERSION || record.connection != entry.connection().to_string() {
            return None;
        }
        let stored = UnixTime::from_epoch(Duration::from_secs(record.stored));
        if now.saturating_since(stored) > max_age {
            record.lists = CatalogueSnapshot::default();
        }
        Some(record)
    }

    pub(in crate::host) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(in crate::host) fn era(&self) -> Option<KnownEra> {
        let era = self.era.as_ref()?;
        let version = Revision::parse(&era.revision)?;
        Some(KnownEra { era: version.era(), version, probe_breaks_server: era.probe_breaks_server })
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::host::config::ServerSpec;
    use mcp_proto::schema::Tool;

    use super::*;

    #[test]
    fn record_is_read_only_for_the_connection_it_was_stored_for_and_lists_expire() {
        let entry = |program: &str| ServerEntry::user("one", ServerSpec::stdio(program, [] as [&str; 0]));
        let now = UnixTime::from_epoch(Duration::from_secs(1_000_000));
        let day = Duration::from_secs(24 * 3600);
        let era = KnownEra {
            era: Revision::V2025_11_25.era(),
            version: Revision::V2025_11_25,
            probe_breaks_server: true,
        };
        let tools = vec![Tool::new("t", "", serde_json::json!({ "type": "object" }))];
        let lists = CatalogueSnapshot { tools: Some(tools), ..CatalogueSnapshot::default() };
        let text = Record::new(&entry("a"), now, Some(era), Pins::default(), lists.clone()).to_json();
        let read = Record::read(&text, &entry("a"), now, day).unwrap();
        assert_eq!((read.era(), &read.lists), (Some(era), &lists));
        assert!(Record::read(&text, &entry("b"), now, day).is_none());
        let later = UnixTime::from_epoch(now.since_epoch() + 2 * day);
        let read = Record::read(&text, &entry("a"), later, day).unwrap();
        assert_eq!((read.era(), read.lists), (Some(era), CatalogueSnapshot::default()));
        assert!(Record::read(b"{}", &entry("a"), now, day).is_none());
    }
}
