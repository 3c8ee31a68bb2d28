//! Log messages of a handler.

use alloc::string::String;

use serde::Serialize;

use super::context::Context;
use crate::schema::{Json, LoggingLevel, LoggingMessageParams};

impl<S> Context<S> {
    /// Logs like [`log`](Self::log) under the name of a logger, which tells the client the part of the server that the
    /// message comes from.
    ///
    /// ```
    /// # use mcp_proto::front::Context;
    /// # use mcp_proto::schema::LoggingLevel;
    /// # fn example(cx: &Context) {
    /// cx.log_as(LoggingLevel::Error, "database", "connection failed");
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log_as(&self, level: LoggingLevel, logger: impl Into<String>, data: impl Serialize) {
        // Data that does not serialize cannot be sent.
        let Ok(data) = Json::encode(&data) else { return };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = Some(logger.into());
        self.send_log(params);
    }
}
