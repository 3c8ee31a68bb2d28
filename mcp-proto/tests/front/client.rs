//! The handle of a client: requests as futures, progress, pages.

use core::task::Poll;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front::{ClientHarness, config};
use crate::common::messages::{answer, error, progress, text};
use crate::common::polling::{boxed, pending, poll, ready};
use mcp_proto::adapter::ClientDriver;
use mcp_proto::front::{Client, ClientHandlers, Error, ErrorOrigin, Event, Events, PagesError, Request};
use mcp_proto::peer::client::CacheContext;
use mcp_proto::peer::{CacheMode, LostReason, Outcome, RequestError, RequestOptions};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{CallTool, PromptReference};
use serde_json::{Value, json};

// --- Requests ---

#[test]
fn call_returns_its_result() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({"a": 2, "b": 3}));
    pending(poll(&mut call));
    let line = s.line();
    assert_eq!(line["method"], "tools/call");
    assert_eq!(line["params"]["name"], "add");
    assert_eq!(line["params"]["arguments"], json!({"a": 2, "b": 3}));
    s.answer(&line["id"], text("5"));
    assert_eq!(ready(poll(&mut call)).unwrap().text_content(), "5");
}

#[test]
fn a_request_is_not_sent_before_it_is_polled() {
    let mut s = ClientHarness::modern();
    let call = s.client.call_tool("add", json!({}));
    s.expect_silence();
    drop(call);
    s.expect_silence();
}

#[test]
fn request_made_before_the_handshake_waits_for_it() {
    let mut s = ClientHarness::open(config(), ClientHandlers::new());
    let id = s.expect("server/discover");
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    s.expect_silence();
    s.answer(
        &id,
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
        }),
    );
    let id = s.expect("tools/call");
    s.answer(&id, text("5"));
    assert!(ready(poll(&mut call)).is_ok());
}

/// F96, C9.6
#[test]
fn error_of_a_tool_is_a_result() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.answer(&id, json!({"resultType": "complete", "content": [], "isError": true}));
    assert!(ready(poll(&mut call)).unwrap().failed());
}

/// K13, contract 11
#[test]
fn error_distinguishes_the_server_from_the_client() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.read_resource("note:///1");
    pending(poll(&mut call));
    let id = s.expect("resources/read");
    s.receive(&[error(&id, -32602)]);
    let told = ready(poll(&mut call)).unwrap_err();
    assert_eq!((told.code(), told.origin()), (Some(-32602), ErrorOrigin::Peer));
    assert_eq!(told.to_string(), "the peer answered with an error: no (-32602)");
    assert!(!told.is_unsent() && !told.is_timeout() && !told.is_disconnect());

    let own = ready(poll(&mut s.client.call_tool("add", 5))).unwrap_err();
    assert_eq!((own.code(), own.origin()), (None, ErrorOrigin::Local));
    assert!(own.is_unsent());
    s.expect_silence();
}

#[test]
fn invalid_result_is_an_error_that_contains_the_result() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.complete(PromptReference::new("p"), "x", "");
    pending(poll(&mut call));
    let id = s.expect("completion/complete");
    s.answer(&id, json!({"resultType": "complete", "nonsense": true}));
    match ready(poll(&mut call)) {
        Err(Error::Decode { method, raw, .. }) => {
            assert_eq!(method, "completion/complete");
            assert!(raw.as_str().contains("nonsense"));
        }
        other => panic!("{other:?}"),
    }
}

/// C9.12
#[test]
fn client_refuses_a_request_without_the_server_capability() {
    let mut s = ClientHarness::open(config(), ClientHandlers::new());
    let id = s.expect("server/discover");
    s.answer(
        &id,
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0,
            "cacheScope": "private",
        }),
    );
    let refused = ready(poll(&mut s.client.call_tool("add", json!({})))).unwrap_err();
    assert!(matches!(refused, Error::NotSent(RequestError::Capability { .. })), "{refused}");
    s.expect_silence();
}

