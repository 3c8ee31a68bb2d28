//! Folders whose entries are opened by their names alone, without following links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
    Special,
}

/// An open folder. What is moved elsewhere, or replaced, after it was opened does not matter.
#[cfg(unix)]
pub(super) struct Folder(std::os::fd::OwnedFd);

#[cfg(unix)]
impl Folder {
    /// Opens the folder that the application has named, through links too.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};

        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// The entries but for itself and its parent. If there are more than `most`, one more than that.
    pub(super) fn entries(&self, most: usize) -> io::Result<Vec<(OsString, Kind)>> {
        use std::os::unix::ffi::OsStrExt as _;

        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let kind = match entry.file_type() {
                    rustix::fs::FileType::Unknown => self.kind(entry.file_name())?,
                    known => kind_of(known),
                };
                entries.push((OsStr::from_bytes(name).to_owned(), kind));
            }
            if entries.len() > most {
                break;
            }
        }
        Ok(entries)
    }

    /// The kind of an entry, from file systems that do not list it.
    fn kind(&self, name: &std::ffi::CStr) -> io::Result<Kind> {
        let stat = rustix::fs::statat(&self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)))
    }

    /// Opens a folder in it.
    pub(super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
        self.open_entry(name, rustix::fs::OFlags::DIRECTORY).map(Self)
    }

    /// Opens a file in it, for reading. A pipe in its place does not block.
    pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
        let file = File::from(self.open_entry(name, rustix::fs::OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn open_entry(&self, name: &OsStr, flags: rustix::fs::OFlags) -> io::Result<std::os::fd::OwnedFd> {
        use rustix::fs::{Mode, OFlags};

        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?)
    }
}

#[cfg(unix)]
fn kind_of(file_type: rustix::fs::FileType) -> Kind {
    match file_type {
        rustix::fs::FileType::RegularFile => Kind::File,
        rustix::fs::FileType::Directory => Kind::Folder,
        rustix::fs::FileType::Symlink => Kind::Link,
        _ => Kind::Special,
    }
}

/// A folder by its path, for systems without a way to open an entry of an open folder.
#[cfg(not(unix))]
pub(super) struct Folder(std::path::PathBuf);

#[cfg(not(unix))]
impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::canonicalize(path).map(Self)
    }

    pub(super) fn entries(&self, most: usize) -> io::Result<Vec<(OsString, Kind)>> {
        let kind = |entry: std::fs::DirEntry| Ok((entry.file_name(), kind_of(entry.file_type()?)));
        let entries = std::fs::read_dir(&self.0)?.take(most.saturating_add(1));
        entries.map(|entry| entry.and_then(kind)).collect()
    }

    pub(super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
        self.checked(name, Kind::Folder).map(Self)
    }

    pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.checked(name, Kind::File)?)
    }

    /// The path of an entry that is of this kind at the moment.
    fn checked(&self, name: &OsStr, kind: Kind) -> io::Result<std::path::PathBuf> {
        let path = self.0.join(name);
        match kind_of(std::fs::symlink_metadata(&path)?.file_type()) {
            found if found == kind => Ok(path),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

#[cfg(not(unix))]
fn kind_of(file_type: std::fs::FileType) -> Kind {
    match file_type {
        file if file.is_file() => Kind::File,
        folder if folder.is_dir() => Kind::Folder,
        link if link.is_symlink() => Kind::Link,
        _ => Kind::Special,
    }
}
