//! Messages that pass through layers, on their way between machines and transports.

use core::num::NonZeroUsize;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};

use mcp_proto::codec::{Line, Lines};
use mcp_proto::front::layer::{Decision, Layer, LayerMessage, LayerMessageKind, Layers, MessageDirection};
use mcp_proto::front::{Client, ClientHandlers, Context, HandlerMode, NoArguments, Router, WatchUpdate};
use mcp_proto::peer::Principal;
use mcp_proto::peer::client::Keepalive;
use mcp_proto::rpc::{ErrorObject, Raw};
use mcp_proto::schema::{CachedPage, Json, ListTools, ListToolsResult, Revision, ServerCapability, Tool};
use mcp_proto::testing::{self, CountingEntropy, Network, RouterPair, SimulatedClock};
use mcp_proto::transport::StreamServer;
use mcp_proto::{Bytes, adapter};
use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::common::front_http::HttpHarness;

/// The texts that a layer sees, with their directions.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<(MessageDirection, String)>>>);

impl<M: HandlerMode> Layer<M> for Recorder {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        let text = String::from_utf8_lossy(message.as_bytes()).into_owned();
        self.0.lock().unwrap().push((message.direction(), text));
        Decision::Keep
    }
}

impl Recorder {
    pub(crate) fn texts(&self, direction: MessageDirection) -> Vec<String> {
        let seen = self.0.lock().unwrap();
        seen.iter().filter(|(own, _)| *own == direction).map(|(_, text)| text.clone()).collect()
    }

    pub(crate) fn methods(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap();
        let method =
            |text: &str| serde_json::from_str::<Value>(text).unwrap()["method"].as_str().map(str::to_owned);
        seen.iter().filter_map(|(_, text)| method(text)).collect()
    }
}

/// A layer that leaves messages to the default.
#[derive(Clone)]
struct Silent;

impl<M: HandlerMode> Layer<M> for Silent {}

/// A layer around a silent one, to which it passes each message that it has recorded.
struct Around(Recorder, Silent);

impl<M: HandlerMode> Layer<M> for Around {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        let decision = Layer::<M>::message(&self.0, message);
        assert_eq!(Layer::<M>::message(&self.1, message), Decision::Keep);
        decision
    }
}

/// A client's layers, those of a host's connection: a recorder between silent ones.
fn client_layers(recorder: &Recorder) -> ClientHandlers {
    let mut layers = Layers::new();
    layers.push(Silent);
    layers.push(Around(recorder.clone(), Silent));
    layers.push(Silent);
    ClientHandlers::new().within_layers(&layers.of_connection("server"))
}

/// A layer made of a function.
pub(crate) struct Each<F>(F);

impl<M: HandlerMode, F: Fn(&mut LayerMessage<'_>) -> Decision + 'static> Layer<M> for Each<F> {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        (self.0)(message)
    }
}

