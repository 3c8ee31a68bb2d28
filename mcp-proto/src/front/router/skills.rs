//! Skills, and the answers to requests for them.

use alloc::sync::Arc;
use core::future::ready;

use super::origin::Prefix;
use super::uri::is_uri;
use super::{Context, HandlerMode, Router, RouterContents, RouterError};
use crate::front::HandlerError;
use crate::front::reply::Reply;
use crate::front::skills::{InMemorySkill, SkillFuture, SkillPage, SkillSource};
use crate::front::wakers::SendFuture;
use crate::peer::Principal;
use crate::peer::server::resource_not_found;
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::skills::{
    GetSkillParams, GetSkillResult, ListSkillsParams, ListSkillsResult, ReadDirectoryParams,
    ReadDirectoryResult, Skill, SkillFiles, contents, directories_within,
};
use crate::schema::{List, ReadResourceParams, ReadResourceResult, Resource, Revision, ServerCapability};

/// A source of skills, and the URIs of its files that are resources of the router.
#[derive(Clone)]
pub(super) struct RegisteredSkills {
    pub(super) source: Arc<dyn SkillSource>,
    pub(super) files: Vec<String>,
}

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
        let mut uris = Vec::new();
        for resource in source.resources() {
            uris.push(resource.uri.clone());
            let files = source.contents().clone();
            let handler = M::wrap_handler(move |read: ReadResourceParams, context: Context| {
                ready_reply(read_reply(&read.uri, files.get(&read.uri).cloned(), context.revision()))
            });
            self = self.change(|contents| contents.resources.insert(resource.uri.clone(), resource, handler));
        }
        self.register_skills(source, uris)
    }

    /// Registers a source of skills, which is asked at each request. The router declares the skills extension.
    ///
    /// Its files are read by their URIs, but not listed as resources.
    pub fn skills_from(self, source: impl SkillSource) -> Self {
        self.register_skills(source, Vec::new())
    }

    fn register_skills(mut self, source: impl SkillSource, files: Vec<String>) -> Self {
        let skills = RegisteredSkills { source: Arc::new(source), files };
        if let Err(error) = self.contents.add_skills(skills) {
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
        // A root may be a scheme alone, whose slashes are at its end.
        let trimmed = |uri: &str| uri.trim_end_matches('/').to_owned();
        self.change(|contents| {
            let skills = Arc::make_mut(&mut contents.skills);
            let place = skills.iter().position(|skills| trimmed(skills.source.root()) == trimmed(folder));
            let Some(place) = place else {
                return Err(RouterError::NotRegistered { kind: "skill", name: folder.into() });
            };
            let files = skills.remove(place).files;
            // The application may have removed some of them.
            files.iter().try_for_each(|uri| match contents.resources.contains(uri) {
                true => contents.resources.remove(uri),
                false => Ok(()),
            })
        })
    }

    //= S12.7 "has pages that divide no entry"
    /// Starts to list skills.
    pub(super) fn list_skills(&self, params: ListSkillsParams, context: &Context) -> M::HandlerFuture {
        let (sources, principal) = (self.contents.skills.clone(), context.principal().cloned());
        let page = SkillPage::new(params.cursor, self.contents.page_size);
        M::wrap_future(Box::pin(async move {
            let SkillPage { skills, is_full, .. } = match fill(&sources, page, principal.as_ref()).await {
                Ok(page) => page,
                Err(error) => return error.into_reply(Revision::LATEST),
            };
            let next_cursor = skills.last().filter(|_| is_full).map(|last| last.uri.clone());
            Reply::result(ListSkillsResult { next_cursor, ..ListSkillsResult::new(List::from(skills)) })
        }))
    }

    //= S12.6 "for every skill that is served, listed or not"
    /// Starts to make the entry of a skill.
    pub(super) fn get_skill(&self, params: GetSkillParams, context: &Context) -> M::HandlerFuture {
        let (source, principal) = (self.skill_source(&params.uri), context.principal().cloned());
        M::wrap_future(Box::pin(async move {
            let uri = &params.uri;
            let found = match &source {
                Some(source) => source.skill(principal.as_ref(), uri).await,
                None => Ok(None),
            };
            match found {
                Ok(Some(skill)) => Reply::result(GetSkillResult::new(skill)),
                Ok(None) => unknown(format!("no skill is served at {uri}")),
                Err(error) => error.into_reply(Revision::LATEST),
            }
        }))
    }

    //= S12.8 "every directory level of the skills"
    /// Starts to read a directory.
    pub(super) fn read_directory(&self, params: ReadDirectoryParams, context: &Context) -> M::HandlerFuture {
        let (source, principal) = (self.skill_source(&params.uri), context.principal().cloned());
        let (outer, most) = (self.outer_directory(&params.uri), self.contents.page_size.max(1));
        M::wrap_future(Box::pin(async move {
            let uri = &params.uri;
            let found = match &source {
                Some(source) => source.directory(principal.as_ref(), uri).await,
                None => Ok(outer),
            };
            match found {
                Ok(Some(children)) => directory_page(children, params.cursor.as_deref(), most),
                Ok(None) => unknown(format!("{uri} is not a directory resource")),
                Err(error) => error.into_reply(Revision::LATEST),
            }
        }))
    }

    //= S12.13 "is read by `resources/read`"
    /// Starts to read a file of a source, if one has its URI.
    pub(super) fn read_skill_file(&self, uri: &str, context: &Context) -> Option<M::HandlerFuture> {
        let (source, uri) = (self.skill_source(uri)?, uri.to_owned());
        let (principal, revision) = (context.principal().cloned(), context.revision());
        Some(M::wrap_future(Box::pin(async move {
            match source.read(principal.as_ref(), &uri).await {
                Ok(read) => read_reply(&uri, read, revision),
                Err(error) => error.into_reply(revision),
            }
        })))
    }

    /// The source of a URI of a file, or of a directory.
    fn skill_source(&self, uri: &str) -> Option<Arc<dyn SkillSource>> {
        // The root of a whole scheme is no directory.
        let is_folder = uri.contains("://");
        let has = |root: &str| uri.starts_with(root) || is_folder && root.strip_suffix('/') == Some(uri);
        let found = self.contents.skills.iter().find(|skills| has(skills.source.root()));
        found.map(|skills| skills.source.clone())
    }

    /// What is directly within a directory in which sources lie.
    fn outer_directory(&self, uri: &str) -> Option<Vec<Resource>> {
        let roots = self.contents.skills.iter().map(|skills| skills.source.root());
        Some(directories_within(uri, roots)).filter(|directories| !directories.is_empty())
    }
}

