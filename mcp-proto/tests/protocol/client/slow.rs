//! Servers that start slowly, and how long a client waits for them.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use crate::common::messages::{LEGACY, MODERN, discover_result, initialize_result};
use mcp_proto::peer::client::{
    ClientConfig, ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, EraPolicy, Event, KnownEra,
    LinkAction, State,
};
use mcp_proto::peer::{Outcome, RequestOptions};
use mcp_proto::schema::{Era, ListTools, Revision};
use serde_json::{Value, json};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The configuration of a client of child processes.
fn reopening() -> ClientConfig {
    let mut config = config();
    config.can_reopen = true;
    config
}

/// A client that has sent the probe, and `initialize` beside it, to a server that has not answered yet.
fn both_asked(config: ClientConfig) -> (ClientHarness, Value, Value) {
    let mut s = ClientHarness::open(config);
    let probe = s.expect("server/discover");
    s.advance(seconds(5));
    let initialize = s.expect("initialize");
    s.advance(seconds(3));
    (s, probe, initialize)
}

fn refuse(s: &mut ClientHarness, initialize: &Value) {
    s.answer_error(initialize, -32022, Some(json!({"supported": [MODERN], "requested": LEGACY})));
}

fn ends_modern(mut s: ClientHarness) {
    assert_eq!(s.client.state(), State::Ready);
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
    s.expect_silence();
    assert_eq!(s.client.poll_link(), None, "the same process");
}

/// The server is restarted and receives only the probe.
fn ends_modern_in_a_fresh_process(mut s: ClientHarness) {
    s.expect_silence();
    let request =
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    s.accept();
    let probe = s.expect("server/discover");
    s.advance(seconds(10));
    s.expect_silence();
    s.answer(&probe, discover_result());
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
    assert!(!s.client.peer().known_era().unwrap().probe_breaks_server);
    let id = s.expect("tools/list");
    s.answer(&id, json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
}

#[test]
fn slow_server_that_refuses_initialize_after_its_discovery_is_modern() {
    let (mut s, probe, initialize) = both_asked(reopening());
    s.answer(&probe, discover_result());
    refuse(&mut s, &initialize);
    ends_modern(s);
}

#[test]
fn slow_server_that_refuses_initialize_before_its_discovery_is_modern() {
    for code in [-32601, -32602, -32600] {
        let (mut s, probe, initialize) = both_asked(reopening());
        s.answer_error(&initialize, code, None);
        s.answer(&probe, discover_result());
        ends_modern(s);
    }
    let (mut s, probe, initialize) = both_asked(reopening());
    refuse(&mut s, &initialize);
    s.answer(&probe, discover_result());
    ends_modern(s);
}

/// A process that accepted `initialize` serves legacy from then on: the modern era needs another one.
#[test]
fn slow_server_that_answers_both_is_started_again_and_is_modern() {
    let (mut s, probe, initialize) = both_asked(reopening());
    s.answer(&probe, discover_result());
    s.answer(&initialize, initialize_result(LEGACY));
    ends_modern_in_a_fresh_process(s);

    let (mut s, probe, initialize) = both_asked(reopening());
    s.answer(&initialize, initialize_result(LEGACY));
    s.answer(&probe, discover_result());
    ends_modern_in_a_fresh_process(s);
}

#[test]
fn slow_server_may_answer_the_probe_shortly_after_initialize() {
    let (mut s, probe, initialize) = both_asked(reopening());
    s.answer(&initialize, initialize_result(LEGACY));
    s.advance(Duration::from_millis(400));
    s.expect_silence();
    s.answer(&probe, discover_result());
    ends_modern_in_a_fresh_process(s);

    let (mut s, probe, initialize) = both_asked(reopening());
    s.answer(&initialize, initialize_result(LEGACY));
    s.answer_error(&probe, -32601, None);
    assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy, "no deadline is left");

    let (mut s, _, initialize) = both_asked(reopening());
    s.answer(&initialize, initialize_result(LEGACY));
    s.advance(Duration::from_millis(500));
    assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy, "a server that is silent to the probe");
    assert_eq!(s.line()["method"], "notifications/initialized");
}

