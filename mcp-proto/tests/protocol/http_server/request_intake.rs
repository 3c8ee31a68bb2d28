//! Requests that an HTTP server refuses for their head or their length.

use mcp_proto::Bytes;
use mcp_proto::peer::server::Eras;
use mcp_proto::transport::http::server::{Hosts, LegacyPaths, Origins, RequestRoute, SessionId, Setup};
use serde_json::json;

use crate::common::http_server::{TestRequest, config, config_with, initialize, modern, post, setup};
use crate::common::messages::MODERN;

fn ping() -> TestRequest {
    post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
}

fn setup_with_eras(eras: Eras) -> Setup {
    Setup::new(config_with(|server| server.eras = eras))
}

/// S3.2, S3.3
#[test]
fn server_refuses_a_foreign_origin_and_accepts_requests_without_origin() {
    let setup = setup();
    assert_eq!(ping().header("Origin", "http://evil.example").expect_refusal(&setup), (403, -32600));
    assert_eq!(ping().header("Origin", "null").expect_refusal(&setup), (403, -32600));
    assert_eq!(ping().header("Origin", "http://localhost:8080").expect_refusal(&setup).0, 400);
    assert_eq!(ping().expect_refusal(&setup).0, 400);
    let mut any = config();
    any.origins = Origins::Any;
    assert_eq!(ping().header("Origin", "http://evil.example").expect_refusal(&Setup::new(any)).0, 400);
}

/// S3.2: browsers send no origin with an image, a script or a navigation.
#[test]
fn server_refuses_requests_without_origin_from_pages_of_other_sites() {
    let setup = setup();
    for site in ["cross-site", "same-site", "another"] {
        assert_eq!(ping().header("Sec-Fetch-Site", site).expect_refusal(&setup), (403, -32600), "{site}");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(ping().header("Sec-Fetch-Site", site).expect_refusal(&setup).0, 400, "{site}");
    }
    let allowed = ping().header("Origin", "http://localhost:1").header("Sec-Fetch-Site", "same-site");
    assert_eq!(allowed.expect_refusal(&setup).0, 400, "its origin decides");
    let refused = ping().header("Sec-Fetch-Site", "cross-site").answer(&setup).body;
    assert!(String::from_utf8_lossy(&refused).contains("sec-fetch-site"));
    let mut any = config();
    any.origins = Origins::Any;
    assert_eq!(ping().header("Sec-Fetch-Site", "cross-site").expect_refusal(&Setup::new(any)).0, 400);
}

/// S3.5
#[test]
fn server_refuses_a_foreign_host_unless_the_check_is_off() {
    let setup = setup();
    assert_eq!(ping().with("Host", "evil.example").expect_refusal(&setup), (403, -32600));
    assert_eq!(ping().without("Host").expect_refusal(&setup), (403, -32600));
    let mut any = config();
    any.hosts = Hosts::Any;
    assert_eq!(ping().with("Host", "evil.example").expect_refusal(&Setup::new(any)).0, 400);
}

#[test]
fn refusal_of_a_host_or_origin_names_the_setting_and_no_type() {
    let setup = setup();
    let said = |asked: TestRequest| String::from_utf8(asked.answer(&setup).body.to_vec()).unwrap();
    let text = said(ping().with("Host", "evil.example"));
    assert!(text.contains("evil.example\\\" are not served here: it is not among the hosts"), "{text}");
    assert!(!text.contains("::"), "{text}");
    let text = said(ping().header("Origin", "http://evil.example"));
    assert!(text.contains("http://evil.example") && text.contains("among the origins"), "{text}");
    let text = said(ping().with("Host", "x".repeat(5000)));
    assert!(text.len() < 400, "{text}");
}

