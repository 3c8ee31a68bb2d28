//! A server and a client on the official Rust SDK, and the batches of calls that all clients make.

use std::future::Future;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::*;
use rmcp::service::{RunningService, SubscriptionContext, SubscriptionSink};
use rmcp::transport::IntoTransport;
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, ServerHandler, tool, tool_handler,
    tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pair::MESSAGE;

/// Requests of a run: enough that entering the executor counts for little.
pub(crate) const BATCH: u32 = 64;
/// Requests in flight at the same time in the rows that say so.
pub(crate) const IN_FLIGHT: u32 = 64;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    pub(crate) fn policy(self) -> mcp_proto::peer::client::EraPolicy {
        match self {
            Self::Legacy => mcp_proto::peer::client::EraPolicy::LegacyOnly,
            Self::Modern => mcp_proto::peer::client::EraPolicy::ModernOnly,
        }
    }

    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
        }
    }
}

/// How many requests wait for their answers at the same time.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Load {
    Sequential,
    Concurrent,
}

impl Load {
    pub(crate) const BOTH: [Self; 2] = [Self::Sequential, Self::Concurrent];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "one at a time",
            Self::Concurrent => "64 in flight",
        }
    }

    /// The number of requests of a run.
    pub(crate) fn requests(self) -> u32 {
        match self {
            Self::Sequential => BATCH,
            Self::Concurrent => 4 * IN_FLIGHT,
        }
    }

    /// Makes the calls of a run.
    pub(crate) async fn run<F: Future<Output = ()>>(self, call: impl Fn() -> F) {
        match self {
            Self::Sequential => {
                for _ in 0..self.requests() {
                    call().await;
                }
            }
            Self::Concurrent => {
                let lane = async || {
                    for _ in 0..self.requests() / IN_FLIGHT {
                        call().await;
                    }
                };
                join_all((0..IN_FLIGHT).map(|_| lane())).await;
            }
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Echo {
    pub(crate) message: String,
}

impl Echo {
    pub(crate) fn new() -> Self {
        Self { message: MESSAGE.into() }
    }
}

/// The server. Its tools are collected once: without the attribute below, rmcp collects them for each call.
#[derive(Clone)]
pub(crate) struct Server {
    tool_router: Arc<ToolRouter<Self>>,
    pub(crate) subscribers: Arc<Mutex<Vec<SubscriptionSink>>>,
}

#[tool_router]
impl Server {
    pub(crate) fn new() -> Self {
        Self { tool_router: Arc::new(Self::tool_router()), subscribers: Arc::default() }
    }

    #[tool(description = "Returns its message")]
    fn echo(&self, Parameters(Echo { message }): Parameters<Echo>) -> String {
        message
    }

    #[tool(description = "Never returns")]
    async fn wait(&self) -> String {
        std::future::pending().await
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("echo", "1.0.0"))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.subscribers.lock().unwrap().push(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }
}

/// A connected client.
pub(crate) struct Client(RunningService<RoleClient, ()>);

impl Client {
    pub(crate) async fn connect<T, E, A>(transport: T, era: Era) -> Self
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        Self(().serve_with_lifecycle(transport, era.lifecycle()).await.expect("rmcp connects"))
    }

    pub(crate) async fn call(&self) {
        let serde_json::Value::Object(arguments) = serde_json::json!({ "message": MESSAGE }) else {
            unreachable!("it is an object")
        };
        let call = CallToolRequestParams::new("echo").with_arguments(arguments);
        let result = self.0.call_tool(call).await.expect("an answer");
        let text = result.content.first().and_then(ContentBlock::as_text).expect("a text");
        assert_eq!(text.text, MESSAGE);
    }
}

/// An executor for one thread, as rmcp needs it.
pub(crate) fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
