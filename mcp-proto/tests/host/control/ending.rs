//! Ends that let running calls finish: F76 of `tests/behaviours.txt`.

use super::driver::Host;
use super::*;

const GRACE: Duration = Duration::from_secs(5);

/// A host whose server `one` works on a call, and another call that waits to be sent.
fn working() -> (Host, Generation, CallId, CallId) {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    let running = host.call("one");
    assert_eq!(host.actions(), [Action::Send { call: running, server: id("one"), generation }]);
    let unsent = host.call("one");
    host.events();
    (host, generation, running, unsent)
}

type Command = fn(&mut Host);

/// Each way to end the server, with the end of its calls that have no answer.
fn ends() -> [(Command, CallOutcome); 4] {
    [
        (|host| host.plane.close(host.now), CallOutcome::Closed),
        (|host| host.configure([]), CallOutcome::Removed),
        (|host| host.configure([("one", local("b"))]), CallOutcome::Removed),
        (
            |host| host.plane.set_enabled(host.now, id("one"), false).unwrap(),
            CallOutcome::Unavailable(Status::Disabled),
        ),
    ]
}

/// F76
#[test]
fn running_call_finishes_before_its_server_ends() {
    for (number, (end, outcome)) in ends().into_iter().enumerate() {
        let is_removed = number == 1;
        let (mut host, generation, running, unsent) = working();
        end(&mut host);
        assert_eq!(host.actions(), [], "the connection goes on, and nothing more is sent");
        assert_eq!(host.outcome(unsent), Some(outcome));
        // It is shown as long as it is configured.
        let grace_ends = host.plane.server(id("one")).map(|state| state.grace_ends);
        let expected = Some(Some(host.now + GRACE)).filter(|_| !is_removed);
        assert_eq!(grace_ends, expected);
        host.advance(4 * SECOND);
        host.plane.handle_delivery(host.now, running, generation, Delivery::Answered);
        assert_eq!(host.actions(), [Action::Disconnect { server: id("one"), generation }]);
        assert_eq!(host.outcome(running), Some(CallOutcome::Answered));
    }
}

/// F76
#[test]
fn call_that_runs_longer_than_the_grace_is_aborted_before_the_disconnection() {
    for (end, outcome) in ends() {
        let (mut host, generation, running, _) = working();
        end(&mut host);
        host.advance(GRACE);
        let disconnection = Action::Disconnect { server: id("one"), generation };
        assert_eq!(host.actions(), [Action::Abort { call: running }, disconnection]);
        assert_eq!(host.outcome(running), Some(outcome));
    }
}

/// F76
#[test]
fn call_to_an_ending_server_is_refused_or_waits_for_the_next_connection() {
    let (mut host, generation, running, _) = working();
    host.plane.set_enabled(host.now, id("one"), false).unwrap();
    let call = |host: &mut Host| host.plane.call(host.now, id("one"), CallOptions::default());
    assert_eq!(call(&mut host), Err(CallRefusal::Unavailable(Status::Disabled)));
    host.plane.set_enabled(host.now, id("one"), true).unwrap();
    let next = call(&mut host).unwrap();
    assert_eq!(host.actions(), []);
    host.plane.handle_delivery(host.now, running, generation, Delivery::Answered);
    host.actions();
    host.ended("one", generation, None);
    let generation = host.connected("one");
    assert_eq!(host.actions(), [Action::Send { call: next, server: id("one"), generation }]);

    host.configure([]);
    assert_eq!(call(&mut host), Err(CallRefusal::UnknownServer));
    host.plane.close(host.now);
    assert_eq!(call(&mut host), Err(CallRefusal::Closed));
}

