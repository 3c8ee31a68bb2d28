//! Skills that a server takes from a folder.

#[cfg(test)]
mod tests;
mod tree;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use mcp_proto::front::HandlerError;
use mcp_proto::front::skills::{SkillFuture, SkillPage, SkillSource};
use mcp_proto::peer::Principal;
use mcp_proto::schema::Resource;
use mcp_proto::schema::skills::{Skill, SkillFilesError, uri_within};

use crate::runtime::{AnyRuntime, Runtime};
use tree::{Reading, Search};

/// Serves the skills of a folder: each folder in it that has a `SKILL.md` is one, at any depth.
///
/// ```no_run
/// use mcp_hyper::Router;
/// use mcp_hyper::skills::SkillFolder;
///
/// let skills = SkillFolder::new("skills").on_problem(|problem| eprintln!("{problem}"));
/// // Is `skill://acme/billing/refunds/SKILL.md` for skills/billing/refunds/SKILL.md.
/// let router = Router::new("billing", "1.0.0").skills_from(skills.under("acme"));
/// # drop(router);
/// ```
///
/// Nothing is kept: the folder is read at each request, and the digests of an entry are those of the files at this time. A
/// page of a listing costs as much as reading its files and the names in the folders above them.
///
/// Only what is in the folder is served:
///
/// - Links are not followed, wherever they lead; on Unix not even those that replace a folder while it is read. Where the
///   system has no such means, a program that may write into the folder can lead out of it.
/// - A URI names a file by its exact name: in its case, encoded in one way, without `..`.
/// - A hard link is a file like any other, since systems do not tell which name of a file is the first, and stores of packages
///   and backups are made of them. Who may write into the folder decides what is in it.
/// - Files and folders whose names begin with a dot are not part of a skill, nor are those outside of folders with a
///   `SKILL.md`.
///
/// A skill is served whole, or not at all: not if it has more than 512 files, or more than 16 MiB, if a file cannot be read,
/// if hosts refuse the name of one, or if its `SKILL.md` is none of a skill. Each reason is a [`SkillProblem`]; a client that
/// asks for the skill by its URI reads the reason. The skills in its folders are served by themselves, by the same rules.
///
/// Skills in memory or of other folders, each [under](Self::under) a path of its own, may be in the same router.
#[derive(Clone)]
pub struct SkillFolder {
    shared: Arc<Shared>,
    runtime: AnyRuntime,
}

/// What the threads for blocking work share.
#[derive(Clone)]
struct Shared {
    folder: PathBuf,
    /// What the URIs begin with, up to a slash.
    root: String,
    on_problem: Arc<dyn Fn(&SkillProblem) + Send + Sync>,
}

impl SkillFolder {
    /// Creates a source for the skills of this folder, which may come into being later: until then there are none, and each
    /// request reports the [problem](Self::on_problem). A relative path is one from the present working directory.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let shared = Shared { folder, root: "skill://".to_owned(), on_problem: Arc::new(|_| {}) };
        Self { shared: Arc::new(shared), runtime: AnyRuntime::default() }
    }

    /// Sets the path that the URIs of all skills have before the path in the folder, such as `acme/billing`. Default: none,
    /// which leaves no place for other skills of the router.
    ///
    /// If the folder itself has a `SKILL.md`, its path ends with the name of the skill. A path with segments that are empty,
    /// `.` or `..` is a [`RouterError::Uri`](mcp_proto::front::RouterError::Uri) of the router.
    #[must_use]
    pub fn under(mut self, path: &str) -> Self {
        let path = uri_within("skill://", path).unwrap_or_else(|| format!("skill://{path}"));
        Arc::make_mut(&mut self.shared).root = format!("{path}/");
        self
    }

    /// Sets the function that is called with each reason why a file or a skill is not served, at each request that finds it.
    /// Default: none. It is called on a thread for blocking work.
    #[must_use]
    pub fn on_problem(mut self, on_problem: impl Fn(&SkillProblem) + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.shared).on_problem = Arc::new(on_problem);
        self
    }

    /// Sets the runtime, on whose threads for blocking work the folder is read. Default:
    /// [`DefaultRuntime`](crate::DefaultRuntime).
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = AnyRuntime::new(runtime);
        self
    }

    /// Reads the whole folder, and returns each reason why a file or a skill is not served: for a check before the server
    /// starts. It blocks.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn problems(&self) -> io::Result<Vec<SkillProblem>> {
        std::fs::metadata(&self.shared.folder)?;
        let mut search = Search::new(&self.shared.folder, &self.shared.root);
        search.all(Reading::Digests)?;
        Ok(search.problems)
    }

    /// Searches the folder on a thread for blocking work, and reports the problems that it meets.
    fn search<T: Send + 'static>(
        &self,
        find: impl FnOnce(&mut Search) -> io::Result<T> + Send + 'static,
    ) -> SkillFuture<'static, T> {
        let shared = self.shared.clone();
        let working = self.runtime.blocking(move || {
            let mut search = Search::new(&shared.folder, &shared.root);
            let found = find(&mut search);
            search.problems.iter().for_each(|problem| (shared.on_problem)(problem));
            found
        });
        Box::pin(async move {
            // Its path is none of the client's business.
            let failed = |error: io::Error| {
                HandlerError::new(format!("the skills of this server cannot be read: {}", error.kind()))
            };
            working.await.and_then(|found| found).map_err(failed)
        })
    }
}

