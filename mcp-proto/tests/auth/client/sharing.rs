//! Several processes with one store: one of them renews.

use core::time::Duration;

use mcp_proto::auth::client::{Event, RequestAuth};
use mcp_proto::transport::http::Verb;

use super::config;
use super::sim::{Host, Outcome, SERVER, World};

/// Processes with the same token.
fn processes(count: u8) -> (World, Vec<Host>) {
    let mut world = World::new();
    let mut hosts: Vec<_> = (1..=count).map(|seed| Host::new(config(), seed)).collect();
    for host in &mut hosts {
        host.call(&mut world);
    }
    (world, hosts)
}

/// Each process takes a step in turn, in the order of `turns`, until all of them wait.
fn interleave(world: &mut World, hosts: &mut [Host], turns: &mut impl FnMut() -> usize) {
    let mut idle = 0;
    while idle < 3 * hosts.len() {
        let at = turns() % hosts.len();
        idle = if hosts[at].step(world) { 0 } else { idle + 1 };
    }
    for host in hosts.iter_mut() {
        host.drive(world);
    }
}

/// Advances the time of all processes until none waits.
fn settle(world: &mut World, hosts: &mut [Host], turns: &mut impl FnMut() -> usize) {
    for _ in 0..200 {
        interleave(world, hosts, turns);
        let Some(due) = hosts.iter().filter_map(|host| host.machine.poll_timeout()).min() else { return };
        let late = due.saturating_since(hosts[0].now.instant);
        for host in hosts.iter_mut() {
            host.pass(late);
            host.machine.handle_timeout(host.now);
        }
    }
    panic!("they never come to rest");
}

fn round() -> impl FnMut() -> usize {
    let mut turn = 0;
    move || {
        turn += 1;
        turn
    }
}

fn ask(host: &mut Host) -> bool {
    matches!(host.machine.credentials(host.now, Verb::Post, SERVER), RequestAuth::Wait)
}

/// C12.22, C12.24: a refresh token that is used twice may end everything.
#[test]
fn two_processes_renew_a_token_once() {
    let (mut world, mut hosts) = processes(2);
    for host in &mut hosts {
        host.pass(Duration::from_secs(4000));
        assert!(ask(host));
    }
    settle(&mut world, &mut hosts, &mut round());
    assert_eq!((world.issuer().renewals, world.issuer().reused), (1, 0));
    for host in &mut hosts {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        host.keeps_secrets(&world);
    }
}

/// The same, in any order of steps, and after the server refused the token.
#[test]
fn many_processes_renew_a_token_once_in_any_order() {
    for seed in 0_u64..60 {
        let (mut world, mut hosts) = processes(4);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut turns = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % 1009).unwrap()
        };
        if seed % 2 == 0 {
            world.end_tokens();
        }
        let mut waits = Vec::new();
        for host in &mut hosts {
            host.pass(Duration::from_secs(if seed % 2 == 0 { 10 } else { 4000 }));
            let before = host.verdicts();
            waits.push((super::sim::call(), before));
        }
        for (host, (call, _)) in hosts.iter_mut().zip(&mut waits) {
            assert_eq!(host.advance(&mut world, call), Some(Outcome::Waiting));
        }
        settle(&mut world, &mut hosts, &mut turns);
        assert_eq!((world.issuer().renewals, world.issuer().reused), (1, 0), "seed {seed}");
        for (host, (call, before)) in hosts.iter_mut().zip(&mut waits) {
            assert_eq!(host.verdicts(), *before + 1, "seed {seed}");
            assert!(matches!(host.advance(&mut world, call), Some(Outcome::Answered(_))));
        }
    }
}

/// A process that ends during a renewal delays the others only briefly.
#[test]
fn lease_of_a_dead_process_expires() {
    let (mut world, mut hosts) = processes(2);
    for host in &mut hosts {
        host.pass(Duration::from_secs(4000));
    }
    hosts[0].holds = true;
    assert!(ask(&mut hosts[0]));
    hosts[0].drive(&mut world);
    assert_eq!(hosts[0].held.len(), 1);
    let mut second = hosts.remove(1);
    let start = second.now.instant;
    assert_eq!(second.call(&mut world), Outcome::Answered(1));
    let waited = second.now.instant.saturating_since(start);
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(32), "{waited:?}");
    assert_eq!((world.issuer().renewals, world.issuer().reused), (1, 0));
    // The first process wakes up: it takes over the token of the second.
    let mut first = hosts.remove(0);
    first.now = second.now;
    first.machine.handle_timeout(first.now);
    first.holds = false;
    first.settle(&mut world);
    assert_eq!(first.call(&mut world), Outcome::Answered(1));
    assert_eq!((world.issuer().renewals, world.issuer().reused), (1, 0));
}

/// A process that fails releases its lease, and the next one tries.
#[test]
fn failed_renewal_releases_the_lease() {
    let (mut world, mut hosts) = processes(2);
    for host in &mut hosts {
        host.pass(Duration::from_secs(4000));
        assert!(ask(host));
    }
    let number = world.log.len();
    world.faults.insert(number, super::sim::Fault::Status(503));
    settle(&mut world, &mut hosts, &mut round());
    assert_eq!(world.issuer().renewals, 1);
    let failed = hosts.iter().filter(|host| matches!(host.events.last(), Some(Event::Failed(_)))).count();
    assert_eq!(failed, 1);
}

/// A token that another process got by a page serves this one too.
#[test]
fn client_takes_over_the_token_of_another_process() {
    let (mut world, mut first, mut second) = (World::new(), Host::new(config(), 1), Host::new(config(), 2));
    world.issuer().gives_refresh = false;
    first.call(&mut world);
    second.call(&mut world);
    assert_eq!(second.pages(), 0);
    world.end_tokens();
    first.call(&mut world);
    assert_eq!(second.call(&mut world), Outcome::Answered(2));
    assert_eq!((first.pages(), second.pages()), (2, 0));
}

/// A logout by another process during a renewal of this one stays in effect.
#[test]
fn renewal_does_not_undo_a_logout_of_another_process() {
    let (mut world, mut hosts) = processes(2);
    let mut second = hosts.remove(1);
    let mut first = hosts.remove(0);
    first.pass(Duration::from_secs(3590));
    first.holds = true;
    first.call(&mut world);
    first.drive(&mut world);
    assert_eq!(first.held.len(), 1);
    second.machine.logout(second.now);
    second.settle(&mut world);
    let fetch = first.held.pop_front().unwrap();
    first.exchange(&mut world, &fetch);
    first.drive(&mut world);
    assert_eq!(world.store.text(), "");
}

/// C12.20: a process that has just registered keeps its registration although another did the same.
#[test]
fn registrations_of_two_processes_do_not_erase_each_other() {
    let (mut world, mut first, mut second) = (World::new(), Host::new(config(), 1), Host::new(config(), 2));
    first.machine.login(first.now);
    second.machine.login(second.now);
    let mut hosts = [first, second];
    settle(&mut world, &mut hosts, &mut round());
    for host in &mut hosts {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
    }
    assert!(world.store.text().contains("tokens"));
}
