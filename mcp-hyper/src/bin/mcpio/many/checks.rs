//! Mistakes in files and entries, found before any server starts.

use std::collections::BTreeSet;
use std::env;

use mcp_hyper::host::read_file;
use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, Config, ConfigErrorKind, ENV_FILE_BYTES, Lookup, PredefinedVariable, ResolveErrorKind, Scope,
    ServerEntry,
};
use mcp_proto::host::consent::{ApprovalRequest, ApprovalWarning, Approvals, Permit};

use super::files::Configuration;
use super::hints;
use super::options::ConfigOptions;
use crate::error::CommandError;
use crate::server_requests::is_person_present;

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
            _ => Some(hints::edit(&error.source.path)),
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
            let next = hints::approve(options, entry.name());
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
pub(super) fn relative_files(entry: &ServerEntry) -> Option<String> {
    let folder = env::current_dir().ok()?;
    if !entry.spec().enabled || env::home_dir().is_some_and(|home| home == folder) {
        return None;
    }
    let paths = entry.relative_paths();
    let files: Vec<String> = paths.into_iter().filter(|path| folder.join(path).is_file()).collect();
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
                missing.push((error.to_string(), Some(hints::for_missing(&lookup))));
                // It goes on with any value, to find the next one that is missing.
                let stand_in = if let Lookup::EnvFile(_) = lookup { "" } else { "http://localhost" };
                answers.insert(lookup, Some(Secret::new(stand_in)));
            }
            Err((kind, error)) => {
                // An error that a stand-in causes is no finding.
                if stand_ins.is_empty() {
                    let is_unapproved = kind == ResolveErrorKind::UnapprovedEnvFile;
                    let next = is_unapproved.then(|| hints::approve(options, entry.name()));
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
        // The user is asked.
        Lookup::Input(_) => is_person_present().then(|| Secret::new("http://localhost")),
        Lookup::Predefined(_) => Some(Secret::new("/")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::host::config::{ConfigFile, Source};

    use super::*;

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
}
