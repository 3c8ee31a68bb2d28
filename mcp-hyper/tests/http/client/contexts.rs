//! Private results end with the authorization context they belong to. Row C8.2.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use http::HeaderValue;
use mcp_hyper::auth::{Authorization, LoopbackRedirects};
use mcp_hyper::mcp_proto::auth::client::{AuthConfig, AuthorizationPage, Event};
use mcp_hyper::mcp_proto::front::Client;
use mcp_hyper::mcp_proto::peer::client::CacheContext;
use serde_json::{Value, json};
use smol::channel::{Receiver, unbounded};
use smol::future::poll_once;

use crate::common::auth_testbed::{AuthTestbed, CannedResponse, ReceivedRequest, agree, ok};
use crate::common::client::{TestOptions, connect, modern, run};
use crate::common::runtime::within;

/// A private list of one tool, which is named after the token of the request.
fn own_tools(seen: &ReceivedRequest) -> Option<CannedResponse> {
    let request: Value = serde_json::from_str(&seen.body).ok()?;
    let token = seen.header("authorization")?.strip_prefix("Bearer ")?;
    (request["method"] == "tools/list").then(|| {
        ok(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {
            "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
            "tools": [{ "name": token, "inputSchema": { "type": "object" } }],
        }}))
    })
}

async fn tool(client: &Client) -> String {
    client.list_tools().await.unwrap()[0].name.clone()
}

fn interactive_login() -> (Authorization, Receiver<AuthorizationPage>) {
    let redirects = LoopbackRedirects::bind().unwrap();
    let (pages, opened) = unbounded();
    let authorization = Authorization::new(AuthConfig::new("test", redirects.uri()))
        .redirects(redirects)
        .on_event(move |event| {
            if let Event::NeedsAuthorization(page) = event {
                pages.try_send(page.clone()).unwrap();
            }
        });
    (authorization, opened)
}

/// C8.2
#[test]
fn client_shows_no_private_answer_after_a_login_or_a_logout() {
    run(async {
        let town = AuthTestbed::with(own_tools).await;
        let (authorization, pages) = interactive_login();
        let (client, driver) = modern().authorization(authorization).connect(town.url()).unwrap();
        let handle = driver.auth().unwrap();
        let _driver = smol::spawn(within(driver));
        let ready = smol::spawn({
            let client = client.clone();
            async move { client.ready().await.map(drop) }
        });
        agree(&pages.recv().await.unwrap().url).await;
        ready.await.unwrap();
        assert_eq!(tool(&client).await, "token-1");
        let before = town.requests_to("/mcp").len();
        assert_eq!(tool(&client).await, "token-1");
        assert_eq!(town.requests_to("/mcp").len(), before, "the list is cached");

        let login = smol::spawn({
            let handle = handle.clone();
            async move { handle.login().await.map(drop) }
        });
        agree(&pages.recv().await.unwrap().url).await;
        login.await.unwrap();
        assert_eq!(tool(&client).await, "token-2");

        // From the application's logout on, even before the driver, on its own thread, has acted.
        let mut logout = pin!(handle.logout());
        let logged_out = poll_once(&mut logout).await;
        let listed = smol::spawn({
            let client = client.clone();
            async move { tool(&client).await }
        });
        match logged_out {
            Some(logged_out) => logged_out.unwrap(),
            None => logout.await.unwrap(),
        }
        agree(&pages.recv().await.unwrap().url).await;
        assert_eq!(listed.await, "token-3");
    });
}

/// C8.2: the headers are known only when a request is sent, and none is sent while the cache serves a result.
#[test]
fn client_caches_nothing_private_while_the_application_changes_headers() {
    run(async {
        let town = AuthTestbed::with(own_tools).await;
        let who = Arc::new(Mutex::new("Bearer token-alice"));
        let options = |who: &Arc<Mutex<&'static str>>| -> TestOptions {
            let who = who.clone();
            modern().headers(move |headers| {
                headers.insert("authorization", HeaderValue::from_static(*who.lock().unwrap()));
            })
        };
        let (client, _driver) = connect(options(&who), &town.url());
        assert_eq!(tool(&client).await, "token-alice");
        *who.lock().unwrap() = "Bearer token-bob";
        assert_eq!(tool(&client).await, "token-bob");

        // An application that names contexts changes them itself.
        let named = options(&who).configure(|config| config.client.cache.context = CacheContext::new("bob"));
        let (client, _driver) = connect(named, &town.url());
        assert_eq!(tool(&client).await, "token-bob");
        let before = town.requests_to("/mcp").len();
        assert_eq!(tool(&client).await, "token-bob");
        assert_eq!(town.requests_to("/mcp").len(), before);
        client.set_cache_context(CacheContext::new("alice"));
        *who.lock().unwrap() = "Bearer token-alice";
        assert_eq!(tool(&client).await, "token-alice");
    });
}
