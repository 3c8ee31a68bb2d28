//! Options of a host.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

use mcp_proto::Secret;
use mcp_proto::front::layer::{IntoLayer, Layers};
use mcp_proto::front::{ClientHandlers, SendHandlers};
#[cfg(feature = "auth")]
use mcp_proto::host::config::ResolvedHttp;
use mcp_proto::host::config::{Config, Lookup, ServerEntry, TimeoutOverrides};
use mcp_proto::host::consent::{ApprovalRequest, Approvals};
use mcp_proto::host::control::{ControlConfig, ControlPlane};
use mcp_proto::host::tools::{Catalogue, CatalogueLimits, NameScheme, ResultLimits};
use mcp_proto::peer::client::{ClientConfig, Keepalive};
use mcp_proto::schema::Implementation;

use super::Host;
use super::driver::HostDriver;
use super::model::{ToolCall, ToolCallDecision, ToolCallLayer};
use super::settings::{Settings, SkillOptions};
use super::shared::Shared;
use super::skills;
use super::storage::{Memory, SpillFolder, Storage};
use super::trace_file::TraceFile;
use super::wire::WireObserver;
use crate::Proxy;
use crate::runtime::{AnyRuntime, Runtime};
use crate::time::RuntimeClock;

/// Options of a host: its servers, its handlers, and the questions that it may ask the application.
///
/// ```no_run
/// use mcp_hyper::host::HostOptions;
/// use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Source};
///
/// # fn main() -> std::io::Result<()> {
/// let path = "/home/ann/.cursor/mcp.json";
/// let file = ConfigFile::parse(Source::user(path), &std::fs::read(path)?);
/// let (host, driver) = HostOptions::new("my-agent", "1.0.0").config(Config::merge([file])).start();
/// # drop((host, driver));
/// # Ok(())
/// # }
/// ```
#[must_use = "options do nothing until `start`"]
pub struct HostOptions {
    config: Config,
    approvals: Approvals,
    control: ControlConfig,
    scheme: NameScheme,
    settings: Settings,
}

