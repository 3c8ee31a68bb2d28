use std::collections::BTreeMap;

use super::driver::Host;
use super::*;

/// Fails the present attempts of a server until it rests; returns the pauses between them.
fn fail_until_it_rests(host: &mut Host, name: &str, attempts: usize) -> Vec<Duration> {
    let mut pauses = Vec::new();
    for _ in 0..attempts {
        let generation = host.connect(name);
        host.ended(name, generation, transient());
        if host.status(name) != Status::Reconnecting {
            break;
        }
        pauses.push(host.next_attempt(name));
    }
    pauses
}

/// C3.6, F70, F71, F82, K1
#[test]
fn lost_server_is_started_again_after_growing_pauses() {
    let mut host = Host::new([("one", remote("a"))]);
    let generation = host.connected("one");
    host.advance(3600 * SECOND);
    host.ended("one", generation, transient());
    assert_eq!(host.status("one"), Status::Reconnecting);
    host.next_attempt("one");
    let pauses = fail_until_it_rests(&mut host, "one", 12);
    let longest = [0.5, 1.0, 2.0, 4.0, 15.0, 30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0];
    for (pause, longest) in pauses.iter().zip(longest) {
        let longest = Duration::from_secs_f64(longest);
        assert!(*pause <= longest && *pause >= longest / 2, "{pauses:?}");
    }
    assert_eq!(pauses.len(), longest.len());
    host.connected("one");
    assert_eq!(host.status("one"), Status::Connected);
}

/// K1
#[test]
fn local_server_that_never_lives_is_suspended_until_it_is_reconnected() {
    let mut host = Host::new([("one", local("a"))]);
    let pauses = fail_until_it_rests(&mut host, "one", 100);
    assert_eq!(pauses.len(), 5);
    assert_eq!(host.status("one"), Status::Suspended);
    host.advance(24 * 3600 * SECOND);
    assert_eq!(host.actions(), []);
    host.plane.reconnect(host.now, id("one")).unwrap();
    host.connected("one");
    assert_eq!(host.status("one"), Status::Connected);
}

/// F72
#[test]
fn remote_server_is_given_up_after_the_maximum_of_attempts() {
    for budget in [None, Some(2)] {
        let mut spec = ServerSpec::http("https://example.com/a");
        spec.reconnect_attempts = budget;
        let mut config = ControlConfig::default();
        config.remote_outage_budget = Some(5);
        let mut host = Host { plane: ControlPlane::new(config), now: Instant::ORIGIN };
        host.configure([("one", policy(spec))]);
        let pauses = fail_until_it_rests(&mut host, "one", 100);
        let attempts = budget.unwrap_or(5);
        assert_eq!(pauses.len(), usize::try_from(attempts).unwrap());
        assert_eq!(host.status("one"), Status::Suspended);
        let failure = host.plane.server(id("one")).unwrap().failure.unwrap();
        let said = format!("given up after the maximum of {} attempts: ", attempts + 1);
        assert!(failure.reason.starts_with(&said), "{failure:?}");
    }
}

#[test]
fn stable_connection_forgives_the_attempts_before_it() {
    let mut host = Host::new([("one", local("a"))]);
    for _ in 0..100 {
        let generation = host.connected("one");
        host.advance(30 * SECOND);
        host.ended("one", generation, transient());
        assert!(host.next_attempt("one") <= SECOND / 2);
    }
}

/// K1
#[test]
fn server_that_lives_shortly_again_and_again_is_suspended() {
    let mut host = Host::new([("one", local("a"))]);
    for _ in 0..5 {
        let generation = host.connected("one");
        host.advance(29 * SECOND);
        host.ended("one", generation, transient());
        host.next_attempt("one");
    }
    let generation = host.connected("one");
    host.ended("one", generation, transient());
    assert_eq!(host.status("one"), Status::Suspended);
}

#[test]
fn failure_that_another_attempt_cannot_mend_ends_the_attempts_and_the_calls() {
    for (kind, status) in [
        (FailureKind::Permanent, Status::Failed),
        (FailureKind::NeedsAuthorization, Status::NeedsAuthorization),
    ] {
        let mut host = Host::new([("one", remote("a"))]);
        let generation = host.connect("one");
        let call = host.call("one");
        host.ended("one", generation, Some(Failure::new(kind, "no")));
        assert_eq!(host.outcome(call), Some(CallOutcome::Unavailable(status)));
        host.advance(3600 * SECOND);
        assert_eq!((host.actions(), host.status("one")), (vec![], status));
        host.plane.reconnect(host.now, id("one")).unwrap();
        host.connect("one");
    }
}

