//! Configured servers, and where: applications, their files, and the folders of projects.

use alloc::sync::Arc;

use super::spec::{ServerSpec, StdioSpec, TransportSpec};
use super::template::{Lookup, PredefinedVariable, References, Template};
use super::{PROJECT_FILE_BYTES, USER_FILE_BYTES};
use crate::host::digest::{Fingerprint, ServerId};
use crate::prelude::*;

/// Whose configuration a server belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The user's own: the user has written it, and it needs no approval.
    User,
    /// A project's: its authors have written it, and the user approves it before it is used.
    Project,
}

impl Scope {
    /// Maximum bytes of a configuration file: [`USER_FILE_BYTES`] or [`PROJECT_FILE_BYTES`].
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::User => USER_FILE_BYTES,
            Self::Project => PROJECT_FILE_BYTES,
        }
    }
}

//= F86 "Several sources, each known for every entry"
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
            Scope::Project => project_folder(&self.path),
        }
    }

    /// The files of the known applications, the project's before the user's; most do not exist.
    ///
    /// ```
    /// use mcp_proto::host::config::{Application, Folders, Source};
    ///
    /// let folders = Folders { home: "/home/ann", settings: "/home/ann/.config", project: Some("/work/app") };
    /// let files = Source::known_files(&folders);
    /// assert!(files.contains(&Source::project("/work/app/.vscode/mcp.json")));
    /// let codex = files.iter().find(|file| file.application == Application::Codex).unwrap();
    /// assert_eq!(codex.path, "/work/app/.codex/config.toml");
    /// ```
    pub fn known_files(folders: &Folders<'_>) -> Vec<Self> {
        let in_project = [
            ".mcp.json",
            ".cursor/mcp.json",
            ".vscode/mcp.json",
            ".gemini/settings.json",
            ".zed/settings.json",
            ".codex/config.toml",
        ];
        let in_home = [
            ".claude.json",
            ".cursor/mcp.json",
            ".codeium/windsurf/mcp_config.json",
            ".gemini/settings.json",
            // On macOS too.
            ".config/zed/settings.json",
            ".codex/config.toml",
        ];
        let in_settings =
            ["Claude/claude_desktop_config.json", "Code/User/mcp.json", "Code/User/settings.json"];
        let path = |folder: &str, file: &str| format!("{}/{file}", folder.trim_end_matches('/'));
        let project =
            folders.project.into_iter().flat_map(|folder| in_project.map(|file| path(folder, file)));
        let home = in_home.map(|file| path(folders.home, file));
        let settings = in_settings.map(|file| path(folders.settings, file));
        let user = home.into_iter().chain(settings).map(Self::user);
        project.map(Self::project).chain(user).collect()
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
    line: Option<usize>,
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
        Self::new(name.into(), Arc::new(Source::user("")), None, spec)
    }

    pub(super) fn new(name: String, source: Arc<Source>, line: Option<usize>, spec: ServerSpec) -> Self {
        let id = match source.scope {
            Scope::User => ServerId::user(&name),
            Scope::Project => ServerId::project(&source.path, &name),
        };
        let (connection, meaning) = (spec.connection(), spec.meaning());
        Self { id, name, source, line, spec, connection, meaning }
    }

    /// The same entry, its program in this folder unless it names another.
    pub(super) fn in_folder(self, folder: &str) -> Self {
        let Self { name, source, line, mut spec, .. } = self;
        if let TransportSpec::Stdio(stdio) = &mut spec.transport {
            stdio.cwd.get_or_insert_with(|| Template::literal(folder));
        }
        Self::new(name, source, line, spec)
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

    /// Returns the line of its name in the file, from 1; `None` for a server that the application itself configures.
    ///
    /// ```
    /// use mcp_proto::host::config::{ConfigFile, Source};
    ///
    /// let text = b"{ // mine\n\"mcpServers\": {\n\"search\": { \"url\": \"https://search.example/mcp\" } } }";
    /// let file = ConfigFile::parse(Source::user("/home/ann/.cursor/mcp.json"), text);
    /// assert_eq!(file.servers[0].line(), Some(3));
    /// ```
    pub const fn line(&self) -> Option<usize> {
        self.line
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
            written => Some(join(project, &written.unwrap_or_default())),
        }
    }

    /// The value that a project's entry gets for a variable which is the folder of the project: it means no other, wherever
    /// the application runs.
    pub(in crate::host) fn project_value(&self, lookup: &Lookup) -> Option<&str> {
        use PredefinedVariable::{WorkingDirectory, WorkspaceFolder, WorkspaceFolderBasename};
        let folder = self.source.folder()?;
        match lookup {
            Lookup::Predefined(WorkspaceFolder | WorkingDirectory) => Some(folder),
            Lookup::Predefined(WorkspaceFolderBasename) => {
                split(folder).map_or(Some(folder), |(_, name)| Some(name))
            }
            Lookup::Variable(name) if name == "PWD" => Some(folder),
            _ => None,
        }
    }

    /// Whether the folder in which the program runs depends on values that no request shows.
    pub(in crate::host) fn has_hidden_folder(&self) -> bool {
        let TransportSpec::Stdio(StdioSpec { cwd: Some(cwd), .. }) = &self.spec.transport else {
            return false;
        };
        !cwd.lookups().all(|lookup| self.project_value(lookup).is_some())
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
        let command = Some(stdio.command.text()).filter(|command| has_folder(command));
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
                    paths.extend([name.into(), format!("{name}.py")]);
                }
                path if path.starts_with('-') || path.is_empty() => {}
                path => paths.push(path.into()),
            }
            names_module = argument == "-m";
        }
        paths.retain(|path| !is_absolute(path));
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

