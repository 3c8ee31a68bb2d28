//! How a client behaves.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use mcp_proto::adapter::{self, Clock as _};
use mcp_proto::front::{Client, ClientHandlers, HandlerMode, SendHandlers};
use mcp_proto::peer::client::{self, CacheContext, ClientConfig, ConnectTimeouts, KnownEra};
use mcp_proto::schema::Implementation;
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, UrlError};

use super::ClientDriver;
use super::connector::{BackgroundTasks, Connector};
use super::headers::{Additions, HeaderError};
use super::proxy::{Proxy, ProxyError};
use super::transport::Transport;
use super::wire::{Tap, WireEvent};
use crate::runtime::{Runtime, Smol};
use crate::time::{Alarm, RuntimeClock};

/// How long opening a connection may take, unless told otherwise: long enough for a packet that is lost twice.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept without a request on it, unless told otherwise. Servers that close sooner say so in
/// most cases, which is heeded.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How a client behaves: who it is, what it answers, how it connects.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_hyper::{ClientOptions, Proxy};
///
/// # fn main() -> Result<(), mcp_hyper::ConnectError> {
/// let (client, driver) = ClientOptions::new("my-host", "1.0.0")
///     .request_timeout(Duration::from_secs(60))
///     .header("authorization", "Bearer secret")
///     .proxy(Proxy::none())
///     .connect("https://example.com/mcp")?;
/// # drop((client, driver));
/// # Ok(())
/// # }
/// ```
#[must_use = "options do nothing until something is connected with them"]
pub struct ClientOptions<H: HandlerMode = SendHandlers, R = Smol> {
    config: HttpClientConfig,
    handlers: ClientHandlers<H>,
    runtime: R,
    additions: Additions,
    wire: Tap,
    /// That of the environment if absent.
    proxy: Option<Proxy>,
    unix_socket: Option<PathBuf>,
    prior_knowledge: bool,
    connect_timeout: Duration,
    idle_timeout: Duration,
    #[cfg(feature = "auth")]
    authorization: Option<crate::auth::Authorization>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<futures_rustls::rustls::ClientConfig>>,
}

/// Why a client can not be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not that of a server.
    Url(UrlError),
    /// A header can not be added.
    Header(HeaderError),
    /// The [runtime](Runtime::start) cannot be started: no file descriptors are left, say.
    Runtime(Arc<std::io::Error>),
    /// The environment names something as a proxy that is none.
    Proxy(ProxyError),
    /// No token can be got for such a server, or by such a configuration.
    #[cfg(feature = "auth")]
    Authorization(mcp_proto::auth::client::AuthConfigError),
    /// Nothing was said of how to log in.
    #[cfg(feature = "auth")]
    NoAuthorization,
    /// The system gives no random numbers.
    #[cfg(feature = "auth")]
    NoEntropy,
    /// No encrypted connection can be made.
    #[cfg(feature = "tls")]
    Tls(crate::tls::TlsError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => error.fmt(f),
            Self::Header(error) => error.fmt(f),
            Self::Runtime(error) => write!(f, "the runtime cannot be started: {error}"),
            Self::Proxy(error) => error.fmt(f),
            #[cfg(feature = "auth")]
            Self::Authorization(error) => error.fmt(f),
            #[cfg(feature = "auth")]
            Self::NoAuthorization => f.write_str("nothing was said of how to log in"),
            #[cfg(feature = "auth")]
            Self::NoEntropy => f.write_str("the system gives no random numbers"),
            #[cfg(feature = "tls")]
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

impl Default for ClientOptions {
    /// A client that calls itself after this crate.
    fn default() -> Self {
        Self::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }
}

impl ClientOptions {
    /// A client that calls itself so, answers nothing that servers ask for and finds out which era they speak.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::from(ClientConfig::new(Implementation::new(name, version)))
    }
}

