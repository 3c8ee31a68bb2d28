//! A proxy that forwards requests and notifications by their names.

use std::sync::{Arc, Mutex};

use crate::common::front::ClientHarness;
use crate::common::messages::{answer, error, notification, request};
use crate::common::router::ServerHarness;
use mcp_proto::front::{ClientHandlers, CustomRequest, Error, HandlerError, Notification, Router};
use serde_json::json;

/// A proxy between a client and a server, both played by the test. It knows no method.
struct Proxy {
    down: ServerHarness,
    up: ClientHarness,
}

impl Proxy {
    fn new(modern: bool) -> Self {
        type Handle = Arc<Mutex<Option<mcp_proto::front::ServerHandle>>>;
        let down_handle = Handle::default();
        let (to_client, notify_client) = (down_handle.clone(), down_handle.clone());
        let handlers =
            ClientHandlers::new()
                .fallback(move |request: CustomRequest, _| {
                    let handle = to_client.lock().unwrap().clone().unwrap();
                    async move {
                        Ok::<_, HandlerError>(handle.request_custom(request.method, request.params).await?)
                    }
                })
                .notification_fallback(move |notification: Notification, _| {
                    let handle = notify_client.lock().unwrap().clone().unwrap();
                    async move { _ = handle.notify_custom(&notification.method, &notification.params) }
                });
        let up =
            if modern { ClientHarness::modern_with(handlers) } else { ClientHarness::legacy_with(handlers) };
        let (to_server, notify_server) = (up.client.clone(), up.client.clone());
        let router = Router::new("proxy", "1")
            .fallback(move |request: CustomRequest, _| {
                let client = to_server.clone();
                async move {
                    match client.request_custom(request.method, request.params).await {
                        Err(Error::Peer(error)) => Err(HandlerError::from(error)),
                        answered => Ok(answered?),
                    }
                }
            })
            .notification_fallback(move |notification: Notification, _| {
                let client = notify_server.clone();
                async move { _ = client.notify_custom(&notification.method, &notification.params) }
            });
        let down = if modern { ServerHarness::modern(router) } else { ServerHarness::legacy(router) };
        *down_handle.lock().unwrap() = Some(down.handle.clone());
        Self { down, up }
    }
}

#[test]
fn proxy_forwards_unknown_requests_and_notifications_in_both_directions() {
    for modern in [true, false] {
        let Proxy { mut down, mut up } = Proxy::new(modern);
        let id = down.send("com.example/deep", json!({"a": [1, {"b": null}]}));
        let line = up.line();
        assert_eq!(
            (&line["method"], &line["params"]["a"]),
            (&json!("com.example/deep"), &json!([1, {"b": null}]))
        );
        up.answer(&line["id"], json!({"resultType": "complete", "c": 1.50, "_meta": {"com.example/m": "n"}}));
        let answered = down.line();
        assert_eq!((&answered["id"], &answered["result"]["c"]), (&json!(id), &json!(1.5)));
        assert_eq!(answered["result"]["_meta"]["com.example/m"], "n");

        let id = down.send("com.example/unknown", json!({}));
        let line = up.line();
        up.receive(&[error(&line["id"], -32601)]);
        let answered = down.line();
        assert_eq!((&answered["id"], &answered["error"]["code"]), (&json!(id), &json!(-32601)));

        down.notify("com.example/note", json!({"n": 1}));
        assert_eq!(up.line(), notification("com.example/note", json!({"n": 1})));
        if !modern {
            up.receive(&[notification("com.example/back", json!({"n": 2}))]);
            assert_eq!(down.line(), notification("com.example/back", json!({"n": 2})));
            up.receive(&[request(&json!("x"), "com.example/ask", json!({"q": "?"}))]);
            let line = down.line();
            assert_eq!((&line["method"], &line["params"]["q"]), (&json!("com.example/ask"), &json!("?")));
            down.send_message(&answer(&line["id"], json!({"a": "!"})));
            assert_eq!(up.line(), answer(&json!("x"), json!({"a": "!"})));
        }
    }
}
