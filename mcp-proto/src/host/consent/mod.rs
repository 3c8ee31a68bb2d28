//! Approval of the servers that a project configures.
//!
//! A project comes from others: opening it must not start their programs. A server of a project starts nothing,
//! connects nowhere and reads no variable until the user has approved it:
//!
//! 1. [`ServerEntry::permit`](super::config::ServerEntry::permit) returns an [`ApprovalRequest`] for a project's server that is not approved.
//! 2. The application shows the request: what would run, where, with which variables. Without a user
//!    to ask, the server stays off.
//! 3. If the user approves exactly that, [`ApprovalRequest::approve`] makes the [`Approval`], which is stored outside
//!    the project.
//! 4. The [`Permit`] that `permit` returns from then on lists the lookups of a start and resolves the entry.
//!
//! An approval is bound to the path of the file, the [folder](super::config::Source::folder) of the project, in which
//! the program runs unless its entry names another, the name of the server and everything that the entry means, except
//! whether it is enabled, and to the variables of its `envFile`: any change asks again. The content of the program and of
//! other files is not part of it.
//!
//! The names in an `envFile` are part of the request. A file [in the project](ApprovalRequest::env_file) is read before the
//! request is shown, one elsewhere only once the server is approved, which then asks
//! [again](Permit::env_file_request).
//!
//! A [skill](crate::skills) of any server needs an approval of its own, which is bound to its content: see
//! [`SkillRequest`].

mod request;
mod skill;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::host::config::{Answers, EnvFileBinding, Lookup, Resolver, Scope, ServerEntry, ServerId};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

use super::config::{ResolveError, ResolveErrorKind, ResolvedSpec};
use super::digest::{Digester, Hex};
pub use request::{ApprovalRequest, ApprovalWarning, RequestLine};
use skill::ApprovedSkill;
pub use skill::{SkillPermit, SkillRequest};

/// The user's approval of one server of one project, or of one skill of a server. It says nothing about any other entry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    path: String,
    server: String,
    binding: Hex<32>,
    /// The content of the file of variables, if the user has seen its names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env_file: Option<EnvFileBinding>,
    /// The skill, if it is not the server that is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skill: Option<ApprovedSkill>,
}

impl Approval {
    fn new(entry: &ServerEntry) -> Self {
        let mut digester = Digester::new("approval");
        digester.text(&entry.source().path);
        digester.text(entry.name());
        digester.bytes(&entry.spec().approved_content().0.0);
        // Only of programs: approvals of URLs keep the form in which they were stored.
        if let Some(folder) = entry.working_folder() {
            digester.text("folder");
            digester.text(&folder);
        }
        let (path, server) = (entry.source().path.clone(), entry.name().into());
        Self { path, server, binding: digester.finish(), env_file: None, skill: None }
    }

    /// The path of the project's file; empty for a skill of a user's server.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Identifies the server.
    pub fn server_id(&self) -> ServerId {
        match &*self.path {
            "" => ServerId::user(&self.server),
            path => ServerId::project(path, &self.server),
        }
    }

    /// URI of the skill; `None` if it is the server that is approved.
    pub fn skill(&self) -> Option<&str> {
        self.skill.as_ref().map(|skill| &*skill.uri)
    }

    fn key(&self) -> ApprovalKey {
        (self.path.clone(), self.server.clone(), self.skill().map(Into::into))
    }
}

debug_fields! { Approval(self) { path, server, skill = self.skill() } }

/// The path, the server, and the skill if it is not the server that is approved.
type ApprovalKey = (String, String, Option<String>);

/// The user's approvals, at most one of each server of each project, and one of each skill of each server.
///
/// Store them where no project can write. What cannot be read is no approval.
///
/// ```
/// use mcp_proto::host::config::{ConfigFile, Source};
/// use mcp_proto::host::consent::Approvals;
///
/// let text = br#"{ "mcpServers": { "files": { "command": "mcp-files" } } }"#;
/// let server = &ConfigFile::parse(Source::project("/work/app/.mcp.json"), text).servers[0];
/// let mut approvals = Approvals::new();
/// let request = server.permit(&approvals).expect_err("it was never approved");
/// approvals.insert(request.approve());
///
/// let stored = approvals.to_json()?;
/// assert!(server.permit(&Approvals::from_json(stored.as_bytes())?).is_ok());
/// assert!(Approvals::from_json(b"damaged").is_err());
/// # Ok::<(), mcp_proto::host::consent::ApprovalsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    approvals: OrderedMap<ApprovalKey, Approval>,
}

