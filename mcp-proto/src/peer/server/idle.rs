//! The state of a server whose client is silent: the results of the handshake, and the subscriptions.

use alloc::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::lazy_box::LazyBox;
use crate::peer::{Principal, Requests, WireId};
use crate::prelude::*;
use crate::schema::{ClientCapabilities, Implementation, Json, LoggingLevel, Revision};

use super::outgoing_requests::ServerRequest;
use super::subscriptions::Subscriptions;
use super::{Phase, PreparedConfig, Server, Session};

/// The state of a legacy session while nothing is in progress, in a form that takes little memory.
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
#[derive(Debug)]
enum Packed<T> {
    Text(Json),
    Value(Arc<T>),
}

impl<T: Serialize + DeserializeOwned + PartialEq> Packed<T> {
    fn new(value: Arc<T>) -> Self {
        let text = Json::encode(&*value).ok();
        match text.filter(|text| text.decode::<T>().is_ok_and(|decoded| decoded == *value)) {
            Some(text) => Self::Text(text),
            None => Self::Value(value),
        }
    }

    /// The value. Its text has been decoded before, so `other` is never needed.
    fn unpack(&self, other: impl FnOnce() -> T) -> Arc<T> {
        match self {
            Self::Text(text) => Arc::new(text.decode().unwrap_or_else(|_| other())),
            Self::Value(value) => value.clone(),
        }
    }
}

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
        let session = connection.session.take_if(|session| is_idle && !session.stateless)?;
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

#[cfg(test)]
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
