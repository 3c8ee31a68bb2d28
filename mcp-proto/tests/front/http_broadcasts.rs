//! Messages of the application to the clients of a server over HTTP, outside of requests.

use std::sync::Arc;

use crate::common::front_http::{HttpHarness, TestExchange, router};
use mcp_proto::front::Error;
use mcp_proto::front::tasks::TaskConfig;
use mcp_proto::peer::RequestError;
use mcp_proto::schema::LoggingLevel;
use serde_json::{Value, json};

/// The open stream of a session whose client has set this level.
fn stream(web: &mut HttpHarness, level: Option<&str>) -> TestExchange {
    let session = web.open();
    if let Some(level) = level {
        let set = web.post_request(&session, "logging/setLevel", json!({"level": level})).message();
        assert_eq!(set["result"], json!({}));
    }
    let mut stream = web.get(&session, None);
    stream.poll_exchange();
    stream
}

fn next(web: &mut HttpHarness, stream: &mut TestExchange) -> Option<Value> {
    web.poll_driver();
    stream.try_message()
}

#[test]
fn server_logs_to_sessions_that_set_a_level() {
    let mut web = HttpHarness::new(router().0);
    let mut warned = stream(&mut web, Some("warning"));
    let mut debugging = stream(&mut web, Some("debug"));
    let mut unset = stream(&mut web, None);
    web.server.log(LoggingLevel::Info, None, "started");
    web.server.handle().log(LoggingLevel::Error, Some("disk".into()), json!({"free": 0}));
    let messages: Vec<Value> = std::iter::from_fn(|| next(&mut web, &mut debugging)).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["method"], "notifications/message");
    assert_eq!(messages[0]["params"], json!({"level": "info", "data": "started"}));
    let error = json!({"level": "error", "logger": "disk", "data": {"free": 0}});
    assert_eq!(messages[1]["params"], error);
    assert_eq!(next(&mut web, &mut warned).unwrap()["params"], error);
    assert_eq!(next(&mut web, &mut warned), None);
    assert_eq!(next(&mut web, &mut unset), None);
}

/// S5.6, S8.18
#[test]
fn server_sends_modern_clients_nothing_outside_of_their_requests() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut listener = web.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(listener.message()["method"], "notifications/subscriptions/acknowledged");
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let mut caller = web.ask("tools/call", json!({"name": "hold", "arguments": {}, "_meta": meta}));
    caller.poll_exchange();
    let cx = held.context();
    web.server.log(LoggingLevel::Emergency, None, "to sessions");
    web.server.notify_custom("com.example/paperLow", json!({})).unwrap();
    web.poll_driver();
    listener.expect_silence();
    caller.expect_silence();
    cx.log(LoggingLevel::Debug, "to the request");
    assert_eq!(caller.message()["params"]["data"], "to the request");
    listener.expect_silence();
}

#[test]
fn log_messages_do_not_wait_for_a_stream() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    web.post_request(&session, "logging/setLevel", json!({"level": "debug"})).message();
    web.server.log(LoggingLevel::Error, None, "unread");
    web.poll_driver();
    let mut stream = web.get(&session, None);
    assert_eq!(next(&mut web, &mut stream), None);
    web.server.log(LoggingLevel::Error, None, "read");
    assert_eq!(next(&mut web, &mut stream).unwrap()["params"]["data"], "read");
}

#[test]
fn server_sends_custom_notifications_to_all_sessions() {
    let mut web = HttpHarness::new(router().0);
    let mut streams = [stream(&mut web, None), stream(&mut web, Some("error"))];
    // It waits for its stream.
    let later = web.open();
    web.server.notify_custom("com.example/paperLow", json!({"sheets": 99})).unwrap();
    web.server.notify_custom("com.example/paperLow", json!({"sheets": 12})).unwrap();
    web.server.notify_custom("com.example/empty", Value::Null).unwrap();
    web.poll_driver();
    let [one, other] = &mut streams;
    let mut last = web.get(&later, None);
    for stream in [one, other, &mut last] {
        let first = next(&mut web, stream).unwrap();
        assert_eq!((&first["method"], first.get("id")), (&json!("com.example/paperLow"), None));
        assert_eq!(next(&mut web, stream).unwrap()["params"], json!({"sheets": 12}));
        assert_eq!(next(&mut web, stream).unwrap()["method"], "com.example/empty");
        assert_eq!(next(&mut web, stream), None);
    }
}

#[test]
fn server_does_not_broadcast_notifications_of_the_protocol_or_other_values_than_objects() {
    let web = HttpHarness::new(router().0);
    let refused = web.server.notify_custom("notifications/progress", json!({})).unwrap_err();
    assert!(matches!(refused, Error::NotSent(RequestError::Reserved { .. })), "{refused}");
    let refused = web.server.notify_custom("com.example/list", json!([1])).unwrap_err();
    assert!(matches!(refused, Error::NotSent(RequestError::Encode(_))), "{refused}");
}

/// One session whose client does not read, and one whose driver is late: the queues are bounded, and others go on.
#[test]
fn a_slow_session_loses_messages_and_delays_no_other() {
    let mut web = HttpHarness::configured(router().0, |config| {
        Arc::make_mut(&mut config.server).limits.queued_bytes = 10_000;
    });
    let mut slow = stream(&mut web, Some("debug"));
    let mut quick = stream(&mut web, Some("debug"));
    let text = "x".repeat(1000);
    for _ in 0..100 {
        web.server.log(LoggingLevel::Info, None, &text);
        assert!(next(&mut web, &mut quick).is_some());
    }
    let received = std::iter::from_fn(|| slow.try_message()).count();
    assert!((9..15).contains(&received), "{received}");
    // It has read, and receives what follows.
    web.server.log(LoggingLevel::Info, None, "again");
    assert_eq!(next(&mut web, &mut slow).unwrap()["params"]["data"], "again");

    // While nothing polls the driver, at most 256 messages wait.
    next(&mut web, &mut quick);
    let mut web = HttpHarness::new(router().0);
    let mut late = stream(&mut web, Some("debug"));
    for number in 0..1000 {
        web.server.log(LoggingLevel::Info, None, number);
    }
    web.poll_driver();
    let received: Vec<Value> = std::iter::from_fn(|| late.try_message()).collect();
    assert_eq!(received.len(), 256);
    assert_eq!(received[255]["params"]["data"], 255);
    for _ in 0..10 {
        web.server.log(LoggingLevel::Info, None, "x".repeat(300_000));
    }
    web.poll_driver();
    assert_eq!(std::iter::from_fn(|| late.try_message()).count(), 3, "of 1 MiB at most");
}

#[test]
fn server_that_does_not_declare_logging_logs_nothing() {
    let router = mcp_proto::front::Router::new("quiet", "1").tasks(TaskConfig::default());
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let mut stream = web.get(&session, None);
    stream.poll_exchange();
    web.server.log(LoggingLevel::Emergency, None, "unheard");
    assert_eq!(next(&mut web, &mut stream), None);
    web.server.close();
    web.server.log(LoggingLevel::Emergency, None, "too late");
    web.poll_driver();
}
