//! The configuration files of known applications, and the values that they refer to.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mcp_proto::Secret;
use mcp_proto::host::config::{
    ConfigFile, ENV_FILE_BYTES, Folders, Lookup, PredefinedVariable, Scope, Source,
};

use crate::private_files::{make_private, random, replace_if};

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
    let folder = real_path(folder).map_err(told)?.into_os_string().into_string();
    let folder = folder.map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"))?;
    Ok(read_files(known_files(Some(&folder)), &folder))
}

/// Returns the absolute path without links, to which approvals are bound.
///
/// On Windows it has no prefix `\\?\`: no configuration has that before the folder of a project, and `cmd.exe`, and so
/// `npx`, refuses to run in a folder of such a name. Only a path that is too long for other programs keeps it.
///
/// ```no_run
/// let folder = mcp_hyper::host::real_path("../app".as_ref())?;
/// let files = mcp_hyper::host::discover(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If there is no such file or folder.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    /// The longest path of Windows without the prefix, in UTF-16 units.
    const LONGEST: usize = 247;
    let path = fs::canonicalize(path)?;
    let usual = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    let is_short = |usual: &&str| usual.get(1..3) == Some(r":\") && usual.encode_utf16().count() <= LONGEST;
    match usual.filter(is_short) {
        Some(usual) if cfg!(windows) => Ok(usual.into()),
        _ => Ok(path),
    }
}

/// The path of a file, its folder without links: approvals are bound to it.
fn without_links(path: &str) -> Option<String> {
    let path = Path::new(path);
    let file = real_path(path.parent()?).ok()?.join(path.file_name()?);
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

/// Looks a value up as a host does by default: variables in the environment of this process, files of variables on disk.
/// `None` if it does not exist, or only the user knows it. `project_folder` is that of
/// [`HostOptions::project_folder`](super::HostOptions::project_folder).
pub fn look_up(lookup: &Lookup, scope: Scope, project_folder: Option<&Path>) -> Option<Secret> {
    use PredefinedVariable::{
        PathSeparator, UserHome, WorkingDirectory, WorkspaceFolder, WorkspaceFolderBasename,
    };
    let path = match lookup {
        Lookup::Variable(name) => return env::var(name).ok().map(Secret::new),
        Lookup::EnvFile(path) => {
            let path = project_folder.unwrap_or(Path::new("")).join(path);
            let content = String::from_utf8(read_file(&path, scope, ENV_FILE_BYTES).ok()?).ok();
            return content.filter(|text| text.len() <= ENV_FILE_BYTES).map(Secret::new);
        }
        Lookup::Predefined(WorkspaceFolder) => project_folder?.into(),
        Lookup::Predefined(WorkspaceFolderBasename) => project_folder?.file_name()?.into(),
        Lookup::Predefined(UserHome) => env::home_dir()?,
        Lookup::Predefined(WorkingDirectory) => env::current_dir().ok()?,
        Lookup::Predefined(PathSeparator) => std::path::MAIN_SEPARATOR_STR.into(),
        _ => return None,
    };
    path.to_str().map(Secret::new)
}

/// Reads at most `limit` bytes of a configuration file or a file of variables, and one byte more if it is longer.
///
/// Only a regular file is read, so that no pipe and no device blocks the host. On Unix a project's file must belong to
/// the user or to root: another user of the machine could change it after its approval.
///
/// ```no_run
/// use mcp_hyper::host::read_file;
/// use mcp_hyper::mcp_proto::host::config::{ConfigFile, PROJECT_FILE_BYTES, Scope, Source};
///
/// let path = "/work/app/.mcp.json";
/// let text = read_file(path.as_ref(), Scope::Project, PROJECT_FILE_BYTES)?;
/// let file = ConfigFile::parse(Source::project(path), &text);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be read, is no regular file, or is a project's and belongs to another user.
pub fn read_file(path: &Path, scope: Scope, limit: usize) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = "it is not a regular file, but a folder, a pipe or a device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    #[cfg(unix)]
    if scope == Scope::Project {
        let owner = std::os::unix::fs::MetadataExt::uid(&metadata);
        check_owner(owner, rustix::process::geteuid().as_raw())?;
    }
    #[cfg(not(unix))]
    let _ = scope;
    let mut content = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Creates a folder that only its owner can access, with the folders above it, for traces for example.
///
/// # Errors
/// If it cannot be created, or is there and others may access it.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    make_private(folder)
}

