//! Entries with their references replaced by values.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use super::entry::{Scope, ServerEntry, contains, has_folder, has_step_upwards, is_absolute, join};
use super::spec::{
    HttpSpec, HttpTransport, OauthSpec, StdioSpec, TransportSpec, is_own_resource, websocket_url,
};
use super::template::{Answers, Lookup, PredefinedVariable, Reference, Template};
use super::template::{DotenvError, EnvFileBinding, parse_dotenv};
use crate::Secret;
use crate::consent::{SafeText, UrlConsent, is_loader_variable};
use crate::prelude::*;

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
    /// Whether it speaks HTTP/2: the transport `stdio-v2`.
    pub speaks_http2: bool,
}

debug_fields! { ResolvedStdio(self) { args = self.args.len(), env = self.env.keys() } }

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

debug_fields! { ResolvedHttp(self) { transport, headers = self.headers.keys() } }

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

display_text! { ResolveErrorKind:
    Missing(Lookup::EnvFile(_)) =>
        "the file of environment variables cannot be read: it must be a regular file of UTF-8 text, and of \
                 yours for a project's server";
    Missing(lookup) => "{} has no value: set it", SafeText::line(&lookup.to_string());
    EnvFile(error) => "{error}";
    UnapprovedEnvFile =>
        "you have not approved the variables of this file as they are now: approve the server again";
    LoaderVariable(name) =>
        "the file of a project sets {}, which can make programs run other code: \
                 remove it there, or write it into \"env\" of the entry", SafeText::line(name);
    Url => "the value is not the URL of an HTTP server";
    Folder =>
        "the path of the project's file is not absolute, so that the folder of the project is unknown: \
                 name the file by its whole path";
    Resource =>
        "the server would get tokens for another resource: \
                 write the URL of the entry, or a parent of it by whole path segments";
    HeaderValue => "a header cannot have this value: it has control characters";
    Value => "the value is empty or has the character U+0000";
}

/// Resolves the texts of one entry.
pub(in crate::host) struct Resolver<'a> {
    entry: &'a ServerEntry,
    answers: &'a Answers,
    /// The defaults of inputs, by id.
    defaults: BTreeMap<&'a str, &'a str>,
}

impl<'a> Resolver<'a> {
    pub(in crate::host) fn new(entry: &'a ServerEntry, answers: &'a Answers) -> Self {
        Self { entry, answers, defaults: entry.spec().input_defaults() }
    }

    /// The lookups that have no answer yet. The path of a file may depend on answers, so ask again after each round.
    pub(in crate::host) fn unanswered(&self) -> BTreeSet<Lookup> {
        let mut lookups: BTreeSet<_> = self.entry.spec().lookups().into_iter().cloned().collect();
        if let TransportSpec::Stdio(stdio) = &self.entry.spec().transport {
            lookups.extend(stdio.forwarded.iter().cloned().map(Lookup::Variable));
            if let Some(path) = &stdio.env_file {
                if self.scope() == Scope::User {
                    lookups.extend(FOLDERS.map(Lookup::Predefined));
                }
                // A path with a missing variable is an error of `resolve`.
                let path = Some(path).filter(|path| path.lookups().all(|lookup| self.is_answered(lookup)));
                lookups.extend(path.and_then(|path| self.env_file_path(path).ok()).map(Lookup::EnvFile));
            }
        }
        lookups.retain(|lookup| !self.is_answered(lookup));
        lookups
    }

    /// The file of variables, if it is in the folder of the project and depends on nothing else.
    pub(in crate::host) fn project_env_file(&self) -> Option<Lookup> {
        let TransportSpec::Stdio(stdio) = &self.entry.spec().transport else { return None };
        let path = stdio.env_file.as_ref()?;
        let is_known = path.lookups().all(|lookup| self.entry.project_value(lookup).is_some());
        let (folder, path) = (self.entry.source().folder()?, self.env_file_path(path).ok()?);
        let is_below = path != folder && contains(folder, &path) && !has_step_upwards(&path);
        (is_known && is_below).then_some(Lookup::EnvFile(path))
    }

    /// The path of the file of variables. A project's begins in its folder.
    fn env_file_path(&self, path: &Template) -> Result<String, Lookup> {
        let path = self.resolve_text(path)?;
        Ok(match self.entry.source().folder() {
            Some(folder) => join(folder, &path),
            None => path,
        })
    }

    fn scope(&self) -> Scope {
        self.entry.source().scope
    }

