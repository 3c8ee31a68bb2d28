//! Logins at the servers of a running host.

use std::cell::Cell;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_hyper::auth::{
    AuthConfig, Authorization, LoginError, MemoryStore, Redirect, SealKey, Sealer, StoreFuture, TokenStore,
};
use mcp_hyper::host::{CallError, Host, HostEvent, HostLoginError, HostOptions, LoginPage};
use mcp_hyper::mcp_proto::auth::client::{AuthError, Record, RecordVersion, SaveOutcome, StoredRecord};
use mcp_hyper::mcp_proto::host::consent::ApprovalWarning;
use mcp_hyper::mcp_proto::host::control::Status;
use serde_json::{Value, json};
use smol::Task;
use smol::channel::{Receiver, unbounded};
use smol::future::or;

use super::testbed::*;
use crate::common::auth_testbed::{AuthTestbed, agree, visit};
use crate::common::runtime::within;
use crate::common::server::*;

/// Options of a host whose servers share the tokens in this store.
fn with_logins(servers: Value, store: &MemoryStore) -> HostOptions {
    let store = store.clone();
    options(config(servers)).authorization(move |_, _| {
        let config = AuthConfig::new("test", "http://127.0.0.1/callback");
        Some(Authorization::new(config).store(store.clone()))
    })
}

/// A host of one server, `web`, which requires a login.
async fn start_with(entry: Value) -> (Host, Task<std::io::Result<()>>) {
    let (host, driver) = start(with_logins(json!({ "web": entry }), &MemoryStore::default()));
    host.ready().await;
    assert_eq!(status(&host, "web"), Status::NeedsAuthorization, "{:?}", host.servers());
    (host, driver)
}

type Login = Task<Result<(), HostLoginError>>;

/// Starts a login, whose page arrives at the receiver.
fn log_in(host: &Host) -> (Login, Receiver<LoginPage>) {
    let (pages, opened) = unbounded();
    let host = host.clone();
    let login = smol::spawn(within(async move {
        let status = host.log_in("web", move |page| pages.try_send(page).unwrap()).await?;
        assert!(status.is_some());
        Ok(())
    }));
    (login, opened)
}

/// A parameter of the page's URL.
fn parameter(page: &LoginPage, name: &str) -> Option<String> {
    let (_, query) = page.page.url.split_once('?')?;
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

#[test]
fn server_is_connected_once_the_user_has_logged_in() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let servers = json!({ "web": { "url": testbed.url() } });
        let store = MemoryStore::default();
        let (host, _driver) = start(with_logins(servers.clone(), &store));
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::NeedsAuthorization, "{:?}", host.servers());
        assert!(testbed.requests_to("/register").is_empty(), "client registered without a login");
        let (login, pages) = log_in(&host);
        let page = pages.recv().await.unwrap();
        assert_eq!((&*page.server, page.page.issuer.as_str()), ("web", testbed.base()));
        assert!(!format!("{page:?}").contains("state="), "{page:?}");
        assert_eq!(agree(&page.page.url).await.status, 200);
        login.await.unwrap();
        until_status(&host, "web", Status::Connected).await;
        let called = host.call_tool("mcp__web__tool", json!({})).await.unwrap();
        assert_eq!(called.text_content(), "done");
        assert!(page.finish("?code=1&state=2").is_err(), "the login is over");

        // The tokens are stored: neither another login nor another host needs a page.
        let (login, pages) = log_in(&host);
        login.await.unwrap();
        assert!(pages.is_empty());
        let (other, _driver) = start(with_logins(servers, &store));
        other.ready().await;
        assert_eq!(status(&other, "web"), Status::Connected, "{:?}", other.servers());
    });
}

/// Logs in, and returns the number of pages that the user was shown.
async fn pages_of_login(host: &Host) -> usize {
    let (login, pages) = log_in(host);
    let shown = Cell::new(0);
    let agreeing = async {
        while let Ok(page) = pages.recv().await {
            shown.set(shown.get() + 1);
            assert_eq!(agree(&page.page.url).await.status, 200);
        }
        pending().await
    };
    or(async { login.await.unwrap() }, agreeing).await;
    shown.get()
}

