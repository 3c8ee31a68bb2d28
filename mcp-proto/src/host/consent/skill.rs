//! Approval of skills, each bound to its content.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::request::{Lines, write_rows};
use super::{Approval, Approvals, RequestLine};
use crate::host::config::{Scope, ServerEntry};
use crate::host::digest::{Digest, Digester};
use crate::prelude::*;
use crate::schema::Json;
use crate::schema::skills::SkillFile;
use crate::skills::SkillManifest;

/// The skill of an approval.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApprovedSkill {
    pub(super) uri: String,
    /// Whether it may use the tools that it asks for without a question.
    tools: bool,
    /// Whether the approval is bound to no content, and so ends with this run.
    #[serde(skip)]
    is_dynamic: bool,
}

impl ApprovedSkill {
    pub(super) fn is_stored(&self) -> bool {
        !self.is_dynamic
    }
}

/// The question whether a skill of a server may be loaded, with everything that the approval covers.
///
/// The approval is bound to the server and how it is reached, the URI of the skill, its frontmatter, and each of its files
/// with digest and size: when any of them changes, it ends. It says nothing about skills nested in this one, and grants no
/// tools, unless it is made by [`approve_with_tools`](Self::approve_with_tools).
///
/// `Display` writes the [`lines`](Self::lines) as that of an [`ApprovalRequest`](super::ApprovalRequest) does.
///
/// ```
/// use mcp_proto::host::config::{ServerEntry, ServerSpec};
/// use mcp_proto::host::consent::Approvals;
/// use mcp_proto::skills::SkillManifest;
///
/// fn may_load(server: &ServerEntry, skill: &SkillManifest, approvals: &mut Approvals) -> bool {
///     let Err(request) = approvals.permit_skill(server, skill) else { return true };
///     println!("{request}");
///     # let user_agrees = true;
///     if user_agrees {
///         approvals.insert(request.approve());
///     }
///     user_agrees
/// }
/// # let _ = may_load;
/// ```
///
/// <https://modelcontextprotocol.io/seps/2640-skills-extension#security-implications>
#[derive(Clone, Debug)]
pub struct SkillRequest {
    approval: Approval,
    lines: Vec<RequestLine>,
}

impl SkillRequest {
    /// The request to approve this skill of this server.
    pub fn new(server: &ServerEntry, skill: &SkillManifest) -> Self {
        let mut lines = Lines::default();
        lines.add("skill", skill.uri());
        lines.add("of the server", server.name());
        lines.add("describes itself as", &skill.skill().description());
        lines.add_all("asks to use without asking you", &skill.requested_tools());
        let files = skill.skill().files();
        match skill.is_dynamic() {
            true => lines.add("has content", "that its server makes anew each time, and nothing can verify"),
            false => {
                let noun = if files.len() == 1 { "file" } else { "files" };
                let content = format!("{} {noun}, {} bytes", files.len(), skill.skill().size());
                lines.add("has content", &content);
            }
        }
        for SkillFile { uri, .. } in files {
            lines
                .add("has the file", uri.strip_prefix(skill.folder()).unwrap_or(uri).trim_start_matches('/'));
        }
        Self { approval: Approval::of_skill(server, skill), lines: lines.0 }
    }

    /// What is approved, in an order to show.
    pub fn lines(&self) -> &[RequestLine] {
        &self.lines
    }

    /// The approval, which grants no tools. Call it only if the user has seen the lines and agreed.
    pub fn approve(&self) -> Approval {
        self.approval.clone()
    }

    /// The approval, which also grants the tools that the skill asks to use without a question. Call it only if the user
    /// has agreed to these tools too.
    pub fn approve_with_tools(&self) -> Approval {
        let mut approval = self.approve();
        approval.skill.iter_mut().for_each(|skill| skill.tools = true);
        approval
    }
}

impl fmt::Display for SkillRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a server offers a skill, whose instructions a model would read:")?;
        self.lines.iter().try_for_each(|line| write_rows(f, line.label, &line.text))
    }
}

/// The right to load a skill with its present content. Only [`Approvals::permit_skill`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPermit {
    granted_tools: Vec<String>,
}

impl SkillPermit {
    //= C15.11 "ignored unless the user has approved that grant"
    /// The tools that the skill may use without a question, as its frontmatter names them: none, unless the user has agreed
    /// to [them](SkillRequest::approve_with_tools).
    pub fn granted_tools(&self) -> &[String] {
        &self.granted_tools
    }
}

impl Approval {
    //= C15.14 "bound to every `uri`, `digest` and size"
    fn of_skill(server: &ServerEntry, skill: &SkillManifest) -> Self {
        let path = approval_path(server);
        let mut digester = Digester::new("skill");
        [&path, server.name(), skill.uri()].into_iter().for_each(|text| digester.text(text));
        // Content under the same URI of what is another server by now was not approved.
        digester.bytes(&server.connection().0.0);
        let frontmatter = Json::encode(&skill.skill().frontmatter).unwrap_or_else(|_| Json::null());
        digester.bytes(Digest::of_json(frontmatter.as_str()).as_bytes());
        digester.flag(skill.is_dynamic());
        let mut files: Vec<_> = skill.skill().files().iter().collect();
        files.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        digester.list(files.into_iter(), |digester, SkillFile { uri, digest, size, .. }| {
            digester.text(uri);
            digester.bytes(digest.as_bytes());
            digester.number(*size);
        });
        let approved =
            ApprovedSkill { uri: skill.uri().into(), tools: false, is_dynamic: skill.is_dynamic() };
        Self {
            path,
            server: server.name().into(),
            binding: digester.finish(),
            env_file: None,
            skill: Some(approved),
        }
    }
}

impl Approvals {
    //= C15.10 "needs an approval of its own"
    //= C15.19 "approval is asked for all the same"
    /// The right to load a skill: only if the user has approved it with this content.
    ///
    /// # Errors
    /// If the user has to approve it first: returns the request to show. An application without a user to ask refuses the
    /// skill.
    pub fn permit_skill(
        &self,
        server: &ServerEntry,
        skill: &SkillManifest,
    ) -> Result<SkillPermit, Box<SkillRequest>> {
        let wanted = Approval::of_skill(server, skill);
        let stored = self.approvals.get(&wanted.key()).filter(|stored| stored.binding == wanted.binding);
        match stored.and_then(|stored| stored.skill.as_ref()) {
            Some(approved) if approved.tools => Ok(SkillPermit { granted_tools: skill.requested_tools() }),
            Some(_) => Ok(SkillPermit { granted_tools: Vec::new() }),
            None => Err(Box::new(SkillRequest::new(server, skill))),
        }
    }

    /// Whether the approval of a skill is of other content than this: then [revoke](Self::revoke_skill) it, so that content
    /// which returns is not approved again.
    pub fn is_changed_skill(&self, server: &ServerEntry, skill: &SkillManifest) -> bool {
        let wanted = Approval::of_skill(server, skill);
        self.approvals.get(&wanted.key()).is_some_and(|stored| stored.binding != wanted.binding)
    }

    /// Removes the approval of a skill of a server, by the URI of its `SKILL.md`. Returns whether there was one.
    pub fn revoke_skill(&mut self, server: &ServerEntry, uri: &str) -> bool {
        self.approvals.remove(&(approval_path(server), server.name().into(), Some(uri.into()))).is_some()
    }
}

/// The path of an approval of a server's skill: that of the project's file, empty for a user's server.
fn approval_path(server: &ServerEntry) -> String {
    match server.source().scope {
        Scope::User => String::new(),
        Scope::Project => server.source().path.clone(),
    }
}
