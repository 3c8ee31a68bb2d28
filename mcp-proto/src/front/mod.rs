//! The async front: `Client` and `Server` handles on `core::task` and a mutex.
//!
//! It is written once, for every runtime and transport. It contains no executor, clock or I/O and spawns nothing: an
//! *adapter* such as `mcp-smol` supplies one future per connection, the **driver**, and the task that polls that future
//! runs the connection. Handles work on any thread and under any other executor.
//!
//! # A client
//!
//! An adapter opens the connection and returns a [`Client`]. Then:
//!
//! ```
//! # use mcp_proto::front::{Client, Error};
//! # use serde_json::json;
//! # async fn example(client: Client) -> Result<(), Error> {
//! for tool in client.list_tools().await? {
//!     println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//! }
//! let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await?;
//! println!("{}", sum.text_content());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Every call is a [`Request`]: a future that takes options before it is awaited, and is cancelled, on the wire too,
//! when it is dropped.
//!
//! # A server
//!
//! A [`Router`] declares what the server offers and holds the handlers of its requests; an adapter serves it.
//!
//! ```
//! # #[cfg(feature = "schemars")] {
//! use mcp_proto::front::Router;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! let router = Router::new("calculator", "1.0.0")
//!     .tool("add", "Adds two numbers", async |Add { a, b }, _| (a + b).to_string());
//! # drop(router);
//! # }
//! ```
//!
//! `tool` takes the schema from the type, with the feature `schemars` (a default of the adapters);
//! [`Router::tool_with`] takes it as an argument. With `schema-validate`, arguments and results are checked against it.
//!
//! Handlers share typed [state](Router::with_state). A [live](Router::live) router changes while it serves: items are
//! added, removed, disabled and enabled over every connection and transport at once, and clients are notified of the
//! changed lists.
//!
//! Calls of tools may outlive their requests: module [`tasks`]. Over HTTP one router serves any number of connections,
//! each request by an exchange of its own: module `http`. It may require tokens of its clients: module `guard`.
//!
//! # An adapter
//!
//! An adapter makes a machine of [`transport`](crate::transport), joins it to a handle with the functions of
//! [`adapter`](crate::adapter), and polls the driver. This one is complete; its transport is two buffers in memory.
//!
#![cfg_attr(all(feature = "client", feature = "server"), doc = include_str!("memory.md"))]
//!
//! A driver future has one waker, its task's. `ClientDriver::poll` stores it under the same lock under which it found
//! no work left; commands and handlers wake it.
//!
//! # Modules and their order
//!
//! Each builds on those above it. Only `request` and `layered_call` import each other, and `mode` and `layer`: a request may
//! pass through layers, which send it, and the mode of handlers has the type of their layers.
//!
//! - what both roles share: `error`, `handler_error`, `clock`, `params`, `wakers`, `events`, `notification`,
//!   `request_slots`, `shared`
//! - the records of `tasks`, in their stores and while their handlers run
//! - `handler`: the connection of a server, and what handlers take, request of the client and return
//! - `reply`, `trace`, `request`, `layered_call`, `mode`, `running_handlers`, `spawned_handler`: type-erased answers,
//!   requests and handlers
//! - `layer`: code of others around requests and messages
//! - the registry of `tasks`, and their methods
//! - `router`: the dispatch of requests to handlers; live routers
//! - the runner of `tasks`
//! - `server`: the handle and the driver of one connection
//! - `http`: the exchanges, the sessions and the driver of a server over HTTP
//!
//! `client` stands beside `tasks` to `http`, and `guard` beside `server`.
//!
//! Time comes from a [`Clock`]. [`SystemClock`](crate::adapter::SystemClock) is the only place in
//! the crate that reads the clocks of the operating system.
//!
//! # Guarantees
//!
//! - Every request ends exactly once: with its answer, at its timeout, with the connection, or with its driver
//!   ([`LostReason::DriverDropped`](crate::peer::LostReason::DriverDropped)). Its progress reports arrive before that.
//! - Every future may be dropped at any time, and loses nothing but its own answer.
//! - No waker, handler, destructor or I/O runs under a lock. Parameters of custom methods are serialized under it:
//!   their `Serialize` must not use the handles.
//! - The driver polls handlers, each only after its own waker was called. A handler that computes for long blocks the
//!   connection and belongs on a thread; one that takes more than a second is reported, and `Router::spawn_handlers`
//!   makes each a task of its own. The handler of a cancelled request is dropped. If a handler panics, the server
//!   answers its tool call with a failed result, another request with [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR),
//!   and the connection goes on. Only the program's panic hook gets the text of the panic.
//! - The driver of a [`SendHandlers`] router is `Send`; the handlers of a [`LocalHandlers`] router need not be.
//! - Event queues of listeners are bounded, and dropped events are counted: [`Events`].

