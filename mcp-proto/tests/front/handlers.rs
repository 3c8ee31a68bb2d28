//! Handlers that answer requests of the server.

use core::cell::RefCell;
use core::future::{pending as never, poll_fn};
use core::task::{Poll, Waker};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::front::{ClientHarness, config};
use crate::common::messages::{error, notification, request, text};
use crate::common::polling::{pending, poll, ready};
use mcp_proto::front::{Client, ClientHandlers, Error, ErrorOrigin, HandlerError, LocalHandlers};
use mcp_proto::peer::{InputError, InputMode, LostReason};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    ClientCapability, CreateMessageResult, ElicitAction, ElicitResult, EmptyResult, InputRequiredResult,
    ListRootsResult, Ping, Role, Root, SamplingContent,
};
use serde_json::{Value, json};

fn roots() -> Vec<Root> {
    vec![Root::new("file:///project")]
}

fn sample() -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}], "maxTokens": 10})
}

fn form() -> Value {
    json!({"message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}})
}

/// F16, C1.17, C11.1
#[test]
fn client_declares_the_registered_handlers() {
    assert_eq!(*ClientHandlers::new().capabilities(), Default::default());
    let handlers = ClientHandlers::new()
        .roots(async |_, _| ListRootsResult::new(roots()))
        .elicitation(async |_, _| ElicitResult::decline());
    let declared = handlers.capabilities();
    assert!(declared.has(ClientCapability::Roots));
    assert!(
        declared.has(ClientCapability::ElicitationForm) && !declared.has(ClientCapability::ElicitationUrl)
    );
    assert!(!declared.has(ClientCapability::Sampling));
    let more =
        handlers.declare(|declared| *declared = declared.clone().with(ClientCapability::ElicitationUrl));
    assert!(more.capabilities().has(ClientCapability::ElicitationUrl));
}

/// C1.6
#[test]
fn handler_answers_a_request_of_the_server() {
    let handlers = ClientHandlers::new().sampling(async |params, cx| {
        assert_eq!(params.messages.len(), 1);
        let asked_by = cx.server().and_then(|server| server.implementation.as_ref()).unwrap().name.clone();
        let content = SamplingContent::from(format!("Hello {asked_by}").as_str());
        CreateMessageResult::new(Role::Assistant, content, "none")
    });
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[request(&json!("q"), "sampling/createMessage", sample())]);
    let line = s.line();
    assert_eq!(line["id"], "q");
    assert_eq!(line["result"]["content"]["text"], "Hello scripted");
    assert_eq!(line["result"]["role"], "assistant");
    s.expect_silence();
}

/// C1.6, F21
#[test]
fn request_without_a_handler_is_method_not_found() {
    let mut s =
        ClientHarness::legacy_with(ClientHandlers::new().roots(async |_, _| ListRootsResult::new(roots())));
    s.receive(&[request(&json!(1), "sampling/createMessage", sample())]);
    assert_eq!(s.line()["error"]["code"], code::METHOD_NOT_FOUND);
}

/// C1.6
#[test]
fn invalid_params_never_reach_the_handler() {
    let handlers =
        ClientHandlers::new().elicitation(async |_, _| -> ElicitResult { panic!("not to be called") });
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[request(&json!(1), "elicitation/create", json!({"message": 7}))]);
    assert_eq!(s.line()["error"]["code"], code::INVALID_PARAMS);
}

#[test]
fn error_of_a_handler_reaches_the_server() {
    let handlers = ClientHandlers::new()
        .elicitation(async |_, _| Err(ErrorObject::new(code::USER_REJECTED, "no, thank you").into()))
        .roots(async |_, _| Ok(ListRootsResult::new(vec![Root::new(String::from_utf8(vec![0xff])?)])));
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[request(&json!(1), "elicitation/create", form())]);
    let line = s.line();
    assert_eq!(line["error"], json!({"code": -1, "message": "no, thank you"}));
    s.receive(&[request(&json!(2), "roots/list", json!({}))]);
    let line = s.line();
    assert_eq!(line["error"]["code"], code::INTERNAL_ERROR);
    assert!(line["error"]["message"].as_str().unwrap().contains("utf-8"), "{line}");
}

