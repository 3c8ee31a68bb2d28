//! Entries with their references replaced by values.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use super::resource::is_own_resource;
use super::spec::websocket_url;
use super::template::Reference;
use super::{
    Answers, DotenvError, EnvFileBinding, HttpSpec, HttpTransport, Lookup, OauthSpec, PredefinedVariable,
    Scope, ServerEntry, ServerSpec, StdioSpec, Template, TransportSpec, folder, parse_dotenv,
};
use crate::Secret;
use crate::consent::{SafeText, UrlConsent, is_loader_variable};

/// A program or a URL with every value in place, for one start. `Debug` shows names only.
#[derive(Debug)]
pub enum ResolvedSpec {
    /// A program to start.
    Stdio(ResolvedStdio),
    /// A URL to connect to.
    Http(ResolvedHttp),
}

/// A program to start, without a shell.
pub struct ResolvedStdio {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<Secret>,
    /// The environment variables that are set for it, each once.
    pub env: BTreeMap<String, Secret>,
    /// Its working directory.
    pub cwd: Option<String>,
}

impl fmt::Debug for ResolvedStdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedStdio")
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// A URL to connect to.
pub struct ResolvedHttp {
    /// Which of the HTTP transports.
    pub transport: HttpTransport,
    /// The URL, an absolute one of `http` or `https`; of `ws` or `wss` for a WebSocket.
    pub url: Secret,
    /// Headers that are sent with each request, by their names in lower case.
    pub headers: BTreeMap<String, Secret>,
    /// The configuration of a login.
    pub oauth: Option<OauthSpec>,
    /// The secret of the client that was registered beforehand.
    pub client_secret: Option<Secret>,
}

impl fmt::Debug for ResolvedHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedHttp")
            .field("transport", &self.transport)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// Why an entry cannot be resolved. `Display` says which entry and which member, on one line, without any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveError {
    /// The name of the entry.
    pub server: String,
    /// The member, such as `env.TOKEN` or `args[2]`.
    pub member: String,
    /// The reason.
    pub kind: ResolveErrorKind,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, member) = (SafeText::line(&self.server), SafeText::line(&self.member));
        write!(f, "server \"{server}\": {member}: {}", self.kind)
    }
}

impl core::error::Error for ResolveError {}

/// Why a member cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveErrorKind {
    /// This has no value, and the reference has no default.
    Missing(Lookup),
    /// The file of environment variables cannot be read.
    EnvFile(DotenvError),
    /// The user has not approved the variables of the file as they are now. The
    /// [request](crate::host::consent::Permit::env_file_request) shows their names.
    UnapprovedEnvFile,
    /// The file is in the folder of a project, and sets this variable, by which programs load other code.
    LoaderVariable(String),
    /// The URL is not that of an HTTP server.
    Url,
    /// A project's entry asks for tokens of another resource than its URL and the parents of it.
    Resource,
    /// The path of the project's file is not absolute, so that the project's folder is unknown.
    Folder,
    /// A header cannot carry the value.
    HeaderValue,
    /// The value has the character U+0000, or is an empty program.
    Value,
}

impl fmt::Display for ResolveErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(Lookup::EnvFile(_)) => f.write_str(
                "the file of environment variables cannot be read: it must be a regular file of UTF-8 text, and of \
                 yours for a project's server",
            ),
            Self::Missing(lookup) => {
                write!(f, "{} has no value: set it", SafeText::line(&lookup.to_string()))
            }
            Self::EnvFile(error) => error.fmt(f),
            Self::UnapprovedEnvFile => f.write_str(
                "you have not approved the variables of this file as they are now: approve the server again",
            ),
            Self::LoaderVariable(name) => write!(
                f,
                "the file of a project sets {}, which can make programs run other code: \
                 remove it there, or write it into \"env\" of the entry",
                SafeText::line(name)
            ),
            Self::Url => f.write_str("the value is not the URL of an HTTP server"),
            Self::Folder => f.write_str(
                "the path of the project's file is not absolute, so that the folder of the project is unknown: \
                 name the file by its whole path",
            ),
            Self::Resource => f.write_str(
                "the server would get tokens for another resource: \
                 write the URL of the entry, or a parent of it by whole path segments",
            ),
            Self::HeaderValue => f.write_str("a header cannot have this value: it has control characters"),
            Self::Value => f.write_str("the value is empty or has the character U+0000"),
        }
    }
}

