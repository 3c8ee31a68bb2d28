//! Legacy sessions over HTTP: they outlive the connections of their clients.

use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use crate::common::front_http::{HttpHarness, field, router};
use crate::common::messages::LEGACY;
use crate::common::tools::tool;
use mcp_proto::front::http::HttpServerEvent;
use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::peer::server::ListKind;
use mcp_proto::schema::{ElicitParams, ElicitSchema, Map};
use mcp_proto::transport::http::server::{BodyKind, HttpServerConfig, LegacyPaths, SessionPrefix};
use serde_json::{Value, json};

fn call(web: &mut HttpHarness, session: &str, name: &str) -> crate::common::front_http::TestExchange {
    web.post_request(session, "tools/call", json!({"name": name, "arguments": {}}))
}

/// Requests a session.
fn initialize(web: &HttpHarness) -> crate::common::front_http::TestExchange {
    let info = json!({"name": "tester", "version": "1"});
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    web.send("POST", &[], &body.to_string())
}

#[test]
fn client_opens_uses_and_ends_a_session() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let params = json!({"name": "add", "arguments": {"a": 2, "b": 3}});
    let answer = web.post_request(&session, "tools/call", params.clone()).message();
    assert_eq!(answer["result"]["content"][0]["text"], "5");
    assert!(matches!(web.delete(&session).status, 200..=204));
    assert_eq!(web.post_request(&session, "tools/call", params).head().status, 404);
    assert_eq!(web.delete(&session).status, 404);
}

#[test]
fn request_of_a_session_without_a_polled_driver_is_answered_with_an_error() {
    let router = router().0;
    let config = HttpServerConfig::new(router.config());
    let mut web = HttpHarness::unpolled(router, config);
    let mut events = web.server.events();
    let opened = initialize(&web).head();
    let session = field(&opened, "mcp-session-id").unwrap();
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let mut refused = web.send("POST", &headers, &list);
    let mut served = web.send("POST", &headers, &list);
    web.clock.advance(Duration::from_millis(999));
    refused.advance_to_timeout();
    assert!(!refused.has_head());
    web.clock.advance(Duration::from_millis(1));
    refused.advance_to_timeout();
    assert_eq!(refused.head().status, 503);
    let answer = refused.json();
    assert!(answer["error"]["message"].as_str().unwrap().contains("`driver`"), "{answer}");
    assert_eq!(events.drain(), [HttpServerEvent::DriverNotPolled]);
    // The driver that is polled after all serves the others.
    web.poll_driver();
    served.advance_to_timeout();
    assert_eq!(served.head().status, 200);
}

#[test]
fn upgrade_for_a_driver_that_is_not_polled_is_refused() {
    let router = router().0;
    let config = HttpServerConfig::new(router.config());
    let mut web = HttpHarness::unpolled(router, config);
    let mut events = web.server.events();
    let refused = web.server.check_driver().unwrap_err();
    assert_eq!(refused.status, 503);
    assert!(String::from_utf8_lossy(&refused.body).contains("`driver`"), "{refused:?}");
    assert_eq!(events.drain(), [HttpServerEvent::DriverNotPolled]);
    web.poll_driver();
    assert_eq!(web.server.check_driver(), Ok(()));
}

#[test]
fn task_that_waits_for_a_driver_that_is_not_polled_is_reported() {
    use mcp_proto::front::tasks::{TaskChoice, TaskConfig};

    let router = Router::new("bakery", "1.0.0").tasks(TaskConfig::default()).task_tool(
        tool("bake"),
        TaskChoice::Required,
        async |NoArguments {}, _| "baked",
    );
    let config = HttpServerConfig::new(router.config());
    let mut web = HttpHarness::unpolled(router, config);
    let mut events = web.server.events();
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"name": "bake", "arguments": {}});
    let mut call = web.ask_with("tools/call", params, capabilities);
    assert!(!call.has_head());
    web.clock.advance(Duration::from_secs(1));
    call.advance_to_timeout();
    assert_eq!(events.drain(), [HttpServerEvent::DriverNotPolled]);
    web.poll_driver();
    assert_eq!(call.json()["result"]["resultType"], "task");
}

/// S3.20
#[test]
fn unknown_session_has_status_404_and_a_missing_one_400() {
    let mut web = HttpHarness::new(router().0);
    let unknown = "00000000000000000000000000000000";
    assert_eq!(web.post_request(unknown, "tools/list", json!({})).head().status, 404);
    assert_eq!(web.get(unknown, None).head().status, 404);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let headers = [("mcp-protocol-version", LEGACY)];
    assert_eq!(web.send("POST", &headers, &body).head().status, 400);
}