impl From<ClientConfig> for ClientOptions {
    /// The capabilities of the configuration are replaced by those of the [handlers](ClientOptions::handlers).
    fn from(config: ClientConfig) -> Self {
        let mut config = HttpClientConfig::new(config, "");
        // Clients that lose the same server are not to come back at the same moment.
        config.seed = RandomState::new().build_hasher().finish();
        Self {
            config,
            handlers: ClientHandlers::new(),
            runtime: Smol,
            additions: Additions::default(),
            wire: Tap::default(),
            proxy: None,
            unix_socket: None,
            prior_knowledge: false,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            #[cfg(feature = "auth")]
            authorization: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    /// Which eras to speak. Default: the server's, which is found out.
    pub fn era_policy(mut self, mode: client::EraPolicy) -> Self {
        self.config.client.era_policy = mode;
        self
    }

    /// What an [earlier connection](Client::known_era) to the same server found out, which saves the probe.
    pub fn known_era(mut self, verdict: Option<KnownEra>) -> Self {
        self.config.client.known_era = verdict;
        self
    }

    /// How long a request waits for its answer or for progress, unless it says so itself. Default 30 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.client.request_timeout = timeout;
        self
    }

    /// How long connecting may take in all, until the server is ready: see [`ConnectTimeouts::within`]. Default 120 s.
    /// When it is over, [`Client::ready`] fails with the step under way and how the steps before it ended.
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.config.client.connect = ConnectTimeouts::within(timeout);
        self
    }

    /// What is answered to the server, and so declared to it. Handlers that are [`LocalHandlers`](mcp_proto::front::LocalHandlers) make a
    /// driver that is not `Send`.
    pub fn handlers<T: HandlerMode>(self, handlers: ClientHandlers<T>) -> ClientOptions<T, R> {
        ClientOptions {
            config: self.config,
            handlers,
            runtime: self.runtime,
            additions: self.additions,
            wire: self.wire,
            proxy: self.proxy,
            unix_socket: self.unix_socket,
            prior_knowledge: self.prior_knowledge,
            connect_timeout: self.connect_timeout,
            idle_timeout: self.idle_timeout,
            #[cfg(feature = "auth")]
            authorization: self.authorization,
            #[cfg(feature = "tls")]
            tls: self.tls,
        }
    }

    /// Sockets, names and timers of another runtime. Default: [`Smol`].
    pub fn runtime<T: Runtime>(self, runtime: T) -> ClientOptions<H, T> {
        ClientOptions {
            config: self.config,
            handlers: self.handlers,
            runtime,
            additions: self.additions,
            wire: self.wire,
            proxy: self.proxy,
            unix_socket: self.unix_socket,
            prior_knowledge: self.prior_knowledge,
            connect_timeout: self.connect_timeout,
            idle_timeout: self.idle_timeout,
            #[cfg(feature = "auth")]
            authorization: self.authorization,
            #[cfg(feature = "tls")]
            tls: self.tls,
        }
    }

    /// Changes anything else of the configuration. The URL is that of [`connect`](Self::connect).
    pub fn configure(mut self, change: impl FnOnce(&mut HttpClientConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Adds a header to every request. Those that the protocol or HTTP sets itself (`mcp-…`, `accept`, `content-type`,
    /// `host`, `last-event-id` and the like) can not be added; [`connect`](Self::connect) says so.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.additions.add(name, value);
        self
    }

    /// Has headers added just before each request goes out, such as a token that is renewed from time to time. What
    /// [`header`](Self::header) added is there already and may be changed; headers that it would refuse are left out.
    ///
    /// ```
    /// use http::HeaderValue;
    /// use mcp_hyper::ClientOptions;
    ///
    /// # fn current_token() -> HeaderValue { HeaderValue::from_static("Bearer …") }
    /// let options = ClientOptions::new("my-host", "1.0.0").headers(|headers| {
    ///     headers.insert("authorization", current_token());
    /// });
    /// ```
    ///
    /// Such headers may change on whose behalf requests are made, so answers that the server means for one context alone
    /// are not kept. An application that knows when that changes gives the cache a
    /// [context](mcp_proto::peer::client::CacheConfig::context) and calls [`Client::set_cache_context`] before it does.
    ///
    /// `add` is called by the driver: it should be quick.
    pub fn headers(mut self, add: impl FnMut(&mut HeaderMap) + Send + 'static) -> Self {
        self.additions.refresh(Box::new(add));
        self
    }

    /// Whom to trust, and how to encrypt. Unless it says what to offer by ALPN, HTTP/2 and HTTP/1.1 are offered. Default:
    /// rustls with its defaults, *ring* unless the process has another default, and the roots that the features of this
    /// crate name.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: futures_rustls::rustls::ClientConfig) -> Self {
        self.tls = Some(crate::tls::with_protocols(config));
        self
    }

    /// Whether to go through a proxy. Default: as the [environment](Proxy::from_environment) says.
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Connects to a socket of this machine, whatever the host of the URL, and without a proxy.
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.unix_socket = Some(path.into());
        self
    }