/// S3.1, S3.17, S3.24
#[test]
fn server_accepts_the_http_methods_of_each_revision() {
    let setup = setup();
    let allowed = |asked: &TestRequest, setup: &Setup| {
        let answer = asked.answer(setup);
        assert_eq!(answer.status, 405);
        answer.headers.iter().find(|(name, _)| *name == "allow").unwrap().1.to_string()
    };
    assert_eq!(allowed(&TestRequest::new("PUT"), &setup), "GET, POST, DELETE");
    for method in ["GET", "DELETE"] {
        let of_then = TestRequest::new(method).header("MCP-Protocol-Version", MODERN);
        assert_eq!(allowed(&of_then, &setup), "POST");
        assert_eq!(allowed(&TestRequest::new(method), &setup_with_eras(Eras::ModernOnly)), "POST");
        assert_eq!(TestRequest::new(method).expect_refusal(&setup), (400, -32600));
    }
}

#[test]
fn server_refuses_a_body_that_is_not_json_unread() {
    let setup = setup();
    for wrong in ["text/plain", "application/json-seq", "", "application/x-www-form-urlencoded"] {
        assert_eq!(ping().with("Content-Type", wrong).expect_refusal(&setup), (415, -32600));
    }
    assert_eq!(ping().without("Content-Type").expect_refusal(&setup), (415, -32600));
    assert_eq!(ping().with("Content-Type", "Application/JSON; charset=utf-8").expect_refusal(&setup).0, 400);
}

/// S3.7
#[test]
fn server_requires_an_accept_header_with_json_or_events() {
    let setup = setup();
    for fine in ["*/*", "application/*", "application/json", "text/event-stream;q=0.1, text/html"] {
        assert_eq!(ping().with("Accept", fine).expect_refusal(&setup).0, 400, "{fine}");
    }
    assert_eq!(ping().without("Accept").expect_refusal(&setup).0, 400);
    for wrong in ["text/html", "application/json;q=0"] {
        assert_eq!(ping().with("Accept", wrong).expect_refusal(&setup), (406, -32600));
    }
    let listening =
        TestRequest::new("GET").header("Mcp-Session-Id", SessionId::from_entropy([1; 16]).to_string());
    assert!(matches!(listening.route(&setup), RequestRoute::Listen { .. }));
    assert_eq!(listening.with("Accept", "application/json").expect_refusal(&setup), (406, -32600));
}

#[test]
fn server_refuses_a_message_over_the_limit_by_its_announced_and_its_actual_length() {
    let setup = Setup::new(config_with(|server| server.limits.message_bytes = 100));
    let (fits, long) = ("x".repeat(100), "x".repeat(101));
    assert_eq!(ping().body(&fits).expect_refusal(&setup), (400, -32700));
    assert_eq!(ping().body(&long).expect_refusal(&setup), (413, -32600));
    assert_eq!(ping().body(&fits).header("Content-Length", "100").expect_refusal(&setup), (400, -32700));
    assert_eq!(ping().header("Content-Length", "101").expect_refusal(&setup), (413, -32600));
    assert_eq!(ping().header("Content-Length", "99999999999999999999").expect_refusal(&setup).0, 400);
}

#[test]
fn server_refuses_bodies_that_announce_more_than_4_mib_by_default() {
    let (fits, long) = (4 * 1024 * 1024, 4 * 1024 * 1024 + 1);
    assert_eq!(ping().header("Content-Length", fits.to_string()).expect_refusal(&setup()).0, 400);
    assert_eq!(ping().header("Content-Length", long.to_string()).expect_refusal(&setup()), (413, -32600));
    let mut config = config();
    config.body_bytes = long;
    assert_eq!(ping().header("Content-Length", long.to_string()).expect_refusal(&Setup::new(config)).0, 400);
}

