//! The form of a response on the wire, and which errors are replaced.

use mcp_proto::peer::server::{Answer, Diagnostic, Event, missing_capabilities};
use mcp_proto::peer::{AnyResult, CacheHint};
use mcp_proto::rpc::{ErrorObject, Raw, code};
use mcp_proto::schema::Json;
use mcp_proto::schema::tasks::{CreateTaskResult, TaskStatus};
use mcp_proto::schema::{
    CacheScope, ClientCapabilities, ClientCapability, CreateMessageParams, Discover, EmptyResult,
    InputRequest, InputRequests, InputRequiredResult, ListRootsParams, Method, ReadResourceResult,
    SamplingMessage,
};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config, tools};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn with_capabilities(capabilities: Value) -> Value {
    json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}})
}

fn task() -> CreateTaskResult {
    CreateTaskResult::new("t-1", TaskStatus::Working, "2026-08-01T00:00:00Z", "2026-08-01T00:00:00Z", None)
        .stamped()
}

fn answer(s: &mut ServerHarness, method: &str, params: Value, result: &dyn AnyResult) -> Value {
    s.modern(1, method, params);
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(result));
    s.line()
}

/// S11.2
#[test]
fn result_keeps_the_type_that_an_extension_gives_it() {
    let mut s = ServerHarness::new(config());
    let params = with_capabilities(json!({"extensions": {TASKS: {}}}));
    let line = answer(&mut s, "tools/call", params, &task());
    assert_eq!(line["result"]["resultType"], "task");
    assert_eq!(line["result"]["taskId"], "t-1");
}

/// S11.1
#[test]
fn server_creates_a_task_only_for_a_client_with_the_extension() {
    let mut s = ServerHarness::new(config());
    let line = answer(&mut s, "tools/call", json!({}), &task());
    assert_eq!(line["error"]["code"], -32021);
    assert_eq!(line["error"]["data"]["requiredCapabilities"]["extensions"], json!({TASKS: {}}));
}

/// S11.16
#[test]
fn server_creates_no_task_for_a_request_that_cannot_become_one() {
    for method in ["tools/list", "resources/list", "prompts/list"] {
        let mut s = ServerHarness::new(config());
        let line = answer(&mut s, method, with_capabilities(json!({"extensions": {TASKS: {}}})), &task());
        assert_eq!(line["error"]["code"], -32603, "{line}");
    }
}

/// S4.1
#[test]
fn server_refuses_input_required_for_other_methods_and_revisions() {
    let mut s = ServerHarness::new(config());
    let mut needed = InputRequiredResult::requests(InputRequests::new());
    needed.request_state = Some("x".into());
    assert_eq!(answer(&mut s, "tools/list", json!({}), &needed)["error"]["code"], -32603);
    assert_eq!(answer(&mut s, "tools/call", json!({}), &needed)["result"]["resultType"], "input_required");

    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.request_with_id(2, "tools/call", json!({"name": "t"}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&needed));
    assert_eq!(s.code(), -32603);
}

/// S4.3, S1.6
#[test]
fn error_names_all_capabilities_that_the_input_requests_need() {
    let mut s = ServerHarness::new(config());
    let message: SamplingMessage =
        serde_json::from_str(r#"{"role":"user","content":{"type":"text","text":"hi"}}"#).unwrap();
    let mut sampling = CreateMessageParams::new(vec![message], 100u64);
    sampling.tools = Some(Vec::new().into());
    let requests: InputRequests = [
        ("a", InputRequest::CreateMessage(sampling)),
        ("b", InputRequest::ListRoots(ListRootsParams::new())),
    ]
    .into();
    s.modern(1, "tools/call", with_capabilities(json!({})));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::InputRequired(&InputRequiredResult::requests(requests)));
    let error = s.line()["error"].take();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"], json!({"roots": {}, "sampling": {"tools": {}}}));
}

