//! Options of an HTTP server.

#[cfg(feature = "auth")]
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use mcp_proto::adapter::Entropy;
#[cfg(feature = "auth")]
use mcp_proto::auth::{Fetch, FetchPolicy};
#[cfg(feature = "auth")]
use mcp_proto::front::guard::{FetchResponse, Guard};
use mcp_proto::front::http::{ChangeRelay, HttpServer, http_server};
use mcp_proto::front::{SendHandlers, ServedRouter};
use mcp_proto::peer::Principal;
use mcp_proto::quota::RateLimit;
use mcp_proto::transport::http::server::{HttpServerConfig, TrustedProxies, TrustedProxy};

use super::connection::{Connection, EmbeddedWebSockets, UpgradeQueue};
use super::driver::{ConnectionTask, Listener, ServerDriver, ServiceDriver, Spawn};
use super::exchange::ServerMode;
#[cfg(feature = "auth")]
use super::guard::{FetchFn, GuardOptions};
use super::monitor::{ConnectionRegistry, OnError, ServerError, ServerLimits};
use super::observed::{ObservedConnections, ObserverOf};
use super::service::{HealthCheck, HttpService, PrincipalFn, ServiceState, WebSocketOptions};
use super::socket::Tls;
use crate::runtime::{AnyRuntime, Runtime};
use crate::time::{Alarm, RuntimeClock};
use crate::wire::WireEvent;

/// Options of a server: router, limits, TLS and authorization.
///
/// ```no_run
/// use mcp_hyper::mcp_proto::transport::http::server::Hosts;
/// use mcp_hyper::mcp_proto::front::Router;
/// use mcp_hyper::mcp_proto::peer::server::ListKind;
/// use mcp_hyper::rustls::pki_types::pem::PemObject as _;
/// use mcp_hyper::rustls::pki_types::{CertificateDer, PrivateKeyDer};
/// use mcp_hyper::{ServerOptions, rustls};
///
/// # async fn example(router: Router, listener: async_net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
/// let certificates = CertificateDer::pem_file_iter("/etc/mcp/chain.pem")?.collect::<Result<_, _>>()?;
/// let key = PrivateKeyDer::from_pem_file("/etc/mcp/key.pem")?;
/// let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
///
/// let (server, driver) = ServerOptions::new(router)
///     .configure(|config| config.hosts = Hosts::Only(vec!["mcp.example".into()]))
///     .limits(|limits| limits.connections = 1000)
///     .on_error(|error| eprintln!("{error}"))
///     .tls(tls)
///     .listen(listener);
/// let running = smol::spawn(driver);
///
/// // Whenever there is a new tool:
/// server.list_changed(ListKind::Tools);
/// // At the end: requests in progress finish first.
/// server.close();
/// running.await?;
/// # Ok(())
/// # }
/// ```
///
/// # Behind a load balancer
///
/// Clients of 2026-07-28 have no sessions: each of their requests may go to another instance, if the instances share keys
/// and stores. Sessions of older clients stay with the instance that opened them, whose
/// [name](HttpServerConfig::session_prefix) begins their ids. [The guide](crate::guide::instances) says what to share, and
/// has the rules of nginx and HAProxy, [health checks](Self::health) included.
#[must_use = "options do nothing until something is served with them"]
pub struct ServerOptions<H: ServerMode = SendHandlers> {
    router: ServedRouter<H>,
    config: HttpServerConfig,
    limits: ServerLimits,
    runtime: AnyRuntime,
    tls: Option<Tls>,
    principal: Option<PrincipalFn>,
    proxies: TrustedProxies,
    #[cfg(feature = "auth")]
    guard: GuardOptions,
    websocket: WebSocketOptions,
    relay: Option<Arc<dyn ChangeRelay>>,
    health: Option<HealthCheck>,
    observer: Option<ObserverOf>,
    on_error: OnError,
}

impl<H: ServerMode> ServerOptions<H> {
    /// Options with the router's own [configuration](mcp_proto::front::Router::config), at `/mcp`, without TLS.
    pub fn new(router: impl Into<ServedRouter<H>>) -> Self {
        let router = router.into();
        let mut config = HttpServerConfig::new(router.router().config());
        config.path = Some("/mcp".to_owned());
        Self {
            config,
            router,
            limits: ServerLimits::default(),
            runtime: AnyRuntime::default(),
            tls: None,
            principal: None,
            proxies: TrustedProxies::default(),
            #[cfg(feature = "auth")]
            guard: GuardOptions::default(),
            websocket: Default::default(),
            relay: None,
            health: None,
            observer: None,
            on_error: Arc::new(|_| {}),
        }
    }