/// A bug in a handler must not make the server wait for ever.
#[test]
fn client_answers_for_a_handler_that_panics_and_others_continue() {
    let handlers = ClientHandlers::new()
        .elicitation(async |params, _| match params.message() {
            "boom" => panic!("a bug"),
            _ => ElicitResult::decline(),
        })
        .roots(|_, _| -> core::future::Ready<ListRootsResult> { panic!("a bug before the first await") });
    let mut s = ClientHarness::legacy_with(handlers);
    let mut boom = form();
    boom["message"] = json!("boom");
    s.receive(&[
        request(&json!(1), "elicitation/create", boom),
        request(&json!(2), "elicitation/create", form()),
        request(&json!(3), "roots/list", json!({})),
    ]);
    let mut lines: Vec<Value> = (0..3).map(|_| s.line()).collect();
    lines.sort_by_key(|line| line["id"].as_i64());
    assert_eq!(lines[0]["error"]["code"], code::INTERNAL_ERROR);
    assert_eq!(lines[1]["result"]["action"], "decline");
    assert_eq!(lines[2]["error"]["code"], code::INTERNAL_ERROR);
}

#[test]
fn handlers_run_concurrently_and_each_is_polled_only_when_woken() {
    let polls = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Mutex::new((false, Vec::<Waker>::new())));
    let (count, door) = (polls.clone(), gate.clone());
    let handlers = ClientHandlers::new().elicitation(move |_, _| {
        let (count, door) = (count.clone(), door.clone());
        async move {
            poll_fn(|cx| {
                count.fetch_add(1, Ordering::SeqCst);
                let mut door = door.lock().unwrap();
                if door.0 {
                    return Poll::Ready(());
                }
                door.1.push(cx.waker().clone());
                Poll::Pending
            })
            .await;
            ElicitResult::decline()
        }
    });
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[
        request(&json!(1), "elicitation/create", form()),
        request(&json!(2), "elicitation/create", form()),
    ]);
    assert_eq!(polls.load(Ordering::SeqCst), 2);
    s.receive(&[notification("notifications/tools/list_changed", json!({}))]);
    s.turn();
    assert_eq!(polls.load(Ordering::SeqCst), 2, "no handler was woken");
    s.wakes.take();
    gate.lock().unwrap().0 = true;
    let second = gate.lock().unwrap().1.remove(1);
    second.wake();
    assert_eq!(s.wakes.take(), 1);
    assert_eq!(s.line()["id"], 2);
    assert_eq!(polls.load(Ordering::SeqCst), 3);
    let first = gate.lock().unwrap().1.remove(0);
    first.wake_by_ref();
    first.wake_by_ref();
    assert_eq!(s.wakes.take(), 1, "woken once for two calls");
    assert_eq!(s.line()["id"], 1);
    first.wake();
    assert_eq!(s.wakes.take(), 0, "no handler is left to wake");
    s.expect_silence();
}

#[test]
fn a_handler_that_yields_does_not_starve_the_connection() {
    let handlers = ClientHandlers::new().elicitation(async |_, _| {
        let mut yields = 0;
        poll_fn(|cx| {
            yields += 1;
            if yields > 100 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        ElicitResult::decline()
    });
    let mut s = ClientHarness::legacy_with(handlers);
    s.driver.lock(|machine, now| {
        let text = format!("{}\n", request(&json!(1), "elicitation/create", form()));
        machine.handle_input(now, text.into());
    });
    let (wakes, waker) = crate::common::polling::WakeCounter::new();
    let mut cx = core::task::Context::from_waker(&waker);
    let mut turns = 0;
    loop {
        let mut out = Vec::new();
        let polled = s.driver.poll(&mut cx, |machine, _| {
            if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending }
        });
        if polled.is_ready() {
            break;
        }
        turns += 1;
        assert_eq!(wakes.take(), 1, "it yields and asks to be polled again");
    }
    assert_eq!(turns, 100);
}

/// A dropped future tells the handler that its result is no longer needed.
#[test]
fn client_drops_a_handler_when_the_server_cancels() {
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let count = drops.clone();
    let handlers = ClientHandlers::new().elicitation(move |_, _| {
        let guard = OnDrop(count.clone());
        async move {
            let _guard = guard;
            never::<ElicitResult>().await
        }
    });
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[
        request(&json!(1), "elicitation/create", form()),
        request(&json!(2), "elicitation/create", form()),
    ]);
    s.receive(&[notification("notifications/cancelled", json!({"requestId": 1}))]);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    s.expect_silence();
    s.end("gone");
    s.turn();
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

#[test]
fn client_does_not_answer_a_request_cancelled_before_its_handler_started() {
    let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[
        request(&json!(1), "elicitation/create", form()),
        notification("notifications/cancelled", json!({"requestId": 1})),
    ]);
    s.expect_silence();
}