/// Resolves the texts of one entry.
pub(in crate::host) struct Resolver<'a> {
    name: &'a str,
    scope: Scope,
    /// The folder of the project, if the entry is a project's.
    folder: Option<&'a str>,
    spec: &'a ServerSpec,
    answers: &'a Answers,
    /// The content of the file of variables that the user has approved.
    approved_env_file: Option<EnvFileBinding>,
    /// The defaults of inputs, by id.
    defaults: BTreeMap<&'a str, &'a str>,
}

impl<'a> Resolver<'a> {
    pub(in crate::host) fn new(entry: &'a ServerEntry, answers: &'a Answers) -> Self {
        let spec = entry.spec();
        let (scope, folder) = (entry.source().scope, entry.source().folder());
        let defaults = spec.input_defaults();
        Self { name: entry.name(), scope, folder, spec, answers, approved_env_file: None, defaults }
    }

    pub(in crate::host) fn with_approved_env_file(mut self, approved: Option<EnvFileBinding>) -> Self {
        self.approved_env_file = approved;
        self
    }

    /// The lookups that have no answer yet. The path of a file may depend on answers, so ask again after each round.
    pub(in crate::host) fn unanswered(&self) -> BTreeSet<Lookup> {
        let mut lookups: BTreeSet<_> = self.spec.lookups().into_iter().cloned().collect();
        if let TransportSpec::Stdio(stdio) = &self.spec.transport {
            lookups.extend(stdio.forwarded.iter().cloned().map(Lookup::Variable));
            // A path with a missing variable is an error of `resolve`.
            let path = stdio.env_file.as_ref();
            let is_answered = |lookup| self.answers.contains(lookup) || self.project_value(lookup).is_some();
            let path = path.filter(|path| path.lookups().all(is_answered));
            lookups.extend(path.and_then(|path| self.env_file_path(path).ok()).map(Lookup::EnvFile));
            if stdio.env_file.is_some() && self.scope == Scope::User {
                lookups.extend(FOLDERS.map(Lookup::Predefined));
            }
        }
        lookups.retain(|lookup| !self.answers.contains(lookup) && self.project_value(lookup).is_none());
        lookups
    }

    /// The file of variables, if it is in the folder of the project and depends on nothing else.
    pub(in crate::host) fn project_env_file(&self) -> Option<Lookup> {
        let TransportSpec::Stdio(stdio) = &self.spec.transport else { return None };
        let path = stdio.env_file.as_ref()?;
        let is_known = path.lookups().all(|lookup| self.project_value(lookup).is_some());
        let path = self.env_file_path(path).ok().filter(|_| is_known)?;
        folder::is_below(self.folder?, &path).then_some(Lookup::EnvFile(path))
    }

    /// The path of the file of variables. A project's begins in its folder.
    fn env_file_path(&self, path: &Template) -> Result<String, Lookup> {
        let path = self.resolve_text(path)?;
        Ok(self.folder.map_or_else(|| path.clone(), |folder| folder::join(folder, &path)))
    }

