//! Layers of a host, and the question before each call of a tool.

use std::sync::{Arc, Mutex};

use mcp_hyper::host::{CallError, ToolCallDecision};
use mcp_hyper::mcp_proto::front::Error;
use mcp_hyper::mcp_proto::front::layer::{
    Audit, AuditOutcome, AuditRecord, Decision, Layer, LayerFuture, LayerMessage, LayerMessageError,
    LayerRequest, MessageDirection, Next, RuleMatch, Rules,
};
use mcp_hyper::mcp_proto::rpc::Raw;
use mcp_hyper::mcp_proto::schema::CallToolParams;
use serde_json::{Value, json};

use super::testbed::*;
use crate::common::server::bounded;

type Records = Arc<Mutex<Vec<AuditRecord>>>;

fn audit(records: &Records) -> Audit {
    let records = records.clone();
    Audit::new(move |record| records.lock().unwrap().push(record.clone()))
}

#[test]
fn layer_of_a_host_sees_each_call_once_with_its_server() {
    bounded(async {
        let (folder, records) = (Folder::new(), Records::default());
        let servers = json!({ "one": folder.demo("one"), "two": folder.demo("two") });
        let options = options(config(servers))
            .layer(audit(&records))
            .layer(Rules::new().deny(RuleMatch::tool("echo").server("two"), "not there"));
        let (host, _driver) = start(options);
        // A call of a server that has not listed its tools yet is seen with the name of the tool, too.
        let echo = host.call_tool("mcp__two__echo", json!({ "text": "hi" })).await.unwrap_err();
        assert!(matches!(echo, CallError::Call(Error::Layer(_))), "{echo}");
        host.ready().await;
        let echo = host.call_tool("mcp__one__echo", json!({ "text": "hi" })).await.unwrap();
        assert_eq!(echo.text_content(), "hi");
        let denied = host.call_for_model("mcp__two__echo", json!({ "text": "hi" })).await.unwrap();
        assert!(denied.is_call_error && denied.to_text().contains("not there"), "{}", denied.to_text());
        let unknown = host.call_tool("mcp__one__none", json!({})).await.unwrap_err();
        assert!(matches!(unknown, CallError::Name(_)), "{unknown}");
        let records = records.lock().unwrap();
        let seen: Vec<_> = records
            .iter()
            .map(|record| {
                let is_error = matches!(record.outcome, AuditOutcome::Error { .. });
                (
                    record.server.as_deref().unwrap(),
                    record.item.as_deref().unwrap(),
                    record.direction,
                    is_error,
                )
            })
            .collect();
        let sent = MessageDirection::Sent;
        assert_eq!(
            seen,
            [("two", "echo", sent, true), ("one", "echo", sent, false), ("two", "echo", sent, true)]
        );
    });
}

#[test]
fn layer_of_a_host_sees_the_requests_of_a_client_that_the_application_took() {
    bounded(async {
        let (folder, records) = (Folder::new(), Records::default());
        let options = options(config(json!({ "one": folder.demo("one") })))
            .layer(audit(&records))
            .layer(Rules::new().deny(RuleMatch::tool("echo").server("one"), "not there"));
        let (host, _driver) = start(options);
        host.ready().await;
        // What the host reads for itself is no call of the application.
        assert!(records.lock().unwrap().is_empty());
        let client = host.client("one").unwrap();
        let denied = client.call_tool("echo", json!({ "text": "hi" })).await.unwrap_err();
        assert!(matches!(denied, Error::Layer(_)), "{denied}");
        assert_eq!(
            client.call_tool("add", json!({ "a": 1, "b": 2 })).await.unwrap().text_content(),
            r#"{"sum":3}"#
        );
        let seen: Vec<_> =
            records.lock().unwrap().iter().map(|record| record.server.clone().unwrap()).collect();
        assert_eq!(seen, ["one", "one"]);
    });
}

