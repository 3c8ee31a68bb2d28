//! What layers may not do to messages: drop those that others wait for, change what ties them together, or panic.

use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::front::layer::{Decision, Layer, LayerMessage, LayerMessageError, MessageDirection};
use mcp_proto::front::{Context, Error, Event, Events, HandlerMode, NoArguments, Router};
use mcp_proto::peer::LostReason;
use mcp_proto::peer::client::{CloseReason, Diagnostic};
use mcp_proto::rpc::{ErrorObject, Raw};
use mcp_proto::testing::{self, SimulatedClock};
use serde_json::{Value, json};

use crate::common::router::ServerHarness;
use crate::layer_messages::{each, echo, pairs, router, tool};

/// Tries to drop everything.
#[derive(Clone)]
struct DropAll;

impl<M: HandlerMode> Layer<M> for DropAll {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        let _ = message.method();
        Decision::Drop
    }
}

/// The messages that could not be dropped, and whether one of the two sides reported them.
fn reported(events: &mut Events<Event>) -> Vec<String> {
    let mut messages = Vec::new();
    while let Poll::Ready(Some(event)) =
        Box::pin(events.next()).as_mut().poll(&mut TaskContext::from_waker(Waker::noop()))
    {
        if let Event::Diagnostic(Diagnostic::LayerDropIgnored { message }) = event {
            messages.push(message);
        }
    }
    messages
}

#[test]
fn only_notifications_on_which_nothing_depends_are_dropped() {
    for (index, mut pair) in pairs(router(), DropAll).into_iter().enumerate() {
        let clock = pair.time().clone();
        let (steps, mut events) = pair.run(async |client| {
            let events = client.events();
            let mut call = client.call_tool("steps", json!({})).start().unwrap();
            let mut steps = 0;
            while call.progress().await.is_some() {
                steps += 1;
            }
            assert_eq!(call.await.unwrap().text_content(), "done");
            let never = client.call_tool("never", json!({})).start().unwrap();
            clock.sleep(Duration::from_secs(1)).await;
            drop(never);
            client.notify_custom("com.example/news", json!({})).unwrap();
            client.call_tool("steps", json!({})).await.unwrap();
            (steps, events)
        });
        assert_eq!(steps, 0, "the progress was dropped");
        let transcript = pair.transcript();
        assert!(!transcript.contains("com.example/news"), "{transcript}");
        let reported = reported(&mut events);
        assert!(reported.iter().any(|seen| seen == "tools/call"), "{reported:?}");
        // Over HTTP, a client of 2026-07-28 cancels without a message.
        let cancels = transcript.contains("notifications/cancelled");
        assert_eq!(reported.iter().any(|seen| seen == "notifications/cancelled"), cancels, "{reported:?}");
        assert!(cancels || index == 2, "{transcript}");
        assert!(reported.iter().any(|seen| seen.starts_with("the answer to ")), "{reported:?}");
        assert!(!reported.iter().any(|seen| seen == "notifications/progress" || seen == "com.example/news"));
    }
}

