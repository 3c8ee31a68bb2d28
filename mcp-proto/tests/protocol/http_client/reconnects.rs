//! How often the client over HTTP reconnects to empty streams.
//!
//! A server that ended every stream at once, with a new event id and `retry: 0`, was polled thousands of times a
//! second.

use std::time::Duration;

use crate::common::http_client::{ClientWire, Exchange, config, legacy, legacy_config, modern, scenario};
use crate::common::messages::LEGACY;
use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{State, WatchFilter, WatchStart};
use mcp_proto::schema::{CallTool, CallToolParams};
use mcp_proto::transport::http::Verb;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

fn call_tool(wire: &mut ClientWire) {
    let options = RequestOptions::default().timeout(10 * MINUTE);
    wire.client.at(wire.now).request::<CallTool>(&CallToolParams::new("pay"), options).unwrap();
}

/// Answers each exchange of one minute by `answer`, and counts the GETs.
fn gets_in_a_minute(
    wire: &mut ClientWire,
    mut serve: impl FnMut(&mut ClientWire, &Exchange, usize),
) -> usize {
    let end = wire.now + MINUTE;
    let mut gets = 0;
    loop {
        while let Some(exchange) = wire.next() {
            gets += usize::from(exchange.request.verb == Verb::Get);
            assert!(gets < 10_000, "a storm");
            serve(wire, &exchange, gets);
        }
        match wire.client.poll_timeout().filter(|&due| due < end) {
            Some(_) => _ = wire.advance_to_timeout(),
            None => return gets,
        }
    }
}

/// An event without data, with an id for resumption.
fn end_with_new_id(wire: &mut ClientWire, exchange: &Exchange, number: usize) {
    wire.stream(exchange);
    wire.body(exchange, &format!(": hello\n\nid: e-{number}\nretry: 0\ndata:\n\n"));
    wire.end(exchange);
}

fn end_with_message(wire: &mut ClientWire, exchange: &Exchange, number: usize) {
    wire.stream(exchange);
    let message = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    wire.body(exchange, &format!("id: e-{number}\nretry: 0\ndata: {message}\n\n"));
    wire.end(exchange);
}

#[test]
fn client_does_not_poll_a_response_without_pause() {
    legacy(config(), |wire, _| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        end_with_new_id(wire, &call, 0);
        assert_eq!(wire.client.poll_timeout(), Some(wire.now), "the first time the server's pause applies");
        let gets = gets_in_a_minute(wire, end_with_new_id);
        assert!((30..40).contains(&gets), "{gets}");
    });
}

#[test]
fn client_does_not_resume_a_response_faster_than_the_minimum_pause() {
    legacy(config(), |wire, _| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        end_with_message(wire, &call, 0);
        let gets = gets_in_a_minute(wire, end_with_message);
        assert!((500..=601).contains(&gets), "{gets}");
    });
}

/// C4.22
#[test]
fn client_does_not_reopen_an_idle_listening_stream_without_pause() {
    legacy(config(), |wire, listener| {
        wire.body(&listener, "id: e-0\nretry: 0\ndata:\n\n");
        wire.end(&listener);
        let gets = gets_in_a_minute(wire, end_with_new_id);
        assert!((30..40).contains(&gets), "{gets}");
        assert_eq!(wire.client.state(), State::Ready);
    });
}

#[test]
fn listening_stream_that_brings_messages_again_is_reopened_as_the_server_wants() {
    legacy(config(), |wire, listener| {
        wire.body(&listener, "id: e-0\nretry: 300\ndata:\n\n");
        wire.end(&listener);
        let mut pauses = Vec::new();
        for number in 1..=7 {
            pauses.push(wire.advance_to_timeout().as_millis());
            let listener = wire.expect_get();
            if number == 6 {
                end_with_message(wire, &listener, number);
            } else {
                wire.stream(&listener);
                wire.body(&listener, &format!("id: e-{number}\nretry: 300\ndata:\n\n"));
                wire.end(&listener);
            }
        }
        assert_eq!(pauses, [300, 300, 300, 400, 800, 1600, 100]);
    });
}

#[test]
fn client_gives_up_an_event_stream_of_http_sse_that_keeps_ending() {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = wire.expect_get();
        wire.stream(&events);
        wire.body(&events, "event: endpoint\ndata: /messages\n\n");
        let initialize = wire.expect("initialize");
        wire.accept(&initialize);
        wire.event_answer(&events, &initialize.id(), crate::common::messages::initialize_result(LEGACY));
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        assert_eq!(wire.client.state(), State::Ready);
        wire.end(&events);
        let gets = gets_in_a_minute(wire, |wire, exchange, _| match exchange.request.verb {
            Verb::Get => {
                wire.stream(exchange);
                wire.body(exchange, "retry: 0\nevent: endpoint\ndata: /messages\n\n");
                wire.end(exchange);
            }
            _ => wire.accept(exchange),
        });
        assert!(gets <= 6, "{gets}");
        assert!(wire.client.is_closed());
    });
}

#[test]
fn client_does_not_subscribe_again_without_pause() {
    modern(config(), |wire| {
        wire.client.at(wire.now).watch(WatchFilter::new().tools(), WatchStart::Now).unwrap();
        let mut listens = 0;
        gets_in_a_minute(wire, |wire, exchange, _| {
            assert_eq!(exchange.body["method"], "subscriptions/listen");
            listens += 1;
            assert!(listens < 10_000, "a storm");
            wire.stream(exchange);
            let params = json!({
                "_meta": {"io.modelcontextprotocol/subscriptionId": exchange.id()},
                "notifications": {"toolsListChanged": true},
            });
            let method = "notifications/subscriptions/acknowledged";
            wire.event(exchange, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
            wire.end(exchange);
        });
        assert!((3..15).contains(&listens), "{listens}");
    });
}
