//! What a host's connections are made with: the values that an entry refers to, and the client of a resolved entry.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::future::Boxed;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_proto::Secret;
#[cfg(feature = "auth")]
use mcp_proto::auth::{
    Scopes,
    client::{ClientCredentials, Preregistration},
};
use mcp_proto::front::layer::Layers;
use mcp_proto::front::{Client, ClientHandlers, Error, SendHandlers};
use mcp_proto::host::config::{
    Answers, Lookup, ResolveError, ResolveErrorKind, ResolvedHttp, ResolvedSpec, Scope, ServerEntry,
    TimeoutOverrides, TransportSpec,
};
#[cfg(feature = "auth")]
use mcp_proto::host::config::{OauthSpec, Template};
use mcp_proto::host::consent::{Approval, ApprovalRequest, SkillRequest};
use mcp_proto::host::control::{Failure, FailureKind};
use mcp_proto::host::tools::ResultLimits;
use mcp_proto::peer::client::{ClientConfig, ConnectTimeouts, Keepalive, KnownEra, OnServerEnd};
use mcp_proto::redact::Redactor;
use mcp_proto::schema::{ClientCapabilities, Implementation};
#[cfg(feature = "stdio-v2")]
use mcp_smol::ChildStream;
use mcp_smol::{ChildLink, Command, Environment, SpawnError, SpawnErrorKind, StderrLine};

use super::connection_trace::ConnectionTrace;
use super::discovery::look_up;
use super::events::StderrTail;
use super::shared::Shared;
use super::storage::{Memory, SpillFolder};
use super::trace_file::TraceFile;
use super::wire::{ObserverOf, WireObserver, with_secrets_of};
#[cfg(feature = "auth")]
use crate::auth::{Authorization, KnownRecord};
use crate::runtime::{AnyRuntime, Runtime as _};
use crate::{ClientDriver, ClientOptions, Proxy};

type HandlersOf = Arc<dyn Fn(&ServerEntry) -> ClientHandlers + Send + Sync>;
type Configure = Arc<dyn Fn(&ServerEntry, &mut ClientConfig) + Send + Sync>;
type LookUp = Arc<dyn Fn(Arc<ServerEntry>, Lookup) -> Boxed<Option<Secret>> + Send + Sync>;
type Ask = Arc<dyn Fn(ApprovalRequest) -> Boxed<bool> + Send + Sync>;

#[cfg(feature = "auth")]
type Authorize = Arc<
    dyn Fn(&ServerEntry, &mcp_proto::host::config::ResolvedHttp) -> Option<crate::auth::Authorization>
        + Send
        + Sync,
>;

/// How long an approval waits for the answer whether the user has a login.
#[cfg(feature = "auth")]
const LOGIN_LOOKUP: Duration = Duration::from_secs(5);

/// What connections are made with.
pub(super) struct Settings {
    pub(super) info: Implementation,
    pub(super) runtime: AnyRuntime,
    pub(super) overrides: TimeoutOverrides,
    /// The pings to servers whose entries do not say otherwise.
    pub(super) keepalive: Option<Keepalive>,
    pub(super) handlers: HandlersOf,
    pub(super) layers: Layers,
    /// The questions before each call of a tool, inside of all layers.
    pub(super) questions: Layers,
    pub(super) configure: Configure,
    /// Makes the observers of connections.
    pub(super) observe: Option<ObserverOf>,
    pub(super) trace: Option<TraceFile>,
    pub(super) proxy: Option<Proxy>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<crate::rustls::ClientConfig>,
    #[cfg(feature = "auth")]
    pub(super) authorize: Option<Authorize>,
    /// The application's lookups, if it has any.
    pub(super) look_up: Option<LookUp>,
    /// The project's folder.
    pub(super) folder: Option<PathBuf>,
    /// Where the user's programs run whose entries name no folder.
    pub(super) working_folder: Option<PathBuf>,
    pub(super) ask: Option<Ask>,
    /// How skills are used, if they are.
    pub(super) skills: Option<SkillOptions>,
    pub(super) memory: Option<Memory>,
    /// Whether the memory keeps approvals.
    pub(super) stores_approvals: bool,
    pub(super) spills: Option<SpillFolder>,
    pub(super) result_limits: ResultLimits,
    /// Whether a model gets the errors of calls as content.
    pub(super) errors_as_content: bool,
}

