//! Options of an HTTP client.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::layer::IntoLayer;
use mcp_proto::front::{Client, ClientHandlers, HandlerMode, SendHandlers};
use mcp_proto::peer::client::{self, CacheContext, ClientConfig, ConnectTimeouts, KnownEra};
#[cfg(feature = "auth")]
use mcp_proto::schema::Extension;
use mcp_proto::schema::Implementation;
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, UnauthorizedPolicy, UrlError};

use super::connection::{BackgroundTasks, Connector, TlsOptions};
use super::credentials::{AskHeaders, Authorizer, HeaderSource};
use super::driver::{ClientDriver, ClientLoop, Connection};
#[cfg(feature = "auth")]
use super::fetch::fetch_with;
use super::headers::{ExtraHeaders, HeaderError};
use super::stream::OnlyStream;
use super::target::{Proxy, ProxyError};
use super::transport::Transport;
#[cfg(feature = "websocket")]
use super::websocket::{self, WebSocketOptions};
#[cfg(feature = "auth")]
use crate::auth::{AuthDriver, AuthHandle, Authorization};
use crate::runtime::{DefaultRuntime, Runtime};
use crate::time::RuntimeClock;
use crate::wire::{Tap, WireEvent};

/// Default time limit for opening a connection: long enough for a packet that is lost twice.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default time limit of an idle connection. Most servers with a shorter limit announce it, and the client respects
/// that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a client: its name, handlers, headers, timeouts and connections.
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
pub struct ClientOptions<H: HandlerMode = SendHandlers, R = DefaultRuntime> {
    handlers: ClientHandlers<H>,
    runtime: Arc<R>,
    settings: Settings,
}

/// The options that are independent of the client's types.
struct Settings {
    config: HttpClientConfig,
    extra_headers: ExtraHeaders,
    header_source: Option<AskHeaders>,
    wire: Tap,
    /// If absent, the proxy of the environment.
    proxy: Option<Proxy>,
    unix_socket: Option<PathBuf>,
    stream: OnlyStream,
    prior_knowledge: bool,
    connect_timeout: Duration,
    idle_timeout: Duration,
    #[cfg(feature = "auth")]
    authorization: Option<Authorization>,
    tls: TlsOptions,
    #[cfg(feature = "websocket")]
    websocket: WebSocketOptions,
}

/// Why a client cannot be created.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is invalid for a server.
    Url(UrlError),
    /// A header is rejected.
    Header(HeaderError),
    /// The [runtime](Runtime::start) cannot be started: no file descriptors are left, say.
    Runtime(Arc<std::io::Error>),
    /// The environment names an invalid proxy.
    Proxy(ProxyError),
    /// The authorization's configuration is invalid, or unsuitable for this server.
    #[cfg(feature = "auth")]
    Authorization(mcp_proto::auth::client::AuthConfigError),
    /// The options have no `authorization`, which `authorize` requires.
    NoAuthorization,
    /// The options have both a source of headers and an `authorization`: only one of them can answer a refusal.
    TwoAuthorizations,
    /// The server, a child process, cannot be started.
    #[cfg(feature = "stdio-v2")]
    Spawn(Arc<mcp_smol::SpawnError>),
    /// The system's random number generator failed.
    NoEntropy,
}

error_text! { ConnectError:
    Url(error) => "{error}";
    Header(error) => "{error}";
    Runtime(error) => "the runtime cannot be started: {error}";
    Proxy(error) => "{error}";
    #[cfg(feature = "auth")]
    Authorization(error) => "{error}";
    NoAuthorization => "no login configured: call `ClientOptions::authorization`";
    TwoAuthorizations => "`headers_from` and `authorization` exclude each other: use `headers` beside `authorization`";
    #[cfg(feature = "stdio-v2")]
    Spawn(error) => "{error}";
    NoEntropy => "the system's random number generator failed";
}

impl Default for ClientOptions {
    /// Options of a client with the name and version of this crate.
    fn default() -> Self {
        Self::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }
}

