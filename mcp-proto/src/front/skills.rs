//! Skills of a server: in memory, or from a source that may change while the server runs.
//!
//! ```
//! use mcp_proto::front::Router;
//! use mcp_proto::front::skills::InMemorySkill;
//!
//! let knots = InMemorySkill::new("---\nname: knots\ndescription: Ties knots\n---\nSee references/BOWLINE.md.\n")
//!     .file("references/BOWLINE.md", "The rabbit comes out of its hole.\n");
//! let router = Router::new("sailing", "1.0.0").skill(knots);
//! assert!(router.check().is_ok());
//! ```
//!
//! Clients of 2026-07-28 list skills by `skills/list`, fetch the entry of one by `skills/get`, read its files by
//! `resources/read` and its folders by `resources/directory/read`. There is no notification of a changed list: a client
//! asks again when the [lifetime](super::Router::cache) of the listing has passed.
//!
//! <https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx>

use alloc::sync::Arc;
use core::future::{Future, ready};
use core::pin::Pin;

use super::HandlerError;
use crate::ordered_map::OrderedMap;
use crate::peer::Principal;
use crate::prelude::*;
use crate::schema::Resource;
use crate::schema::skills::{Frontmatter, MAIN_FILE, Skill, SkillFile, SkillFilesError, folder, uri_within};

/// The future of an operation of a [`SkillSource`].
pub type SkillFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send + 'a>>;

/// Skills that a router asks for at each request: those of a folder, or of an index too large to be listed.
///
/// `SkillFolder` of `mcp-hyper` is one. Work that blocks belongs on other threads. Each operation is told the principal of
/// the request, if the transport knows one: skills may differ by it, if the results are cached for one principal alone, as
/// they are by [default](super::Router::cache).
pub trait SkillSource: Send + Sync + 'static {
    /// What the URIs of all its skills and files begin with, up to a slash: `skill://acme/`, for example. No other source of
    /// the router may have URIs there.
    fn root(&self) -> &str;

    /// Adds the skills to list to a page, in ascending order of their URIs, from the first [after](SkillPage::after) a URI
    /// until there is [no room](SkillPage::has_room).
    ///
    /// # Errors
    /// If the list cannot be made: the client receives the error.
    fn list<'a>(&'a self, principal: Option<&'a Principal>, page: SkillPage) -> SkillFuture<'a, SkillPage>;

    /// Returns the [entry](Skill::describe) of a skill, listed or not; `None` if it serves no skill with this URI.
    ///
    /// # Errors
    /// If the entry cannot be made: the client receives the error.
    fn skill<'a>(&'a self, principal: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>>;

    /// Returns the bytes of a file; `None` if it serves no file with this URI.
    ///
    /// # Errors
    /// If the file cannot be read: the client receives the error.
    fn read<'a>(&'a self, principal: Option<&'a Principal>, uri: &'a str)
    -> SkillFuture<'a, Option<Vec<u8>>>;

    /// Returns what is directly within a directory, as [`Skill::children`] does; `None` if there is none with this URI. The
    /// directories that skills lie in are directories too: see
    /// [`directories_within`](crate::schema::skills::directories_within).
    ///
    /// # Errors
    /// If the directory cannot be read: the client receives the error.
    fn directory<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>>;
}

/// The number of files on a page of skills after which it ends: entries are not divided, and have up to 512 files.
const FILES_PER_PAGE: usize = 4096;

/// The size in bytes of the files on a page after which it ends: their digests are computed for it.
const BYTES_PER_PAGE: u64 = 64 * 1024 * 1024;

/// A page of the list of skills, which the [sources](SkillSource::list) of a router fill in turn.
///
/// It has room for as many skills as a [page](super::Router::page_size) of the router, and not for more after some 4,096
/// files or 64 MiB.
#[derive(Debug)]
pub struct SkillPage {
    pub(super) after: Option<String>,
    pub(super) skills: Vec<Skill>,
    most: usize,
    files: usize,
    bytes: u64,
    pub(super) is_full: bool,
}

impl SkillPage {
    /// An empty page for at most so many skills, with URIs after this one.
    pub fn new(after: Option<String>, most: usize) -> Self {
        Self { after, skills: Vec::new(), most: most.max(1), files: 0, bytes: 0, is_full: false }
    }

    /// The URI before those of all skills that belong on the page; `None` if the first one does.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// Returns whether there is room for a further skill, and if not, that the list goes on after the page. Ask when there is
    /// a further one, before its entry is made.
    pub fn has_room(&mut self) -> bool {
        let has_room =
            self.skills.len() < self.most && self.files < FILES_PER_PAGE && self.bytes < BYTES_PER_PAGE;
        self.is_full |= !has_room;
        has_room
    }

    /// Adds a skill, if it comes [after](Self::after) the last one and there is room.
    pub fn push(&mut self, skill: Skill) {
        if self.after().is_some_and(|after| *skill.uri <= *after) || !self.has_room() {
            return;
        }
        self.after = Some(skill.uri.clone());
        self.files = self.files.saturating_add(skill.files().len());
        self.bytes = self.bytes.saturating_add(skill.size());
        self.skills.push(skill);
    }

