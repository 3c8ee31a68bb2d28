//! Experimental capabilities: names outside the protocol, which client and server agree on between themselves.

use alloc::string::String;

use super::json::Json;
use super::{ClientCapabilities, ServerCapabilities};

impl ClientCapabilities {
    /// Declares an experimental capability with its settings: an object.
    ///
    /// ```
    /// use mcp_proto::schema::{ClientCapabilities, Json};
    ///
    /// let declared = ClientCapabilities::new().with_experimental("charts", Json::empty_object());
    /// assert!(declared.experimental("charts").is_some());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities-experimental>
    #[must_use]
    pub fn with_experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        self.experimental.get_or_insert_default().insert(name, settings);
        self
    }

    /// The settings of an experimental capability that the client declares.
    pub fn experimental(&self, name: &str) -> Option<&Json> {
        self.experimental.as_ref()?.get(name)
    }
}

impl ServerCapabilities {
    /// Declares an experimental capability with its settings: an object.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities-experimental>
    #[must_use]
    pub fn with_experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        self.experimental.get_or_insert_default().insert(name, settings);
        self
    }

    /// The settings of an experimental capability that the server declares.
    ///
    /// ```
    /// # use mcp_proto::front::Client;
    /// # fn example(client: &Client) {
    /// if let Some(server) = client.server()
    ///     && let Some(declared) = &server.capabilities
    ///     && declared.experimental("charts").is_some()
    /// {
    ///     // …
    /// }
    /// # }
    /// ```
    pub fn experimental(&self, name: &str) -> Option<&Json> {
        self.experimental.as_ref()?.get(name)
    }
}
