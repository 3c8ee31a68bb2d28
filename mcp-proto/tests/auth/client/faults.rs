//! Faults in every exchange of every flow: failures, silence and false responses.

use core::time::Duration;
use std::sync::Arc;

use mcp_proto::auth::Secret;
use mcp_proto::auth::client::{
    AuthConfig, ClientCredentials, DpopKey, Grant, IdentityProvider, ProviderLocation, SubjectKind,
};
use serde_json::json;

use super::config;
use super::sim::{Answer, FakeKey, Fault, Host, ISSUER, Issuer, Outcome, World};

const IDP: &str = "https://idp.example.com";

fn faults() -> Vec<Fault> {
    let says = |status, body: serde_json::Value| Fault::Body(status, body.to_string());
    let mut faults =
        vec![Fault::Network, Fault::Silence, Fault::Echo(400), Fault::Echo(200), Fault::Echo(401)];
    faults.extend([200, 301, 400, 401, 404, 429, 503].map(Fault::Status));
    faults.extend([
        says(200, json!([])),
        says(200, json!({ "resource": 5, "issuer": 5, "access_token": 5, "client_id": 5 })),
        says(
            200,
            json!({ "resource": "https://evil.example", "authorization_servers": ["https://evil.example"] }),
        ),
        says(
            200,
            json!({ "issuer": "https://evil.example", "token_endpoint": "https://evil.example/token" }),
        ),
        says(200, json!({ "issuer": ISSUER, "token_endpoint": "https://10.0.0.1/token" })),
        says(200, json!({ "access_token": "x", "token_type": "mac" })),
        says(200, json!({ "access_token": "x\r\nevil: 1", "token_type": "Bearer" })),
        says(200, json!({ "access_token": "x", "token_type": "DPoP", "expires_in": -1 })),
        says(200, json!({ "error": "invalid_grant", "error_description": "\u{1b}]0;x\u{7}" })),
        says(400, json!({ "error": "use_dpop_nonce" })),
        says(400, json!({ "error": "invalid_client" })),
        Fault::Body(200, "{\"issuer\":\"".repeat(1000)),
        Fault::Body(200, "[".repeat(200_000)),
        Fault::Body(200, " ".repeat(300_000)),
    ]);
    faults
}

/// One kind of client and its servers.
fn build_scene(kind: usize) -> (World, Host) {
    let mut world = World::new();
    world.challenge = r#"Bearer scope="mcp:basic""#.into();
    let config = match kind {
        0 => config(),
        1 => {
            world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
            world.issuer().nonce = Some("nonce-of-issuer".into());
            world.issuer().registers = json!({ "client_secret": "secret-of-client" });
            let mut config = config();
            config.dpop = Some(DpopKey::Provided(Arc::new(FakeKey)));
            config
        }
        2 => {
            let mut config = known();
            config.grant = Grant::ClientCredentials;
            config
        }
        _ => {
            world.add(Issuer::new(IDP));
            let granted = json!({
                "access_token": "assert-id-jag-1",
                "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
                "token_type": "N_A",
            });
            world.documents.insert(format!("{IDP}/token"), Answer::json(200, &granted));
            let mut config = known();
            config.grant = Grant::Enterprise(IdentityProvider {
                location: ProviderLocation::Issuer(IDP.into()),
                credentials: ClientCredentials::new("client-at-idp"),
                subject: SubjectKind::Saml2,
            });
            config
        }
    };
    world.issuer().clients.insert("machine".into(), Some("secret-of-machine".into()));
    world.issuer().secrets.extend(
        ["secret-of-machine", "secret-of-client", "assert-id-jag-1", "assert-subject-1"].map(String::from),
    );
    let mut host = Host::new(config, 1);
    host.assertion = Ok(Secret::new("assert-subject-1"));
    (world, host)
}

fn known() -> AuthConfig {
    config().client_secret(ISSUER, "machine", Secret::new("secret-of-machine"))
}

/// A first token, an additional scope, a renewal and a new login, then a logout: each reports one outcome.
fn run_lifecycle(world: &mut World, host: &mut Host) -> Vec<Outcome> {
    let mut outcomes = vec![host.call(world)];
    world.challenge = "Bearer".into();
    world.scope = Some("mcp:write".into());
    outcomes.push(host.call(world));
    host.pass(Duration::from_secs(4000));
    outcomes.push(host.call(world));
    world.end_tokens();
    outcomes.push(host.call(world));
    host.machine.logout(host.now);
    host.settle(world);
    outcomes
}

