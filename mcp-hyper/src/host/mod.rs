//! Many servers at once: programs and URLs from configuration files, kept connected, their tools under names for a
//! model.
//!
//! A [`Host`] starts all servers of a [`Config`](mcp_proto::host::config::Config) in parallel, reconnects what it
//! loses, and sends each call to its server, which it waits for. What it decides, and when, is described at
//! [`mcp_proto::host::control`]; names, pins and search at [`mcp_proto::host::tools`]; the approval of servers that a
//! project names at [`mcp_proto::host::consent`].
//!
//! ```no_run
//! use mcp_hyper::host::HostOptions;
//! use mcp_proto::host::config::{Config, ConfigFile, Source};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! smol::block_on(async {
//!     let path = "/home/ann/.cursor/mcp.json";
//!     let file = ConfigFile::parse(Source::user(path), &std::fs::read(path)?);
//!     let (host, driver) = HostOptions::new("my-agent", "1.0.0").config(Config::merge([file])).start();
//!     smol::spawn(driver).detach();
//!
//!     host.ready().await;
//!     for tool in host.tools() {
//!         println!("{}: {}", tool.name, tool.tool.description.unwrap_or_default());
//!     }
//!     let result = host.call_tool("mcp__files__read", json!({ "path": "notes.txt" })).await?;
//!     println!("{}", result.text_content());
//!     for server in host.servers() {
//!         println!("{}: {}", server.name, server.status);
//!     }
//!     host.close().await;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # Limits
//!
//! Calls, attempts, lists, events and standard errors are bounded: see
//! [`ControlConfig`](mcp_proto::host::control::ControlConfig),
//! [`CatalogueLimits`](mcp_proto::host::tools::CatalogueLimits) and [`HostEvents`]. Secrets are looked up anew for each
//! connection, and never stored.

mod calls;
mod connection;
mod driver;
mod events;
mod failure;
mod handle;
mod lists;
mod lookups;
mod open;
mod options;
mod report;
mod shared;
mod stop;

pub use calls::{CallError, HostRequest};
pub use driver::HostDriver;
pub use events::{CallEnd, CallPhase, HostEvent, HostEvents};
pub use handle::{Host, HostTool};
pub use options::HostOptions;
pub use report::{Counters, ServerReport};