/// S3.20
#[test]
fn sessions_are_independent() {
    let mut web = HttpHarness::new(router().0);
    let (one, other) = (web.open(), web.open());
    assert_ne!(one, other);
    web.delete(&one);
    assert_eq!(web.post_request(&one, "ping", json!({})).head().status, 404);
    assert_eq!(web.post_request(&other, "ping", json!({})).message()["result"], json!({}));
}

/// S10.9, S3.20: the id of a session cannot be guessed.
#[test]
fn sessions_have_identifiers_of_128_random_bits() {
    use crate::common::polling::CountingEntropy;
    use mcp_proto::adapter::Entropy as _;
    use mcp_proto::transport::http::server::SessionId;

    // The server draws from the same sequence.
    let drawn = |start| {
        let mut bytes = [0_u8; 16];
        CountingEntropy::new(start).fill(&mut bytes);
        SessionId::from_entropy(bytes).to_string()
    };
    let mut web = HttpHarness::new(router().0);
    let ids = [web.open(), web.open()];
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        assert!(id.len() == 32 && (1..1000).any(|start| drawn(start) == id), "{id}");
    }
}

/// An instance whose sessions have this prefix.
fn instance(prefix: &str) -> HttpHarness {
    let router = router().0;
    let mut config = HttpServerConfig::new(router.config());
    config.session_prefix = Some(SessionPrefix::new(prefix).unwrap());
    config.legacy_sse = Some(LegacyPaths::default());
    HttpHarness::of(router, config)
}

/// S3.20
#[test]
fn session_of_another_instance_is_unknown() {
    let (mut one, mut other) = (instance("eu-1"), instance("eu-2"));
    let session = one.open();
    assert_eq!(one.post_request(&session, "ping", json!({})).message()["result"], json!({}));
    // Their random numbers are equal here: the prefix alone tells the sessions apart.
    let digits = session.strip_prefix("eu-1.").unwrap();
    assert_eq!(other.open().strip_prefix("eu-2."), Some(digits));
    for unknown in [&session, digits, "eu-2.", &format!("eu-2{digits}"), &format!("eu-2.eu-2.{digits}")] {
        assert_eq!(other.post_request(unknown, "ping", json!({})).head().status, 404, "{unknown}");
        assert_eq!(other.get(unknown, None).head().status, 404, "{unknown}");
        assert_eq!(other.delete(unknown).status, 404, "{unknown}");
    }
}

#[test]
fn endpoint_of_a_2024_11_05_session_names_its_instance() {
    let mut web = instance("eu-1");
    let mut stream = web.send_to("/sse", "GET", &[], "");
    web.poll_driver();
    let (event, url) = stream.raw_event();
    assert_eq!(event, "endpoint");
    let url = String::from_utf8(url).unwrap();
    assert!(url.starts_with("/messages?session=eu-1."), "{url}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let post = |url: &str| web.send_to(url, "POST", &[], &ping).head().status;
    assert_eq!(post(&url), 202);
    assert_eq!(post(&url.replace("eu-1.", "eu-2.")), 404);
}

#[test]
fn session_prefix_is_a_short_name() {
    for name in ["", "a.b", "a b", "é", "a/b", &"a".repeat(33)] {
        assert!(SessionPrefix::new(name).is_err(), "{name:?}");
    }
    assert!(SessionPrefix::new(format!("{}-_9", "Z".repeat(29))).is_ok());
}

/// S3.23
#[test]
fn disconnect_does_not_cancel_the_request_of_a_session() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let caller = call(&mut web, &session, "hold");
    let cx = held.context();
    drop(caller);
    web.poll_driver();
    assert_eq!(held.dropped_count(), 0);
    assert!(!cx.is_cancelled());
    held.release("done");
    web.poll_driver();
    assert_eq!(held.dropped_count(), 1);
}

/// S6.1
#[test]
fn server_drops_a_cancelled_request_without_a_response() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let body = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "hold", "arguments": {}}});
    let mut caller = web.post(&session, &body);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}});
    assert_eq!(web.post(&session, &cancel).head().status, 202);
    web.poll_driver();
    assert_eq!(held.dropped_count(), 1);
    assert_eq!(caller.try_message(), None);
}

