//! Tests of the transition for each answer, and of temporary failures and missing answers, which never prove an era.

use super::*;
use crate::peer::client::ConnectTimeouts;

/// C2.7.
#[test]
fn each_status_and_body_that_answers_the_probe_follows_the_table() {
    for status in 100..600 {
        for (body, reply) in bodies(status) {
            let mut run = Run::new(&config());
            let act = run.probe(reply);
            let expected = match row(status, body) {
                Row::Again => "wait",
                Row::Failure => "fail",
                Row::Older | Row::Other => INITIALIZE,
            };
            assert!(act.starts_with(expected), "{status} and {body}: {act}");
        }
    }
}

/// C2.8.
#[test]
fn each_status_and_body_that_answers_the_handshake_follows_the_table() {
    for status in 100..600 {
        for (body, reply) in bodies(status) {
            let mut run = Run::at_handshake(&config());
            let act = run.initialize(reply);
            let expected = match row(status, body) {
                Row::Again => "wait",
                Row::Failure | Row::Other => "fail",
                Row::Older => "events",
            };
            assert!(act.starts_with(expected), "{status} and {body}: {act}");
        }
    }
}

#[test]
fn each_status_and_body_that_answers_the_get_fails_and_quotes_all_three_answers() {
    for status in 100..600 {
        for (body, reply) in bodies(status) {
            let mut run = Run::at_events(&config());
            let act = run.events(Err(reply));
            assert!(act.starts_with("fail"), "{status} and {body}: {act}");
            let ConnectError::AllFailed(tried) = run.failure() else { panic!("{act}") };
            assert_eq!(tried.len(), 3);
            for part in ["server/discover", "initialize", "GET", "404", "405", "nothing here"] {
                assert!(act.contains(part), "{status} and {body}: {act}");
            }
            assert!(act.contains(&quoted(status, body)), "{act}");
        }
    }
}

/// A modern-only client reports a legacy server as a typed error.
#[test]
fn modern_only_client_reports_a_legacy_server_as_a_typed_error() {
    for status in 100..600 {
        for (body, reply) in bodies(status) {
            let mut run = Run::new(&with_mode(EraPolicy::ModernOnly));
            let act = run.probe(reply);
            match row(status, body) {
                Row::Again => assert_eq!(act, "wait"),
                Row::Failure => assert!(matches!(run.failure(), ConnectError::Transport { .. })),
                Row::Older | Row::Other => {
                    assert!(matches!(run.failure(), ConnectError::LegacyServer { .. }), "{act}");
                    assert!(act.contains(&quoted(status, body)), "{act}");
                }
            }
        }
    }
}

/// A0.3: the newest common version.
#[test]
fn discovery_result_selects_the_newest_common_version() {
    let all = ["2024-11-05", "2026-07-28", "2025-11-25", "3000-01-01"];
    for (mode, versions, expected) in [
        (EraPolicy::Auto, &["2026-07-28"][..], MODERN),
        (EraPolicy::Auto, &all[..], MODERN),
        (EraPolicy::Auto, &["2025-03-26", "2025-06-18"], "initialize 2025-06-18"),
        (EraPolicy::Auto, &["3000-01-01"], "fail: no protocol version in common"),
        (EraPolicy::Auto, &[], "fail: no protocol version in common"),
        (EraPolicy::ModernOnly, &all, MODERN),
        (EraPolicy::ModernOnly, &["2025-11-25"], "fail: no protocol version in common"),
    ] {
        let mut run = Run::new(&with_mode(mode));
        let act = run.probe(discovered(versions));
        assert!(act.starts_with(expected), "{mode:?} {versions:?}: {act}");
    }
}