/// A remote server that another process may log in at, after a failure for lack of a token.
fn without_login() -> (Host, Generation) {
    let mut policy = remote("a");
    policy.shares_logins = true;
    let mut host = Host::new([("one", policy)]);
    let generation = host.connect("one");
    host.ended("one", generation, Some(Failure::new(FailureKind::NeedsAuthorization, "401")));
    assert_eq!((host.status("one"), host.actions()), (Status::NeedsAuthorization, vec![]));
    (host, generation)
}

#[test]
fn call_finds_a_login_that_another_process_has_stored() {
    let (mut host, generation) = without_login();
    let check = Action::CheckLogin { server: id("one"), generation };
    let (first, second) = (host.call("one"), host.call("one"));
    assert_eq!(host.actions(), [check], "both wait for one check");
    host.plane.handle_login(host.now, id("one"), generation, false);
    let unavailable = CallOutcome::Unavailable(Status::NeedsAuthorization);
    let ended = |call| Event::Ended { call, outcome: unavailable };
    let events = host.events();
    assert!(events.contains(&ended(first)) && events.contains(&ended(second)), "{events:?}");
    let call = host.call("one");
    assert_eq!(host.actions(), [check]);
    host.plane.handle_login(host.now, id("one"), generation, true);
    let generation = host.connected("one");
    assert_eq!(host.actions(), [Action::Send { call, server: id("one"), generation }]);
    // A late answer changes nothing.
    host.plane.handle_login(host.now, id("one"), generation, true);
    assert_eq!((host.status("one"), host.actions()), (Status::Connected, vec![]));
}

#[test]
fn server_without_a_login_looks_for_one_less_and_less_often() {
    let (mut host, generation) = without_login();
    let check = Action::CheckLogin { server: id("one"), generation };
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let due = host.plane.poll_timeout().unwrap();
        pauses.push(due.saturating_since(host.now));
        host.advance(due.saturating_since(host.now));
        assert_eq!((host.actions(), host.plane.poll_timeout()), (vec![check], None));
        host.plane.handle_login(host.now, id("one"), generation, false);
    }
    assert!(pauses[0] <= 15 * SECOND && pauses[7] > 100 * SECOND, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 300 * SECOND), "{pauses:?}");
    // The application's reconnection, and a reload, do not wait for the check.
    host.call("one");
    host.plane.reconnect(host.now, id("one")).unwrap();
    host.connect("one");
}

#[test]
fn reconnections_of_all_servers_are_bounded_per_minute_and_start_in_turn() {
    let names: Vec<String> = (0..100).map(|n| format!("server {n}")).collect();
    let mut host = Host::new([]);
    host.plane.configure(host.now, names.iter().map(|name| (id(name), remote(name))));
    let mut last = BTreeMap::new();
    for _ in 0..4 * 60 {
        for action in host.actions() {
            let Action::Connect { server, generation } = action else { panic!() };
            last.insert(server, host.now);
            host.plane.handle_ended(host.now, server, generation, transient());
        }
        host.advance(SECOND / 4);
        host.events();
    }
    let mut made = 0;
    for _ in 0..4 * 60 {
        for action in host.actions() {
            let Action::Connect { server, generation } = action else { panic!() };
            made += 1;
            last.insert(server, host.now);
            host.plane.handle_ended(host.now, server, generation, transient());
        }
        host.advance(SECOND / 4);
    }
    assert!((50..=61).contains(&made), "{made} reconnections in a minute");
    assert_eq!(last.len(), 100);
    host.advance(Duration::ZERO);
}

#[test]
fn reconnect_replaces_a_connection_that_works() {
    let mut host = Host::new([("one", local("a"))]);
    let generation = host.connected("one");
    host.plane.reconnect(host.now, id("one")).unwrap();
    assert_eq!(host.actions(), [Action::Disconnect { server: id("one"), generation }]);
    let call = host.call("one");
    host.ended("one", generation, None);
    let next = host.connected("one");
    assert_eq!(host.actions(), [Action::Send { call, server: id("one"), generation: next }]);
}

/// F90
#[test]
fn answers_of_past_connections_are_ignored() {
    let mut host = Host::new([("one", local("a"))]);
    let past = host.connected("one");
    host.ended("one", past, transient());
    host.next_attempt("one");
    let generation = host.connected("one");
    host.ended("one", past, transient());
    host.plane.handle_connected(host.now, id("one"), past);
    assert_eq!(host.status("one"), Status::Connected);
    assert!(generation > past);
}