#[test]
fn deleted_session_drops_its_handlers_and_ends_its_streams() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let mut events = web.get(&session, None);
    assert!(matches!(events.head().body, BodyKind::Stream));
    let mut caller = call(&mut web, &session, "hold");
    caller.poll_exchange();
    caller.wakes.take();
    events.wakes.take();
    web.delete(&session);
    assert_eq!(held.dropped_count(), 1);
    assert!(events.wakes.take() > 0);
    events.poll_exchange();
    assert!(events.ended);
    caller.poll_exchange();
    assert!(caller.ended);
}

#[test]
fn idle_session_expires() {
    let mut web = HttpHarness::configured(router().0, |config| config.session_idle = Duration::from_secs(60));
    let session = web.open();
    let other = web.open();
    web.advance(Duration::from_secs(40));
    assert_eq!(web.post_request(&session, "ping", json!({})).message()["result"], json!({}));
    web.advance(Duration::from_secs(40));
    assert_eq!(web.post_request(&other, "ping", json!({})).head().status, 404);
    assert_eq!(web.post_request(&session, "ping", json!({})).message()["result"], json!({}));
    web.advance(Duration::from_secs(61));
    assert_eq!(web.post_request(&session, "ping", json!({})).head().status, 404);
    assert_eq!(web.driver.as_ref().unwrap().next_timeout(), None);
}

/// A session whose stream is open, or whose handler runs, is in use.
#[test]
fn a_session_in_use_does_not_expire() {
    let (router, held) = router();
    let mut web = HttpHarness::configured(router, |config| config.session_idle = Duration::from_secs(60));
    let session = web.open();
    let mut events = web.get(&session, None);
    events.poll_exchange();
    web.advance(Duration::from_secs(3600));
    assert_eq!(web.post_request(&session, "ping", json!({})).message()["result"], json!({}));
    drop(call(&mut web, &session, "hold"));
    drop(events);
    web.advance(Duration::from_secs(3600));
    assert_eq!(held.dropped_count(), 0);
    held.release("done");
    web.poll_driver();
    web.advance(Duration::from_secs(59));
    assert_eq!(web.post_request(&session, "ping", json!({})).message()["result"], json!({}));
}

#[test]
fn server_does_not_evict_a_busy_session() {
    let mut web = HttpHarness::configured(router().0, |config| config.max_sessions = 2);
    let sessions = [web.open(), web.open()];
    let streams = sessions.each_ref().map(|session| {
        let mut events = web.get(session, None);
        events.poll_exchange();
        events
    });
    web.poll_driver();
    let mut refused = initialize(&web);
    assert_eq!(refused.head().status, 503);
    assert_eq!(refused.json()["id"], 0);
    web.delete(&sessions[0]);
    web.open();
    drop(streams);
}

#[test]
fn server_evicts_the_session_that_is_idle_for_longest() {
    let mut web = HttpHarness::configured(router().0, |config| config.max_sessions = 2);
    let (one, other) = (web.open(), web.open());
    web.advance(Duration::from_secs(1));
    assert_eq!(web.post_request(&one, "ping", json!({})).message()["result"], json!({}));
    web.poll_driver();
    let third = web.open();
    assert_eq!(web.post_request(&other, "ping", json!({})).head().status, 404);
    for session in [&one, &third] {
        assert_eq!(web.post_request(session, "ping", json!({})).message()["result"], json!({}));
    }
}

/// A session that has just been used is busy, even if the driver has not run since.
#[test]
fn server_does_not_evict_a_session_that_was_just_used() {
    let mut web = HttpHarness::configured(router().0, |config| config.max_sessions = 1);
    let session = web.open();
    web.poll_driver();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", LEGACY)];
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let mut caller = web.send("POST", &headers, &ping);
    assert_eq!(initialize(&web).head().status, 503);
    assert_eq!(caller.message()["result"], json!({}));
}

/// S3.15: a stream that was read becomes quiet again earlier than an unread one would be given up.
#[test]
fn server_sends_comments_on_the_stream_of_a_session() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let mut events = web.get(&session, None);
    events.poll_exchange();
    web.server.list_changed(ListKind::Tools);
    web.poll_driver();
    let keepalive = web.server.config().keepalive;
    assert!(web.server.config().server.write_timeout > keepalive);
    web.wakes.take();
    assert_eq!(events.message()["method"], "notifications/tools/list_changed");
    assert!(web.wakes.take() > 0, "the driver has an earlier deadline");
    web.poll_driver();
    let before = events.bytes;
    web.advance(keepalive);
    events.poll_exchange();
    assert!(events.bytes > before);
}

