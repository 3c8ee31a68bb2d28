//! Input rounds over HTTP: each round is an exchange of its own.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use std::time::Duration;

use crate::common::http_client::{ClientWire, Exchange, config, legacy, modern};
use mcp_proto::peer::client::Event;
use mcp_proto::peer::{InboundId, InputError, LostReason, Outcome, ReissuePolicy, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitAction, ElicitResult, ListRootsResult, ListTools,
    ListToolsParams, ReadResource, ReadResourceParams,
};
use mcp_proto::transport::http::SentState;
use mcp_proto::transport::http::client::HttpClientConfig;
use serde_json::{Value, json};

fn open_config() -> HttpClientConfig {
    let mut config = config();
    let declared = &mut config.client.capabilities;
    *declared = declared.clone().with(ClientCapability::Roots).with(ClientCapability::ElicitationUrl);
    config
}

fn call(wire: &mut ClientWire, options: RequestOptions) -> (RequestId, Exchange) {
    let params = CallToolParams::new("weather").with_arguments(json!({"city": "Zürich"}));
    let request = wire.client.at(wire.now).request::<CallTool>(&params, options).unwrap();
    (request, wire.expect("tools/call"))
}

fn input_required_result() -> Value {
    json!({
        "resultType": "input_required", "requestState": "S", "inputRequests": {"r": {"method": "roots/list"}},
    })
}

fn state_only_result() -> Value {
    json!({"resultType": "input_required", "requestState": "S"})
}

fn final_result() -> Value {
    json!({"resultType": "complete", "content": []})
}

fn expect_input_request(wire: &mut ClientWire) -> InboundId {
    let asked: Vec<InboundId> = wire
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Request { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(asked.len(), 1);
    asked[0]
}

fn respond(wire: &mut ClientWire, id: InboundId) {
    wire.client.at(wire.now).respond(id, Ok(&ListRootsResult::new([])));
}

fn headers_but_length(exchange: &Exchange) -> Vec<(String, String)> {
    let headers = exchange.request.headers.iter();
    headers.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// C5.2, C5.3, C5.4
#[test]
fn retry_is_a_new_exchange_with_the_headers_of_the_first() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, input_required_result());
        let id = expect_input_request(wire);
        wire.expect_silence();
        respond(wire, id);
        let second = wire.expect("tools/call");
        assert_ne!(second.exchange(), first.exchange());
        assert_ne!(second.id(), first.id());
        assert_eq!(headers_but_length(&second), headers_but_length(&first));
        assert_eq!(second.header("mcp-name"), Some("weather"));
        let mut expected = first.body["params"].clone();
        expected["inputResponses"] = json!({"r": {"roots": []}});
        expected["requestState"] = json!("S");
        assert_eq!(second.body["params"], expected);
        wire.answer(&second, final_result());
        assert_eq!(wire.result(request), final_result());
        wire.expect_silence();
        wire.expect_no_abort();
    });
}

/// C5.2, C4.9
#[test]
fn client_sends_parameter_headers_in_each_round() {
    modern(open_config(), |wire| {
        wire.client
            .at(wire.now)
            .request::<ListTools>(&ListToolsParams::new(), RequestOptions::default())
            .unwrap();
        let list = wire.expect("tools/list");
        let city = json!({"type": "string", "x-mcp-header": "City"});
        let schema = json!({"type": "object", "properties": {"city": city}});
        wire.answer(&list, json!({"tools": [{"name": "weather", "inputSchema": schema}]}));
        let (request, first) = call(wire, RequestOptions::default());
        assert!(first.header("mcp-param-city").is_some());
        wire.answer(&first, state_only_result());
        let second = wire.expect("tools/call");
        assert_eq!(headers_but_length(&second), headers_but_length(&first));
        wire.answer(&second, final_result());
        wire.result(request);
    });
}

/// C5.2
#[test]
fn client_ignores_a_stream_after_its_input_required_result() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.stream(&first);
        wire.event_answer(&first, &first.id(), input_required_result());
        let id = expect_input_request(wire);
        wire.event_answer(&first, &first.id(), final_result());
        wire.expect_pending(request);
        respond(wire, id);
        let second = wire.expect("tools/call");
        wire.truncate(&first);
        wire.expect_pending(request);
        wire.answer(&second, final_result());
        assert_eq!(wire.result(request), final_result());
    });
}

