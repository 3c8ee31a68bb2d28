//! Requests and notifications that are known by their names alone, in every direction.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front::{ClientHarness, config};
use crate::common::front_http::HttpHarness;
use crate::common::messages::{MODERN, answer, discover_result, error, notification, progress, request};
use crate::common::polling::{poll, ready};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::{
    ClientHandlers, Context, CustomRequest, Error, Event, HandlerError, NoArguments, Notification, Router,
    RouterError, ServerEvent,
};
use mcp_proto::peer::RequestError;
use mcp_proto::schema::{self, CustomParams, CustomResult, Direction, Method, MethodInfo, NotificationInfo};
use serde_json::json;

type Log = Arc<Mutex<Vec<String>>>;

fn log(seen: &Log, line: impl Into<String>) {
    seen.lock().unwrap().push(line.into());
}

fn taken(seen: &Log) -> Vec<String> {
    std::mem::take(&mut *seen.lock().unwrap())
}

fn json_of(params: &CustomParams) -> String {
    serde_json::to_string(params).unwrap()
}

/// A notification that the protocol does not define.
enum PaperLow {}

impl schema::Notification for PaperLow {
    const INFO: &'static NotificationInfo = &NotificationInfo::custom("com.example/paperLow");
    type Params = CustomParams;
}

/// A request of a server that the protocol does not define.
enum Confirm {}

impl Method for Confirm {
    const INFO: &'static MethodInfo =
        &MethodInfo::custom("com.example/confirm").in_direction(Direction::ServerToClient);
    type Params = CustomParams;
    type Result = CustomResult;
}

fn reserved(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::NotSent(RequestError::Reserved { .. })))
}

// --- The client ---

