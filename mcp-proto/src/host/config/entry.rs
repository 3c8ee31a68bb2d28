//! A server of the configuration, and where it was written.

use alloc::string::String;
use alloc::sync::Arc;

use super::{Application, Fingerprint, PROJECT_FILE_BYTES, ServerId, ServerSpec, USER_FILE_BYTES};

/// Whose configuration a server belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The user's own: the user has written it, and it needs no approval.
    User,
    /// A project's: its authors have written it, and the user approves it before it is used.
    Project,
}

impl Scope {
    pub(super) const fn max_bytes(self) -> usize {
        match self {
            Self::User => USER_FILE_BYTES,
            Self::Project => PROJECT_FILE_BYTES,
        }
    }
}

/// Where a server was configured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Whose file this is.
    pub scope: Scope,
    /// The path of the file as the application names it: absolute for a project, because approvals are bound to it.
    /// Empty for a server that the application itself configures.
    pub path: String,
    /// The application whose format the file has.
    pub application: Application,
}

impl Source {
    /// A file of the user. Its path tells the application.
    pub fn user(path: impl Into<String>) -> Self {
        Self::new(Scope::User, path.into())
    }

    /// A file of a project, with its absolute path, which tells the application.
    pub fn project(path: impl Into<String>) -> Self {
        Self::new(Scope::Project, path.into())
    }

    fn new(scope: Scope, path: String) -> Self {
        Self { scope, application: Application::from_path(&path), path }
    }
}

/// A configured server: its name, its source and its specification.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    id: ServerId,
    name: String,
    source: Arc<Source>,
    spec: ServerSpec,
    connection: Fingerprint,
    meaning: Fingerprint,
}

impl ServerEntry {
    /// A server that the application itself configures. It needs no approval.
    ///
    /// ```
    /// use mcp_proto::host::config::{ServerEntry, ServerSpec};
    ///
    /// let entry = ServerEntry::user("files", ServerSpec::stdio("mcp-files", ["/srv"]));
    /// assert_eq!(entry.name(), "files");
    /// ```
    pub fn user(name: impl Into<String>, spec: ServerSpec) -> Self {
        Self::new(name.into(), Arc::new(Source::user("")), spec)
    }

    pub(super) fn new(name: String, source: Arc<Source>, spec: ServerSpec) -> Self {
        let id = match source.scope {
            Scope::User => ServerId::user(&name),
            Scope::Project => ServerId::project(&source.path, &name),
        };
        let (connection, meaning) = (spec.connection(), spec.meaning());
        Self { id, name, source, spec, connection, meaning }
    }

    /// Identifies the server across reloads and restarts, whatever its entry says.
    pub const fn id(&self) -> ServerId {
        self.id
    }

    /// The name under which it is configured. A project chooses it freely: show it through
    /// [`SafeText`](crate::consent::SafeText).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it was configured.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The server's program or URL and its options, with references unresolved.
    pub const fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// Changes exactly when another program would run, or another URL be used, or in another way: a change needs a new
    /// connection. Two servers with the same connection are the same server.
    pub const fn connection(&self) -> Fingerprint {
        self.connection
    }

    /// Changes exactly when anything that the entry means changes; its source and its name are no part of it.
    pub const fn meaning(&self) -> Fingerprint {
        self.meaning
    }
}
