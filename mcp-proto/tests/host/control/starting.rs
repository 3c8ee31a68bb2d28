use std::collections::BTreeMap;

use super::driver::Host;
use super::*;

/// F78, K18
#[test]
fn startup_goes_on_after_the_gate_without_slow_servers() {
    let mut host = Host::new([("fast", local("a")), ("slow", local("b"))]);
    let [Action::Connect { server, generation }, Action::Connect { .. }] = host.actions()[..] else {
        panic!()
    };
    host.plane.handle_connected(host.now, server, generation);
    assert!(!host.events().contains(&Event::Ready));
    host.advance(Duration::from_millis(250));
    assert_eq!(host.events(), [Event::Ready]);
}

/// F77
#[test]
fn startup_goes_on_at_once_when_every_server_has_started_or_failed() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connect("one");
    host.events();
    host.ended("one", generation, transient());
    assert_eq!(host.events(), [Event::Status(id("one")), Event::Ready]);
}

/// K18
#[test]
fn startup_awaits_required_servers() {
    let mut required = local("a");
    required.required = true;
    let mut host = Host::new([("needed", required)]);
    let generation = host.connect("needed");
    host.advance(SECOND);
    assert!(!host.events().contains(&Event::Ready));
    host.plane.handle_connected(host.now, id("needed"), generation);
    assert!(host.events().contains(&Event::Ready));
}

#[test]
fn startup_without_servers_ends_at_once() {
    assert_eq!(Host::new([]).events(), [Event::Ready]);
}

#[test]
fn start_that_takes_too_long_is_ended_and_tried_again() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connect("one");
    host.advance(30 * SECOND);
    assert_eq!(host.actions(), [Action::Disconnect { server: id("one"), generation }]);
    host.ended("one", generation, Some(Failure::new(FailureKind::Transient, "killed").with_stderr("stuck")));
    let failure = host.plane.server(id("one")).unwrap().failure.unwrap();
    assert_eq!(failure.reason, "the server did not start within 30 s");
    assert_eq!(failure.stderr, "stuck");
    host.next_attempt("one");
    assert!(host.connect("one") > generation);
}

#[test]
fn server_that_needs_approval_starts_only_once_it_is_given() {
    let approved = content("content");
    let mut policy = local("a");
    policy.approval = Some(approved);
    let mut host = Host::new([("project", policy)]);
    assert_eq!(host.actions(), [Action::AskApproval { server: id("project"), content: approved }]);
    assert!(host.events().contains(&Event::Ready));
    let refused = host.plane.call(host.now, id("project"), CallOptions::default());
    assert_eq!(refused, Err(CallRefusal::Unavailable(Status::Unapproved)));

    host.plane.handle_approval(host.now, id("project"), content("other"), true);
    host.plane.handle_approval(host.now, id("project"), approved, false);
    host.advance(3600 * SECOND);
    assert_eq!(host.actions(), []);

    host.plane.handle_approval(host.now, id("project"), approved, true);
    let generation = host.connected("project");

    // Another content is not approved.
    policy.approval = Some(content("changed"));
    host.configure([("project", policy)]);
    assert_eq!(host.actions(), [Action::Disconnect { server: id("project"), generation }]);
    host.ended("project", generation, None);
    assert!(matches!(host.actions()[..], [Action::AskApproval { .. }]));
    assert_eq!(host.status("project"), Status::Unapproved);
}

#[test]
fn server_that_was_approved_before_starts_at_once_and_startup_waits_for_it() {
    let mut policy = local("a");
    policy.approval = Some(content("content"));
    policy.is_approved = true;
    let mut host = Host::new([("project", policy)]);
    assert!(!host.events().contains(&Event::Ready));
    let generation = host.connected("project");
    assert!(host.events().contains(&Event::Ready));

    policy.approval = Some(content("changed"));
    policy.is_approved = false;
    host.configure([("project", policy)]);
    host.actions();
    host.ended("project", generation, None);
    assert!(matches!(host.actions()[..], [Action::AskApproval { .. }]));
}

