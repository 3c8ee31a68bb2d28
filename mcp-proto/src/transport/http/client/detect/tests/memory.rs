//! Tests of remembered eras, and of evidence that contradicts them later.

use super::*;

/// C2.2.
#[test]
fn detection_starts_according_to_policy_and_known_era() {
    let (modern, legacy) = ((Era::Modern, Revision::LATEST), (Era::Legacy, Revision::V2025_03_26));
    for (mode, verdict, expected) in [
        (EraPolicy::Auto, None, PROBE),
        (EraPolicy::Auto, Some(modern), PROBE),
        (EraPolicy::Auto, Some(legacy), "initialize 2025-03-26"),
        (EraPolicy::ModernOnly, None, PROBE),
        (EraPolicy::ModernOnly, Some(legacy), PROBE),
        (EraPolicy::LegacyOnly, None, INITIALIZE),
        (EraPolicy::LegacyOnly, Some(modern), INITIALIZE),
        (EraPolicy::LegacyOnly, Some(legacy), "initialize 2025-03-26"),
    ] {
        let verdict = verdict.map(|(era, version)| KnownEra { era, version, probe_breaks_server: false });
        let mut detect = detection(&ClientConfig { known_era: verdict, ..with_mode(mode) }, 0);
        assert_eq!(text(&detect.begin(Instant::ORIGIN)), expected, "{mode:?} {verdict:?}");
        assert_eq!(text(&detect.begin(Instant::ORIGIN)), "wait", "it has begun");
    }
}

#[test]
fn modern_error_drops_a_known_legacy_era_and_sends_the_probe() {
    for reply in [error(400, -32020), error(400, -32021), unsupported(400, &["2025-11-25"])] {
        let mut run = Run::new(&remembering(Era::Legacy, Revision::LATEST_LEGACY));
        assert_eq!(run.initialize(reply), PROBE);
        assert!(run.dropped_known_era());
        assert!(!run.dropped_known_era(), "told once");
        assert_eq!(run.probe(discovered(&["2026-07-28"])), MODERN);
    }
}

/// A0.9.
#[test]
fn failed_detection_drops_a_known_legacy_era_once() {
    let mut run = Run::new(&remembering(Era::Legacy, Revision::LATEST_LEGACY));
    assert_eq!(run.initialize(html(406)), PROBE);
    assert_eq!(run.probe(html(406)), INITIALIZE);
    assert!(run.initialize(html(406)).starts_with("fail"), "once");

    let mut run = Run::new(&remembering(Era::Legacy, Revision::LATEST_LEGACY));
    assert_eq!(run.initialize(html(404)), "events", "it may speak HTTP+SSE");
    assert!(!run.dropped_known_era());
    assert_eq!(run.events(Err(html(404))), PROBE);
    assert!(run.dropped_known_era());
    assert_eq!(run.probe(html(404)), INITIALIZE);
    assert_eq!(run.initialize(html(404)), "events");
    assert!(run.events(Err(html(404))).starts_with("fail"), "once");
    let ConnectError::AllFailed(tried) = run.failure() else { panic!("{:?}", run.last) };
    assert_eq!(tried.len(), 5);
}

#[test]
fn reply_that_is_independent_of_the_era_keeps_the_known_era() {
    for reply in [html(401), html(403), html(451), html(302)] {
        let mut run = Run::new(&remembering(Era::Legacy, Revision::LATEST_LEGACY));
        assert!(run.initialize(reply).starts_with("fail"));
        assert!(!run.dropped_known_era());
    }
    let mut run = Run::new(&remembering(Era::Legacy, Revision::LATEST_LEGACY));
    for _ in 0..3 {
        run.initialize(failed());
        assert_eq!(run.wait().1, INITIALIZE);
    }
    assert!(run.initialize(failed()).starts_with("fail"));
    assert!(!run.dropped_known_era());
}

#[test]
fn legacy_only_client_never_probes_even_if_its_known_era_is_wrong() {
    let legacy = remembering(Era::Legacy, Revision::LATEST_LEGACY);
    let mut run = Run::new(&ClientConfig { era_policy: EraPolicy::LegacyOnly, ..legacy });
    assert_eq!(run.initialize(html(404)), "events");
    assert!(run.events(Err(html(404))).starts_with("fail"));
}

