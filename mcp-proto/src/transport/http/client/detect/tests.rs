//! Tests of the transition table, cell by cell.

mod answers;

use core::time::Duration;

use proptest::prelude::*;

use super::super::response::{ExchangeOutcome, http_error};
use super::{ConnectStep, DetectAction, HttpClientConfig, HttpEraDetection};
use crate::Instant;
use crate::peer::client::{ClientConfig, ConnectError, Diagnostic, EraPolicy, KnownEra};
use crate::peer::{Strictness, TransportError};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{ClientCapabilities, ClientCapability, Era, Implementation, Revision};

const PROBE: &str = "probe 2026-07-28";
const INITIALIZE: &str = "initialize 2025-11-25";
const MODERN: &str = "modern 2026-07-28";
const LEGACY: &str = "legacy 2025-11-25";
/// An error code that neither era assigns a meaning.
const SERVER_ERROR: i64 = -32000;

fn text(act: &DetectAction) -> String {
    match act {
        DetectAction::Wait => "wait".into(),
        DetectAction::Probe(version) => format!("probe {}", version.as_str()),
        DetectAction::Initialize(version) => format!("initialize {}", version.as_str()),
        DetectAction::Open => "events".into(),
        DetectAction::Finish { server, known_era } => {
            assert_eq!((server.era, server.revision), (known_era.era, known_era.version));
            assert!(!known_era.probe_breaks_server);
            let described = if server.capabilities.is_some() { "" } else { ", not described" };
            let era = if server.era == Era::Modern { "modern" } else { "legacy" };
            format!("{era} {}{described}", server.revision.as_str())
        }
        DetectAction::Fail(error) => format!("fail: {error}"),
    }
}

fn config() -> ClientConfig {
    ClientConfig::new(Implementation::new("client", "1"))
}

fn with_mode(mode: EraPolicy) -> ClientConfig {
    ClientConfig { era_policy: mode, ..config() }
}

fn remembering(era: Era, version: Revision) -> ClientConfig {
    ClientConfig { known_era: Some(KnownEra { era, version, probe_breaks_server: false }), ..config() }
}

fn detection(config: &ClientConfig, seed: u64) -> HttpEraDetection {
    let config = HttpClientConfig::new(config.clone(), "http://localhost/mcp");
    HttpEraDetection::new(&HttpClientConfig { seed, ..config })
}

/// A detection in progress, and its last action.
struct Run {
    detect: HttpEraDetection,
    now: Instant,
    last: DetectAction,
}

impl Run {
    fn new(config: &ClientConfig) -> Self {
        let mut detect = detection(config, 7);
        let now = Instant::from_origin(Duration::from_secs(1000));
        let last = detect.begin(now);
        Self { detect, now, last }
    }

    /// Creates a detection at the handshake, after the probe was answered.
    fn at_handshake(config: &ClientConfig) -> Self {
        let mut run = Self::new(config);
        if config.era_policy != EraPolicy::LegacyOnly {
            run.probe(html(404));
        }
        assert!(matches!(run.last, DetectAction::Initialize(_)), "{:?}", run.last);
        run
    }

    fn at_events(config: &ClientConfig) -> Self {
        let mut run = Self::at_handshake(config);
        assert_eq!(run.initialize(html(405)), "events");
        run
    }

    fn at_ready(config: &ClientConfig) -> Self {
        let mut run = Self::new(config);
        run.probe(discovered(&["2026-07-28"]));
        assert!(matches!(run.last, DetectAction::Finish { .. }), "{:?}", run.last);
        run
    }

    fn at_session(config: &ClientConfig) -> Self {
        let mut run = Self::at_handshake(config);
        assert_eq!(run.initialize(initialized("2025-06-18")), "legacy 2025-06-18");
        run
    }

    fn did(&mut self, act: DetectAction) -> String {
        self.last = act;
        text(&self.last)
    }

    fn probe(&mut self, reply: ExchangeOutcome) -> String {
        let act = self.detect.handle_outcome(self.now, ConnectStep::Probe, reply);
        self.did(act)
    }

    fn initialize(&mut self, reply: ExchangeOutcome) -> String {
        let act = self.detect.handle_outcome(self.now, ConnectStep::Initialize, reply);
        self.did(act)
    }

    fn events(&mut self, endpoint: Result<(), ExchangeOutcome>) -> String {
        let act = self.detect.handle_events(self.now, endpoint);
        self.did(act)
    }

    /// Advances to the next deadline; returns the time passed and the action.
    fn wait(&mut self) -> (Duration, String) {
        let due = self.detect.deadline().expect("nothing is awaited");
        let waited = due.saturating_since(self.now);
        self.now = self.now.max(due);
        let act = self.detect.handle_timeout(self.now);
        (waited, self.did(act))
    }

    /// Returns whether detection reported since the last call that the known era is wrong.
    fn dropped_known_era(&mut self) -> bool {
        self.detect.era.take_diagnostics().iter().any(|report| matches!(report, Diagnostic::KnownEraWrong))
    }

