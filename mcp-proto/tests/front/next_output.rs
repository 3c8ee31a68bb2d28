//! Drivers that wait for output, input and time at once.

use core::future::pending;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use futures_lite::future::block_on;
use mcp_proto::adapter::{self, Clock as _};
use mcp_proto::front::http::HttpExchange;
use mcp_proto::front::{ClientHandlers, NoArguments, Router};
use mcp_proto::peer::client::LinkAction;
use mcp_proto::transport::http::server::{BodyKind, RequestHead};
use mcp_proto::transport::{StreamClient, StreamServer};
use mcp_proto::{Bytes, Instant};

use crate::common::front::config;
use crate::common::front_http::HttpHarness;
use crate::common::messages::MODERN;
use crate::common::polling::{CountingEntropy, TestClock, WakeCounter};
use crate::common::tools::tool;

fn output(machine: &mut StreamClient, now: Instant) -> Option<Vec<u8>> {
    if let Some(LinkAction::Open) = machine.poll_link() {
        machine.handle_open(now);
    }
    let mut out = Vec::new();
    machine.poll_transmit(&mut out).then_some(out)
}

#[test]
fn driver_that_waits_for_output_learns_of_a_moved_deadline_and_of_the_end() {
    let clock = Arc::new(TestClock::default());
    let (client, mut driver) = adapter::client(StreamClient::new(config()), clock, ClientHandlers::new());
    let (wakes, waker) = WakeCounter::new();
    let mut cx = Context::from_waker(&waker);

    assert_eq!(driver.next_timeout(), None);
    let first = pin!(driver.next_output(None, output)).poll(&mut cx);
    assert!(matches!(first, Poll::Ready(Some(_))), "the probe");
    // The probe has a timeout now, of which the adapter does not know.
    assert_eq!(pin!(driver.next_output(None, output)).poll(&mut cx), Poll::Ready(None));
    let due = driver.next_timeout();
    assert!(due.is_some());

    {
        let mut waiting = pin!(driver.next_output(due, output));
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        wakes.take();
        client.abort();
        assert_eq!(wakes.take(), 1);
        assert_eq!(waiting.poll(&mut cx), Poll::Ready(None));
    }
    assert!(driver.closed().is_some());
}

#[test]
fn driver_that_waits_for_output_handles_the_timeouts_that_are_due() {
    let clock = Arc::new(TestClock::default());
    let (_client, mut driver) =
        adapter::client(StreamClient::new(config()), clock.clone(), ClientHandlers::new());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(driver.next_output(None, output)).poll(&mut cx).is_ready());
    let due = driver.next_timeout();
    assert!(pin!(driver.next_output(due, output)).poll(&mut cx).is_pending());
    clock.advance(due.unwrap().since_origin());
    assert!(pin!(driver.next_output(due, output)).poll(&mut cx).is_ready());
    assert_ne!(driver.next_timeout(), due);
}

#[test]
fn server_driver_returns_answers_and_then_the_end() {
    let clock = Arc::new(TestClock::default());
    let router = Router::new("server", "1");
    let machine = StreamServer::new(router.config());
    let entropy = Arc::new(CountingEntropy::default());
    let (_handle, mut driver) = adapter::server(machine, clock, entropy, router);
    let mut cx = Context::from_waker(Waker::noop());
    let take = |machine: &mut StreamServer, _| {
        let mut out = Vec::new();
        machine.poll_transmit(&mut out).then_some(out)
    };
    let due = driver.next_timeout();
    assert!(pin!(driver.next_output(due, take)).poll(&mut cx).is_pending());
    driver.lock(|machine, now| {
        machine
            .handle_input(now, Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"));
    });
    assert!(driver.next_timeout().is_some(), "the answer must be written in time");
    driver.lock(|machine, now| machine.handle_eof(now, ""));
    let due = driver.next_timeout();
    let answer = pin!(driver.next_output(due, take)).poll(&mut cx);
    assert!(matches!(answer, Poll::Ready(Some(_))), "{answer:?}");
    let due = driver.next_timeout();
    assert_eq!(pin!(driver.next_output(due, take)).poll(&mut cx), Poll::Ready(None));
    assert!(driver.closed().is_some());
}

/// A server whose tool never answers, and a request that calls the tool, without its body yet.
fn call() -> (HttpHarness, HttpExchange) {
    let never = async |NoArguments {}, _| pending::<String>().await;
    let web = HttpHarness::new(Router::new("server", "1").tool_with(tool("never"), never));
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "never"),
    ];
    let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
    let exchange = web.server.exchange(&head, None);
    (web, exchange)
}

const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never","_meta":{
    "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A sleep that sets the clock, the first time too early.
fn sleep(clock: &Arc<TestClock>) -> impl AsyncFn(Duration) {
    let (clock, is_first) = (clock.clone(), AtomicBool::new(true));
    async move |time| {
        let time = if is_first.swap(false, Ordering::Relaxed) { time / 2 } else { time };
        clock.advance(time);
    }
}

#[test]
fn exchange_that_waits_for_its_head_answers_a_body_that_does_not_arrive() {
    let (web, mut exchange) = call();
    let due = exchange.next_timeout().unwrap();
    assert_eq!(block_on(exchange.next_head(sleep(&web.clock))).status, 408);
    assert_eq!(web.clock.now(), due);
}

#[test]
fn exchange_that_waits_for_its_output_keeps_its_stream_alive() {
    let (web, mut exchange) = call();
    exchange.handle_body(Bytes::from_static(BODY));
    exchange.handle_body_end();
    let sleep = sleep(&web.clock);
    let head = block_on(exchange.next_head(&sleep));
    assert_eq!((head.status, head.body), (200, BodyKind::Stream));
    for _ in 0..2 {
        assert_eq!(&block_on(exchange.next_body(&sleep)).unwrap()[..], b":\n\n");
    }
    assert_eq!(web.clock.now().since_origin(), web.server.config().keepalive * 2);
}

#[test]
fn driver_of_sessions_runs_until_the_server_was_closed() {
    let (mut web, _) = call();
    web.open();
    let driver = web.driver.take().unwrap();
    let timed_out = web.clock.clone();
    let mut running = pin!(driver.run(sleep(&timed_out)));
    web.server.close();
    assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}
