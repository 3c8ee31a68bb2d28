//! The client's registrations at authorization servers.

use std::sync::Arc;

use mcp_proto::auth::client::{
    ApplicationType, AuthClient, AuthConfig, AuthConfigError, AuthError, AuthMethod, ClientCredentials,
    Grant, Preregistration,
};
use mcp_proto::auth::{Es256, Scopes, Secret};
use mcp_proto::transport::http::Verb;
use serde_json::json;

use super::config;
use super::sim::{Answer, Host, ISSUER, Issuer, Outcome, REDIRECT, SERVER, World};

const DOCUMENT: &str = "https://app.example/client.json";

/// A configuration with a public client, of one issuer or of any.
fn public(issuer: Option<&str>, id: &str) -> AuthConfig {
    let mut config = config();
    config.preregistrations.push(match issuer {
        Some(issuer) => Preregistration::for_issuer(issuer, ClientCredentials::new(id)),
        None => Preregistration::public(id),
    });
    config
}

/// A world whose authorization server knows this client.
fn world_with_client(id: &str, secret: Option<&str>) -> World {
    let mut world = World::new();
    world.issuer().clients.insert(id.into(), secret.map(String::from));
    world.issuer().secrets.extend(secret.map(String::from));
    world
}

/// A login need not be repeated only if the stored token is one that the configuration could have obtained.
#[test]
fn client_tells_a_token_of_another_configuration() {
    let mut world = world_with_client("known", None);
    let stored = public(Some(ISSUER), "known");
    assert_eq!(Host::new(stored.clone(), 1).call(&mut world), Outcome::Answered(2));
    let changed = |change: fn(&mut AuthConfig)| {
        let mut config = stored.clone();
        change(&mut config);
        config
    };
    for (config, fits) in [
        (stored.clone(), true),
        (config(), true),
        (public(None, "known"), true),
        (public(None, "other"), false),
        (public(Some("https://other.example"), "known"), false),
        (changed(|config| config.resource = Some(SERVER.into())), true),
        (changed(|config| config.resource = Some("https://mcp.example.com".into())), false),
        (changed(|config| config.scopes = Some(Scopes::parse("files:read"))), false),
        (changed(|config| config.allowed_hosts = Some(vec!["auth.example.com".into()])), true),
        (changed(|config| config.allowed_hosts = Some(vec!["other.example".into()])), false),
    ] {
        let mut host = Host::new(config, 2);
        assert!(!host.machine.has_configured_token(), "nothing was read yet");
        let _ = host.machine.credentials(host.now, Verb::Post, SERVER);
        host.drive(&mut world);
        assert_eq!(host.machine.has_configured_token(), fits, "{:?}", host.machine.status());
    }
}

/// C12.17, C12.27, F108, K22: preregistration, then a client id document, then dynamic registration.
#[test]
fn client_registers_dynamically_only_without_preregistration_and_document() {
    for issuer in [None, Some(ISSUER)] {
        let mut world = world_with_client("known", None);
        world.metadata(json!({ "client_id_metadata_document_supported": true }));
        let mut config = public(issuer, "known");
        config.client_id_document = Some(DOCUMENT.into());
        assert_eq!(Host::new(config, 1).call(&mut world), Outcome::Answered(2));
        assert_eq!(world.issuer().pages[0]["client_id"], "known");
    }
    for (reads, name) in [
        (json!(true), DOCUMENT),
        (json!(false), "client-1-of-auth.example.com"),
        (json!(null), "client-1-of-auth.example.com"),
    ] {
        let mut world = World::new();
        world.metadata(json!({ "client_id_metadata_document_supported": reads }));
        let mut config = config();
        config.client_id_document = Some(DOCUMENT.into());
        assert_eq!(Host::new(config, 1).call(&mut world), Outcome::Answered(2));
        assert_eq!(world.issuer().pages[0]["client_id"], name);
        assert_eq!(world.issuer().registrations.is_empty(), name == DOCUMENT);
    }
}

/// C12.17, K22: then the user has to provide a client id.
#[test]
fn error_names_the_issuer_where_the_client_cannot_register() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.metadata(json!({ "registration_endpoint": null }));
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::NotRegistered { issuer: ISSUER.into() }));
}

