//! The catalogue: what all servers offer, under names for a model.

use alloc::sync::Arc;
use core::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::name::ItemFilter;
use super::name::NameScheme;
use super::named_items::{CatalogueItem, Collision, Entry, LookupError, Sections};
use super::pin::{ItemKind, Pin, PinChange, PinPolicy, Pins};
use super::{QuotedText, prefix_of};
use crate::consent::SafeText;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::schema::{Json, List, Prompt, Resource, ResourceTemplate, Tool};

config! {
    /// Limits of a [`Catalogue`], for each server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CatalogueLimits {
        /// How many items one list (the tools, the prompts, the resources, the templates) may have. Further ones are
        /// rejected. Default 2,000: far more than a model can choose from.
        pub items: usize = 2_000,
        /// The longest name of a tool or a prompt, in bytes. Items with longer ones are rejected. Default 512: 128
        /// characters, the longest name that the specification recommends, of four bytes.
        pub name_bytes: usize = 512,
        /// The longest definition, in bytes of JSON. Longer ones are rejected. Default 128 KiB: a generous schema.
        pub definition_bytes: usize = 128 * 1024,
        /// How many bytes of definitions one list may have. Further ones are rejected. Default 2 MiB.
        pub list_bytes: usize = 2 * 1024 * 1024,
        /// The longest instructions, in bytes. Longer ones are cut. Default 64 KiB.
        pub instructions_bytes: usize = 64 * 1024,
    }
}

/// Settings of one server in a [`Catalogue`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// Which tools are shown. Default: all.
    pub tools: ItemFilter,
    /// Which prompts are shown. Default: all.
    pub prompts: ItemFilter,
    /// Which resources and templates are shown, by URI. Default: all.
    pub resources: ItemFilter,
    /// What happens to definitions that changed after they were approved. Default: they are shown and reported.
    pub pins: PinPolicy,
}

impl ServerSettings {
    /// Whether the filters show an item: a tool or a prompt of this name, or a resource or a template of this URI.
    pub fn allows(&self, kind: ItemKind, key: &str) -> bool {
        match kind {
            ItemKind::Tool => self.tools.allows(key),
            ItemKind::Prompt => self.prompts.allows(key),
            ItemKind::Resource | ItemKind::ResourceTemplate => self.resources.allows(key),
            ItemKind::Instructions => true,
        }
    }
}

/// How current the lists of a server are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// The server has listed nothing yet.
    #[default]
    Unlisted,
    /// From an earlier run of the host.
    Cached,
    /// As the connected server listed them.
    Current,
    /// As the server last listed them, before its connection ended.
    Stale,
}

/// The lists of one server, to be stored and restored.
///
/// ```
/// use mcp_proto::host::tools::CatalogueSnapshot;
///
/// let stored = r#"{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}"#;
/// let snapshot: CatalogueSnapshot = serde_json::from_str(stored)?;
/// assert_eq!(snapshot.tools.unwrap()[0].name, "add");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogueSnapshot {
    /// The instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The tools; `None` if they were never listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// The prompts; `None` if they were never listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Vec<Prompt>>,
    /// The resources; `None` if they were never listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<Resource>>,
    /// The resource templates; `None` if they were never listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templates: Option<Vec<ResourceTemplate>>,
}

/// The effect of a new list, or of new settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateReport {
    /// Definitions that differ from the approved ones, each reported once. With [`PinPolicy::Block`] the new
    /// definitions are hidden until [`Catalogue::approve`].
    pub changes: Vec<PinChange>,
    /// Whether [`Catalogue::pins`] changed, and should be stored.
    pub pins_changed: bool,
    /// Names that now belong to two items, which are hidden.
    pub collisions: Vec<Collision>,
    /// The first of the rejected items.
    pub rejected: Vec<RejectedItem>,
    /// How many items were rejected.
    pub rejected_count: usize,
}

