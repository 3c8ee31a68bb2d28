//! The client over HTTP with a server that sends results in parts, which is an option.

use crate::common::http_client::{ClientWire, config, modern};
use mcp_proto::peer::client::Event;
use mcp_proto::peer::{InvalidAnswerError, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams};
use mcp_proto::transport::http::client::HttpClientConfig;
use serde_json::json;

fn chunked_results_config() -> HttpClientConfig {
    let mut config = config();
    config.chunked_results = true;
    config
}

fn call_tool(wire: &mut ClientWire) -> RequestId {
    let params = CallToolParams::new("pay");
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

/// F56
#[test]
fn client_reports_and_joins_partial_results() {
    modern(chunked_results_config(), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, ": heartbeat\n\n");
        wire.body(
            &call,
            "event: result\ndata: {\"content\": [{\"type\":\"text\",\"text\":\"a\"}], \"isError\": true}\n\n",
        );
        wire.body(&call, "event: result\ndata: {\"content\": []}\n\n");
        wire.body(&call, "event: result\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}}\n\n");
        wire.expect_pending(request);
        let fragments = wire.take_events();
        let told =
            |event: &Event| matches!(event, Event::PartialResult { request: of, .. } if *of == request);
        assert!(fragments.len() == 3 && fragments.iter().all(told), "{fragments:?}");
        wire.body(
            &call,
            "event: complete\ndata: {\"result\": {\"isError\": false, \"structuredContent\": [1]}}\n\n",
        );
        let whole = json!({
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "isError": false, "structuredContent": [1],
        });
        assert_eq!(wire.result(request), whole);
        wire.end(&call);
        assert!(wire.take_events().is_empty());
    });
}

/// F56
#[test]
fn client_does_not_report_parts_of_its_own_listing() {
    modern(chunked_results_config(), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32020, None);
        let listing = wire.expect("tools/list");
        wire.stream(&listing);
        wire.body(&listing, "event: result\ndata: {\"tools\": []}\n\n");
        let events = wire.take_events();
        assert!(events.is_empty(), "{events:?}");
        wire.body(&listing, "event: complete\ndata: {}\n\n");
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"content": []}));
        wire.result(request);
    });
}

/// F56
#[test]
fn last_part_with_content_replaces_the_others() {
    modern(chunked_results_config(), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "event: result\ndata: {\"content\": [1]}\n\n");
        wire.body(&call, "event: complete\ndata: {\"id\": 2, \"result\": {\"content\": [1, 2]}}\n\n");
        assert_eq!(wire.result(request), json!({"content": [1, 2]}));
    });
}

/// F56
#[test]
fn error_event_ends_the_request() {
    for data in [
        json!({"code": -32050, "message": "no"}),
        json!({"jsonrpc": "2.0", "id": 9, "error": {"code": -32050, "message": "no", "data": {"a": 1}}}),
    ] {
        modern(chunked_results_config(), |wire| {
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            wire.stream(&call);
            wire.body(&call, &format!("event: error\ndata: {data}\n\n"));
            assert!(matches!(wire.outcome(request), Outcome::Error(error) if error.code == -32050));
        });
    }
}

#[test]
fn invalid_or_oversized_parts_make_the_result_invalid() {
    let mut config = chunked_results_config();
    config.client.limits.message_bytes = 1000;
    modern(config, |wire| {
        for bad in
            ["event: result\ndata: [1]\n\n", "event: complete\ndata: 7\n\n", "event: error\ndata: {}\n\n"]
        {
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            wire.stream(&call);
            wire.body(&call, bad);
            assert!(
                matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))),
                "{bad}"
            );
        }
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        for _ in 0..3 {
            wire.body(&call, &format!("event: result\ndata: {{\"content\": [\"{}\"]}}\n\n", "x".repeat(500)));
        }
        assert!(matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::TooLong { .. })));
    });
}

/// K15
#[test]
fn client_ignores_partial_results_by_default() {
    modern(config(), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "event: complete\ndata: {\"content\": [1]}\n\n");
        wire.expect_pending(request);
        wire.end(&call);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
    });
}
