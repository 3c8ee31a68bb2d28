//! A host with a client, a server, a network between them, and what must hold whatever happens to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::bind::http::client::{HttpClient, HttpClientConfig, Listen};
use mcp_proto::front::http::HttpHandle;
use mcp_proto::peer::client::{
    Change, ClientConfig, Closed, Diagnostic, Event, Interest, Mode, Since, State, WatchId, WatchState,
};
use mcp_proto::peer::server::ListKind;
use mcp_proto::peer::{Lost, Outcome, Reissue, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, EmptyParams, Era, Implementation, ListRootsResult, ListTools, PaginatedParams,
    Ping, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};
use mcp_proto::testing::http::{Cut, Dice, HttpPair, HttpPeer, Weather};
use serde_json::{Value, json};

pub const URL: &str = "http://localhost/mcp";

/// What outlives a server: what its tools have done, how often, by the argument of the call; and what its tools are.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<u64, u32>>>, Arc<Mutex<Tools>>);

/// The list of tools, as far as it matters, and who tells of its changes.
#[derive(Debug, Default)]
struct Tools {
    version: u64,
    handle: Option<HttpHandle>,
}

impl Ledger {
    /// Notes that the tool ran with this argument.
    pub fn run(&self, n: u64) {
        *self.0.lock().unwrap().entry(n).or_default() += 1;
    }

    /// A server begins to serve; it tells of changes from now on.
    pub fn serve(&self, handle: HttpHandle) {
        self.1.lock().unwrap().handle = Some(handle);
    }

    /// The list of tools changes, if there is a server of this workspace that could tell.
    pub fn change(&self) {
        let handle = {
            let mut tools = self.1.lock().unwrap();
            tools.version += u64::from(tools.handle.is_some());
            tools.handle.clone()
        };
        if let Some(handle) = handle {
            handle.list_changed(ListKind::Tools);
        }
    }

    /// What the list of tools is now.
    pub fn version(&self) -> u64 {
        self.1.lock().unwrap().version
    }

    /// How often it did.
    pub fn count(&self, n: u64) -> u32 {
        self.0.lock().unwrap().get(&n).copied().unwrap_or(0)
    }
}

/// A request of the host's.
struct Made {
    what: What,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// A call with this argument, which may run so often.
    Call {
        n: u64,
        most: u32,
    },
    Other,
}

/// A watch of the host's, and what the host knows by it.
struct Watched {
    id: WatchId,
    /// Whether the server tells of the list of tools.
    on: bool,
    /// The list of tools as it was fetched last.
    known: u64,
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
        self.reconnects += other.reconnects;
        self.restarts += other.restarts;
    }
}

/// How servers are made: with what they share and a seed.
pub type Site<'a> = &'a dyn Fn(&Ledger, Instant, u64) -> Box<dyn HttpPeer>;

pub struct World<'a> {
    pub pair: HttpPair,
    site: Site<'a>,
    config: HttpClientConfig,
    pub ledger: Ledger,
    dice: Dice,
    made: BTreeMap<RequestId, Made>,
    order: Vec<RequestId>,
    /// How often each argument may run by now.
    allowed: BTreeMap<u64, u32>,
    next: u64,
    watched: Option<Watched>,
    /// Whether the server does not know, as far as the client can tell, that the session has begun.
    unsaid: bool,
    closed: bool,
    /// Whether the client of now is ready, and has not lost its session since.
    was_ready: bool,
    pub tally: Tally,
}

impl<'a> World<'a> {
    pub fn new(site: Site<'a>, config: HttpClientConfig, seed: u64) -> Self {
        let ledger = Ledger::default();
        let mut dice = Dice::new(seed);
        let server = site(&ledger, Instant::ORIGIN, dice.below(1 << 20));
        let client = HttpClient::new(config.clone(), Instant::ORIGIN).unwrap();
        Self {
            pair: HttpPair::new(client, server, dice.below(u64::MAX)),
            site,
            config,
            ledger,
            dice,
            made: BTreeMap::new(),
            order: Vec::new(),
            allowed: BTreeMap::new(),
            next: 1,
            watched: None,
            unsaid: false,
            closed: false,
            was_ready: false,
            tally: Tally::default(),
        }
    }

