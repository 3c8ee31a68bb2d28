//! A host with a client, a server, a network between them, and what must hold whatever happens to them.

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
use super::outcomes::KnownTask;

pub const URL: &str = "http://localhost/mcp";

/// A request of the host's.
pub struct PendingCall {
    pub kind: CallKind,
    pub ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallKind {
    /// A call with this argument.
    Call {
        n: u64,
        tool: Tool,
    },
    /// The list of tools, when changes up to this version had been told.
    List {
        told_version: u64,
    },
    /// Something about one of the tasks that the host knows, when it was known to have ended or was not.
    Task {
        which: usize,
        command: TaskCommand,
        known_ended: bool,
    },
    Other,
}

/// What a tool may do before it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tool {
    /// Nothing that could go wrong by itself.
    Plain,
    /// Ask, with a state that lapses.
    Form,
    /// Become a task, which is kept for a while.
    Job,
}

/// A watch of the host's, and what the host knows by it.
struct ActiveWatch {
    id: WatchId,
    /// Whether the server tells of the list of tools.
    has_tools: bool,
    /// The list of tools as it was fetched last.
    known_version: u64,
}

/// What has come of the requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u32,
    pub results: u32,
    pub lost: u32,
    pub timed_out: u32,
    pub other: u32,
    /// How often a watch was told of a change.
    pub changes: u32,
    /// How often the list of tools was answered with what had been kept, and not been changed as far as was told.
    pub cached: u32,
    /// How often somebody was asked by a form.
    pub forms: u32,
    /// How many tasks were seen to end.
    pub tasks: u32,
    /// How many forgeries were refused.
    pub refused: u32,
    /// How often the host had to connect anew.
    pub reconnects: u32,
    pub restarts: u32,
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
    }
}

/// How servers are made: with what they share and a seed.
pub type ServerFactory<'a> = &'a dyn Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer>;

