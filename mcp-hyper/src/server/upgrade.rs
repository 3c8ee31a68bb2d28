//! Requests to become a WebSocket.

use std::sync::{Arc, Mutex};

use http::request::Parts;
use http::{Method, header};
use hyper::upgrade::OnUpgrade;
use mcp_proto::front::HandlerMode;
use mcp_proto::front::http::{HttpChannel, HttpExchange};
use mcp_proto::quota::QuotaOwner;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead, ResponseHeaders};

use super::embedded_websocket::{EmbeddedWebSocket, lock};
use super::monitor::ConnectionMonitor;
use super::service_state::{ServiceState, WebSocketOptions};
use super::websocket::handshake;

/// The place where the channel of an upgraded connection waits for HTTP to end.
pub(super) type UpgradeSlot<H> = Arc<Mutex<Option<HttpChannel<H>>>>;

/// The headers that accept a handshake, or the refusal.
type HandshakeAnswer = Result<ResponseHeaders, HttpResponse>;

/// A request to become a WebSocket.
pub(super) struct Upgrade<H: HandlerMode> {
    connection: UpgradedConnection<H>,
    handshake: HandshakeAnswer,
}

/// The connection to upgrade.
enum UpgradedConnection<H: HandlerMode> {
    /// A connection of this crate, which takes the channel from the slot.
    Own(UpgradeSlot<H>),
    /// A connection of another server, which hyper hands over.
    Embedded(OnUpgrade),
}

impl<H: HandlerMode> Upgrade<H> {
    /// The upgrade that a request asks for on a connection of this crate, if the server accepts any.
    pub(super) fn on_connection(
        slot: &UpgradeSlot<H>,
        options: WebSocketOptions,
        parts: &Parts,
    ) -> Option<Self> {
        let is_upgrade = is_upgrade(options, parts);
        is_upgrade
            .then(|| Self { connection: UpgradedConnection::Own(slot.clone()), handshake: handshake(parts) })
    }

    /// The upgrade that a request asks for on a connection of another server, if both servers accept any.
    pub(super) fn on_embedded(options: WebSocketOptions, parts: &mut Parts) -> Option<Self> {
        if !is_upgrade(options, parts) {
            return None;
        }
        let connection = UpgradedConnection::Embedded(parts.extensions.remove()?);
        Some(Self { connection, handshake: handshake(parts) })
    }

    /// The exchange that answers the request, which `open` makes of the answer to the handshake.
    pub(super) fn exchange(
        self,
        shared: &ServiceState<H>,
        head: &RequestHead<'_>,
        open: impl FnOnce(HandshakeAnswer) -> (HttpExchange<H>, Option<HttpChannel<H>>),
    ) -> HttpExchange<H> {
        let Self { connection, handshake } = self;
        let (exchange, channel) = open(connection.admit(shared, head).and(handshake));
        connection.start(channel, shared, head);
        exchange
    }
}

impl<H: HandlerMode> UpgradedConnection<H> {
    /// Whether the server has room for the connection. A connection of this crate is counted already.
    fn admit(&self, shared: &ServiceState<H>, head: &RequestHead<'_>) -> Result<(), HttpResponse> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Embedded(_) if shared.upgrades.is_open() && shared.registry.has_room(&owner(head)) => {
                shared.server.check_driver()
            }
            Self::Embedded(_) => Err(HttpResponse::empty(503)),
        }
    }

    /// Passes the channel on to the task that serves it.
    fn start(self, channel: Option<HttpChannel<H>>, shared: &ServiceState<H>, head: &RequestHead<'_>) {
        let Some(channel) = channel else { return };
        match self {
            Self::Own(slot) => *lock(&slot) = Some(channel),
            Self::Embedded(upgrade) => {
                let ServiceState { clock, limits, .. } = shared;
                let monitor = Arc::new(ConnectionMonitor::new(limits.clone(), clock.timers().clone()));
                let entry = shared.registry.register(&owner(head), monitor.clone());
                let (tool_frames, clock) = (shared.websocket.tool_frames, clock.clone());
                let counted = (monitor, entry);
                shared.upgrades.push(EmbeddedWebSocket::new(upgrade, channel, tool_frames, clock, counted));
            }
        }
    }
}

/// The client that a connection counts for, as with a listener.
fn owner(head: &RequestHead<'_>) -> QuotaOwner {
    QuotaOwner::from_client(None, head.client)
}

/// Whether the server accepts WebSockets, and the request asks for one.
fn is_upgrade(options: WebSocketOptions, parts: &Parts) -> bool {
    let to = parts.headers.get(header::UPGRADE);
    let asks = to.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    cfg!(feature = "websocket") && options.accepts && asks && parts.method == Method::GET
}
