//! How a router is served.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "auth")]
use mcp_proto::auth::{Fetch, FetchPolicy};
#[cfg(feature = "auth")]
use mcp_proto::front::guard::{FetchResponse, Guard};
use mcp_proto::front::http::{HttpServer, http_server};
use mcp_proto::front::{HandlerMode, Router, SendHandlers};
use mcp_proto::peer::Principal;
use mcp_proto::transport::http::server::TrustedProxies;
use mcp_proto::transport::http::server::{HttpServerConfig, TrustedProxy};

use super::accept::Listener;
use super::connection::Connection;
use super::driver::{ConnectionTask, OnError, ServerDriver, ServerError, ServiceDriver, Spawn};
use super::entropy::SystemEntropy;
#[cfg(feature = "auth")]
use super::fetching::{FetchFn, Fetcher};
use super::limits::ServerLimits;
use super::maybe_tls::Tls;
use super::registry::ConnectionRegistry;
use super::service::{HttpService, PrincipalFn, ServiceState};
use super::streams::ServerMode;
#[cfg(feature = "auth")]
use crate::client::fetch;
use crate::runtime::{Runtime, Smol};
use crate::time::{RuntimeClock, Timers};

/// How a router is served, and what it is served over.
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
/// // At the end: what is under way is finished.
/// server.close();
/// running.await?;
/// # Ok(())
/// # }
/// ```
///
/// # Behind a balancer
///
/// Clients of 2026-07-28 have no sessions: each of their requests may go to another instance, round robin, if the instances
/// have the same
///
/// - keys for request states ([`Router::seal`]), so that what one has asked, another goes on with;
/// - [store of tasks](mcp_proto::front::tasks::TaskStore), so that each answers for the tasks of all. What `tasks/update`
///   and `tasks/cancel` bring reaches the instance that runs the task within its
///   [poll interval](mcp_proto::front::tasks::TaskConfig::poll_interval);
/// - [store of used states](Router::single_use), if states are to be used once.
///
/// What the application itself says to an [`HttpServer`], such as which list has changed, it has to say to each instance;
/// of a task, those hear who listen at the instance that runs it.
///
/// The sessions of older clients stay with the instance that has opened them: its memory has their streams, and what they
/// are asked. An instance answers 404 to a session that it does not know, whereupon clients open another. A hash of the
/// header `Mcp-Session-Id` does not find the instance, as the id is not yet there when the session is opened. A balancer
/// that has no table of sessions may put a name of the instance before the id in the answer, and send requests by it. With
/// nginx, for two instances, which must be given the id without the name:
///
/// ```nginx
/// upstream any { server 10.0.0.1:8000; server 10.0.0.2:8000; }
/// upstream one { server 10.0.0.1:8000; }
/// upstream two { server 10.0.0.2:8000; }
///
/// map $http_mcp_session_id $target {
///     default any;
///     ~^one\. one;
///     ~^two\. two;
/// }
/// map $http_mcp_session_id $session {
///     default $http_mcp_session_id;
///     ~^(one|two)\.(?<given>.+)$ $given;
/// }
/// map $upstream_addr $instance {
///     ~10\.0\.0\.1:8000$ one;
///     ~10\.0\.0\.2:8000$ two;
/// }
/// map $upstream_http_mcp_session_id $shown {
///     "" "";
///     default $instance.$upstream_http_mcp_session_id;
/// }
///
/// server {
///     location /mcp {
///         proxy_pass http://$target;
///         proxy_http_version 1.1;
///         proxy_set_header Connection "";
///         proxy_set_header Host $http_host;
///         proxy_set_header Mcp-Session-Id $session;
///         proxy_hide_header Mcp-Session-Id;
///         add_header Mcp-Session-Id $shown always;
///         # Events go out when they come.
///         proxy_buffering off;
///     }
/// }
/// ```
///
/// `Host` goes through, as it is checked: [`hosts`](HttpServerConfig::hosts) are those that clients know.
#[must_use = "options do nothing until something is served with them"]
pub struct ServerOptions<H: HandlerMode = SendHandlers> {
    router: Arc<Router<H>>,
    config: HttpServerConfig,
    limits: ServerLimits,
    timers: Timers,
    tls: Option<Tls>,
    principal: Option<PrincipalFn>,
    proxies: TrustedProxies,
    #[cfg(feature = "auth")]
    guard: Option<(Guard, FetchFn)>,
    on_error: OnError,
}

impl<H: HandlerMode> ServerOptions<H> {
    /// The router's own [configuration](Router::config), at `/mcp`, without TLS.
    pub fn new(router: impl Into<Arc<Router<H>>>) -> Self {
        let router = router.into();
        let mut config = HttpServerConfig::new(router.config());
        config.path = Some("/mcp".to_owned());
        Self {
            config,
            router,
            limits: ServerLimits::default(),
            timers: Smol.timer(),
            tls: None,
            principal: None,
            proxies: TrustedProxies::default(),
            #[cfg(feature = "auth")]
            guard: None,
            on_error: Arc::new(|_| {}),
        }
    }

