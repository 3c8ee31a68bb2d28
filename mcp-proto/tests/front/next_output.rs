//! Drivers that wait for output, input and time at once.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use mcp_proto::adapter;
use mcp_proto::front::{ClientHandlers, Router};
use mcp_proto::peer::client::LinkAction;
use mcp_proto::transport::{StreamClient, StreamServer};
use mcp_proto::{Bytes, Instant};

use crate::common::front::config;
use crate::common::polling::{CountingEntropy, TestClock, WakeCounter};

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
        machine.handle_eof(now, "");
    });
    let due = driver.next_timeout();
    let answer = pin!(driver.next_output(due, take)).poll(&mut cx);
    assert!(matches!(answer, Poll::Ready(Some(_))), "{answer:?}");
    let due = driver.next_timeout();
    assert_eq!(pin!(driver.next_output(due, take)).poll(&mut cx), Poll::Ready(None));
    assert!(driver.closed().is_some());
}
