//! Tools for a model: the tools, prompts and resources of many servers under names of their own.

mod catalogue;
mod conversation;
mod digest;
mod filter;
mod name;
mod pin;
mod result;
mod search;
mod text;

pub use catalogue::{
    Catalogue, CatalogueItem, CatalogueLimits, CatalogueSnapshot, Collision, Entry, Freshness, LookupError,
    RejectedItem, RejectionReason, ServerSettings, ToolDefinition, UpdateReport,
};
pub use conversation::{
    Conversation, ConversationSettings, InvalidSearchError, SearchRequest, SearchResults, Selection,
};
pub use digest::Digest;
pub use filter::{Glob, InvalidGlobError, ToolFilter, ToolPattern};
pub use name::{InvalidSchemeError, NameScheme};
pub use pin::{Change, ItemKind, Member, Pin, PinChange, PinPolicy, Pins};
pub use result::{Author, Conversion, MessageConversion, ModelContent, ModelPart, ResultLimits, Spill};
pub use search::{Hit, ToolIndex};
pub use text::QuotedText;
