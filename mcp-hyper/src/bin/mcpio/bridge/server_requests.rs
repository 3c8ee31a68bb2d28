//! The server's requests to the application: sampling, elicitation, roots, and those that the protocol does not define.

use std::sync::Arc;

use mcp_proto::front::{ClientHandlers, CustomRequest, HandlerError};
use mcp_proto::rpc::{ErrorObject, Id, code};
use mcp_proto::schema::{
    ClientCapabilities, ClientProgress, CreateMessage, CustomParams, CustomResult, Elicit, ListRoots,
    Method as _, ProgressParams, meta,
};
use smol::channel::{self, Sender};

use super::{Bridge, handler_error};

/// The requests that an application of 2026-07-28 takes in the results of its own.
const INPUT: [&str; 3] = [CreateMessage::NAME, Elicit::NAME, ListRoots::NAME];

/// A request of the server that waits for the application's answer.
pub(super) struct QueuedRequest {
    pub(super) method: String,
    pub(super) params: CustomParams,
    /// Dropped without an answer if the application gives none.
    pub(super) answer: Sender<CustomResult>,
}

/// The handlers of the server's requests. The client declares what the application does.
pub(super) fn handlers(bridge: &Arc<Bridge>, declared: ClientCapabilities) -> ClientHandlers {
    let mut handlers = ClientHandlers::new();
    for method in INPUT {
        let bridge = bridge.clone();
        handlers = handlers.custom(method, move |params: CustomParams, _| {
            ask(bridge.clone(), CustomRequestParts { method: method.to_owned(), params })
        });
    }
    let bridge = bridge.clone();
    let fallback = move |CustomRequest { method, params, .. }: CustomRequest, _| {
        ask(bridge.clone(), CustomRequestParts { method, params })
    };
    handlers.fallback(fallback).declare(|capabilities| *capabilities = declared)
}

/// A request by its name.
struct CustomRequestParts {
    method: String,
    params: CustomParams,
}

async fn ask(bridge: Arc<Bridge>, request: CustomRequestParts) -> Result<CustomResult, HandlerError> {
    if bridge.began_modern && !bridge.session.is_initialized() {
        return ask_in_result(&bridge, request).await;
    }
    let CustomRequestParts { method, params } = request;
    let token: Option<Id> = params.meta.get(meta::PROGRESS_TOKEN).and_then(|token| token.decode().ok());
    // The server may ask before the application is ready.
    let mut asking = bridge.session.wait().await.request_custom(method, params);
    if let Some(token) = token {
        let (client, _) = bridge.server()?;
        let client = client.clone();
        asking = asking.on_progress(move |report| {
            // A report that cannot be sent is lost, as any notification.
            let _ =
                client.notify::<ClientProgress>(&ProgressParams { progress_token: token.clone(), ..report });
        });
    }
    asking.await.map_err(handler_error)
}

/// Asks in the result of the next request of the application that may ask for input.
async fn ask_in_result(bridge: &Bridge, request: CustomRequestParts) -> Result<CustomResult, HandlerError> {
    let CustomRequestParts { method, params } = request;
    if !INPUT.contains(&&*method) {
        let message = format!("clients of 2026-07-28 take no request {method}");
        return Err(ErrorObject::new(code::METHOD_NOT_FOUND, message).into());
    }
    let (answer, answered) = channel::bounded(1);
    let _ = bridge.server_requests.0.send(QueuedRequest { method, params, answer }).await;
    answered.recv().await.map_err(|_| HandlerError::new("the client has not answered"))
}
