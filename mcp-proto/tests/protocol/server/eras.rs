//! The era of each request: every row of the table, and the metadata of a response.

use core::time::Duration;

use mcp_proto::peer::server::{Answer, Diagnostic, Eras, Event, ListKind};
use mcp_proto::peer::{LostReason, Outcome, RequestError, RequestOptions};
use mcp_proto::rpc::{ErrorObject, Id};
use mcp_proto::schema::{
    CallToolResult, ClientCapability, Elicit, InputRequest, InputRequests, InputRequiredResult, ListRoots,
    LoggingLevel, LoggingMessageParams, Number, ProgressParams,
};
use serde_json::{Value, json};

use crate::common::messages::MODERN;
use crate::common::server::{ServerHarness, config, initialize, tools};

/// S1.2, S1.3, S7.1
#[test]
fn modern_result_carries_its_type_server_info_and_cache_hints() {
    let mut s = ServerHarness::new(config());
    s.modern("a", "tools/list", json!({}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&tools()));
    let line = s.line();
    assert_eq!(line["id"], "a");
    let result = &line["result"];
    assert_eq!(
        (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test-server");

    s.modern("b", "tools/call", json!({"name": "t"}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&CallToolResult::text("x")));
    let result = s.line()["result"].take();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result.get("ttlMs"), None, "only a cacheable result has a lifetime");
}

/// S1.14, S1.15
#[test]
fn discovery_lists_modern_versions_capabilities_and_instructions() {
    let mut s = ServerHarness::new(config());
    s.modern(0, "server/discover", json!({}));
    let result = s.line()["result"].take();
    assert_eq!(result["supportedVersions"], json!([MODERN]));
    assert_eq!(result["instructions"], "Be kind.");
    assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}));
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
}

/// S1.6, S1.7, S1.8
#[test]
fn modern_request_does_not_depend_on_earlier_requests() {
    let info = "io.modelcontextprotocol/clientInfo";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let level = "io.modelcontextprotocol/logLevel";
    let mut s = ServerHarness::new(config());
    let mut id = 0;
    let mut heard = |own: Value| {
        id += 1;
        s.modern(id, "tools/list", json!({ "_meta": own }));
        let context = s.events().into_iter().find_map(|event| match event {
            Event::Request { context, .. } => Some(context),
            _ => None,
        });
        let context = context.expect("no request reached the application");
        (
            context.client_info.map(|info| info.name.clone()),
            context.client_capabilities.has(ClientCapability::Roots),
            context.log_level,
            context.progress_token,
        )
    };
    let plain = (Some("c".to_owned()), false, None, None);
    assert_eq!(heard(json!({})), plain);
    assert_eq!(heard(json!({})), plain);
    assert_eq!(heard(json!({"progressToken": 7})).3, Some(7.into()));
    assert_eq!(heard(json!({ info: {"name": "d", "version": "1"} })).0.as_deref(), Some("d"));
    assert_eq!(heard(json!({ info: null })).0, None);
    assert!(heard(json!({ capabilities: {"roots": {}} })).1);
    assert_eq!(heard(json!({ level: "error" })).2, Some(LoggingLevel::Error));
    assert_eq!(heard(json!({})), plain);
}