/// Closures with this bound are inferred for every lifetime.
pub(crate) fn each<F: Fn(&mut LayerMessage<'_>) -> Decision + 'static>(act: F) -> Each<F> {
    Each(act)
}

pub(crate) fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

pub(crate) fn router() -> Router {
    Router::new("layered", "1.0.0")
        .declare(ServerCapability::ToolsListChanged)
        .tool_with(tool("echo"), async |arguments: Value, cx: Context| {
            json!({ "arguments": arguments, "meta": cx.meta().get("com.example/tenant") }).to_string()
        })
        .tool_with(tool("steps"), async |NoArguments {}, cx: Context| {
            for step in 1..=3 {
                cx.progress(step);
                futures_lite::future::yield_now().await;
            }
            "done"
        })
        .tool_with(tool("never"), async |NoArguments {}, _| core::future::pending::<()>().await)
}

/// The lines of one direction of a transcript.
fn lines(transcript: &str, mark: &str) -> Vec<String> {
    transcript.lines().filter_map(|line| line.split_once(mark)).map(|(_, text)| text.to_owned()).collect()
}

/// Reads a list, calls tools, cancels one, receives a change and is pinged.
async fn use_everything(client: Client, change: impl Fn(), wait: impl AsyncFn(Duration)) {
    client.list_tools().await.unwrap();
    client.call_tool("echo", json!({"a": 1})).await.unwrap();
    let mut call = client.call_tool("steps", json!({})).start().unwrap();
    while call.progress().await.is_some() {}
    call.await.unwrap();
    let never = client.call_tool("never", json!({})).start().unwrap();
    wait(Duration::from_secs(1)).await;
    drop(never);
    let mut watch = client.watch().tools().open().unwrap();
    assert!(matches!(watch.next().await, Some(WatchUpdate::Active { .. })));
    change();
    assert!(matches!(watch.next().await, Some(WatchUpdate::Changed { .. })));
    wait(Duration::from_secs(90)).await;
}

/// Handshake, discovery, pings, progress, cancellations, acknowledgements and events: everything on the wire.
#[test]
fn layers_of_both_sides_see_each_message_over_http() {
    for is_legacy in [false, true] {
        for chunk in [None, NonZeroUsize::new(1)] {
            let (of_server, of_client) = (Recorder::default(), Recorder::default());
            let live = router().layer(Silent).layer(of_server.clone()).layer(Silent).live();
            let mut pair = testing::pair(live.clone())
                .http()
                .handlers(client_layers(&of_client))
                .configure(|client| client.keepalive = Some(Keepalive::BUSY_TOLERANT))
                .network(Network { chunk, ..Network::default() });
            if is_legacy {
                pair = pair.legacy();
            }
            let clock = pair.time().clone();
            let change = || live.update(|router| router.remove_tool("never")).map(drop).unwrap();
            pair.run(async |client| {
                use_everything(client, change, async |time| clock.sleep(time).await).await;
            });
            for (direction, other) in [
                (MessageDirection::Sent, MessageDirection::Received),
                (MessageDirection::Received, MessageDirection::Sent),
            ] {
                // Exchanges overtake each other.
                let (mut own, mut others) = (of_client.texts(direction), of_server.texts(other));
                own.sort();
                others.sort();
                assert_eq!(own, others);
            }
            let methods = of_client.methods();
            let expected = match is_legacy {
                true => ["initialize", "notifications/initialized", "ping", "notifications/cancelled"],
                false => [
                    "server/discover",
                    "subscriptions/listen",
                    "notifications/subscriptions/acknowledged",
                    "notifications/progress",
                ],
            };
            for method in expected.into_iter().chain(["notifications/tools/list_changed"]) {
                assert!(methods.iter().any(|seen| seen == method), "{method}: {methods:?}");
            }
        }
    }
}

#[test]
fn layers_of_both_sides_see_each_message_in_the_order_of_the_wire() {
    for is_legacy in [false, true] {
        for chunk in [None, NonZeroUsize::new(1)] {
            let (of_server, of_client) = (Recorder::default(), Recorder::default());
            let live = router().layer(Silent).layer(of_server.clone()).layer(Silent).live();
            let mut pair = testing::pair(live.clone())
                .handlers(client_layers(&of_client))
                .configure(|client| client.keepalive = Some(Keepalive::BUSY_TOLERANT))
                .network(Network { chunk, ..Network::default() });
            if is_legacy {
                pair = pair.legacy();
            }
            let clock = pair.time().clone();
            let change = || live.update(|router| router.remove_tool("never")).map(drop).unwrap();
            pair.run(async |client| {
                use_everything(client, change, async |time| clock.sleep(time).await).await
            });

            let transcript = pair.transcript();

            let (to_server, to_client) = (lines(&transcript, " > "), lines(&transcript, " < "));
            assert_eq!(of_client.texts(MessageDirection::Sent), to_server);
            assert_eq!(of_server.texts(MessageDirection::Received), to_server);
            assert_eq!(of_server.texts(MessageDirection::Sent), to_client);
            assert_eq!(of_client.texts(MessageDirection::Received), to_client);
            let methods = of_client.methods();
            let expected = match is_legacy {
                true => {
                    ["initialize", "notifications/initialized", "ping", "notifications/tools/list_changed"]
                }
                false => [
                    "server/discover",
                    "subscriptions/listen",
                    "notifications/subscriptions/acknowledged",
                    "notifications/tools/list_changed",
                ],
            };
            for method in expected.into_iter().chain(["notifications/progress", "notifications/cancelled"]) {
                assert!(methods.iter().any(|seen| seen == method), "{method}: {methods:?}");
            }
        }
    }
}

/// Such layers see no message after the first.
#[test]
fn layers_that_leave_messages_to_the_default_change_no_byte() {
    let transcript = |is_http: bool, is_legacy: bool, is_layered: bool| {
        let (router, handlers) = match is_layered {
            true => (router().layer(Silent).layer(Silent), ClientHandlers::new().layer(Silent)),
            false => (router(), ClientHandlers::new()),
        };
        let live = router.live();
        let mut pair = testing::pair(live.clone()).handlers(handlers);
        if is_http {
            pair = pair.http();
        }
        if is_legacy {
            pair = pair.legacy();
        }
        let clock = pair.time().clone();
        let change = || live.update(|router| router.remove_tool("never")).map(drop).unwrap();
        pair.run(async |client| use_everything(client, change, async |time| clock.sleep(time).await).await);
        pair.transcript()
    };
    for (is_http, is_legacy) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(transcript(is_http, is_legacy, true), transcript(is_http, is_legacy, false));
    }
}

