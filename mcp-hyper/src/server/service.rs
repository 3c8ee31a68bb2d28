//! The service that answers requests, for hyper and for connections of this crate.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use futures_lite::{AsyncRead, AsyncWrite};
use http::request::Parts;
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};
use mcp_proto::front::http::HttpServer;
use mcp_proto::front::{Attachments, HandlerMode, SendHandlers};
use mcp_proto::peer::Principal;
use mcp_proto::transport::http::Fields;
use mcp_proto::transport::http::server::{RequestHead, TrustedProxies};

use super::connection::Connection;
use super::exchange::{ConnectionHooks, ResponseBody, ResponseFuture};
use super::guard::{TokenGuard, UnverifiedRequest};
use super::limits::ServerLimits;
use super::maybe_tls::Tls;
use super::monitor::{ConnectionMonitor, ExchangeGuard};
use super::registry::ConnectionRegistry;
use super::streams::{DemandQueue, ServerMode};
use super::websocket::{Upgrade, UpgradeQueue, UpgradeSlot, WebSocketOptions};
use crate::fields::Headers;
use crate::time::RuntimeClock;

/// A server to embed, in an accept loop or, as a hyper [`Service`], in another router.
///
/// ```no_run
/// use mcp_hyper::ServerOptions;
/// use mcp_hyper::mcp_proto::front::Router;
///
/// # async fn example(router: Router, listener: smol::net::TcpListener) -> std::io::Result<()> {
/// let (service, driver) = ServerOptions::new(router).service();
/// // Sessions live in here, not in connections.
/// smol::spawn(driver).detach();
/// loop {
///     let (client, address) = listener.accept().await?;
///     client.set_nodelay(true)?;
///     smol::spawn(service.connection_from(client, Some(address.ip()))).detach();
/// }
/// # }
/// ```
///
/// As a [`Service`] it answers the requests that the other router forwards, whichever way they arrived:
/// [`service.call(request)`](HttpService::call). [`ServerOptions::any_path`](super::ServerOptions::any_path) leaves the path to that router.
/// The code that accepts the connections must then limit them. [`ServerOptions::websocket`](super::ServerOptions)
/// also upgrades such connections, if hyper serves them `with_upgrades`.
///
/// A [`PeerAddress`] among the extensions of a request gives the client's address.
///
/// Clones share the server.
pub struct HttpService<H: HandlerMode = SendHandlers>(Arc<ServiceState<H>>);

/// A client's address.
///
/// As an extension of a request that an application passes to [`HttpService`] as a [`Service`], it is the address that
/// the request came from. Requests without it share one quota.
///
/// Handlers read it, as the server determined it with the headers of trusted proxies, from
/// [`Context::attachments`](mcp_proto::front::Context::attachments).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

pub(super) struct ServiceState<H: HandlerMode> {
    pub(super) server: HttpServer<H>,
    pub(super) clock: Arc<RuntimeClock>,
    pub(super) limits: Arc<ServerLimits>,
    pub(super) registry: Arc<ConnectionRegistry>,
    pub(super) tls: Option<Tls>,
    pub(super) principal: Option<PrincipalFn>,
    pub(super) proxies: TrustedProxies,
    pub(super) guard: TokenGuard,
    pub(super) websocket: WebSocketOptions,
    /// Upgraded connections of other servers, for the driver.
    pub(super) upgrades: UpgradeQueue<H>,
}

/// Derives a request's principal from its head.
pub(super) type PrincipalFn = Box<dyn Fn(&Parts) -> Option<Principal> + Send + Sync>;

impl<H: HandlerMode> HttpService<H> {
    pub(super) fn new(shared: ServiceState<H>) -> Self {
        Self(Arc::new(shared))
    }

    pub(super) fn shared(&self) -> &ServiceState<H> {
        &self.0
    }

    /// The server's handle.
    pub fn server(&self) -> &HttpServer<H> {
        &self.0.server
    }