#[test]
fn lazy_server_starts_with_its_first_call_and_ends_when_unused() {
    let mut policy = local("a");
    policy.lazy = Some(60 * SECOND);
    let mut host = Host::new([("lazy", policy)]);
    assert_eq!((host.actions(), host.status("lazy")), (vec![], Status::Idle));
    let call = host.call("lazy");
    let generation = host.connect("lazy");
    host.plane.handle_connected(host.now, id("lazy"), generation);
    assert!(matches!(host.actions()[..], [Action::Send { .. }]));

    // Neither an open call nor a subscription lets it end.
    host.advance(20 * SECOND);
    host.plane.hold(host.now, id("lazy")).unwrap();
    host.plane.handle_delivery(host.now, call, generation, Delivery::Answered);
    host.advance(3600 * SECOND);
    assert_eq!(host.actions(), []);
    host.plane.release(host.now, id("lazy"));
    host.advance(59 * SECOND);
    assert_eq!(host.actions(), []);
    host.advance(SECOND);
    assert_eq!(host.actions(), [Action::Disconnect { server: id("lazy"), generation }]);

    // A call that comes while it ends starts it again.
    let call = host.call("lazy");
    host.ended("lazy", generation, None);
    let generation = host.connected("lazy");
    assert_eq!(host.actions(), [Action::Send { call, server: id("lazy"), generation }]);
}

#[test]
fn lazy_server_whose_lists_are_not_known_starts_once_without_a_call() {
    let mut policy = local("a");
    policy.lazy = Some(60 * SECOND);
    policy.starts_to_list = true;
    let mut host = Host::new([("lazy", policy)]);
    let generation = host.connected("lazy");
    host.advance(60 * SECOND);
    assert_eq!(host.actions(), [Action::Disconnect { server: id("lazy"), generation }]);
    host.ended("lazy", generation, None);
    host.advance(3600 * SECOND);
    assert_eq!((host.actions(), host.status("lazy")), (vec![], Status::Idle));

    let mut host = Host::new([("failing", policy)]);
    let generation = host.connect("failing");
    host.ended("failing", generation, transient());
    host.advance(3600 * SECOND);
    assert_eq!((host.actions(), host.status("failing")), (vec![], Status::Idle));
}

#[test]
fn held_lazy_server_starts_and_is_tried_again() {
    let mut policy = local("a");
    policy.lazy = Some(60 * SECOND);
    let mut host = Host::new([("lazy", policy)]);
    host.plane.hold(host.now, id("lazy")).unwrap();
    let generation = host.connected("lazy");
    host.advance(3600 * SECOND);
    host.ended("lazy", generation, transient());
    assert_eq!(host.status("lazy"), Status::Reconnecting);
    host.plane.release(host.now, id("lazy"));
    host.next_attempt("lazy");
    host.connected("lazy");
    host.advance(60 * SECOND);
    assert_eq!(host.status("lazy"), Status::Idle);
}

/// F83
#[test]
fn configuration_touches_only_what_changed() {
    let mut host = Host::new([("same", local("a")), ("other", local("b")), ("gone", local("c"))]);
    let mut generations = BTreeMap::new();
    for action in host.actions() {
        let Action::Connect { server, generation } = action else { panic!() };
        host.plane.handle_connected(host.now, server, generation);
        generations.insert(server, generation);
    }
    let call = host.call("gone");
    host.actions();
    let mut same = local("a");
    same.call_timeout = SECOND;
    host.configure([("same", same), ("other", local("changed")), ("new", local("d"))]);
    let mut actions = host.actions();
    assert_eq!(actions.len(), 2, "{actions:?}");
    host.advance(5 * SECOND);
    actions.extend(host.actions());
    assert_eq!(actions.len(), 4, "{actions:?}");
    assert!(actions.contains(&Action::Abort { call }));
    for name in ["other", "gone"] {
        let generation = generations[&id(name)];
        assert!(actions.contains(&Action::Disconnect { server: id(name), generation }));
        host.ended(name, generation, None);
    }
    assert_eq!(host.outcome(call), Some(CallOutcome::Removed));
    assert!(host.plane.server(id("gone")).is_none());
    assert_eq!(host.status("same"), Status::Connected);
    assert!(matches!(host.actions()[..], [Action::Connect { server, .. }] if server == id("other")));
}

