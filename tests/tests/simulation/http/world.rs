//! A host with a client, a server, a network between them, and the invariants that hold under every fault.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::peer::client::{
    Change, ClientConfig, CloseReason, Diagnostic, EraPolicy, Event, State, TaskCommand, WatchFilter,
    WatchId, WatchStart, WatchState,
};
use mcp_proto::peer::{CacheMode, InboundId, LostReason, ReissuePolicy, RequestId, RequestOptions, TaskMode};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, EmptyParams, Era, Implementation, ListTools, PaginatedParams,
    Ping, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};
use mcp_proto::testing::http::{HttpPair, HttpPeer, NetworkConditions, SimulationRng, TruncationReport};
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, ListenPolicy};
use serde_json::{Value, json};

use super::Ledger;
use super::engine::EngineCounts;
use super::outcomes::KnownTask;
use super::router::RESOURCE;

pub const URL: &str = "http://localhost/mcp";

/// A pending request of the host.
pub struct PendingCall {
    pub kind: CallKind,
    pub ended: bool,
    /// Whether the engine of the instances has failed over since it was sent.
    pub failed_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallKind {
    /// A tool call with this argument.
    Call {
        n: u64,
        tool: Tool,
    },
    /// A request for the list of tools, and the last announced version when it was sent.
    List {
        announced_version: u64,
    },
    /// A request about a known task, and whether the task was known to have ended.
    Task {
        which: usize,
        command: TaskCommand,
        known_ended: bool,
    },
    Other,
}

/// The action of a tool before it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tool {
    /// Runs without a request or a task.
    Plain,
    /// Asks for input by a state that expires.
    Form,
    /// Creates a task, which expires.
    Job,
}

/// An action of the host, a change at the server, or a fault besides those of the network.
#[derive(Clone, Copy, PartialEq)]
enum Action {
    Call,
    List,
    Task,
    Ping,
    Subscribe,
    Cancel,
    Watch,
    Change,
    Restart,
    JumpClock,
    Reconnect,
    ChangeConditions,
    Wait,
}

/// Every action, and how often it occurs beside the others.
const ACTIONS: [(Action, usize); 13] = [
    (Action::Call, 15),
    (Action::List, 7),
    (Action::Task, 4),
    (Action::Ping, 2),
    (Action::Subscribe, 3),
    (Action::Cancel, 3),
    (Action::Watch, 3),
    (Action::Change, 5),
    (Action::Restart, 1),
    (Action::JumpClock, 1),
    (Action::Reconnect, 1),
    (Action::ChangeConditions, 1),
    (Action::Wait, 2),
];

/// A watch of the host, and the version that the host knows by it.
struct ActiveWatch {
    id: WatchId,
    /// Whether the server notifies of changes of the list of tools.
    has_tools: bool,
    /// Version of the list of tools that was fetched last.
    known_version: u64,
    /// The same of the resource.
    has_resource: bool,
    known_resource: u64,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u32,
    pub results: u32,
    pub lost: u32,
    pub timed_out: u32,
    pub other: u32,
    /// Changes that a watch reported.
    pub changes: u32,
    /// Lists of tools that were answered from the cache, without a change announced since.
    pub cached: u32,
    /// Forms that the host was asked.
    pub forms: u32,
    /// Tasks that were seen to end.
    pub tasks: u32,
    /// Forgeries that were rejected.
    pub refused: u32,
    /// Connections that the host had to replace.
    pub reconnects: u32,
    pub restarts: u32,
    /// Changes of the resource that a watch reported.
    pub resource_changes: u32,
    /// What happened to the engine of the instances.
    pub engine: EngineCounts,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.results += other.results;
        self.lost += other.lost;
        self.timed_out += other.timed_out;
        self.other += other.other;
        self.changes += other.changes;
        self.cached += other.cached;
        self.forms += other.forms;
        self.tasks += other.tasks;
        self.refused += other.refused;
        self.reconnects += other.reconnects;
        self.restarts += other.restarts;
        self.resource_changes += other.resource_changes;
        self.engine.add(other.engine);
    }
}