impl Settings {
    /// The handlers of a connection within its layers, which declare what the host itself uses.
    fn handlers_of(&self, entry: &ServerEntry) -> ClientHandlers {
        let handlers = (self.handlers)(entry);
        let handlers = match self.skills {
            Some(_) => handlers.declare(ClientCapabilities::declare_skills),
            None => handlers,
        };
        match self.layers.is_empty() {
            true => handlers,
            false => handlers.within_layers(&self.layers.of_connection(entry.name())),
        }
    }

    /// Looks a value up: by the application, then in the environment.
    pub(super) async fn look_up(&self, entry: Arc<ServerEntry>, lookup: Lookup) -> Option<Secret> {
        let (scope, folder) = (entry.source().scope, self.folder.clone());
        if let Some(look_up) = &self.look_up
            && let Some(value) = look_up(entry, lookup.clone()).await
        {
            return Some(value);
        }
        match lookup {
            Lookup::EnvFile(_) => {
                let read = self.runtime.blocking(move || look_up(&lookup, scope, folder.as_deref()));
                read.await.ok().flatten()
            }
            _ => look_up(&lookup, scope, folder.as_deref()),
        }
    }
}

impl Settings {
    //= F85 "values are looked up again at each connection"
    /// Resolves an entry that may start, with fresh values of its variables and secrets: those that are known, and those
    /// that it looks up and adds.
    pub(super) async fn resolve(
        &self,
        shared: &Shared,
        entry: &Arc<ServerEntry>,
        answers: &mut Answers,
    ) -> Result<ResolvedSpec, Failure> {
        let approvals = shared.with(|state, _| state.approvals.clone());
        let permit = entry
            .permit(&approvals)
            .map_err(|_| permanent_failure("the user has not approved this server of a project"))?;
        loop {
            let lookups = permit.unanswered(answers);
            if lookups.is_empty() {
                break;
            }
            for lookup in lookups {
                let value = self.look_up(entry.clone(), lookup.clone()).await;
                answers.insert(lookup, value);
            }
        }
        let resolved = permit.resolve(answers);
        if let Err(ResolveError { kind: ResolveErrorKind::UnapprovedEnvFile, .. }) = &resolved {
            let request = permit.env_file_request(answers, random_key()?);
            let request = request.map_err(|error| resolution_failure(&error))?;
            shared.command(|state, now| state.ask_again(now, entry, request));
        }
        resolved.map_err(|error| resolution_failure(&error))
    }

    /// Adds what only the host knows: a login of the user, and the names in the project's file of variables, if it can be
    /// read.
    pub(super) async fn complete_request(
        &self,
        entry: &Arc<ServerEntry>,
        request: ApprovalRequest,
    ) -> ApprovalRequest {
        #[cfg(feature = "auth")]
        let request = {
            let timer = self.runtime.timer();
            // A store that does not answer must not hide the request.
            let unknown = async {
                timer.sleep(LOGIN_LOOKUP).await;
                None
            };
            match futures_lite::future::or(self.has_login(entry), unknown).await {
                Some(true) => request.with_login(),
                Some(false) => request,
                None => request.with_possible_login(),
            }
        };
        let Some(file) = request.env_file().cloned() else { return request };
        let Some(content) = self.look_up(entry.clone(), file).await else { return request };
        let Ok(key) = random_key() else { return request };
        // A mistake in it is an error of the start.
        request.clone().with_env_file(&content, key).unwrap_or(request)
    }
}

/// The key under which the values of a file of variables are hashed.
fn random_key() -> Result<[u8; 16], Failure> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| permanent_failure(error.to_string()))?;
    Ok(key)
}

