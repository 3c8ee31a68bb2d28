//! What one conversation with a model sees of the catalogue: filters, a budget, and tools found by search.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt::Write as _;

use serde::Deserialize;

use super::catalogue::Catalogue;
use super::name::ToolPattern;
use super::named_items::{Entry, LookupError, ToolDefinition};
use super::search::ToolIndex;
use super::{QuotedText, prefix_of};
use crate::consent::SafeText;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::schema::{Json, Tool};

/// How many found tools a conversation remembers.
const FOUND_TOOLS: usize = 64;

/// How many tools a search finds by default, and at most.
const DEFAULT_HITS: usize = 8;
const MAX_HITS: usize = 20;

/// How many bytes of a description search results show.
const DESCRIPTION_BYTES: usize = 300;

/// How many servers the description of the search tool names.
const NAMED_SERVERS: usize = 50;

config! {
    /// Settings of a [`Conversation`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConversationSettings {
        /// A tool must match one of them; `None` allows all.
        pub allow: Option<Vec<ToolPattern>> = None,
        /// A tool must match none of them, even if it is allowed.
        pub deny: Vec<ToolPattern> = Vec::new(),
        /// The tools that are shown from the start if there is no room for all of their server.
        pub favourites: Vec<ToolPattern> = Vec::new(),
        /// How many bytes of definitions are shown from the start, or tokens if the conversation
        /// [counts them](Conversation::counting). If all tools have more, the tools of the servers with the most are
        /// deferred: never those of a server within an equal share, and those of a server that was shown for no other
        /// one beyond its share. A token of a model is about four bytes.
        ///
        /// Default 64 KiB, some 16,000 tokens: a tenth of a usual context.
        pub definition_budget: usize = 64 * 1024,
        /// How many bytes, or tokens, of definitions of found tools are shown besides. The oldest leave first, but
        /// those within an equal share of their server last; the newest stays.
        ///
        /// Default 32 KiB.
        pub found_budget: usize = 32 * 1024,
    }
}

/// The tools that one conversation sees.
///
/// If the definitions of all tools exceed the budget, the tools of the largest servers are deferred: of these the model
/// sees the favourites, and a tool that searches the others; tools that it finds become visible. The tools of a server
/// that are deferred stay so, and found tools are appended in the order in which they were found, so that the beginning
/// of a model's prompt stays the same.
///
/// The servers share the budget: one that lists a great deal hides its own tools, not those of others.
///
/// ```
/// use mcp_proto::host::tools::{Catalogue, Conversation, ConversationSettings, ServerSettings, ToolIndex};
/// use mcp_proto::host::tools::SearchRequest;
/// use mcp_proto::schema::{Json, Tool};
/// use serde_json::json;
///
/// let mut catalogue = Catalogue::default();
/// catalogue.add_server("github", ServerSettings::default());
/// let tool = |name| Tool::new(name, "A tool", json!({ "type": "object" }));
/// catalogue.update("github", vec![tool("create_issue"), tool("list_branches")]);
///
/// let settings = ConversationSettings { definition_budget: 50, ..ConversationSettings::default() };
/// let mut conversation = Conversation::new(settings);
/// let names = |conversation: &mut Conversation| -> Vec<String> {
///     conversation.select(&catalogue).definitions().map(|tool| tool.name.to_owned()).collect()
/// };
/// assert_eq!(names(&mut conversation), ["mcp__search"]);
///
/// // The model calls `mcp__search`.
/// let request = SearchRequest::from_arguments(&Json::from(json!({ "query": "issue" })))?;
/// let results = conversation.search(&catalogue, &mut ToolIndex::default(), &request);
/// assert_eq!(results.names, ["mcp__github__create_issue"]);
/// assert_eq!(names(&mut conversation), ["mcp__search", "mcp__github__create_issue"]);
/// # Ok::<(), mcp_proto::host::tools::InvalidSearchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    settings: ConversationSettings,
    /// Names of found tools, the newest last.
    found: VecDeque<String>,
    /// The servers of which all tools were shown, with the size of their definitions; `None` if they are deferred.
    decided: OrderedMap<String, Option<usize>>,
    size: DefinitionSize,
}