/// C12.2: a token of another client, issuer or resource than the entry's, or with fewer scopes, is not enough.
#[test]
fn login_with_other_settings_than_those_of_the_stored_token_is_a_new_one() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let store = MemoryStore::default();
        let url = testbed.url();
        let other = json!({ "clientId": "other" });
        let of_issuer = json!({ "clientId": "other", "issuer": testbed.base() });
        let of_resource = json!({ "clientId": "other", "resource": testbed.base() });
        for (oauth, pages) in [
            (json!({}), 1),
            (json!({}), 0),
            (other.clone(), 1),
            (other.clone(), 0),
            (of_issuer.clone(), 0),
            (of_resource.clone(), 1),
            (of_resource, 0),
            (of_issuer, 0),
            (json!({ "clientId": "other", "scopes": ["tools"] }), 0),
            (json!({ "clientId": "other", "scopes": ["tools", "admin"] }), 1),
        ] {
            let servers = json!({ "web": { "url": url, "oauth": oauth } });
            let (host, _driver) = start(with_logins(servers, &store));
            host.ready().await;
            assert_eq!(pages_of_login(&host).await, pages, "{oauth}");
        }
        let clients: Vec<_> =
            testbed.requests_to("/token").iter().map(|request| request.form("client_id").unwrap()).collect();
        assert_eq!(clients, ["client-1", "other", "other", "other"]);
    });
}

/// A testbed whose first tokens are refused, and not renewed, once the flag is set.
async fn revocable() -> (AuthTestbed, Arc<AtomicBool>) {
    let revoked = Arc::new(AtomicBool::new(false));
    let is_revoked = revoked.clone();
    let testbed = AuthTestbed::with(move |request| {
        if !is_revoked.load(Ordering::Relaxed) {
            return None;
        }
        if request.header("authorization") == Some("Bearer token-1") {
            return Some((401, "www-authenticate: Bearer\r\n".to_owned(), String::new()));
        }
        let is_renewal = request.form("grant_type").as_deref() == Some("refresh_token");
        let error = || json!({ "error": "invalid_grant" }).to_string();
        is_renewal.then(|| (400, "content-type: application/json\r\n".to_owned(), error()))
    })
    .await;
    (testbed, revoked)
}

/// F107
#[test]
fn call_finds_the_login_of_another_process() {
    bounded(async {
        let (testbed, revoked) = revocable().await;
        let (servers, store) = (json!({ "web": { "url": testbed.url() } }), MemoryStore::default());
        let other_process = || start(with_logins(servers.clone(), &store));
        let (other, _driver) = other_process();
        other.ready().await;
        assert_eq!(pages_of_login(&other).await, 1);
        // It looks for a login with each call alone.
        let options = with_logins(servers.clone(), &store).control(|control| {
            control.slow_backoff.first = Duration::from_secs(3600);
            control.slow_backoff.longest = Duration::from_secs(3600);
        });
        let (host, _driver) = start(options);
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::Connected, "{:?}", host.servers());

        revoked.store(true, Ordering::Relaxed);
        host.call_tool("mcp__web__tool", json!({})).await.unwrap_err();
        until_status(&host, "web", Status::NeedsAuthorization).await;
        let error = host.call_tool("mcp__web__tool", json!({})).await.unwrap_err();
        assert!(
            matches!(error, CallError::Unavailable { status: Status::NeedsAuthorization, .. }),
            "{error:?}"
        );
        let before = testbed.requests_to("/mcp").len();
        let _ = host.call_tool("mcp__web__tool", json!({})).await;
        assert_eq!(testbed.requests_to("/mcp").len(), before, "without a new token, the server is not asked");

        let (other, _driver) = other_process();
        other.ready().await;
        assert_eq!(pages_of_login(&other).await, 1);
        let called = host.call_tool("mcp__web__tool", json!({})).await.unwrap();
        assert_eq!(called.text_content(), "done");
        assert_eq!(status(&host, "web"), Status::Connected);
    });
}

/// F107: no call can reach a server whose tools are not known.
#[test]
fn host_notices_the_login_of_another_process_without_a_call() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let (servers, store) = (json!({ "web": { "url": testbed.url() } }), MemoryStore::default());
        let (host, _driver) = start(with_logins(servers.clone(), &store));
        let (other, _other_driver) = start(with_logins(servers, &store));
        host.ready().await;
        other.ready().await;
        assert_eq!(status(&host, "web"), Status::NeedsAuthorization, "{:?}", host.servers());
        assert_eq!(pages_of_login(&other).await, 1);
        until_status(&host, "web", Status::Connected).await;
    });
}