#[test]
fn client_makes_requests_by_name_in_both_eras() {
    for mut client in [ClientHarness::modern(), ClientHarness::legacy()] {
        let mut asked = client
            .client
            .request_custom(
                "com.example/status",
                json!({"printer": "hall", "_meta": {"progressToken": 7, "com.example/a": 1}}),
            )
            .timeout(Duration::from_secs(5))
            .start()
            .unwrap();
        let line = client.line();
        assert_eq!(
            (&line["method"], &line["params"]["printer"]),
            (&json!("com.example/status"), &json!("hall"))
        );
        assert_eq!(line["params"]["_meta"]["progressToken"], line["id"], "its own token");
        assert_eq!(line["params"]["_meta"]["com.example/a"], 1);
        client.receive(&[progress(&line["id"], 3)]);
        client.answer(&line["id"], json!({"resultType": "complete", "paper": {"sheets": 12}}));
        let reported = ready(poll(&mut Box::pin(asked.progress()))).unwrap();
        assert_eq!(reported.progress.as_f64(), 3.0);
        let result: CustomResult = ready(poll(&mut asked)).unwrap();
        assert_eq!(result.extra.get("paper").unwrap().as_str(), r#"{"sheets":12}"#);
    }
}

#[test]
fn request_by_name_waits_for_the_handshake() {
    let mut client = ClientHarness::open(config(), ClientHandlers::new());
    let id = client.expect("server/discover");
    let mut asked = client.client.request_custom("com.example/status", ()).start().unwrap();
    client.expect_silence();
    client.answer(&id, discover_result());
    let id = client.expect("com.example/status");
    client.receive(&[error(&id, -32601)]);
    assert!(matches!(ready(poll(&mut asked)), Err(Error::Peer(error)) if error.code == -32601));
}

/// The rules of the protocol's methods apply to requests by name too.
#[test]
fn request_by_name_follows_the_rules_of_its_method() {
    let mut client = ClientHarness::open(config(), ClientHandlers::new());
    let id = client.expect("server/discover");
    let mut early = client.client.request_custom("tools/list", ()).start().unwrap();
    let discovered = json!({
        "resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"prompts": {}},
        "ttlMs": 0, "cacheScope": "private",
    });
    client.answer(&id, discovered);
    for outcome in [
        ready(poll(&mut early)),
        client
            .client
            .request_custom("tools/call", json!({"name": "add"}))
            .start()
            .map(|_| CustomResult::new()),
    ] {
        assert!(matches!(outcome, Err(Error::NotSent(RequestError::Capability { .. }))), "{outcome:?}");
    }
    let mut listing = client.client.request_custom("prompts/list", ()).start().unwrap();
    let id = client.expect("prompts/list");
    client.answer(
        &id,
        json!({"resultType": "complete", "prompts": [], "ttlMs": 60_000, "cacheScope": "public"}),
    );
    ready(poll(&mut listing)).unwrap();
    let mut again = client.client.request_custom("prompts/list", json!({})).start().unwrap();
    client.expect_silence();
    assert!(ready(poll(&mut again)).unwrap().extra.contains("prompts"), "cached");
}

#[test]
fn client_rejects_names_that_other_commands_send() {
    let mut client = ClientHarness::legacy();
    for name in ["initialize", "subscriptions/listen"] {
        let refused = client.client.request_custom(name, ()).start().map(|_| ());
        assert!(reserved(refused), "{name}");
    }
    for name in ["notifications/initialized", "notifications/cancelled", "notifications/progress"] {
        assert!(reserved(client.client.notify_custom(name, ())), "{name}");
    }
    let undeclared = client.client.notify_custom("notifications/roots/list_changed", ());
    assert!(matches!(undeclared, Err(Error::NotSent(RequestError::Capability { .. }))), "{undeclared:?}");
    let unencodable = client.client.notify_custom("com.example/a", "text");
    assert!(matches!(unencodable, Err(Error::NotSent(RequestError::Encode(_)))));
    client.expect_silence();
}

#[test]
fn client_sends_notifications_by_name_and_by_type() {
    for mut client in [ClientHarness::modern(), ClientHarness::legacy()] {
        client.client.notify_custom("com.example/paperAdded", json!({"sheets": 500})).unwrap();
        let sent = json!({"jsonrpc": "2.0", "method": "com.example/paperAdded", "params": {"sheets": 500}});
        assert_eq!(client.line(), sent);
        client.client.notify::<PaperLow>(&CustomParams::new()).unwrap();
        assert_eq!(client.line()["method"], "com.example/paperLow");
    }
}

#[test]
fn handlers_answer_custom_requests_of_a_legacy_server() {
    let handlers = ClientHandlers::new()
        .custom("com.example/count", async |params, _| {
            let mut result = CustomResult::new();
            result.extra.insert("count", params.extra.iter().count() as i64);
            result
        })
        .handler::<Confirm, _, _>(async |_, _| Err::<CustomResult, _>(HandlerError::new("nobody is there")));
    let mut client = ClientHarness::legacy_with(handlers);
    client.receive(&[request(&json!("a"), "com.example/count", json!({"x": 1, "y": 2}))]);
    assert_eq!(client.line(), answer(&json!("a"), json!({"count": 2})));
    client.receive(&[request(&json!("b"), "com.example/confirm", json!({}))]);
    assert_eq!(client.line()["error"]["message"], "nobody is there");
    client.receive(&[request(&json!("c"), "com.example/other", json!({}))]);
    assert_eq!(client.line()["error"]["code"], -32601);
}

/// A modern server must not send requests.
#[test]
fn modern_client_answers_no_request_even_with_a_fallback() {
    let handlers = ClientHandlers::new().fallback(async |_, _| CustomResult::new());
    let mut client = ClientHarness::modern_with(handlers);
    client.receive(&[request(&json!(1), "com.example/count", json!({}))]);
    client.expect_silence();
}

#[test]
fn client_notification_handlers_run_in_order_and_events_remain() {
    let seen = Log::default();
    let (named, typed, rest) = (seen.clone(), seen.clone(), seen.clone());
    let handlers = ClientHandlers::new()
        .on_notification("com.example/a", move |params, cx: mcp_proto::ClientContext| {
            let named = named.clone();
            async move {
                futures_lite::future::yield_now().await;
                log(&named, format!("a {} {}", json_of(&params), cx.server().is_some()));
            }
        })
        .notification::<PaperLow, _, _>(move |params, _| {
            log(&typed, format!("low {}", json_of(&params)));
            async {}
        })
        .notification_fallback(move |notification: Notification, _| {
            log(&rest, format!("other {}", notification.method));
            async {}
        });
    let mut client = ClientHarness::modern_with(handlers);
    let mut events = client.client.events();
    client.receive(&[
        notification("com.example/a", json!({"n": 1})),
        notification("com.example/paperLow", json!({})),
        notification("com.example/b", json!({})),
        notification("com.example/a", json!([1])),
        notification("notifications/tools/list_changed", json!({})),
    ]);
    assert_eq!(taken(&seen), [r#"a {"n":1} true"#, "low {}", "other com.example/b"]);
    let mut names = Vec::new();
    while let Poll::Ready(Some(event)) = poll(&mut Box::pin(events.next())) {
        if let Event::Notification(notification) = event {
            names.push(notification.method.to_string());
        }
    }
    assert_eq!(names.len(), 5, "{names:?}");
}

/// Notifications cannot accumulate: 256 wait for their handlers.
#[test]
fn client_drops_the_oldest_notifications_while_a_handler_waits() {
    let count = Arc::new(Mutex::new(0));
    let counting = count.clone();
    let hold = Arc::new(Mutex::new(Some(())));
    let held = hold.clone();
    let handlers = ClientHandlers::new().notification_fallback(move |_, _| {
        *counting.lock().unwrap() += 1;
        let held = held.clone();
        poll_fn(move |_| match *held.lock().unwrap() {
            Some(()) => Poll::Pending,
            None => Poll::Ready(()),
        })
    });
    let mut client = ClientHarness::modern_with(handlers);
    let mut events = client.client.events();
    client.receive(&[notification("com.example/first", json!({}))]);
    for _ in 0..300 {
        client.receive(&[notification("com.example/more", json!({}))]);
    }
    assert_eq!(*count.lock().unwrap(), 1);
    let mut dropped = 0;
    while let Poll::Ready(Some(event)) = poll(&mut Box::pin(events.next())) {
        if let Event::Diagnostic(mcp_proto::peer::client::Diagnostic::NotificationsDropped { count }) = event
        {
            dropped += count;
        }
    }
    assert_eq!(dropped, 300 - 256);
}

/// Long notifications are bounded by their bytes.
#[test]
fn client_drops_notifications_beyond_a_mebibyte() {
    let handlers = ClientHandlers::new()
        .on_notification("com.example/long", async |_, _| core::future::pending::<()>().await);
    let mut client = ClientHarness::modern_with(handlers);
    let mut events = client.client.events();
    let long = json!({"text": "x".repeat(300 * 1024)});
    for _ in 0..6 {
        client.receive(&[notification("com.example/long", long.clone())]);
    }
    let mut dropped = 0;
    while let Poll::Ready(Some(event)) = poll(&mut Box::pin(events.next())) {
        if let Event::Diagnostic(mcp_proto::peer::client::Diagnostic::NotificationsDropped { count }) = event
        {
            dropped += count;
        }
    }
    assert_eq!(dropped, 2, "one runs, three wait");
}

// --- The server ---

/// A server whose handlers record what they see.
fn recording(seen: &Log) -> Router {
    let (named, typed, rest) = (seen.clone(), seen.clone(), seen.clone());
    Router::new("recorder", "1")
        .on_notification("com.example/a", move |params, _| {
            let named = named.clone();
            async move {
                futures_lite::future::yield_now().await;
                log(&named, format!("a {}", params.extra.iter().count()));
            }
        })
        .notification::<PaperLow, _, _>(move |_, _| {
            log(&typed, "low");
            async {}
        })
        .notification_fallback(move |notification: Notification, cx| {
            log(&rest, format!("other {} {}", notification.method, cx.principal().is_some()));
            async {}
        })
}

#[test]
fn server_notification_handlers_run_in_both_eras() {
    let seen = Log::default();
    let mut modern = ServerHarness::modern(recording(&seen));
    let mut legacy = ServerHarness::legacy(recording(&seen));
    for server in [&mut modern, &mut legacy] {
        let mut events = server.handle.events();
        server.notify("com.example/a", json!({"n": 1}));
        server.notify("com.example/paperLow", json!({}));
        server.notify("com.example/b", json!({}));
        server.notify("notifications/roots/list_changed", json!({}));
        assert_eq!(taken(&seen), ["a 1", "low", "other com.example/b false"]);
        let mut names = 0;
        while let Poll::Ready(Some(event)) = poll(&mut Box::pin(events.next())) {
            names += usize::from(matches!(event, ServerEvent::Notification(_)));
        }
        assert_eq!(names, 4);
    }
}

#[test]
fn server_notification_handlers_run_over_http() {
    let seen = Log::default();
    let release = Arc::new(Mutex::new((false, None::<Waker>)));
    let held = release.clone();
    let router = recording(&seen).on_notification("com.example/hold", move |_, _| {
        let held = held.clone();
        poll_fn(move |cx| {
            let mut held = held.lock().unwrap();
            held.1 = Some(cx.waker().clone());
            if held.0 { Poll::Ready(()) } else { Poll::Pending }
        })
    });
    let mut web = HttpHarness::new(router);
    let session = web.open();
    assert_eq!(web.post(&session, &notification("com.example/a", json!({}))).head().status, 202);
    web.poll_driver();
    assert_eq!(taken(&seen), ["a 0"]);
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "com.example/b")];
    let body = notification("com.example/b", json!({})).to_string();
    assert_eq!(web.send("POST", &headers, &body).head().status, 202);
    assert_eq!(taken(&seen), ["other com.example/b false"]);
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "com.example/hold")];
    let body = notification("com.example/hold", json!({})).to_string();
    let mut caller = web.send("POST", &headers, &body);
    assert!(!caller.has_head(), "the handler still runs");
    release.lock().unwrap().0 = true;
    release.lock().unwrap().1.take().unwrap().wake();
    assert_eq!(caller.head().status, 202);
}

