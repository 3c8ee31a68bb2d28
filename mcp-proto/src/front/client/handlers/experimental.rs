//! Experimental capabilities of a client.

use alloc::string::String;

use super::ClientHandlers;
use crate::front::HandlerMode;
use crate::schema::Json;

impl<M: HandlerMode> ClientHandlers<M> {
    /// Declares an experimental capability with its settings: an object. Servers read it with
    /// [`ClientCapabilities::experimental`](crate::schema::ClientCapabilities::experimental).
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    /// use serde_json::json;
    ///
    /// let handlers = ClientHandlers::new().experimental("charts", json!({ "formats": ["svg"] }));
    /// assert!(handlers.capabilities().experimental("charts").is_some());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities-experimental>
    #[must_use]
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        self.capabilities.experimental.get_or_insert_default().insert(name, settings);
        self
    }
}
