//! What a host's connections are made with: the values that an entry refers to, and the client of a resolved entry.

use std::env;
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::future::Boxed;
use mcp_proto::Secret;
#[cfg(feature = "auth")]
use mcp_proto::auth::{
    Scopes,
    client::{ClientCredentials, Preregistration},
};
use mcp_proto::front::layer::Layers;
use mcp_proto::front::{Client, ClientHandlers, Error, SendHandlers};
use mcp_proto::host::config::{
    Answers, ENV_FILE_BYTES, Lookup, PredefinedVariable, ResolveError, ResolveErrorKind, ResolvedHttp,
    ResolvedSpec, Scope, ServerEntry, TimeoutOverrides, TransportSpec,
};
#[cfg(feature = "auth")]
use mcp_proto::host::config::{OauthSpec, Template};
use mcp_proto::host::consent::ApprovalRequest;
use mcp_proto::host::control::Failure;
use mcp_proto::host::tools::ResultLimits;
use mcp_proto::peer::client::{ClientConfig, ConnectTimeouts, Keepalive, KnownEra, OnServerEnd};
use mcp_proto::schema::{ClientCapabilities, Implementation};
use mcp_smol::{ChildLink, Command, Environment};

use super::connection::{
    FreshHeaders, StderrTail, options_failure, permanent_failure, resolution_failure, spawn_failure,
};
use super::shared::Shared;
use super::skills::SkillOptions;
use super::storage::{Memory, SpillFolder};
use super::trace_file::TraceFile;
use super::wire::{ObserverOf, WireObserver};
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
    /// Resolves an entry that may start, with fresh values of its variables and secrets.
    pub(super) async fn resolve(
        &self,
        shared: &Shared,
        entry: &Arc<ServerEntry>,
    ) -> Result<ResolvedSpec, Failure> {
        self.resolve_with(shared, entry, &mut Answers::new()).await
    }

    /// The same, with the values that are known; adds those that it looks up.
    pub(super) async fn resolve_with(
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

/// Looks a value up as a host does by default: variables in the environment of this process, files of variables on disk.
/// `None` if it does not exist, or only the user knows it. `project_folder` is that of
/// [`HostOptions::project_folder`](super::HostOptions::project_folder).
pub fn look_up(lookup: &Lookup, scope: Scope, project_folder: Option<&Path>) -> Option<Secret> {
    use PredefinedVariable::{
        PathSeparator, UserHome, WorkingDirectory, WorkspaceFolder, WorkspaceFolderBasename,
    };
    let path = match lookup {
        Lookup::Variable(name) => return env::var(name).ok().map(Secret::new),
        Lookup::EnvFile(path) => {
            let path = project_folder.unwrap_or(Path::new("")).join(path);
            let content = String::from_utf8(read_file(&path, scope, ENV_FILE_BYTES).ok()?).ok();
            return content.filter(|text| text.len() <= ENV_FILE_BYTES).map(Secret::new);
        }
        Lookup::Predefined(WorkspaceFolder) => project_folder?.into(),
        Lookup::Predefined(WorkspaceFolderBasename) => project_folder?.file_name()?.into(),
        Lookup::Predefined(UserHome) => env::home_dir()?,
        Lookup::Predefined(WorkingDirectory) => env::current_dir().ok()?,
        Lookup::Predefined(PathSeparator) => std::path::MAIN_SEPARATOR_STR.into(),
        _ => return None,
    };
    path.to_str().map(Secret::new)
}

/// Reads at most `limit` bytes of a configuration file or a file of variables, and one byte more if it is longer.
///
/// Only a regular file is read, so that no pipe and no device blocks the host. On Unix a project's file must belong to
/// the user or to root: another user of the machine could change it after its approval.
///
/// ```no_run
/// use mcp_hyper::host::read_file;
/// use mcp_hyper::mcp_proto::host::config::{ConfigFile, PROJECT_FILE_BYTES, Scope, Source};
///
/// let path = "/work/app/.mcp.json";
/// let text = read_file(path.as_ref(), Scope::Project, PROJECT_FILE_BYTES)?;
/// let file = ConfigFile::parse(Source::project(path), &text);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be read, is no regular file, or is a project's and belongs to another user.
pub fn read_file(path: &Path, scope: Scope, limit: usize) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = "it is not a regular file, but a folder, a pipe or a device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if scope == Scope::Project {
        check_owner(&metadata)?;
    }
    let mut content = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a file without waiting for the other end of a pipe.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(unix)]
