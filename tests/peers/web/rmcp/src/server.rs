//! A server from `Request` to `Response`, on rmcp's HTTP service without sessions.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, Response, ResponseInit};

use crate::error;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

struct Calculator;

impl ServerHandler for Calculator {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("worker", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({ "type": "number" });
        let numbers =
            json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
        let numbers: JsonObject = numbers.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("add", "Adds two numbers", numbers)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != "add" {
            return Err(ErrorData::invalid_params("unknown tool", None));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let Add { a, b } = serde_json::from_value(arguments)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text((a + b).to_string())]).into())
    }
}

/// The server.
#[wasm_bindgen]
pub struct Server(StreamableHttpService<Calculator, NeverSessionManager>);

#[wasm_bindgen]
impl Server {
    /// Starts the server of this host.
    #[wasm_bindgen(constructor)]
    pub fn new(host: &str) -> Self {
        let mut config = StreamableHttpServerConfig::default().with_allowed_hosts([host]);
        config.sse_keep_alive = None;
        config.legacy_session_mode = false;
        config.json_response = true;
        Self(StreamableHttpService::new(|| Ok(Calculator), Arc::new(NeverSessionManager::default()), config))
    }

    /// Answers a request. The runtime blocks until then: a handler cannot wait for JavaScript. It ends with the answer, and looks
    /// for that after each task: the service would then ask for the time, which panics on this target.
    pub async fn fetch(&self, request: Request) -> Result<Response, JsValue> {
        let url = web_sys::Url::new(&request.url())?;
        let mut builder = http::Request::builder().method(&request.method()[..]).uri(url.pathname());
        builder = builder.header("host", url.host());
        for pair in js_sys::try_iter(&request.headers())?.into_iter().flatten().flatten() {
            let pair: js_sys::Array = pair.unchecked_into();
            if let Some((name, value)) = pair.get(0).as_string().zip(pair.get(1).as_string())
                && name != "host"
            {
                builder = builder.header(name, value);
            }
        }
        let body = JsFuture::from(request.text()?).await?.as_string().unwrap_or_default();
        let request = builder.body(Full::new(body.into_bytes().into())).map_err(error)?;
        let runtime = Builder::new_current_thread().event_interval(1).build().map_err(error)?;
        let (head, body) = runtime.block_on(async {
            let (head, body) = self.0.handle::<Full<bytes::Bytes>>(request).await.into_parts();
            (head, body.collect().await.map(|body| body.to_bytes()))
        });
        let headers = web_sys::Headers::new()?;
        for (name, value) in &head.headers {
            headers.append(name.as_str(), value.to_str().map_err(error)?)?;
        }
        let init = ResponseInit::new();
        init.set_status(head.status.as_u16());
        init.set_headers(&headers);
        let body = String::from_utf8(body.map_err(error)?.to_vec()).map_err(error)?;
        let body = Some(&body[..]).filter(|_| head.status.as_u16() != 202);
        Response::new_with_opt_str_and_init(body, &init)
    }
}