#[test]
fn connection_that_breaks_within_the_grace_loses_its_calls_and_is_not_made_again() {
    for repeat in [Repeat::IfNotSent, Repeat::IfLost] {
        let mut host = Host::new([("one", local("a"))]);
        let generation = host.connected("one");
        let call = host.plane.call(host.now, id("one"), CallOptions { timeout: None, repeat }).unwrap();
        host.actions();
        host.configure([]);
        host.ended("one", generation, transient());
        assert_eq!(host.outcome(call), Some(CallOutcome::Lost));
        assert_eq!((host.actions(), host.plane.poll_timeout()), (vec![], None));
        assert!(host.plane.server(id("one")).is_none());
    }
}

#[test]
fn call_that_did_not_arrive_within_the_grace_ends_with_its_server() {
    let (mut host, generation, running, _) = working();
    host.configure([]);
    host.plane.handle_delivery(host.now, running, generation, Delivery::NotSent);
    assert_eq!(host.outcome(running), Some(CallOutcome::Removed));
    assert_eq!(host.actions().last(), Some(&Action::Disconnect { server: id("one"), generation }));
}

#[test]
fn close_now_ends_the_grace_and_withdrawn_approval_has_none() {
    let (mut host, generation, running, _) = working();
    host.plane.close(host.now);
    host.plane.close_now(host.now);
    let disconnection = Action::Disconnect { server: id("one"), generation };
    assert_eq!(host.actions(), [Action::Abort { call: running }, disconnection]);
    host.advance(GRACE);
    assert!(host.events().contains(&Event::Closed));

    let mut policy = local("a");
    policy.approval = Some(content("content"));
    policy.is_approved = true;
    let mut host = Host::new([("one", policy)]);
    let generation = host.connected("one");
    let call = host.call("one");
    host.actions();
    host.plane.revoke_approval(host.now, id("one")).unwrap();
    let disconnection = Action::Disconnect { server: id("one"), generation };
    assert_eq!(host.actions(), [Action::Abort { call }, disconnection]);
}

#[test]
fn approval_of_a_changed_server_does_not_cut_the_calls_of_the_old_one() {
    let mut host = Host::new([("one", with_content("a", true))]);
    let generation = host.connected("one");
    let call = host.call("one");
    host.actions();
    host.configure([("one", with_content("b", false))]);
    assert_eq!(host.status("one"), Status::Unapproved);
    host.plane.handle_approval(host.now, id("one"), content("b"), true);
    assert_eq!(host.actions(), []);
    host.plane.handle_delivery(host.now, call, generation, Delivery::Answered);
    host.actions();
    host.ended("one", generation, None);
    host.connect("one");
}

#[test]
fn reconnection_ends_the_grace_unless_the_server_is_off() {
    let (mut host, generation, running, _) = working();
    host.plane.set_enabled(host.now, id("one"), false).unwrap();
    host.plane.reconnect(host.now, id("one")).unwrap();
    assert_eq!(host.actions(), []);
    host.plane.set_enabled(host.now, id("one"), true).unwrap();
    host.plane.reconnect(host.now, id("one")).unwrap();
    let disconnection = Action::Disconnect { server: id("one"), generation };
    assert_eq!(host.actions(), [Action::Abort { call: running }, disconnection]);
}

#[test]
fn close_waits_for_the_grace_and_then_for_the_shutdown() {
    let (mut host, ..) = working();
    host.plane.close(host.now);
    host.advance(GRACE + 4 * SECOND);
    assert!(!host.events().contains(&Event::Closed));
    host.advance(SECOND);
    assert!(host.events().contains(&Event::Closed));
    assert_eq!((host.plane.poll_timeout(), host.plane.open_calls()), (None, 0));
}

fn running_host(config: ControlConfig) -> (Host, Generation, CallId) {
    let mut host = Host { plane: ControlPlane::new(config), now: Instant::ORIGIN };
    host.configure([("one", local("a"))]);
    let generation = host.connected("one");
    let running = host.call("one");
    host.actions();
    host.events();
    (host, generation, running)
}

fn with_content(name: &str, is_approved: bool) -> ServerPolicy {
    let mut policy = local(name);
    policy.approval = Some(content(name));
    policy.is_approved = is_approved;
    policy
}

