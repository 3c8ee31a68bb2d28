//! The spans of requests, by the feature `tracing`.

mod propagation;
mod subscriber;

use core::future::pending as never;
use core::time::Duration;
use std::sync::{Arc, OnceLock};

use futures_lite::future::{poll_once, yield_now};
use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    CustomResult, ElicitParams, ElicitResult, ElicitSchema, GetPromptResult, Json, LoggingLevel, Prompt,
    Resource, StringSchema, Tool,
};
use mcp_proto::testing::pair;
use mcp_proto::{CallToolResult, Client, ClientHandlers};
use serde_json::json;

use self::subscriber::{Fields, RecordedSpan, Recorder};
use crate::common::polling::TestClock;
use crate::common::router::ServerHarness;

const CLIENT: &str = "mcp_proto::client";
const SERVER: &str = "mcp_proto::server";
/// A text that no field may contain.
const SECRET: &str = "hunter2";

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

fn fields<const COUNT: usize>(fields: [(&str, &str); COUNT]) -> Fields {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The spans of both sides of one call of a tool, which are closed.
#[track_caller]
fn both(recorder: &Recorder) -> [RecordedSpan; 2] {
    let both = [CLIENT, SERVER].map(|target| recorder.only(target, "tools/call"));
    for span in &both {
        assert!(span.is_closed, "{span:#?}");
        assert_eq!(span.name, "mcp.request");
    }
    both
}

#[test]
fn call_has_a_span_on_each_side() {
    let router = || Router::new("a", "1").tool_with(tool("greet"), async |NoArguments {}, _| "hello");
    let (_, recorder) = Recorder::record(|| {
        pair(router()).run(async |client| client.call_tool("greet", json!({})).await.unwrap());
    });
    let [client, server] = both(&recorder);
    let id = client.get("jsonrpc.request.id").unwrap();
    let expected = |kind: &str| {
        fields([
            ("otel.name", "tools/call greet"),
            ("otel.kind", kind),
            ("mcp.method.name", "tools/call"),
            ("jsonrpc.request.id", id),
            ("mcp.protocol.version", "2026-07-28"),
            ("era", "modern"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "greet"),
            ("outcome", "ok"),
        ])
    };
    assert_eq!(client.fields, expected("client"));
    assert_eq!(server.fields, expected("server"));
    assert_eq!((client.parent, server.parent), (None, None));

    let (_, recorder) = Recorder::record(|| {
        pair(router())
            .http()
            .legacy()
            .run(async |client| client.call_tool("greet", json!({})).await.unwrap());
    });
    for span in both(&recorder) {
        assert_eq!((span.get("era"), span.get("mcp.protocol.version")), (Some("legacy"), Some("2025-11-25")));
        assert_eq!(span.get("outcome"), Some("ok"));
    }
}

#[test]
fn every_method_has_a_span_with_its_item() {
    let uri = format!("notes://ann:{SECRET}@host/a?token={SECRET}#{SECRET}");
    let resource = Resource::new(&*uri, "note");
    let router = Router::new("a", "1")
        .prompt(Prompt::new("review"), async |_: serde_json::Value, _| GetPromptResult::new(vec![]))
        .resource(resource, async |_, _| "text");
    let (_, recorder) = Recorder::record(|| {
        pair(router).run(async |client| {
            client.list_prompts().await.unwrap();
            client.get_prompt("review", [("code", SECRET)]).await.unwrap();
            client.read_resource(&uri).await.unwrap();
        });
    });
    for target in [CLIENT, SERVER] {
        let list = recorder.only(target, "prompts/list");
        assert_eq!((list.get("otel.name"), list.get("outcome")), (Some("prompts/list"), Some("ok")));
        let prompt = recorder.only(target, "prompts/get");
        assert_eq!(prompt.get("otel.name"), Some("prompts/get review"));
        assert_eq!(
            (prompt.get("gen_ai.prompt.name"), prompt.get("gen_ai.tool.name")),
            (Some("review"), None)
        );
        let read = recorder.only(target, "resources/read");
        assert_eq!(read.get("otel.name"), Some("resources/read"));
        assert_eq!(read.get("mcp.resource.uri"), Some("notes://host/a"));
    }
    assert!(!recorder.text().contains(SECRET), "{}", recorder.text());
}

#[test]
fn no_field_holds_arguments_results_or_errors() {
    let router = Router::new("a", "1")
        .tool_with(tool("echo"), async |arguments: serde_json::Value, _| {
            Ok::<_, HandlerError>(arguments.to_string())
        })
        .tool_with(tool("fail"), async |_: serde_json::Value, _| CallToolResult::error(SECRET))
        .tool_with(tool("reject"), async |_: serde_json::Value, _| {
            Err::<String, _>(HandlerError::from(ErrorObject::new(code::INVALID_PARAMS, SECRET)))
        });
    let (_, recorder) = Recorder::record(|| {
        pair(router).run(async |client| {
            for name in ["echo", "fail", "reject"] {
                let mut meta = mcp_proto::schema::Meta::new();
                meta.insert("com.example/key", SECRET);
                meta.insert("baggage", &*format!("key={SECRET}"));
                let answer = client.call_tool(name, json!({ "password": SECRET })).meta(meta).await;
                assert!(format!("{answer:?}").contains(SECRET));
            }
        });
    });
    assert_eq!(recorder.spans().len(), 6);
    assert!(!recorder.text().contains(SECRET), "{}", recorder.text());
}

#[test]
fn events_and_calls_of_a_handler_are_within_its_span() {
    async fn work(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
        tracing::info!(target: "spans", "before");
        yield_now().await;
        tracing::info!(target: "spans", "after");
        let form = ElicitParams::form("Name?", ElicitSchema::new([("name", StringSchema::new().into())]));
        cx.request::<mcp_proto::schema::Elicit>(form).await?;
        Ok("done".into())
    }
    let handlers = ClientHandlers::new().elicitation(async |_, _| {
        tracing::info!(target: "spans", "asked");
        Ok::<_, HandlerError>(ElicitResult::decline())
    });
    let router = Router::new("a", "1").tool_with(tool("work"), work);
    let (_, recorder) = Recorder::record(|| {
        let mut pair = pair(router).legacy().handlers(handlers);
        pair.run(async |client| client.call_tool("work", json!({})).await.unwrap());
    });
    both(&recorder);
    let call = recorder.position(SERVER, "tools/call");
    let asked = recorder.position(SERVER, "elicitation/create");
    assert!(call.is_some() && asked.is_some());
    let events: Vec<_> = recorder.events().into_iter().map(|event| (event.message, event.span)).collect();
    assert_eq!(events, [("before".into(), call), ("after".into(), call), ("asked".into(), asked)]);
    // The server's own request is part of the call, and the client answers it in a span of its own.
    assert_eq!(recorder.only(CLIENT, "elicitation/create").parent, call);
    let asked = recorder.only(SERVER, "elicitation/create");
    assert_eq!(
        (asked.get("otel.kind"), asked.get("outcome"), asked.parent),
        (Some("server"), Some("ok"), None)
    );
}

#[test]
fn reports_about_handlers_are_events() {
    let clock: Arc<OnceLock<Arc<TestClock>>> = Arc::default();
    let blocking = clock.clone();
    let router = Router::new("a", "1").tool_with(tool("work"), move |NoArguments {}, cx: Context| {
        cx.log(LoggingLevel::Error, "the disk is full");
        blocking.get().unwrap().advance(Duration::from_secs(2));
        core::future::ready("done")
    });
    let mut server = ServerHarness::modern(router);
    clock.set(server.clock.clone()).ok().unwrap();
    let (_, recorder) = Recorder::record(|| server.call("work", json!({})));
    let messages: Vec<_> = recorder.events().into_iter().map(|event| event.message).collect();
    let [dropped, blocked] = &messages[..] else { panic!("{messages:?}") };
    assert!(dropped.contains("`logging`") && blocked.contains("blocked its driver"), "{messages:?}");
}

/// A router of tools that fail in different ways.
fn failing() -> Router {
    Router::new("a", "1")
        .tool_with(tool("tool"), async |NoArguments {}, _| CallToolResult::error("no"))
        .tool_with(tool("protocol"), async |NoArguments {}, _| {
            Err::<String, _>(HandlerError::from(ErrorObject::new(-7, "no")))
        })
        .tool_with(tool("panic"), async |NoArguments {}, _| -> String { panic!("a panic of the test") })
        .tool_with(tool("never"), async |NoArguments {}, _| never::<String>().await)
}

#[test]
fn span_records_the_type_of_an_error() {
    let error = |name: &str| -> [Fields; 2] {
        let (_, recorder) = Recorder::record(|| {
            pair(failing()).run(async |client| {
                let _ = client.call_tool(name, json!({})).timeout(Duration::from_secs(3)).await;
            });
        });
        let wanted = ["outcome", "error.type", "rpc.response.status_code", "otel.status_code"];
        both(&recorder)
            .map(|span| span.fields.into_iter().filter(|(name, _)| wanted.contains(&name.as_str())).collect())
    };
    let protocol = |code: &str| {
        fields([
            ("outcome", "error"),
            ("error.type", code),
            ("rpc.response.status_code", code),
            ("otel.status_code", "ERROR"),
        ])
    };
    let failed =
        fields([("outcome", "tool_error"), ("error.type", "tool_error"), ("otel.status_code", "ERROR")]);
    assert_eq!(error("tool"), [failed.clone(), failed.clone()]);
    assert_eq!(error("panic"), [failed.clone(), failed]);
    assert_eq!(error("protocol"), [protocol("-7"), protocol("-7")]);
    assert_eq!(error("unknown"), [protocol("-32602"), protocol("-32602")]);
    let timeout = fields([("outcome", "error"), ("error.type", "timeout"), ("otel.status_code", "ERROR")]);
    assert_eq!(error("never"), [timeout, fields([("outcome", "cancelled")])]);
}

#[test]
fn span_of_a_request_that_is_not_sent_says_so() {
    let (_, recorder) = Recorder::record(|| {
        pair(failing()).run(async |client| {
            client.close().await;
            assert!(client.call_tool("tool", json!({})).await.is_err());
        });
    });
    let span = recorder.only(CLIENT, "tools/call");
    assert_eq!((span.get("error.type"), span.get("outcome")), (Some("not_sent"), Some("error")));
    assert!(span.is_closed);
}

#[test]
fn spans_of_a_cancelled_call_end_with_it() {
    async fn cancel(client: Client) {
        let mut call = Box::pin(client.call_tool("never", json!({})));
        assert!(poll_once(&mut call).await.is_none());
        // The server has the call.
        client.list_tools().await.unwrap();
        drop(call);
        client.list_tools().await.unwrap();
    }
    let (_, recorder) = Recorder::record(|| pair(failing()).run(cancel));
    for span in both(&recorder) {
        assert_eq!((span.get("outcome"), span.get("error.type")), (Some("cancelled"), None), "{span:?}");
    }
}

#[test]
fn names_of_the_peer_are_escaped_and_cut_and_name_no_span() {
    let hostile = format!("\u{1b}]0;title\u{7}\n\u{202e}{}", "x".repeat(1_000_000));
    let router = failing().fallback(async |_, _| CustomResult::new());
    let (_, recorder) = Recorder::record(|| {
        pair(router).run(async |client| {
            client.call_tool(&*hostile, json!({})).await.unwrap_err();
            client.request_custom(format!("com.example/{hostile}"), json!({})).await.unwrap();
        });
    });
    let [client, server] = both(&recorder);
    let shown = server.get("gen_ai.tool.name").unwrap();
    assert!(shown.starts_with("\\u{1b}]0;title\\u{7}\\n\\u{202e}xxx") && shown.ends_with("x…"), "{shown}");
    assert!(shown.len() < 200, "{shown}");
    assert_eq!(client.get("gen_ai.tool.name"), Some(shown));
    // A client could make up any number of names.
    assert_eq!(server.get("otel.name"), Some("tools/call"));
    assert_eq!(client.get("otel.name").unwrap(), format!("tools/call {shown}"));
    let spans = recorder.spans();
    let custom = spans.iter().rfind(|span| span.target == SERVER).unwrap();
    assert_eq!(custom.get("otel.name"), Some("_OTHER"));
    let method = custom.get("mcp.method.name").unwrap();
    assert!(method.starts_with("com.example/\\u{1b}") && method.len() < 200, "{method}");
    let unsafe_text = |text: &str| text.chars().any(mcp_proto::consent::SafeText::is_unsafe);
    assert!(!spans.iter().flat_map(|span| span.fields.values()).any(|value| unsafe_text(value)));
}

#[test]
fn method_with_a_handler_of_its_own_names_its_span() {
    let router = Router::new("a", "1").custom("com.example/status", async |_, _| CustomResult::new());
    let (_, recorder) = Recorder::record(|| {
        pair(router)
            .run(async |client| client.request_custom("com.example/status", json!({})).await.unwrap());
    });
    for target in [CLIENT, SERVER] {
        assert_eq!(recorder.only(target, "com.example/status").get("otel.name"), Some("com.example/status"));
    }
}

/// The duration of a span is the latency.
#[test]
fn span_lasts_from_the_request_to_its_answer() {
    let router = Router::new("a", "1").tool_with(tool("work"), async |NoArguments {}, _| {
        tracing::info!(target: "spans", "working");
        "done"
    });
    let (_, recorder) = Recorder::record(|| {
        pair(router).run(async |client| {
            let request = client.call_tool("work", json!({}));
            tracing::info!(target: "spans", "not sent");
            let call = request.start().unwrap();
            tracing::info!(target: "spans", "sent");
            call.await.unwrap();
            tracing::info!(target: "spans", "answered");
        });
    });
    both(&recorder);
    let events = recorder.events();
    let open: Vec<_> = events.iter().map(|event| (&*event.message, event.open)).collect();
    assert_eq!(open, [("not sent", 0), ("sent", 1), ("working", 2), ("answered", 0)]);
    // The caller's own events are not within the span of its request.
    assert_eq!(events.iter().filter(|event| event.span.is_some()).count(), 1);
}
