//! The contracts at the head of `mcp-proto`'s documentation, as properties of two peers on a simulated network.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_hyper::host::TraceFile;
use mcp_proto::front::ReplayOutcome;
use mcp_proto::fuzzing::Recording;
use mcp_proto::peer::client::{
    self, ClientConfig, EraPolicy, LinkAction, State, TaskCommand, WatchFilter, WatchId, WatchStart,
    WatchState,
};
use mcp_proto::peer::server::{self, Answer, Eras, ListKind, ServerConfig};
use mcp_proto::peer::{AnyResult, InboundId, Outcome, RequestError, RequestId, RequestOptions};
use mcp_proto::redact::Redactor;
use mcp_proto::schema::tasks::{CreateTaskResult, GetTaskResult, TaskStatus};
use mcp_proto::schema::{
    CacheHint, CallTool, CallToolParams, CallToolResult, ClientCapability, EmptyParams, EmptyResult, Era,
    Implementation, InputRequiredResult, ListRootsParams, ListRootsResult, ListTools, ListToolsResult,
    Method as _, PaginatedParams, Ping, ProgressParams, ServerCapability, Tool,
};
use mcp_proto::testing::{Network, Pair, pair};
use mcp_proto::trace_file::{MachineRecorder, Recording as RecordedServer, Trace};
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Instant};
use mcp_smol::WireDirection;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

#[derive(Clone, Debug)]
enum Action {
    Call {
        timeout: Option<u16>,
    },
    List,
    Cancel(usize),
    Answer {
        newest: bool,
    },
    Progress,
    Fail,
    Ask {
        inputs: bool,
    },
    Respond {
        well: bool,
    },
    /// Turns the oldest call that may become a task into one.
    BeginTask,
    /// A request about the newest task.
    Task {
        command: TaskCommand,
    },
    Watch {
        on: bool,
    },
    /// Changes the list of tools.
    Change,
    Advance(u16),
    Cut,
    Close,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => prop::option::of(1..2000_u16).prop_map(|timeout| Action::Call { timeout }),
        2 => Just(Action::List),
        2 => any::<prop::sample::Index>().prop_map(|index| Action::Cancel(index.index(8))),
        4 => any::<bool>().prop_map(|newest| Action::Answer { newest }),
        2 => Just(Action::Progress),
        1 => Just(Action::Fail),
        2 => any::<bool>().prop_map(|inputs| Action::Ask { inputs }),
        3 => prop::bool::weighted(0.8).prop_map(|well| Action::Respond { well }),
        2 => Just(Action::BeginTask),
        2 => prop::sample::select(vec![TaskCommand::Follow, TaskCommand::Status, TaskCommand::Cancel])
            .prop_map(|command| Action::Task { command }),
        2 => prop::bool::weighted(0.8).prop_map(|on| Action::Watch { on }),
        2 => Just(Action::Change),
        3 => (0..3000_u16).prop_map(Action::Advance),
        1 => Just(Action::Cut),
        1 => Just(Action::Close),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Scenario {
    eras: Eras,
    mode: EraPolicy,
    reopen: bool,
    chunk: Option<NonZeroUsize>,
}

fn setting() -> impl Strategy<Value = Scenario> {
    let eras = prop::sample::select(vec![Eras::Both, Eras::ModernOnly, Eras::LegacyOnly]);
    let mode = prop::sample::select(vec![EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly]);
    (eras, mode, any::<bool>()).prop_map(|(eras, mode, reopen)| Scenario { eras, mode, reopen, chunk: None })
}

/// A request that the server's application has not answered.
struct ParkedRequest {
    id: InboundId,
    method: String,
    /// The task that the request is about.
    task: Option<String>,
    /// Whether the request may become a task.
    can_be_task: bool,
}

/// How long lists may be cached.
const LIST_TTL: Duration = Duration::from_secs(1_000_000);

/// Two peers with applications: the client sends requests, and the server answers when an action says so.
struct World {
    pair: Pair,
    accepted: Vec<RequestId>,
    outcomes: BTreeMap<RequestId, Outcome>,
    parked: Vec<ParkedRequest>,
    /// The server's tasks, and how often each was requested: they end at the third request, or when cancelled.
    tasks: BTreeMap<String, (u32, TaskStatus)>,
    watch: Option<WatchId>,
    /// Versions of the list of tools: the current one, and that of the last change announced to the client.
    version: u32,
    announced_version: u32,
    /// The announced version when each list was requested.
    lists: BTreeMap<RequestId, u32>,
    /// Server requests that the client's application has not answered.
    pending_inputs: Vec<InboundId>,
    progress: u32,
    event_log: String,
}

impl World {
    fn new(setting: Scenario, recorder: Option<MachineRecorder>) -> Self {
        let mut client = ClientConfig::new(Implementation::new("client", "1"));
        client.era_policy = setting.mode;
        client.can_reopen = setting.reopen;
        client.capabilities = client.capabilities.with(ClientCapability::Roots);
        let mut server = ServerConfig::new(Implementation::new("server", "1"));
        server.eras = setting.eras;
        server.capabilities = server
            .capabilities
            .with(ServerCapability::ToolsListChanged)
            .with(ServerCapability::TasksExtension);
        server.cache_by_method.insert(ListTools::NAME, CacheHint::private(LIST_TTL));
        (client.recorder, server.recorder) = (recorder.clone(), recorder);
        let mut pair = Pair::new(client, server);
        pair.network = Network { chunk: setting.chunk, ..Network::default() };
        Self {
            pair,
            accepted: Vec::new(),
            outcomes: BTreeMap::new(),
            parked: Vec::new(),
            tasks: BTreeMap::new(),
            watch: None,
            version: 0,
            announced_version: 0,
            lists: BTreeMap::new(),
            pending_inputs: Vec::new(),
            progress: 0,
            event_log: String::new(),
        }
    }

