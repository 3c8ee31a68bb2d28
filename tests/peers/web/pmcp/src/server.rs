//! A server from `Request` to `Response`. pmcp has the messages; the HTTP around them is this program's, with no checks.

use pmcp::shared::TransportMessage;
use pmcp::shared::transport::{parse_message, serialize_message};
use pmcp::{WasmMcpServer, WasmTypedTool};
use serde::Deserialize;
use serde_json::json;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, Response, ResponseInit};

use crate::error;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// The server.
#[wasm_bindgen]
pub struct Server(WasmMcpServer);

#[wasm_bindgen]
impl Server {
    /// Starts the server. It does not look at the host.
    #[wasm_bindgen(constructor)]
    pub fn new(_host: &str) -> Self {
        let number = json!({ "type": "number" });
        let numbers =
            json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
        let add = |Add { a, b }| Ok(json!((a + b).to_string()));
        let tool = WasmTypedTool::new_with_schema("add", numbers, add).with_description("Adds two numbers");
        Self(WasmMcpServer::builder().name("worker").version("1.0.0").tool("add", tool).build())
    }

    /// Answers a request.
    pub async fn fetch(&self, request: Request) -> Result<Response, JsValue> {
        let body = JsFuture::from(request.text()?).await?.as_string().unwrap_or_default();
        let init = ResponseInit::new();
        let (id, request) = match parse_message(body.as_bytes()) {
            Ok(TransportMessage::Request { id, request }) => (id, request),
            other => {
                init.set_status(if other.is_ok() { 202 } else { 400 });
                return Response::new_with_opt_str_and_init(None, &init);
            }
        };
        let response = TransportMessage::Response(self.0.handle_request(id, request).await);
        let response = String::from_utf8(serialize_message(&response).map_err(error)?).map_err(error)?;
        let headers = js_sys::Object::new();
        js_sys::Reflect::set(&headers, &"content-type".into(), &"application/json".into())?;
        init.set_headers(&headers);
        Response::new_with_opt_str_and_init(Some(&response), &init)
    }
}