#[test]
fn disabled_server_ends_and_starts_again_when_enabled() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    host.plane.set_enabled(host.now, id("one"), false).unwrap();
    assert_eq!(host.actions(), [Action::Disconnect { server: id("one"), generation }]);
    host.ended("one", generation, None);
    host.plane.reconnect(host.now, id("one")).unwrap();
    assert_eq!((host.actions(), host.status("one")), (vec![], Status::Disabled));
    host.plane.set_enabled(host.now, id("one"), true).unwrap();
    host.connect("one");
}

#[test]
fn connection_that_nobody_has_polled_is_withdrawn() {
    let mut host = Host::new([("one", local("a"))]);
    host.plane.set_enabled(host.now, id("one"), false).unwrap();
    assert_eq!((host.actions(), host.status("one")), (vec![], Status::Disabled));
}

/// F90
#[test]
fn close_ends_everything_within_its_time() {
    let mut host = Host::new([("one", local("a")), ("two", local("b"))]);
    for action in host.actions() {
        let Action::Connect { server, generation } = action else { panic!() };
        host.plane.handle_connected(host.now, server, generation);
    }
    let call = host.call("one");
    host.plane.close(host.now);
    assert_eq!(host.outcome(call), Some(CallOutcome::Closed));
    let disconnections = host.actions();
    assert_eq!(disconnections.len(), 2, "{disconnections:?}");
    let Action::Disconnect { server, generation } = disconnections[0] else { panic!() };
    host.plane.handle_ended(host.now, server, generation, None);
    assert!(!host.events().contains(&Event::Closed));
    host.advance(5 * SECOND);
    assert_eq!(host.events(), [Event::Closed]);
    assert_eq!(host.plane.poll_timeout(), None);
    let refused = host.plane.call(host.now, id("one"), CallOptions::default());
    assert_eq!(refused, Err(CallRefusal::Closed));
}

#[test]
fn server_whose_approval_is_taken_back_ends_and_asks_again() {
    let approved = content("content");
    let mut policy = local("a");
    policy.approval = Some(approved);
    policy.is_approved = true;
    let mut host = Host::new([("project", policy)]);
    let generation = host.connected("project");
    host.plane.revoke_approval(host.now, id("project")).unwrap();
    assert_eq!(host.status("project"), Status::Unapproved);
    assert_eq!(host.actions(), [Action::Disconnect { server: id("project"), generation }]);
    host.ended("project", generation, None);
    assert_eq!(host.actions(), [Action::AskApproval { server: id("project"), content: approved }]);
    assert_eq!(host.plane.revoke_approval(host.now, id("none")), Err(UnknownServer));

    let mut host = Host::new([("own", local("b"))]);
    host.connected("own");
    host.plane.revoke_approval(host.now, id("own")).unwrap();
    assert_eq!((host.actions(), host.status("own")), (vec![], Status::Connected));
}

#[test]
fn failure_is_displayed_as_its_reason_and_the_last_line_of_standard_error() {
    let failure = Failure::new(FailureKind::Transient, "the program ended: exit status 1");
    assert_eq!(failure.to_string(), "the program ended: exit status 1");
    let failure = failure.with_stderr("loading\nno such module: \u{1b}[2Jx\n\n");
    assert_eq!(
        failure.to_string(),
        "the program ended: exit status 1; the last line of its standard error: no such module: \\u{1b}[2Jx"
    );
}