impl ClientOptions {
    /// Options of a client with this name and version, which declares no capabilities and detects the server's era.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::from(ClientConfig::new(Implementation::new(name, version)))
    }
}

impl From<ClientConfig> for ClientOptions {
    /// Uses this configuration, except that the [handlers](ClientOptions::handlers) determine the capabilities.
    fn from(config: ClientConfig) -> Self {
        let mut config = HttpClientConfig::new(config, "");
        // Clients that lose the same server must not all reconnect at the same moment.
        config.seed = RandomState::new().build_hasher().finish();
        let settings = Settings {
            config,
            extra_headers: ExtraHeaders::default(),
            header_source: None,
            wire: Tap::default(),
            proxy: None,
            unix_socket: None,
            stream: OnlyStream::default(),
            prior_knowledge: false,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            #[cfg(feature = "auth")]
            authorization: None,
            tls: Default::default(),
            #[cfg(feature = "websocket")]
            websocket: WebSocketOptions::default(),
        };
        Self { handlers: ClientHandlers::new(), runtime: Arc::default(), settings }
    }
}

impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    setters! {
        /// Sets which eras to speak. Default: the server's, which the client detects.
        pub fn era_policy(self, policy: client::EraPolicy) { self.settings.config.client.era_policy = policy }

        /// Sets the era that an [earlier connection](Client::known_era) to the same server detected, which saves the
        /// probe.
        pub fn known_era(self, era: Option<KnownEra>) { self.settings.config.client.known_era = era }

        /// Sets how long a request without a timeout of its own waits for a response or for progress. Default 30 s.
        pub fn request_timeout(self, timeout: Duration) {
            self.settings.config.client.request_timeout = timeout
        }

        /// Pings the server, if it is one of 2025-11-25 or earlier, and ends the connection once it answers no more:
        /// requests in flight then fail with
        /// [`LostReason::KeepaliveFailed`](mcp_proto::peer::LostReason::KeepaliveFailed). Default: no pings.
        ///
        /// ```
        /// use mcp_hyper::ClientOptions;
        /// use mcp_hyper::mcp_proto::peer::client::Keepalive;
        ///
        /// let options = ClientOptions::new("my-host", "1.0.0").keepalive(Keepalive::BUSY_TOLERANT);
        /// # drop(options);
        /// ```
        ///
        /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping>
        pub fn keepalive(self, keepalive: client::Keepalive) {
            self.settings.config.client.keepalive = Some(keepalive)
        }

        /// Sets the total time until the server is ready: see [`ConnectTimeouts::within`]. Default 120 s. After that,
        /// [`Client::ready`] fails with the step under way and the results of the steps before it.
        pub fn ready_timeout(self, timeout: Duration) {
            self.settings.config.client.connect = ConnectTimeouts::within(timeout)
        }
    }

    /// Sets the handlers of server requests, which determine the declared capabilities. With
    /// [`LocalHandlers`](mcp_proto::front::LocalHandlers), the driver is not `Send`.
    pub fn handlers<T: HandlerMode>(self, handlers: ClientHandlers<T>) -> ClientOptions<T, R> {
        let handlers = handlers.within_layers(self.handlers.layers());
        ClientOptions { handlers, runtime: self.runtime, settings: self.settings }
    }

    setters! {
        /// Adds a [layer](mcp_proto::front::layer) around the calls of the application and the requests of the server
        /// that handlers answer, inside of those added before: to log, change, answer or deny them.
        pub fn layer(self, layer: impl IntoLayer<SendHandlers>) { self.handlers = self.handlers.layer(layer) }
    }

    /// Sets the runtime, which provides sockets, name lookup and timers. Default: [`DefaultRuntime`].
    pub fn runtime<T: Runtime>(self, runtime: T) -> ClientOptions<H, T> {
        ClientOptions { handlers: self.handlers, runtime: Arc::new(runtime), settings: self.settings }
    }

    setters! {
        /// Changes the rest of the configuration. [`connect`](Self::connect) overrides its URL.
        pub fn configure(self, change: impl FnOnce(&mut HttpClientConfig)) {
            change(&mut self.settings.config)
        }

        /// Reads results of tools in parts, from servers of a dialect that no revision defines: event streams with
        /// events of the names `result`, `complete` and `error`. Each part is an event of the client
        /// ([`Event::PartialResult`](mcp_proto::front::Event::PartialResult)); the call returns the parts as one
        /// result. Other servers are read as before.
        ///
        /// ```
        /// use mcp_hyper::ClientOptions;
        ///
        /// let options = ClientOptions::new("my-host", "1.0.0").chunked_results();
        /// # drop(options);
        /// ```
        pub fn chunked_results(self) { self.settings.config.chunked_results = true }

        /// Adds a header to every request. Headers that the protocol or HTTP sets itself (`mcp-…`, `accept`,
        /// `content-type`, `host`, `last-event-id` and the like) are rejected: [`connect`](Self::connect) returns the
        /// error.
        pub fn header(self, name: &str, value: &str) { self.settings.extra_headers.add(name, value) }

        /// Adds headers just before each request is sent, such as a token that is renewed from time to time. The map
        /// already contains the headers of [`header`](Self::header), which `add` may change; headers that `header`
        /// would reject are left out.
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
        /// Such headers may change the principal of a request, so responses that the server marks as private are not
        /// cached. An application that knows when the principal changes sets the cache's
        /// [context](mcp_proto::peer::client::CacheConfig::context), and calls [`Client::set_cache_context`] before
        /// each change.
        ///
        /// The driver calls `add`; it must return quickly.
        pub fn headers(self, add: impl FnMut(&mut HeaderMap) + Send + 'static) {
            self.settings.extra_headers.refresh(Box::new(add))
        }
    }

    /// Adds headers that an async source provides, such as a token that is rotated by another program.
    ///
    /// The source is asked before the first request; each request then carries its headers, which replace those that
    /// [`header`](Self::header) sets under the same names, and which [`headers`](Self::headers) may change. After
    /// status 401 it is asked once more, for all requests that are in flight then; other requests are sent as before.
    /// If its headers are others now, each refused request is repeated once: the server has not processed it. Otherwise
    /// the refusal is the error of the request, as it would be without a source. Status 403 does not ask the source.
    ///
    /// ```no_run
    /// use std::error::Error;
    ///
    /// use http::{HeaderMap, HeaderValue, header};
    /// use mcp_hyper::ClientOptions;
    ///
    /// async fn read_token() -> Result<HeaderMap, Box<dyn Error>> {
    ///     let token = std::fs::read_to_string("/run/secrets/token")?;
    ///     let value = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
    ///     Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
    /// }
    ///
    /// # fn main() -> Result<(), mcp_hyper::ConnectError> {
    /// let (client, driver) = ClientOptions::new("my-host", "1.0.0")
    ///     .headers_from(read_token)
    ///     .connect("https://example.com/mcp")?;
    /// # drop((client, driver));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It applies to every request: calls, event streams, the end of a session, and the upgrade to a WebSocket. Private
    /// responses in the cache end when the headers change. The values are never shown, whatever their names; the text
    /// of an error of the source is.
    ///
    /// The driver polls the source's future, which must not block. One that takes more than 30 s, fails, or has a
    /// header that [`header`](Self::header) would reject fails the requests that wait for it: those that were never
    /// sent with an error of the connection, the refused ones with their refusal and the reason
    /// ([`TransportError::unauthorized`](mcp_proto::peer::TransportError::unauthorized)).
    ///
    /// [`connect`](Self::connect) rejects it beside an `authorization`, which answers status 401 itself.
    pub fn headers_from<F: Future<Output = Result<HeaderMap, E>> + Send + 'static, E: std::fmt::Display>(
        mut self,
        mut source: impl FnMut() -> F + Send + 'static,
    ) -> Self {
        self.settings.header_source = Some(Box::new(move || {
            let answer = source();
            Box::pin(async move { answer.await.map_err(|error| error.to_string()) })
        }));
        self
    }

    setters! {
        /// Sets the proxy. Default: the proxy of the [environment](Proxy::from_environment).
        pub fn proxy(self, proxy: Proxy) { self.settings.proxy = Some(proxy) }

        /// Connects to a Unix domain socket, whatever the host of the URL, and without a proxy.
        #[cfg(unix)]
        pub fn unix_socket(self, path: impl Into<PathBuf>) { self.settings.unix_socket = Some(path.into()) }

        /// Uses HTTP/2 on unencrypted connections, without a fallback: the server must be known to support it.
        /// Encrypted connections negotiate the version by ALPN.
        #[cfg(feature = "http2")]
        pub fn http2_prior_knowledge(self) { self.settings.prior_knowledge = true }

        /// Sets the time limit for opening a connection, from the name lookup until it is ready for requests. Default
        /// 10 s.
        pub fn connect_timeout(self, timeout: Duration) { self.settings.connect_timeout = timeout }

        /// Sets how long an idle connection stays open, unless the server announces a shorter limit. Default 60 s.
        pub fn idle_timeout(self, timeout: Duration) { self.settings.idle_timeout = timeout }

        /// Calls `watch` with every request and response, for logs and debugging. A
        /// [`Redactor`](mcp_proto::redact::Redactor) hides the secrets in them.
        ///
        /// The driver calls `watch`; it must return quickly.
        pub fn on_wire(self, watch: impl FnMut(WireEvent<'_>) + Send + 'static) {
            self.settings.wire = Tap(Some(Box::new(watch)))
        }
    }

    /// Connects to the server at this URL; see [`connect`](crate::connect).
    ///
    /// With the feature `websocket`, `ws://` and `wss://` URLs connect over WebSocket, with the same headers, proxy,
    /// TLS, authorization and [connect timeout](Self::connect_timeout), which applies to the upgrade. The connection is
    /// one peer of either era, as a child process is. It is not reopened once it has ended; the requests in flight then
    /// fail with the server's close code and reason. Each message of the server has at most
    /// [`Limits::message_bytes`](mcp_proto::Limits::message_bytes).
    ///
    /// # Errors
    /// If the URL or one of the options is invalid. Nothing has been sent then.
    pub fn connect(mut self, url: impl Into<String>) -> Result<(Client, ClientDriver<H, R>), ConnectError> {
        let url = url.into();
        //= F4 "chosen by a `ws:` or `wss:` URL"
        let upgrade = http_url(&url);
        let settings = &mut self.settings;
        let config = &mut settings.config;
        config.url = upgrade.clone().unwrap_or(url);
        config.client.capabilities = self.handlers.capabilities().clone();
        if settings.header_source.is_some() {
            config.authorization = UnauthorizedPolicy::Park;
        }
        #[cfg(feature = "auth")]
        if let Some(authorization) = &settings.authorization {
            config.authorization = UnauthorizedPolicy::Park;
            if let Some(Ok(extension)) = authorization.config.grant.extension().map(Extension::new)
                // The application's own settings of the extension count.
                && !config.client.capabilities.has_extension(extension.identifier())
                && !config.client.extensions.iter().any(|own| own.identifier() == extension.identifier())
            {
                config.client.extensions.push(extension);
            }
        }
        let cache = &mut config.client.cache;
        if settings.extra_headers.may_change() && cache.context == CacheContext::default() {
            // Otherwise the cache would serve one account's responses to another until the next request is sent.
            cache.private = false;
        }
        let clock = Arc::new(RuntimeClock::new(&self.runtime));
        let machine = HttpClient::new(config.clone(), clock.now()).map_err(ConnectError::Url)?;
        #[cfg(feature = "websocket")]
        let (config, websocket) = (config.client.clone(), self.settings.websocket);
        let (transport, authorizer) = self.settings.start(&self.runtime, &clock)?;
        let handlers = self.handlers;
        #[cfg(feature = "websocket")]
        if let Some(url) = upgrade {
            let (client, websocket) =
                websocket::start(config, websocket, url, handlers, transport, authorizer, clock);
            return Ok((client, ClientDriver::new(Connection::WebSocket(websocket))));
        }
        let (client, http) = ClientLoop::start(machine, handlers, transport, authorizer, clock);
        Ok((client, ClientDriver::new(Connection::Http(http))))
    }
}

