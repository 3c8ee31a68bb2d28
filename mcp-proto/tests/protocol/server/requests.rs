//! Requests of a server to a legacy client, and their outcomes.

use core::time::Duration;

use mcp_proto::peer::server::{Diagnostic, Eras, Event};
use mcp_proto::peer::{
    InvalidAnswerError, LostReason, Outcome, RequestError, RequestId, RequestOptions, RequiredCapability,
};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{
    ClientCapability, CreateMessage, CreateMessageParams, Elicit, ElicitParams, ElicitSchema, IncludeContext,
    ListRoots, ListRootsParams, ListTools, PaginatedParams, Ping, PingParams, Revision, SamplingMessage,
};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn at(version: &str, capabilities: Value) -> ServerHarness {
    ServerHarness::legacy_with(config(), version, capabilities)
}

fn form() -> ElicitParams {
    let schema: ElicitSchema = serde_json::from_str(r#"{"type":"object","properties":{}}"#).unwrap();
    ElicitParams::form("Who?", schema)
}

fn sampling() -> CreateMessageParams {
    let message: SamplingMessage =
        serde_json::from_str(r#"{"role":"user","content":{"type":"text","text":"hi"}}"#).unwrap();
    CreateMessageParams::new(vec![message], 100u64)
}

fn roots(s: &mut ServerHarness, options: RequestOptions) -> (RequestId, Value) {
    let request = s.server.at(s.now).request::<ListRoots>(&ListRootsParams::new(), options).unwrap();
    (request, s.line()["id"].clone())
}

fn outcomes(s: &mut ServerHarness) -> Vec<Outcome> {
    let outcome = |event| if let Event::Outcome { outcome, .. } = event { Some(outcome) } else { None };
    s.events().into_iter().filter_map(outcome).collect()
}

fn required_capability(refused: Result<RequestId, RequestError>) -> ClientCapability {
    match refused {
        Err(RequestError::Capability { needed: RequiredCapability::Client(capability), .. }) => capability,
        other => panic!("{other:?}"),
    }
}

#[test]
fn elicitation_and_sampling_have_no_default_timeout() {
    let mut s = at("2025-11-25", json!({"elicitation": {}, "sampling": {}, "roots": {}}));
    s.server.at(s.now).request::<Elicit>(&form(), RequestOptions::default()).unwrap();
    s.server.at(s.now).request::<CreateMessage>(&sampling(), RequestOptions::default()).unwrap();
    assert_eq!(s.lines().len(), 2);
    assert_eq!(s.server.poll_timeout(), None);
    s.advance(YEAR);
    assert!(outcomes(&mut s).is_empty());

    let limited = RequestOptions::default().timeout(Duration::from_secs(5));
    s.server.at(s.now).request::<Elicit>(&form(), limited).unwrap();
    s.advance(Duration::from_secs(5));
    assert!(matches!(outcomes(&mut s)[..], [Outcome::TimedOut { hard: false, .. }]));
}

/// S1.19, S9.8
#[test]
fn server_does_not_drop_sampling_tools_that_the_client_lacks() {
    let mut params = sampling();
    params.tools = Some(Vec::new().into());
    for version in ["2025-06-18", "2025-11-25"] {
        let mut s = at(version, json!({"sampling": {}}));
        let refused = s.server.at(s.now).request::<CreateMessage>(&params, RequestOptions::default());
        assert_eq!(required_capability(refused), ClientCapability::SamplingTools, "{version}");
        s.expect_silence();
    }
    let mut s = at("2025-11-25", json!({"sampling": {"tools": {}}}));
    s.server.at(s.now).request::<CreateMessage>(&params, RequestOptions::default()).unwrap();
    assert!(s.line()["params"]["tools"].is_array());
}

/// S9.1
#[test]
fn url_elicitation_needs_its_own_capability() {
    let params = ElicitParams::url("Log in", "https://example.com/");
    for (version, capabilities) in
        [("2025-06-18", json!({"elicitation": {}})), ("2025-11-25", json!({"elicitation": {"form": {}}}))]
    {
        let mut s = at(version, capabilities);
        let refused = s.server.at(s.now).request::<Elicit>(&params, RequestOptions::default());
        assert_eq!(required_capability(refused), ClientCapability::ElicitationUrl, "{version}");
    }
    let mut s = at("2025-11-25", json!({"elicitation": {"url": {}}}));
    let refused = s.server.at(s.now).request::<Elicit>(&form(), RequestOptions::default());
    assert_eq!(required_capability(refused), ClientCapability::ElicitationForm);
}

/// Elicitation with a URL came with 2025-11-25, and so did the notification.
#[test]
fn server_notifies_only_sessions_of_2025_11_25_of_a_completed_page() {
    for (version, is_told) in [("2025-06-18", false), ("2025-11-25", true)] {
        let mut s = at(version, json!({"elicitation": {}}));
        assert_eq!(s.server.at(s.now).elicitation_complete("e"), is_told, "{version}");
        let told = s.try_line().map(|line| line["method"].clone());
        assert_eq!(told, is_told.then(|| json!("notifications/elicitation/complete")), "{version}");
    }
}

/// S8.20
#[test]
fn include_context_needs_its_capability_at_revisions_that_define_it() {
    let mut params = sampling();
    params.include_context = Some(IncludeContext::AllServers);
    let mut s = at("2025-11-25", json!({"sampling": {}}));
    let refused = s.server.at(s.now).request::<CreateMessage>(&params, RequestOptions::default());
    assert_eq!(required_capability(refused), ClientCapability::SamplingContext);
    let mut s = at("2025-06-18", json!({"sampling": {}}));
    s.server.at(s.now).request::<CreateMessage>(&params, RequestOptions::default()).unwrap();
    assert_eq!(s.line()["params"]["includeContext"], "allServers");
}

#[test]
fn server_does_not_send_requests_reserved_for_clients() {
    let mut s = at("2025-11-25", json!({}));
    let refused = s.server.at(s.now).request::<ListTools>(&PaginatedParams::new(), RequestOptions::default());
    assert!(
        matches!(refused, Err(RequestError::Revision { revision: Revision::V2025_11_25, .. })),
        "{refused:?}"
    );
    s.expect_silence();
}

/// S1.9, S2.2
#[test]
fn modern_only_server_sends_no_requests() {
    let mut config = config();
    config.eras = Eras::ModernOnly;
    let mut s = ServerHarness::new(config);
    let refused = s.server.at(s.now).request::<ListRoots>(&ListRootsParams::new(), RequestOptions::default());
    assert!(
        matches!(refused, Err(RequestError::Revision { revision: Revision::V2026_07_28, .. })),
        "{refused:?}"
    );
}

/// S1.18
#[test]
fn server_sends_only_pings_before_the_client_is_ready() {
    let mut s = ServerHarness::new(config());
    let ping = s.server.at(s.now).request::<Ping>(&PingParams::new(), RequestOptions::default());
    assert!(matches!(ping, Err(RequestError::NotReady)));
    s.request_with_id(1, "initialize", crate::common::server::initialize("2025-11-25"));
    s.line();
    let asked = s.server.at(s.now).request::<ListRoots>(&ListRootsParams::new(), RequestOptions::default());
    assert!(matches!(asked, Err(RequestError::NotReady)));
    s.server.at(s.now).request::<Ping>(&PingParams::new(), RequestOptions::default()).unwrap();
    assert_eq!(s.line()["method"], "ping");
}

#[test]
fn progress_of_the_client_extends_the_timeout() {
    let mut s = at("2025-11-25", json!({"roots": {}}));
    let options = RequestOptions::default()
        .timeout(Duration::from_secs(10))
        .hard_timeout(Duration::from_secs(25))
        .progress(mcp_proto::peer::ProgressOption::Always);
    let (_, id) = roots(&mut s, options);
    for step in 1..=2 {
        s.advance(Duration::from_secs(9));
        s.notify("notifications/progress", json!({"progressToken": id, "progress": step}));
    }
    assert!(outcomes(&mut s).is_empty());
    s.advance(Duration::from_secs(7));
    assert!(matches!(outcomes(&mut s)[..], [Outcome::TimedOut { hard: true, .. }]));
}

/// S6.1
#[test]
fn server_ignores_late_and_unknown_responses() {
    let mut s = at("2025-11-25", json!({"roots": {}}));
    let (request, id) = roots(&mut s, RequestOptions::default());
    s.server.at(s.now).cancel(request, Some("never mind"));
    assert_eq!(s.line()["params"], json!({"requestId": id, "reason": "never mind"}));
    assert!(matches!(outcomes(&mut s)[..], [Outcome::Cancelled]));
    s.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}}).to_string());
    assert!(s.events().is_empty(), "it crossed the cancellation");
    s.send(r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#);
    let events = s.events();
    let [Event::Diagnostic(Diagnostic::UnknownAnswer(Some(Id::Number(4711))))] = &events[..] else {
        panic!("{events:?}")
    };
    s.expect_silence();
}