/// The driver of a client of either kind.
pub(super) enum Driver {
    Child(Box<mcp_smol::ClientDriver<ChildLink>>),
    Http(Box<ClientDriver<SendHandlers, AnyRuntime>>),
}

impl Driver {
    /// Why the program could not be started, if it could not.
    pub(super) fn spawn_failure(&self) -> Option<Failure> {
        match self {
            Self::Child(driver) => driver.spawn_error().map(spawn_failure),
            Self::Http(_) => None,
        }
    }
}

#[cfg(feature = "auth")]
impl Driver {
    /// The record of the tokens of a server at a URL, as its client knows it.
    pub(super) fn known_record(&self) -> Option<KnownRecord> {
        match self {
            Self::Child(_) => None,
            Self::Http(driver) => driver.known_record(),
        }
    }
}

impl Future for Driver {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Child(driver) => Pin::new(&mut **driver).poll(cx),
            Self::Http(driver) => Pin::new(&mut **driver).poll(cx),
        }
    }
}

/// Above this, a time limit is none.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl Settings {
    /// Makes a client of a server.
    pub(super) fn connect(
        &self,
        resolved: ResolvedSpec,
        headers: FreshHeaders,
        era: Option<KnownEra>,
        stderr: &StderrTail,
    ) -> Result<(Client, Driver), Failure> {
        let entry = &*headers.entry.clone();
        let mut config = self.client_config(entry, era);
        let observer = self.observe.as_ref().and_then(|observe| observe(entry));
        let observer = observer.map(|observer| observer.hiding(entry, &resolved, &headers.answers));
        let traced = self.trace.as_ref().map(|trace| {
            let redactor = with_secrets_of(Redactor::new(), entry, &resolved, &headers.answers);
            trace.connection(entry.name(), entry.spec().transport.name(), redactor)
        });
        config.recorder = traced.as_ref().and_then(ConnectionTrace::recorder).or(config.recorder.take());
        let trace = traced.as_ref().map(ConnectionTrace::observer);
        let mut observers: Vec<_> = observer.into_iter().chain(trace).collect();
        let program = match resolved {
            ResolvedSpec::Stdio(program) => program,
            ResolvedSpec::Http(server) => return self.connect_url(config, &server, headers, observers),
        };
        let mut command = Command::new(&program.command)
            .args(program.args.iter().map(|argument| argument.expose()))
            .environment(Environment::Essential)
            .envs(program.env.iter().map(|(name, value)| (name, value.expose())));
        let own = || self.working_folder.clone().filter(|_| entry.source().scope == Scope::User);
        if let Some(folder) = program.cwd.as_ref().map(PathBuf::from).or_else(own) {
            command = command.current_dir(folder);
        }
        let stderr = stderr.clone();
        let on_stderr = move |line: StderrLine| {
            stderr.push(&line);
            if let Some(traced) = &traced {
                traced.record_stderr_line(&line);
            }
        };
        if program.speaks_http2 {
            return self.connect_command_v2(entry, config, (command, on_stderr), observers);
        }
        let options =
            mcp_smol::ClientOptions::from(config).handlers(self.handlers_of(entry)).on_stderr(on_stderr);
        let options = match observers.is_empty() {
            true => options,
            false => options.on_wire(move |direction, bytes| {
                observers.iter_mut().for_each(|observer| observer.handle_bytes(direction, bytes));
            }),
        };
        let (client, driver) = options.connect(command);
        Ok((client, Driver::Child(Box::new(driver))))
    }

    /// Makes a client of a program that speaks HTTP/2.
    #[cfg(feature = "stdio-v2")]
    fn connect_command_v2(
        &self,
        entry: &ServerEntry,
        config: ClientConfig,
        (command, on_stderr): (Command, impl FnMut(StderrLine) + Send + 'static),
        observers: Vec<WireObserver>,
    ) -> Result<(Client, Driver), Failure> {
        let options = self.http_options(entry, config, observers);
        let child = ChildStream::spawn(command, on_stderr).map_err(|it| spawn_failure(&it))?;
        let (client, driver) = options.connect_stream(child).map_err(|error| options_failure(&error))?;
        Ok((client, Driver::Http(Box::new(driver))))
    }

    #[cfg(not(feature = "stdio-v2"))]
    fn connect_command_v2(
        &self,
        _: &ServerEntry,
        _: ClientConfig,
        _: (Command, impl FnMut(StderrLine)),
        _: Vec<WireObserver>,
    ) -> Result<(Client, Driver), Failure> {
        Err(permanent_failure("built without the transport stdio-v2: enable the feature `stdio-v2`"))
    }

    /// The options of a client over HTTP.
    fn http_options(
        &self,
        entry: &ServerEntry,
        config: ClientConfig,
        mut observers: Vec<WireObserver>,
    ) -> ClientOptions<SendHandlers, AnyRuntime> {
        let options =
            ClientOptions::from(config).runtime(self.runtime.clone()).handlers(self.handlers_of(entry));
        match observers.is_empty() {
            true => options,
            false => options.on_wire(move |event| {
                observers.iter_mut().for_each(|observer| observer.handle_event(event));
            }),
        }
    }

    pub(super) fn client_config(&self, entry: &ServerEntry, era: Option<KnownEra>) -> ClientConfig {
        let timeouts = entry.spec().timeouts(&self.overrides);
        let mut config = ClientConfig::new(self.info.clone());
        config.known_era = era;
        // A server that ends its subscriptions shuts down, or another instance takes over.
        config.watch.on_server_end = OnServerEnd::Listen;
        // The control plane limits starts and calls; a client's own limits are never shorter.
        config.request_timeout = timeouts.call.unwrap_or(LONGEST);
        config.request_hard_timeout = config.request_hard_timeout.max(config.request_timeout);
        config.connect = ConnectTimeouts::within(timeouts.start.unwrap_or(LONGEST));
        config.keepalive = self.keepalive_of(entry);
        (self.configure)(entry, &mut config);
        config
    }

    //= F68 "3 missed ones lead to a reconnection"
    /// The pings to a server.
    fn keepalive_of(&self, entry: &ServerEntry) -> Option<Keepalive> {
        match entry.spec().keepalive {
            Some(interval) if interval.is_zero() => None,
            Some(interval) => {
                Some(Keepalive { interval, ..self.keepalive.unwrap_or(Keepalive::BUSY_TOLERANT) })
            }
            None => self.keepalive,
        }
    }

    fn connect_url(
        &self,
        config: ClientConfig,
        server: &ResolvedHttp,
        headers: FreshHeaders,
        observers: Vec<WireObserver>,
    ) -> Result<(Client, Driver), Failure> {
        let entry = &*headers.entry.clone();
        let options = self.url_options(entry, config, server, observers);
        #[cfg(feature = "auth")]
        let options = match self.authorization(entry, server) {
            Some(authorization) => options.authorization(authorization),
            None => headers.add_to(options, server),
        };
        #[cfg(not(feature = "auth"))]
        let options = headers.add_to(options, server);
        let (client, driver) =
            options.connect(server.url.expose()).map_err(|error| options_failure(&error))?;
        Ok((client, Driver::Http(Box::new(driver))))
    }

    /// The options of a client of a server at a URL, without its authorization.
    pub(super) fn url_options(
        &self,
        entry: &ServerEntry,
        config: ClientConfig,
        server: &ResolvedHttp,
        observers: Vec<WireObserver>,
    ) -> ClientOptions<SendHandlers, AnyRuntime> {
        let mut options = self.http_options(entry, config, observers);
        for (name, value) in &server.headers {
            options = options.header(name, value.expose());
        }
        if matches!(&entry.spec().transport, TransportSpec::Http(http) if http.chunked_results) {
            options = options.chunked_results();
        }
        if let Some(proxy) = &self.proxy {
            options = options.proxy(proxy.clone());
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            options = options.tls(tls.clone());
        }
        options
    }
}

