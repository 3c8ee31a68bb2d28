//! Legacy clients of a server over HTTP without sessions.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::front::{Context, HandlerError, NoArguments, Router, RouterError};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, State};
use mcp_proto::peer::{Outcome, RequestOptions};
use mcp_proto::quota::ByteLimits;
use mcp_proto::schema::{
    CallTool, CallToolParams, Implementation, ListRoots, ListRootsParams, Revision, ServerCapability,
};
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::{FrontPeer, HttpOutput, HttpPair, HttpPeer};
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, HttpRequest};
use mcp_proto::transport::http::server::HttpServerConfig;
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};

use crate::common::front_http::{HttpHarness, ParkedHandlers, TestExchange, field};
use crate::common::messages::{notification, request};
use crate::common::tools::tool;

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn router() -> (Router, ParkedHandlers) {
    let held = ParkedHandlers::default();
    let holding = held.clone();
    let router = Router::new("function", "1.0.0")
        .tool_with(tool("who"), async |NoArguments {}, cx: Context| {
            let known = cx.client().is_some();
            format!("{} {known} {}", cx.revision().as_str(), cx.client_capabilities().roots.is_some())
        })
        .tool_with(tool("steps"), async |NoArguments {}, cx: Context| {
            (1..=3).for_each(|step| cx.progress(step));
            "done"
        })
        .tool_with(tool("roots"), async |NoArguments {}, cx: Context| {
            Ok::<_, HandlerError>(cx.request::<ListRoots>(ListRootsParams::new()).await.map(|_| "listed")?)
        })
        .tool_with(tool("hold"), move |NoArguments {}, cx: Context| holding.park(cx));
    (router, held)
}

fn stateless() -> HttpHarness {
    HttpHarness::configured(router().0, |config| config.stateless = true)
}

