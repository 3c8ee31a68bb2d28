//! Tests of temporary failures and missing answers, which never prove an era.

use super::*;
use crate::peer::client::ConnectTimeouts;

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
    assert_eq!(run.probe(answer(http, Err(ErrorObject::new(SERVER_ERROR, "slow down")))), "wait");
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
