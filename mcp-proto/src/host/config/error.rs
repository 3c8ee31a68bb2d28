//! Mistakes in a configuration.

use alloc::sync::Arc;
use core::fmt;

use super::entry::{SERVER_TABLES, Source};
use super::{MAX_SERVERS, NAME_BYTES};
use crate::consent::SafeText;
use crate::prelude::*;

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
        "connections of the type {:?} are not supported: use stdio, http, sse or websocket", Quoted(name);
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