/// Replaces a configuration file by other contents, if it still has those that were read: at once, so that its application
/// finds the old file or the new one, whole. The file keeps its permissions, and a link to it leads to the new one.
///
/// # Errors
/// If the file has changed ([`ErrorKind::ResourceBusy`](io::ErrorKind::ResourceBusy)), belongs to another user, or cannot be
/// written. It stays as it was then.
pub fn replace_file(path: &Path, read: &[u8], contents: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::uid(&metadata) != rustix::process::geteuid().as_raw() {
        let what = "it belongs to another user of this machine, whose application could not read the new one";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut new = path.clone().into_os_string();
    new.push(format!(".{:016x}", random()?));
    replace_if(&path, new.as_ref(), contents, |file| {
        file.set_permissions(metadata.permissions())?;
        match fs::read(&path)? == read {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::ResourceBusy, "it was changed in between: try again")),
        }
    })
}

/// Opens a file without waiting for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options.read(true).open(path)
}

#[cfg(unix)]
fn check_owner(owner: u32, user: u32) -> io::Result<()> {
    if owner == user || owner == 0 {
        return Ok(());
    }
    let what = format!(
        "it belongs to another user of this machine (id {owner}), who could change it after its approval: \
         copy the project, or become its owner"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
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
        let project = real_path(&project).unwrap();
        let (home, project) = (home.to_str().unwrap(), project.to_str().unwrap());
        // As Claude Code writes it, on Windows too.
        let key = project.replace('\\', "/");
        let claude = format!(
            r#"{{ "mcpServers": {{ "own": {{ "command": "own" }} }},
                 "projects": {{ "{key}": {{ "mcpServers": {{ "here": {{ "command": "here" }} }} }} }} }}"#
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

    #[test]
    fn file_is_replaced_unless_it_has_changed() {
        let folder = env::temp_dir().join(format!("mcp-replaced-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("mcp.json");
        fs::write(&path, "old").unwrap();
        #[cfg(unix)]
        let path = {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let link = folder.join("link.json");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            link
        };
        let busy = replace_file(&path, b"other", b"new").unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        replace_file(&path, b"old", b"new").unwrap();
        assert_eq!(fs::read(folder.join("mcp.json")).unwrap(), b"new");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
            assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        }
        assert!(
            fs::read_dir(&folder).unwrap().all(|file| file
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .ends_with("json"))
        );
        fs::remove_dir_all(folder).unwrap();
    }

    /// F87
    #[test]
    fn folder_that_does_not_exist_is_an_error() {
        let error = discover("/nonexistent/folder".as_ref()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("/nonexistent/folder: "), "{error}");
    }
}

#[cfg(all(test, unix))]
mod reading_tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn pipes_and_devices_are_refused_without_waiting() {
        let pipe = std::env::temp_dir().join(format!("mcp-pipe-{}", std::process::id()));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let refused = read_file(&pipe, Scope::Project, 10).unwrap_err();
        fs::remove_file(&pipe).unwrap();
        assert!(refused.to_string().contains("not a regular file"), "{refused}");
        for path in ["/dev/zero", "/"] {
            let refused = read_file(Path::new(path), Scope::User, 10).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }

    #[test]
    fn owner_of_a_projects_file_is_the_user_or_root() {
        for (owner, user) in [(1000, 1000), (0, 1000), (0, 0)] {
            assert!(check_owner(owner, user).is_ok(), "{owner} {user}");
        }
        for (owner, user) in [(1001, 1000), (1000, 0)] {
            let error = check_owner(owner, user).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(
                error.to_string().contains(&format!("another user of this machine (id {owner})")),
                "{error}"
            );
        }
    }

    #[test]
    fn projects_file_of_another_user_is_refused() {
        let path = std::env::temp_dir().join(format!("mcp-owner-{}", std::process::id()));
        fs::write(&path, "0123456789ab").unwrap();
        let read = read_file(&path, Scope::Project, 10).unwrap();
        // Only root can give a file away.
        let refused = std::os::unix::fs::chown(&path, Some(12_345), None)
            .map(|()| (read_file(&path, Scope::Project, 10), read_file(&path, Scope::User, 10)));
        fs::remove_file(&path).unwrap();
        assert_eq!(read, b"0123456789a", "one byte more than the limit shows that the file is longer");
        if let Ok((of_project, of_user)) = refused {
            let error = of_project.unwrap_err();
            assert!(error.to_string().contains("another user"), "{error}");
            assert!(of_user.is_ok());
        }
    }
}
