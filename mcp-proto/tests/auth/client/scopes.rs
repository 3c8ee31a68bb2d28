//! The scopes that the client requests.

use mcp_proto::auth::Scopes;
use mcp_proto::auth::client::{AuthError, RefusedRequest, RetryDecision};
use serde_json::json;

use super::config;
use super::sim::{Host, Outcome, World};

fn scope(world: &mut World, page: usize) -> Option<String> {
    world.issuer().pages[page].get("scope").cloned()
}

/// C12.14, C12.15: the scopes of the challenge, then those of the server's metadata, then none.
#[test]
fn client_requests_the_scopes_of_the_challenge_then_of_the_metadata_then_none() {
    for (challenge, chosen, supported, asked) in [
        (Some("a b"), None, json!(["c"]), Some("a b")),
        (None, None, json!(["c", "d"]), Some("c d")),
        (None, None, json!(null), None),
        (None, None, json!([]), None),
        (None, Some("e"), json!(["c"]), Some("e")),
        (Some("a"), Some("e"), json!(["c"]), Some("e a")),
    ] {
        let mut config = config();
        config.scopes = chosen.map(Scopes::parse);
        let (mut world, mut host) = (World::new(), Host::new(config, 1));
        if let Some(challenge) = challenge {
            world.challenge = format!(r#"Bearer scope="{challenge}""#);
        }
        world.describe(json!({ "scopes_supported": supported }));
        assert_eq!(host.call(&mut world), Outcome::Answered(2));
        assert_eq!(scope(&mut world, 0).as_deref(), asked);
    }
}

/// C12.22: requested if the authorization server lists it, and only with other scopes: alone it would replace the
/// default scopes.
#[test]
fn client_requests_offline_access_if_it_is_listed() {
    for (known, supported, asked) in [
        (json!(["mcp:basic", "offline_access"]), json!(["mcp:basic"]), Some("mcp:basic offline_access")),
        (json!(["mcp:basic"]), json!(["mcp:basic"]), Some("mcp:basic")),
        (json!(null), json!(["mcp:basic"]), Some("mcp:basic")),
        (json!(["offline_access"]), json!(null), None),
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.metadata(json!({ "scopes_supported": known }));
        world.describe(json!({ "scopes_supported": supported }));
        host.call(&mut world);
        assert_eq!(scope(&mut world, 0).as_deref(), asked);
        let consents = asked.is_some_and(|asked| asked.contains("offline"));
        assert_eq!(world.issuer().pages[0].contains_key("prompt"), consents);
    }
}

/// C12.16, K5: the union of granted and missing scopes, and no others of the metadata.
#[test]
fn client_requests_missing_scopes_with_the_granted_ones() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.metadata(json!({ "scopes_supported": ["offline_access"] }));
    world.describe(json!({ "scopes_supported": ["mcp:profile"] }));
    world.challenge = r#"Bearer scope="mcp:basic""#.into();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    world.challenge = "Bearer".into();
    world.scope = Some("mcp:write".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(scope(&mut world, 1).unwrap(), "mcp:basic mcp:write offline_access");
    // The next process adds to the same scopes.
    world.scope = Some("mcp:admin".into());
    assert_eq!(Host::new(config(), 2).call(&mut world), Outcome::Answered(2));
    assert_eq!(scope(&mut world, 2).unwrap(), "mcp:basic mcp:write mcp:admin offline_access");
}

/// C12.16: one authorization if the server requires the very scopes that were granted.
#[test]
fn client_requests_granted_scopes_again_once() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    world.scope = Some("mcp:admin".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let pages = host.pages();
    let header = r#"Bearer error="insufficient_scope", scope="mcp:admin""#;
    let used = match host.machine.credentials(
        host.now,
        mcp_proto::transport::http::Verb::Post,
        super::sim::SERVER,
    ) {
        mcp_proto::auth::client::RequestAuth::Ready { generation: stamp, .. } => stamp,
        other => panic!("{other:?}"),
    };
    let refused = RefusedRequest {
        status: 403,
        www_authenticate: Some(header),
        generation: used,
        attempt: 0,
        nonce: None,
    };
    let error = AuthError::InsufficientScope { scopes: Some(Scopes::parse("mcp:admin")) };
    assert_eq!(host.machine.handle_challenge(host.now, &refused), RetryDecision::Fail(error));
    // Without a missing scope there is nothing to request.
    let refused =
        RefusedRequest { www_authenticate: Some(r#"Bearer error="insufficient_scope""#), ..refused };
    let error = AuthError::InsufficientScope { scopes: None };
    assert_eq!(host.machine.handle_challenge(host.now, &refused), RetryDecision::Fail(error));
    assert_eq!(host.pages(), pages);
}

/// C12.16: a server that requires other scopes each time, or an authorization server that never grants them.
#[test]
fn client_limits_the_authorizations_of_one_request() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().grants_only = Some("mcp:basic".into());
    world.scope = Some("mcp:admin".into());
    let error = AuthError::InsufficientScope { scopes: Some(Scopes::parse("mcp:admin")) };
    assert_eq!(host.call(&mut world), Outcome::Failed(error));
    assert_eq!(host.pages(), 3);
}

/// C12.16: what was requested in vain is not requested again and again.
#[test]
fn client_limits_the_authorizations_for_the_same_scopes() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().grants_only = Some("mcp:basic".into());
    let refused =
        |scope: &str| Outcome::Failed(AuthError::InsufficientScope { scopes: Some(Scopes::parse(scope)) });
    world.scope = Some("mcp:admin".into());
    for pages in [3, 4, 4, 4] {
        assert_eq!(host.call(&mut world), refused("mcp:admin"));
        assert_eq!(host.pages(), pages);
    }
    // Another operation needs other scopes.
    world.scope = Some("mcp:write".into());
    assert_eq!(host.call(&mut world), refused("mcp:write"));
    assert_eq!(host.pages(), 7);
    // The user logs in, and the authorization server grants the scopes.
    host.machine.login(host.now);
    host.settle(&mut world);
    world.issuer().grants_only = None;
    world.scope = Some("mcp:admin".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    // From now on there is no page for them.
    let pages = host.pages();
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!(host.pages(), pages);
}
