//! The search for skills in a folder, and the files of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mcp_proto::front::skills::SkillPage;
use mcp_proto::schema::Resource;
use mcp_proto::schema::skills::{
    DIRECTORY_MEDIA_TYPE, Digest, MAIN_FILE, MAX_BYTES, MAX_FILES, Skill, SkillFile, SkillFilesError,
    directories_within, uri_within,
};

use super::{NotServed, SkillProblem};

/// How many folders lie within each other at most.
pub(super) const MAX_DEPTH: usize = 16;

/// How many entries of folders one search looks at: far more than any collection of skills has, and few enough for one
/// that was pointed at a whole disk.
const MAX_ENTRIES: usize = 100_000;

/// What is read of the files.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// Everything, for their digests.
    Digests,
    /// Their sizes, and each `SKILL.md`. Digests are zero.
    Sizes,
    /// Their sizes, each `SKILL.md`, and the file that is searched for.
    Content,
}

/// A search in the folder of a source.
pub(super) struct Search {
    path: PathBuf,
    root: String,
    /// The URI that is searched for; all skills without one.
    target: Option<String>,
    /// The folder with the `SKILL.md` of this URI.
    place: Option<PathBuf>,
    /// The page that is filled with the skills that are found.
    page: Option<SkillPage>,
    /// Whether there is a further skill, for which the page has no room.
    has_ended: bool,
    reading: Reading,
    entries: usize,
    pub(super) problems: Vec<SkillProblem>,
    /// The bytes of the file that was to be read.
    pub(super) content: Option<Vec<u8>>,
    /// The URIs of the folders within skills, with a slash at the end: no entry has those without files.
    folders: BTreeSet<String>,
}

/// A folder that is being read.
struct OpenFolder<'a> {
    handle: &'a Folder,
    path: &'a Path,
    /// Its URI.
    uri: &'a str,
    depth: usize,
}

/// An entry of a folder that may be served.
struct Entry {
    name: String,
    uri: String,
    path: PathBuf,
    kind: Kind,
}

impl Entry {
    /// The place among other entries, for which the URI of a folder ends with a slash.
    fn order(&self) -> impl Iterator<Item = u8> {
        self.uri.bytes().chain((self.kind == Kind::Folder).then_some(b'/'))
    }
}

/// The files of a skill and of those within it.
#[derive(Default)]
struct Files {
    files: Vec<SkillFile>,
    size: u64,
    /// The bytes of each `SKILL.md` by its URI, with the path of its folder.
    main_files: BTreeMap<String, (PathBuf, Vec<u8>)>,
}

/// Why a skill cannot be served as a whole, and where.
type Refused = (PathBuf, NotServed);

impl Search {
    pub(super) fn new(path: &Path, root: &str) -> Self {
        let (path, root) = (path.to_owned(), root.to_owned());
        Self {
            path,
            root,
            target: None,
            place: None,
            page: None,
            has_ended: false,
            reading: Reading::Sizes,
            entries: 0,
            problems: Vec::new(),
            content: None,
            folders: BTreeSet::new(),
        }
    }