/// A denial in the middle of an event stream: the second of three reports does not arrive.
#[test]
fn layer_of_a_server_drops_one_event_of_a_stream() {
    let clock = Arc::new(SimulatedClock::default());
    let slow = clock.clone();
    let second = each(|message| match message.params() {
        Some(params) if params.as_str().contains(r#""progress":2"#) => Decision::Drop,
        _ => Decision::Keep,
    });
    let router = Router::new("slow", "1.0.0").layer(second).tool_with(
        tool("slow"),
        move |NoArguments {}, cx: Context| {
            let clock = slow.clone();
            async move {
                for step in 1..=3 {
                    cx.progress(step);
                    clock.sleep(Duration::from_secs(1)).await;
                }
            }
        },
    );
    let pair = || testing::pair(router.clone()).clock(clock.clone());
    for mut pair in [pair(), pair().legacy(), pair().http(), pair().http().legacy()] {
        let steps = pair.run(async |client| {
            let mut call = client.call_tool("slow", json!({})).start().unwrap();
            let mut steps = Vec::new();
            while let Some(report) = call.progress().await {
                steps.push(report.progress.to_string());
            }
            call.await.unwrap();
            steps
        });
        assert_eq!(steps, ["1", "3"]);
    }
}

/// The error of an attempt to change a message.
fn refused(result: Result<(), LayerMessageError>) -> String {
    match result {
        Err(LayerMessageError::ReadOnly(name)) => name,
        other => panic!("{other:?}"),
    }
}

/// Tries to change what is read-only in each message.
#[derive(Clone)]
struct Tamper;

impl<M: HandlerMode> Layer<M> for Tamper {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        assert_eq!(refused(message.insert_meta("progressToken", &9)), "progressToken");
        let version = "io.modelcontextprotocol/protocolVersion";
        assert_eq!(refused(message.insert_meta(version, "1999-01-01")), version);
        let old: Value = match message.params().or(message.result()) {
            Some(object) => object.decode().unwrap(),
            None => return Decision::Keep,
        };
        for name in
            ["requestState", "capabilities", "protocolVersion", "name", "requestId", "resultType", "uri"]
        {
            for value in [json!("other"), Value::Null] {
                let mut new = old.clone();
                new[name] = value;
                if new[name] == old[name] && old.get(name).is_some() {
                    continue;
                }
                let new = Raw::encode(&new).unwrap();
                let changed = if message.params().is_some() {
                    message.set_params(new)
                } else {
                    message.set_result(new)
                };
                assert_eq!(refused(changed), name);
            }
        }
        let twice = Raw::new(r#"{"name":"a","name":"a"}"#).unwrap();
        let repeated =
            if message.params().is_some() { message.set_params(twice) } else { message.set_result(twice) };
        assert!(repeated.is_err());
        let invalid = message.set_error(ErrorObject::new(1, "no error"));
        assert!(matches!(invalid, Err(LayerMessageError::NoSuchPart)));
        Decision::Keep
    }
}

#[test]
fn layer_cannot_change_the_meta_of_parameters_that_cannot_be_written() {
    for params in [r#"{"_meta":{"a":1},"_meta":{"b":1}}"#, r#"{"a":[{"b":01}]}"#] {
        let refusals = Arc::new(Mutex::new(0));
        let counted = refusals.clone();
        let layer = each(move |message| {
            if message.method() == Some("tools/list") && message.direction() == MessageDirection::Received {
                let changed = message.insert_meta("com.example/tenant", "a");
                assert!(matches!(changed, Err(LayerMessageError::Json(_))));
                *counted.lock().unwrap() += 1;
            }
            Decision::Keep
        });
        let mut s = ServerHarness::legacy(router().layer(layer));
        s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{params}}}"#));
        assert!(s.line()["error"].is_object());
        assert_eq!(*refusals.lock().unwrap(), 1, "{params}");
    }
}

#[test]
fn layer_cannot_change_the_handshake_ids_and_sealed_states() {
    for mut pair in pairs(router().layer(Tamper), Tamper) {
        pair.run(async |client| {
            client.list_tools().await.unwrap();
            assert_eq!(echo(&client, json!({})).await["arguments"], json!({}));
        });
    }
}

/// Panics at calls of one tool.
#[derive(Clone)]
struct Fragile(&'static str);

impl<M: HandlerMode> Layer<M> for Fragile {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        assert!(!message.params().is_some_and(|params| params.as_str().contains(self.0)), "a mistake");
        Decision::Keep
    }
}

#[test]
fn panic_of_a_layer_ends_its_connection_and_nothing_else() {
    let is_lost = |error: &Error| match error {
        Error::Closed(CloseReason::Lost(LostReason::Failed(why))) | Error::Lost(LostReason::Failed(why)) => {
            why == "a layer panicked"
        }
        _ => false,
    };
    for mut pair in pairs(router(), Fragile("steps")) {
        pair.run(async |client| {
            echo(&client, json!({})).await;
            let error = client.call_tool("steps", json!({})).await.unwrap_err();
            assert!(is_lost(&error), "{error:?}");
            // No lock is poisoned.
            assert!(client.call_tool("echo", json!({})).await.is_err());
            assert!(matches!(client.closed().await, CloseReason::Lost(LostReason::Failed(_))));
        });
    }
    let mut pair = testing::pair(router().layer(Fragile("steps"))).legacy();
    pair.run(async |client| {
        echo(&client, json!({})).await;
        assert!(client.call_tool("steps", json!({})).await.is_err());
    });
}
