//! The configuration files of a command, what is wrong in them, and the commands to paste that mend it.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mcp_hyper::host::read_file;
use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, Application, Config, ConfigErrorKind, ConfigFile, ENV_FILE_BYTES, Folders, HttpSpec, Lookup,
    PROJECT_FILE_BYTES, PredefinedVariable, ResolveErrorKind, Scope, ServerEntry, Source, TransportSpec,
    USER_FILE_BYTES,
};
use mcp_proto::host::consent::{ApprovalRequest, ApprovalWarning, Approvals, Permit};
use mcp_proto::host::control::Status;

use crate::connect::quoted_word;
use crate::error::CommandError;
use crate::options::ConfigOptions;
use crate::server_requests::is_person_present;
use crate::terminal::Screen;
use crate::text::{BAD, QUIET, styled};

/// Configuration files that were read.
#[derive(Clone)]
pub(super) struct Configuration {
    pub(super) files: Vec<ConfigFile>,
    /// The project's folder; without a project's file, the working directory.
    pub(super) folder: PathBuf,
}

impl Configuration {
    /// Reads the files that the command line names. One that cannot be read has an error instead of servers.
    ///
    /// # Errors
    /// If a path is not UTF-8, or the files belong to several projects.
    pub(super) fn read(options: &ConfigOptions) -> Result<Self, CommandError> {
        let known = known_user_files();
        let mut sources = Vec::new();
        let mut folder: Option<PathBuf> = None;
        for path in &options.user_files {
            sources.push((Source::user(absolute(path)?), path));
        }
        for path in &options.files {
            let source = match known_source(&known, path) {
                Some(source) => source,
                None => Source::project(absolute(path)?),
            };
            if let Some(project) = source.folder().map(PathBuf::from) {
                match &folder {
                    Some(other) if *other != project => return Err(two_projects(other, &project)),
                    _ => folder = Some(project),
                }
            }
            sources.push((source, path));
        }
        let folder = folder.map_or_else(env::current_dir, Ok);
        let folder =
            folder.map_err(|error| CommandError::Usage(format!("the working directory: {error}")))?;
        let files =
            sources.into_iter().flat_map(|(source, path)| parse_file(source, path, &folder)).collect();
        Ok(Self { files, folder })
    }

    /// The files merged.
    pub(super) fn merged(&self) -> Config {
        Config::merge(self.files.clone())
    }

    /// The files merged, with only the servers of these names.
    pub(super) fn only(&self, names: &[&str]) -> Config {
        Config::merge_filtered(self.files.clone(), |server| names.contains(&server.name()))
    }

    /// The files merged. Errors are printed, and so are servers that are left out.
    ///
    /// # Errors
    /// If there is no server.
    pub(super) fn merged_with_messages(&self) -> Result<Config, CommandError> {
        let config = self.merged();
        let mut messages = Screen::messages();
        for error in config.errors() {
            messages.line(styled(BAD, "mcpio:").and(" ").and(error.to_string()))?;
        }
        for entry in config.servers() {
            if let Some(warning) = relative_files(entry) {
                messages.line(styled(BAD, "mcpio:").and(" ").and(warning))?;
            }
        }
        for omitted in config.omitted() {
            messages.line(styled(QUIET, format_args!("left out: {omitted}")))?;
        }
        match config.servers() {
            [] => Err(CommandError::Usage("the configuration has no server that can be used".to_owned())),
            _ => Ok(config),
        }
    }
}

fn two_projects(one: &Path, other: &Path) -> CommandError {
    CommandError::Usage(format!(
        "the files belong to two projects, {} and {}: name those of one project, and your own by --user-config",
        one.display(),
        other.display()
    ))
}

/// The options that name the same files, to be pasted; `None` if they cannot be shown on one line.
fn quoted_options(options: &ConfigOptions) -> Option<String> {
    let words = |option: &str, paths: &[PathBuf]| {
        let words = paths.iter().map(|path| Some(format!("{option} {}", quoted_word(path.to_str()?)?)));
        words.collect::<Option<Vec<_>>>()
    };
    let mut all = words("--config", &options.files)?;
    all.extend(words("--user-config", &options.user_files)?);
    if let Some(folder) = &options.state {
        all.push(format!("--state {}", quoted_word(folder.to_str()?)?));
    }
    Some(all.join(" "))
}