fn check_owner(metadata: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    check_owner_id(metadata.uid(), rustix::process::geteuid().as_raw())
}

#[cfg(unix)]
fn check_owner_id(owner: u32, user: u32) -> io::Result<()> {
    if owner == user || owner == 0 {
        return Ok(());
    }
    let what = format!(
        "it belongs to another user of this machine (id {owner}), who could change it after its approval: \
         copy the project, or become its owner"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(not(unix))]
fn check_owner(_: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
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
        let config = self.client_config(entry, era);
        let observer = self.observe.as_ref().and_then(|observe| observe(entry));
        let trace =
            self.trace.as_ref().map(|trace| trace.observer(entry.name(), entry.spec().transport.name()));
        let observers = observer.into_iter().chain(trace);
        let mut observers: Vec<_> =
            observers.map(|observer| observer.hiding(entry, &resolved, &headers.answers)).collect();
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
        let options = mcp_smol::ClientOptions::from(config)
            .handlers(self.handlers_of(entry))
            .on_stderr(move |line| stderr.push(&line));
        let options = match observers.is_empty() {
            true => options,
            false => options.on_wire(move |direction, bytes| {
                observers.iter_mut().for_each(|observer| observer.handle_bytes(direction, bytes));
            }),
        };
        let (client, driver) = options.connect(command);
        Ok((client, Driver::Child(Box::new(driver))))
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
        mut observers: Vec<WireObserver>,
    ) -> Result<(Client, Driver), Failure> {
        let entry = &*headers.entry.clone();
        let mut options = self.url_options(entry, config, server);
        if !observers.is_empty() {
            options = options.on_wire(move |event| {
                observers.iter_mut().for_each(|observer| observer.handle_event(event));
            });
        }
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
    ) -> ClientOptions<SendHandlers, AnyRuntime> {
        let mut options =
            ClientOptions::from(config).runtime(self.runtime.clone()).handlers(self.handlers_of(entry));
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn pipes_and_devices_are_refused_without_waiting() {
        let pipe = std::env::temp_dir().join(format!("mcp-pipe-{}", std::process::id()));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let refused = read_file(&pipe, Scope::Project, 10).unwrap_err();
        fs::remove_file(&pipe).unwrap();
        assert!(refused.to_string().contains("not a regular file"), "{refused}");
        for path in ["/dev/zero", "/"] {
            let refused = read_file(Path::new(path), Scope::User, 10).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }

    #[test]
    fn owner_of_a_projects_file_is_the_user_or_root() {
        for (owner, user) in [(1000, 1000), (0, 1000), (0, 0)] {
            assert!(check_owner_id(owner, user).is_ok(), "{owner} {user}");
        }
        for (owner, user) in [(1001, 1000), (1000, 0)] {
            let error = check_owner_id(owner, user).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(
                error.to_string().contains(&format!("another user of this machine (id {owner})")),
                "{error}"
            );
        }
    }

    #[test]
    fn projects_file_of_another_user_is_refused() {
        let path = std::env::temp_dir().join(format!("mcp-owner-{}", std::process::id()));
        fs::write(&path, "0123456789ab").unwrap();
        let read = read_file(&path, Scope::Project, 10).unwrap();
        // Only root can give a file away.
        let refused = std::os::unix::fs::chown(&path, Some(12_345), None)
            .map(|()| (read_file(&path, Scope::Project, 10), read_file(&path, Scope::User, 10)));
        fs::remove_file(&path).unwrap();
        assert_eq!(read, b"0123456789a", "one byte more than the limit shows that the file is longer");
        if let Ok((of_project, of_user)) = refused {
            let error = of_project.unwrap_err();
            assert!(error.to_string().contains("another user"), "{error}");
            assert!(of_user.is_ok());
        }
    }
}