impl HostOptions {
    /// Options of a host whose clients have this name and version. It has no servers and no handlers.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        // Hosts that lose the same server must not all reconnect at the same moment.
        let mut control = ControlConfig::default();
        control.seed = RandomState::new().build_hasher().finish();
        Self {
            config: Config::default(),
            approvals: Approvals::new(),
            control,
            scheme: NameScheme::default(),
            settings: Settings {
                info: Implementation::new(name, version),
                runtime: AnyRuntime::default(),
                overrides: TimeoutOverrides::default(),
                //= K2 "on in hosts"
                keepalive: Some(Keepalive::BUSY_TOLERANT),
                handlers: Arc::new(|_| ClientHandlers::new()),
                layers: Layers::new(),
                questions: Layers::new(),
                configure: Arc::new(|_, _| ()),
                observe: None,
                trace: None,
                proxy: None,
                #[cfg(feature = "tls")]
                tls: None,
                #[cfg(feature = "auth")]
                authorize: None,
                look_up: None,
                folder: None,
                working_folder: None,
                ask: None,
                skills: None,
                memory: None,
                stores_approvals: true,
                spills: None,
                result_limits: ResultLimits::default(),
                errors_as_content: false,
            },
        }
    }

    setters! {
        /// Sets the servers. Default: none.
        pub fn config(self, config: Config) { self.config = config }

        /// Sets the user's approvals of the servers of projects. Default: none.
        pub fn approvals(self, approvals: Approvals) { self.approvals = approvals }

        /// Remembers approvals, pins, lists and eras in this storage. Lists of an earlier run stand in for a server
        /// until it sends its own; those older than a week do not. Default: none, so that nothing is remembered; then a
        /// lazy server starts once in each run, for its lists.
        ///
        /// ```
        /// use mcp_hyper::host::{FileStorage, HostOptions};
        ///
        /// let storage = FileStorage::in_folder("/home/ann/.local/state/my-agent/servers");
        /// let options = HostOptions::new("my-agent", "1.0.0").storage(storage);
        /// ```
        pub fn storage(self, storage: impl Storage) { self.settings.memory = Some(Memory(Arc::new(storage))) }

        /// Whether the storage keeps approvals too. Default: yes. An application that keeps them elsewhere, and sets them by
        /// [`approvals`](Self::approvals), says no: then the host neither reads nor writes them.
        pub fn stores_approvals(self, stores: bool) { self.settings.stores_approvals = stores }

        /// Writes results that are too long for a model into this folder: see [`Host::call_for_model`]. Default: none;
        /// then results are cut at the limits, and the model reads that they were.
        pub fn spill_folder(self, folder: SpillFolder) { self.settings.spills = Some(folder) }

        /// Sets how much of a result a model sees.
        pub fn result_limits(self, limits: ResultLimits) { self.settings.result_limits = limits }

        /// Sets whether a model gets every error of a call as content that it can act on: of the connection, of a
        /// timeout, of a name that no tool has, of a result that is no valid one. It has
        /// [`is_call_error`](mcp_proto::host::tools::ModelContent::is_call_error) then, and reads `MCP error: …` as
        /// text. Default: only errors that a server answers with.
        ///
        /// A closed host, a call that the application cancelled, and prompts keep their errors. Status and events
        /// report failures in any case.
        ///
        /// ```
        /// use mcp_hyper::host::HostOptions;
        ///
        /// let options = HostOptions::new("my-agent", "1.0.0").errors_as_content(true);
        /// ```
        pub fn errors_as_content(self, is_content: bool) { self.settings.errors_as_content = is_content }
    }

    /// Asks the user whether a project's server may start. Show the whole [`ApprovalRequest`], and return whether the
    /// user agreed. The names in its `envFile` are part of it; if the file is not in the project, they are asked about
    /// before the start, and so is each change of the file. Without this such servers stay off, until
    /// [`Host::approve`].
    ///
    /// The future runs inside of the driver: it must not block.
    pub fn on_approval_request<F: Future<Output = bool> + Send + 'static>(
        mut self,
        ask: impl Fn(ApprovalRequest) -> F + Send + Sync + 'static,
    ) -> Self {
        self.settings.ask = Some(Arc::new(move |request| Box::pin(ask(request))));
        self
    }

    setters! {
        /// Uses the skills of servers: folders of instructions for a model. Each must be approved by the user, with the
        /// content that it has then. The host declares the extension. Default: no skills.
        ///
        /// <https://modelcontextprotocol.io/seps/2640-skills-extension>
        pub fn skills(self, options: SkillOptions) { self.settings.skills = Some(options) }
    }

    /// Looks up the values that configurations refer to: variables, inputs, and files of variables. It is called for
    /// each start of a server, for the file of variables whose names a request of approval shows, and after status 401
    /// for the variables in the headers of a server at a URL without a login: if their values are others now, what was
    /// refused is sent once more, and otherwise the server waits for the user. Inputs are looked up at a start only. A
    /// connection keeps its values until it ends. Where it returns `None`, the value is looked up as by
    /// default: variables in the environment of this process, files of variables on disk, and inputs nowhere.
    ///
    /// The future runs inside of the driver: it must not block.
    pub fn lookups<F: Future<Output = Option<Secret>> + Send + 'static>(
        mut self,
        look_up: impl Fn(Arc<ServerEntry>, Lookup) -> F + Send + Sync + 'static,
    ) -> Self {
        self.settings.look_up = Some(Arc::new(move |entry, lookup| Box::pin(look_up(entry, lookup))));
        self
    }

    setters! {
        /// Sets the project's folder for the user's servers: `${workspaceFolder}`, and where relative paths of files of
        /// variables begin. A project's servers have the [folder of its file](mcp_proto::host::config::Source::folder).
        pub fn project_folder(self, folder: impl Into<PathBuf>) { self.settings.folder = Some(folder.into()) }

        /// Sets the folder in which the user's programs run whose entries name none. Default: that of this process. If
        /// that may be the folder of a project which the user does not trust, set another: `npx`, for example, runs
        /// programs that it finds there.
        pub fn working_folder(self, folder: impl Into<PathBuf>) {
            self.settings.working_folder = Some(folder.into())
        }

        /// Makes the handlers of a server's requests: sampling, elicitation and roots. They are made for each
        /// connection, and so know which server asks. Default: none.
        pub fn handlers(self, handlers: impl Fn(&ServerEntry) -> ClientHandlers + Send + Sync + 'static) {
            self.settings.handlers = Arc::new(handlers)
        }

        /// Adds a [layer](mcp_proto::front::layer) of the host, inside of those added before: around each call of the
        /// application, and around each request of a server that the [handlers](Self::handlers) answer.
        ///
        /// Around a call it runs once, outside of the wait for the server and of repetitions. It sees the name of the
        /// server in the configuration and the name of the item on the wire; pins and approvals are checked inside, on
        /// what is sent. A layer cannot make it the call of another item: that ends with
        /// [`CallError::OtherItem`](super::CallError::OtherItem). To log, deny and limit, there are
        /// [`Audit`](mcp_proto::front::layer::Audit) and [`Rules`](mcp_proto::front::layer::Rules). So it
        /// sees the requests by [`Host::client`](super::Host::client), around which nothing else of the host stands; the
        /// lists that the host reads for itself pass it by.
        ///
        /// ```
        /// use mcp_hyper::host::HostOptions;
        /// use mcp_hyper::mcp_proto::front::layer::{RuleMatch, Rules};
        ///
        /// let rules = Rules::new().deny(RuleMatch::tool("delete_*").server("files"), "no file is deleted here");
        /// let options = HostOptions::new("my-agent", "1.0.0").layer(rules);
        /// ```
        pub fn layer(self, layer: impl IntoLayer<SendHandlers>) { self.settings.layers.push(layer) }
    }

    /// Asks the application before each call of a tool, inside of all [layers](Self::layer): it sees the tool and the
    /// arguments that are sent. Of several questions, each sees the edits of those before it.
    ///
    /// A denied call ends with [`Error::Layer`](mcp_proto::front::Error::Layer), whose text a model
    /// [reads](super::Host::call_for_model) as that of a failed call. Arguments that are edited are checked like any
    /// others.
    ///
    /// ```
    /// use mcp_hyper::host::{HostOptions, ToolCallDecision};
    ///
    /// let options = HostOptions::new("my-agent", "1.0.0").on_tool_call(|call| async move {
    ///     match (&*call.server, &*call.tool) {
    ///         // Ask the user here.
    ///         ("files", "delete") => ToolCallDecision::Deny("the user does not want it".to_owned()),
    ///         _ => ToolCallDecision::Allow,
    ///     }
    /// });
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#security-considerations>
    pub fn on_tool_call<F: Future<Output = ToolCallDecision> + Send + 'static>(
        mut self,
        ask: impl Fn(ToolCall) -> F + Send + Sync + 'static,
    ) -> Self {
        self.settings.questions.push(ToolCallLayer::new(ask));
        self
    }

    setters! {
        /// Changes the configuration of the client of each connection. Timeouts, pings, era and name are already set.
        ///
        /// With the feature `schema-validate`, a call fails whose result does not match the output schema of its tool.
        /// So does one without structured content; with
        /// [`tolerate_missing_output`](ClientConfig::tolerate_missing_output) that is a diagnostic among the events of
        /// the server's [client](super::Host::client).
        pub fn configure_clients(self, configure: impl Fn(&ServerEntry, &mut ClientConfig) + Send + Sync + 'static) {
            self.settings.configure = Arc::new(configure)
        }

        /// Sets the pings to servers of 2025-11-25 and earlier, by which one that hangs is noticed and connected again;
        /// newer ones are not pinged. `keepAliveMs` of an entry changes the interval of its server, or switches its
        /// pings off. Default: [`Keepalive::BUSY_TOLERANT`], every 30 s; missing answers of a server that works on a request
        /// do not count.
        ///
        /// ```
        /// use mcp_hyper::host::HostOptions;
        ///
        /// let options = HostOptions::new("my-agent", "1.0.0").keepalive(None);
        /// ```
        ///
        /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping>
        pub fn keepalive(self, keepalive: impl Into<Option<Keepalive>>) {
            self.settings.keepalive = keepalive.into()
        }

        /// Makes the observer of each connection's frames; `None` for a server that is not observed. Frames come in the
        /// order of the wire, and without their secrets unless the observer is [unredacted](WireObserver::unredacted):
        /// values with secret names, at secret places and of secret shapes, and the secret variables, headers and
        /// inputs of the entry in any spelling. A message of more than 16 MiB is cut first, and tells nothing about
        /// which fields are passwords. Logins are not observed.
        ///
        /// ```
        /// use mcp_hyper::host::{HostOptions, WireObserver};
        /// use mcp_hyper::mcp_proto::consent::SafeText;
        ///
        /// let options = HostOptions::new("my-agent", "1.0.0").on_wire(|entry| {
        ///     let server = entry.name().to_owned();
        ///     Some(WireObserver::new(move |frame| eprintln!("{}", SafeText::line(&format!("{server} {frame}")))))
        /// });
        /// ```
        pub fn on_wire(self, observe: impl Fn(&ServerEntry) -> Option<WireObserver> + Send + Sync + 'static) {
            self.settings.observe = Some(Arc::new(observe))
        }

        /// Writes what goes over the wire of each connection into a trace file, without the secrets that
        /// [`on_wire`](Self::on_wire) names.
        ///
        /// ```no_run
        /// use mcp_hyper::host::{HostOptions, TraceFile};
        ///
        /// let trace = TraceFile::create("servers.trace", "my-agent 1.0.0")?;
        /// let options = HostOptions::new("my-agent", "1.0.0").trace(trace);
        /// # Ok::<(), std::io::Error>(())
        /// ```
        pub fn trace(self, file: TraceFile) { self.settings.trace = Some(file) }

        /// Sets the timeouts that override those of the configuration. Default: none;
        /// [`TimeoutOverrides::from_variables`] reads them from the environment.
        pub fn timeouts(self, overrides: TimeoutOverrides) { self.settings.overrides = overrides }

        /// Changes the times and limits of starts, reconnections and calls. The seed is already random.
        pub fn control(self, change: impl FnOnce(&mut ControlConfig)) { change(&mut self.control) }

        /// Sets how the names for a model are made. Default: `mcp__server__tool`.
        pub fn names(self, scheme: NameScheme) { self.scheme = scheme }

        /// Sets the proxy of servers at a URL. Default: the proxy of the [environment](Proxy::from_environment).
        pub fn proxy(self, proxy: Proxy) { self.settings.proxy = Some(proxy) }

        /// Sets the TLS configuration of servers at a URL: see [`ClientOptions::tls`](crate::ClientOptions::tls).
        #[cfg(feature = "tls")]
        pub fn tls(self, config: crate::rustls::ClientConfig) { self.settings.tls = Some(config) }

        /// Makes the authorization of a server at a URL, for each connection and each [login](Host::log_in). Where it
        /// returns `None`, or without it, a server that requires a login gets the status
        /// [`NeedsAuthorization`](mcp_proto::host::control::Status::NeedsAuthorization), and the host cannot log in.
        ///
        /// Give all authorizations the same [store](crate::auth::Authorization::store), through which connections get
        /// the tokens of logins, and no [`on_event`](crate::auth::Authorization::on_event): connections open no pages.
        /// The host adds the entry's settings of the login where the [configuration](crate::auth::AuthConfig) has none:
        /// scopes, resource, allowed hosts, and the client id with its issuer. A client secret is added only if the
        /// entry names its issuer: without one, a server could name an authorization server that receives it.
        ///
        /// A server that waits for a login looks into the store with each call, which waits for the answer, and without
        /// calls after 15 s, 30 s and so on up to 5 minutes: it is connected once another process has stored tokens.
        ///
        /// It is also called before the user approves a project's server at a URL without references, as the request
        /// says that the store has tokens for it: the values are then as the file has them.
        ///
        /// ```
        /// use mcp_hyper::auth::{AuthConfig, Authorization, FileStore};
        /// use mcp_hyper::host::HostOptions;
        ///
        /// let store = FileStore::new("/home/ann/.local/state/my-agent/tokens");
        /// let options = HostOptions::new("my-agent", "1.0.0").authorization(move |_entry, server| {
        ///     // A header of the configuration is another login.
        ///     let has_header = server.headers.contains_key("authorization");
        ///     let config = AuthConfig::new("my agent", "http://127.0.0.1/callback");
        ///     (!has_header).then(|| Authorization::new(config).store(store.clone()))
        /// });
        /// ```
        #[cfg(feature = "auth")]
        pub fn authorization(
            self,
            make: impl Fn(&ServerEntry, &ResolvedHttp) -> Option<crate::auth::Authorization> + Send + Sync + 'static
        ) {
            self.settings.authorize = Some(Arc::new(make))
        }

        /// Sets the runtime of sockets, timers and blocking work. Default: [`DefaultRuntime`](crate::DefaultRuntime).
        /// Programs and their pipes use [`mcp_smol::RuntimeKind::default`].
        pub fn runtime(self, runtime: impl Runtime) { self.settings.runtime = AnyRuntime::new(runtime) }
    }

    /// Makes the host and its driver. The servers start when the driver is first polled.
    pub fn start(self) -> (Host, HostDriver) {
        let Self { config, approvals, control, scheme, settings } = self;
        let clock = RuntimeClock::new(&Arc::new(settings.runtime.clone()));
        let catalogue = Catalogue::new(scheme, CatalogueLimits::default());
        let skills = skills::catalogue(settings.skills.as_ref());
        let shared = Arc::new(Shared::new(clock, ControlPlane::new(control), approvals, skills, catalogue));
        let settings = Arc::new(settings);
        let host = Host::new(shared.clone(), settings.clone());
        host.reload(&config);
        (host, HostDriver::new(shared, settings))
    }
}

debug_fields! { HostOptions(self) {
    servers = self.config.servers().len(),
    control,
    scheme,
    folder = self.settings.folder,
} }