    setters! {
        /// Sets the path of the MCP endpoint; requests to other paths get 404. Default `/mcp`.
        pub fn path(self, path: impl Into<String>) { self.config.path = Some(path.into()) }

        /// Serves the MCP endpoint at any path, for applications whose own router has already checked it.
        pub fn any_path(self) { self.config.path = None }

        /// Also sends results of tools in parts, by
        /// [`Context::partial_result`](mcp_proto::front::Context::partial_result), to clients of a
        /// [dialect](HttpServerConfig::chunked_results) that no revision defines. Other clients are served as before.
        ///
        /// ```
        /// use mcp_hyper::mcp_proto::front::{Context, NoArguments, Router};
        /// use mcp_hyper::mcp_proto::schema::{CallToolResult, Json, Tool};
        /// use mcp_hyper::ServerOptions;
        ///
        /// let tool = Tool::new("report", "Writes a report", Json::empty_object());
        /// let router = Router::new("reports", "1.0.0").tool_with(tool, async |NoArguments {}, cx: Context| {
        ///     cx.partial_result(&CallToolResult::text("First page"));
        ///     "First page\nSecond page"
        /// });
        /// // Clients of the dialect make no handshake.
        /// let options = ServerOptions::new(router).chunked_results().stateless();
        /// # drop(options);
        /// ```
        pub fn chunked_results(self) { self.config.chunked_results = true }

        /// Changes the rest of the configuration, such as the accepted hosts and origins.
        pub fn configure(self, change: impl FnOnce(&mut HttpServerConfig)) { change(&mut self.config) }

        /// Serves clients of 2025-11-25 and earlier without sessions: any instance answers any request, so that
        /// instances need neither a common store nor a balancer that tells sessions apart. Default: with sessions.
        ///
        /// These clients then get no subscriptions, changed lists, log messages or requests such as elicitation; a
        /// router that [declares](mcp_proto::front::Router::check_stateless) any of that is refused when the server
        /// starts. [`HttpServerConfig::stateless`] has the details.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        ///
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0")).stateless();
        /// # drop(options);
        /// ```
        pub fn stateless(self) { self.config.stateless = true }

        /// Limits how often each client sends a request: by its principal or, without one, its address. Requests beyond
        /// the rate get 429 with `Retry-After` before their bodies are read. Default: no limit.
        ///
        /// Behind a proxy, name it in [`trusted_proxies`](Self::trusted_proxies): otherwise all clients share one rate.
        /// [`HttpServerConfig::request_rate`] has the details.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        /// use mcp_hyper::mcp_proto::quota::RateLimit;
        ///
        /// let options =
        ///     ServerOptions::new(Router::new("notes", "1.0.0")).request_rate(RateLimit::per_second(50).burst(200));
        /// # drop(options);
        /// ```
        pub fn request_rate(self, limit: RateLimit) { self.config.request_rate = Some(limit) }

        /// Changes the limits on connections and streams.
        pub fn limits(self, change: impl FnOnce(&mut ServerLimits)) { change(&mut self.limits) }

        /// Sets the runtime, which provides timers, and sockets for the fetches that verify tokens. Default:
        /// [`DefaultRuntime`](crate::DefaultRuntime). The sockets of clients come from the [`Listener`], or from the
        /// application.
        pub fn runtime(self, runtime: impl Runtime) { self.runtime = AnyRuntime::new(runtime) }

        /// Sets the function that derives a request's principal from its head. It usually reads an extension that an
        /// authenticating layer has added. Sessions, request states and tasks of one principal are invisible to every
        /// other.
        ///
        /// Without this option, and where the function returns `None`, all clients share one principal: any client that
        /// knows the id of a session can use it.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        /// use mcp_hyper::mcp_proto::peer::Principal;
        ///
        /// /// Left by the layer that checks access tokens.
        /// #[derive(Clone)]
        /// struct Subject(String);
        ///
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0"))
        ///     .principal(|head| Some(Principal::new(head.extensions.get::<Subject>()?.0.as_str())));
        /// # drop(options);
        /// ```
        pub fn principal(self, of: impl Fn(&http::request::Parts) -> Option<Principal> + Send + Sync + 'static) {
            self.principal = Some(Box::new(of))
        }

        /// Trusts these proxies' `X-Forwarded-For` or `Forwarded` for the addresses of their clients. Default: none.
        ///
        /// Quotas count by principal or, without one, by client address: see
        /// [`QuotaOwner`](mcp_proto::quota::QuotaOwner). Behind a proxy that is not listed here, all clients share one
        /// quota. [`TrustedProxies`] documents the rules.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0"))
        ///     .trusted_proxies(["10.0.0.0/8".parse()?, "unix".parse()?]);
        /// # drop(options);
        /// # Ok(())
        /// # }
        /// ```
        pub fn trusted_proxies(self, proxies: impl IntoIterator<Item = TrustedProxy>) {
            self.proxies = proxies.into_iter().collect()
        }

        /// Relays change notifications to the other instances of the server, and theirs to the clients of this one.
        /// Default: an application reports each change at every instance. Failures are events of the server
        /// ([`RelayFailed`](mcp_proto::front::http::HttpServerEvent::RelayFailed)).
        pub fn relay_changes(self, relay: Arc<dyn ChangeRelay>) { self.relay = Some(relay) }

        /// Answers the health checks of a balancer: requests of any method to `path`. The status is 200 if the server is
        /// ready, and 503 if it [drains](mcp_proto::front::http::HttpHandle::drain) or `is_ready` returns `false`. Default:
        /// none.
        ///
        /// A check needs no token, may name any host, and does not count towards [`request_rate`](Self::request_rate).
        /// `is_ready` must return quickly: it usually reads a flag.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        ///
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0")).health("/healthz", || true);
        /// # drop(options);
        /// ```
        pub fn health(self, path: impl Into<String>, is_ready: impl Fn() -> bool + Send + Sync + 'static) {
            self.health = Some(HealthCheck { path: path.into(), is_ready: Box::new(is_ready) })
        }

        /// Observes connections, for logs and debugging: `observe` makes the observer of a connection from its client's address,
        /// or returns `None`. The observer is called with each request and response, but [health checks](Self::health), and with
        /// each message over WebSocket; no two exchanges of the server have the same number. A request that another server passes to an
        /// [`HttpService`](super::HttpService) is a connection of its own. A [`Redactor`](mcp_proto::redact::Redactor) hides the
        /// secrets; with the feature `host`, `TraceFile` writes a trace.
        ///
        /// The server waits for the observer: it must return quickly.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        ///
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0")).on_wire(|client| {
        ///     // The `Debug` form has no secrets.
        ///     Some(Box::new(move |event| eprintln!("{client:?}: {event:?}")))
        /// });
        /// # drop(options);
        /// ```
        pub fn on_wire(
            self,
            observe: impl Fn(Option<IpAddr>) -> Option<Box<dyn FnMut(WireEvent<'_>) + Send>> + Send + Sync + 'static
        ) {
            self.observer = Some(Box::new(observe))
        }

        /// Reports errors that do not end the server, for logs. `show` must return quickly: the server waits for it.
        pub fn on_error(self, show: impl Fn(&ServerError) + Send + Sync + 'static) {
            self.on_error = Arc::new(show)
        }
    }

    /// Accepts connections and serves them, all in one future.
    pub fn listen<L: Listener>(self, listener: L) -> (HttpServer<H>, ServerDriver<L, H>) {
        self.start(listener, None)
    }

    /// Accepts connections and serves each in its own task, for executors with several threads:
    ///
    /// ```no_run
    /// # use mcp_hyper::mcp_proto::front::Router;
    /// # use mcp_hyper::ServerOptions;
    /// # async fn example(router: Router, listener: async_net::TcpListener) -> std::io::Result<()> {
    /// let options = ServerOptions::new(router);
    /// let (server, driver) = options.listen_with(listener, |task| smol::spawn(task).detach());
    /// driver.await
    /// # }
    /// ```
    pub fn listen_with<L: Listener>(
        self,
        listener: L,
        spawn: impl Fn(ConnectionTask) + Send + 'static,
    ) -> (HttpServer<H>, ServerDriver<L, H>)
    where
        Connection<L::Io, H>: Send,
    {
        let on_error = self.on_error.clone();
        let spawn = move |connection: Connection<L::Io, H>| {
            let on_error = on_error.clone();
            spawn(Box::pin(async move {
                if let Err(error) = connection.await {
                    on_error(&ServerError::Connection(error));
                }
            }));
        };
        self.start(listener, Some(Box::new(spawn)))
    }

    fn start<L: Listener>(
        self,
        listener: L,
        spawn: Option<Spawn<L::Io, H>>,
    ) -> (HttpServer<H>, ServerDriver<L, H>) {
        let on_error = self.on_error.clone();
        let (service, driver) = self.service();
        (service.server().clone(), ServerDriver::new(listener, driver, on_error, spawn))
    }

    /// Returns a service to embed in another server, and its driver. Poll the driver for as long as the service is
    /// used.
    pub fn service(self) -> (HttpService<H>, ServiceDriver<H>) {
        let router = self.router.router();
        let checked = if self.config.stateless { router.check_stateless() } else { router.check() };
        let clock = Arc::new(RuntimeClock::new(&Arc::new(self.runtime.clone())));
        let close_timeout = self.config.server.close_timeout;
        let (server, mut driver) =
            http_server(self.router, self.config, clock.clone(), Arc::new(SystemEntropy));
        if let Some(relay) = self.relay {
            driver = driver.relay_changes(relay);
        }
        #[cfg(feature = "auth")]
        let (guard, fetcher) = self.guard.start(&self.runtime);
        let service = HttpService::new(ServiceState {
            server,
            clock,
            registry: Arc::new(ConnectionRegistry::new(self.limits.connections)),
            limits: Arc::new(self.limits),
            tls: self.tls,
            principal: self.principal,
            proxies: self.proxies,
            health: self.health,
            observed: self.observer.map(ObservedConnections::new),
            #[cfg(feature = "auth")]
            guard,
            websocket: self.websocket,
            upgrades: UpgradeQueue::default(),
        });
        let driver = ServiceDriver {
            service: service.clone(),
            sessions: driver,
            sessions_ended: false,
            startup_error: checked.err(),
            alarm: Alarm::default(),
            close_timeout,
            patience: Alarm::default(),
            deadline: None,
            #[cfg(feature = "auth")]
            fetcher,
            websockets: EmbeddedWebSockets::new(self.on_error),
        };
        (service, driver)
    }
}

debug_fields! { [H: ServerMode] ServerOptions<H> { router, config, limits } }

#[cfg(feature = "auth")]
impl<H: ServerMode> ServerOptions<H> {
    setters! {
        /// Requires a token with every request, as the guard demands. The token determines the request's principal.
        ///
        /// The one exception is the protected resource metadata, which is served at `Protection::metadata_url`; this
        /// URL must lead to this server.
        ///
        /// The driver performs the guard's fetches, such as those of an issuer's keys: with the sockets of its
        /// [runtime](Self::runtime), through the proxies of the environment, and over TLS with the trust roots that
        /// clients of this crate use by default. [`protect_with`](Self::protect_with) replaces this fetcher.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::auth::Secret;
        /// use mcp_hyper::mcp_proto::auth::server::{IntrospectionConfig, Protection};
        /// use mcp_hyper::mcp_proto::front::Router;
        /// use mcp_hyper::mcp_proto::front::guard::{Guard, IntrospectionVerifier};
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// const ISSUER: &str = "https://login.example";
        /// let password = Secret::new(std::env::var("PASSWORD").unwrap_or_default());
        /// let asking = IntrospectionConfig::new(ISSUER, "https://login.example/introspect", "notes", password);
        /// let protection = Protection::new("https://mcp.example/mcp", ISSUER)?.required(["notes"])?;
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0"))
        ///     .protect(Guard::new(protection, IntrospectionVerifier::introspecting(asking)?));
        /// # drop(options);
        /// # Ok(())
        /// # }
        /// ```
        pub fn protect(self, guard: Guard) { self.guard = GuardOptions(Some((guard, None))) }
    }

