//! The client over HTTP in coincidences: sessions that change during requests, responses on unexpected streams, servers
//! that never finish.

use crate::common::http_client::{
    ClientWire, CountedFields, Exchange, SESSION, config, legacy, legacy_config, modern, scenario,
};
use crate::common::messages::{LEGACY, MODERN, discover_result, initialize_result};
use mcp_proto::peer::client::{ClientConfig, Keepalive, State};
use mcp_proto::peer::{InvalidAnswerError, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapabilities, ClientCapability, Implementation, ListTools,
    ListToolsParams, LoggingLevel, RootsListChanged, SubscriptionFilter, SubscriptionsListen,
    SubscriptionsListenParams,
};
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig};
use mcp_proto::transport::http::{ExchangeEnd, SentState};
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::Duration;

fn call_tool(wire: &mut ClientWire) -> RequestId {
    let params = CallToolParams::new("pay");
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

fn list_tools(wire: &mut ClientWire) -> RequestId {
    wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), RequestOptions::default()).unwrap()
}

/// Another request finds the session lost and opens the next one; returns the new listening stream.
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
fn client_ignores_the_case_of_header_names_and_not_of_values() {
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

#[test]
fn client_reads_the_headers_of_a_response_in_one_pass() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        for (status, passes) in [(401, 1), (200, 0)] {
            let headers = [("www-authenticate", "Bearer"), ("content-type", "application/json")];
            let fields = CountedFields(&headers, Cell::default());
            wire.client.handle_head(wire.now, probe.exchange(), status, &fields);
            assert_eq!(fields.1.get(), passes, "an exchange has one head");
        }
    });
}

// --- Sessions ---

/// C4.23: event ids are meaningful only within one session.
#[test]
fn client_does_not_resume_a_stream_of_a_lost_session() {
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

/// C4.18: an id identifies a request of the server only within one session.
#[test]
fn client_does_not_send_an_unsent_reply_to_the_next_session() {
    legacy(config(), |wire, listener| {
        wire.event(&listener, &json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        let reply = wire.next().unwrap();
        wire.fail(&reply, SentState::NotSent);
        expect_renewal(wire);
        wire.advance(Duration::from_secs(10));
        wire.expect_silence();
    });
}

/// C4.19: requests of a lost session are sent in the next one, and not before it is open.
#[test]
fn client_sends_a_redirected_request_of_a_lost_session_in_the_next() {
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

// --- Responses ---

/// Contract 1: the id of a result identifies its request, in a body as on a stream.
#[test]
fn client_ignores_a_result_with_the_id_of_another_request() {
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

/// A request that still waits cannot have been answered, nor one that is to go out again.
#[test]
fn client_ignores_a_response_to_an_unsent_request() {
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

/// A repeated request is answered under its new id, and an old response does not end its exchange.
#[test]
fn client_ignores_the_first_response_to_a_repeated_request() {
    legacy(config(), |wire, listener| {
        let request = list_tools(wire);
        let first = wire.expect("tools/list");
        wire.fail(&first, SentState::MaybeSent);
        let second = wire.expect("tools/list");
        wire.event_answer(&listener, &first.id(), json!({"tools": [], "nextCursor": "first"}));
        wire.expect_pending(request);
        wire.answer(&second, json!({"tools": [], "nextCursor": "second"}));
        assert_eq!(wire.result(request)["nextCursor"], "second");
    });
}

/// The challenge tells how to log in, regardless of the rest of the body.
#[test]
fn client_keeps_a_challenge_beside_an_error() {
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

/// C1.5, C4.3: the client sends no responses to a modern server, even to a request made before its era was known.
#[test]
fn client_does_not_answer_a_server_that_turns_out_to_be_modern() {
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

/// The same request is answered if the server turns out to be legacy.
#[test]
fn client_answers_a_server_that_turns_out_to_be_legacy() {
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

// --- Exchanges that never finish ---

/// C7.11: a missed ping holds no exchange.
#[test]
fn client_aborts_the_exchange_of_a_missed_ping() {
    let mut config = config();
    config.client.keepalive = Some(Keepalive::PRESET);
    legacy(config, |wire, _| {
        for _ in 0..20 {
            // Every other ping is answered.
            wire.advance(Duration::from_secs(35));
            let missed = wire.expect("ping");
            wire.expect_abort(&missed);
            wire.advance(Duration::from_secs(30));
            let heard = wire.expect("ping");
            wire.answer(&heard, json!({}));
        }
        assert_eq!(wire.client.state(), State::Ready);
    });
}

/// C9.15: an unanswered request for a log level holds no exchange.
#[test]
fn client_aborts_the_exchange_of_an_unanswered_log_level() {
    let mut config = config();
    config.client.log_level = Some(LoggingLevel::Debug);
    let timeout = config.client.request_timeout;
    legacy(config, |wire, _| {
        let unanswered = wire.expect("logging/setLevel");
        wire.expect_no_abort();
        wire.advance(timeout);
        wire.expect_abort(&unanswered);
        wire.expect_silence();
    });
}

/// F66, contract 6: an unanswered notification does not block others for ever.
#[test]
fn client_aborts_an_unanswered_notification() {
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

/// C4.24: the server processes the request, whether or not the client resumes its response.
#[test]
fn client_cancels_a_request_whose_response_it_is_about_to_resume() {
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

/// F41: 2024-11-05: any 2xx means that the server took the message; its body means nothing.
#[test]
fn http_sse_server_answers_accepted_requests_on_the_one_stream() {
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

// --- Chunked results ---

/// F56, C4.23
#[test]
fn client_continues_partial_results_where_the_stream_broke() {
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

/// C4.18: a session, a key or a password in a URL does not belong in a log.
#[test]
fn debug_output_hides_secrets_in_urls() {
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

/// An ended subscription holds no exchange, whichever stream announced its end.
#[test]
fn client_aborts_a_subscription_cancelled_on_another_stream() {
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