impl FromIterator<Approval> for Approvals {
    fn from_iter<I: IntoIterator<Item = Approval>>(approvals: I) -> Self {
        Self { approvals: approvals.into_iter().map(|approval| (approval.key(), approval)).collect() }
    }
}

/// The version of the stored form.
const VERSION: u32 = 1;

/// The stored form: approvals as they are written, or their texts as they are read.
#[derive(Serialize, Deserialize)]
struct StoredApprovals<T> {
    version: u32,
    approvals: Vec<T>,
}

impl Approvals {
    /// Maximum bytes of the stored form.
    pub const STORED_BYTES: usize = 4 * 1024 * 1024;

    /// No approvals.
    pub const fn new() -> Self {
        Self { approvals: OrderedMap::new() }
    }

    /// Adds an approval, in place of an earlier one of the same server or skill.
    pub fn insert(&mut self, approval: Approval) {
        self.approvals.insert(approval.key(), approval);
    }

    /// Removes the approval of a server and those of its skills, which are refused from then on. Returns whether there was
    /// one. A user's server, which needs none, has the empty path.
    pub fn revoke(&mut self, path: &str, server: &str) -> bool {
        let count = self.approvals.len();
        self.approvals.retain(|_, approval| (&*approval.path, &*approval.server) != (path, server));
        self.approvals.len() < count
    }

    /// Removes the approval of a server alone. Those of its skills, which are bound to their content and to how the server is
    /// reached, count again once the server is approved. Returns whether there was one.
    pub fn revoke_server(&mut self, path: &str, server: &str) -> bool {
        self.approvals.remove(&(path.into(), server.into(), None)).is_some()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.approvals.is_empty()
    }

    /// The approvals, by path, server and skill.
    pub fn iter(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.values()
    }

    /// The stored form, a JSON text. It has no value of the project's file, and no approval of a dynamic skill, whose next
    /// content the user has not seen.
    ///
    /// # Errors
    /// If it is longer than [`STORED_BYTES`](Self::STORED_BYTES), so that it would not be read again.
    pub fn to_json(&self) -> Result<String, ApprovalsError> {
        let is_stored = |approval: &&Approval| approval.skill.as_ref().is_none_or(ApprovedSkill::is_stored);
        let approvals = self.iter().filter(is_stored).collect();
        let stored = StoredApprovals { version: VERSION, approvals };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        if text.len() > Self::STORED_BYTES { Err(ApprovalsError::TooLarge) } else { Ok(text) }
    }

    /// Reads the stored form. An approval in it that cannot be read is left out, and its server is refused.
    ///
    /// # Errors
    /// If the whole text cannot be read: use no approvals, so that every server is refused.
    pub fn from_json(text: &[u8]) -> Result<Self, ApprovalsError> {
        let read = Some(text).filter(|text| text.len() <= Self::STORED_BYTES);
        let read = read.and_then(|text| serde_json::from_slice::<StoredApprovals<Box<RawValue>>>(text).ok());
        let read = read.filter(|read| read.version == VERSION).ok_or(ApprovalsError::Unreadable)?;
        Ok(read.approvals.iter().filter_map(|stored| serde_json::from_str(stored.get()).ok()).collect())
    }
}

/// Approvals that cannot be stored, or not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalsError {
    /// The stored form cannot be read.
    Unreadable,
    /// The stored form would be longer than [`Approvals::STORED_BYTES`].
    TooLarge,
}

error_text! { ApprovalsError:
    Unreadable => "the stored approvals of project servers cannot be read: each server must be approved again";
    TooLarge =>
        "the approvals need more than {} MiB, and are not stored: revoke those that are no longer needed",
        Approvals::STORED_BYTES >> 20;
}

/// The right to start a server as its entry says. Only [`ServerEntry::permit`] gives it.
#[derive(Clone, Copy, Debug)]
pub struct Permit<'a> {
    entry: &'a ServerEntry,
    /// The content of the file of variables that the user has approved.
    env_file: Option<EnvFileBinding>,
}