    /// Speaks HTTP/2 on connections that are not encrypted. There is no falling back: the server must be known to speak
    /// it. Encrypted connections agree on it by themselves.
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.prior_knowledge = true;
        self
    }

    /// How long opening a connection may take, from looking up the name until the server can be asked. Default 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a connection is kept without a request on it; less if the server says so. Default 60 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Shows every request and every answer, for logs and debugging.
    ///
    /// `watch` is called by the driver: it should be quick.
    pub fn on_wire(mut self, watch: impl FnMut(WireEvent<'_>) + Send + 'static) -> Self {
        self.wire = Tap(Some(Box::new(watch)));
        self
    }

    /// Logs in where the server demands it.
    #[cfg(feature = "auth")]
    pub fn authorization(mut self, authorization: crate::auth::Authorization) -> Self {
        self.authorization = Some(authorization);
        self
    }

    /// Talks to the server at this URL; see [`connect`](crate::connect).
    ///
    /// # Errors
    /// If one of the options, or the URL, can not be used. Nothing has been sent then.
    pub fn connect(mut self, url: impl Into<String>) -> Result<(Client, ClientDriver<H, R>), ConnectError> {
        self.config.url = url.into();
        self.config.client.capabilities = self.handlers.capabilities().clone();
        let clock = Arc::new(RuntimeClock::new(self.runtime.timer()));
        #[cfg(feature = "auth")]
        let desk = self.authorizer(&clock)?;
        #[cfg(feature = "auth")]
        if desk.is_some() {
            self.config.authorization = mcp_proto::transport::http::client::UnauthorizedPolicy::Park;
        }
        let cache = &mut self.config.client.cache;
        if self.additions.may_change() && cache.context == CacheContext::default() {
            // The cache would serve one account the answers of another until the next request goes out.
            cache.private = false;
        }
        let machine = HttpClient::new(self.config.clone(), clock.now()).map_err(ConnectError::Url)?;
        let (transport, handlers) = self.transport()?;
        let (client, front) = adapter::client(machine, clock.clone(), handlers);
        #[cfg(feature = "auth")]
        if let Some(desk) = &desk {
            desk.link_cache(front.cache_context_ender());
        }
        let driver = ClientDriver {
            front,
            transport,
            #[cfg(feature = "auth")]
            authorizer: desk,
            alarm: Alarm::default(),
            clock,
        };
        Ok((client, driver))
    }

    /// Sees to the tokens of the server at this URL without talking to it: to say whether there are any, to log out, to
    /// log in beforehand. The [authorization](Self::authorization) must be there.
    ///
    /// # Errors
    /// If one of the options, or the URL, can not be used. Nothing has been sent then.
    #[cfg(feature = "auth")]
    pub fn authorize(
        mut self,
        url: impl Into<String>,
    ) -> Result<(crate::auth::AuthHandle, super::AuthDriver<R>), ConnectError> {
        self.config.url = url.into();
        let clock = Arc::new(RuntimeClock::new(self.runtime.timer()));
        let desk = self.authorizer(&clock)?.ok_or(ConnectError::NoAuthorization)?;
        let (transport, _) = self.transport()?;
        Ok((desk.handle(), super::AuthDriver { authorizer: desk, transport, alarm: Alarm::default(), clock }))
    }

    #[cfg(feature = "auth")]
    fn authorizer(
        &mut self,
        clock: &Arc<RuntimeClock>,
    ) -> Result<Option<crate::auth::Authorizer>, ConnectError> {
        let Some(authorization) = self.authorization.take() else { return Ok(None) };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| ConnectError::NoEntropy)?;
        crate::auth::Authorizer::new(authorization, &self.config.url, clock.clone(), seed)
            .map(Some)
            .map_err(ConnectError::Authorization)
    }

    fn transport(mut self) -> Result<(Transport<R>, ClientHandlers<H>), ConnectError> {
        self.additions.check().map_err(ConnectError::Header)?;
        self.runtime.start().map_err(|error| ConnectError::Runtime(Arc::new(error)))?;
        let proxy = match self.proxy {
            Some(proxy) => proxy,
            None => Proxy::from_environment().map_err(ConnectError::Proxy)?,
        };
        let connector = Connector {
            runtime: self.runtime,
            proxy,
            unix_socket: self.unix_socket,
            prior_knowledge: self.prior_knowledge,
            timeout: self.connect_timeout,
            #[cfg(feature = "tls")]
            tls: self.tls,
            background: BackgroundTasks::default(),
        };
        Ok((Transport::new(connector, self.additions, self.wire, self.idle_timeout), self.handlers))
    }
}

impl<H: HandlerMode, R> fmt::Debug for ClientOptions<H, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("config", &self.config)
            .field("handlers", &self.handlers)
            .field("headers", &self.additions)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}