    /// Like [`protect`](Self::protect), with a custom fetcher. It must not connect to an address that the policy does
    /// not [allow](FetchPolicy::allows) or follow redirects; it must end within a few seconds, and read no more bytes
    /// than the fetch's limit.
    pub fn protect_with<F: Future<Output = Result<FetchResponse, String>> + Send + 'static>(
        mut self,
        guard: Guard,
        fetch: impl Fn(Fetch, FetchPolicy) -> F + Send + Sync + 'static,
    ) -> Self {
        let fetch: FetchFn = Arc::new(move |request, policy| Box::pin(fetch(request, policy)));
        self.guard = GuardOptions(Some((guard, Some(fetch))));
        self
    }
}

#[cfg(feature = "tls")]
impl<H: ServerMode> ServerOptions<H> {
    /// Encrypts connections. If the configuration names no ALPN protocols, it gets HTTP/1.1 and, with the feature
    /// `http2`, HTTP/2.
    pub fn tls(mut self, config: impl Into<Arc<crate::rustls::ServerConfig>>) -> Self {
        let mut config = config.into();
        if config.alpn_protocols.is_empty() {
            let http2 = cfg!(feature = "http2").then(|| b"h2".to_vec());
            let protocols = http2.into_iter().chain([b"http/1.1".to_vec()]);
            Arc::make_mut(&mut config).alpn_protocols = protocols.collect();
        }
        self.tls = Some(config.into());
        self
    }
}

