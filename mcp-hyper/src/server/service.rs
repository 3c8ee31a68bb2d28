//! The service that answers requests, for hyper and for connections of this crate.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http_body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use mcp_proto::front::http::HttpServer;
use mcp_proto::front::{Attachments, HandlerMode, SendHandlers};

#[cfg(feature = "auth")]
use super::exchange::TokenVerification;
use super::exchange::{ConnectionHooks, ResponseBody, ResponseFuture};
use super::service_state::{PeerAddress, RequestFields, ServiceState, request_head, with_head};
use super::upgrade::Upgrade;

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
        //= S10.9 "Inbound requests all verified"
        #[cfg(feature = "auth")]
        if let Some(check) = shared.guard.check(&head, &shared.clock) {
            let client = head.client;
            let request = (parts, client, attachments);
            let verification = TokenVerification::new(check, request, upgrade, self.0.clone());
            return ResponseFuture::unverified(body, Box::new(verification), attached);
        }
        let principal = shared.principal.as_ref().and_then(|principal| principal(&parts));
        let server = &shared.server;
        let exchange = match upgrade {
            Some(upgrade) => {
                let attachments = with_head(attachments, parts.clone(), head.client);
                upgrade.exchange(shared, &head, |it| server.upgrade(&head, principal, attachments, it))
            }
            None => {
                let (exchange, client) = (server.exchange(&head, principal), head.client);
                exchange.with_attachments(with_head(attachments, parts, client))
            }
        };
        ResponseFuture::new(body, exchange, shared.clock.clone(), attached)
    }
}

impl<H: HandlerMode> Clone for HttpService<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

debug_fields! { [H: HandlerMode] HttpService<H>(self) { limits = self.0.limits } }

impl<B: Body, H: HandlerMode> Service<Request<B>> for HttpService<H> {
    type Response = Response<ResponseBody<H>>;
    type Error = Infallible;
    type Future = ResponseFuture<B, H>;

    fn call(&self, request: Request<B>) -> Self::Future {
        Self::call(self, request)
    }
}