    fn is_answered(&self, lookup: &Lookup) -> bool {
        self.answers.contains(lookup) || self.entry.project_value(lookup).is_some()
    }

    /// What to start, if the file of variables is the approved one.
    pub(in crate::host) fn resolve(
        &self,
        approved: Option<EnvFileBinding>,
    ) -> Result<ResolvedSpec, ResolveError> {
        match &self.entry.spec().transport {
            TransportSpec::Stdio(stdio) => self.resolve_stdio(stdio, approved).map(ResolvedSpec::Stdio),
            TransportSpec::Http(http) => self.resolve_http(http).map(ResolvedSpec::Http),
        }
    }

    fn resolve_stdio(
        &self,
        stdio: &StdioSpec,
        approved: Option<EnvFileBinding>,
    ) -> Result<ResolvedStdio, ResolveError> {
        let mut env = self.env_file_variables(stdio, approved)?;
        for name in &stdio.forwarded {
            let lookup = Lookup::Variable(name.clone());
            let of_project = self.entry.project_value(&lookup).map(Secret::new);
            if let Some(value) = of_project.or_else(|| self.answers.get(&lookup).cloned()) {
                env.insert(name.clone(), value);
            }
        }
        for (name, template) in &stdio.env {
            let value = self.member(format_args!("env.{name}"), template)?;
            env.insert(name.clone(), Secret::new(value));
        }
        // A program may replace references to its own variables itself, as `mcp-remote` does in its arguments.
        let argument = |member: fmt::Arguments<'_>, template: &Template| {
            let value = template.resolve(|reference| {
                let is_own = matches!(&reference.lookup, Lookup::Variable(name) if env.contains_key(name));
                self.value(reference).or(is_own.then_some(reference.written.as_str()))
            });
            self.check(member, value)
        };
        let mut command = argument(format_args!("command"), &stdio.command)?;
        if command.is_empty() {
            return Err(self.error("command", ResolveErrorKind::Value));
        }
        let args = stdio.args.iter().enumerate();
        let args = args.map(|(index, text)| argument(format_args!("args[{index}]"), text).map(Secret::new));
        let args = args.collect::<Result<_, _>>()?;
        let cwd = stdio.cwd.as_ref().map(|cwd| self.member("cwd", cwd));
        let mut cwd = cwd.transpose()?;
        if self.scope() == Scope::Project {
            let unknown = || self.error("cwd", ResolveErrorKind::Folder);
            let project = self.entry.source().folder().ok_or_else(unknown)?;
            let folder = join(project, cwd.as_deref().unwrap_or_default());
            // Systems differ in where a relative path of a program begins.
            if has_folder(&command) {
                command = join(&folder, &command);
            }
            cwd = Some(folder);
        }
        Ok(ResolvedStdio { command, args, env, cwd, speaks_http2: stdio.speaks_http2 })
    }

    /// The content of the entry's file of variables, if it has one.
    pub(in crate::host) fn env_file_content(&self) -> Result<Option<&'a Secret>, ResolveError> {
        let TransportSpec::Stdio(StdioSpec { env_file: Some(path), .. }) = &self.entry.spec().transport
        else {
            return Ok(None);
        };
        let path = self.check("envFile", self.env_file_path(path))?;
        let lookup = Lookup::EnvFile(path);
        match self.answers.get(&lookup) {
            Some(content) => Ok(Some(content)),
            None => Err(self.error("envFile", ResolveErrorKind::Missing(lookup))),
        }
    }

    /// The variables in the file, if the user has approved what the project's authors may have written.
    fn env_file_variables(
        &self,
        stdio: &StdioSpec,
        approved: Option<EnvFileBinding>,
    ) -> Result<BTreeMap<String, Secret>, ResolveError> {
        let Some(content) = self.env_file_content()? else { return Ok(BTreeMap::new()) };
        let variables = parse_dotenv(content.expose());
        let variables = variables.map_err(|error| self.error("envFile", ResolveErrorKind::EnvFile(error)))?;
        let is_written = |name: &String| stdio.env.contains_key(name) || stdio.forwarded.contains(name);
        let loader = variables.keys().find(|name| is_loader_variable(name) && !is_written(name));
        match (self.scope(), loader) {
            (Scope::Project, _) if approved.is_none_or(|approved| !approved.matches(&variables)) => {
                Err(self.error("envFile", ResolveErrorKind::UnapprovedEnvFile))
            }
            (Scope::User, Some(name))
                if stdio.env_file.as_ref().is_some_and(|it| self.may_be_of_project(it)) =>
            {
                Err(self.error("envFile", ResolveErrorKind::LoaderVariable(name.clone())))
            }
            _ => Ok(variables),
        }
    }

    /// Whether this file may be in the folder of a project: that of the open one, or that in which the application runs,
    /// unless it is the user's home or around it.
    fn may_be_of_project(&self, path: &Template) -> bool {
        let [project, working, home] =
            FOLDERS.map(|folder| self.answers.get(&Lookup::Predefined(folder)).map(Secret::expose));
        let folders = [project, working].into_iter().flatten();
        let mut folders = folders.filter(|folder| !contains(folder, home.unwrap_or_default()));
        let names_folder = |lookup: &Lookup| {
            let is_home = *lookup == Lookup::Predefined(PredefinedVariable::UserHome);
            !is_home && FOLDERS.iter().any(|folder| *lookup == Lookup::Predefined(*folder))
        };
        let resolved = self.resolve_text(path).unwrap_or_default();
        !is_absolute(&resolved)
            || has_step_upwards(&resolved)
            || path.lookups().any(names_folder)
            || folders.any(|folder| contains(folder, &resolved))
    }

    fn resolve_http(&self, http: &HttpSpec) -> Result<ResolvedHttp, ResolveError> {
        let url = Secret::new(self.member("url", &http.url)?);
        let upgrade = websocket_url(url.expose());
        let is_consistent = upgrade.is_some() == (http.transport == HttpTransport::WebSocket);
        if !is_consistent || UrlConsent::new(upgrade.as_deref().unwrap_or(url.expose())).is_err() {
            return Err(self.error("url", ResolveErrorKind::Url));
        }
        let resource = http.oauth.as_ref().and_then(|oauth| oauth.resource.as_deref());
        let is_foreign = resource.is_some_and(|resource| !is_own_resource(url.expose(), resource));
        if is_foreign && self.scope() == Scope::Project {
            return Err(self.error("oauth.resource", ResolveErrorKind::Resource));
        }
        let header = |(name, template): (&String, &Template)| {
            let member = format_args!("headers.{name}");
            let value = Secret::new(self.member(member, template)?);
            if value.expose().contains(|c: char| c.is_control() && c != '\t') {
                return Err(self.error(member, ResolveErrorKind::HeaderValue));
            }
            Ok((name.clone(), value))
        };
        let headers = http.headers.iter().map(header).collect::<Result<_, _>>()?;
        let secret = http.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        let secret = secret.map(|secret| self.member("oauth.client_secret", secret));
        let client_secret = secret.transpose()?.map(Secret::new);
        Ok(ResolvedHttp { transport: http.transport, url, headers, oauth: http.oauth.clone(), client_secret })
    }

    /// The value of a member, whose name errors have.
    fn member(&self, member: impl fmt::Display, template: &Template) -> Result<String, ResolveError> {
        self.check(member, self.resolve_text(template))
    }

    fn check(
        &self,
        member: impl fmt::Display,
        value: Result<String, Lookup>,
    ) -> Result<String, ResolveError> {
        match value {
            Ok(value) if value.contains('\0') => Err(self.error(member, ResolveErrorKind::Value)),
            Ok(value) => Ok(value),
            Err(lookup) => Err(self.error(member, ResolveErrorKind::Missing(lookup))),
        }
    }

    pub(in crate::host) fn error(&self, member: impl fmt::Display, kind: ResolveErrorKind) -> ResolveError {
        ResolveError { server: self.entry.name().into(), member: member.to_string(), kind }
    }

    fn resolve_text(&self, template: &Template) -> Result<String, Lookup> {
        template.resolve(|reference| self.value(reference))
    }

    /// The value of a reference: the answer, or the default if the answer is absent or empty.
    fn value<'b>(&'b self, reference: &'b Reference) -> Option<&'b str> {
        if let Some(value) = self.entry.project_value(&reference.lookup) {
            return Some(value);
        }
        let answer = self.answers.get(&reference.lookup).map(Secret::expose);
        match reference.default_value(&self.defaults) {
            Some(default) => Some(answer.filter(|answer| !answer.is_empty()).unwrap_or(default)),
            None => answer,
        }
    }
}

/// The folders by which a file of variables is known to be the user's own: two in which the files may be a project's, and
/// the home.
const FOLDERS: [PredefinedVariable; 3] =
    [PredefinedVariable::WorkspaceFolder, PredefinedVariable::WorkingDirectory, PredefinedVariable::UserHome];