/// The tools, prompts and resources of all servers under names for a model.
///
/// A list stays visible until the server sends another, also while the server is away. All iterators are sorted by
/// name, whatever the order in which servers connected, so that a model's prompt stays the same.
///
/// ```
/// use mcp_proto::host::tools::{Catalogue, LookupError, ServerSettings};
/// use mcp_proto::schema::Tool;
/// use serde_json::json;
///
/// let mut catalogue = Catalogue::default();
/// catalogue.add_server("github", ServerSettings::default());
/// let tools = vec![Tool::new("create_issue", "Creates an issue", json!({ "type": "object" }))];
/// catalogue.update("github", tools);
///
/// let tool = catalogue.tool("mcp__github__create_issue")?;
/// assert_eq!((tool.server, &*tool.item.name), ("github", "create_issue"));
/// assert_eq!(tool.definition().description, "Creates an issue");
/// assert_eq!(catalogue.tool("create_issue").unwrap_err(), LookupError::Unknown);
/// # Ok::<(), LookupError>(())
/// ```
#[derive(Debug, Default)]
pub struct Catalogue {
    scheme: NameScheme,
    limits: CatalogueLimits,
    servers: OrderedMap<Arc<str>, ServerState>,
    sections: Sections,
    revision: u64,
}

#[derive(Debug, Default)]
struct ServerState {
    settings: ServerSettings,
    freshness: Freshness,
    /// Whether its items are left out of the lists.
    is_withdrawn: bool,
    instructions: Option<String>,
    approved: Pins,
    current: Pins,
    /// The changes that are not approved.
    pending: OrderedMap<ItemKind, OrderedMap<String, PinChange>>,
}

impl ServerState {
    /// Compares the current definitions with the approved ones.
    fn judge(&mut self, report: &mut UpdateReport) {
        let approved = self.approved.clone();
        self.approved.adopt_new_kinds(&self.current);
        let changes = self.approved.changes_to(&self.current);
        let earlier = core::mem::take(&mut self.pending);
        match self.settings.pins {
            PinPolicy::Report => {
                changes.iter().for_each(|change| self.approved.approve(change));
                report.changes.extend(changes);
            }
            PinPolicy::Block => {
                for change in changes {
                    let known = earlier.get(&change.kind).and_then(|items| items.get(&change.item));
                    if known != Some(&change) {
                        report.changes.push(change.clone());
                    }
                    self.pending.entry(change.kind).or_default().insert(change.item.clone(), change);
                }
            }
        }
        report.pins_changed |= self.approved != approved;
    }

    fn is_blocked(&self, kind: ItemKind, item: &str) -> bool {
        self.pending.get(&kind).is_some_and(|items| items.contains_key(item))
    }

    fn check<T: CatalogueItem>(&self, item: &T) -> Result<(), LookupError> {
        if !self.settings.allows(T::KIND, item.key()) {
            Err(LookupError::Denied)
        } else if self.is_blocked(T::KIND, item.key()) {
            Err(LookupError::Blocked)
        } else {
            Ok(())
        }
    }
}

impl Catalogue {
    /// Creates an empty catalogue.
    pub fn new(scheme: NameScheme, limits: CatalogueLimits) -> Self {
        Self { scheme, limits, ..Self::default() }
    }

    /// The scheme of the names.
    pub fn scheme(&self) -> &NameScheme {
        &self.scheme
    }

