//! Detection of the server's era: every row of the algorithm for byte streams.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use crate::common::messages::{LEGACY, MODERN, discover_result, initialize_result};
use mcp_proto::peer::client::{ConnectError, Diagnostic, EraPolicy, Event, KnownEra, LinkAction, State};
use mcp_proto::peer::{Leniency, Outcome, RequestError, RequestOptions, Strictness};
use mcp_proto::schema::{
    ClientCapabilities, Discover, Era, Implementation, Initialize, InitializeParams, ListTools, Revision,
};
use serde_json::json;

fn reopening() -> mcp_proto::peer::client::ClientConfig {
    let mut config = config();
    config.can_reopen = true;
    config
}

/// C2.3, C1.14, C1.15, F7
#[test]
fn the_probe_goes_first_and_alone_with_full_metadata() {
    let mut s = ClientHarness::open(config());
    let line = s.line();
    assert_eq!(line["method"], "server/discover");
    let meta = &line["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], capabilities);
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test-client");
    s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    s.expect_silence();
}

#[test]
fn discovery_result_makes_the_server_modern() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer(&id, discover_result());
    let server = s.client.peer().server().unwrap();
    assert_eq!((server.era, server.revision), (Era::Modern, Revision::V2026_07_28));
    assert_eq!(server.implementation.as_ref().unwrap().name, "scripted");
    assert_eq!(s.states(), [State::Connecting, State::Connected, State::Ready]);
    let verdict = KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false };
    assert_eq!(s.client.peer().known_era(), Some(verdict));
}

/// C2.10, C2.11, F7, F8
#[test]
fn the_legacy_handshake_goes_through_every_state() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32601, None);
    let line = s.line();
    assert_eq!(line["method"], "initialize");
    assert_eq!(line["params"]["protocolVersion"], LEGACY);
    assert_eq!(line["params"].get("_meta"), None, "initialize carries no modern keys");
    s.answer(&line["id"], initialize_result(LEGACY));
    assert_eq!(s.line()["method"], "notifications/initialized");
    assert_eq!(
        s.states(),
        [State::Connecting, State::Connected, State::Initializing, State::Initialized, State::Ready]
    );
    s.end("");
    assert_eq!(s.states(), [State::Disconnected]);
}

/// C2.4
#[test]
fn any_error_that_is_not_modern_leads_to_the_handshake() {
    for code in [-32601, -32602, -32600, -32603, -32000, -32001, -32002, 42] {
        let mut s = ClientHarness::open(config());
        let id = s.expect("server/discover");
        s.answer_error(&id, code, Some(json!({"supported": [MODERN]})));
        s.expect("initialize");
    }
    let odd_results = [
        json!({}),
        json!({"supportedVersions": "2026-07-28"}),
        json!({"resultType": "input_required", "supportedVersions": [MODERN]}),
        json!([]),
        json!(null),
    ];
    for result in odd_results {
        let mut s = ClientHarness::open(config());
        let id = s.expect("server/discover");
        s.answer(&id, result);
        s.expect("initialize");
    }
}

/// C1.10: the answer to the probe says the same whichever of these codes it has.
#[test]
fn probe_gives_no_meaning_to_codes_of_older_implementations() {
    for code in -32019..=-32000 {
        let mut s = ClientHarness::open(config());
        let id = s.expect("server/discover");
        s.answer_error(&id, code, None);
        let id = s.expect("initialize");
        s.answer(&id, initialize_result(LEGACY));
        s.expect("notifications/initialized");
        s.expect_silence();
        assert_eq!(s.client.peer().known_era().unwrap().era, Era::Legacy, "{code}");
    }
}

#[test]
fn an_error_without_id_answers_the_probe() {
    for text in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#,
    ] {
        let mut s = ClientHarness::open(config());
        s.expect("server/discover");
        s.send_text(text);
        s.expect("initialize");
    }
}

