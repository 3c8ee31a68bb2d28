//! The transport of 2024-11-05: one stream for everything, and messages posted beside it.

use core::time::Duration;

use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Answer, CloseReason, Event, ListKind};
use mcp_proto::transport::http::server::{Chunk, ConnectionId, LegacyPaths, Session, SessionId, Setup};
use mcp_proto::transport::http::server::{PostOutcome, RequestRoute};
use serde_json::{Value, json};

use crate::common::http_server::{
    NOW, SessionClient, TestRequest, config, expect_request, initialize, post, result,
};

struct LegacySseClient {
    client: SessionClient,
    stream: ConnectionId,
    messages: String,
}

impl LegacySseClient {
    fn open() -> Self {
        let mut config = config();
        config.legacy_sse = Some(LegacyPaths::default());
        let setup = Setup::new(config);
        assert!(matches!(TestRequest::new("GET").at("/sse").route(&setup), RequestRoute::LegacyEvents));
        let id = SessionId::from_entropy([5; 16]);
        let (session, stream) = Session::open_legacy(&setup, id, NOW);
        let mut client = SessionClient { setup, session, id, now: NOW };
        let first = client.read(stream).events();
        assert_eq!((first.len(), first[0].name.as_deref(), &first[0].id), (1, Some("endpoint"), &None));
        let messages = first[0].data.clone();
        assert_eq!(messages, format!("/messages?session={id}"));
        Self { client, stream, messages }
    }

    fn ready() -> Self {
        let mut old = Self::open();
        assert_eq!(old.send(&initialize("2024-11-05", json!({}))), 202);
        assert_eq!(old.take_messages()[0]["result"]["protocolVersion"], "2024-11-05");
        old.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        while old.client.session.poll_event().is_some() {}
        old
    }

    fn send(&mut self, message: &Value) -> u16 {
        let post = post(message).at(self.messages.clone()).post(&self.client.setup);
        match self.client.session.handle_post(self.client.now, post) {
            PostOutcome::Answer(answer) => answer.status,
            PostOutcome::Connection(stream) => panic!("{stream:?}"),
        }
    }

    fn take_messages(&mut self) -> Vec<Value> {
        let events = self.client.read(self.stream).events();
        assert!(events.iter().all(|event| event.name.as_deref() == Some("message") && event.id.is_none()));
        events.into_iter().filter_map(|event| event.message).collect()
    }
}

/// The id of a session lets its holder act in the session: no log shows it.
#[test]
fn debug_shows_no_session_id() {
    let mut config = config();
    config.legacy_sse = Some(LegacyPaths::default());
    let setup = Setup::new(config);
    let id = SessionId::from_entropy([5; 16]);
    let (mut session, stream) = Session::open_legacy(&setup, id, NOW);
    let mut shown = format!("{id:?} {session:?} {setup:?}");
    shown.push_str(&format!("{:?}", session.poll_head(stream)));
    let chunk = session.poll_body(NOW, stream);
    let Chunk::Bytes(bytes) = &chunk else { panic!("{chunk:?}") };
    assert!(core::str::from_utf8(bytes).unwrap().contains(&id.to_string()));
    shown.push_str(&format!("{chunk:?}"));
    let handshake = post(&initialize("2025-11-25", json!({})));
    let (session, answer) = Session::open(&setup, id, handshake.post(&setup), NOW).unwrap();
    let named = answer.headers.iter().any(|(_, value)| *value == id.to_string());
    assert!(named, "the answer names the session");
    shown.push_str(&format!("{session:?} {answer:?} {:?}", PostOutcome::Answer(answer.clone())));
    let said = post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    shown.push_str(&format!("{:?}", said.header("Mcp-Session-Id", id.to_string()).route(&setup)));
    assert!(!shown.contains(&id.to_string()), "{shown}");
}

/// R2
#[test]
fn server_sends_everything_on_the_one_stream() {
    let mut old = LegacySseClient::ready();
    assert_eq!(
        old.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}})),
        202
    );
    let call = expect_request(old.client.session.poll_event());
    old.client.session.at(NOW).list_changed(ListKind::Tools);
    old.client.session.at(NOW).respond(call, Answer::Result(&result()));
    let told = old.take_messages();
    assert_eq!((&told[0]["method"], &told[1]["id"]), (&json!("notifications/tools/list_changed"), &json!(1)));
}

