//! The cache over HTTP, where every request is an exchange.

use super::*;
use crate::common::http_client::{ClientWire, config, modern};
use mcp_proto::transport::http::SentState;

fn list(wire: &mut ClientWire) -> RequestId {
    wire.client.at(wire.now).request::<ListTools>(&first(), RequestOptions::default()).unwrap()
}

fn fetch(wire: &mut ClientWire, result: Value) -> Value {
    let request = list(wire);
    let exchange = wire.expect("tools/list");
    wire.answer(&exchange, result);
    wire.result(request)
}

fn cached(wire: &mut ClientWire) -> Value {
    let request = list(wire);
    wire.expect_silence();
    wire.result(request)
}

fn with_header(mut result: Value, header: &str) -> Value {
    result["tools"][0]["inputSchema"] =
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}});
    result
}

fn call(wire: &mut ClientWire) -> RequestId {
    let mut params = CallToolParams::new("a");
    params.arguments = Some(serde_json::from_value(json!({"region": "eu"})).unwrap());
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

/// C8.3: a cached result opens no exchange.
#[test]
fn client_requests_a_cacheable_list_once() {
    modern(config(), |wire| {
        let answer = fetch(wire, tools("a", 1_000));
        assert_eq!(cached(wire), answer);
        wire.advance(SECOND);
        fetch(wire, tools("a", 1_000));
    });
}

/// C4.11: what is kept is what the application was told, without what cannot be called.
#[test]
fn client_caches_the_list_without_invalid_tools() {
    modern(config(), |wire| {
        let answer = fetch(wire, with_header(tools("a", 60_000), "not a header"));
        assert_eq!(answer["tools"], json!([]));
        wire.diagnostics();
        assert_eq!(cached(wire), answer);
        assert!(wire.diagnostics().is_empty(), "the invalid tool is reported once");
    });
}

/// C4.13, C8.4: the client lists the tools again despite its cache, and the cached list is invalid.
#[test]
fn header_mismatch_invalidates_the_list_of_tools() {
    modern(config(), |wire| {
        fetch(wire, with_header(tools("a", 60_000), "Region"));
        let request = call(wire);
        let exchange = wire.expect("tools/call");
        assert_eq!(exchange.header("mcp-param-region"), Some("eu"));
        wire.refuse(&exchange, 400, -32020, None);
        let relist = wire.expect("tools/list");
        wire.answer(&relist, with_header(tools("a", 60_000), "Area"));
        let again = wire.expect("tools/call");
        assert_eq!(again.header("mcp-param-area"), Some("eu"));
        wire.answer(&again, json!({"resultType": "complete", "content": []}));
        wire.result(request);
        fetch(wire, with_header(tools("a", 60_000), "Area"));
        cached(wire);
    });
}

/// C8.5
#[test]
fn change_notification_on_a_stream_invalidates_the_list() {
    modern(config(), |wire| {
        fetch(wire, tools("a", 60_000));
        call(wire);
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.event(&exchange, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        fetch(wire, tools("b", 60_000));
    });
}

#[test]
fn client_uses_a_stale_result_if_the_server_fails() {
    let mut config = config();
    config.client.cache.stale_if_error = Duration::from_secs(600);
    modern(config, |wire| {
        let answer = fetch(wire, tools("a", 1_000));
        wire.advance(SECOND);
        let unavailable = list(wire);
        let exchange = wire.expect("tools/list");
        wire.reply(&exchange, 503, &[("content-type", "text/plain")], "down");
        assert_eq!(wire.result(unavailable), answer);

        let forbidden = list(wire);
        let exchange = wire.expect("tools/list");
        wire.reply(&exchange, 403, &[("content-type", "text/plain")], "no");
        assert!(matches!(wire.outcome(forbidden), Outcome::Transport(_)));

        let broken = list(wire);
        for _ in 0..2 {
            let exchange = wire.expect("tools/list");
            wire.fail(&exchange, SentState::MaybeSent);
        }
        assert_eq!(wire.result(broken), answer);
    });
}
