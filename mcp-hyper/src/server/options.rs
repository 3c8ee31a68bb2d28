//! Options of an HTTP server.

use std::fmt;
use std::sync::Arc;

use mcp_proto::front::http::{HttpServer, http_server};
use mcp_proto::front::{HandlerMode, SendHandlers, ServedRouter};
use mcp_proto::peer::Principal;
use mcp_proto::quota::RateLimit;
use mcp_proto::transport::http::server::TrustedProxies;
use mcp_proto::transport::http::server::{HttpServerConfig, TrustedProxy};

use super::accept::Listener;
use super::connection::Connection;
use super::driver::{ConnectionTask, OnError, ServerDriver, ServerError, ServiceDriver, Spawn};
use super::entropy::SystemEntropy;
use super::guard::GuardOptions;
use super::limits::ServerLimits;
use super::maybe_tls::Tls;
use super::registry::ConnectionRegistry;
use super::service::{HttpService, PrincipalFn, ServiceState};
use super::streams::ServerMode;
use super::websocket::{EmbeddedWebSockets, UpgradeQueue, WebSocketOptions};
use crate::runtime::{AnyRuntime, Runtime};
use crate::time::RuntimeClock;

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
/// Clients of 2026-07-28 have no sessions: each of their requests may go to another instance, round robin, if the
/// instances share
///
/// - keys for request states ([`Router::seal`](mcp_proto::front::Router::seal)), so that an instance can continue a
///   request that another one suspended for input;
/// - a [store of tasks](mcp_proto::front::tasks::TaskStore), so that each instance can answer for all tasks.
///   `tasks/update` and `tasks/cancel` reach the instance that runs the task within its [poll
///   interval](mcp_proto::front::tasks::TaskConfig::poll_interval);
/// - a [store of used states](mcp_proto::front::Router::single_use), if each state must be accepted only once.
///
/// Notifications that the application sends through an [`HttpServer`], such as changes of a list, must be sent at each
/// instance; task notifications reach only clients that listen at the instance that runs the task.
///
/// Sessions of older clients stay with the instance that opened them, which holds their streams and pending requests in
/// memory. An instance answers 404 to an unknown session, and the client then opens a new one. Hashing the header
/// `Mcp-Session-Id` does not find the instance, as the id does not exist yet when the session is opened. A balancer
/// without a table of sessions can prefix the id in the response with a name of the instance, and route requests by it.
/// With nginx and two instances, which must receive the id without the prefix:
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
/// `Host` is passed through, as the server checks it: [`hosts`](HttpServerConfig::hosts) lists the names that clients
/// use.
#[must_use = "options do nothing until something is served with them"]
pub struct ServerOptions<H: HandlerMode = SendHandlers> {
    router: ServedRouter<H>,
    config: HttpServerConfig,
    limits: ServerLimits,
    runtime: AnyRuntime,
    pub(super) tls: Option<Tls>,
    principal: Option<PrincipalFn>,
    proxies: TrustedProxies,
    pub(super) guard: GuardOptions,
    pub(super) websocket: WebSocketOptions,
    on_error: OnError,
}

impl<H: HandlerMode> ServerOptions<H> {
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
            guard: Default::default(),
            websocket: Default::default(),
            on_error: Arc::new(|_| {}),
        }
    }

    /// Sets the path of the MCP endpoint; requests to other paths get 404. Default `/mcp`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.config.path = Some(path.into());
        self
    }

    /// Serves the MCP endpoint at any path, for applications whose own router has already checked it.
    pub fn any_path(mut self) -> Self {
        self.config.path = None;
        self
    }

    /// Changes the rest of the configuration, such as the accepted hosts and origins.
    pub fn configure(mut self, change: impl FnOnce(&mut HttpServerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Serves clients of 2025-11-25 and earlier without sessions: any instance answers any request, so that instances
    /// need neither a common store nor a balancer that tells sessions apart. Default: with sessions.
    ///
    /// These clients then get no subscriptions, changed lists, log messages or requests such as elicitation; a router
    /// that [declares](mcp_proto::front::Router::check_stateless) any of that is refused when the server starts.
    /// [`HttpServerConfig::stateless`] has the details.
    ///
    /// ```
    /// use mcp_hyper::ServerOptions;
    /// use mcp_hyper::mcp_proto::front::Router;
    ///
    /// let options = ServerOptions::new(Router::new("notes", "1.0.0")).stateless();
    /// # drop(options);
    /// ```
    pub fn stateless(mut self) -> Self {
        self.config.stateless = true;
        self
    }

    /// Limits how often each client sends a request: by its principal or, without one, its address. Requests beyond the
    /// rate get 429 with `Retry-After` before their bodies are read. Default: no limit.
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
    pub fn request_rate(mut self, limit: RateLimit) -> Self {
        self.config.request_rate = Some(limit);
        self
    }

    /// Changes the limits on connections and streams.
    pub fn limits(mut self, change: impl FnOnce(&mut ServerLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Sets the runtime, which provides timers, and sockets for the fetches that verify tokens. Default:
    /// [`DefaultRuntime`](crate::DefaultRuntime). The sockets of clients come from the [`Listener`], or from the
    /// application.
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = AnyRuntime::new(runtime);
        self
    }

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
    pub fn principal(
        mut self,
        of: impl Fn(&http::request::Parts) -> Option<Principal> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Box::new(of));
        self
    }

    /// Trusts these proxies' `X-Forwarded-For` or `Forwarded` for the addresses of their clients. Default: none.
    ///
    /// Quotas count by principal or, without one, by client address: see [`QuotaOwner`](mcp_proto::quota::QuotaOwner).
    /// Behind a proxy that is not listed here, all clients share one quota. [`TrustedProxies`] documents the rules.
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

    /// Reports errors that do not end the server, for logs. `show` must return quickly: the server waits for it.
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

    /// Returns a service to embed in another server, and its driver. Poll the driver for as long as the service is
    /// used.
    pub fn service(self) -> (HttpService<H>, ServiceDriver<H>) {
        let router = self.router.router();
        let checked = if self.config.stateless { router.check_stateless() } else { router.check() };
        let problem = checked.err();
        let clock = Arc::new(RuntimeClock::new(self.runtime.timer()));
        let close_timeout = self.config.server.close_timeout;
        let (server, driver) = http_server(self.router, self.config, clock.clone(), Arc::new(SystemEntropy));
        let (guard, fetcher) = self.guard.start(&self.runtime);
        let service = HttpService::new(ServiceState {
            server,
            clock,
            registry: Arc::new(ConnectionRegistry::new(self.limits.connections)),
            limits: Arc::new(self.limits),
            tls: self.tls,
            principal: self.principal,
            proxies: self.proxies,
            guard,
            websocket: self.websocket,
            upgrades: UpgradeQueue::default(),
        });
        let websockets = EmbeddedWebSockets::new(self.on_error);
        let driver = ServiceDriver::new(service.clone(), driver, problem, close_timeout, fetcher, websockets);
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
