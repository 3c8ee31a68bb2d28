//! Configuration files: reads them, and decides which belong to the user and which to a project.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mcp_hyper::host::read_file;
use mcp_proto::host::config::{
    Application, Config, ConfigFile, Folders, PROJECT_FILE_BYTES, Scope, Source, USER_FILE_BYTES,
};

use super::checks;
use super::options::ConfigOptions;
use crate::connect::quoted_word;
use crate::error::CommandError;
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
            if let Some(warning) = checks::relative_files(entry) {
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
pub(super) fn quoted_options(options: &ConfigOptions) -> Option<String> {
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
            let read = Configuration::read(&options).unwrap();
            read.files.iter().map(|file| file.source.scope).collect::<Vec<_>>()
        };
        assert_eq!(named(&[&own, &project], &[]), [Scope::Project, Scope::Project]);
        assert_eq!(named(&[&project], &[&own]), [Scope::User, Scope::Project]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
