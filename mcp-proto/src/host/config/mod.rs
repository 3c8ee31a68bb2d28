//! Configuration of servers: files in, typed entries and errors out.
//!
//! # Formats
//!
//! | application | files | table of servers | references |
//! |---|---|---|---|
//! | Claude Code | `.mcp.json`, `.claude.json` | `mcpServers` | `${X}`, `${X:-default}` |
//! | Claude Desktop | `claude_desktop_config.json` | `mcpServers` | none |
//! | Cursor | `.cursor/mcp.json` | `mcpServers` | `${env:X}`, folders such as `${workspaceFolder}` |
//! | VS Code | `.vscode/mcp.json`, user `mcp.json`, `settings.json` (`mcp`) | `servers`, `inputs` | `${env:X}`, `${input:x}`, folders |
//! | Windsurf | `mcp_config.json` | `mcpServers`, with `serverUrl` | `${X}`, `${env:X}` |
//! | Gemini | `.gemini/settings.json` | `mcpServers`, with `httpUrl` | `$X`, `${X}`, `${X:-default}` |
//! | Zed | Zed's `settings.json` | `context_servers` | none |
//! | Codex | `.codex/config.toml` | `mcp_servers` | names in `bearer_token_env_var`, `env_http_headers`, `env_vars` |
//!
//! Where references are replaced, every form with braces is; only VS Code keeps `${X}` as it is, and only Gemini replaces
//! `$X`. Any other file may have any of these tables, and every form with braces. JSON may have comments and trailing
//! commas. Members without a meaning here are ignored and reported as [`Diagnostic`]s. Members that hold commands for a
//! shell, such as inputs of the type `command`, are never run.
//!
//! # Members
//!
//! Beside the members of its application, an entry in any file may have these:
//!
//! | member | meaning |
//! |---|---|
//! | `requestTimeoutMs` | the timeout of a call, its repetitions included, in milliseconds; 0 is none. Beside the table of servers it is that of all entries without one |
//! | `includePrompts`, `excludePrompts` | the only prompts that are offered, and those that are not, by patterns of names |
//! | `includeResources`, `excludeResources` | the same of resources and templates, by patterns of URIs |
//! | `keepAliveMs` | the pause between pings to a server of 2025-11-25 or earlier, in milliseconds; 0 is no pings |
//! | `maxReconnectAttempts` | how many attempts in a row may follow a failed one before the server is given up |
//! | `oauth.allowedHosts` | the only hosts for logins, beside the server's own |
//! | `chunkedResults` | whether results of tools are read in parts, from a server at a URL whose dialect has them |
//! | `required`, `lazy` | whether the application waits for the server at its start, and whether the server starts with its first call |
//!
//! # Steps
//!
//! 1. [`ConfigFile::parse`] reads one file: [`ServerEntry`]s, and a [`ConfigError`] for each entry that is wrong.
//! 2. [`Config::merge`] joins the files: the user's before the project's, each server once.
//! 3. [`Config::changes_to`] compares two configurations by meaning.
//! 4. [`ServerEntry::permit`] checks the approval of a project server. The [`Permit`](super::consent::Permit) lists the
//!    [`Lookup`]s that a start needs and resolves the entry with their [`Answers`].
//!
//! # Limits
//!
//! A user's file has at most [`USER_FILE_BYTES`], a project's [`PROJECT_FILE_BYTES`]. A file has at most
//! [`MAX_SERVERS`] servers, and so has the merged configuration, and [`MAX_INPUTS`] inputs of [`INPUT_BYTES`] each.

mod entry;
mod env_file;
mod error;
mod lines;
mod members;
mod merge;
mod read;
mod resolve;
mod spec;
mod syntax;
mod template;

pub use super::digest::{Fingerprint, ServerId};
pub use entry::{Application, Folders, Scope, ServerEntry, Source};
pub use env_file::{DotenvError, parse_dotenv};
pub use error::{ConfigError, ConfigErrorKind, Diagnostic, DiagnosticKind};
pub use merge::{Change, Changes, Config, NamedServer, OmissionReason, OmittedServer};
pub use read::ConfigFile;
pub use resolve::{ResolveError, ResolveErrorKind, ResolvedHttp, ResolvedSpec, ResolvedStdio};
pub use spec::{
    HttpSpec, HttpTransport, InputSpec, ItemLists, OauthSpec, ServerSpec, StdioSpec, TimeoutOverrides,
    TimeoutVariableError, Timeouts, TransportSpec,
};
pub use template::{Answers, Lookup, PredefinedVariable, Template};

pub(in crate::host) use env_file::EnvFileBinding;
pub(in crate::host) use resolve::Resolver;

/// Maximum bytes of a project's configuration file.
pub const PROJECT_FILE_BYTES: usize = 1024 * 1024;

/// Maximum bytes of a user's configuration file: 16 MiB, because some applications keep other state in the same file.
pub const USER_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum bytes of a file of environment variables.
pub const ENV_FILE_BYTES: usize = 1024 * 1024;

/// Maximum number of servers of a file, and of a merged configuration; also of a file's diagnostics, and of the
/// variables of a file of environment variables.
pub const MAX_SERVERS: usize = 1024;

/// Maximum number of inputs that a file declares: each may be shown for every server.
pub const MAX_INPUTS: usize = 64;

/// Maximum bytes of the declaration of an input.
pub const INPUT_BYTES: usize = 2048;

/// Maximum bytes of a server's name.
pub const NAME_BYTES: usize = 256;