#[cfg(feature = "host")]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    /// Passes the requests of another client on to the server at this URL, as they are, with the headers, proxy, TLS and
    /// authorization of these options: to [observe](Self::on_wire) them. The client is a program on this machine, which
    /// connects to `address`, on which the caller listens, by [`Forwarder::url`](super::Forwarder::url); each of its
    /// connections is for [`Forwarder::connection`](super::Forwarder::connection).
    ///
    /// Event streams pass piece by piece, as fast as the client reads; a client that closes its connection aborts its
    /// request. Requests of web pages, and those without the secret of the URL, are refused. An `Authorization` header of the
    /// client is passed on, unless the options have one. HTTP+SSE of 2024-11-05 and WebSocket are not supported.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_hyper::ClientOptions;
    /// use mcp_hyper::host::TraceFile;
    ///
    /// let listener = smol::net::TcpListener::bind("127.0.0.1:0").await?;
    /// let mut observer = TraceFile::create("example.trace", "my-proxy 1.0.0")?.observer("example", "http");
    /// let options = ClientOptions::new("my-proxy", "1.0.0").on_wire(move |event| observer.handle_event(event));
    /// let (forwarder, driver) = options.forward("https://example.com/mcp", listener.local_addr()?)?;
    /// smol::spawn(driver).detach();
    /// println!("{}", forwarder.url());
    /// loop {
    ///     let (stream, _) = listener.accept().await?;
    ///     smol::spawn(forwarder.connection(stream)).detach();
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the URL or one of the options is invalid. Nothing has been sent then.
    pub fn forward(
        mut self,
        url: impl Into<String>,
        address: std::net::SocketAddr,
    ) -> Result<(super::Forwarder, super::ForwardDriver<R>), ConnectError> {
        self.settings.config.url = url.into();
        let config = self.settings.config.clone();
        let clock = Arc::new(RuntimeClock::new(&self.runtime));
        // It checks the URL.
        HttpClient::new(config.clone(), clock.now()).map_err(ConnectError::Url)?;
        let replaced = self.settings.extra_headers.fixed_names();
        let (transport, authorizer) = self.settings.start(&self.runtime, &clock)?;
        let forwarder = super::Forwarder::new(&config.url, address, replaced)?;
        let driver = super::ForwardDriver::new(&forwarder, transport, authorizer, clock);
        Ok((forwarder, driver))
    }
}