#[test]
fn notifications_noise_and_unknown_ids_do_not_answer_the_probe() {
    let mut s = ClientHarness::open(config());
    s.expect("server/discover");
    s.send_text("Server listening on stdio");
    s.send_text("");
    s.notify("notifications/message", json!({"level": "info", "data": "starting"}));
    s.answer(&json!(99), json!({}));
    s.answer(&json!("x"), json!({}));
    s.expect_silence();
    assert_eq!(s.client.state(), State::Connected);
}

#[test]
fn client_answers_pings_and_holds_other_requests_before_the_era_is_known() {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::open(config);
    let id = s.expect("server/discover");
    s.send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(s.line(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    s.send(&json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
    s.expect_silence();
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    let asked = s.take_events().into_iter().any(|event| matches!(event, Event::Request { .. }));
    assert!(asked, "the client delivers the held request once the server is known to be legacy");
}

/// C1.5
#[test]
fn client_reports_and_never_answers_a_request_held_from_a_modern_server() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.send(&json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
    s.answer(&id, discover_result());
    s.expect_silence();
    let reported = s
        .take_events()
        .into_iter()
        .any(|e| matches!(e, Event::Diagnostic(Diagnostic::ForbiddenRequest { .. })));
    assert!(reported);
}

/// C2.4, C2.15
#[test]
fn unanswered_probe_leads_to_the_handshake_without_a_cancellation() {
    let mut s = ClientHarness::open(config());
    s.expect("server/discover");
    s.advance(Duration::from_secs(4));
    s.expect_silence();
    s.advance(Duration::from_secs(1));
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.line()["method"], "notifications/initialized");
    s.expect_silence();
    assert_eq!(s.client.peer().known_era().unwrap().era, Era::Legacy);
}

#[test]
fn server_that_answers_both_stays_legacy_and_is_remembered_as_modern() {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    s.advance(Duration::from_secs(5));
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    s.answer(&probe, discover_result());
    assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy);
    assert_eq!(s.client.peer().known_era().unwrap().era, Era::Modern);
}

/// A1, S2
#[test]
fn server_that_answers_both_in_the_other_order_is_treated_the_same() {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    s.advance(Duration::from_secs(5));
    let id = s.expect("initialize");
    s.answer(&probe, discover_result());
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy);
    let verdict = s.client.peer().known_era().unwrap();
    assert_eq!((verdict.era, verdict.version), (Era::Modern, Revision::V2026_07_28));
}

/// A0.9
#[test]
fn error_distinguishes_a_modern_server_that_dies_on_the_probe_from_a_failed_handshake() {
    let mut remembered = config();
    remembered.known_era =
        Some(KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false });
    let mut s = ClientHarness::open(remembered);
    s.expect("server/discover");
    s.end("exit status 3");
    assert!(matches!(s.connect_error(), ConnectError::ProbeBrokeServer { .. }));
}

/// A0.3
#[test]
fn unsupported_version_without_a_list_fails_the_handshake() {
    let mut s = ClientHarness::open(reopening());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer_error(&id, -32022, None);
    assert!(matches!(s.connect_error(), ConnectError::Refused { .. }));
}

/// A0.8
#[test]
fn client_does_not_speak_the_other_era_once_the_era_is_known() {
    let mut modern = ClientHarness::modern(config());
    let params = InitializeParams::new(LEGACY, ClientCapabilities::default(), Implementation::new("c", "1"));
    let refused = modern.client.at(modern.now).request::<Initialize>(&params, RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Revision { .. })));
    let mut legacy = ClientHarness::legacy(config());
    let refused =
        legacy.client.at(legacy.now).request::<Discover>(&Default::default(), RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Revision { .. })));
}