/// A handler's panic ends neither the connection nor the handling of notifications.
#[test]
fn notifications_are_handled_after_a_panic() {
    let seen = Log::default();
    let after = seen.clone();
    let router = Router::new("shaky", "1")
        .on_notification("com.example/bad", async |_, _| panic!("expected by the test"))
        .on_notification("com.example/good", move |_, _| {
            log(&after, "good");
            async {}
        });
    let mut server = ServerHarness::modern(router);
    server.notify("com.example/bad", json!({}));
    server.notify("com.example/good", json!({}));
    assert_eq!(taken(&seen), ["good"]);
}

#[test]
fn server_falls_back_for_requests_without_a_handler() {
    let router = Router::new("proxy", "1").fallback(async |request: CustomRequest, _| {
        let mut result = CustomResult::new();
        result.extra.insert("method", request.method.as_str());
        result.extra.insert("members", request.params.extra.iter().count() as i64);
        result
    });
    let mut server = ServerHarness::modern(router);
    let result = server.result("com.example/x", json!({"a": 1}));
    assert_eq!((&result["method"], &result["members"]), (&json!("com.example/x"), &json!(1)));
    assert_eq!(server.error("tools/list", json!({}))["code"], -32601, "its capability is not declared");
}

#[test]
fn router_rejects_handlers_that_would_never_run() {
    for name in ["initialize", "server/discover", "subscriptions/listen"] {
        let router = Router::new("r", "1").custom(name, async |_, _| CustomResult::new());
        assert_eq!(router.check(), Err(RouterError::Reserved { name: name.into() }));
    }
    for name in ["notifications/initialized", "notifications/cancelled", "notifications/progress"] {
        let router = Router::new("r", "1").on_notification(name, async |_, _| ());
        assert_eq!(router.check(), Err(RouterError::Reserved { name: name.into() }));
    }
}

