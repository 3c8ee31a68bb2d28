//! What an application with many servers needs around its clients: which servers there are, whether the user has
//! approved them, when each is started and tried again, and which of their tools a model sees. Nothing here reads a file, a
//! variable or a clock, starts a process or opens a connection.
//!
//! - [`config`]: the configuration files of the known applications, read into typed entries with an error for each
//!   entry that is wrong; variables and secrets that are looked up when a server starts; two configurations compared.
//! - [`consent`]: the servers that a project names start only after the user has approved exactly what would run.
//! - [`control`]: the state machine that decides when each server is started, tried again or given up, and when calls
//!   are sent.
//! - [`tools`]: the tools, prompts and resources of all servers under names that never change their meaning, with
//!   filters, pins and search, and their results as a model reads them.
//! - [`skills`]: the skills of all servers under names that show their origin, and what a model reads of them once the
//!   user has approved them.
//!
//! ```
//! use mcp_proto::host::config::{Answers, Config, ConfigFile, ResolvedSpec, Source};
//! use mcp_proto::host::consent::Approvals;
//!
//! // The application reads the files.
//! let text = br#"{ "mcpServers": { "files": { "command": "mcp-files", "args": ["/srv"] } } }"#;
//! let file = ConfigFile::parse(Source::project("/home/ann/app/.mcp.json"), text);
//! let config = Config::merge([file]);
//!
//! // A project server needs the user's approval.
//! let mut approvals = Approvals::new();
//! let server = &config.servers()[0];
//! if let Err(request) = server.permit(&approvals) {
//!     println!("{request}");
//!     approvals.insert(request.approve());
//! }
//!
//! // Variables and secrets are looked up each time that the server starts.
//! let permit = server.permit(&approvals).expect("the user has approved this server");
//! let resolved = permit.resolve(&Answers::new())?;
//! assert!(matches!(resolved, ResolvedSpec::Stdio(program) if program.command == "mcp-files"));
//! # Ok::<(), mcp_proto::host::config::ResolveError>(())
//! ```

pub mod config;
pub mod consent;
pub mod control;
mod digest;
pub mod skills;
pub mod tools;
