//! Tool calls that outlive their requests: tasks, in both of their forms.
//!
//! A [`Router`](super::Router) has tasks once it is given a [`TaskConfig`]; which tools become tasks is said where they
//! are registered, by a [`TaskChoice`]. Their handlers are those of any tool:
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
//! | who asks for a task | nobody: the server decides, for clients that declare the extension | the client, by `task` |
//! | a client that can't have one | the tool runs as any other, or -32021 if it is [required](TaskChoice::Required) | the same, or -32601 |
//! | input | `tasks/get` shows what is asked for, `tasks/update` answers | requests of the server, on the stream of `tasks/result` over HTTP |
//! | the result | in `tasks/get` | by `tasks/result`, which waits |
//! | the client is told | by `notifications/tasks`, if it listens | by `notifications/tasks/status`, and of progress |
//! | cancelled | acknowledged, whatever the task has come to | refused once the task has ended |
//!
//! Records of tasks are kept in a [`TaskStore`]; the handlers run in the driver that the call came to: a connection's own,
//! or, over HTTP, that of the server. They are dropped with it, and their tasks fail. Several instances of a server may
//! share a [store](TaskStore::is_shared): every one of them then answers `tasks/get`, takes input, cancels, and waits for
//! the result (2025-11-25). The one that runs the task finds in the store what the others have left there; it looks at the
//! [poll interval](TaskConfig::poll_interval). Only the instance that runs a task tells those who listen for it, and asks
//! a client of 2025-11-25 for input, in the session of the call. With a store that is not shared, what another instance
//! would have to do is refused with -32603.
//!
//! A task belongs to the [principal](crate::peer::Principal) that has called the tool, and to any other it does not exist.
//! Where there are no principals, whoever knows its identifier may use it: that is 128 random bits.
//!
//! <https://modelcontextprotocol.io/extensions/tasks>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

mod answers;
mod config;
mod errors;
mod handlers;
mod input;
mod key;
mod memory;
mod methods;
mod record;
mod registry;
mod runner;
mod running;
mod service;
mod sleep;
mod store;
mod wire;

pub use config::{TaskChoice, TaskConfig, TaskListing};
pub use memory::{MemoryLimits, MemoryStore};
pub use record::{StoredTaskState, TaskRecord};
pub use store::{StoreError, StoreFuture, TaskPage, TaskStore};

pub use super::handler::detached::DetachedWork;

pub(super) use handlers::{TaskHandlers, TaskWork};
pub(super) use methods::answer;
pub(super) use registry::TaskRegistry;
pub(super) use runner::TaskRunner;
use running::RunningTask;
pub(super) use service::{TaskService, TaskSpec};