    /// Where the server is; everywhere else there is nothing. Default `/mcp`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.config.path = Some(path.into());
        self
    }

    /// The server is at any path, for a router of one's own that has looked at it already.
    pub fn any_path(mut self) -> Self {
        self.config.path = None;
        self
    }

    /// Changes anything else of the configuration, such as which hosts and origins are served.
    pub fn configure(mut self, change: impl FnOnce(&mut HttpServerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Changes what a client may make the server hold.
    pub fn limits(mut self, change: impl FnOnce(&mut ServerLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// The timers of another runtime. Default: those of [`Smol`], which work under any executor. Sockets come from the
    /// [`Listener`], or from wherever the application has them.
    pub fn runtime(mut self, runtime: &impl Runtime) -> Self {
        self.timers = runtime.timer();
        self
    }

    /// Encrypts connections. If the configuration names no protocols for ALPN, it is given those of HTTP/2 and
    /// HTTP/1.1.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: impl Into<Arc<futures_rustls::rustls::ServerConfig>>) -> Self {
        let mut config = config.into();
        if config.alpn_protocols.is_empty() {
            Arc::make_mut(&mut config).alpn_protocols = crate::tls::PROTOCOLS.map(<[u8]>::to_vec).into();
        }
        self.tls = Some(config.into());
        self
    }

    /// Says on whose behalf a request is made, by its head: by what a layer before has verified and left in the request's
    /// extensions, most likely. Sessions, request states and tasks of one principal are unknown to every other.
    ///
    /// Without it, and where it says `None`, all clients are one: whoever knows the id of a session can act in it.
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
    pub fn principal(
        mut self,
        of: impl Fn(&http::request::Parts) -> Option<Principal> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Box::new(of));
        self
    }

    /// Believes these proxies about the addresses of their clients, by `X-Forwarded-For` or `Forwarded`. Default: none.
    ///
    /// What a client holds of the server counts against its principal or, without one, against its address: see
    /// [`QuotaOwner`](mcp_proto::quota::QuotaOwner). Behind a proxy that is not named here, all clients share one quota.
    /// [`TrustedProxies`] has the rules.
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
    pub fn trusted_proxies(mut self, proxies: impl IntoIterator<Item = TrustedProxy>) -> Self {
        self.proxies = proxies.into_iter().collect();
        self
    }

    /// Demands a token of every request, as the guard has it, but for what the server says of itself as a protected
    /// resource: that is served where `Protection::metadata_url` says, which has to lead here. On whose behalf a request
    /// is made is what its token says.
    ///
    /// What the guard has fetched, such as the keys of an issuer, is fetched by the driver: over TLS that trusts what the
    /// clients of this crate trust by default, with smol's sockets and by the proxies of the environment. It is to be had
    /// otherwise by [`protect_with`](Self::protect_with).
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
    #[cfg(feature = "auth")]
    pub fn protect(self, guard: Guard) -> Self {
        self.protect_with(guard, async |exchange, reach| {
            let fetched = fetch(exchange, reach).await?;
            Ok(FetchResponse { status: fetched.status.as_u16(), body: fetched.body })
        })
    }

    /// The same, with what makes the exchanges: it must connect to no address that is not
    /// [within reach](FetchPolicy::allows), follow no redirects, end within a few seconds, and read no more than the limit that
    /// the exchange has.
    #[cfg(feature = "auth")]
    pub fn protect_with<F>(
        self,
        guard: Guard,
        fetch: impl Fn(Fetch, FetchPolicy) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<FetchResponse, String>> + Send + 'static,
    {
        let by: FetchFn = Arc::new(move |exchange, reach| Box::pin(fetch(exchange, reach)));
        Self { guard: Some((guard, by)), ..self }
    }

    /// Shows what goes wrong without ending the server, for logs. `show` must not take long: the server waits for it.
    pub fn on_error(mut self, show: impl Fn(&ServerError) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(show);
        self
    }

    /// Accepts connections and serves them, all in one future.
    pub fn listen<L: Listener>(self, listener: L) -> (HttpServer<H>, ServerDriver<L, H>)
    where
        H: ServerMode,
    {
        self.start(listener, None)
    }

    /// Accepts connections and has each served by a task of its own, for executors with several threads:
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
        H: ServerMode,
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
    ) -> (HttpServer<H>, ServerDriver<L, H>)
    where
        H: ServerMode,
    {
        let on_error = self.on_error.clone();
        let (service, driver) = self.service();
        let server = service.server().clone();
        (server, ServerDriver::new(listener, service, driver, on_error, spawn))
    }

    /// A server to embed; the future has to be polled for as long as it is to serve.
    pub fn service(self) -> (HttpService<H>, ServiceDriver<H>) {
        let problem = self.router.check().err();
        let clock = Arc::new(RuntimeClock::new(self.timers));
        let close_timeout = self.config.server.close_timeout;
        let (server, driver) = http_server(self.router, self.config, clock.clone(), Arc::new(SystemEntropy));
        #[cfg(feature = "auth")]
        let (guard, fetcher) = self.guard.map(|(guard, by)| (guard.clone(), Fetcher::new(guard, by))).unzip();
        let service = HttpService::new(ServiceState {
            server,
            clock,
            registry: Arc::new(ConnectionRegistry::new(self.limits.connections)),
            limits: Arc::new(self.limits),
            tls: self.tls,
            principal: self.principal,
            proxies: self.proxies,
            #[cfg(feature = "auth")]
            guard,
        });
        let driver = ServiceDriver::new(service.clone(), driver, problem, close_timeout);
        #[cfg(feature = "auth")]
        let driver = driver.with_fetcher(fetcher);
        (service, driver)
    }
}

impl<H: HandlerMode> fmt::Debug for ServerOptions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("router", &self.router)
            .field("config", &self.config)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