    /// A client that differs from seed to seed in what does not matter for what must hold.
    pub fn config(dice: &mut Dice, era: Era) -> HttpClientConfig {
        let mut client = ClientConfig::new(Implementation::new("host", "1"));
        client.capabilities.roots = Some(Default::default());
        client.mode = if era == Era::Legacy && dice.chance(200) { Mode::LegacyOnly } else { Mode::Auto };
        client.limits.exchanges = usize::try_from(2 + dice.below(6)).unwrap();
        let mut config = HttpClientConfig::new(client, URL);
        config.seed = dice.below(u64::MAX);
        if dice.chance(300) {
            config.listen = Listen::Never;
        }
        config
    }

    /// The weather of one run: some things go wrong often, and some never.
    pub fn storm(&mut self) -> Weather {
        let latest = *self.dice.of(&[1, 20, 500, 3000]).unwrap();
        let dice = &mut self.dice;
        let mut odds =
            |most: u64| if dice.chance(500) { u16::try_from(dice.below(most)).unwrap() } else { 0 };
        let mut weather = Weather::CALM;
        weather.latency = Duration::from_millis(1)..=Duration::from_millis(latest);
        weather.refused = odds(150);
        weather.lost = odds(100);
        weather.headless = odds(100);
        weather.cut = odds(200);
        weather.replaced = odds(150);
        weather.redirected = odds(150);
        weather.again = odds(100);
        weather.buffered = odds(200);
        weather.idle = odds(300);
        weather.chopped = odds(200);
        weather.hidden = odds(500);
        weather
    }

    /// Everything that can happen, for a while; then nothing bad any more; then the end.
    pub fn run(&mut self, steps: u32) {
        self.pair.weather = self.storm();
        for _ in 0..steps {
            self.act();
            let pause = match self.dice.below(4) {
                0 => 0,
                1 => self.dice.below(50),
                2 => self.dice.below(3000),
                _ => self.dice.below(20_000),
            };
            self.pass(Duration::from_millis(pause));
        }
        self.pair.calm();
        self.ledger.change();
        // What is under way may still fail, and pauses last for half a minute.
        self.pass(Duration::from_secs(180));
        self.recovers();
        self.close();
    }

