//! Tools over HTTP whose parameters are headers as well.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>
#![cfg(feature = "http")]
#![allow(missing_docs, reason = "a test")]

mod http_common;

use http_common::{Wire, config, modern};
use mcp_proto::peer::client::Diagnostic;
use mcp_proto::peer::{Outcome, Refusal, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, Json, ListTools, ListToolsParams};
use serde_json::{Value, json};

fn tool(name: &str, parameter: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"a": parameter}}})
}

fn list(wire: &mut Wire, tools: &Value) -> RequestId {
    let options = RequestOptions::default();
    let request = wire.client.request::<ListTools>(wire.now, &ListToolsParams::new(), options).unwrap();
    let exchange = wire.expect("tools/list");
    wire.answer(&exchange, page(tools));
    request
}

fn page(tools: &Value) -> Value {
    json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
}

fn call(wire: &mut Wire, name: &str, arguments: &Value) -> RequestId {
    let params = CallToolParams::new(name).with_arguments(Json::encode(arguments).unwrap());
    wire.client.request::<CallTool>(wire.now, &params, RequestOptions::default()).unwrap()
}

fn done() -> Value {
    json!({"resultType": "complete", "content": []})
}

/// C4.9, C4.10
#[test]
fn an_argument_that_is_marked_goes_out_as_a_header() {
    modern(config(), |wire| {
        list(wire, &json!([tool("marked", json!({"type": "string", "x-mcp-header": "Region"}))]));
        for (arguments, expected) in [
            (json!({"a": "us-west1"}), Some("us-west1")),
            (json!({"a": "é"}), Some("=?base64?w6k=?=")),
            (json!({"a": null}), None),
            (json!({}), None),
        ] {
            let request = call(wire, "marked", &arguments);
            let exchange = wire.expect("tools/call");
            assert_eq!(exchange.header("mcp-param-region"), expected);
            wire.answer(&exchange, done());
            wire.result(request);
        }
        call(wire, "other", &json!({"a": "us-west1"}));
        assert_eq!(wire.expect("tools/call").header("mcp-param-region"), None);
    });
}

/// C4.11, C4.12
#[test]
fn a_tool_with_an_invalid_mark_is_not_listed_and_that_is_told() {
    modern(config(), |wire| {
        let tools = json!([
            tool("bad", json!({"type": "number", "x-mcp-header": "A"})),
            tool("good", json!({"type": "string"})),
        ]);
        let request = list(wire, &tools);
        assert_eq!(wire.result(request)["tools"], json!([tools[1]]));
        let told = wire.diagnostics();
        let [Diagnostic::ToolExcluded { name, reason }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(name, "bad");
        assert!(reason.contains("properties.a"), "{reason}");
    });
}

/// C4.13
#[test]
fn a_call_with_the_wrong_headers_goes_out_again_once_the_tools_are_known() {
    modern(config(), |wire| {
        let request = call(wire, "marked", &json!({"a": "x"}));
        let exchange = wire.expect("tools/call");
        assert_eq!(exchange.header("mcp-param-new"), None);
        wire.refuse(&exchange, 400, -32020, None);
        let listing = wire.expect("tools/list");
        wire.answer(
            &listing,
            page(&json!([tool("marked", json!({"type": "string", "x-mcp-header": "New"}))])),
        );
        let again = wire.expect("tools/call");
        assert_eq!(again.header("mcp-param-new"), Some("x"));
        assert_ne!(again.id(), exchange.id());
        wire.answer(&again, done());
        wire.result(request);
    });
}

#[test]
fn a_mark_that_is_gone_from_the_list_is_forgotten() {
    modern(config(), |wire| {
        for parameter in [
            json!({"type": "string"}),
            json!({"type": "number", "x-mcp-header": "A"}),
            json!({"type": "string", "x-mcp-header": "B"}),
        ] {
            list(wire, &json!([tool("tool", json!({"type": "string", "x-mcp-header": "A"}))]));
            list(wire, &json!([tool("tool", parameter)]));
            call(wire, "tool", &json!({"a": "x"}));
            assert_eq!(wire.expect("tools/call").header("mcp-param-a"), None);
        }
    });
}

#[test]
fn an_argument_that_no_header_can_repeat_is_not_sent() {
    modern(config(), |wire| {
        list(wire, &json!([tool("marked", json!({"type": "integer", "x-mcp-header": "A"}))]));
        let request = call(wire, "marked", &json!({"a": 1.5}));
        wire.expect_silence();
        let outcome = wire.outcome(request);
        assert!(
            matches!(&outcome, Outcome::Refused(Refusal::Encode(why)) if why.contains("argument a")),
            "{outcome:?}"
        );
    });
}

/// What is kept of the tools has a limit.
#[test]
fn tools_that_are_too_many_to_remember_are_forgotten() {
    let mut small = config();
    small.client.limits.message_bytes = 2000;
    modern(small, |wire| {
        let marked = |name: String| tool(&name, json!({"type": "string", "x-mcp-header": "A"}));
        for number in 0..100 {
            list(wire, &json!([marked(format!("{number}-{}", "x".repeat(500)))]));
        }
        list(wire, &json!([marked("last".into())]));
        call(wire, "last", &json!({"a": "x"}));
        assert_eq!(wire.expect("tools/call").header("mcp-param-a"), Some("x"));
        call(wire, &format!("0-{}", "x".repeat(500)), &json!({"a": "x"}));
        assert_eq!(wire.expect("tools/call").header("mcp-param-a"), None);
    });
}
