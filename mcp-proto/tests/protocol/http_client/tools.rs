//! The client over HTTP and tools whose parameters are mirrored in headers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>

use std::time::Duration;

use crate::common::http_client::{ClientWire, Exchange, config, legacy, modern, scenario};
use crate::common::messages::{answer, discover_result};
use mcp_proto::consent::Trust;
use mcp_proto::peer::client::{Diagnostic, KnownEra, State};
use mcp_proto::peer::{Outcome, RequestError, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, Era, ListTools, ListToolsParams, Revision};
use mcp_proto::transport::http::SentState;
use mcp_proto::transport::http::client::HttpClientConfig;
use serde_json::{Value, json};

fn call_tool(wire: &mut ClientWire, name: &str, arguments: Value) -> RequestId {
    let mut params = CallToolParams::new(name);
    params.arguments = Some(serde_json::from_value(arguments).unwrap());
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

fn page(tools: Value, next: Option<&str>) -> Value {
    let mut page = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    page
}

fn query() -> Value {
    json!({"name": "query", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "limit": {"type": "integer", "x-mcp-header": "Limit"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        "text": {"type": "string"},
    }}})
}

fn list(wire: &mut ClientWire, tools: Value) -> Value {
    let request = wire
        .client
        .at(wire.now)
        .request::<ListTools>(&ListToolsParams::new(), RequestOptions::default())
        .unwrap();
    let exchange = wire.expect("tools/list");
    wire.answer(&exchange, page(tools, None));
    wire.result(request)["tools"].clone()
}

fn params(exchange: &Exchange) -> Vec<(&str, &str)> {
    let headers = exchange.request.headers.iter().map(|(name, value)| (&**name, &**value));
    let mut headers: Vec<_> = headers.filter(|(name, _)| name.starts_with("mcp-param-")).collect();
    headers.sort_unstable();
    headers
}

/// C4.8, C4.9, C4.10
#[test]
fn client_mirrors_the_marked_parameters_of_a_tool_in_headers() {
    modern(config(), |wire| {
        assert_eq!(list(wire, json!([query()])), json!([query()]));
        call_tool(
            wire,
            "query",
            json!({"region": "Genève", "limit": -7, "dry": false, "where": {"zone": "b"}, "text": "x"}),
        );
        let call = wire.expect("tools/call");
        let region = "=?base64?R2Vuw6h2ZQ==?=";
        let expected = [
            ("mcp-param-dry", "false"),
            ("mcp-param-limit", "-7"),
            ("mcp-param-region", region),
            ("mcp-param-zone", "b"),
        ];
        assert_eq!(params(&call), expected);
        call_tool(wire, "query", json!({"region": null, "where": {}, "text": "x"}));
        assert_eq!(params(&wire.expect("tools/call")), []);
        call_tool(wire, "other", json!({"region": "here"}));
        assert_eq!(params(&wire.expect("tools/call")), []);
    });
}

/// C4.11, C4.12
#[test]
fn client_omits_and_reports_a_tool_that_cannot_be_called() {
    modern(config(), |wire| {
        let bad = |header: &str| {
            let schema =
                json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header}}});
            json!({"name": format!("bad{header}"), "inputSchema": schema})
        };
        let listed = list(wire, json!([bad(""), query(), bad("a b")]));
        assert_eq!(listed, json!([query()]));
        let excluded: Vec<String> = wire
            .diagnostics()
            .into_iter()
            .map(|diagnostic| match diagnostic {
                Diagnostic::ToolExcluded { name, reason } => {
                    assert!(!reason.is_empty());
                    name
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(excluded, ["bad", "bada b"]);
    });
}