    /// Lets time pass, and the host take its events.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.pair.now() + duration;
        self.pair.settle();
        self.take_events();
        while self.pair.step(end) {
            self.take_events();
        }
        self.pair.advance(end.saturating_since(self.pair.now()));
        self.take_events();
    }

    fn act(&mut self) {
        let now = self.pair.now();
        match self.dice.below(40) {
            0..15 => self.call(None),
            15..18 => {
                let params = PaginatedParams::default();
                let request = self.pair.client.request::<ListTools>(now, &params, RequestOptions::default());
                self.made(What::Other, request.ok());
            }
            18..20 => {
                let request =
                    self.pair.client.request::<Ping>(now, &EmptyParams::default(), RequestOptions::default());
                self.made(What::Other, request.ok());
            }
            20..23 => {
                let mut filter = SubscriptionFilter::new();
                filter.tools_list_changed = Some(true);
                let params = SubscriptionsListenParams::new(filter);
                let request =
                    self.pair.client.request::<SubscriptionsListen>(now, &params, RequestOptions::default());
                self.made(What::Other, request.ok());
            }
            23..26 => {
                if let Some(&request) = self.dice.of(&self.order) {
                    self.pair.client.cancel(now, request, Some("enough"));
                }
            }
            26 => {
                let server = (self.site)(&self.ledger, now, self.dice.below(1 << 20));
                let cut = *self.dice.of(&[Cut::Noticed, Cut::Hidden]).unwrap();
                self.pair.restart(server, cut);
                self.tally.restarts += 1;
            }
            27 => {
                let far = *self.dice.of(&[10, 100, 4000]).unwrap();
                let jump = Duration::from_secs(self.dice.below(far));
                self.pair.jump(jump);
            }
            28 => {
                // The host has had enough, and begins anew.
                self.pair.client.abort(now, Lost::Closed);
                self.take_events();
            }
            29 => self.pair.weather = self.storm(),
            30..33 => self.watch(),
            33..38 => self.ledger.change(),
            _ => {}
        }
        self.take_events();
        if self.closed {
            self.reconnect();
        }
    }

    /// Begins to watch, ends that, or watches something else beside.
    fn watch(&mut self) {
        let now = self.pair.now();
        let interest = if self.dice.chance(500) { Interest::new() } else { Interest::new().prompts() };
        let interest = interest.tools();
        match &self.watched {
            None => {
                let id = self.pair.client.watch(now, interest, Since::Now).ok();
                self.watched = id.map(|id| Watched { id, on: false, known: 0 });
            }
            Some(watched) if self.dice.chance(200) => {
                self.pair.client.unwatch(now, watched.id);
                self.watched = None;
            }
            Some(watched) => self.pair.client.set_interest(now, watched.id, interest),
        }
    }

    fn watch_event(&mut self, id: WatchId, on: Option<bool>) {
        let watched = self.watched.as_mut().filter(|watched| watched.id == id);
        let watched = watched.expect("something is told to a watch that is over");
        watched.on = on.unwrap_or(watched.on);
        watched.known = self.ledger.version();
        self.tally.changes += u32::from(on.is_none());
    }

    /// Calls a tool, by chance or by name; returns the argument.
    pub fn call(&mut self, name: Option<&str>) {
        let n = self.next;
        self.next += 1;
        let name = name.unwrap_or_else(|| self.dice.of(&["pay", "pay", "look", "set", "ask"]).unwrap());
        let mut params = CallToolParams::new(name);
        params.arguments = Some(serde_json::from_value(json!({ "n": n })).unwrap());
        let mut options = RequestOptions::default();
        options.reissue = match self.dice.below(8) {
            0 => Reissue::Always,
            1 => Reissue::Never,
            _ => Reissue::WhereSafe,
        };
        if self.dice.chance(200) {
            options.timeout = Some(Duration::from_millis(self.dice.below(5000)));
        }
        let safe = matches!(name, "look" | "set");
        let most = match options.reissue {
            Reissue::Always => 2,
            Reissue::WhereSafe if safe => 2,
            _ => 1,
        };
        let request = self.pair.client.request::<CallTool>(self.pair.now(), &params, options);
        self.allowed.insert(n, most);
        self.made(What::Call { n, most }, request.ok());
    }

    fn made(&mut self, what: What, request: Option<RequestId>) {
        let Some(request) = request else { return };
        self.tally.requests += 1;
        assert!(self.made.insert(request, Made { what, ended: false }).is_none(), "a handle is used twice");
        self.order.push(request);
    }

    fn take_events(&mut self) {
        let now = self.pair.now();
        while let Some(event) = self.pair.client.poll_event() {
            assert!(!self.closed, "nothing follows the end: {event:?}");
            self.pair.note(|| format!("event {event:?}"));
            match event {
                Event::Outcome { request, outcome } => self.end(request, &outcome),
                Event::Progress { request, .. } => {
                    let made = self.made.get(&request).expect("progress of a request that was made");
                    assert!(!made.ended, "progress comes before the outcome");
                }
                Event::Request { id, .. } => {
                    self.pair.client.respond(now, id, Ok(&ListRootsResult::new(Vec::new())));
                }
                Event::State(State::Ready) => self.was_ready = true,
                Event::Diagnostic(Diagnostic::SessionLost) => {
                    self.was_ready = false;
                    self.unsaid = false;
                }
                Event::Diagnostic(Diagnostic::NotTaken { .. }) => self.unsaid = true,
                Event::Changed { watch, change, .. } => {
                    assert!(matches!(change, Change::Tools | Change::Prompts), "nobody asked for {change:?}");
                    self.watch_event(watch, None);
                }
                Event::Watch { watch, state: WatchState::On { missing } } => {
                    self.watch_event(watch, Some(!missing.has_tools()));
                }
                Event::Watch { watch, state: WatchState::Interrupted } => {
                    self.watch_event(watch, Some(false))
                }
                Event::Watch { watch, state } => {
                    assert!(matches!(state, WatchState::Ended(_)), "{state:?}");
                    self.watch_event(watch, None);
                    self.watched = None;
                }
                Event::Closed(closed) => {
                    self.closed = true;
                    let never = !matches!(closed, Closed::Connect(_));
                    assert!(never || !self.was_ready, "{closed:?} of a client that was ready");
                }
                _ => {}
            }
        }
        let limits = self.config.client.limits;
        assert!(self.pair.client.queued() <= limits.queued_bytes, "contract 8");
    }

    fn end(&mut self, request: RequestId, outcome: &Outcome) {
        let made = self.made.get_mut(&request).expect("an outcome of a request that was made");
        assert!(!std::mem::replace(&mut made.ended, true), "contract 1: a second outcome: {outcome:?}");
        match outcome {
            Outcome::Result(raw) => {
                self.tally.results += 1;
                if let What::Call { n, .. } = made.what {
                    let result: Value = serde_json::from_slice(raw.as_bytes()).unwrap();
                    assert_eq!(result["content"][0]["text"], format!("done {n}"), "somebody else's answer");
                    assert!(self.ledger.count(n) > 0, "a result of what never ran");
                }
            }
            Outcome::Lost(_) => self.tally.lost += 1,
            Outcome::TimedOut { .. } => self.tally.timed_out += 1,
            // Contract 11: nobody has sent an error here, but for methods that the server's revision does not have.
            Outcome::Error(error) => {
                assert!(
                    error.code == -32601
                        || matches!(made.what, What::Other)
                        || error.message.contains("ession"),
                    "nobody has sent this: {error:?}"
                );
                self.tally.other += 1;
            }
            _ => self.tally.other += 1,
        }
    }

    fn check_settled(&self) {
        for (request, made) in &self.made {
            assert!(made.ended, "contract 1: {request:?} ({:?}) has no outcome", made.what);
        }
        let mut repeated: BTreeMap<u64, u32> = BTreeMap::new();
        for request in &self.pair.repeated {
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
        self.made.clear();
        self.watched = None;
        self.unsaid = false;
        self.order.clear();
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
        if let Some(watched) = self.watched.as_ref().filter(|watched| watched.on && !self.unsaid) {
            assert_eq!(watched.known, self.ledger.version(), "a change was missed");
        }
        for _ in 0..3 {
            self.next += 1;
            let n = self.next;
            let mut params = CallToolParams::new("look");
            params.arguments = Some(serde_json::from_value(json!({ "n": n })).unwrap());
            let now = self.pair.now();
            let request = self.pair.client.request::<CallTool>(now, &params, RequestOptions::default());
            let request = request.expect("a request is accepted");
            self.made(What::Call { n, most: 2 }, Some(request));
            let before = self.tally.results;
            self.pass(Duration::from_secs(60));
            assert!(self.made[&request].ended, "contract 1: no outcome within a minute");
            assert!(self.tally.results > before, "nothing is wrong any more, and a request fails");
        }
    }

    pub fn close(&mut self) {
        let now = self.pair.now();
        self.pair.client.close(now);
        self.pass(Duration::from_secs(90));
        assert!(self.closed && self.pair.client.is_closed(), "close ends: {:?}", self.pair.client);
        assert_eq!(self.pair.client.poll_timeout(), None, "nothing is waited for after the end");
        assert_eq!(self.pair.client.queued(), 0);
        assert_eq!(self.pair.open(), 0, "an exchange is left open");
        self.check_settled();
    }
}
