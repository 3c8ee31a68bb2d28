//! Sessions of legacy clients: the state that a handshake establishes.
//!
//! | phase | input | reaction |
//! |---|---|---|
//! | none | `initialize` | answered; awaiting `initialized` |
//! | awaiting `initialized` | requests | answered; from the first on, this side may send notifications |
//! | awaiting `initialized` | `notifications/initialized` | operating: this side may send requests and notifications |
//! | any | `initialize` | answered again; the handshake restarts |

use alloc::sync::Arc;

#[cfg(all(feature = "std", feature = "http"))]
use serde::{Serialize, de::DeserializeOwned};

use crate::peer::topic::ListKind;
use crate::prelude::*;
use crate::schema::{ClientCapabilities, Era, Implementation, InitializeParams, LoggingLevel, Revision};
#[cfg(all(feature = "std", feature = "http"))]
use crate::{
    lazy_box::LazyBox,
    peer::{Principal, Requests, WireId},
};

#[cfg(all(feature = "std", feature = "http"))]
use super::{Phase, PreparedConfig, Server, outgoing_requests::ServerRequest, subscriptions::Subscriptions};

/// A legacy session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Session {
    /// The negotiated revision.
    pub revision: Revision,
    /// The client's self-reported name and version.
    pub info: Arc<Implementation>,
    /// The client's capabilities.
    pub capabilities: Arc<ClientCapabilities>,
    /// Whether the client has said that it is ready for requests.
    pub initialized: bool,
    /// The lowest severity of log messages that the client wants, if it has set one.
    pub log_level: Option<LoggingLevel>,
    /// Whether the client has sent a request: it has received the answer to `initialize`, even if `initialized` is
    /// missing.
    pub(super) has_requested: bool,
    /// The lists that have changed since the handshake, while the client is not ready.
    pub(super) changed_lists: Vec<ListKind>,
    /// Whether it stands for a single message without a session, of a client that is not known.
    pub(super) stateless: bool,
}

impl Session {
    /// Whether the client can be sent change notifications. A lost `initialized` must not block them for ever.
    pub(super) fn can_be_notified(&self) -> bool {
        self.initialized || self.has_requested
    }

    //= S1.17 "Answer initialize with the same version if supported, else another (SHOULD latest) supported"
    /// Opens the session that a client asks for. A version that is unknown or modern is answered with the newest legacy
    /// one.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation>
    pub(super) fn open(params: InitializeParams) -> Self {
        let requested = Revision::parse(&params.protocol_version);
        let revision = requested.filter(|revision| revision.era() == Era::Legacy);
        Self {
            revision: revision.unwrap_or(Revision::LATEST_LEGACY),
            info: Arc::new(params.client_info),
            capabilities: Arc::new(params.capabilities),
            initialized: false,
            log_level: None,
            has_requested: false,
            changed_lists: Vec::new(),
            stateless: false,
        }
    }

    /// The state of a single message of this revision.
    #[cfg(feature = "http")]
    pub(super) fn stateless(revision: Revision) -> Self {
        let info = Implementation::new("unknown", "unknown");
        let params = InitializeParams::new(revision.as_str(), ClientCapabilities::default(), info);
        Self { stateless: true, ..Self::open(params) }
    }
}

// --- Idle sessions ---

/// The state of a legacy session while nothing is in progress, in a form that takes little memory.
#[cfg(all(feature = "std", feature = "http"))]
#[derive(Debug)]
pub(crate) struct IdleServer {
    revision: Revision,
    initialized: bool,
    has_requested: bool,
    log_level: Option<LoggingLevel>,
    info: Packed<Implementation>,
    capabilities: Packed<ClientCapabilities>,
    principal: Option<Principal>,
    /// The number of the client's next request.
    next_request: u64,
    subscriptions: LazyBox<Subscriptions>,
    /// The table of this side's requests, if there were any. It is empty, and numbers them.
    outbound: Option<Box<Requests<ServerRequest>>>,
}