#[test]
fn server_answers_an_invalid_message_with_its_id_if_it_has_one() {
    let setup = setup();
    let answered = |body: &str, version: Option<&str>| {
        let asked = ping().body(body);
        let asked = match version {
            Some(version) => asked.header("MCP-Protocol-Version", version),
            None => asked,
        };
        let answer = asked.answer(&setup);
        assert_eq!(answer.status, 400);
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        (body["error"]["code"].as_i64().unwrap(), body.get("id").cloned())
    };
    assert_eq!(answered("{", None), (-32700, Some(json!(null))));
    assert_eq!(answered("", None), (-32700, Some(json!(null))));
    assert_eq!(answered("{", Some("2025-06-18")), (-32700, Some(json!(null))));
    // C1.9: since this revision an error without a valid id omits the id instead of sending null.
    assert_eq!(answered("{", Some("2025-11-25")), (-32700, None));
    assert_eq!(answered("{", Some(MODERN)), (-32700, None));
    assert_eq!(answered(r#"{"jsonrpc":"2.0","id":7,"method":3}"#, None), (-32600, Some(json!(7))));
    assert_eq!(answered(r#"{"id":1.5,"jsonrpc":"2.0","method":"ping"}"#, None), (-32600, Some(json!(null))));
    assert_eq!(answered("\u{FEFF}{}", None), (-32700, Some(json!(null))));
}

/// S3.1
#[test]
fn other_paths_are_not_found() {
    let mut config = config();
    config.path = Some("/mcp".into());
    let setup = Setup::new(config);
    assert_eq!(ping().at("/mcp?x=1").expect_refusal(&setup).0, 400);
    for path in ["/", "/mcp/", "/sse", "/MCP", ""] {
        assert_eq!(ping().at(path).expect_refusal(&setup), (404, -32600), "{path}");
    }
}

/// S3.18, S3.19
#[test]
fn server_assumes_an_absent_version_and_refuses_an_unknown_one() {
    let setup = setup();
    let id = SessionId::from_entropy([1; 16]).to_string();
    let in_session = || ping().header("Mcp-Session-Id", &id);
    assert!(matches!(in_session().route(&setup), RequestRoute::Session { .. }));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let asked = in_session().header("MCP-Protocol-Version", version);
        assert!(matches!(asked.route(&setup), RequestRoute::Session { .. }), "{version}");
    }
    for version in ["1999-01-01", "", "2025-11-25, 2025-06-18"] {
        assert_eq!(
            in_session().header("MCP-Protocol-Version", version).expect_refusal(&setup),
            (400, -32600)
        );
        for method in ["GET", "DELETE"] {
            let asked = TestRequest::new(method)
                .header("Mcp-Session-Id", &id)
                .header("MCP-Protocol-Version", version);
            assert_eq!(asked.expect_refusal(&setup), (400, -32600));
        }
    }
    let twice = in_session()
        .header("MCP-Protocol-Version", "2025-11-25")
        .header("MCP-Protocol-Version", "2025-06-18");
    assert_eq!(twice.expect_refusal(&setup), (400, -32600));
}

/// S3.20
#[test]
fn server_accepts_only_a_handshake_without_a_session() {
    let setup = setup();
    let handshake = post(&initialize("2025-11-25", json!({})));
    assert!(matches!(handshake.route(&setup), RequestRoute::OpenSession(_)));
    // A client that opens a new session may still name the old one.
    let again = handshake.header("Mcp-Session-Id", "00").header("MCP-Protocol-Version", MODERN);
    assert!(matches!(again.route(&setup), RequestRoute::OpenSession(_)));
    assert_eq!(ping().expect_refusal(&setup), (400, -32602));
    assert_eq!(
        post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).expect_refusal(&setup),
        (400, -32600)
    );
    assert_eq!(post(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})).expect_refusal(&setup), (400, -32600));
    assert_eq!(
        post(&json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).expect_refusal(&setup),
        (400, -32600)
    );
}

/// S3.20
#[test]
fn server_refuses_a_session_id_that_it_never_issued() {
    let setup = setup();
    for id in ["", "x", "AB".repeat(16).as_str(), &"ab".repeat(17), "../../etc"] {
        assert_eq!(ping().header("Mcp-Session-Id", id).expect_refusal(&setup), (404, -32600), "{id}");
        assert_eq!(
            TestRequest::new("DELETE").header("Mcp-Session-Id", id).expect_refusal(&setup),
            (404, -32600)
        );
    }
}

