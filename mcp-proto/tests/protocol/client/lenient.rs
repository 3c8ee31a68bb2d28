//! A client on a stream whose server deviates from the specification as servers in use do.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use crate::common::messages::{LEGACY, discover_result, initialize_result};
use mcp_proto::peer::client::{ClientConfig, Diagnostic, EraPolicy, Event, State};
use mcp_proto::peer::{
    InvalidAnswerError, Leniency, Outcome, RequestError, RequestId, RequestOptions, RequiredCapability,
    Strictness,
};
use mcp_proto::rpc::{Id, InvalidMessageKind, MalformedKind};
use mcp_proto::schema::{
    CallTool, CallToolParams, Complete, CompleteParams, CompletionArgument, ContentBlock, EmptyResult,
    GetPrompt, GetPromptParams, ListPrompts, ListResourceTemplates, ListResources, ListTools, Method, Ping,
    PromptReference, ReadResource, ReadResourceParams, Revision, ServerCapabilities, ServerCapability,
    SetLoggingLevel, SetLoggingLevelParams, SubscribeResource, SubscribeResourceParams,
};
use serde_json::{Value, json};

fn strict() -> ClientConfig {
    let mut config = config();
    config.strictness = Strictness::Strict;
    config
}

fn ask<M: Method>(s: &mut ClientHarness, params: &M::Params) -> Result<RequestId, RequestError> {
    s.client.at(s.now).request::<M>(params, RequestOptions::default())
}

fn list(s: &mut ClientHarness) -> (RequestId, Value) {
    let request = ask::<ListTools>(s, &Default::default()).unwrap();
    (request, s.expect("tools/list"))
}

/// The deviations tolerated since the last call; other events are kept.
fn tolerated(s: &mut ClientHarness) -> Vec<Leniency> {
    let mut found = Vec::new();
    for event in s.take_events() {
        match event {
            Event::Diagnostic(Diagnostic::Tolerated(leniency)) => found.push(leniency),
            other => s.events.push(other),
        }
    }
    found
}

fn empty_page() -> Value {
    json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"})
}

// --- Ids ---

/// C1.1
#[test]
fn client_takes_the_decimal_string_of_its_id() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = list(&mut s);
    s.answer(&json!(id.to_string()), empty_page());
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
    assert_eq!(tolerated(&mut s), [Leniency::NumberAsString { id: Id::from(&*id.to_string()) }]);
}

#[test]
fn client_takes_the_float_of_its_id() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = list(&mut s);
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id}.0,"result":{}}}"#, empty_page()));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
    let tolerated = tolerated(&mut s);
    let [Leniency::Response(malformed)] = &tolerated[..] else { panic!("{tolerated:?}") };
    assert_eq!(malformed.kind, MalformedKind::NotAMessage(InvalidMessageKind::IdNotInteger));
}

#[test]
fn client_takes_the_decimal_string_during_the_handshake_and_in_unreadable_responses() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer(&json!(id.to_string()), discover_result());
    assert_eq!(s.client.state(), State::Ready);
    let (request, id) = list(&mut s);
    s.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}},"error":{{"code":1,"message":""}}}}"#
    ));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
}

#[test]
fn strict_client_takes_nothing_but_its_id() {
    let mut s = ClientHarness::modern(strict());
    let (request, id) = list(&mut s);
    s.answer(&json!(id.to_string()), empty_page());
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id}.0,"result":{{}}}}"#));
    let events = s.take_events();
    assert!(
        matches!(
            &events[..],
            [Event::Diagnostic(Diagnostic::UnknownAnswer(_)), Event::Diagnostic(Diagnostic::Malformed(_))]
        ),
        "{events:?}"
    );
    s.answer(&id, empty_page());
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
}

/// C7.9
#[test]
fn client_takes_progress_whose_token_became_a_string() {
    for (config, expected) in [(config(), 1), (strict(), 0)] {
        let mut s = ClientHarness::modern(config);
        ask::<CallTool>(&mut s, &CallToolParams::new("t")).unwrap();
        let line = s.line();
        let token = line["params"]["_meta"]["progressToken"].to_string();
        s.notify("notifications/progress", json!({"progressToken": token, "progress": 1}));
        let progress = |event: &&Event| matches!(event, Event::Progress { .. });
        let tolerated = tolerated(&mut s);
        assert_eq!((s.events.iter().filter(progress).count(), tolerated.len()), (expected, expected));
    }
}

