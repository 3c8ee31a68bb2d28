//! Grants that need no page.

use std::sync::Arc;

use mcp_proto::auth::client::{
    AssertionPurpose, AuthClient, AuthConfig, AuthConfigError, AuthError, AuthMethod, ClientCredentials,
    Grant, IdentityProvider, Preregistration, ProviderLocation, SubjectKind,
};
use mcp_proto::auth::{Es256, Secret, TokenEndpointError};
use serde_json::json;

use super::config;
use super::sim::{Answer, Fault, Host, ISSUER, Issuer, Outcome, SERVER, World, claims, members};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const IDP: &str = "https://idp.example.com";

fn with(grant: Grant, credentials: ClientCredentials) -> AuthConfig {
    let mut config = config();
    config.grant = grant;
    config.preregistrations.push(Preregistration::for_issuer(ISSUER, credentials));
    config
}

fn password() -> ClientCredentials {
    ClientCredentials::with_secret("machine", Secret::new("secret-of-machine"))
}

fn world_with_client() -> World {
    let mut world = World::new();
    world.issuer().clients.insert("machine".into(), Some("secret-of-machine".into()));
    world.issuer().secrets.push("secret-of-machine".into());
    world.issuer().gives_refresh = false;
    world
}

/// C14.8
#[test]
fn client_credentials_need_no_page() {
    for (takes, header) in [("client_secret_basic", true), ("client_secret_post", false)] {
        let (mut world, mut host) =
            (world_with_client(), Host::new(with(Grant::ClientCredentials, password()), 1));
        world.metadata(json!({ "token_endpoint_auth_methods_supported": [takes] }));
        world.describe(json!({ "scopes_supported": ["mcp:read"] }));
        assert_eq!(host.call(&mut world), Outcome::Answered(2));
        let request = &world.issuer().requests[0];
        assert_eq!((&*request["grant_type"], &*request["resource"]), ("client_credentials", SERVER));
        assert_eq!(request["scope"], "mcp:read");
        assert_eq!(world.issuer().authorizations[0].is_some(), header);
        assert_eq!((host.pages(), world.count("/register")), (0, 0));
        host.keeps_secrets(&world);
    }
}

/// C14.8
#[test]
fn client_can_authenticate_by_a_signed_assertion() {
    let key = Arc::new(Es256::from_entropy(&[9; 32]).unwrap());
    let config = with(Grant::ClientCredentials, ClientCredentials::with_key("machine", key));
    let (mut world, mut host) = (world_with_client(), Host::new(config, 1));
    world.issuer().clients.insert("machine".into(), None);
    world.metadata(json!({ "token_endpoint_auth_methods_supported": ["private_key_jwt"] }));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let request = world.issuer().requests[0].clone();
    assert!(!request.contains_key("client_id"));
    assert!(!request.contains_key("client_secret") && world.issuer().authorizations[0].is_none());
    assert_eq!((&*request["grant_type"], &*request["resource"]), ("client_credentials", SERVER));
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!(request["client_assertion_type"], kind);
    assert_eq!((host.pages(), world.count("/register")), (0, 0));
    let (_, claims) = claims(&request["client_assertion"]);
    assert_eq!((claims["sub"].as_str(), claims["aud"].as_str()), (Some("machine"), Some(ISSUER)));
    host.keeps_secrets(&world);
}

#[test]
fn grant_names_the_extension_that_defines_it() {
    let place = ProviderLocation::TokenEndpoint(format!("{IDP}/token"));
    for (grant, extension) in [
        (Grant::AuthorizationCode, None),
        (Grant::ClientCredentials, Some("io.modelcontextprotocol/oauth-client-credentials")),
        (enterprise(place), Some("io.modelcontextprotocol/enterprise-managed-authorization")),
        (Grant::JwtBearer, None),
    ] {
        assert_eq!(grant.extension(), extension, "{grant:?}");
    }
}

/// It does not register: its client id is configured.
#[test]
fn client_credentials_grant_needs_credentials() {
    let mut config = config();
    config.grant = Grant::ClientCredentials;
    assert_eq!(AuthClient::new(config, SERVER, [1; 32]).err(), Some(AuthConfigError::Credentials));
}