#[test]
fn finished_future_returns_an_error_when_polled_again() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.answer(&id, text("5"));
    assert!(ready(poll(&mut call)).is_ok());
    assert!(matches!(ready(poll(&mut call)), Err(Error::Finished)));
}

/// C7.1, F65, K4, contract 12
#[test]
fn dropping_a_request_cancels_it_on_the_wire() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    drop(call);
    let line = s.line();
    assert_eq!(line["method"], "notifications/cancelled");
    assert_eq!(line["params"]["requestId"], id);
}

/// C7.5
#[test]
fn response_to_a_dropped_request_is_ignored() {
    let mut s = ClientHarness::modern();
    let mut dropped = s.client.call_tool("add", json!({}));
    let mut kept = s.client.call_tool("add", json!({}));
    pending(poll(&mut dropped));
    pending(poll(&mut kept));
    let (first, second) = (s.expect("tools/call"), s.expect("tools/call"));
    drop(dropped);
    s.receive(&[answer(&first, text("1")), answer(&second, text("2"))]);
    assert_eq!(ready(poll(&mut kept)).unwrap().text_content(), "2");
}

#[test]
fn dropping_an_answered_request_cancels_nothing() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.answer(&id, text("5"));
    drop(call);
    s.expect_silence();
}

/// C7.7, F64
#[test]
fn caller_can_cancel_a_call_with_a_reason() {
    let mut s = ClientHarness::modern();
    let call = s.client.call_tool("add", json!({})).start().unwrap();
    let id = s.expect("tools/call");
    call.cancel("the user pressed stop");
    let line = s.line();
    assert_eq!(
        (&line["params"]["requestId"], &line["params"]["reason"]),
        (&id, &json!("the user pressed stop"))
    );
}

/// C7.2, C9.8, F63, F64
#[test]
fn request_can_have_its_own_timeout() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({})).timeout(Duration::from_secs(2));
    pending(poll(&mut call));
    s.expect("tools/call");
    s.advance(Duration::from_secs(1));
    pending(poll(&mut call));
    s.advance(Duration::from_secs(1));
    let late = ready(poll(&mut call)).unwrap_err();
    assert!(late.is_timeout());
    assert_eq!(late.to_string(), "no answer and no progress within 2 s");
    assert_eq!(s.expect("notifications/cancelled"), Value::Null);
}

#[test]
fn command_uses_the_current_time_and_not_that_of_the_last_drive() {
    let mut s = ClientHarness::modern();
    // The driver sleeps meanwhile.
    s.clock.advance(Duration::from_secs(3600));
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    s.advance(Duration::ZERO);
    s.expect("tools/call");
    pending(poll(&mut call));
}

#[test]
fn requests_in_flight_are_independent() {
    let mut s = ClientHarness::modern();
    let calls: Vec<_> = (0..3).map(|_| s.client.call_tool("add", json!({})).start().unwrap()).collect();
    let ids: Vec<_> = (0..3).map(|_| s.expect("tools/call")).collect();
    for (index, id) in ids.iter().enumerate().rev() {
        s.answer(id, text(&index.to_string()));
    }
    for (index, mut call) in calls.into_iter().enumerate() {
        assert_eq!(ready(poll(&mut call)).unwrap().text_content(), index.to_string());
    }
}

#[test]
fn options_reach_the_wire() {
    let mut s = ClientHarness::modern();
    let mut own = mcp_proto::schema::Meta::new();
    own.insert("com.example/trace", "abc");
    let mut call =
        s.client.call_tool("add", json!({})).log_level(mcp_proto::schema::LoggingLevel::Info).meta(own);
    pending(poll(&mut call));
    let meta = s.line()["params"]["_meta"].clone();
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "info");
    assert_eq!(meta["com.example/trace"], "abc");
}

// --- Progress ---

