//! Renewal of tokens.

use core::time::Duration;

use mcp_proto::auth::client::{AuthClient, AuthConfigError, AuthError, Event};
use serde_json::json;

use super::config;
use super::sim::{Fault, Host, ISSUER, Outcome, SERVER, UserAction, World};

fn ready() -> (World, Host) {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    (world, host)
}

/// C12.24, C12.11: an expired token is not sent; the renewal names the resource again.
#[test]
fn client_renews_an_expired_token_before_it_sends_a_request() {
    let (mut world, mut host) = ready();
    host.pass(Duration::from_secs(4000));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!((world.issuer().renewals, host.pages()), (1, 1));
    assert_eq!(world.issuer().requests[1]["resource"], super::sim::SERVER);
    host.keeps_secrets(&world);
}

/// RFC 6749, section 6: only for the issuers that demand it.
#[test]
fn renewal_names_the_granted_scopes_for_issuers_that_demand_them() {
    for (demanding, grants_only, expected) in [
        (&[ISSUER][..], None, Some("a b")),
        (&["https://other.example.com", ISSUER], Some("a"), Some("a")),
        (&["https://other.example.com"], None, None),
        (&[], None, None),
    ] {
        let mut config = config();
        config.refresh_scope_issuers = demanding.iter().copied().map(String::from).collect();
        let (mut world, mut host) = (World::new(), Host::new(config, 1));
        world.challenge = r#"Bearer scope="a b""#.into();
        world.issuer().grants_only = grants_only.map(String::from);
        host.call(&mut world);
        host.pass(Duration::from_secs(4000));
        host.call(&mut world);
        assert_eq!(world.issuer().renewals, 1, "{demanding:?}");
        assert_eq!(world.issuer().requests[1].get("scope").map(String::as_str), expected, "{demanding:?}");
    }
    let mut config = config();
    config.refresh_scope_issuers = vec!["no URL".into()];
    assert_eq!(AuthClient::new(config, SERVER, [1; 32]).err(), Some(AuthConfigError::Issuer));
}

/// F108
#[test]
fn client_renews_a_token_early_while_requests_use_the_old_one() {
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
fn client_does_not_renew_a_short_lived_token_at_once() {
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

/// An authorization server may issue a token that has already expired: the client uses it for ten seconds nevertheless,
/// or it would never send a request.
#[test]
fn client_uses_a_token_with_a_lifetime_of_zero() {
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

/// F106, K5
#[test]
fn client_renews_a_refused_token_before_it_opens_a_page() {
    let (mut world, mut host) = ready();
    world.end_tokens();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!((world.issuer().renewals, host.pages()), (1, 1));
}

/// The server refuses the renewed token as well: then the user has to log in again.
#[test]
fn client_opens_a_page_if_the_renewed_token_is_refused() {
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

/// C12.22: a refresh token is optional.
#[test]
fn client_opens_a_page_again_without_a_refresh_token() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().gives_refresh = false;
    host.call(&mut world);
    host.pass(Duration::from_secs(4000));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.pages(), 2);
}

#[test]
fn client_keeps_the_old_refresh_token_without_a_new_one() {
    let (mut world, mut host) = ready();
    let kept = world.issuer().refresh.clone();
    world.issuer().gives_refresh = false;
    world.end_tokens();
    host.call(&mut world);
    let refresh = kept.keys().next().unwrap();
    assert!(world.store.text().contains(refresh));
    world.issuer().gives_refresh = true;
}

/// A transient failure changes nothing: the client keeps the token and the refresh token.
#[test]
fn transient_failure_of_a_renewal_loses_nothing() {
    for fault in [
        Fault::Network,
        Fault::Silence,
        Fault::Status(503),
        Fault::Status(429),
        Fault::Status(404),
        Fault::Body(200, "{}".into()),
        Fault::Body(200, "<html>".into()),
        Fault::Body(400, json!({ "error": "temporarily_unavailable" }).to_string()),
        Fault::Body(500, json!({ "error": "invalid_grant" }).to_string()),
    ] {
        let (mut world, mut host) = ready();
        let kept = world.store.text();
        host.pass(Duration::from_secs(3570));
        world.faulty = Some(("/token".into(), fault.clone()));
        // The token is valid for half a minute, and used meanwhile.
        assert_eq!(host.call(&mut world), Outcome::Answered(1), "{fault:?}");
        host.settle(&mut world);
        assert!(matches!(host.events.last(), Some(Event::Ready(_))));
        assert_eq!(world.store.text(), kept, "{fault:?}");
        // Once it has expired, waiting requests fail.
        host.pass(Duration::from_secs(40));
        assert!(matches!(host.call(&mut world), Outcome::Failed(_)), "{fault:?}");
        assert_eq!((world.store.text(), host.pages()), (kept, 1));
        world.faulty = None;
        assert_eq!(host.call(&mut world), Outcome::Answered(1), "{fault:?}");
        host.keeps_secrets(&world);
    }
}

#[test]
fn client_pauses_after_a_failed_renewal() {
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

/// A refused refresh token is dropped, but not the token while it is valid.
#[test]
fn client_does_not_repeat_a_refused_renewal() {
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

/// A request refused during a renewal waits for it.
#[test]
fn renewal_serves_requests_refused_meanwhile() {
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
    // From here on the client does not send the old token.
    assert_eq!(host.advance(&mut world, &mut super::sim::call()), Some(Outcome::Waiting));
    let fetch = host.held.pop_front().unwrap();
    host.exchange(&mut world, &fetch);
    host.drive(&mut world);
    assert_eq!(host.advance(&mut world, &mut call), Some(Outcome::Answered(2)));
    assert_eq!((world.issuer().renewals, host.verdicts()), (1, before + 1));
}

#[test]
fn read_only_store_prevents_renewals_and_keeps_the_token() {
    // Without a lease there is no renewal: another process may be renewing.
    let (mut world, mut host) = ready();
    world.store.read_only = true;
    world.end_tokens();
    let error = AuthError::Store("the disk is full".into());
    assert_eq!(host.call(&mut world), Outcome::Failed(error));
    assert_eq!(world.issuer().renewals, 0);
    // The token of a page is used, and the failure reported.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.store.read_only = true;
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert!(host.events.contains(&Event::SaveFailed("the disk is full".into())));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    // An unreadable store is no reason to open a page.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.store.broken = true;
    host.user = UserAction::Ignore;
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::Store("the disk is gone".into())));
    assert_eq!(host.pages(), 0);
}

/// A process whose lease has expired must not renew.
#[test]
fn renewal_ends_with_its_lease() {
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