impl ServerEntry {
    /// The right to start this server: at once for a user's, for a project's if the user has approved it as it is.
    ///
    /// # Errors
    /// If the user has to approve it first: returns the request to show. An application without a user to ask refuses the server.
    pub fn permit(&self, approvals: &Approvals) -> Result<Permit<'_>, Box<ApprovalRequest>> {
        if self.source().scope == Scope::User {
            return Ok(Permit { entry: self, env_file: None });
        }
        let wanted = Approval::new(self);
        let stored = approvals.approvals.get(&(wanted.path, wanted.server, None));
        match stored.filter(|stored| stored.binding == wanted.binding) {
            Some(approval) => Ok(Permit { entry: self, env_file: approval.env_file }),
            None => Err(Box::new(ApprovalRequest::new(self))),
        }
    }
}

impl<'a> Permit<'a> {
    /// The server.
    pub const fn entry(&self) -> &'a ServerEntry {
        self.entry
    }

    /// The lookups that are not answered yet, sorted. Answer all of them, present or not, then ask again: the path of a
    /// file may depend on them.
    ///
    /// ```
    /// use mcp_proto::Secret;
    /// use mcp_proto::host::config::{Answers, ConfigFile, Lookup, ResolvedSpec, Source};
    /// use mcp_proto::host::consent::Approvals;
    ///
    /// let text = br#"{ "servers": { "db": {
    ///     "command": "mcp-db",
    ///     "env": { "URL": "db://${env:DB_HOST:-localhost}" },
    ///     "envFile": "${workspaceFolder}/.env"
    /// } } }"#;
    /// let file = ConfigFile::parse(Source::user("/home/ann/.config/Code/User/mcp.json"), text);
    /// let permit = file.servers[0].permit(&Approvals::new()).expect("a user's server needs no approval");
    /// let mut answers = Answers::new();
    /// loop {
    ///     let lookups = permit.unanswered(&answers);
    ///     if lookups.is_empty() {
    ///         break;
    ///     }
    ///     for lookup in lookups {
    ///         let value = match &lookup {
    ///             Lookup::Predefined(_) => Some(Secret::new("/work")),
    ///             Lookup::EnvFile(path) if path == "/work/.env" => Some(Secret::new("TOKEN=s3cret")),
    ///             _ => None,
    ///         };
    ///         answers.insert(lookup, value);
    ///     }
    /// }
    /// let ResolvedSpec::Stdio(program) = permit.resolve(&answers)? else { unreachable!() };
    /// assert_eq!(program.env["TOKEN"].expose(), "s3cret");
    /// assert_eq!(program.env["URL"].expose(), "db://localhost");
    /// # Ok::<(), mcp_proto::host::config::ResolveError>(())
    /// ```
    pub fn unanswered(&self, answers: &Answers) -> Vec<Lookup> {
        Resolver::new(self.entry, answers).unanswered().into_iter().collect()
    }

    /// What to start, with every reference replaced. Answers are for one start: look them up again for the next.
    ///
    /// A variable that is absent keeps its reference in the arguments of a program that gets the variable itself.
    ///
    /// # Errors
    /// If a value is missing that has no default, or a value cannot be used where it stands; and
    /// [`ResolveErrorKind::UnapprovedEnvFile`] if the file of variables of a project's server is not the one that was
    /// approved: show the [request](Self::env_file_request) then.
    pub fn resolve(&self, answers: &Answers) -> Result<ResolvedSpec, ResolveError> {
        Resolver::new(self.entry, answers).resolve(self.env_file)
    }

    /// The request to approve the server with the file of variables that the answers have. `key` is random: see
    /// [`ApprovalRequest::with_env_file`].
    ///
    /// # Errors
    /// If there is no answer for the file, or it cannot be read.
    pub fn env_file_request(
        &self,
        answers: &Answers,
        key: [u8; 16],
    ) -> Result<ApprovalRequest, ResolveError> {
        let resolver = Resolver::new(self.entry, answers);
        let request = ApprovalRequest::new(self.entry);
        match resolver.env_file_content()? {
            Some(content) => request
                .with_env_file(content, key)
                .map_err(|error| resolver.error("envFile", ResolveErrorKind::EnvFile(error))),
            None => Ok(request),
        }
    }
}