/// S1.5, K12
#[test]
fn server_refuses_an_unsupported_version_and_lists_its_own() {
    for version in ["1900-01-01", "2025-11-25", ""] {
        let mut s = ServerHarness::new(config());
        s.modern(1, "tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}}));
        let error = s.line()["error"].take();
        assert_eq!(error["code"], -32022);
        assert_eq!(error["data"], json!({"supported": [MODERN], "requested": version}));
    }
}

/// S1.4
#[test]
fn error_names_missing_metadata_as_an_invalid_parameter() {
    let mut s = ServerHarness::new(config());
    s.request_with_id(1, "tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}));
    let error = s.line()["error"].take();
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().contains("clientCapabilities"), "{error}");
    for bare in ["tools/list", "server/discover", "resources/list"] {
        s.request_with_id(2, bare, json!({}));
        let error = s.line()["error"].take();
        assert_eq!(error["code"], -32602, "{bare}");
        assert!(error["message"].as_str().unwrap().contains("protocolVersion"), "{error}");
    }
    s.send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    assert_eq!(s.code(), -32602);
}

/// S1.20
#[test]
fn server_answers_a_ping_before_the_handshake() {
    let mut s = ServerHarness::new(config());
    s.send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    assert_eq!(s.line(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
}

#[test]
fn legacy_methods_with_a_modern_envelope_are_unknown() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        s.modern(method, method, json!({"uri": "x", "level": "info"}));
        assert_eq!(s.code(), -32601, "{method}");
    }
}

/// S1.15, S1.17
#[test]
fn handshake_selects_the_requested_version_or_the_newest_legacy_one() {
    let versions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let others = [("2026-07-28", "2025-11-25"), ("1999-01-01", "2025-11-25")];
    for (asked, answered) in versions.map(|version| (version, version)).into_iter().chain(others) {
        let mut s = ServerHarness::new(config());
        s.request_with_id(1, "initialize", initialize(asked));
        let result = s.line()["result"].take();
        assert_eq!(result["protocolVersion"], answered);
        assert_eq!(result["serverInfo"]["name"], "test-server");
        assert_eq!(result["instructions"], "Be kind.");
        assert_eq!(result.get("resultType"), None);
    }
}

#[test]
fn server_answers_a_second_handshake() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.request_with_id(2, "initialize", initialize("2025-06-18"));
    assert_eq!(s.line()["result"]["protocolVersion"], "2025-06-18");
    assert!(!s.server.peer().session().unwrap().initialized);
}

/// R10
#[test]
fn a_legacy_result_carries_nothing_modern() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.request_with_id(2, "tools/list", json!({}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&tools()));
    let result = s.line()["result"].take();
    assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
}

/// S1.7, S1.8
#[test]
fn server_answers_modern_requests_during_a_legacy_session() {
    let mut s = ServerHarness::legacy_at("2025-06-18");
    s.modern(2, "tools/list", json!({}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&tools()));
    assert_eq!(s.line()["result"]["resultType"], "complete");
    s.request_with_id(3, "server/discover", json!({}));
    assert_eq!(s.code(), -32602);
}

/// S1.16
#[test]
fn a_modern_only_server_names_its_versions_to_a_handshake() {
    let mut config = config();
    config.eras = Eras::ModernOnly;
    let mut s = ServerHarness::new(config);
    s.request_with_id(1, "initialize", initialize("2025-11-25"));
    let error = s.line()["error"].take();
    assert_eq!((&error["code"], &error["data"]["supported"]), (&json!(-32022), &json!([MODERN])));
    assert_eq!(error["data"]["requested"], "2025-11-25");
}

#[test]
fn a_legacy_only_server_does_not_know_discovery() {
    let mut config = config();
    config.eras = Eras::LegacyOnly;
    let mut s = ServerHarness::new(config);
    s.modern(1, "server/discover", json!({}));
    assert!(s.code().as_i64().is_some_and(|code| code != -32022 && code != -32021 && code != -32020));
    s.request_with_id(2, "initialize", initialize("2025-11-25"));
    assert_eq!(s.line()["result"]["protocolVersion"], "2025-11-25");
    s.modern(3, "server/discover", json!({}));
    assert_eq!(s.code(), -32601);
}

/// S1.11, S1.19
#[test]
fn undeclared_or_unknown_method_is_method_not_found() {
    let mut s = ServerHarness::new(config());
    for method in ["completion/complete", "nonsense", "tasks/get", ""] {
        s.modern(1, method, json!({}));
        assert_eq!(s.code(), -32601, "{method}");
    }
}

#[test]
fn server_does_not_answer_a_request_whose_id_is_in_flight() {
    let mut s = ServerHarness::new(config());
    s.modern(7, "tools/list", json!({}));
    let first = s.request();
    s.modern(7, "tools/list", json!({}));
    s.expect_silence();
    let events = s.events();
    assert!(
        matches!(&events[..], [Event::Diagnostic(Diagnostic::DuplicateRequest { id, .. })] if *id == Id::from(7)),
        "{events:?}"
    );
    s.server.at(s.now).respond(first, Answer::Result(&tools()));
    assert_eq!(s.line()["id"], 7);
    s.modern(7, "tools/list", json!({}));
    s.request();
}

