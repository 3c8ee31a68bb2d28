//! Tokens bound to a key.

use std::sync::Arc;

use mcp_proto::auth::client::{
    AuthConfig, AuthError, DpopKey, Event, Redirect, RefusedRequest, RequestAuth, RetryDecision,
};
use mcp_proto::auth::{Es256, TokenKind};
use mcp_proto::transport::http::Verb;
use serde_json::json;

use super::config;
use super::sim::{Host, Outcome, SERVER, UserAction, World};

fn bound() -> AuthConfig {
    let mut config = config();
    config.dpop = Some(DpopKey::Generated);
    config
}

fn offering() -> World {
    let mut world = World::new();
    world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
    world
}

#[test]
fn client_binds_its_token_if_the_servers_offer_it() {
    let (mut world, mut host) = (offering(), Host::new(bound(), 1));
    world.challenge = "DPoP".into();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.machine.status().unwrap().kind, TokenKind::Dpop);
    assert!(world.issuer().pages[0].contains_key("dpop_jkt"));
    // Each request has its own proof: the simulated server refuses repeated ones.
    for _ in 0..3 {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
    }
    // The next process has the same key.
    assert_eq!(Host::new(bound(), 2).call(&mut world), Outcome::Answered(1));
    host.keeps_secrets(&world);
    let text = world.store.text();
    assert!(text.contains("PRIVATE KEY") && !host.shown.contains("PRIVATE KEY"));
}

#[test]
fn client_does_not_bind_its_token_if_no_server_offers_it() {
    let (mut world, mut host) = (World::new(), Host::new(bound(), 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.machine.status().unwrap().kind, TokenKind::Bearer);
    let (mut world, mut host) = (offering(), Host::new(config(), 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.machine.status().unwrap().kind, TokenKind::Bearer);
}

#[test]
fn application_can_supply_the_key() {
    let key = Arc::new(Es256::from_entropy(&[5; 32]).unwrap());
    let mut config = config();
    config.dpop = Some(DpopKey::Provided(key));
    let (mut world, mut host) = (offering(), Host::new(config, 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert!(!world.store.text().contains("PRIVATE KEY"));
}

#[test]
fn client_distinguishes_servers_that_require_dpop_from_those_that_accept_it() {
    for (challenge, described, fails) in [
        ("DPoP", json!({}), true),
        ("Bearer, DPoP", json!({}), false),
        ("Bearer", json!({ "dpop_bound_access_tokens_required": true }), true),
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.challenge = challenge.into();
        world.describe(described);
        let outcome = host.call(&mut world);
        assert_eq!(outcome == Outcome::Failed(AuthError::DpopRequired), fails, "{challenge}");
    }
}

/// A token that is not bound is useless to a server that requires binding.
#[test]
fn client_refuses_an_unbound_token_if_binding_is_required() {
    let (mut world, mut host) = (offering(), Host::new(bound(), 1));
    world.challenge = "DPoP".into();
    let granted = json!({ "access_token": "x", "token_type": "Bearer" });
    let place = format!("{}/token", world.trusts);
    world.documents.insert(place.clone(), super::sim::Answer::json(200, &granted));
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::UnusableToken));
    // Nor does it accept one bound to an unknown key.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let granted = json!({ "access_token": "x", "token_type": "DPoP" });
    world.documents.insert(place, super::sim::Answer::json(200, &granted));
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::UnusableToken));
}

#[test]
fn both_servers_may_require_nonces() {
    let (mut world, mut host) = (offering(), Host::new(bound(), 1));
    world.challenge = "DPoP".into();
    world.nonce = Some("nonce-of-server".into());
    world.issuer().nonce = Some("nonce-of-issuer".into());
    // 401 for the token, 401 for the nonce, then the result.
    assert_eq!(host.call(&mut world), Outcome::Answered(3));
    assert_eq!(world.issuer().requests.len(), 2);
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    // A new nonce costs one more exchange, and one that came with a response none.
    world.nonce = Some("another".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    world.nonce = Some("a-third".into());
    host.machine.keep_nonce(super::sim::SERVER, "a-third");
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    // The renewal uses the known nonce.
    world.end_tokens();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!((world.issuer().requests.len(), world.issuer().renewals), (3, 1));
}

#[test]
fn client_gives_up_on_a_server_that_refuses_every_nonce() {
    let (mut world, mut host) = (offering(), Host::new(bound(), 1));
    host.call(&mut world);
    let says = json!({ "error": "use_dpop_nonce" }).to_string();
    world.faulty = Some(("/token".into(), super::sim::Fault::Body(400, says)));
    world.end_tokens();
    assert!(matches!(host.call(&mut world), Outcome::Failed(_)));
    assert_eq!(world.count("/token"), 1 + 2);
}

/// A token without its key is useless.
#[test]
fn client_requests_a_new_token_if_the_key_is_lost() {
    let mut given = config();
    given.dpop = Some(DpopKey::Provided(Arc::new(super::sim::FakeKey)));
    let (mut world, mut host) = (offering(), Host::new(given, 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let mut host = Host::new(config(), 2);
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!((host.pages(), host.machine.status().unwrap().kind), (1, TokenKind::Bearer));
}

/// A server may check the nonce first: then the second response shows that the token has expired.
#[test]
fn client_renews_a_token_that_is_refused_after_the_nonce_was_accepted() {
    let (mut world, mut host) = (offering(), Host::new(bound(), 1));
    host.call(&mut world);
    let RequestAuth::Ready { generation: stamp, .. } = host.machine.credentials(host.now, Verb::Post, SERVER)
    else {
        panic!()
    };
    let nonce = RefusedRequest {
        status: 401,
        www_authenticate: Some(r#"DPoP error="use_dpop_nonce""#),
        generation: stamp,
        attempt: 0,
        nonce: Some("nonce"),
    };
    assert_eq!(host.machine.handle_challenge(host.now, &nonce), RetryDecision::Retry);
    let ended = RefusedRequest {
        www_authenticate: Some(r#"DPoP error="invalid_token""#),
        attempt: 1,
        nonce: None,
        ..nonce
    };
    assert_eq!(host.machine.handle_challenge(host.now, &ended), RetryDecision::Wait);
    // Without the required nonce, the request fails.
    let nonce = RefusedRequest { nonce: None, ..nonce };
    assert!(matches!(host.machine.handle_challenge(host.now, &nonce), RetryDecision::Fail(_)));
}

/// Meanwhile another process has logged out and in again, with a key of its own.
#[test]
fn client_stores_a_token_with_the_key_it_is_bound_to() {
    let (mut world, mut first, mut second) = (offering(), Host::new(bound(), 1), Host::new(bound(), 2));
    first.call(&mut world);
    first.user = UserAction::Ignore;
    first.machine.login(first.now);
    first.drive(&mut world);
    second.machine.logout(second.now);
    second.machine.login(second.now);
    second.settle(&mut world);
    let Some(Event::NeedsAuthorization(page)) = first.events.last().cloned() else { panic!() };
    let back = world.issuer().agree(&page.url);
    assert_eq!(first.machine.finish(first.now, Redirect::parse(&back)), Ok(()));
    first.drive(&mut world);
    for mut host in [first, Host::new(bound(), 3)] {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
    }
}
