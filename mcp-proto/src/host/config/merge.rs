//! Several files as one configuration, and the difference of two configurations.

use alloc::sync::Arc;
use core::fmt;

use super::MAX_SERVERS;
use super::entry::{Scope, ServerEntry};
use super::read::ConfigFile;
use super::{ConfigError, Diagnostic};
use crate::consent::{SafeText, skeleton};
use crate::host::digest::{Fingerprint, ServerId};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

/// The servers of several files, each once, and the servers that were omitted.
#[derive(Clone, Debug, Default)]
pub struct Config {
    servers: Vec<Arc<ServerEntry>>,
    omitted: Vec<OmittedServer>,
    errors: Vec<ConfigError>,
    diagnostics: Vec<Diagnostic>,
}

impl Config {
    /// Merges files: the user's in the given order, then the project's in theirs.
    ///
    /// - The first server of a name counts. A project's server never takes the name of a user's, not even of one that
    ///   is disabled, filtered out or wrong, and no name that looks like it either. Of a user's file that cannot be
    ///   parsed, all texts that may be names count.
    /// - A server that is already there under another name is left out if both are enabled.
    pub fn merge(files: impl IntoIterator<Item = ConfigFile>) -> Self {
        Self::merge_filtered(files, |_| true)
    }

    /// Merges files as [`merge`](Self::merge) does, without the servers for which `keep` returns `false`: those that
    /// the application provides by itself, or all of a project.
    ///
    /// ```
    /// use mcp_proto::host::config::{Config, ConfigFile, OmissionReason, Scope, Source};
    ///
    /// let text = br#"{ "servers": { "search": { "url": "https://search.example" } } }"#;
    /// let files = [
    ///     ConfigFile::parse(Source::user("/home/ann/mcp.json"), text),
    ///     ConfigFile::parse(Source::project("/work/app/.vscode/mcp.json"), text),
    /// ];
    /// let config = Config::merge_filtered(files, |server| server.name() != "browser");
    /// assert_eq!(config.servers().len(), 1);
    /// assert_eq!(config.servers()[0].source().scope, Scope::User);
    /// assert!(matches!(config.omitted()[0].reason, OmissionReason::NameTaken));
    /// ```
    pub fn merge_filtered(
        files: impl IntoIterator<Item = ConfigFile>,
        mut keep: impl FnMut(&ServerEntry) -> bool,
    ) -> Self {
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_by_key(|file| file.source.scope);
        let mut config = Self::default();
        let mut known = KnownServers::default();
        for file in files {
            if file.source.scope == Scope::User {
                known.reserve(&file);
            }
            for server in file.servers {
                let reason = known.omission_reason(&server, &mut keep);
                let reason = reason.or_else(|| {
                    (config.servers.len() >= MAX_SERVERS).then_some((OmissionReason::TooMany, None))
                });
                let server = Arc::new(server);
                match reason {
                    Some((reason, other)) => config.omitted.push(OmittedServer { server, reason, other }),
                    None => {
                        known.add(&server);
                        config.servers.push(server);
                    }
                }
            }
            config.errors.extend(file.errors);
            config.diagnostics.extend(file.diagnostics);
        }
        config
    }

    /// The servers, those of the user first, enabled or not.
    pub fn servers(&self) -> &[Arc<ServerEntry>] {
        &self.servers
    }

    /// The server of this id.
    pub fn get(&self, id: ServerId) -> Option<&Arc<ServerEntry>> {
        self.servers.iter().find(|server| server.id() == id)
    }

    /// The server of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<ServerEntry>> {
        self.servers.iter().find(|server| server.name() == name)
    }

    /// What changes if `next` replaces this configuration: after a file has changed, or for another project.
    ///
    /// ```
    /// use mcp_proto::host::config::{Config, ConfigFile, Source};
    ///
    /// let config = |text: &str| {
    ///     Config::merge([ConfigFile::parse(Source::user("/home/ann/mcp.json"), text.as_bytes())])
    /// };
    /// let before = config(r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#);
    /// let after = config(r#"{ "mcpServers": { "b": { "args": [], "command": "b" }, "c": { "command": "c" } } }"#);
    /// let changes = before.changes_to(&after);
    /// assert_eq!(changes.added[0].name(), "c");
    /// assert_eq!(changes.removed, [before.find("a").unwrap().id()]);
    /// assert_eq!(changes.unchanged, [before.find("b").unwrap().id()]);
    /// assert!(changes.changed.is_empty());
    /// ```
    pub fn changes_to(&self, next: &Self) -> Changes {
        let mut before: OrderedMap<_, _> =
            self.servers().iter().map(|server| (server.id(), server)).collect();
        let mut changes = Changes::default();
        for server in next.servers() {
            match before.remove(&server.id()) {
                None => changes.added.push(server.clone()),
                Some(known) if known.meaning() == server.meaning() => changes.unchanged.push(server.id()),
                Some(known) => changes.changed.push(Change {
                    server: server.clone(),
                    needs_reconnect: known.connection() != server.connection(),
                }),
            }
        }
        changes.removed = before.into_keys().collect();
        changes
    }

    /// The servers that were left out.
    pub fn omitted(&self) -> &[OmittedServer] {
        &self.omitted
    }

    /// The errors of the files.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// The ignored parts of the files.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