/// C12.18.
#[test]
fn client_id_document_requires_an_https_url_with_a_path() {
    for (url, good) in [
        (DOCUMENT, true),
        ("https://app.example", false),
        ("https://app.example/", false),
        ("http://app.example/client.json", false),
        ("https://app.example/client.json#x", false),
        ("client", false),
    ] {
        let mut config = config();
        config.client_id_document = Some(url.into());
        let error = AuthClient::new(config, SERVER, [1; 32]).err();
        assert_eq!(error, (!good).then_some(AuthConfigError::ClientIdDocument), "{url}");
    }
}

/// C12.18
#[test]
fn client_document_describes_the_client_at_its_url() {
    let mut config = config();
    assert_eq!(config.client_document(), None);
    config.client_id_document = Some(DOCUMENT.into());
    config.client.logo = Some("https://app.example/logo.png".into());
    let document: serde_json::Value = serde_json::from_str(&config.client_document().unwrap()).unwrap();
    assert_eq!(
        document,
        json!({
            "client_id": DOCUMENT,
            "client_name": "a host",
            "logo_uri": "https://app.example/logo.png",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        })
    );
    // What the document says is what the client does.
    let mut world = World::new();
    world.metadata(json!({ "client_id_metadata_document_supported": true }));
    assert_eq!(Host::new(config, 1).call(&mut world), Outcome::Answered(2));
    let page = &world.issuer().pages[0];
    assert_eq!((page["client_id"].as_str(), page["redirect_uri"].as_str()), (DOCUMENT, REDIRECT));
}

/// C12.19, C12.22: the contents of a registration request.
#[test]
fn registration_describes_the_kind_of_client() {
    let mut config = config();
    config.client.uri = Some("https://app.example".into());
    config.client.logo = Some("https://app.example/logo.png".into());
    let (mut world, mut host) = (World::new(), Host::new(config, 1));
    world.describe(json!({ "scopes_supported": ["mcp:basic"] }));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(
        world.issuer().registrations,
        [json!({
            "client_name": "a host",
            "client_uri": "https://app.example",
            "logo_uri": "https://app.example/logo.png",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "scope": "mcp:basic",
        })]
    );
    let mut web = AuthConfig::new("a site", "https://app.example/back");
    web.client.application_type = ApplicationType::Web;
    let (mut world, mut host) = (World::new(), Host::new(web, 1));
    host.call(&mut world);
    assert_eq!(world.issuer().registrations[0]["application_type"], "web");
}

/// C12.14: an authorization server may not know the scopes of the resource, and may refuse a registration with scopes
/// that it does not list.
#[test]
fn client_registers_scopes_that_the_authorization_server_lists() {
    for (listed, registered) in [
        (json!(null), json!("mcp:basic")),
        (json!(["openid", "mcp:basic"]), json!("mcp:basic")),
        (json!(["openid"]), json!(null)),
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.describe(json!({ "scopes_supported": ["mcp:basic"] }));
        world.metadata(json!({ "scopes_supported": listed }));
        assert_eq!(host.call(&mut world), Outcome::Answered(2));
        assert_eq!(world.issuer().registrations[0]["scope"], registered);
        assert_eq!(world.issuer().pages[0]["scope"], "mcp:basic");
    }
}

/// C12.19: the client reports the error of the authorization server.
#[test]
fn client_reports_a_refused_registration_with_its_reason() {
    let says = json!({ "error": "invalid_redirect_uri", "error_description": "no loopback\u{1b}[2J here" });
    for (answer, error, description) in [
        (Answer::json(400, &says), Some("invalid_redirect_uri"), Some("no loopback[2J here")),
        (Answer::status(403), None, None),
        (Answer::json(201, &json!({ "client_secret": "x" })), None, None),
        (Answer::json(201, &json!({ "client_id": "" })), None, None),
        (Answer::json(201, &json!({ "client_id": "x".repeat(5000) })), None, None),
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        let status = answer.status;
        world.documents.insert(format!("{ISSUER}/register"), answer);
        let error = AuthError::RegistrationRefused {
            status,
            error: error.map(String::from),
            description: description.map(String::from),
        };
        assert_eq!(host.call(&mut world), Outcome::Failed(error));
        assert_eq!(host.pages(), 0);
    }
}

