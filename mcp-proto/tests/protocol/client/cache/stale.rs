//! Stale results in place of errors (`stale_if_error`).

use super::*;

fn tolerant() -> ClientConfig {
    let mut config = config();
    config.cache.stale_if_error = Duration::from_secs(600);
    config.era_policy = EraPolicy::ModernOnly;
    config
}

fn stale_methods(events: &[Event]) -> Vec<&str> {
    let stale = |event: &Event| match event {
        Event::Diagnostic(diagnostic @ Diagnostic::AnsweredStale { method, .. }) => {
            assert!(diagnostic.to_string().starts_with(method), "{diagnostic}");
            Some(*method)
        }
        _ => None,
    };
    let stale: Vec<&'static str> = events.iter().filter_map(stale).collect();
    stale
}

/// C7.1, C8.4: with `stale_if_error`, a stale result is better than none.
#[test]
fn client_uses_a_stale_result_if_the_server_fails() {
    let mut s = ClientHarness::modern(tolerant());
    fetch::<ListTools>(&mut s, &first(), tools("old", 1_000));
    s.advance(SECOND);

    let timed_out = ask::<ListTools>(&mut s, &first());
    s.expect("tools/list");
    s.advance(Duration::from_secs(30));
    assert_eq!(value(s.outcome(timed_out))["tools"][0]["name"], "old");
    assert_eq!(stale_methods(&s.take_events()), ["tools/list"]);
    s.line();

    // An error response of the server is its answer, not a failure of the transport.
    let refused = ask::<ListTools>(&mut s, &first());
    let id = s.expect("tools/list");
    s.answer_error(&id, -32603, None);
    assert!(matches!(s.outcome(refused), Outcome::Error(_)));

    let refreshed = ask_with::<ListTools>(&mut s, &first(), using(CacheMode::Refresh));
    s.expect("tools/list");
    let lost = ask::<ListTools>(&mut s, &first());
    s.expect("tools/list");
    s.end("exit status 1");
    assert_eq!(value(s.outcome(lost))["tools"][0]["name"], "old");
    assert!(matches!(s.outcome(refreshed), Outcome::Lost(LostReason::Disconnected(_))));
}

#[test]
fn client_uses_no_stale_result_by_default() {
    let mut s = ClientHarness::modern(config());
    fetch::<ListTools>(&mut s, &first(), tools("old", 1_000));
    s.advance(SECOND);
    let request = ask::<ListTools>(&mut s, &first());
    s.end("exit status 1");
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));

    let mut s = ClientHarness::modern(tolerant());
    fetch::<ListTools>(&mut s, &first(), tools("old", 1_000));
    s.advance(Duration::from_secs(601));
    let request = ask::<ListTools>(&mut s, &first());
    s.end("exit status 1");
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Disconnected(_))), "too old");
}