/// The pairs of both eras, by a stream and over HTTP, whose client has this layer.
pub(crate) fn pairs(router: Router, layer: impl Layer + Send + Sync + Clone) -> [RouterPair; 4] {
    let pair = || testing::pair(router.clone()).handlers(ClientHandlers::new().layer(layer.clone()));
    [pair(), pair().legacy(), pair().http(), pair().http().legacy()]
}

/// What the tool `echo` tells.
pub(crate) async fn echo(client: &Client, arguments: Value) -> Value {
    let result = client.call_tool("echo", arguments).await.unwrap();
    serde_json::from_str(&result.text_content()).unwrap()
}

#[derive(Clone)]
struct Tenant;

impl<M: HandlerMode> Layer<M> for Tenant {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        if message.direction() == MessageDirection::Sent && message.method() == Some("tools/call") {
            message.insert_meta("com.example/tenant", "blue").unwrap();
            assert_eq!(message.meta("com.example/tenant").unwrap().as_str(), "\"blue\"");
            message.insert_meta("com.example/gone", &1).unwrap();
            message.remove_meta("com.example/gone").unwrap();
            message.remove_meta("com.example/missing").unwrap();
        }
        Decision::Keep
    }
}

#[test]
fn layer_of_a_client_adds_meta_and_keeps_the_rest() {
    for mut pair in pairs(router(), Tenant) {
        let told = pair.run(async |client| echo(&client, json!({"a": [1, "ü"]})).await);
        assert_eq!(told, json!({"arguments": {"a": [1, "ü"]}, "meta": "blue"}));
        let transcript = pair.transcript();
        let line = transcript.lines().find(|line| line.contains("tools/call")).unwrap();
        let call = &line[line.find(r#"{"jsonrpc""#).unwrap()..];
        let call = Value::deserialize(&mut serde_json::Deserializer::from_str(call)).unwrap();
        let meta = &call["params"]["_meta"];
        assert!(meta["progressToken"].is_number() && meta["com.example/gone"].is_null(), "{meta}");
    }
}

/// Sets the arguments of calls, the text of results and the messages of errors.
#[derive(Clone)]
struct Editor;

impl<M: HandlerMode> Layer<M> for Editor {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        match (message.kind(), message.direction()) {
            (LayerMessageKind::Request, MessageDirection::Sent) if message.method() == Some("tools/call") => {
                let mut params: Value = message.params().unwrap().decode().unwrap();
                params["arguments"] = json!({"edited": true});
                message
                    .set_params(Raw::new(serde_json::to_string_pretty(&params).unwrap()).unwrap())
                    .unwrap();
            }
            (LayerMessageKind::Result, MessageDirection::Received) => {
                let mut result: Value = message.result().unwrap().decode().unwrap();
                if result["content"].is_array() {
                    result["content"][0]["text"] =
                        json!(format!("<{}>", result["content"][0]["text"].as_str().unwrap()));
                    message.set_result(Raw::encode(&result).unwrap()).unwrap();
                }
            }
            (LayerMessageKind::Error, _) => {
                let code = message.error().unwrap().code;
                message.set_error(ErrorObject::new(code, "edited")).unwrap();
            }
            _ => {}
        }
        Decision::Keep
    }
}

/// Line breaks of new values become spaces, as in every message.
#[test]
fn layer_changes_parameters_results_and_errors() {
    for mut pair in pairs(router(), Editor) {
        let (result, error) = pair.run(async |client| {
            let result = client.call_tool("echo", json!({"edited": false})).await.unwrap();
            (result.text_content(), client.call_tool("missing", json!({})).await.unwrap_err())
        });
        let expected = r#"<{"arguments":{"edited":true},"meta":null}>"#;
        assert_eq!(result, expected);
        assert!(error.to_string().contains("edited"), "{error}");
    }
}

/// What a layer put into a list must not be what a later call gets from the cache, nor the answer to what it asked instead.
#[test]
fn changed_messages_never_enter_the_cache_of_the_client() {
    let kinds: [fn(&mut LayerMessage<'_>); 4] = [
        |_| {},
        |message| {
            if message.method() == Some("tools/list") {
                message.insert_meta("com.example/tenant", "blue").unwrap();
            }
        },
        |message| {
            if message.result().is_some_and(|result| result.as_str().contains("\"tools\":[")) {
                message.insert_meta("com.example/tenant", "blue").unwrap();
            }
        },
        |message| {
            if message.method() == Some("tools/list") {
                let params = message.params().unwrap().as_str();
                message.set_params(Raw::new(params.replacen('{', "{\"more\":1,", 1)).unwrap()).unwrap();
            }
        },
    ];
    for (kind, expected) in kinds.into_iter().zip([1, 1, 2, 2]) {
        for is_http in [false, true] {
            let asked = Arc::new(Mutex::new(0));
            let count = asked.clone();
            let router = Router::new("test", "1").handler::<ListTools, _, _>(move |_, _| {
                *count.lock().unwrap() += 1;
                async { CachedPage::new(Duration::from_secs(60), ListToolsResult::new(vec![tool("real")])) }
            });
            let layer = each(move |message| {
                kind(message);
                Decision::Keep
            });
            let pair = testing::pair(router).handlers(ClientHandlers::new().layer(layer));
            let mut pair = if is_http { pair.http() } else { pair };
            pair.run(async |client| {
                assert_eq!(client.list_tools().await.unwrap().len(), 1);
                assert_eq!(client.list_tools().await.unwrap().len(), 1);
            });
            assert_eq!(*asked.lock().unwrap(), expected, "HTTP {is_http}");
        }
    }
}

/// What a layer knows of a message beside the text: the revision and the principal.
#[test]
fn layer_knows_the_revision_and_the_principal_of_a_message() {
    let facts = || {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let facts = seen.clone();
        let layer = each(move |message| {
            let principal = message.principal().map(|principal| principal.as_str().to_owned());
            assert!(message.server_name().is_none());
            facts.lock().unwrap().push((message.revision().map(Revision::as_str), principal));
            Decision::Keep
        });
        (seen, layer)
    };
    for (is_http, is_legacy) in [(false, false), (false, true), (true, false), (true, true)] {
        let ((of_client, client_layer), (of_server, server_layer)) = (facts(), facts());
        let pair = testing::pair(router().layer(server_layer));
        let pair = pair.handlers(ClientHandlers::new().layer(client_layer));
        let pair = if is_http { pair.http() } else { pair };
        let mut pair = if is_legacy { pair.legacy() } else { pair };
        pair.run(async |client| echo(&client, json!({})).await);
        let revision = if is_legacy { "2025-11-25" } else { "2026-07-28" };
        let last = |seen: &Mutex<Vec<(_, Option<String>)>>| seen.lock().unwrap().last().unwrap().clone();
        assert_eq!(last(&of_client), (Some(revision), None));
        // Over a stream, a server of 2026-07-28 has no session: each request has its revision.
        let of_connection = Some(revision).filter(|_| is_http || is_legacy);
        assert_eq!(last(&of_server), (of_connection, None), "HTTP {is_http}");
    }
    let (seen, layer) = facts();
    let mut web = HttpHarness::new(router().layer(layer));
    web.principal = Some(Principal::new("ada"));
    web.ask("tools/call", json!({"name": "echo", "arguments": {}})).json();
    let expected = (Some("2026-07-28"), Some("ada".to_owned()));
    assert_eq!(*seen.lock().unwrap(), [expected.clone(), expected]);
}

/// The layer outside of another one reads the same text that is sent.
#[test]
fn text_of_a_message_has_the_changes_of_the_layers_before() {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let seen = texts.clone();
    let look = each(move |message| {
        if message.method() == Some("tools/call") {
            seen.lock().unwrap().push(String::from_utf8(message.as_bytes().to_vec()).unwrap());
        }
        Decision::Keep
    });
    let mark = each(|message| {
        if message.method() == Some("tools/call") {
            let before = message.as_bytes().to_vec();
            for value in 1..=2 {
                message.insert_meta("com.example/tenant", &value).unwrap();
            }
            assert_ne!(message.as_bytes(), before);
        }
        Decision::Keep
    });
    let mut pair = testing::pair(router()).handlers(ClientHandlers::new().layer(look).layer(mark));
    pair.run(async |client| assert_eq!(echo(&client, json!({})).await["meta"], 2));
    let texts = texts.lock().unwrap();
    let sent = lines(&pair.transcript(), " > ");
    assert!(texts.len() == 1 && sent.contains(&texts[0]), "{texts:?} {sent:?}");
}

/// Uses the handle of its client at each message.
#[derive(Clone, Default)]
struct Reentrant(Arc<OnceLock<Client>>);

impl<M: HandlerMode> Layer<M> for Reentrant {
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        if let Some(client) = self.0.get() {
            let _ = client.state();
            if message.method() == Some("notifications/progress") {
                client.notify_custom("com.example/seen", json!({})).unwrap();
            }
        }
        Decision::Keep
    }
}

#[test]
fn layer_uses_the_handle_of_its_client_while_a_message_passes() {
    let layer = Reentrant::default();
    let handlers = ClientHandlers::new().layer(layer.clone());
    let mut pair = testing::pair(router()).handlers(handlers);
    pair.run(async |client| {
        layer.0.set(client.clone()).unwrap();
        client.call_tool("steps", json!({})).on_progress(|_| ()).await.unwrap();
        client.call_tool("steps", json!({})).await.unwrap();
    });
    assert!(pair.transcript().contains("com.example/seen"));
}

/// What a server answers to chunks.
fn serve(router: Router, chunks: impl IntoIterator<Item = Bytes>) -> String {
    let clock = Arc::new(SimulatedClock::default());
    let mut config = router.config();
    config.limits.message_bytes = 1000;
    let entropy = Arc::new(CountingEntropy::new(1));
    let (_handle, mut driver) = adapter::server(StreamServer::new(config), clock, entropy, router);
    let mut cx = TaskContext::from_waker(Waker::noop());
    let mut output = Vec::new();
    for chunk in chunks {
        driver.lock(|machine, now| machine.handle_input(now, chunk));
        while driver
            .poll(
                &mut cx,
                |machine, _| if machine.poll_transmit(&mut output) { Poll::Ready(()) } else { Poll::Pending },
            )
            .is_ready()
        {}
    }
    String::from_utf8(output).unwrap()
}

fn initialize(revision: &str) -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
        },
    });
    format!("{hello}\n{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n")
}