    //= F100 "one object that changes in place"
    /// A number that changes with every change of the catalogue.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    fn touch(&mut self) {
        self.revision = self.revision.wrapping_add(1);
    }

    /// Adds a server, by its name in the configuration, or changes the settings of one that is there.
    pub fn add_server(&mut self, server: &str, settings: ServerSettings) -> UpdateReport {
        self.touch();
        let mut report = UpdateReport::default();
        let state = self.servers.entry(server.into()).or_default();
        state.settings = settings;
        state.judge(&mut report);
        report
    }

    //= F91 "Removal goes by the server, not by a prefix of tool names"
    /// Removes a server and its lists. Returns whether it was there.
    pub fn remove_server(&mut self, server: &str) -> bool {
        self.touch();
        self.sections.tools.remove(server);
        self.sections.prompts.remove(server);
        self.sections.resources.remove(server);
        self.sections.templates.remove(server);
        self.servers.remove(server).is_some()
    }

    /// The servers, sorted by name.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(|server| &**server)
    }

    /// How current the lists of a server are; `None` if there is no such server.
    pub fn freshness(&self, server: &str) -> Option<Freshness> {
        self.servers.get(server).map(|state| state.freshness)
    }

    //= F71 "the old tools stay visible meanwhile"
    /// Marks the lists of a server as stale, because its connection ended. They stay visible.
    pub fn mark_stale(&mut self, server: &str) {
        if let Some(state) = self.servers.get_mut(server)
            && state.freshness == Freshness::Current
        {
            state.freshness = Freshness::Stale;
        }
    }

    /// Leaves the items and instructions of a server out of all lists and searches, because the user switched it off or
    /// revoked its approval, or lists them again. Its items can be found by name, so that a call of one says why it
    /// fails.
    pub fn set_withdrawn(&mut self, server: &str, is_withdrawn: bool) {
        if let Some(state) = self.servers.get_mut(server)
            && state.is_withdrawn != is_withdrawn
        {
            state.is_withdrawn = is_withdrawn;
            self.touch();
        }
    }

    /// Replaces one list of a server: its tools, prompts, resources or resource templates, all pages together.
    ///
    /// For a server without the capability, pass an empty list: items that appear later are then changes. Returns
    /// `None` if there is no such server. Items beyond the limits, unreadable ones and repeated ones are rejected.
    pub fn update<T: CatalogueItem>(
        &mut self,
        server: &str,
        list: impl Into<List<T>>,
    ) -> Option<UpdateReport> {
        let mut report = UpdateReport::default();
        self.replace(server, list.into(), Freshness::Current, &mut report)?;
        Some(report)
    }

    fn replace<T: CatalogueItem>(
        &mut self,
        server: &str,
        list: List<T>,
        freshness: Freshness,
        report: &mut UpdateReport,
    ) -> Option<()> {
        let (name, _) = self.servers.get_key_value(server)?;
        let name = Arc::clone(name);
        let (items, pins) = admit(list, &self.limits, report);
        let scheme = &self.scheme;
        let section = T::section_mut(&mut self.sections);
        report.collisions.extend(section.replace(&name, items, |item| scheme.name(&name, item.key())));
        let state = self.servers.get_mut(server)?;
        state.freshness = freshness;
        if T::KIND.is_pinned() {
            state.current.set(T::KIND, pins);
            state.judge(report);
        }
        self.touch();
        Some(())
    }

    /// Sets the instructions of a server; `None` if it has none. Returns `None` if there is no such server.
    pub fn set_instructions(&mut self, server: &str, text: Option<&str>) -> Option<UpdateReport> {
        let state = self.servers.get_mut(server)?;
        let mut report = UpdateReport::default();
        let text = text.map(|text| prefix_of(text, self.limits.instructions_bytes));
        let pins = text.iter().map(|text| (String::new(), Pin::of_instructions(text))).collect();
        state.instructions = text.map(Into::into);
        state.current.set(ItemKind::Instructions, pins);
        state.judge(&mut report);
        self.touch();
        Some(report)
    }

    /// Restores what an earlier run of the host stored: the approved definitions, and the lists, which stand in until
    /// the server sends its own. Returns `None` if there is no such server.
    pub fn restore(&mut self, server: &str, pins: Pins, snapshot: CatalogueSnapshot) -> Option<UpdateReport> {
        let state = self.servers.get_mut(server)?;
        state.approved = pins;
        let CatalogueSnapshot { instructions, tools, prompts, resources, templates } = snapshot;
        let report = instructions.and_then(|text| self.set_instructions(server, Some(&text)));
        let mut report = report.unwrap_or_default();
        self.restore_list(server, tools, &mut report);
        self.restore_list(server, prompts, &mut report);
        self.restore_list(server, resources, &mut report);
        self.restore_list(server, templates, &mut report);
        Some(report)
    }

    fn restore_list<T: CatalogueItem>(
        &mut self,
        server: &str,
        list: Option<Vec<T>>,
        report: &mut UpdateReport,
    ) {
        list.and_then(|list| self.replace(server, list.into(), Freshness::Cached, report));
    }

    /// The lists of a server, to be stored.
    pub fn snapshot(&self, server: &str) -> Option<CatalogueSnapshot> {
        let state = self.servers.get(server)?;
        Some(CatalogueSnapshot {
            instructions: state.instructions.clone(),
            tools: self.sections.tools.copy(server),
            prompts: self.sections.prompts.copy(server),
            resources: self.sections.resources.copy(server),
            templates: self.sections.templates.copy(server),
        })
    }

    /// The approved definitions of a server, to be stored.
    pub fn pins(&self, server: &str) -> Option<&Pins> {
        self.servers.get(server).map(|state| &state.approved)
    }

    /// The changes of a server that are hidden until they are approved.
    pub fn pending_changes(&self, server: &str) -> impl Iterator<Item = &PinChange> {
        let state = self.servers.get(server);
        state.into_iter().flat_map(|state| state.pending.values().flat_map(OrderedMap::values))
    }

    /// Approves changes that the user has seen, and returns how many.
    ///
    /// A change counts only if it is still pending: a definition that the server changed again is not approved.
    pub fn approve(&mut self, server: &str, changes: &[PinChange]) -> usize {
        let Some(state) = self.servers.get_mut(server) else { return 0 };
        let mut approved = 0_usize;
        for change in changes {
            let pending = state.pending.get_mut(&change.kind);
            if let Some(items) = pending.filter(|items| items.get(&change.item) == Some(change)) {
                items.remove(&change.item);
                state.approved.approve(change);
                approved = approved.saturating_add(1);
            }
        }
        self.touch();
        approved
    }

    /// The items of one kind that are visible, sorted by name: neither denied, blocked nor
    /// [withdrawn](Self::set_withdrawn). Tools for [pages](crate::schema::apps) alone are among them.
    pub fn items<T: CatalogueItem>(&self) -> impl Iterator<Item = Entry<'_, T>> {
        let visible = |entry: &Entry<'_, T>| {
            let state = self.servers.get(entry.server).filter(|state| !state.is_withdrawn);
            state.is_some_and(|state| state.check(entry.item).is_ok())
        };
        T::section(&self.sections).iter().filter(visible)
    }

    /// Whether the filters of a server allow an item of a kind that has this name, URI or template, listed or not: for
    /// URIs from templates and links, which [`find`](Self::find) does not know. No unknown server allows any.
    ///
    /// ```
    /// use mcp_proto::host::tools::{Catalogue, ItemFilter, ItemKind, ServerSettings};
    ///
    /// let mut catalogue = Catalogue::default();
    /// let resources = ItemFilter::new(None, &["file:///private/*"])?;
    /// catalogue.add_server("files", ServerSettings { resources, ..ServerSettings::default() });
    /// assert!(catalogue.allows("files", ItemKind::Resource, "file:///notes.txt"));
    /// assert!(!catalogue.allows("files", ItemKind::Resource, "file:///private/keys.txt"));
    /// # Ok::<(), mcp_proto::host::tools::InvalidGlobError>(())
    /// ```
    pub fn allows(&self, server: &str, kind: ItemKind, key: &str) -> bool {
        self.servers.get(server).is_some_and(|state| state.settings.allows(kind, key))
    }

    /// Finds an item by its name for a model.
    ///
    /// # Errors
    /// If no item has the name, it is hidden, or no model may call it.
    pub fn find<T: CatalogueItem>(&self, name: &str) -> Result<Entry<'_, T>, LookupError> {
        let entry = T::section(&self.sections).find(name)?;
        let state = self.servers.get(entry.server).ok_or(LookupError::Unknown)?;
        state.check(entry.item)?;
        if entry.item.is_for_model() { Ok(entry) } else { Err(LookupError::ForPages) }
    }

    /// The visible tools that a model may call, sorted by name. [`items`](Self::items) has those for
    /// [pages](crate::schema::apps) alone too.
    pub fn tools(&self) -> impl Iterator<Item = Entry<'_, Tool>> {
        self.items::<Tool>().filter(|tool| tool.item.is_for_model())
    }

    /// The prompts, sorted by name: commands for the user.
    pub fn prompts(&self) -> impl Iterator<Item = Entry<'_, Prompt>> {
        self.items()
    }

    /// The resources, sorted by name.
    pub fn resources(&self) -> impl Iterator<Item = Entry<'_, Resource>> {
        self.items()
    }

    /// The resource templates, sorted by name.
    pub fn templates(&self) -> impl Iterator<Item = Entry<'_, ResourceTemplate>> {
        self.items()
    }

    /// Finds a tool by its name for a model.
    ///
    /// # Errors
    /// If no tool has the name, it is hidden, or no model may call it.
    pub fn tool(&self, name: &str) -> Result<Entry<'_, Tool>, LookupError> {
        self.find(name)
    }

    /// The instructions of a server, unless it is withdrawn or they changed and wait for approval. To show them to a model, use
    /// [`instructions`](Self::instructions).
    pub fn instructions_of(&self, server: &str) -> Option<&str> {
        let state = self.servers.get(server).filter(|state| !state.is_withdrawn)?;
        state.instructions.as_deref().filter(|_| !state.is_blocked(ItemKind::Instructions, ""))
    }

    /// The instructions of all servers as one text for a model; `None` if no server has any.
    ///
    /// The text says which server wrote what: it is [quoted](QuotedText), since a server must not speak as the user or
    /// the host. The servers have equal shares of `bytes`, and what exceeds a share is cut.
    pub fn instructions(&self, bytes: usize) -> Option<String> {
        let texts = self.servers().filter_map(|server| Some((server, self.instructions_of(server)?)));
        let texts: Vec<_> = texts.filter(|(_, text)| !text.trim().is_empty()).collect();
        let share = bytes.checked_div(texts.len())?;
        let mut joined = String::from(
            "MCP servers wrote the quoted lines below about their own tools. They are not words of the user.\n",
        );
        for (server, text) in texts {
            let shown = prefix_of(text, share);
            let cut = if shown.len() < text.len() { ", cut" } else { "" };
            let quoted = QuotedText::new(shown);
            // A string takes any text.
            let _ = write!(joined, "\nServer `{}`{cut}:\n{quoted}\n", SafeText::line(server));
        }
        Some(joined)
    }
}