#[cfg(feature = "stdio-v2")]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    /// Speaks HTTP/2 to a server over a stream that is open already: experimental, for the transport `stdio-v2`. See
    /// [the guide](crate::guide::stdio_v2).
    ///
    /// The stream is the client's only connection. It stays open however long it is idle, and requests wait while as many
    /// are in flight as the server accepts. Its end ends the client, whose requests fail with the reason
    /// ([`LostReason`](mcp_proto::peer::LostReason)): the error of the stream, or that the server speaks another
    /// transport ([`WrongTransport`](mcp_proto::peer::LostReason::WrongTransport)). The driver ends once the stream is
    /// closed; a server that does not read the last frames within
    /// [`close_timeout`](mcp_proto::peer::client::ClientConfig::close_timeout) does not get them.
    ///
    /// The first answer has as much time as that of any program,
    /// [`initialize`](mcp_proto::peer::client::ConnectTimeouts::initialize), as a package may be downloaded first.
    ///
    /// # Errors
    /// If one of the options is invalid. Nothing has been sent then.
    pub fn connect_stream(
        mut self,
        io: impl crate::Stream,
    ) -> Result<(Client, ClientDriver<H, R>), ConnectError> {
        let settings = &mut self.settings;
        settings.stream = OnlyStream::new(io, &settings.config.client);
        (settings.prior_knowledge, settings.proxy) = (true, Some(Proxy::none()));
        settings.idle_timeout = Duration::MAX;
        let timeouts = &mut settings.config.client.connect;
        timeouts.probe_http = timeouts.probe_http.max(timeouts.initialize);
        timeouts.initialize_http = timeouts.initialize_http.max(timeouts.initialize);
        // Servers accept requests to this machine's own names.
        self.connect("http://localhost/mcp")
    }
}