#[test]
fn client_echoes_the_ids_of_its_server_verbatim() {
    let mut s = ClientHarness::legacy(config());
    for id in [json!("7"), json!(7), json!("07"), json!("7.0"), json!(""), json!(0), json!(-7), json!("é\n")]
    {
        s.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(s.line()["id"], id);
    }
}

// --- Lines that are not messages ---

#[test]
fn log_line_with_the_id_of_a_request_does_not_end_it() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = list(&mut s);
    for line in [
        format!(r#"{{"level":"info","id":{id}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
        format!(r#"{{"level":"info","context":{{"id":{id},"result":1}}}}"#),
    ] {
        s.send_text(&line);
        let events = s.take_events();
        assert!(matches!(events[..], [Event::Diagnostic(Diagnostic::Malformed(_))]), "{line}: {events:?}");
    }
    s.send_text(&format!(r#"{{"id":{id},"result":{{}}}}"#));
    assert!(matches!(s.outcome(request), Outcome::Invalid(_)));
}

/// A truncated line may have been the response.
#[test]
fn line_truncated_after_the_id_of_a_request_ends_the_request() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = list(&mut s);
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"res"#));
    assert!(matches!(s.outcome(request), Outcome::Invalid(_)));
}

// --- Text that is not Unicode ---

/// C1.22
#[test]
fn client_replaces_what_is_not_unicode_in_a_result() {
    for (text, kind) in [
        (&br#""half of a character: \ud83d""#[..], MalformedKind::LoneSurrogate),
        (b"\"a path: \xE9\xFF\"", MalformedKind::NotUtf8),
    ] {
        let send = |s: &mut ClientHarness, id: &Value| {
            let head =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"#);
            let line = [head.as_bytes(), text, b"}],\"resultType\":\"complete\"}}\n"].concat();
            s.client.handle_input(s.now, line.into());
        };
        let mut s = ClientHarness::modern(config());
        let request = ask::<CallTool>(&mut s, &CallToolParams::new("t")).unwrap();
        let id = s.expect("tools/call");
        send(&mut s, &id);
        let result = s.outcome(request).decode::<CallTool>().expect("the result is not lost");
        let [ContentBlock::Text(content)] = &result.content[..] else { panic!("{result:?}") };
        assert!(content.text.ends_with('\u{fffd}'), "{content:?}");
        let tolerated = tolerated(&mut s);
        let [Leniency::Response(malformed)] = &tolerated[..] else { panic!("{tolerated:?}") };
        assert_eq!(malformed.kind, kind);

        let mut s = ClientHarness::modern(strict());
        let request = ask::<CallTool>(&mut s, &CallToolParams::new("t")).unwrap();
        let id = s.expect("tools/call");
        send(&mut s, &id);
        assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
    }
}

#[test]
fn client_replaces_a_lone_surrogate_in_the_message_of_an_error() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = list(&mut s);
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no \ud83d"}}}}"#));
    let Outcome::Error(error) = s.outcome(request) else { panic!() };
    assert_eq!((error.code, &*error.message), (-1, "no \u{fffd}"));
    assert!(matches!(tolerated(&mut s)[..], [Leniency::Response(_)]));
}

// --- Forms of other languages ---

#[test]
fn client_takes_a_notification_with_the_id_null() {
    let text =
        r#"{"jsonrpc":"2.0","id":null,"method":"notifications/message","params":{"level":"info","data":1}}"#;
    let mut s = ClientHarness::legacy(config());
    s.send_text(text);
    s.expect_silence();
    let tolerated = tolerated(&mut s);
    assert!(matches!(&tolerated[..], [Leniency::Notification(_)]), "{tolerated:?}");
    assert!(
        matches!(&s.events[..], [Event::Notification { method, .. }] if method == "notifications/message")
    );

    let mut s = ClientHarness::legacy(strict());
    s.send_text(text);
    let events = s.take_events();
    assert!(matches!(&events[..], [Event::Diagnostic(Diagnostic::Malformed(_))]), "{events:?}");
}

#[test]
fn client_takes_an_empty_array_for_a_capability_and_the_result_of_ping() {
    let names =
        ["tools", "resources", "prompts", "tasks", "extensions", "experimental", "completions", "logging"];
    for (config, is_lenient) in [(config(), true), (strict(), false)] {
        for of in names.into_iter().chain(["capabilities"]) {
            let mut config = config.clone();
            config.era_policy = EraPolicy::LegacyOnly;
            let mut s = ClientHarness::open(config);
            let id = s.expect("initialize");
            let mut result = initialize_result(LEGACY);
            result["capabilities"] = if of == "capabilities" { json!([]) } else { json!({of: []}) };
            s.answer(&id, result);
            assert_eq!(s.line()["method"], "notifications/initialized");
            let mut expected = ServerCapabilities::default();
            if is_lenient && of != "capabilities" {
                expected = serde_json::from_value(json!({of: {}})).unwrap();
            }
            let expected = (is_lenient || of != "capabilities").then_some(expected);
            assert_eq!(s.client.peer().server().unwrap().capabilities, expected, "{of}");
            let ping = ask::<Ping>(&mut s, &Default::default()).unwrap();
            let id = s.expect("ping");
            s.answer(&id, json!([]));
            assert_eq!(s.outcome(ping).decode::<Ping>().is_ok(), is_lenient);
            let expected = [Leniency::EmptyArray { of }, Leniency::EmptyArray { of: "ping" }];
            assert_eq!(tolerated(&mut s), if is_lenient { &expected[..] } else { &[] });
        }
    }
}

#[test]
fn only_a_strict_client_rejects_a_prompt_for_one_message_of_an_unknown_role() {
    for (config, messages) in [(config(), Some(1)), (strict(), None)] {
        let mut s = ClientHarness::legacy(config);
        let request = ask::<GetPrompt>(&mut s, &GetPromptParams::new("p")).unwrap();
        let id = s.expect("prompts/get");
        let message = |role: &str| json!({"role": role, "content": {"type": "text", "text": "a"}});
        s.answer(&id, json!({"messages": [message("user"), message("narrator")]}));
        match (s.outcome(request), messages) {
            (Outcome::Invalid(InvalidAnswerError::Malformed(what)), None) => {
                assert!(what.contains("message 1") && what.contains("`role`"), "{what}");
            }
            (outcome, Some(messages)) => {
                assert_eq!(outcome.decode::<GetPrompt>().unwrap().messages.len(), messages);
            }
            (outcome, None) => panic!("{outcome:?}"),
        }
    }
}

// --- Errors ---

#[test]
fn malformed_error_keeps_the_message_of_the_server() {
    for (error, text) in [
        (json!("out of paper"), "out of paper"),
        (json!({"code": "E_PAPER", "message": "out"}), "out (code E_PAPER)"),
        (json!({"code": -32000.0, "message": "out"}), "out (-32000)"),
        (json!({"code": -1}), r#"{"code":-1} (-1)"#),
    ] {
        let mut s = ClientHarness::modern(config());
        let (request, id) = list(&mut s);
        s.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        let Outcome::Error(read) = s.outcome(request) else { panic!("{error}") };
        assert_eq!(read.to_string(), text);
        assert!(matches!(tolerated(&mut s)[..], [Leniency::Response(_)]));

        let mut s = ClientHarness::modern(strict());
        let (request, id) = list(&mut s);
        s.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
    }
}

/// A1: P must be the only outstanding request.
#[test]
fn an_error_without_id_answers_the_handshake_only_if_nothing_was_written_since() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
    let mut s = ClientHarness::open(config());
    s.expect("server/discover");
    s.send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(s.line()["id"], "p");
    s.send_text(error);
    s.expect_silence();
    assert!(s.take_events().iter().any(|event| matches!(event, Event::Diagnostic(Diagnostic::Error(_)))));

    let mut s = ClientHarness::open(config());
    s.expect("server/discover");
    s.send_text(error);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.client.state(), State::Ready);
}

#[test]
fn a_request_that_times_out_quotes_the_error_without_id() {
    let mut s = ClientHarness::modern(config());
    let limited = || RequestOptions::default().timeout(Duration::from_secs(5));
    let early = s.client.at(s.now).request::<ListTools>(&Default::default(), limited()).unwrap();
    s.advance(Duration::from_secs(1));
    s.send_text(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?","data":"x"}}"#);
    s.advance(Duration::from_secs(1));
    let late = s.client.at(s.now).request::<ListTools>(&Default::default(), limited()).unwrap();
    s.advance(Duration::from_secs(10));
    let Outcome::TimedOut { error_without_id: Some(error), .. } = s.outcome(early) else { panic!() };
    assert_eq!((error.code, &*error.message, &error.data), (-32700, "what?", &None));
    assert!(matches!(s.outcome(late), Outcome::TimedOut { error_without_id: None, .. }));
    let text =
        Outcome::TimedOut { after: Duration::ZERO, hard: true, error_without_id: Some(error) }.to_string();
    assert!(text.ends_with("an error without an id: what? (-32700)"), "{text}");
}

// --- The handshake ---

/// F12, K12, A0.6
#[test]
fn client_offers_initialize_once_more_at_a_version_that_the_refusal_lists() {
    for (code, data) in [
        (-32602, json!({"supported": ["2025-03-26", "2025-06-18", "1.0"], "requested": LEGACY})),
        (-32000, json!({"supportedVersions": ["2024-11-05", "2025-06-18"]})),
    ] {
        let mut config = config();
        config.era_policy = EraPolicy::LegacyOnly;
        let mut s = ClientHarness::open(config);
        let id = s.expect("initialize");
        s.answer_error(&id, code, Some(data.clone()));
        let line = s.line();
        assert_eq!(
            (&line["method"], &line["params"]["protocolVersion"]),
            (&json!("initialize"), &json!("2025-06-18"))
        );
        let retried =
            Leniency::VersionRetried { refused: Revision::LATEST_LEGACY, offered: Revision::V2025_06_18 };
        assert_eq!(tolerated(&mut s), [retried]);
        // Once.
        s.answer_error(&line["id"], code, Some(json!({"supported": ["2024-11-05"]})));
        s.expect_silence();
        assert!(s.client.is_closed());
    }
}

#[test]
fn client_does_not_cross_the_eras_for_a_refusal_that_is_not_modern() {
    for data in [
        json!({"supported": ["2026-07-28"]}),
        json!({"supported": [LEGACY]}),
        json!({"supported": ["1.0"]}),
        json!({"supported": "2025-06-18"}),
        json!(["2025-06-18"]),
    ] {
        let mut s = ClientHarness::open(config());
        let id = s.expect("server/discover");
        s.answer_error(&id, -32601, None);
        let id = s.expect("initialize");
        s.answer_error(&id, -32602, Some(data));
        s.expect_silence();
        assert!(s.client.is_closed());
    }
    let mut strict = strict();
    strict.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(strict);
    let id = s.expect("initialize");
    s.answer_error(&id, -32602, Some(json!({"supported": ["2025-06-18"]})));
    assert!(s.client.is_closed());
}

// --- Capabilities ---

fn legacy_with(mut config: ClientConfig, capabilities: Value) -> ClientHarness {
    config.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(config);
    let id = s.expect("initialize");
    let mut result = initialize_result(LEGACY);
    result["capabilities"] = capabilities;
    s.answer(&id, result);
    s.expect("notifications/initialized");
    s.take_events();
    s
}

fn required_capability(refused: Result<RequestId, RequestError>) -> ServerCapability {
    match refused {
        Err(RequestError::Capability { needed: RequiredCapability::Server(needed), .. }) => needed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn client_sends_every_request_to_a_legacy_server_without_capabilities() {
    let mut wanting = config();
    wanting.log_level = Some(mcp_proto::schema::LoggingLevel::Debug);
    let mut s = legacy_with(wanting, json!({}));
    s.expect_silence();
    ask::<ListTools>(&mut s, &Default::default()).unwrap();
    s.expect("tools/list");
    ask::<CallTool>(&mut s, &CallToolParams::new("t")).unwrap();
    s.expect("tools/call");
    ask::<ListPrompts>(&mut s, &Default::default()).unwrap();
    s.expect("prompts/list");
    ask::<GetPrompt>(&mut s, &GetPromptParams::new("p")).unwrap();
    s.expect("prompts/get");
    ask::<ListResources>(&mut s, &Default::default()).unwrap();
    s.expect("resources/list");
    ask::<ListResourceTemplates>(&mut s, &Default::default()).unwrap();
    s.expect("resources/templates/list");
    ask::<ReadResource>(&mut s, &ReadResourceParams::new("a:b")).unwrap();
    s.expect("resources/read");
    let tolerated = tolerated(&mut s);
    assert_eq!(tolerated.len(), 7);
    assert_eq!(tolerated[1], Leniency::Undeclared { method: "tools/call", needed: ServerCapability::Tools });

    let refused = ask::<SubscribeResource>(&mut s, &SubscribeResourceParams::new("a:b"));
    assert_eq!(required_capability(refused), ServerCapability::ResourcesSubscribe);
    let refused =
        ask::<SetLoggingLevel>(&mut s, &SetLoggingLevelParams::new(mcp_proto::schema::LoggingLevel::Debug));
    assert_eq!(required_capability(refused), ServerCapability::Logging);
    let argument = CompletionArgument::new("a", "b");
    let refused = ask::<Complete>(&mut s, &CompleteParams::new(PromptReference::new("p"), argument));
    assert_eq!(required_capability(refused), ServerCapability::Completions);
    s.expect_silence();
}

#[test]
fn a_request_that_waited_for_a_server_without_any_capability_is_sent() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(legacy);
    let id = s.expect("initialize");
    ask::<ListTools>(&mut s, &Default::default()).unwrap();
    let mut result = initialize_result(LEGACY);
    result["capabilities"] = json!({});
    s.answer(&id, result);
    s.expect("notifications/initialized");
    s.expect("tools/list");
}

#[test]
fn server_that_declares_any_capability_lacks_the_others() {
    for capabilities in [json!({"prompts": {}}), json!({"experimental": {}}), json!({"x": 1})] {
        let mut s = legacy_with(config(), capabilities);
        assert_eq!(
            required_capability(ask::<ListTools>(&mut s, &Default::default())),
            ServerCapability::Tools
        );
    }
    let mut s = legacy_with(strict(), json!({}));
    assert_eq!(required_capability(ask::<ListTools>(&mut s, &Default::default())), ServerCapability::Tools);
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    let mut result = discover_result();
    result["capabilities"] = json!({});
    s.answer(&id, result);
    assert_eq!(required_capability(ask::<ListTools>(&mut s, &Default::default())), ServerCapability::Tools);
}

// --- Results ---

#[test]
fn a_null_result_of_ping_is_an_empty_object() {
    let mut s = ClientHarness::legacy(config());
    let request = ask::<Ping>(&mut s, &Default::default()).unwrap();
    let id = s.expect("ping");
    s.answer(&id, json!(null));
    assert_eq!(s.outcome(request).decode::<Ping>().unwrap(), EmptyResult::new());
    assert_eq!(tolerated(&mut s), [Leniency::NullResult { method: "ping" }]);

    let mut s = ClientHarness::legacy(strict());
    let request = ask::<Ping>(&mut s, &Default::default()).unwrap();
    let id = s.expect("ping");
    s.answer(&id, json!(null));
    assert!(s.outcome(request).decode::<Ping>().is_err());
}

#[test]
fn a_tool_without_input_schema_is_reported() {
    let page = json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "tools": [{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b"}, {"name": "c", "inputSchema": null}],
    });
    let mut s = ClientHarness::modern(config());
    let (request, id) = list(&mut s);
    s.answer(&id, page.clone());
    assert_eq!(s.outcome(request).decode::<ListTools>().unwrap().tools.len(), 3);
    let missing = |tool: &str| Leniency::MissingInputSchema { tool: tool.into() };
    assert_eq!(tolerated(&mut s), [missing("b"), missing("c")]);

    let mut s = ClientHarness::modern(strict());
    let (request, id) = list(&mut s);
    s.answer(&id, page);
    let Outcome::Invalid(InvalidAnswerError::Malformed(what)) = s.outcome(request) else { panic!() };
    assert!(what.contains("\"b\""), "{what}");
}
