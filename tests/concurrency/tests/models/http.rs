//! Exchanges, sessions and handles of an HTTP server on different threads.

use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::front::http::{HttpExchange, HttpServerDriver};
use mcp_proto::peer::server::ListKind;
use serde_json::json;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};

use crate::common::front_http::{HttpHarness, router};
use crate::explore::explore;

fn poll_part(exchange: &mut HttpExchange, has_head: &mut bool, cx: &mut Context<'_>) -> Poll<Option<String>> {
    if !*has_head {
        if exchange.poll_head(cx).is_pending() {
            return Poll::Pending;
        }
        *has_head = true;
    }
    exchange.poll_body(cx).map(|part| part.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads an answer until it has this text; returns whether it has.
fn reads(exchange: &mut HttpExchange, text: &str) -> bool {
    let (mut has_head, mut read) = (false, String::new());
    block_on(poll_fn(|cx| {
        loop {
            match poll_part(exchange, &mut has_head, cx) {
                Poll::Ready(Some(part)) => read.push_str(&part),
                Poll::Ready(None) => return Poll::Ready(read.contains(text)),
                Poll::Pending if read.contains(text) => return Poll::Ready(true),
                Poll::Pending => return Poll::Pending,
            }
        }
    }))
}

fn spawn_driver(web: &mut HttpHarness) -> JoinHandle<()> {
    let mut driver: HttpServerDriver = web.driver.take().unwrap();
    thread::spawn(move || block_on(poll_fn(|cx| driver.poll(cx))))
}

/// A handler that another thread wakes answers its exchange. Fails if the exchange stores its waker after it looked for ready
/// handlers.
#[test]
fn exchange_answers_when_its_handler_is_woken() {
    explore(|| {
        let (router, held) = router();
        let mut web = HttpHarness::new(router);
        let mut caller = web.call("hold", json!({}));
        let releaser = thread::spawn(move || held.release("released"));
        assert!(reads(&mut caller.exchange, "released"));
        releaser.join().unwrap();
    });
}

/// An exchange may be dropped at any time while its handler ends, and others are answered.
#[test]
fn exchange_dropped_while_its_handler_ends_leaves_the_others_theirs() {
    explore(|| {
        let (router, held) = router();
        let mut web = HttpHarness::new(router);
        let (mut dropped, mut caller) = (web.call("hold", json!({})), web.call("hold", json!({})));
        let releaser = thread::spawn(move || held.release("released"));
        let dropper = thread::spawn(move || {
            let polls = thread_rng().gen_range(0..3);
            block_on(poll_fn(|cx| {
                for _ in 0..polls {
                    let _ = dropped.exchange.poll_head(cx);
                }
                Poll::Ready(())
            }));
            drop(dropped);
        });
        assert!(reads(&mut caller.exchange, "released"));
        for thread in [releaser, dropper] {
            thread.join().unwrap();
        }
    });
}

/// The request of a session passes from its exchange to the driver's thread, and its answer back.
#[test]
fn session_answers_from_its_driver() {
    explore(|| {
        let (router, held) = router();
        let mut web = HttpHarness::new(router);
        let session = web.open();
        let driver = spawn_driver(&mut web);
        let params = json!({"name": "hold", "arguments": {}});
        let mut caller = web.post_request(&session, "tools/call", params);
        let releaser = thread::spawn(move || held.release("released"));
        assert!(reads(&mut caller.exchange, "released"));
        drop(caller);
        web.server.close();
        for thread in [releaser, driver] {
            thread.join().unwrap();
        }
    });
}

/// A change that is published reaches an exchange that waits for it, and a session's stream.
#[test]
fn published_change_reaches_every_subscriber() {
    explore(|| {
        let (router, _held) = router();
        let mut web = HttpHarness::new(router);
        let session = web.open();
        let mut listening =
            web.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        assert_eq!(listening.message()["method"], "notifications/subscriptions/acknowledged");
        let mut stream = web.get(&session, None);
        let driver = spawn_driver(&mut web);
        let handle = web.server.handle().clone();
        let publisher = thread::spawn(move || handle.list_changed(ListKind::Tools));
        let listener = thread::spawn(move || {
            let mut has_head = true;
            let part = block_on(poll_fn(|cx| poll_part(&mut listening.exchange, &mut has_head, cx)));
            assert!(part.unwrap().contains("notifications/tools/list_changed"));
        });
        assert!(reads(&mut stream.exchange, "notifications/tools/list_changed"));
        drop(stream);
        for thread in [publisher, listener] {
            thread.join().unwrap();
        }
        web.server.close();
        driver.join().unwrap();
    });
}

/// Subscriptions of both eras may open while changes are published: each change after an acknowledgement is received. Fails if
/// a subscription is acknowledged before the hub has it.
#[test]
fn subscription_that_opens_misses_no_later_change() {
    explore(|| {
        let (router, _held) = router();
        let mut web = HttpHarness::new(router);
        let session = web.open();
        let driver = spawn_driver(&mut web);
        let filter = json!({"resourceSubscriptions": ["note:///a"]});
        let mut listening = web.ask("subscriptions/listen", json!({"notifications": filter}));
        let mut subscribed = web.post_request(&session, "resources/subscribe", json!({"uri": "note:///a"}));
        let mut stream = web.get(&session, None);
        let handle = web.server.handle().clone();
        let publisher = thread::spawn(move || handle.resource_updated("note:///a"));
        let handle = web.server.handle().clone();
        let listener = thread::spawn(move || {
            let mut has_head = false;
            let mut part = || {
                let part = block_on(poll_fn(|cx| poll_part(&mut listening.exchange, &mut has_head, cx)));
                part.unwrap()
            };
            assert!(part().contains("acknowledged"));
            handle.resource_updated("note:///a");
            assert!(part().contains("notifications/resources/updated"));
        });
        assert!(reads(&mut subscribed.exchange, "result"));
        web.server.resource_updated("note:///a");
        assert!(reads(&mut stream.exchange, "notifications/resources/updated"));
        drop((subscribed, stream));
        for thread in [publisher, listener] {
            thread.join().unwrap();
        }
        web.server.close();
        driver.join().unwrap();
    });
}

/// The driver notices a session that opens while it is polled. Fails if it does not look for new sessions after it has stored
/// its waker.
#[test]
fn driver_notices_a_session_that_opens() {
    explore(|| {
        let mut web = HttpHarness::new(router().0);
        let driver = spawn_driver(&mut web);
        let session = web.open();
        let mut caller = web.post_request(&session, "tools/call", json!({"name": "work", "arguments": {}}));
        assert!(reads(&mut caller.exchange, "done"));
        drop(caller);
        web.server.close();
        driver.join().unwrap();
    });
}

/// A server that closes ends a driver that is being polled. Fails if that does not look again whether the server closes, after
/// it has stored its waker.
#[test]
fn closing_server_ends_its_driver() {
    explore(|| {
        let mut web = HttpHarness::new(router().0);
        let driver = spawn_driver(&mut web);
        web.server.close();
        driver.join().unwrap();
    });
}

/// A server that closes wakes an exchange that waits for its handler, also one that registers meanwhile. Fails if an exchange
/// does not look whether the server closes after it has registered, or the server marks itself as closing after it has woken
/// its exchanges.
#[test]
fn closing_server_wakes_an_exchange_that_registers() {
    explore(|| {
        let mut web = HttpHarness::new(router().0);
        let mut waiting = web.call("hold", json!({}));
        let handle = web.server.handle().clone();
        let closer = thread::spawn(move || handle.close());
        // It notices the end, and waits for its handler no longer than the configuration says.
        let close_timeout = web.server.config().server.close_timeout;
        block_on(poll_fn(|cx| {
            assert!(waiting.exchange.poll_head(cx).is_pending());
            let is_closing = waiting.exchange.next_timeout() == Some(Instant::ORIGIN + close_timeout);
            if is_closing { Poll::Ready(()) } else { Poll::Pending }
        }));
        web.clock.advance(close_timeout);
        waiting.exchange.handle_timeout();
        assert!(reads(&mut waiting.exchange, "-32603"));
        closer.join().unwrap();
    });
}

/// A server that closes ends a subscription that is being polled. Fails if the exchange does not look whether the server closes
/// after each poll.
#[test]
fn closing_server_ends_a_subscription_that_receives_a_change() {
    explore(|| {
        let mut web = HttpHarness::new(router().0);
        let mut listening =
            web.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        assert_eq!(listening.message()["method"], "notifications/subscriptions/acknowledged");
        let handles = [(); 2].map(|()| web.server.handle().clone());
        let [publishing, closing] = handles;
        let publisher = thread::spawn(move || publishing.list_changed(ListKind::Tools));
        let closer = thread::spawn(move || closing.close());
        let mut has_head = true;
        let mut part = || block_on(poll_fn(|cx| poll_part(&mut listening.exchange, &mut has_head, cx)));
        while part().is_some() {}
        for thread in [publisher, closer] {
            thread.join().unwrap();
        }
    });
}

/// A server that closes ends the streams of its sessions.
#[test]
fn closing_server_ends_the_streams_of_its_sessions() {
    explore(|| {
        let mut web = HttpHarness::new(router().0);
        let session = web.open();
        let mut stream = web.get(&session, None);
        let driver = spawn_driver(&mut web);
        let handle = web.server.handle().clone();
        let closer = thread::spawn(move || handle.close());
        assert!(!reads(&mut stream.exchange, "no such text"));
        for thread in [closer, driver] {
            thread.join().unwrap();
        }
    });
}

/// A session may become idle while a request of its client arrives: that is answered, and a change is not missed.
#[test]
fn session_that_becomes_idle_answers() {
    explore(|| {
        let (router, _held) = router();
        let mut web = HttpHarness::new(router);
        let session = web.open();
        let mut driver = web.driver.take().unwrap();
        web.clock.advance(Duration::from_secs(10));
        let driver = thread::spawn(move || block_on(poll_fn(|cx| driver.poll(cx))));
        let handle = web.server.handle().clone();
        let publisher = thread::spawn(move || handle.list_changed(ListKind::Tools));
        let mut caller = web.post_request(&session, "tools/call", json!({"name": "work", "arguments": {}}));
        assert!(reads(&mut caller.exchange, "done"));
        let mut stream = web.get(&session, None);
        assert!(reads(&mut stream.exchange, "notifications/tools/list_changed"));
        drop((caller, stream));
        web.server.close();
        for thread in [publisher, driver] {
            thread.join().unwrap();
        }
    });
}

/// A driver that is dropped ends the streams and the requests of its sessions.
#[test]
fn dropped_driver_ends_its_sessions() {
    explore(|| {
        let (router, held) = router();
        let mut web = HttpHarness::new(router);
        let session = web.open();
        let mut driver = web.driver.take().unwrap();
        let mut caller = web.post_request(&session, "tools/call", json!({"name": "hold", "arguments": {}}));
        let dropper = thread::spawn(move || {
            let polls = thread_rng().gen_range(0..3);
            block_on(poll_fn(|cx| {
                for _ in 0..polls {
                    let _ = driver.poll(cx);
                }
                Poll::Ready(())
            }));
            drop(driver);
        });
        let releaser = thread::spawn(move || held.release("released"));
        let _ = reads(&mut caller.exchange, "released");
        for thread in [releaser, dropper] {
            thread.join().unwrap();
        }
    });
}