impl SkillSource for SkillFolder {
    fn root(&self) -> &str {
        &self.shared.root
    }

    fn list<'a>(&'a self, _: Option<&'a Principal>, page: SkillPage) -> SkillFuture<'a, SkillPage> {
        self.search(move |search| search.fill(page))
    }

    fn skill<'a>(&'a self, _: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        let wanted = uri.to_owned();
        let searching = self.search(move |search| {
            let skills = search.around(&wanted, Reading::Digests)?;
            let found = skills.into_iter().find(|skill| skill.uri == wanted);
            Ok(found.ok_or_else(|| search.refusal().cloned()))
        });
        Box::pin(async move {
            match searching.await? {
                Ok(skill) => Ok(Some(skill)),
                Err(None) => Ok(None),
                Err(Some(reason)) => {
                    Err(HandlerError::invalid_params(format!("the skill {uri} is not served: {reason}")))
                }
            }
        })
    }

    fn read<'a>(&'a self, _: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Vec<u8>>> {
        let uri = uri.to_owned();
        self.search(move |search| {
            let skills = search.around(&uri, Reading::Content)?;
            let is_served = skills.iter().any(|skill| skill.file(&uri).is_some());
            Ok(search.content.take().filter(|_| is_served))
        })
    }

    fn directory<'a>(
        &'a self,
        _: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        let uri = uri.to_owned();
        self.search(move |search| {
            // The directory may be that of the skill itself, or one that skills lie in.
            let skills = search.around(&format!("{uri}/"), Reading::Sizes)?;
            Ok(search.children(&skills, &uri))
        })
    }
}

debug_fields! { SkillFolder(self) { folder = self.shared.folder, root = self.shared.root } }

/// A file or a folder that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillProblem {
    /// The file, or the folder of the skill.
    pub path: PathBuf,
    /// Why it is not served.
    pub reason: NotServed,
}

display_text! { SkillProblem { path, reason } => "{path:?} is not served: {reason}" }

/// The reason why a file or a folder is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotServed {
    /// It is a link: the skill is served without it.
    Link,
    /// It is neither a file nor a folder: the skill is served without it.
    Special,
    /// Its name is not UTF-8, or has a backslash: the skill is served without it.
    Name,
    /// It lies more than 16 folders deep; nor is the skill served that it belongs to.
    TooDeep,
    /// It cannot be read; nor is the skill served that it belongs to.
    Unreadable(io::ErrorKind),
    /// Its files are none of a skill, or too many, or too large.
    Skill(SkillFilesError),
}

error_text! { NotServed:
    Link => "it is a link";
    Special => "it is neither a file nor a folder";
    Name => "its name is not UTF-8, or has a backslash";
    TooDeep => "it lies more than {} folders deep", tree::MAX_DEPTH;
    Unreadable(kind) => "it cannot be read: {kind}";
    Skill(error) => "{error}";
}
