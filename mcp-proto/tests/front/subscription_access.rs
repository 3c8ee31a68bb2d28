//! Subscriptions to resources that the router refuses.

use std::sync::{Arc, Mutex};

use crate::common::front_http::HttpHarness;
use crate::common::router::ServerHarness;
use mcp_proto::front::{Router, ServerEvent};
use mcp_proto::peer::Principal;
use mcp_proto::schema::ServerCapability;
use serde_json::{Value, json};

/// A router whose public resource anyone may watch, and any other only the principal that its URI names.
fn router() -> Router {
    Router::new("mail", "1").declare(ServerCapability::ResourcesSubscribe).subscription_access(
        |uri, principal| {
            uri == "mail:///public"
                || principal.is_some_and(|principal| uri == format!("mail:///{}", principal.as_str()))
        },
    )
}

fn filter() -> Value {
    json!({"notifications": {"resourceSubscriptions": ["mail:///alice", "mail:///public", "mail:///bob"]}})
}

fn granted(acknowledged: &Value) -> &Value {
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    &acknowledged["params"]["notifications"]["resourceSubscriptions"]
}

/// S5.2
#[test]
fn server_acknowledges_a_subscription_without_the_refused_resources() {
    let mut s = ServerHarness::modern(router());
    s.send("subscriptions/listen", filter());
    assert_eq!(granted(&s.line()), &json!(["mail:///public"]));
    s.handle.resource_updated("mail:///alice");
    s.expect_silence();
    s.handle.resource_updated("mail:///public");
    assert_eq!(s.line()["params"]["uri"], "mail:///public");
}

#[test]
fn server_grants_a_principal_its_own_resources() {
    let mut s = ServerHarness::modern(router());
    s.driver.lock(|machine, now| machine.at(now).set_principal(Some(Principal::new("alice"))));
    s.send("subscriptions/listen", filter());
    assert_eq!(granted(&s.line()), &json!(["mail:///alice", "mail:///public"]));
}

#[test]
fn server_acknowledges_a_subscription_whose_resources_are_all_refused() {
    let mut s = ServerHarness::modern(router());
    let mut events = s.handle.events();
    s.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["mail:///bob"]}}));
    assert_eq!(granted(&s.line()), &json!([]));
    assert!(events.drain().is_empty());
}

/// S5.8
#[test]
fn server_refuses_the_subscription_of_a_legacy_client_like_an_unknown_resource() {
    let mut s = ServerHarness::legacy(router());
    let mut events = s.handle.events();
    let error = s.error("resources/subscribe", json!({"uri": "mail:///bob"}));
    assert_eq!((&error["code"], &error["data"]), (&json!(-32002), &json!({"uri": "mail:///bob"})));
    assert_eq!(s.result("resources/subscribe", json!({"uri": "mail:///public"})), json!({}));
    // Unsubscribing from a refused resource does nothing.
    s.result("resources/unsubscribe", json!({"uri": "mail:///bob"}));
    let subscribed = |event: &ServerEvent| match event {
        ServerEvent::Subscribed { uri } => uri == "mail:///public",
        _ => false,
    };
    let events = events.drain();
    assert_eq!(events.iter().filter(|event| subscribed(event)).count(), 1, "{events:?}");
    s.handle.resource_updated("mail:///bob");
    s.expect_silence();
    s.handle.resource_updated("mail:///public");
    assert_eq!(s.line()["params"]["uri"], "mail:///public");
}

#[test]
fn server_over_http_refuses_resources_by_principal_in_both_eras() {
    let mut web = HttpHarness::new(router());
    web.principal = Some(Principal::new("bob"));
    let mut listener = web.ask("subscriptions/listen", filter());
    assert_eq!(granted(&listener.message()), &json!(["mail:///public", "mail:///bob"]));
    web.server.resource_updated("mail:///alice");
    listener.expect_silence();
    web.server.resource_updated("mail:///bob");
    assert_eq!(listener.message()["params"]["uri"], "mail:///bob");

    let session = web.open();
    let refused =
        web.post_request(&session, "resources/subscribe", json!({"uri": "mail:///alice"})).message();
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    let granted = web.post_request(&session, "resources/subscribe", json!({"uri": "mail:///bob"})).message();
    assert_eq!(granted["result"], json!({}));
    assert_eq!(web.server.handle().subscribed_resources(), ["mail:///bob", "mail:///public"]);
}

#[test]
fn server_asks_once_for_each_resource() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let router = Router::new("x", "1").declare(ServerCapability::ResourcesSubscribe).subscription_access(
        move |uri, _| {
            log.lock().unwrap().push(uri.to_owned());
            true
        },
    );
    let mut s = ServerHarness::modern(router);
    s.send(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": ["a:b", "a:c", "a:b"]}}),
    );
    s.line();
    assert_eq!(*asked.lock().unwrap(), ["a:b", "a:c"]);
}