/// Creates a server from its shared ledger, the time and a seed.
pub type ServerFactory<'a> = &'a dyn Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer>;

pub struct World<'a> {
    pub pair: HttpPair,
    server_factory: ServerFactory<'a>,
    config: HttpClientConfig,
    pub ledger: Ledger,
    pub(super) dice: SimulationRng,
    pub(super) pending: BTreeMap<RequestId, PendingCall>,
    request_order: Vec<RequestId>,
    /// How often each argument may have run by now.
    allowed: BTreeMap<u64, u32>,
    next: u64,
    active_watch: Option<ActiveWatch>,
    /// Version of the list of tools when the last change was announced to the host.
    pub(super) announced_version: u64,
    /// Tasks whose identifiers the host knows.
    pub(super) tasks: Vec<KnownTask>,
    /// Requests of the server that the host has not answered.
    pub(super) parked: Vec<(InboundId, String)>,
    /// Whether the server may not know the session yet, as far as the client can tell.
    session_unknown: bool,
    closed: bool,
    /// Whether the current client is ready, and has not lost its session since.
    was_ready: bool,
    pub tally: Tally,
}

impl<'a> World<'a> {
    pub fn new(site: ServerFactory<'a>, config: HttpClientConfig, seed: u64) -> Self {
        let ledger = Ledger::default();
        let mut dice = SimulationRng::new(seed);
        let server = site(&ledger, Instant::ORIGIN, dice.below(1 << 20));
        let client = HttpClient::new(config.clone(), Instant::ORIGIN).unwrap();
        Self {
            pair: HttpPair::new(client, server, dice.below(u64::MAX)),
            server_factory: site,
            config,
            ledger,
            dice,
            pending: BTreeMap::new(),
            request_order: Vec::new(),
            allowed: BTreeMap::new(),
            next: 1,
            active_watch: None,
            announced_version: 0,
            tasks: Vec::new(),
            parked: Vec::new(),
            session_unknown: false,
            closed: false,
            was_ready: false,
            tally: Tally::default(),
        }
    }

    /// A client configuration that varies by seed in parts that no invariant depends on.
    pub fn config(dice: &mut SimulationRng, era: Era) -> HttpClientConfig {
        let mut client = ClientConfig::new(Implementation::new("host", "1"));
        client.capabilities.roots = Some(Default::default());
        client.capabilities = client.capabilities.with(ClientCapability::ElicitationForm);
        client.era_policy =
            if era == Era::Legacy && dice.chance(200) { EraPolicy::LegacyOnly } else { EraPolicy::Auto };
        client.limits.exchanges = usize::try_from(2 + dice.below(6)).unwrap();
        let mut config = HttpClientConfig::new(client, URL);
        config.seed = dice.below(u64::MAX);
        if dice.chance(300) {
            config.listen = ListenPolicy::Never;
        }
        config
    }

    /// The network conditions of one run: some faults are frequent, and some never occur.
    pub fn stormy_weather(&mut self) -> NetworkConditions {
        let latest = *self.dice.choose(&[1, 20, 500, 3000]).unwrap();
        let dice = &mut self.dice;
        let mut odds =
            |most: u64| if dice.chance(500) { u16::try_from(dice.below(most)).unwrap() } else { 0 };
        let mut weather = NetworkConditions::RELIABLE;
        weather.latency = Duration::from_millis(1)..=Duration::from_millis(latest);
        weather.refused = odds(150);
        weather.lost = odds(100);
        weather.headless = odds(100);
        weather.cut = odds(200);
        weather.replaced = odds(150);
        weather.redirected = odds(150);
        weather.duplicated = odds(100);
        weather.buffered = odds(200);
        weather.idle = odds(300);
        weather.chunked = odds(200);
        weather.hidden = odds(500);
        weather
    }