/// C1.11, C2.5; A1, S1: -32020 makes no sense on a stream, but only a modern server knows it.
#[test]
fn header_mismatch_answering_the_probe_makes_the_server_modern_without_capabilities() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32020, None);
    let server = s.client.peer().server().unwrap();
    assert_eq!((server.era, server.revision), (Era::Modern, Revision::V2026_07_28));
    assert!(server.capabilities.is_none());
}

/// A1, S2: the version list of a refusal chooses once.
#[test]
fn client_retries_a_refused_handshake_once_at_the_newest_common_version() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer_error(&id, -32022, Some(json!({"supported": ["2024-11-05", "2025-03-26"]})));
    let line = s.line();
    assert_eq!(
        (&line["method"], &line["params"]["protocolVersion"]),
        (&json!("initialize"), &json!("2025-03-26"))
    );
    s.answer_error(&line["id"], -32022, Some(json!({"supported": ["2024-11-05"]})));
    assert!(matches!(s.connect_error(), ConnectError::Refused { .. }));
}

#[test]
fn a_late_discovery_waits_for_the_answer_to_the_handshake() {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    s.advance(Duration::from_secs(5));
    let id = s.expect("initialize");
    s.answer(&probe, discover_result());
    assert_eq!(s.client.state(), State::Initializing);
    s.answer_error(&id, -32022, Some(json!({"supported": [MODERN], "requested": LEGACY})));
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
    s.expect_silence();
}

#[test]
fn a_refused_handshake_waits_two_seconds_for_the_probe() {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    s.advance(Duration::from_secs(5));
    let id = s.expect("initialize");
    s.answer_error(&id, -32601, None);
    s.advance(Duration::from_millis(1900));
    assert_eq!(s.client.state(), State::Initializing);
    s.answer(&probe, discover_result());
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
}

/// C2.5
#[test]
fn unsupported_version_without_a_list_fails_without_fallback() {
    for data in [None, Some(json!({})), Some(json!({"supported": "all"}))] {
        let mut s = ClientHarness::open(reopening());
        let id = s.expect("server/discover");
        s.answer_error(&id, -32022, data);
        s.expect_silence();
        assert!(matches!(s.connect_error(), ConnectError::Refused { .. }));
    }
}

/// C1.11, C2.5, F13
#[test]
fn missing_capability_error_makes_the_server_modern_and_names_the_capability() {
    let mut s = ClientHarness::open(reopening());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32021, Some(json!({"requiredCapabilities": {"sampling": {}}})));
    s.expect_silence();
    match s.connect_error() {
        ConnectError::MissingCapabilities { required } => assert_eq!(required, r#"{"sampling":{}}"#),
        other => panic!("{other:?}"),
    }
}

/// C1.11, C2.1, K12
#[test]
fn client_retries_once_if_an_unsupported_version_error_lists_that_version() {
    let mut s = ClientHarness::open(config());
    let data = json!({"supported": [MODERN], "requested": MODERN});
    let first = s.expect("server/discover");
    s.answer_error(&first, -32022, Some(data.clone()));
    let second = s.expect("server/discover");
    assert_ne!(first, second, "with a new id");
    s.answer_error(&second, -32022, Some(data));
    assert!(matches!(s.connect_error(), ConnectError::Refused { .. }));
}

/// C2.1
#[test]
fn unsupported_version_error_selects_a_listed_legacy_version() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32022, Some(json!({"supported": ["2025-03-26", "2025-06-18"]})));
    let line = s.line();
    assert_eq!(
        (&line["method"], &line["params"]["protocolVersion"]),
        (&json!("initialize"), &json!("2025-06-18"))
    );
}

/// C2.1
#[test]
fn error_shows_both_lists_without_a_common_version() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32022, Some(json!({"supported": ["2030-01-01"]})));
    let error = s.connect_error();
    assert!(matches!(error, ConnectError::NoCommonVersion { .. }));
    let text = error.to_string();
    assert!(text.contains("2030-01-01") && text.contains(MODERN), "{text}");
}

