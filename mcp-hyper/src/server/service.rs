//! The service that answers requests, for hyper and for connections of this crate.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http_body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use mcp_proto::front::http::{HttpHandle, HttpServer};
use mcp_proto::front::{Attachments, SendHandlers};
use mcp_proto::peer::Principal;
use mcp_proto::transport::http::Fields;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead, TrustedProxies};

use crate::io::Headers;
use crate::time::RuntimeClock;

use super::connection::{Upgrade, UpgradeQueue};
use super::exchange::{ConnectionHooks, ResponseBody, ResponseFuture, ServerMode};
#[cfg(feature = "auth")]
use super::guard::{TokenGuard, TokenVerification};
use super::monitor::{ConnectionRegistry, ServerLimits};
use super::observed::{ObservedConnection, ObservedConnections, ObservedExchange};
use super::socket::Tls;

/// A server to embed, in an accept loop or, as a hyper [`Service`], in another router.
///
/// ```no_run
/// use mcp_hyper::ServerOptions;
/// use mcp_hyper::mcp_proto::front::{Attachments, Router};
///
/// # async fn example(router: Router, listener: smol::net::TcpListener) -> std::io::Result<()> {
/// let (service, driver) = ServerOptions::new(router).service();
/// // Sessions live in here, not in connections.
/// smol::spawn(driver).detach();
/// loop {
///     let (client, address) = listener.accept().await?;
///     client.set_nodelay(true)?;
///     smol::spawn(service.connection_with(client, Some(address.ip()), Attachments::new())).detach();
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
pub struct HttpService<H: ServerMode = SendHandlers>(Arc<ServiceState<H>>);

impl<H: ServerMode> HttpService<H> {
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
        let observed = self.0.observe_exchange(|| self.0.observe(peer), &parts);
        let attached = ConnectionHooks { observed, ..ConnectionHooks::default() };
        self.exchange((parts, body), peer, Attachments::new(), attached, upgrade)
    }

    /// Answers a request from the address `peer`, which may be for an upgrade.
    pub(super) fn exchange<B: Body>(
        &self,
        (parts, body): (Parts, B),
        peer: Option<IpAddr>,
        attachments: Attachments,
        attached: ConnectionHooks,
        upgrade: Option<Upgrade<H>>,
    ) -> ResponseFuture<B, H> {
        let shared = &*self.0;
        let fields = RequestFields::of(&parts);
        let head = request_head(&parts, &fields, shared.proxies.client(peer, &fields));
        if let Some(answer) = shared.health.as_ref().and_then(|health| health.answer(&parts, &shared.server))
        {
            let exchange = shared.server.answered_exchange(&head, answer);
            return ResponseFuture::new(body, exchange, shared.clock.clone(), attached);
        }
        //= S10.9 "Inbound requests all verified"
        #[cfg(feature = "auth")]
        if !shared.server.is_preflight(&head)
            && let Some(check) = shared.guard.check(&head, &shared.clock)
        {
            let client = head.client;
            let request = (parts, client, attachments);
            let verification = TokenVerification::new(check, request, upgrade, self.clone());
            return ResponseFuture::unverified(body, Box::new(verification), attached);
        }
        let principal = shared.principal.as_ref().and_then(|principal| principal(&parts));
        let server = &shared.server;
        let exchange = match upgrade {
            Some(upgrade) => {
                let attachments = with_head(attachments, parts.clone(), head.client);
                upgrade.exchange(self, &head, |it| server.upgrade(&head, principal, attachments, it))
            }
            None => {
                let (exchange, client) = (server.exchange(&head, principal), head.client);
                exchange.with_attachments(with_head(attachments, parts, client))
            }
        };
        ResponseFuture::new(body, exchange, shared.clock.clone(), attached)
    }
}

impl<H: ServerMode> Clone for HttpService<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

debug_fields! { [H: ServerMode] HttpService<H>(self) { limits = self.0.limits } }

impl<B: Body, H: ServerMode> Service<Request<B>> for HttpService<H> {
    type Response = Response<ResponseBody<H>>;
    type Error = Infallible;
    type Future = ResponseFuture<B, H>;

    fn call(&self, request: Request<B>) -> Self::Future {
        Self::call(self, request)
    }
}

// The state that the exchanges of a service share, and their view of a request's head.

pub(super) struct ServiceState<H: ServerMode> {
    pub(super) server: HttpServer<H>,
    pub(super) clock: Arc<RuntimeClock>,
    pub(super) limits: Arc<ServerLimits>,
    pub(super) registry: Arc<ConnectionRegistry>,
    pub(super) tls: Option<Tls>,
    pub(super) principal: Option<PrincipalFn>,
    pub(super) proxies: TrustedProxies,
    pub(super) health: Option<HealthCheck>,
    pub(super) observed: Option<ObservedConnections>,
    #[cfg(feature = "auth")]
    pub(super) guard: TokenGuard,
    pub(super) websocket: WebSocketOptions,
    /// Upgraded connections of other servers, for the driver.
    pub(super) upgrades: UpgradeQueue<H>,
}

impl<H: ServerMode> ServiceState<H> {
    /// A connection of this client, if the application observes it.
    pub(super) fn observe(&self, peer: Option<IpAddr>) -> Option<ObservedConnection> {
        self.observed.as_ref()?.open(peer)
    }

    /// An exchange on a connection, if that is observed. A health check is not, and opens none.
    pub(super) fn observe_exchange(
        &self,
        connection: impl FnOnce() -> Option<ObservedConnection>,
        parts: &Parts,
    ) -> Option<ObservedExchange> {
        if self.health.as_ref().is_some_and(|health| parts.uri.path() == health.path) {
            return None;
        }
        Some(connection()?.exchange(parts, if self.tls.is_some() { "https" } else { "http" }))
    }
}

/// The health checks of a balancer.
pub(super) struct HealthCheck {
    pub(super) path: String,
    /// Whether the application is ready.
    pub(super) is_ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl HealthCheck {
    /// The answer to a request, if it is a check.
    fn answer(&self, parts: &Parts, server: &HttpHandle) -> Option<HttpResponse> {
        let is_check = parts.uri.path() == self.path;
        let is_healthy = || !server.is_draining() && (self.is_ready)();
        is_check.then(|| HttpResponse::empty(if is_healthy() { 200 } else { 503 }))
    }
}

/// Derives a request's principal from its head.
pub(super) type PrincipalFn = Box<dyn Fn(&Parts) -> Option<Principal> + Send + Sync>;

/// Whether a server accepts WebSocket connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WebSocketOptions {
    pub(super) accepts: bool,
    /// Whether clients may send tool frames.
    pub(super) tool_frames: bool,
}

/// A client's address.
///
/// As an extension of a request that an application passes to [`HttpService`](super::HttpService) as a [`Service`](hyper::service::Service), it is the address that
/// the request came from. Requests without it share one quota.
///
/// Handlers read it, as the server determined it with the headers of trusted proxies, from
/// [`Context::attachments`](mcp_proto::front::Context::attachments).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

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
pub(super) fn request_head<'a>(
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
