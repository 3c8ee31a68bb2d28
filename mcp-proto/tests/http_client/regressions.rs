//! The client over HTTP where several things happen at once: sessions that change under way, answers in odd places,
//! servers that never finish.

use crate::http_common::{
    ClientWire, Exchange, LEGACY, MODERN, SESSION, config, discover_result, initialize_result, legacy,
    legacy_config, modern, scenario,
};
use mcp_proto::peer::client::{ClientConfig, Keepalive, State};
use mcp_proto::peer::{InvalidAnswerError, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapabilities, ClientCapability, Implementation, ListTools,
    ListToolsParams, RootsListChanged, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig};
use mcp_proto::transport::http::{ExchangeEnd, SentState};
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};
use std::time::Duration;

fn call_tool(wire: &mut ClientWire) -> RequestId {
    let params = CallToolParams::new("pay");
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

fn list_tools(wire: &mut ClientWire) -> RequestId {
    wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), RequestOptions::default()).unwrap()
}

/// Another request finds the session gone, and opens the next one; returns the listener of that.
fn expect_renewal(wire: &mut ClientWire) -> Exchange {
    let request = list_tools(wire);
    let list = wire.expect("tools/list");
    wire.reply(&list, 404, &[], "");
    wire.open_session(LEGACY, "session-2");
    let listener = wire.expect_get();
    wire.stream(&listener);
    let list = wire.expect("tools/list");
    wire.answer(&list, json!({"tools": []}));
    wire.result(request);
    listener
}

// --- Headers ---

/// C4.14
#[test]
fn the_names_of_headers_have_no_case_and_their_values_do() {
    for (name, kind) in [("mcp-session-id", "content-type"), ("MCP-SESSION-ID", "CONTENT-TYPE")] {
        scenario(legacy_config(), |wire| {
            let initialize = wire.expect("initialize");
            let result = initialize_result(LEGACY);
            let body = json!({"jsonrpc": "2.0", "id": initialize.id(), "result": result});
            let headers = [(kind, "Application/JSON"), (name, "AbC-xyz")];
            wire.reply(&initialize, 200, &headers, &body.to_string());
            assert_eq!(wire.expect("notifications/initialized").header("mcp-session-id"), Some("AbC-xyz"));
        });
    }
}

// --- Sessions ---

/// C4.23: the ids of events mean something within one session alone.
#[test]
fn a_stream_of_a_lost_session_is_not_resumed_in_the_next_one() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: 3\nretry: 10\ndata:\n\n");
        expect_renewal(wire);
        wire.truncate(&call);
        wire.advance(Duration::from_secs(1));
        wire.expect_silence();
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
    });
}

/// C4.18: an id names a request of the server within one session alone.
#[test]
fn a_reply_that_never_left_does_not_go_to_the_next_session() {
    legacy(config(), |wire, listener| {
        wire.event(&listener, &json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        let reply = wire.next().unwrap();
        wire.fail(&reply, SentState::No);
        expect_renewal(wire);
        wire.advance(Duration::from_secs(10));
        wire.expect_silence();
    });
}

/// C4.19: what a lost session had been asked is asked in the next one, and not on the way there.
#[test]
fn a_redirect_in_a_lost_session_leads_to_the_next_one() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let other = list_tools(wire);
        let list = wire.expect("tools/list");
        wire.reply(&list, 404, &[], "");
        wire.reply(&call, 307, &[("location", "/other")], "");
        wire.open_session(LEGACY, "session-2");
        wire.expect_get();
        let again = wire.expect("tools/call");
        assert_eq!(again.header("mcp-session-id"), Some("session-2"));
        let list = wire.expect("tools/list");
        wire.answer(&again, json!({"content": []}));
        wire.answer(&list, json!({"tools": []}));
        wire.result(request);
        wire.result(other);
    });
}

// --- Answers ---

