//! Extensions that the client of a request declares.

use super::context::Context;
use crate::front::handler_error::HandlerError;
use crate::peer::server::missing_capabilities;
use crate::rpc::{ErrorObject, code};
use crate::schema::{ClientCapabilities, Era, Json};

impl<S> Context<S> {
    /// The settings of an extension, if the client declares it with this request. Without it the answer may use only
    /// the core protocol.
    pub fn extension(&self, identifier: &str) -> Option<&Json> {
        //= C2.9 "only use an extension that both sides declare, else revert to core"
        self.client_capabilities().extension(identifier)
    }

    /// The settings of an extension that the request requires.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    ///
    /// async fn chart(cx: Context) -> Result<&'static str, HandlerError> {
    ///     cx.require_extension("com.example/charts")?;
    ///     Ok("…")
    /// }
    /// ```
    ///
    /// # Errors
    /// The error that names the extension which the client must declare.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    pub fn require_extension(&self, identifier: &str) -> Result<&Json, HandlerError> {
        //= C2.9 "or reject with an error"
        self.extension(identifier).ok_or_else(|| {
            let error = match self.era() {
                Era::Modern => {
                    let needed = ClientCapabilities::new().with_extension(identifier, Json::empty_object());
                    missing_capabilities(needed.unwrap_or_default())
                }
                Era::Legacy => {
                    let message =
                        alloc::format!("the client must declare the extension {identifier} (2026-07-28)");
                    ErrorObject::new(code::INVALID_REQUEST, message)
                }
            };
            error.into()
        })
    }
}