/// Measures a definition in the unit of the budgets.
#[derive(Clone)]
struct DefinitionSize(Arc<dyn Fn(&ToolDefinition<'_>) -> usize + Send + Sync>);

impl Default for DefinitionSize {
    fn default() -> Self {
        Self(Arc::new(|definition| definition.bytes()))
    }
}

debug_fields! { DefinitionSize => "DefinitionSize" }

/// The tools whose definitions a model is given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Selection<'a> {
    /// The tool that searches all others, if some are deferred.
    pub search: Option<Tool>,
    /// The shown tools.
    pub tools: Vec<Entry<'a, Tool>>,
    /// How many tools are deferred.
    pub deferred: usize,
}

impl Selection<'_> {
    /// The definitions for the model, that of the search tool first.
    pub fn definitions(&self) -> impl Iterator<Item = ToolDefinition<'_>> {
        let search = self.search.as_ref().map(|tool| Entry { name: &tool.name, server: "", item: tool });
        search.into_iter().chain(self.tools.iter().copied()).map(Entry::definition)
    }
}

impl Conversation {
    /// Creates a conversation.
    pub fn new(settings: ConversationSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Counts the definitions against the budgets by this function, such as in tokens of the model, instead of in
    /// [bytes](ToolDefinition::bytes): set both budgets in its unit. It is called for each allowed tool whenever tools are
    /// [selected](Self::select); the same definition must have the same count.
    ///
    /// ```
    /// use mcp_proto::host::tools::{Conversation, ConversationSettings};
    ///
    /// let settings = ConversationSettings { definition_budget: 8_000, found_budget: 2_000, ..Default::default() };
    /// // As the tokenizer of the model counts.
    /// let tokens = |text: &str| text.len().div_ceil(4);
    /// let conversation = Conversation::new(settings).counting(move |definition| {
    ///     tokens(definition.name) + tokens(definition.description) + tokens(definition.input_schema.as_str())
    /// });
    /// # drop(conversation);
    /// ```
    #[must_use]
    pub fn counting(mut self, count: impl Fn(&ToolDefinition<'_>) -> usize + Send + Sync + 'static) -> Self {
        self.size = DefinitionSize(Arc::new(count));
        self
    }

    /// Whether the conversation may use the tool.
    pub fn allows(&self, tool: Entry<'_, Tool>) -> bool {
        let matches = |patterns: &[ToolPattern]| is_any(patterns, tool);
        let is_listed = self.settings.allow.as_deref().is_none_or(matches);
        is_listed && !matches(&self.settings.deny) && tool.item.is_for_model()
    }

    /// Finds the tool that the model calls by this name. A deferred tool can be called too.
    ///
    /// # Errors
    /// If no tool has the name, or the conversation may not use it.
    pub fn tool<'a>(&self, catalogue: &'a Catalogue, name: &str) -> Result<Entry<'a, Tool>, LookupError> {
        let tool = catalogue.tool(name)?;
        if self.allows(tool) { Ok(tool) } else { Err(LookupError::Denied) }
    }

    /// Makes a tool visible, as if the model had found it: one that the user named, for example.
    pub fn reveal(&mut self, name: &str) {
        self.found.retain(|found| found != name);
        if self.found.len() >= FOUND_TOOLS {
            self.found.pop_front();
        }
        self.found.push_back(name.into());
    }

