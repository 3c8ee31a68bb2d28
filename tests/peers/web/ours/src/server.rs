//! A server from `Request` to `Response`.

use mcp_proto::front::http::HttpServer;
use mcp_proto::front::{LocalHandlers, Router};
use mcp_proto::schema::Tool;
use mcp_proto::transport::http::server::{Hosts, HttpServerConfig};
use serde::Deserialize;
use serde_json::json;
use wasm_bindgen::prelude::*;
use web_sys::{Request, Response};

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// The server.
#[wasm_bindgen]
pub struct Server(HttpServer<LocalHandlers>);

#[wasm_bindgen]
impl Server {
    /// Starts the server of this host.
    #[wasm_bindgen(constructor)]
    pub fn new(host: &str) -> Self {
        let number = json!({ "type": "number" });
        let numbers =
            json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
        let tool = Tool::new("add", "Adds two numbers", numbers);
        let router =
            Router::local("worker", "1.0.0").tool_with(tool, async |Add { a, b }, _| (a + b).to_string());
        let mut config = HttpServerConfig::new(router.config());
        config.hosts = Hosts::Only(vec![host.to_owned()]);
        Self(web::server::serve(router, config))
    }

    /// Answers a request.
    pub async fn fetch(&self, request: Request) -> Result<Response, JsValue> {
        web::server::answer(&self.0, request).await
    }
}