    fn run(setting: Scenario, actions: &[Action]) -> Self {
        Self::recorded(setting, actions, None)
    }

    fn recorded(setting: Scenario, actions: &[Action], recorder: Option<MachineRecorder>) -> Self {
        let mut world = Self::new(setting, recorder);
        for action in actions {
            world.act(action);
            world.drain();
        }
        world.pair.advance(Duration::from_secs(3600));
        world.drain();
        world
    }

    fn act(&mut self, action: &Action) {
        let now = self.pair.now();
        match action {
            Action::Call { timeout } => {
                let mut options = RequestOptions::default();
                options.timeout = timeout.map(|ms| Duration::from_millis(ms.into()));
                let accepted =
                    self.pair.client.at(now).request::<CallTool>(&CallToolParams::new("t"), options);
                self.accepted.extend(accepted);
            }
            Action::List => {
                let params = PaginatedParams::default();
                let accepted =
                    self.pair.client.at(now).request::<ListTools>(&params, RequestOptions::default());
                self.lists.extend(accepted.iter().map(|&request| (request, self.announced_version)));
                self.accepted.extend(accepted);
            }
            Action::Cancel(which) => {
                if let Some(request) = self.accepted.get(*which) {
                    self.pair.client.at(now).cancel(*request, None);
                }
            }
            Action::Answer { newest } => {
                if self.parked.is_empty() {
                    return;
                }
                let index = if *newest { self.parked.len() - 1 } else { 0 };
                let held = self.parked.remove(index);
                self.answer(&held);
            }
            Action::BeginTask => {
                let Some(at) = self.parked.iter().position(|held| held.can_be_task) else { return };
                let held = self.parked.remove(at);
                let id = format!("task {}", self.tasks.len());
                let created: CreateTaskResult = task(&id, "working");
                self.tasks.insert(id, (0, TaskStatus::Working));
                self.pair.server.at(now).respond(held.id, Answer::Result(&created.stamped()));
            }
            Action::Task { command } => {
                let Some(id) = self.tasks.keys().next_back() else { return };
                let accepted = self.pair.client.at(now).task(id, *command, RequestOptions::default());
                self.accepted.extend(accepted);
            }
            Action::Watch { on: true } => {
                if self.watch.is_none() {
                    self.watch =
                        self.pair.client.at(now).watch(WatchFilter::new().tools(), WatchStart::Now).ok();
                }
            }
            Action::Watch { on: false } => {
                if let Some(watch) = self.watch.take() {
                    self.pair.client.at(now).unwatch(watch);
                }
            }
            Action::Change => {
                self.version += 1;
                self.pair.server.at(now).list_changed(ListKind::Tools);
            }
            Action::Progress => {
                self.progress += 1;
                if let Some(held) = self.parked.first() {
                    self.pair.server.at(now).progress(held.id, &ProgressParams::new(0, self.progress));
                }
            }
            Action::Fail => {
                if let Some(held) = self.parked.pop() {
                    let error = mcp_proto::rpc::ErrorObject::new(-32603, "failed");
                    self.pair.server.at(now).respond(held.id, Answer::Error(error));
                }
            }
            Action::Ask { inputs } => {
                let Some(held) = self.parked.pop() else { return };
                let mut needed = InputRequiredResult::new();
                needed.request_state = Some("s".into());
                if *inputs {
                    let requests = ["a", "b"].map(|key| (key, ListRootsParams::new().into()));
                    needed.input_requests = Some(requests.into_iter().collect());
                }
                // A legacy request cannot be answered with an input-required result, nor can a list; then it fails.
                match held.method.as_str() {
                    "tools/call" => self.pair.server.at(now).respond(held.id, Answer::InputRequired(&needed)),
                    _ => self.answer(&held),
                }
            }
            Action::Respond { well } => {
                let Some(asked) = self.pending_inputs.pop() else { return };
                let roots = ListRootsResult::new([]);
                let answer: Result<&dyn AnyResult, _> = match well {
                    true => Ok(&roots),
                    false => Err(mcp_proto::rpc::ErrorObject::new(-1, "no")),
                };
                self.pair.client.at(now).respond(asked, answer);
            }
            Action::Advance(ms) => self.pair.advance(Duration::from_millis((*ms).into())),
            Action::Cut => self.pair.cut("cut"),
            Action::Close => self.pair.client.at(now).close(),
        }
        self.pair.drive();
    }