#[test]
fn a_discovery_that_lists_only_legacy_versions_selects_the_newest() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer(&id, json!({"supportedVersions": ["2024-11-05", "2025-06-18"], "capabilities": {}}));
    assert_eq!(s.line()["params"]["protocolVersion"], "2025-06-18");
}

#[test]
fn client_retries_after_a_missing_capability_only_if_it_has_the_capability() {
    let mut with_roots = config();
    with_roots.capabilities.roots = Some(Default::default());
    let data = json!({"requiredCapabilities": {"roots": {}}});
    let mut s = ClientHarness::open(with_roots);
    let id = s.expect("server/discover");
    s.answer_error(&id, -32021, Some(data.clone()));
    s.expect("server/discover");

    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32021, Some(data));
    assert!(
        matches!(s.connect_error(), ConnectError::MissingCapabilities { required } if required.contains("roots"))
    );
}

#[test]
fn server_that_dies_on_the_probe_is_reopened_in_legacy() {
    let mut s = ClientHarness::open(reopening());
    s.expect("server/discover");
    let request =
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    s.end("exit status 1");
    s.accept();
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.line()["method"], "notifications/initialized");
    let id = s.expect("tools/list");
    s.answer(&id, json!({"tools": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)), "the request survived the first process");
    let verdict = KnownEra { era: Era::Legacy, version: Revision::V2025_11_25, probe_breaks_server: true };
    assert_eq!(s.client.peer().known_era(), Some(verdict));
}

/// F14, F15, F35
#[test]
fn client_reopens_its_link_only_once() {
    let mut s = ClientHarness::open(reopening());
    s.expect("server/discover");
    s.end("first");
    s.accept();
    s.expect("initialize");
    s.end("exit status 7; stderr: cannot read config");
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
    let error = s.connect_error().to_string();
    assert!(error.contains("exit status 7") && error.contains("cannot read config"), "{error}");
}

#[test]
fn error_of_a_stream_that_cannot_be_reopened_says_what_to_do() {
    let mut s = ClientHarness::open(config());
    s.expect("server/discover");
    let request =
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    s.end("reset");
    assert!(matches!(s.outcome(request), Outcome::Refused(RequestError::Connect(_))));
    let error = s.connect_error();
    assert!(matches!(&error, ConnectError::ProbeBrokeServer { .. }), "{error:?}");
    assert!(error.to_string().contains("legacy-only"), "{error}");
}

#[test]
fn client_reopens_its_link_if_the_handshake_hangs_after_the_probe() {
    let mut s = ClientHarness::open(reopening());
    s.expect("server/discover");
    s.advance(Duration::from_secs(5));
    s.expect("initialize");
    s.advance(Duration::from_secs(60));
    s.accept();
    s.expect("initialize");
}

/// C2.13, K14
#[test]
fn unknown_version_ends_the_handshake_of_a_strict_client_unless_tolerated() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    legacy.strictness = Strictness::Strict;
    let mut s = ClientHarness::open(legacy.clone());
    let id = s.expect("initialize");
    s.answer(&id, initialize_result("1999-01-01"));
    assert!(matches!(s.connect_error(), ConnectError::NoCommonVersion { .. }));
    s.expect_silence();
    assert_eq!((s.client.state(), s.client.poll_link()), (State::Disconnected, Some(LinkAction::Abort)));

    legacy.tolerate_unknown_version = true;
    let mut s = ClientHarness::open(legacy);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result("1999-01-01"));
    assert_eq!(s.client.state(), State::Ready);
}