/// C12.20, C12.13: another authorization server learns nothing of the credentials of the first.
#[test]
fn client_registers_again_if_the_server_trusts_another_authorization_server() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let first = host.machine.status().unwrap();
    let other = "https://other.example.com";
    world.add(Issuer::new(other));
    world.trusts = other.into();
    world.describe(json!({}));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    let second = host.machine.status().unwrap();
    assert_eq!((second.issuer.as_str(), host.pages()), (other, 2));
    assert_ne!(first.client_id, second.client_id);
    // The client did not renew the token of the first.
    assert_eq!(world.issuers[ISSUER].renewals, 0);
    let seen =
        |issuer: &Issuer| format!("{:?} {:?} {:?}", issuer.pages, issuer.requests, issuer.authorizations);
    let seen = seen(&world.issuers[other]);
    for secret in &world.issuers[ISSUER].secrets {
        assert!(!seen.contains(secret.as_str()));
    }
    assert!(!seen.contains(&first.client_id));
    // And back: the registration there is still known.
    world.trusts = ISSUER.into();
    world.describe(json!({}));
    world.end_tokens();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.machine.status().unwrap().client_id, first.client_id);
    assert_eq!(world.issuer().registrations.len(), 1);
}

/// C12.20: preregistered credentials are for one authorization server, named or not.
#[test]
fn client_sends_preregistered_credentials_only_to_their_authorization_server() {
    let other = "https://other.example.com";
    let mut world = world_with_client("known", None);
    world.add(Issuer::new(other));
    let mut host = Host::new(public(None, "known"), 1);
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    world.trusts = other.into();
    world.describe(json!({}));
    let moved = Outcome::Failed(AuthError::RegisteredElsewhere { issuer: other.into() });
    assert_eq!(host.call(&mut world), moved);
    // The next process knows that too.
    assert_eq!(Host::new(public(None, "known"), 2).call(&mut world), moved);
    let mut host = Host::new(public(Some(ISSUER), "known"), 3);
    assert_eq!(host.call(&mut world), moved);
    assert!(world.issuer().pages.is_empty() && world.issuer().registrations.is_empty());
}

/// C12.20: a server that names an authorization server of its own choice does not make the client authenticate there,
/// not even the first time, when the store is empty.
#[test]
fn client_sends_no_secret_to_an_issuer_that_did_not_issue_it() {
    let evil = "https://evil.example.com";
    let key = || Arc::new(Es256::from_entropy(&[9; 32]).unwrap());
    for machine in [false, true] {
        for config in [
            config().client_secret(ISSUER, "known", Secret::new("secret-of-client")),
            config().client_key(ISSUER, "known", key()),
        ] {
            let mut config = config;
            if machine {
                config.grant = Grant::ClientCredentials;
            }
            let mut world = world_with_client("known", Some("secret-of-client"));
            world.add(Issuer::new(evil));
            world.trusts = evil.into();
            world.describe(json!({}));
            let mut host = Host::new(config, 1);
            let error = AuthError::RegisteredElsewhere { issuer: evil.into() };
            assert_eq!(host.call(&mut world), Outcome::Failed(error));
            assert_eq!((world.count("evil.example.com"), host.pages()), (0, 0));
        }
    }
    // Nor to a server of 2025-03-26, which is its own authorization server.
    let mut world = World::legacy();
    let config = config().client_secret(ISSUER, "known", Secret::new("secret-of-client"));
    let error = AuthError::RegisteredElsewhere { issuer: "https://mcp.example.com".into() };
    assert_eq!(Host::new(config, 1).call(&mut world), Outcome::Failed(error));
    assert_eq!((world.count("POST"), world.issuer().pages.len()), (0, 0));
}

#[test]
fn configuration_refuses_an_issuer_that_is_no_url_of_one() {
    for issuer in ["", "auth.example.com", "https://me@auth.example.com", "https://auth.example.com?a", "x:y"]
    {
        let config = config().client_secret(issuer, "known", Secret::new("secret-of-client"));
        assert_eq!(AuthClient::new(config, SERVER, [1; 32]).err(), Some(AuthConfigError::Issuer), "{issuer}");
    }
}

