//! A tiny extension, end to end: printing, whose jobs may be queued.

use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front::{ClientHarness, config};
use crate::common::front_http::HttpHarness;
use crate::common::messages::{LEGACY, MODERN, discover_result, initialize_result, request};
use crate::common::polling::{CountingEntropy, TestClock, poll, ready};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::Instant;
use mcp_proto::adapter;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{ClientHandlers, Context, Error, HandlerError, NoArguments, Router};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, Event, LinkAction};
use mcp_proto::peer::{InvalidAnswerError, Outcome, OutgoingRequest, RequestError, RequestOptions};
use mcp_proto::schema::skills::ListSkills;
use mcp_proto::schema::{
    CallToolResult, ClientCapability, CustomParams, CustomResult, Direction, Extension, ExtensionMethod,
    Implementation, Json, Method, MethodInfo, PaginatedParams, ResultType, apps, skills, tasks,
};
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::{FrontPeer, HttpOutput, HttpPair, HttpPeer};
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, HttpRequest};
use mcp_proto::transport::http::server::HttpServerConfig;
use mcp_proto::transport::{StreamClient, StreamServer};
use serde_json::{Value, json};

const PRINTING: &str = "com.example/printing";
const PRINT: &str = "com.example/print";
const QUEUED: &str = "com.example/queued";
const CHARTS: &str = "com.example/charts";

fn printing() -> Extension {
    Extension::new(PRINTING)
        .unwrap()
        .with_settings(json!({"colour": true}))
        .with_method(ExtensionMethod::new(PRINT).with_name_param("printer"))
        .with_notification("com.example/paperLow", Direction::ServerToClient)
        .with_notification("com.example/paperAdded", Direction::ClientToServer)
        .with_result_type(QUEUED)
}

/// The extension's method, as a type.
enum Print {}

impl Method for Print {
    const INFO: &'static MethodInfo = &MethodInfo::custom(PRINT);
    type Params = CustomParams;
    type Result = CustomResult;
}

fn queued() -> CustomResult {
    let mut queued = CustomResult::new();
    queued.result_type = Some(ResultType::Other(QUEUED.into()));
    queued.extra.insert("position", 3);
    queued
}

/// A server of the extension, whose jobs of more than 100 pages are queued.
fn printer() -> Router {
    Router::new("printer", "1").with_extension(printing()).custom(PRINT, async |params, cx: Context| {
        cx.notify_custom("com.example/paperLow", json!({"sheets": 12}))?;
        let long = params.extra.get("pages").and_then(|pages| pages.decode::<i64>().ok()) > Some(100);
        Ok::<_, HandlerError>(if long { queued() } else { CustomResult::new() })
    })
}

fn declaring() -> Value {
    json!({"extensions": {PRINTING: {}}})
}

/// A client whose server declares the extension, or does not.
fn client_of(declares: bool) -> ClientHarness {
    let mut client = ClientHarness::open(config(), ClientHandlers::new().with_extension(printing()));
    let id = client.expect("server/discover");
    let mut discovered = discover_result();
    if declares {
        discovered["capabilities"]["extensions"][PRINTING] = json!({});
    }
    client.answer(&id, discovered);
    client
}

// --- Both sides ---

