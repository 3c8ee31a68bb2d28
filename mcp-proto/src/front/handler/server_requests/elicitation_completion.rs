//! The notification that the user has finished with a web page.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::front::handler::connection::HandlerConnection;

/// Notifies a client that the user is done with a web page (2025-11-25).
///
/// See [`InputFuture::completion`](super::InputFuture::completion).
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
#[derive(Clone)]
pub struct ElicitationCompletion {
    pub(super) connection: Arc<dyn HandlerConnection>,
    pub(super) id: String,
}

impl ElicitationCompletion {
    /// The random id by which the client knows the page, and the server of the page finds this handle.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends the notification. Returns whether the client is still connected.
    pub fn notify(&self) -> bool {
        //= S9.7 "elicitation/complete only to the originator and with the id"
        self.connection.elicitation_complete(&self.id)
    }
}

impl fmt::Debug for ElicitationCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElicitationCompletion").field("id", &self.id).finish_non_exhaustive()
    }
}
