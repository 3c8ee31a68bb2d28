//! Skills, and the answers to requests for them.

use alloc::sync::Arc;
use core::future::ready;

use super::uri::is_uri;
use super::{Context, HandlerMode, Router, RouterContents, RouterError};
use crate::front::HandlerError;
use crate::front::reply::Reply;
use crate::front::skills::{InMemorySkill, SkillSource};
use crate::front::wakers::SendFuture;
use crate::peer::server::resource_not_found;
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::skills::{
    GetSkillParams, GetSkillResult, ListSkillsParams, ListSkillsResult, ReadDirectoryParams,
    ReadDirectoryResult, Skill, contents,
};
use crate::schema::{List, ReadResourceParams, ReadResourceResult, Resource, Revision, ServerCapability};

/// The number of files on a page of skills after which it ends: entries are not divided, and have up to 512 files.
const FILES_PER_PAGE: usize = 4096;

/// The size in bytes of the files on a page after which it ends: their digests are computed for it.
const BYTES_PER_PAGE: u64 = 64 * 1024 * 1024;

/// Skills.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Registers a skill in memory. Its files are resources, which are listed for every client; the skill itself is for
    /// clients of 2026-07-28, by the skills extension, which the router declares.
    ///
    /// Files that are no skill, or more or larger than every host accepts, are a [`RouterError::Skill`] of
    /// [`check`](Self::check); two skills, one within the folder of the other, a [`RouterError::SkillOverlap`], since the
    /// listing of the outer one has all files of its folder: add them to the outer one as files.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::Router;
    /// use mcp_proto::front::skills::InMemorySkill;
    /// use mcp_proto::schema::CacheHint;
    /// use mcp_proto::schema::skills::ListSkills;
    ///
    /// let refunds = InMemorySkill::new("---\nname: refunds\ndescription: Pays money back\n---\nAsk first.\n")
    ///     .under("acme/billing")
    ///     .file("templates/email.md", "Dear customer, …");
    /// let router = Router::new("billing", "1.0.0")
    ///     .skill(refunds)
    ///     .cache::<ListSkills>(CacheHint::public(Duration::from_secs(300)));
    /// assert!(router.check().is_ok());
    /// ```
    ///
    /// <https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx>
    pub fn skill(mut self, skill: InMemorySkill) -> Self {
        let name = skill.name();
        let source = match skill.build() {
            Ok(source) => source,
            Err(error) => {
                self.record_error(RouterError::Skill { name, error });
                return self;
            }
        };
        for resource in source.resources() {
            let files = source.contents().clone();
            let handler = M::wrap_handler(move |read: ReadResourceParams, context: Context| {
                ready_reply(read_reply(&read.uri, files.get(&read.uri).cloned(), context.revision()))
            });
            self = self.change(|contents| contents.resources.insert(resource.uri.clone(), resource, handler));
        }
        self.skills_from(source)
    }

    /// Registers a source of skills, which is asked at each request. The router declares the skills extension.
    ///
    /// Its files are read by their URIs, but not listed as resources.
    pub fn skills_from(mut self, source: impl SkillSource) -> Self {
        if let Err(error) = self.contents.add_skills(Arc::new(source)) {
            self.record_error(error);
            return self;
        }
        self.declare(ServerCapability::Resources).declare(ServerCapability::DirectoryRead)
    }

    /// Removes a skill in memory with its files, or a source of skills, by its folder: the URI of the `SKILL.md` without
    /// `/SKILL.md`, or the [root](SkillSource::root).
    ///
    /// An unknown one is a [`RouterError::NotRegistered`] of [`check`](Self::check).
    pub fn remove_skill(self, folder: &str) -> Self {
        let root = format!("{}/", folder.trim_end_matches('/'));
        self.change(|contents| {
            let skills = Arc::make_mut(&mut contents.skills);
            let before = skills.len();
            skills.retain(|source| source.root() != root);
            if skills.len() == before {
                return Err(RouterError::NotRegistered { kind: "skill", name: folder.into() });
            }
            let files: Vec<String> = contents
                .resources
                .iter()
                .map(|entry| &entry.item.uri)
                .filter(|uri| uri.starts_with(&root))
                .cloned()
                .collect();
            files.iter().try_for_each(|uri| contents.resources.remove(uri))
        })
    }

    /// Starts to list skills.
    pub(super) fn list_skills(&self, params: ListSkillsParams) -> M::HandlerFuture {
        let (sources, most) = (self.contents.skills.clone(), self.contents.page_size.max(1));
        M::wrap_future(Box::pin(async move {
            let listed = match page(&sources, params.cursor.as_deref(), most).await {
                Ok(page) => page,
                Err(error) => return error.into_reply(Revision::LATEST),
            };
            let (skills, next_cursor) = listed;
            Reply::result(ListSkillsResult { next_cursor, ..ListSkillsResult::new(List::from(skills)) })
        }))
    }

    /// Starts to make the entry of a skill.
    pub(super) fn get_skill(&self, params: GetSkillParams) -> M::HandlerFuture {
        let source = self.skill_source(&params.uri);
        M::wrap_future(Box::pin(async move {
            let uri = &params.uri;
            let found = match &source {
                Some(source) => source.skill(uri).await,
                None => Ok(None),
            };
            match found {
                Ok(Some(skill)) => Reply::result(GetSkillResult::new(skill)),
                Ok(None) => unknown(format!("no skill is served at {uri}")),
                Err(error) => error.into_reply(Revision::LATEST),
            }
        }))
    }

    /// Starts to read a directory.
    pub(super) fn read_directory(&self, params: ReadDirectoryParams) -> M::HandlerFuture {
        let (source, most) = (self.skill_source(&params.uri), self.contents.page_size.max(1));
        M::wrap_future(Box::pin(async move {
            let uri = &params.uri;
            let found = match &source {
                Some(source) => source.directory(uri).await,
                None => Ok(None),
            };
            match found {
                Ok(Some(children)) => directory_page(children, params.cursor.as_deref(), most),
                Ok(None) => unknown(format!("{uri} is not a directory resource")),
                Err(error) => error.into_reply(Revision::LATEST),
            }
        }))
    }

    /// Starts to read a file of a source, if one has its URI.
    pub(super) fn read_skill_file(&self, uri: &str, revision: Revision) -> Option<M::HandlerFuture> {
        let (source, uri) = (self.skill_source(uri)?, uri.to_owned());
        Some(M::wrap_future(Box::pin(async move {
            match source.read(&uri).await {
                Ok(read) => read_reply(&uri, read, revision),
                Err(error) => error.into_reply(revision),
            }
        })))
    }

    /// The source of a URI of a file, or of a directory.
    fn skill_source(&self, uri: &str) -> Option<Arc<dyn SkillSource>> {
        let has = |root: &str| uri.starts_with(root) || root.strip_suffix('/') == Some(uri);
        self.contents.skills.iter().find(|source| has(source.root())).cloned()
    }
}