/// The client replaces a token without a refresh token before it expires.
#[test]
fn client_requests_a_new_token_before_the_old_one_expires() {
    let (mut world, mut host) =
        (world_with_client(), Host::new(with(Grant::ClientCredentials, password()), 1));
    host.call(&mut world);
    host.pass(core::time::Duration::from_secs(3600 - 30));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    host.settle(&mut world);
    host.pass(core::time::Duration::from_secs(60));
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!(world.issuer().requests.len(), 2);
}

/// C12.28: it may request additional scopes as well.
#[test]
fn client_credentials_can_request_more_scopes() {
    let (mut world, mut host) =
        (world_with_client(), Host::new(with(Grant::ClientCredentials, password()), 1));
    world.challenge = r#"Bearer scope="a""#.into();
    host.call(&mut world);
    world.challenge = "Bearer".into();
    world.scope = Some("b".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(world.issuer().requests[1]["scope"], "a b");
}

fn enterprise(place: ProviderLocation) -> Grant {
    enterprise_with(place, SubjectKind::IdToken)
}

fn enterprise_with(place: ProviderLocation, subject: SubjectKind) -> Grant {
    Grant::Enterprise(IdentityProvider {
        location: place,
        credentials: ClientCredentials::new("client-at-idp"),
        subject,
    })
}

fn provider(world: &mut World) {
    world.add(Issuer::new(IDP));
    let granted = json!({
        "access_token": "assert-id-jag-1",
        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "token_type": "N_A",
    });
    world.issuer().secrets.extend(["assert-id-jag-1".into(), "assert-id-token-1".into()]);
    world.documents.insert(format!("{IDP}/token"), Answer::json(200, &granted));
}

/// C14.9, C14.10
#[test]
fn identity_provider_can_decide_in_place_of_the_user() {
    let endpoint = || ProviderLocation::TokenEndpoint(format!("{IDP}/token"));
    for (place, subject, kind) in [
        (endpoint(), SubjectKind::IdToken, "id_token"),
        (ProviderLocation::Issuer(IDP.into()), SubjectKind::IdToken, "id_token"),
        (endpoint(), SubjectKind::Saml2, "saml2"),
    ] {
        let looks = matches!(place, ProviderLocation::Issuer(_));
        let grant = enterprise_with(place, subject);
        let (mut world, mut host) = (world_with_client(), Host::new(with(grant, password()), 1));
        provider(&mut world);
        host.assertion = Ok(Secret::new("assert-id-token-1"));
        host.holds = true;
        host.machine.login(host.now);
        host.drive(&mut world);
        let mut exchange = None;
        while let Some(fetch) = host.held.pop_front() {
            if fetch.url == format!("{IDP}/token") {
                exchange = Some(members(&fetch.body));
            }
            host.exchange(&mut world, &fetch);
            host.drive(&mut world);
        }
        let exchange = exchange.unwrap();
        for (name, value) in [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
            ("audience", ISSUER),
            ("resource", SERVER),
            ("subject_token", "assert-id-token-1"),
            ("subject_token_type", &format!("urn:ietf:params:oauth:token-type:{kind}")),
            ("client_id", "client-at-idp"),
        ] {
            assert_eq!(exchange[name], value, "{name}");
        }
        host.holds = false;
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        let request = &world.issuer().requests[0];
        assert_eq!((&*request["grant_type"], &*request["assertion"]), (JWT_BEARER, "assert-id-jag-1"));
        assert!(world.issuer().authorizations[0].is_some());
        assert_eq!(host.asked[0].purpose, AssertionPurpose::Identity);
        assert_eq!(host.asked[0].audience.as_deref(), looks.then_some(IDP));
        assert_eq!((host.pages(), world.count(&format!("{IDP}/.well-known")) > 0), (0, looks));
        host.keeps_secrets(&world);
    }
}

/// C14.9, C14.10: both requests name the resource as it names itself, and the client is the authorization server's.
#[test]
fn identity_provider_learns_the_resource_of_the_metadata() {
    let named = "https://MCP.example.com/mcp";
    let place = ProviderLocation::TokenEndpoint(format!("{IDP}/token"));
    let (mut world, mut host) = (world_with_client(), Host::new(with(enterprise(place), password()), 1));
    provider(&mut world);
    world.describe(json!({ "resource": named }));
    host.assertion = Ok(Secret::new("assert-id-token-1"));
    host.holds = true;
    host.machine.login(host.now);
    host.drive(&mut world);
    let mut exchange = None;
    while let Some(fetch) = host.held.pop_front() {
        if fetch.url == format!("{IDP}/token") {
            exchange = Some(members(&fetch.body));
        }
        host.exchange(&mut world, &fetch);
        host.drive(&mut world);
    }
    assert_eq!(exchange.unwrap()["resource"], named);
    let request = &world.issuer().requests[0];
    assert_eq!((&*request["grant_type"], &*request["resource"]), (JWT_BEARER, named));
    // machine:secret-of-machine
    let header = "Basic bWFjaGluZTpzZWNyZXQtb2YtbWFjaGluZQ==";
    assert_eq!(world.issuer().authorizations[0].as_deref(), Some(header));
}

/// C14.9, C14.15
#[test]
fn client_does_not_use_a_wrong_token_type_of_the_identity_provider() {
    let place = ProviderLocation::TokenEndpoint(format!("{IDP}/token"));
    let (mut world, mut host) = (world_with_client(), Host::new(with(enterprise(place), password()), 1));
    provider(&mut world);
    host.assertion = Ok(Secret::new("assert-id-token-1"));
    let granted = json!({ "access_token": "x", "token_type": "Bearer" });
    world.documents.insert(format!("{IDP}/token"), Answer::json(200, &granted));
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::UnusableToken));
    assert!(world.issuer().requests.is_empty());
}

