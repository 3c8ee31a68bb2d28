//! Files of users and projects.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

use mcp_proto::host::config::Scope;

/// Reads at most `limit` bytes of a configuration file or a file of variables, and one byte more if it is longer.
///
/// Only a regular file is read, so that no pipe and no device blocks the host. On Unix a project's file must belong to
/// the user or to root: another user of the machine could change it after its approval.
///
/// ```no_run
/// use mcp_hyper::host::read_file;
/// use mcp_proto::host::config::{ConfigFile, PROJECT_FILE_BYTES, Scope, Source};
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
    if scope == Scope::Project {
        check_owner(&metadata)?;
    }
    let mut content = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a file without waiting for the other end of a pipe.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(unix)]
fn check_owner(metadata: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user || owner == 0 {
        return Ok(());
    }
    let what = format!(
        "it belongs to another user of this machine (id {owner}), who could change it after its approval: \
         copy the project, or become its owner"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(not(unix))]
fn check_owner(_: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

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