/// A value as JSON text, if that stands for the same value.
#[cfg(all(feature = "std", feature = "http"))]
#[derive(Debug)]
enum Packed<T> {
    Text(Box<str>),
    Value(Arc<T>),
}

#[cfg(all(feature = "std", feature = "http"))]
impl<T: Serialize + DeserializeOwned + PartialEq> Packed<T> {
    fn new(value: Arc<T>) -> Self {
        let text = serde_json::to_string(&*value).ok();
        match text.filter(|text| serde_json::from_str::<T>(text).is_ok_and(|decoded| decoded == *value)) {
            Some(text) => Self::Text(text.into()),
            None => Self::Value(value),
        }
    }

    /// The value. Its text has been decoded before, so `other` is never needed.
    fn unpack(&self, other: impl FnOnce() -> T) -> Arc<T> {
        match self {
            Self::Text(text) => Arc::new(serde_json::from_str(text).unwrap_or_else(|_| other())),
            Self::Value(value) => value.clone(),
        }
    }
}

#[cfg(all(feature = "std", feature = "http"))]
impl Server {
    /// Moves the state of the session out of a server that has no requests, events or reports in progress; `None` if it
    /// has some. The server is of no use afterwards.
    pub(crate) fn take_idle(&mut self) -> Option<IdleServer> {
        let connection = self.connection.used_mut()?;
        let is_idle = matches!(self.phase, Phase::Open)
            && self.inbound.is_empty()
            && connection.outbound.is_empty()
            && connection.batches.is_empty()
            && connection.backlog.is_empty()
            && self.sent_progress.is_empty()
            && self.received_progress.is_empty()
            && self.events.is_idle()
            && self.notify_again_at.is_none();
        let session = connection
            .session
            .take_if(|session| is_idle && !session.stateless && session.changed_lists.is_empty())?;
        let outbound = core::mem::replace(&mut connection.outbound, Requests::new());
        let outbound = outbound.is_ours(WireId(1)).then(|| Box::new(outbound));
        Some(IdleServer {
            revision: session.revision,
            initialized: session.initialized,
            has_requested: session.has_requested,
            log_level: session.log_level,
            info: Packed::new(session.info),
            capabilities: Packed::new(session.capabilities),
            principal: self.principal.take(),
            next_request: self.inbound.next_number(),
            subscriptions: core::mem::take(&mut self.subscriptions),
            outbound,
        })
    }

    /// Creates a server that goes on with the state of an idle one, which is of no use afterwards.
    pub(crate) fn from_idle(prepared: &PreparedConfig, idle: &mut IdleServer) -> Self {
        let mut server = Self::for_connection(prepared);
        server.connection.session = Some(Session {
            revision: idle.revision,
            info: idle.info.unpack(|| Implementation::new("unknown", "unknown")),
            capabilities: idle.capabilities.unpack(ClientCapabilities::default),
            initialized: idle.initialized,
            log_level: idle.log_level,
            has_requested: idle.has_requested,
            changed_lists: Vec::new(),
            stateless: false,
        });
        server.principal = idle.principal.take();
        server.inbound.skip_to(idle.next_request);
        server.subscriptions = core::mem::take(&mut idle.subscriptions);
        if let Some(outbound) = idle.outbound.take() {
            server.connection.outbound = *outbound;
        }
        server
    }
}

#[cfg(all(test, feature = "std", feature = "http"))]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packed_value_is_the_same_after_unpacking() {
        let text = json!({
            "roots": {"listChanged": true}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}},
            "tasks": {"list": {}}, "experimental": {"x": {"y": 1}}, "extensions": {"com.example/a": {}}, "other": [1]
        });
        let value: ClientCapabilities = serde_json::from_value(text).unwrap();
        let packed = Packed::new(Arc::new(value.clone()));
        assert!(matches!(packed, Packed::Text(_)));
        assert_eq!(*packed.unpack(ClientCapabilities::default), value);
    }
}
