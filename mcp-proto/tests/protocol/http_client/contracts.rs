//! Properties of the client over HTTP in any sequence of events of server, transport, application and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::http_client::config;
use crate::common::messages::{LEGACY, MODERN, discover_result, initialize_result};
use mcp_proto::peer::client::Event;
use mcp_proto::peer::{RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, EmptyParams, EmptyResult, ListTools, ListToolsParams,
    RootsListChanged, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};
use mcp_proto::transport::http::client::{
    Action, AuthorizationRequired, HttpClient, HttpClientConfig, HttpRequest, UnauthorizedPolicy,
};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState, Verb};
use mcp_proto::{Bytes, Instant};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
enum Operation {
    Call,
    List,
    Listen,
    Notify,
    Respond,
    Cancel(usize),
    Close,
    /// The correct response to the exchange.
    Answer(usize),
    AnswerByEvents(usize),
    Head(usize, u16, u8),
    Body(usize, u8),
    End(usize, u8),
    /// The application resumes or gives up a parked exchange.
    Authorize(usize),
    Forbid(usize),
    Time(u64),
    DrainEvents,
}

fn operation() -> impl Strategy<Value = Operation> {
    let exchange = 0..6usize;
    let status = prop::sample::select(vec![
        200, 200, 200, 202, 204, 307, 308, 400, 401, 401, 401, 403, 404, 405, 429, 500, 503,
    ]);
    prop_oneof![
        6 => Just(Operation::Call),
        4 => Just(Operation::List),
        1 => Just(Operation::Listen),
        1 => Just(Operation::Notify),
        2 => Just(Operation::Respond),
        2 => (0..8usize).prop_map(Operation::Cancel),
        1 => Just(Operation::Close),
        16 => exchange.clone().prop_map(Operation::Answer),
        4 => exchange.clone().prop_map(Operation::AnswerByEvents),
        6 => (exchange.clone(), status, 0..4u8).prop_map(|(at, status, kind)| Operation::Head(at, status, kind)),
        8 => (exchange.clone(), 0..12u8).prop_map(|(at, what)| Operation::Body(at, what)),
        8 => (exchange.clone(), 0..4u8).prop_map(|(at, how)| Operation::End(at, how)),
        5 => exchange.clone().prop_map(Operation::Authorize),
        2 => exchange.prop_map(Operation::Forbid),
        4 => (0..40_000u64).prop_map(Operation::Time),
        4 => Just(Operation::DrainEvents),
    ]
}

/// The state of an exchange at the server.
struct OpenExchange {
    request: HttpRequest,
    body: Value,
    /// Whether the head has arrived.
    begun: bool,
}

struct ClientHarness {
    client: HttpClient,
    now: Instant,
    bytewise: bool,
    open: BTreeMap<ExchangeId, OpenExchange>,
    held: BTreeMap<ExchangeId, AuthorizationRequired>,
    requests: Vec<RequestId>,
    outcomes: BTreeMap<RequestId, u32>,
    inbound: Vec<mcp_proto::peer::InboundId>,
    /// The tool calls that the server may have acted on, by their argument.
    accepted: BTreeSet<u64>,
    calls: u64,
    seen: BTreeSet<ExchangeId>,
    log: Vec<String>,
}

impl ClientHarness {
    fn new(config: HttpClientConfig, bytewise: bool) -> Self {
        let now = Instant::ORIGIN;
        let mut world = Self {
            client: HttpClient::new(config, now).unwrap(),
            now,
            bytewise,
            open: BTreeMap::new(),
            held: BTreeMap::new(),
            requests: Vec::new(),
            outcomes: BTreeMap::new(),
            inbound: Vec::new(),
            accepted: BTreeSet::new(),
            calls: 0,
            seen: BTreeSet::new(),
            log: Vec::new(),
        };
        world.actions();
        world
    }