    fn project_value(&self, lookup: &Lookup) -> Option<&'a str> {
        self.folder.and_then(|folder| folder::value_of(folder, lookup))
    }

    pub(in crate::host) fn resolve(&self) -> Result<ResolvedSpec, ResolveError> {
        match &self.spec.transport {
            TransportSpec::Stdio(stdio) => self.resolve_stdio(stdio).map(ResolvedSpec::Stdio),
            TransportSpec::Http(http) => self.resolve_http(http).map(ResolvedSpec::Http),
        }
    }

    fn resolve_stdio(&self, stdio: &StdioSpec) -> Result<ResolvedStdio, ResolveError> {
        let file = self.env_file_content(stdio)?;
        let mut env = file.map(|content| self.parse_env_file(content)).transpose()?.unwrap_or_default();
        self.check_env_file(stdio, &env)?;
        for name in &stdio.forwarded {
            let lookup = Lookup::Variable(name.clone());
            let of_project = self.project_value(&lookup).map(Secret::new);
            if let Some(value) = of_project.or_else(|| self.answers.get(&lookup).cloned()) {
                env.insert(name.clone(), value);
            }
        }
        for (name, template) in &stdio.env {
            let value = self.member(Member::Variable(name), template)?;
            env.insert(name.clone(), Secret::new(value));
        }
        // A program may replace references to its own variables itself, as `mcp-remote` does in its arguments.
        let argument = |member, template: &Template| {
            let value = template.resolve(|reference| {
                let is_own = matches!(&reference.lookup, Lookup::Variable(name) if env.contains_key(name));
                self.value(reference).or(is_own.then_some(reference.written.as_str()))
            });
            self.check(member, value.map_err(ResolveErrorKind::Missing))
        };
        let mut command = argument(Member::Command, &stdio.command)?;
        if command.is_empty() {
            return Err(self.error(Member::Command, ResolveErrorKind::Value));
        }
        let args = stdio.args.iter().enumerate();
        let args = args.map(|(index, template)| argument(Member::Argument(index), template).map(Secret::new));
        let args = args.collect::<Result<_, _>>()?;
        let mut cwd = stdio.cwd.as_ref().map(|cwd| self.member(Member::WorkingDirectory, cwd)).transpose()?;
        if self.scope == Scope::Project {
            let unknown = || self.error(Member::WorkingDirectory, ResolveErrorKind::Folder);
            let folder = folder::join(self.folder.ok_or_else(unknown)?, cwd.as_deref().unwrap_or_default());
            // Systems differ in where a relative path of a program begins.
            if folder::has_folder(&command) {
                command = folder::join(&folder, &command);
            }
            cwd = Some(folder);
        }
        Ok(ResolvedStdio { command, args, env, cwd })
    }

    /// The content of the entry's file of variables, if it has one.
    fn env_file_content(&self, stdio: &StdioSpec) -> Result<Option<&'a Secret>, ResolveError> {
        let Some(path) = &stdio.env_file else { return Ok(None) };
        let path =
            self.check(Member::EnvFile, self.env_file_path(path).map_err(ResolveErrorKind::Missing))?;
        let lookup = Lookup::EnvFile(path);
        match self.answers.get(&lookup) {
            Some(content) => Ok(Some(content)),
            None => Err(self.error(Member::EnvFile, ResolveErrorKind::Missing(lookup))),
        }
    }

    fn parse_env_file(&self, content: &Secret) -> Result<BTreeMap<String, Secret>, ResolveError> {
        parse_dotenv(content.expose()).map_err(|error| self.env_file_error(error))
    }

    pub(in crate::host) fn env_file_error(&self, error: DotenvError) -> ResolveError {
        self.error(Member::EnvFile, ResolveErrorKind::EnvFile(error))
    }

    /// The content of the file of variables, for the request to approve it.
    pub(in crate::host) fn answered_env_file(&self) -> Result<Option<&'a Secret>, ResolveError> {
        match &self.spec.transport {
            TransportSpec::Stdio(stdio) => self.env_file_content(stdio),
            TransportSpec::Http(_) => Ok(None),
        }
    }

    /// Checks that the user has approved the variables of a file that the project's authors may have written.
    fn check_env_file(
        &self,
        stdio: &StdioSpec,
        variables: &BTreeMap<String, Secret>,
    ) -> Result<(), ResolveError> {
        let Some(path) = &stdio.env_file else { return Ok(()) };
        let error = |kind| Err(self.error(Member::EnvFile, kind));
        match self.scope {
            Scope::Project => match self.approved_env_file {
                Some(approved) if approved.matches(variables) => Ok(()),
                _ => error(ResolveErrorKind::UnapprovedEnvFile),
            },
            Scope::User => {
                let is_of_project = self.may_be_of_project(&self.resolve_text(path).unwrap_or_default())
                    || path.lookups().any(is_folder_of_application);
                let is_written =
                    |name: &String| stdio.env.contains_key(name) || stdio.forwarded.contains(name);
                let loader = variables.keys().find(|name| is_loader_variable(name) && !is_written(name));
                match loader.filter(|_| is_of_project) {
                    Some(name) => error(ResolveErrorKind::LoaderVariable(name.clone())),
                    None => Ok(()),
                }
            }
        }
    }

    /// Whether this file may be in the folder of a project: that of the open one, or that in which the application runs,
    /// unless it is the user's home or around it.
    fn may_be_of_project(&self, path: &str) -> bool {
        let known = |variable| self.answers.get(&Lookup::Predefined(variable)).map(Secret::expose);
        let home = known(PredefinedVariable::UserHome).unwrap_or_default();
        let folders = [PredefinedVariable::WorkspaceFolder, PredefinedVariable::WorkingDirectory];
        let mut folders =
            folders.into_iter().filter_map(known).filter(|folder| !folder::contains(folder, home));
        !folder::is_absolute(path)
            || folder::has_step_upwards(path)
            || folders.any(|folder| folder::contains(folder, path))
    }

    fn resolve_http(&self, http: &HttpSpec) -> Result<ResolvedHttp, ResolveError> {
        let url = Secret::new(self.member(Member::Url, &http.url)?);
        let upgrade = websocket_url(url.expose());
        let is_consistent = upgrade.is_some() == (http.transport == HttpTransport::WebSocket);
        if !is_consistent || UrlConsent::new(upgrade.as_deref().unwrap_or(url.expose())).is_err() {
            return Err(self.error(Member::Url, ResolveErrorKind::Url));
        }
        let resource = http.oauth.as_ref().and_then(|oauth| oauth.resource.as_deref());
        if self.scope == Scope::Project
            && resource.is_some_and(|resource| !is_own_resource(url.expose(), resource))
        {
            return Err(self.error(Member::Resource, ResolveErrorKind::Resource));
        }
        let header = |(name, template): (&String, &Template)| {
            let value = Secret::new(self.member(Member::Header(name), template)?);
            if value.expose().contains(|c: char| c.is_control() && c != '\t') {
                return Err(self.error(Member::Header(name), ResolveErrorKind::HeaderValue));
            }
            Ok((name.clone(), value))
        };
        let secret = http.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        let secret = secret.map(|secret| self.member(Member::ClientSecret, secret)).transpose()?;
        Ok(ResolvedHttp {
            transport: http.transport,
            url,
            headers: http.headers.iter().map(header).collect::<Result<_, _>>()?,
            oauth: http.oauth.clone(),
            client_secret: secret.map(Secret::new),
        })
    }

    fn member(&self, member: Member<'_>, template: &Template) -> Result<String, ResolveError> {
        self.check(member, self.resolve_text(template).map_err(ResolveErrorKind::Missing))
    }

    fn check(
        &self,
        member: Member<'_>,
        value: Result<String, ResolveErrorKind>,
    ) -> Result<String, ResolveError> {
        value
            .and_then(|value| if value.contains('\0') { Err(ResolveErrorKind::Value) } else { Ok(value) })
            .map_err(|kind| self.error(member, kind))
    }

    fn error(&self, member: Member<'_>, kind: ResolveErrorKind) -> ResolveError {
        ResolveError { server: self.name.into(), member: member.to_string(), kind }
    }

    fn resolve_text(&self, template: &Template) -> Result<String, Lookup> {
        template.resolve(|reference| self.value(reference))
    }

    /// The value of a reference: the answer, or the default if the answer is absent or empty.
    fn value<'b>(&'b self, reference: &'b Reference) -> Option<&'b str> {
        if let Some(value) = self.project_value(&reference.lookup) {
            return Some(value);
        }
        let answer = self.answers.get(&reference.lookup).map(Secret::expose);
        match reference.default_value(&self.defaults) {
            Some(default) => Some(answer.filter(|answer| !answer.is_empty()).unwrap_or(default)),
            None => answer,
        }
    }
}