/// S11.14: in no direction.
#[test]
fn custom_names_do_not_begin_like_those_of_tasks() {
    for name in ["tasks/pause", "tasks/", "notifications/tasks/paused"] {
        let router = Router::new("r", "1").custom(name, async |_, _| CustomResult::new());
        let error = router.check().unwrap_err();
        assert_eq!(error, RouterError::Reserved { name: name.into() });
        assert!(error.to_string().contains("com.example/"), "{error}");
        let router = Router::new("r", "1").on_notification(name, async |_, _| ());
        assert_eq!(router.check(), Err(RouterError::Reserved { name: name.into() }));

        let client = ClientHarness::legacy();
        assert!(reserved(client.client.request_custom(name, ()).start().map(|_| ())), "{name}");
        assert!(reserved(client.client.notify_custom(name, ())), "{name}");

        let router =
            Router::new("r", "1").tool_with(tool("t"), move |NoArguments {}, cx: Context| async move {
                assert!(reserved(cx.notify_custom(name, ())), "{name}");
                assert!(cx.request_custom(name, ()).await.is_err(), "{name}");
                "nothing was sent"
            });
        for mut server in [ServerHarness::modern(router.clone()), ServerHarness::legacy(router)] {
            assert_eq!(server.call("t", json!({}))["content"][0]["text"], "nothing was sent");
        }
    }
    let router = Router::new("r", "1").custom("tasksforce/list", async |_, _| CustomResult::new());
    assert_eq!(router.check(), Ok(()));
}