#[test]
fn every_request_succeeds_without_faults() {
    for kind in 0..4 {
        let (mut world, mut host) = build_scene(kind);
        let outcomes = run_lifecycle(&mut world, &mut host);
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, Outcome::Answered(_))),
            "{kind} {outcomes:?}"
        );
        host.keeps_secrets(&world);
    }
}

/// With any fault, each request has one outcome, no secret is shown, the client does not spin, and everything works
/// once the fault has ended.
#[test]
fn client_works_again_after_any_fault_at_any_step() {
    for kind in 0..4 {
        let (mut world, mut host) = build_scene(kind);
        run_lifecycle(&mut world, &mut host);
        let steps = world.log.len();
        assert!(steps >= 5);
        for step in 0..steps {
            for fault in faults() {
                let (mut world, mut host) = build_scene(kind);
                world.faults.insert(step, fault.clone());
                let outcomes = run_lifecycle(&mut world, &mut host);
                let what = format!("{kind} {step} {fault:?}: {outcomes:?} {:?}", world.log);
                assert!(outcomes.iter().all(|outcome| *outcome != Outcome::Waiting), "{what}");
                let failed = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Failed(_))).count();
                assert!(failed <= 1, "{what}");
                assert!(world.log.len() <= 3 * steps, "{what}");
                assert!(
                    !world.log.iter().any(|line| line.contains("evil") || line.contains("10.0.0.1")),
                    "{what}"
                );
                assert_eq!(world.issuer().reused, 0, "{what}");
                host.keeps_secrets(&world);
                assert!(!host.shown.contains('\u{1b}'), "{what}");
                assert_eq!(host.machine.status(), None, "{what}");
                world.faults.clear();
                assert!(matches!(host.call(&mut world), Outcome::Answered(_)), "{what}");
            }
        }
    }
}

/// The same fault, permanently.
#[test]
fn client_does_not_spin_during_a_permanent_fault() {
    for kind in 0..4 {
        for part in ["protected-resource", "authorization-server", "/register", "/token", "example.com"] {
            for fault in faults() {
                let (mut world, mut host) = build_scene(kind);
                world.faulty = Some((part.into(), fault.clone()));
                let outcomes = run_lifecycle(&mut world, &mut host);
                assert!(
                    outcomes.iter().all(|outcome| *outcome != Outcome::Waiting),
                    "{kind} {part} {fault:?}"
                );
                assert!(world.log.len() < 200, "{kind} {part} {fault:?} {}", world.log.len());
                host.keeps_secrets(&world);
            }
        }
    }
}

/// A failure is known before the timeout.
#[test]
fn client_goes_on_at_once_after_a_failed_exchange() {
    let (mut world, mut host) = build_scene(0);
    host.holds = true;
    host.machine.login(host.now);
    host.drive(&mut world);
    let failed = host.held.pop_front().unwrap();
    host.machine.handle_failed(host.now, failed.id, "connection refused");
    host.drive(&mut world);
    assert_ne!(host.held.front().unwrap().id, failed.id);
}

/// Responses that come late: after their timeout, after the logout, twice.
#[test]
fn client_ignores_late_responses() {
    let (mut world, mut host) = build_scene(0);
    host.holds = true;
    host.machine.login(host.now);
    host.drive(&mut world);
    let fetch = host.held.front().unwrap().clone();
    host.pass(Duration::from_secs(15));
    host.machine.handle_timeout(host.now);
    host.drive(&mut world);
    assert_eq!(host.aborted, [fetch.id]);
    let next = host.held.front().unwrap().clone();
    assert_ne!(next.id, fetch.id);
    let before = world.log.len();
    host.exchange(&mut world, &fetch);
    host.exchange(&mut world, &fetch);
    host.machine.handle_failed(host.now, fetch.id, "late");
    host.drive(&mut world);
    assert_eq!((host.held.len(), world.log.len(), host.verdicts()), (1, before + 2, 0));
    host.machine.logout(host.now);
    host.drive(&mut world);
    host.exchange(&mut world, &next);
    host.drive(&mut world);
    assert_eq!(host.machine.status(), None);
}
