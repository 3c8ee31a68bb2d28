//! A token in the place of the one that ends.

use core::time::Duration;

use mcp_proto::auth::client::{AuthError, Event};
use serde_json::json;

use super::config;
use super::sim::{Fault, Host, Outcome, People, World};

fn ready() -> (World, Host) {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    (world, host)
}

/// C12.24, C12.11: what has ended is not sent; the resource is named again.
#[test]
fn a_token_that_has_ended_is_renewed_before_a_request_goes_out() {
    let (mut world, mut host) = ready();
    host.pass(Duration::from_secs(4000));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!((world.issuer().renewals, host.pages()), (1, 1));
    assert_eq!(world.issuer().requests[1]["resource"], super::sim::SERVER);
    host.keeps_secrets(&world);
}

#[test]
fn a_token_is_renewed_by_a_margin_early_and_nobody_waits_for_that() {
    let (mut world, mut host) = ready();
    host.pass(Duration::from_secs(3600 - 61));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert!(host.machine.poll_action().is_none());
    host.pass(Duration::from_secs(1));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!(world.issuer().renewals, 0);
    host.drive(&mut world);
    assert_eq!(world.issuer().renewals, 1);
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    host.drive(&mut world);
    assert_eq!(world.issuer().renewals, 1);
}

#[test]
fn a_token_that_lives_shortly_is_not_renewed_at_once() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().lifetime = Some(40);
    host.call(&mut world);
    for _ in 0..19 {
        host.pass(Duration::from_secs(1));
        host.call(&mut world);
        host.drive(&mut world);
    }
    assert_eq!(world.issuer().renewals, 0);
    host.pass(Duration::from_secs(1));
    host.call(&mut world);
    host.drive(&mut world);
    assert_eq!(world.issuer().renewals, 1);
}

/// An authorization server may say that a token has ended already: it is used for ten seconds all the same, or no request
/// would ever go out.
#[test]
fn a_token_without_a_life_is_used_all_the_same() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().lifetime = Some(0);
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    host.pass(Duration::from_secs(4));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    host.drive(&mut world);
    assert_eq!(world.issuer().renewals, 0);
    host.pass(Duration::from_secs(6));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!(world.issuer().renewals, 1);
}

#[test]
fn a_refused_token_is_renewed_rather_than_a_page_opened() {
    let (mut world, mut host) = ready();
    world.end_tokens();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!((world.issuer().renewals, host.pages()), (1, 1));
}

/// What renewing gave is refused as well: then somebody has to agree again.
#[test]
fn a_page_follows_if_renewing_does_not_help() {
    let (mut world, mut host) = ready();
    let refresh = world.issuer().refresh.clone();
    world.end_tokens();
    let says = json!({ "access_token": "access-stale", "token_type": "Bearer", "expires_in": 3600 });
    let place = format!("{}/token", world.trusts);
    world.documents.insert(place.clone(), super::sim::Answer::json(200, &says));
    let refused = |host: &mut Host, world: &mut World| {
        host.settle(world);
        let pages = host.pages();
        (pages, world.issuer().refresh.len())
    };
    let mut call = 0;
    while host.pages() == 1 {
        use mcp_proto::auth::client::{RefusedRequest, RequestAuth};
        use mcp_proto::transport::http::Verb;
        let RequestAuth::Ready { generation: stamp, .. } =
            host.machine.credentials(host.now, Verb::Post, super::sim::SERVER)
        else {
            panic!()
        };
        let at = RefusedRequest {
            status: 401,
            www_authenticate: None,
            generation: stamp,
            attempt: call,
            nonce: None,
        };
        let _ = host.machine.handle_challenge(host.now, &at);
        refused(&mut host, &mut world);
        call += 1;
        assert!(call < 4);
    }
    assert_eq!((call, refresh.len()), (2, 1));
}

/// C12.22: none need be given.
#[test]
fn without_what_renews_there_is_a_page_again() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().gives_refresh = false;
    host.call(&mut world);
    host.pass(Duration::from_secs(4000));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.pages(), 2);
}

#[test]
fn the_old_refresh_token_is_kept_if_no_new_one_comes() {
    let (mut world, mut host) = ready();
    let kept = world.issuer().refresh.clone();
    world.issuer().gives_refresh = false;
    world.end_tokens();
    host.call(&mut world);
    let refresh = kept.keys().next().unwrap();
    assert!(world.store.text().contains(refresh));
    world.issuer().gives_refresh = true;
}

