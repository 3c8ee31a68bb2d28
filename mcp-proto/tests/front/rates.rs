//! The rates of tool calls and completions.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front_http::{HttpHarness, field};
use crate::common::router::ServerHarness;
use crate::common::tools::{prompt, tool};
use mcp_proto::Instant;
use mcp_proto::front::{Context, LimitedCall, NoArguments, Router};
use mcp_proto::peer::client::{ClientConfig, Diagnostic, Event};
use mcp_proto::peer::{Outcome, Principal, RequestOptions};
use mcp_proto::quota::RateLimit;
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    CallTool, CallToolParams, Complete, CompleteParams, CompleteResult, Completion, Implementation,
};
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::{FrontPeer, HttpPair};
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig};
use mcp_proto::transport::http::server::HttpServerConfig;
use serde_json::{Value, json};

fn completing() -> Router {
    typist().completion(async |_: CompleteParams, _| vec!["rust".to_string()])
}

/// A server with a prompt `p` whose argument `a` can be completed.
fn typist() -> Router {
    Router::new("typist", "1").prompt(prompt("p", "a"), async |NoArguments {}, _| "")
}

fn completion() -> Value {
    json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "r"}})
}

fn tools() -> Router {
    Router::new("tools", "1")
        .tool_with(tool("work"), async |NoArguments {}, _| "done")
        .tool_with(tool("rest"), async |NoArguments {}, _| "rested")
}

/// How many of `count` completions are answered by values.
fn answered(s: &mut ServerHarness, count: usize) -> usize {
    (0..count).filter(|_| s.request("completion/complete", completion())["result"].is_object()).count()
}

/// S8.17
#[test]
fn server_answers_forty_completions_at_once_and_twenty_a_second() {
    for mut s in [ServerHarness::modern(completing()), ServerHarness::legacy(completing())] {
        assert_eq!(answered(&mut s, 100), 40);
        let error = s.error("completion/complete", completion());
        assert_eq!(error["code"], code::INTERNAL_ERROR);
        assert_eq!(error["message"], "too many completion requests: try again in 50 ms");
        s.advance(Duration::from_millis(50));
        assert_eq!(answered(&mut s, 10), 1);
        s.advance(Duration::from_secs(1));
        assert_eq!(answered(&mut s, 100), 20);
    }
}

/// S8.17: the handler knows who asks, so it can omit what this client may not know.
#[test]
fn handler_of_completions_sees_the_principal() {
    let router = typist().completion(async |_: CompleteParams, cx: Context| {
        cx.principal().map(|principal| principal.as_str().to_string()).into_iter().collect::<Vec<String>>()
    });
    let mut web = HttpHarness::new(router);
    for (name, values) in
        [(None, json!([])), (Some("alice"), json!(["alice"])), (Some("bob"), json!(["bob"]))]
    {
        web.principal = name.map(Principal::new);
        let answer = web.ask("completion/complete", completion()).json();
        assert_eq!(answer["result"]["completion"]["values"], values, "{answer}");
    }
}

/// S8.17: a person who types is far below the rate.
#[test]
fn completions_within_the_rate_are_all_answered() {
    let mut s = ServerHarness::modern(completing());
    for _ in 0..200 {
        assert_eq!(answered(&mut s, 1), 1);
        s.advance(Duration::from_millis(50));
    }
}

/// S8.17
#[test]
fn rate_of_completions_can_be_set_and_switched_off() {
    let mut s = ServerHarness::modern(completing().completion_rate(RateLimit::per_second(3)));
    assert_eq!(answered(&mut s, 10), 3);
    let mut s = ServerHarness::modern(completing().completion_rate(None));
    assert_eq!(answered(&mut s, 100), 100);
}

/// S8.17
#[test]
fn rate_holds_for_a_hand_written_handler_of_completions() {
    let router = typist()
        .handler::<Complete, _, _>(async |_, _| CompleteResult::new(Completion::new(vec!["rust".into()])));
    assert_eq!(answered(&mut ServerHarness::modern(router), 100), 40);
}

/// S8.8
#[test]
fn call_beyond_the_rate_is_a_result_that_says_when_to_call_again() {
    let router = || tools().tool_rate(RateLimit::per_second(2).burst(3));
    for mut s in [ServerHarness::modern(router()), ServerHarness::legacy(router())] {
        for _ in 0..3 {
            assert_eq!(s.call("work", json!({}))["content"][0]["text"], "done");
        }
        let refused = s.call("rest", json!({}));
        assert_eq!(refused["isError"], true);
        assert_eq!(refused["content"][0]["text"], "too many calls: try again in 500 ms");
        s.advance(Duration::from_millis(500));
        assert!(s.call("work", json!({})).get("isError").is_none());
        assert_eq!(s.call("work", json!({}))["isError"], true);
    }
}

/// S8.8
#[test]
fn calls_of_tools_have_no_rate_by_default() {
    let mut s = ServerHarness::modern(tools());
    assert!((0..200).all(|_| s.call("work", json!({})).get("isError").is_none()));
}

