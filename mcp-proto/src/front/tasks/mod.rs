//! Tasks: tool calls that outlive their requests, in both of their forms.
//!
//! A [`Router`](super::Router) has tasks once it has a [`TaskConfig`]; the [`TaskChoice`] at the registration of a tool
//! decides whether its calls become tasks. The handlers are those of any tool:
//!
//! ```
//! use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
//! use mcp_proto::front::{Context, NoArguments, Router};
//! use mcp_proto::schema::{Json, Tool};
//!
//! let tool = Tool::new("index", "Indexes everything", Json::empty_object());
//! let router = Router::new("archive", "1.0.0")
//!     .tasks(TaskConfig::default())
//!     .task_tool(tool, TaskChoice::Optional, async |NoArguments {}, cx: Context| {
//!         cx.status("reading the catalogue");
//!         // …
//!         "Everything is indexed."
//!     });
//! assert!(router.check().is_ok());
//! ```
//!
//! | | 2026-07-28, extension `io.modelcontextprotocol/tasks` | 2025-11-25 |
//! |---|---|---|
//! | requested by | the server decides, for clients that declare the extension | the client, by `task` |
//! | a client without tasks | the tool runs like any other, or -32021 if a task is [required](TaskChoice::Required) | the same, or -32601 |
//! | input | `tasks/get` returns the input requests, `tasks/update` answers them | requests of the server, on the stream of `tasks/result` over HTTP |
//! | result | in `tasks/get` | by `tasks/result`, which waits |
//! | notifications | `notifications/tasks`, if the client listens | `notifications/tasks/status`, and progress |
//! | cancellation | acknowledged in every state | rejected once the task has ended |
//!
//! Task records are stored in a [`TaskStore`]; the handlers run in the driver that received the call: that of the
//! connection, or, over HTTP, that of the server. They are dropped with it, and their tasks fail. Several instances of
//! a server may share a [store](TaskStore::is_shared): each of them then answers `tasks/get`, takes input, cancels, and
//! waits for the result (2025-11-25). The instance that runs the task reads the others' changes from the store at the
//! [poll interval](TaskConfig::poll_interval). Only the instance that runs a task notifies its listeners, and requests
//! input from a client of 2025-11-25, in the session of the call. Without a shared store, operations on another
//! instance's tasks are rejected with -32603.
//!
//! A task belongs to the [principal](crate::peer::Principal) that called the tool, and is unknown to any other. Without
//! principals, its id grants access to it: 128 random bits.
//!
//! <https://modelcontextprotocol.io/extensions/tasks>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

mod methods;
mod record;
mod registry;
mod runner;
pub(super) mod running;
mod service;
mod store;

pub use record::{StoredTaskState, TaskRecord};
pub(super) use registry::TaskRegistry;
pub use registry::{TaskConfig, TaskListing};
pub use store::{MemoryLimits, MemoryStore, StoreError, StoreFuture, TaskPage, TaskStore};

pub use super::handler::output::{DetachedWork, TaskChoice};

pub(super) use methods::answer;
pub(super) use runner::TaskRunner;
pub(super) use service::{TaskService, TaskWork};