    fn actions(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Open(request) => {
                    assert!(self.seen.insert(request.exchange), "an exchange is never reused");
                    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
                    assert_eq!(request.verb == Verb::Post, !request.body.is_empty());
                    let modern = request
                        .headers
                        .iter()
                        .any(|(name, value)| name == "mcp-protocol-version" && value == MODERN);
                    let session = request.headers.iter().any(|(name, _)| name == "mcp-session-id");
                    assert!(!(modern && session), "no session in the modern era");
                    if let Some(marker) = marker(&body) {
                        assert!(!self.accepted.contains(&marker), "an accepted call was made again: {body}");
                    }
                    self.log.push(format!(
                        "{} {} {:?} {body}",
                        request.verb.as_str(),
                        request.url,
                        request.headers
                    ));
                    self.open.insert(request.exchange, OpenExchange { request, body, begun: false });
                }
                Action::AuthorizationRequired(challenge) => {
                    assert!(!self.open.contains_key(&challenge.exchange), "the parked exchange has ended");
                    assert!(matches!(challenge.status, 401 | 403), "{challenge:?}");
                    self.log.push(format!("{challenge:?}"));
                    assert!(
                        self.held.insert(challenge.exchange, challenge).is_none(),
                        "an exchange is parked twice"
                    );
                }
                Action::Abort(exchange) => {
                    self.held.remove(&exchange);
                    self.log.push(format!("abort {exchange:?}"));
                    assert!(self.seen.contains(&exchange), "an unknown exchange is aborted");
                    self.open.remove(&exchange);
                }
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.log.push(format!("{event:?}"));
            match event {
                Event::Outcome { request, .. } => *self.outcomes.entry(request).or_default() += 1,
                Event::Request { id, .. } => self.inbound.push(id),
                _ => {}
            }
        }
    }

    fn pick(&self, at: usize) -> Option<ExchangeId> {
        self.open.keys().nth(at.checked_rem(self.open.len().max(1))?).copied()
    }

    fn pick_parked(&self, at: usize) -> Option<ExchangeId> {
        self.held.keys().nth(at.checked_rem(self.held.len().max(1))?).copied()
    }

    /// The server may act on the request of this exchange.
    fn accept(&mut self, exchange: ExchangeId) {
        if let Some(open) = self.open.get_mut(&exchange)
            && let Some(marker) = marker(&open.body)
        {
            self.accepted.insert(marker);
        }
    }

    fn head(&mut self, exchange: ExchangeId, status: u16, kind: u8) {
        let first =
            self.open.get_mut(&exchange).is_some_and(|open| !std::mem::replace(&mut open.begun, true));
        if first && (200..300).contains(&status) {
            self.accept(exchange);
        }
        let content = ["application/json", "text/event-stream", "text/html", ""][usize::from(kind)];
        let headers = [
            ("content-type", content),
            ("mcp-session-id", "s"),
            ("location", "/elsewhere"),
            ("www-authenticate", "Bearer error=\"insufficient_scope\""),
        ];
        self.client.handle_head(self.now, exchange, status, &headers);
    }

    fn body(&mut self, exchange: ExchangeId, text: &str) {
        if self.bytewise {
            for byte in text.as_bytes() {
                self.client.handle_body(self.now, exchange, Bytes::copy_from_slice(&[*byte]));
            }
        } else {
            self.client.handle_body(self.now, exchange, Bytes::copy_from_slice(text.as_bytes()));
        }
    }

    fn end(&mut self, exchange: ExchangeId, end: ExchangeEnd) {
        self.open.remove(&exchange);
        self.client.handle_end(self.now, exchange, end);
    }

    fn expected_answer(&self, exchange: ExchangeId) -> Option<Value> {
        let open = self.open.get(&exchange)?;
        let result = match open.body["method"].as_str()? {
            "server/discover" => discover_result(),
            "initialize" => initialize_result(LEGACY),
            "tools/list" => json!({"resultType": "complete", "tools": []}),
            _ => json!({"resultType": "complete", "content": []}),
        };
        Some(json!({"jsonrpc": "2.0", "id": open.body.get("id")?, "result": result}))
    }

    fn run(&mut self, op: &Operation) {
        let now = self.now;
        let options = RequestOptions::default;
        match *op {
            Operation::Call => {
                self.calls += 1;
                let mut params = CallToolParams::new("pay");
                params.arguments = Some(serde_json::from_value(json!({"n": self.calls})).unwrap());
                self.requests.extend(self.client.at(now).request::<CallTool>(&params, options()));
            }
            Operation::List => {
                self.requests
                    .extend(self.client.at(now).request::<ListTools>(&ListToolsParams::new(), options()));
            }
            Operation::Listen => {
                let params = SubscriptionsListenParams::new(SubscriptionFilter::new());
                self.requests.extend(self.client.at(now).request::<SubscriptionsListen>(&params, options()));
            }
            Operation::Notify => {
                let _ = self.client.at(now).notify::<RootsListChanged>(&EmptyParams::default());
            }
            Operation::Respond => {
                if let Some(id) = self.inbound.pop() {
                    self.client.at(now).respond(id, Ok(&EmptyResult::new()));
                }
            }
            Operation::Cancel(at) => {
                if let Some(request) = self.requests.get(at) {
                    self.client.at(now).cancel(*request, Some("enough"));
                }
            }
            Operation::Close => self.client.at(now).close(),
            Operation::Answer(at) => {
                if let Some(exchange) = self.pick(at) {
                    let answer = self.expected_answer(exchange);
                    self.head(exchange, if answer.is_some() { 200 } else { 202 }, 0);
                    if let Some(answer) = answer {
                        self.body(exchange, &answer.to_string());
                    }
                    self.end(exchange, ExchangeEnd::Complete);
                }
            }
            Operation::AnswerByEvents(at) => {
                if let Some(exchange) = self.pick(at)
                    && let Some(answer) = self.expected_answer(exchange)
                {
                    self.head(exchange, 200, 1);
                    self.body(exchange, &format!("id: 9\ndata: {answer}\n\n"));
                }
            }
            Operation::Head(at, status, kind) => {
                if let Some(exchange) = self.pick(at) {
                    self.head(exchange, status, kind);
                }
            }
            Operation::Body(at, what) => {
                if let Some(exchange) = self.pick(at) {
                    let id = self.open[&exchange].body["id"].clone();
                    let text = match what {
                        0 => "id: 1\nretry: 100\ndata:\n\n".to_owned(),
                        1 => format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}\n\n"),
                        2 => format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":"),
                        3 => "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n".to_owned(),
                        4 => "event: endpoint\ndata: /post\n\n".to_owned(),
                        5 => "data: noise\n\n:\n\nevent: other\ndata: 1\n\n".to_owned(),
                        6 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32020,\"message\":\"m\"}}}}"),
                        7 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32022,\"message\":\"m\",\"data\":{{\"supported\":[\"{MODERN}\"]}}}}}}"),
                        8 => "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"No valid session\"}}".to_owned(),
                        9 => "x".repeat(3000),
                        10 => format!("data: {}\n\n", "y".repeat(3000)),
                        _ => "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n".to_owned(),
                    };
                    self.body(exchange, &text);
                }
            }
            Operation::End(at, how) => {
                if let Some(exchange) = self.pick(at) {
                    let end = match how {
                        0 => ExchangeEnd::Complete,
                        1 => ExchangeEnd::Truncated("cut".into()),
                        2 => ExchangeEnd::Failed { sent: SentState::MaybeSent, detail: "reset".into() },
                        _ => ExchangeEnd::Failed { sent: SentState::NotSent, detail: "refused".into() },
                    };
                    // Once a head has arrived, the request has been sent.
                    let end = match end {
                        ExchangeEnd::Failed { .. } if self.open[&exchange].begun => ExchangeEnd::Complete,
                        ExchangeEnd::Failed { sent: SentState::MaybeSent, .. } => {
                            self.accept(exchange);
                            end
                        }
                        end => end,
                    };
                    self.end(exchange, end);
                }
            }
            Operation::Authorize(at) => {
                if let Some(exchange) = self.pick_parked(at) {
                    self.held.remove(&exchange);
                    self.client.resume(now, exchange);
                }
            }
            Operation::Forbid(at) => {
                if let Some(exchange) = self.pick_parked(at) {
                    self.held.remove(&exchange);
                    self.client.refuse(now, exchange, "nobody logged in");
                }
            }
            Operation::Time(ms) => self.advance(Duration::from_millis(ms)),
            Operation::DrainEvents => self.events(),
        }
        self.actions();
    }

    fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut steps = 0;
        while let Some(due) = self.client.poll_timeout().filter(|&due| due <= end) {
            steps += 1;
            assert!(steps < 10_000, "too many timeouts");
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now);
            let next = self.client.poll_timeout();
            assert!(next.is_none_or(|next| next > self.now), "contract 5: livelock");
            self.actions();
        }
        self.now = end;
        self.client.handle_timeout(end);
        self.actions();
    }
}