/// The files in which known applications keep the user's configuration. Most do not exist.
pub(super) fn known_user_files() -> Vec<Source> {
    let text = |path: PathBuf| path.into_os_string().into_string().ok();
    let Some(home) = env::home_dir() else { return Vec::new() };
    let variable = |name: &str| env::var_os(name).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let settings = if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else if cfg!(windows) {
        variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"))
    } else {
        variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
    };
    let (Some(home), Some(settings)) = (text(home), text(settings)) else { return Vec::new() };
    Source::known_files(&Folders { home: &home, settings: &settings, project: None })
}

/// The known file that this path leads to.
fn known_source(known: &[Source], path: &Path) -> Option<Source> {
    let file = fs::canonicalize(path).ok()?;
    let is_same = |source: &&Source| fs::canonicalize(&source.path).is_ok_and(|known| known == file);
    known.iter().find(is_same).cloned()
}

/// The path of a file, its folder without links: approvals are bound to it.
fn absolute(path: &Path) -> Result<String, CommandError> {
    let failed = |why: &dyn std::fmt::Display| CommandError::Usage(format!("{}: {why}", path.display()));
    let name = path.file_name().ok_or_else(|| failed(&"this is not the name of a file"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(parent).or_else(|_| std::path::absolute(parent));
    let file = folder.map_err(|error| failed(&error))?.join(name);
    file.into_os_string().into_string().map_err(|_| failed(&"the path is not UTF-8"))
}

/// Reads a file. The user's file of Claude Code counts as two: its servers for the project in this folder, then the others.
fn parse_file(source: Source, path: &Path, folder: &Path) -> Vec<ConfigFile> {
    let text = match content(&source, path) {
        Ok(text) => text,
        Err(error) => return vec![ConfigFile::unreadable(source, error.to_string())],
    };
    let file = ConfigFile::parse(source.clone(), &text);
    // The error of a file that is no JSON is not repeated.
    let is_read = file.errors.iter().all(|error| error.server.is_some());
    let is_of_claude = source.scope == Scope::User && source.application == Application::ClaudeCode;
    match folder.to_str().filter(|_| is_of_claude && is_read) {
        Some(folder) => vec![ConfigFile::parse_of_project(source, &text, folder), file],
        None => vec![file],
    }
}

/// The content of a file, at most one byte more than is allowed.
pub(super) fn content(source: &Source, path: &Path) -> io::Result<Vec<u8>> {
    if source.scope == Scope::Project {
        return read_file(path, source.scope, PROJECT_FILE_BYTES);
    }
    // The user may name a pipe.
    let mut text = Vec::new();
    File::open(path)?.take(USER_FILE_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Something that `doctor` says about a server or a file.
#[derive(Debug)]
pub(super) struct Finding {
    /// The server; `None` for a whole file.
    pub(super) server: Option<String>,
    pub(super) kind: FindingKind,
    pub(super) what: String,
    /// The end of the server's standard error.
    pub(super) stderr: String,
    /// What to do, mostly commands to paste.
    pub(super) next: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingKind {
    Good,
    Note,
    Wrong,
}

impl Finding {
    pub(super) fn new(server: Option<&str>, kind: FindingKind, what: impl Into<String>) -> Self {
        let server = server.map(str::to_owned);
        Self { server, kind, what: what.into(), stderr: String::new(), next: Vec::new() }
    }

    pub(super) fn with_next(mut self, next: impl IntoIterator<Item = String>) -> Self {
        self.next.extend(next);
        self
    }
}

/// The findings of the files: entries that cannot be used, and parts that are ignored.
pub(super) fn check_files(config: &Config) -> Vec<Finding> {
    let errors = config.errors().iter().map(|error| {
        let next = match error.kind {
            ConfigErrorKind::Unreadable(_) => None,
            _ => Some(edit(&error.source.path)),
        };
        Finding::new(error.server.as_deref(), FindingKind::Wrong, error.to_string()).with_next(next)
    });
    let omitted = config.omitted().iter().map(|omitted| {
        let what = format!("left out: {omitted}");
        Finding::new(Some(omitted.server.name()), FindingKind::Note, what)
    });
    let ignored = config
        .diagnostics()
        .iter()
        .map(|ignored| Finding::new(ignored.server.as_deref(), FindingKind::Note, ignored.to_string()));
    errors.chain(omitted).chain(ignored).collect()
}

/// What keeps a server from being started: its approval, and values that are missing. Without the approval no value is
/// looked up.
pub(super) fn check_entry(
    entry: &ServerEntry,
    approvals: &Approvals,
    options: &ConfigOptions,
    configuration: &Configuration,
) -> Vec<Finding> {
    let name = Some(entry.name());
    if !entry.spec().enabled {
        return vec![Finding::new(name, FindingKind::Note, "it is switched off")];
    }
    match entry.permit(approvals) {
        Ok(permit) => missing(permit, options, configuration)
            .into_iter()
            .map(|(what, next)| Finding::new(name, FindingKind::Wrong, what).with_next(next))
            .collect(),
        Err(_) => {
            let what = "a project's file names it, and you have not approved it";
            let next = approve(options, entry.name());
            vec![Finding::new(name, FindingKind::Wrong, what).with_next([next])]
        }
    }
}

/// What deserves a second look in the user's own entry, which no approval shows. It does not keep the server from being
/// started.
pub(super) fn check_own_entry(entry: &ServerEntry) -> Vec<Finding> {
    if entry.source().scope != Scope::User || !entry.spec().enabled {
        return Vec::new();
    }
    let request = ApprovalRequest::new(entry);
    let warnings = request.warnings().iter();
    let warnings = warnings.filter(|warning| matches!(warning, ApprovalWarning::ForeignResource(_)));
    let note = |what: String| Finding::new(Some(entry.name()), FindingKind::Note, what);
    warnings.map(ToString::to_string).chain(relative_files(entry)).map(note).collect()
}

/// A warning if the user's server uses files of the working directory, by their relative paths. The home folder is the
/// user's own.
fn relative_files(entry: &ServerEntry) -> Option<String> {
    let folder = env::current_dir().ok()?;
    if !entry.spec().enabled || env::home_dir().is_some_and(|home| home == folder) {
        return None;
    }
    let paths = entry.relative_paths();
    let files: Vec<String> = paths.into_iter().filter(|path| folder.join(path).exists()).collect();
    let folder = folder.display();
    (!files.is_empty()).then(|| {
        format!(
            "server \"{}\" uses {} of the folder {folder}, where this command was started: if the server needs files \
             of its own, write their whole paths, or \"cwd\", into its entry",
            entry.name(),
            files.join(", ")
        )
    })
}

/// The request to approve a server that is not approved as it is now, its file of variables included.
pub(super) fn pending_request(
    entry: &ServerEntry,
    approvals: &Approvals,
    configuration: &Configuration,
) -> Result<Option<ApprovalRequest>, CommandError> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| CommandError::server(error.to_string()))?;
    let permit = match entry.permit(approvals) {
        Ok(permit) => permit,
        Err(request) => {
            let content =
                request.env_file().and_then(|file| look_up(file, entry.source().scope, configuration));
            let shown = content.map(|content| request.clone().with_env_file(&content, key));
            // A mistake in the file is an error of the start.
            return Ok(Some(shown.and_then(Result::ok).unwrap_or(*request)));
        }
    };
    let mut answers = Answers::new();
    loop {
        let lookups = permit.unanswered(&answers);
        if lookups.is_empty() {
            break;
        }
        for lookup in lookups {
            let value = look_up(&lookup, entry.source().scope, configuration);
            answers.insert(lookup, value);
        }
    }
    let resolved = permit.resolve(&answers).map_err(|error| error.kind);
    let is_changed = matches!(resolved, Err(ResolveErrorKind::UnapprovedEnvFile));
    Ok(is_changed.then(|| permit.env_file_request(&answers, key).ok()).flatten())
}

/// The values that a start lacks, each with what to do about it.
fn missing(
    permit: Permit<'_>,
    options: &ConfigOptions,
    configuration: &Configuration,
) -> Vec<(String, Option<String>)> {
    let entry = permit.entry();
    let mut answers = Answers::new();
    let mut missing = Vec::new();
    let mut stand_ins = BTreeSet::new();
    loop {
        for lookup in permit.unanswered(&answers) {
            let value = look_up(&lookup, entry.source().scope, configuration);
            answers.insert(lookup, value);
        }
        match permit.resolve(&answers).map_err(|error| (error.kind.clone(), error)) {
            Ok(_) => return missing,
            Err((ResolveErrorKind::Missing(lookup), error)) if stand_ins.insert(lookup.clone()) => {
                missing.push((error.to_string(), Some(for_missing(&lookup))));
                // It goes on with any value, to find the next one that is missing.
                let stand_in = if let Lookup::EnvFile(_) = lookup { "" } else { "http://localhost" };
                answers.insert(lookup, Some(Secret::new(stand_in)));
            }
            Err((kind, error)) => {
                // An error that a stand-in causes is no finding.
                if stand_ins.is_empty() {
                    let is_unapproved = kind == ResolveErrorKind::UnapprovedEnvFile;
                    let next = is_unapproved.then(|| approve(options, entry.name()));
                    missing.push((error.to_string(), next));
                }
                return missing;
            }
        }
    }
}

fn look_up(lookup: &Lookup, scope: Scope, configuration: &Configuration) -> Option<Secret> {
    match lookup {
        Lookup::Variable(name) => env::var(name).ok().map(Secret::new),
        Lookup::EnvFile(path) => {
            let content = read_file(&configuration.folder.join(path), scope, ENV_FILE_BYTES).ok()?;
            String::from_utf8(content).ok().map(Secret::new)
        }
        Lookup::Predefined(PredefinedVariable::UserHome) => {
            env::home_dir()?.into_os_string().into_string().ok().map(Secret::new)
        }
        Lookup::Predefined(PredefinedVariable::WorkspaceFolder) => {
            configuration.folder.to_str().map(Secret::new)
        }
        Lookup::Predefined(PredefinedVariable::WorkingDirectory) => {
            env::current_dir().ok()?.into_os_string().into_string().ok().map(Secret::new)
        }
        // The user is asked.
        Lookup::Input(_) => is_person_present().then(|| Secret::new("http://localhost")),
        Lookup::Predefined(_) => Some(Secret::new("/")),
        _ => None,
    }
}

/// The command that asks for the approval of a server; without its names if they cannot be shown on one line.
pub(super) fn approve(options: &ConfigOptions, server: &str) -> String {
    match (quoted_options(options), quoted_word(server)) {
        (Some(files), Some(server)) if !server.starts_with('-') => format!("mcpio approve {files} {server}"),
        (Some(files), _) => format!("mcpio approve {files}"),
        _ => "mcpio approve --config FILE".to_owned(),
    }
}

/// The command that shows the changes of a server since its approval.
pub(super) fn approve_changes(options: &ConfigOptions, server: &str) -> String {
    approve(options, server).replacen("mcpio approve", "mcpio approve --changes", 1)
}

/// What to do about a file with an error.
fn edit(path: &str) -> String {
    match quoted_word(path) {
        Some(path) => format!("edit {path}"),
        None => "edit the file".to_owned(),
    }
}

/// What to do about a server that does not connect.
pub(super) fn for_status(options: &ConfigOptions, entry: &ServerEntry, status: Status) -> Option<String> {
    match (status, &entry.spec().transport) {
        (Status::Unapproved, _) => Some(approve(options, entry.name())),
        (Status::NeedsAuthorization, TransportSpec::Http(http)) => Some(login(options, entry.name(), http)),
        _ => None,
    }
}

fn login(options: &ConfigOptions, server: &str, http: &HttpSpec) -> String {
    if http.headers.contains_key("authorization") {
        return "check the header \"authorization\" of the configuration: the server refuses it".to_owned();
    }
    // A URL with references may have a secret in it, once they are resolved.
    let is_plain = http.url.is_literal() && http.oauth.is_none();
    let command = match quoted_word(&http.url.text()).filter(|_| is_plain) {
        Some(url) => Some(format!("mcpio login {url}")),
        None => quoted_options(options)
            .zip(quoted_word(server).filter(|server| !server.starts_with('-')))
            .map(|(files, server)| format!("mcpio login {files} {server}")),
    };
    command.unwrap_or_else(|| "mcpio login --config FILE SERVER".to_owned())
}

/// What to do about a value that is missing.
fn for_missing(lookup: &Lookup) -> String {
    match lookup {
        Lookup::Variable(name) => match quoted_word(name) {
            Some(name) => format!("export {name}=VALUE"),
            None => "set the variable".to_owned(),
        },
        Lookup::Input(_) => "run the command on a terminal, which asks for it".to_owned(),
        Lookup::EnvFile(_) => "create the file that \"envFile\" names".to_owned(),
        _ => "set it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::host::config::{ConfigFile, Source};
    use std::path::PathBuf;

    #[test]
    fn named_file_is_of_a_project_unless_an_application_keeps_the_users_configuration_there() {
        let folder = env::temp_dir().join(format!("mcpio-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (own, project) = (folder.join("own.json"), folder.join("project.json"));
        fs::write(&own, "{}").unwrap();
        fs::write(&project, "{}").unwrap();
        let known = [Source::user(own.to_str().unwrap()), Source::user("/nothing/there.json")];
        assert_eq!(known_source(&known, &folder.join("./own.json")), Some(known[0].clone()));
        assert_eq!(known_source(&known, &project), None);
        let named = |files: &[&PathBuf], user_files: &[&PathBuf]| {
            let paths = |paths: &[&PathBuf]| paths.iter().map(|path| (*path).clone()).collect();
            let options = ConfigOptions { files: paths(files), user_files: paths(user_files), state: None };
            let read = Configuration::read(&options).unwrap();
            read.files.iter().map(|file| file.source.scope).collect::<Vec<_>>()
        };
        assert_eq!(named(&[&own, &project], &[]), [Scope::Project, Scope::Project]);
        assert_eq!(named(&[&project], &[&own]), [Scope::User, Scope::Project]);
        fs::remove_dir_all(&folder).unwrap();
    }

    fn configuration(source: Source, text: &str) -> Configuration {
        let files = vec![ConfigFile::parse(source, text.as_bytes())];
        Configuration { files, folder: env::temp_dir() }
    }

    fn check(configuration: &Configuration) -> Vec<Finding> {
        let config = configuration.merged();
        let entry = &config.servers()[0];
        check_entry(entry, &Approvals::new(), &ConfigOptions::default(), configuration)
    }

    const MISSING: &str = r#"{ "mcpServers": { "a": {
        "command": "x",
        "args": ["${MCPIO_NO_1}", "${MCPIO_NO_2}"],
        "envFile": "${MCPIO_NO_3}/env",
        "env": { "A": "${MCPIO_NO_4:-default}" }
    } } }"#;

    #[test]
    fn every_missing_value_is_found_with_what_to_do() {
        let findings = check(&configuration(Source::user("/home/ann/mcp.json"), MISSING));
        let next: Vec<&str> = findings.iter().flat_map(|finding| &finding.next).map(String::as_str).collect();
        let file = "create the file that \"envFile\" names";
        let exports = |number| format!("export MCPIO_NO_{number}=VALUE");
        assert_eq!(next, [exports(3), file.to_owned(), exports(1), exports(2)]);
        assert!(findings.iter().all(|finding| finding.kind == FindingKind::Wrong));
    }

    #[test]
    fn stand_in_for_a_missing_value_is_not_reported() {
        let text = r#"{ "mcpServers": { "a": { "url": "https://${MCPIO_NO_1}/mcp" } } }"#;
        let findings = check(&configuration(Source::user("/home/ann/mcp.json"), text));
        assert_eq!(findings.len(), 1, "{findings:?}");
    }

    #[test]
    fn users_entry_whose_server_gets_tokens_for_another_resource_is_noted() {
        let text = r#"{ "mcpServers": { "a": {
            "url": "https://a.example/mcp", "oauth": { "resource": "https://b.example" }
        } } }"#;
        let notes = |source| -> Vec<Finding> {
            let config = configuration(source, text).merged();
            config.servers().iter().flat_map(|entry| check_own_entry(entry)).collect()
        };
        let found = notes(Source::user("/home/ann/mcp.json"));
        assert_eq!(found[0].kind, FindingKind::Note);
        assert!(found[0].what.contains("https://b.example"), "{found:?}");
    }

    #[test]
    fn no_value_is_looked_up_for_a_server_that_is_not_approved() {
        let findings = check(&configuration(Source::project("/srv/project/.mcp.json"), MISSING));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains("not approved"), "{findings:?}");
    }

    #[test]
    fn mistakes_of_files_are_found_with_line_and_column() {
        let broken = configuration(Source::user("/home/ann/mcp.json"), "{\n  \"mcpServers\": { \"a\": } }");
        let findings = check_files(&broken.merged());
        assert!(findings[0].what.contains("line 2, column "), "{findings:?}");
        let ignored = r#"{ "mcpServers": { "a": { "command": "x", "colour": "red" }, "b": {} } }"#;
        let findings = check_files(&configuration(Source::user("/home/ann/mcp.json"), ignored).merged());
        let kinds: Vec<_> = findings.iter().map(|it| (it.server.as_deref(), it.kind)).collect();
        assert_eq!(kinds, [(Some("b"), FindingKind::Wrong), (Some("a"), FindingKind::Note)]);
    }

    #[test]
    fn files_and_folders_of_the_working_directory_are_noted_in_the_users_entries() {
        // Tests run in the folder of the crate.
        for (args, used) in [
            (r#""Cargo.toml""#, Some("uses Cargo.toml of")),
            (r#"".""#, Some("uses . of")),
            (r#""--directory", "src""#, Some("uses src of")),
            (r#""-m", "src.bin""#, Some("uses src of")),
            (r#""-m", "http.server""#, None),
            (r#""no-such-file", "/""#, None),
        ] {
            let text = format!(r#"{{ "mcpServers": {{ "a": {{ "command": "x", "args": [{args}] }} }} }}"#);
            let config = configuration(Source::user("/home/ann/mcp.json"), &text).merged();
            let note = relative_files(&config.servers()[0]);
            assert_eq!(note.is_some(), used.is_some(), "{args}");
            assert!(note.unwrap_or_default().contains(used.unwrap_or_default()), "{args}");
        }
    }

    fn entry(text: &str) -> ServerEntry {
        let text = format!(r#"{{ "mcpServers": {{ "a b": {text} }} }}"#);
        ConfigFile::parse(Source::project("/srv/project/.mcp.json"), text.as_bytes()).servers.remove(0)
    }

    #[test]
    fn hints_are_commands_with_quoted_words() {
        let files = vec![PathBuf::from("my servers.json")];
        let options = ConfigOptions { files, user_files: Vec::new(), state: None };
        let hint = |text: &str, status| for_status(&options, &entry(text), status).unwrap();
        let approval = "mcpio approve --config 'my servers.json' 'a b'";
        assert_eq!(hint(r#"{ "command": "x" }"#, Status::Unapproved), approval);
        let login = |text: &str| hint(text, Status::NeedsAuthorization);
        assert_eq!(login(r#"{ "url": "https://a.example/mcp" }"#), "mcpio login https://a.example/mcp");
        let by_name = "mcpio login --config 'my servers.json' 'a b'";
        for text in [
            r#"{ "url": "https://a.example/${KEY}" }"#,
            r#"{ "url": "https://a.example/mcp", "oauth": { "scopes": ["a", "b"] } }"#,
        ] {
            assert_eq!(login(text), by_name);
        }
        let refused = login(r#"{ "url": "https://a.example/mcp", "headers": { "Authorization": "x" } }"#);
        assert!(refused.contains("the server refuses it"), "{refused}");
        assert_eq!(for_missing(&Lookup::Variable("TOKEN".into())), "export TOKEN=VALUE");
    }

    #[test]
    fn hint_never_shows_a_name_that_the_user_could_not_judge() {
        let options = ConfigOptions { files: vec!["a\u{1b}[2J".into()], ..ConfigOptions::default() };
        assert_eq!(approve(&options, "x"), "mcpio approve --config FILE");
        let options = ConfigOptions { files: vec!["a".into()], ..ConfigOptions::default() };
        assert_eq!(approve(&options, "--revoke"), "mcpio approve --config a");
        assert_eq!(approve(&options, "\u{202e}"), "mcpio approve --config a");
        assert_eq!(edit("/srv/a b; reboot/.mcp.json"), "edit '/srv/a b; reboot/.mcp.json'");
        assert_eq!(edit("/srv/\u{202e}/.mcp.json"), "edit the file");
    }
}