/// C7.6
#[test]
fn client_cancels_a_request_between_two_rounds_without_a_message() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, input_required_result());
        let id = expect_input_request(wire);
        wire.client.at(wire.now).cancel(request, None);
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        let events = wire.take_events();
        assert!(
            events.iter().any(|event| matches!(event, Event::RequestCancelled { id: of, .. } if *of == id))
        );
        wire.expect_silence();
        wire.expect_no_abort();
        respond(wire, id);
        wire.expect_silence();
    });
}

/// C7.6
#[test]
fn client_cancels_a_request_in_its_second_round_by_aborting_that_exchange() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, state_only_result());
        let second = wire.expect("tools/call");
        wire.client.at(wire.now).cancel(request, None);
        wire.expect_abort(&second);
        wire.expect_no_abort();
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        wire.expect_silence();
    });
}

/// C7.1
#[test]
fn client_aborts_a_second_round_that_times_out() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, input_required_result());
        let id = expect_input_request(wire);
        wire.advance(Duration::from_secs(300));
        wire.expect_pending(request);
        respond(wire, id);
        let second = wire.expect("tools/call");
        wire.advance(Duration::from_secs(30));
        wire.expect_abort(&second);
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { hard: false, .. }));
    });
}

/// C7.4
#[test]
fn hard_timeout_applies_between_two_rounds() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, input_required_result());
        wire.advance(Duration::from_secs(600));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { hard: true, .. }));
        wire.expect_no_abort();
        wire.expect_silence();
    });
}

/// C5.7
#[test]
fn client_paces_states_without_requests_and_bounds_the_rounds() {
    modern(open_config(), |wire| {
        let (request, mut exchange) = call(wire, RequestOptions::default());
        for pause in [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000] {
            wire.answer(&exchange, state_only_result());
            if pause > 0 {
                wire.advance(Duration::from_millis(pause - 1));
                wire.expect_silence();
                wire.advance(Duration::from_millis(1));
            }
            exchange = wire.expect("tools/call");
        }
        wire.answer(&exchange, state_only_result());
        assert!(matches!(wire.outcome(request), Outcome::Input(InputError::TooManyRounds { limit: 10 })));
    });
}

/// The rules of repetition apply to each round.
#[test]
fn client_repeats_a_lost_later_round_only_if_that_is_safe() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, state_only_result());
        let second = wire.expect("tools/call");
        wire.stream(&second);
        wire.truncate(&second);
        assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
        wire.expect_silence();

        let options = RequestOptions::default().reissue(ReissuePolicy::Always);
        let (request, first) = call(wire, options);
        wire.truncate(&first);
        let first = wire.expect("tools/call");
        wire.answer(&first, input_required_result());
        let id = expect_input_request(wire);
        respond(wire, id);
        let second = wire.expect("tools/call");
        wire.truncate(&second);
        let third = wire.expect("tools/call");
        assert_ne!(third.id(), second.id());
        assert_eq!(third.body["params"], second.body["params"], "the retry keeps responses and state");
        wire.answer(&third, final_result());
        assert_eq!(wire.result(request), final_result());

        let params = ReadResourceParams::new("a:b");
        let request =
            wire.client.at(wire.now).request::<ReadResource>(&params, RequestOptions::default()).unwrap();
        let first = wire.expect("resources/read");
        wire.answer(&first, state_only_result());
        let second = wire.expect("resources/read");
        wire.truncate(&second);
        let third = wire.expect("resources/read");
        assert_eq!(third.header("mcp-name"), Some("a:b"));
        assert_eq!(third.body["params"]["requestState"], "S");
        wire.answer(&third, json!({"contents": []}));
        wire.result(request);
    });
}

#[test]
fn client_sends_an_unsent_round_later() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, state_only_result());
        let second = wire.expect("tools/call");
        wire.fail(&second, SentState::NotSent);
        wire.advance_to_timeout();
        let again = wire.expect("tools/call");
        assert_eq!(again.body, second.body);
        wire.answer(&again, final_result());
        assert_eq!(wire.result(request), final_result());
    });
}