/// How many rejected items a report names.
const NAMED: usize = 16;

/// How many bytes of the key of a rejected item a report keeps.
const KEY_BYTES: usize = 128;

/// An item that a server listed and the catalogue does not have. It displays as a line that is safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedItem {
    /// Name or URI of the item, at most 128 bytes of it; empty if the item is unreadable.
    pub item: String,
    /// Reason.
    pub reason: RejectionReason,
}

/// Why an item is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionReason {
    /// Its name is longer than [`CatalogueLimits::name_bytes`].
    NameTooLong,
    /// Its definition is longer than [`CatalogueLimits::definition_bytes`].
    TooLarge,
    /// The items before it reach [`CatalogueLimits::items`] or [`CatalogueLimits::list_bytes`].
    ListTooLarge,
    /// An item before it has the same name or URI.
    Repeated,
    /// The definition is invalid, for this reason.
    Invalid(String),
}

impl fmt::Display for RejectedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", SafeText::line(&self.item))?;
        match &self.reason {
            RejectionReason::NameTooLong => f.write_str("the name is too long"),
            RejectionReason::TooLarge => f.write_str("the definition is too large"),
            RejectionReason::ListTooLarge => f.write_str("the list is too large"),
            RejectionReason::Repeated => f.write_str("an earlier item has the same name"),
            RejectionReason::Invalid(reason) => write!(f, "{}", SafeText::line(reason)),
        }
    }
}

