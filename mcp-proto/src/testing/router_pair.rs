//! A router and a client, joined on simulated time.

use alloc::sync::Arc;
use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::clock::SimulatedTask;
use super::driven::{DrivenClient, DrivenServer};
#[cfg(feature = "http")]
use super::http::{FrontPeer, HttpPair, NetworkConditions};
use super::{CountingEntropy, Network, Pair, PairSide, ServerSide, SimulatedClock};
use crate::front::{Client, ClientHandlers, Clock as _, HandlerMode, SendHandlers, ServedRouter};
use crate::peer::client::{ClientConfig, EraPolicy};
use crate::prelude::*;
use crate::schema::Implementation;
use crate::transport::StreamClient;
#[cfg(feature = "http")]
use crate::transport::http::client::{HttpClient, HttpClientConfig};
#[cfg(feature = "http")]
use crate::transport::http::server::HttpServerConfig;
use crate::{Instant, adapter};

/// The simulated time after which a test counts as stuck if it was not woken and nothing sleeps on the clock. Timers of
/// the protocol may run for ever: those that keep a stream alive, for example.
const STUCK: Duration = Duration::from_secs(24 * 60 * 60);
/// The number of polls at one instant after which a test counts as one that wakes itself for ever.
const MAX_POLLS: u32 = 100_000;
/// The number of lines of the transcript that a panic quotes, before and after the test was woken last.
const QUOTED: usize = 8;

/// Joins a router and a client, for tests of the router's handlers and of the client's: see [`RouterPair`].
///
/// ```
/// use mcp_proto::front::Router;
/// use mcp_proto::schema::Tool;
/// use mcp_proto::testing;
/// use serde_json::{Value, json};
///
/// let tool = Tool::new("greet", "Greets", json!({ "type": "object" }));
/// let router = Router::new("greeter", "1.0.0")
///     .tool_with(tool, async |greet: Value, _| format!("Hello, {}!", greet["name"].as_str().unwrap_or("world")));
///
/// let mut pair = testing::pair(router);
/// let greeting = pair.run(async |client| client.call_tool("greet", json!({ "name": "Ada" })).await)?;
/// assert_eq!(greeting.text_content(), "Hello, Ada!");
/// # Ok::<(), mcp_proto::Error>(())
/// ```
///
/// # Panics
/// If the router is invalid ([`Router::check`](crate::front::Router::check)).
#[track_caller]
pub fn pair<M: HandlerMode>(router: impl Into<ServedRouter<M>>) -> RouterPair<M> {
    let router = router.into();
    if let Err(error) = router.router().check() {
        panic!("the router is invalid: {error}");
    }
    RouterPair {
        router,
        handlers: Some(ClientHandlers::new()),
        options: PairOptions {
            client: ClientConfig::new(Implementation::new("test", "1.0.0")),
            network: Network::default(),
            seed: 1,
            #[cfg(feature = "http")]
            http: false,
        },
        clock: Arc::default(),
        connection: None,
    }
}

/// A router and a client that are joined on a simulated clock and network. Made by [`pair`].
///
/// By default they are joined by a byte stream and speak the newest revision. The methods that return the pair change
/// that before the first [`run`](Self::run), which connects the client.
///
/// Timeouts and sleeps take no real time: the clock advances when nothing else can happen. Handlers and tests wait with
/// [`SimulatedClock::sleep`]. The same seed gives the same [transcript](Self::transcript), as long as handlers use no
/// threads, no clock and no randomness of their own.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use mcp_proto::front::{Error, NoArguments, Router};
/// use mcp_proto::schema::{Json, Tool};
/// use mcp_proto::testing::{self, SimulatedClock};
/// use serde_json::json;
///
/// let clock = Arc::new(SimulatedClock::default());
/// let slow = clock.clone();
/// let tool = Tool::new("slow", "Takes an hour", Json::empty_object());
/// let router = Router::new("slow", "1.0.0").tool_with(tool, move |NoArguments {}, _| {
///     let clock = slow.clone();
///     async move { clock.sleep(Duration::from_secs(3600)).await }
/// });
///
/// let mut pair = testing::pair(router).clock(clock).legacy();
/// let outcome = pair.run(async |client| client.call_tool("slow", json!({})).await);
/// assert!(matches!(outcome, Err(Error::TimedOut { .. })));
/// ```
pub struct RouterPair<M: HandlerMode = SendHandlers, H: HandlerMode = SendHandlers> {
    router: ServedRouter<M>,
    /// The handlers of the next connection.
    handlers: Option<ClientHandlers<H>>,
    options: PairOptions,
    clock: Arc<SimulatedClock>,
    connection: Option<Connection>,
}

