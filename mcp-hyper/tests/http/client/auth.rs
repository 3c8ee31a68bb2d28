//! Clients of servers that require authorization. Rows C12.1, C12.2, C12.12, C12.13, C12.24 to C12.26.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use mcp_hyper::auth::{
    AuthHandle, Authorization, FileStore, LoginError, LoopbackRedirects, MemoryStore, Secret, TokenStore,
};
use mcp_hyper::mcp_proto::auth::client::{
    AuthConfig, AuthorizationPage, ClientCredentials, Event, Grant, IdentityProvider, ProviderLocation,
    Record, Redirect, SubjectKind,
};
use mcp_hyper::mcp_proto::front::Client;
use mcp_hyper::{Endpoint, Runtime, Stream, WireEvent};
use serde_json::{Value, json};
use smol::channel::{Receiver, unbounded};
use smol::future::{or, poll_once, zip};

use crate::common::auth_testbed::{AuthTestbed, PathGate, agree, ok, visit};
use crate::common::client::{Request, TestOptions, accept, call, connect, legacy, listen, modern, run};
use crate::common::runtime::{TestRuntime, within};

/// A user who is shown pages; the pages arrive at the receiver.
fn interactive_login() -> (Authorization, Receiver<AuthorizationPage>) {
    let redirects = LoopbackRedirects::bind().unwrap();
    let config = AuthConfig::new("test", redirects.uri());
    let (authorization, pages) = with_pages(Authorization::new(config));
    (authorization.redirects(redirects), pages)
}

fn with_pages(authorization: Authorization) -> (Authorization, Receiver<AuthorizationPage>) {
    let (pages, opened) = unbounded();
    let authorization = authorization.on_event(move |event| {
        if let Event::NeedsAuthorization(page) = event {
            pages.try_send(page.clone()).unwrap();
        }
    });
    (authorization, opened)
}

/// A configuration without a user to show pages to.
pub(super) fn noninteractive_login() -> Authorization {
    Authorization::new(AuthConfig::new("test", "http://127.0.0.1/callback"))
}

fn start(options: TestOptions, url: &str) -> (Client, AuthHandle, smol::Task<()>) {
    let (client, driver) = options.connect(url).unwrap();
    let handle = driver.auth().unwrap();
    (client, handle, smol::spawn(within(async move { drop(driver.await) })))
}

/// Connects, and agrees on the page that the client shows.
async fn log_in(
    options: TestOptions,
    pages: &Receiver<AuthorizationPage>,
    url: &str,
) -> (Client, AuthHandle, smol::Task<()>) {
    let (client, handle, driver) = start(options, url);
    let (ready, ()) = zip(client.ready(), async { _ = agree(&pages.recv().await.unwrap().url).await }).await;
    ready.unwrap();
    (client, handle, driver)
}

/// Options of a client that has only the stored token.
pub(super) fn stored_login(store: impl TokenStore) -> TestOptions {
    modern().authorization(noninteractive_login().store(store))
}

/// The capabilities that a client with this grant declares, in its first requests to a server that needs no token.
async fn declared_capabilities(grant: Grant, options: TestOptions, requests: usize) -> Vec<Value> {
    let mut config = AuthConfig::new("test", "http://127.0.0.1/callback");
    config.grant = grant;
    let config = config.client_secret("https://auth.example.com", "machine", Secret::new("hush"));
    let (listener, url) = listen().await;
    let (client, driver) = connect(options.authorization(Authorization::new(config)), &url);
    let calling = async {
        _ = call(&client).await;
        std::future::pending().await
    };
    let received = or(async { accept(&listener).await.serve(requests).await }, calling).await;
    drop(driver);
    let capabilities = |request: &Request| match request.method() {
        "initialize" => request.body["params"]["capabilities"].clone(),
        _ => request.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone(),
    };
    received.iter().map(capabilities).collect()
}