#[test]
fn discovery_result_counts_with_success_statuses_only() {
    let found = |status| result(status, r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#);
    assert_eq!(Run::new(&config()).probe(found(299)), MODERN);
    assert_eq!(Run::new(&config()).probe(found(400)), INITIALIZE);
    assert_eq!(Run::new(&config()).probe(found(503)), "wait");
}

/// C2.1, C2.5: an unsupported version is corrected, and is no reason to fall back.
#[test]
fn unsupported_version_error_selects_another_version_with_any_status() {
    for status in [200, 400, 401, 404, 422, 500, 503] {
        for (mode, versions, expected) in [
            (EraPolicy::Auto, &["2025-06-18", "2025-11-25"][..], INITIALIZE),
            (EraPolicy::Auto, &["2024-11-05"], "initialize 2024-11-05"),
            (EraPolicy::Auto, &["2026-07-28", "2025-11-25"], PROBE),
            (EraPolicy::Auto, &["3000-01-01"], "fail: no protocol version in common"),
            (EraPolicy::ModernOnly, &["2025-11-25"], "fail: no protocol version in common"),
        ] {
            let mut run = Run::new(&with_mode(mode));
            let act = run.probe(unsupported(status, versions));
            assert!(act.starts_with(expected), "{status} {mode:?} {versions:?}: {act}");
        }
        for data in ["{}", "[]", r#"{"supported":"2025-11-25"}"#, r#"{"supported":[1]}"#, "null"] {
            let act = Run::new(&config()).probe(error_with(status, -32022, data));
            assert!(act.starts_with("fail: the server refused"), "{status} {data}: {act}");
        }
        assert!(Run::new(&config()).probe(error(status, -32022)).starts_with("fail"));
    }
}

/// A0.4.
#[test]
fn detection_retries_once_if_a_server_refuses_the_version_that_it_lists() {
    let mut run = Run::new(&config());
    assert_eq!(run.probe(unsupported(400, &["2026-07-28"])), PROBE);
    assert!(run.probe(unsupported(400, &["2026-07-28"])).starts_with("fail: the server refused"));

    let mut run = Run::new(&config());
    run.probe(unsupported(400, &["2026-07-28"]));
    assert_eq!(run.probe(discovered(&["2026-07-28"])), MODERN);
}

/// C2.5
#[test]
fn detection_retries_a_header_mismatch_once_and_then_blames_a_proxy() {
    for status in [200, 400, 403, 500] {
        let mut run = Run::new(&config());
        assert_eq!(run.probe(error(status, -32020)), PROBE);
        assert!(run.probe(error(status, -32020)).contains("a proxy on the way"));
        assert!(matches!(run.failure(), ConnectError::HeadersChanged { .. }));
    }
    let mut run = Run::new(&config());
    run.probe(error(400, -32020));
    assert_eq!(run.probe(discovered(&["2026-07-28"])), MODERN);
}

/// A0.5, C2.5
#[test]
fn detection_retries_a_missing_capability_once_if_the_client_has_it() {
    let needs =
        |name: &str| error_with(400, -32021, &format!(r#"{{"requiredCapabilities":{{{name:?}:{{}}}}}}"#));
    let capabilities = ClientCapabilities::default().with(ClientCapability::Sampling);
    let config = ClientConfig { capabilities, ..config() };
    let mut run = Run::new(&config);
    assert_eq!(run.probe(needs("sampling")), PROBE);
    assert!(run.probe(needs("sampling")).starts_with("fail"));
    assert!(matches!(run.failure(), ConnectError::MissingCapabilities { .. }));

    let mut run = Run::new(&config);
    assert!(run.probe(needs("elicitation")).contains("elicitation"));
    assert!(Run::new(&config).probe(error(400, -32021)).starts_with("fail: the server refused"));
}

/// C2.1: at most three probes, whatever the answers ask for.
#[test]
fn detection_does_not_retry_for_two_reasons_in_a_row() {
    let mut run = Run::new(&config());
    assert_eq!(run.probe(error(400, -32020)), PROBE);
    assert!(run.probe(unsupported(400, &["2026-07-28"])).starts_with("fail"));
}

/// C2.13.
#[test]
fn initialize_result_determines_the_era_by_its_version() {
    let strict = ClientConfig { strictness: Strictness::Strict, ..config() };
    let tolerant = ClientConfig { tolerate_unknown_version: true, ..strict.clone() };
    for (config, version, expected) in [
        (config(), "2025-11-25", LEGACY),
        (config(), "2024-11-05", "legacy 2024-11-05"),
        (config(), "2026-07-28", MODERN),
        (config(), "3000-01-01", LEGACY),
        (config(), "2024-10-07", "legacy 2024-11-05"),
        (strict, "3000-01-01", "fail"),
        (tolerant, "3000-01-01", LEGACY),
        (with_mode(EraPolicy::LegacyOnly), "2025-06-18", "legacy 2025-06-18"),
        (with_mode(EraPolicy::LegacyOnly), "2026-07-28", "fail: no protocol version in common"),
    ] {
        let mut run = Run::at_handshake(&config);
        let act = run.initialize(initialized(version));
        assert!(act.starts_with(expected), "{:?} {version}: {act}", config.era_policy);
    }
}

#[test]
fn initialize_result_does_not_answer_the_probe_nor_a_discovery_result_the_handshake() {
    assert_eq!(Run::new(&config()).probe(initialized("2025-11-25")), INITIALIZE);
    assert!(Run::at_handshake(&config()).initialize(discovered(&["2026-07-28"])).starts_with("fail"));
}

/// C2.5.
#[test]
fn modern_error_to_the_handshake_counts_with_any_status() {
    for status in [200, 400, 404, 500] {
        let handshake = || Run::at_handshake(&config());
        assert_eq!(
            handshake().initialize(unsupported(status, &["2026-07-28"])),
            "modern 2026-07-28, not described"
        );
        assert_eq!(handshake().initialize(error(status, -32020)), "modern 2026-07-28, not described");
        assert!(handshake().initialize(error(status, -32021)).starts_with("fail"));
        assert!(handshake().initialize(error(status, -32022)).starts_with("fail"));
        assert!(
            handshake().initialize(unsupported(status, &["x"])).contains("no protocol version in common")
        );

        let mut run = handshake();
        assert_eq!(run.initialize(unsupported(status, &["2024-11-05"])), "initialize 2024-11-05");
        assert!(run.initialize(unsupported(status, &["2025-03-26"])).starts_with("fail"), "only once");
    }
}

#[test]
fn detection_does_not_follow_a_second_list_of_versions() {
    let mut run = Run::new(&config());
    assert_eq!(run.probe(unsupported(400, &["2025-06-18"])), "initialize 2025-06-18");
    assert!(run.initialize(unsupported(400, &["2025-03-26"])).starts_with("fail"));
}

#[test]
fn legacy_only_client_takes_no_modern_version_from_a_list() {
    let legacy = || Run::at_handshake(&with_mode(EraPolicy::LegacyOnly));
    assert_eq!(legacy().initialize(unsupported(400, &["2026-07-28", "2025-03-26"])), "initialize 2025-03-26");
    assert!(legacy().initialize(unsupported(400, &["2026-07-28"])).contains("no protocol version in common"));
    assert!(legacy().initialize(error(400, -32020)).starts_with("fail"));
}

#[test]
fn server_that_knows_neither_method_is_modern_without_discovery() {
    let mut run = Run::new(&config());
    assert_eq!(run.probe(error(404, -32601)), INITIALIZE);
    assert_eq!(run.initialize(error(404, -32601)), "modern 2026-07-28, not described");

    for (probe, handshake) in [
        (error(404, -32601), html(404)),
        (html(404), error(404, -32601)),
        (error(400, -32601), error(404, -32601)),
        (error(404, -32601), error(400, -32601)),
    ] {
        let mut run = Run::new(&config());
        run.probe(probe);
        assert_eq!(run.initialize(handshake), "events");
    }
}

/// C2.8, R2.
#[test]
fn endpoint_event_leads_to_the_handshake_beside_the_event_stream() {
    for mode in [EraPolicy::Auto, EraPolicy::LegacyOnly] {
        let mut run = Run::at_events(&with_mode(mode));
        assert_eq!(run.events(Ok(())), INITIALIZE);
        assert_eq!(run.initialize(initialized("2024-11-05")), "legacy 2024-11-05");
    }
}

#[test]
fn handshake_beside_an_event_stream_is_the_last_attempt() {
    let beside = || {
        let mut run = Run::at_events(&config());
        run.events(Ok(()));
        run
    };
    for status in 100..600 {
        for (body, reply) in bodies(status) {
            let act = beside().initialize(reply);
            assert!(act.starts_with("fail"), "{status} and {body}: {act}");
        }
    }
    assert!(beside().initialize(failed()).contains("connection refused"));
    assert!(beside().initialize(initialized("2026-07-28")).contains("over HTTP+SSE"));
    assert!(beside().initialize(unsupported(400, &["2026-07-28"])).starts_with("fail"));
    assert_eq!(beside().initialize(unsupported(200, &["2025-03-26"])), "initialize 2025-03-26");
    let (waited, act) = beside().wait();
    assert_eq!(waited, Duration::from_secs(30));
    assert!(act.contains("did not answer the handshake"), "{act}");
}

#[test]
fn reopened_event_stream_repeats_the_handshake() {
    let mut run = Run::at_events(&config());
    run.events(Ok(()));
    assert_eq!(run.events(Ok(())), INITIALIZE);
    assert!(run.events(Err(failed())).contains("connection refused"));
}

/// The error keeps the challenge, which the client needs to log in.
#[test]
fn error_contains_the_challenge() {
    for reply in [ExchangeOutcome::NoAnswer, |http| answer(http, ErrorObject::new(-32001, "log in"))] {
        for status in [401, 403] {
            let mut http = http_error(status, "log in");
            http.challenge = Some("Bearer".into());
            let mut run = Run::new(&config());
            run.probe(reply(http.clone()));
            let kept = |error: &ConnectError| match error {
                ConnectError::Transport { error, .. } => error.challenge.as_deref() == Some("Bearer"),
                _ => false,
            };
            assert!(kept(run.failure()), "{:?}", run.last);

            let mut run = Run::at_handshake(&config());
            run.initialize(reply(http));
            let ConnectError::AllFailed(tried) = run.failure() else { panic!("{:?}", run.last) };
            assert!(tried.last().is_some_and(kept), "{tried:?}");
        }
    }
}

// --- Temporary failures and missing answers ---

/// Replies that a retry may change.
fn temporary() -> Vec<ExchangeOutcome> {
    let mut replies = vec![failed(), html(500), html(501), error(503, -32603), error(429, -32000)];
    replies.extend([408, 425, 429, 500, 502, 503, 504, 520, 599].map(empty));
    replies
}

#[test]
fn detection_retries_a_transient_failure_three_times() {
    let count = temporary().len();
    for index in 0..count {
        let reply = || temporary().swap_remove(index);
        let mut run = Run::new(&config());
        for pause in [500, 1000, 2000].map(Duration::from_millis) {
            assert_eq!(run.probe(reply()), "wait");
            let (waited, act) = run.wait();
            assert_eq!(act, PROBE);
            assert!(waited >= pause / 2 && waited <= pause, "{waited:?}");
        }
        assert!(run.probe(reply()).starts_with("fail"), "never the handshake");
        assert_eq!(run.detect.deadline(), None);

        let mut run = Run::at_handshake(&config());
        for _ in 0..3 {
            assert_eq!(run.initialize(reply()), "wait");
            assert_eq!(run.wait().1, INITIALIZE);
        }
        assert!(run.initialize(reply()).starts_with("fail"), "never the stream of events");
    }
}

#[test]
fn each_step_has_its_own_three_retries() {
    let mut run = Run::new(&config());
    for _ in 0..3 {
        run.probe(empty(503));
        run.wait();
    }
    run.probe(html(404));
    for _ in 0..3 {
        assert_eq!(run.initialize(empty(503)), "wait");
        assert_eq!(run.wait().1, INITIALIZE);
    }
    assert_eq!(run.initialize(initialized("2025-11-25")), LEGACY);
}

#[test]
fn corrected_probe_gets_no_additional_retries() {
    let mut run = Run::new(&config());
    for _ in 0..3 {
        run.probe(empty(503));
        run.wait();
    }
    assert_eq!(run.probe(error(400, -32020)), PROBE);
    assert!(run.probe(empty(503)).starts_with("fail"));
}

#[test]
fn detection_honours_the_retry_time_of_the_server() {
    let mut run = Run::new(&config());
    assert_eq!(run.probe(busy(503, 17)), "wait");
    assert_eq!(run.wait(), (Duration::from_secs(17), PROBE.into()));
    assert_eq!(run.probe(busy(429, 0)), "wait");
    assert_eq!(run.wait(), (Duration::ZERO, PROBE.into()));
    let mut http = http_error(429, "{error}");
    http.retry_after = Some(Duration::from_secs(3));
    assert_eq!(run.probe(answer(http, ErrorObject::new(SERVER_ERROR, "slow down"))), "wait");
    assert_eq!(run.wait(), (Duration::from_secs(3), PROBE.into()));
}

#[test]
fn detection_fails_at_once_if_the_retry_time_exceeds_its_deadline() {
    let mut run = Run::new(&config());
    assert!(run.probe(busy(503, 120)).contains("503"));
    assert_eq!(run.detect.deadline(), None);
    assert_eq!(Run::new(&config()).probe(busy(503, 119)), "wait");
    assert!(Run::new(&config()).probe(busy(503, u64::MAX)).starts_with("fail"));
}

#[test]
fn unanswered_probe_is_repeated_and_never_leads_to_the_handshake() {
    let mut run = Run::new(&config());
    for _ in 0..3 {
        assert_eq!(run.wait(), (Duration::from_secs(10), "wait".into()));
        assert_eq!(run.wait().1, PROBE);
    }
    let (waited, act) = run.wait();
    assert_eq!(waited, Duration::from_secs(10));
    assert!(act.contains("did not answer the era probe"), "{act}");
}

#[test]
fn unanswered_handshake_is_repeated_until_the_connect_timeout() {
    let mut run = Run::at_handshake(&config());
    let start = run.now;
    for _ in 0..3 {
        assert_eq!(run.wait(), (Duration::from_secs(30), "wait".into()));
        assert_eq!(run.wait().1, INITIALIZE);
    }
    assert!(run.wait().1.contains("did not answer the handshake"));
    assert_eq!(run.now.saturating_since(start), Duration::from_secs(120));
}

#[test]
fn connecting_ends_at_its_timeout() {
    let mut config = config();
    config.connect.total = Duration::from_secs(12);
    let mut run = Run::new(&config);
    run.wait();
    run.wait();
    let act = run.wait().1;
    assert_eq!(
        act,
        "fail: not ready within 12 s, while waiting for the era probe (server/discover) again: \
         the server did not answer the era probe (server/discover) within 10 s"
    );
    assert!(run.failure().is_timeout());
    assert_eq!(run.now, Instant::from_origin(Duration::from_secs(1012)));

    let mut run = Run::at_events(&config);
    let (waited, act) = run.wait();
    assert_eq!(waited, Duration::from_secs(12));
    assert!(
        act.ends_with("not ready within 12 s, while waiting for the request for the event stream (GET)"),
        "{act}"
    );
}

#[test]
fn detection_waits_for_a_silent_server_as_long_as_configured() {
    for total in [2, 20, 300].map(Duration::from_secs) {
        let mut config = config();
        config.connect = ConnectTimeouts::within(total);
        let mut run = Run::new(&config);
        let start = run.now;
        while matches!(run.last, DetectAction::Wait | DetectAction::Probe(_)) {
            run.wait();
        }
        assert!(run.failure().is_timeout(), "{}", run.failure());
        let waited = run.now.saturating_since(start);
        assert!(waited <= total && waited >= total * 9 / 10, "{waited:?} of {total:?}");
    }
}

#[test]
fn progress_names_the_step_and_the_retry_and_why() {
    let mut run = Run::new(&config());
    let line = |run: &Run| run.detect.progress(run.now).map(|progress| progress.to_string());
    assert_eq!(line(&run).unwrap(), "waiting for the answer to the era probe (server/discover)");
    run.probe(busy(503, 2));
    assert_eq!(
        line(&run).unwrap(),
        "retrying the era probe (server/discover) in 2 s (retry 1): \
         the server answered the era probe (server/discover) with HTTP status 503 (retry after 2 s): busy"
    );
    assert_eq!(run.detect.progress(run.now).unwrap().remaining, Some(Duration::from_secs(120)));
    run.wait();
    assert_eq!(
        line(&run).unwrap(),
        "waiting for the answer to the era probe (server/discover) (retry 1): \
         the server answered the era probe (server/discover) with HTTP status 503 (retry after 2 s): busy"
    );
    run.probe(html(404));
    let text = line(&run).unwrap();
    assert!(text.starts_with("waiting for the answer to the handshake (initialize): "), "{text}");
    run.initialize(initialized("2025-11-25"));
    assert_eq!(line(&run), None);
}

#[test]
fn detection_accepts_a_late_answer_during_the_same_step() {
    let mut run = Run::new(&config());
    run.wait();
    assert_eq!(run.probe(discovered(&["2026-07-28"])), MODERN, "while nothing is being tried");

    let mut run = Run::new(&config());
    run.wait();
    run.wait();
    assert_eq!(run.probe(failed()), "wait", "the first one");
    assert_eq!(run.probe(failed()), "wait", "the second one too: there is one pause for both");
    assert_eq!(run.wait().1, PROBE);

    let mut run = Run::at_handshake(&config());
    assert_eq!(run.probe(discovered(&["2026-07-28"])), "wait", "the step has ended");
    assert_eq!(run.initialize(initialized("2025-11-25")), LEGACY);
    for act in [run.probe(html(404)), run.initialize(html(404)), run.events(Ok(()))] {
        assert_eq!(act, "wait", "detection has ended");
    }
}

#[test]
fn pauses_depend_only_on_the_seed() {
    let pauses = |seed| {
        let mut detect = detection(&config(), seed);
        let now = Instant::ORIGIN;
        detect.begin(now);
        [(); 3].map(|()| {
            let _ = detect.handle_outcome(now, ConnectStep::Probe, failed());
            let due = detect.deadline();
            let _ = due.map(|due| detect.handle_timeout(due));
            due
        })
    };
    assert_eq!(pauses(1), pauses(1));
    assert_ne!(pauses(1), pauses(2));
}