/// The future uses the client while it is dropped, and so does its destructor: neither may happen under the lock.
#[test]
fn handler_can_use_the_client_while_it_is_dropped() {
    struct ReentrantDrop(Arc<Mutex<Option<Client>>>);
    impl Drop for ReentrantDrop {
        fn drop(&mut self) {
            if let Some(client) = &*self.0.lock().unwrap() {
                let _ = client.state();
                let _ = poll(&mut client.ping());
            }
        }
    }
    let slot = Arc::new(Mutex::new(None::<Client>));
    let (for_roots, for_form) = (slot.clone(), slot.clone());
    let handlers = ClientHandlers::new()
        .roots(move |_, _| {
            let client = for_roots.lock().unwrap().clone().unwrap();
            async move {
                client.ping().await?;
                Ok::<_, HandlerError>(ListRootsResult::new(roots()))
            }
        })
        .elicitation(move |_, _| {
            let nosy = ReentrantDrop(for_form.clone());
            async move {
                let _nosy = nosy;
                never::<ElicitResult>().await
            }
        });
    let mut s = ClientHarness::legacy_with(handlers);
    *slot.lock().unwrap() = Some(s.client.clone());
    s.receive(&[
        request(&json!(1), "roots/list", json!({})),
        request(&json!(2), "elicitation/create", form()),
    ]);
    let id = s.expect("ping");
    s.answer(&id, json!({}));
    assert_eq!(s.line()["result"]["roots"][0]["uri"], "file:///project");
    s.receive(&[notification("notifications/cancelled", json!({"requestId": 2}))]);
    s.expect("ping");
    s.expect("notifications/cancelled");
    *slot.lock().unwrap() = None;
}

#[test]
fn dropping_the_driver_drops_its_handlers_outside_the_lock() {
    struct ReentrantDrop(Client);
    impl Drop for ReentrantDrop {
        fn drop(&mut self) {
            let _ = self.0.state();
        }
    }
    let slot = Arc::new(Mutex::new(None::<Client>));
    let clients = slot.clone();
    let handlers = ClientHandlers::new().elicitation(move |_, _| {
        let nosy = ReentrantDrop(clients.lock().unwrap().take().unwrap());
        async move {
            let _nosy = nosy;
            never::<ElicitResult>().await
        }
    });
    let mut s = ClientHarness::legacy_with(handlers);
    *slot.lock().unwrap() = Some(s.client.clone());
    s.receive(&[request(&json!(1), "elicitation/create", form())]);
    let client = s.client.clone();
    drop(s.driver);
    assert_eq!(
        crate::common::polling::ready(poll(&mut crate::common::polling::boxed(client.closed()))),
        mcp_proto::peer::client::CloseReason::Lost(LostReason::DriverDropped)
    );
}

/// Pain 22
#[test]
fn handlers_of_a_local_client_need_not_be_send() {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = asked.clone();
    let handlers: ClientHandlers<LocalHandlers> = ClientHandlers::local().elicitation(move |params, _| {
        let log = log.clone();
        async move {
            log.borrow_mut().push(params.message().to_owned());
            ElicitResult::decline()
        }
    });
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[request(&json!(1), "elicitation/create", form())]);
    assert_eq!(s.line()["result"]["action"], "decline");
    assert_eq!(*asked.borrow(), ["Your name?"]);
}

#[test]
fn any_method_can_have_a_handler() {
    // The machine answers pings itself; this only shows that the types allow it.
    let handlers = ClientHandlers::new().handler::<Ping, _, _>(async |_, _| EmptyResult::new());
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[request(&json!(1), "ping", json!({}))]);
    assert_eq!(s.line()["result"], json!({}));
    s.expect_silence();
}

/// C1.5; so an undefined code is not sent either (C1.12).
#[test]
fn client_never_answers_a_modern_server() {
    let handlers = ClientHandlers::new().roots(async |_, _| ListRootsResult::new(roots()));
    let mut s = ClientHarness::open(config(), handlers);
    let id = s.expect("server/discover");
    s.answer(
        &id,
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0,
            "cacheScope": "private",
        }),
    );
    s.receive(&[request(&json!(1), "roots/list", json!({}))]);
    s.expect_silence();
}

// --- Input rounds: 2026-07-28 ---

fn required(requests: &Value) -> Value {
    json!({"resultType": "input_required", "inputRequests": requests, "requestState": "S"})
}

/// C5.2, C5.3, C5.4, F103
#[test]
fn same_handlers_answer_input_requests_of_a_modern_server() {
    let handlers = ClientHandlers::new().roots(async |_, _| ListRootsResult::new(roots())).elicitation(
        async |params, _| {
            assert_eq!(params.message(), "Your name?");
            ElicitResult::accept([("name", "Ada".into())])
        },
    );
    let mut s = ClientHarness::modern_with(handlers);
    let mut call = s.client.call_tool("greet", json!({"loud": true}));
    pending(poll(&mut call));
    let first = s.line();
    let requests = json!({
        "name": {"method": "elicitation/create", "params": form()}, "where": {"method": "roots/list"},
    });
    s.answer(&first["id"], required(&requests));
    let second = s.line();
    assert_ne!(second["id"], first["id"]);
    let mut expected = first["params"].clone();
    expected["inputResponses"] = json!({
        "name": {"action": "accept", "content": {"name": "Ada"}},
        "where": {"roots": [{"uri": "file:///project"}]},
    });
    expected["requestState"] = json!("S");
    assert_eq!(second["params"], expected);
    pending(poll(&mut call));
    s.answer(&second["id"], text("Hello Ada"));
    assert_eq!(ready(poll(&mut call)).unwrap().text_content(), "Hello Ada");
}

