//! Servers with malicious content.

use mcp_proto::auth::client::{AuthClient, AuthConfigError, AuthError, Event, FinishError, Redirect};
use mcp_proto::auth::{FetchPolicyError, Secret, TokenEndpointError};
use serde_json::json;

use super::config;
use super::sim::{Fault, Host, ISSUER, Outcome, SERVER, UserAction, World};

/// F111: with a list of hosts, neither the issuer, nor an endpoint, nor the page is elsewhere.
#[test]
fn client_logs_in_at_allowed_hosts_only() {
    let host_of = |url: &str| url.split('/').nth(2).unwrap().to_owned();
    let elsewhere = "https://elsewhere.example/token";
    // Whether the other host is contacted, and whether a page is opened.
    for (allowed, endpoint, refused, contacts) in [
        (vec![], None, Some(ISSUER), (false, false)),
        (vec!["other.example".to_owned()], None, Some(ISSUER), (false, false)),
        (vec![host_of(ISSUER).to_uppercase()], None, None, (false, true)),
        (vec![host_of(ISSUER)], Some("token_endpoint"), Some(elsewhere), (false, true)),
        (vec![host_of(ISSUER)], Some("authorization_endpoint"), Some(elsewhere), (false, false)),
        (vec![host_of(ISSUER), host_of(elsewhere)], Some("token_endpoint"), None, (true, true)),
    ] {
        let mut config = config();
        config.allowed_hosts = Some(allowed);
        let (mut world, mut host) = (World::new(), Host::new(config, 1));
        if let Some(endpoint) = endpoint {
            world.metadata(json!({ endpoint: elsewhere }));
        }
        let stopped_at = match host.call(&mut world) {
            Outcome::Failed(AuthError::UnsafeUrl { url, error: FetchPolicyError::NotAllowed }) => Some(url),
            _ => None,
        };
        let start = stopped_at.as_deref().map(|url| &url[..refused.map_or(0, str::len).min(url.len())]);
        assert_eq!(start, refused);
        assert_eq!((world.count("elsewhere.example") > 0, host.pages() > 0), contacts);
    }
}

/// F111
#[test]
fn allowed_host_is_no_url() {
    for (host, is_host) in
        [("login.example", true), ("[::1]", true), ("https://a.example", false), ("a:1", false), ("", false)]
    {
        let mut config = config();
        config.allowed_hosts = Some(vec![host.to_owned()]);
        let error = AuthClient::new(config, SERVER, [1; 32]).err();
        assert_eq!(error, (!is_host).then_some(AuthConfigError::AllowedHost), "{host}");
    }
}

/// C12.14: more scopes than any page accepts end in an error, not in a URL that no browser opens.
#[test]
fn client_opens_no_page_for_scopes_without_end() {
    let scopes =
        |count: usize| (0..count).map(|at| format!("scope:{at:0>150}")).collect::<Vec<_>>().join(" ");
    for (count, opens) in [(20, true), (100, false)] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.challenge = format!(r#"Bearer scope="{}""#, scopes(count));
        host.user = UserAction::Ignore;
        let outcome = host.call(&mut world);
        if opens {
            assert_eq!(host.pages(), 1);
        } else {
            let error =
                AuthError::UnsafeUrl { url: format!("{ISSUER}/authorize"), error: FetchPolicyError::TooLong };
            assert_eq!((outcome, host.pages()), (Outcome::Failed(error), 0));
        }
    }
}

/// C12.24: an authorization server may repeat a secret in its error, in any form.
#[test]
fn client_hides_secrets_that_a_description_repeats() {
    let secret = "s3cr3t %/: of-machine";
    let basic = "bWFjaGluZTpzM2NyM3QrJTI1JTJGJTNBK29mLW1hY2hpbmU=";
    let form = "s3cr3t+%25%2F%3A+of-machine";
    let cut = format!("{}{secret}", "x".repeat(490));
    for (says, hidden) in [
        (format!("not {secret}!"), true),
        (format!("not {form}!"), true),
        (format!("not Basic {basic}!"), true),
        (cut, true),
        ("not s3cr3t".to_owned(), false),
    ] {
        let config = config().client_secret(ISSUER, "machine", Secret::new(secret));
        let (mut world, mut host) = (World::new(), Host::new(config, 1));
        world.issuer().clients.insert("machine".into(), Some(secret.into()));
        let says_so = json!({ "error": "invalid_grant", "error_description": says }).to_string();
        world.faulty = Some((format!("{ISSUER}/token"), Fault::Body(400, says_so)));
        let outcome = host.call(&mut world);
        let Outcome::Failed(AuthError::Token(TokenEndpointError::Refused { description, .. })) = outcome
        else {
            panic!("{outcome:?}")
        };
        let description = description.unwrap();
        assert_eq!(description.contains("[redacted]"), hidden, "{description}");
        assert_eq!(description.contains("s3cr3t"), !hidden, "{description}");
    }
}

/// C12.29: the text of a redirect is short and has no control characters.
#[test]
fn client_bounds_the_text_of_a_redirect() {
    let mut world = World::new();
    let mut host = Host::new(config(), 1);
    host.user = UserAction::Ignore;
    host.machine.login(host.now);
    host.drive(&mut world);
    let Some(Event::NeedsAuthorization(page)) = host.events.last().cloned() else { panic!() };
    let back = world.issuer().agree(&page.url);
    let mut redirect = Redirect::parse(&back);
    redirect.error = Some("e\u{1b}]0;\u{9b}31m\u{202e}".repeat(10_000));
    redirect.error_description = Some("d\u{7f}\u{200b}\u{2066}\u{e0041}".repeat(10_000));
    let finished = host.machine.finish(host.now, redirect);
    let Err(FinishError::Failed(AuthError::Denied { error, description })) = finished else { panic!() };
    assert_eq!(error.chars().count(), 500);
    assert!(error.chars().all(|letter| "e]0;31m".contains(letter)), "{error}");
    assert_eq!(description.unwrap(), "d".repeat(500));
}