#[test]
fn client_checks_urls_of_the_identity_provider() {
    let place = ProviderLocation::Issuer("http://idp.example.com".into());
    let error = AuthClient::new(with(enterprise(place), password()), SERVER, [1; 32]).err();
    assert_eq!(error, Some(AuthConfigError::IdentityProvider));
}

#[test]
fn workload_presents_its_own_assertion() {
    let mut credentials = ClientCredentials::new("workload");
    credentials.method = Some(AuthMethod::None);
    let (mut world, mut host) = (world_with_client(), Host::new(with(Grant::JwtBearer, credentials), 1));
    world.issuer().clients.insert("workload".into(), None);
    world.metadata(
        json!({ "token_endpoint_auth_methods_supported": ["none"], "registration_endpoint": null }),
    );
    world.issuer().secrets.push("assert-workload-1".into());
    host.assertion = Ok(Secret::new("assert-workload-1"));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let request = &world.issuer().requests[0];
    assert_eq!((&*request["grant_type"], &*request["assertion"]), (JWT_BEARER, "assert-workload-1"));
    assert_eq!((&*request["client_id"], &*request["resource"]), ("workload", SERVER));
    assert_eq!(host.asked[0].purpose, AssertionPurpose::Grant);
    assert_eq!(host.asked[0].audience.as_deref(), Some(ISSUER));
    host.keeps_secrets(&world);
}

#[test]
fn workload_needs_no_client_id() {
    let mut config = config();
    config.grant = Grant::JwtBearer;
    let (mut world, mut host) = (world_with_client(), Host::new(config, 1));
    world.metadata(json!({ "registration_endpoint": null }));
    host.assertion = Ok(Secret::new("assert-workload-1"));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert!(!world.issuer().requests[0].contains_key("client_id"));
}

/// The client repeats neither a refused assertion nor tries another grant instead.
#[test]
fn client_does_not_repeat_a_refused_assertion() {
    for error in ["invalid_grant", "invalid_scope", "unauthorized_client"] {
        let mut config = config();
        config.grant = Grant::JwtBearer;
        let (mut world, mut host) = (world_with_client(), Host::new(config, 1));
        host.assertion = Ok(Secret::new("assert-workload-1"));
        let says = Fault::Body(400, json!({ "error": error }).to_string());
        world.faulty = Some((format!("{ISSUER}/token"), says));
        let refusal = TokenEndpointError::Refused { error: error.into(), description: None };
        let Outcome::Failed(AuthError::Token(told)) = host.call(&mut world) else { panic!() };
        assert_eq!(told, refusal);
        assert_eq!((world.count("/token"), host.asked.len(), host.pages()), (1, 1, 0));
    }
}

#[test]
fn error_reports_a_missing_assertion() {
    let mut config = config();
    config.grant = Grant::JwtBearer;
    let (mut world, mut host) = (world_with_client(), Host::new(config, 1));
    let error = AuthError::Assertion("there is none".into());
    assert_eq!(host.call(&mut world), Outcome::Failed(error));
}