/// C9.1, C4.13
#[test]
fn client_repeats_a_call_after_a_header_mismatch_once_it_has_listed_the_tools() {
    modern(config(), |wire| {
        let request = call_tool(wire, "query", json!({"region": "eu"}));
        let parked = call_tool(wire, "query", json!({"region": "us"}));
        let first = wire.expect("tools/call");
        let other = wire.expect("tools/call");
        assert_eq!(params(&first), []);
        wire.refuse(&first, 400, -32020, None);
        let one = wire.expect("tools/list");
        assert_eq!(one.body["params"]["cursor"], Value::Null);
        assert_eq!(one.header("mcp-method"), Some("tools/list"));
        // The tools are listed once for all calls that wait for them.
        wire.refuse(&other, 400, -32020, None);
        wire.expect_silence();
        wire.answer(&one, page(json!([]), Some("")));
        let two = wire.expect("tools/list");
        assert_eq!(two.body["params"]["cursor"], "");
        wire.answer(&two, page(json!([query()]), None));
        let again = wire.expect("tools/call");
        assert_ne!(again.id(), first.id());
        assert_eq!(again.body["params"], first.body["params"]);
        assert_eq!(params(&again), [("mcp-param-region", "eu")]);
        wire.answer(&again, json!({"content": []}));
        wire.result(request);

        // The second time it is an error.
        let again = wire.expect("tools/call");
        wire.refuse(&again, 400, -32020, None);
        assert!(matches!(wire.outcome(parked), Outcome::Error(error) if error.code == -32020));
        wire.expect_silence();
    });
}

/// C4.13
#[test]
fn call_with_a_header_mismatch_ends_if_the_tools_cannot_be_listed() {
    for how in ["error", "broken", "never", "endless"] {
        modern(config(), |wire| {
            let request = call_tool(wire, "query", json!({"region": "eu"}));
            let call = wire.expect("tools/call");
            wire.refuse(&call, 400, -32020, None);
            let listing = wire.expect("tools/list");
            match how {
                "error" => wire.refuse(&listing, 400, -32603, None),
                "broken" => wire.fail(&listing, SentState::MaybeSent),
                "never" => {
                    // By then the call has timed out, too.
                    wire.advance(Duration::from_secs(40));
                    wire.expect_abort(&listing);
                }
                _ => {
                    let mut listing = listing;
                    for at in 0..64 {
                        wire.answer(&listing, page(json!([]), Some(&at.to_string())));
                        match wire.next() {
                            Some(next) => listing = next,
                            None => panic!("the call is repeated"),
                        }
                        if listing.body["method"] == "tools/call" {
                            break;
                        }
                    }
                    wire.refuse(&listing, 400, -32020, None);
                }
            }
            match wire.outcome(request) {
                Outcome::Error(error) if error.code == -32020 => {}
                Outcome::TimedOut { .. } if how == "never" => {}
                other => panic!("{how}: {other:?}"),
            }
            wire.expect_silence();
        });
    }
}

/// A configuration that knows the modern era and is yet to prove it.
fn remembered() -> HttpClientConfig {
    let mut config = config();
    config.client.known_era =
        Some(KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false });
    config.skip_known_probe = true;
    config
}

/// The era is in doubt when a call turns out to have wrong headers: the tools are listed once it is known.
#[test]
fn call_with_a_header_mismatch_waits_for_the_era() {
    scenario(remembered(), |wire| {
        let one = call_tool(wire, "other", json!({}));
        let two = call_tool(wire, "query", json!({"region": "eu"}));
        let (first, second) = (wire.expect("tools/call"), wire.expect("tools/call"));
        wire.reply(&first, 404, &[], "");
        assert!(matches!(wire.outcome(one), Outcome::Transport(_)));
        let probe = wire.expect("server/discover");
        wire.refuse(&second, 400, -32020, None);
        wire.expect_pending(two);
        wire.answer(&probe, discover_result());
        assert_eq!(wire.client.state(), State::Ready);
        let listing = wire.expect("tools/list");
        wire.answer(&listing, page(json!([query()]), None));
        let again = wire.expect("tools/call");
        wire.answer(&again, json!({"resultType": "complete", "content": []}));
        wire.result(two);
    });
}

#[test]
fn listing_continues_while_the_era_is_in_doubt() {
    scenario(remembered(), |wire| {
        let two = call_tool(wire, "query", json!({"region": "eu"}));
        let second = wire.expect("tools/call");
        wire.refuse(&second, 400, -32020, None);
        let listing = wire.expect("tools/list");
        call_tool(wire, "other", json!({}));
        let first = wire.expect("tools/call");
        wire.reply(&first, 404, &[], "");
        let probe = wire.expect("server/discover");
        let part = page(json!([query()]), Some("b"));
        // The answer proves nothing.
        wire.reply_json(&listing, 200, &answer(&listing.id(), part));
        wire.expect_pending(two);
        wire.answer(&probe, discover_result());
        let listing = wire.expect("tools/list");
        wire.answer(&listing, page(json!([query()]), None));
        let again = wire.expect("tools/call");
        wire.answer(&again, json!({"resultType": "complete", "content": []}));
        wire.result(two);
    });
}