    /// Selects the tools for the next request to the model.
    pub fn select<'a>(&mut self, catalogue: &'a Catalogue) -> Selection<'a> {
        let allowed = catalogue.tools().filter(|tool| self.allows(*tool));
        let size = |tool: Entry<'_, Tool>| (self.size.0)(&tool.definition());
        let all: Vec<_> = allowed.map(|tool| Candidate { tool, size: size(tool) }).collect();
        let shown = self.shown_from_start(&all);
        let (shown, others): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|candidate| shown.contains(candidate.tool.name));
        let mut tools: Vec<_> = shown.iter().map(|candidate| candidate.tool).collect();
        if self.decided.values().all(Option::is_some) {
            return Selection { search: None, tools, deferred: 0 };
        }
        tools.extend(self.shown_found(&others));
        let deferred = all.len().saturating_sub(tools.len());
        let servers: OrderedSet<&str> = all.iter().map(|candidate| candidate.tool.server).collect();
        Selection { search: Some(search_tool(catalogue, &servers)), tools, deferred }
    }

    /// The names of the tools that are shown without a search. Decides whose tools are deferred.
    ///
    /// First come the favourites within the share of their server, then whole servers, then further favourites.
    fn shown_from_start<'a>(&mut self, all: &[Candidate<'a>]) -> OrderedSet<&'a str> {
        let mut servers: OrderedMap<&str, ServerSize> = OrderedMap::new();
        for Candidate { tool, size } in all {
            let server = servers.entry(tool.server).or_default();
            server.all = server.all.saturating_add(*size);
        }
        let favourites = all.iter().filter(|it| is_any(&self.settings.favourites, it.tool));
        let favourites: Vec<_> = favourites.collect();
        let mut room = self.settings.definition_budget;
        let share = room.checked_div(servers.len()).unwrap_or(room);
        let mut shown = OrderedSet::new();
        for Candidate { tool, size } in &favourites {
            let Some(server) = servers.get_mut(tool.server) else { continue };
            let with_tool = server.shown.saturating_add(*size);
            if with_tool <= share {
                server.shown = with_tool;
                room = room.saturating_sub(*size);
                shown.insert(tool.name);
            }
        }
        let whole = self.shown_whole(&servers, share, &mut room);
        for Candidate { tool, size } in favourites {
            let is_shown = whole.contains(tool.server) || shown.contains(tool.name);
            if let Some(left) = room.checked_sub(*size).filter(|_| !is_shown) {
                room = left;
                shown.insert(tool.name);
            }
        }
        let of_whole = all.iter().map(|other| other.tool).filter(|tool| whole.contains(tool.server));
        shown.extend(of_whole.map(|tool| tool.name));
        shown
    }

    /// The servers of which all tools are shown; the others are deferred from now on.
    ///
    /// Those within their share come first, then those that were shown and have not grown, then others, which leave each
    /// other as much room as they take. Of each group the smallest come first.
    fn shown_whole<'a>(
        &mut self,
        servers: &OrderedMap<&'a str, ServerSize>,
        share: usize,
        room: &mut usize,
    ) -> OrderedSet<&'a str> {
        let mut candidates = Vec::new();
        for (server, size) in servers {
            let before = self.decided.get(*server).copied();
            if before != Some(None) {
                let has_grown = before.flatten().is_none_or(|before| size.all > before);
                candidates.push((size.all > share && has_grown, size.all > share, size.all, *server));
            }
        }
        candidates.sort_unstable();
        let mut whole = OrderedSet::new();
        // Once one of the last ones has no room, the larger ones have none at its cost.
        let mut is_full = false;
        for (position, (is_last, _, all, server)) in candidates.iter().copied().enumerate() {
            let rest = servers.get(server).map_or(all, |size| all.saturating_sub(size.shown));
            let others = if is_last { candidates.len().saturating_sub(position) } else { 1 };
            is_full |= room.checked_div(others).is_none_or(|most| rest > most) && is_last;
            let left = room.checked_sub(rest).filter(|_| !is_full);
            if let Some(left) = left {
                *room = left;
                whole.insert(server);
            }
            self.decided.insert(server.into(), left.map(|_| all));
        }
        whole
    }

    /// The found ones of these tools, the newest last.
    ///
    /// First come the newest and those within the share of their server, then others while there is room.
    fn shown_found<'a>(&self, others: &[Candidate<'a>]) -> Vec<Entry<'a, Tool>> {
        let others: OrderedMap<&str, _> = others.iter().map(|other| (other.tool.name, *other)).collect();
        let newest_first: Vec<_> =
            self.found.iter().rev().filter_map(|name| others.get(&**name).copied()).collect();
        let servers: OrderedSet<&str> = newest_first.iter().map(|found| found.tool.server).collect();
        let mut room = self.settings.found_budget;
        let share = room.checked_div(servers.len()).unwrap_or(room);
        let mut shown = OrderedSet::new();
        let mut used: OrderedMap<&str, usize> = OrderedMap::new();
        for (age, Candidate { tool, size }) in newest_first.iter().enumerate() {
            let used = used.entry(tool.server).or_default();
            // Also of a tool without room, so that no older one of the server takes its place.
            *used = used.saturating_add(*size);
            if age == 0 || *used <= share {
                room = room.saturating_sub((*size).min(share));
                shown.insert(tool.name);
            }
        }
        for Candidate { tool, size } in &newest_first {
            if let Some(left) = room.checked_sub(*size).filter(|_| !shown.contains(tool.name)) {
                room = left;
                shown.insert(tool.name);
            }
        }
        let found = newest_first.into_iter().rev().map(|found| found.tool);
        found.filter(|tool| shown.contains(tool.name)).collect()
    }

    /// Answers a call of the search tool. The tools that it finds become visible.
    ///
    /// The index is refreshed if the catalogue changed. One index serves all conversations of a catalogue.
    pub fn search(
        &mut self,
        catalogue: &Catalogue,
        index: &mut ToolIndex,
        request: &SearchRequest,
    ) -> SearchResults {
        index.refresh(catalogue);
        let limit = request.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let hits = index.search(&request.query, limit, |name| self.tool(catalogue, name).is_ok());
        let found: Vec<_> = hits.iter().filter_map(|hit| catalogue.tool(&hit.name).ok()).collect();
        // The best is the newest.
        found.iter().rev().for_each(|tool| self.reveal(tool.name));
        SearchResults { names: found.iter().map(|tool| tool.name.into()).collect(), text: describe(&found) }
    }
}