    /// Answers a request that another server has received: one of an axum application, for example, without hyper's or
    /// tower's traits.
    ///
    /// It polls nothing before the returned future is polled. A [`PeerAddress`] among the extensions of the request is the
    /// address that it came from. [The guide](crate::guide::tokio) has an application.
    ///
    /// # Errors
    /// None.
    pub fn call<B: Body>(&self, request: Request<B>) -> ResponseFuture<B, H> {
        let (mut parts, body) = request.into_parts();
        let peer = parts.extensions.get::<PeerAddress>().map(|peer| peer.0);
        let upgrade = Upgrade::on_embedded(self.0.websocket, &mut parts);
        self.exchange((parts, body), peer, Attachments::new(), ConnectionHooks::default(), upgrade)
    }

    /// Answers a request from the address `peer`, which may be for an upgrade.
    fn exchange<B: Body>(
        &self,
        (parts, body): (Parts, B),
        peer: Option<IpAddr>,
        attachments: Attachments,
        attached: ConnectionHooks,
        upgrade: Option<Upgrade<H>>,
    ) -> ResponseFuture<B, H> {
        let shared = &*self.0;
        let fields = RequestFields::of(&parts);
        let head = head(&parts, &fields, shared.proxies.client(peer, &fields));
        //= S10.9 "Inbound requests all verified"
        if let Some(check) = shared.guard.check(&head, &shared.clock) {
            let client = head.client;
            let unverified = UnverifiedRequest::new(check, parts, client, attachments, self.clone(), upgrade);
            return ResponseFuture::unverified(body, unverified, attached);
        }
        let principal = shared.principal.as_ref().and_then(|principal| principal(&parts));
        let client = head.client;
        let exchange = match upgrade {
            Some(upgrade) => {
                let attachments = with_head(attachments, parts.clone(), client);
                upgrade.exchange(shared, &head, principal, attachments)
            }
            None => {
                let exchange = shared.server.exchange(&head, principal);
                exchange.with_attachments(with_head(attachments, parts, client))
            }
        };
        ResponseFuture::new(body, exchange, shared.clock.clone(), attached)
    }
}

impl<H: ServerMode> HttpService<H> {
    /// Serves one connection in the returned future: TLS if the options say so, then HTTP/1.1 or HTTP/2, as the client
    /// chooses.
    ///
    /// The connection counts towards [`ServerLimits::connections`] but is never refused, and ends when the server
    /// closes.
    ///
    /// Connections served this way have no known address, and share one quota. To keep one client from taking the quota
    /// of the others, use [`connection_from`](Self::connection_from).
    pub fn connection<Io: AsyncRead + AsyncWrite + Unpin + 'static>(&self, io: Io) -> Connection<Io, H> {
        self.connection_from(io, None)
    }

    /// Serves one connection from the address `peer`, otherwise like [`connection`](Self::connection).
    ///
    /// [`connection_with`](Self::connection_with) also lets handlers read more about the connection.
    pub fn connection_from<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        io: Io,
        peer: Option<IpAddr>,
    ) -> Connection<Io, H> {
        self.connection_with(io, peer, Attachments::new())
    }

    /// Serves one connection like [`connection_from`](Self::connection_from), and attaches values to each of its
    /// requests. Handlers read them, and those that the server attaches, with
    /// [`Context::attachments`](mcp_proto::front::Context::attachments):
    ///
    /// ```no_run
    /// use std::net::SocketAddr;
    ///
    /// use mcp_hyper::mcp_proto::front::{Attachments, Context};
    /// use mcp_hyper::{HttpService, http};
    ///
    /// async fn accept(service: HttpService, listener: smol::net::TcpListener) -> std::io::Result<()> {
    ///     let (client, address) = listener.accept().await?;
    ///     let attachments = Attachments::new().with(address);
    ///     let connection = service.connection_with(client, Some(address.ip()), attachments);
    ///     smol::spawn(connection).detach();
    ///     Ok(())
    /// }
    ///
    /// async fn handler(cx: Context) -> String {
    ///     let head = cx.attachments().get::<http::request::Parts>();
    ///     let agent = head.and_then(|head| head.headers.get("user-agent"));
    ///     format!("{agent:?} from {:?}", cx.attachments().get::<SocketAddr>())
    /// }
    /// ```
    ///
    /// The server itself attaches to each request
    ///
    /// - its head, as [`http::request::Parts`], with the extensions that layers before have added. Where the server
    ///   requires tokens (`mcp_proto::front::guard`), the headers `Authorization` and `DPoP` are removed;
    /// - the client's address behind [trusted proxies](super::ServerOptions::trusted_proxies), as [`PeerAddress`];
    /// - over TLS, the client's certificates, as `TlsPeer`.
    pub fn connection_with<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        io: Io,
        peer: Option<IpAddr>,
        attachments: Attachments,
    ) -> Connection<Io, H> {
        Connection::new(self.clone(), io, peer, attachments)
    }
}