/// Folders in which applications look for their configuration. Either kind of slash separates their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folders<'a> {
    /// The user's home.
    pub home: &'a str,
    /// Where applications keep their settings: `$XDG_CONFIG_HOME` or `~/.config`, on macOS
    /// `~/Library/Application Support`, on Windows `%APPDATA%`.
    pub settings: &'a str,
    /// The folder of the project, if one is open.
    pub project: Option<&'a str>,
}

/// The application whose format a configuration file has.
///
/// ```
/// use mcp_proto::host::config::Application;
///
/// assert_eq!(Application::from_path("/home/ann/.gemini/settings.json"), Application::Gemini);
/// assert_eq!(Application::from_path(r"C:\work\app\.vscode\mcp.json"), Application::VsCode);
/// assert_eq!(Application::from_path("servers.json"), Application::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Application {
    /// Claude Code: `.mcp.json` of a project, and `.claude.json`.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Codex, in TOML.
    Codex,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Any other: every form is accepted.
    Other,
}

impl Application {
    /// Recognises the application by the path of its file, with either kind of slash.
    pub fn from_path(path: &str) -> Self {
        let path = path.replace('\\', "/").to_ascii_lowercase();
        let ends_with = |end: &str| {
            path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let endings: [(&str, Self); 12] = [
            ("claude_desktop_config.json", Self::ClaudeDesktop),
            (".mcp.json", Self::ClaudeCode),
            (".claude.json", Self::ClaudeCode),
            (".cursor/mcp.json", Self::Cursor),
            (".vscode/mcp.json", Self::VsCode),
            ("code/user/mcp.json", Self::VsCode),
            ("code/user/settings.json", Self::VsCode),
            ("mcp_config.json", Self::Windsurf),
            (".gemini/settings.json", Self::Gemini),
            ("zed/settings.json", Self::Zed),
            (".zed/settings.json", Self::Zed),
            (".codex/config.toml", Self::Codex),
        ];
        endings
            .into_iter()
            .find(|(end, _)| ends_with(end))
            .map_or(Self::Other, |(_, application)| application)
    }

    /// The name as its maker writes it; `other` for [`Other`](Self::Other).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
            Self::Other => "other",
        }
    }

    /// Which references this application replaces in texts.
    pub(super) const fn references(self) -> References {
        match self {
            Self::ClaudeDesktop | Self::Codex | Self::Zed => References::None,
            Self::VsCode => References::Prefixed,
            Self::Gemini => References::WithoutBraces,
            Self::ClaudeCode | Self::Cursor | Self::Windsurf | Self::Other => References::Braces,
        }
    }

    /// Whether the member `timeout` counts seconds rather than milliseconds.
    pub(super) const fn timeout_is_in_seconds(self) -> bool {
        matches!(self, Self::Zed)
    }

    /// Whether the member `timeout` applies to the start of a server too, not only to its calls.
    pub(super) const fn timeout_covers_start(self) -> bool {
        !matches!(self, Self::ClaudeCode | Self::Zed)
    }
}

/// The names of the table of servers.
pub(super) const SERVER_TABLES: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// The folders of applications within a project.
const APPLICATION_FOLDERS: [&str; 5] = [".codex", ".cursor", ".gemini", ".vscode", ".zed"];

/// The folder of the project whose file has this path: the folder of the file, or the one around the folder of an
/// application. `None` if the path is not absolute.
fn project_folder(path: &str) -> Option<&str> {
    let (parent, _) = split(path).filter(|_| is_absolute(path))?;
    let around = split(parent)
        .filter(|(_, name)| APPLICATION_FOLDERS.iter().any(|folder| folder.eq_ignore_ascii_case(name)));
    Some(around.map_or(parent, |(around, _)| around))
}

/// Whether this path begins at a root, of Unix or of Windows.
pub(super) fn is_absolute(path: &str) -> bool {
    let mut characters = path.chars();
    match (characters.next(), characters.next(), characters.next()) {
        (Some('/'), ..) | (Some('\\'), Some('\\'), _) => true,
        (Some(drive), Some(':'), Some('/' | '\\')) => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The path, which begins in this folder unless it is absolute.
pub(super) fn join(folder: &str, path: &str) -> String {
    if is_absolute(path) {
        return path.into();
    }
    let separator = if folder.starts_with('/') { '/' } else { '\\' };
    let path = path.strip_prefix("./").unwrap_or(path);
    match path {
        "" | "." => folder.into(),
        _ => format!("{}{separator}{path}", folder.trim_end_matches(separator)),
    }
}

/// Whether the path begins with the folder.
pub(super) fn contains(folder: &str, path: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches(is_any_separator));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_any_separator))
}

/// Whether the path has a step to the folder around another one.
pub(super) fn has_step_upwards(path: &str) -> bool {
    path.split(is_any_separator).any(|name| name == "..")
}

/// Whether this relative path names a file rather than a program to search for.
pub(super) fn has_folder(path: &str) -> bool {
    path.contains(is_any_separator)
}

/// The folder of a path, with its separator only if it is a root, and the name in it.
fn split(path: &str) -> Option<(&str, &str)> {
    let at = path.rfind(|c| is_separator(path, c))?;
    let (folder, name) = path.split_at_checked(at)?;
    let name = name.get(1..)?;
    let is_root = folder.is_empty() || folder.ends_with(':');
    Some((if is_root { path.get(..=at)? } else { folder }, name)).filter(|_| !name.is_empty())
}

/// Whether this separates the parts of such a path: a backslash does not in a path that begins with a slash.
fn is_separator(path: &str, c: char) -> bool {
    c == '/' || (c == '\\' && !path.starts_with('/'))
}

const fn is_any_separator(c: char) -> bool {
    matches!(c, '/' | '\\')
}