#[test]
fn listing_that_is_answered_by_a_batch_has_failed() {
    modern(config(), |wire| {
        let request = call_tool(wire, "query", json!({"region": "eu"}));
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32020, None);
        let listing = wire.expect("tools/list");
        let page = page(json!([query()]), None);
        wire.reply_json(&listing, 200, &json!([answer(&listing.id(), page)]));
        wire.advance(Duration::from_secs(1));
        assert!(matches!(wire.outcome(request), Outcome::Error(error) if error.code == -32020));
    });
}

#[test]
fn caller_can_cancel_a_call_that_waits_for_the_tools() {
    modern(config(), |wire| {
        let request = call_tool(wire, "query", json!({"region": "eu"}));
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32020, None);
        let listing = wire.expect("tools/list");
        wire.client.at(wire.now).cancel(request, None);
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        wire.answer(&listing, page(json!([query()]), None));
        wire.expect_silence();
    });
}

/// C4.11, R6: an argument that cannot be a header is refused before anything is sent.
#[test]
fn client_refuses_an_argument_that_cannot_be_a_header() {
    modern(config(), |wire| {
        list(wire, json!([query()]));
        let request = call_tool(wire, "query", json!({"limit": 9_007_199_254_740_993_u64}));
        assert!(matches!(wire.outcome(request), Outcome::Refused(RequestError::Encode(_))));
        wire.expect_silence();
    });
}

/// K25
#[test]
fn client_repeats_a_lost_call_of_a_read_only_tool_once() {
    let tools = json!([
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}},
        {"name": "pay", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": false}},
    ]);
    let lose = |wire: &mut ClientWire| {
        for (name, again) in [("look", true), ("set", true), ("pay", false), ("unknown", false)] {
            let request = call_tool(wire, name, json!({}));
            let first = wire.expect("tools/call");
            wire.stream(&first);
            wire.truncate(&first);
            if again {
                let second = wire.expect("tools/call");
                assert_ne!(second.id(), first.id());
                wire.answer(&second, json!({"content": []}));
                wire.result(request);
            } else {
                assert!(matches!(wire.outcome(request), Outcome::Lost(_)), "{name}");
                wire.expect_silence();
            }
        }
    };
    let mut trusting = config();
    trusting.annotations = Trust::Trusted;
    modern(trusting.clone(), |wire| {
        list(wire, tools.clone());
        lose(wire);
    });
    legacy(trusting, |wire, _| {
        list(wire, tools.clone());
        lose(wire);
    });
}

/// C9.3, C4.15
#[test]
fn client_does_not_repeat_a_lost_call_because_of_untrusted_annotations() {
    let hints = json!({"readOnlyHint": true, "idempotentHint": true});
    let tools = json!([{"name": "look", "inputSchema": {"type": "object"}, "annotations": hints}]);
    let lose = |wire: &mut ClientWire| {
        let request = call_tool(wire, "look", json!({}));
        let first = wire.expect("tools/call");
        wire.stream(&first);
        wire.truncate(&first);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
        wire.expect_silence();
    };
    modern(config(), |wire| {
        list(wire, tools.clone());
        lose(wire);
    });
    legacy(config(), |wire, _| {
        list(wire, tools.clone());
        lose(wire);
    });
}

/// Legacy revisions define no such headers.
#[test]
fn client_sends_no_parameter_headers_to_a_legacy_server() {
    legacy(config(), |wire, _| {
        let bad = json!({"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"x-mcp-header": ""}}}});
        assert_eq!(list(wire, json!([query(), bad])), json!([query(), bad]));
        assert!(wire.diagnostics().is_empty());
        call_tool(wire, "query", json!({"region": "eu"}));
        assert_eq!(params(&wire.expect("tools/call")), []);
    });
}

#[test]
fn call_that_the_server_refused_was_sent() {
    modern(config(), |wire| {
        let request = call_tool(wire, "query", json!({"region": "eu"}));
        let first = wire.expect("tools/call");
        wire.refuse(&first, 400, -32020, None);
        wire.expect("tools/list");
        wire.client.at(wire.now).close();
        wire.advance(Duration::from_secs(10));
        let outcome = wire.outcome(request);
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    });
}
