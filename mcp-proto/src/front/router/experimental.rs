//! Experimental capabilities of a server.

use alloc::string::String;

use super::{HandlerMode, Router, RouterError};
use crate::schema::Json;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Declares an experimental capability with its settings: a JSON object. Clients read it in
    /// [`ServerCapabilities::experimental`](crate::schema::ServerCapabilities::experimental); handlers read those of
    /// their client in [`Context::experimental`](super::Context::experimental).
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use serde_json::json;
    ///
    /// let router = Router::new("plotter", "1.0.0").experimental("charts", json!({ "formats": ["svg"] }));
    /// assert!(router.check().is_ok());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities-experimental>
    #[must_use]
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        let (name, settings) = (name.into(), settings.into());
        if !settings.is_object() {
            self.record_error(RouterError::Experimental { name: name.clone() });
        }
        self.contents.capabilities.experimental.get_or_insert_default().insert(name, settings);
        self
    }
}
