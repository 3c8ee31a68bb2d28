//! Requests of a client that is ready: their content, and that each ends exactly once.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{CloseReason, Diagnostic, Event, Keepalive, LinkAction, State};
use mcp_proto::peer::{
    InputMode, InvalidAnswerError, LostReason, Outcome, OutgoingRequest, ProgressOption, RequestError,
    RequestId, RequestOptions, RequiredCapability,
};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::{
    CallTool, CallToolParams, Complete, CustomParams, ListRootsResult, ListTools, LoggingLevel,
    PaginatedParams, Ping, Root, ServerCapability, SetLoggingLevel, SubscriptionFilter, SubscriptionsListen,
    SubscriptionsListenParams, UnsupportedVersionData,
};
use serde_json::{Value, json};

fn listen_params() -> SubscriptionsListenParams {
    SubscriptionsListenParams::new(SubscriptionFilter {
        tools_list_changed: Some(true),
        ..Default::default()
    })
}

fn call(s: &mut ClientHarness, options: RequestOptions) -> (RequestId, Value) {
    let request = s.client.at(s.now).request::<CallTool>(&CallToolParams::new("slow"), options).unwrap();
    let id = s.expect("tools/call");
    (request, id)
}

fn progress(s: &mut ClientHarness, id: &Value, value: u32) {
    s.notify("notifications/progress", json!({"progressToken": id, "progress": value}));
}

/// C1.1, C1.14, C1.15, C1.17, F17
#[test]
fn every_modern_request_carries_its_metadata() {
    let mut s = ClientHarness::modern(config());
    for _ in 0..2 {
        s.client
            .at(s.now)
            .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
            .unwrap();
        let line = s.line();
        assert_eq!(line["jsonrpc"], "2.0");
        let meta = &line["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["version"], "1.0");
    }
}

/// C1.15
#[test]
fn client_can_omit_its_info() {
    let mut config = config();
    config.send_info = false;
    let mut s = ClientHarness::modern(config);
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).unwrap();
    assert_eq!(s.line()["params"]["_meta"].get("io.modelcontextprotocol/clientInfo"), None);
}

/// R10
#[test]
fn a_legacy_request_carries_no_modern_metadata() {
    let mut s = ClientHarness::legacy(config());
    let options = RequestOptions::default().log_level(LoggingLevel::Debug);
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), options).unwrap();
    let line = s.line();
    assert!(line["params"].get("_meta").is_none(), "{line}");
}

/// C1.1, C1.2, C1.3, F18
#[test]
fn client_does_not_reuse_request_ids() {
    let mut s = ClientHarness::legacy(config());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let (_, id) = call(&mut s, RequestOptions::default());
        assert!(seen.insert(id.as_i64().unwrap()));
        s.answer(&id, json!({"content": []}));
    }
}

/// C3.2
#[test]
fn client_matches_responses_in_any_order() {
    let mut s = ClientHarness::modern(config());
    let first = call(&mut s, RequestOptions::default());
    let second = call(&mut s, RequestOptions::default());
    s.answer(&second.1, json!({"resultType": "complete", "content": [{"type": "text", "text": "2"}]}));
    s.answer_error(&first.1, -32602, None);
    let result = s.outcome(second.0).decode::<CallTool>().unwrap();
    assert_eq!(result.text_content(), "2");
    assert!(matches!(s.outcome(first.0), Outcome::Error(ErrorObject { code: -32602, .. })));
}

