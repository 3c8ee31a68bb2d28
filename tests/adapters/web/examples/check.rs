//! A client and a server that check what every transport must keep.

use mcp_proto::Implementation;
use mcp_proto::front::SendHandlers;
use mcp_proto::front::http::HttpServer;
use mcp_proto::peer::client::{ClientConfig, EraPolicy};
use mcp_proto::testing::{check_transport, check_transport_failure, transport_router};
use mcp_proto::transport::http::server::{Hosts, HttpServerConfig};
use wasm_bindgen::prelude::*;
use web::client::connect;
use web::server::{answer, serve};
use web::sleep;
use web_sys::{Request, Response};

#[wasm_bindgen]
extern "C" {
    // Of Node.
    #[wasm_bindgen(js_namespace = process)]
    fn exit(code: i32);
}

fn error(error: impl std::fmt::Display) -> JsValue {
    js_sys::Error::new(&error.to_string()).into()
}

/// Checks the transport to the server at this URL; with `fails`, what happens when the server fails.
#[wasm_bindgen]
pub async fn check(url: String, legacy: bool, fails: bool) -> Result<(), JsValue> {
    let mut config = ClientConfig::new(Implementation::new("web", "1.0.0"));
    config.era_policy = if legacy { EraPolicy::LegacyOnly } else { EraPolicy::ModernOnly };
    let client = connect(config, &url).map_err(error)?;
    if fails {
        check_transport_failure(&client, sleep).await.map_err(error)
    } else {
        check_transport(&client, sleep).await.map_err(error)
    }
}

/// A server that has the tools of the check.
#[wasm_bindgen]
pub struct Server(HttpServer<SendHandlers>);

#[wasm_bindgen]
impl Server {
    /// Starts the server of this host. Its tool `fail` ends the process, as a crash would.
    #[wasm_bindgen(constructor)]
    pub fn new(host: &str) -> Self {
        let router = transport_router(|| exit(1));
        let mut config = HttpServerConfig::new(router.config());
        config.hosts = Hosts::Only(vec![host.to_owned()]);
        Self(serve(router, config))
    }

    /// Answers a request.
    pub async fn fetch(&self, request: Request) -> Result<Response, JsValue> {
        answer(&self.0, request).await
    }
}
