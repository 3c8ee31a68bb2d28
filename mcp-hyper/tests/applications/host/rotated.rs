//! Servers whose credentials change while a host runs. Row F107.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_hyper::auth::{AuthConfig, Authorization, MemoryStore, StoreFuture, TokenStore};
use mcp_hyper::host::HostOptions;
use mcp_hyper::mcp_proto::Secret;
use mcp_hyper::mcp_proto::auth::client::{Record, RecordVersion, SaveOutcome, StoredRecord};
use mcp_hyper::mcp_proto::auth::server::{Access, PresentedToken, Protection, VerifyError};
use mcp_hyper::mcp_proto::front::WatchUpdate;
use mcp_hyper::mcp_proto::front::guard::Guard;
use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Lookup, Source};
use mcp_hyper::mcp_proto::host::control::Status;
use mcp_hyper::mcp_proto::peer::Principal;
use mcp_hyper::mcp_proto::peer::client::WatchFilter;
use mcp_hyper::mcp_proto::schema::{Resource, ServerCapability};
use serde_json::json;

use super::testbed::*;
use crate::common::auth_testbed::{AuthTestbed, answer};
use crate::common::runtime::within;
use crate::common::server::*;

/// Values that the test changes, and how often each was looked up.
#[derive(Clone, Default)]
struct Values(Arc<Mutex<(String, BTreeMap<String, usize>)>>);

impl Values {
    fn set(&self, token: &str) {
        self.0.lock().unwrap().0 = token.to_owned();
    }

    fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().1.get(name).copied().unwrap_or_default()
    }

    fn look_up(&self, lookup: &Lookup) -> Option<Secret> {
        let (Lookup::Variable(name) | Lookup::Input(name)) = lookup else { return None };
        let mut values = self.0.lock().unwrap();
        *values.1.entry(name.clone()).or_default() += 1;
        Some(Secret::new(if name == "TOKEN" { values.0.clone() } else { "team".to_owned() }))
    }
}

/// A server that accepts the token of its own, options of a host of it, and what that looks up.
async fn keyed() -> (AuthTestbed, Arc<Mutex<&'static str>>, HostOptions, Values) {
    let token = Arc::new(Mutex::new("one"));
    let accepted = token.clone();
    let testbed = AuthTestbed::with(move |seen| {
        let wanted = format!("Bearer {} team", accepted.lock().unwrap());
        let is_accepted = seen.header("authorization") == Some(&*wanted);
        Some(if is_accepted {
            answer(&serde_json::from_str(&seen.body).unwrap())
        } else {
            (401, String::new(), String::new())
        })
    })
    .await;
    let header = "Bearer ${env:TOKEN} ${input:team}";
    let text = json!({
        "inputs": [{ "id": "team", "type": "promptString", "description": "Team" }],
        "servers": { "web": { "type": "http", "url": testbed.url(), "headers": { "Authorization": header } } },
    });
    let file = ConfigFile::parse(Source::user("/home/ann/.vscode/mcp.json"), text.to_string().as_bytes());
    let values = Values::default();
    values.set("one");
    let asked = values.clone();
    let options = options(Config::merge([file])).lookups(move |_, lookup| {
        let value = asked.look_up(&lookup);
        async move { value }
    });
    (testbed, token, options, values)
}

/// F107, F71, F85
#[test]
fn rotated_header_survives_without_a_lost_call() {
    bounded(async {
        let (testbed, token, options, values) = keyed().await;
        let (host, _driver) = start(options);
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::Connected, "{:?}", host.servers());
        assert_eq!((values.count("TOKEN"), values.count("team")), (1, 1));
        *token.lock().unwrap() = "two";
        values.set("two");
        let before = testbed.received().len();
        let called = host.call_tool("mcp__web__tool", json!({})).await.unwrap();
        assert_eq!(called.text_content(), "done");
        // The same connection repeated it, and the user was not asked.
        assert_eq!(testbed.received().len() - before, 2);
        assert_eq!((values.count("TOKEN"), values.count("team")), (2, 1));
        let server = host.server("web").unwrap();
        assert_eq!((server.status, server.attempts), (Status::Connected, 1));
    });
}

/// F107
#[test]
fn unchanged_header_waits_for_the_user_after_one_more_lookup() {
    bounded(async {
        let (testbed, token, options, values) = keyed().await;
        let (host, _driver) = start(options);
        host.ready().await;
        *token.lock().unwrap() = "two";
        let before = testbed.received().len();
        let error = host.call_tool("mcp__web__tool", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("401"), "{error}");
        until_status(&host, "web", Status::NeedsAuthorization).await;
        assert_eq!((values.count("TOKEN"), values.count("team")), (2, 1));
        assert_eq!(testbed.received().len() - before, 1);
        // The user has changed it.
        values.set("two");
        host.reconnect("web").unwrap();
        until_status(&host, "web", Status::Connected).await;
    });
}

/// F107: a start is refused in the same way.
#[test]
fn header_that_is_wrong_from_the_start_is_looked_up_once_more() {
    bounded(async {
        let (_, token, options, values) = keyed().await;
        *token.lock().unwrap() = "two";
        let (host, _driver) = start(options);
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::NeedsAuthorization, "{:?}", host.servers());
        assert_eq!((values.count("TOKEN"), values.count("team")), (2, 1));
    });
}

/// A store of one record, whatever its key.
#[derive(Clone)]
struct OneRecord(MemoryStore);