#[test]
fn handler_notifies_on_the_stream_of_its_request() {
    let router = || {
        Router::new("notifier", "1").tool_with(tool("print"), async |NoArguments {}, cx: Context| {
            assert!(reserved(cx.notify_custom("notifications/progress", json!({}))));
            assert!(reserved(cx.notify_custom("notifications/message", json!({}))));
            assert!(reserved(cx.notify_custom("notifications/tools/list_changed", ())));
            cx.notify::<PaperLow>(&CustomParams::new())?;
            cx.notify_custom("com.example/jam", json!({"tray": 2}))?;
            Ok::<_, HandlerError>("printed")
        })
    };
    let call = json!({"name": "print", "arguments": {}});
    for mut server in [ServerHarness::modern(router()), ServerHarness::legacy(router())] {
        server.send("tools/call", call.clone());
        assert_eq!(server.line()["method"], "com.example/paperLow");
        assert_eq!(server.line(), notification("com.example/jam", json!({"tray": 2})));
        assert_eq!(server.line()["result"]["content"][0]["text"], "printed");
    }
    let mut web = HttpHarness::new(router());
    let session = web.open();
    let mut modern = web.call("print", json!({}));
    let mut legacy = web.post_request(&session, "tools/call", call);
    for caller in [&mut modern, &mut legacy] {
        assert_eq!(caller.message()["method"], "com.example/paperLow");
        assert_eq!(caller.message(), notification("com.example/jam", json!({"tray": 2})));
        assert_eq!(caller.message()["result"]["content"][0]["text"], "printed");
    }
}

#[test]
fn handler_cannot_notify_after_its_answer() {
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let router = Router::new("notifier", "1").tool_with(tool("print"), move |NoArguments {}, cx: Context| {
        *keep.lock().unwrap() = Some(cx);
        async { "printed" }
    });
    let mut server = ServerHarness::modern(router);
    server.call("print", json!({}));
    let cx: Context = kept.lock().unwrap().take().unwrap();
    let late = cx.notify_custom("com.example/jam", ());
    assert!(matches!(late, Err(Error::NotSent(RequestError::Answered))), "{late:?}");
}

/// S1.9, S5.1
#[test]
fn server_sends_requests_by_name_to_legacy_clients_only() {
    let router = || {
        Router::new("asker", "1").tool_with(tool("print"), async |NoArguments {}, cx: Context| {
            match cx.request_custom("com.example/confirm", json!({"pages": 300})).await {
                Ok(result) => Ok(result.extra.get("by").map_or("?".into(), |by| by.as_str().to_owned())),
                Err(Error::NotSent(RequestError::Revision { .. })) => Ok("not asked".to_owned()),
                Err(error) => Err(HandlerError::from(error)),
            }
        })
    };
    let call = json!({"name": "print", "arguments": {}});
    let mut modern = ServerHarness::modern(router());
    assert_eq!(modern.call("print", json!({}))["content"][0]["text"], "not asked");
    let refused = modern.handle.notify_custom("com.example/jam", ());
    assert!(matches!(refused, Err(Error::NotSent(RequestError::NotReady))), "{refused:?}");

    let mut legacy = ServerHarness::legacy(router());
    legacy.send("tools/call", call.clone());
    let asked = legacy.line();
    assert_eq!((&asked["method"], &asked["params"]["pages"]), (&json!("com.example/confirm"), &json!(300)));
    legacy.send_message(&answer(&asked["id"], json!({"by": "ann"})));
    assert_eq!(legacy.line()["result"]["content"][0]["text"], "\"ann\"");

    let mut web = HttpHarness::new(router());
    let session = web.open();
    let mut caller = web.post_request(&session, "tools/call", call);
    let asked = caller.message();
    assert_eq!(asked["method"], "com.example/confirm");
    web.post(&session, &answer(&asked["id"], json!({"by": "ben"})));
    assert_eq!(caller.message()["result"]["content"][0]["text"], "\"ben\"");
}

#[test]
fn server_handle_requests_and_notifies_by_name() {
    let mut server = ServerHarness::legacy(Router::new("s", "1"));
    let mut asked = server.handle.request_custom("com.example/confirm", ()).start().unwrap();
    let line = server.line();
    assert_eq!(line["method"], "com.example/confirm");
    server.send_message(&answer(&line["id"], json!({"ok": true})));
    assert!(ready(poll(&mut asked)).unwrap().extra.contains("ok"));
    let mut typed = server.handle.request::<Confirm>(CustomParams::new()).start().unwrap();
    let line = server.line();
    server.send_message(&answer(&line["id"], json!({})));
    ready(poll(&mut typed)).unwrap();
    let undeclared = server.handle.request_custom("roots/list", ()).start().map(|_| ());
    assert!(matches!(undeclared, Err(Error::NotSent(RequestError::Capability { .. }))), "{undeclared:?}");
    server.handle.notify_custom("com.example/jam", json!({"tray": 1})).unwrap();
    assert_eq!(server.line(), notification("com.example/jam", json!({"tray": 1})));
    server.handle.notify::<PaperLow>(&CustomParams::new()).unwrap();
    assert_eq!(server.line()["method"], "com.example/paperLow");
    assert!(reserved(server.handle.notify_custom("notifications/resources/updated", json!({"uri": "a:b"}))));
}
