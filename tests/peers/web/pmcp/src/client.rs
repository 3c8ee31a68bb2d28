//! A client over `fetch`.

use js_sys::JSON;
use pmcp::shared::{WasmHttpConfig, WasmHttpTransport};
use pmcp::{Client, ClientCapabilities, Implementation};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::error;

/// A value of the protocol as one of JavaScript.
fn value(value: &impl Serialize) -> Result<JsValue, JsValue> {
    JSON::parse(&serde_json::to_string(value).map_err(error)?)
}

/// A connection to a server.
#[wasm_bindgen]
pub struct Connection(Client<WasmHttpTransport>);

#[wasm_bindgen]
impl Connection {
    /// Connects to a URL.
    pub async fn connect(url: String) -> Result<Self, JsValue> {
        let transport = WasmHttpTransport::new(WasmHttpConfig { url, extra_headers: Vec::new() });
        let mut client = Client::with_info(transport, Implementation::new("web", "1.0.0"));
        client.initialize(ClientCapabilities::default()).await.map_err(error)?;
        Ok(Self(client))
    }

    /// The server's tools.
    pub async fn tools(&self) -> Result<JsValue, JsValue> {
        value(&self.0.list_tools(None).await.map_err(error)?.tools)
    }

    /// Calls a tool.
    pub async fn call(&self, tool: String, arguments: JsValue) -> Result<JsValue, JsValue> {
        let arguments = serde_json::from_str(&String::from(JSON::stringify(&arguments)?)).map_err(error)?;
        value(&self.0.call_tool(tool, arguments).await.map_err(error)?)
    }
}
