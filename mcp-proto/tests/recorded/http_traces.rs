//! Sessions over HTTP: all requests and responses, with their headers.

use core::fmt::Write as _;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::Instant;
use mcp_proto::front::http::HttpHandle;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, Event, State, TaskCommand, WatchFilter, WatchStart};
use mcp_proto::peer::server::{Eras, ListKind, SealKey, Sealer};
use mcp_proto::peer::{Outcome, RequestId, RequestOptions, TaskMode};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitResult, ElicitValue, Era, Implementation, ListTools,
    LoggingLevel, Map, PaginatedParams, Resource, ServerCapability, Tool,
};
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::{FrontPeer, HttpOutput, HttpPair, HttpPeer};
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, HttpRequest};
use mcp_proto::transport::http::server::HttpServerConfig;
use serde_json::{Value, json};

use crate::common::tools::{name_form, named, tool};
use crate::fixtures::{check, one_line};

const URL: &str = "http://localhost:3000/mcp";
const FILE: &str = "file:///project/config.json";

type Trace = Arc<Mutex<String>>;

/// A server whose requests and responses are recorded.
struct RecordingServer {
    peer: FrontPeer,
    trace: Trace,
}

impl RecordingServer {
    fn note(&self, line: &str) {
        let mut trace = self.trace.lock().unwrap();
        trace.push_str(line);
        trace.push('\n');
    }
}

impl HttpPeer for RecordingServer {
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        self.note(&format!("> {exchange} {} {}", request.verb.as_str(), request.url));
        for (name, value) in &request.headers {
            self.note(&format!("> {exchange} {name}: {value}"));
        }
        if !request.body.is_empty() {
            self.note(&format!("> {exchange} body {}", one_line(&request.body)));
        }
        self.peer.handle_request(now, exchange, request);
    }

    fn handle_disconnect(&mut self, now: Instant, exchange: u64) {
        self.note(&format!("> {exchange} disconnects"));
        self.peer.handle_disconnect(now, exchange);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peer.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peer.poll_timeout()
    }

    fn poll_output(&mut self, now: Instant) -> Option<(u64, HttpOutput)> {
        let (exchange, output) = self.peer.poll_output(now)?;
        match &output {
            HttpOutput::Head { status, headers } => {
                self.note(&format!("< {exchange} {status}"));
                for (name, value) in headers {
                    self.note(&format!("< {exchange} {name}: {value}"));
                }
            }
            HttpOutput::Body(bytes) => self.note(&format!("< {exchange} body {}", one_line(bytes))),
            HttpOutput::End => self.note(&format!("< {exchange} ends")),
        }
        Some((exchange, output))
    }
}

/// A server with a tool for each feature of a call.
fn router(clock: &Arc<SimulatedClock>) -> Router {
    let waits = || clock.clone();
    let (work, hold, patient, job) = (waits(), waits(), waits(), waits());
    let region = json!({
        "properties": {"n": {"type": "integer"}, "region": {"type": "string", "x-mcp-header": "Region"}},
        "type": "object",
    });
    let second = Duration::from_secs(1);
    Router::new("recorded", "2.0")
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::ResourcesSubscribe)
        .declare(ServerCapability::Logging)
        .seal(Sealer::new(SealKey::new([1; 32]), []))
        .tasks(TaskConfig::default())
        .resource(Resource::new(FILE, "config"), async |_, _: Context| "{}")
        .tool_with(Tool::new("look", "Looks something up", region), async |found: Value, _: Context| {
            format!("{found}")
        })
        .tool_with(tool("work"), move |NoArguments {}, cx: Context| {
            let clock = work.clone();
            async move {
                for done in 1..=2_u32 {
                    clock.sleep(second).await;
                    cx.progress(Progress::new(done).total(2_u32).message(format!("step {done}")));
                }
                cx.log(LoggingLevel::Warning, "careful");
                "done"
            }
        })
        .tool_with(tool("hold"), move |NoArguments {}, _: Context| {
            let clock = hold.clone();
            async move {
                clock.sleep(second * 1000).await;
                "late"
            }
        })
        // It closes the stream of its response, which the client resumes.
        .tool_with(tool("patient"), move |NoArguments {}, cx: Context| {
            let clock = patient.clone();
            async move {
                cx.progress(1_u32);
                cx.close_sse_stream();
                clock.sleep(second * 5).await;
                "resumed"
            }
        })
        .tool_with(tool("greet"), async |NoArguments {}, cx: Context| {
            Ok::<_, HandlerError>(format!("Hello, {}!", named(&cx.elicit("name", name_form()).await?)))
        })
        .task_tool(tool("job"), TaskChoice::Optional, move |NoArguments {}, cx: Context| {
            let clock = job.clone();
            async move {
                clock.sleep(second).await;
                let name = named(&cx.elicit("name", name_form()).await?);
                Ok::<_, HandlerError>(format!("a job for {name}"))
            }
        })
}

struct TracedPeers {
    pair: HttpPair,
    trace: Trace,
    server: HttpHandle,
    outcomes: Vec<(RequestId, Outcome)>,
}

