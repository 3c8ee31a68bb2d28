//! The state that the exchanges of a service share, and their view of a request's head.

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use mcp_proto::front::http::HttpServer;
use mcp_proto::front::{Attachments, HandlerMode};
use mcp_proto::peer::Principal;
use mcp_proto::transport::http::Fields;
use mcp_proto::transport::http::server::{RequestHead, TrustedProxies};

use super::embedded_websocket::UpgradeQueue;
#[cfg(feature = "auth")]
use super::guard::TokenGuard;
use super::monitor::ServerLimits;
use super::registry::ConnectionRegistry;
use super::socket::Tls;
use crate::io::Headers;
use crate::time::RuntimeClock;

pub(super) struct ServiceState<H: HandlerMode> {
    pub(super) server: HttpServer<H>,
    pub(super) clock: Arc<RuntimeClock>,
    pub(super) limits: Arc<ServerLimits>,
    pub(super) registry: Arc<ConnectionRegistry>,
    pub(super) tls: Option<Tls>,
    pub(super) principal: Option<PrincipalFn>,
    pub(super) proxies: TrustedProxies,
    #[cfg(feature = "auth")]
    pub(super) guard: TokenGuard,
    pub(super) websocket: WebSocketOptions,
    /// Upgraded connections of other servers, for the driver.
    pub(super) upgrades: UpgradeQueue<H>,
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