/// The options of a pair.
#[derive(Clone)]
struct PairOptions {
    client: ClientConfig,
    network: Network,
    seed: u64,
    #[cfg(feature = "http")]
    http: bool,
}

struct Connection {
    client: Client,
    link: Box<dyn Link>,
}

/// A client and a server on a simulated network.
trait Link {
    fn now(&self) -> Instant;

    /// Runs everything that is due at this time.
    fn run_due_at(&mut self, now: Instant);

    /// Moves to the next deadline; whether there is one.
    fn step(&mut self) -> bool;

    /// The messages so far, each with its time and direction.
    fn transcript(&self) -> &[String];
}

impl<C: PairSide<Machine = StreamClient>, S: ServerSide> Link for Pair<C, S> {
    fn now(&self) -> Instant {
        self.now
    }

    fn run_due_at(&mut self, now: Instant) {
        self.now = now;
        self.run_due();
    }

    fn step(&mut self) -> bool {
        Self::step(self)
    }

    fn transcript(&self) -> &[String] {
        &self.log
    }
}

#[cfg(feature = "http")]
impl<C: PairSide<Machine = HttpClient>> Link for HttpPair<C> {
    fn now(&self) -> Instant {
        Self::now(self)
    }

    fn run_due_at(&mut self, now: Instant) {
        match now.saturating_since(Self::now(self)) {
            Duration::ZERO => self.run_due(),
            ahead => self.jump_clock(ahead),
        }
    }

    fn step(&mut self) -> bool {
        Self::step(self, Instant::from_origin(Duration::MAX))
    }

    fn transcript(&self) -> &[String] {
        self.log.as_deref().unwrap_or_default()
    }
}

impl<M: HandlerMode, H: HandlerMode> RouterPair<M, H> {
    /// Makes the client speak the legacy protocol (2025-11-25): with a handshake, over HTTP with a session.
    #[must_use]
    pub fn legacy(self) -> Self {
        self.configure(|client| client.era_policy = EraPolicy::LegacyOnly)
    }

    setters! {
        /// Joins the two by HTTP in place of a byte stream.
        #[cfg(feature = "http")]
        #[must_use]
        pub fn http(self) { self.options.http = true }

        /// Sets the seed of all ids and keys. Default 1.
        #[must_use]
        pub fn seed(self, seed: u64) { self.options.seed = seed }

        /// Sets the latency of the network, and the size of the pieces in which it delivers. Default: everything arrives
        /// after a millisecond, in one piece.
        #[must_use]
        pub fn network(self, network: Network) { self.options.network = network }

        /// Sets the clock, which handlers share to wait on it. Default: a clock of the pair's own, [`time`](Self::time).
        #[must_use]
        pub fn clock(self, clock: Arc<SimulatedClock>) { self.clock = clock }

        /// Changes the configuration of the client, such as its timeouts. Its capabilities are those of its handlers.
        #[must_use]
        pub fn configure(self, change: impl FnOnce(&mut ClientConfig)) { change(&mut self.options.client) }
    }

    /// Sets the handlers of the client, for requests of the server.
    #[must_use]
    pub fn handlers<N: HandlerMode>(self, handlers: ClientHandlers<N>) -> RouterPair<M, N> {
        let Self { router, options, clock, connection, .. } = self;
        RouterPair { router, handlers: Some(handlers), options, clock, connection }
    }

    /// The simulated clock.
    pub fn time(&self) -> &Arc<SimulatedClock> {
        &self.clock
    }

    /// All messages so far with their times, a line each, to compare runs and to read. Empty before the first run.
    pub fn transcript(&self) -> String {
        self.connection.as_ref().map(|connection| connection.link.transcript().join("\n")).unwrap_or_default()
    }

