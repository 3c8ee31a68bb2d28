//! From the first refusal to the last logout.

use mcp_proto::auth::client::{
    AuthClient, AuthConfigError, AuthError, Event, RefusedRequest, RequestAuth, RetryDecision,
};
use mcp_proto::auth::{FetchPolicyError, TokenKind};
use mcp_proto::transport::http::Verb;

use super::config;
use super::sim::{Host, ISSUER, Outcome, SERVER, UserAction, World};

/// C12.2, C12.7, C12.11, C12.12, F108: the whole way, in the order of the specification.
#[test]
fn client_opens_a_page_after_a_refusal_and_repeats_the_request_with_a_token() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(
        world.log,
        [
            "GET https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
            "GET https://auth.example.com/.well-known/oauth-authorization-server",
            "POST https://auth.example.com/register",
            "POST https://auth.example.com/token",
        ]
    );
    let page = &world.issuer().pages[0];
    assert_eq!(page["resource"], SERVER);
    assert!(!page.contains_key("scope"));
    assert_eq!(world.issuer().requests[0]["resource"], SERVER);
    let status = host.machine.status().unwrap();
    assert_eq!((status.issuer.as_str(), status.kind, status.has_refresh), (ISSUER, TokenKind::Bearer, true));
    // Later requests need none of that.
    let before = world.log.len();
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!(world.log.len(), before);
    host.keeps_secrets(&world);
}

/// C12.24: the next process uses the stored record.
#[test]
fn next_process_uses_the_stored_token() {
    let (mut world, mut first) = (World::new(), Host::new(config(), 1));
    first.call(&mut world);
    let before = world.log.len();
    let mut second = Host::new(config(), 2);
    assert_eq!(second.call(&mut world), Outcome::Answered(1));
    assert_eq!((world.log.len(), second.pages()), (before, 0));
}

/// C12.12, C12.13.
#[test]
fn client_sends_a_token_only_to_its_own_server() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    for (url, has) in [
        (SERVER, true),
        ("https://MCP.example.com:443/messages?session=1", true),
        ("http://mcp.example.com/mcp", false),
        ("https://mcp.example.com:8443/mcp", false),
        ("https://mcp.example.com.evil.example/mcp", false),
        ("https://evil.example/mcp", false),
        ("nonsense", false),
    ] {
        match host.machine.credentials(host.now, Verb::Get, url) {
            RequestAuth::Ready { headers, generation: stamp } => {
                assert_eq!((!headers.is_empty(), stamp.is_some()), (has, has), "{url}");
            }
            other => panic!("{url}: {other:?}"),
        }
    }
}

/// C12.23: authorization requires a secure connection.
#[test]
fn client_refuses_a_server_without_a_secure_connection() {
    let refused = |url| AuthClient::new(config(), url, [1; 32]).err();
    assert_eq!(
        refused("http://mcp.example.com/mcp"),
        Some(AuthConfigError::Server(FetchPolicyError::Unencrypted))
    );
    assert!(refused("ftp://mcp.example.com/").is_some());
    assert_eq!(refused("http://localhost:3000/mcp"), None);
    for (uri, good) in [
        ("http://127.0.0.1:1/cb", true),
        ("http://localhost:3000/callback", true),
        ("https://app.example/cb", true),
        ("http://app.example/cb", false),
        ("javascript:alert(1)", false),
    ] {
        let mut config = config();
        config.redirect_uri = uri.into();
        assert_eq!(AuthClient::new(config, SERVER, [1; 32]).is_ok(), good, "{uri}");
    }
}

/// C12.13: a redirect may lead from `http` to `https`, where the token is as safe, and nowhere else.
#[test]
fn token_of_an_http_server_is_sent_to_the_same_host_by_https() {
    let wants_token = |url: &str| {
        let mut client = AuthClient::new(config(), "http://localhost:3000/mcp", [1; 32]).unwrap();
        let now = Host::new(config(), 1).now;
        matches!(client.credentials(now, Verb::Post, url), RequestAuth::Wait)
    };
    assert!(wants_token("http://localhost:3000/mcp") && wants_token("https://localhost:3000/mcp"));
    for other in ["https://localhost:4000/mcp", "https://example.com/mcp", "http://localhost/mcp"] {
        assert!(!wants_token(other), "{other}");
    }
    let mut client = AuthClient::new(config(), SERVER, [1; 32]).unwrap();
    let plain = SERVER.replacen("https", "http", 1);
    let auth = client.credentials(Host::new(config(), 1).now, Verb::Post, &plain);
    assert!(matches!(auth, RequestAuth::Ready { generation: None, .. }), "never back");
}

#[test]
fn requests_wait_for_the_stored_token_and_start_no_login() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    assert!(matches!(host.machine.credentials(host.now, Verb::Post, SERVER), RequestAuth::Wait));
    host.drive(&mut world);
    assert_eq!(host.verdicts(), 1);
    let RequestAuth::Ready { headers, generation: stamp } =
        host.machine.credentials(host.now, Verb::Post, SERVER)
    else {
        panic!()
    };
    assert!(headers.is_empty() && stamp.is_none());
    assert!(world.log.is_empty());
}

