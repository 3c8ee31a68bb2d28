//! Servers that are kept running.

use std::fmt;
use std::sync::Arc;

use mcp_proto::host::config::ServerId;

use super::shared::Shared;

/// Keeps a server running until it is dropped: see [`Host::hold`](super::Host::hold).
#[must_use = "the server is no longer held once this is dropped"]
pub struct ServerHold {
    shared: Arc<Shared>,
    server: ServerId,
}

impl ServerHold {
    pub(super) fn new(shared: Arc<Shared>, server: ServerId) -> Self {
        Self { shared, server }
    }
}

impl Drop for ServerHold {
    fn drop(&mut self) {
        self.shared.command(|state, now| state.plane.release(now, self.server));
    }
}

impl fmt::Debug for ServerHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerHold({})", self.server)
    }
}