/// C2.13, F11, K14: SDKs in use answer with drafts.
#[test]
fn client_reads_an_unknown_version_as_the_legacy_revision_before_it() {
    for (answered, used) in [
        ("2024-10-07", Revision::V2024_11_05),
        ("2025-03-27", Revision::V2025_03_26),
        ("2025-11-24", Revision::V2025_06_18),
        ("3000-01-01", Revision::V2025_11_25),
        ("draft", Revision::V2024_11_05),
    ] {
        let mut legacy = config();
        legacy.era_policy = EraPolicy::LegacyOnly;
        let mut s = ClientHarness::open(legacy);
        let id = s.expect("initialize");
        s.answer(&id, initialize_result(answered));
        assert_eq!(s.line()["method"], "notifications/initialized");
        assert_eq!(s.client.peer().server().unwrap().revision, used, "{answered}");
        let expected = Leniency::UnknownVersion { answered: answered.into(), used };
        let events = s.take_events();
        let is_reported = |event: &Event| matches!(event, Event::Diagnostic(Diagnostic::Tolerated(found)) if *found == expected);
        assert!(events.iter().any(is_reported), "{events:?}");
    }
}

/// C2.6: the policy decides on streams as it does over HTTP.
#[test]
fn legacy_only_client_refuses_an_initialize_result_with_a_modern_version() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(legacy);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(MODERN));
    s.expect_silence();
    let error = s.connect_error();
    assert!(
        matches!(&error, ConnectError::NoCommonVersion { theirs, .. } if *theirs == [MODERN]),
        "{error:?}"
    );
}

#[test]
fn initialize_result_with_a_modern_version_makes_the_server_modern() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(MODERN));
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
    s.expect_silence();
}

/// C2.6
#[test]
fn modern_only_client_fails_on_a_legacy_server_and_says_so() {
    let mut modern = config();
    modern.era_policy = EraPolicy::ModernOnly;
    let mut s = ClientHarness::open(modern.clone());
    let id = s.expect("server/discover");
    s.answer_error(&id, -32601, None);
    s.expect_silence();
    let error = s.connect_error();
    assert!(matches!(error, ConnectError::LegacyServer { .. }));
    let text = error.to_string();
    for part in ["legacy server", "-32601", "EraPolicy::Auto"] {
        assert!(text.contains(part), "{text}");
    }

    let mut s = ClientHarness::open(modern);
    s.expect("server/discover");
    s.advance(Duration::from_secs(120));
    assert!(matches!(s.connect_error(), ConnectError::NotReady { .. }));
}

#[test]
fn legacy_only_client_never_probes() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(legacy);
    let id = s.expect("initialize");
    s.answer_error(&id, -32601, None);
    assert!(matches!(s.connect_error(), ConnectError::Refused { .. }));
}

#[test]
fn legacy_only_client_takes_the_newest_legacy_version_of_a_list_with_modern_ones() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(legacy);
    let id = s.expect("initialize");
    s.answer_error(&id, -32022, Some(json!({"supported": [MODERN, "2025-06-18", "2025-03-26"]})));
    let line = s.line();
    assert_eq!(
        (&line["method"], &line["params"]["protocolVersion"]),
        (&json!("initialize"), &json!("2025-06-18"))
    );
}

/// C2.2
#[test]
fn client_that_knows_a_legacy_server_starts_with_the_handshake() {
    let mut remembered = config();
    remembered.known_era =
        Some(KnownEra { era: Era::Legacy, version: Revision::V2025_06_18, probe_breaks_server: true });
    let mut s = ClientHarness::open(remembered);
    let line = s.line();
    assert_eq!(
        (&line["method"], &line["params"]["protocolVersion"]),
        (&json!("initialize"), &json!("2025-06-18"))
    );
}

#[test]
fn client_drops_a_wrong_known_era_and_detects_once() {
    let mut remembered = config();
    remembered.known_era =
        Some(KnownEra { era: Era::Legacy, version: Revision::V2025_06_18, probe_breaks_server: false });
    let mut s = ClientHarness::open(remembered);
    let id = s.expect("initialize");
    s.answer_error(&id, -32601, None);
    let id = s.expect("server/discover");
    s.answer(&id, discover_result());
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
    assert!(s.take_events().into_iter().any(|e| matches!(e, Event::Diagnostic(Diagnostic::KnownEraWrong))));
}