#[test]
fn close_of_a_host_whose_servers_need_no_end_leaves_no_timeout() {
    let mut host = Host::new([("one", local("a"))]);
    host.plane.close(host.now);
    assert!(host.events().contains(&Event::Closed));
    assert_eq!((host.actions(), host.plane.poll_timeout()), (vec![], None));
}

#[test]
fn close_without_time_for_the_shutdown_ends_every_call() {
    let mut config = ControlConfig::default();
    config.shutdown = Duration::ZERO;
    let (mut host, _, running) = running_host(config);
    host.plane.close(host.now);
    host.advance(GRACE);
    let events = host.events();
    assert!(events.contains(&Event::Closed), "{events:?}");
    assert_eq!((host.plane.open_calls(), host.plane.poll_timeout()), (0, None), "{events:?} {running:?}");
}

#[test]
fn close_now_after_the_calls_have_finished_closes_within_the_shutdown() {
    let (mut host, generation, running) = running_host(ControlConfig::default());
    host.plane.close(host.now);
    host.plane.handle_delivery(host.now, running, generation, Delivery::Answered);
    host.actions();
    host.events();
    host.plane.close_now(host.now);
    host.advance(5 * SECOND);
    assert!(host.events().contains(&Event::Closed), "close_now: Closed after `shutdown` at the latest");
}

#[test]
fn approved_server_accepts_calls_while_the_old_one_finishes() {
    let mut host = Host::new([("one", with_content("a", true))]);
    let generation = host.connected("one");
    let _ = (generation, host.call("one"));
    host.actions();
    host.configure([("one", with_content("b", false))]);
    host.plane.handle_approval(host.now, id("one"), content("b"), true);
    let call = host.plane.call(host.now, id("one"), CallOptions::default());
    assert!(call.is_ok(), "{call:?} {:?}", host.status("one"));
}

#[test]
fn withdrawn_approval_ends_a_removed_server_and_that_of_a_closing_host_at_once() {
    for reload in [true, false] {
        let mut host = Host::new([("one", with_content("a", true))]);
        let generation = host.connected("one");
        let call = host.call("one");
        host.actions();
        if reload {
            host.configure([])
        } else {
            host.plane.close(host.now)
        };
        let _ = host.plane.revoke_approval(host.now, id("one"));
        let disconnection = Action::Disconnect { server: id("one"), generation };
        assert_eq!(host.actions(), [Action::Abort { call }, disconnection], "{reload}");
    }
}

#[test]
fn withdrawn_approval_ends_the_old_content_of_a_changed_server_at_once() {
    let mut host = Host::new([("one", with_content("a", true))]);
    let generation = host.connected("one");
    let call = host.call("one");
    host.actions();
    host.configure([("one", with_content("b", false))]);
    host.plane.revoke_approval(host.now, id("one")).unwrap();
    let disconnection = Action::Disconnect { server: id("one"), generation };
    assert_eq!(host.actions(), [Action::Abort { call }, disconnection]);
    host.ended("one", generation, None);
    assert_eq!(host.status("one"), Status::Unapproved);
    assert_eq!(host.actions(), [Action::AskApproval { server: id("one"), content: content("b") }]);
}

/// F90
#[test]
fn approval_of_a_removed_server_and_that_of_a_closing_host_starts_nothing() {
    for reload in [true, false] {
        let mut host = Host::new([("one", with_content("a", true))]);
        let generation = host.connected("one");
        host.plane.revoke_approval(host.now, id("one")).unwrap();
        if reload {
            host.configure([])
        } else {
            host.plane.close(host.now)
        };
        host.plane.handle_approval(host.now, id("one"), content("a"), true);
        host.actions();
        host.ended("one", generation, None);
        assert_eq!((host.actions(), host.plane.poll_timeout()), (vec![], None), "{reload}");
        assert!(host.plane.server(id("one")).is_none());
        assert_eq!(host.events().contains(&Event::Closed), !reload);
    }
}