// First the handle of clients: rustdoc lists methods in the order of the modules.
#[cfg(feature = "client")]
pub(crate) mod client;

pub(crate) mod clock;
mod error;
mod events;
mod handler_error;
pub mod layer;
#[cfg(feature = "client")]
mod layered_call;
mod mode;
mod notification;
mod params;
mod reply;
mod request;
mod request_slots;
mod running_handlers;
mod shared;
#[cfg(feature = "server")]
mod spawned_handler;
#[cfg(any(feature = "js", not(all(target_family = "wasm", target_os = "unknown"))))]
pub(crate) mod system_clock;
#[cfg(feature = "tracing")]
pub mod trace;
#[cfg(not(feature = "tracing"))]
#[path = "no_trace.rs"]
mod trace;
mod wakers;

#[cfg(all(feature = "auth", feature = "server"))]
pub mod guard;
#[cfg(feature = "server")]
mod handler;
#[cfg(all(feature = "server", feature = "http"))]
pub mod http;
#[cfg(all(feature = "trace-file", feature = "server"))]
mod mock;
#[cfg(all(feature = "trace-file", feature = "client"))]
mod replay;
#[cfg(feature = "server")]
mod router;
#[cfg(feature = "server")]
pub(crate) mod server;
#[cfg(all(feature = "server", feature = "skills"))]
pub mod skills;
#[cfg(feature = "server")]
pub mod tasks;

pub(crate) use clock::Clock;
pub use error::{Error, ErrorOrigin, ListError, PagesError};
pub use events::Events;
pub use handler_error::{HandlerError, IntoAnswer};
pub use mode::{Handler, HandlerMode, LocalHandlers, SendHandlers};
pub use notification::Notification;
pub use params::CustomRequest;
pub use request::{Call, Request};

#[cfg(all(feature = "trace-file", feature = "client"))]
pub use replay::{Replay, ReplayOutcome, ReplayReport, ReplayedCall};

#[cfg(all(feature = "client", feature = "schema-validate"))]
pub use client::OutputChecks;
#[cfg(feature = "client")]
pub use client::{
    Client, ClientContext, ClientHandlers, Event, Pages, PaginatedMethod, Subscription, SubscriptionUpdate,
    TaskHandle, ToolCallOutcome, Watch, WatchRequest, WatchUpdate, call_once,
};

#[cfg(all(feature = "server", any(feature = "seal", feature = "auth")))]
pub use crate::single_use::{Claim, ClaimError, ClaimFuture, ClaimOutcome, SingleUse, UseId, UsedIds};
#[cfg(all(feature = "server", feature = "schemars"))]
pub use handler::arguments::{DescribedArguments, Structured};
#[cfg(feature = "server")]
pub use {
    handler::arguments::{Arguments, NoArguments, without_arguments},
    handler::connection::{BlockedHandler, ServerEvent},
    handler::context::{Context, Progress},
    handler::inbound_request::{Attachments, NotificationContext},
    handler::output::{CompletionOutput, PromptOutput, ResourceOutput, ResultOrInput, ToolOutput},
    handler::server_requests::{ElicitationCompletion, InputFuture},
    router::{
        LimitedCall, LiveRouter, RateExceeded, Router, RouterError, ServedRouter, TemplateError,
        mounted_name, mounted_uri,
    },
    server::ServerHandle,
    spawned_handler::SpawnedHandler,
};
