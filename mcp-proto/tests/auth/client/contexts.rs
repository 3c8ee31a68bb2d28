//! The authorization context, which keys private cache entries. Row C8.2.

use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::config;
use super::sim::{Host, ISSUER, Outcome, World};

/// An ID token, of which only the claims are read.
fn id_token(issuer: &str, subject: &str) -> String {
    let claims = json!({ "iss": issuer, "sub": subject }).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// A host that has logged in.
fn logged_in(world: &mut World) -> Host {
    let mut host = Host::new(config(), 1);
    assert_eq!(host.call(world), Outcome::Answered(2));
    host
}

#[test]
fn context_changes_at_login_and_step_up_and_not_in_between() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let before = host.machine.context();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let first = host.machine.context();
    assert_ne!(before, first);
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!(host.machine.context(), first);
    world.scope = Some("mcp:write".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let stepped_up = host.machine.context();
    assert_ne!(stepped_up, first);
    host.machine.login(host.now);
    host.settle(&mut world);
    assert_ne!(host.machine.context(), stepped_up);
}

/// The context changes with the command, not only when the store and the authorization server have answered.
#[test]
fn context_changes_as_soon_as_the_application_logs_out() {
    let mut world = World::new();
    let mut host = logged_in(&mut world);
    let before = host.machine.context();
    host.machine.logout(host.now);
    assert_ne!(host.machine.context(), before);
}

#[test]
fn context_survives_a_renewal_only_if_the_issuer_names_the_same_subject() {
    let one = Some(id_token(ISSUER, "248289761001"));
    let other = Some(id_token(ISSUER, "1"));
    let foreign = Some(id_token("https://evil.example", "248289761001"));
    let broken = Some("248289761001".to_owned());
    for (first, second, survives) in [
        (None, None, false),
        (one.clone(), None, false),
        (None, one.clone(), false),
        (one.clone(), other, false),
        (one.clone(), foreign.clone(), false),
        (foreign.clone(), foreign, false),
        (broken.clone(), broken, false),
        (one.clone(), one, true),
    ] {
        let mut world = World::new();
        world.issuer().id_token.clone_from(&first);
        let mut host = logged_in(&mut world);
        let before = host.machine.context();
        world.issuer().id_token.clone_from(&second);
        host.pass(Duration::from_secs(3601));
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        assert_eq!(world.issuer().renewals, 1);
        assert_eq!(host.machine.context() == before, survives, "{first:?} {second:?}");
    }
}

/// A token that another process has stored may belong to another user.
#[test]
fn context_changes_with_a_token_of_another_process() {
    let mut world = World::new();
    world.issuer().id_token = Some(id_token(ISSUER, "248289761001"));
    let mut host = logged_in(&mut world);
    let before = host.machine.context();
    let mut other = Host::new(config(), 2);
    other.machine.login(other.now);
    other.settle(&mut world);
    world.issuer().tokens.retain(|token, _| !token.starts_with("access-3-"));
    host.call(&mut world);
    assert_ne!(host.machine.context(), before);
}

/// The response to a request without a token belongs to an anonymous context.
#[test]
fn context_changes_when_requests_go_out_without_a_token() {
    let mut world = World::new();
    world.issuer().gives_refresh = false;
    let mut host = logged_in(&mut world);
    let before = host.machine.context();
    host.pass(Duration::from_secs(3601));
    let mut call = super::sim::call();
    host.advance(&mut world, &mut call);
    assert_ne!(host.machine.context(), before);
    let mut host = logged_in(&mut World::new());
    let before = host.machine.context();
    host.machine.skip_credentials();
    assert_ne!(host.machine.context(), before);
    let anonymous = host.machine.context();
    host.machine.skip_credentials();
    assert_eq!(host.machine.context(), anonymous);
}
