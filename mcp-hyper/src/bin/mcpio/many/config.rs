//! The configuration files of a command, what is wrong in them, and the commands to paste that mend it.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mcp_hyper::host::{discover, known_files, look_up, read_file, real_path};
use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, Config, ConfigErrorKind, ConfigFile, HttpSpec, Lookup, PROJECT_FILE_BYTES, ResolveErrorKind,
    Scope, ServerEntry, Source, TransportSpec, USER_FILE_BYTES,
};
use mcp_proto::host::consent::{ApprovalRequest, ApprovalWarning, Approvals, Permit};
use mcp_proto::host::control::Status;
use serde::Serialize;

use super::Session;
use crate::error::{CommandError, Result};
use crate::options::{CommonOptions, ConfigOptions};
use crate::server_requests::is_person_present;
use crate::terminal::{QUIET, Screen, quoted_word, styled};

/// A file's time of change and length, by which a change of it is noticed; `None` if it cannot be read.
pub(super) type FileStamp = Option<(SystemTime, u64)>;

/// The stamps of files.
pub(super) fn stamps(paths: &[PathBuf]) -> Vec<FileStamp> {
    let stamp = |path| {
        let file = fs::metadata(path).ok()?;
        Some((file.modified().ok()?, file.len()))
    };
    paths.iter().map(stamp).collect()
}

impl<'a> Session<'a> {
    fn of_files(
        options: &'a ConfigOptions,
        common: &'a CommonOptions,
        files: Vec<ConfigFile>,
        folder: PathBuf,
    ) -> Self {
        let config = Config::merge(files.clone());
        Self {
            options,
            common,
            files,
            folder,
            stamps: Vec::new(),
            config,
            inputs: Arc::default(),
            answers_requests: false,
            reports_events: false,
            login: None,
        }
    }

    /// Reads the files that the command line names, or else those of known applications for the user and for the project in
    /// the working directory. One that cannot be read has an error instead of servers.
    ///
    /// # Errors
    /// If a path is not UTF-8, the files belong to several projects, or there is no file.
    pub(super) fn read(options: &'a ConfigOptions, common: &'a CommonOptions) -> Result<Self> {
        Self::read_after(options, common, &[])
    }

    /// Reads the files again. Those that cannot be read any more keep their servers, beside the error: the user may be
    /// editing them.
    ///
    /// # Errors
    /// If a file belongs to another project now, or there is no file.
    pub(super) fn read_again(&self) -> Result<Self> {
        let read = Self::read_after(self.options, self.common, &self.files)?;
        let Self { inputs, answers_requests, reports_events, login, .. } = self.clone();
        Ok(Self { inputs, answers_requests, reports_events, login, ..read })
    }

    fn read_after(
        options: &'a ConfigOptions,
        common: &'a CommonOptions,
        before: &[ConfigFile],
    ) -> Result<Self> {
        let current = || env::current_dir().map_err(CommandError::usage_of("the working directory"));
        if !options.is_used() {
            let folder = current()?;
            let stamps = stamps(&paths(options, &folder));
            let files = discover(&folder).map_err(CommandError::usage_of("the working directory"))?;
            if files.is_empty() {
                return Err(CommandError::usage(NO_FILE));
            }
            let files = with_kept(files, before);
            return Ok(Self { stamps, ..Self::of_files(options, common, files, folder) });
        }
        let known = known_files(None);
        let own = options.user_files.iter().map(|path| Ok((Source::user(absolute(path)?), path)));
        let named = options.files.iter().map(|path| match known_source(&known, path) {
            Some(source) => Ok((source, path)),
            None => Ok((Source::project(absolute(path)?), path)),
        });
        let sources = own.chain(named).collect::<Result<Vec<_>>>()?;
        let mut folders = sources.iter().filter_map(|(source, _)| source.folder());
        let folder = match folders.next() {
            Some(one) => {
                if let Some(other) = folders.find(|other| *other != one) {
                    return Err(CommandError::usage(format_args!(
                        "the files belong to two projects, {one} and {other}: name those of one project, and your own \
                         by --user-config"
                    )));
                }
                PathBuf::from(one)
            }
            None => current()?,
        };
        let stamps = stamps(&paths(options, &folder));
        let is_pipe = |path: &Path| fs::metadata(path).is_ok_and(|file| !file.is_file());
        let files = sources.iter().flat_map(|(source, path)| match !before.is_empty() && is_pipe(path) {
            // A pipe is read once.
            true => kept(source, before),
            false => parse_file(source, path, &folder),
        });
        let files = with_kept(files.collect(), before);
        Ok(Self { stamps, ..Self::of_files(options, common, files, folder) })
    }