/// A stream that can be opened only once stays legacy, and is modern the next time.
#[test]
fn stream_whose_server_answers_both_stays_legacy() {
    for probe_first in [true, false] {
        let (mut s, probe, initialize) = both_asked(config());
        if probe_first {
            s.answer(&probe, discover_result());
            s.answer(&initialize, initialize_result(LEGACY));
        } else {
            s.answer(&initialize, initialize_result(LEGACY));
            s.answer(&probe, discover_result());
        }
        assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy);
        assert_eq!(s.client.peer().known_era().unwrap().era, Era::Modern);
    }
}

#[test]
fn slow_server_is_not_started_again_when_there_is_no_time_for_it() {
    let mut hasty = reopening();
    hasty.connect.total = seconds(20);
    let (mut s, probe, initialize) = both_asked(hasty);
    s.answer(&probe, discover_result());
    s.answer(&initialize, initialize_result(LEGACY));
    assert_eq!(
        s.client.peer().server().unwrap().era,
        Era::Legacy,
        "8 s of 20 s are gone, and it may take 16 s"
    );
    assert_eq!(s.client.peer().known_era().unwrap().era, Era::Modern);
}

#[test]
fn client_does_not_wait_long_for_a_modern_server_to_answer_initialize() {
    let (mut s, probe, _) = both_asked(reopening());
    s.answer(&probe, discover_result());
    s.advance(seconds(4));
    assert_eq!(s.client.state(), State::Initializing);
    s.advance(seconds(1));
    ends_modern(s);
}

#[test]
fn second_process_that_ends_on_the_probe_is_followed_by_one_that_is_asked_in_legacy() {
    let (mut s, probe, initialize) = both_asked(reopening());
    s.answer(&probe, discover_result());
    s.answer(&initialize, initialize_result(LEGACY));
    s.accept();
    s.expect("server/discover");
    s.end("exit status 1");
    s.accept();
    let initialize = s.expect("initialize");
    s.answer(&initialize, initialize_result(LEGACY));
    assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy);
}

// --- How long ---

#[test]
fn modern_only_client_waits_for_the_whole_time() {
    let mut modern = reopening();
    modern.era_policy = EraPolicy::ModernOnly;
    modern.connect = ConnectTimeouts::within(seconds(30));
    let mut s = ClientHarness::open(modern.clone());
    let probe = s.expect("server/discover");
    s.advance(seconds(29));
    s.expect_silence();
    s.answer(&probe, discover_result());
    ends_modern(s);

    let mut s = ClientHarness::open(modern);
    s.expect("server/discover");
    s.advance(seconds(30));
    let error = s.connect_error();
    assert!(error.is_timeout());
    assert_eq!(error.to_string(), "not ready within 30 s, while waiting for the era probe (server/discover)");
}

/// Whether the server is silent, ends or restarts, the application's timeout applies.
#[test]
fn client_gives_up_on_a_silent_server_at_its_timeout() {
    for total in [2, 20, 300] {
        let mut config = reopening();
        config.connect = ConnectTimeouts::within(seconds(total));
        let mut s = ClientHarness::open(config);
        let start = s.now;
        s.expect("server/discover");
        s.advance(seconds(total.min(10)) / 2);
        s.expect("initialize");
        s.advance((start + seconds(total)).saturating_since(s.now) - Duration::from_millis(1));
        assert_eq!(s.client.state(), State::Initializing);
        s.advance(Duration::from_millis(1));
        let error = s.connect_error();
        assert_eq!(s.now.saturating_since(start), seconds(total));
        assert!(error.is_timeout());
        let text = error.to_string();
        assert!(
            text.starts_with("the server did not answer the era probe (server/discover) within "),
            "{text}"
        );
        assert!(text.ends_with("while waiting for the handshake (initialize)"), "{text}");
        assert_eq!(s.client.poll_timeout(), None);
    }
}

#[test]
fn restarted_process_gets_no_additional_time() {
    let mut config = reopening();
    config.connect = ConnectTimeouts::within(seconds(20));
    let mut s = ClientHarness::open(config);
    s.expect("server/discover");
    s.advance(seconds(4));
    s.end("exit status 1");
    s.accept();
    s.expect("initialize");
    s.advance(seconds(15));
    assert_eq!(s.client.state(), State::Initializing);
    s.advance(seconds(1));
    let text = s.connect_error().to_string();
    assert!(text.contains("exit status 1") && text.contains("not ready within 20 s"), "{text}");
}