/// C14.12, C14.13: a client declares the extension of its grant with each request, or in its handshake, and no other.
#[test]
fn client_declares_the_extension_of_its_grant() {
    let provider = IdentityProvider {
        location: ProviderLocation::Issuer("https://idp.example.com".to_owned()),
        credentials: ClientCredentials::new("test"),
        subject: SubjectKind::IdToken,
    };
    run(async {
        for (grant, extension) in [
            (Grant::ClientCredentials, Some("oauth-client-credentials")),
            (Grant::Enterprise(provider), Some("enterprise-managed-authorization")),
            (Grant::JwtBearer, None),
        ] {
            let declared = declared_capabilities(grant, modern(), 2).await;
            let name = extension.map(|name| format!("io.modelcontextprotocol/{name}"));
            assert_eq!(declared.len(), 2);
            for capabilities in declared {
                let extensions = capabilities["extensions"].as_object().cloned().unwrap_or_default();
                let names: Vec<_> = extensions.keys().filter(|name| !name.ends_with("/tasks")).collect();
                assert_eq!(names, Vec::from_iter(&name));
                assert!(extensions.values().all(|settings| *settings == json!({})), "{extensions:?}");
            }
        }
        let declared = declared_capabilities(Grant::ClientCredentials, legacy(), 1).await;
        let expected = json!({"io.modelcontextprotocol/oauth-client-credentials": {}});
        assert_eq!(declared[0]["extensions"], expected);
    });
}

/// C12.1, C12.2, C12.12, C12.13
#[test]
fn client_sends_every_request_with_the_token_once_the_user_agreed() {
    run(async {
        let town = AuthTestbed::new().await;
        let (authorization, pages) = interactive_login();
        let (client, driver) = connect(modern().authorization(authorization), &town.url());
        let called = smol::spawn({
            let client = client.clone();
            async move { call(&client).await }
        });
        let page = pages.recv().await.unwrap();
        assert_eq!(page.issuer, town.base());
        let shown = agree(&page.url).await;
        assert_eq!(shown.status, 200);
        assert!(shown.body.contains("close this page"), "{}", shown.body);
        assert_eq!(called.await.unwrap(), "done");
        client.close().await;
        driver.await.unwrap();
        assert!(pages.is_empty(), "one page is enough");

        let seen = town.received();
        let asked = town.requests_to("/mcp");
        assert_eq!(asked[0].header("authorization"), None);
        assert!(
            asked.len() > 2
                && asked[1..].iter().all(|asked| asked.header("authorization") == Some("Bearer token-1"))
        );
        for seen in seen.iter().filter(|seen| seen.path != "/mcp") {
            assert_eq!(
                seen.header("authorization"),
                None,
                "{} receives what belongs to the server",
                seen.path
            );
        }
        assert!(seen.iter().all(|seen| !seen.path.contains("token-")), "never in a URL");
    });
}

/// C12.12: whatever the method of the HTTP request.
#[test]
fn client_sends_every_request_of_a_session_with_the_token() {
    run(async {
        let town = AuthTestbed::with(|seen| {
            if seen.path != "/mcp" || seen.header("authorization").is_none() {
                return None;
            }
            let asked: Value = serde_json::from_str(&seen.body).unwrap_or_default();
            match (&*seen.method, asked["method"].as_str()) {
                ("DELETE", _) => Some((200, String::new(), String::new())),
                (_, Some("initialize")) => {
                    let result = json!({
                        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "town", "version": "1"},
                    });
                    let (status, headers, body) =
                        ok(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
                    Some((status, format!("{headers}mcp-session-id: session-1\r\n"), body))
                }
                (_, Some("notifications/initialized")) => Some((202, String::new(), String::new())),
                _ => None,
            }
        })
        .await;
        let (authorization, pages) = interactive_login();
        let (client, driver) = connect(legacy().authorization(authorization), &town.url());
        let called = smol::spawn({
            let client = client.clone();
            async move { call(&client).await }
        });
        agree(&pages.recv().await.unwrap().url).await;
        assert_eq!(called.await.unwrap(), "done");
        client.close().await;
        driver.await.unwrap();
        let asked = town.requests_to("/mcp");
        assert_eq!(asked.last().unwrap().method, "DELETE");
        assert!(asked[1..].iter().all(|asked| asked.header("authorization") == Some("Bearer token-1")));
    });
}

