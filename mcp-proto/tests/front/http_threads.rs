//! An HTTP server whose exchanges, driver and publishers are on different threads.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread;

use crate::common::front_http::{HttpHarness, router};
use crate::common::polling::{boxed, pending};
use futures_lite::future::block_on;
use mcp_proto::Bytes;
use mcp_proto::front::http::{HttpExchange, HttpHandle, HttpServer, HttpServerDriver};
use mcp_proto::front::{LocalHandlers, NoArguments, Router};
use mcp_proto::peer::server::ListKind;
use mcp_proto::schema::Tool;
use serde_json::json;

async fn body(exchange: &mut HttpExchange) -> Vec<u8> {
    poll_fn(|cx| exchange.poll_head(cx)).await;
    let mut body = Vec::new();
    while let Some(bytes) = part(exchange).await {
        body.extend_from_slice(&bytes);
    }
    body
}

async fn part(exchange: &mut HttpExchange) -> Option<Bytes> {
    poll_fn(|cx| exchange.poll_body(cx)).await
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

const THREADS: usize = 4;
const CALLS: usize = 300;

/// No wake-up is lost between the thread that answers and the one that waits, in either order.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs threads")]
fn server_answers_every_request_of_every_thread() {
    let mut web = HttpHarness::new(router().0);
    let sessions: Vec<String> = (0..THREADS).map(|_| web.open()).collect();
    let mut driver = web.driver.take().unwrap();
    let driven = thread::spawn(move || block_on(poll_fn(|cx| driver.poll(cx))));
    let web = Arc::new(Mutex::new(web));
    let callers: Vec<_> = sessions
        .into_iter()
        .map(|session| {
            let web = web.clone();
            thread::spawn(move || {
                for number in 0..CALLS {
                    let params = json!({"name": "add", "arguments": {"a": number, "b": 0}});
                    let (modern, legacy) = {
                        let mut web = web.lock().unwrap();
                        let legacy = web.post_request(&session, "tools/call", params.clone());
                        (web.ask("tools/call", params), legacy)
                    };
                    for mut caller in [legacy, modern] {
                        let answer = block_on(body(&mut caller.exchange));
                        assert!(contains(&answer, &format!("\"text\":\"{number}\"")));
                    }
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    web.lock().unwrap().server.close();
    driven.join().unwrap();
}

/// Contract of the hub: every change published after the acknowledgement of a subscription reaches it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs threads")]
fn subscribers_miss_no_change() {
    let mut web = HttpHarness::new(router().0);
    let seen = Arc::new(AtomicUsize::new(0));
    let (done, heard) = std::sync::mpsc::channel();
    let listeners: Vec<_> = (0..THREADS)
        .map(|_| {
            let filter = json!({"resourceSubscriptions": ["note:///a"]});
            let mut caller = web.ask("subscriptions/listen", json!({"notifications": filter}));
            let (seen, done) = (seen.clone(), done.clone());
            thread::spawn(move || {
                block_on(async {
                    poll_fn(|cx| caller.exchange.poll_head(cx)).await;
                    assert!(contains(&part(&mut caller.exchange).await.unwrap(), "acknowledged"));
                    done.send(()).unwrap();
                    while let Some(told) = part(&mut caller.exchange).await {
                        if contains(&told, "note:///a") {
                            seen.fetch_add(1, Ordering::SeqCst);
                            done.send(()).unwrap();
                        }
                    }
                });
            })
        })
        .collect();
    let all = || (0..THREADS).for_each(|_| heard.recv().unwrap());
    all();
    let server = web.server.clone();
    for round in 1..=CALLS {
        server.resource_updated("note:///a");
        all();
        assert_eq!(seen.load(Ordering::SeqCst), round * THREADS);
    }
    server.close();
    listeners.into_iter().for_each(|listener| listener.join().unwrap());
}

/// A change published while an exchange is about to return pending is not missed.
#[test]
fn exchange_reports_a_change_published_just_before_it_returns_pending() {
    let mut web = HttpHarness::new(router().0);
    let filter = json!({"resourceSubscriptions": ["note:///a"]});
    let mut caller = web.ask("subscriptions/listen", json!({"notifications": filter}));
    assert_eq!(caller.message()["method"], "notifications/subscriptions/acknowledged");
    let handle = web.server.handle().clone();
    // The poll reads the clock after the handlers were polled, and before the waker is stored.
    web.clock.meanwhile(move || handle.resource_updated("note:///a"));
    assert_eq!(caller.message()["method"], "notifications/resources/updated");
}

#[test]
fn server_closed_during_a_poll_closes_everything() {
    let (router, _held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let mut waiting = web.call("hold", json!({}));
    let mut legacy = web.post_request(&session, "tools/call", json!({"name": "hold", "arguments": {}}));
    legacy.poll_exchange();
    let handle = web.server.handle().clone();
    web.clock.meanwhile(move || handle.close());
    assert!(!waiting.has_head());
    assert!(web.server.is_closing() && waiting.exchange.next_timeout().is_some());
    web.poll_driver();
    web.advance(web.server.config().server.close_timeout);
    assert!(web.done);
    assert_eq!(legacy.message()["error"]["code"], -32603);
    waiting.advance_to_timeout();
    assert_eq!(waiting.message()["error"]["code"], -32603);
}

/// The same for the driver of sessions.
#[test]
fn server_closed_while_its_driver_is_polled_ends() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let params = json!({"uri": "note:///a"});
    web.post_request(&session, "resources/subscribe", params).poll_exchange();
    web.server.resource_updated("note:///a");
    let handle = web.server.handle().clone();
    web.clock.meanwhile(move || handle.close());
    web.poll_driver();
    assert!(web.done);
}

/// The server calls no waker under a lock: this one uses the server.
#[test]
fn waker_can_use_the_server() {
    struct ReentrantWaker(Mutex<Option<HttpHandle>>, AtomicUsize);
    impl Wake for ReentrantWaker {
        fn wake(self: Arc<Self>) {
            let handle = self.0.lock().unwrap().clone().unwrap();
            if self.1.fetch_add(1, Ordering::SeqCst) < 10 {
                handle.resource_updated("note:///a");
                handle.list_changed(ListKind::Tools);
            } else {
                handle.close();
            }
        }
    }
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let nosy = Arc::new(ReentrantWaker(Mutex::new(Some(web.server.handle().clone())), AtomicUsize::new(0)));
    let waker = Waker::from(nosy.clone());
    let mut cx = Context::from_waker(&waker);
    let filter = json!({"resourceSubscriptions": ["note:///a"], "toolsListChanged": true});
    let mut listening = web.ask("subscriptions/listen", json!({"notifications": filter}));
    let mut events = web.get(&session, None);
    let mut driver = web.driver.take().unwrap();
    web.server.list_changed(ListKind::Tools);
    while nosy.1.load(Ordering::SeqCst) <= 10 {
        for exchange in [&mut listening.exchange, &mut events.exchange] {
            let _ = exchange.poll_head(&mut cx);
            while let Poll::Ready(Some(_)) = exchange.poll_body(&mut cx) {}
        }
        let _ = driver.poll(&mut cx);
        web.server.resource_updated("note:///a");
        web.server.list_changed(ListKind::Tools);
    }
    assert!(web.server.is_closing());
}

/// The server drops no handler under a lock: this one uses the server in its destructor.
#[test]
fn handler_can_use_the_server_while_it_is_dropped() {
    struct ReentrantDrop(Arc<Mutex<Option<HttpHandle>>>);
    impl Drop for ReentrantDrop {
        fn drop(&mut self) {
            let handle = self.0.lock().unwrap().clone().unwrap();
            handle.resource_updated("note:///a");
            handle.close();
        }
    }
    for legacy in [false, true] {
        let slot = Arc::new(Mutex::new(None));
        let keeps = slot.clone();
        let tool = Tool::new("hold", "", json!({"type": "object"}));
        let router = Router::new("x", "1").tool_with(tool, move |NoArguments {}, _| {
            let nosy = ReentrantDrop(keeps.clone());
            async move {
                let _nosy = nosy;
                core::future::pending::<String>().await
            }
        });
        let mut web = HttpHarness::new(router);
        *slot.lock().unwrap() = Some(web.server.handle().clone());
        let params = json!({"name": "hold", "arguments": {}});
        if legacy {
            let session = web.open();
            let mut caller = web.post_request(&session, "tools/call", params);
            assert!(!caller.has_head());
            web.delete(&session);
        } else {
            let mut caller = web.ask("tools/call", params);
            assert!(!caller.has_head());
        }
        assert!(web.server.is_closing());
    }
}

#[test]
fn server_types_are_send_or_sync() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_send::<HttpServerDriver>();
    is_send::<HttpExchange>();
    is_shared::<HttpServer>();
    is_shared::<HttpHandle>();
}

/// Handlers of a local router need not be `Send`, in either era.
#[test]
fn local_router_serves_on_its_own_thread() {
    let count = std::rc::Rc::new(core::cell::Cell::new(0));
    let tool = Tool::new("count", "", json!({"type": "object"}));
    let router: Router<LocalHandlers> = Router::local("x", "1").tool_with(tool, move |NoArguments {}, _| {
        count.set(count.get() + 1);
        let count = count.clone();
        async move { count.get().to_string() }
    });
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let params = json!({"name": "count", "arguments": {}});
    let first = web.ask("tools/call", params.clone()).message();
    let second = web.post_request(&session, "tools/call", params).message();
    assert_eq!(first["result"]["content"][0]["text"], "1");
    assert_eq!(second["result"]["content"][0]["text"], "2");
    // Its handle may move to another thread nevertheless.
    let handle = web.server.handle().clone();
    fn is_send<T: Send>(_: T) {}
    is_send(handle);
}

/// Dropping the future that waits for a response, and not the exchange, loses nothing.
#[test]
fn response_future_can_be_dropped_and_created_again() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut caller = web.call("hold", json!({}));
    pending(crate::common::polling::poll(&mut boxed(poll_fn(|cx| caller.exchange.poll_head(cx)))));
    held.release("still there");
    assert_eq!(caller.message()["result"]["content"][0]["text"], "still there");
}