/// F14
#[test]
fn link_that_never_opens_is_given_up() {
    let mut config = reopening();
    config.connect = ConnectTimeouts::within(seconds(2));
    let mut s = ClientHarness::new(config);
    assert_eq!(s.client.poll_link(), Some(LinkAction::Open));
    s.client.handle_timeout(s.now);
    s.advance(seconds(2));
    assert!(matches!(s.connect_error(), ConnectError::NotReady { last: None, .. }));
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
}

#[test]
fn request_gives_up_by_its_own_time_while_the_server_starts() {
    let mut s = ClientHarness::open(reopening());
    s.expect("server/discover");
    let mut options = RequestOptions::default();
    options.timeout = Some(seconds(3));
    let request = s.client.at(s.now).request::<ListTools>(&Default::default(), options).unwrap();
    s.advance(seconds(3));
    match s.outcome(request) {
        Outcome::TimedOut { after, hard: false, error_without_id: None } => assert_eq!(after, seconds(3)),
        other => panic!("{other:?}"),
    }
    assert_eq!(s.client.state(), State::Connected, "the connection goes on");
}

// --- Reports to the application ---

fn reports(s: &mut ClientHarness) -> Vec<ConnectProgress> {
    let reports = s.take_events().into_iter().filter_map(|event| match event {
        Event::Connecting(progress) => Some(*progress),
        _ => None,
    });
    reports.collect()
}

#[test]
fn each_step_of_connecting_is_reported() {
    let mut s = ClientHarness::open(reopening());
    let lines = |s: &mut ClientHarness| reports(s).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        lines(&mut s),
        [
            "waiting for the opening of the connection",
            "waiting for the answer to the era probe (server/discover)"
        ]
    );
    assert_eq!(s.client.peer().connecting().unwrap().step, ConnectStep::Probe);
    s.advance(seconds(5));
    assert_eq!(
        lines(&mut s),
        ["waiting for the answer to the handshake (initialize): \
          the server did not answer the era probe (server/discover) within 5 s"]
    );
    s.end("exit status 1");
    s.accept();
    assert_eq!(
        lines(&mut s),
        [
            "waiting for the opening of the connection: \
             the server ended the connection during the handshake (initialize): exit status 1",
            "waiting for the answer to the handshake (initialize): \
             the server ended the connection during the handshake (initialize): exit status 1"
        ]
    );
    let remaining = s.client.peer().connecting().unwrap().remaining;
    assert_eq!(remaining, Some(seconds(115)));
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.client.peer().connecting(), None, "it is ready");
}

/// A client that knows its server to be legacy, and has sent the probe after an `initialize` that was not answered in time.
fn slow_legacy_server() -> (ClientHarness, Value, Value) {
    let mut config = reopening();
    config.known_era =
        Some(KnownEra { era: Era::Legacy, version: Revision::V2025_11_25, probe_breaks_server: false });
    let mut s = ClientHarness::open(config);
    let initialize = s.expect("initialize");
    s.advance(seconds(60));
    let probe = s.expect("server/discover");
    (s, initialize, probe)
}

fn ends_legacy(mut s: ClientHarness) {
    assert_eq!(s.client.state(), State::Ready);
    assert_eq!(s.client.peer().server().unwrap().era, Era::Legacy);
    assert_eq!(s.client.poll_link(), None, "the same process");
}

/// C2.2, C2.15: from the late result on, this process serves legacy, also if it answers the probe.
#[test]
fn late_initialize_result_keeps_modern_requests_from_the_process() {
    for answers_probe in [false, true] {
        let (mut s, initialize, probe) = slow_legacy_server();
        s.answer(&initialize, initialize_result(LEGACY));
        if answers_probe {
            s.answer(&probe, discover_result());
        } else {
            s.answer_error(&probe, -32601, None);
        }
        s.expect("notifications/initialized");
        ends_legacy(s);
    }
}

/// C2.15: the answer to the first of two `initialize` requests counts, unless it is an error.
#[test]
fn late_initialize_result_counts_although_the_request_was_repeated() {
    for is_refused in [false, true] {
        let (mut s, first, _) = slow_legacy_server();
        s.advance(seconds(5));
        let second = s.expect("initialize");
        if is_refused {
            refuse(&mut s, &first);
        }
        s.answer(if is_refused { &second } else { &first }, initialize_result(LEGACY));
        s.advance(seconds(10));
        s.expect("notifications/initialized");
        ends_legacy(s);
    }
}