/// F109: the hosts are instances of a web application.
#[test]
fn host_finishes_a_login_that_another_host_began() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let servers = json!({ "web": { "url": testbed.url(), "oauth": { "clientId": "entry-client" } } });
        let (store, keys) = (MemoryStore::default(), Sealer::new(SealKey::new([1; 32]), []));
        let login = {
            let (host, _driver) = start(with_logins(servers.clone(), &store));
            host.ready().await;
            within(host.begin_login("web", &keys, "session", None)).await.unwrap()
        };
        let led_to = visit("GET", &login.page.url).await.location().unwrap().to_owned();
        let (host, _driver) = start(with_logins(servers, &store));
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::NeedsAuthorization, "{:?}", host.servers());
        let finish = |session: &'static str| {
            within(host.finish_login("web", &keys, session, &login.sealed, Redirect::parse(&led_to)))
        };
        let foreign = finish("another session").await.unwrap_err();
        assert!(matches!(foreign, HostLoginError::Login(LoginError::NotFinished(_))), "{foreign:?}");
        assert_eq!(finish("session").await.unwrap().client_id, "entry-client");
        until_status(&host, "web", Status::Connected).await;
        let again = finish("session").await.unwrap_err();
        assert!(
            matches!(again, HostLoginError::Login(LoginError::Failed(AuthError::LoginUsed))),
            "{again:?}"
        );
        let unknown = within(host.begin_login("other", &keys, "session", None)).await.unwrap_err();
        assert!(matches!(unknown, HostLoginError::UnknownServer));
    });
}

#[test]
fn login_has_the_settings_of_the_entry() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let oauth = json!({
            "clientId": "my-client", "issuer": testbed.base(), "scopes": ["read", "write"], "callbackPort": port,
        });
        let (host, _driver) = start_with(json!({ "url": testbed.url(), "oauth": oauth })).await;
        let (login, pages) = log_in(&host);
        let page = pages.recv().await.unwrap();
        assert_eq!(parameter(&page, "client_id").unwrap(), "my-client");
        assert_eq!(parameter(&page, "scope").unwrap(), "read+write");
        assert!(page.page.redirect_uri.starts_with(&format!("http://127.0.0.1:{port}/callback")));
        assert_eq!(agree(&page.page.url).await.status, 200);
        // The user granted fewer scopes, and is not asked again.
        login.await.unwrap();
        assert!(pages.is_empty() && testbed.requests_to("/register").is_empty());
        assert_eq!(testbed.requests_to("/token")[0].form("client_id").unwrap(), "my-client");

        // Another authorization server than that of the entry learns nothing of the client.
        let oauth =
            json!({ "clientId": "my-client", "clientSecret": "marker", "issuer": "https://login.example" });
        let (host, _driver) = start_with(json!({ "url": testbed.url(), "oauth": oauth })).await;
        let (login, pages) = log_in(&host);
        let error = login.await.unwrap_err();
        assert!(matches!(error, HostLoginError::Connection(_)) && pages.is_empty(), "{error:?}");
        assert_eq!(testbed.requests_to("/token").len(), 1);
    });
}

#[test]
fn pasted_redirect_completes_the_login() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let (host, _driver) = start_with(json!({ "url": testbed.url() })).await;
        let (login, pages) = log_in(&host);
        let page = pages.recv().await.unwrap();
        // The browser is on another machine.
        let shown = visit("GET", &page.page.url).await;
        assert!(page.finish("http://127.0.0.1/callback?code=code-1&state=other").is_err());
        page.finish(&format!(" {}\n", shown.location().unwrap())).unwrap();
        login.await.unwrap();
        until_status(&host, "web", Status::Connected).await;
    });
}

#[test]
fn server_stays_as_it_is_if_the_user_does_not_log_in() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let (host, _driver) = start_with(json!({ "url": testbed.url() })).await;
        let (login, pages) = log_in(&host);
        pages.recv().await.unwrap().cancel();
        let error = login.await.unwrap_err();
        assert!(matches!(error, HostLoginError::Connection(_)), "{error:?}");
        assert_eq!(status(&host, "web"), Status::NeedsAuthorization);
        assert_eq!(host.server("web").unwrap().attempts, 1);

        let (login, pages) = log_in(&host);
        let page = pages.recv().await.unwrap();
        login.cancel().await;
        assert!(page.finish("?code=1&state=2").is_err(), "the login was dropped");

        let (login, pages) = log_in(&host);
        pages.recv().await.unwrap();
        host.close().await;
        assert!(matches!(login.await.unwrap_err(), HostLoginError::UnknownServer));
    });
}