    /// The skills that it has by now, of all sources.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }
}

/// A skill in memory, for [`Router::skill`](super::Router::skill).
///
/// Its URI is `skill://`, its [path](Self::under), its name and `/SKILL.md`. A further `SKILL.md` among its files is a
/// skill of its own, which is listed too.
#[derive(Clone, Debug)]
pub struct InMemorySkill {
    path: String,
    main_file: String,
    files: Vec<(String, Vec<u8>)>,
}

impl InMemorySkill {
    /// Creates a skill from the text of its `SKILL.md`, whose frontmatter has its name.
    pub fn new(main_file: impl Into<String>) -> Self {
        Self { path: String::new(), main_file: main_file.into(), files: Vec::new() }
    }

    /// Sets the path that its URI has before its name, such as `acme/billing`. Default: none.
    #[must_use]
    pub fn under(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Adds a file, by its path in the skill, with slashes between folders.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    /// What tells the skill from others, for errors: its name, or its path if the frontmatter cannot be read.
    pub(super) fn name(&self) -> String {
        let frontmatter = Frontmatter::parse(&self.main_file);
        frontmatter.map_or_else(|_| self.path.clone(), |frontmatter| frontmatter.name().to_owned())
    }

    //= S12.14 "by an entry of its own"
    /// Makes the source of this skill and of those within it.
    pub(super) fn build(self) -> Result<MemorySource, SkillFilesError> {
        let frontmatter = Frontmatter::parse(&self.main_file).map_err(SkillFilesError::Frontmatter)?;
        let invalid = |path: &str| SkillFilesError::Path { path: path.to_owned() };
        let prefix = match &*self.path {
            "" => Some("skill://".to_owned()),
            path => uri_within("skill://", path),
        };
        let own = prefix.and_then(|prefix| uri_within(&prefix, frontmatter.name()));
        let own = own.ok_or_else(|| invalid(&self.path))?;
        let (mut all, mut contents) = (Vec::new(), OrderedMap::new());
        let main_file = (MAIN_FILE.to_owned(), self.main_file.into_bytes());
        for (path, content) in core::iter::once(main_file).chain(self.files) {
            let uri = uri_within(&own, &path).ok_or_else(|| invalid(&path))?;
            all.push(SkillFile::of(&*uri, &content));
            contents.insert(uri, content);
        }
        let mut skills = Vec::new();
        for uri in contents.keys().filter(|uri| folder(uri).is_some()) {
            let root = uri.strip_suffix(MAIN_FILE).unwrap_or(uri);
            let files = all.iter().filter(|file| file.uri.starts_with(root)).cloned().collect();
            let main_file = contents.get(uri).map(Vec::as_slice).unwrap_or_default();
            skills.push(Skill::describe(&**uri, main_file, files)?);
        }
        Ok(MemorySource { root: format!("{own}/"), skills, contents: Arc::new(contents) })
    }
}

/// Skills in memory: one, and those within it.
pub(super) struct MemorySource {
    root: String,
    /// In the order of their URIs.
    skills: Vec<Skill>,
    contents: Arc<OrderedMap<String, Vec<u8>>>,
}

impl MemorySource {
    /// The files as resources: each `SKILL.md` with the name and the description of its skill.
    pub(super) fn resources(&self) -> impl Iterator<Item = Resource> {
        let outermost = self.skills.iter().min_by_key(|skill| skill.uri.len());
        let files =
            outermost.into_iter().flat_map(|skill| skill.files().iter().map(move |file| (skill, file)));
        files.map(|(skill, file)| {
            let own = self.skills.iter().find(|skill| skill.uri == file.uri);
            own.unwrap_or(skill).resource(file)
        })
    }

    pub(super) fn contents(&self) -> &Arc<OrderedMap<String, Vec<u8>>> {
        &self.contents
    }

    fn find(&self, uri: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.uri == uri)
    }
}

impl SkillSource for MemorySource {
    fn root(&self) -> &str {
        &self.root
    }

    fn list<'a>(&'a self, _: Option<&'a Principal>, mut page: SkillPage) -> SkillFuture<'a, SkillPage> {
        let first =
            self.skills.partition_point(|skill| page.after().is_some_and(|after| *skill.uri <= *after));
        for skill in self.skills.iter().skip(first) {
            if !page.has_room() {
                break;
            }
            page.push(skill.clone());
        }
        Box::pin(ready(Ok(page)))
    }

    fn skill<'a>(&'a self, _: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(ready(Ok(self.find(uri).cloned())))
    }

    /// Its files are resources of the router, which reads them itself, unless they are disabled.
    fn read<'a>(&'a self, _: Option<&'a Principal>, _: &'a str) -> SkillFuture<'a, Option<Vec<u8>>> {
        Box::pin(ready(Ok(None)))
    }

    fn directory<'a>(
        &'a self,
        _: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(ready(Ok(self.skills.iter().find_map(|skill| skill.children(uri)))))
    }
}