    /// Runs a test with the client, and returns what the test returns. The connection stays open for the next run.
    ///
    /// # Panics
    /// If the test waits for something that cannot happen any more: nothing is in transit, and no timer runs. Also if
    /// the test was not woken for a day of simulated time in which nothing sleeps on the clock, or wakes itself for ever.
    #[track_caller]
    pub fn run<T>(&mut self, test: impl AsyncFnOnce(Client) -> T) -> T {
        let Self { router, handlers, options, clock, connection } = self;
        if let Some(handlers) = handlers.take() {
            *connection = Some(connect(router, handlers, options, clock));
        }
        let Connection { client, link } = connection.as_mut().expect("the first run connects");
        let task = SimulatedTask::new();
        let mut cx = Context::from_waker(task.waker());
        let mut running = pin!(test(client.clone()));
        let (mut last_woken, mut lines, mut polls) = (clock.now(), 0, 0_u32);
        loop {
            let now = clock.now();
            if task.take_woken() {
                polls = if now == last_woken { polls.saturating_add(1) } else { 0 };
                (last_woken, lines) = (now, link.transcript().len());
                if let Poll::Ready(value) = running.as_mut().poll(&mut cx) {
                    return value;
                }
            }
            link.run_due_at(clock.now());
            if task.is_woken() {
                assert!(polls < MAX_POLLS, "the test wakes itself for ever");
                continue;
            }
            let is_stuck = now.saturating_since(last_woken) >= STUCK && clock.next_wake().is_none();
            let has_moved = !is_stuck && link.step();
            clock.set(link.now());
            if !has_moved {
                let reason = match is_stuck {
                    true => "only timers of the protocol run",
                    false => "nothing is in transit, and no timer runs",
                };
                let (state, elapsed) = (client.state(), now.since_origin());
                let quoted = link.transcript().iter().skip(lines.saturating_sub(QUOTED)).take(QUOTED * 2);
                let quoted = quoted.map(String::as_str).collect::<Vec<_>>().join("\n");
                panic!(
                    "the test waits for something that cannot happen: {reason}, {elapsed:?} after the start; the client \
                     is {state:?}; the messages around the time at which the test was woken last:\n{quoted}"
                );
            }
        }
    }
}

fn connect<M: HandlerMode, H: HandlerMode>(
    router: &ServedRouter<M>,
    handlers: ClientHandlers<H>,
    options: &PairOptions,
    clock: &Arc<SimulatedClock>,
) -> Connection {
    let mut options = options.clone();
    options.client.capabilities = handlers.capabilities().clone();
    #[cfg(feature = "http")]
    if options.http {
        return connect_http(router.clone(), handlers, options, clock.clone());
    }
    let entropy = Arc::new(CountingEntropy::new(options.seed));
    let (client, driver) = adapter::client(StreamClient::new(options.client), clock.clone(), handlers);
    let server = DrivenServer::new(router.clone(), clock.clone(), entropy);
    let pair = Pair::join(DrivenClient::new(driver, clock.clone()), server, options.network);
    Connection { client, link: Box::new(pair) }
}

#[cfg(feature = "http")]
fn connect_http<M: HandlerMode, H: HandlerMode>(
    router: ServedRouter<M>,
    handlers: ClientHandlers<H>,
    PairOptions { client, network, seed, .. }: PairOptions,
    clock: Arc<SimulatedClock>,
) -> Connection {
    let config = HttpServerConfig::new(router.router().config());
    let server = FrontPeer::new(router, config, clock.clone(), seed);
    let mut config = HttpClientConfig::new(client, "http://localhost/mcp");
    config.seed = seed;
    let machine = HttpClient::new(config, clock.now()).expect("the URL is valid");
    let (client, driver) = adapter::client(machine, clock.clone(), handlers);
    let mut pair = HttpPair::new(DrivenClient::new(driver, clock), Box::new(server), seed);
    pair.log = Some(Vec::new());
    pair.conditions = NetworkConditions {
        latency: network.latency..=network.latency,
        chunk: network.chunk,
        ..NetworkConditions::RELIABLE
    };
    Connection { client, link: Box::new(pair) }
}

debug_fields! { [M: HandlerMode, H: HandlerMode] RouterPair<M, H> { router } }