#[test]
fn login_that_cannot_start_says_why() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({
            "program": folder.demo("program"),
            "issuer": { "url": "http://127.0.0.1:1/mcp",
                        "oauth": { "clientId": "me", "clientSecret": "marker", "issuer": "nowhere" } },
            "secret": { "url": "http://127.0.0.1:1/mcp", "oauth": { "clientId": "me", "clientSecret": "marker" } },
            "variable": { "url": "http://127.0.0.1:1/${MCP_HOST_TEST_UNSET}" },
        });
        let (host, _driver) = start(with_logins(servers, &MemoryStore::default()));
        let fails = async |host: &Host, name: &str| host.log_in(name, |_| ()).await.unwrap_err();
        assert!(matches!(fails(&host, "other").await, HostLoginError::UnknownServer));
        assert!(matches!(fails(&host, "program").await, HostLoginError::NoAuthorization));
        for (name, reason) in
            [("secret", "client secret"), ("issuer", "issuer"), ("variable", "MCP_HOST_TEST_UNSET")]
        {
            let error = fails(&host, name).await;
            assert!(matches!(error, HostLoginError::NotStarted(_)), "{error:?}");
            assert!(error.to_string().contains(reason) && !error.to_string().contains("marker"), "{error}");
        }

        let web = json!({ "web": { "url": "http://127.0.0.1:1/mcp" } });
        let (host, _driver) = start(options(config(web.clone())));
        assert!(matches!(fails(&host, "web").await, HostLoginError::NoAuthorization));
        // A project's server is contacted only once the user has approved it.
        let (host, _driver) = start(options(project(web)).authorization(|_, _| unreachable!()));
        let error = fails(&host, "web").await;
        assert!(error.to_string().contains("not approved"), "{error}");
    });
}

#[test]
fn approval_of_a_projects_server_says_that_the_user_has_a_login_there() {
    bounded(async {
        let testbed = AuthTestbed::new().await;
        let store = MemoryStore::default();
        let servers = json!({ "web": { "url": testbed.url() } });
        let asked = async || {
            let store = store.clone();
            let options = options(project(servers.clone())).authorization(move |_, _| {
                let config = AuthConfig::new("test", "http://127.0.0.1/callback");
                Some(Authorization::new(config).store(store.clone()))
            });
            let (host, mut events, _driver) = start_watched(options);
            let request = loop {
                if let HostEvent::ApprovalNeeded { request, .. } = events.next().await.unwrap() {
                    break request;
                }
            };
            assert_eq!(host.pending_approvals()[0].to_string(), request.to_string());
            request.warnings().contains(&ApprovalWarning::HasLogin)
        };
        assert!(!asked().await);
        let (host, _driver) = start(with_logins(servers.clone(), &store));
        let (login, pages) = log_in(&host);
        assert_eq!(agree(&pages.recv().await.unwrap().page.url).await.status, 200);
        login.await.unwrap();
        assert!(asked().await);
    });
}

/// A store that cannot be read, or never answers.
struct UnreadableStore {
    answers: bool,
}

impl TokenStore for UnreadableStore {
    fn load<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        let answers = self.answers;
        Box::pin(async move { if answers { Err(io::Error::other("locked")) } else { pending().await } })
    }

    fn swap<'a>(
        &'a self,
        _: &'a str,
        _: Option<RecordVersion>,
        _: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome> {
        Box::pin(pending())
    }
}

#[test]
fn approval_warns_of_a_possible_login_where_the_store_cannot_tell() {
    bounded(async {
        for answers in [true, false] {
            let servers = json!({ "web": { "url": "http://127.0.0.1:1/mcp" } });
            let options = options(project(servers)).authorization(move |_, _| {
                let config = AuthConfig::new("test", "http://127.0.0.1/callback");
                Some(Authorization::new(config).store(UnreadableStore { answers }))
            });
            let (_host, mut events, _driver) = start_watched(options);
            let request = loop {
                if let HostEvent::ApprovalNeeded { request, .. } = events.next().await.unwrap() {
                    break request;
                }
            };
            assert!(request.warnings().contains(&ApprovalWarning::MayHaveLogin), "{answers}");
        }
    });
}