/// R1
#[test]
fn layer_sees_each_message_of_a_batch() {
    let seen = Recorder::default();
    let no_news = each(|message| match message.method() {
        Some("com.example/news") => Decision::Drop,
        Some("tools/call") => {
            message.insert_meta("com.example/tenant", "green").unwrap();
            Decision::Keep
        }
        _ => Decision::Keep,
    });
    let router = router().layer(no_news).layer(seen.clone());
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "com.example/news"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {}}},
        7,
    ]);
    let input = format!(
        "{}{batch}\n[{{\"jsonrpc\":\"2.0\",\"method\":\"com.example/news\"}}]\n",
        initialize("2025-03-26")
    );
    let output = serve(router, [Bytes::from(input)]);
    let answers: Value = serde_json::from_str(output.lines().nth(1).unwrap()).unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 3, "{output}");
    assert!(output.contains("green"), "{output}");
    let methods: Vec<_> = seen
        .texts(MessageDirection::Received)
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap()["method"].clone())
        .collect();
    assert_eq!(
        methods,
        [
            json!("initialize"),
            json!("notifications/initialized"),
            json!("ping"),
            json!("tools/call"),
            Value::Null
        ]
    );
    assert_eq!(output.lines().count(), 2, "a batch of which nothing is left does not arrive");
}

