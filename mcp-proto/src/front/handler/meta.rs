//! The metadata of a request.

use super::context::Context;
use crate::schema::{Meta, TraceContext};

impl<S> Context<S> {
    /// The `_meta` of the request, in either era: the protocol's own keys and those of applications. It is empty if the
    /// request has none.
    ///
    /// The values are the client's claims. The accessors of [`Meta`] return `None` for a value of the wrong type.
    ///
    /// ```
    /// use mcp_proto::front::Context;
    ///
    /// async fn report(cx: Context) -> String {
    ///     let shard: Option<u32> = cx.meta().get("com.example/shard").and_then(|shard| shard.decode().ok());
    ///     match cx.meta().trace_context() {
    ///         Some(trace) => format!("shard {shard:?} in trace {}", trace.trace_id()),
    ///         None => format!("shard {shard:?}"),
    ///     }
    /// }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
    pub fn meta(&self) -> &Meta {
        self.inbound_request().state.meta()
    }

    /// The client's trace context, if the request has a valid one: data that the client claims, whose flags must decide
    /// nothing. To pass it on to another server, give it to
    /// [`Request::trace_context`](crate::front::Request::trace_context).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.meta().trace_context()
    }
}
