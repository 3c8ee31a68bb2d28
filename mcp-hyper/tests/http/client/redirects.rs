//! The redirects of authorization pages. Row C12.9.

use mcp_hyper::auth::{Authorization, LoopbackRedirects};
use mcp_hyper::mcp_proto::auth::client::{AuthConfig, AuthError, AuthorizationPage, Event};
use serde_json::json;
use smol::channel::unbounded;

use crate::common::auth_testbed::{AuthTestbed, CannedResponse, ReceivedRequest, ok, visit};
use crate::common::client::{modern, run};
use crate::common::runtime::within;

/// An authorization server that does not identify itself, neither in its metadata nor in its redirects.
fn nameless(seen: &ReceivedRequest) -> Option<CannedResponse> {
    let base = format!("http://{}", seen.header("host")?);
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    match path {
        "/.well-known/oauth-authorization-server" => Some(ok(&json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
        }))),
        "/authorize" => {
            let part = |name: &str| {
                let fields = query.split('&').filter_map(|field| field.split_once('='));
                fields
                    .into_iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value)
                    .unwrap_or_default()
            };
            let target = part("redirect_uri").replace("%3A", ":").replace("%2F", "/");
            let location = format!("location: {target}?code=code-1&state={}\r\n", part("state"));
            Some((302, location, String::new()))
        }
        _ => None,
    }
}

/// A mix-up attack: the redirect of another issuer, which leads to the path of that issuer.
#[test]
fn listener_accepts_the_redirect_of_a_nameless_issuer_only_at_its_own_path() {
    run(async {
        let town = AuthTestbed::with(nameless).await;
        let redirects = LoopbackRedirects::bind().unwrap();
        let shared = redirects.uri();
        let (told, events) = unbounded();
        let authorization = Authorization::new(AuthConfig::new("test", redirects.uri()))
            .redirects(redirects)
            .on_event(move |event| told.try_send(event.clone()).unwrap());
        let (handle, driver) = modern().authorization(authorization).authorize(town.url()).unwrap();
        let _driver = smol::spawn(within(driver));
        let next_page = async || -> AuthorizationPage {
            loop {
                if let Event::NeedsAuthorization(page) = events.recv().await.unwrap() {
                    return page;
                }
            }
        };
        for (wrong, status) in [("/callback", 400), ("/callback/other", 400), ("/callbackother", 404)] {
            let login = smol::spawn({
                let handle = handle.clone();
                async move { handle.login().await }
            });
            let page = next_page().await;
            assert!(page.redirect_uri.starts_with(&format!("{shared}/")), "{}", page.redirect_uri);
            let back = visit("GET", &page.url).await.location().unwrap().to_owned();
            assert!(back.starts_with(&page.redirect_uri), "{back}");
            let mixed_up = back.replace(&page.redirect_uri, &shared.replace("/callback", wrong));
            assert_eq!(visit("GET", &mixed_up).await.status, status, "{mixed_up}");
            if status == 400 {
                // It had the state of the page, so the login ends.
                assert_eq!(
                    login.await.unwrap_err().to_string(),
                    AuthError::RedirectIssuerMismatch.to_string()
                );
            } else {
                assert_eq!(visit("GET", &back).await.status, 200);
                login.await.unwrap();
            }
        }
        assert_eq!(town.requests_to("/token").len(), 1);
    });
}