fn initialize(version: &str) -> Value {
    let info = json!({"name": "tester", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": info});
    request(&json!(0), "initialize", params)
}

fn call(id: i64, name: &str) -> Value {
    request(&json!(id), "tools/call", json!({"name": name, "arguments": {}, "_meta": {"progressToken": id}}))
}

/// Posts a message with the version header, if there is one.
fn post(web: &HttpHarness, version: Option<&str>, message: &Value) -> TestExchange {
    let headers: Vec<_> = version.map(|version| ("mcp-protocol-version", version)).into_iter().collect();
    web.send("POST", &headers, &message.to_string())
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn initialize_is_answered_without_a_session() {
    for version in REVISIONS {
        let web = stateless();
        let mut answer = post(&web, None, &initialize(version));
        assert_eq!((answer.head().status, field(&answer.head(), "mcp-session-id")), (200, None));
        assert_eq!(answer.json()["result"]["protocolVersion"], version);
        let ready = notification("notifications/initialized", json!({}));
        assert_eq!(post(&web, Some(version), &ready).head().status, 202);
    }
}

#[test]
fn notification_without_a_session_reaches_its_handler() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let router = router().0.on_notification("com.example/touched", move |params, _| {
        notes.lock().unwrap().push(params.extra.get("page").unwrap().as_str().to_owned());
        async {}
    });
    let web = HttpHarness::configured(router, |config| config.stateless = true);
    for page in [1, 2] {
        let touched = notification("com.example/touched", json!({"page": page}));
        assert_eq!(post(&web, Some("2025-11-25"), &touched).head().status, 202);
    }
    let unknown = notification("com.example/unknown", json!({}));
    assert_eq!(post(&web, Some("2025-11-25"), &unknown).head().status, 202);
    assert_eq!(*seen.lock().unwrap(), ["1", "2"]);
}

/// Two instances that share nothing but the router: each request may reach either.
#[test]
fn any_instance_answers_any_request() {
    let router = Arc::new(router().0);
    let [first, second] = [(); 2].map(|()| {
        let mut config = HttpServerConfig::new(router.config());
        config.stateless = true;
        HttpHarness::of(router.clone(), config)
    });
    for version in REVISIONS {
        assert_eq!(post(&first, None, &initialize(version)).head().status, 200);
        let answer = post(&second, Some(version), &call(1, "who")).json();
        assert_eq!(text(&answer), format!("{version} false false"));
        let answer = post(&first, Some(version), &request(&json!(2), "tools/list", json!({}))).json();
        assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 4);
    }
}

/// S3.18, S3.19
#[test]
fn request_without_a_version_is_one_of_2025_03_26() {
    let web = stateless();
    let answer = post(&web, None, &call(1, "who")).json();
    assert_eq!(text(&answer), "2025-03-26 false false");
    assert_eq!(post(&web, Some("2020-01-01"), &call(1, "who")).head().status, 400);
}

#[test]
fn session_id_of_another_server_is_ignored() {
    let web = stateless();
    let headers = [("mcp-session-id", "abc"), ("mcp-protocol-version", "2025-11-25")];
    let mut answer = web.send("POST", &headers, &call(1, "who").to_string());
    assert_eq!(text(&answer.json()), "2025-11-25 false false");
}

#[test]
fn get_and_delete_are_answered_with_405() {
    let web = stateless();
    for method in ["GET", "DELETE"] {
        for headers in [vec![], vec![("mcp-session-id", "0123456789abcdef0123456789abcdef")]] {
            let head = web.send(method, &headers, "").head();
            assert_eq!((head.status, field(&head, "allow")), (405, Some("POST")), "{method}");
        }
    }
    let with_paths = HttpHarness::configured(router().0, |config| {
        (config.stateless, config.legacy_sse) = (true, Some(Default::default()));
        config.path = Some("/mcp".into());
    });
    assert_eq!(with_paths.send_to("/sse", "GET", &[], "").head().status, 404);
}

#[test]
fn progress_and_answer_arrive_on_the_stream_of_the_request() {
    let web = stateless();
    let mut answer = post(&web, Some("2025-06-18"), &call(7, "steps"));
    let messages: Vec<Value> = core::iter::from_fn(|| answer.try_message()).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert_eq!(
        (&messages[0]["params"]["progress"], &messages[1]["params"]["progress"]),
        (&json!(1), &json!(3))
    );
    assert_eq!((&messages[2]["id"], text(&messages[2])), (&json!(7), "done"));
    assert!(answer.ended);
}

#[test]
fn server_answers_pings_and_batches() {
    let web = stateless();
    let ping = request(&json!(1), "ping", json!({}));
    assert_eq!(
        post(&web, Some("2025-11-25"), &ping).json(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
    let batch = json!([ping, call(2, "who"), notification("notifications/initialized", json!({}))]);
    let answers = post(&web, Some("2025-03-26"), &batch).json();
    assert_eq!(answers.as_array().unwrap().len(), 2);
    assert_eq!(text(&answers[1]), "2025-03-26 false false");
    assert_eq!(post(&web, Some("2025-11-25"), &batch).head().status, 400);
    assert_eq!(post(&web, Some("2025-03-26"), &json!([])).head().status, 400);
    let silent = json!([notification("notifications/initialized", json!({}))]);
    assert_eq!(post(&web, Some("2025-03-26"), &silent).head().status, 202);
    let cancelled =
        json!([call(3, "hold"), notification("notifications/cancelled", json!({"requestId": 3}))]);
    let mut ended = post(&web, Some("2025-03-26"), &cancelled);
    ended.poll_exchange();
    assert!(ended.ended, "nothing is left to answer");
}

/// What needs a session is neither declared nor served, even if the router declares it.
#[test]
fn features_of_sessions_are_refused() {
    let router = router().0.declare(ServerCapability::Logging).declare(ServerCapability::ResourcesSubscribe);
    let error = router.check_stateless().unwrap_err();
    assert_eq!(error, RouterError::NeedsSession { capability: ServerCapability::ResourcesSubscribe });
    assert_eq!(
        error.to_string(),
        "the router declares resources.subscribe, which needs sessions: serve it with sessions, or do not declare it"
    );
    let web = HttpHarness::configured(router, |config| config.stateless = true);
    let declared = post(&web, None, &initialize("2025-11-25")).json()["result"]["capabilities"].clone();
    assert_eq!(declared, json!({"tools": {}, "resources": {}}));
    for (method, params) in
        [("logging/setLevel", json!({"level": "info"})), ("resources/subscribe", json!({"uri": "a:b"}))]
    {
        let answer = post(&web, Some("2025-11-25"), &request(&json!(1), method, params)).json();
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    let reply = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(post(&web, Some("2025-11-25"), &reply).head().status, 400);
}

#[test]
fn router_may_not_declare_what_needs_sessions() {
    assert_eq!(router().0.check_stateless(), Ok(()));
    for capability in [
        ServerCapability::ToolsListChanged,
        ServerCapability::ResourcesListChanged,
        ServerCapability::PromptsListChanged,
        ServerCapability::ResourcesSubscribe,
        ServerCapability::Logging,
    ] {
        let refused = router().0.declare(capability).check_stateless();
        assert_eq!(refused, Err(RouterError::NeedsSession { capability }));
    }
}

#[test]
fn handler_cannot_send_requests_to_the_client() {
    let web = stateless();
    let answer = post(&web, Some("2025-11-25"), &call(1, "roots")).json();
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("roots/list was not sent"), "{answer}");
}

#[test]
fn disconnect_cancels_a_request_without_a_session() {
    let (router, held) = router();
    let web = HttpHarness::configured(router, |config| config.stateless = true);
    let mut caller = post(&web, Some("2025-11-25"), &call(1, "hold"));
    caller.poll_exchange();
    assert_eq!(held.started(), 1);
    drop(caller);
    assert_eq!(held.dropped_count(), 1);
}

#[test]
fn requests_of_2026_07_28_are_served_as_ever() {
    let mut web = stateless();
    let answer = web.call("who", json!({})).json();
    assert_eq!(text(&answer), "2026-07-28 true false");
}

#[test]
fn bodies_count_in_the_byte_budget() {
    let web = HttpHarness::configured(router().0, |config| {
        config.stateless = true;
        config.byte_limits = ByteLimits { total: 64, unauthenticated: 64, owner: 64 };
    });
    assert_eq!(post(&web, Some("2025-11-25"), &call(1, "who")).head().status, 503);
}

// --- With the client of this crate ---

/// Two instances behind a balancer that alternates between them.
struct Instances {
    peers: [FrontPeer; 2],
    /// The revision that the client asks for instead of its newest.
    version: &'static str,
}

impl HttpPeer for Instances {
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        let newest = Revision::LATEST_LEGACY.as_str();
        let body = if body.contains("\"initialize\"") { body.replace(newest, self.version) } else { body };
        let request = HttpRequest { body: Bytes::from(body), ..request.clone() };
        self.peers[exchange as usize % 2].handle_request(now, exchange, &request);
    }

    fn handle_disconnect(&mut self, now: Instant, exchange: u64) {
        self.peers[exchange as usize % 2].handle_disconnect(now, exchange);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peers.iter_mut().for_each(|peer| peer.handle_timeout(now));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.iter().filter_map(|peer| peer.poll_timeout()).min()
    }

    fn poll_output(&mut self, now: Instant) -> Option<(u64, HttpOutput)> {
        self.peers.iter_mut().find_map(|peer| peer.poll_output(now))
    }
}

#[test]
fn client_of_this_crate_calls_tools_of_alternating_instances() {
    for (version, policy) in REVISIONS
        .into_iter()
        .flat_map(|version| [(version, EraPolicy::LegacyOnly), (version, EraPolicy::Auto)])
    {
        let router = Arc::new(router().0);
        let peers = [7, 8].map(|seed| {
            let mut server = router.config();
            server.eras = mcp_proto::peer::server::Eras::LegacyOnly;
            let mut config = HttpServerConfig::new(server);
            config.stateless = true;
            FrontPeer::new(router.clone(), config, Arc::new(SimulatedClock::default()), seed)
        });
        let mut client = ClientConfig::new(Implementation::new("client", "1.0"));
        client.era_policy = policy;
        let config = HttpClientConfig::new(client, "http://localhost:3000/mcp");
        let client = HttpClient::new(config, Instant::ORIGIN).unwrap();
        let mut pair = HttpPair::new(client, Box::new(Instances { peers, version }), 7);
        pair.advance(Duration::from_secs(5));
        assert_eq!(pair.client.peer().state(), State::Ready, "{version}");
        for _ in 0..4 {
            let params = CallToolParams::new("who");
            let now = pair.now();
            pair.client.at(now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
        }
        pair.advance(Duration::from_secs(2));
        let outcomes: Vec<_> = core::iter::from_fn(|| pair.client.poll_event())
            .filter_map(|event| match event {
                mcp_proto::peer::client::Event::Outcome { outcome, .. } => Some(outcome),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes.len(), 4);
        for outcome in outcomes {
            let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
            assert!(result.as_str().contains(version), "{result:?}");
        }
    }
}