impl Settings {
    /// Starts the runtime, once all other options have been checked, and what exchanges requests on it.
    fn start<R: Runtime>(
        mut self,
        runtime: &Arc<R>,
        clock: &Arc<RuntimeClock>,
    ) -> Result<(Transport<R>, Option<Authorizer>), ConnectError> {
        self.extra_headers.check().map_err(ConnectError::Header)?;
        let source =
            self.header_source.map(|ask| HeaderSource::new(ask, self.extra_headers.source(), clock.clone()));
        let source = source.map(|source| Authorizer::Headers(Box::new(source)));
        let proxy = match self.proxy {
            Some(proxy) => proxy,
            None => Proxy::from_environment().map_err(ConnectError::Proxy)?,
        };
        let connector = Arc::new(Connector {
            runtime: runtime.clone(),
            proxy,
            unix_socket: self.unix_socket,
            stream: self.stream,
            prior_knowledge: self.prior_knowledge,
            timeout: self.connect_timeout,
            tls: self.tls,
            background: BackgroundTasks::default(),
        });
        #[cfg(feature = "auth")]
        let source = match (self.authorization, source) {
            (Some(_), Some(_)) => return Err(ConnectError::TwoAuthorizations),
            (Some(authorization), None) => {
                let oauth = authorizer(authorization, &self.config.url, clock, &connector)?;
                Some(Authorizer::OAuth(Box::new(oauth)))
            }
            (None, source) => source,
        };
        runtime.start().map_err(runtime_error)?;
        Ok((Transport::new(connector, self.extra_headers, self.wire, self.idle_timeout), source))
    }
}