#[test]
fn application_is_asked_before_each_call_of_a_tool() {
    bounded(async {
        let folder = Folder::new();
        let options = options(config(json!({ "one": folder.demo("one") }))).on_tool_call(|call| async move {
            assert_eq!((call.server.as_str(), call.tool.as_str()), ("one", "echo"));
            let arguments = call.arguments.unwrap();
            match arguments.decode::<serde_json::Value>().unwrap()["text"].as_str() {
                Some("denied") => ToolCallDecision::Deny("the user said no".into()),
                Some("edited") => ToolCallDecision::Edit(json!({ "text": "by the user" }).into()),
                _ => ToolCallDecision::Allow,
            }
        });
        let (host, _driver) = start(options);
        host.ready().await;
        let call = async |text: &str| host.call_tool("mcp__one__echo", json!({ "text": text })).await;
        assert_eq!(call("allowed").await.unwrap().text_content(), "allowed");
        assert_eq!(call("edited").await.unwrap().text_content(), "by the user");
        let error = call("denied").await.unwrap_err();
        assert!(error.to_string().contains("the user said no"), "{error}");
        // Nothing else is asked about.
        host.request::<mcp_hyper::mcp_proto::schema::ListTools>("one", Default::default()).await.unwrap();
    });
}

/// Makes each call of a tool that of `add`.
struct Redirect;

impl Layer for Redirect {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        if request.method() == "tools/call" {
            request
                .set_params(&CallToolParams::new("add").with_arguments(json!({ "a": 1, "b": 2 })))
                .unwrap();
        }
        next.run(request)
    }
}

#[test]
fn call_that_a_layer_redirects_runs_no_other_tool_than_was_approved() {
    bounded(async {
        let folder = Folder::new();
        let options = options(config(json!({ "one": folder.demo("one") }))).layer(Redirect).on_tool_call(
            |call| async move {
                match &*call.tool {
                    "add" => ToolCallDecision::Allow,
                    other => ToolCallDecision::Deny(other.to_owned()),
                }
            },
        );
        let (host, _driver) = start(options);
        host.ready().await;
        let error = host.call_tool("mcp__one__echo", json!({ "text": "hi" })).await.unwrap_err();
        assert!(
            matches!(&error, CallError::OtherItem { passed, found } if passed == "add" && &**found == "echo"),
            "{error}"
        );
        assert!(error.is_unsent());
        host.call_tool("mcp__one__add", json!({ "a": 1, "b": 2 })).await.unwrap();
    });
}

/// Changes the text of each call of a tool, and tries to change it again in the message.
struct Rewrite;

impl Layer for Rewrite {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        if request.method() == "tools/call" {
            request
                .set_params(&CallToolParams::new("echo").with_arguments(json!({ "text": "layer" })))
                .unwrap();
        }
        next.run(request)
    }

    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        if message.direction() == MessageDirection::Sent && message.method() == Some("tools/call") {
            let mut params: Value = message.params().unwrap().decode().unwrap();
            params["arguments"] = json!({ "text": "message" });
            let changed = message.set_params(Raw::encode(&params).unwrap());
            assert!(matches!(changed, Err(LayerMessageError::ReadOnly(name)) if name == "arguments"));
        }
        Decision::Keep
    }
}

#[test]
fn application_is_asked_about_what_is_sent_also_with_a_later_layer() {
    bounded(async {
        let folder = Folder::new();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let options = options(config(json!({ "one": folder.demo("one") })))
            .on_tool_call(move |call| {
                seen.lock().unwrap().push(call.arguments.unwrap().decode::<Value>().unwrap());
                async { ToolCallDecision::Allow }
            })
            .layer(Rewrite);
        let (host, _driver) = start(options);
        host.ready().await;
        let echo = host.call_tool("mcp__one__echo", json!({ "text": "caller" })).await.unwrap();
        assert_eq!(echo.text_content(), "layer");
        assert_eq!(*asked.lock().unwrap(), [json!({ "text": "layer" })]);
    });
}