#[test]
fn server_whose_approval_was_withdrawn_while_it_was_removed_asks_again() {
    let mut host = Host::new([("one", with_content("a", true))]);
    let generation = host.connected("one");
    let call = host.call("one");
    host.actions();
    host.configure([]);
    let _ = host.plane.revoke_approval(host.now, id("one"));
    host.configure([("one", with_content("a", false))]);
    host.plane.handle_delivery(host.now, call, generation, Delivery::Answered);
    host.actions();
    host.ended("one", generation, None);
    assert_eq!(host.status("one"), Status::Unapproved);
    assert_eq!(host.actions(), [Action::AskApproval { server: id("one"), content: content("a") }]);
}

#[test]
fn hold_lives_on_when_its_server_is_removed_and_added_again() {
    let lazy = || {
        let mut policy = local("a");
        policy.lazy = Some(300 * SECOND);
        policy
    };
    let mut host = Host::new([("one", lazy())]);
    host.plane.hold(host.now, id("one")).unwrap();
    let generation = host.connected("one");
    host.configure([]);
    host.actions();
    host.ended("one", generation, None);
    host.configure([("one", lazy())]);
    host.plane.hold(host.now, id("one")).unwrap();
    let _ = host.connected("one");
    // The first hold, of the removed server, is dropped.
    host.plane.release(host.now, id("one"));
    host.advance(400 * SECOND);
    assert_eq!(host.status("one"), Status::Connected, "the second hold counts");
}

fn unauthorized() -> Failure {
    Failure::new(FailureKind::NeedsAuthorization, "status 401")
}

/// F107
#[test]
fn refused_credentials_of_one_call_do_not_cut_the_others() {
    let (mut host, generation, running, other) = working();
    let refused = host.call("one");
    assert_eq!(host.actions().len(), 2);
    let waiting = host.call("one");
    host.plane.handle_delivery(host.now, refused, generation, Delivery::Answered);
    host.plane.handle_unauthorized(host.now, id("one"), generation, unauthorized());
    // A call that no driver has polled is not sent with them.
    assert_eq!(host.actions(), []);
    assert_eq!(host.outcome(waiting), Some(CallOutcome::Unavailable(Status::NeedsAuthorization)));
    assert_eq!(host.status("one"), Status::NeedsAuthorization);
    let call = host.plane.call(host.now, id("one"), CallOptions::default());
    assert_eq!(call, Err(CallRefusal::Unavailable(Status::NeedsAuthorization)));

    host.plane.handle_delivery(host.now, other, generation, Delivery::Answered);
    host.plane.handle_unauthorized(host.now, id("one"), generation, unauthorized());
    assert_eq!(host.actions(), []);
    host.plane.handle_delivery(host.now, running, generation, Delivery::Answered);
    assert!(host.actions().contains(&Action::Disconnect { server: id("one"), generation }));
    host.ended("one", generation, None);
    assert_eq!((host.actions(), host.plane.poll_timeout()), (vec![], None));
    let state = host.plane.server(id("one")).unwrap();
    assert_eq!((state.status, state.grace_ends), (Status::NeedsAuthorization, None));
    assert_eq!(state.failure.unwrap().reason, "status 401");
    host.plane.reconnect(host.now, id("one")).unwrap();
    host.connected("one");
}

/// F107
#[test]
fn login_while_calls_finish_connects_again() {
    let (mut host, generation, running, _) = working();
    host.plane.handle_unauthorized(host.now, id("one"), generation, unauthorized());
    host.events();
    host.plane.reconnect(host.now, id("one")).unwrap();
    let disconnection = Action::Disconnect { server: id("one"), generation };
    assert_eq!(host.actions(), [Action::Abort { call: running }, disconnection]);
    host.ended("one", generation, None);
    host.connected("one");
    assert_eq!(host.status("one"), Status::Connected);
}
