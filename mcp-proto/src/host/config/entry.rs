//! A server of the configuration, and where it was written.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Application, Fingerprint, PROJECT_FILE_BYTES, ServerId, ServerSpec, Template, USER_FILE_BYTES};
use super::{StdioSpec, TransportSpec, folder};

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

    /// The folder of the project, in which its programs run: the folder of the file, or the one around it if that is the
    /// folder of an application, such as `.vscode`. `None` for a file of the user, and for a path that is not absolute.
    ///
    /// ```
    /// use mcp_proto::host::config::Source;
    ///
    /// assert_eq!(Source::project("/work/app/.vscode/mcp.json").folder(), Some("/work/app"));
    /// assert_eq!(Source::user("/home/ann/.cursor/mcp.json").folder(), None);
    /// ```
    pub fn folder(&self) -> Option<&str> {
        match self.scope {
            Scope::User => None,
            Scope::Project => folder::project_folder(&self.path),
        }
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

    /// The folder in which the program runs, as far as the entry says it: a project's runs in the
    /// [folder of the project](Source::folder) unless it has another, and a user's in the application's.
    pub(in crate::host) fn working_folder(&self) -> Option<String> {
        let TransportSpec::Stdio(stdio) = &self.spec.transport else { return None };
        let written = stdio.cwd.as_ref().map(Template::text);
        let Some(project) = self.source.folder() else { return written };
        let is_literal = stdio.cwd.as_ref().is_none_or(Template::is_literal);
        match written {
            Some(written) if !is_literal => Some(written),
            written => Some(folder::join(project, &written.unwrap_or_default())),
        }
    }

    /// Whether the folder in which the program runs depends on values that no request shows.
    pub(in crate::host) fn has_hidden_folder(&self) -> bool {
        let TransportSpec::Stdio(StdioSpec { cwd: Some(cwd), .. }) = &self.spec.transport else {
            return false;
        };
        let is_known = |lookup| self.source.folder().and_then(|it| folder::value_of(it, lookup)).is_some();
        !cwd.lookups().all(is_known)
    }

    /// The texts of the command and the arguments that may name files in the application's working directory: those of
    /// a user's entry without `cwd` that are relative paths, or name a module of Python. Another application starts the
    /// program elsewhere, and a file or folder of that name in the folder of a project is the project's.
    ///
    /// ```
    /// use mcp_proto::host::config::{ServerEntry, ServerSpec};
    ///
    /// let entry = ServerEntry::user("a", ServerSpec::stdio("python3", ["-u", "server.py", "--data=/srv"]));
    /// assert_eq!(entry.relative_paths(), ["server.py"]);
    /// ```
    pub fn relative_paths(&self) -> Vec<String> {
        let TransportSpec::Stdio(stdio) = &self.spec.transport else { return Vec::new() };
        if self.source.scope == Scope::Project || stdio.cwd.is_some() {
            return Vec::new();
        }
        let command = Some(stdio.command.text()).filter(|command| folder::has_folder(command));
        let mut paths: Vec<String> = command.into_iter().collect();
        let mut names_module = false;
        for argument in stdio.args.iter().map(Template::text) {
            let module = argument.strip_prefix("-m").filter(|name| !name.is_empty() && !name.contains('='));
            // `--config=FILE` names a file too.
            let option = argument.strip_prefix('-').and_then(|option| option.split_once('='));
            match option.map_or(argument.as_str(), |(_, value)| value) {
                word if names_module || module.is_some() => {
                    // `python -m NAME.of.module` looks in the working directory first.
                    let name = module.unwrap_or(word).split('.').next().unwrap_or_default();
                    paths.extend([name.into(), alloc::format!("{name}.py")]);
                }
                path if path.starts_with('-') || path.is_empty() => {}
                path => paths.push(path.into()),
            }
            names_module = argument == "-m";
        }
        paths.retain(|path| !folder::is_absolute(path));
        paths
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