#[test]
fn unread_answer_of_a_session_is_charged_until_it_is_given_up() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let params = json!({"name": "add", "arguments": {"a": 2, "b": 3}});
    let mut unread = web.post_request(&session, "tools/call", params);
    web.poll_driver();
    let mut cx = TaskContext::from_waker(Waker::noop());
    let Poll::Ready(head) = unread.exchange.poll_head(&mut cx) else { panic!("there is no answer") };
    let BodyKind::Sized(bytes) = head.body else { panic!("{head:?}") };
    assert_eq!(web.server.handle().bytes_used(), bytes);
    web.clock.advance(web.server.config().server.write_timeout);
    unread.exchange.handle_timeout();
    assert_eq!(unread.exchange.poll_body(&mut cx), Poll::Ready(None));
    assert_eq!(web.server.handle().bytes_used(), 0);
}

/// A stream's waker is called when this stream has output, and only then.
#[test]
fn exchange_is_woken_only_for_its_own_stream() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let params = |token| json!({"name": "hold", "arguments": {}, "_meta": {"progressToken": token}});
    let mut one = web.post_request(&session, "tools/call", params("one"));
    let cx = held.context();
    let mut other = web.post_request(&session, "tools/call", params("other"));
    let mut events = web.get(&session, None);
    for caller in [&mut one, &mut other, &mut events] {
        caller.poll_exchange();
        caller.wakes.take();
    }
    cx.progress(1);
    assert_eq!((one.wakes.take(), other.wakes.take(), events.wakes.take()), (1, 0, 0));
    assert_eq!(one.message()["params"]["progressToken"], "one");
    web.server.list_changed(ListKind::Tools);
    web.poll_driver();
    assert_eq!((one.wakes.take(), other.wakes.take(), events.wakes.take()), (0, 0, 1));
    assert_eq!(events.message()["method"], "notifications/tools/list_changed");
    held.release("done");
    web.poll_driver();
    assert_eq!((one.wakes.take(), other.wakes.take(), events.wakes.take()), (1, 1, 0));
    for caller in [&mut one, &mut other] {
        assert_eq!(caller.message()["result"]["content"][0]["text"], "done");
        assert!(caller.ended);
    }
}

#[test]
fn only_subscribers_of_a_resource_receive_its_changes() {
    let mut web = HttpHarness::new(router().0);
    let (one, other) = (web.open(), web.open());
    let subscribe = |web: &mut HttpHarness, method: &str| {
        web.post_request(&one, method, json!({"uri": "note:///a"})).message()["result"].clone()
    };
    assert_eq!(subscribe(&mut web, "resources/subscribe"), json!({}));
    let mut streams = [web.get(&one, None), web.get(&other, None)];
    for stream in &mut streams {
        stream.poll_exchange();
    }
    web.server.resource_updated("note:///a");
    web.server.resource_updated("note:///b");
    web.poll_driver();
    assert_eq!(streams[0].message()["params"]["uri"], "note:///a");
    for stream in &mut streams {
        stream.expect_silence();
    }
    assert_eq!(subscribe(&mut web, "resources/unsubscribe"), json!({}));
    web.wakes.take();
    web.server.resource_updated("note:///a");
    assert_eq!(web.wakes.take(), 0, "no subscriber is left");
    web.poll_driver();
    streams[0].expect_silence();
}

/// S3.22: a request of the server on behalf of a client's request goes to its stream, and nowhere else.
#[test]
fn server_sends_a_related_request_on_the_stream_of_its_request() {
    let router = Router::new("x", "1").tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
        let answer =
            cx.elicit("name", ElicitParams::form("Your name?", ElicitSchema::new(Map::new()))).await?;
        Ok::<_, HandlerError>(format!("{:?}", answer.action))
    });
    let mut web = HttpHarness::new(router);
    let session = web.open_with(LEGACY, json!({"elicitation": {}}));
    let mut events = web.get(&session, None);
    events.poll_exchange();
    let mut caller = call(&mut web, &session, "ask");
    let asked = caller.message();
    assert_eq!(asked["method"], "elicitation/create");
    events.expect_silence();
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    assert_eq!(web.post(&session, &answer).head().status, 202);
    assert_eq!(caller.message()["result"]["content"][0]["text"], "Decline");
    assert!(caller.ended);
}