impl<M: HandlerMode> RouterContents<M> {
    /// Adds a source of skills.
    ///
    /// # Errors
    /// If its root is none, or it lies within the place of another one, or another one within its own.
    pub(super) fn add_skills(&mut self, skills: RegisteredSkills) -> Result<(), RouterError> {
        let root = skills.source.root();
        if !is_root(root) {
            return Err(RouterError::Uri { uri: root.to_owned() });
        }
        let overlaps = |other: &str| other.starts_with(root) || root.starts_with(other);
        let mut others = self.skills.iter().map(|other| other.source.root());
        if let Some(other) = others.find(|other| overlaps(other)) {
            let (root, other) = (root.to_owned(), other.to_owned());
            return Err(RouterError::SkillOverlap { root, other });
        }
        Arc::make_mut(&mut self.skills).push(skills);
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

/// Fills a page with skills of all sources in turn. The cursor of the next page is the URI of its last skill.
async fn fill(
    registered: &[RegisteredSkills],
    mut page: SkillPage,
    principal: Option<&Principal>,
) -> Result<SkillPage, HandlerError> {
    let first = match page.after() {
        None => 0,
        Some(last) => {
            let mut roots = registered.iter().map(|skills| skills.source.root());
            let unknown = || HandlerError::invalid_params(format!("unknown cursor {last:?}"));
            roots.position(|root| last.starts_with(root)).ok_or_else(unknown)?
        }
    };
    for RegisteredSkills { source, .. } in registered.iter().skip(first) {
        page = source.list(principal, page).await?;
        if page.is_full {
            break;
        }
        page.after = None;
    }
    Ok(page)
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

/// A source of skills under a prefix.
pub(super) struct MountedSkills {
    source: Arc<dyn SkillSource>,
    prefix: Prefix,
    root: String,
}

impl MountedSkills {
    /// The source as it is in another router.
    pub(super) fn of(source: &Arc<dyn SkillSource>, prefix: &Prefix) -> Arc<dyn SkillSource> {
        if prefix.as_str().is_none() {
            return source.clone();
        }
        let root = prefix.uri(source.root());
        Arc::new(Self { source: source.clone(), prefix: prefix.clone(), root })
    }

    fn rename(&self, skill: &mut Skill) {
        skill.uri = self.prefix.uri(&skill.uri);
        if let SkillFiles::Listed(files) = &mut skill.resources {
            files.iter_mut().for_each(|file| file.uri = self.prefix.uri(&file.uri));
        }
    }
}

impl SkillSource for MountedSkills {
    fn root(&self) -> &str {
        &self.root
    }

    fn list<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        mut page: SkillPage,
    ) -> SkillFuture<'a, SkillPage> {
        Box::pin(async move {
            let others = page.skills.len();
            page.after = page.after.map(|uri| self.prefix.registered_uri(&uri));
            let mut page = self.source.list(principal, page).await?;
            page.skills.iter_mut().skip(others).for_each(|skill| self.rename(skill));
            Ok(page)
        })
    }

    fn skill<'a>(&'a self, principal: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(async move {
            let mut found = self.source.skill(principal, &self.prefix.registered_uri(uri)).await?;
            found.iter_mut().for_each(|skill| self.rename(skill));
            Ok(found)
        })
    }

    fn read<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.source.read(principal, &self.prefix.registered_uri(uri)).await })
    }

    fn directory<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(async move {
            let mut children = self.source.directory(principal, &self.prefix.registered_uri(uri)).await?;
            children.iter_mut().flatten().for_each(|child| child.uri = self.prefix.uri(&child.uri));
            Ok(children)
        })
    }
}