#[cfg(feature = "websocket")]
impl<H: ServerMode> ServerOptions<H> {
    setters! {
        /// Accepts WebSocket connections at the path of the MCP endpoint, besides HTTP. Default: they are refused.
        ///
        /// The upgrade is checked like any request: its `Host` and `Origin`, its token where the server is protected,
        /// and the [request rate](Self::request_rate), which then applies to the connection's messages. The subprotocol
        /// is `mcp`; frames are not compressed. Each text message holds one JSON-RPC message of at most
        /// [`body_bytes`](mcp_proto::transport::http::server::HttpServerConfig::body_bytes).
        ///
        /// A connection is one peer of either era, as on standard input and output: there is no `Mcp-Session-Id`, and
        /// nothing outlives the connection but tasks. The server sends pings to a silent client, as
        /// [`ping_interval`](super::ServerLimits::ping_interval) says. It closes a connection with code
        ///
        /// | Code | Reason |
        /// |---|---|
        /// | 1000 | the client closed it |
        /// | 1001 | the server closes, or the connection has reached its [lifetime](crate::ServerLimits::lifetime) |
        /// | 1002, 1003, 1007 | the client sent an invalid frame, a binary message, or text that is not UTF-8 |
        /// | 1008 | the access token has expired, or was revoked (`Guard::reverify_every`) |
        /// | 1009 | the client sent a message that is too long |
        /// | 1011 | the server failed |
        /// | 1013 | the [byte budget](mcp_proto::transport::http::server::HttpServerConfig::byte_limits) has no room for a long message |
        ///
        /// A request for which the byte budget has no room is answered with an error. A token that is no longer valid
        /// ends the connection's subscriptions first; calls in progress are not answered.
        ///
        /// Upgrades need HTTP/1.1. Where another server calls the [`HttpService`](super::HttpService), as axum does,
        /// hyper must serve the connection [`with_upgrades`](hyper::server::conn::http1::Connection::with_upgrades),
        /// and the [`ServiceDriver`](super::ServiceDriver) serves the WebSocket. Such a connection counts towards
        /// [`ServerLimits::connections`](super::ServerLimits::connections) from its upgrade on, which is answered 503
        /// where a listener would not accept the connection.
        ///
        /// ```
        /// use mcp_hyper::ServerOptions;
        /// use mcp_hyper::mcp_proto::front::Router;
        ///
        /// let options = ServerOptions::new(Router::new("notes", "1.0.0")).websocket();
        /// # drop(options);
        /// ```
        pub fn websocket(self) { self.websocket.accepts = true }
    }

