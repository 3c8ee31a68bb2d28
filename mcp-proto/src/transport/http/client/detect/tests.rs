//! Tests of the transition table, cell by cell.

mod answers;
mod memory;
mod properties;
mod time;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::super::response::ExchangeOutcome;
use super::super::response::http_error;
use super::{ConnectStep, DetectAction, HttpClientConfig, HttpEraDetection};
use crate::Instant;
use crate::peer::client::{ClientConfig, ConnectError, Diagnostic, EraPolicy, KnownEra};
use crate::peer::{Strictness, TransportError};
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

fn answer(http: TransportError, answer: Result<Raw, ErrorObject>) -> ExchangeOutcome {
    ExchangeOutcome::Answer { http, answer, has_request_id: true }
}

fn result(status: u16, json: &str) -> ExchangeOutcome {
    answer(http_error(status, ""), Ok(raw(json)))
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
    answer(http_error(status, "{error}"), Err(error))
}

fn error(status: u16, code: i64) -> ExchangeOutcome {
    answer(http_error(status, "{error}"), Err(ErrorObject::new(code, "no")))
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
