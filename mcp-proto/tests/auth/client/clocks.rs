//! Clocks that jump: the monotonic clock stops while a machine sleeps, and the time of day can be set.

use core::time::Duration;

use mcp_proto::auth::Now;
use mcp_proto::auth::client::Event;
use mcp_proto::{Instant, UnixTime};

use super::config;
use super::sim::{Fault, Host, Outcome, World};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn jumps(now: Now) -> Vec<Now> {
    let unix = now.unix.since_epoch();
    let early = UnixTime::from_epoch(unix.saturating_sub(YEAR));
    let late = now.unix + YEAR;
    let past = Instant::ORIGIN;
    let mut jumps = Vec::new();
    for instant in [past, now.instant, now.instant + YEAR, Instant::from_origin(Duration::MAX)] {
        for unix in [UnixTime::EPOCH, early, now.unix, late, UnixTime::from_epoch(Duration::MAX)] {
            jumps.push(Now { instant, unix });
        }
    }
    jumps
}

/// C12.24: however the clocks jump, a request succeeds in the end.
#[test]
fn a_jump_between_requests_costs_an_exchange_at_most() {
    let mut start = Host::new(config(), 1).now;
    start.instant = start.instant + Duration::from_secs(5);
    for jump in jumps(start) {
        for sleeps in [true, false] {
            let (mut world, mut host) = (World::new(), Host::new(config(), 1));
            host.now = start;
            host.call(&mut world);
            host.now = jump;
            if sleeps {
                world.end_tokens();
            }
            let outcome = host.call(&mut world);
            assert!(matches!(outcome, Outcome::Answered(_)), "{jump:?}: {outcome:?}");
            assert_eq!(world.issuer().reused, 0);
        }
    }
}

/// A token expires by either clock: one stops while a machine sleeps, the other can be set.
#[test]
fn token_expires_by_either_clock() {
    let later = Duration::from_secs(4000);
    for (instant, unix) in [(true, false), (false, true), (true, true)] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        host.call(&mut world);
        if instant {
            host.now.instant = host.now.instant + later;
        }
        if unix {
            host.now.unix = host.now.unix + later;
        }
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        assert_eq!(world.issuer().renewals, 1);
    }
}

/// The lease of another process may end in a year by the clock of this one: it does not wait that long.
#[test]
fn client_waits_at_most_the_duration_of_a_lease() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    host.pass(Duration::from_secs(4000));
    let until = (host.now.unix + YEAR).since_epoch().as_secs();
    world.store.edit(|record| record["lease"] = serde_json::json!({ "by": "somebody", "until": until }));
    let start = host.now.instant;
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert!(host.now.instant.saturating_since(start) < Duration::from_secs(32));
}

/// The clocks jump during a flow, at each of its steps.
#[test]
fn flow_with_a_clock_jump_ends_with_one_outcome() {
    let start = Host::new(config(), 1).now;
    for at in 0..8 {
        for jump in jumps(start) {
            let (mut world, mut host) = (World::new(), Host::new(config(), 1));
            world.faults.insert(5, Fault::Silence);
            host.machine.login(host.now);
            for _ in 0..at {
                host.step(&mut world);
            }
            host.now = jump;
            host.machine.handle_timeout(host.now);
            host.settle(&mut world);
            assert_eq!(host.verdicts(), 1, "{at} {jump:?} {:?}", host.events);
        }
    }
}

/// At the largest instant no deadline is left, and no timer repeats.
#[test]
fn client_has_no_deadline_at_the_largest_instant() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.now.instant = Instant::from_origin(Duration::MAX);
    world.faulty = Some(("protected-resource".into(), Fault::Silence));
    host.machine.login(host.now);
    host.drive(&mut world);
    assert_eq!(host.machine.poll_timeout(), None);
    host.machine.handle_timeout(host.now);
    assert_eq!(host.machine.poll_timeout(), None);
    host.machine.logout(host.now);
    host.drive(&mut world);
    assert_eq!(host.events.last(), Some(&Event::LoggedOut));
}
