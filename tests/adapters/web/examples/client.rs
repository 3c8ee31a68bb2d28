//! A client in a web page.

use futures_lite::future::{or, pending};
use js_sys::{Function, JSON};
use mcp_proto::Implementation;
use mcp_proto::front::Client;
use mcp_proto::peer::client::{ClientConfig, EraPolicy};
use mcp_proto::schema::Json;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use web::aborted;
use web::client::connect;
use web_sys::AbortSignal;

fn error(error: impl std::fmt::Display) -> JsValue {
    js_sys::Error::new(&error.to_string()).into()
}

/// A value of the protocol as one of JavaScript.
fn value(value: &(impl Serialize + ?Sized)) -> Result<JsValue, JsValue> {
    JSON::parse(&serde_json::to_string(value).map_err(error)?)
}

/// A connection to a server.
#[wasm_bindgen]
pub struct Connection(Client);

#[wasm_bindgen]
impl Connection {
    /// Connects to a URL, by the newest revision that the server has, or by a session if `legacy`.
    #[wasm_bindgen(constructor)]
    pub fn new(url: &str, legacy: bool) -> Result<Self, JsValue> {
        let mut config = ClientConfig::new(Implementation::new("web", "1.0.0"));
        config.era_policy = if legacy { EraPolicy::LegacyOnly } else { EraPolicy::Auto };
        connect(config, url).map(Self).map_err(error)
    }

    /// The server's tools.
    pub async fn tools(&self) -> Result<JsValue, JsValue> {
        value(&*self.0.list_tools().await.map_err(error)?)
    }

    /// Calls a tool. `on_progress` is called with each report; `signal` cancels the call.
    pub async fn call(
        &self,
        tool: String,
        arguments: JsValue,
        on_progress: Option<Function>,
        signal: Option<AbortSignal>,
    ) -> Result<JsValue, JsValue> {
        let arguments = String::from(JSON::stringify(&arguments)?);
        let arguments = Json::new(arguments).map_err(error)?;
        let mut call = self.0.call_tool(tool, arguments).start().map_err(error)?;
        let cancelled = async {
            let Some(signal) = signal else { return pending().await };
            aborted(&signal).await;
            Err(signal.reason())
        };
        let called = async {
            while let Some(progress) = call.progress().await {
                if let Some(follow) = &on_progress {
                    follow.call1(&JsValue::NULL, &value(&progress)?)?;
                }
            }
            value(&(&mut call).await.map_err(error)?)
        };
        or(called, cancelled).await
    }

    /// Closes the connection.
    pub async fn close(&self) {
        self.0.close().await;
    }
}
