//! Several files as one configuration.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::{ConfigError, ConfigFile, Diagnostic, Fingerprint, MAX_SERVERS, Scope, ServerEntry, ServerId};
use crate::consent::SafeText;

/// The servers of several files, each once, with everything that was left out and why.
#[derive(Clone, Debug, Default)]
pub struct Config {
    servers: Vec<Arc<ServerEntry>>,
    left_out: Vec<LeftOut>,
    errors: Vec<ConfigError>,
    diagnostics: Vec<Diagnostic>,
}

impl Config {
    /// Merges files: the user's in the given order, then the project's in theirs.
    ///
    /// - The first server of a name counts. A project's server never takes the name of a user's, not even of one that
    ///   is disabled, filtered out or wrong; names that differ only in case are the same name here.
    /// - A server that is already there under another name is left out if both are enabled.
    pub fn merge(files: impl IntoIterator<Item = ConfigFile>) -> Self {
        Self::merge_filtered(files, |_| true)
    }

    /// Merges files as [`merge`](Self::merge) does, without the servers for which `keep` returns `false`: those that
    /// the application provides by itself, or all of a project.
    ///
    /// ```
    /// use mcp_proto::host::config::{Config, ConfigFile, LeftOutReason, Scope, Source};
    ///
    /// let text = br#"{ "servers": { "search": { "url": "https://search.example" } } }"#;
    /// let files = [
    ///     ConfigFile::parse(Source::user("/home/ann/mcp.json"), text),
    ///     ConfigFile::parse(Source::project("/work/app/.vscode/mcp.json"), text),
    /// ];
    /// let config = Config::merge_filtered(files, |server| server.name() != "browser");
    /// assert_eq!(config.servers().len(), 1);
    /// assert_eq!(config.servers()[0].source().scope, Scope::User);
    /// assert!(matches!(config.left_out()[0].reason, LeftOutReason::NameTaken(_)));
    /// ```
    pub fn merge_filtered(
        files: impl IntoIterator<Item = ConfigFile>,
        mut keep: impl FnMut(&ServerEntry) -> bool,
    ) -> Self {
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_by_key(|file| file.source.scope);
        let mut config = Self::default();
        let mut names = BTreeMap::new();
        let mut connections = BTreeMap::new();
        for file in files {
            // A project must not get the name of a user's server while that one has a mistake.
            let wrong = file.errors.iter().filter_map(|error| error.server.as_deref());
            let wrong: BTreeSet<_> = wrong.map(str::to_ascii_lowercase).collect();
            for server in file.servers {
                if let Some(reason) = config.reason_to_leave_out(&server, &names, &connections, &mut keep) {
                    if file.source.scope == Scope::User {
                        names.entry(server.name().to_ascii_lowercase()).or_insert(server.id());
                    }
                    config.left_out.push(LeftOut { server: Arc::new(server), reason });
                    continue;
                }
                names.insert(server.name().to_ascii_lowercase(), server.id());
                if server.spec().enabled {
                    connections.insert(server.connection(), server.id());
                }
                config.servers.push(Arc::new(server));
            }
            if file.source.scope == Scope::User {
                for name in wrong {
                    if let Entry::Vacant(free) = names.entry(name) {
                        let id = ServerId::user(free.key());
                        free.insert(id);
                    }
                }
            }
            config.errors.extend(file.errors);
            config.diagnostics.extend(file.diagnostics);
        }
        config
    }

    fn reason_to_leave_out(
        &self,
        server: &ServerEntry,
        names: &BTreeMap<String, ServerId>,
        connections: &BTreeMap<Fingerprint, ServerId>,
        keep: &mut impl FnMut(&ServerEntry) -> bool,
    ) -> Option<LeftOutReason> {
        if let Some(owner) = names.get(&server.name().to_ascii_lowercase()) {
            return Some(LeftOutReason::NameTaken(*owner));
        }
        if !keep(server) {
            return Some(LeftOutReason::Filtered);
        }
        if let Some(same) = connections.get(&server.connection()).filter(|_| server.spec().enabled) {
            return Some(LeftOutReason::SameServer(*same));
        }
        (self.servers.len() >= MAX_SERVERS).then_some(LeftOutReason::TooMany)
    }

    /// Adds a server that the application itself configures, before the next comparison.
    ///
    /// # Errors
    /// If it must be left out; says why.
    pub fn insert(&mut self, server: ServerEntry) -> Result<ServerId, LeftOutReason> {
        let names =
            self.servers.iter().map(|known| (known.name().to_ascii_lowercase(), known.id())).collect();
        let enabled = self.servers.iter().filter(|known| known.spec().enabled);
        let connections = enabled.map(|known| (known.connection(), known.id())).collect();
        match self.reason_to_leave_out(&server, &names, &connections, &mut |_| true) {
            Some(reason) => Err(reason),
            None => {
                let id = server.id();
                self.servers.push(Arc::new(server));
                Ok(id)
            }
        }
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

    /// The servers that were left out.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// What was wrong in the files.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// What was ignored in the files.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

/// A server that was left out of a configuration. `Display` writes one line.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The server.
    pub server: Arc<ServerEntry>,
    /// Why it was left out.
    pub reason: LeftOutReason,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = SafeText::line(&self.server.source().path);
        write!(f, "{path}: server \"{}\": {}", SafeText::line(self.server.name()), self.reason)
    }
}

/// Why a server was left out of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// This server has the name. It may itself be wrong or filtered out.
    NameTaken(ServerId),
    /// This server has the same program or URL.
    SameServer(ServerId),
    /// The application's filter does not keep it.
    Filtered,
    /// The configuration has [`MAX_SERVERS`] servers already.
    TooMany,
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(_) => f.write_str("another server has the name: rename one of them"),
            Self::SameServer(_) => f.write_str("the same server is configured under another name"),
            Self::Filtered => f.write_str("the application does not use it"),
            Self::TooMany => write!(f, "there are {MAX_SERVERS} servers already"),
        }
    }
}