/// C1.7, C1.8
#[test]
fn result_type_decides_the_kind_of_a_modern_result() {
    let mut s = ClientHarness::modern(config());
    let cases = [
        (json!({"content": []}), "result"),
        (json!({"resultType": "complete", "content": []}), "result"),
        (json!({"resultType": "input_required", "requestState": "x"}), "input"),
        (json!({"resultType": "surprise"}), "invalid"),
        (json!({"resultType": 5}), "invalid"),
        (json!({"resultType": "task", "taskId": "undeclared"}), "invalid"),
    ];
    for (result, expected) in cases {
        let (request, id) = call(&mut s, RequestOptions::default().input(InputMode::Manual));
        s.answer(&id, result.clone());
        let found = match s.outcome(request) {
            Outcome::Result(_) => "result",
            Outcome::InputRequired(_) => "input",
            Outcome::Invalid(_) => "invalid",
            _ => "other",
        };
        assert_eq!(found, expected, "{result}");
    }
}

/// C5.1
#[test]
fn client_accepts_input_required_only_for_methods_that_allow_it() {
    let mut s = ClientHarness::modern(config());
    let request = s
        .client
        .at(s.now)
        .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
        .unwrap();
    let id = s.expect("tools/list");
    s.answer(&id, json!({"resultType": "input_required", "requestState": "x"}));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::ResultType(_))));
}

/// C5.1: nor for methods that the protocol does not define.
#[test]
fn client_does_not_accept_input_required_for_a_custom_method() {
    let mut s = ClientHarness::modern(config());
    let params = CustomParams::new();
    let custom = OutgoingRequest::custom("com.example/print", &params, RequestOptions::default());
    let request = s.client.at(s.now).send(custom).unwrap();
    let id = s.expect("com.example/print");
    s.answer(&id, json!({"resultType": "input_required", "requestState": "x"}));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::ResultType(_))));
}

/// C7.1, C3.4, F24, F62, F63
#[test]
fn request_times_out_after_thirty_seconds_and_is_cancelled() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s, RequestOptions::default());
    s.advance(Duration::from_secs(29));
    s.expect_silence();
    s.advance(Duration::from_secs(1));
    let line = s.line();
    assert_eq!((&line["method"], &line["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert!(matches!(s.outcome(request), Outcome::TimedOut { hard: false, .. }));
}

/// C7.2, C7.3, C7.4
#[test]
fn progress_extends_the_timeout_up_to_the_hard_timeout() {
    let mut s = ClientHarness::modern(config());
    let options =
        RequestOptions::default().timeout(Duration::from_secs(10)).hard_timeout(Duration::from_secs(25));
    let (request, id) = call(&mut s, options);
    for step in 1..=4 {
        s.advance(Duration::from_secs(6));
        progress(&mut s, &id, step);
    }
    s.expect_silence();
    s.advance(Duration::from_secs(1));
    assert_eq!(s.line()["method"], "notifications/cancelled");
    assert!(matches!(s.outcome(request), Outcome::TimedOut { hard: true, .. }));
}

/// C7.1, C7.4: a server of an earlier revision that asks a person, say, cannot go on before it is answered.
#[test]
fn timeout_is_suspended_while_the_server_waits_for_the_client() {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    let asked = |s: &mut ClientHarness| {
        s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
        s.take_events().into_iter().find_map(|event| match event {
            Event::Request { id, .. } => Some(id),
            _ => None,
        })
    };
    let mut s = ClientHarness::legacy(config.clone());
    let options =
        RequestOptions::default().timeout(Duration::from_secs(10)).hard_timeout(Duration::from_secs(100));
    let (request, _) = call(&mut s, options.clone());
    let question = asked(&mut s).unwrap();
    for _ in 0..5 {
        s.advance(Duration::from_secs(9));
    }
    s.expect_silence();
    let roots = ListRootsResult::new(vec![Root::new("file:///home")]);
    s.client.at(s.now).respond(question, Ok(&roots));
    assert_eq!(s.line()["id"], 1);
    s.advance(Duration::from_secs(10));
    assert_eq!(s.line()["method"], "notifications/cancelled");
    assert!(matches!(s.outcome(request), Outcome::TimedOut { hard: false, .. }));

    let mut s = ClientHarness::legacy(config);
    let (request, _) = call(&mut s, options);
    asked(&mut s).unwrap();
    s.advance(Duration::from_secs(99));
    s.expect_silence();
    let (other, _) = call(&mut s, RequestOptions::default().timeout(Duration::ZERO));
    s.advance(Duration::from_secs(1));
    assert!(matches!(s.outcome(other), Outcome::TimedOut { hard: false, .. }));
    assert!(matches!(s.outcome(request), Outcome::TimedOut { hard: true, .. }));
}

/// A suspended deadline cannot move beyond the largest instant, so the request must still end there.
#[test]
fn suspended_request_times_out_at_the_largest_instant() {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::legacy(config);
    let (request, _) = call(&mut s, RequestOptions::default().hard_timeout(Duration::MAX));
    s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    s.take_events();
    s.now = mcp_proto::Instant::from_origin(Duration::MAX);
    s.client.handle_timeout(s.now);
    assert!(matches!(s.outcome(request), Outcome::TimedOut { .. }));
}

/// C7.8
#[test]
fn progress_reaches_its_request_before_the_outcome() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s, RequestOptions::default());
    progress(&mut s, &id, 1);
    s.answer(&id, json!({"content": []}));
    let events = s.take_events();
    assert!(matches!(&events[..], [
        Event::Progress { request: first, .. },
        Event::Outcome { request: second, .. },
    ] if *first == request && *second == request));
}