/// C12.13: not even to a server to which the server redirects.
#[test]
fn client_sends_the_token_to_no_other_server() {
    run(async {
        let elsewhere = AuthTestbed::new().await;
        let target = elsewhere.url();
        let town = AuthTestbed::with(move |seen| {
            let authorized = seen.path == "/mcp" && seen.header("authorization").is_some();
            authorized.then(|| (307, format!("location: {target}\r\n"), String::new()))
        })
        .await;
        let (authorization, pages) = interactive_login();
        let (client, _driver) = connect(modern().authorization(authorization), &town.url());
        let ready = smol::spawn(async move { client.ready().await });
        agree(&pages.recv().await.unwrap().url).await;
        assert!(ready.await.is_err());
        assert!(elsewhere.received().is_empty());
    });
}

/// C12.24
#[test]
fn next_client_uses_the_stored_token_without_a_page() {
    run(async {
        let town = AuthTestbed::new().await;
        let store = MemoryStore::new();
        let (authorization, pages) = interactive_login();
        let options = modern().authorization(authorization.store(store.clone()));
        let _client = log_in(options, &pages, &town.url()).await;

        let before = town.received().len();
        let (client, handle, _driver) = start(stored_login(store), &town.url());
        client.ready().await.unwrap();
        assert_eq!(handle.status().unwrap().client_id, "client-1");
        let seen = town.received();
        assert!(seen[before..].iter().all(|seen| seen.header("authorization") == Some("Bearer token-1")));
    });
}

#[test]
fn accounts_have_separate_tokens() {
    run(async {
        let town = AuthTestbed::new().await;
        let store = MemoryStore::new();
        let (authorization, pages) = interactive_login();
        let options = modern().authorization(authorization.store(store.clone()).account("ada"));
        let _client = log_in(options, &pages, &town.url()).await;
        for (account, known) in [("ada", true), ("bob", false)] {
            let authorization = noninteractive_login().store(store.clone()).account(account);
            let (handle, driver) = modern().authorization(authorization).authorize(town.url()).unwrap();
            let _driver = smol::spawn(within(driver));
            assert_eq!(handle.token_status().await.is_ok(), known, "{account}");
        }
    });
}

/// C12.2
#[test]
fn noninteractive_client_fails_with_the_refusal_of_the_server() {
    run(async {
        let town = AuthTestbed::new().await;
        let (client, _driver) = connect(modern().authorization(noninteractive_login()), &town.url());
        let error = client.ready().await.unwrap_err();
        let http = error.unauthorized().unwrap();
        assert_eq!((http.status, http.detail.as_ref()), (401, "who are you?"));
        assert_eq!(http.unauthorized.as_deref(), Some("login required, for tools"));
        assert!(http.challenge.as_ref().unwrap().contains("resource_metadata"));
        assert!(town.requests_to("/register").is_empty(), "client registered without a user");
    });
}

/// F110
#[test]
fn application_can_pass_the_redirect_by_hand() {
    run(async {
        let town = AuthTestbed::new().await;
        let config = AuthConfig::new("test", "http://127.0.0.1/callback");
        let (authorization, pages) = with_pages(Authorization::new(config));
        let (client, handle, _driver) = start(modern().authorization(authorization), &town.url());
        let ready = smol::spawn(async move { client.ready().await });
        let page = pages.recv().await.unwrap();
        assert!(handle.finish(Redirect::parse("?code=stolen&state=guessed")).is_err());
        let shown = visit("GET", &page.url).await;
        handle.finish(Redirect::parse(shown.location().unwrap())).unwrap();
        ready.await.unwrap();
        assert_eq!(handle.status().unwrap().issuer, town.base());
    });
}

/// C12.8: a redirect that does not belong to this page changes nothing.
#[test]
fn redirect_listener_refuses_other_requests() {
    run(async {
        let town = AuthTestbed::new().await;
        let (authorization, pages) = interactive_login();
        let (client, _driver) = connect(modern().authorization(authorization), &town.url());
        let ready = smol::spawn(async move { client.ready().await });
        let page = pages.recv().await.unwrap();
        let back = &page.redirect_uri;
        for (method, path, status) in [
            ("GET", "?code=stolen&state=guessed", 400),
            ("GET", "?error=access_denied&state=guessed", 400),
            ("GET", "", 400),
            ("POST", "?code=stolen&state=guessed", 405),
            ("GET", "/other", 400),
            ("GET", "other", 404),
        ] {
            let shown = visit(method, &format!("{back}{path}")).await;
            assert_eq!(shown.status, status, "{method} {path}");
            assert!(shown.head.contains("cache-control: no-store"), "{}", shown.head);
            assert!(shown.head.contains("content-security-policy: default-src 'none'"), "{}", shown.head);
            assert!(!shown.body.contains("stolen") && !shown.body.contains("guessed"), "{}", shown.body);
        }
        assert_eq!(agree(&page.url).await.status, 200);
        ready.await.unwrap();
    });
}

