//! The right to start a server.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Approval, ApprovalRequest, Approvals};
use crate::host::config::{
    Answers, EnvFileBinding, Lookup, ResolveError, ResolvedSpec, Resolver, Scope, ServerEntry,
};

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
        match approvals.find(&Approval::new(self)) {
            Some(approval) => Ok(Permit { entry: self, env_file: approval.env_file() }),
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
    ///
    /// [`ResolveErrorKind::UnapprovedEnvFile`]: crate::host::config::ResolveErrorKind::UnapprovedEnvFile
    pub fn resolve(&self, answers: &Answers) -> Result<ResolvedSpec, ResolveError> {
        Resolver::new(self.entry, answers).with_approved_env_file(self.env_file).resolve()
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
        match resolver.answered_env_file()? {
            Some(content) => {
                request.with_env_file(content, key).map_err(|error| resolver.env_file_error(error))
            }
            None => Ok(request),
        }
    }
}