/// C7.8
#[test]
fn progress_arrives_in_order_and_before_the_result() {
    let mut s = ClientHarness::modern();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let mut call = s
        .client
        .call_tool("slow", json!({}))
        .on_progress(move |progress| log.lock().unwrap().push(progress.progress.as_f64() as u32));
    pending(poll(&mut call));
    let line = s.line();
    assert_eq!(line["params"]["_meta"]["progressToken"], line["id"]);
    let id = &line["id"];
    s.receive(&[progress(id, 1)]);
    pending(poll(&mut call));
    // The last report arrives in one piece with the response.
    s.receive(&[progress(id, 2), progress(id, 3), answer(id, text("done"))]);
    assert!(ready(poll(&mut call)).is_ok());
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3]);
}

/// A call that was sent before it is awaited keeps its callback.
#[test]
fn sent_call_reports_what_its_caller_has_not_taken() {
    let mut s = ClientHarness::modern();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let call = s.client.call_tool("slow", json!({})).on_progress(move |progress| {
        log.lock().unwrap().push(progress.progress.as_i64());
    });
    let mut call = call.start().unwrap();
    let id = s.expect("tools/call");
    s.receive(&[progress(&id, 1), progress(&id, 2), progress(&id, 3)]);
    assert_eq!(ready(poll(&mut boxed(call.progress()))).unwrap().progress.as_i64(), Some(1));
    s.receive(&[answer(&id, text("done"))]);
    assert!(ready(poll(&mut call)).is_ok());
    assert_eq!(*seen.lock().unwrap(), [Some(2), Some(3)]);
}

#[test]
fn caller_can_await_progress() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("slow", json!({})).start().unwrap();
    let id = s.expect("tools/call");
    pending(poll(&mut boxed(call.progress())));
    s.receive(&[progress(&id, 1), answer(&id, text("done"))]);
    assert_eq!(ready(poll(&mut boxed(call.progress()))).unwrap().progress.as_i64(), Some(1));
    assert_eq!(ready(poll(&mut boxed(call.progress()))), None);
    assert!(ready(poll(&mut call)).is_ok());
    assert_eq!(ready(poll(&mut boxed(call.progress()))), None);
}

/// Contract 8
#[test]
fn unread_progress_is_bounded_and_the_newest_stays() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("slow", json!({})).start().unwrap();
    let id = s.expect("tools/call");
    for value in 0..1000 {
        s.receive(&[progress(&id, value)]);
    }
    s.answer(&id, text("done"));
    let mut seen = Vec::new();
    while let Some(report) = ready(poll(&mut boxed(call.progress()))) {
        seen.push(report.progress.as_i64().unwrap());
    }
    assert_eq!(seen.len(), 64);
    assert_eq!(seen.last(), Some(&999));
}

/// C7.3
#[test]
fn progress_extends_the_timeout() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("slow", json!({})).timeout(Duration::from_secs(2));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    for value in 0..10 {
        s.advance(Duration::from_secs(1));
        s.receive(&[progress(&id, value)]);
    }
    pending(poll(&mut call));
}

// --- Pages ---

fn page(names: &[&str], next: Value) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    json!({"resultType": "complete", "tools": tools, "nextCursor": next, "ttlMs": 0, "cacheScope": "private"})
}

/// C9.1, C9.2, K19, F93
#[test]
fn list_reads_all_pages_and_takes_the_empty_string_as_a_cursor() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    let line = s.line();
    assert_eq!(line["params"].get("cursor"), None);
    s.answer(&line["id"], page(&["a", "b"], json!("")));
    pending(poll(&mut list));
    let line = s.line();
    assert_eq!(line["params"]["cursor"], "");
    s.answer(&line["id"], page(&[], json!("p3")));
    pending(poll(&mut list));
    let line = s.line();
    assert_eq!(line["params"]["cursor"], "p3");
    s.answer(&line["id"], page(&["c"], Value::Null));
    let tools = ready(poll(&mut list)).unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// C9.1: a cursor goes back as it came, whatever it holds.