/// Contract 1: the id of a result says what it answers, in a body as on a stream.
#[test]
fn a_result_with_the_id_of_another_request_is_not_taken() {
    for streams in [false, true] {
        modern(config(), |wire| {
            let one = call_tool(wire);
            let first = wire.expect("tools/call");
            let two = call_tool(wire);
            let second = wire.expect("tools/call");
            let result = json!({"resultType": "complete", "content": []});
            let theirs = json!({"jsonrpc": "2.0", "id": 4711, "result": result.clone()});
            if streams {
                wire.stream(&first);
                wire.event(&first, &theirs);
                wire.expect_pending(one);
                wire.end(&first);
                assert!(matches!(wire.outcome(one), Outcome::Lost(_)));
            } else {
                wire.reply_json(&first, 200, &theirs);
                let outcome = wire.outcome(one);
                assert!(matches!(outcome, Outcome::Invalid(InvalidAnswerError::Malformed(_))), "{outcome:?}");
            }
            wire.answer(&second, result);
            wire.result(two);
        });
    }
}

/// A request that still waits can not have been answered, nor one that is to go out again.
#[test]
fn an_answer_to_what_was_not_asked_yet_is_not_taken() {
    let mut config = config();
    config.client.limits.exchanges = 1;
    legacy(config, |wire, listener| {
        let one = call_tool(wire);
        let first = wire.expect("tools/call");
        let two = call_tool(wire);
        wire.expect_silence();
        let id = first.id().as_i64().unwrap() + 1;
        wire.event_answer(&listener, &json!(id), json!({"content": ["early"]}));
        wire.event(&listener, &json!({"jsonrpc": "2.0", "id": id, "result": 1, "method": 2}));
        wire.expect_pending(two);
        wire.answer(&first, json!({"content": []}));
        wire.result(one);
        let second = wire.expect("tools/call");
        assert_eq!(second.id(), json!(id));
        wire.answer(&second, json!({"content": ["late"]}));
        assert_eq!(wire.result(two), json!({"content": ["late"]}));
    });
}

/// A request that went out once more is answered under its new id, and its exchange is not forgotten for an old answer.
#[test]
fn the_first_answer_to_a_request_that_went_out_again_comes_too_late() {
    legacy(config(), |wire, listener| {
        let request = list_tools(wire);
        let first = wire.expect("tools/list");
        wire.fail(&first, SentState::Maybe);
        let second = wire.expect("tools/list");
        wire.event_answer(&listener, &first.id(), json!({"tools": [], "nextCursor": "first"}));
        wire.expect_pending(request);
        wire.answer(&second, json!({"tools": [], "nextCursor": "second"}));
        assert_eq!(wire.result(request)["nextCursor"], "second");
    });
}

/// The challenge says how to log in, whatever else the body says.
#[test]
fn a_challenge_is_kept_beside_an_error() {
    for (status, headers, kept) in [
        (401, &[("www-authenticate", "Bearer scope=\"a\"")][..], true),
        (401, &[][..], true),
        (403, &[("www-authenticate", "Bearer error=\"insufficient_scope\"")][..], true),
        (403, &[][..], false),
        (400, &[][..], false),
    ] {
        for id in [json!(null), json!("own")] {
            modern(config(), |wire| {
                let request = call_tool(wire);
                let call = wire.expect("tools/call");
                let id = if id == "own" { call.id() } else { id.clone() };
                let mut headers = headers.to_vec();
                headers.push(("content-type", "application/json"));
                let error = json!({"code": -32001, "message": "who are you?"});
                let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                wire.reply(&call, status, &headers, &body);
                match wire.outcome(request) {
                    Outcome::Transport(http) if kept => {
                        assert_eq!(http.status, status);
                        assert_eq!(http.challenge.is_some(), headers.len() > 1);
                        assert!(http.detail.contains("who are you?"));
                    }
                    Outcome::Error(error) if !kept => assert_eq!(error.code, -32001),
                    other => panic!("{status}: {other:?}"),
                }
            });
        }
    }
}

