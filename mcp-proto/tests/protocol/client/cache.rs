//! The client's cache of results, on a stream and over HTTP.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>

mod invalidation;
mod over_http;
mod stale;

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{
    CacheConfig, CacheContext, ClientConfig, Diagnostic, EraPolicy, Event, WatchFilter, WatchStart,
};
use mcp_proto::peer::{CacheMode, InputMode, LostReason, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, Discover, EmptyParams, GetPrompt, GetPromptParams, InputResponses, ListPrompts,
    ListResourceTemplates, ListResources, ListTools, Meta, Method, PaginatedParams, ReadResource,
    ReadResourceParams,
};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

fn ask<M: Method>(s: &mut ClientHarness, params: &M::Params) -> RequestId {
    ask_with::<M>(s, params, RequestOptions::default())
}

fn ask_with<M: Method>(s: &mut ClientHarness, params: &M::Params, options: RequestOptions) -> RequestId {
    s.client.at(s.now).request::<M>(params, options).unwrap()
}

fn using(cache: CacheMode) -> RequestOptions {
    RequestOptions::default().cache(cache)
}

fn first() -> PaginatedParams {
    PaginatedParams::new()
}

fn hinted(mut result: Value, ttl_ms: u64, scope: &str) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(ttl_ms);
    result["cacheScope"] = json!(scope);
    result
}

fn tools(name: &str, ttl_ms: u64) -> Value {
    hinted(json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}]}), ttl_ms, "public")
}

fn contents(text: &str, ttl_ms: u64) -> Value {
    hinted(json!({"contents": [{"uri": "x://a", "text": text}]}), ttl_ms, "private")
}

/// Sends a request that the cache does not answer; the server responds with `result`.
fn fetch<M: Method>(s: &mut ClientHarness, params: &M::Params, result: Value) -> Value {
    fetch_with::<M>(s, params, RequestOptions::default(), result)
}

fn fetch_with<M: Method>(
    s: &mut ClientHarness,
    params: &M::Params,
    options: RequestOptions,
    result: Value,
) -> Value {
    let request = ask_with::<M>(s, params, options);
    let id = s.expect(M::NAME);
    s.answer(&id, result);
    value(s.outcome(request))
}

/// Sends a request that the cache answers.
fn cached<M: Method>(s: &mut ClientHarness, params: &M::Params) -> Value {
    let request = ask::<M>(s, params);
    s.expect_silence();
    value(s.outcome(request))
}

fn value(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Result(raw) => serde_json::from_str(raw.as_str()).unwrap(),
        other => panic!("no result: {other:?}"),
    }
}

/// C8.3: the whole way, for each method that the specification names.
#[test]
fn client_requests_a_cacheable_result_once() {
    fn check<M: Method>(params: &M::Params, result: Value) {
        let mut s = ClientHarness::modern(config());
        let answer = fetch::<M>(&mut s, params, hinted(result, 60_000, "private"));
        s.advance(Duration::from_millis(59_999));
        assert_eq!(cached::<M>(&mut s, params), answer, "{}", M::NAME);
        s.advance(Duration::from_millis(1));
        fetch::<M>(&mut s, params, answer);
    }
    check::<Discover>(&EmptyParams::new(), json!({"supportedVersions": [], "capabilities": {}}));
    check::<ListTools>(&first(), json!({"tools": []}));
    check::<ListPrompts>(&first(), json!({"prompts": []}));
    check::<ListResources>(&first(), json!({"resources": []}));
    check::<ListResourceTemplates>(&first(), json!({"resourceTemplates": []}));
    check::<ReadResource>(&ReadResourceParams::new("x://a"), json!({"contents": []}));
}

