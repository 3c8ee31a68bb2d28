//! The MCP vocabulary: typed parameters and results of every method and notification, at every revision.
//!
//! - A [`Method`] or [`Notification`] type ties a name to its parameter and result types; [`MethodInfo`] and
//!   [`NotificationInfo`] hold its other properties. All methods and notifications are declared in one table.
//! - Every type **reads** what any revision sends, in one pass. Unknown fields, and optional fields with an unexpected
//!   value, are kept in `extra`; unknown kinds of content are kept verbatim; list items that cannot be read are
//!   collected in [`List::invalid`]. Reading fails only if a required field is missing or invalid, or if an invalid
//!   value would change the meaning of the message.
//! - Every type **writes** itself in two ways: [`Serialize`](serde::Serialize) writes all fields, so that a round trip
//!   loses nothing; [`WriteAt`] and [`At`] write the fields of one [`Revision`]. [`Differences`] lists the other
//!   differences between revisions.
//! - Values defined by the application (arguments, schemas, structured results, `_meta`) stay JSON text: [`Json`].
//!
//! Types are read from JSON text: `serde_json::from_str` or `from_slice`, [`Json::decode`] or
//! [`Raw::decode`](crate::rpc::Raw::decode). Other deserializers, such as `serde_json::Value`, do not provide the JSON
//! text in which unknown values are kept.
//!
//! ```
//! use mcp_proto::schema::{At, Revision, Tool, ToolAnnotations};
//! use serde_json::json;
//!
//! let tool = Tool::new("add", "Adds two numbers", json!({"type": "object"}))
//! .with_title("Addition")
//!     .with_annotations(ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::new() });
//! let text = serde_json::to_string(&At(&tool, Revision::V2025_03_26))?;
//! assert!(text.contains("readOnlyHint") && !text.contains("title"));
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod apps;
mod capabilities;
mod containers;
mod content;
mod elicitation;
mod extension;
mod extension_set;
mod form;
mod json;
mod lifecycle;
pub mod meta;
mod method;
mod object;
mod primitive;
mod prompts;
mod read;
mod resources;
mod result;
mod revision;
mod roots;
mod sampling;
pub mod skills;
pub mod tasks;
mod tools;
pub(crate) mod trace;
pub(crate) mod write;

pub use capabilities::*;
pub use containers::*;
pub use content::*;
pub use elicitation::*;
pub use extension::*;
pub use extension_set::*;
pub use form::*;
pub use json::*;
pub use lifecycle::*;
pub use meta::Meta;
pub use method::{
    CallTool, Cancelled, ClientProgress, Complete, CreateMessage, Direction, Discover, Elicit,
    ElicitationComplete, GetPrompt, Initialize, Initialized, ListPrompts, ListResourceTemplates,
    ListResources, ListRoots, ListTools, LoggingMessage, Method, MethodInfo, Notification, NotificationInfo,
    Params, Ping, Progress, PromptListChanged, ReadResource, ResourceListChanged, ResourceUpdated,
    ResultFields, RootsListChanged, SetLoggingLevel, SubscribeResource, SubscriptionsAcknowledged,
    SubscriptionsListen, ToolListChanged, UnsubscribeResource,
};
pub use primitive::*;
pub use prompts::*;
#[cfg(feature = "client")]
pub(crate) use read::peek;
pub use resources::*;
pub use result::*;
pub use revision::*;
pub use roots::*;
pub use sampling::*;
pub use tools::*;
pub use trace::{TraceContext, TraceError};
pub use write::{At, Projection, WriteAt};