/// What fails for a passing reason changes nothing: the old token and what renews it are kept.
#[test]
fn a_renewal_that_fails_in_passing_loses_nothing() {
    for fault in [
        Fault::Network,
        Fault::Silence,
        Fault::Status(503),
        Fault::Status(429),
        Fault::Status(404),
        Fault::Says(200, "{}".into()),
        Fault::Says(200, "<html>".into()),
        Fault::Says(400, json!({ "error": "temporarily_unavailable" }).to_string()),
        Fault::Says(500, json!({ "error": "invalid_grant" }).to_string()),
    ] {
        let (mut world, mut host) = ready();
        let kept = world.store.text();
        host.pass(Duration::from_secs(3570));
        world.faulty = Some(("/token".into(), fault.clone()));
        // The token is good for half a minute, and used meanwhile.
        assert_eq!(host.call(&mut world), Outcome::Answered(1), "{fault:?}");
        host.settle(&mut world);
        assert!(matches!(host.events.last(), Some(Event::Ready(_))));
        assert_eq!(world.store.text(), kept, "{fault:?}");
        // Once it has ended, whatever waits fails.
        host.pass(Duration::from_secs(40));
        assert!(matches!(host.call(&mut world), Outcome::Failed(_)), "{fault:?}");
        assert_eq!((world.store.text(), host.pages()), (kept, 1));
        world.faulty = None;
        assert_eq!(host.call(&mut world), Outcome::Answered(1), "{fault:?}");
        host.keeps_secrets(&world);
    }
}

#[test]
fn a_renewal_that_failed_is_left_alone_for_a_while() {
    let (mut world, mut host) = ready();
    host.pass(Duration::from_secs(3560));
    world.faulty = Some(("/token".into(), Fault::Status(503)));
    for _ in 0..5 {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        host.drive(&mut world);
        host.pass(Duration::from_secs(1));
    }
    assert_eq!(world.count("/token"), 2);
    host.pass(Duration::from_secs(10));
    host.call(&mut world);
    host.drive(&mut world);
    assert_eq!(world.count("/token"), 3);
}

/// What is refused for good is forgotten, but not the token while it is good.
#[test]
fn a_renewal_that_is_refused_is_not_tried_again() {
    let (mut world, mut host) = ready();
    host.pass(Duration::from_secs(3590));
    world.issuer().refresh.clear();
    for _ in 0..3 {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        host.settle(&mut world);
        host.pass(Duration::from_secs(1));
    }
    assert_eq!((world.count("/token"), host.pages()), (2, 1));
    assert!(!world.store.text().contains("\"refresh\""));
    host.pass(Duration::from_secs(60));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.pages(), 2);
}

/// A request that is refused while a renewal is under way waits for that.
#[test]
fn a_renewal_under_way_serves_whoever_is_refused_meanwhile() {
    let (mut world, mut host) = ready();
    host.pass(Duration::from_secs(3590));
    host.holds = true;
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    host.drive(&mut world);
    assert_eq!(host.held.len(), 1);
    world.end_tokens();
    let before = host.verdicts();
    let mut call = super::sim::call();
    assert_eq!(host.advance(&mut world, &mut call), Some(Outcome::Waiting));
    // From here on nothing goes out with the old token.
    assert_eq!(host.advance(&mut world, &mut super::sim::call()), Some(Outcome::Waiting));
    let fetch = host.held.pop_front().unwrap();
    host.exchange(&mut world, &fetch);
    host.drive(&mut world);
    assert_eq!(host.advance(&mut world, &mut call), Some(Outcome::Answered(2)));
    assert_eq!((world.issuer().renewals, host.verdicts()), (1, before + 1));
}

#[test]
fn a_store_that_can_not_be_written_costs_no_renewal_and_no_token() {
    // Without a lease nothing is renewed: another process may be at it.
    let (mut world, mut host) = ready();
    world.store.read_only = true;
    world.end_tokens();
    let error = AuthError::Store("the disk is full".into());
    assert_eq!(host.call(&mut world), Outcome::Failed(error));
    assert_eq!(world.issuer().renewals, 0);
    // What a page gave is used, and told of.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.store.read_only = true;
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert!(host.events.contains(&Event::SaveFailed("the disk is full".into())));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    // What can not be read is no reason to open a page.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.store.broken = true;
    host.people = People::Ignore;
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::Store("the disk is gone".into())));
    assert_eq!(host.pages(), 0);
}

/// Whoever's turn is over may not be at it any more.
#[test]
fn a_renewal_ends_with_its_lease() {
    let mut slow = config();
    slow.exchange_timeout = Duration::from_secs(300);
    let (mut world, mut host) = (World::new(), Host::new(slow, 1));
    host.call(&mut world);
    world.end_tokens();
    world.faulty = Some(("/token".into(), Fault::Silence));
    let start = host.now.instant;
    assert!(matches!(host.call(&mut world), Outcome::Failed(AuthError::Unreachable { .. })));
    assert_eq!(host.now.instant.saturating_since(start), Duration::from_secs(30));
}