/// S3.21, S3.22
#[test]
fn client_fetches_a_response_after_its_stream_was_closed() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let mut caller = call(&mut web, &session, "hold");
    caller.poll_exchange();
    held.context().close_sse_stream();
    web.poll_driver();
    caller.poll_exchange();
    assert!(caller.ended);
    assert_eq!(caller.try_message(), None);
    let last = caller.last_event().expect("an event id for resumption");
    drop(caller);
    held.release("at last");
    web.poll_driver();
    let mut again = web.get(&session, Some(&last));
    assert_eq!(again.message()["result"]["content"][0]["text"], "at last");
}

/// S3.22
#[test]
fn client_resumes_a_broken_stream_where_it_broke() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let params = json!({"name": "hold", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut caller = web.post_request(&session, "tools/call", params);
    let cx = held.context();
    cx.progress(1);
    assert_eq!(caller.message()["params"]["progress"], 1);
    let last = caller.last_event().unwrap();
    drop(caller);
    cx.progress(2);
    held.release("done");
    web.poll_driver();
    let mut again = web.get(&session, Some(&last));
    assert_eq!(again.message()["params"]["progress"], 2);
    assert_eq!(again.message()["result"]["content"][0]["text"], "done");
    assert!(again.ended);
}

#[test]
fn driver_is_woken_by_sessions_and_knows_their_deadlines() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    web.wakes.take();
    let mut caller = initialize(&web);
    assert_eq!(web.wakes.take(), 1, "a session has arrived");
    let session = field(&caller.head(), "mcp-session-id").unwrap().to_owned();
    web.poll_driver();
    assert!(web.driver.as_ref().unwrap().next_timeout().is_some(), "it may expire");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    web.post(&session, &ready);
    let caller = call(&mut web, &session, "hold");
    web.wakes.take();
    held.release("done");
    assert_eq!(web.wakes.take(), 1, "its handler is ready");
    drop(caller);
}

#[test]
fn server_without_its_driver_refuses_sessions() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let mut caller = call(&mut web, &session, "hold");
    caller.poll_exchange();
    let cx = held.context();
    web.driver = None;
    assert_eq!(held.dropped_count(), 1);
    assert!(cx.is_cancelled());
    caller.poll_exchange();
    assert!(caller.ended);
    assert_eq!(web.post_request(&session, "ping", json!({})).head().status, 404);
    assert_eq!(initialize(&web).head().status, 503);
}

#[test]
fn closing_server_lets_the_requests_of_sessions_finish() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let idle = web.open();
    let mut events = web.get(&session, None);
    events.poll_exchange();
    let mut caller = call(&mut web, &session, "hold");
    caller.poll_exchange();
    web.wakes.take();
    web.server.close();
    assert_eq!(web.wakes.take(), 1);
    web.poll_driver();
    assert!(!web.done);
    // Its client opens a new session, at another instance.
    assert_eq!(web.post_request(&idle, "ping", json!({})).head().status, 404);
    held.release("in time");
    web.poll_driver();
    assert!(web.done);
    assert_eq!(caller.message()["result"]["content"][0]["text"], "in time");
    events.poll_exchange();
    assert!(events.ended && caller.ended);
}

#[test]
fn closing_server_answers_unfinished_requests_of_sessions_with_errors() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let mut caller = call(&mut web, &session, "hold");
    caller.poll_exchange();
    web.server.close();
    web.poll_driver();
    assert!(!web.done);
    web.advance(web.server.config().server.close_timeout);
    assert!(web.done);
    assert_eq!(held.dropped_count(), 1);
    assert_eq!(caller.message()["error"]["code"], -32603);
    assert!(caller.ended);
}

/// Both eras are served at once.
#[test]
fn server_answers_modern_requests_beside_sessions() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let mut modern: Value = web.call("add", json!({"a": 1, "b": 1})).json();
    assert_eq!(modern["result"]["content"][0]["text"].take(), "2");
    assert_eq!(web.post_request(&session, "ping", json!({})).message()["result"], json!({}));
}

// --- 2024-11-05 ---

