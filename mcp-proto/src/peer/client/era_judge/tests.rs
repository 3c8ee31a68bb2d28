//! Tests of the table over all policies, known eras, requests and kinds of evidence.

use super::{EraDecision, EraRequest, Evidence, judge};
use crate::peer::client::{ConnectError, EraPolicy, KnownEra};
use crate::prelude::*;
use crate::schema::{Era, Revision};

/// The decisions for each evidence: by a client of [`EraPolicy::Auto`] on the probe, on the repeated probe, on
/// `initialize` and on `initialize` with a version that a list determined; then by clients that are modern-only (on the
/// probe), legacy-only (on `initialize`), or know a legacy server (on `initialize`) or a modern one (on the probe).
const TABLE: &str = "
evidence              | probe         | repeated      | initialize    | listed     | modern-only   | legacy-only   | knows legacy  | knows modern
discovered M          | modern        | modern        | give up       | give up    | modern        | give up       | start over    | modern
discovered M L        | modern        | modern        | give up       | give up    | modern        | give up       | start over    | modern
discovered L          | initialize L! | initialize L! | give up       | give up    | no common     | give up       | start over    | initialize L!
discovered X          | no common     | no common     | give up       | give up    | no common     | give up       | start over    | no common
discovered            | no common     | no common     | give up       | give up    | no common     | give up       | start over    | no common
initialized N         | initialize N  | initialize N  | legacy N      | legacy N   | reject legacy | legacy N      | legacy N      | initialize N
initialized M         | initialize N  | initialize N  | modern        | modern     | reject legacy | no common     | modern        | initialize N
initialized X         | initialize N  | initialize N  | no common     | no common  | reject legacy | no common     | no common     | initialize N
initialized X, lenient| initialize N  | initialize N  | legacy N      | legacy N   | reject legacy | legacy N      | legacy N      | initialize N
-32022 M              | probe again   | give up       | modern        | give up    | probe again   | no common     | start over    | probe again
-32022 M L            | probe again   | give up       | modern        | give up    | probe again   | initialize L! | start over    | probe again
-32022 L              | initialize L! | initialize L! | initialize L! | give up    | no common     | initialize L! | start over    | initialize L!
-32022 X              | no common     | no common     | no common     | give up    | no common     | no common     | start over    | no common
-32022                | no common     | no common     | no common     | give up    | no common     | no common     | start over    | no common
-32022 unreadable     | give up       | give up       | give up       | give up    | give up       | give up       | start over    | give up
-32021 declared       | probe again   | give up       | give up       | give up    | probe again   | give up       | start over    | probe again
-32021                | give up       | give up       | give up       | give up    | give up       | give up       | start over    | give up
-32020                | probe again   | give up       | modern        | modern     | probe again   | give up       | start over    | probe again
modern                | modern        | modern        | modern        | modern     | modern        | give up       | start over    | modern
other                 | initialize N  | initialize N  | give up       | give up    | reject legacy | give up       | start over    | initialize N
other, way            | elsewhere     | elsewhere     | elsewhere     | elsewhere  | reject legacy | elsewhere     | elsewhere     | elsewhere
other, offers L       | initialize N  | initialize N  | initialize L! | give up    | reject legacy | initialize L! | initialize L! | initialize N
other, offers L, way  | elsewhere     | elsewhere     | initialize L! | elsewhere  | reject legacy | initialize L! | initialize L! | elsewhere
ended                 | give up       | give up       | give up       | give up    | give up       | give up       | start over    | start over
ended, way            | elsewhere     | elsewhere     | elsewhere     | elsewhere  | give up       | elsewhere     | elsewhere     | start over
temporary             | later         | later         | later         | later      | later         | later         | later         | later
barred                | give up       | give up       | give up       | give up    | give up       | give up       | give up       | give up
";

const L: Revision = Revision::V2025_06_18;

/// The versions of a list: modern, an older legacy one, the newest legacy one, an unknown one.
fn version(name: &str) -> String {
    match name {
        "M" => Revision::LATEST.to_string(),
        "L" => L.to_string(),
        "N" => Revision::LATEST_LEGACY.to_string(),
        _ => "3000-01-01".to_string(),
    }
}