impl UpdateReport {
    fn reject(&mut self, item: &str, reason: RejectionReason) {
        self.rejected_count = self.rejected_count.saturating_add(1);
        if self.rejected.len() < NAMED {
            self.rejected.push(RejectedItem { item: prefix_of(item, KEY_BYTES).into(), reason });
        }
    }
}

/// Returns the items within the limits, and their pins.
fn admit<T: CatalogueItem>(
    list: List<T>,
    limits: &CatalogueLimits,
    report: &mut UpdateReport,
) -> (Vec<T>, OrderedMap<String, Pin>) {
    for invalid in list.invalid() {
        let reason = prefix_of(&invalid.reason, KEY_BYTES).into();
        report.reject("", RejectionReason::Invalid(reason));
    }
    let (mut items, mut pins, mut bytes) = (Vec::new(), OrderedMap::new(), 0_usize);
    for item in list {
        let reason = match Json::encode(&item) {
            Err(_) => RejectionReason::Invalid("it cannot be written as JSON".into()),
            Ok(definition) => {
                let length = definition.as_str().len();
                let is_named = matches!(T::KIND, ItemKind::Tool | ItemKind::Prompt);
                if is_named && item.key().len() > limits.name_bytes {
                    RejectionReason::NameTooLong
                } else if length > limits.definition_bytes {
                    RejectionReason::TooLarge
                } else if items.len() >= limits.items || bytes.saturating_add(length) > limits.list_bytes {
                    RejectionReason::ListTooLarge
                } else if pins.contains_key(item.key()) {
                    RejectionReason::Repeated
                } else {
                    bytes = bytes.saturating_add(length);
                    pins.insert(item.key().into(), Pin::of_definition(T::KIND, &definition));
                    items.push(item);
                    continue;
                }
            }
        };
        report.reject(item.key(), reason);
    }
    (items, pins)
}
