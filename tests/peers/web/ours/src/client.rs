//! A client over `fetch`.

use js_sys::JSON;
use mcp_proto::Implementation;
use mcp_proto::front::Client;
use mcp_proto::peer::client::ClientConfig;
use mcp_proto::schema::Json;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::error;

/// A value of the protocol as one of JavaScript.
fn value(value: &impl Serialize) -> Result<JsValue, JsValue> {
    JSON::parse(&serde_json::to_string(value).map_err(error)?)
}

/// A connection to a server.
#[wasm_bindgen]
pub struct Connection(Client);

#[wasm_bindgen]
impl Connection {
    /// Connects to a URL.
    pub async fn connect(url: String) -> Result<Self, JsValue> {
        let config = ClientConfig::new(Implementation::new("web", "1.0.0"));
        web::client::connect(config, &url).map(Self).map_err(error)
    }

    /// The server's tools.
    pub async fn tools(&self) -> Result<JsValue, JsValue> {
        value(&*self.0.list_tools().await.map_err(error)?)
    }

    /// Calls a tool.
    pub async fn call(&self, tool: String, arguments: JsValue) -> Result<JsValue, JsValue> {
        let arguments = Json::new(String::from(JSON::stringify(&arguments)?)).map_err(error)?;
        value(&self.0.call_tool(tool, arguments).await.map_err(error)?)
    }
}
