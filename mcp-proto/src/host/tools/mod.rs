//! Tools for a model: the tools, prompts and resources of many servers under names of their own.
//!
//! Everything here is pure: no I/O, no clock. A host passes the lists of its servers in and shows its model what comes
//! out:
//!
//! - [`NameScheme`]: the name of a tool, such as `mcp__github__create_issue`, from its server and its own name alone.
//! - [`Catalogue`]: the last good lists of all servers, with fallbacks for missing descriptions and schemas, within limits.
//! - [`ItemFilter`]: which items of a server are shown. [`Pins`]: which definitions were approved; changed ones are
//!   hidden or reported.
//! - [`Conversation`]: what one conversation sees: its own filters, a budget, and a search ([`ToolIndex`]) that makes
//!   deferred tools visible.
//! - [`TypeScriptDeclarations`]: the tools as declarations, for a model that writes code against them.
//! - [`Conversion`]: results, resources and prompts as content for a model; too large ones go to files.
//!
//! Texts of servers reach a model as such: definitions and results as they are, and [quoted](QuotedText) where they
//! stand among words of the host.
//!
//! ```
//! use mcp_proto::CallToolResult;
//! use mcp_proto::host::tools::{Catalogue, Conversation, Conversion, ResultLimits, ServerSettings};
//! use mcp_proto::schema::Tool;
//! use serde_json::json;
//!
//! let mut catalogue = Catalogue::default();
//! catalogue.add_server("clock", ServerSettings::default());
//! // The answer to `tools/list`, all pages.
//! let tools = vec![Tool::new("now", "Tells the time", json!({ "type": "object" }))];
//! let report = catalogue.update("clock", tools).expect("the server was added");
//! assert!(report.changes.is_empty(), "changed definitions, for the user");
//!
//! let mut conversation = Conversation::default();
//! let selection = conversation.select(&catalogue);
//! let definitions: Vec<_> = selection.definitions().collect();
//! assert_eq!(definitions[0].name, "mcp__clock__now");
//!
//! // The model calls a tool: `server` and `item.name` tell where the call goes.
//! let tool = conversation.tool(&catalogue, "mcp__clock__now")?;
//! assert_eq!((tool.server, &*tool.item.name), ("clock", "now"));
//! let result = CallToolResult::text("12:00");
//! let mut conversion = Conversion::of_tool_result(tool.name, result, &ResultLimits::default());
//! assert!(conversion.take_spills().is_empty(), "nothing to write to files");
//! assert_eq!(conversion.finish([]).to_text(), "12:00");
//! # Ok::<(), mcp_proto::host::tools::LookupError>(())
//! ```

mod catalogue;
mod content;
mod conversation;
mod name;
mod named_items;
mod pin;
mod result;
mod search;
mod typescript;

pub use super::digest::Digest;
pub use catalogue::{
    Catalogue, CatalogueLimits, CatalogueSnapshot, Freshness, RejectedItem, RejectionReason, ServerSettings,
    UpdateReport,
};
pub(super) use content::prefix_of;
pub use content::{Author, ModelContent, ModelPart, QuotedText};
pub use conversation::{
    Conversation, ConversationSettings, InvalidSearchError, SearchRequest, SearchResults, Selection,
};
pub use name::{Glob, InvalidGlobError, InvalidSchemeError, ItemFilter, NameScheme, ToolPattern};
pub use named_items::{CatalogueItem, Collision, Entry, LookupError, ToolDefinition};
pub use pin::{Change, ItemKind, Member, Pin, PinChange, PinPolicy, Pins};
pub use result::{Conversion, MessageConversion, ResultLimits, Spill};
pub use search::{Hit, ToolIndex};
pub use typescript::{TypeScriptDeclarations, TypeScriptLimits};