impl<M: HandlerMode> RouterContents<M> {
    /// Adds a source of skills.
    ///
    /// # Errors
    /// If its root is none, or it lies within the place of another one, or another one within its own.
    pub(super) fn add_skills(&mut self, source: Arc<dyn SkillSource>) -> Result<(), RouterError> {
        let root = source.root();
        if !is_root(root) {
            return Err(RouterError::Uri { uri: root.to_owned() });
        }
        let overlaps = |other: &str| other.starts_with(root) || root.starts_with(other);
        if let Some(other) = self.skills.iter().find(|other| overlaps(other.root())) {
            let (root, other) = (root.to_owned(), other.root().to_owned());
            return Err(RouterError::SkillOverlap { root, other });
        }
        Arc::make_mut(&mut self.skills).push(source);
        Ok(())
    }
}

/// Whether URIs may begin with this: it ends with a slash, and has no empty segment, and none that means another folder.
fn is_root(root: &str) -> bool {
    let path = root.split_once("://").map_or(root, |(_, path)| path);
    let is_plain = |path: &str| path.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
    let has_segments = path.strip_suffix('/').map_or(path.is_empty() && root.ends_with("://"), is_plain);
    has_segments && is_uri(&format!("{root}a"))
}

fn unknown(message: String) -> Reply {
    Reply::Error(ErrorObject::new(code::INVALID_PARAMS, message))
}

fn ready_reply(reply: Reply) -> SendFuture<Reply> {
    Box::pin(ready(reply))
}

fn read_reply(uri: &str, bytes: Option<Vec<u8>>, revision: Revision) -> Reply {
    match bytes {
        Some(bytes) => Reply::result(ReadResourceResult::new(vec![contents(uri, bytes)])),
        None => Reply::Error(resource_not_found(uri, revision)),
    }
}

/// One page of skills, of all sources in turn, and the cursor of the next: the URI of its last skill.
async fn page(
    sources: &[Arc<dyn SkillSource>],
    cursor: Option<&str>,
    most: usize,
) -> Result<(Vec<Skill>, Option<String>), HandlerError> {
    let unknown = || HandlerError::invalid_params(format!("unknown cursor {:?}", cursor.unwrap_or_default()));
    let first = match cursor {
        None => 0,
        Some(last) => {
            sources.iter().position(|source| last.starts_with(source.root())).ok_or_else(unknown)?
        }
    };
    let (mut skills, mut files, mut bytes): (Vec<Skill>, usize, u64) = (Vec::new(), 0, 0);
    for source in sources.iter().skip(first) {
        for uri in source.uris().await? {
            if cursor.is_some_and(|last| last.starts_with(source.root()) && *uri <= *last) {
                continue;
            }
            let is_full = skills.len() >= most || files >= FILES_PER_PAGE || bytes >= BYTES_PER_PAGE;
            if let Some(last) = skills.last().filter(|_| is_full) {
                let next = Some(last.uri.clone());
                return Ok((skills, next));
            }
            // It may have gone in the meantime.
            if let Some(skill) = source.skill(&uri).await? {
                files = files.saturating_add(skill.files().len());
                bytes = bytes.saturating_add(skill.size());
                skills.push(skill);
            }
        }
    }
    Ok((skills, None))
}

/// One page of a directory, and the cursor of the next: the URI of its last child.
fn directory_page(children: Vec<Resource>, cursor: Option<&str>, most: usize) -> Reply {
    let mut rest = children;
    if let Some(cursor) = cursor {
        let Some(last) = rest.iter().position(|child| child.uri == cursor) else {
            return unknown(format!("unknown cursor {cursor:?}"));
        };
        rest.drain(..=last);
    }
    let next = rest.get(most).and(rest.get(most.saturating_sub(1))).map(|last| last.uri.clone());
    rest.truncate(most);
    Reply::result(ReadDirectoryResult { next_cursor: next, ..ReadDirectoryResult::new(List::from(rest)) })
}