/// Identifies a tool call across its retries.
fn marker(body: &Value) -> Option<u64> {
    body["params"]["arguments"]["n"].as_u64()
}

fn run(config: &HttpClientConfig, ops: &[Operation], bytewise: bool) -> Vec<String> {
    let mut world = ClientHarness::new(config.clone(), bytewise);
    for op in ops {
        world.run(op);
    }
    world.client.at(world.now).close();
    world.actions();
    world.advance(Duration::from_secs(3600));
    world.events();
    assert!(world.client.is_closed(), "{:?}", world.client);
    assert_eq!(world.client.poll_timeout(), None);
    assert_eq!(world.client.queued(), 0);
    for request in &world.requests {
        assert_eq!(world.outcomes.get(request), Some(&1), "contract 1: {request:?}\n{:#?}", world.log);
    }
    assert_eq!(world.outcomes.len(), world.requests.len());
    let left: Vec<_> = world.open.values().map(|open| &open.request).collect();
    assert!(left.is_empty(), "exchanges that never end: {left:?}");
    assert!(world.held.is_empty(), "exchanges are parked although no request waits: {:?}", world.held);
    world.log
}

fn small_config(mode: mcp_proto::peer::client::EraPolicy) -> HttpClientConfig {
    let mut config = config();
    config.client.era_policy = mode;
    config.client.capabilities = config.client.capabilities.with(ClientCapability::RootsListChanged);
    config.client.limits.exchanges = 3;
    config.client.limits.message_bytes = 2000;
    config.chunked_results = true;
    config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Contracts 1, 2, 4, 5, 8, 9; K25.
    #[test]
    fn each_request_ends_once_and_nothing_accepted_is_repeated(
        ops in prop::collection::vec(operation(), 0..80),
        legacy in any::<bool>(),
        park in any::<bool>(),
    ) {
        use mcp_proto::peer::client::EraPolicy;
        let mut config = small_config(if legacy { EraPolicy::LegacyOnly } else { EraPolicy::Auto });
        config.authorization = if park { UnauthorizedPolicy::Park } else { UnauthorizedPolicy::Report };
        let whole = run(&config, &ops, false);
        let bytes = run(&config, &ops, true);
        prop_assert_eq!(whole, bytes, "contract 4");
    }
}

#[cfg(feature = "fuzzing")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fuzz_target_accepts_random_input(data in prop::collection::vec(any::<u8>(), 0..2000)) {
        mcp_proto::fuzzing::http_client(&data);
    }
}