/// S3.20
#[test]
fn session_id_is_visible_ascii_and_hidden_in_logs() {
    let id = SessionId::from_entropy([0xA5; 16]);
    let text = id.to_string();
    assert!(text.len() >= 32 && text.bytes().all(|byte| (0x21..=0x7E).contains(&byte)));
    assert!(!format!("{id:?}").contains(&text[..8]));
}

/// S1.4
#[test]
fn server_of_one_era_does_not_speak_the_other() {
    let legacy = setup_with_eras(Eras::LegacyOnly);
    let listing = modern(1, "tools/list", json!({}));
    assert_eq!(listing.expect_refusal(&legacy), (400, -32600));
    assert_eq!(listing.without("MCP-Protocol-Version").expect_refusal(&legacy), (400, -32600));
    assert!(matches!(
        post(&initialize("2025-06-18", json!({}))).route(&legacy),
        RequestRoute::OpenSession(_)
    ));
    let modern_only = setup_with_eras(Eras::ModernOnly);
    assert_eq!(post(&initialize("2025-06-18", json!({}))).expect_refusal(&modern_only), (400, -32022));
    assert_eq!(ping().expect_refusal(&modern_only), (400, -32602));
    let id = SessionId::from_entropy([1; 16]).to_string();
    assert_eq!(ping().header("Mcp-Session-Id", id).expect_refusal(&modern_only), (400, -32602));
}

#[test]
fn server_offers_http_sse_only_at_its_configured_paths() {
    let mut config = config();
    config.path = Some("/mcp".into());
    let without = Setup::new(config.clone());
    assert_eq!(TestRequest::new("GET").at("/sse").expect_refusal(&without), (404, -32600));
    config.legacy_sse = Some(LegacyPaths::default());
    let setup = Setup::new(config.clone());
    assert!(matches!(TestRequest::new("GET").at("/sse").route(&setup), RequestRoute::LegacyEvents));
    assert_eq!(ping().at("/sse").expect_refusal(&setup).0, 405);
    let id = SessionId::from_entropy([3; 16]);
    let sent = ping().at(format!("/messages?session={id}")).without("Accept");
    assert!(matches!(sent.route(&setup), RequestRoute::LegacyPost { id: this, .. } if this == id));
    for path in ["/messages", "/messages?session=1", "/messages?id=0303"] {
        assert_eq!(ping().at(path).expect_refusal(&setup), (404, -32600));
    }
    assert_eq!(sent.with("Content-Type", "text/plain").expect_refusal(&setup).0, 415);
    // At the shared endpoint, a client without session id is treated as an HTTP+SSE client.
    config.legacy_sse = Some(LegacyPaths { events: "/mcp".into(), ..LegacyPaths::default() });
    let both = Setup::new(config);
    assert!(matches!(TestRequest::new("GET").route(&both), RequestRoute::LegacyEvents));
    assert!(matches!(
        TestRequest::new("GET").header("Mcp-Session-Id", id.to_string()).route(&both),
        RequestRoute::Listen { .. }
    ));
    assert!(matches!(post(&initialize("2025-06-18", json!({}))).route(&both), RequestRoute::OpenSession(_)));
}

#[test]
fn server_does_not_want_the_body_of_a_get() {
    use mcp_proto::transport::http::server::{RequestHead, RequestIntake};
    let fields = [("host", "localhost"), ("mcp-session-id", &"ab".repeat(16)), ("last-event-id", "3-4")];
    let head = RequestHead { method: "GET", path: "/mcp", fields: &fields, client: None };
    let mut intake = RequestIntake::new(&setup(), &head).unwrap();
    assert!(!intake.wants_body());
    intake.handle_body(Bytes::from_static(b"whatever")).unwrap();
    let RequestRoute::Listen { last_event, .. } = intake.finish() else { panic!() };
    assert_eq!(last_event.as_deref(), Some("3-4"));
}