/// Whether one of the patterns matches the tool.
fn is_any(patterns: &[ToolPattern], tool: Entry<'_, Tool>) -> bool {
    patterns.iter().any(|pattern| pattern.matches(tool.server, &tool.item.name))
}

/// A tool that may be shown, and the size of its definition.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    tool: Entry<'a, Tool>,
    size: usize,
}

/// The size of the definitions of a server's tools: of all, and of the favourites that are shown.
#[derive(Default)]
struct ServerSize {
    all: usize,
    shown: usize,
}

/// The search tool. Its description does not change as long as the servers are the same.
fn search_tool(catalogue: &Catalogue, servers: &OrderedSet<&str>) -> Tool {
    let mut description = String::from(
        "Finds tools of MCP servers by words of their names and descriptions, and makes them callable. \
         Search before you conclude that there is no tool for something.",
    );
    for (index, server) in servers.iter().take(NAMED_SERVERS).enumerate() {
        let before = if index == 0 { " Servers: " } else { ", " };
        // A string takes any text.
        let _ = write!(description, "{before}{}", SafeText::line(server));
    }
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "Words, such as `create issue`" },
            "limit": { "type": "integer", "description": "How many tools to find at most", "minimum": 1, "maximum": MAX_HITS },
        },
        "required": ["query"],
    });
    Tool::new(catalogue.scheme().search_name(), description, schema)
}

/// The found tools as a text for the model, which tells the words of the servers from those of the host.
fn describe(found: &[Entry<'_, Tool>]) -> String {
    if found.is_empty() {
        return "No tool matches. Try other words, or fewer.".into();
    }
    let mut text =
        format!("{} tools, callable from now on. Their servers wrote the quoted lines.\n", found.len());
    for tool in found {
        let description = prefix_of(tool.definition().description, DESCRIPTION_BYTES);
        let quoted = QuotedText::new(description);
        // A string takes any text.
        let _ = write!(text, "\n{}\n{quoted}\n", tool.name);
    }
    text
}

/// The arguments of the search tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SearchRequest {
    /// The words.
    pub query: String,
    /// How many tools to find at most. Default 8; at most 20.
    #[serde(default)]
    pub limit: Option<usize>,
}

impl SearchRequest {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// If they are not an object with a text `query`.
    pub fn from_arguments(arguments: &Json) -> Result<Self, InvalidSearchError> {
        arguments.decode().map_err(|_| InvalidSearchError)
    }
}

/// Error: the arguments of the search tool are invalid. Its text is for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSearchError;

error_text! { InvalidSearchError =>
    "the arguments must be an object with a text `query` and, if wanted, an integer `limit`"
}

/// The answer to a call of the search tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchResults {
    /// Names of the found tools, the best first.
    pub names: Vec<String>,
    /// The answer for the model.
    pub text: String,
}