/// Contract 9
#[test]
fn unreadable_response_ends_its_request() {
    let mut s = at("2025-11-25", json!({"roots": {}}));
    let (_, id) = roots(&mut s, RequestOptions::default());
    s.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"roots":[}}"#));
    let ended = outcomes(&mut s);
    assert!(matches!(&ended[..], [Outcome::Invalid(InvalidAnswerError::Malformed(_))]), "{ended:?}");
    s.expect_silence();

    // The response is truncated before its members: its id identifies it.
    let (_, id) = roots(&mut s, RequestOptions::default());
    s.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#));
    let ended = outcomes(&mut s);
    assert!(matches!(&ended[..], [Outcome::Invalid(InvalidAnswerError::Malformed(_))]), "{ended:?}");
    s.expect_silence();
}

#[test]
fn end_of_the_connection_ends_every_request_with_its_reason() {
    let mut s = at("2025-11-25", json!({"roots": {}}));
    roots(&mut s, RequestOptions::default());
    s.server.handle_eof(s.now, "exit status 3");
    let ended = outcomes(&mut s);
    assert!(
        matches!(&ended[..], [Outcome::Lost(LostReason::Disconnected(why))] if why == "exit status 3"),
        "{ended:?}"
    );
}

#[test]
fn closing_server_cancels_its_requests_on_the_wire() {
    let mut s = at("2025-11-25", json!({"roots": {}}));
    let (_, id) = roots(&mut s, RequestOptions::default());
    s.server.at(s.now).close();
    let line = s.line();
    assert_eq!((&line["method"], &line["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert!(matches!(outcomes(&mut s)[..], [Outcome::Lost(LostReason::Closed)]));
}