/// S1.11, S1.12
#[test]
fn server_answers_an_invalid_request_with_its_error() {
    let mut s = ServerHarness::new(config());
    let cases = [
        ("{", -32700, Value::Null),
        ("nonsense", -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":5,"method":7}"#, -32600, json!(5)),
        (r#"[]"#, -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":[1]}"#, -32602, json!(9)),
    ];
    for (text, code, id) in cases {
        s.send(text);
        let line = s.line();
        assert_eq!((&line["error"]["code"], &line["id"]), (&json!(code), &id), "{text}");
        s.expect_silence();
    }
    s.notify("notifications/nonsense", json!({}));
    s.notify("notifications/cancelled", json!({"requestId": 4711}));
    s.expect_silence();
}

/// S2.3, S6.1
#[test]
fn server_sends_nothing_more_for_a_cancelled_request() {
    let mut s = ServerHarness::new(config());
    s.modern(1, "tools/call", json!({"name": "t", "_meta": {"progressToken": "p"}}));
    let request = s.request();
    s.notify("notifications/cancelled", json!({"requestId": 1, "reason": "enough"}));
    assert!(
        matches!(&s.events()[..], [Event::Cancelled { id, cancellation }] if *id == request && cancellation.reason() == Some("enough"))
    );
    assert!(!s.server.at(s.now).progress(request, &ProgressParams::new(0, 1)));
    s.server.at(s.now).respond(request, Answer::Result(&CallToolResult::text("late")));
    s.expect_silence();
}

/// S6.2
#[test]
fn progress_needs_a_token_rises_and_ends_with_the_answer() {
    let mut s = ServerHarness::new(config());
    s.modern(1, "tools/call", json!({"name": "t"}));
    let without = s.request();
    assert!(!s.server.at(s.now).progress(without, &ProgressParams::new(0, 1)));
    s.modern(2, "tools/call", json!({"name": "t", "_meta": {"progressToken": 0}}));
    let request = s.request();
    let mut sent = |value: f64| {
        s.server.at(s.now).progress(request, &ProgressParams::new("ignored", Number::from(value)))
    };
    assert!(sent(1.0));
    assert!(!sent(1.0));
    assert!(!sent(0.5));
    assert!(sent(1.5));
    s.server.at(s.now).respond(request, Answer::Result(&CallToolResult::text("done")));
    assert!(!s.server.at(s.now).progress(request, &ProgressParams::new(0, 9)));
    let progress: Vec<_> = std::iter::from_fn(|| s.try_line()).collect();
    assert_eq!(progress[0]["params"]["progressToken"], 0);
    assert_eq!(progress.len(), 3);
}

/// S8.18
#[test]
fn server_logs_for_a_modern_request_only_at_its_level() {
    let mut s = ServerHarness::new(config());
    let message = |level| LoggingMessageParams::new(level, "text");
    s.modern(1, "tools/call", json!({"name": "t"}));
    let silent = s.request();
    assert!(!s.server.at(s.now).log(Some(silent), &message(LoggingLevel::Emergency)));
    assert!(!s.server.at(s.now).log(None, &message(LoggingLevel::Emergency)));
    s.expect_silence();
    s.modern(2, "tools/call", json!({"name": "t", "_meta": {"io.modelcontextprotocol/logLevel": "warning"}}));
    let request = s.request();
    assert!(!s.server.at(s.now).log(Some(request), &message(LoggingLevel::Info)));
    assert!(s.server.at(s.now).log(Some(request), &message(LoggingLevel::Error)));
    assert_eq!(s.line()["params"]["level"], "error");
    s.modern(3, "tools/call", json!({"name": "t", "_meta": {"io.modelcontextprotocol/logLevel": "loud"}}));
    assert_eq!(s.code(), -32602);
}

#[test]
fn server_logs_to_a_legacy_session_from_the_level_it_sets() {
    let mut s = ServerHarness::legacy_at("2025-06-18");
    let message = |level| LoggingMessageParams::new(level, "text");
    assert!(!s.server.at(s.now).log(None, &message(LoggingLevel::Debug)));
    assert!(s.server.at(s.now).log(None, &message(LoggingLevel::Info)));
    s.line();
    s.request_with_id(2, "logging/setLevel", json!({"level": "error"}));
    assert_eq!(s.line()["result"], json!({}));
    assert!(!s.server.at(s.now).log(None, &message(LoggingLevel::Warning)));
    s.request_with_id(3, "logging/setLevel", json!({"level": "loud"}));
    assert_eq!(s.code(), -32602);
}

/// S5.1, S5.2, S5.3
#[test]
fn server_acknowledges_a_subscription_first_and_sends_only_requested_changes() {
    let mut s = ServerHarness::new(config());
    let filter =
        json!({"toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a://b"]});
    s.modern("sub", "subscriptions/listen", json!({"notifications": filter}));
    let acknowledged = s.line();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
    let granted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]});
    assert_eq!(acknowledged["params"]["notifications"], granted, "an undeclared change is not granted");
    assert!(matches!(&s.events()[..], [Event::Subscribed { uri }] if uri == "a://b"));

    s.server.at(s.now).list_changed(ListKind::Prompts);
    s.server.at(s.now).list_changed(ListKind::Resources);
    s.server.at(s.now).resource_updated("a://c");
    s.expect_silence();
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.server.at(s.now).resource_updated("a://b");
    for method in ["notifications/tools/list_changed", "notifications/resources/updated"] {
        let line = s.line();
        assert_eq!(line["method"], method);
        assert_eq!(line["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
    }
    s.notify("notifications/cancelled", json!({"requestId": "sub"}));
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.expect_silence();
    assert!(matches!(&s.events()[..], [Event::Unsubscribed { uri }] if uri == "a://b"));
}

/// S1.2, S1.3, S5.3, S5.4, S5.5, R4
#[test]
fn closing_server_ends_its_subscriptions_by_result_and_notification() {
    let subscription = "io.modelcontextprotocol/subscriptionId";
    let mut s = ServerHarness::new(config());
    s.modern(5, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    s.line();
    s.server.at(s.now).close();
    let result = s.line();
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!(5), &json!("complete")));
    let meta = &result["result"]["_meta"];
    assert_eq!(meta[subscription], 5);
    assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "test-server");
    let cancelled = s.line();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(5))
    );
    assert_eq!(cancelled["params"]["_meta"][subscription], 5);
    assert!(s.server.is_closed());
}

