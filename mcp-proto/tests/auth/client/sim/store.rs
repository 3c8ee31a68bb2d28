//! A store that processes share.

use mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};

#[derive(Default)]
pub(crate) struct Store {
    kept: Option<(Vec<u8>, u64)>,
    writes: u64,
    /// Whether reads and writes fail.
    pub(crate) broken: bool,
    /// Whether writes fail.
    pub(crate) read_only: bool,
}

impl Store {
    pub(crate) fn load(&self) -> Result<Option<StoredRecord>, String> {
        if self.broken {
            return Err("the disk is gone".into());
        }
        Ok(self.stored())
    }

    pub(crate) fn stored(&self) -> Option<StoredRecord> {
        self.kept.as_ref().map(|(json, version)| StoredRecord {
            record: Record::from_json(json).unwrap(),
            version: RecordVersion(*version),
        })
    }

    pub(crate) fn store(
        &mut self,
        record: Option<Record>,
        expected: Option<RecordVersion>,
    ) -> Result<SaveOutcome, String> {
        if self.broken || self.read_only {
            return Err("the disk is full".into());
        }
        let there = self.kept.as_ref().map(|(_, version)| RecordVersion(*version));
        if there != expected {
            return Ok(SaveOutcome::Conflict(self.stored()));
        }
        self.writes += 1;
        self.kept = record.map(|record| (record.to_json().expose().as_bytes().to_vec(), self.writes));
        Ok(SaveOutcome::Done(RecordVersion(self.writes)))
    }

    pub(crate) fn text(&self) -> String {
        self.kept.as_ref().map(|(json, _)| String::from_utf8(json.clone()).unwrap()).unwrap_or_default()
    }

    /// Changes the record like another process.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut serde_json::Value)) {
        let mut record: serde_json::Value = serde_json::from_str(&self.text()).unwrap();
        change(&mut record);
        self.writes += 1;
        self.kept = Some((record.to_string().into_bytes(), self.writes));
    }

    pub(crate) fn clear(&mut self) {
        self.kept = None;
    }
}