#[test]
fn cached_result_is_reported_after_earlier_events() {
    let mut s = ClientHarness::modern(config());
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
    let slow = ask::<CallTool>(&mut s, &CallToolParams::new("slow"));
    let id = s.expect("tools/call");
    s.answer(&id, json!({"resultType": "complete", "content": []}));
    let request = ask::<ListTools>(&mut s, &first());
    assert_eq!(s.client.peer().in_flight(), 0);
    // The cache has already answered it.
    s.client.at(s.now).cancel(request, None);
    let ended: Vec<RequestId> = s
        .take_events()
        .into_iter()
        .map(|event| match event {
            Event::Outcome { request, outcome: Outcome::Result(_) } => request,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ended, [slow, request]);
    s.expect_silence();
}

/// C8.1, C9.1: the empty cursor is a page of its own.
#[test]
fn cache_key_includes_cursor_and_uri_but_no_metadata() {
    let mut s = ClientHarness::modern(config());
    let page = |name: &str, next: &str| {
        let mut page = tools(name, 60_000);
        page["nextCursor"] = json!(next);
        page
    };
    fetch::<ListTools>(&mut s, &first(), page("a", ""));
    fetch::<ListTools>(&mut s, &PaginatedParams::at(""), page("b", "2"));
    fetch::<ListTools>(&mut s, &PaginatedParams::at("2"), tools("c", 60_000));
    for (cursor, name) in [(None, "a"), (Some(""), "b"), (Some("2"), "c")] {
        let params = cursor.map_or_else(first, PaginatedParams::at);
        assert_eq!(cached::<ListTools>(&mut s, &params)["tools"][0]["name"], name);
    }
    fetch::<ReadResource>(&mut s, &ReadResourceParams::new("x://a"), contents("a", 60_000));
    fetch::<ReadResource>(&mut s, &ReadResourceParams::new("x://b"), contents("b", 60_000));
    let mut extended = ReadResourceParams::new("x://a");
    extended.extra.insert("range", "0-9");
    fetch::<ReadResource>(&mut s, &extended, contents("part", 60_000));

    let mut meta = Meta::new();
    meta.insert("com.example/trace", "1");
    let options = RequestOptions::default().meta(meta.clone());
    let request = ask_with::<ReadResource>(&mut s, &ReadResourceParams::new("x://a"), options);
    assert_eq!(value(s.outcome(request))["contents"][0]["text"], "a");
    let mut params = ReadResourceParams::new("x://a");
    params.meta = meta;
    assert_eq!(cached::<ReadResource>(&mut s, &params)["contents"][0]["text"], "a");
    assert_eq!(cached::<ReadResource>(&mut s, &extended)["contents"][0]["text"], "part");
}

/// C8.6: each page has its own lifetime.
#[test]
fn client_requests_only_the_expired_page_again() {
    let mut s = ClientHarness::modern(config());
    let mut one = tools("a", 60_000);
    one["nextCursor"] = json!("2");
    fetch::<ListTools>(&mut s, &first(), one);
    fetch::<ListTools>(&mut s, &PaginatedParams::at("2"), tools("b", 1_000));
    s.advance(SECOND);
    cached::<ListTools>(&mut s, &first());
    fetch::<ListTools>(&mut s, &PaginatedParams::at("2"), tools("b", 1_000));
}

/// C8.6
#[test]
fn invalid_cursor_evicts_all_pages_of_its_list() {
    let mut s = ClientHarness::modern(config());
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
    fetch::<ListTools>(&mut s, &PaginatedParams::at("2"), tools("b", 60_000));
    fetch::<ListPrompts>(&mut s, &first(), hinted(json!({"prompts": []}), 60_000, "public"));
    let request = ask::<ListTools>(&mut s, &PaginatedParams::at("3"));
    let id = s.expect("tools/list");
    s.answer_error(&id, -32602, None);
    assert!(matches!(s.outcome(request), Outcome::Error(_)));
    cached::<ListPrompts>(&mut s, &first());
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
    fetch::<ListTools>(&mut s, &PaginatedParams::at("2"), tools("b", 60_000));
    // A request without a cursor has no cursor that could be invalid.
    let request = ask_with::<ListTools>(&mut s, &first(), using(CacheMode::Refresh));
    let id = s.expect("tools/list");
    s.answer_error(&id, -32602, None);
    assert!(matches!(s.outcome(request), Outcome::Error(_)));
    cached::<ListTools>(&mut s, &first());
}

/// C8.3: absent, zero or negative hints, and the hints of incomplete results.
#[test]
fn client_requests_an_uncacheable_result_each_time() {
    let mut s = ClientHarness::modern(config());
    let odd = [
        json!({"resultType": "complete", "tools": []}),
        json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "public"}),
        json!({"resultType": "complete", "tools": [], "ttlMs": -5, "cacheScope": "public"}),
        json!({"resultType": "complete", "tools": [], "cacheScope": "public"}),
    ];
    for result in odd {
        fetch::<ListTools>(&mut s, &first(), result.clone());
        fetch::<ListTools>(&mut s, &first(), result);
    }
    // Results of other methods have hints too, which the specification does not define.
    fetch::<CallTool>(&mut s, &CallToolParams::new("t"), hinted(json!({"content": []}), 60_000, "public"));
    fetch::<CallTool>(&mut s, &CallToolParams::new("t"), hinted(json!({"content": []}), 60_000, "public"));
    assert_eq!(s.client.peer().cache_usage().entries, 0);

    let request = ask::<ListTools>(&mut s, &first());
    let id = s.expect("tools/list");
    let mut strange = tools("a", 60_000);
    strange["resultType"] = json!("partial");
    s.answer(&id, strange);
    assert!(matches!(s.outcome(request), Outcome::Invalid(_)));
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
}

