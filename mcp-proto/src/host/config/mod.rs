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

mod edit;
mod entry;
mod members;
mod merge;
mod read;
mod resolve;
mod spec;
mod syntax;
mod template;

use alloc::sync::Arc;
use core::fmt;

use entry::SERVER_TABLES;

use crate::consent::SafeText;
use crate::prelude::*;

pub use super::digest::{Fingerprint, ServerId};
pub use edit::{CommandText, EditError};
pub use entry::{Application, Folders, Scope, ServerEntry, Source};
pub use merge::{Change, Changes, Config, NamedServer, OmissionReason, OmittedServer};
pub use read::ConfigFile;
pub(in crate::host) use resolve::Resolver;
pub use resolve::{ResolveError, ResolveErrorKind, ResolvedHttp, ResolvedSpec, ResolvedStdio};
pub use spec::{
    HttpSpec, HttpTransport, InputSpec, ItemLists, OauthSpec, ServerSpec, StdioSpec, TimeoutOverrides,
    TimeoutVariableError, Timeouts, TransportSpec,
};
pub(in crate::host) use template::EnvFileBinding;
pub use template::{Answers, DotenvError, Lookup, PredefinedVariable, Template, parse_dotenv};

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

// Mistakes in a configuration.

/// An entry, or a whole file, that cannot be used. `Display` names the place, the mistake and the remedy, on one
/// line without control characters and without any value of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub source: Arc<Source>,
    /// The name of the entry; `None` if the whole file is meant.
    pub server: Option<String>,
    /// The mistake.
    pub kind: ConfigErrorKind,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.source, self.server.as_deref())?;
        self.kind.fmt(f)
    }
}

impl core::error::Error for ConfigError {}

fn write_place(f: &mut fmt::Formatter<'_>, source: &Source, server: Option<&str>) -> fmt::Result {
    write!(f, "{}: ", SafeText::line(&source.path))?;
    server.map_or(Ok(()), |server| write!(f, "server {:?}: ", Quoted(server)))
}

/// A text of a file within quotes.
struct Quoted<'a>(&'a str);

impl fmt::Debug for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", SafeText::line(self.0))
    }
}

/// A mistake in an entry or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The application could not read the file, for this reason.
    Unreadable(String),
    /// The file has more bytes than this.
    FileTooLarge(usize),
    /// The file is no JSON or TOML.
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// The member of this name should be a table of servers.
    NotATable(String),
    /// There are more than [`MAX_SERVERS`] servers; those after them are left out.
    TooManyServers,
    /// The name of the server is empty or longer than [`NAME_BYTES`].
    InvalidName,
    /// The file has an earlier server of this name.
    DuplicateName,
    /// The entry is no table.
    EntryNotATable,
    /// The entry has this member twice.
    DuplicateMember(String),
    /// A member is of the wrong type.
    WrongType {
        /// The member.
        member: String,
        /// The expected type.
        expected: &'static str,
    },
    /// A member has a value that cannot be used.
    InvalidValue {
        /// The member.
        member: String,
        /// Why the value cannot be used.
        reason: &'static str,
    },
    /// Two members contradict each other.
    ConflictingMembers(&'static str, &'static str),
    /// The entry has neither a command nor a URL, or not the one that its type needs.
    MissingTransport {
        /// The members of which one is needed.
        expected: &'static str,
    },
    /// The entry has a type of connection that is not supported.
    UnsupportedTransport(String),
    /// A member has a reference of a form that is not supported.
    UnsupportedReference {
        /// The member.
        member: String,
        /// The reference.
        reference: String,
    },
    /// The entry refers to an input that the file does not declare in a form that is supported.
    UndeclaredInput(String),
}

display_text! { ConfigErrorKind:
    Unreadable(reason) => "the file cannot be read: {}", SafeText::line(reason);
    FileTooLarge(most) => "the file is larger than {most} bytes";
    Syntax { line, column, message } => "line {line}, column {column}: {}", SafeText::line(message);
    NotATable(member) => "{:?} must be an object of servers by name", Quoted(member);
    TooManyServers => "there are more than {MAX_SERVERS} servers: those after them are left out";
    InvalidName => "the name of a server must have 1 to {NAME_BYTES} bytes";
    DuplicateName => "the file has another server of this name: rename one of them";
    EntryNotATable => "the entry must be an object";
    DuplicateMember(member) => "the entry has {:?} twice: remove one", Quoted(member);
    WrongType { member, expected } => "{:?} must be {expected}", Quoted(member);
    InvalidValue { member, reason } => "{:?}: {reason}", Quoted(member);
    ConflictingMembers(first, second) => "\"{first}\" and \"{second}\" contradict each other: remove one";
    MissingTransport { expected } => "the entry has no {expected}: add it";
    UnsupportedTransport(name) =>
        "connections of the type {:?} are not supported: use stdio, stdio-v2, http, sse or websocket", Quoted(name);
    UnsupportedReference { member, reference } =>
        "{:?}: {} is not supported: use ${{NAME}}, ${{NAME:-default}}, ${{env:NAME}} or ${{input:id}}", Quoted(member), SafeText::line(reference);
    UndeclaredInput(id) => "there is no input of the id {:?} that the user can type or pick", Quoted(id);
}

/// A part of a file that is ignored, which the user may want to know. `Display` writes one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file.
    pub source: Arc<Source>,
    /// The name of the entry; `None` if the whole file is meant.
    pub server: Option<String>,
    /// The part that is ignored.
    pub kind: DiagnosticKind,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.source, self.server.as_deref())?;
        self.kind.fmt(f)
    }
}

/// The kinds of parts of a file that are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The file has no table of servers.
    NoServers,
    /// The entry's member of this name has no meaning here.
    IgnoredMember(String),
    /// A declaration of an input that the user can neither type nor pick, that is too large, or one too many.
    IgnoredInput,
}

display_text! { DiagnosticKind:
    NoServers =>
        "the file has no servers: expected one of the tables {}", SERVER_TABLES.join(", ");
    IgnoredMember(member) => "{:?} is ignored", Quoted(member);
    IgnoredInput =>
        "an input is ignored: it needs an id and the type promptString or pickString, and has limits";
}
