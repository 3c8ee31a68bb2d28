//! Messages over HTTP that pass through the layers of a server: bodies, event streams, sessions and channels.

use core::time::Duration;

use mcp_proto::front::Router;
use mcp_proto::front::http::HttpServerEvent;
use mcp_proto::front::layer::{Decision, LayerMessageError, LayerMessageKind, MessageDirection};
use mcp_proto::rpc::Raw;
use mcp_proto::transport::http::server::BodyKind;
use serde_json::{Value, json};

use super::layer_messages::{Recorder, each};
use crate::common::front_http::{HttpHarness, router};
use crate::common::messages::{notification, request};
use crate::common::tools::tool;

fn echo() -> Router {
    Router::new("echo", "1").tool_with(tool("echo"), async |arguments: Value, _| arguments.to_string())
}

/// The length of an answer is that of what the layers left of it.
#[test]
fn layer_changes_requests_and_answers_of_both_eras() {
    let editor = each(|message| {
        if message.method() == Some("tools/call") {
            let mut params: Value = message.params().unwrap().decode().unwrap();
            params["arguments"]["more"] = json!("x".repeat(100));
            message.set_params(Raw::encode(&params).unwrap()).unwrap();
        }
        if message.result().is_some() {
            message.insert_meta("com.example/instance", "north").unwrap();
        }
        Decision::Keep
    });
    let mut web = HttpHarness::new(echo().layer(editor));
    let session = web.open();
    let call = json!({"name": "echo", "arguments": {"a": 1}});
    for mut caller in [web.ask("tools/call", call.clone()), web.post_request(&session, "tools/call", call)] {
        let head = caller.head();
        let answer = caller.json();
        assert_eq!(answer["result"]["_meta"]["com.example/instance"], "north", "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("\"more\":\"xxx"), "{text}");
        assert_eq!(head.body, BodyKind::Sized(caller.bytes));
    }
}

/// C4.15: headers and body of a request agree behind the layers too.
#[test]
fn layer_cannot_change_what_headers_repeat() {
    let schema = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    });
    let tamper = each(|message| {
        if message.kind() == LayerMessageKind::Request && message.method() == Some("tools/call") {
            for change in [json!({"name": "other"}), json!({"arguments": {"region": "south"}})] {
                let mut params: Value = message.params().unwrap().decode().unwrap();
                for (name, value) in change.as_object().unwrap() {
                    params[name] = value.clone();
                }
                let changed = message.set_params(Raw::encode(&params).unwrap());
                assert!(matches!(changed, Err(LayerMessageError::ReadOnly(_))), "{changed:?}");
            }
            // All else can be changed.
            message.insert_meta("com.example/seen", &true).unwrap();
        }
        Decision::Keep
    });
    let router = Router::new("regions", "1").layer(tamper).tool_with(
        mcp_proto::schema::Tool::new("where", "Tells the region", schema),
        async |arguments: Value, _| arguments["region"].to_string(),
    );
    let web = HttpHarness::new(router);
    let mut meta = json!({});
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let params = json!({"name": "where", "arguments": {"region": "north"}, "_meta": meta});
    let body = request(&json!(1), "tools/call", params).to_string();
    let headers = |region: &'static str| {
        [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "where"),
            ("mcp-param-region", region),
        ]
    };
    let answer = web.send("POST", &headers("north"), &body).json();
    assert_eq!(answer["result"]["content"][0]["text"], "\"north\"", "{answer}");
    // What arrives is checked as ever.
    let refused = web.send("POST", &headers("south"), &body).json();
    assert_eq!(refused["error"]["code"], -32020, "{refused}");
}

#[test]
fn dropped_notification_is_accepted_and_undroppable_messages_are_reported() {
    let drop_all = each(|message| {
        let _ = message.kind();
        Decision::Drop
    });
    let seen = Recorder::default();
    let mut web = HttpHarness::new(echo().layer(drop_all).layer(seen.clone()));
    let mut events = web.server.events();
    let session = web.open();
    let news = notification("com.example/news", json!({}));
    assert_eq!(web.post(&session, &news).head().status, 202);
    let unknown = "00000000000000000000000000000000";
    assert_eq!(web.post(unknown, &news).head().status, 404);
    assert!(!seen.methods().iter().any(|method| method == "com.example/news"));
    let reported = events.drain();
    for message in ["initialize", "notifications/initialized", "the answer to 0"] {
        let expected = HttpServerEvent::LayerDropIgnored { message: message.to_owned() };
        assert!(reported.contains(&expected), "{message}: {reported:?}");
    }
}

/// S3.22: an event that a client fetches again passes the layers again.
#[test]
fn events_that_are_sent_again_pass_again() {
    let (router, held) = router();
    let seen = Recorder::default();
    let mark = each(|message| {
        if message.direction() == MessageDirection::Sent && message.kind() == LayerMessageKind::Notification {
            message.insert_meta("com.example/mark", &1).unwrap();
        }
        Decision::Keep
    });
    let mut web = HttpHarness::new(router.layer(mark).layer(seen.clone()));
    let session = web.open();
    let params = json!({"name": "hold", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut caller = web.post_request(&session, "tools/call", params);
    let cx = held.context();
    cx.progress(1);
    assert_eq!(caller.message()["params"]["_meta"]["com.example/mark"], 1);
    let last = caller.last_event().unwrap();
    web.advance(Duration::from_secs(1));
    cx.progress(2);
    web.poll_driver();
    assert_eq!(caller.message()["params"]["progress"], 2);
    drop(caller);
    held.release("done");
    web.poll_driver();
    let mut again = web.get(&session, Some(&last));
    let event = again.message();
    assert_eq!(
        (&event["params"]["progress"], &event["params"]["_meta"]["com.example/mark"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(again.message()["result"]["content"][0]["text"], "done");
    assert!(again.ended);
    let progress = seen.methods().iter().filter(|method| *method == "notifications/progress").count();
    assert_eq!(progress, 3);
}

/// A comment is no message, and a stream of which an event is dropped goes on.
#[test]
fn dropped_event_leaves_its_stream_open() {
    let (router, held) = router();
    let first = each(|message| match message.params() {
        Some(params) if params.as_str().contains("\"progress\":1") => Decision::Drop,
        _ => Decision::Keep,
    });
    let mut web = HttpHarness::new(router.layer(first));
    let params = json!({"name": "hold", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut caller = web.ask("tools/call", params);
    caller.poll_exchange();
    let cx = held.context();
    cx.progress(1);
    caller.poll_exchange();
    assert!(!caller.ended);
    assert_eq!(caller.try_message(), None);
    web.advance(Duration::from_secs(1));
    cx.progress(2);
    assert_eq!(caller.message()["params"]["progress"], 2);
    held.release("done");
    assert_eq!(caller.message()["result"]["content"][0]["text"], "done");
}

#[test]
fn panic_of_a_layer_ends_its_exchange_alone() {
    let fragile = each(|message| {
        assert!(!message.params().is_some_and(|params| params.as_str().contains("boom")), "a mistake");
        Decision::Keep
    });
    let mut web = HttpHarness::new(echo().layer(fragile));
    let mut broken = web.ask("tools/call", json!({"name": "echo", "arguments": {"boom": 1}}));
    assert_eq!(broken.head().status, 500);
    assert_eq!(broken.json()["error"]["code"], -32603);
    let mut fine = web.ask("tools/call", json!({"name": "echo", "arguments": {}}));
    assert_eq!(fine.json()["result"]["content"][0]["text"], "{}");
}