/// Several requests are refused at once, and one page serves them all.
#[test]
fn requests_refused_together_wait_for_one_page() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.user = UserAction::Ignore;
    let refused = RefusedRequest {
        status: 401,
        www_authenticate: Some("Bearer"),
        generation: None,
        attempt: 0,
        nonce: None,
    };
    for _ in 0..5 {
        assert_eq!(host.machine.handle_challenge(host.now, &refused), RetryDecision::Wait);
        host.drive(&mut world);
    }
    assert_eq!((host.pages(), host.verdicts()), (1, 0));
    host.user = UserAction::Agree;
    host.settle(&mut world);
    assert_eq!(host.events.pop(), Some(Event::Failed(AuthError::PageTimedOut)));
    assert_eq!(host.events.pop(), Some(Event::PageObsolete));
}

#[test]
fn client_repeats_at_once_a_request_sent_before_the_token_arrived() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    let refused =
        RefusedRequest { status: 401, www_authenticate: None, generation: None, attempt: 0, nonce: None };
    assert_eq!(host.machine.handle_challenge(host.now, &refused), RetryDecision::Retry);
}

/// A server that refuses every token does not keep the client busy.
#[test]
fn client_gives_up_on_a_server_that_refuses_every_token() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.issuer().gives_refresh = false;
    let mut sent = 0;
    let outcome = loop {
        let used = match host.machine.credentials(host.now, Verb::Post, SERVER) {
            RequestAuth::Ready { generation: stamp, .. } => stamp,
            RequestAuth::Wait => {
                host.settle(&mut world);
                continue;
            }
        };
        let refused = RefusedRequest {
            status: 401,
            www_authenticate: None,
            generation: used,
            attempt: sent,
            nonce: None,
        };
        match host.machine.handle_challenge(host.now, &refused) {
            RetryDecision::Fail(error) => break error,
            _ => host.settle(&mut world),
        }
        sent += 1;
    };
    assert_eq!((outcome, sent, host.pages()), (AuthError::StillRefused { status: 401 }, 1, 1));
}

/// K5
#[test]
fn client_passes_on_errors_that_no_token_would_change() {
    let (_, mut host) = (World::new(), Host::new(config(), 1));
    for (status, header) in [(403, None), (403, Some("Bearer error=\"forbidden\"")), (500, None), (200, None)]
    {
        let refused =
            RefusedRequest { status, www_authenticate: header, generation: None, attempt: 0, nonce: None };
        assert_eq!(
            host.machine.handle_challenge(host.now, &refused),
            RetryDecision::Fail(AuthError::Forbidden)
        );
    }
    assert!(host.machine.poll_action().is_none());
}

#[test]
fn login_without_a_refusal_gets_a_new_token() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.machine.login(host.now);
    host.settle(&mut world);
    assert!(matches!(host.events.last(), Some(Event::Ready(_))));
    host.machine.login(host.now);
    host.settle(&mut world);
    assert_eq!((host.pages(), host.verdicts()), (2, 2));
    // The registration is reused.
    assert_eq!(world.issuer().registrations.len(), 1);
}

#[test]
fn login_during_another_one_shows_no_second_page() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.machine.login(host.now);
    host.machine.login(host.now);
    host.settle(&mut world);
    assert_eq!((host.pages(), host.verdicts()), (1, 1));
}

#[test]
fn logout_forgets_everything_and_revokes_the_token() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    let refresh = world.issuer().refresh.keys().next().unwrap().clone();
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert_eq!(host.events.last(), Some(&Event::LoggedOut));
    assert_eq!((world.store.text().as_str(), host.machine.status()), ("", None));
    assert_eq!(world.issuer().revoked, [refresh]);
    host.keeps_secrets(&world);
}

#[test]
fn logout_fails_waiting_requests() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.user = UserAction::Ignore;
    let refused =
        RefusedRequest { status: 401, www_authenticate: None, generation: None, attempt: 0, nonce: None };
    assert_eq!(host.machine.handle_challenge(host.now, &refused), RetryDecision::Wait);
    host.drive(&mut world);
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert_eq!(
        host.events[1..],
        [Event::PageObsolete, Event::Failed(AuthError::LoggedOut), Event::LoggedOut]
    );
}

/// The client reports a record that it cannot remove: the token is still stored.
#[test]
fn logout_reports_a_record_that_it_cannot_remove() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    world.store.read_only = true;
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert!(host.events.ends_with(&[Event::RemovalFailed("the disk is full".into()), Event::LoggedOut]));
    // The token is revoked nevertheless, and no longer used.
    assert_eq!((world.issuer().revoked.len(), host.machine.status()), (1, None));
    let mut host = Host::new(config(), 2);
    world.store.broken = true;
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert_eq!(host.events, [Event::RemovalFailed("the disk is gone".into()), Event::LoggedOut]);
}

/// Logout succeeds while the authorization server is down.
#[test]
fn logout_does_not_depend_on_the_authorization_server() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.call(&mut world);
    world.faulty = Some((ISSUER.into(), super::sim::Fault::Silence));
    let mut host = Host::new(config(), 2);
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert_eq!(host.events, [Event::LoggedOut]);
    assert_eq!(world.store.text(), "");
}

#[test]
fn equal_inputs_and_seeds_produce_equal_bytes() {
    let run = |seed| {
        let (mut world, mut host) = (World::new(), Host::new(config(), seed));
        host.call(&mut world);
        world.end_tokens();
        host.call(&mut world);
        host.machine.logout(host.now);
        host.settle(&mut world);
        (host.shown, world.issuer().pages.clone(), world.issuer().requests.clone(), world.log)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
}
