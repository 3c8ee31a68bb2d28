//! Reads and writes the stored values of a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::Boxed;
use futures_util::future::join_all;
use mcp_proto::adapter::Clock as _;
use mcp_proto::host::config::{Scope, ServerEntry, ServerId};
use mcp_proto::host::consent::{Approval, Approvals};

use super::Storage;
use super::record::Record;
use crate::host::options::Settings;
use crate::host::shared::Shared;
use crate::runtime::Runtime as _;

/// Makes the stored form of a value.
type Encode = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Where the host remembers things, and how long lists stand in for a server.
#[derive(Clone)]
pub(in crate::host) struct Memory {
    pub(in crate::host) storage: Arc<dyn Storage>,
    pub(in crate::host) max_age: Duration,
}

/// Stored values, as read.
#[derive(Default)]
pub(in crate::host) struct Loaded {
    pub(in crate::host) records: BTreeMap<ServerId, Record>,
    pub(in crate::host) approvals: Vec<Approval>,
    pub(in crate::host) errors: Vec<String>,
}

/// Values that are not written yet.
#[derive(Debug, Default)]
pub(in crate::host) struct Unsaved {
    /// The servers of which something is new.
    servers: BTreeSet<ServerId>,
    /// Whether anything is more than a list, which can be read again.
    pub(in crate::host) is_urgent: bool,
    /// The user's approvals.
    approvals: Vec<Approval>,
    /// The servers whose approval was revoked, none of which is in `approvals`.
    revoked: Vec<ServerId>,
}

impl Unsaved {
    pub(in crate::host) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.approvals.is_empty() && self.revoked.is_empty()
    }

    /// Something is new of this server.
    pub(in crate::host) fn add(&mut self, server: ServerId, is_urgent: bool) {
        self.servers.insert(server);
        self.is_urgent |= is_urgent;
    }

    pub(in crate::host) fn approve(&mut self, approval: Approval) {
        self.is_urgent = true;
        let server = ServerId::project(approval.path(), approval.server());
        self.revoked.retain(|revoked| *revoked != server);
        self.approvals.push(approval);
    }

    pub(in crate::host) fn revoke(&mut self, path: &str, name: &str) {
        self.is_urgent = true;
        self.approvals.retain(|approval| (approval.path(), approval.server()) != (path, name));
        self.revoked.push(ServerId::project(path, name));
    }
}

fn server_name(server: ServerId) -> String {
    format!("server-{server}")
}

fn approval_name(server: ServerId) -> String {
    format!("approval-{server}")
}

impl Memory {
    /// Reads the stored values of these servers.
    pub(in crate::host) async fn load(self, shared: Arc<Shared>, entries: Vec<Arc<ServerEntry>>) -> Loaded {
        let now = shared.clock.unix_time();
        let storage = &*self.storage;
        let reads = join_all(entries.iter().map(|entry| async move {
            let record = storage.get(&server_name(entry.id())).await;
            let approval = match entry.source().scope {
                Scope::User => Ok(None),
                Scope::Project => storage.get(&approval_name(entry.id())).await,
            };
            (entry, record, approval)
        }))
        .await;
        let mut loaded = Loaded::default();
        for (entry, record, approval) in reads {
            match record {
                Ok(Some(text)) => {
                    let record = Record::read(&text, entry, now, self.max_age);
                    loaded.records.extend(record.map(|record| (entry.id(), record)));
                }
                Ok(None) => {}
                Err(error) => loaded.errors.push(error.to_string()),
            }
            match approval {
                Ok(Some(text)) => {
                    // One that cannot be read is none.
                    let approvals = Approvals::from_json(&text).unwrap_or_default();
                    loaded.approvals.extend(approvals.iter().cloned());
                }
                Ok(None) => {}
                Err(error) => loaded.errors.push(error.to_string()),
            }
        }
        loaded
    }

    /// Writes; returns the errors.
    pub(in crate::host) fn save(
        &self,
        shared: &Shared,
        settings: &Settings,
        unsaved: Unsaved,
    ) -> Boxed<Vec<String>> {
        let now = shared.clock.unix_time();
        let mut values: Vec<(String, Encode)> = Vec::new();
        for server in unsaved.servers {
            let known = shared.with(|state, _| {
                let entry = state.entries.get(&server)?.clone();
                let era = state.eras.get(&entry.connection()).copied();
                Some((entry, era))
            });
            let Some((entry, era)) = known else { continue };
            let lists = shared.catalogue(|catalogue| {
                Some((catalogue.pins(entry.name())?.clone(), catalogue.snapshot(entry.name())?))
            });
            let Some((pins, lists)) = lists else { continue };
            let encode = move || Record::new(&entry, now, era, pins, lists).to_json();
            values.push((server_name(server), Box::new(encode)));
        }
        for approval in unsaved.approvals {
            let name = approval_name(ServerId::project(approval.path(), approval.server()));
            let encode = move || {
                let mut approvals = Approvals::new();
                approvals.insert(approval);
                approvals.to_json().into_bytes()
            };
            values.push((name, Box::new(encode)));
        }
        let (storage, runtime, revoked) = (self.storage.clone(), settings.runtime.clone(), unsaved.revoked);
        Box::pin(async move {
            let mut errors = Vec::new();
            for server in revoked {
                let removed = storage.remove(&approval_name(server)).await;
                errors.extend(removed.err().map(|error| error.to_string()));
            }
            for (name, encode) in values {
                // Long lists take a while.
                let written = match runtime.blocking(encode).await {
                    Ok(value) => storage.put(&name, value).await,
                    Err(error) => Err(error),
                };
                errors.extend(written.err().map(|error| error.to_string()));
            }
            errors
        })
    }
}