/// S8.8
#[test]
fn limiter_sees_tool_and_time_and_its_message_reaches_the_model() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let router = tools().tool_limiter(move |call: &LimitedCall<'_>| {
        log.lock().unwrap().push((call.tool.to_string(), call.time));
        if call.tool == "work" { Err("no work on Sundays") } else { Ok(()) }
    });
    let mut s = ServerHarness::modern(router);
    let refused = s.call("work", json!({}));
    assert_eq!(
        (&refused["isError"], &refused["content"][0]["text"]),
        (&json!(true), &json!("no work on Sundays"))
    );
    s.advance(Duration::from_secs(7));
    assert_eq!(s.call("rest", json!({}))["content"][0]["text"], "rested");
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0].0.as_str(), seen[1].0.as_str(), seen.len()), ("work", "rest", 2));
    assert_eq!(seen[1].1.saturating_since(seen[0].1), Duration::from_secs(7));
}

/// S8.8: a call that is refused costs neither validation nor the handler.
#[test]
fn call_beyond_the_rate_does_not_reach_its_handler() {
    let runs = Arc::new(Mutex::new(0));
    let count = runs.clone();
    let router = Router::new("tools", "1")
        .tool_with(tool("work"), move |NoArguments {}, _| {
            *count.lock().unwrap() += 1;
            async { "done" }
        })
        .tool_rate(RateLimit::per_second(1));
    let mut s = ServerHarness::modern(router);
    for _ in 0..10 {
        s.call("work", json!({}));
    }
    assert_eq!(*runs.lock().unwrap(), 1);
}

/// S8.8: owners do not use up each other's rates, and no owner gains by another connection.
#[test]
fn rate_holds_for_each_address_over_all_its_connections() {
    let mut web = HttpHarness::new(tools().tool_rate(RateLimit::per_second(1).burst(2)));
    let mut called = |address: &str| {
        web.client = address.parse().ok();
        let answer = web.call("work", json!({})).json();
        answer["result"].get("isError").is_none()
    };
    assert_eq!([called("192.0.2.1"), called("192.0.2.1"), called("192.0.2.1")], [true, true, false]);
    assert_eq!([called("192.0.2.2"), called("192.0.2.2"), called("192.0.2.2")], [true, true, false]);
}

// --- HTTP requests ---

fn limited() -> HttpHarness {
    HttpHarness::configured(tools(), |config| config.request_rate = Some(RateLimit::per_minute(30).burst(3)))
}

#[test]
fn request_beyond_the_rate_gets_429_before_its_body() {
    let mut web = limited();
    for _ in 0..3 {
        assert_eq!(web.call("work", json!({})).head().status, 200);
    }
    let mut refused = web.send("POST", &[("mcp-protocol-version", "2026-07-28")], "");
    assert!(!refused.exchange.wants_body());
    let head = refused.head();
    assert_eq!((head.status, field(&head, "retry-after")), (429, Some("2")));
    let error = refused.json();
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(code::INTERNAL_ERROR), None));
    assert_eq!(error["error"]["message"], "too many requests: try again in 2 s");
    let error = web.send("POST", &[], "").json();
    assert_eq!(error["id"], Value::Null, "errors of earlier revisions have an id");
    assert_eq!(web.send("GET", &[], "").head().status, 429);
    web.advance(Duration::from_secs(2));
    assert_eq!(web.call("work", json!({})).head().status, 200);
    assert_eq!(web.call("work", json!({})).head().status, 429);
}

#[test]
fn owners_have_request_rates_of_their_own() {
    let mut web = limited();
    let mut statuses = |address: &str| -> Vec<u16> {
        web.client = address.parse().ok();
        (0..4).map(|_| web.call("work", json!({})).head().status).collect()
    };
    assert_eq!(statuses("192.0.2.1"), [200, 200, 200, 429]);
    assert_eq!(statuses("192.0.2.2"), [200, 200, 200, 429]);
    assert_eq!(statuses("2001:db8::1"), [200, 200, 200, 429]);
    assert_eq!(statuses("2001:db8::2"), [429; 4], "a customer has a whole network of addresses");
}

#[test]
fn requests_have_no_rate_by_default() {
    let mut web = HttpHarness::new(tools());
    assert!((0..300).all(|_| web.call("work", json!({})).head().status == 200));
}

/// A client of this crate waits for the time in `Retry-After`, and then sends the call again.
#[test]
fn client_of_this_crate_repeats_calls_beyond_the_rate() {
    let router = tools();
    let mut config = HttpServerConfig::new(router.config());
    config.request_rate = Some(RateLimit::per_second(1).burst(2));
    let peer = FrontPeer::new(router, config, Arc::new(SimulatedClock::default()), 7);
    let client = ClientConfig::new(Implementation::new("client", "1.0"));
    let client =
        HttpClient::new(HttpClientConfig::new(client, "http://localhost:3000/mcp"), Instant::ORIGIN).unwrap();
    let mut pair = HttpPair::new(client, Box::new(peer), 7);
    pair.advance(Duration::from_secs(1));
    for _ in 0..4 {
        let now = pair.now();
        let params = CallToolParams::new("work");
        pair.client.at(now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    }
    pair.advance(Duration::from_secs(30));
    let (mut results, mut delays) = (0, 0);
    while let Some(event) = pair.client.poll_event() {
        match event {
            Event::Outcome { outcome: Outcome::Result(_), .. } => results += 1,
            Event::Outcome { outcome, .. } => panic!("{outcome:?}"),
            Event::Diagnostic(Diagnostic::RequestDelayed { .. }) => delays += 1,
            _ => {}
        }
    }
    assert_eq!(results, 4);
    assert!(delays > 0);
}