pub struct World<'a> {
    pub pair: HttpPair,
    server_factory: ServerFactory<'a>,
    config: HttpClientConfig,
    pub ledger: Ledger,
    pub(super) dice: SimulationRng,
    pub(super) pending: BTreeMap<RequestId, PendingCall>,
    request_order: Vec<RequestId>,
    /// How often each argument may run by now.
    allowed: BTreeMap<u64, u32>,
    next: u64,
    active_watch: Option<ActiveWatch>,
    /// The list of tools as it was when the host was last told that it has changed.
    pub(super) told_version: u64,
    /// The tasks that the host knows by their identifiers.
    pub(super) tasks: Vec<KnownTask>,
    /// What the host is asked and takes its time to answer.
    pub(super) parked: Vec<(InboundId, String)>,
    /// Whether the server does not know, as far as the client can tell, that the session has begun.
    session_unknown: bool,
    closed: bool,
    /// Whether the client of now is ready, and has not lost its session since.
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
            told_version: 0,
            tasks: Vec::new(),
            parked: Vec::new(),
            session_unknown: false,
            closed: false,
            was_ready: false,
            tally: Tally::default(),
        }
    }

    /// A client that differs from seed to seed in what does not matter for what must hold.
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

    /// The weather of one run: some things go wrong often, and some never.
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

    /// Everything that can happen, for a while; then nothing bad any more; then the end.
    pub fn run(&mut self, steps: u32) {
        self.pair.conditions = self.stormy_weather();
        for _ in 0..steps {
            self.random_action();
            let pause = match self.dice.below(4) {
                0 => 0,
                1 => self.dice.below(50),
                2 => self.dice.below(3000),
                _ => self.dice.below(20_000),
            };
            self.advance(Duration::from_millis(pause));
        }
        self.pair.stop_faults();
        self.ledger.change_tools();
        // What is under way may still fail, and pauses last for half a minute.
        self.advance_and_answer(18);
        for (request, made) in &self.pending {
            let over = made.ended || !matches!(made.kind, CallKind::Call { .. } | CallKind::Task { .. });
            assert!(over, "{request:?} ({:?}) neither ends nor is reported lost", made.kind);
        }
        self.recovers();
        self.close();
    }

    /// Lets time pass, and the host take its events.
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

    /// Lets so many times ten seconds pass, and answers what is asked meanwhile.
    pub fn advance_and_answer(&mut self, times: u32) {
        for _ in 0..times {
            self.answer_parked();
            self.advance(Duration::from_secs(10));
        }
    }

    fn random_action(&mut self) {
        let now = self.pair.now();
        if self.dice.chance(500) {
            self.answer_parked();
        }
        match self.dice.below(48) {
            0..15 => self.random_call(None),
            15..18 | 38..42 => self.list(),
            42..46 => self.task(),
            18..20 => {
                let request = self
                    .pair
                    .client
                    .at(now)
                    .request::<Ping>(&EmptyParams::default(), RequestOptions::default());
                self.note_request(CallKind::Other, request.ok());
            }
            20..23 => {
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
            23..26 => {
                if let Some(&request) = self.dice.choose(&self.request_order) {
                    self.pair.client.at(now).cancel(request, Some("enough"));
                }
            }
            26 => {
                let server = (self.server_factory)(&self.ledger, now, self.dice.below(1 << 20));
                let cut = *self.dice.choose(&[TruncationReport::Noticed, TruncationReport::Hidden]).unwrap();
                self.pair.restart(server, cut);
                self.tally.restarts += 1;
            }
            27 => {
                let far = *self.dice.choose(&[10, 100, 4000]).unwrap();
                let jump = Duration::from_secs(self.dice.below(far));
                self.pair.jump_clock(jump);
            }
            28 => {
                // The host has had enough, and begins anew.
                self.pair.client.at(now).abort(LostReason::Closed);
                self.take_events();
            }
            29 => self.pair.conditions = self.stormy_weather(),
            30..33 => self.watch(),
            33..38 => self.ledger.change_tools(),
            _ => {}
        }
        self.take_events();
        if self.closed {
            self.reconnect();
        }
    }

    /// Asks for the list of tools, most often if what was kept will do.
    pub fn list(&mut self) {
        let mut options = RequestOptions::default();
        if self.dice.chance(200) {
            options.cache = *self.dice.choose(&[CacheMode::Refresh, CacheMode::Bypass]).unwrap();
        }
        let params = PaginatedParams::default();
        let request = self.pair.client.at(self.pair.now()).request::<ListTools>(&params, options);
        self.note_request(CallKind::List { told_version: self.told_version }, request.ok());
    }

    /// Asks for a task that is known by its identifier, follows it, or gives it up.
    fn task(&mut self) {
        let which = usize::try_from(self.dice.below(self.tasks.len() as u64)).unwrap();
        if self.tasks.is_empty() {
            return;
        }
        let commands = [TaskCommand::Follow, TaskCommand::Status, TaskCommand::Status, TaskCommand::Cancel];
        let command = *self.dice.choose(&commands).unwrap();
        self.ask_of_task(which, command);
    }

    /// Asks something of one of the tasks that are known by their identifiers.
    pub fn ask_of_task(&mut self, which: usize, command: TaskCommand) {
        let (now, options) = (self.pair.now(), RequestOptions::default());
        let seen = &self.tasks[which];
        let over = seen.final_status.is_some();
        let request = self.pair.client.at(now).task(&seen.id, command, options);
        self.note_request(CallKind::Task { which, command, known_ended: over }, request.ok());
    }

    /// Begins to watch, ends that, or watches something else beside.
    fn watch(&mut self) {
        let now = self.pair.now();
        let interest = if self.dice.chance(500) { WatchFilter::new() } else { WatchFilter::new().prompts() };
        let interest = interest.tools();
        match &self.active_watch {
            None => {
                let id = self.pair.client.at(now).watch(interest, WatchStart::Now).ok();
                self.active_watch = id.map(|id| ActiveWatch { id, has_tools: false, known_version: 0 });
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
        let watched = watched.expect("something is told to a watch that is over");
        watched.has_tools = on.unwrap_or(watched.has_tools);
        watched.known_version = self.ledger.version();
        self.tally.changes += u32::from(on.is_none());
    }

    /// Calls a tool, one by chance if not by name, in a way that is left to chance.
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

    fn note_request(&mut self, what: CallKind, request: Option<RequestId>) {
        let Some(request) = request else { return };
        self.tally.requests += 1;
        assert!(
            self.pending.insert(request, PendingCall { kind: what, ended: false }).is_none(),
            "a handle is used twice"
        );
        self.request_order.push(request);
    }

    fn take_events(&mut self) {
        let now = self.pair.now();
        while let Some(event) = self.pair.client.poll_event() {
            assert!(!self.closed, "nothing follows the end: {event:?}");
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
                    assert!(!made.ended, "how a task is doing comes before the outcome");
                    if let CallKind::Task { which, .. } = made.kind {
                        assert_eq!(self.tasks[which].id, report.id, "somebody else's task");
                    }
                }
                Event::Notification { method, .. } if &*method == "notifications/tools/list_changed" => {
                    self.told_version = self.ledger.version();
                }
                Event::State(State::Ready) => self.was_ready = true,
                Event::Diagnostic(Diagnostic::SessionLost) => {
                    self.was_ready = false;
                    self.session_unknown = false;
                }
                Event::Diagnostic(Diagnostic::MessageRejected { .. }) => self.session_unknown = true,
                Event::Changed { watch, change, .. } => {
                    assert!(matches!(change, Change::Tools | Change::Prompts), "nobody asked for {change:?}");
                    if matches!(change, Change::Tools) {
                        self.told_version = self.ledger.version();
                    }
                    self.watch_event(watch, None);
                }
                Event::Watch { watch, state: WatchState::On { missing } } => {
                    // What is fetched from now on is kept up to date; what was kept before may not have been.
                    if !missing.has_tools() {
                        self.told_version = self.ledger.version();
                    }
                    self.watch_event(watch, Some(!missing.has_tools()));
                }
                Event::Watch { watch, state: WatchState::Interrupted } => {
                    self.watch_event(watch, Some(false))
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
            let (ran, repeated) = (self.ledger.count(n), repeated.get(&n).copied().unwrap_or(0));
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

    /// Nothing goes wrong any more: then everything works, without help unless the client has given up.
    pub fn recovers(&mut self) {
        if self.closed {
            self.reconnect();
        }
        if let Some(watched) =
            self.active_watch.as_ref().filter(|watched| watched.has_tools && !self.session_unknown)
        {
            assert_eq!(watched.known_version, self.ledger.version(), "a change was missed");
        }
        for _ in 0..3 {
            self.next += 1;
            let n = self.next;
            let mut params = CallToolParams::new("look");
            params.arguments = Some(serde_json::from_value(json!({ "n": n })).unwrap());
            let now = self.pair.now();
            let request = self.pair.client.at(now).request::<CallTool>(&params, RequestOptions::default());
            let request = request.expect("a request is accepted");
            self.allowed.insert(n, 2);
            self.note_request(CallKind::Call { n, tool: Tool::Plain }, Some(request));
            let before = self.tally.results;
            self.advance(Duration::from_secs(60));
            assert!(self.pending[&request].ended, "contract 1: no outcome within a minute");
            assert!(self.tally.results > before, "nothing is wrong any more, and a request fails");
        }
        self.list();
        self.advance(Duration::from_secs(60));
    }

    pub fn close(&mut self) {
        let now = self.pair.now();
        self.pair.client.at(now).close();
        self.advance(Duration::from_secs(90));
        assert!(self.closed && self.pair.client.is_closed(), "close ends: {:?}", self.pair.client);
        assert_eq!(self.pair.client.poll_timeout(), None, "nothing is waited for after the end");
        assert_eq!(self.pair.client.queued(), 0);
        assert_eq!(self.pair.open_exchange_count(), 0, "an exchange is left open");
        self.check_settled();
        self.tally.refused = self.ledger.refused();
    }
}
