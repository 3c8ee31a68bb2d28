//! Notifications of changed roots.

use super::Client;
use crate::front::Error;
use crate::schema::{Era, RootsListChanged};

impl Client {
    /// Notifies the server that the roots have changed, so that it can request them again.
    ///
    /// Modern servers request the roots each time they need them and receive no notification.
    ///
    /// # Errors
    /// If the client does not declare `roots.listChanged`
    /// ([`ClientHandlers::roots_change`](super::ClientHandlers::roots_change)), or is not connected.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes>
    pub fn roots_changed(&self) -> Result<(), Error> {
        match self.server() {
            Some(server) if server.era == Era::Modern => Ok(()),
            _ => {
                //= C11.8 "roots/list_changed sent if `listChanged` declared"
                self.notify::<RootsListChanged>(
                    &<RootsListChanged as crate::schema::Notification>::Params::new(),
                )
            }
        }
    }
}