    /// Answers as a conforming server would.
    fn answer(&mut self, held: &ParkedRequest) {
        let now = self.pair.now();
        let done = CallToolResult::text("done");
        if held.method == "tools/list" {
            let tool = Tool::new("t", self.version.to_string(), serde_json::json!({"type": "object"}));
            let result = ListToolsResult::new([tool]);
            return self.pair.server.at(now).respond(held.id, Answer::Result(&result));
        }
        let known = match &held.task {
            Some(id) => self.tasks.get_mut(id).map(|known| (id, known)),
            None => None,
        };
        let Some((id, (questions, status))) = known else {
            return self.pair.server.at(now).respond(held.id, Answer::Result(&done));
        };
        if held.method == "tasks/cancel" && *status == TaskStatus::Working {
            *status = TaskStatus::Cancelled;
        }
        if held.method != "tasks/get" {
            return self.pair.server.at(now).respond(held.id, Answer::Result(&EmptyResult::new()));
        }
        *questions += 1;
        if *questions > 2 && *status == TaskStatus::Working {
            *status = TaskStatus::Completed;
        }
        let mut result: GetTaskResult = task(id, status.as_str());
        if *status == TaskStatus::Completed {
            result.result = Some(serde_json::json!({"content": [{"type": "text", "text": "done"}]}).into());
        }
        self.pair.server.at(now).respond(held.id, Answer::Result(&result));
    }

    /// Checks that a list is at least as new as the version announced when it was requested.
    fn check_list(&self, request: RequestId, outcome: &Outcome) {
        let (Some(&announced), Outcome::Result(list)) = (self.lists.get(&request), outcome) else { return };
        let list: ListToolsResult = list.decode().unwrap();
        let version: u32 = list.tools[0].description.as_deref().unwrap().parse().unwrap();
        assert!(
            version >= announced,
            "the list of tools is stale: {version}, but version {announced} was announced"
        );
    }

