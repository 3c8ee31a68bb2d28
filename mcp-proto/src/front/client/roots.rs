//! Where the server may work, when that changes.

use super::Client;
use crate::front::Error;
use crate::schema::{Era, RootsListChanged};

impl Client {
    /// Tells the server that the roots have changed; it asks for them again if it cares.
    ///
    /// Modern servers ask each time that they need them, and are told nothing.
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
                self.notify::<RootsListChanged>(
                    &<RootsListChanged as crate::schema::Notification>::Params::new(),
                )
            }
        }
    }
}