fn evidence(row: &str) -> Evidence {
    let elsewhere = row.contains("way");
    let mut words = row.split([' ', ',']).filter(|word| !word.is_empty());
    let first = words.next().unwrap();
    let versions: Vec<String> = words.filter(|word| word.len() == 1).map(version).collect();
    match first {
        "discovered" => Evidence::Discovered(versions),
        "initialized" => {
            let tolerated = row.contains("lenient");
            Evidence::Initialized { version: versions[0].clone(), tolerated }
        }
        "-32022" => Evidence::UnsupportedVersion(Some(versions).filter(|_| !row.contains("unreadable"))),
        "-32021" => Evidence::MissingCapability { declared: row.contains("declared") },
        "-32020" => Evidence::HeaderMismatch,
        "modern" => Evidence::Modern,
        "other" => {
            let offered = row.contains("offers").then_some(L);
            Evidence::NotUnderstood { offered, elsewhere }
        }
        "ended" => Evidence::Ended { elsewhere },
        "temporary" => Evidence::Temporary,
        "barred" => Evidence::Barred,
        other => panic!("{other}"),
    }
}

fn text(decision: &EraDecision) -> String {
    let legacy = |version| if version == L { "L" } else { "N" };
    match *decision {
        EraDecision::Ask(EraRequest::Probe { version: Revision::LATEST, repeated: true }) => {
            "probe again".into()
        }
        EraDecision::Ask(EraRequest::Probe { .. }) => panic!("a probe at another version: {decision:?}"),
        EraDecision::Ask(EraRequest::Initialize { version, listed, probed: Revision::LATEST }) => {
            format!("initialize {}{}", legacy(version), if listed { "!" } else { "" })
        }
        EraDecision::Ask(EraRequest::Initialize { .. }) => panic!("{decision:?}"),
        EraDecision::Finish(Revision::LATEST) => "modern".into(),
        EraDecision::Finish(version) => format!("legacy {}", legacy(version)),
        EraDecision::Elsewhere => "elsewhere".into(),
        EraDecision::StartOver => "start over".into(),
        EraDecision::Retry => "later".into(),
        EraDecision::GiveUp => "give up".into(),
        EraDecision::RejectLegacy => "reject legacy".into(),
        EraDecision::Fail(ConnectError::NoCommonVersion { .. }) => "no common".into(),
        EraDecision::Fail(ref error) => panic!("{error}"),
    }
}

fn known(era: Era) -> Option<KnownEra> {
    let version = if era == Era::Modern { Revision::LATEST } else { Revision::LATEST_LEGACY };
    Some(KnownEra { era, version, probe_breaks_server: false })
}

/// The requests, each of which may lead only to a later one.
const REQUESTS: [EraRequest; 4] = [
    EraRequest::PROBE,
    EraRequest::Probe { version: Revision::LATEST, repeated: true },
    EraRequest::initialize(Revision::LATEST_LEGACY),
    EraRequest::Initialize { version: Revision::LATEST_LEGACY, listed: true, probed: Revision::LATEST },
];

fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    TABLE.trim().lines().skip(1).map(|line| line.split('|').map(str::trim).collect())
}

/// C1.10, C1.11, C2.1, C2.4, C2.5, C2.7, C2.13
#[test]
fn each_decision_is_that_of_the_table() {
    let [probe, repeated, initialize, listed] = REQUESTS;
    let columns = [
        (EraPolicy::Auto, None, probe),
        (EraPolicy::Auto, None, repeated),
        (EraPolicy::Auto, None, initialize),
        (EraPolicy::Auto, None, listed),
        (EraPolicy::ModernOnly, None, probe),
        (EraPolicy::LegacyOnly, None, initialize),
        (EraPolicy::Auto, known(Era::Legacy), initialize),
        (EraPolicy::Auto, known(Era::Modern), probe),
    ];
    for row in rows() {
        let judged =
            columns.map(|(policy, known, asked)| text(&judge(policy, known, asked, &evidence(row[0]))));
        assert_eq!(judged.as_slice(), &row[1..], "{}", row[0]);
    }
}

/// A case of the enumeration, and its decision.
struct Case {
    policy: EraPolicy,
    known: Option<Era>,
    asked: EraRequest,
    evidence: Evidence,
    decision: EraDecision,
}

