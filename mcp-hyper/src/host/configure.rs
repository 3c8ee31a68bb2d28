//! A new configuration and its way into the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_proto::host::config::{Config, Scope, ServerEntry, ServerId};
use mcp_proto::host::control::ServerPolicy;
use mcp_proto::host::tools::{CatalogueSnapshot, Freshness, ItemKind, PinPolicy, ServerSettings, ToolFilter};

use super::events::HostEvent;
use super::options::Settings;
use super::shared::Shared;
use super::storage::saving::Loaded;

/// Replaces the configuration; new servers start with their stored lists, pins and eras.
pub(super) fn configure(shared: &Shared, settings: &Settings, config: &Config, loaded: Loaded) {
    let entries: BTreeMap<ServerId, Arc<ServerEntry>> =
        config.servers().iter().map(|entry| (entry.id(), entry.clone())).collect();
    let Loaded { mut records, approvals, errors } = loaded;
    shared.catalogue(|catalogue| {
        shared.command(|state, now| {
            for error in errors {
                state.publish(HostEvent::StorageFailed { error: error.into() });
            }
            for approval in approvals {
                state.approvals.insert(approval);
            }
            let old = std::mem::replace(&mut state.entries, entries);
            state.requests.retain(|id, _| state.entries.contains_key(id));
            for (id, entry) in &old {
                let new = state.entries.get(id);
                // Another program behind the name has other tools.
                if new.is_none_or(|new| new.connection() != entry.connection()) {
                    catalogue.remove_server(entry.name());
                }
                if new.is_none() {
                    let server = entry.name().into();
                    state.publish(HostEvent::Status { server, status: None, failure: None });
                }
            }
            for (id, entry) in state.entries.clone() {
                let known = old.get(&id);
                let name: Arc<str> = entry.name().into();
                let report = catalogue.add_server(&name, server_settings(&entry));
                if known.is_some_and(|known| known.meaning() != entry.meaning()) {
                    state.publish_update(&name, ItemKind::Tool, report);
                }
                let is_new = known.is_none_or(|known| known.connection() != entry.connection());
                if let Some(record) = records.remove(&id).filter(|_| is_new) {
                    if let Some(era) = record.era() {
                        state.eras.insert(entry.connection(), era);
                    }
                    // A model sees no tools of a server without approval.
                    let is_permitted = entry.permit(&state.approvals).is_ok();
                    let lists = if is_permitted { record.lists } else { CatalogueSnapshot::default() };
                    if let Some(report) = catalogue.restore(&name, record.pins, lists) {
                        state.publish_update(&name, ItemKind::Tool, report);
                    }
                }
            }
            let policies: Vec<_> = state
                .entries
                .iter()
                .map(|(id, entry)| {
                    let mut policy = ServerPolicy::new(entry, &settings.overrides);
                    policy.is_approved = entry.permit(&state.approvals).is_ok();
                    policy.starts_to_list = catalogue.freshness(entry.name()) == Some(Freshness::Unlisted);
                    (*id, policy)
                })
                .collect();
            state.plane.configure(now, policies);
        });
    });
}

/// How the tools of a server are shown: a filter that cannot be read shows none, and the server does not start.
fn server_settings(entry: &ServerEntry) -> ServerSettings {
    let lists = &entry.spec().tools;
    let filter = ToolFilter::new(lists.allow.as_deref(), &lists.deny);
    let nothing = ToolFilter { allow: Some(Vec::new()), deny: Vec::new() };
    let pins = match entry.source().scope {
        Scope::User => PinPolicy::Report,
        Scope::Project => PinPolicy::Block,
    };
    ServerSettings { filter: filter.unwrap_or(nothing), pins }
}