#[test]
fn client_replaces_a_registration_with_other_redirects_or_an_expired_secret() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let end = host.now.unix.since_epoch().as_secs() + 1000;
    world.issuer().registers = json!({ "client_secret": "secret-1", "client_secret_expires_at": end });
    host.call(&mut world);
    let again = |config: AuthConfig, world: &mut World, late: u64| {
        let mut host = Host::new(config, 2);
        host.now.unix = host.now.unix + core::time::Duration::from_secs(late);
        host.machine.login(host.now);
        host.settle(world);
        world.issuer().registrations.len()
    };
    assert_eq!(again(config(), &mut world, 0), 1);
    assert_eq!(again(AuthConfig::new("a host", "http://127.0.0.1:9999/callback"), &mut world, 0), 2);
    world.issuer().registers = json!({});
    assert_eq!(again(config(), &mut world, 0), 3);
    assert_eq!(again(config(), &mut world, 2000), 3);
}

/// The client registers once more if the authorization server has forgotten it.
#[test]
fn unknown_client_registers_again() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    world.issuer().clients.clear();
    world.end_tokens();
    // The renewal fails, and a page follows, for which the client has registered again.
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(world.issuer().registrations.len(), 2);
    // During a login, redeeming the code fails: this code is lost.
    world.issuer().clients.clear();
    host.machine.login(host.now);
    host.settle(&mut world);
    host.machine.login(host.now);
    host.settle(&mut world);
    assert_eq!(world.issuer().registrations.len(), 3);
}

/// C12.27: the metadata names the method to send a client secret; the default is the header.
#[test]
fn client_sends_its_secret_by_the_method_of_the_metadata() {
    for (takes, header, form, name) in [
        (json!(null), true, false, false),
        (json!(["client_secret_basic"]), true, false, false),
        (json!(["client_secret_post", "client_secret_basic"]), true, false, false),
        (json!(["client_secret_post"]), false, true, true),
        (json!(["private_key_jwt", "client_secret_post"]), false, true, true),
        (json!(["tls_client_auth"]), true, false, false),
    ] {
        let mut world = world_with_client("a client:1", Some("secret %/: 1"));
        world.metadata(json!({ "token_endpoint_auth_methods_supported": takes }));
        let config = config().client_secret(ISSUER, "a client:1", Secret::new("secret %/: 1"));
        let mut host = Host::new(config, 1);
        assert_eq!(host.call(&mut world), Outcome::Answered(2), "{takes}");
        let issuer = world.issuer();
        assert_eq!(issuer.authorizations[0].is_some(), header, "{takes}");
        assert_eq!(issuer.requests[0].contains_key("client_secret"), form);
        assert_eq!(issuer.requests[0].contains_key("client_id"), name);
        host.keeps_secrets(&world);
    }
}

#[test]
fn registration_or_application_can_choose_the_authentication_method() {
    // By the registration, for a server without metadata and for one whose metadata differs.
    for (method, header) in [("client_secret_post", false), ("client_secret_basic", true)] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.issuer().registers =
            json!({ "client_secret": "secret-1", "token_endpoint_auth_method": method });
        assert_eq!(host.call(&mut world), Outcome::Answered(2));
        assert_eq!(world.issuer().authorizations[0].is_some(), header);
    }
    // By the application.
    let mut world = world_with_client("known", Some("secret-2"));
    let mut credentials = ClientCredentials::with_secret("known", Secret::new("secret-2"));
    credentials.method = Some(AuthMethod::Post);
    let mut config = config();
    config.preregistrations.push(Preregistration::for_issuer(ISSUER, credentials));
    assert_eq!(Host::new(config, 1).call(&mut world), Outcome::Answered(2));
    assert!(world.issuer().requests[0].contains_key("client_secret"));
}

/// A public client may receive a secret that no endpoint accepts.
#[test]
fn client_sends_no_secret_if_only_the_method_none_is_accepted() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.metadata(json!({ "token_endpoint_auth_methods_supported": ["none"] }));
    world.issuer().registers = json!({ "client_secret": "secret-1" });
    // The simulated server insists on the secret; this test checks only that it was not sent.
    host.call(&mut world);
    assert!(world.issuer().authorizations[0].is_none());
    assert!(!world.issuer().requests[0].contains_key("client_secret"));
}
