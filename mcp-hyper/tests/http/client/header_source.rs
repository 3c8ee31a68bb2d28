//! Sources of headers, which are asked again after status 401. Row F107.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue};
use mcp_hyper::ConnectError;
use mcp_hyper::mcp_proto::front::Error;
use mcp_hyper::mcp_proto::transport::http::client::ListenPolicy;
use serde_json::{Value, json};
use smol::future::zip;

use crate::common::auth_testbed::{AuthTestbed, CannedResponse, ReceivedRequest, answer, ok};
use crate::common::client::{TestOptions, call, connect, legacy, modern, run};
use crate::common::runtime::within;

/// A server that accepts the key of its own, which can be changed.
async fn keyed() -> (AuthTestbed, Arc<Mutex<&'static str>>) {
    let key = Arc::new(Mutex::new("one"));
    let accepted = key.clone();
    let testbed = AuthTestbed::with(move |seen| {
        let is_accepted = seen.header("x-own") == Some(*accepted.lock().unwrap());
        Some(if is_accepted { answer(&json_of(seen)) } else { refused() })
    });
    (testbed.await, key)
}

fn json_of(seen: &ReceivedRequest) -> Value {
    serde_json::from_str(&seen.body).unwrap_or_default()
}

fn refused() -> CannedResponse {
    (401, String::new(), "who are you?".to_owned())
}

fn header(value: &str) -> HeaderMap {
    HeaderMap::from_iter([("x-own".parse().unwrap(), HeaderValue::from_str(value).unwrap())])
}

/// A source that gives these values, the last one for ever, and the number of times that it was asked.
fn values(
    options: TestOptions,
    values: impl IntoIterator<Item = &'static str>,
) -> (TestOptions, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, mut values) = (asked.clone(), VecDeque::from_iter(values));
    let options = options.headers_from(move || {
        count.fetch_add(1, SeqCst);
        let value = if values.len() > 1 { values.pop_front() } else { values.front().copied() };
        async move { Ok::<_, String>(header(value.unwrap())) }
    });
    (options, asked)
}

fn keys(testbed: &AuthTestbed) -> Vec<String> {
    let received = testbed.received();
    received.iter().map(|seen| seen.header("x-own").unwrap_or("none").to_owned()).collect()
}

/// F107
#[test]
fn rotated_header_loses_no_call_and_is_asked_for_once() {
    run(async {
        let (testbed, key) = keyed().await;
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, seen) = (asked.clone(), testbed.clone());
        let options = modern().headers_from(move || {
            let (number, seen) = (count.fetch_add(1, SeqCst), seen.clone());
            async move {
                // All calls have been refused before there is an answer.
                let refused = || keys(&seen).iter().filter(|key| *key == "one").count();
                while number > 0 && refused() < 5 {
                    smol::future::yield_now().await;
                }
                Ok::<_, String>(header(["one", "two"][number]))
            }
        });
        let (client, _driver) = connect(options, &testbed.url());
        assert_eq!(call(&client).await.unwrap(), "done");
        *key.lock().unwrap() = "two";
        let ((first, second), third) = zip(zip(call(&client), call(&client)), call(&client)).await;
        assert_eq!(
            (first.unwrap(), second.unwrap(), third.unwrap()),
            ("done".into(), "done".into(), "done".into())
        );
        assert_eq!(asked.load(SeqCst), 2);
        assert_eq!(keys(&testbed), ["one", "one", "one", "one", "one", "two", "two", "two"]);
    });
}

/// F107
#[test]
fn unchanged_header_is_refused_after_one_more_look() {
    run(async {
        let (testbed, key) = keyed().await;
        let (options, asked) = values(modern(), ["one"]);
        let (client, _driver) = connect(options, &testbed.url());
        client.ready().await.unwrap();
        *key.lock().unwrap() = "two";
        let before = testbed.received().len();
        let error = call(&client).await.unwrap_err();
        let refusal = error.unauthorized().unwrap();
        assert_eq!(refusal.status, 401);
        assert!(error.to_string().contains("have not changed"), "{error}");
        assert_eq!((asked.load(SeqCst), testbed.received().len() - before), (2, 1));
    });
}