    /// The files that were read, and those that would be if they existed.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        paths(self.options, &self.folder)
    }

    /// Reads the files. Errors are printed, and so are servers that are left out.
    ///
    /// # Errors
    /// If there is no server.
    pub(super) fn open(options: &'a ConfigOptions, common: &'a CommonOptions) -> Result<Self> {
        let session = Self::read(options, common)?;
        let config = &session.config;
        let mut messages = Screen::messages();
        let errors = config.errors().iter().map(ToString::to_string);
        for error in errors.chain(config.servers().iter().filter_map(|entry| session.relative_files(entry))) {
            messages.warning(error)?;
        }
        for omitted in config.omitted() {
            messages.line(styled(QUIET, format_args!("left out: {omitted}")))?;
        }
        match config.servers() {
            [] => Err(CommandError::usage("the configuration has no server that can be used")),
            _ => Ok(session),
        }
    }

    /// Names the files that were found, unless the command line does.
    pub(super) fn print_files(&self) -> io::Result<()> {
        let mut messages = Screen::messages();
        for file in self.files.iter().filter(|_| !self.options.is_used()) {
            let (path, count) = (&file.source.path, file.servers.len());
            let plural = if count == 1 { "" } else { "s" };
            messages.line(styled(QUIET, format_args!("{path}: {count} server{plural}")))?;
        }
        Ok(())
    }

    /// The files merged, with only the servers of these names.
    pub(super) fn only(&self, names: &[&str]) -> Config {
        Config::merge_filtered(self.files.clone(), |server| names.contains(&server.name()))
    }
}

const NO_FILE: &str = "no known application has a file with servers here: name one by --config or --user-config, or the command that starts \
                       a server after two dashes, such as: mcpio tools -- npx -y @modelcontextprotocol/server-everything";

/// The files that these options name, or else those that applications may have for the user and for this project.
fn paths(options: &ConfigOptions, folder: &Path) -> Vec<PathBuf> {
    match options.is_used() {
        true => options.user_files.iter().chain(&options.files).cloned().collect(),
        false => known_files(folder.to_str()).into_iter().map(|source| source.path.into()).collect(),
    }
}

/// The files of this source as they were before.
fn kept(source: &Source, before: &[ConfigFile]) -> Vec<ConfigFile> {
    before.iter().filter(|file| *file.source == *source).cloned().collect()
}

/// The files, those that cannot be read as they were before, with the error.
fn with_kept(files: Vec<ConfigFile>, before: &[ConfigFile]) -> Vec<ConfigFile> {
    let with_kept = |file: ConfigFile| {
        let is_readable = file.errors.iter().all(|error| error.server.is_some());
        let mut kept = if is_readable { Vec::new() } else { kept(&file.source, before) };
        match kept.first_mut() {
            Some(first) => first.errors = file.errors,
            None => kept.push(file),
        }
        kept
    };
    files.into_iter().flat_map(with_kept).collect()
}

/// The known file that this path leads to.
fn known_source(known: &[Source], path: &Path) -> Option<Source> {
    let file = fs::canonicalize(path).ok()?;
    let is_same = |source: &&Source| fs::canonicalize(&source.path).is_ok_and(|known| known == file);
    known.iter().find(is_same).cloned()
}

