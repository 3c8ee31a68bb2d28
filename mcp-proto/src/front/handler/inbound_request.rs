//! The client's request, independent of the state of its handler.

use alloc::string::String;
use alloc::sync::Arc;

use super::caller::Caller;
use super::connection::HandlerConnection;
use super::request_state::RequestState;
use crate::UnixTime;
use crate::front::entropy::Entropy;
use crate::peer::server::RequestContext;
use crate::peer::{InboundId, Principal};
use crate::quota::QuotaOwner;
use crate::schema::{ClientCapabilities, Revision};

/// A request that a handler answers: its capabilities, caller and connection.
pub(in crate::front) struct InboundRequest {
    pub(in crate::front) connection: Arc<dyn HandlerConnection>,
    pub(in crate::front) id: InboundId,
    pub(in crate::front) context: RequestContext,
    pub(in crate::front) caller: Caller,
    pub(in crate::front) entropy: Arc<dyn Entropy>,
    pub(in crate::front) state: Arc<RequestState>,
}

impl InboundRequest {
    pub(in crate::front) fn revision(&self) -> Revision {
        self.context.revision
    }

    pub(in crate::front) fn client_capabilities(&self) -> &ClientCapabilities {
        &self.context.client_capabilities
    }

    pub(in crate::front) fn principal(&self) -> Option<&Principal> {
        self.context.principal.as_ref()
    }

    /// The owner whose quota the request uses.
    pub(in crate::front) fn owner(&self) -> QuotaOwner {
        self.principal().map_or_else(|| self.caller.owner.clone(), |principal| principal.clone().into())
    }

    /// The time of day.
    pub(super) fn unix_time(&self) -> UnixTime {
        self.connection.unix_time()
    }

    /// An unguessable id in letters and digits.
    pub(in crate::front) fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
    }

    /// Schedules the handler to be polled again, after another task changed the state that it waits for.
    pub(super) fn wake_handler(&self) {
        self.connection.wake_handler(self.id);
    }
}