/// C1.8, C2.9
#[test]
fn extension_works_between_a_client_and_a_server_on_a_stream() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let handlers = ClientHandlers::new().with_extension(printing()).on_notification(
        "com.example/paperLow",
        move |params, _| {
            log.lock().unwrap().push(params.extra.get("sheets").unwrap().as_str().to_owned());
            async {}
        },
    );
    let clock = Arc::new(TestClock::default());
    let router = printer();
    let machine = StreamServer::new(router.config());
    let (_handle, mut server) =
        adapter::server(machine, clock.clone(), Arc::new(CountingEntropy::default()), router);
    let mut config = config();
    config.capabilities = handlers.capabilities().clone();
    let (client, mut driver) = adapter::client(StreamClient::new(config), clock, handlers);

    let mut queued = client.request_custom(PRINT, json!({"printer": "hall", "pages": 300})).start().unwrap();
    let mut done = client.request_custom(PRINT, json!({"printer": "hall", "pages": 1})).start().unwrap();
    let mut params = CustomParams::new();
    params.extra.insert("pages", 300);
    let mut typed = client.request::<Print>(params).start().unwrap();
    let mut cx = TaskContext::from_waker(Waker::noop());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let _: Poll<()> = driver.poll(&mut cx, |machine, now| {
            if let Some(LinkAction::Open) = machine.poll_link() {
                machine.handle_open(now);
            }
            machine.handle_input(now, core::mem::take(&mut down).into());
            let _ = machine.poll_transmit(&mut up);
            Poll::Pending
        });
        let _: Poll<()> = server.poll(&mut cx, |machine, now| {
            machine.handle_input(now, core::mem::take(&mut up).into());
            let _ = machine.poll_transmit(&mut down);
            Poll::Pending
        });
    }
    let queued = ready(poll(&mut queued)).unwrap();
    assert_eq!(queued.result_type, Some(ResultType::Other(QUEUED.into())));
    assert_eq!(queued.extra.get("position").unwrap().as_str(), "3");
    let done = ready(poll(&mut done)).unwrap();
    assert_eq!(done.result_type, Some(ResultType::Complete));
    match ready(poll(&mut typed)) {
        Err(Error::ExtensionResult { result_type, result }) => {
            assert_eq!(&*result_type, QUEUED);
            assert!(result.as_str().contains(r#""position":3"#));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*seen.lock().unwrap(), ["12", "12", "12"]);
}

/// The front's server, with the values of `Mcp-Name` that it receives.
struct NamedRequests {
    peer: FrontPeer,
    names: Arc<Mutex<Vec<String>>>,
}

impl HttpPeer for NamedRequests {
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        let named = request.headers.iter().filter(|(name, _)| name == "mcp-name");
        self.names.lock().unwrap().extend(named.map(|(_, value)| value.to_string()));
        self.peer.handle_request(now, exchange, request);
    }
    fn handle_disconnect(&mut self, now: Instant, exchange: u64) {
        self.peer.handle_disconnect(now, exchange);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.peer.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.peer.poll_timeout()
    }
    fn poll_output(&mut self, now: Instant) -> Option<(u64, HttpOutput)> {
        self.peer.poll_output(now)
    }
}

/// C1.8, C2.9: the machine of the client, without a front.
#[test]
fn extension_works_between_a_client_and_a_server_over_http() {
    let router = printer();
    let server_config = HttpServerConfig::new(router.config());
    let names = Arc::<Mutex<Vec<String>>>::default();
    let peer = FrontPeer::new(router, server_config, Arc::new(SimulatedClock::default()), 7);
    let peer = NamedRequests { peer, names: names.clone() };
    let mut config = ClientConfig::new(Implementation::new("client", "1"));
    config.extensions.push(printing());
    let client =
        HttpClient::new(HttpClientConfig::new(config, "http://localhost/mcp"), Instant::ORIGIN).unwrap();
    let mut pair = HttpPair::new(client, Box::new(peer), 7);
    let mut params = CustomParams::new();
    params.extra.insert("printer", "Büro");
    params.extra.insert("pages", 300);
    let now = pair.now();
    let options = RequestOptions::default();
    let printing = pair.client.at(now).send(OutgoingRequest::custom(PRINT, &params, options)).unwrap();
    pair.advance(Duration::from_secs(1));
    let (mut notified, mut ended) = (0, None);
    while let Some(event) = pair.client.poll_event() {
        match event {
            Event::Notification { method, .. } if &*method == "com.example/paperLow" => notified += 1,
            Event::Outcome { request, outcome } if request == printing => ended = Some(outcome),
            _ => {}
        }
    }
    assert_eq!(notified, 1);
    match ended.unwrap() {
        Outcome::ExtensionResult { result_type, .. } => assert_eq!(&*result_type, QUEUED),
        other => panic!("{other:?}"),
    }
    assert_eq!(*names.lock().unwrap(), ["=?base64?QsO8cm8=?="]);
}

// --- 2025-11-25 ---

/// Settings of an extension that is data alone.
fn charts() -> Value {
    json!({"formats": ["svg"]})
}

fn legacy_peer_declaring_everything() -> Value {
    json!({"extensions": {
        (apps::EXTENSION): {"mimeTypes": [apps::MEDIA_TYPE]}, CHARTS: charts(),
        PRINTING: {}, (tasks::EXTENSION): {}, (skills::EXTENSION): {"directoryRead": true},
    }})
}

/// C2.9, C14.11
#[test]
fn legacy_client_negotiates_extensions_without_messages_alone() {
    let handlers = ClientHandlers::new()
        .with_extension(printing())
        .with_extension(Extension::new(CHARTS).unwrap().with_settings(charts()))
        .declare(|declared| {
            *declared = core::mem::take(declared)
                .with_apps()
                .with(ClientCapability::TasksExtension)
                .with_extension(skills::EXTENSION, json!({}))
                .unwrap();
        });
    let mut config = config();
    config.era_policy = EraPolicy::LegacyOnly;
    let mut client = ClientHarness::open(config, handlers);
    let initialize = client.line();
    assert_eq!(
        initialize["params"]["capabilities"]["extensions"],
        json!({(apps::EXTENSION): apps::settings(), CHARTS: charts()})
    );

    let mut initialized = initialize_result(LEGACY);
    initialized["capabilities"]["extensions"] = legacy_peer_declaring_everything()["extensions"].take();
    client.answer(&initialize["id"], initialized);
    client.expect("notifications/initialized");
    let server = client.client.server().unwrap();
    let declared = server.capabilities.as_ref().unwrap();
    assert!(declared.has_extension(apps::EXTENSION));
    assert_eq!(declared.extension(CHARTS), Some(&Json::from(charts())));

    let print = client.client.request_custom(PRINT, ()).start();
    assert!(matches!(print, Err(Error::NotSent(RequestError::Extension { .. }))), "{print:?}");
    let list = client.client.request::<ListSkills>(PaginatedParams::new()).start();
    assert!(matches!(list, Err(Error::NotSent(RequestError::Revision { .. }))), "{list:?}");
    client.expect_silence();
    let _call = client.client.call_tool("print", json!({})).start().unwrap();
    let call = client.line();
    assert!(call["params"]["task"].is_null(), "{call}");
}

/// C2.9, S11.12
#[test]
fn legacy_server_negotiates_extensions_without_messages_alone() {
    let router = || {
        let router = printer()
            .extension(CHARTS, charts())
            .page("ui://printer/page.html", "printer", async |_, _| "<!doctype html>")
            .tasks(TaskConfig::default())
            .task_tool(tool("hold"), TaskChoice::Optional, async |NoArguments {}, cx: Context| {
                let shown = cx.client_capabilities().renders_apps();
                let charts = cx.extension(CHARTS).is_some();
                let printing = cx.notify_custom("com.example/paperLow", ()).is_ok();
                format!("{shown} {charts} {printing}")
            });
        #[cfg(feature = "skills")]
        let router = router.skill(mcp_proto::front::skills::InMemorySkill::new(
            "---\nname: refunds\ndescription: Pays money back\n---\nAsk first.\n",
        ));
        router
    };
    let initialized = ServerHarness::unintroduced(router()).result(
        "initialize",
        json!({
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"},
        }),
    );
    assert_eq!(initialized["capabilities"]["extensions"], json!({(apps::EXTENSION): {}, CHARTS: charts()}));

    let mut server = ServerHarness::legacy_with(router(), LEGACY, legacy_peer_declaring_everything());
    assert_eq!(server.call("hold", json!({}))["content"][0]["text"], "true true false", "no task");
    for method in [PRINT, "tasks/update", "skills/list"] {
        assert_eq!(server.error(method, json!({}))["code"], -32601, "{method}");
    }
}

// --- The client ---

#[test]
fn client_declares_its_extensions() {
    let mut client = ClientHarness::open(config(), ClientHandlers::new().with_extension(printing()));
    let probe = client.line();
    let declared = &probe["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!(declared[PRINTING], json!({"colour": true}));
}

/// C2.9
#[test]
fn client_sends_nothing_of_an_extension_to_a_server_that_does_not_declare_it() {
    let legacy = ClientHarness::legacy_with(ClientHandlers::new().with_extension(printing()));
    for mut client in [client_of(false), legacy] {
        let refusals = [
            client.client.request_custom(PRINT, ()).start().map(|_| ()),
            client.client.request::<Print>(CustomParams::new()).start().map(|_| ()),
            client.client.notify_custom("com.example/paperAdded", ()),
        ];
        for refused in refusals {
            match refused {
                Err(Error::NotSent(RequestError::Extension { extension, .. })) => {
                    assert_eq!(extension, PRINTING);
                }
                other => panic!("{other:?}"),
            }
        }
        client.expect_silence();
    }
    let mut client = client_of(true);
    client.client.notify_custom("com.example/paperAdded", ()).unwrap();
    client.expect("com.example/paperAdded");
    client.client.notify_custom("com.example/other", ()).unwrap();
    client.expect("com.example/other");
}

/// C2.9
#[test]
fn request_of_an_extension_that_waited_for_the_handshake_is_refused_too() {
    let mut client = ClientHarness::open(config(), ClientHandlers::new().with_extension(printing()));
    let id = client.expect("server/discover");
    let mut early = client.client.request_custom(PRINT, ()).start().unwrap();
    client.answer(&id, discover_result());
    assert!(matches!(ready(poll(&mut early)), Err(Error::NotSent(RequestError::Extension { .. }))));
    client.expect_silence();
}

/// C1.8
#[test]
fn client_accepts_result_types_of_negotiated_extensions_only() {
    let answer = json!({"resultType": QUEUED, "position": 3});
    let call = |client: &mut ClientHarness| {
        let mut call = client.client.call_tool("print", json!({})).start().unwrap();
        let id = client.expect("tools/call");
        client.answer(&id, answer.clone());
        ready(poll(&mut call))
    };
    let negotiated = call(&mut client_of(true));
    assert!(matches!(&negotiated, Err(Error::ExtensionResult { .. })), "{negotiated:?}");
    for mut client in [client_of(false), ClientHarness::modern()] {
        match call(&mut client) {
            Err(Error::Invalid(InvalidAnswerError::ResultType(name))) => assert_eq!(name, QUEUED),
            other => panic!("{other:?}"),
        }
    }
    let mut legacy = ClientHarness::legacy_with(ClientHandlers::new().with_extension(printing()));
    assert!(matches!(call(&mut legacy), Err(Error::Decode { .. }) | Ok(_)), "a plain result");
}

// --- The server ---

#[test]
fn server_declares_its_extensions() {
    let discovered = ServerHarness::modern(printer()).result("server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["extensions"], json!({PRINTING: {"colour": true}}));
}

/// C2.9
#[test]
fn server_refuses_methods_of_extensions_that_the_client_does_not_declare() {
    let mut server = ServerHarness::modern(printer());
    let error = server.error(PRINT, json!({}));
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"], declaring());
    let mut server = ServerHarness::legacy(printer());
    assert_eq!(server.error(PRINT, json!({}))["code"], -32601);
    let mut server = ServerHarness::modern_with(Router::new("other", "1"), declaring());
    assert_eq!(server.error(PRINT, json!({}))["code"], -32601);
    let unanswered = Router::new("idle", "1").with_extension(printing());
    let mut server = ServerHarness::modern_with(unanswered, declaring());
    assert_eq!(server.error(PRINT, json!({}))["code"], -32601, "no handler");
}

/// C1.8
#[test]
fn server_returns_result_types_of_negotiated_extensions_only() {
    let router = |extension: Option<Extension>| {
        let router = Router::new("printer", "1").tool_with(tool("print"), async |NoArguments {}, _| {
            let mut result = CallToolResult::new();
            result.result_type = Some(ResultType::Other(QUEUED.into()));
            result
        });
        extension.into_iter().fold(router, Router::with_extension)
    };
    let call = json!({"name": "print", "arguments": {}});
    let mut server = ServerHarness::modern_with(router(Some(printing())), declaring());
    assert_eq!(server.result("tools/call", call.clone())["resultType"], QUEUED);
    let mut server = ServerHarness::modern(router(Some(printing())));
    let error = server.error("tools/call", call.clone());
    assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &declaring()));
    let mut server = ServerHarness::modern_with(router(None), declaring());
    assert_eq!(server.error("tools/call", call)["code"], -32603);
}

#[test]
fn server_notifies_of_an_extension_only_clients_that_declare_it() {
    let router = || {
        Router::new("printer", "1").with_extension(printing()).tool_with(
            tool("print"),
            async |NoArguments {}, cx: Context| match cx.notify_custom("com.example/paperLow", ()) {
                Ok(()) => "notified",
                Err(Error::NotSent(RequestError::Extension { .. })) => "undeclared",
                Err(_) => "failed",
            },
        )
    };
    let mut server = ServerHarness::modern(router());
    assert_eq!(server.call("print", json!({}))["content"][0]["text"], "undeclared");
    let mut server = ServerHarness::legacy(router());
    assert_eq!(server.call("print", json!({}))["content"][0]["text"], "undeclared");
    let mut server = ServerHarness::modern_with(router(), declaring());
    server.send("tools/call", json!({"name": "print", "arguments": {}}));
    assert_eq!(server.line()["method"], "com.example/paperLow");
    assert_eq!(server.line()["result"]["content"][0]["text"], "notified");
}

#[test]
fn server_checks_the_name_header_of_extension_methods() {
    let web = HttpHarness::new(printer());
    let params = json!({"printer": "hall", "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": declaring(),
    }});
    let body = request(&json!(1), PRINT, params).to_string();
    let of = |name: Option<&'static str>| {
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", PRINT)];
        headers.extend(name.map(|name| ("mcp-name", name)));
        web.send("POST", &headers, &body)
    };
    for wrong in [None, Some("office")] {
        let mut caller = of(wrong);
        assert_eq!(caller.head().status, 400, "{wrong:?}");
        assert_eq!(caller.json()["error"]["code"], -32020);
    }
    let mut caller = of(Some("hall"));
    assert_eq!(caller.head().status, 200);
}