#[test]
fn logout_revokes_and_forgets_the_token() {
    run(async {
        let town = AuthTestbed::new().await;
        let store = MemoryStore::new();
        let (authorization, pages) = interactive_login();
        let options = modern().authorization(authorization.store(store.clone()));
        let (handle, driver) = options.authorize(town.url()).unwrap();
        let _driver = smol::spawn(within(driver));
        let login = smol::spawn({
            let handle = handle.clone();
            async move { handle.login().await }
        });
        agree(&pages.recv().await.unwrap().url).await;
        assert_eq!(login.await.unwrap().scopes.unwrap().to_string(), "tools");
        assert!(town.requests_to("/mcp").is_empty(), "the server itself receives no request");

        handle.logout().await.unwrap();
        assert_eq!(town.requests_to("/revoke")[0].form("token").as_deref(), Some("refresh-1"));
        assert_eq!(handle.status(), None);
        let (handle, driver) = stored_login(store).authorize(town.url()).unwrap();
        let _driver = smol::spawn(within(driver));
        assert_eq!(handle.token_status().await, Err(LoginError::LoggedOut));
    });
}

#[test]
fn login_fails_when_the_driver_is_dropped() {
    run(async {
        let town = AuthTestbed::new().await;
        let (authorization, pages) = interactive_login();
        let (handle, driver) = modern().authorization(authorization).authorize(town.url()).unwrap();
        let driver = smol::spawn(within(driver));
        let login = smol::spawn(async move { handle.login().await });
        pages.recv().await.unwrap();
        driver.cancel().await;
        assert_eq!(login.await, Err(LoginError::DriverDropped));
    });
}

#[test]
fn closed_client_stores_a_token_that_is_still_in_flight() {
    run(async {
        let (asked, waiting) = unbounded();
        let (go, may_go) = unbounded();
        let town = AuthTestbed::with_gate(PathGate { path: "/token", asked, release: may_go }).await;
        let store = MemoryStore::new();
        let (authorization, pages) = interactive_login();
        let options = modern().authorization(authorization.store(store.clone()));
        let (client, driver) = options.connect(town.url()).unwrap();
        let mut driver = pin!(driver);
        let asked = async {
            agree(&pages.recv().await.unwrap().url).await;
            waiting.recv().await.unwrap();
            assert!(poll_once(client.close()).await.is_none(), "closing waits for the token as well");
            true
        };
        let ended = async { driver.as_mut().await.is_err() };
        assert!(or(asked, ended).await, "it ended before the client was closed");
        assert!(poll_once(driver.as_mut()).await.is_none(), "it does not wait for the token");
        go.send(()).await.unwrap();
        driver.await.unwrap();
        client.close().await;
        let (handle, driver) = stored_login(store).authorize(town.url()).unwrap();
        let _driver = smol::spawn(within(driver));
        assert!(handle.token_status().await.is_ok());
    });
}

#[test]
fn application_without_authorization_gets_the_refusal() {
    run(async {
        let town = AuthTestbed::new().await;
        let (client, _driver) = connect(modern(), &town.url());
        // The first call reports what `ready` reports.
        let (first, ready) = zip(call(&client), client.ready()).await;
        for error in [first.unwrap_err(), ready.unwrap_err(), call(&client).await.unwrap_err()] {
            assert_eq!(error.unauthorized().unwrap().unauthorized, None);
        }
        assert!(matches!(modern().authorize(town.url()), Err(mcp_hyper::ConnectError::NoAuthorization)));
    });
}

#[test]
fn wire_events_do_not_show_the_token() {
    run(async {
        let town = AuthTestbed::new().await;
        let (authorization, pages) = interactive_login();
        let told = Arc::new(Mutex::new(String::new()));
        let options = modern().authorization(authorization).on_wire({
            let told = told.clone();
            move |event: WireEvent<'_>| told.lock().unwrap().push_str(&format!("{event:?}\n"))
        });
        let _client = log_in(options, &pages, &town.url()).await;
        let told = told.lock().unwrap();
        assert!(
            told.contains("authorization") && !told.contains("token-1") && !told.contains("refresh-1"),
            "{told}"
        );
    });
}