#[test]
fn wrong_known_modern_era_is_dropped() {
    let mut run = Run::new(&remembering(Era::Modern, Revision::LATEST));
    run.probe(html(400));
    assert_eq!(run.initialize(initialized("2025-11-25")), LEGACY);
    assert!(run.dropped_known_era());

    let mut run = Run::new(&remembering(Era::Modern, Revision::LATEST));
    run.probe(discovered(&["2026-07-28"]));
    assert!(!run.dropped_known_era());
}

/// A modern server that later answers like a legacy one.
#[test]
fn detection_probes_again_if_a_server_taken_for_modern_is_not() {
    let mut run = Run::at_ready(&config());
    let act = run.detect.redetect(run.now);
    assert_eq!(run.did(act), PROBE);
    assert_eq!(run.probe(html(404)), INITIALIZE);
    assert_eq!(run.initialize(initialized("2025-11-25")), LEGACY);
    let act = run.detect.redetect(run.now);
    assert_eq!(run.did(act), "wait", "it is not modern");

    let mut run = Run::at_ready(&config());
    let _ = run.detect.redetect(run.now);
    run.probe(discovered(&["2026-07-28"]));
    let act = run.detect.redetect(run.now);
    assert!(run.did(act).contains("neither as a modern server nor as a legacy one"));
}

/// C4.19.
#[test]
fn lost_session_is_reopened_at_the_negotiated_version() {
    let mut run = Run::at_session(&config());
    run.now = run.now + Duration::from_secs(100_000);
    for _ in 0..5 {
        let act = run.detect.repeat_handshake(run.now, Revision::V2025_06_18);
        assert_eq!(run.did(act), "initialize 2025-06-18");
        assert_eq!(run.initialize(initialized("2025-06-18")), "legacy 2025-06-18");
    }
}

#[test]
fn session_that_cannot_be_reopened_restarts_detection_once() {
    for reply in [html(404), error(400, SERVER_ERROR), error(400, -32020), unsupported(400, &["2026-07-28"])]
    {
        let mut run = Run::at_session(&config());
        let _ = run.detect.repeat_handshake(run.now, Revision::V2025_06_18);
        assert_eq!(run.initialize(reply), PROBE);
        assert_eq!(run.probe(html(404)), INITIALIZE);
        assert_eq!(run.initialize(html(404)), "events");
        assert!(run.events(Err(html(404))).starts_with("fail"));
    }
    let mut run = Run::at_session(&config());
    let _ = run.detect.repeat_handshake(run.now, Revision::V2025_06_18);
    assert_eq!(run.initialize(html(404)), PROBE);
    assert_eq!(run.probe(discovered(&["2026-07-28"])), MODERN, "it was replaced by a modern one");
}

#[test]
fn session_beside_an_event_stream_is_reopened_beside_it() {
    let mut run = Run::at_events(&config());
    run.events(Ok(()));
    run.initialize(initialized("2024-11-05"));
    let act = run.detect.repeat_handshake(run.now, Revision::V2024_11_05);
    assert_eq!(run.did(act), "initialize 2024-11-05");
    let act = run.detect.repeat_handshake(run.now, Revision::V2024_11_05);
    assert_eq!(run.did(act), "initialize 2024-11-05", "the stream broke off again");
    assert!(run.initialize(initialized("2026-07-28")).contains("over HTTP+SSE"));
}

#[test]
fn failure_beside_an_event_stream_ends_with_that_stream() {
    let mut run = Run::at_events(&config());
    run.events(Ok(()));
    run.initialize(html(404));
    let act = run.detect.repeat_handshake(run.now, Revision::V2024_11_05);
    assert_eq!(run.did(act), "initialize 2024-11-05");
}

#[test]
fn repeating_the_handshake_has_no_effect_on_a_modern_server_or_after_a_failure() {
    let mut run = Run::at_ready(&config());
    assert!(matches!(run.detect.repeat_handshake(run.now, Revision::LATEST_LEGACY), DetectAction::Wait));
    let mut run = Run::new(&config());
    run.probe(html(401));
    assert!(matches!(run.detect.redetect(run.now), DetectAction::Wait));
    assert!(matches!(run.detect.handle_timeout(run.now + Duration::from_secs(1000)), DetectAction::Wait));
}
