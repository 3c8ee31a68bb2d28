//! Experimental capabilities that the client of a request declares.

use super::context::Context;
use crate::schema::Json;

impl<S> Context<S> {
    /// The settings of an experimental capability, if the client declares it with this request or with its session. The
    /// server declares its own with [`Router::experimental`](crate::front::Router::experimental).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities-experimental>
    pub fn experimental(&self, name: &str) -> Option<&Json> {
        self.client_capabilities().experimental(name)
    }
}