#[test]
fn token_replaces_the_header_of_the_application() {
    run(async {
        let town = AuthTestbed::new().await;
        let (authorization, pages) = interactive_login();
        let options = modern().authorization(authorization).header("authorization", "Basic own");
        let _client = log_in(options, &pages, &town.url()).await;
        let sent = town.requests_to("/mcp");
        let sent = |at: usize| {
            sent[at].headers.iter().filter(|(name, _)| name == "authorization").collect::<Vec<_>>()
        };
        assert_eq!((sent(0).len(), &*sent(0)[0].1), (1, "Basic own"));
        assert_eq!((sent(1).len(), &*sent(1)[0].1), (1, "Bearer token-1"));
    });
}

/// The record of a client that logged in an hour ago.
async fn expired_login_store(town: &AuthTestbed) -> MemoryStore {
    let store = MemoryStore::new();
    let record = json!({
        "version": 1,
        "tokens": {
            "issuer": town.base(), "client_id": "client-1", "resource": town.url(), "access": "token-0",
            "kind": "Bearer", "refresh": "refresh-0", "issued": 1, "expires": 3600,
        },
        "clients": { town.base(): { "id": "client-1", "redirect_uri": "http://127.0.0.1/callback" } },
    });
    let record = Record::from_json(record.to_string().as_bytes()).unwrap();
    store.swap(&town.url(), None, Some(record)).await.unwrap();
    store
}

/// C12.24
#[test]
fn client_renews_an_expired_token_before_it_sends_a_request() {
    run(async {
        let town = AuthTestbed::new().await;
        let store = expired_login_store(&town).await;
        let (client, _driver) = connect(stored_login(store), &town.url());
        client.ready().await.unwrap();
        assert_eq!(town.requests_to("/token")[0].form("grant_type").as_deref(), Some("refresh_token"));
        let sent = town.requests_to("/mcp");
        assert!(sent.iter().all(|sent| sent.header("authorization") == Some("Bearer token-1")));
    });
}

/// No request waits for ever, and the server decides.
#[test]
fn request_without_a_renewable_token_ends_with_the_refusal() {
    run(async {
        let town = AuthTestbed::with(|seen| {
            (seen.path == "/token").then(|| (500, String::new(), "out of order".to_owned()))
        })
        .await;
        let store = expired_login_store(&town).await;
        let (client, _driver) = connect(stored_login(store), &town.url());
        let error = client.ready().await.unwrap_err();
        assert_eq!(error.unauthorized().map(|http| http.status), Some(401));
        assert!(town.requests_to("/mcp").iter().all(|sent| sent.header("authorization").is_none()));
    });
}

#[test]
fn client_stops_reading_an_endless_document() {
    run(async {
        let town = AuthTestbed::with(|seen| {
            let long = " ".repeat(300 * 1024);
            seen.path.starts_with("/.well-known/oauth-protected").then(|| (200, String::new(), long))
        })
        .await;
        let (client, _driver) = connect(modern().authorization(noninteractive_login()), &town.url());
        let error = client.ready().await.unwrap_err().to_string();
        assert!(error.contains("longer than 262144 bytes"), "{error}");
    });
}

/// C12.23: a token cannot be sent over an open network.
#[test]
fn client_refuses_a_server_without_a_secure_connection_at_once() {
    let refused = modern().authorization(noninteractive_login()).connect("http://example.com/mcp");
    let Err(mcp_hyper::ConnectError::Authorization(error)) = refused else { panic!() };
    assert!(error.to_string().contains("tokens may not be sent"), "{error}");
}

/// C12.24
#[test]
fn tokens_in_files_outlive_the_client() {
    run(async {
        let folder = super::tokens::TempFolder::new("outlive");
        let town = AuthTestbed::new().await;
        let (authorization, pages) = interactive_login();
        let options = modern().authorization(authorization.store(FileStore::new(&folder.0)));
        let _client = log_in(options, &pages, &town.url()).await;
        let (client, _driver) = connect(stored_login(FileStore::new(&folder.0)), &town.url());
        client.ready().await.unwrap();
        assert_eq!(town.requests_to("/token").len(), 1);
    });
}