impl<H: HandlerMode> Clone for HttpService<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: HandlerMode> fmt::Debug for HttpService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl<B: Body, H: HandlerMode> Service<Request<B>> for HttpService<H> {
    type Response = Response<ResponseBody<H>>;
    type Error = Infallible;
    type Future = ResponseFuture<B, H>;

    fn call(&self, request: Request<B>) -> Self::Future {
        Self::call(self, request)
    }
}

/// Answers the requests of one connection.
pub(super) struct ConnectionService<H: ServerMode> {
    service: HttpService<H>,
    peer: Option<IpAddr>,
    /// The values to attach to each request.
    attachments: Attachments,
    monitor: Arc<ConnectionMonitor>,
    /// Receives the streams of an HTTP/2 connection.
    queue: Option<DemandQueue<H>>,
    upgrades: UpgradeSlot<H>,
}

impl<H: ServerMode> ConnectionService<H> {
    pub(super) fn new(
        service: HttpService<H>,
        peer: Option<IpAddr>,
        mut attachments: Attachments,
        watch: Arc<ConnectionMonitor>,
        queue: Option<DemandQueue<H>>,
        upgrades: UpgradeSlot<H>,
    ) -> Self {
        if let Some(peer) = peer.filter(|_| !service.shared().proxies.trusts(peer)) {
            attachments.insert(PeerAddress(peer));
        }
        Self { service, peer, attachments, monitor: watch, queue, upgrades }
    }
}

impl<H: ServerMode> Service<Request<Incoming>> for ConnectionService<H> {
    type Response = Response<ResponseBody<H>>;
    type Error = Infallible;
    type Future = ResponseFuture<Incoming, H>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let busy = ExchangeGuard::new(self.monitor.clone());
        let body_demand = self.queue.as_ref().map(DemandQueue::<H>::announce);
        let attached = ConnectionHooks { exchange_guard: Some(busy), body_demand };
        let (parts, body) = request.into_parts();
        let upgrade = match &self.queue {
            None => Upgrade::on_connection(&self.upgrades, self.service.shared().websocket, &parts),
            // HTTP/2 has no upgrades.
            Some(_) => None,
        };
        self.service.exchange((parts, body), self.peer, self.attachments.clone(), attached, upgrade)
    }
}

/// Attaches the head of a request, and the client's address unless it is attached to the connection.
pub(super) fn with_head(mut attachments: Attachments, head: Parts, client: Option<IpAddr>) -> Attachments {
    if let Some(client) = client
        && attachments.get() != Some(&PeerAddress(client))
    {
        attachments.insert(PeerAddress(client));
    }
    attachments.insert(head);
    attachments
}

/// A borrowed view of a request's head, for the state machine.
pub(super) fn head<'a>(
    parts: &'a Parts,
    fields: &'a RequestFields<'_>,
    client: Option<IpAddr>,
) -> RequestHead<'a> {
    RequestHead {
        method: parts.method.as_str(),
        path: parts.uri.path_and_query().map_or("", |path| path.as_str()),
        fields,
        client,
    }
}

/// The headers of a request, as hyper stores them.
pub(super) struct RequestFields<'a> {
    headers: Headers<'a>,
    /// The authority of an HTTP/2 request target, which replaces `Host`.
    authority: Option<&'a str>,
}

impl<'a> RequestFields<'a> {
    pub(super) fn of(parts: &'a Parts) -> Self {
        Self {
            headers: Headers(&parts.headers),
            authority: parts.uri.authority().map(|authority| authority.as_str()),
        }
    }
}

impl Fields for RequestFields<'_> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.headers.each(show);
        // A host in the request target and a `Host` header must both be served names.
        if let Some(authority) = self.authority {
            show("host", authority.as_bytes());
        }
    }
}