/// The names and connections of the servers so far.
#[derive(Default)]
struct KnownServers {
    names: OrderedMap<String, NamedServer>,
    /// The names of the user's servers in lower case, of those too that are wrong or filtered out: no project gets
    /// one of them.
    reserved: OrderedMap<String, NamedServer>,
    /// The same names as a reader sees them.
    skeletons: OrderedMap<String, NamedServer>,
    /// The connections of enabled servers.
    connections: OrderedMap<Fingerprint, (ServerId, NamedServer)>,
}

impl KnownServers {
    fn reserve(&mut self, file: &ConfigFile) {
        let wrong = file.errors.iter().filter_map(|error| error.server.as_deref());
        let names = file.servers.iter().map(ServerEntry::name).chain(wrong);
        let path: Arc<str> = file.source.path.as_str().into();
        for name in names.chain(file.possible_names.iter().map(String::as_str)) {
            let server = || NamedServer { name: name.into(), path: path.clone() };
            self.reserved.entry(name.to_lowercase()).or_insert_with(server);
            self.skeletons.entry(skeleton(name)).or_insert_with(server);
        }
    }

    /// Why a server is left out, and the server in its place.
    fn omission_reason(
        &self,
        server: &ServerEntry,
        keep: &mut impl FnMut(&ServerEntry) -> bool,
    ) -> Option<(OmissionReason, Option<NamedServer>)> {
        let is_of_project = server.source().scope == Scope::Project;
        let reserved = || self.reserved.get(&server.name().to_lowercase());
        let taken = self.names.get(server.name()).or_else(|| reserved().filter(|_| is_of_project));
        if taken.is_some() {
            return Some((OmissionReason::NameTaken, taken.cloned()));
        }
        let similar = is_of_project.then(|| self.skeletons.get(&skeleton(server.name()))).flatten();
        if similar.is_some() {
            return Some((OmissionReason::SimilarName, similar.cloned()));
        }
        if !keep(server) {
            return Some((OmissionReason::Filtered, None));
        }
        let same = self.connections.get(&server.connection()).filter(|_| server.spec().enabled);
        same.map(|(id, same)| (OmissionReason::SameServer(*id), Some(same.clone())))
    }

    fn add(&mut self, server: &ServerEntry) {
        let named = NamedServer { name: server.name().into(), path: server.source().path.as_str().into() };
        if server.spec().enabled {
            self.connections.insert(server.connection(), (server.id(), named.clone()));
        }
        self.names.insert(server.name().into(), named);
    }
}

/// A server that was left out of a configuration. `Display` writes one line, which names the other server.
#[derive(Clone, Debug)]
pub struct OmittedServer {
    /// The server.
    pub server: Arc<ServerEntry>,
    /// Why it was left out.
    pub reason: OmissionReason,
    /// The server with its name, a name like it, or its program or URL.
    pub other: Option<NamedServer>,
}

impl fmt::Display for OmittedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = SafeText::line(&self.server.source().path);
        write!(f, "{path}: server \"{}\": ", SafeText::line(self.server.name()))?;
        match (self.reason, &self.other) {
            (OmissionReason::NameTaken, Some(other)) => {
                write!(f, "{other} has the name: rename one of them")
            }
            (OmissionReason::SimilarName, Some(other)) => {
                write!(f, "your server {other} has a name that looks like it: rename one of them")
            }
            (OmissionReason::SameServer(_), Some(other)) => {
                write!(f, "the same server is configured as {other}")
            }
            (reason, _) => write!(f, "{reason}"),
        }
    }
}

/// A server by its name and file. `Display` writes both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedServer {
    /// Its name.
    pub name: Arc<str>,
    /// The path of its file; empty for a server that the application itself configures.
    pub path: Arc<str>,
}

impl fmt::Display for NamedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", SafeText::line(&self.name))?;
        if self.path.is_empty() { Ok(()) } else { write!(f, " in {}", SafeText::line(&self.path)) }
    }
}

/// Why a server was left out of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OmissionReason {
    /// Another server has the name: an earlier one of the same kind, or a user's server, which may itself be wrong or
    /// filtered out.
    NameTaken,
    /// A user's server has a name that looks like this one of a project's.
    SimilarName,
    /// This server has the same program or URL.
    SameServer(ServerId),
    /// The application's filter does not keep it.
    Filtered,
    /// The configuration has [`MAX_SERVERS`] servers already.
    TooMany,
}

display_text! { OmissionReason:
    NameTaken => "another server has the name: rename one of them";
    SimilarName => "one of your servers has a name that looks like it: rename one of them";
    SameServer(_) => "the same server is configured under another name";
    Filtered => "the application does not use it";
    TooMany => "there are {MAX_SERVERS} servers already";
}

/// The difference of two configurations, by server id and meaning. An unchanged server needs no action.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Servers that are new.
    pub added: Vec<Arc<ServerEntry>>,
    /// Servers that are gone.
    pub removed: Vec<ServerId>,
    /// Servers that mean something else.
    pub changed: Vec<Change>,
    /// Servers that mean the same. Their files may have changed in other ways.
    pub unchanged: Vec<ServerId>,
}

/// A server that means something else than before.
#[derive(Clone, Debug)]
pub struct Change {
    /// The server as it is configured now.
    pub server: Arc<ServerEntry>,
    /// Whether it needs a new connection; otherwise only timeouts, tools or flags are different.
    pub needs_reconnect: bool,
}

impl Changes {
    /// Whether nothing needs to be done.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