/// All policies, known eras, requests and kinds of evidence, without the requests that a policy never sends.
fn all_cases() -> Vec<Case> {
    let mut cases = vec![];
    for policy in [EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        for era in [None, Some(Era::Legacy), Some(Era::Modern)] {
            for (asked, row) in REQUESTS.into_iter().flat_map(|asked| rows().map(move |row| (asked, row))) {
                let evidence = evidence(row[0]);
                let decision = judge(policy, era.and_then(known), asked, &evidence);
                let case = Case { policy, known: era, asked, evidence, decision };
                match (policy, asked) {
                    (EraPolicy::ModernOnly, EraRequest::Initialize { .. }) => {}
                    (EraPolicy::LegacyOnly, EraRequest::Probe { .. }) => {}
                    _ => cases.push(case),
                }
            }
        }
    }
    assert_eq!(cases.len(), (4 + 2 + 2) * 3 * rows().count());
    cases
}

/// A0.1: neither an error of both eras nor a failure proves an era.
#[test]
fn only_results_and_modern_errors_prove_an_era() {
    for Case { asked, evidence, decision, .. } in all_cases() {
        let EraDecision::Finish(revision) = decision else { continue };
        let proves = match evidence {
            Evidence::Initialized { .. } => matches!(asked, EraRequest::Initialize { .. }),
            Evidence::Discovered(_)
            | Evidence::UnsupportedVersion(_)
            | Evidence::HeaderMismatch
            | Evidence::Modern => revision.era() == Era::Modern,
            _ => false,
        };
        assert!(proves, "{asked:?} {evidence:?}: {revision}");
    }
}

/// C2.5: unless the error's own list chooses a legacy version.
#[test]
fn modern_error_never_leads_from_the_probe_to_the_handshake() {
    for Case { asked, evidence, decision, .. } in all_cases() {
        let is_modern_error = matches!(
            evidence,
            Evidence::UnsupportedVersion(_)
                | Evidence::MissingCapability { .. }
                | Evidence::HeaderMismatch
                | Evidence::Modern
        );
        if is_modern_error && matches!(asked, EraRequest::Probe { .. }) {
            let falls_back = matches!(
                decision,
                EraDecision::Ask(EraRequest::Initialize { listed: false, .. })
                    | EraDecision::Elsewhere
                    | EraDecision::RejectLegacy
            );
            assert!(!falls_back, "{evidence:?}: {decision:?}");
        }
    }
}

/// C2.6
#[test]
fn decision_respects_the_policy() {
    for Case { policy, known, asked, evidence, decision } in all_cases() {
        let version = match decision {
            EraDecision::Ask(EraRequest::Probe { version, .. } | EraRequest::Initialize { version, .. }) => {
                version
            }
            EraDecision::Finish(version) => version,
            EraDecision::Elsewhere => {
                assert_ne!(policy, EraPolicy::ModernOnly, "{evidence:?}");
                continue;
            }
            EraDecision::RejectLegacy => {
                assert_eq!(policy, EraPolicy::ModernOnly, "{evidence:?}");
                continue;
            }
            EraDecision::StartOver => {
                assert!(policy == EraPolicy::Auto && known.is_some(), "{evidence:?}");
                continue;
            }
            _ => continue,
        };
        assert!(policy.versions().any(|allowed| allowed == version), "{policy:?} {asked:?} {evidence:?}");
    }
}

/// So detection ends, whatever a server answers.
#[test]
fn each_request_leads_only_to_a_later_one() {
    let place = |asked: EraRequest| match asked {
        EraRequest::Probe { repeated, .. } => u8::from(repeated),
        EraRequest::Initialize { listed, .. } => 2 + u8::from(listed),
    };
    for Case { asked, evidence, decision, .. } in all_cases() {
        if let EraDecision::Ask(next) = decision {
            assert!(place(next) > place(asked), "{asked:?} {evidence:?}: {next:?}");
        }
    }
}

/// A0.9: a client of one era has nothing to start over with.
#[test]
fn known_era_matters_only_to_a_client_of_both_eras() {
    for Case { policy, asked, evidence, decision, .. } in all_cases() {
        if policy != EraPolicy::Auto {
            assert_eq!(decision, judge(policy, None, asked, &evidence));
        }
    }
}

/// A2: a failure that may pass, and a refusal of every request, decide nothing about the era.
#[test]
fn failure_that_is_independent_of_the_era_keeps_what_is_known() {
    for Case { evidence, decision, .. } in all_cases() {
        match evidence {
            Evidence::Temporary => assert_eq!(decision, EraDecision::Retry),
            Evidence::Barred => assert_eq!(decision, EraDecision::GiveUp),
            _ => assert_ne!(decision, EraDecision::Retry),
        }
    }
}