#[cfg(feature = "auth")]
impl Settings {
    /// Whether the user has a login at the server, which may not be approved: no reference of its entry is replaced. `None`
    /// if that is not known.
    async fn has_login(&self, entry: &ServerEntry) -> Option<bool> {
        let TransportSpec::Http(http) = &entry.spec().transport else { return Some(false) };
        // The request warns by itself of a URL with references.
        if !http.url.is_literal() {
            return Some(false);
        }
        let written = |value: &Template| Secret::new(value.text());
        let server = ResolvedHttp {
            transport: http.transport,
            url: written(&http.url),
            headers: http.headers.iter().map(|(name, value)| (name.clone(), written(value))).collect(),
            oauth: http.oauth.clone(),
            client_secret: None,
        };
        let Some(authorization) = self.authorization(entry, &server) else { return Some(false) };
        authorization.has_tokens(&http.http_url()).await
    }

    /// Whether other processes may store tokens for the server.
    pub(super) fn shares_logins(&self, entry: &ServerEntry) -> bool {
        self.authorize.is_some() && matches!(entry.spec().transport, TransportSpec::Http(_))
    }

    /// The authorization of a server, with the settings of its entry.
    pub(super) fn authorization(&self, entry: &ServerEntry, server: &ResolvedHttp) -> Option<Authorization> {
        let mut authorization = self.authorize.as_ref()?(entry, server)?;
        let Some(oauth) = &server.oauth else { return Some(authorization) };
        let config = &mut authorization.config;
        if config.scopes.is_none() && !oauth.scopes.is_empty() {
            config.scopes = Some(Scopes::parse(&oauth.scopes.join(" ")));
        }
        if config.allowed_hosts.is_none() {
            config.allowed_hosts.clone_from(&oauth.allowed_hosts);
        }
        if config.resource.is_none() {
            config.resource.clone_from(&oauth.resource);
        }
        if config.preregistrations.is_empty() {
            config.preregistrations.extend(registration(oauth, server.client_secret.clone()));
        }
        Some(authorization)
    }
}