    fn failure(&self) -> &ConnectError {
        match &self.last {
            DetectAction::Fail(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn raw(json: &str) -> Raw {
    Raw::new(json).expect("valid JSON")
}

fn answer(http: Box<TransportError>, error: ErrorObject) -> ExchangeOutcome {
    ExchangeOutcome::Error { http, error, has_request_id: true }
}

fn result(status: u16, json: &str) -> ExchangeOutcome {
    ExchangeOutcome::Result { status, result: raw(json) }
}

fn discovered(versions: &[&str]) -> ExchangeOutcome {
    let versions: Vec<String> = versions.iter().map(|version| format!("{version:?}")).collect();
    result(200, &format!(r#"{{"supportedVersions":[{}],"capabilities":{{}}}}"#, versions.join(",")))
}

fn initialized(version: &str) -> ExchangeOutcome {
    result(200, &format!(r#"{{"protocolVersion":{version:?},"capabilities":{{"tools":{{}}}}}}"#))
}

fn error_with(status: u16, code: i64, data: &str) -> ExchangeOutcome {
    let error = ErrorObject::new(code, "no").with_data(raw(data));
    answer(http_error(status, "{error}"), error)
}

fn error(status: u16, code: i64) -> ExchangeOutcome {
    answer(http_error(status, "{error}"), ErrorObject::new(code, "no"))
}

fn unsupported(status: u16, versions: &[&str]) -> ExchangeOutcome {
    let versions: Vec<String> = versions.iter().map(|version| format!("{version:?}")).collect();
    let data = format!(r#"{{"supported":[{}],"requested":"2026-07-28"}}"#, versions.join(","));
    error_with(status, -32022, &data)
}

fn html(status: u16) -> ExchangeOutcome {
    ExchangeOutcome::NoAnswer(http_error(status, "<html>nothing here</html>"))
}

fn empty(status: u16) -> ExchangeOutcome {
    ExchangeOutcome::NoAnswer(http_error(status, ""))
}

fn failed() -> ExchangeOutcome {
    ExchangeOutcome::broken("connection refused")
}

fn busy(status: u16, seconds: u64) -> ExchangeOutcome {
    let mut http = http_error(status, "busy");
    http.retry_after = Some(Duration::from_secs(seconds));
    ExchangeOutcome::NoAnswer(http)
}

/// Every kind of body with this status, except those that prove an era.
fn bodies(status: u16) -> Vec<(&'static str, ExchangeOutcome)> {
    vec![
        ("nothing", empty(status)),
        ("HTML", html(status)),
        ("-32700", error(status, -32700)),
        ("-32600", error(status, -32600)),
        ("-32601", error(status, -32601)),
        ("-32602", error(status, -32602)),
        ("-32603", error(status, -32603)),
        ("-32000", error(status, SERVER_ERROR)),
        ("-32001 with a list", error_with(status, -32001, r#"{"supported":["2026-07-28"]}"#)),
        ("{}", result(status, "{}")),
        ("an array", result(status, "[]")),
        ("versions that are none", result(status, r#"{"supportedVersions":"2026-07-28"}"#)),
        (
            "a result of another type",
            result(status, r#"{"supportedVersions":["2026-07-28"],"resultType":"task"}"#),
        ),
        ("a version that is none", result(status, r#"{"protocolVersion":20251125}"#)),
    ]
}

/// Returns what an error quotes: the status, or the JSON-RPC error if the status is a success.
fn quoted(status: u16, body: &str) -> String {
    match body.split(' ').next().filter(|code| code.starts_with('-')) {
        Some(code) if (200..300).contains(&status) => format!("({code})"),
        _ => status.to_string(),
    }
}

/// The row of the transition table for an answer that is neither a result nor a modern error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Again,
    Failure,
    /// The probe leads to the handshake, the handshake to the event stream.
    Older,
    /// The probe leads to the handshake, the handshake to failure.
    Other,
}

fn row(status: u16, body: &str) -> Row {
    let is_error = body.starts_with('-');
    match status {
        500 | 501 if is_error => Row::Other,
        408 | 425 | 429 => Row::Again,
        _ if (500..600).contains(&status) => Row::Again,
        401 | 403 | 407 | 421 | 451 => Row::Failure,
        _ if (300..400).contains(&status) || status < 200 => Row::Failure,
        400 | 404 | 405 => Row::Older,
        _ => Row::Other,
    }
}

// --- Remembered eras, and evidence that contradicts them later ---

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

#[test]
fn repeating_the_handshake_has_no_effect_on_the_first_one() {
    let mut run = Run::at_handshake(&config());
    assert!(matches!(run.detect.repeat_handshake(run.now, Revision::LATEST_LEGACY), DetectAction::Wait));
}

// --- Any sequence of replies ---

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
                (Some(ExchangeOutcome::Result { .. }), _) => run.events(Ok(())),
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