    /// Accepts [WebSocket connections](Self::websocket) whose clients may send
    /// [tool frames](mcp_proto::transport::tool_frames), `{"id", "name", "arguments"}`, besides the messages of MCP.
    /// Such a call is answered as one of 2026-07-28. The router must serve that revision.
    pub fn tool_frames(mut self) -> Self {
        self.websocket.tool_frames = true;
        self.websocket()
    }
}

/// Has no implementation.
#[cfg(not(feature = "websocket"))]
#[diagnostic::on_unimplemented(
    message = "a server accepts WebSocket connections only with the feature `websocket`",
    note = "in `Cargo.toml`, add `\"websocket\"` to the features of `mcp-hyper`"
)]
pub trait AcceptsWebSockets {}

/// The compiler's message names the feature.
#[cfg(not(feature = "websocket"))]
impl<H: ServerMode> ServerOptions<H> {
    #[doc(hidden)]
    pub fn websocket(self) -> Self
    where
        Self: AcceptsWebSockets,
    {
        self
    }

    #[doc(hidden)]
    pub fn tool_frames(self) -> Self
    where
        Self: AcceptsWebSockets,
    {
        self
    }
}

/// The random number generator of the operating system: the source of ids and keys in servers of this crate, for those
/// that an application makes itself.
///
/// ```
/// use mcp_hyper::SystemEntropy;
/// use mcp_hyper::mcp_proto::adapter::Entropy;
///
/// let mut key = [0; 32];
/// SystemEntropy.fill(&mut key);
/// assert_ne!(key, [0; 32]);
/// ```
///
/// # Panics
/// `fill` panics if the generator fails, which happens on no supported system: guessable ids would be insecure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "guessable ids would be insecure")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system's random number generator failed: {error}");
        }
    }
}