/// The client of an entry. One with a secret is used only if its issuer is known: the server could name another one.
#[cfg(feature = "auth")]
fn registration(oauth: &OauthSpec, secret: Option<Secret>) -> Option<Preregistration> {
    let id = oauth.client_id.as_ref()?;
    match (&oauth.issuer, secret) {
        (Some(issuer), Some(secret)) => {
            Some(Preregistration::for_issuer(issuer, ClientCredentials::with_secret(id, secret)))
        }
        (Some(issuer), None) => Some(Preregistration::for_issuer(issuer, ClientCredentials::new(id))),
        (None, Some(_)) => None,
        (None, None) => Some(Preregistration::public(id)),
    }
}

/// The values of one connection, and what looks them up again.
pub(super) struct FreshHeaders {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Arc<Settings>,
    pub(super) entry: Arc<ServerEntry>,
    /// The values with which the connection was made.
    pub(super) answers: Answers,
}

impl FreshHeaders {
    /// Makes a client look the variables of its headers up after status 401, if they have any.
    pub(super) fn add_to(
        self,
        options: ClientOptions<SendHandlers, AnyRuntime>,
        server: &ResolvedHttp,
    ) -> ClientOptions<SendHandlers, AnyRuntime> {
        let variables: Arc<[Lookup]> = self.variables().into();
        if variables.is_empty() {
            return options;
        }
        let mut first = header_map(server);
        let source = Arc::new(self);
        options.headers_from(move || {
            let (first, source, variables) = (first.take(), source.clone(), variables.clone());
            async move {
                match first {
                    Some(headers) => Ok(headers),
                    None => source.look_up(&variables).await,
                }
            }
        })
    }

    /// The variables in the headers. An input is not among them: only a start asks the user.
    fn variables(&self) -> Vec<Lookup> {
        let TransportSpec::Http(http) = &self.entry.spec().transport else { return Vec::new() };
        let lookups = http.headers.values().flat_map(|value| value.lookups());
        let variables = lookups.filter(|lookup| matches!(lookup, Lookup::Variable(_)));
        // A project's file may give a variable its value.
        variables.filter(|lookup| self.answers.contains(lookup)).cloned().collect()
    }