/// S5.8
#[test]
fn a_legacy_session_subscribes_to_single_resources() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.server.at(s.now).resource_updated("a://b");
    s.expect_silence();
    s.request_with_id(2, "resources/subscribe", json!({"uri": "a://b"}));
    assert_eq!(s.line()["result"], json!({}));
    s.server.at(s.now).resource_updated("a://b");
    assert_eq!(s.line()["params"], json!({"uri": "a://b"}));
    s.request_with_id(3, "resources/unsubscribe", json!({"uri": "a://b"}));
    s.line();
    s.server.at(s.now).resource_updated("a://b");
    s.expect_silence();
    s.server.at(s.now).list_changed(ListKind::Tools);
    assert_eq!(s.line()["method"], "notifications/tools/list_changed");
}

/// S1.9, S1.18, S1.19
#[test]
fn server_sends_only_declared_requests_and_only_to_a_ready_legacy_client() {
    let mut s = ServerHarness::new(config());
    let ask = |s: &mut ServerHarness| {
        s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default())
    };
    s.modern(1, "tools/list", json!({}));
    assert_eq!(ask(&mut s), Err(RequestError::NotReady));
    let mut s = ServerHarness::legacy_at("2025-11-25");
    let request = ask(&mut s).unwrap();
    let line = s.line();
    assert_eq!(line["method"], "roots/list");
    s.send(&json!({"jsonrpc": "2.0", "id": line["id"], "result": {"roots": []}}).to_string());
    assert!(
        matches!(&s.events()[..], [Event::Outcome { request: ended, outcome: Outcome::Result(_) }] if *ended == request)
    );
    let url =
        serde_json::from_str(r#"{"mode":"url","message":"m","url":"https://e.com","elicitationId":"e"}"#)
            .unwrap();
    let refused = s.server.at(s.now).request::<Elicit>(&url, RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Capability { .. })), "only forms were declared");
}

#[test]
fn request_of_the_server_times_out_and_is_cancelled() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
    s.line();
    s.now = s.server.poll_timeout().unwrap();
    assert_eq!(s.now.since_origin(), Duration::from_secs(60));
    s.server.handle_timeout(s.now);
    assert_eq!(s.line()["method"], "notifications/cancelled");
    assert!(matches!(&s.events()[..], [Event::Outcome { outcome: Outcome::TimedOut { .. }, .. }]));
}

