//! The lists of a connected server, and their way into the catalogue.

use std::sync::Arc;

use mcp_proto::front::{Client, Error, ListError};
use mcp_proto::host::config::Scope;
use mcp_proto::host::tools::{Catalogue, CatalogueItem, Freshness, ItemKind, UpdateReport};
use mcp_proto::peer::client::ServerInfo;
use mcp_proto::schema::{List, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};

use super::connection::Attempt;
use super::events::HostEvent;
use super::shared::{Shared, State};

/// The lists of a server that have changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangedLists {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
}

impl ChangedLists {
    pub(super) const ALL: Self = Self { tools: true, prompts: true, resources: true };

    pub(super) fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}

/// Reads the lists of one server.
pub(super) struct Lists<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) client: &'a Client,
    pub(super) info: &'a ServerInfo,
}

impl Lists<'_> {
    /// Whether the server has such lists; it may if it declares no capabilities.
    fn has(&self, capability: impl FnOnce(&ServerCapabilities) -> bool) -> bool {
        self.info.capabilities.as_ref().is_none_or(capability)
    }

    pub(super) fn read_instructions(&self) {
        let text = self.info.instructions.as_deref();
        self.change(ItemKind::Instructions, |catalogue, server| {
            let before = catalogue.instructions_of(server).map(str::to_owned);
            let report = catalogue.set_instructions(server, text)?;
            Some((report, before.as_deref() != catalogue.instructions_of(server)))
        });
    }

    /// Reads the tools, without which the server cannot be used.
    pub(super) async fn read_tools(&self) -> Result<(), Error> {
        if !self.has(|capabilities| capabilities.tools.is_some()) {
            self.update::<Tool>(List::new());
            return Ok(());
        }
        let tools = self.client.list_tools().await.map_err(Error::from)?;
        self.update(tools);
        Ok(())
    }

    /// Reads tools that have changed; keeps the old ones if the server does not list them.
    async fn read_tools_again(&self) -> Result<(), Error> {
        match self.read_tools().await {
            Err(error) if error.is_disconnect() => Err(error),
            _ => Ok(()),
        }
    }

    async fn read_prompts(&self) -> Result<(), Error> {
        let read = match self.has(|capabilities| capabilities.prompts.is_some()) {
            true => self.client.list_prompts().await,
            false => Ok(List::new()),
        };
        self.update_if_read::<Prompt>(read)
    }

    async fn read_resources(&self) -> Result<(), Error> {
        if !self.has(|capabilities| capabilities.resources.is_some()) {
            self.update::<Resource>(List::new());
            self.update::<ResourceTemplate>(List::new());
            return Ok(());
        }
        self.update_if_read::<Resource>(self.client.list_resources().await)?;
        self.update_if_read::<ResourceTemplate>(self.client.list_resource_templates().await)
    }

    /// Reads everything but the tools.
    pub(super) async fn read_others(&self) -> Result<(), Error> {
        self.read_prompts().await?;
        self.read_resources().await
    }

    pub(super) async fn read_changed(&self, changed: ChangedLists) -> Result<(), Error> {
        if changed.tools {
            self.read_tools_again().await?;
        }
        if changed.prompts {
            self.read_prompts().await?;
        }
        if changed.resources {
            self.read_resources().await?;
        }
        Ok(())
    }

    /// A list that cannot be read stays as it was; the server is used all the same, unless it is gone.
    fn update_if_read<T: CatalogueItem + Clone + PartialEq>(
        &self,
        read: Result<List<T>, ListError<T>>,
    ) -> Result<(), Error> {
        match read {
            Ok(list) => self.update(list),
            Err(ListError { error, .. }) if error.is_disconnect() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn update<T: CatalogueItem + Clone + PartialEq>(&self, list: List<T>) {
        self.change(T::KIND, |catalogue, server| {
            let visible = |catalogue: &Catalogue| -> Vec<T> {
                catalogue
                    .items::<T>()
                    .filter(|entry| entry.server == server)
                    .map(|entry| entry.item.clone())
                    .collect()
            };
            let before = visible(catalogue);
            let report = catalogue.update(server, list)?;
            Some((report, before != visible(catalogue)))
        });
    }

    /// Changes the catalogue, unless the server was reconfigured meanwhile, and reports it. `act` returns whether
    /// the visible items are others.
    fn change(&self, kind: ItemKind, act: impl FnOnce(&mut Catalogue, &str) -> Option<(UpdateReport, bool)>) {
        let entry = &self.attempt.entry;
        let name: Arc<str> = entry.name().into();
        let shared = &self.attempt.shared;
        shared.catalogue(|catalogue| {
            let (is_current, is_withdrawn) = shared.with(|state, _| {
                let current = state.entries.get(&entry.id());
                let is_current = current.is_some_and(|now| now.connection() == entry.connection());
                (is_current, current.is_some_and(|current| state.is_withdrawn(current)))
            });
            if !is_current {
                return;
            }
            catalogue.set_withdrawn(&name, is_withdrawn);
            let Some((report, is_visible)) = act(catalogue, &name) else { return };
            shared.command(|state, _| {
                if is_visible || report.pins_changed {
                    // Approved definitions must not be lost; lists can be read again.
                    let is_urgent = report.pins_changed && entry.source().scope == Scope::Project;
                    state.unsaved.add(entry.id(), is_urgent);
                }
                if is_visible || !report.changes.is_empty() || !report.collisions.is_empty() {
                    state.publish_update(&name, kind, report);
                }
            });
        });
    }
}

impl State {
    /// Reports a change of the catalogue.
    pub(super) fn publish_update(&mut self, server: &Arc<str>, kind: ItemKind, report: UpdateReport) {
        let UpdateReport { changes, collisions, rejected, rejected_count, .. } = report;
        self.publish(HostEvent::CatalogueChanged { server: server.clone(), kind });
        if !changes.is_empty() {
            self.publish(HostEvent::PinsChanged { server: server.clone(), changes: changes.into() });
        }
        for collision in collisions {
            self.publish(HostEvent::Collision(Arc::new(collision)));
        }
        if rejected_count > 0 {
            let (server, items) = (server.clone(), rejected.into());
            self.publish(HostEvent::Rejected { server, items, count: rejected_count });
        }
    }
}

impl Shared {
    /// Whether the catalogue has anything of this server.
    pub(super) fn freshness(&self, server: &str) -> Freshness {
        let freshness = self.catalogue(|catalogue| catalogue.freshness(server));
        freshness.unwrap_or(Freshness::Unlisted)
    }
}
