//! A server of a worker platform.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::pending;
use mcp_proto::front::http::HttpServer;
use mcp_proto::front::{Context, LocalHandlers, NoArguments, Progress, Router};
use mcp_proto::schema::Tool;
use mcp_proto::transport::http::server::{Hosts, HttpServerConfig};
use serde::Deserialize;
use serde_json::json;
use wasm_bindgen::prelude::*;
use web::server::{answer, serve};
use web::sleep;
use web_sys::{Request, Response};

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// A call that is running.
struct Running<'a>(&'a Cell<u32>);

impl<'a> Running<'a> {
    fn new(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn router() -> Router<LocalHandlers> {
    let number = json!({ "type": "number" });
    let numbers =
        json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
    let nothing = json!({ "type": "object" });
    let waiting = Rc::new(Cell::new(0));
    let counted = waiting.clone();
    Router::local("worker", "1.0.0")
        .tool_with(Tool::new("add", "Adds two numbers", numbers), async |Add { a, b }, _| (a + b).to_string())
        .tool_with(
            Tool::new("steps", "Reports its steps", nothing.clone()),
            async |NoArguments {}, cx: Context| {
                for step in 1..=3 {
                    cx.progress(Progress::new(step).total(3));
                    sleep(Duration::from_millis(5)).await;
                }
                "done"
            },
        )
        .tool_with(Tool::new("wait", "Waits to be cancelled", nothing.clone()), move |NoArguments {}, _| {
            let waiting = waiting.clone();
            async move {
                let _running = Running::new(&waiting);
                pending::<String>().await
            }
        })
        .tool_with(Tool::new("waiting", "Counts the calls that wait", nothing), move |NoArguments {}, _| {
            let count = counted.get().to_string();
            async move { count }
        })
}

/// The server.
#[wasm_bindgen]
pub struct Server(HttpServer<LocalHandlers>);

#[wasm_bindgen]
impl Server {
    /// Starts the server of this host, such as `mcp.example`.
    #[wasm_bindgen(constructor)]
    pub fn new(host: &str) -> Self {
        let router = router();
        let mut config = HttpServerConfig::new(router.config());
        config.hosts = Hosts::Only(vec![host.to_owned()]);
        Self(serve(router, config))
    }

    /// Answers a request.
    pub async fn fetch(&self, request: Request) -> Result<Response, JsValue> {
        answer(&self.0, request).await
    }
}
