//! The difference of two configurations.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Config, ServerEntry, ServerId};

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

impl Config {
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
        let mut before: BTreeMap<_, _> = self.servers().iter().map(|server| (server.id(), server)).collect();
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
}