/// S1.2, S1.6, S4.1, S4.2, S4.3
#[test]
fn server_requires_input_only_for_allowed_methods_and_declared_capabilities() {
    let mut requests = InputRequests::new();
    requests.insert("roots", InputRequest::ListRoots(Default::default()));
    let roots = InputRequiredResult::requests(requests);
    let mut s = ServerHarness::new(config());
    s.modern(1, "tools/call", json!({"name": "t"}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::InputRequired(&roots));
    let error = s.line()["error"].take();
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32021), &json!({"requiredCapabilities": {"roots": {}}}))
    );

    s.modern(2, "tools/list", json!({}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::InputRequired(&roots));
    assert_eq!(s.code(), -32603);

    let state = InputRequiredResult { request_state: Some("s".into()), ..InputRequiredResult::new() };
    s.modern(3, "tools/call", json!({"name": "t"}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::InputRequired(&state));
    let result = s.line()["result"].take();
    assert_eq!((&result["resultType"], &result["requestState"]), (&json!("input_required"), &json!("s")));
}

/// R1
#[test]
fn server_answers_a_batch_by_one_array_once_every_response_exists() {
    let mut s = ServerHarness::legacy_at("2025-03-26");
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    let list = json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"});
    let nonsense = json!({"jsonrpc": "2.0", "id": "n", "method": "nonsense"});
    let again =
        json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": initialize("2025-03-26")});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    s.send(&json!([ping, list, nonsense, again, note, 5]).to_string());
    s.expect_silence();
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&tools()));
    let answers = s.line();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!("p"), json!("n"), json!("i"), Value::Null, json!("l")]);
    assert_eq!(answers[2]["error"]["code"], -32600, "initialize must not be part of a batch");

    s.send(&json!([note, note]).to_string());
    s.expect_silence();
    s.send("[]");
    assert_eq!(s.code(), -32600);
}

/// S2.4
#[test]
fn requests_in_flight_at_the_end_of_input_may_finish_for_a_while() {
    let mut s = ServerHarness::new(config());
    s.modern(1, "tools/list", json!({}));
    s.modern(2, "tools/list", json!({}));
    let requests: Vec<_> = s
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Request { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    s.server.handle_eof(s.now, "");
    s.server.at(s.now).respond(requests[0], Answer::Result(&tools()));
    assert_eq!(s.line()["id"], 1);
    assert!(!s.server.is_closed());
    s.now = s.server.poll_timeout().unwrap();
    s.server.handle_timeout(s.now);
    assert!(s.server.is_closed());
    assert!(matches!(&s.events()[..], [Event::Cancelled { id, .. }, Event::Closed(_)] if *id == requests[1]));
}

#[test]
fn end_of_input_ends_an_idle_server_at_once() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
    s.server.handle_eof(s.now, "");
    assert!(s.server.is_closed());
    assert!(matches!(
        &s.events()[..],
        [Event::Outcome { outcome: Outcome::Lost(LostReason::Disconnected(_)), .. }, Event::Closed(_)]
    ));
}

/// Contract 8
#[test]
fn server_gives_up_on_a_client_that_does_not_read_its_responses() {
    let mut config = config();
    config.limits.queued_bytes = 2000;
    config.limits.reply_bytes = 2000;
    let mut s = ServerHarness::new(config);
    // Pings are answered at once, however many responses wait.
    for id in 0..1000 {
        s.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    }
    assert!(s.server.is_closed());
    assert!(s.server.queued() <= 4500);
}

/// Contract 8
#[test]
fn server_refuses_requests_beyond_the_limit() {
    let mut config = config();
    config.limits.requests_in = 2;
    let mut s = ServerHarness::new(config);
    for id in 0..3 {
        s.modern(id, "tools/list", json!({}));
    }
    assert_eq!(s.line()["error"]["code"], -32603);
    assert_eq!(s.events().iter().filter(|event| matches!(event, Event::Request { .. })).count(), 2);
}

#[test]
fn server_sends_the_data_of_an_error() {
    let mut s = ServerHarness::new(config());
    s.modern(1, "resources/read", json!({"uri": "x://y"}));
    let asked = s.request();
    let error = mcp_proto::peer::server::resource_not_found("x://y", mcp_proto::schema::Revision::LATEST);
    s.server.at(s.now).respond(asked, Answer::Error(error));
    let error = s.line()["error"].take();
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!("x://y")));
    s.modern(2, "resources/read", json!({"uri": "x://y"}));
    let asked = s.request();
    s.server.at(s.now).respond(asked, Answer::Error(ErrorObject::new(7, "own")));
    assert_eq!(s.code(), 7);
}
