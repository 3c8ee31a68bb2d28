//! A client over `fetch`. The transport is this program's: that of rmcp, over reqwest, does not compile for this target.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::{Arc, OnceLock};

use js_sys::JSON;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ClientRequest, Implementation, ListToolsRequest, ServerResult,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{Peer, ServiceExt};
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, yield_now};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{Headers, RequestInit, Response};

use crate::error;

#[wasm_bindgen]
extern "C" {
    fn fetch(url: &str, init: &RequestInit) -> js_sys::Promise;
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &js_sys::Function);
}

type Answers = mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>;
type Session = Arc<OnceLock<String>>;

/// Sends one message with `fetch`, and passes on the messages of the answer: JSON, or the events of a stream that ends.
async fn post(url: String, message: String, session: Session, answers: Answers) -> Result<(), JsValue> {
    let headers = Headers::new()?;
    headers.append("content-type", "application/json")?;
    headers.append("accept", "application/json, text/event-stream")?;
    if let Some(session) = session.get() {
        headers.append("mcp-session-id", session)?;
    }
    let init = RequestInit::new();
    init.set_method("POST");
    init.set_headers(&headers);
    init.set_body(&message.into());
    let response: Response = JsFuture::from(fetch(&url, &init)).await?.unchecked_into();
    if let Some(id) = response.headers().get("mcp-session-id")? {
        let _ = session.set(id);
    }
    let body = JsFuture::from(response.text()?).await?.as_string().unwrap_or_default();
    let is_stream = response.headers().get("content-type")?.is_some_and(|kind| kind.contains("event-stream"));
    let parts = body.lines().filter_map(|line| line.strip_prefix("data:"));
    let messages: Vec<_> = if is_stream { parts.collect() } else { vec![&body[..]] };
    for message in messages.into_iter().filter_map(|message| serde_json::from_str(message).ok()) {
        let _ = answers.send(message);
    }
    Ok(())
}

/// One `fetch` for each message, without resumption.
struct Fetch {
    url: String,
    session: Session,
    answers: Answers,
    inbox: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
}

impl Transport<RoleClient> for Fetch {
    type Error = Infallible;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let (url, session, answers) = (self.url.clone(), self.session.clone(), self.answers.clone());
        if let Ok(message) = serde_json::to_string(&message) {
            spawn_local(async move { drop(post(url, message, session, answers).await) });
        }
        ready(Ok(()))
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inbox.recv()
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A value of the protocol as one of JavaScript.
fn value(value: &impl Serialize) -> Result<JsValue, JsValue> {
    JSON::parse(&serde_json::to_string(value).map_err(error)?)
}

/// A connection to a server.
#[wasm_bindgen]
pub struct Connection(Peer<RoleClient>);

#[wasm_bindgen]
impl Connection {
    /// Connects to a URL.
    pub async fn connect(url: String) -> Result<Self, JsValue> {
        let (answers, inbox) = mpsc::unbounded_channel();
        let transport = Fetch { url, session: Session::default(), answers, inbox };
        let info = ClientConfig::new(Default::default(), Implementation::new("web", "1.0.0"));
        let (started, connected) = oneshot::channel();
        let runtime = Builder::new_current_thread().build().map_err(error)?;
        let tasks = LocalSet::new();
        tasks.spawn_local(async move {
            match info.serve(transport).await {
                Ok(running) => {
                    let _ = started.send(Ok(running.peer().clone()));
                    let _ = running.waiting().await;
                }
                Err(error) => drop(started.send(Err(error.to_string()))),
            }
        });
        // tokio cannot wait for JavaScript: it runs what is ready, again and again.
        spawn_local(async move {
            loop {
                runtime.block_on(tasks.run_until(async {
                    for _ in 0..16 {
                        yield_now().await;
                    }
                }));
                let _ = JsFuture::from(js_sys::Promise::new(&mut |fire, _| set_timeout(&fire))).await;
            }
        });
        connected.await.map_err(error)?.map(Self).map_err(error)
    }

    /// The server's tools. `Peer::list_tools` asks std for the time, which panics on this target.
    pub async fn tools(&self) -> Result<JsValue, JsValue> {
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
        match self.0.send_request(request).await.map_err(error)? {
            ServerResult::ListToolsResult(result) => value(&result.tools),
            _ => Err(error("no list of tools")),
        }
    }

    /// Calls a tool.
    pub async fn call(&self, tool: String, arguments: JsValue) -> Result<JsValue, JsValue> {
        let arguments = serde_json::from_str(&String::from(JSON::stringify(&arguments)?)).map_err(error)?;
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        value(&self.0.call_tool(params).await.map_err(error)?)
    }
}