    fn drain(&mut self) {
        while let Some(event) = self.pair.server.poll_event() {
            self.event_log += &format!("server {event:?}\n");
            match event {
                server::Event::Request { id, method, params, context } => {
                    let params: Option<serde_json::Value> = params.and_then(|params| params.decode().ok());
                    let task = params.and_then(|params| params["taskId"].as_str().map(Into::into));
                    let extended = context.client_capabilities.has(ClientCapability::TasksExtension);
                    let may = extended && context.era == Era::Modern && &*method == "tools/call";
                    self.parked.push(ParkedRequest {
                        id,
                        method: method.to_string(),
                        task,
                        can_be_task: may,
                    });
                }
                server::Event::Cancelled { id, .. } => self.parked.retain(|held| held.id != id),
                _ => {}
            }
        }
        while let Some(event) = self.pair.client.poll_event() {
            self.event_log += &format!("client {event:?}\n");
            match event {
                client::Event::Outcome { request, outcome } => {
                    assert!(self.accepted.contains(&request), "an outcome of a request that was never made");
                    self.check_list(request, &outcome);
                    assert!(self.outcomes.insert(request, outcome).is_none(), "contract 1: a second outcome");
                }
                client::Event::Request { id, .. } => {
                    // A cancelled request belongs to no request of the client.
                    let origin = self.pair.client.peer().on_behalf_of(id);
                    let over = origin.is_some_and(|request| self.outcomes.contains_key(&request));
                    assert!(!over, "server request on behalf of a finished request");
                    self.pending_inputs.push(id);
                }
                client::Event::TaskStatus { request, .. } => {
                    let over = self.outcomes.contains_key(&request);
                    assert!(!over, "a task's status comes before the outcome");
                }
                client::Event::Changed { watch, .. } => {
                    assert_eq!(self.watch, Some(watch), "an event for a watch that is over");
                    self.announced_version = self.version;
                }
                client::Event::Watch { watch, state } => match state {
                    WatchState::On { missing } if !missing.has_tools() => {
                        self.announced_version = self.version
                    }
                    WatchState::Ended(_) if self.watch == Some(watch) => self.watch = None,
                    _ => {}
                },
                client::Event::RequestCancelled { id, .. } => {
                    self.pending_inputs.retain(|&asked| asked != id)
                }
                _ => {}
            }
        }
    }
}

/// A number of sessions on a byte stream.
fn sessions(count: usize) -> impl Iterator<Item = (Scenario, Vec<Action>)> {
    let mut runner = TestRunner::deterministic();
    let session = (setting(), prop::collection::vec(action(), 0..40));
    (0..count).map(move |_| session.new_tree(&mut runner).unwrap().current())
}

/// What both sides of a number of sessions do: their events and their traffic.
pub(crate) fn transcripts(count: usize) -> impl Iterator<Item = String> {
    sessions(count).map(|(setting, actions)| {
        let world = World::run(setting, &actions);
        let (to_server, to_client) = world.pair.transcript();
        format!("{}{to_server}\n{to_client}\n", world.event_log)
    })
}

/// The number of sessions to record.
fn replays() -> usize {
    std::env::var("MCP_REPLAYS").map_or(50, |count| count.parse().unwrap())
}

/// Contract 13: both machines of a session do the same when its trace runs again. `MCP_REPLAYS` is the number of sessions.
#[test]
fn recorded_sessions_do_the_same_again() {
    let count = replays();
    let (mut steps, mut bytes) = (0, 0);
    for (setting, actions) in sessions(count) {
        let recording = Recording::default();
        World::recorded(setting, &actions, recording.recorder());
        let (more_steps, more_bytes) = recording.check();
        (steps, bytes) = (steps + more_steps, bytes + more_bytes);
    }
    println!("{count} sessions: {steps} steps, {bytes} bytes");
    assert!(steps > 10 * count, "{steps}");
}

/// A trace that is written to memory.
#[derive(Clone, Default)]
struct TraceBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for TraceBuffer {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The redacted trace of a session as a server answers its requests as they were answered then.
#[test]
fn redacted_sessions_mean_the_same_again() {
    let count = replays();
    let (mut same, mut skipped) = (0, 0);
    for (setting, actions) in sessions(count) {
        let (to_server, to_client) = World::run(setting, &actions).pair.transcript();
        let is_legacy = to_server.contains("\"initialize\"");
        let buffer = TraceBuffer::default();
        let file = TraceFile::to_sink(buffer.clone(), "simulation").unwrap();
        let connection = file.connection("server", "stdio", Redactor::new());
        connection.record_bytes(WireDirection::Sent, to_server.into());
        connection.record_bytes(WireDirection::Received, to_client.into());
        connection.close("the session is over");
        file.flush().unwrap();
        let trace = Trace::parse(&buffer.0.lock().unwrap()).unwrap();
        // Nothing was answered.
        let Ok(recording) = RecordedServer::new(&trace, None) else { continue };
        let replay = recording.replay().to_recorded_server();
        let pair = pair(recording.router()).handlers(recording.client_handlers());
        let mut pair = if is_legacy { pair.legacy() } else { pair };
        let report = pair.run(async |client| replay.run(&client).await);
        for call in &report.calls {
            match &call.outcome {
                ReplayOutcome::Same => same += 1,
                ReplayOutcome::Skipped(_) => skipped += 1,
                outcome => panic!("{outcome:?} in {report}\n{setting:?} {actions:?}"),
            }
        }
    }
    println!("{count} sessions: {same} requests with the same answers, {skipped} not made");
    assert!(same >= count, "{same}");
}

/// A task, as a server reports it.
fn task<T: serde::de::DeserializeOwned>(id: &str, status: &str) -> T {
    let at = "2026-01-01T00:00:00Z";
    let task = serde_json::json!({
        "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": null,
    });
    serde_json::from_value(task).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Contract 1: each accepted request ends exactly once, whatever happens.
    #[test]
    fn every_request_ends_exactly_once(setting in setting(), actions in prop::collection::vec(action(), 0..40)) {
        let world = World::run(setting, &actions);
        for request in &world.accepted {
            prop_assert!(world.outcomes.contains_key(request), "{request:?} has no outcome");
        }
    }

    /// Contract 4: the network's chunks change nothing.
    #[test]
    fn chunk_boundaries_change_nothing(
        setting in setting(),
        size in 1..40_usize,
        actions in prop::collection::vec(action(), 0..30),
    ) {
        let whole = World::run(setting, &actions);
        let chopped = World::run(Scenario { chunk: NonZeroUsize::new(size), ..setting }, &actions);
        prop_assert_eq!(&whole.event_log, &chopped.event_log);
        prop_assert_eq!(whole.pair.transcript(), chopped.pair.transcript());
    }

    /// Contract 11: an outcome is an error of the peer only if the peer sent it.
    #[test]
    fn local_errors_are_not_reported_as_errors_of_the_peer(setting in setting(), actions in prop::collection::vec(action(), 0..40)) {
        let silent: Vec<_> = actions.into_iter().filter(|action| !matches!(action, Action::Fail | Action::Ask { .. })).collect();
        let world = World::run(setting, &silent);
        for outcome in world.outcomes.values() {
            prop_assert!(!matches!(outcome, Outcome::Error(_)), "{outcome:?}");
        }
    }

    /// Contract 13: the same inputs and clock readings give the same outputs.
    #[test]
    fn simulated_session_is_reproducible(setting in setting(), actions in prop::collection::vec(action(), 0..40)) {
        let (first, second) = (World::run(setting, &actions), World::run(setting, &actions));
        prop_assert_eq!(first.event_log, second.event_log);
        prop_assert_eq!(first.pair.transcript(), second.pair.transcript());
    }

    /// Contract 3: the outputs may be drained in any order.
    #[test]
    fn outputs_do_not_depend_on_their_order(order in 0..6_usize, requests in 1..5_usize) {
        let drained = |order: [usize; 3]| {
            let mut client = StreamClient::new(ClientConfig::new(Implementation::new("c", "1")));
            let now = Instant::ORIGIN;
            assert_eq!(client.poll_link(), Some(LinkAction::Open));
            client.handle_open(now);
            for _ in 0..requests {
                client.at(now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).unwrap();
            }
            let discovered = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}"#;
            client.handle_input(now, Bytes::from(format!("{discovered}\nnoise\n")));
            client.at(now).close();
            let (mut sent, mut events, mut link) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..2 {
                for output in order {
                    match output {
                        0 => drop(client.poll_transmit(&mut sent)),
                        1 => events.extend(std::iter::from_fn(|| client.poll_event()).map(|event| format!("{event:?}"))),
                        _ => link.extend(std::iter::from_fn(|| client.poll_link())),
                    }
                }
            }
            (sent, events, link)
        };
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        prop_assert_eq!(drained(orders[0]), drained(orders[order]));
    }
}

fn legacy_client() -> StreamClient {
    let mut config = ClientConfig::new(Implementation::new("c", "1"));
    config.era_policy = EraPolicy::LegacyOnly;
    let mut client = StreamClient::new(config);
    assert_eq!(client.poll_link(), Some(LinkAction::Open));
    client.handle_open(Instant::ORIGIN);
    let initialized = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"prompts":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    client.handle_input(Instant::ORIGIN, Bytes::from(format!("{initialized}\n")));
    assert_eq!(client.state(), State::Ready);
    client
}

/// Contract 6: an application that handles no events delays no ping.
#[test]
fn slow_application_does_not_delay_pings() {
    let mut client = legacy_client();
    let mut out = Vec::new();
    for id in 0..10_000 {
        client.handle_input(
            Instant::ORIGIN,
            Bytes::from(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":1}}}}\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"
            )),
        );
        out.clear();
        assert!(client.poll_transmit(&mut out), "ping {id} was not answered");
    }
}