/// S4.3
#[test]
fn server_never_sends_an_unknown_input_request() {
    let mut s = ServerHarness::new(config());
    let unknown = Json::new(r#"{"method":"tools/list"}"#).unwrap();
    let requests: InputRequests = [("a", InputRequest::Unknown(unknown))].into();
    s.modern(1, "tools/call", with_capabilities(json!({"roots": {}})));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::InputRequired(&InputRequiredResult::requests(requests)));
    assert_eq!(s.code(), -32603);
}

/// S7.1
#[test]
fn raw_result_keeps_its_own_cache_hints() {
    let mut s = ServerHarness::new(config());
    let upstream: EmptyResult =
        serde_json::from_str(r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public"}"#)
            .unwrap();
    s.modern(1, "tools/list", json!({}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&upstream));
    let mut text = Vec::new();
    assert!(s.server.poll_transmit(&mut text));
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("ttlMs").count(), 1, "{text}");
    assert_eq!(text.matches("cacheScope").count(), 1, "{text}");
    assert!(text.contains(r#""ttlMs":5"#) && text.contains(r#""cacheScope":"public""#), "{text}");
}

/// S7.1, S4.10
#[test]
fn only_complete_results_of_cacheable_methods_carry_hints() {
    let mut s = ServerHarness::new(config());
    let line = answer(&mut s, "tools/list", json!({}), &tools());
    assert_eq!((&line["result"]["ttlMs"], &line["result"]["cacheScope"]), (&json!(0), &json!("private")));

    let mut read = ReadResourceResult::new(Vec::new());
    read.ttl_ms = Some(60_000);
    let line = answer(&mut s, "resources/read", json!({"uri": "x://y"}), &read);
    assert_eq!(
        (&line["result"]["ttlMs"], &line["result"]["cacheScope"]),
        (&json!(60_000), &json!("private"))
    );

    let mut needed = InputRequiredResult::requests(InputRequests::new());
    needed.request_state = Some("x".into());
    s.modern(2, "resources/read", json!({"uri": "x://y"}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::InputRequired(&needed));
    let result = s.line()["result"].take();
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&Value::Null, &Value::Null));
}

/// S7.1
#[test]
fn server_uses_the_configured_hints_of_each_method() {
    let mut config = config();
    config.cache = CacheHint { ttl_ms: 10, scope: CacheScope::Private };
    config.cache_by_method.insert(Discover::NAME, CacheHint { ttl_ms: 3_600_000, scope: CacheScope::Public });
    let mut s = ServerHarness::new(config);
    s.modern(1, "server/discover", json!({}));
    let result = s.line()["result"].take();
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")));
    let line = answer(&mut s, "tools/list", json!({}), &tools());
    assert_eq!((&line["result"]["ttlMs"], &line["result"]["cacheScope"]), (&json!(10), &json!("private")));
}

/// A method of the protocol at one revision may be the application's own at another.
#[test]
fn custom_method_may_have_the_name_of_a_method_that_the_revision_lacks() {
    let mut config = config();
    config.custom_methods.push("logging/setLevel".into());
    let mut s = ServerHarness::new(config);
    let line = answer(&mut s, "logging/setLevel", json!({"level": 5}), &EmptyResult::new());
    assert_eq!(line["result"]["resultType"], "complete");
}

fn error_at(s: &mut ServerHarness, code: i64) -> Value {
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Error(ErrorObject::new(code, "no")));
    s.code()
}

/// S1.10, C1.12
#[test]
fn server_replaces_codes_that_the_modern_revision_forbids() {
    let mut s = ServerHarness::new(config());
    let cases = [
        (code::RESOURCE_NOT_FOUND, -32602),
        (code::URL_ELICITATION_REQUIRED, -32603),
        (-32_050, -32603),
        (code::HEADER_MISMATCH, -32603),
        (code::MISSING_REQUIRED_CLIENT_CAPABILITY, -32603),
        (code::UNSUPPORTED_PROTOCOL_VERSION, -32603),
        (code::INVALID_PARAMS, -32602),
        (code::USER_REJECTED, -1),
        (4711, 4711),
    ];
    for (given, sent) in cases {
        s.modern(1, "tools/call", json!({}));
        assert_eq!(error_at(&mut s, given), sent, "{given}");
    }
}

