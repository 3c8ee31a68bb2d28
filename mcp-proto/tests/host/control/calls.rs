use super::driver::Host;
use super::*;

#[test]
fn deadline_of_a_call_includes_the_wait_for_its_server() {
    let mut policy = local("a");
    policy.call_timeout = 10 * SECOND;
    let mut host = Host::new([("one", policy)]);
    let call = host.call("one");
    host.connect("one");
    host.advance(10 * SECOND);
    assert_eq!(host.outcome(call), Some(CallOutcome::TimedOut));
    assert_eq!(host.actions(), []);
}

/// F64
#[test]
fn cancelled_call_that_waits_starts_nothing_later() {
    let mut host = Host::new([("one", local("a"))]);
    let call = host.call("one");
    host.plane.cancel(host.now, call);
    assert_eq!(host.outcome(call), Some(CallOutcome::Cancelled));
    host.connected("one");
    assert_eq!(host.actions(), []);
}

#[test]
fn cancelled_call_that_was_sent_is_aborted_once() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    let call = host.call("one");
    assert_eq!(host.actions(), [Action::Send { call, server: id("one"), generation }]);
    host.plane.cancel(host.now, call);
    host.plane.cancel(host.now, call);
    host.plane.handle_delivery(host.now, call, generation, Delivery::Answered);
    assert_eq!(host.actions(), [Action::Abort { call }]);
    assert_eq!(host.outcome(call), Some(CallOutcome::Cancelled));
    assert_eq!(host.events(), []);
}

#[test]
fn call_that_its_driver_refuses_ends_without_being_sent_again() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    let repeatable = CallOptions { repeat: Repeat::IfLost, ..CallOptions::default() };
    let call = host.plane.call(host.now, id("one"), repeatable).unwrap();
    host.actions();
    host.plane.handle_delivery(host.now, call, generation, Delivery::Refused);
    assert_eq!((host.actions(), host.outcome(call)), (vec![], Some(CallOutcome::Refused)));
}

/// C3.6, F73
#[test]
fn call_that_was_not_sent_is_sent_over_the_next_connection() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    let call = host.call("one");
    host.actions();
    host.plane.handle_delivery(host.now, call, generation, Delivery::NotSent);
    host.ended("one", generation, transient());
    host.next_attempt("one");
    let generation = host.connected("one");
    assert_eq!(host.actions(), [Action::Send { call, server: id("one"), generation }]);
}

/// F73
#[test]
fn call_that_may_have_been_executed_is_repeated_only_if_it_may_be() {
    for repeat in [Repeat::IfNotSent, Repeat::IfLost] {
        let mut host = Host::new([("one", local("a"))]);
        let generation = host.connected("one");
        let options = CallOptions { repeat, ..CallOptions::default() };
        let call = host.plane.call(host.now, id("one"), options).unwrap();
        host.actions();
        // The end of the connection tells the same without a delivery.
        host.ended("one", generation, transient());
        if repeat == Repeat::IfNotSent {
            assert_eq!(host.outcome(call), Some(CallOutcome::Lost));
            continue;
        }
        host.next_attempt("one");
        host.connected("one");
        assert!(matches!(host.actions()[..], [Action::Send { .. }]));
    }
}

/// F73
#[test]
fn call_is_sent_again_a_bounded_number_of_times() {
    for (delivery, end) in [
        (Delivery::NotSent, CallOutcome::Unavailable(Status::Reconnecting)),
        (Delivery::Lost, CallOutcome::Lost),
    ] {
        let mut host = Host::new([("one", remote("a"))]);
        let options = CallOptions { repeat: Repeat::IfLost, timeout: Some(Duration::MAX) };
        let call = host.plane.call(host.now, id("one"), options).unwrap();
        for sent in 1..=3 {
            let generation = host.connected("one");
            assert_eq!(host.actions(), [Action::Send { call, server: id("one"), generation }]);
            host.plane.handle_delivery(host.now, call, generation, delivery);
            assert_eq!(host.outcome(call), (sent == 3).then_some(end));
            host.ended("one", generation, transient());
            host.next_attempt("one");
        }
    }
}

#[test]
fn call_that_nobody_has_polled_was_certainly_not_sent() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    let call = host.call("one");
    host.ended("one", generation, transient());
    host.next_attempt("one");
    host.connected("one");
    assert!(matches!(host.actions()[..], [Action::Send { call: sent, .. }] if sent == call));
}

#[test]
fn calls_are_bounded_until_their_ends_are_polled() {
    let mut config = ControlConfig::default();
    config.calls = 2;
    let mut host = Host { plane: ControlPlane::new(config), now: Instant::ORIGIN };
    host.configure([("one", local("a"))]);
    let call = host.call("one");
    host.call("one");
    let refused = |host: &mut Host| host.plane.call(host.now, id("one"), CallOptions::default()).is_err();
    assert!(refused(&mut host));
    host.plane.cancel(host.now, call);
    assert!(refused(&mut host));
    host.events();
    assert!(!refused(&mut host));
}

#[test]
fn unknown_server_is_refused() {
    let mut host = Host::new([]);
    let refused = host.plane.call(host.now, id("none"), CallOptions::default());
    assert_eq!(refused, Err(CallRefusal::UnknownServer));
    assert_eq!(host.plane.reconnect(host.now, id("none")), Err(UnknownServer));
}

#[test]
fn call_whose_exchange_alone_is_lost_is_sent_again_over_the_same_connection() {
    let mut host = Host::new([("one", remote("a"))]);
    let generation = host.connected("one");
    let repeatable = CallOptions { repeat: Repeat::IfLost, ..CallOptions::default() };
    let again = host.plane.call(host.now, id("one"), repeatable).unwrap();
    let once = host.call("one");
    host.actions();
    host.plane.handle_delivery(host.now, again, generation, Delivery::ExchangeLost);
    assert_eq!(host.actions(), [Action::Send { call: again, server: id("one"), generation }]);
    host.plane.handle_delivery(host.now, once, generation, Delivery::ExchangeLost);
    assert_eq!((host.actions(), host.outcome(once)), (vec![], Some(CallOutcome::Lost)));

    // Not forever.
    for _ in 0..2 {
        host.plane.handle_delivery(host.now, again, generation, Delivery::ExchangeLost);
        host.actions();
    }
    assert_eq!(host.outcome(again), Some(CallOutcome::Lost));
}