/// S10.2: the server ends a stream of changes with its token, and refuses it afterwards.
#[test]
fn client_logs_in_and_watches_again_when_its_token_expires() {
    use std::sync::OnceLock;
    use std::time::Duration;

    use mcp_hyper::mcp_proto::UnixTime;
    use mcp_hyper::mcp_proto::auth::server::{Access, PresentedToken, Protection};
    use mcp_hyper::mcp_proto::front::guard::Guard;
    use mcp_hyper::mcp_proto::front::{Router, WatchUpdate};
    use mcp_hyper::mcp_proto::peer::Principal;
    use mcp_hyper::mcp_proto::peer::client::ChangeEvidence;
    use mcp_hyper::mcp_proto::peer::server::ListKind;
    use mcp_hyper::mcp_proto::schema::ServerCapability;
    use mcp_hyper::mcp_proto::transport::http::client::ListenPolicy;

    use crate::common::server::{listener, serving};

    let listening = || legacy().configure(|config| config.listen = ListenPolicy::IfOffered);
    for options in [modern as fn() -> TestOptions, listening] {
        run(async {
            let issuer = AuthTestbed::new().await;
            let (listener, address) = listener();
            let url = format!("http://{address}/mcp");
            let audience = url.clone();
            let expiry: OnceLock<UnixTime> = OnceLock::new();
            let protection = Protection::new(&url, issuer.base()).unwrap();
            let guard = Guard::new(protection, move |presented: PresentedToken| {
                let mut access = Access::new(Principal::new("ada"), &*audience);
                let soon = presented.received.unix + Duration::from_secs(1);
                let is_first = presented.token.expose() == "token-1";
                access.expires = is_first.then(|| *expiry.get_or_init(|| soon));
                async move { Ok(access) }
            });
            let router = Router::new("notes", "1").declare(ServerCapability::ToolsListChanged);
            let (server, driver) = serving(router).protect(guard).listen(listener);
            let _server = smol::spawn(within(driver));

            let (authorization, pages) = interactive_login();
            let (client, _driver) = connect(options().authorization(authorization), &url);
            let mut watch = client.watch().tools().open().unwrap();
            agree(&pages.recv().await.unwrap().url).await;
            assert!(matches!(watch.next().await, Some(WatchUpdate::Active { .. })));
            while issuer.requests_to("/token").len() < 2 {
                smol::Timer::after(Duration::from_millis(10)).await;
            }
            // Until the stream is open again, changes are not reported.
            let change = async {
                loop {
                    server.list_changed(ListKind::Tools);
                    smol::Timer::after(Duration::from_millis(50)).await;
                }
            };
            let changed = async {
                loop {
                    match watch.next().await {
                        Some(WatchUpdate::Changed { evidence: ChangeEvidence::Notified, .. }) => break,
                        Some(_) => {}
                        None => panic!("the watch has ended"),
                    }
                }
            };
            or(changed, change).await;
            assert!(pages.is_empty(), "the refresh token suffices");
        });
    }
}

/// A runtime whose sleeps are a thousand times shorter.
#[derive(Default)]
struct HurriedRuntime(TestRuntime);

impl Runtime for HurriedRuntime {
    fn start(&self) -> io::Result<()> {
        self.0.start()
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.0.resolve(host, port).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        self.0.connect(endpoint).await
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(HurriedTimer(self.0.timer()))
    }
}

struct HurriedTimer(Arc<dyn Timer + Send + Sync>);

impl Timer for HurriedTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.sleep(duration / 1000)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.0.sleep_until(deadline)
    }
}

#[test]
fn login_without_a_polled_driver_ends_with_that_reason() {
    run(async {
        let options = modern().runtime(HurriedRuntime::default()).authorization(noninteractive_login());
        let (handle, driver) = options.authorize("http://127.0.0.1:1/mcp").unwrap();
        let error = within(handle.login()).await.unwrap_err();
        assert_eq!(error, LoginError::DriverNotPolled);
        assert!(error.to_string().contains("spawn it on an executor"), "{error}");
        drop(driver);
        assert_eq!(within(handle.login()).await.unwrap_err(), LoginError::DriverDropped);
    });
}
