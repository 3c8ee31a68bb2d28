//! The client and the server of this crate against each other.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::zip;
use mcp_hyper::mcp_proto::front::http::HttpServer;
use mcp_hyper::mcp_proto::front::{Client, Error, WatchUpdate};
use mcp_hyper::mcp_proto::peer::client::{Change, EraPolicy};
use mcp_hyper::mcp_proto::peer::server::ListKind;
use mcp_hyper::{ClientOptions, Proxy, ServerOptions};
use serde_json::json;

use crate::common::client::{TestOptions, connect, run};
use crate::common::runtime::{TestRuntime, within};
use crate::common::server::{HandlerLog, listener, router, serving, wait_until};

/// A server in a task, and the URL of its WebSockets.
pub(crate) struct TestServer {
    pub(crate) url: String,
    pub(crate) server: HttpServer,
    pub(crate) log: HandlerLog,
    pub(crate) driver: smol::Task<std::io::Result<()>>,
}

impl TestServer {
    pub(crate) fn start(change: impl FnOnce(ServerOptions) -> ServerOptions) -> Self {
        let log = HandlerLog::default();
        let (listener, address) = listener();
        let options = change(serving(router(&log)).websocket());
        let (server, driver) = options.listen(listener);
        Self { url: format!("ws://{address}/mcp"), server, log, driver: smol::spawn(within(driver)) }
    }
}

/// A client of this era policy that asks no proxy.
pub(crate) fn speaking(era_policy: EraPolicy) -> TestOptions {
    ClientOptions::new("test", "1").runtime(TestRuntime).era_policy(era_policy).proxy(Proxy::none())
}

/// Closes the server while it runs a call, whose result arrives before the reason of the end.
pub(crate) async fn close_during_a_call(url: &str, server: &HttpServer, log: &HandlerLog) {
    let (client, driver) = connect(speaking(EraPolicy::Auto), url);
    let calling = smol::spawn({
        let client = client.clone();
        async move { client.call_tool("soon", json!({})).await }
    });
    let log = log.clone();
    smol::unblock(move || wait_until("the handler runs", || log.begun_calls() == 1)).await;
    server.close();
    assert_eq!(calling.await.unwrap().text_content(), "done");
    let error = driver.await.unwrap_err().to_string();
    assert!(error.contains("1001 (going away): the server closes"), "{error}");
}

async fn echo(client: &Client, message: &str) -> Result<String, Error> {
    client.call_tool("echo", json!({ "message": message })).await.map(|result| result.text_content())
}

/// F58, F4: calls wait for the open connection, and fail after its end.
#[test]
fn clients_of_each_era_call_tools() {
    run(async {
        let server = TestServer::start(|options| options);
        for era_policy in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly, EraPolicy::Auto] {
            let (client, driver) = connect(speaking(era_policy), &server.url);
            let (one, two) = zip(echo(&client, "one"), echo(&client, "two")).await;
            assert_eq!((&*one.unwrap(), &*two.unwrap()), ("one", "two"));
            let big = client.call_tool("big", json!({ "bytes": 300_000 })).await.unwrap();
            assert_eq!(big.text_content().len(), 300_000);
            let long = "x".repeat(300_000);
            assert_eq!(echo(&client, &long).await.unwrap(), long);
            client.close().await;
            driver.await.unwrap();
            assert!(echo(&client, "late").await.is_err());
        }
    });
}

#[test]
fn client_cancels_a_call() {
    run(async {
        let server = TestServer::start(|options| options);
        let (client, _driver) = connect(speaking(EraPolicy::Auto), &server.url);
        client.ready().await.unwrap();
        let calling = client.call_tool("wait", json!({})).timeout(Duration::from_millis(50));
        assert!(calling.await.is_err());
        let log = server.log.clone();
        smol::unblock(move || wait_until("the handler is dropped", || log.ended_calls() == 1)).await;
        assert_eq!(echo(&client, "still open").await.unwrap(), "still open");
    });
}

#[test]
fn server_cancels_the_calls_of_a_client_that_disconnects() {
    run(async {
        let server = TestServer::start(|options| options);
        let (client, driver) = connect(speaking(EraPolicy::Auto), &server.url);
        let calling = smol::spawn({
            let client = client.clone();
            async move { client.call_tool("wait", json!({})).await }
        });
        let log = server.log.clone();
        smol::unblock(move || wait_until("the handler runs", || log.begun_calls() == 1)).await;
        drop(driver);
        assert!(calling.await.is_err());
        let log = server.log.clone();
        smol::unblock(move || wait_until("the handler is dropped", || log.ended_calls() == 1)).await;
    });
}

#[test]
fn server_publishes_changes_to_clients_of_each_era() {
    run(async {
        let server = TestServer::start(|options| options);
        for era_policy in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
            let (client, _driver) = connect(speaking(era_policy), &server.url);
            client.ready().await.unwrap();
            let mut watch = client.watch().tools().open().unwrap();
            assert!(matches!(watch.next().await, Some(WatchUpdate::Active { .. })));
            server.server.list_changed(ListKind::Tools);
            let update = watch.next().await;
            assert!(matches!(update, Some(WatchUpdate::Changed { change: Change::Tools, .. })), "{update:?}");
        }
    });
}

/// F61
#[test]
fn closing_server_answers_the_last_call_and_tells_why_it_closes() {
    run(async {
        let server = TestServer::start(|options| options);
        close_during_a_call(&server.url, &server.server, &server.log).await;
        server.driver.await.unwrap();
    });
}

/// F61: this server fails because it may queue no more than 2,000 bytes of answers.
#[test]
fn failing_server_closes_with_an_internal_error() {
    run(async {
        let server = TestServer::start(|options| {
            options.configure(|config| {
                let limits = &mut Arc::make_mut(&mut config.server).limits;
                (limits.queued_bytes, limits.reply_bytes) = (1000, 1000);
            })
        });
        let (client, driver) = connect(speaking(EraPolicy::Auto), &server.url);
        // Its answer may arrive before the end.
        let _ = client.call_tool("big", json!({ "bytes": 10_000 })).await;
        let error = driver.await.unwrap_err().to_string();
        assert!(error.contains("1011 (internal error)"), "{error}");
    });
}

/// F61
#[test]
fn message_that_is_too_long_ends_the_connection_with_a_reason() {
    run(async {
        let server = TestServer::start(|options| options.configure(|config| config.body_bytes = 10_000));
        let (client, driver) = connect(speaking(EraPolicy::Auto), &server.url);
        assert_eq!(echo(&client, "short").await.unwrap(), "short");
        let error = echo(&client, &"x".repeat(5_000_000)).await.unwrap_err().to_string();
        assert!(error.contains("1009 (message too big)"), "{error}");
        driver.await.unwrap_err();

        let server = TestServer::start(|options| options);
        let options =
            speaking(EraPolicy::Auto).configure(|config| config.client.limits.message_bytes = 10_000);
        let (client, _driver) = connect(options, &server.url);
        let error = client.call_tool("big", json!({ "bytes": 5_000_000 })).await.unwrap_err().to_string();
        assert!(error.contains("10000 are accepted"), "{error}");
    });
}

#[test]
fn server_slows_down_a_client_beyond_its_rate() {
    use mcp_hyper::mcp_proto::quota::RateLimit;

    run(async {
        let server = TestServer::start(|options| options.request_rate(RateLimit::per_second(20).burst(3)));
        let (client, _driver) = connect(speaking(EraPolicy::ModernOnly), &server.url);
        for _ in 0..10 {
            assert_eq!(echo(&client, "patient").await.unwrap(), "patient");
        }
    });
}