/// F107
#[test]
fn request_is_repeated_once_only() {
    run(async {
        let (testbed, key) = keyed().await;
        let (options, asked) = values(modern(), ["one", "two", "three"]);
        let (client, _driver) = connect(options, &testbed.url());
        client.ready().await.unwrap();
        *key.lock().unwrap() = "four";
        let error = call(&client).await.unwrap_err();
        assert!(error.unauthorized().is_some() && error.to_string().contains("new headers too"), "{error}");
        assert_eq!(asked.load(SeqCst), 2);
        assert_eq!(keys(&testbed), ["one", "one", "two"]);
    });
}

/// F107
#[test]
fn failure_of_a_source_is_the_error_of_the_calls_that_wait_for_it() {
    run(async {
        let (testbed, key) = keyed().await;
        let options = modern().headers_from(async || Err::<HeaderMap, _>("no vault"));
        let (client, _driver) = connect(options, &testbed.url());
        let error = call(&client).await.unwrap_err();
        assert!(error.is_unsent() && error.to_string().contains("no vault"), "{error}");
        assert!(testbed.received().is_empty());

        let options = modern().headers_from({
            let mut answers = VecDeque::from([Ok("one"), Err("no vault")]);
            move || {
                let answer = answers.pop_front().unwrap_or(Ok("two"));
                async move { answer.map(header) }
            }
        });
        let (client, _driver) = connect(options, &testbed.url());
        client.ready().await.unwrap();
        *key.lock().unwrap() = "two";
        let error = call(&client).await.unwrap_err();
        assert!(error.unauthorized().is_some() && error.to_string().contains("no vault"), "{error}");
        // The next refusal asks again.
        assert_eq!(call(&client).await.unwrap(), "done");
    });
}

/// F107: headers of the protocol are not the application's.
#[test]
fn source_cannot_set_headers_of_the_protocol() {
    run(async {
        let (testbed, _) = keyed().await;
        let options = modern().headers_from(async || {
            Ok::<_, String>(HeaderMap::from_iter([(http::header::HOST, HeaderValue::from_static("marker"))]))
        });
        let (client, _driver) = connect(options, &testbed.url());
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("host is set by the protocol") && !error.contains("marker"), "{error}");
    });
}

/// F107: sources compose with fixed headers and closures, and none of their values is shown.
#[test]
fn source_composes_with_other_headers_and_is_secret() {
    run(async {
        let testbed = AuthTestbed::with(|seen| Some(answer(&json_of(seen)))).await;
        let shown = Arc::new(Mutex::new(String::new()));
        let show = shown.clone();
        let options = modern().header("x-own", "fixed").header("x-team", "blue").headers(|headers| {
            assert_eq!(headers.get_all("x-own").iter().collect::<Vec<_>>(), ["marker"]);
            headers.insert("x-seen", HeaderValue::from_static("yes"));
        });
        let (options, _) = values(options, ["marker"]);
        let options = options.on_wire(move |event| *show.lock().unwrap() += &format!("{event:?}\n"));
        assert!(!format!("{options:?}").contains("marker"));
        let (client, driver) = options.connect(testbed.url()).unwrap();
        assert!(!format!("{driver:?}").contains("marker"));
        let _driver = smol::spawn(within(driver));
        assert_eq!(call(&client).await.unwrap(), "done");
        for seen in testbed.received() {
            let header = |name| seen.header(name);
            assert_eq!(
                [header("x-own"), header("x-team"), header("x-seen")],
                [Some("marker"), Some("blue"), Some("yes")]
            );
        }
        assert!(shown.lock().unwrap().contains("x-own") && !shown.lock().unwrap().contains("marker"));
    });
}

/// F107
#[test]
fn source_and_authorization_exclude_each_other() {
    let (options, _) = values(modern(), ["one"]);
    let options = options.authorization(super::auth::noninteractive_login());
    let error = options.connect("http://127.0.0.1:1/mcp").map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::TwoAuthorizations), "{error}");
}