#[test]
fn session_ends_with_its_stream() {
    let mut old = LegacySseClient::ready();
    old.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}));
    let call = expect_request(old.client.session.poll_event());
    old.client.session.handle_disconnect(NOW, old.stream);
    assert!(matches!(old.client.session.poll_event(), Some(Event::Cancelled { id, .. }) if id == call));
    assert!(matches!(
        old.client.session.poll_event(),
        Some(Event::Closed(CloseReason::Lost(LostReason::Disconnected(_))))
    ));
    assert_eq!(old.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), 404);
    assert_eq!(old.client.session.poll_timeout(), None);
}

#[test]
fn a_client_that_does_not_read_loses_its_session() {
    let mut old = LegacySseClient::ready();
    old.client.session.at(NOW).list_changed(ListKind::Tools);
    old.client.advance(Duration::from_secs(60));
    assert!(old.client.session.is_closed());
}

#[test]
fn server_sends_comments_on_the_quiet_stream_and_never_expires_it() {
    let mut old = LegacySseClient::ready();
    for _ in 0..500 {
        old.client.advance(Duration::from_secs(15));
        assert_eq!(old.client.session.poll_body(old.client.now, old.stream), Chunk::Bytes(":\n\n".into()));
    }
    assert!(!old.client.session.is_closed());
}

#[test]
fn session_offers_no_other_stream() {
    let mut old = LegacySseClient::ready();
    assert_eq!(old.client.session.listen(NOW, None).unwrap_err().status, 404);
    assert_eq!(old.client.session.listen(NOW, Some("0-0")).unwrap_err().status, 404);
}

#[test]
fn server_refuses_an_unreadable_message() {
    let old = LegacySseClient::ready();
    let answer = post(&json!(null)).at(old.messages.clone()).body("{").answer(&old.client.setup);
    assert_eq!(answer.status, 400);
}

#[test]
fn server_refuses_an_array_on_the_stream() {
    let mut old = LegacySseClient::ready();
    old.send(&json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]));
    assert_eq!(old.take_messages()[0]["error"]["code"], -32600);
}

/// R2: a page of another origin can neither open the stream nor post to it.
#[test]
fn server_refuses_a_foreign_origin_on_both_endpoints() {
    let old = LegacySseClient::ready();
    let setup = &old.client.setup;
    let stream = || TestRequest::new("GET").at("/sse");
    let ping = || post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).at(old.messages.clone());
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        assert_eq!(stream().header("Origin", origin).expect_refusal(setup), (403, -32600), "{origin}");
        assert_eq!(ping().header("Origin", origin).expect_refusal(setup), (403, -32600), "{origin}");
    }
    for origin in ["http://localhost:6274", "https://127.0.0.1"] {
        assert!(matches!(stream().header("Origin", origin).route(setup), RequestRoute::LegacyEvents));
        assert!(matches!(ping().header("Origin", origin).route(setup), RequestRoute::LegacyPost { .. }));
    }
    assert_eq!(stream().with("Host", "evil.example").expect_refusal(setup), (403, -32600));
    // Without an origin, as of an image.
    assert_eq!(stream().header("Sec-Fetch-Site", "cross-site").expect_refusal(setup), (403, -32600));
    assert!(matches!(stream().header("Sec-Fetch-Site", "none").route(setup), RequestRoute::LegacyEvents));
}

/// R2: messages go to the URL of the `endpoint` event only.
#[test]
fn server_accepts_messages_only_at_the_url_of_the_endpoint_event() {
    let old = LegacySseClient::ready();
    let setup = &old.client.setup;
    let ping = |path: &str| post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).at(path);
    assert!(matches!(ping(&old.messages).route(setup), RequestRoute::LegacyPost { .. }));
    for path in ["/messages", "/messages?session=", "/messages?session=7", "/messages?id=1"] {
        assert_eq!(ping(path).expect_refusal(setup).0, 404, "{path}");
    }
    for (method, path) in [("POST", "/sse"), ("GET", "/messages"), ("DELETE", "/sse")] {
        let asked = TestRequest::new(method).header("Content-Type", "application/json").at(path);
        assert_eq!(asked.expect_refusal(setup).0, 405, "{method} {path}");
    }
}