/// C5.9
#[test]
fn error_of_a_handler_ends_the_call_that_required_input() {
    let handlers = ClientHandlers::new()
        .roots(async |_, _| never::<ListRootsResult>().await)
        .elicitation(async |_, _| Err::<ElicitResult, _>(ErrorObject::new(code::USER_REJECTED, "no").into()));
    let mut s = ClientHarness::modern_with(handlers);
    let mut call = s.client.call_tool("greet", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    let requests = json!({
        "a": {"method": "roots/list"}, "b": {"method": "elicitation/create", "params": form()},
    });
    s.answer(&id, required(&requests));
    let error = ready(poll(&mut call)).unwrap_err();
    assert_eq!(error.origin(), ErrorOrigin::Local);
    match error {
        Error::Input(InputError::Failed { key, error }) => {
            assert_eq!((&*key, error.code), ("b", code::USER_REJECTED));
        }
        other => panic!("{other:?}"),
    }
    s.expect_silence();
}

/// C5.9
#[test]
fn dropping_a_call_during_its_input_round_drops_the_handler_without_a_message() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let handlers = ClientHandlers::new().elicitation(move |_, _| {
        let held = Dropped(count.clone());
        async move {
            let _held = held;
            never::<ElicitResult>().await
        }
    });
    let mut s = ClientHarness::modern_with(handlers);
    let mut call = s.client.call_tool("greet", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.answer(&id, required(&json!({"b": {"method": "elicitation/create", "params": form()}})));
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(call);
    s.turn();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    s.expect_silence();
}

#[test]
fn input_request_without_a_handler_ends_the_call() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("greet", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.answer(&id, required(&json!({"a": {"method": "roots/list"}})));
    let error = ready(poll(&mut call)).unwrap_err();
    assert!(matches!(&error, Error::Input(InputError::Undeclared { .. })), "{error:?}");
    assert!(error.to_string().contains("roots"), "{error}");
}

/// C5.2
#[test]
fn manual_input_returns_the_input_requests() {
    let mut s =
        ClientHarness::modern_with(ClientHandlers::new().roots(async |_, _| ListRootsResult::new(roots())));
    let mut call = s.client.call_tool("greet", json!({})).input(InputMode::Manual);
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.answer(&id, required(&json!({"a": {"method": "roots/list"}})));
    let Err(Error::InputRequired(raw)) = ready(poll(&mut call)) else { panic!() };
    assert_eq!(raw.decode::<InputRequiredResult>().unwrap().request_state.as_deref(), Some("S"));
    s.expect_silence();
}

/// C10.8, C10.9
#[test]
fn handler_knows_the_call_of_a_page_and_the_host_can_retry_it() {
    let asked_for = Arc::new(Mutex::new(None));
    let noted = asked_for.clone();
    let handlers = ClientHandlers::new()
        .elicitation(move |_, cx| {
            *noted.lock().unwrap() = cx.request();
            core::future::ready(ElicitResult::new(ElicitAction::Accept))
        })
        .declare(|declared| *declared = declared.clone().with(ClientCapability::ElicitationUrl));
    let mut s = ClientHarness::legacy_with(handlers);
    let mut call = s.client.call_tool("greet", json!({})).start().unwrap();
    let id = s.expect("tools/call");
    let page = json!({"mode": "url", "elicitationId": "p", "url": "https://a.b", "message": "m"});
    let mut refused = error(&id, code::URL_ELICITATION_REQUIRED);
    refused["error"]["data"] = json!({"elicitations": [page]});
    s.receive(&[refused]);
    assert_eq!(*asked_for.lock().unwrap(), Some(call.id()));
    s.expect_silence();
    s.client.retry(call.id());
    let id = s.expect("tools/call");
    s.answer(&id, text("Hello"));
    assert_eq!(ready(poll(&mut call)).unwrap().text_content(), "Hello");
    // A request initiated by the server belongs to no call.
    s.receive(&[request(&json!(1), "elicitation/create", form())]);
    assert_eq!(*asked_for.lock().unwrap(), None);
}