/// C8.3: legacy revisions define no caching.
#[test]
fn client_caches_no_results_of_a_legacy_server() {
    let mut s = ClientHarness::legacy(config());
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));

    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    let early = ask::<ListTools>(&mut s, &first());
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer(&id, crate::common::messages::initialize_result(crate::common::messages::LEGACY));
    s.line();
    let id = s.expect("tools/list");
    s.answer(&id, tools("a", 60_000));
    assert!(matches!(s.outcome(early), Outcome::Result(_)));
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
}

#[test]
fn request_that_waited_for_the_handshake_fills_the_cache() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    let early = ask::<ListTools>(&mut s, &first());
    s.answer(&id, crate::common::messages::discover_result());
    let id = s.expect("tools/list");
    s.answer(&id, tools("a", 60_000));
    value(s.outcome(early));
    cached::<ListTools>(&mut s, &first());
}

/// C8.4: the client fetches a list again when the application needs it.
#[test]
fn client_does_not_refresh_the_cache_on_its_own() {
    let mut s = ClientHarness::modern(config());
    fetch::<ListTools>(&mut s, &first(), tools("a", 1_000));
    assert_eq!(s.client.poll_timeout(), None, "the cache needs no timer");
    s.advance(Duration::from_secs(3600));
    s.notify("notifications/tools/list_changed", json!({}));
    s.expect_silence();
    fetch::<ListTools>(&mut s, &first(), tools("b", 1_000));
}

/// Whether the request reaches the server, which then answers.
fn reaches_server<M: Method>(s: &mut ClientHarness, params: &M::Params, result: Value) -> bool {
    let request = ask::<M>(s, params);
    let line = s.try_line();
    if let Some(line) = &line {
        s.answer(&line["id"], result);
    }
    value(s.outcome(request));
    line.is_some()
}

/// C5.8
#[test]
fn cache_ignores_requests_that_carry_input() {
    let mut s = ClientHarness::modern(config());
    let plain = ReadResourceParams::new("x://a");
    let mut resumed = plain.clone();
    resumed.request_state = Some("state".into());
    let mut answered = plain.clone();
    answered.input_responses = Some(InputResponses::new());
    let mut smuggled = plain.clone();
    smuggled.extra.insert("requestState", "state");
    for params in [&resumed, &answered, &smuggled] {
        fetch::<ReadResource>(&mut s, params, contents("after input", 60_000));
        fetch::<ReadResource>(&mut s, params, contents("after input", 60_000));
    }
    fetch::<ReadResource>(&mut s, &plain, contents("plain", 60_000));
    for params in [&resumed, &answered, &smuggled] {
        fetch::<ReadResource>(&mut s, params, contents("after input", 60_000));
    }
    assert_eq!(cached::<ReadResource>(&mut s, &plain)["contents"][0]["text"], "plain");
}

/// C5.8: the cache stores neither an `input_required` result, whatever its hints, nor the result of the retry.
#[test]
fn client_does_not_cache_the_result_of_an_input_round() {
    let mut config = config();
    config.cache.stale_if_error = Duration::from_secs(3600);
    let mut s = ClientHarness::modern(config);
    let read = ReadResourceParams::new("x://a");
    let needed =
        json!({"resultType": "input_required", "requestState": "s", "ttlMs": 60_000, "cacheScope": "public"});

    let request = ask_with::<ReadResource>(&mut s, &read, RequestOptions::default().input(InputMode::Manual));
    let id = s.expect("resources/read");
    s.answer(&id, needed.clone());
    assert!(matches!(s.outcome(request), Outcome::InputRequired(_)));

    let request = ask::<ReadResource>(&mut s, &read);
    let id = s.expect("resources/read");
    s.answer(&id, needed);
    let again = s.line();
    assert_eq!(again["params"]["requestState"], "s", "{again}");
    s.answer(&again["id"], contents("after input", 60_000));
    assert_eq!(value(s.outcome(request))["contents"][0]["text"], "after input");
    assert_eq!(s.client.peer().cache_usage().entries, 0);

    fetch::<ReadResource>(&mut s, &read, contents("plain", 60_000));
    assert_eq!(cached::<ReadResource>(&mut s, &read)["contents"][0]["text"], "plain");
}