impl TokenStore for OneRecord {
    fn load<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        self.0.load("")
    }

    fn swap<'a>(
        &'a self,
        _: &'a str,
        expected: Option<RecordVersion>,
        record: Option<Record>,
    ) -> StoreFuture<'a, SaveOutcome> {
        self.0.swap("", expected, record)
    }
}

impl OneRecord {
    /// Stores a token as another process does.
    async fn set(&self, testbed: &AuthTestbed, token: &str) {
        let record = json!({ "version": 1, "tokens": {
            "issuer": testbed.base(), "client_id": "client-1", "resource": testbed.url(),
            "access": token, "kind": "Bearer", "issued": 1,
        }});
        let record = Record::from_json(record.to_string().as_bytes()).unwrap();
        let version = self.load("").await.unwrap().map(|stored| stored.version);
        assert!(matches!(self.swap("", version, Some(record)).await.unwrap(), SaveOutcome::Done(_)));
    }
}

/// A host that is connected with the token `token-one` of a store, and the token that its server accepts.
async fn with_token() -> (AuthTestbed, Arc<Mutex<&'static str>>, OneRecord, HostOptions) {
    let token = Arc::new(Mutex::new("token-one"));
    let accepted = token.clone();
    let testbed = AuthTestbed::with(move |seen| {
        let wanted = format!("Bearer {}", accepted.lock().unwrap());
        let is_refused = seen.path == "/mcp" && seen.header("authorization") != Some(&*wanted);
        is_refused.then(|| (401, String::new(), String::new()))
    })
    .await;
    let store = OneRecord(MemoryStore::new());
    store.set(&testbed, "token-one").await;
    let of_host = store.clone();
    let options = options(config(json!({ "web": { "url": testbed.url() } }))).authorization(move |_, _| {
        let config = AuthConfig::new("test", "http://127.0.0.1/callback");
        Some(Authorization::new(config).store(of_host.clone()))
    });
    (testbed, token, store, options)
}

/// F107: connected servers notice tokens that another process stores when theirs are refused.
#[test]
fn token_that_another_process_stored_is_used_after_a_refusal() {
    bounded(async {
        let (testbed, token, store, options) = with_token().await;
        let (host, _driver) = start(options);
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::Connected, "{:?}", host.servers());
        *token.lock().unwrap() = "token-two";
        store.set(&testbed, "token-two").await;
        let called = host.call_tool("mcp__web__tool", json!({})).await.unwrap();
        assert_eq!(called.text_content(), "done");
        assert_eq!(host.server("web").unwrap().attempts, 1);
    });
}

/// F107: so do servers that wait for a login since a call was refused.
#[test]
fn token_that_another_process_stores_after_the_refusal_is_used_too() {
    bounded(async {
        let (testbed, token, store, options) = with_token().await;
        let (host, _driver) = start(options);
        host.ready().await;
        *token.lock().unwrap() = "token-two";
        host.call_tool("mcp__web__tool", json!({})).await.unwrap_err();
        until_status(&host, "web", Status::NeedsAuthorization).await;
        until("it has ended", || host.client("web").is_none()).await;
        store.set(&testbed, "token-two").await;
        let called = host.call_tool("mcp__web__tool", json!({})).await.unwrap();
        assert_eq!(called.text_content(), "done");
    });
}

/// F74, F107: no call is needed to notice it.
#[test]
fn watch_whose_token_was_revoked_waits_for_the_user_and_lives_on() {
    bounded(async {
        let (listener, address) = listener();
        let url = format!("http://{address}/mcp");
        let token = Arc::new(Mutex::new("one"));
        let (accepted, audience) = (token.clone(), url.clone());
        let protection = Protection::new(&url, "https://login.example").unwrap();
        let guard = Guard::new(protection, move |presented: PresentedToken| {
            let is_accepted = presented.token.expose() == *accepted.lock().unwrap();
            let access = Access::new(Principal::new("ann"), &*audience);
            async move { if is_accepted { Ok(access) } else { Err(VerifyError::invalid("it was revoked")) } }
        });
        let guard = guard.reverify_every(Duration::from_millis(20));
        let router = router(&HandlerLog::default())
            .resource(Resource::new("file:///a", "a"), async |_, _| "a")
            .declare(ServerCapability::ResourcesSubscribe);
        let (_server, driver) = serving(router).protect(guard).listen(listener);
        let _serving = smol::spawn(within(driver));
        let servers = json!({ "web": { "url": url, "headers": { "Authorization": "Bearer ${TOKEN}" } } });
        let values = Values::default();
        values.set("one");
        let asked = values.clone();
        let (host, _driver) = start(options(config(servers)).lookups(move |_, lookup| {
            let value = asked.look_up(&lookup);
            async move { value }
        }));
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::Connected, "{:?}", host.servers());
        let mut watch = host.watch("web", WatchFilter::new().resource("file:///a")).unwrap();
        while !matches!(watch.next().await.unwrap(), WatchUpdate::Active { .. }) {}
        *token.lock().unwrap() = "two";
        until_status(&host, "web", Status::NeedsAuthorization).await;
        values.set("two");
        host.reconnect("web").unwrap();
        assert!(matches!(watch.next().await.unwrap(), WatchUpdate::Interrupted));
        while !matches!(watch.next().await.unwrap(), WatchUpdate::Active { .. }) {}
        assert_eq!(status(&host, "web"), Status::Connected);
    });
}