impl TracedPeers {
    fn new(mode: EraPolicy, eras: Eras) -> Self {
        let mut client = ClientConfig::new(Implementation::new("client", "1.0"));
        client.era_policy = mode;
        for capability in [ClientCapability::ElicitationForm, ClientCapability::TasksExtension] {
            client.capabilities = client.capabilities.with(capability);
        }
        let client = HttpClient::new(HttpClientConfig::new(client, URL), Instant::ORIGIN).unwrap();
        let clock = Arc::new(SimulatedClock::default());
        let router = router(&clock);
        router.check().unwrap();
        let mut config = router.config();
        config.eras = eras;
        let peer = FrontPeer::new(router, HttpServerConfig::new(config), clock, 7);
        let server = peer.server.handle().clone();
        let trace = Trace::default();
        let pair = HttpPair::new(client, Box::new(RecordingServer { peer, trace: trace.clone() }), 7);
        Self { pair, trace, server, outcomes: Vec::new() }
    }

    /// Advances by this many seconds, while the client answers input requests.
    fn run(&mut self, step: &str, seconds: u32) {
        writeln!(self.trace.lock().unwrap(), "--- {step}").unwrap();
        for _ in 0..seconds * 10 {
            self.pair.advance(Duration::from_millis(100));
            while let Some(event) = self.pair.client.poll_event() {
                match event {
                    Event::Request { id, method, .. } => {
                        assert_eq!(method.name, "elicitation/create");
                        let alice = [("name", ElicitValue::String("Alice".into()))];
                        let alice = ElicitResult::accept(alice.into_iter().collect::<Map<_>>());
                        self.pair.client.at(self.pair.now()).respond(id, Ok(&alice));
                    }
                    Event::Outcome { request, outcome } => self.outcomes.push((request, outcome)),
                    _ => {}
                }
            }
        }
    }

    fn start(&mut self, tool: &str, arguments: Value, options: RequestOptions) -> RequestId {
        let mut params = CallToolParams::new(tool);
        params.arguments = Some(serde_json::from_value(arguments).unwrap());
        self.pair.client.at(self.pair.now()).request::<CallTool>(&params, options).unwrap()
    }

    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value, options: RequestOptions, seconds: u32, text: &str) {
        let call = self.start(tool, arguments, options);
        self.run(tool, seconds);
        let outcome = self.outcomes.iter().find(|(request, _)| *request == call);
        match outcome {
            Some((_, Outcome::Result(result))) => assert!(result.as_str().contains(text), "{result:?}"),
            other => panic!("{tool}: {other:?}"),
        }
    }
}

impl TracedPeers {
    /// Calls `job` as a task without waiting for it; returns its identifier.
    #[track_caller]
    fn begin_task(&mut self) -> String {
        let mut options = RequestOptions::default();
        options.task = Some(TaskMode::Handle);
        let call = self.start("job", json!({}), options);
        self.run("a job as a task", 1);
        match self.outcomes.iter().find(|(request, _)| *request == call) {
            Some((_, Outcome::Task(report))) => report.id.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// The same session in either era.
fn session(mode: EraPolicy, eras: Eras, era: Era) -> String {
    let mut t = TracedPeers::new(mode, eras);
    t.run("connect", 1);
    assert_eq!(t.pair.client.state(), State::Ready);
    assert_eq!(t.pair.client.peer().server().map(|server| server.era), Some(era));
    let options = RequestOptions::default;

    t.pair.client.at(t.pair.now()).request::<ListTools>(&PaginatedParams::default(), options()).unwrap();
    t.run("tools/list", 1);
    let found = json!({"n": 7, "region": "\u{fc}ber all"});
    t.call("look", found, options(), 1, "ber all");
    let mut logged = options();
    logged.log_level = (era == Era::Modern).then_some(LoggingLevel::Info);
    t.call("work", json!({}), logged, 3, "done");

    let call = t.start("hold", json!({}), options());
    t.run("a call to be cancelled", 1);
    t.pair.client.at(t.pair.now()).cancel(call, Some("not needed"));
    t.run("cancel", 1);

    let interest = WatchFilter::new().tools().resource(FILE);
    let watch = t.pair.client.at(t.pair.now()).watch(interest, WatchStart::Now).unwrap();
    t.run("watch", 1);
    t.server.list_changed(ListKind::Tools);
    t.server.resource_updated(FILE);
    t.run("changes", 1);
    t.pair.client.at(t.pair.now()).unwatch(watch);
    t.run("unwatch", 1);

    t.call("greet", json!({}), options(), 2, "Hello, Alice!");
    if era == Era::Legacy {
        t.call("patient", json!({}), options(), 12, "resumed");
    }
    let mut task = options();
    task.task = Some(TaskMode::Await);
    t.call("job", json!({}), task, 10, "a job for Alice");
    let id = t.begin_task();
    t.pair.client.at(t.pair.now()).task(&id, TaskCommand::Follow, options()).unwrap();
    t.run("its task is followed", 5);
    let id = t.begin_task();
    t.pair.client.at(t.pair.now()).task(&id, TaskCommand::Cancel, options()).unwrap();
    t.run("its task is cancelled", 2);

    t.pair.client.at(t.pair.now()).close();
    t.run("close", 2);
    t.trace.lock().unwrap().clone()
}

/// C4.4, C4.6, C9.14
#[test]
fn http_peers_of_2026_07_28_send_the_recorded_bytes() {
    check("http_2026-07-28.txt", &session(EraPolicy::Auto, Eras::Both, Era::Modern));
}

#[test]
fn http_peers_of_2025_11_25_send_the_recorded_bytes() {
    check("http_2025-11-25.txt", &session(EraPolicy::LegacyOnly, Eras::Both, Era::Legacy));
}

/// The client probes for the modern era first.
#[test]
fn http_peers_fall_back_to_2025_11_25_by_the_recorded_bytes() {
    check("http_fallback.txt", &session(EraPolicy::Auto, Eras::LegacyOnly, Era::Legacy));
}
