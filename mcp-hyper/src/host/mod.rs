//! Many servers at once: programs and URLs from configuration files, kept connected, their tools under names for a
//! model.
//!
//! A [`Host`] starts all servers of a [`Config`](mcp_proto::host::config::Config) in parallel, reconnects what it
//! loses, and sends each call to its server, which it waits for. Its decisions are described at
//! [`mcp_proto::host::control`]; names, pins and search at [`mcp_proto::host::tools`]; the approval of servers that a
//! project names at [`mcp_proto::host::consent`].
//!
//! An agent, but for its model:
//!
//! ```no_run
//! use mcp_hyper::host::{Host, HostOptions, HostTool};
//! use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Source};
//! use serde_json::Value;
//!
//! enum Reply {
//!     Text(String),
//!     ToolCall { name: String, arguments: Value },
//! }
//!
//! /// Asks the model of your choice, which sees the messages and the tools.
//! async fn ask_model(messages: &[String], tools: &[HostTool]) -> Reply {
//!     # let _ = (messages, tools);
//!     # Reply::Text(String::new())
//! }
//!
//! async fn answer(host: &Host, question: &str) -> String {
//!     let mut messages = vec![question.to_owned()];
//!     loop {
//!         match ask_model(&messages, &host.tools()).await {
//!             Reply::Text(text) => return text,
//!             Reply::ToolCall { name, arguments } => messages.push(
//!                 match host.call_for_model(&name, arguments).await {
//!                     Ok(content) => content.to_text(),
//!                     Err(error) => format!("MCP error: {error}"),
//!                 },
//!             ),
//!         }
//!     }
//! }
//!
//! fn main() -> std::io::Result<()> {
//!     let path = "/home/ann/.cursor/mcp.json";
//!     let file = ConfigFile::parse(Source::user(path), &std::fs::read(path)?);
//!     let (host, driver) = HostOptions::new("my-agent", "1.0.0").config(Config::merge([file])).start();
//!     smol::spawn(driver).detach();
//!     smol::block_on(async {
//!         host.ready().await;
//!         println!("{}", answer(&host, "Which files have changed today?").await);
//!         host.close().await;
//!     });
//!     Ok(())
//! }
//! ```
//!
//! # Costs
//!
//! A host that is idle wakes for nothing but the deadlines of its runtime. With 100 child processes of ten tools each, it
//! holds 4.1 MB on the heap, 1.7 times what 100 clients without a host hold, and uses 0.7 ms of processor time per
//! minute: `cargo bench -p mcp-hyper --bench idle_host`.
//!
//! # Limits
//!
//! Calls, attempts, lists, events and standard errors are bounded: see
//! [`ControlConfig`](mcp_proto::host::control::ControlConfig),
//! [`CatalogueLimits`](mcp_proto::host::tools::CatalogueLimits) and [`HostEvents`]. Secrets are looked up again for each
//! connection, and never stored.
//!
//! # Tracing
//!
//! With the feature `tracing`, a host reports to the subscriber of the crate `tracing`, under the target
//! `mcp_hyper::host`:
//!
//! | event | level | fields |
//! |---|---|---|
//! | `server status` | `INFO`; `WARN` for a server that failed, is suspended or needs authorization | `server`, `status`, `error.type` |
//! | `server connected`, once its lists are read | `INFO` | `server`, `transport`, `era`, `mcp.protocol.version`, `server.name`, `server.version`, `tools`, `start_ms` |
//! | `call ended` | `DEBUG`; `INFO` if it failed or was cancelled | `server`, `mcp.method.name`, `gen_ai.tool.name`, `gen_ai.prompt.name`, `traceparent`, `latency_ms`, `outcome`, `phase` |
//!
//! `error.type` is `transient`, `permanent` or `needs_authorization`; `outcome` is `ok`, `tool_error` or `error`; `phase`
//! is `waiting` or `sent`. A call's request has a span of its own, [as of any client](mcp_proto::front), within the span
//! in which the call was made. Reasons, standard errors, arguments and URIs are in no field.

mod bounded_text;
mod calls;
mod connection;
mod connection_trace;
mod discovery;
mod driver;
mod events;
mod handle;
mod http_server_trace;
#[cfg(feature = "auth")]
mod login;
mod model;
mod options;
mod settings;
mod shared;
mod skills;
mod storage;
#[cfg(feature = "tracing")]
mod trace;
mod trace_file;
mod trace_writer;
mod watch;
mod wire;

pub use calls::HostRequest;
pub use connection_trace::ConnectionTrace;
pub use discovery::{
    create_private_folder, discover, known_files, look_up, read_file, real_path, replace_file,
};
pub use driver::HostDriver;
pub use events::{CallEnd, CallError, CallPhase, Counters, HostEvent, ItemCounts, ServerReport, StartSteps};
pub use handle::{Host, HostTool, ServerHold};
pub use http_server_trace::HttpServerTrace;
#[cfg(feature = "auth")]
pub use login::{HostLoginError, LoginPage};
pub use model::{ModelMessage, ModelMethod, ModelRequest, ToolCall, ToolCallDecision};
pub use options::HostOptions;
pub use settings::SkillOptions;
pub use shared::HostEvents;
pub use skills::{HostSkill, SkillListing, SkillsForModel};
pub use storage::{FileStorage, SpillFolder, Storage, StorageFuture};
pub use trace_file::TraceFile;
pub use watch::HostWatch;
pub use wire::{WireFrame, WireObserver};