fn runtime_error(error: std::io::Error) -> ConnectError {
    ConnectError::Runtime(Arc::new(error))
}

/// The authorizer of the client of the server at `url`.
#[cfg(feature = "auth")]
fn authorizer<R: Runtime>(
    mut authorization: Authorization,
    url: &str,
    clock: &Arc<RuntimeClock>,
    connector: &Arc<Connector<R>>,
) -> Result<crate::auth::Authorizer, ConnectError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|_| ConnectError::NoEntropy)?;
    let fetcher = connector.clone();
    let fetch = Box::new(move |fetch, policy| Box::pin(fetch_with(fetcher.detached(), fetch, policy)) as _);
    let redirects = authorization.redirects.take();
    let mut authorizer = crate::auth::Authorizer::new(authorization, url, clock.clone(), seed, fetch)
        .map_err(ConnectError::Authorization)?;
    connector
        .runtime
        .start()
        .and_then(|()| authorizer.listen(redirects, &*connector.runtime))
        .map_err(runtime_error)?;
    Ok(authorizer)
}

debug_fields! { [H: HandlerMode, R] ClientOptions<H, R>(self) {
    config = self.settings.config,
    handlers,
    headers = self.settings.extra_headers,
    proxy = self.settings.proxy,
} }

/// The HTTP URL of the upgrade, if this is the URL of a WebSocket.
fn http_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':').filter(|_| cfg!(feature = "websocket"))?;
    match scheme.to_ascii_lowercase().as_str() {
        "ws" => Some(format!("http:{rest}")),
        "wss" => Some(format!("https:{rest}")),
        _ => None,
    }
}