/// Contract 10: a rejected command changes nothing.
#[test]
fn rejected_command_changes_nothing() {
    let mut client = legacy_client();
    let mut out = Vec::new();
    assert!(client.poll_transmit(&mut out));
    while client.poll_event().is_some() {}
    let before = format!("{client:?}");
    let now = Instant::ORIGIN;
    let refused = client.at(now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Capability { .. })));
    assert_eq!(format!("{client:?}"), before);
    out.clear();
    assert!(!client.poll_transmit(&mut out));
}

/// Contract 12: partial input lives in the machine, whatever happens between its parts.
#[test]
fn partial_input_survives_other_calls_between_its_parts() {
    let mut client = legacy_client();
    let now = Instant::ORIGIN;
    let request = client.at(now).request::<Ping>(&EmptyParams::default(), RequestOptions::default()).unwrap();
    while client.poll_event().is_some() {}
    let mut out = Vec::new();
    let _ = client.poll_transmit(&mut out);
    let text = String::from_utf8(out).unwrap();
    let id =
        text.lines().last().unwrap().split("\"id\":").nth(1).unwrap().split(',').next().unwrap().to_owned();
    for byte in format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n").bytes() {
        client.handle_timeout(now);
        assert!(client.poll_event().is_none());
        assert!(!client.poll_transmit(&mut Vec::new()));
        client.handle_input(now, Bytes::from(vec![byte]));
    }
    assert!(matches!(
        client.poll_event(),
        Some(client::Event::Outcome { request: ended, outcome: Outcome::Result(_) }) if ended == request
    ));
}

/// Contract 2: a driver that drains late loses nothing.
#[test]
fn late_draining_loses_nothing() {
    let mut client = legacy_client();
    let now = Instant::ORIGIN;
    let requests: Vec<_> = (0..100)
        .map(|_| client.at(now).request::<Ping>(&EmptyParams::default(), RequestOptions::default()).unwrap())
        .collect();
    for id in 2..102 {
        client
            .handle_input(now, Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")));
    }
    let ended: Vec<_> = std::iter::from_fn(|| client.poll_event())
        .filter_map(|event| match event {
            client::Event::Outcome { request, outcome: Outcome::Result(_) } => Some(request),
            _ => None,
        })
        .collect();
    assert_eq!(ended, requests);
}