/// C7.9
#[test]
fn client_ignores_progress_of_unknown_or_finished_requests() {
    let mut s = ClientHarness::modern(config());
    let (_, id) = call(&mut s, RequestOptions::default());
    s.answer(&id, json!({"content": []}));
    s.take_events();
    for token in [id, json!(77), json!("x"), json!(0), json!("")] {
        progress(&mut s, &token, 1);
    }
    assert!(s.take_events().is_empty());
}

#[test]
fn client_requests_progress_only_of_slow_methods_or_on_demand() {
    let mut s = ClientHarness::modern(config());
    let mut token = |options| {
        s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), options).unwrap();
        s.line()["params"]["_meta"].get("progressToken").is_some()
    };
    assert!(!token(RequestOptions::default()));
    assert!(token(RequestOptions::default().progress(ProgressOption::Always)));
    s.client
        .at(s.now)
        .request::<CallTool>(
            &CallToolParams::new("x"),
            RequestOptions::default().progress(ProgressOption::Never),
        )
        .unwrap();
    assert!(s.line()["params"]["_meta"].get("progressToken").is_none());
}

/// C7.5, C7.6
#[test]
fn client_drops_a_late_response_to_a_cancelled_request() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s, RequestOptions::default());
    s.client.at(s.now).cancel(request, Some("changed my mind"));
    assert_eq!(s.line()["params"], json!({"requestId": id, "reason": "changed my mind"}));
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.answer(&id, json!({"content": []}));
    s.client.at(s.now).cancel(request, None);
    assert!(s.take_events().is_empty());
    s.expect_silence();
}

/// C7.6
#[test]
fn a_request_cancelled_before_it_was_sent_never_goes_out() {
    let mut s = ClientHarness::open(config());
    let request = s
        .client
        .at(s.now)
        .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
        .unwrap();
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    let id = s.expect("server/discover");
    s.answer(&id, crate::common::messages::discover_result());
    s.expect_silence();
}

/// F20
#[test]
fn client_reports_a_response_to_an_unknown_request() {
    let mut s = ClientHarness::modern(config());
    s.answer(&json!(4711), json!({}));
    assert!(matches!(s.take_events()[..], [Event::Diagnostic(Diagnostic::UnknownAnswer(_))]));
}

