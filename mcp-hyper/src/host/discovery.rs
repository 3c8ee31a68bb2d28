//! The configuration files of known applications.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use mcp_proto::host::config::{ConfigFile, Folders, Scope, Source};

use super::read_file;

/// The files in which known applications keep servers of the user, and of the project in this folder, the project's
/// first. Most do not exist. Those of the user are in the home folder (`HOME`; on Windows `USERPROFILE`), and in the folder
/// of settings: `XDG_CONFIG_HOME` or `~/.config`, on macOS `~/Library/Application Support`, on Windows `APPDATA`. Relative
/// ones do not count, and without a home folder there are none.
pub fn known_files(project: Option<&str>) -> Vec<Source> {
    let text = |path: PathBuf| path.into_os_string().into_string().ok();
    // One that is relative would be a folder of the project.
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = env::home_dir().filter(|home| home.is_absolute());
    let folders = home.and_then(|home| {
        let settings = if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else if cfg!(windows) {
            variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"))
        } else {
            variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
        };
        Some((text(home)?, text(settings)?))
    });
    match &folders {
        Some((home, settings)) => Source::known_files(&Folders { home, settings, project }),
        None => {
            let mut files = Source::known_files(&Folders { home: "", settings: "", project });
            files.retain(|file| file.folder().is_some());
            files
        }
    }
}

//= F86 "Several sources, each known for every entry"
/// Finds the servers that the known applications have for the user, and for the project in this folder.
///
/// It reads each [known file](known_files) that exists, and nothing else: no server starts, and no reference to a variable
/// is resolved. Of Claude Code's file it also reads the servers for this project alone. A file that cannot be read has an
/// error. [Merged](mcp_proto::host::config::Config::merge), the files are the configuration of a host, which asks for the
/// approval of a project's servers, and tell what is left out and why. Start the user's servers in a folder that is no
/// project's, by [`HostOptions::working_folder`](super::HostOptions::working_folder): some find programs and settings there.
///
/// It blocks while it reads: in an async function, run it where blocking is allowed.
///
/// ```no_run
/// use mcp_hyper::host::{HostOptions, discover};
/// use mcp_hyper::mcp_proto::host::config::Config;
///
/// let files = discover("/work/app".as_ref())?;
/// for file in &files {
///     println!("{}: {} servers", file.source.path, file.servers.len());
/// }
/// let config = Config::merge(files);
/// for omitted in config.omitted() {
///     println!("left out: {omitted}");
/// }
/// for error in config.errors() {
///     println!("{error}");
/// }
/// let (host, driver) = HostOptions::new("my-agent", "1.0.0").config(config).start();
/// # drop((host, driver));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the folder does not exist, or its path is not UTF-8.
pub fn discover(folder: &Path) -> io::Result<Vec<ConfigFile>> {
    // Approvals are bound to the path without links.
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let folder = fs::canonicalize(folder).map_err(told)?.into_os_string().into_string();
    let folder = folder.map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"))?;
    Ok(read_files(known_files(Some(&folder)), &folder))
}

/// The path of a file, its folder without links: approvals are bound to it.
fn without_links(path: &str) -> Option<String> {
    let path = Path::new(path);
    let file = fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?);
    file.into_os_string().into_string().ok()
}

/// Reads those of the files that exist, as they are for the project in this folder.
fn read_files(sources: Vec<Source>, folder: &str) -> Vec<ConfigFile> {
    let (project, user): (Vec<_>, Vec<_>) =
        sources.into_iter().partition(|source| source.scope == Scope::Project);
    let own: Vec<_> = user.iter().filter_map(|source| without_links(&source.path)).collect();
    // The home folder is no project: its files are the user's.
    let project = project
        .into_iter()
        .filter_map(|source| without_links(&source.path))
        .filter(|path| !own.contains(path));
    let mut files = Vec::new();
    for source in project.map(Source::project).chain(user) {
        match read_file(source.path.as_ref(), source.scope, source.scope.max_bytes()) {
            Ok(text) => files.extend(ConfigFile::parse_for(source, &text, folder)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => files.push(ConfigFile::unreadable(source, error.to_string())),
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::host::config::{Application, Config};

    /// F86
    #[test]
    fn files_of_all_applications_are_read_and_what_is_left_out_is_said() {
        let folder = env::temp_dir().join(format!("mcp-discovery-{}", std::process::id()));
        let (home, project) = (folder.join("home"), folder.join("project"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let one = |name: &str| format!(r#"{{ "mcpServers": {{ "{name}": {{ "command": "{name}" }} }} }}"#);
        write(project.join(".mcp.json"), &one("shared"));
        write(project.join(".codex/config.toml"), "[mcp_servers.codex]\ncommand = \"codex\"\n");
        write(home.join(".cursor/mcp.json"), &one("shared"));
        write(home.join(".gemini/settings.json"), "{ broken");
        fs::create_dir_all(home.join(".codeium/windsurf/mcp_config.json")).unwrap();
        let project = project.canonicalize().unwrap();
        let (home, project) = (home.to_str().unwrap(), project.to_str().unwrap());
        let claude = format!(
            r#"{{ "mcpServers": {{ "own": {{ "command": "own" }} }},
                 "projects": {{ "{project}": {{ "mcpServers": {{ "here": {{ "command": "here" }} }} }} }} }}"#
        );
        write(PathBuf::from(home).join(".claude.json"), &claude);

        let settings = format!("{home}/.config");
        let sources = Source::known_files(&Folders { home, settings: &settings, project: Some(project) });
        let files = read_files(sources, project);
        let found: Vec<_> = files.iter().map(|file| (file.source.application, file.servers.len())).collect();
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(
            found,
            [
                (Application::ClaudeCode, 1),
                (Application::Codex, 1),
                (Application::ClaudeCode, 1),
                (Application::ClaudeCode, 1),
                (Application::Cursor, 1),
                (Application::Windsurf, 0),
                (Application::Gemini, 0),
            ]
        );
        let config = Config::merge(files);
        let names: Vec<_> =
            config.servers().iter().map(|entry| (entry.name(), entry.source().scope)).collect();
        assert_eq!(
            names,
            [("here", Scope::User), ("own", Scope::User), ("shared", Scope::User), ("codex", Scope::Project)]
        );
        assert_eq!(config.omitted().len(), 1, "{:?}", config.omitted());
        let errors: Vec<_> = config.errors().iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 2, "{errors:?}");
    }

    /// F87
    #[test]
    fn folder_that_does_not_exist_is_an_error() {
        let error = discover("/nonexistent/folder".as_ref()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("/nonexistent/folder: "), "{error}");
    }
}