/// The server may have acted on the first round.
#[test]
fn call_is_lost_when_its_second_round_cannot_be_sent() {
    let mut config = open_config();
    config.backoff.attempts = 0;
    modern(config, |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, state_only_result());
        let second = wire.expect("tools/call");
        wire.fail(&second, SentState::NotSent);
        assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
    });
}

/// C4.13
#[test]
fn client_lists_the_tools_after_a_header_mismatch_and_keeps_the_state() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, state_only_result());
        let second = wire.expect("tools/call");
        wire.refuse(&second, 400, -32020, None);
        let list = wire.expect("tools/list");
        wire.answer(&list, json!({"tools": []}));
        let third = wire.expect("tools/call");
        assert_eq!(third.body["params"], second.body["params"]);
        wire.answer(&third, final_result());
        assert_eq!(wire.result(request), final_result());
    });
}

#[test]
fn end_of_the_connection_cancels_input_requests() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, input_required_result());
        let id = expect_input_request(wire);
        wire.client.at(wire.now).abort(LostReason::DriverDropped);
        let events = wire.take_events();
        assert!(
            events.iter().any(|event| matches!(event, Event::RequestCancelled { id: of, .. } if *of == id))
        );
        let lost = |event: &Event| matches!(event, Event::Outcome { request: of, outcome: Outcome::Lost(LostReason::DriverDropped) } if *of == request);
        assert!(events.iter().any(lost));
        respond(wire, id);
        wire.expect_silence();
    });
}

#[test]
fn closing_client_lets_the_last_round_finish() {
    modern(open_config(), |wire| {
        let (request, first) = call(wire, RequestOptions::default());
        wire.answer(&first, input_required_result());
        let id = expect_input_request(wire);
        wire.client.at(wire.now).close();
        respond(wire, id);
        let second = wire.expect("tools/call");
        wire.answer(&second, final_result());
        assert_eq!(wire.result(request), final_result());
        assert!(wire.client.is_closed());
    });
}

/// C10.9
#[test]
fn client_retries_after_a_page_in_a_legacy_session() {
    legacy(open_config(), |wire, listener| {
        let (request, first) = call(wire, RequestOptions::default());
        let page = json!({"mode": "url", "elicitationId": "p", "url": "https://a.b", "message": "m"});
        wire.refuse(&first, 200, -32042, Some(json!({"elicitations": [page]})));
        let id = expect_input_request(wire);
        wire.client.at(wire.now).respond(id, Ok(&ElicitResult::new(ElicitAction::Accept)));
        wire.expect_silence();
        let params = json!({"elicitationId": "p"});
        let complete =
            json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params});
        wire.event(&listener, &complete);
        let second = wire.expect("tools/call");
        assert_ne!(second.id(), first.id());
        assert_eq!(second.body["params"], first.body["params"]);
        assert_eq!(second.header("mcp-session-id"), first.header("mcp-session-id"));
        wire.answer(&second, json!({"content": []}));
        wire.result(request);
    });
}

/// An `input_required` result in a batch, which the revision does not have, is accepted like any other response in one.
#[test]
fn client_accepts_an_input_required_result_in_a_batch() {
    for streamed in [true, false] {
        modern(open_config(), |wire| {
            let (request, first) = call(wire, RequestOptions::default());
            let batch = json!([{"jsonrpc": "2.0", "id": first.id(), "result": state_only_result()}]);
            if streamed {
                wire.stream(&first);
                wire.event(&first, &batch);
                wire.end(&first);
            } else {
                wire.reply_json(&first, 200, &batch);
            }
            let second = wire.expect("tools/call");
            assert_eq!(second.body["params"]["requestState"], "S");
            wire.expect_pending(request);
            wire.answer(&second, final_result());
            assert_eq!(wire.result(request), final_result());
        });
    }
}

#[test]
fn client_does_not_follow_the_redirect_of_an_answered_exchange() {
    modern(open_config(), |wire| {
        let (_, first) = call(wire, RequestOptions::default());
        let (_, other) = call(wire, RequestOptions::default());
        wire.stream(&other);
        wire.event_answer(&other, &first.id(), state_only_result());
        let second = wire.expect("tools/call");
        assert_ne!(second.id(), first.id());
        wire.reply(&first, 307, &[("location", "/mcp2")], "");
        if let Some(third) = wire.next() {
            panic!("sent twice: {} and {}", second.body, third.body);
        }
    });
}