/// C4.3: a modern server is sent no responses, even if it asked before it was known to be one.
#[test]
fn a_server_that_turns_out_to_be_modern_is_not_answered() {
    for together in [false, true] {
        scenario(config(), |wire| {
            let probe = wire.expect("server/discover");
            wire.stream(&probe);
            let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
            let answer = json!({"jsonrpc": "2.0", "id": probe.id(), "result": discover_result()});
            if together {
                wire.body(&probe, &format!("data: {ping}\n\ndata: {answer}\n\n"));
            } else {
                wire.event(&probe, &ping);
                wire.event(&probe, &answer);
            }
            assert_eq!(wire.client.state(), State::Ready);
            wire.expect_silence();
            call_tool(wire);
            assert_eq!(wire.expect("tools/call").header("mcp-protocol-version"), Some(MODERN));
        });
    }
}

/// The same question is answered where the server turns out to be legacy.
#[test]
fn a_server_that_turns_out_to_be_legacy_is_answered() {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.head(&initialize, 200, &[("content-type", "text/event-stream"), ("mcp-session-id", SESSION)]);
        wire.event(&initialize, &json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        wire.event_answer(&initialize, &initialize.id(), initialize_result(LEGACY));
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        let sent: Vec<Value> = std::iter::from_fn(|| wire.next()).map(|exchange| exchange.body).collect();
        assert!(sent.contains(&json!({"jsonrpc": "2.0", "id": 9, "result": {}})), "{sent:?}");
    });
}

// --- What never finishes ---

/// C7.11: a ping that was missed holds nothing.
#[test]
fn a_ping_that_was_missed_is_broken_off() {
    let mut config = config();
    config.client.keepalive = Some(Keepalive::PRESET);
    legacy(config, |wire, _| {
        for _ in 0..20 {
            // Every other one is answered.
            wire.advance(Duration::from_secs(35));
            let missed = wire.expect("ping");
            wire.advance(Duration::from_secs(30));
            let heard = wire.expect("ping");
            wire.expect_abort(&missed);
            wire.answer(&heard, json!({}));
        }
        assert_eq!(wire.client.state(), State::Ready);
    });
}

/// Contract 6: a notification that is never answered does not keep others from being sent for ever.
#[test]
fn a_notification_that_is_not_answered_is_broken_off() {
    let mut config = config();
    config.client.limits.exchanges = 2;
    config.client.capabilities = ClientCapabilities::new().with(ClientCapability::RootsListChanged);
    legacy(config, |wire, _| {
        for _ in 0..3 {
            wire.client.at(wire.now).notify::<RootsListChanged>(&Default::default()).unwrap();
        }
        let first = wire.expect("notifications/roots/list_changed");
        let second = wire.expect("notifications/roots/list_changed");
        wire.expect_silence();
        wire.advance(Duration::from_secs(30));
        wire.expect_abort(&first);
        wire.expect_abort(&second);
        wire.expect("notifications/roots/list_changed");
    });
}

// --- Cancelling ---

/// C4.24: the server works on it, whether the rest of its answer is asked for or not.
#[test]
fn a_request_is_cancelled_while_the_rest_of_its_answer_is_about_to_be_asked_for() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: 1\nretry: 10\ndata:\n\n");
        wire.truncate(&call);
        let due = wire.client.poll_timeout().unwrap();
        wire.client.handle_timeout(due);
        wire.client.at(due).cancel(request, None);
        let cancelled = wire.expect("notifications/cancelled");
        assert_eq!(cancelled.body["params"]["requestId"], call.id());
        wire.expect_silence();
    });
}

// --- HTTP+SSE ---