#[cfg(feature = "auth")]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    /// Logs in where the server requires it.
    ///
    /// A server ends subscriptions with their token, so that watches subscribe again when a server ends them
    /// ([`OnServerEnd::Listen`](client::OnServerEnd::Listen)), unless a later [`configure`](Self::configure) says
    /// otherwise.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.settings.authorization = Some(authorization);
        self.configure(|config| config.client.watch.on_server_end = client::OnServerEnd::Listen)
    }

    /// Manages the tokens of the server at this URL without connecting to it: reports their status, logs out, or logs
    /// in beforehand. It requires an [authorization](Self::authorization).
    ///
    /// # Errors
    /// If the URL or one of the options is invalid. Nothing has been sent then.
    pub fn authorize(mut self, url: impl Into<String>) -> Result<(AuthHandle, AuthDriver), ConnectError> {
        let url = url.into();
        self.settings.config.url = http_url(&url).unwrap_or(url);
        let clock = Arc::new(RuntimeClock::new(&self.runtime));
        let (_, authorizer) = self.settings.start(&self.runtime, &clock)?;
        match authorizer {
            Some(Authorizer::OAuth(authorizer)) => Ok(AuthDriver::new(*authorizer, clock)),
            _ => Err(ConnectError::NoAuthorization),
        }
    }
}

#[cfg(feature = "tls")]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    setters! {
        /// Sets the TLS configuration, such as trust roots. Unless it names ALPN protocols, it gets those of HTTP/2 and
        /// HTTP/1.1. Default: rustls with its defaults, *ring* unless the process has another default, and the roots
        /// that the features of this crate name.
        pub fn tls(self, config: crate::rustls::ClientConfig) {
            self.settings.tls = TlsOptions(Some(super::tls::with_protocols(config)))
        }
    }
}

#[cfg(feature = "websocket")]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    setters! {
        /// Speaks [tool frames](mcp_proto::transport::tool_frames) to servers at `ws:` and `wss:` URLs, instead of MCP:
        /// `{"id", "name", "arguments"}`. Such a server knows only calls of tools; every other request fails at once,
        /// and other messages of the server are ignored. Over HTTP this option does nothing.
        pub fn tool_frames(self) { self.settings.websocket.tool_frames = true }

        /// Sets after how long a silence the client pings a server over WebSocket. If the server stays silent for as
        /// long again, the connection ends. Default 30 s; `None` sends no pings, and less than a second counts as a
        /// second. Over HTTP this option does nothing.
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// use mcp_hyper::ClientOptions;
        ///
        /// // A proxy on the way closes connections that are silent for ten seconds.
        /// let options = ClientOptions::new("my-host", "1.0.0").ping_interval(Some(Duration::from_secs(5)));
        /// # drop(options);
        /// ```
        pub fn ping_interval(self, interval: Option<Duration>) {
            self.settings.websocket.ping_interval = interval
        }
    }
}

/// Has no implementation.
#[cfg(not(feature = "http2"))]
#[diagnostic::on_unimplemented(
    message = "`ClientOptions::http2_prior_knowledge` needs the feature `http2`",
    note = "in `Cargo.toml`, add `\"http2\"` to the features of `mcp-hyper`; it is on by default"
)]
pub trait SpeaksHttp2 {}

/// The compiler's message names the feature.
#[cfg(not(feature = "http2"))]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    #[doc(hidden)]
    pub fn http2_prior_knowledge(self) -> Self
    where
        Self: SpeaksHttp2,
    {
        self
    }
}

/// Has no implementation.
#[cfg(not(feature = "websocket"))]
#[diagnostic::on_unimplemented(
    message = "a client speaks WebSocket only with the feature `websocket`",
    note = "in `Cargo.toml`, add `\"websocket\"` to the features of `mcp-hyper`"
)]
pub trait SpeaksWebSocket {}

/// The compiler's message names the feature.
#[cfg(not(feature = "websocket"))]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    #[doc(hidden)]
    pub fn tool_frames(self) -> Self
    where
        Self: SpeaksWebSocket,
    {
        self
    }

    #[doc(hidden)]
    pub fn ping_interval(self, _: Option<Duration>) -> Self
    where
        Self: SpeaksWebSocket,
    {
        self
    }
}