/// C9.12, C2.14
#[test]
fn client_does_not_send_a_request_without_the_server_capability() {
    let mut s = ClientHarness::open(config());
    let queued = s.client.at(s.now).request::<Complete>(
        &serde_json::from_str(
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#,
        )
        .unwrap(),
        RequestOptions::default(),
    );
    let queued = queued.unwrap();
    let id = s.expect("server/discover");
    let mut result = crate::common::messages::discover_result();
    result["capabilities"] = json!({"tools": {}});
    s.answer(&id, result);
    assert!(matches!(
        s.outcome(queued),
        Outcome::Refused(RequestError::Capability {
            needed: RequiredCapability::Server(ServerCapability::Completions),
            ..
        })
    ));
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).unwrap();
}

/// R10, C2.14
#[test]
fn client_does_not_send_a_method_that_the_revision_lacks() {
    let mut modern = ClientHarness::modern(config());
    let refused =
        modern.client.at(modern.now).request::<Ping>(&Default::default(), RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Revision { .. })));
    let level = serde_json::from_str(r#"{"level":"debug"}"#).unwrap();
    let refused = modern.client.at(modern.now).request::<SetLoggingLevel>(&level, RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Revision { .. })));
    modern.expect_silence();

    let mut legacy = ClientHarness::legacy(config());
    let refused = legacy
        .client
        .at(legacy.now)
        .request::<SubscriptionsListen>(&listen_params(), RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Revision { .. })));
    legacy.client.at(legacy.now).request::<Ping>(&Default::default(), RequestOptions::default()).unwrap();
}

/// C7.11: an answer that cannot be read is reported, and answers no ping.
#[test]
fn client_reports_an_unreadable_answer_to_a_ping() {
    let mut config = config();
    config.keepalive = Some(Keepalive::PRESET);
    let mut s = ClientHarness::legacy(config);
    s.advance(Keepalive::PRESET.interval);
    let id = s.expect("ping");
    s.take_events();
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#));
    let events = s.take_events();
    assert!(matches!(events[..], [Event::Diagnostic(Diagnostic::Malformed(_))]), "{events:?}");
    s.advance(Keepalive::PRESET.timeout);
    let events = s.take_events();
    assert!(matches!(events[..], [Event::Diagnostic(Diagnostic::PingMissed { misses: 1 })]), "{events:?}");
}

/// C7.11: at a late wake-up, what has timed out beside the last ping ends as such.
#[test]
fn last_missed_ping_ends_no_request_that_has_timed_out() {
    let mut config = config();
    config.keepalive = Some(Keepalive { misses: 1, ..Keepalive::PRESET });
    config.request_timeout = Keepalive::PRESET.timeout;
    let mut s = ClientHarness::legacy(config);
    s.advance(Keepalive::PRESET.interval);
    s.expect("ping");
    s.advance(Duration::from_secs(1));
    let (request, _) = call(&mut s, RequestOptions::default());
    s.now = s.now + Duration::from_secs(60);
    s.client.handle_timeout(s.now);
    assert!(matches!(s.outcome(request), Outcome::TimedOut { .. }));
    assert_eq!(s.client.state(), State::Disconnected);
}

/// C7.11, F68
#[test]
fn a_server_that_misses_three_pings_is_lost() {
    let mut config = config();
    config.keepalive = Some(Keepalive::PRESET);
    config.request_timeout = Duration::MAX;
    config.request_hard_timeout = Duration::MAX;
    let mut s = ClientHarness::legacy(config);
    let (request, _) = call(&mut s, RequestOptions::default());
    s.advance(Duration::from_secs(30));
    let id = s.expect("ping");
    s.answer(&id, json!({}));
    for _ in 0..3 {
        s.advance(Duration::from_secs(31));
        s.expect("ping");
        s.advance(Duration::from_secs(5));
    }
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::KeepaliveFailed)));
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
    assert_eq!(s.client.poll_timeout(), None);
}