/// Lines of which some are messages.
fn any_line() -> impl Strategy<Value = String> {
    let call = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"a": 1}}});
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    prop_oneof![
        (0..4_i64).prop_map(move |id| call(json!(id)).to_string()),
        Just(ping.to_string()),
        Just(json!([ping, 7, call(json!(9))]).to_string()),
        Just(
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
                .to_string()
        ),
        Just("[]".to_owned()),
        Just("[[]]".to_owned()),
        Just(" \t\r".to_owned()),
        "[\\[\\]{}\":,a0 \\\\]{0,20}",
        "[x]{990,1010}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Layers that change nothing change nothing, however the input is cut; and they see every line.
    #[test]
    fn idle_layers_leave_every_byte_as_it_is(
        lines in proptest::collection::vec(any_line(), 0..8),
        chunk in 1..40_usize,
    ) {
        let input = initialize("2025-03-26") + &lines.join("\n") + "\n";
        let chunks = |size: usize| input.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        let plain = serve(router(), chunks(usize::MAX));
        let (whole, cut) = (Recorder::default(), Recorder::default());
        prop_assert_eq!(&serve(router().layer(whole.clone()).layer(Each(|_: &mut LayerMessage<'_>| Decision::Keep)), chunks(usize::MAX)), &plain);
        serve(router().layer(cut.clone()), chunks(chunk));
        prop_assert_eq!(cut.texts(MessageDirection::Received), whole.texts(MessageDirection::Received));

        let mut expected = Lines::new(1000);
        expected.handle_input(Bytes::from(input.clone()));
        let mut singles = Vec::new();
        while let Some(line) = expected.poll_line() {
            match line {
                Line::Whole(text) if text.starts_with(b"[") => {}
                Line::Whole(text) | Line::TooLong { head: text, .. } => singles.push(String::from_utf8(text.to_vec()).unwrap()),
            }
        }
        let seen = whole.texts(MessageDirection::Received);
        for line in singles {
            prop_assert!(seen.contains(&line), "{}", line);
        }
    }
}