    /// Fills a page with skills, those within others included. What comes before it is not read.
    ///
    /// # Errors
    /// If the folder itself cannot be read, or has too many entries.
    pub(super) fn fill(&mut self, page: SkillPage) -> io::Result<SkillPage> {
        self.page = Some(page);
        self.all(Reading::Digests)?;
        self.page.take().ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Finds all skills of the folder, with those within others.
    ///
    /// # Errors
    /// If the folder itself cannot be read, or has too many entries.
    pub(super) fn all(&mut self, reading: Reading) -> io::Result<Vec<Skill>> {
        self.reading = reading;
        self.find()
    }

    /// Finds the skills of the outermost folder with a `SKILL.md` on the way to this URI, or below it.
    ///
    /// # Errors
    /// If the folder itself cannot be read, or has too many entries.
    pub(super) fn around(&mut self, uri: &str, reading: Reading) -> io::Result<Vec<Skill>> {
        self.target = Some(uri.to_owned());
        self.all(reading)
    }

    /// Why the skill that is searched for is not served, if there is one.
    pub(super) fn refusal(&self) -> Option<&NotServed> {
        let folder = self.place.as_deref()?;
        let is_of_skill = |problem: &&SkillProblem| match problem.reason {
            // The skill is served without the file, unless it is this one.
            NotServed::Link | NotServed::Special | NotServed::Name => problem.path == folder.join(MAIN_FILE),
            _ => problem.path.starts_with(folder),
        };
        self.problems.iter().find(is_of_skill).map(|problem| &problem.reason)
    }

    /// What is directly within a directory of one of these skills, which were found, or above them; `None` if there is none
    /// at this URI.
    pub(super) fn children(&self, skills: &[Skill], directory: &str) -> Option<Vec<Resource>> {
        let has = |folder: &str| {
            directory.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let Some(skill) = skills.iter().find(|skill| skill.folder().is_some_and(has)) else {
            let above = directories_within(directory, skills.iter().map(|skill| &*skill.uri));
            let is_root = self.root.strip_suffix('/') == Some(directory);
            return (is_root || !above.is_empty()).then_some(above);
        };
        let listed = skill.children(directory);
        if listed.is_none() && !self.folders.contains(&format!("{directory}/")) {
            return None;
        }
        let mut children = directories_within(directory, self.folders.iter().map(String::as_str));
        let is_file = |child: &Resource| child.mime_type.as_deref() != Some(DIRECTORY_MEDIA_TYPE);
        children.extend(listed.into_iter().flatten().filter(is_file));
        children.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        Some(children)
    }

    fn find(&mut self) -> io::Result<Vec<Skill>> {
        let (path, uri) = (self.path.clone(), self.root.clone());
        let handle = match Folder::open(&path) {
            // There is nothing in it yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.report(path, NotServed::Unreadable(error.kind()));
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        let root = OpenFolder { handle: &handle, path: &path, uri: &uri, depth: 0 };
        let mut skills = Vec::new();
        match self.entries(&root).and_then(|entries| self.visit(&root, entries, &mut skills)) {
            Ok(()) => Ok(skills),
            // The folder itself.
            Err((refused, NotServed::Unreadable(kind))) if refused == path => Err(kind.into()),
            Err((refused, reason)) => {
                self.report(refused, reason);
                Ok(skills)
            }
        }
    }

    /// Reads a folder: as a skill if it has a `SKILL.md`, otherwise for the skills in it.
    fn visit(
        &mut self,
        folder: &OpenFolder<'_>,
        entries: Vec<Entry>,
        skills: &mut Vec<Skill>,
    ) -> Result<(), Refused> {
        if !entries.iter().any(is_main_file) {
            return self.descend(folder, entries, skills);
        }
        self.has_ended = self.page.as_mut().is_some_and(|page| !page.has_room());
        if self.has_ended {
            return Ok(());
        }
        let (mut files, known) = (Files::default(), self.problems.len());
        let refused = match self.collect(folder, &entries, &mut files) {
            Ok(()) => {
                let found = self.describe(files);
                match &mut self.page {
                    Some(page) => found.into_iter().for_each(|skill| page.push(skill)),
                    None => skills.extend(found),
                }
                return Ok(());
            }
            Err(refused) if self.entries > MAX_ENTRIES => return Err(refused),
            Err((_, reason @ NotServed::Skill(_))) => (folder.path.to_owned(), reason),
            Err(refused) => refused,
        };
        // A skill within it may be served nevertheless. What is wrong there is found again.
        self.problems.truncate(known);
        self.descend(folder, entries, skills)?;
        let (path, reason) = refused;
        if !self.problems.iter().skip(known).any(|it| it.path == path && it.reason == reason) {
            self.report(path, reason);
        }
        Ok(())
    }

    /// Looks for skills in the folders of a folder.
    fn descend(
        &mut self,
        folder: &OpenFolder<'_>,
        entries: Vec<Entry>,
        skills: &mut Vec<Skill>,
    ) -> Result<(), Refused> {
        for entry in entries.into_iter().filter(|entry| entry.kind == Kind::Folder) {
            if self.has_ended {
                break;
            }
            if !self.leads_there(&entry.uri) {
                continue;
            }
            let visited =
                self.enter(folder, &entry, |search, folder, entries| search.visit(folder, entries, skills));
            match visited {
                // The whole search ends.
                Err(refused) if self.entries > MAX_ENTRIES => return Err((self.path.to_owned(), refused.1)),
                Err((path, reason)) => self.report(path, reason),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Whether there may be something in a folder that is searched for.
    fn leads_there(&self, folder: &str) -> bool {
        let folder = format!("{folder}/");
        let is_passed = |after: &str| *folder < *after && !after.starts_with(&folder);
        let is_on_page = !self.page.as_ref().and_then(SkillPage::after).is_some_and(is_passed);
        let leads = |target: &str| target.starts_with(&folder) || folder.starts_with(target);
        is_on_page && self.target.as_deref().is_none_or(leads)
    }

    /// Opens a folder, and does something with its entries.
    fn enter(
        &mut self,
        folder: &OpenFolder<'_>,
        entry: &Entry,
        visit: impl FnOnce(&mut Self, &OpenFolder<'_>, Vec<Entry>) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let depth = folder.depth.saturating_add(1);
        if depth > MAX_DEPTH {
            return Err((entry.path.clone(), NotServed::TooDeep));
        }
        let handle = folder.handle.folder(entry.name.as_ref()).map_err(|error| unreadable(entry, &error))?;
        let inner = OpenFolder { handle: &handle, path: &entry.path, uri: &entry.uri, depth };
        let entries = self.entries(&inner)?;
        visit(self, &inner, entries)
    }

    /// The entries of a folder that may be served, ordered by the URIs of the files in them.
    fn entries(&mut self, folder: &OpenFolder<'_>) -> Result<Vec<Entry>, Refused> {
        let failed = |error: io::Error| (folder.path.to_owned(), NotServed::Unreadable(error.kind()));
        let found = folder.handle.entries(MAX_ENTRIES.saturating_sub(self.entries)).map_err(failed)?;
        self.entries = self.entries.saturating_add(found.len());
        if self.entries > MAX_ENTRIES {
            return Err(failed(io::ErrorKind::FileTooLarge.into()));
        }
        let mut entries = Vec::with_capacity(found.len());
        for (name, kind) in found {
            let path = folder.path.join(&name);
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let uri = name.to_str().and_then(|name| Some((name.to_owned(), uri_within(folder.uri, name)?)));
            let is_target = uri.as_ref().is_some_and(|(_, uri)| self.target.as_ref() == Some(uri));
            if is_target && path.ends_with(MAIN_FILE) {
                self.place = Some(folder.path.to_owned());
            }
            match (uri, kind) {
                (Some((name, uri)), Kind::File | Kind::Folder) => {
                    entries.push(Entry { name, uri, path, kind })
                }
                (None, _) => self.report(path, NotServed::Name),
                (_, Kind::Link) => self.report(path, NotServed::Link),
                (_, Kind::Special) => self.report(path, NotServed::Special),
            }
        }
        entries.sort_unstable_by(|a, b| a.order().cmp(b.order()));
        Ok(entries)
    }

    /// Collects the files of a skill, and of the folders in it.
    fn collect(
        &mut self,
        folder: &OpenFolder<'_>,
        entries: &[Entry],
        files: &mut Files,
    ) -> Result<(), Refused> {
        for entry in entries {
            if entry.kind == Kind::Folder {
                self.enter(folder, entry, |search, folder, entries| {
                    search.folders.insert(format!("{}/", folder.uri));
                    search.collect(folder, &entries, files)
                })?;
                continue;
            }
            let file = folder.handle.file(entry.name.as_ref()).map_err(|error| unreadable(entry, &error))?;
            let listed = self.list(entry, file, files).map_err(|error| unreadable(entry, &error))?;
            files.size = files.size.saturating_add(listed.size);
            files.files.push(listed);
            // What is too much is not read to its end.
            let count = files.files.len();
            let refused = match files.size {
                _ if count > MAX_FILES => SkillFilesError::TooManyFiles { count },
                size if size > MAX_BYTES => SkillFilesError::TooLarge { size },
                _ => continue,
            };
            return Err((folder.path.to_owned(), NotServed::Skill(refused)));
        }
        Ok(())
    }

    /// Lists a file, as far as it has to be read.
    fn list(&mut self, entry: &Entry, file: File, files: &mut Files) -> io::Result<SkillFile> {
        let is_wanted = matches!(self.reading, Reading::Content) && self.target.as_ref() == Some(&entry.uri);
        let is_main = is_main_file(entry);
        let size = file.metadata()?.len();
        let is_read = is_main || is_wanted || matches!(self.reading, Reading::Digests);
        if !is_read || size > MAX_BYTES {
            return Ok(SkillFile::new(&*entry.uri, Digest::new([0; 32]), size));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
        let listed = match self.reading {
            Reading::Digests => SkillFile::of(&*entry.uri, &bytes),
            _ => SkillFile::new(
                &*entry.uri,
                Digest::new([0; 32]),
                u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            ),
        };
        if is_wanted {
            self.content = Some(bytes.clone());
        }
        if is_main {
            let folder = entry.path.parent().unwrap_or(&entry.path).to_owned();
            files.main_files.insert(entry.uri.clone(), (folder, bytes));
        }
        Ok(listed)
    }

    /// The entries of a skill and of those within it.
    fn describe(&mut self, files: Files) -> Vec<Skill> {
        let mut skills = Vec::new();
        for (uri, (path, main_file)) in files.main_files {
            let root = uri.strip_suffix(MAIN_FILE).unwrap_or(&uri);
            let own = files.files.iter().filter(|file| file.uri.starts_with(root)).cloned().collect();
            match Skill::describe(&*uri, &main_file, own) {
                Ok(skill) => skills.push(skill),
                Err(error) => self.report(path, NotServed::Skill(error)),
            }
        }
        skills
    }

    fn report(&mut self, path: PathBuf, reason: NotServed) {
        self.problems.push(SkillProblem { path, reason });
    }
}

fn is_main_file(entry: &Entry) -> bool {
    entry.kind == Kind::File && entry.name == MAIN_FILE
}

fn unreadable(entry: &Entry, error: &io::Error) -> Refused {
    (entry.path.clone(), NotServed::Unreadable(error.kind()))
}

// Folders whose entries are opened by their names alone, without following links.

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
    fn folder(&self, name: &OsStr) -> io::Result<Self> {
        self.open_entry(name, rustix::fs::OFlags::DIRECTORY).map(Self)
    }

    /// Opens a file in it, for reading. A pipe in its place does not block.
    fn file(&self, name: &OsStr) -> io::Result<File> {
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

    fn folder(&self, name: &OsStr) -> io::Result<Self> {
        self.checked(name, Kind::Folder).map(Self)
    }

    fn file(&self, name: &OsStr) -> io::Result<File> {
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