/// F68: a server that does one thing at a time answers pings once its call is done.
#[test]
fn server_that_works_is_tolerated_by_its_pings() {
    let mut config = config();
    config.keepalive = Some(Keepalive::BUSY_TOLERANT);
    config.request_timeout = Duration::MAX;
    config.request_hard_timeout = Duration::MAX;
    let mut s = ClientHarness::legacy(config);
    let (request, id) = call(&mut s, RequestOptions::default());
    let miss = |s: &mut ClientHarness| {
        s.advance(Duration::from_secs(31));
        s.expect("ping");
        s.advance(Duration::from_secs(5));
    };
    (0..10).for_each(|_| miss(&mut s));
    s.answer(&id, json!({"content": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
    (0..3).for_each(|_| miss(&mut s));
    assert_eq!(s.client.state(), State::Disconnected);
}

/// F8, F23, contract 1
#[test]
fn end_of_the_link_ends_every_request_with_its_reason() {
    let mut s = ClientHarness::modern(config());
    let requests: Vec<_> = (0..3).map(|_| call(&mut s, RequestOptions::default()).0).collect();
    s.end("exit status 3: out of memory");
    for request in requests {
        match s.outcome(request) {
            Outcome::Lost(LostReason::Disconnected(detail)) => assert!(detail.contains("out of memory")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(s.client.state(), State::Disconnected);
    let refused =
        s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
    assert_eq!(refused.unwrap_err(), RequestError::Closed);
}

/// F76
#[test]
fn closing_client_lets_requests_finish_and_then_ends_the_link() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s, RequestOptions::default());
    s.client.at(s.now).close();
    assert_eq!(s.client.poll_link(), None);
    s.answer(&id, json!({"content": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
    assert_eq!(s.client.poll_link(), Some(LinkAction::CloseWrite));
    s.end("");
    assert!(matches!(s.take_events().last(), Some(Event::Closed(CloseReason::Done))));
}

/// F33
#[test]
fn closing_client_gives_up_on_unfinished_requests() {
    let mut s = ClientHarness::modern(config());
    let (request, _) = call(&mut s, RequestOptions::default());
    s.client.at(s.now).close();
    s.advance(Duration::from_secs(2));
    assert_eq!(s.line()["method"], "notifications/cancelled");
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Closed)));
    assert_eq!(s.client.poll_link(), Some(LinkAction::CloseWrite));
    s.advance(Duration::from_secs(2));
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
    assert!(s.client.is_closed());
}

#[test]
fn client_closes_its_sending_half_after_its_output_is_taken() {
    let mut s = ClientHarness::modern(config());
    let request = s
        .client
        .at(s.now)
        .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
        .unwrap();
    s.client.at(s.now).cancel(request, None);
    s.client.at(s.now).close();
    assert_eq!(s.client.poll_link(), None);
    while s.try_line().is_some() {}
    assert_eq!(s.client.poll_link(), Some(LinkAction::CloseWrite));
}

/// C3.2, C6.2, R4
#[test]
fn a_subscription_ends_by_result_or_by_cancellation() {
    let mut s = ClientHarness::modern(config());
    let listen = |s: &mut ClientHarness| {
        let request = s
            .client
            .at(s.now)
            .request::<SubscriptionsListen>(&listen_params(), RequestOptions::default())
            .unwrap();
        let id = s.expect("subscriptions/listen");
        (request, id)
    };
    let (graceful, id) = listen(&mut s);
    s.advance(Duration::from_secs(3600));
    s.expect_silence();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    s.notify("notifications/tools/list_changed", json!({"_meta": meta}));
    let owner = s.take_events().into_iter().find_map(|event| match event {
        Event::Notification { subscription, .. } => subscription,
        _ => None,
    });
    assert_eq!(owner, Some(graceful));
    s.answer(&id, json!({"resultType": "complete", "_meta": meta}));
    s.notify("notifications/cancelled", json!({"requestId": id}));
    assert!(matches!(s.outcome(graceful), Outcome::Result(_)));

    let (cut, id) = listen(&mut s);
    s.notify("notifications/cancelled", json!({"requestId": id}));
    s.answer(&id, json!({"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}}));
    assert!(matches!(s.outcome(cut), Outcome::Lost(LostReason::Ended)));
    assert!(s.take_events().is_empty());
}

/// R1
#[test]
fn client_reads_a_batch_only_at_the_revision_that_has_batches() {
    let mut s = ClientHarness::legacy_at(config(), "2025-03-26");
    let first = call(&mut s, RequestOptions::default());
    let second = call(&mut s, RequestOptions::default());
    let answer = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
    s.send(&json!([answer(&first.1), answer(&second.1)]));
    assert!(matches!(s.outcome(first.0), Outcome::Result(_)));
    assert!(matches!(s.outcome(second.0), Outcome::Result(_)));
    assert!(s.take_events().is_empty());
}

/// Contract 5
#[test]
fn a_spurious_timeout_changes_nothing() {
    let mut s = ClientHarness::modern(config());
    call(&mut s, RequestOptions::default());
    let due = s.client.poll_timeout();
    s.client.handle_timeout(s.now);
    assert_eq!(s.client.poll_timeout(), due);
    assert!(s.take_events().is_empty());
    s.expect_silence();
}

/// C9.14, C9.15, F101
#[test]
fn client_sends_the_log_level_with_each_modern_request_or_once_to_a_legacy_server() {
    let mut config = config();
    config.log_level = Some(LoggingLevel::Warning);
    let mut modern = ClientHarness::modern(config.clone());
    modern
        .client
        .at(modern.now)
        .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
        .unwrap();
    assert_eq!(modern.line()["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");

    let mut legacy = ClientHarness::legacy(config);
    let line = legacy.line();
    assert_eq!((&line["method"], &line["params"]["level"]), (&json!("logging/setLevel"), &json!("warning")));
    legacy.answer(&line["id"], json!({}));
    assert!(legacy.take_events().is_empty());
}

/// C1.11, F12
#[test]
fn unsupported_version_error_names_the_supported_and_the_requested_versions() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s, RequestOptions::default());
    s.answer_error(&id, -32022, Some(json!({"supported": ["2025-11-25"], "requested": "2026-07-28"})));
    let Outcome::Error(error) = s.outcome(request) else { panic!("another outcome") };
    assert_eq!(error.code, -32022);
    let data: UnsupportedVersionData = error.data.unwrap().decode().unwrap();
    assert_eq!(data.supported, ["2025-11-25"]);
    assert_eq!(data.requested.as_deref(), Some("2026-07-28"));
}

/// C3.2, C6.2: a notification belongs to the subscription that it names; one that names none belongs to none.
#[test]
fn client_assigns_a_notification_to_the_subscription_that_it_names() {
    let mut s = ClientHarness::modern(config());
    let mut open = Vec::new();
    for _ in 0..2 {
        let options = RequestOptions::default();
        let request = s.client.at(s.now).request::<SubscriptionsListen>(&listen_params(), options).unwrap();
        open.push((request, s.expect("subscriptions/listen")));
    }
    let owner = |s: &mut ClientHarness, meta: Value| {
        s.notify("notifications/tools/list_changed", json!({"_meta": meta}));
        let owners: Vec<Option<RequestId>> = s
            .take_events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Notification { subscription, .. } => Some(subscription),
                _ => None,
            })
            .collect();
        let [owner] = owners[..] else { panic!("{owners:?}") };
        owner
    };
    for (request, id) in open.iter().rev() {
        assert_eq!(owner(&mut s, json!({"io.modelcontextprotocol/subscriptionId": id})), Some(*request));
    }
    let (_, other) = call(&mut s, RequestOptions::default());
    for id in [other, json!(99), json!("x"), json!({}), Value::Null] {
        assert_eq!(owner(&mut s, json!({"io.modelcontextprotocol/subscriptionId": id})), None, "{id}");
    }
    assert_eq!(owner(&mut s, json!({})), None);
}