#[test]
fn http_sse_client_has_one_stream_and_ends_with_it() {
    let (router, held) = router();
    let mut web = HttpHarness::configured(router, |config| {
        config.path = Some("/mcp".into());
        config.legacy_sse = Some(Default::default());
    });
    let mut events = web.send_to("/sse", "GET", &[], "");
    let (name, endpoint) = events.raw_event();
    assert_eq!(name, "endpoint");
    let endpoint = String::from_utf8(endpoint).unwrap();
    let post = |web: &mut HttpHarness, message: &Value| {
        let mut caller = web.send_to(&endpoint, "POST", &[], &message.to_string());
        assert_eq!(caller.head().status, 202);
        web.poll_driver();
    };
    let info = json!({"name": "tester", "version": "1"});
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": info});
    post(&mut web, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    assert_eq!(events.message()["result"]["protocolVersion"], "2024-11-05");
    post(&mut web, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    web.server.list_changed(ListKind::Tools);
    web.poll_driver();
    assert_eq!(events.message()["method"], "notifications/tools/list_changed");
    let params = json!({"name": "hold", "arguments": {}});
    post(&mut web, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let cx = held.context();
    drop(events);
    web.poll_driver();
    assert_eq!(held.dropped_count(), 1);
    assert!(cx.is_cancelled());
    let mut late = web.send_to(
        &endpoint,
        "POST",
        &[],
        &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string(),
    );
    assert_eq!(late.head().status, 404);
}

/// S10.9: a session id proves no identity: for another principal than that of the handshake it is unknown.
#[test]
fn session_exists_only_for_its_principal() {
    let router = Router::new("x", "1").tool_with(tool("who"), async |NoArguments {}, cx: Context| {
        cx.principal().map_or_else(|| "nobody".to_owned(), |principal| principal.as_str().to_owned())
    });
    let mut web = HttpHarness::new(router);
    let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
    web.principal = Some(alice.clone());
    let session = web.open();
    for other in [Some(bob.clone()), None] {
        web.principal = other;
        assert_eq!(call(&mut web, &session, "who").head().status, 404);
        assert_eq!(web.get(&session, None).head().status, 404);
        assert_eq!(web.delete(&session).status, 404);
    }
    web.principal = Some(alice);
    assert_eq!(call(&mut web, &session, "who").message()["result"]["content"][0]["text"], "alice");
    // A request of 2026-07-28 belongs to its sender.
    web.principal = Some(bob);
    assert_eq!(web.call("who", json!({})).message()["result"]["content"][0]["text"], "bob");
    web.principal = None;
    assert_eq!(web.call("who", json!({})).message()["result"]["content"][0]["text"], "nobody");
    let session = web.open();
    web.principal = Some(Principal::new(""));
    assert_eq!(call(&mut web, &session, "who").head().status, 404);
}

/// S5.8: the application sees the union of the subscriptions of both eras.
#[test]
fn application_learns_which_resources_have_subscribers() {
    let mut web = HttpHarness::new(router().0);
    let mut events = web.server.events();
    let (one, other) = (web.open(), web.open());
    let heard = |events: &mut mcp_proto::front::Events<HttpServerEvent>| events.drain();
    let subscribed = |uri: &str| HttpServerEvent::Subscribed { uri: uri.into() };
    let unsubscribed = |uri: &str| HttpServerEvent::Unsubscribed { uri: uri.into() };
    let ask = |web: &mut HttpHarness, session: &str, method: &str| {
        web.post_request(session, method, json!({"uri": "note:///a"})).message();
    };
    let (wakes, waker) = crate::common::polling::WakeCounter::new();
    assert!(
        crate::common::polling::poll_with(&mut crate::common::polling::boxed(events.next()), &waker)
            .is_pending()
    );
    ask(&mut web, &one, "resources/subscribe");
    assert_eq!(wakes.take(), 1);
    assert_eq!(heard(&mut events), [subscribed("note:///a")]);
    ask(&mut web, &other, "resources/subscribe");
    let filter = json!({"resourceSubscriptions": ["note:///a", "note:///b"]});
    let mut listening = web.ask("subscriptions/listen", json!({"notifications": filter}));
    assert_eq!(listening.message()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(heard(&mut events), [subscribed("note:///b")]);
    assert_eq!(web.server.handle().subscribed_resources(), ["note:///a", "note:///b"]);
    ask(&mut web, &one, "resources/unsubscribe");
    drop(listening);
    assert_eq!(heard(&mut events), [unsubscribed("note:///b")]);
    // The end of a session ends its subscriptions.
    web.delete(&other);
    web.poll_driver();
    assert_eq!(heard(&mut events), [unsubscribed("note:///a")]);
    assert_eq!(web.server.handle().subscribed_resources(), Vec::<String>::new());
    web.server.close();
    assert_eq!(heard(&mut events), [HttpServerEvent::Closed]);
    assert!(matches!(
        crate::common::polling::poll(&mut crate::common::polling::boxed(events.next())),
        core::task::Poll::Ready(None)
    ));
}