/// A0.9, C2.5: a modern error refutes a known legacy era, on streams as over HTTP.
#[test]
fn modern_error_drops_a_known_legacy_era_and_sends_the_probe() {
    for (code, supported) in [(-32022, MODERN), (-32022, LEGACY), (-32021, MODERN), (-32020, MODERN)] {
        let mut remembered = config();
        remembered.known_era =
            Some(KnownEra { era: Era::Legacy, version: Revision::V2025_06_18, probe_breaks_server: false });
        let mut s = ClientHarness::open(remembered);
        let id = s.expect("initialize");
        s.answer_error(&id, code, Some(json!({"supported": [supported]})));
        let id = s.expect("server/discover");
        assert!(is_known_era_wrong(&mut s), "{code}");
        s.answer(&id, discover_result());
        assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
        assert!(s.client.peer().server().unwrap().capabilities.is_some());
    }
}

/// A0.9
#[test]
fn legacy_server_that_is_known_to_be_modern_is_reported() {
    let mut remembered = config();
    remembered.known_era =
        Some(KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false });
    let mut s = ClientHarness::open(remembered);
    let id = s.expect("server/discover");
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.client.peer().known_era().unwrap().era, Era::Legacy);
    assert!(is_known_era_wrong(&mut s));
}

fn is_known_era_wrong(s: &mut ClientHarness) -> bool {
    s.take_events().iter().any(|event| matches!(event, Event::Diagnostic(Diagnostic::KnownEraWrong)))
}

/// A0.3: a second list contradicts the first, and another process would answer the same.
#[test]
fn client_does_not_follow_a_second_list_of_versions() {
    for code in [-32022, -32601] {
        let mut s = ClientHarness::open(reopening());
        let id = s.expect("server/discover");
        s.answer_error(&id, code, Some(json!({"supported": ["2025-06-18"]})));
        let id = s.expect("initialize");
        let id = if code == -32601 {
            s.answer_error(&id, -32022, Some(json!({"supported": ["2025-06-18"]})));
            s.expect("initialize")
        } else {
            id
        };
        s.answer_error(&id, -32022, Some(json!({"supported": ["2025-03-26"]})));
        s.expect_silence();
        assert!(matches!(s.connect_error(), ConnectError::Refused { .. }), "{code}");
    }
}

/// C1.11, C2.5: only modern servers know these errors, whichever request they answer.
#[test]
fn modern_error_to_the_handshake_does_not_restart_the_server() {
    for code in [-32020, -32021] {
        let mut s = ClientHarness::open(reopening());
        let id = s.expect("server/discover");
        s.answer_error(&id, -32601, None);
        let id = s.expect("initialize");
        s.answer_error(&id, code, None);
        s.expect_silence();
        if code == -32020 {
            assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
        } else {
            assert!(matches!(s.connect_error(), ConnectError::Refused { .. }));
        }
    }
}

/// A modern server that starts slowly is not spoken to in legacy if it is known to be modern.
#[test]
fn client_that_knows_a_modern_server_waits_longer_for_the_probe() {
    let mut remembered = config();
    remembered.known_era =
        Some(KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false });
    let mut s = ClientHarness::open(remembered);
    let id = s.expect("server/discover");
    s.advance(Duration::from_secs(20));
    s.expect_silence();
    s.answer(&id, discover_result());
    assert_eq!(s.client.state(), State::Ready);
}

#[test]
fn connecting_ends_at_its_deadline() {
    let mut patient = config();
    patient.connect.initialize = Duration::from_secs(1000);
    let mut s = ClientHarness::open(patient);
    s.expect("server/discover");
    s.advance(Duration::from_secs(5));
    s.expect("initialize");
    s.advance(Duration::from_secs(115));
    assert!(s.connect_error().is_timeout());
    assert_eq!(s.client.poll_timeout(), None);
}