    /// The actions of one run, each as often as it occurs. Besides calls, one in four is left out: some faults only show
    /// where another action does not repair them.
    fn choose_actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (action, weight) in ACTIONS {
            if action == Action::Call || !self.dice.chance(250) {
                actions.extend([action].repeat(weight));
            }
        }
        actions
    }

    /// Runs random actions with faults, then without faults, then closes.
    pub fn run(&mut self, steps: u32) {
        let actions = self.choose_actions();
        self.pair.conditions = self.stormy_weather();
        for _ in 0..steps {
            self.random_action(&actions);
            let pause = match self.dice.below(4) {
                0 => 0,
                1 => self.dice.below(50),
                2 => self.dice.below(3000),
                _ => self.dice.below(20_000),
            };
            self.advance(Duration::from_millis(pause));
        }
        self.pair.stop_faults();
        self.ledger.engine.stop_faults();
        self.ledger.change_tools();
        if self.ledger.engine.is_used() {
            self.ledger.change_resource(self.dice.below(100));
        }
        // Pending exchanges may still fail, and pauses last for half a minute.
        self.advance_and_answer(18);
        for (request, made) in &self.pending {
            let over = made.ended || !matches!(made.kind, CallKind::Call { .. } | CallKind::Task { .. });
            assert!(over, "{request:?} ({:?}) neither ends nor is reported lost", made.kind);
        }
        self.recovers();
        self.close();
    }

    /// Advances the time, and lets the host handle its events.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.pair.now() + duration;
        self.pair.run_due();
        self.take_events();
        while self.pair.step(end) {
            self.take_events();
        }
        self.pair.advance(end.saturating_since(self.pair.now()));
        self.take_events();
    }

    /// Advances the time in steps of ten seconds, and answers requests meanwhile.
    pub fn advance_and_answer(&mut self, times: u32) {
        for _ in 0..times {
            self.answer_parked();
            self.advance(Duration::from_secs(10));
        }
    }

    fn random_action(&mut self, actions: &[Action]) {
        let now = self.pair.now();
        if self.dice.chance(500) {
            self.answer_parked();
        }
        match *self.dice.choose(actions).unwrap() {
            Action::Call => self.random_call(None),
            Action::List => self.list(),
            Action::Task => self.task(),
            Action::Ping => {
                let request = self
                    .pair
                    .client
                    .at(now)
                    .request::<Ping>(&EmptyParams::default(), RequestOptions::default());
                self.note_request(CallKind::Other, request.ok());
            }
            Action::Subscribe => {
                let mut filter = SubscriptionFilter::new();
                filter.tools_list_changed = Some(true);
                let params = SubscriptionsListenParams::new(filter);
                let request = self
                    .pair
                    .client
                    .at(now)
                    .request::<SubscriptionsListen>(&params, RequestOptions::default());
                self.note_request(CallKind::Other, request.ok());
            }
            Action::Cancel => {
                if let Some(&request) = self.dice.choose(&self.request_order) {
                    self.pair.client.at(now).cancel(request, Some("enough"));
                }
            }
            Action::Restart => {
                let server = (self.server_factory)(&self.ledger, now, self.dice.below(1 << 20));
                let cut = *self.dice.choose(&[TruncationReport::Noticed, TruncationReport::Hidden]).unwrap();
                self.pair.restart(server, cut);
                self.tally.restarts += 1;
            }
            Action::JumpClock => {
                let far = *self.dice.choose(&[10, 100, 4000]).unwrap();
                let jump = Duration::from_secs(self.dice.below(far));
                self.pair.jump_clock(jump);
            }
            Action::Reconnect => {
                // The host gives up and connects again.
                self.pair.client.at(now).abort(LostReason::Closed);
                self.take_events();
            }
            Action::ChangeConditions => self.pair.conditions = self.stormy_weather(),
            Action::Watch => self.watch(),
            Action::Change if self.ledger.engine.is_used() && self.dice.chance(600) => {
                self.ledger.change_resource(self.dice.below(100));
            }
            Action::Change => self.ledger.change_tools(),
            Action::Wait => {}
        }
        self.take_events();
        if self.closed {
            self.reconnect();
        }
    }

    /// Requests the list of tools; most often a cached one is enough.
    pub fn list(&mut self) {
        let mut options = RequestOptions::default();
        if self.dice.chance(200) {
            options.cache = *self.dice.choose(&[CacheMode::Refresh, CacheMode::Bypass]).unwrap();
        }
        let params = PaginatedParams::default();
        let request = self.pair.client.at(self.pair.now()).request::<ListTools>(&params, options);
        self.note_request(CallKind::List { announced_version: self.announced_version }, request.ok());
    }

    /// Requests a known task, follows it, or cancels it.
    fn task(&mut self) {
        let which = usize::try_from(self.dice.below(self.tasks.len() as u64)).unwrap();
        if self.tasks.is_empty() {
            return;
        }
        let commands = [TaskCommand::Follow, TaskCommand::Status, TaskCommand::Status, TaskCommand::Cancel];
        let command = *self.dice.choose(&commands).unwrap();
        self.ask_of_task(which, command);
    }

    /// Sends a request about a known task.
    pub fn ask_of_task(&mut self, which: usize, command: TaskCommand) {
        let (now, options) = (self.pair.now(), RequestOptions::default());
        let seen = &self.tasks[which];
        let over = seen.final_status.is_some();
        let request = self.pair.client.at(now).task(&seen.id, command, options);
        self.note_request(CallKind::Task { which, command, known_ended: over }, request.ok());
    }

    /// Begins a watch, ends it, or begins another beside it.
    fn watch(&mut self) {
        let now = self.pair.now();
        let interest = if self.dice.chance(500) { WatchFilter::new() } else { WatchFilter::new().prompts() };
        let interest = interest.tools();
        let interest = if self.ledger.engine.is_used() { interest.resource(RESOURCE) } else { interest };
        match &self.active_watch {
            None => {
                let id = self.pair.client.at(now).watch(interest, WatchStart::Now).ok();
                self.active_watch = id.map(|id| ActiveWatch {
                    id,
                    has_tools: false,
                    known_version: 0,
                    has_resource: false,
                    known_resource: 0,
                });
            }
            Some(watched) if self.dice.chance(200) => {
                self.pair.client.at(now).unwatch(watched.id);
                self.active_watch = None;
            }
            Some(watched) => self.pair.client.at(now).set_watch_filter(watched.id, interest),
        }
    }

    fn watch_event(&mut self, id: WatchId, on: Option<bool>) {
        let watched = self.active_watch.as_mut().filter(|watched| watched.id == id);
        let watched = watched.expect("an event for a watch that is over");
        watched.has_tools = on.unwrap_or(watched.has_tools);
        watched.known_version = self.ledger.version();
        self.tally.changes += u32::from(on.is_none());
    }

    fn resource_event(&mut self, on: Option<bool>) {
        let watched = self.active_watch.as_mut().expect("an event for a watch that is over");
        watched.has_resource = on.unwrap_or(watched.has_resource);
        watched.known_resource = self.ledger.resource_version();
        self.tally.resource_changes += u32::from(on.is_none());
    }

    /// Forgets the records that the engine of the instances may have forgotten.
    fn note_failovers(&mut self) {
        let counts = self.ledger.engine.counts();
        if counts.failovers != self.tally.engine.failovers {
            self.pending.values_mut().for_each(|made| made.failed_over = true);
            self.tasks.iter_mut().for_each(|task| task.final_status = None);
        }
        self.tally.engine = counts;
    }

    /// Calls a tool, a random one unless named, with random options.
    pub fn random_call(&mut self, name: Option<&str>) {
        let name = name.unwrap_or_else(|| {
            let tools = ["pay", "pay", "look", "set", "ask", "form", "form", "job", "job", "job"];
            *self.dice.choose(&tools).unwrap()
        });
        let mut options = RequestOptions::default();
        options.reissue = match self.dice.below(8) {
            0 => ReissuePolicy::Always,
            1 => ReissuePolicy::Never,
            _ => ReissuePolicy::WhereSafe,
        };
        if self.dice.chance(200) {
            options.timeout = Some(Duration::from_millis(self.dice.below(5000)));
        }
        options.task = match self.dice.below(8) {
            0..3 => Some(TaskMode::Handle),
            3 => Some(TaskMode::Never),
            _ => None,
        };
        self.call(name, options);
    }

    /// Calls a tool.
    pub fn call(&mut self, name: &str, options: RequestOptions) {
        let n = self.next;
        self.next += 1;
        let mut params = CallToolParams::new(name);
        params.arguments = Some(serde_json::from_value(json!({ "n": n })).unwrap());
        let tool = match name {
            "form" => Tool::Form,
            "job" => Tool::Job,
            _ => Tool::Plain,
        };
        let safe = matches!(name, "look" | "set");
        let most = match options.reissue {
            ReissuePolicy::Always => 2,
            ReissuePolicy::WhereSafe if safe => 2,
            _ => 1,
        };
        let request = self.pair.client.at(self.pair.now()).request::<CallTool>(&params, options);
        self.allowed.insert(n, most);
        self.note_request(CallKind::Call { n, tool }, request.ok());
    }

    fn note_request(&mut self, kind: CallKind, request: Option<RequestId>) {
        let Some(request) = request else { return };
        self.tally.requests += 1;
        assert!(
            self.pending.insert(request, PendingCall { kind, ended: false, failed_over: false }).is_none(),
            "a handle is used twice"
        );
        self.request_order.push(request);
    }

    fn take_events(&mut self) {
        let now = self.pair.now();
        self.note_failovers();
        while let Some(event) = self.pair.client.poll_event() {
            assert!(!self.closed, "event after the end: {event:?}");
            self.pair.note(|| format!("event {event:?}"));
            match event {
                Event::Outcome { request, outcome } => self.check_outcome(request, &outcome),
                Event::Progress { request, .. } => {
                    let made = self.pending.get(&request).expect("progress of a request that was made");
                    assert!(!made.ended, "progress comes before the outcome");
                }
                Event::Request { id, method, params } => {
                    self.answer_or_park(now, id, method.name, params.as_ref())
                }
                Event::RequestCancelled { id, .. } => self.parked.retain(|(held, _)| *held != id),
                Event::TaskStatus { request, report } => {
                    let made = self.pending.get(&request).expect("the task of a request that was made");
                    assert!(!made.ended, "a task's status comes before the outcome");
                    if let CallKind::Task { which, .. } = made.kind {
                        assert_eq!(self.tasks[which].id, report.id, "status of another task");
                    }
                }
                Event::Notification { method, .. } if &*method == "notifications/tools/list_changed" => {
                    self.announced_version = self.ledger.version();
                }
                Event::State(State::Ready) => self.was_ready = true,
                Event::Diagnostic(Diagnostic::SessionLost) => {
                    self.was_ready = false;
                    self.session_unknown = false;
                }
                Event::Diagnostic(Diagnostic::MessageRejected { .. }) => self.session_unknown = true,
                Event::Changed { watch, change, .. } => {
                    assert!(
                        matches!(change, Change::Tools | Change::Prompts | Change::Resource(_)),
                        "unrequested change {change:?}"
                    );
                    if matches!(change, Change::Tools) {
                        self.announced_version = self.ledger.version();
                    }
                    match change {
                        Change::Resource(_) => self.resource_event(None),
                        _ => self.watch_event(watch, None),
                    }
                }
                Event::Watch { watch, state: WatchState::On { missing } } => {
                    // From here the watch keeps the fetched list up to date; an older cached list may be stale.
                    if !missing.has_tools() {
                        self.announced_version = self.ledger.version();
                    }
                    self.watch_event(watch, Some(!missing.has_tools()));
                    self.resource_event(Some(missing.resource_uris().next().is_none()));
                }
                Event::Watch { watch, state: WatchState::Interrupted } => {
                    self.watch_event(watch, Some(false));
                    self.resource_event(Some(false));
                }
                Event::Watch { watch, state } => {
                    assert!(matches!(state, WatchState::Ended(_)), "{state:?}");
                    self.watch_event(watch, None);
                    self.active_watch = None;
                }
                Event::Closed(closed) => {
                    self.closed = true;
                    let never = !matches!(closed, CloseReason::Connect(_));
                    assert!(never || !self.was_ready, "{closed:?} of a client that was ready");
                }
                _ => {}
            }
        }
        let limits = self.config.client.limits;
        assert!(self.pair.client.queued() <= limits.queued_bytes, "contract 8");
    }

    fn check_settled(&self) {
        self.ledger.assert_clean();
        // Their handlers hold the ledger.
        self.ledger.set_routers(Vec::new());
        for (request, made) in &self.pending {
            assert!(made.ended, "contract 1: {request:?} ({:?}) has no outcome", made.kind);
        }
        let mut repeated: BTreeMap<u64, u32> = BTreeMap::new();
        for request in &self.pair.duplicated {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            if let Some(n) = body["params"]["arguments"]["n"].as_u64() {
                *repeated.entry(n).or_default() += 1;
            }
        }
        for (&n, &most) in &self.allowed {
            let repeated = repeated.get(&n).copied().filter(|_| !self.ledger.is_single_use(n)).unwrap_or(0);
            let ran = self.ledger.count(n);
            assert!(
                ran <= most + repeated,
                "call {n} ran {ran} times, of {most} and {repeated} times repeated"
            );
        }
    }

    fn reconnect(&mut self) {
        self.check_settled();
        self.pending.clear();
        self.parked.clear();
        self.active_watch = None;
        self.session_unknown = false;
        self.request_order.clear();
        self.closed = false;
        self.was_ready = false;
        self.tally.reconnects += 1;
        let client = HttpClient::new(self.config.clone(), self.pair.now()).unwrap();
        self.pair.reconnect(client);
    }

    /// Ends all faults: then every request succeeds, without a reconnect unless the client has given up.
    pub fn recovers(&mut self) {
        if self.closed {
            self.reconnect();
        }
        if let Some(watched) =
            self.active_watch.as_ref().filter(|watched| watched.has_tools && !self.session_unknown)
        {
            assert_eq!(watched.known_version, self.ledger.version(), "the host missed a change");
            let is_known = !watched.has_resource || watched.known_resource == self.ledger.resource_version();
            assert!(is_known, "the host missed a change of the resource");
        }
        let tools = if self.ledger.engine.is_used() { &["look", "form", "job"][..] } else { &["look"; 3] };
        for tool in tools {
            self.call(tool, RequestOptions::default());
            let request = *self.request_order.last().expect("the client accepts a request");
            let before = self.tally.results;
            self.advance_and_answer(6);
            assert!(self.pending[&request].ended, "contract 1: no outcome within a minute");
            assert!(self.tally.results > before, "a request fails although there are no faults");
        }
        self.list();
        self.advance(Duration::from_secs(60));
    }

    pub fn close(&mut self) {
        let now = self.pair.now();
        self.pair.client.at(now).close();
        self.advance(Duration::from_secs(90));
        assert!(self.closed && self.pair.client.is_closed(), "the client is closed: {:?}", self.pair.client);
        assert_eq!(self.pair.client.poll_timeout(), None, "a closed client has no timeout");
        assert_eq!(self.pair.client.queued(), 0);
        assert_eq!(self.pair.open_exchange_count(), 0, "an exchange is still open");
        self.check_settled();
        self.tally.refused = self.ledger.refused();
    }
}