/// The folders by which a file of variables is known to be the user's own.
const FOLDERS: [PredefinedVariable; 3] =
    [PredefinedVariable::WorkspaceFolder, PredefinedVariable::WorkingDirectory, PredefinedVariable::UserHome];

/// Whether this is a folder in which the application runs, so that the files there may be a project's.
const fn is_folder_of_application(lookup: &Lookup) -> bool {
    matches!(
        lookup,
        Lookup::Predefined(PredefinedVariable::WorkspaceFolder | PredefinedVariable::WorkingDirectory)
    )
}

/// The member of an entry that has a text.
#[derive(Clone, Copy, Debug)]
enum Member<'a> {
    Command,
    Argument(usize),
    Variable(&'a str),
    EnvFile,
    WorkingDirectory,
    Url,
    Header(&'a str),
    ClientSecret,
    Resource,
}

impl fmt::Display for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("command"),
            Self::Argument(index) => write!(f, "args[{index}]"),
            Self::Variable(name) => write!(f, "env.{name}"),
            Self::EnvFile => f.write_str("envFile"),
            Self::WorkingDirectory => f.write_str("cwd"),
            Self::Url => f.write_str("url"),
            Self::Header(name) => write!(f, "headers.{name}"),
            Self::ClientSecret => f.write_str("oauth.client_secret"),
            Self::Resource => f.write_str("oauth.resource"),
        }
    }
}
