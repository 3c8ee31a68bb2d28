//! The question before each call of a tool.

use std::future::Future;
use std::sync::Arc;

use futures_lite::future::Boxed;
use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, MessageDirection, Next};
use mcp_proto::schema::{CallTool, CallToolParams, Json, Method as _};

/// A call of a tool that the host is about to make.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The name of the server in the configuration.
    pub server: String,
    /// The name of the tool, as the server lists it.
    pub tool: String,
    /// The arguments: a JSON object, or none.
    pub arguments: Option<Json>,
}

/// What becomes of a call: see [`HostOptions::on_tool_call`](super::HostOptions::on_tool_call).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum ToolCallDecision {
    /// The call is made.
    Allow,
    /// The call is not made, for this reason.
    Deny(String),
    /// The call is made with these arguments: a JSON object.
    Edit(Json),
}

/// The layer that asks.
pub(super) struct ToolCallLayer(Ask);

type Ask = Arc<dyn Fn(ToolCall) -> Boxed<ToolCallDecision> + Send + Sync>;

impl ToolCallLayer {
    pub(super) fn new<F>(ask: impl Fn(ToolCall) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ToolCallDecision> + Send + 'static,
    {
        Self(Arc::new(move |call| Box::pin(ask(call))))
    }
}

impl Layer for ToolCallLayer {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        if request.method() != CallTool::NAME || request.direction() != MessageDirection::Sent {
            return next.run(request);
        }
        let ask = self.0.clone();
        Box::pin(async move {
            let mut params = match request.decode::<CallToolParams>() {
                Ok(params) => params,
                Err(error) => return error.into(),
            };
            let (server, tool) = (request.server_name().unwrap_or_default().to_owned(), params.name.clone());
            match ask(ToolCall { server, tool, arguments: params.arguments.clone() }).await {
                ToolCallDecision::Allow => {}
                ToolCallDecision::Deny(reason) => return request.deny(reason),
                ToolCallDecision::Edit(arguments) => {
                    params.arguments = Some(arguments);
                    if let Err(error) = request.set_params(&params) {
                        return error.into();
                    }
                }
            }
            next.run(request).await
        })
    }
}