#[test]
fn cursor_returns_unchanged_in_both_eras() {
    let long = "x".repeat(5000);
    let cursors = [" ", "0", "null", "a%2Fb+c==", "\u{0}\n\"\\é\u{1f600}", long.as_str()];
    for mut s in [ClientHarness::modern(), ClientHarness::legacy()] {
        let mut list = s.client.list_tools();
        pending(poll(&mut list));
        let mut id = s.expect("tools/list");
        for cursor in cursors {
            s.answer(&id, page(&["a"], json!(cursor)));
            pending(poll(&mut list));
            let line = s.line();
            assert_eq!(line["params"]["cursor"], json!(cursor));
            id = line["id"].clone();
        }
        s.answer(&id, json!({"resultType": "complete", "tools": []}));
        assert_eq!(ready(poll(&mut list)).unwrap().len(), cursors.len());
        s.expect_silence();
    }
}

/// C8.6
#[test]
fn list_with_an_expired_cursor_starts_again_once() {
    let mut s = ClientHarness::modern();
    let kept = |names: &[&str], next: Value| {
        let mut page = page(names, next);
        page["ttlMs"] = json!(60_000);
        page
    };
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    let id = s.expect("tools/list");
    s.answer(&id, kept(&["a"], json!("x")));
    pending(poll(&mut list));
    let asked = s.expect("tools/list");
    // Another list finds the first page in the cache, with the cursor.
    let mut other = s.client.list_tools();
    pending(poll(&mut other));
    let also_asked = s.expect("tools/list");
    s.receive(&[error(&asked, -32602), error(&also_asked, -32602)]);
    for list in [&mut list, &mut other] {
        pending(poll(list));
        let line = s.line();
        assert_eq!(line["params"].get("cursor"), None, "{line}");
        s.answer(&line["id"], page(&["b"], json!("x")));
        pending(poll(list));
        let id = s.expect("tools/list");
        s.answer(&id, page(&["c"], Value::Null));
        let tools = ready(poll(list)).unwrap();
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    }
}

/// C8.6
#[test]
fn cursor_that_is_invalid_twice_is_an_error() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools();
    for _ in 0..2 {
        pending(poll(&mut list));
        let id = s.expect("tools/list");
        s.answer(&id, page(&["a"], json!("x")));
        pending(poll(&mut list));
        let id = s.expect("tools/list");
        s.receive(&[error(&id, -32602)]);
    }
    assert_eq!(ready(poll(&mut list)).unwrap_err().error.code(), Some(-32602));
    // The first page has no cursor that could be invalid.
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    let id = s.expect("tools/list");
    s.receive(&[error(&id, -32602)]);
    assert_eq!(ready(poll(&mut list)).unwrap_err().error.code(), Some(-32602));
    s.expect_silence();
}

/// C8.3, C8.6: a list refreshed on demand refreshes all its pages.
#[test]
fn cached_list_is_returned_at_once_unless_a_refresh_is_requested() {
    let mut s = ClientHarness::modern();
    let mut pages = [page(&["a"], json!("x")), page(&["b"], Value::Null)];
    for page in &mut pages {
        page["ttlMs"] = json!(60_000);
    }
    let mut list = s.client.list_tools();
    for page in &pages {
        pending(poll(&mut list));
        let id = s.expect("tools/list");
        s.answer(&id, page.clone());
    }
    assert_eq!(ready(poll(&mut list)).unwrap().len(), 2);
    assert_eq!(ready(poll(&mut s.client.list_tools())).unwrap().len(), 2);
    s.expect_silence();
    let mut fresh = s.client.list_tools().cache(CacheMode::Refresh);
    for page in &pages {
        pending(poll(&mut fresh));
        let id = s.expect("tools/list");
        s.answer(&id, page.clone());
    }
    assert_eq!(ready(poll(&mut fresh)).unwrap().len(), 2);
    s.client.set_cache_context(CacheContext::new("another"));
    pending(poll(&mut s.client.list_tools()));
    s.expect("tools/list");
}