/// S1.21: the code that names missing capabilities is sent, and no other use of the protocol's own codes.
#[test]
fn server_sends_the_codes_of_the_protocol_with_their_meaning_alone() {
    let named = missing_capabilities(ClientCapabilities::new().with(ClientCapability::Sampling));
    let data = || Raw::new(r#"{"supported":["2026-07-28"],"requested":"2030-01-01"}"#).unwrap();
    let of = |code| ErrorObject::new(code, "no").with_data(data());
    let without = ErrorObject::new(code::MISSING_REQUIRED_CLIENT_CAPABILITY, "no")
        .with_data(Raw::new(r#"{"requiredCapabilities":"sampling"}"#).unwrap());
    for (error, is_sent) in [
        (named, true),
        (of(code::MISSING_REQUIRED_CLIENT_CAPABILITY), false),
        (without, false),
        (of(code::UNSUPPORTED_PROTOCOL_VERSION), false),
        (of(code::HEADER_MISMATCH), false),
    ] {
        let mut s = ServerHarness::new(config());
        s.modern(1, "tools/call", json!({}));
        let (request, given) = (s.request(), error.code);
        s.server.at(s.now).respond(request, Answer::Error(error));
        assert_eq!(s.code(), if is_sent { given } else { code::INTERNAL_ERROR });
        let is_reported = s.events().iter().any(|event| {
            matches!(event, Event::Diagnostic(Diagnostic::ReservedErrorCode { code, .. }) if *code == given)
        });
        assert_eq!(is_reported, !is_sent, "{given}");
    }
}

/// S1.10, C1.12
#[test]
fn server_reports_codes_of_the_application_in_the_reserved_range() {
    let reserved = |s: &mut ServerHarness| {
        s.events().into_iter().find_map(|event| match event {
            Event::Diagnostic(Diagnostic::ReservedErrorCode { code, .. }) => Some(code),
            _ => None,
        })
    };
    let mut s = ServerHarness::new(config());
    for (given, sent) in [(-32_768, -32_768), (-32_050, -32_603), (-32_019, -32_019), (-32_000, -32_000)] {
        s.modern(1, "tools/call", json!({}));
        assert_eq!(error_at(&mut s, given), sent);
        assert_eq!(reserved(&mut s), Some(given));
    }
    for given in [-32_769, -31_999, code::USER_REJECTED, code::INVALID_PARAMS, code::RESOURCE_NOT_FOUND, 7] {
        s.modern(1, "tools/call", json!({}));
        error_at(&mut s, given);
        assert_eq!(reserved(&mut s), None, "{given}");
    }
    // Older revisions leave -32000 to -32099 to servers.
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.request_with_id(2, "tools/call", json!({"name": "t"}));
    assert_eq!(error_at(&mut s, -32_050), -32_050);
    assert_eq!(reserved(&mut s), None);
}

/// S8.12
#[test]
fn server_sends_a_legacy_code_only_at_revisions_that_define_it() {
    for (version, given, sent) in [
        ("2025-11-25", code::RESOURCE_NOT_FOUND, -32002),
        ("2025-11-25", code::URL_ELICITATION_REQUIRED, -32042),
        ("2025-06-18", code::URL_ELICITATION_REQUIRED, -32603),
        ("2024-11-05", -32_050, -32_050),
    ] {
        let mut s = ServerHarness::legacy_at(version);
        s.request_with_id(2, "tools/call", json!({"name": "t"}));
        assert_eq!(error_at(&mut s, given), sent, "{version} {given}");
    }
}