    async fn look_up(&self, variables: &[Lookup]) -> Result<HeaderMap, String> {
        let mut answers = self.answers.clone();
        for variable in variables {
            let value = self.settings.look_up(self.entry.clone(), variable.clone()).await;
            answers.insert(variable.clone(), value);
        }
        let resolved = self.settings.resolve(&self.shared, &self.entry, &mut answers).await;
        match resolved.map_err(|failure| failure.reason)? {
            ResolvedSpec::Http(server) => {
                header_map(&server).ok_or_else(|| "a header is not valid in HTTP".to_owned())
            }
            ResolvedSpec::Stdio(_) => Err("the server is a program".to_owned()),
        }
    }
}

/// The headers of a server; `None` if one is not valid in HTTP.
fn header_map(server: &ResolvedHttp) -> Option<HeaderMap> {
    let convert = |(name, value): (&String, &Secret)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.expose()).ok()?))
    };
    server.headers.iter().map(convert).collect()
}

// Why a connection ended, and whether another attempt may help.

/// The failure of a program that could not be started. Its arguments may be secrets that were looked up.
pub(super) fn spawn_failure(error: &SpawnError) -> Failure {
    // All other reasons stay until the user acts.
    let kind = match error.kind() {
        SpawnErrorKind::System => FailureKind::Transient,
        _ => FailureKind::Permanent,
    };
    Failure::new(kind, error.without_arguments().to_string())
}

/// The failure of options that are wrong.
pub(super) fn options_failure(error: &crate::ConnectError) -> Failure {
    let kind = match error {
        crate::ConnectError::Runtime(_) | crate::ConnectError::NoEntropy => FailureKind::Transient,
        _ => FailureKind::Permanent,
    };
    Failure::new(kind, error.to_string())
}

pub(super) fn resolution_failure(error: &ResolveError) -> Failure {
    permanent_failure(error.to_string())
}

pub(super) fn permanent_failure(reason: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Permanent, reason)
}

pub(super) type AskSkill = Arc<dyn Fn(SkillRequest) -> Boxed<Option<Approval>> + Send + Sync>;

/// How a host uses the skills of its servers: see [`HostOptions::skills`](super::HostOptions::skills).
///
/// ```
/// use mcp_hyper::host::{HostOptions, SkillOptions};
///
/// let skills = SkillOptions::new().on_request(|request| async move {
///     println!("{request}");
///     // Once the user has read all of it and agrees:
///     Some(request.approve())
/// });
/// let options = HostOptions::new("my-agent", "1.0.0").skills(skills);
/// ```
#[derive(Clone, Default)]
#[must_use = "options do nothing until they are given to a host"]
pub struct SkillOptions {
    pub(super) ask: Option<AskSkill>,
    pub(super) allows_dynamic: bool,
}

impl SkillOptions {
    /// Skills are loaded only with approvals that the host has, and none that is dynamic.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the user whether a skill may be loaded, when a model first does, and again when its content has changed. Show the
    /// whole [`SkillRequest`], and return the approval if the user agreed:
    /// [`approve`](SkillRequest::approve), or [`approve_with_tools`](SkillRequest::approve_with_tools) if the user also agreed
    /// to the tools that the skill asks for.
    ///
    /// The future runs in the task that loads the skill. Others that load the same skill meanwhile wait for its answer, so that
    /// it must not load the skill itself: [`Client::read_skill_file`] reads the files that the user wants to see.
    pub fn on_request<F: Future<Output = Option<Approval>> + Send + 'static>(
        mut self,
        ask: impl Fn(SkillRequest) -> F + Send + Sync + 'static,
    ) -> Self {
        self.ask = Some(Arc::new(move |request| Box::pin(ask(request))));
        self
    }

    /// Allows skills whose content is dynamic: nothing of it can be verified, and each read may return something else than
    /// the one before. An approval of such a skill is not stored. Default: they are refused.
    pub fn allow_dynamic(mut self) -> Self {
        self.allows_dynamic = true;
        self
    }
}

debug_fields! { SkillOptions { allows_dynamic } }