/// K19
#[test]
fn list_with_a_cursor_cycle_ends_with_an_error() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools();
    for cursor in ["x", "y", "x"] {
        pending(poll(&mut list));
        let id = s.expect("tools/list");
        s.answer(&id, page(&["a"], json!(cursor)));
    }
    let given_up = ready(poll(&mut list)).unwrap_err();
    assert!(
        matches!(&given_up.error, Error::Pages(PagesError::Repeated { cursor }) if cursor == "x"),
        "{given_up}"
    );
    assert_eq!(given_up.items.len(), 3, "the pages read so far are not lost");
    s.expect_silence();
}

/// K19
#[test]
fn list_has_a_page_limit() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools().page_limit(2);
    for cursor in ["x", "y"] {
        pending(poll(&mut list));
        let id = s.expect("tools/list");
        s.answer(&id, page(&["a"], json!(cursor)));
    }
    let error = ready(poll(&mut list)).unwrap_err();
    assert!(matches!(error.error, Error::Pages(PagesError::TooMany { limit: 2 })));
    assert_eq!(error.items.len(), 2);
    s.expect_silence();
}

#[test]
fn unreadable_item_is_reported_with_its_position_in_the_list() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    let id = s.expect("tools/list");
    s.answer(&id, page(&["a", "b"], json!("next")));
    pending(poll(&mut list));
    let id = s.expect("tools/list");
    s.answer(
        &id,
        json!({"resultType": "complete", "tools": [{"name": 7}], "ttlMs": 0, "cacheScope": "private"}),
    );
    let tools = ready(poll(&mut list)).unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools.invalid()[0].index, 2);
}

/// C9.2
#[test]
fn caller_can_request_one_page() {
    let mut s = ClientHarness::modern();
    let mut first = s.client.list_tools_page(Some("p2"));
    pending(poll(&mut first));
    let line = s.line();
    assert_eq!(line["params"]["cursor"], "p2");
    s.answer(&line["id"], page(&["a"], json!("p3")));
    assert_eq!(ready(poll(&mut first)).unwrap().next_cursor.as_deref(), Some("p3"));
}

#[test]
fn dropping_a_list_cancels_the_page_in_flight() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    s.expect("tools/list");
    drop(list);
    s.expect("notifications/cancelled");
}

// --- Types ---

#[test]
fn handles_are_sync_and_drivers_are_send() {
    fn shared<T: Send + Sync + 'static>() {}
    fn moved<T: Send + 'static>() {}
    shared::<Client>();
    moved::<ClientDriver<mcp_proto::transport::StreamClient>>();
    moved::<Request<CallTool>>();
    moved::<Events<Event>>();
    moved::<mcp_proto::front::Pages<mcp_proto::schema::ListTools>>();
}

#[test]
fn request_accepts_all_options_at_once() {
    let mut s = ClientHarness::modern();
    let options = RequestOptions::default().timeout(Duration::from_secs(1));
    let mut call = s.client.call_tool("add", json!({})).options(options);
    pending(poll(&mut call));
    s.advance(Duration::from_secs(1));
    assert!(ready(poll(&mut call)).unwrap_err().is_timeout());
}

#[test]
fn request_stays_pending_until_its_response() {
    let s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    assert!(matches!(poll(&mut call), Poll::Pending));
    assert!(matches!(poll(&mut call), Poll::Pending));
}

/// SECURITY.md: texts of peers do not reach a terminal raw.
#[test]
fn error_text_escapes_what_the_peer_wrote() {
    let hostile = "no\u{1b}]0;title\u{7} \u{202e}such city";
    let safe = r"no\u{1b}]0;title\u{7} \u{202e}such city";
    let object = ErrorObject::new(code::INVALID_PARAMS, hostile);
    let cancelled = || Some(hostile.to_owned());
    for text in [
        object.to_string(),
        Error::Peer(object).to_string(),
        Error::TaskCancelled { message: cancelled() }.to_string(),
        Outcome::TaskCancelled { message: cancelled() }.to_string(),
        LostReason::Disconnected(hostile.to_owned()).to_string(),
        Error::NotSent(RequestError::Connect(hostile.to_owned())).to_string(),
    ] {
        assert!(text.contains(safe) && !text.contains('\u{1b}'), "{text}");
    }
}