/// The path of a file, its folder without links: approvals are bound to it.
fn absolute(path: &Path) -> Result<String> {
    let wrong = |why| CommandError::usage_of(path.display())(why);
    let name = path.file_name().ok_or_else(|| wrong("this is not the name of a file"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = real_path(parent).or_else(|_| std::path::absolute(parent));
    let file = folder.map_err(CommandError::usage_of(path.display()))?.join(name);
    file.into_os_string().into_string().map_err(|_| wrong("the path is not UTF-8"))
}

/// Reads a file.
fn parse_file(source: &Source, path: &Path, folder: &Path) -> Vec<ConfigFile> {
    match content(source, path) {
        Ok(text) => ConfigFile::parse_for(source.clone(), &text, folder.to_str().unwrap_or_default()),
        Err(error) => vec![ConfigFile::unreadable(source.clone(), error.to_string())],
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
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// The server; `None` for a whole file.
    pub(super) server: Option<String>,
    pub(super) kind: FindingKind,
    pub(super) what: String,
    /// The end of the server's standard error.
    pub(super) stderr: Option<String>,
    /// What to do, mostly commands to paste.
    pub(super) next: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindingKind {
    Good,
    Note,
    Wrong,
}

impl Finding {
    pub(super) fn new(server: Option<&str>, kind: FindingKind, what: impl Into<String>) -> Self {
        let server = server.map(str::to_owned);
        Self { server, kind, what: what.into(), stderr: None, next: Vec::new() }
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

impl Session<'_> {
    /// What deserves a second look in the user's own entry, which no approval shows. It does not keep the server from being
    /// started.
    pub(super) fn check_own_entry(&self, entry: &ServerEntry) -> Vec<Finding> {
        if entry.source().scope != Scope::User || !entry.spec().enabled {
            return Vec::new();
        }
        let request = ApprovalRequest::new(entry);
        let warnings = request.warnings().iter();
        let warnings = warnings.filter(|warning| matches!(warning, ApprovalWarning::ForeignResource(_)));
        let note = |what: String| Finding::new(Some(entry.name()), FindingKind::Note, what);
        warnings.map(ToString::to_string).chain(self.relative_files(entry)).map(note).collect()
    }

    /// A warning if the user's server uses files of the folder in which it runs, by their relative paths. The home folder is the
    /// user's own.
    fn relative_files(&self, entry: &ServerEntry) -> Option<String> {
        let folder = self.working_folder()?;
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

    /// Where the user's programs run whose entries name no folder. A folder whose project nobody has looked at is not for
    /// them: `npx`, for example, runs programs that it finds there.
    pub(super) fn working_folder(&self) -> Option<PathBuf> {
        match self.options.is_used() {
            true => env::current_dir().ok(),
            false => env::home_dir(),
        }
    }

    /// What keeps a server from being started: its approval, and values that are missing. Without the approval no value is
    /// looked up.
    pub(super) fn check_entry(&self, entry: &ServerEntry, approvals: &Approvals) -> Vec<Finding> {
        let finding = |kind, what: &str| Finding::new(Some(entry.name()), kind, what);
        if !entry.spec().enabled {
            return vec![finding(FindingKind::Note, "it is switched off")];
        }
        match entry.permit(approvals) {
            Ok(permit) => self.missing(permit),
            Err(_) => {
                let what = "a project's file names it, and you have not approved it";
                vec![finding(FindingKind::Wrong, what).with_next([self.approval_hint(entry.name())])]
            }
        }
    }

    /// The request to approve a server that is not approved as it is now, its file of variables included.
    pub(super) fn pending_request(
        &self,
        entry: &ServerEntry,
        approvals: &Approvals,
    ) -> Result<Option<ApprovalRequest>> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(CommandError::server)?;
        let permit = match entry.permit(approvals) {
            Ok(permit) => permit,
            Err(request) => {
                let content = request.env_file().and_then(|file| self.find(file, entry));
                let shown = content.map(|content| request.clone().with_env_file(&content, key));
                // A mistake in the file is an error of the start.
                return Ok(Some(shown.and_then(std::result::Result::ok).unwrap_or(*request)));
            }
        };
        let mut answers = Answers::new();
        self.answer(permit, &mut answers);
        let resolved = permit.resolve(&answers).map_err(|error| error.kind);
        let is_changed = matches!(resolved, Err(ResolveErrorKind::UnapprovedEnvFile));
        Ok(is_changed.then(|| permit.env_file_request(&answers, key).ok()).flatten())
    }

    /// The values that a start lacks, each with what to do about it.
    fn missing(&self, permit: Permit<'_>) -> Vec<Finding> {
        let server = permit.entry().name();
        let (mut answers, mut missing, mut stand_ins) = (Answers::new(), Vec::new(), BTreeSet::new());
        let finding = |what, next| Finding::new(Some(server), FindingKind::Wrong, what).with_next(next);
        loop {
            self.answer(permit, &mut answers);
            let Err(error) = permit.resolve(&answers) else { return missing };
            let what = error.to_string();
            match error.kind {
                ResolveErrorKind::Missing(lookup) if stand_ins.insert(lookup.clone()) => {
                    missing.push(finding(what, Some(for_missing(&lookup))));
                    // It goes on with any value, to find the next one that is missing.
                    let stand_in = if let Lookup::EnvFile(_) = lookup { "" } else { STAND_IN };
                    answers.insert(lookup, Some(Secret::new(stand_in)));
                }
                kind => {
                    // An error that a stand-in causes is no finding.
                    if stand_ins.is_empty() {
                        let is_unapproved = kind == ResolveErrorKind::UnapprovedEnvFile;
                        missing.push(finding(what, is_unapproved.then(|| self.approval_hint(server))));
                    }
                    return missing;
                }
            }
        }
    }

    /// Looks up every value that a start needs.
    fn answer(&self, permit: Permit<'_>, answers: &mut Answers) {
        loop {
            let lookups = permit.unanswered(answers);
            if lookups.is_empty() {
                return;
            }
            for lookup in lookups {
                let value = self.find(&lookup, permit.entry());
                answers.insert(lookup, value);
            }
        }
    }

    fn find(&self, lookup: &Lookup, entry: &ServerEntry) -> Option<Secret> {
        match lookup {
            // The user is asked.
            Lookup::Input(_) => is_person_present().then(|| Secret::new(STAND_IN)),
            _ => look_up(lookup, entry.source().scope, Some(&self.folder)),
        }
    }

    /// The options that name the same files, each with a space after it, to be pasted; `None` if they cannot be shown on one
    /// line.
    fn quoted_options(&self) -> Option<String> {
        let options = self.options;
        let named = options.files.iter().map(|path| ("--config", path));
        let own = options.user_files.iter().map(|path| ("--user-config", path));
        let state = options.state.iter().map(|path| ("--state", path));
        let words = named.chain(own).chain(state);
        let words = words.map(|(option, path)| Some(format!("{option} {} ", quoted_word(path.to_str()?)?)));
        words.collect()
    }

    /// The command that asks for the approval of a server; without its names if they cannot be shown on one line.
    pub(super) fn approval_hint(&self, server: &str) -> String {
        match (self.quoted_options(), quoted_name(server)) {
            (Some(files), Some(server)) => format!("mcpio approve {files}{server}"),
            (Some(files), None) => format!("mcpio approve {files}").trim_end().to_owned(),
            _ => "mcpio approve --config FILE".to_owned(),
        }
    }

    /// The command that asks about the changed definitions of a server.
    pub(super) fn changes_hint(&self, server: &str) -> String {
        self.approval_hint(server).replacen("mcpio approve", "mcpio approve --changes", 1)
    }

    /// What to do about a server that does not connect.
    pub(super) fn hint(&self, server: &str, status: Status) -> Option<String> {
        let entry = self.config.find(server)?;
        match (status, &entry.spec().transport) {
            (Status::Unapproved, _) => Some(self.approval_hint(server)),
            (Status::NeedsAuthorization, TransportSpec::Http(http)) => Some(self.login_hint(server, http)),
            _ => None,
        }
    }

    fn login_hint(&self, server: &str, http: &HttpSpec) -> String {
        if http.headers.contains_key("authorization") {
            return "check the header \"authorization\" of the configuration: the server refuses it"
                .to_owned();
        }
        // A URL with references may have a secret in it, once they are resolved.
        let is_plain = http.url.is_literal() && http.oauth.is_none();
        let named = match quoted_word(&http.url.text()).filter(|_| is_plain) {
            Some(url) => Some(url),
            None => self
                .quoted_options()
                .zip(quoted_name(server))
                .map(|(files, server)| format!("{files}{server}")),
        };
        format!("mcpio login {}", named.as_deref().unwrap_or("--config FILE SERVER"))
    }
}

/// In the place of a value that is not known yet.
const STAND_IN: &str = "http://localhost";

/// The name of a server, quoted, unless it would pass for an option.
fn quoted_name(server: &str) -> Option<String> {
    quoted_word(server).filter(|_| !server.starts_with('-'))
}

/// What to do about a file with an error.
fn edit(path: &str) -> String {
    match quoted_word(path) {
        Some(path) => format!("edit {path}"),
        None => "edit the file".to_owned(),
    }
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
            let common = CommonOptions::default();
            let read = Session::read(&options, &common).unwrap();
            read.files.iter().map(|file| file.source.scope).collect::<Vec<_>>()
        };
        assert_eq!(named(&[&own, &project], &[]), [Scope::Project, Scope::Project]);
        assert_eq!(named(&[&project], &[&own]), [Scope::User, Scope::Project]);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A session with the options of a command that names no file.
    fn session(source: Source, text: &str) -> Session<'static> {
        session_with(ConfigOptions::default(), source, text)
    }

    fn session_with(options: ConfigOptions, source: Source, text: &str) -> Session<'static> {
        let files = vec![ConfigFile::parse(source, text.as_bytes())];
        Session::of_files(Box::leak(options.into()), Box::leak(Box::default()), files, env::temp_dir())
    }

    fn check(session: &Session<'_>) -> Vec<Finding> {
        session.check_entry(&session.config.servers()[0], &Approvals::new())
    }

    const MISSING: &str = r#"{ "mcpServers": { "a": {
        "command": "x",
        "args": ["${MCPIO_NO_1}", "${MCPIO_NO_2}"],
        "envFile": "${MCPIO_NO_3}/env",
        "env": { "A": "${MCPIO_NO_4:-default}" }
    } } }"#;

    #[test]
    fn every_missing_value_is_found_with_what_to_do() {
        let findings = check(&session(Source::user("/home/ann/mcp.json"), MISSING));
        let next: Vec<&str> = findings.iter().flat_map(|finding| &finding.next).map(String::as_str).collect();
        let file = "create the file that \"envFile\" names";
        let exports = |number| format!("export MCPIO_NO_{number}=VALUE");
        assert_eq!(next, [exports(3), file.to_owned(), exports(1), exports(2)]);
        assert!(findings.iter().all(|finding| finding.kind == FindingKind::Wrong));
    }

    #[test]
    fn stand_in_for_a_missing_value_is_not_reported() {
        let text = r#"{ "mcpServers": { "a": { "url": "https://${MCPIO_NO_1}/mcp" } } }"#;
        let findings = check(&session(Source::user("/home/ann/mcp.json"), text));
        assert_eq!(findings.len(), 1, "{findings:?}");
    }

    #[test]
    fn users_entry_whose_server_gets_tokens_for_another_resource_is_noted() {
        let text = r#"{ "mcpServers": { "a": {
            "url": "https://a.example/mcp", "oauth": { "resource": "https://b.example" }
        } } }"#;
        let notes = |source| -> Vec<Finding> {
            let session = session(source, text);
            session.config.servers().iter().flat_map(|entry| session.check_own_entry(entry)).collect()
        };
        let found = notes(Source::user("/home/ann/mcp.json"));
        assert_eq!(found[0].kind, FindingKind::Note);
        assert!(found[0].what.contains("https://b.example"), "{found:?}");
    }

    #[test]
    fn no_value_is_looked_up_for_a_server_that_is_not_approved() {
        let findings = check(&session(Source::project("/srv/project/.mcp.json"), MISSING));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains("not approved"), "{findings:?}");
    }

    #[test]
    fn mistakes_of_files_are_found_with_line_and_column() {
        let broken = session(Source::user("/home/ann/mcp.json"), "{\n  \"mcpServers\": { \"a\": } }");
        let findings = check_files(&broken.config);
        assert!(findings[0].what.contains("line 2, column "), "{findings:?}");
        let ignored = r#"{ "mcpServers": { "a": { "command": "x", "colour": "red" }, "b": {} } }"#;
        let findings = check_files(&session(Source::user("/home/ann/mcp.json"), ignored).config);
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
            let options = ConfigOptions { user_files: vec!["mcp.json".into()], ..ConfigOptions::default() };
            let session = session_with(options, Source::user("/home/ann/mcp.json"), &text);
            let note = session.relative_files(&session.config.servers()[0]);
            assert_eq!(note.is_some(), used.is_some(), "{args}");
            assert!(note.unwrap_or_default().contains(used.unwrap_or_default()), "{args}");
        }
    }

    #[test]
    fn file_of_variables_whose_path_has_a_reference_is_read() {
        let name = format!("mcpio-{}.env", std::process::id());
        let file = env::temp_dir().join(&name);
        fs::write(&file, "A=b\n").unwrap();
        let text = format!(
            r#"{{ "mcpServers": {{ "a": {{ "command": "x", "envFile": "${{workspaceFolder}}/{name}" }} }} }}"#
        );
        let findings = check(&session(Source::user("/home/ann/mcp.json"), &text));
        fs::remove_file(&file).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn hints_are_commands_with_quoted_words() {
        let hint = |text: &str, status| {
            let options = ConfigOptions { files: vec!["my servers.json".into()], ..ConfigOptions::default() };
            let text = format!(r#"{{ "mcpServers": {{ "a b": {text} }} }}"#);
            let session = session_with(options, Source::project("/srv/project/.mcp.json"), &text);
            session.hint("a b", status).unwrap()
        };
        let quoted = |text: &str| text.replace('\'', if cfg!(windows) { "\"" } else { "'" });
        let approval = quoted("mcpio approve --config 'my servers.json' 'a b'");
        assert_eq!(hint(r#"{ "command": "x" }"#, Status::Unapproved), approval);
        let login = |text: &str| hint(text, Status::NeedsAuthorization);
        assert_eq!(login(r#"{ "url": "https://a.example/mcp" }"#), "mcpio login https://a.example/mcp");
        let by_name = quoted("mcpio login --config 'my servers.json' 'a b'");
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
        let approve = |file: &str, server: &str| {
            let options = ConfigOptions { files: vec![file.into()], ..ConfigOptions::default() };
            session_with(options, Source::user("a"), "{}").approval_hint(server)
        };
        assert_eq!(approve("a\u{1b}[2J", "x"), "mcpio approve --config FILE");
        assert_eq!(approve("a", "--revoke"), "mcpio approve --config a");
        assert_eq!(approve("a", "\u{202e}"), "mcpio approve --config a");
        let edited = if cfg!(windows) { "edit the file" } else { "edit '/srv/a b; reboot/.mcp.json'" };
        assert_eq!(edit("/srv/a b; reboot/.mcp.json"), edited);
        assert_eq!(edit("/srv/\u{202e}/.mcp.json"), "edit the file");
    }
}
