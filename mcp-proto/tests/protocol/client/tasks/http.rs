//! Tasks over HTTP.

use core::time::Duration;

use mcp_proto::peer::client::Event;
use mcp_proto::peer::{Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitResult, ListTools, PaginatedParams,
};
use serde_json::json;

use super::*;
use crate::common::http_client::ClientWire;

fn http_call(
    wire: &mut ClientWire,
    options: RequestOptions,
) -> (RequestId, crate::common::http_client::Exchange) {
    let params = CallToolParams::new("slow");
    let request = wire.client.at(wire.now).request::<CallTool>(&params, options).unwrap();
    (request, wire.expect("tools/call"))
}

/// C14.2
#[test]
fn client_names_the_task_in_a_header() {
    let mut config = crate::common::http_client::config();
    config.client.capabilities = config.client.capabilities.with(ClientCapability::ElicitationForm);
    crate::common::http_client::modern(config, |wire| {
        let (request, exchange) = http_call(wire, RequestOptions::default());
        wire.answer(&exchange, created());
        wire.advance(INTERVAL);
        let get = wire.expect("tasks/get");
        assert_eq!((get.header("mcp-method"), get.header("mcp-name")), (Some("tasks/get"), Some("task-1")));
        wire.answer(&get, asking(&["name"]));
        let id = wire.take_events().into_iter().find_map(|event| match event {
            Event::Request { id, .. } => Some(id),
            _ => None,
        });
        wire.client.at(wire.now).respond(id.unwrap(), Ok(&ElicitResult::decline()));
        let update = wire.expect("tasks/update");
        assert_eq!(update.header("mcp-name"), Some("task-1"));
        wire.answer(&update, json!({"resultType": "complete"}));
        wire.client.at(wire.now).cancel(request, None);
        let cancel = wire.expect("tasks/cancel");
        assert_eq!(cancel.header("mcp-name"), Some("task-1"));
        wire.answer(&cancel, json!({"resultType": "complete"}));
        wire.expect_no_abort();
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
    });
}

/// C14.3
#[test]
fn client_repeats_a_poll_that_fails_with_a_server_error() {
    crate::common::http_client::modern(crate::common::http_client::config(), |wire| {
        let (request, exchange) = http_call(wire, RequestOptions::default());
        wire.answer(&exchange, created());
        wire.advance(INTERVAL);
        let get = wire.expect("tasks/get");
        wire.reply(&get, 503, &[("retry-after", "7")], "busy");
        wire.advance(Duration::from_secs(6));
        wire.expect_silence();
        wire.advance(Duration::from_secs(1));
        let get = wire.expect("tasks/get");
        wire.answer(&get, completed());
        assert_eq!(wire.result(request)["content"][0]["text"], "done");
    });
}

/// C14.5, R7: over HTTP too, a call that requests a task is not cancelled by notification.
#[test]
fn legacy_call_cancelled_over_http_before_its_task_exists_cancels_the_task_later() {
    let mut config = crate::common::http_client::config();
    config.client.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    crate::common::http_client::scenario(config, |wire| {
        let initialize = wire.expect("initialize");
        let answer = json!({
            "jsonrpc": "2.0", "id": initialize.id(), "result": {
                "protocolVersion": "2025-11-25", "capabilities": legacy_capabilities(),
                "serverInfo": {"name": "scripted", "version": "1"},
            },
        });
        wire.reply_json(&initialize, 200, &answer);
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        let listener = wire.expect_get();
        wire.reply(&listener, 405, &[], "");
        let page = PaginatedParams::default();
        wire.client.at(wire.now).request::<ListTools>(&page, RequestOptions::default()).unwrap();
        let listing = wire.expect("tools/list");
        wire.answer(&listing, tools());
        let params = CallToolParams::new("required");
        for answered in [true, false] {
            let request =
                wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
            let exchange = wire.expect("tools/call");
            wire.client.at(wire.now).cancel(request, None);
            assert!(matches!(wire.outcome(request), Outcome::Cancelled));
            wire.expect_silence();
            wire.expect_no_abort();
            if answered {
                wire.answer(&exchange, json!({"task": legacy_task("working")}));
                let cancel = wire.expect("tasks/cancel");
                wire.answer(&cancel, legacy_task("cancelled"));
            } else {
                wire.advance(Duration::from_secs(30));
                wire.expect_abort(&exchange);
            }
            wire.expect_silence();
            assert_eq!(wire.client.peer().in_flight(), 0);
        }
    });
}
