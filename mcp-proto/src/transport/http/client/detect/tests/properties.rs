//! Property tests: detection holds its guarantees for any sequence of replies.

use proptest::prelude::*;

use super::*;

fn any_reply() -> impl Strategy<Value = ExchangeOutcome> {
    let version = prop::sample::select(vec!["2026-07-28", "2025-11-25", "2024-11-05", "3000-01-01"]);
    let status = prop::sample::select(vec![200, 202, 302, 400, 401, 404, 405, 406, 429, 500, 503]);
    prop_oneof![
        (status.clone(), 0..14_usize).prop_map(|(status, index)| bodies(status).swap_remove(index).1),
        prop::collection::vec(version.clone(), 0..3).prop_map(|versions| discovered(&versions)),
        (status.clone(), prop::collection::vec(version.clone(), 0..3))
            .prop_map(|(status, versions)| unsupported(status, &versions)),
        version.prop_map(initialized),
        (status, -32022..-32019_i64).prop_map(|(status, code)| error(status, code)),
        Just(()).prop_map(|()| failed()),
    ]
}

proptest! {
    /// Detection ends within its deadline and sends no more requests than it may.
    #[test]
    fn detection_ends_in_time_with_any_answers(
        replies in prop::collection::vec(prop::option::of(any_reply()), 64),
        mode in prop::sample::select(vec![EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly]),
        remembered in prop::option::of(prop::sample::select(vec![Revision::LATEST, Revision::LATEST_LEGACY])),
    ) {
        let verdict = remembered.map(|version| KnownEra { era: version.era(), version, probe_breaks_server: false });
        let mut run = Run::new(&ClientConfig { known_era: verdict, ..with_mode(mode) });
        let start = run.now;
        let (mut probes, mut handshakes) = (0, 0);
        let mut asked = "";
        for reply in replies {
            match run.last {
                DetectAction::Probe(_) => (probes, asked) = (probes + 1, "probe"),
                DetectAction::Initialize(_) => (handshakes, asked) = (handshakes + 1, "initialize"),
                DetectAction::Open => asked = "events",
                DetectAction::Finish { .. } | DetectAction::Fail(_) => break,
                DetectAction::Wait => {}
            }
            prop_assert!(run.detect.deadline().is_some());
            match (reply, asked) {
                (Some(reply), "probe") => run.probe(reply),
                (Some(reply), "initialize") => run.initialize(reply),
                (Some(ExchangeOutcome::Answer { answer: Ok(_), .. }), _) => run.events(Ok(())),
                (Some(reply), _) => run.events(Err(reply)),
                (None, _) => run.wait().1,
            };
            prop_assert!(run.detect.deadline().is_none_or(|due| due >= run.now));
        }
        prop_assert!(matches!(run.last, DetectAction::Finish { .. } | DetectAction::Fail(_)), "{:?}", run.last);
        prop_assert_eq!(run.detect.deadline(), None);
        prop_assert!(run.now.saturating_since(start) <= Duration::from_secs(120));
        prop_assert!(probes <= 3 + 3, "{} probes", probes);
        prop_assert!(handshakes <= 4 * 6, "{} handshakes", handshakes);
        match (&run.last, mode) {
            (DetectAction::Finish { server, .. }, EraPolicy::ModernOnly) => prop_assert_eq!(server.era, Era::Modern),
            (DetectAction::Finish { server, .. }, EraPolicy::LegacyOnly) => prop_assert_eq!(server.era, Era::Legacy),
            _ => {}
        }
        prop_assert!(mode != EraPolicy::ModernOnly || handshakes == 0);
        prop_assert!(mode != EraPolicy::LegacyOnly || probes == 0);
    }
}