/// C8.2
#[test]
fn client_uses_a_private_result_only_in_its_own_context() {
    let mut config = config();
    config.cache.context = CacheContext::new("alice");
    let mut s = ClientHarness::modern(config);
    let mine = ReadResourceParams::new("x://a");
    fetch::<ReadResource>(&mut s, &mine, contents("alice's", 60_000));
    fetch::<ListTools>(&mut s, &first(), tools("everyone's", 60_000));
    let late = ReadResourceParams::new("x://late");
    let request = ask::<ReadResource>(&mut s, &late);
    let id = s.expect("resources/read");

    s.client.at(s.now).set_cache_context(CacheContext::new("bob"));
    cached::<ListTools>(&mut s, &first());
    fetch::<ReadResource>(&mut s, &mine, contents("bob's", 60_000));
    s.answer(&id, contents("alice's, too", 60_000));
    value(s.outcome(request));
    fetch::<ReadResource>(&mut s, &late, contents("bob's, too", 60_000));

    s.client.at(s.now).set_cache_context(CacheContext::new("alice"));
    assert_eq!(cached::<ReadResource>(&mut s, &mine)["contents"][0]["text"], "alice's");
    fetch::<ReadResource>(&mut s, &late, contents("alice's again", 60_000));
    s.client.at(s.now).set_cache_context(CacheContext::new("bob"));
    assert_eq!(cached::<ReadResource>(&mut s, &mine)["contents"][0]["text"], "bob's");
}

/// C8.2: private results of an ended context never come back.
#[test]
fn client_forgets_private_answers_when_the_context_ends() {
    let mut s = ClientHarness::modern(config());
    let mine = ReadResourceParams::new("x://a");
    fetch::<ReadResource>(&mut s, &mine, contents("alice's", 60_000));
    fetch::<ListTools>(&mut s, &first(), tools("everyone's", 60_000));
    let late = ReadResourceParams::new("x://late");
    let request = ask::<ReadResource>(&mut s, &late);
    let id = s.expect("resources/read");

    s.client.at(s.now).end_cache_context();
    cached::<ListTools>(&mut s, &first());
    fetch::<ReadResource>(&mut s, &mine, contents("bob's", 60_000));
    // The result of a request made before the change goes to its caller and is not cached.
    s.answer(&id, contents("alice's, too", 60_000));
    assert_eq!(value(s.outcome(request))["contents"][0]["text"], "alice's, too");
    fetch::<ReadResource>(&mut s, &late, contents("bob's, too", 60_000));
    assert_eq!(cached::<ReadResource>(&mut s, &mine)["contents"][0]["text"], "bob's");
}

/// C8.2: not even where the server cannot be asked.
#[test]
fn client_shows_no_stale_answer_of_another_context() {
    let mut config = config();
    config.cache.stale_if_error = Duration::from_secs(600);
    let mut s = ClientHarness::modern(config);
    let mine = ReadResourceParams::new("x://a");
    fetch::<ReadResource>(&mut s, &mine, contents("alice's", 60_000));
    let request = ask_with::<ReadResource>(&mut s, &mine, using(CacheMode::Refresh));
    s.expect("resources/read");
    s.client.at(s.now).end_cache_context();
    s.end("gone");
    assert!(!matches!(s.outcome(request), Outcome::Result(_)));
}

#[test]
fn client_can_cache_public_results_only() {
    let mut config = config();
    config.cache.private = false;
    let mut s = ClientHarness::modern(config);
    let mine = ReadResourceParams::new("x://a");
    fetch::<ReadResource>(&mut s, &mine, contents("private", 60_000));
    fetch::<ReadResource>(&mut s, &mine, contents("private", 60_000));
    fetch::<ListTools>(&mut s, &first(), tools("public", 60_000));
    cached::<ListTools>(&mut s, &first());
}

