//! The authorization page, and its redirect.

use mcp_proto::auth::client::{AuthClient, AuthError, Event, FinishError, Redirect, RedirectPaths};
use serde_json::json;

use super::config;
use super::sim::{Answer, Host, ISSUER, Issuer, Outcome, REDIRECT, UserAction, World, members};

/// A host with an open page, and the redirect to which it would lead.
fn open(world: &mut World) -> (Host, String) {
    let mut host = Host::new(config(), 1);
    host.user = UserAction::Ignore;
    host.machine.login(host.now);
    host.drive(world);
    let Some(Event::NeedsAuthorization(page)) = host.events.last().cloned() else {
        panic!("{:?}", host.events)
    };
    assert_eq!(page.issuer, world.trusts);
    let back = world.issuer().agree(&page.url);
    (host, back)
}

/// C12.7, F108: without S256 the client opens no page, wherever the metadata comes from.
#[test]
fn client_opens_no_page_without_pkce() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        for mut world in [World::new(), World::legacy()] {
            world.metadata(json!({ "code_challenge_methods_supported": methods }));
            let issuer = world.trusts.clone();
            let mut host = Host::new(config(), 1);
            assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::NoPkce { issuer }));
            assert_eq!(host.pages(), 0);
        }
    }
}

/// C12.23, C12.25.
#[test]
fn client_opens_only_pages_with_safe_urls() {
    for url in [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "http://auth.example.com/authorize",
        "https://user@auth.example.com/authorize",
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.metadata(json!({ "authorization_endpoint": url }));
        assert!(matches!(host.call(&mut world), Outcome::Failed(_)), "{url}");
        assert_eq!(host.pages(), 0);
    }
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.metadata(json!({ "authorization_endpoint": null }));
    assert_eq!(
        host.call(&mut world),
        Outcome::Failed(AuthError::NoAuthorizationEndpoint { issuer: ISSUER.into() })
    );
}

/// C12.25: `http` on loopback is for issuers on loopback; an issuer elsewhere could have any local service visited.
#[test]
fn client_opens_no_page_of_this_machine_for_an_issuer_elsewhere() {
    for page in [
        "http://127.0.0.1:8080/authorize",
        "http://localhost/x",
        "https://[::1]/x",
        "http://auth.example.com/",
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.metadata(json!({ "authorization_endpoint": page }));
        assert!(matches!(host.call(&mut world), Outcome::Failed(AuthError::UnsafeUrl { .. })), "{page}");
        assert_eq!(host.pages(), 0);
    }
}