/// 2024-11-05: any 2xx means that the message was taken; what comes of the body means nothing.
#[test]
fn what_an_old_server_has_accepted_is_answered_on_the_one_stream() {
    for kind in ["text/plain", "text/event-stream", "application/json"] {
        for cut in [false, true] {
            scenario(legacy_config(), |wire| {
                let initialize = wire.expect("initialize");
                wire.reply(&initialize, 405, &[], "");
                let events = wire.expect_get();
                wire.stream(&events);
                wire.body(&events, "event: endpoint\ndata: /messages\n\n");
                let accept = |wire: &mut ClientWire, exchange: &Exchange| {
                    wire.head(exchange, 200, &[("content-type", kind)]);
                    wire.body(exchange, ":ok\n\n");
                    if cut { wire.truncate(exchange) } else { wire.end(exchange) }
                };
                let initialize = wire.expect("initialize");
                accept(wire, &initialize);
                wire.event_answer(&events, &initialize.id(), initialize_result("2024-11-05"));
                let initialized = wire.expect("notifications/initialized");
                accept(wire, &initialized);
                for request in [call_tool, list_tools] {
                    let request = request(wire);
                    let sent = wire.next().unwrap();
                    accept(wire, &sent);
                    wire.expect_pending(request);
                    wire.expect_silence();
                    wire.event_answer(&events, &sent.id(), json!({"content": [], "tools": []}));
                    wire.result(request);
                }
            });
        }
    }
}

// --- The dialect ---

/// F56, C4.23
#[test]
fn fragments_go_on_where_the_stream_broke_off() {
    let mut config = config();
    config.chunked_results = true;
    legacy(config, |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: 1\nretry: 10\nevent: result\ndata: {\"content\": [1]}\n\n");
        wire.truncate(&call);
        wire.advance(Duration::from_millis(10));
        let rest = wire.expect_get();
        wire.stream(&rest);
        wire.body(&rest, "event: result\ndata: {\"content\": [2]}\n\nevent: complete\ndata: {}\n\n");
        assert_eq!(wire.result(request), json!({"content": [1, 2]}));
    });
}

// --- Secrets ---

/// C4.18: a session, a key or a password in a URL is none of a log's business.
#[test]
fn urls_are_shown_without_what_may_be_secret() {
    let url = "http://user:password@localhost:3000/mcp?key=secret";
    let now = Instant::ORIGIN;
    let mut config = HttpClientConfig::new(ClientConfig::new(Implementation::new("test", "1")), url);
    config.client.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    let mut shown = vec![format!("{config:?}")];
    let mut client = HttpClient::new(config, now).unwrap();
    let open = |client: &mut HttpClient, shown: &mut Vec<String>| {
        let action = client.poll_action().unwrap();
        shown.push(format!("{action:?} {client:?}"));
        let Action::Open(request) = action else { panic!("{action:?}") };
        request
    };
    let initialize = open(&mut client, &mut shown);
    assert_eq!(&*initialize.url, url);
    client.handle_head(now, initialize.exchange, 404, &[("x", "y")]);
    client.handle_end(now, initialize.exchange, ExchangeEnd::Complete);
    let events = open(&mut client, &mut shown);
    client.handle_head(now, events.exchange, 200, &[("content-type", "text/event-stream")]);
    let endpoint = Bytes::from_static(b"event: endpoint\ndata: /messages?session_id=secret\n\n");
    client.handle_body(now, events.exchange, endpoint);
    let initialize = open(&mut client, &mut shown);
    assert!(initialize.url.ends_with("/messages?session_id=secret"));
    for text in shown {
        assert!(!text.contains("secret") && !text.contains("password"), "{text}");
        assert!(text.contains("localhost:3000/m"), "{text}");
    }
}

// --- Streams ---

/// A subscription that is over holds no exchange, wherever the server says so.
#[test]
fn a_subscription_that_is_cancelled_on_another_stream_is_broken_off() {
    modern(config(), |wire| {
        let params = SubscriptionsListenParams::new(SubscriptionFilter::new());
        let listen = |wire: &mut ClientWire| {
            let options = RequestOptions::default();
            wire.client.at(wire.now).request::<SubscriptionsListen>(&params, options).unwrap()
        };
        let (one, first) = (listen(wire), wire.expect("subscriptions/listen"));
        let (two, second) = (listen(wire), wire.expect("subscriptions/listen"));
        wire.stream(&first);
        wire.stream(&second);
        let over = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first.id()},
        });
        wire.event(&second, &over);
        assert!(matches!(wire.outcome(one), Outcome::Lost(_)));
        wire.advance(Duration::from_secs(1));
        wire.expect_abort(&first);
        wire.expect_no_abort();
        wire.expect_pending(two);
    });
}