#[test]
fn debug_output_hides_the_cache_context() {
    let shown = format!("{:?}", CacheContext::new("secret"));
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn request_can_choose_its_cache_mode() {
    let mut s = ClientHarness::modern(config());
    fetch_with::<ListTools>(&mut s, &first(), using(CacheMode::Bypass), tools("a", 60_000));
    fetch::<ListTools>(&mut s, &first(), tools("b", 60_000));
    fetch_with::<ListTools>(&mut s, &first(), using(CacheMode::Bypass), tools("c", 60_000));
    assert_eq!(cached::<ListTools>(&mut s, &first())["tools"][0]["name"], "b");
    fetch_with::<ListTools>(&mut s, &first(), using(CacheMode::Refresh), tools("d", 60_000));
    assert_eq!(cached::<ListTools>(&mut s, &first())["tools"][0]["name"], "d");
    s.client.at(s.now).clear_cache();
    fetch::<ListTools>(&mut s, &first(), tools("e", 60_000));
}

#[test]
fn cache_can_be_disabled() {
    let mut config = config();
    config.cache = CacheConfig::disabled();
    let mut s = ClientHarness::modern(config);
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
    fetch::<ListTools>(&mut s, &first(), tools("a", 60_000));
}

#[test]
fn cache_is_bounded_in_entries_and_bytes() {
    let mut config = config();
    config.cache.entries = 2;
    config.cache.bytes = 10_000;
    let mut s = ClientHarness::modern(config);
    for number in 0..5 {
        let params = ReadResourceParams::new(format!("x://{number}"));
        fetch::<ReadResource>(&mut s, &params, contents(&"a".repeat(1_000), 60_000));
        let used = s.client.peer().cache_usage();
        assert!(used.entries <= 2 && used.bytes <= 10_000, "{used:?}");
    }
    cached::<ReadResource>(&mut s, &ReadResourceParams::new("x://4"));
    let large = ReadResourceParams::new("x://large");
    fetch::<ReadResource>(&mut s, &large, contents(&"a".repeat(3_000), 60_000));
    fetch::<ReadResource>(&mut s, &large, contents(&"a".repeat(3_000), 60_000));
}

/// Allocations of a request that the cache does not concern: on the way to the server, and in total.
#[test]
fn cache_allocates_nothing_for_uncacheable_requests() {
    fn cost<M: Method>(
        config: ClientConfig,
        params: &M::Params,
        options: &RequestOptions,
        result: Value,
    ) -> (u64, u64) {
        let mut s = ClientHarness::modern(config);
        let mut out = Vec::with_capacity(1 << 16);
        let mut down = 0;
        let mut up = 0;
        // The first request of each kind allocates its buffers.
        for _ in 0..3 {
            let options = options.clone();
            let now = s.now;
            down = allocation_counter::measure(|| {
                s.client.at(now).request::<M>(params, options).unwrap();
                assert!(s.client.poll_transmit(&mut out));
            })
            .count_total;
            let line: Value = serde_json::from_slice(out.trim_ascii_end()).unwrap();
            out.clear();
            let answer = json!({"jsonrpc": "2.0", "id": line["id"], "result": result});
            let answer = mcp_proto::Bytes::from(format!("{answer}\n"));
            up = allocation_counter::measure(|| {
                s.client.handle_input(now, answer.clone());
                while s.client.poll_event().is_some() {}
            })
            .count_total;
        }
        (down, up)
    }
    let off = || {
        let mut config = config();
        config.cache = CacheConfig::disabled();
        config
    };
    let call = CallToolParams::new("t");
    let options = RequestOptions::default();
    let result = json!({"resultType": "complete", "content": []});
    let with = cost::<CallTool>(config(), &call, &options, result.clone());
    assert_eq!(with, cost::<CallTool>(off(), &call, &options, result));
    let result = tools("a", 60_000);
    let without = cost::<ListTools>(off(), &first(), &options, result.clone());
    let bypassed = cost::<ListTools>(config(), &first(), &using(CacheMode::Bypass), result.clone());
    assert_eq!(bypassed, without);
    let refreshed = cost::<ListTools>(config(), &first(), &using(CacheMode::Refresh), result);
    println!("allocations of a call {with:?}, of a list {without:?}, of one that is kept {refreshed:?}");
}