/// The page that the client opens for a server on loopback with this issuer and page.
fn page_of(issuer: &str, page: &str) -> Result<String, AuthError> {
    let server = "http://127.0.0.1:4000/mcp";
    let mut world = World::new();
    let issued = Issuer::new(issuer);
    world.add(issued);
    world.trusts = issuer.into();
    world.metadata(json!({ "authorization_endpoint": page }));
    let document = json!({ "resource": server, "authorization_servers": [issuer] });
    let place = "http://127.0.0.1:4000/.well-known/oauth-protected-resource/mcp";
    world.documents.insert(place.into(), Answer::json(200, &document));
    let mut host = Host::new(config(), 1);
    host.machine = AuthClient::new(config(), server, [1; 32]).unwrap();
    host.user = UserAction::Ignore;
    host.machine.login(host.now);
    host.drive(&mut world);
    match host.events.pop() {
        Some(Event::NeedsAuthorization(page)) => Ok(page.url),
        Some(Event::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn client_opens_a_plain_page_of_this_machine_for_an_issuer_on_it() {
    assert!(page_of("http://localhost:9000", "http://127.0.0.1:9000/authorize").is_ok());
    assert!(page_of("http://[::1]:9000", "http://localhost:9000/authorize").is_ok());
    assert!(page_of(ISSUER, "http://127.0.0.1:9000/authorize").is_err());
    assert!(page_of("http://localhost:9000", "http://auth.example.com/authorize").is_err());
}

/// C12.9: a mix-up attack. The server trusts an issuer that redirects the browser to an honest one, where this client
/// has registered before; neither identifies itself.
#[test]
fn client_tells_issuers_that_do_not_name_themselves_apart_by_their_redirects() {
    let evil = "https://evil.example.com";
    let mut config = config();
    config.redirect_paths = RedirectPaths::PerIssuer;
    let mut world = World::new();
    world.add(Issuer::new(evil));
    let mut redirects = Vec::new();
    for issuer in [ISSUER, evil] {
        world.trusts = issuer.into();
        world.metadata(json!({ "authorization_response_iss_parameter_supported": null }));
        world.describe(json!({}));
        world.issuer().iss = None;
        let mut host = Host::new(config.clone(), 1);
        host.user = UserAction::Ignore;
        host.machine.login(host.now);
        host.drive(&mut world);
        let Some(Event::NeedsAuthorization(page)) = host.events.last().cloned() else { panic!() };
        assert_eq!(world.issuer().registrations[0]["redirect_uris"], json!([page.redirect_uri]));
        assert!(page.redirect_uri.starts_with(&format!("{REDIRECT}/")), "{}", page.redirect_uri);
        redirects.push(page.redirect_uri.clone());
        if issuer == ISSUER {
            let back = world.issuer().agree(&page.url);
            assert_eq!(host.machine.finish(host.now, Redirect::parse(&back)), Ok(()));
            host.drive(&mut world);
            assert!(matches!(host.events.last(), Some(Event::Ready(_))));
            continue;
        }
        // The honest issuer redirects back, with the state of the other's page.
        let query = page.url.split_once('?').unwrap().1;
        let state = &members(query.as_bytes())["state"];
        for mixed in
            [format!("{}?code=honest&state={state}", redirects[0]), format!("?code=honest&state={state}")]
        {
            let mut host = Host::new(config.clone(), 1);
            host.user = UserAction::Ignore;
            host.machine.login(host.now);
            host.drive(&mut world);
            let finished = host.machine.finish(host.now, Redirect::parse(&mixed));
            assert_eq!(finished, Err(FinishError::Failed(AuthError::RedirectIssuerMismatch)), "{mixed}");
        }
    }
    assert_ne!(redirects[0], redirects[1]);
    assert_eq!(world.count(&format!("{evil}/token")), 0);
}

/// An issuer that identifies itself needs no path of its own, but must redirect to the shared one.
#[test]
fn client_shares_one_redirect_among_issuers_that_name_themselves() {
    let mut config = config();
    config.redirect_paths = RedirectPaths::PerIssuer;
    let (mut world, mut host) = (World::new(), Host::new(config, 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(world.issuer().pages[0]["redirect_uri"], REDIRECT);
}

#[test]
fn redirect_has_a_path_only_if_its_url_has_one() {
    for (url, path) in [
        ("http://127.0.0.1:1/callback/x?code=a", Some("/callback/x")),
        ("/callback/x?code=a#b", Some("/callback/x")),
        ("http://127.0.0.1:1?code=a", Some("/")),
        ("?code=a", None),
        ("code=a/b&iss=http://x/y", None),
        ("", None),
    ] {
        assert_eq!(Redirect::parse(url).path.as_deref(), path, "{url}");
    }
}

#[test]
fn authorization_endpoint_may_have_a_query() {
    let mut world = World::new();
    world.metadata(json!({ "authorization_endpoint": format!("{ISSUER}/authorize?tenant=7") }));
    let (host, _) = open(&mut world);
    let Some(Event::NeedsAuthorization(page)) = host.events.last() else { panic!() };
    assert!(page.url.starts_with(&format!("{ISSUER}/authorize?tenant=7&response_type=code&")));
}

/// C12.8: a foreign redirect is dropped, and the page stays open.
#[test]
fn client_ignores_a_redirect_without_the_state_of_the_page() {
    let mut world = World::new();
    let (mut host, back) = open(&mut world);
    for other in ["?code=abc", "?code=abc&state=", "?code=abc&state=other", "?error=access_denied", ""] {
        let finished = host.machine.finish(host.now, Redirect::parse(other));
        assert_eq!(finished, Err(FinishError::StateMismatch), "{other}");
    }
    host.drive(&mut world);
    assert_eq!((world.count("/token"), host.verdicts()), (0, 0));
    assert_eq!(host.machine.finish(host.now, Redirect::parse(&back)), Ok(()));
    host.drive(&mut world);
    assert!(matches!(host.events.last(), Some(Event::Ready(_))));
    // The page is closed: the same redirect is ignored.
    assert_eq!(host.machine.finish(host.now, Redirect::parse(&back)), Err(FinishError::NoPage));
    host.keeps_secrets(&world);
}

/// C12.9: every row of the table, and nothing is normalized.
#[test]
fn client_compares_the_issuer_of_a_redirect_exactly() {
    for (says, iss, good) in [
        (json!(true), Some(ISSUER), true),
        (json!(true), None, false),
        (json!(true), Some("https://evil.example"), false),
        (json!(false), Some(ISSUER), true),
        (json!(false), None, true),
        (json!(false), Some("https://evil.example"), false),
        (json!(null), None, true),
        (json!(null), Some("https://auth.example.com/"), false),
        (json!(null), Some("https://AUTH.example.com"), false),
        (json!(null), Some("https://auth.example.com:443"), false),
        (json!(null), Some(""), false),
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.metadata(json!({ "authorization_response_iss_parameter_supported": says }));
        world.issuer().iss = iss.map(String::from);
        let outcome = host.call(&mut world);
        if good {
            assert_eq!(outcome, Outcome::Answered(2), "{says} {iss:?}");
        } else {
            assert_eq!(outcome, Outcome::Failed(AuthError::RedirectIssuerMismatch), "{says} {iss:?}");
            assert_eq!(world.count("/token"), 0);
        }
        host.keeps_secrets(&world);
    }
}

/// C12.10, C12.29: text of another issuer is not shown, nor text whose issuer is unknown.
#[test]
fn client_does_not_show_the_error_of_another_issuer() {
    for iss in ["&iss=https://evil.example", "&iss=", ""] {
        let mut world = World::new();
        let (mut host, back) = open(&mut world);
        let state = Redirect::parse(&back).state.unwrap();
        let query = format!("?error=please_call&error_description=+44+20+7946{iss}");
        let mut redirect = Redirect::parse(&query);
        redirect.state = Some(state);
        let finished = host.machine.finish(host.now, redirect);
        host.show(&finished);
        assert_eq!(finished, Err(FinishError::Failed(AuthError::RedirectIssuerMismatch)), "{iss}");
        host.drive(&mut world);
        assert_eq!(host.events.last(), Some(&Event::Failed(AuthError::RedirectIssuerMismatch)));
        assert!(!host.shown.contains("7946") && !host.shown.contains("please_call"));
    }
}

#[test]
fn denied_authorization_ends_the_flow() {
    let mut world = World::new();
    let (mut host, back) = open(&mut world);
    let state = Redirect::parse(&back).state.unwrap();
    let query = format!(
        "{}?error=access_denied&error_description=not%1b[31m+today&state={}&iss={ISSUER}",
        super::sim::REDIRECT,
        state.expose()
    );
    let error =
        AuthError::Denied { error: "access_denied".into(), description: Some("not[31m today".into()) };
    assert_eq!(
        host.machine.finish(host.now, Redirect::parse(&query)),
        Err(FinishError::Failed(error.clone()))
    );
    host.drive(&mut world);
    assert_eq!(host.events.last(), Some(&Event::Failed(error)));
}

#[test]
fn redirect_with_neither_code_nor_error_ends_the_flow() {
    let mut world = World::new();
    let (mut host, back) = open(&mut world);
    let mut redirect = Redirect::parse(&back);
    redirect.code = None;
    assert_eq!(host.machine.finish(host.now, redirect), Err(FinishError::Failed(AuthError::NoCode)));
}

#[test]
fn application_can_cancel_a_page() {
    let mut world = World::new();
    let (mut host, back) = open(&mut world);
    host.machine.cancel_page(host.now);
    host.drive(&mut world);
    assert_eq!(host.events[1..], [Event::PageObsolete, Event::Failed(AuthError::PageCancelled)]);
    assert_eq!(host.machine.finish(host.now, Redirect::parse(&back)), Err(FinishError::NoPage));
    // Without an open page, cancelling has no effect.
    host.machine.cancel_page(host.now);
    assert!(host.machine.poll_event().is_none());
}

/// No event tells that a page is obsolete which was never shown.
#[test]
fn client_does_not_report_an_unshown_page_as_obsolete() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    host.machine.login(host.now);
    while let Some(action) = host.machine.poll_action() {
        use mcp_proto::auth::client::Action;
        match action {
            Action::Load => host.machine.handle_loaded(host.now, Ok(None)),
            Action::Fetch(fetch) => host.exchange(&mut world, &fetch),
            Action::Store { record, expected } => {
                let saved = world.store.store(record, expected);
                host.machine.handle_stored(host.now, saved);
            }
            other => panic!("{other:?}"),
        }
    }
    host.machine.cancel_page(host.now);
    assert_eq!(host.machine.poll_event(), Some(Event::Failed(AuthError::PageCancelled)));
    assert_eq!(host.machine.poll_event(), None);
}