/// F107: private responses belong to the credentials.
#[test]
fn cache_ends_with_the_headers() {
    run(async {
        let key = Arc::new(Mutex::new("one"));
        let accepted = key.clone();
        let testbed = AuthTestbed::with(move |seen| {
            let (own, request) = (seen.header("x-own").unwrap_or_default(), json_of(seen));
            if own != *accepted.lock().unwrap() {
                return Some(refused());
            }
            let list = json!({
                "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
                "tools": [{ "name": own, "inputSchema": { "type": "object" } }],
            });
            Some(match request["method"] == "tools/list" {
                true => ok(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": list })),
                false => answer(&request),
            })
        })
        .await;
        let (options, _) = values(modern(), ["one", "two"]);
        let (client, _driver) = connect(options, &testbed.url());
        let tool = async || client.list_tools().await.unwrap()[0].name.clone();
        assert_eq!(tool().await, "one");
        let before = testbed.received().len();
        assert_eq!(tool().await, "one");
        assert_eq!(testbed.received().len(), before, "the list is cached");
        *key.lock().unwrap() = "two";
        assert_eq!(tool().await, "one");
        assert_eq!(client.call_tool("one", json!({})).await.unwrap().text_content(), "done");
        assert_eq!(tool().await, "two");
    });
}

/// F107: the stream and the end of a session carry the headers too.
#[test]
fn sessions_carry_the_headers_of_a_source() {
    run(async {
        let testbed = AuthTestbed::with(|seen| {
            let request = json_of(seen);
            let session = "content-type: application/json\r\nmcp-session-id: s\r\n".to_owned();
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "s", "version": "1" } });
            Some(match (&*seen.method, request["method"].as_str()) {
                ("POST", Some("initialize")) => {
                    (200, session, json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string())
                }
                ("POST", _) => (202, String::new(), String::new()),
                // The stream needs the new key.
                ("GET", _) if seen.header("x-own") != Some("two") => refused(),
                ("GET", _) => (405, String::new(), String::new()),
                _ => (200, String::new(), String::new()),
            })
        })
        .await;
        let options = legacy().configure(|config| config.listen = ListenPolicy::IfOffered);
        let (options, asked) = values(options, ["one", "two"]);
        let (client, driver) = connect(options, &testbed.url());
        client.ready().await.unwrap();
        let streams = || testbed.received().iter().filter(|seen| seen.method == "GET").count();
        while streams() < 2 {
            smol::future::yield_now().await;
        }
        client.close().await;
        driver.await.unwrap();
        let received = testbed.received();
        let keys: Vec<_> =
            received.iter().map(|seen| (&*seen.method, seen.header("x-own").unwrap())).collect();
        assert_eq!(
            keys,
            [("POST", "one"), ("POST", "one"), ("GET", "one"), ("GET", "two"), ("DELETE", "two")]
        );
        assert_eq!(asked.load(SeqCst), 2);
    });
}

/// F107
#[cfg(feature = "websocket")]
#[test]
fn refused_upgrade_to_a_websocket_asks_the_source() {
    use crate::common::client::{accept, listen};
    use crate::websocket::client::accept_socket;
    use crate::websocket::pair::speaking;
    use mcp_hyper::mcp_proto::peer::client::EraPolicy;

    run(async {
        let (listener, url) = listen().await;
        let (options, asked) = values(speaking(EraPolicy::LegacyOnly), ["one", "two"]);
        let (_client, _driver) = connect(options, &url.replace("http:", "ws:"));
        let mut first = accept(&listener).await;
        assert_eq!(first.request().await.unwrap().header("x-own"), Some("one"));
        first.write("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await;
        let (_socket, head) = accept_socket(accept(&listener).await.stream, None).await;
        assert_eq!((head.headers()["x-own"].to_str().unwrap(), asked.load(SeqCst)), ("two", 2));

        // A source that has no other value is the end.
        let (options, _) = values(speaking(EraPolicy::LegacyOnly), ["one"]);
        let (client, _driver) = connect(options, &url.replace("http:", "ws:"));
        let mut only = accept(&listener).await;
        only.request().await.unwrap();
        only.write("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await;
        let error: Error = client.ready().await.unwrap_err();
        assert!(error.unauthorized().is_some() && error.to_string().contains("have not changed"), "{error}");
    });
}
