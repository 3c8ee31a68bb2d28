//! Files and folders that only their owner can access.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for another process's lock of a file, under which it reads, compares and writes.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Options of a file that only its owner can access.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = File::options();
    //= C12.24 "Secure token storage"
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true);
    options
}

/// Creates a folder that only its owner can access.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    check_private(folder)
}

/// Checks that no other user can access a folder.
#[cfg(unix)]
pub(crate) fn check_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = std::fs::metadata(folder)?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let what =
        format!("others may look into the folder (mode {mode:03o}): it should be for its owner alone (700)");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(not(unix))]
pub(crate) fn check_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a file atomically: readers find the old file or the new one, whole. `new` is the name of the file until it is
/// complete; no other writer uses it at this time.
pub(crate) fn replace(path: &Path, new: &Path, contents: &[u8]) -> io::Result<()> {
    replace_if(path, new, contents, |_| Ok(()))
}

/// Writes a file [atomically](replace), unless `check` fails, which gets the new file just before it is the file.
pub(crate) fn replace_if(
    path: &Path,
    new: &Path,
    contents: &[u8],
    check: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let written = (|| {
        let mut file = private_file().create_new(true).open(new)?;
        file.write_all(contents)?;
        file.sync_all()?;
        check(&file)?;
        fs::rename(new, path)
    })();
    if written.is_err() {
        // The incomplete file is useless.
        let _ = fs::remove_file(new);
    }
    written
}

/// Opens a file of a private folder for reading; `None` if there is none.
pub(crate) fn open(folder: &Path, name: &str) -> io::Result<Option<File>> {
    let opened = fs::metadata(folder).and_then(|_| {
        check_private(folder)?;
        File::open(folder.join(name))
    });
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// A random number for a name or a version, which was never used before.
pub(crate) fn random() -> io::Result<u64> {
    getrandom::u64().map_err(|error| io::Error::other(error.to_string()))
}

/// Flushes the folder's entries to disk. Not every file system can.
pub(crate) fn sync(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Locks out other processes until the file is dropped. The lock file must never be removed: removal would let two of
/// them in.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let lock = private_file().create(true).open(path)?;
    hold(&lock, PATIENCE)?;
    Ok(lock)
}

/// Locks a file or folder for as long as it is open; waits for so long until it is free.
pub(crate) fn hold(lock: &File, patience: Duration) -> io::Result<()> {
    let end = Instant::now() + patience;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds on to them"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
