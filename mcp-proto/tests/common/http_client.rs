//! A client over HTTP, whose server the test plays.
//!
//! Each scenario runs twice, with bodies in one piece and byte by byte: the output must be the same.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use mcp_proto::peer::client::{CloseReason, Diagnostic, EraPolicy, Event, State};
use mcp_proto::peer::{Outcome, RequestId};
use mcp_proto::transport::http::client::{
    Action, AuthorizationRequired, HttpClient, HttpClientConfig, HttpRequest,
};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, Fields, SentState, Verb};
use mcp_proto::{Bytes, Instant};
use serde_json::Value;

use super::client;
use super::messages::{LEGACY, answer, discover_result, error_with, initialize_result};

pub const SESSION: &str = "session-1";
pub const URL: &str = "http://localhost:3000/mcp";

pub fn config() -> HttpClientConfig {
    HttpClientConfig::new(client::config(), URL)
}

pub fn legacy_config() -> HttpClientConfig {
    let mut config = config();
    config.client.era_policy = EraPolicy::LegacyOnly;
    config
}

/// Runs a scenario with whole bodies and with bodies byte by byte, and compares the outputs.
pub fn scenario(config: HttpClientConfig, run: impl Fn(&mut ClientWire)) {
    let log = |pieces| {
        let mut wire = ClientWire::new(config.clone(), pieces);
        run(&mut wire);
        wire.drain();
        wire.log
    };
    let (whole, bytes) = (log(Pieces::Whole), log(Pieces::Bytes));
    assert_eq!(whole, bytes, "the outcome depends on how bodies are cut");
}

/// The same, with a client that talks to a modern server.
pub fn modern(config: HttpClientConfig, run: impl Fn(&mut ClientWire)) {
    scenario(config, |wire| {
        let probe = wire.expect("server/discover");
        wire.answer(&probe, discover_result());
        assert_eq!(wire.client.state(), State::Ready);
        wire.take_events();
        run(wire);
    });
}

/// The same, with a client that is in a session of a legacy server. The stream of the server's own messages is open.
pub fn legacy(config: HttpClientConfig, run: impl Fn(&mut ClientWire, Exchange)) {
    legacy_at(LEGACY, config, run);
}

pub fn legacy_at(
    version: &'static str,
    mut config: HttpClientConfig,
    run: impl Fn(&mut ClientWire, Exchange),
) {
    config.client.era_policy = EraPolicy::LegacyOnly;
    scenario(config, |wire| {
        wire.open_session(version, SESSION);
        let listener = wire.expect_get();
        wire.head(&listener, 200, &[("content-type", "text/event-stream")]);
        assert_eq!(wire.client.state(), State::Ready);
        wire.take_events();
        run(wire, listener);
    });
}

/// Headers, and how often they were read.
pub struct CountedFields<'a>(pub &'a [(&'a str, &'a str)], pub Cell<u32>);

impl Fields for CountedFields<'_> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.1.set(self.1.get() + 1);
        self.0.each(show);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    Whole,
    Bytes,
}

/// An exchange that the client has opened.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub request: HttpRequest,
    pub body: Value,
}

impl Exchange {
    pub fn exchange(&self) -> ExchangeId {
        self.request.exchange
    }

    pub fn id(&self) -> Value {
        self.body["id"].clone()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.request.headers.iter().filter(|(candidate, _)| candidate == name);
        let first = values.next().map(|(_, value)| &**value);
        assert!(values.next().is_none(), "{name} twice");
        first
    }
}

pub struct ClientWire {
    pub client: HttpClient,
    pub now: Instant,
    pieces: Pieces,
    opened: VecDeque<Exchange>,
    aborted: Vec<ExchangeId>,
    challenges: VecDeque<AuthorizationRequired>,
    events: Vec<Event>,
    /// Everything that has come out, as text.
    log: Vec<String>,
}

impl ClientWire {
    pub fn new(config: HttpClientConfig, pieces: Pieces) -> Self {
        let now = Instant::ORIGIN;
        let client = HttpClient::new(config, now).expect("the URL is one");
        Self {
            client,
            now,
            pieces,
            opened: VecDeque::new(),
            aborted: Vec::new(),
            challenges: VecDeque::new(),
            events: Vec::new(),
            log: Vec::new(),
        }
    }

    pub fn drain(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Open(request) => {
                    let body = match request.verb {
                        Verb::Post => serde_json::from_slice(&request.body).expect("a body is JSON"),
                        _ => {
                            assert!(request.body.is_empty());
                            Value::Null
                        }
                    };
                    let mut headers = request.headers.clone();
                    headers.sort();
                    self.log.push(format!("{} {} {headers:?} {body}", request.verb.as_str(), request.url));
                    self.opened.push_back(Exchange { request, body });
                }
                Action::AuthorizationRequired(challenge) => {
                    self.log.push(format!("{challenge:?}"));
                    self.challenges.push_back(challenge);
                }
                Action::Abort(exchange) => {
                    self.log.push(format!("abort {exchange:?}"));
                    self.aborted.push(exchange);
                }
            }
        }
        while let Some(event) = self.client.poll_event() {
            self.log.push(format!("{event:?}"));
            self.events.push(event);
        }
    }

    // --- Requests of the client ---

    pub fn next(&mut self) -> Option<Exchange> {
        self.drain();
        self.opened.pop_front()
    }

    /// The next request must be a POST of `method`.
    pub fn expect(&mut self, method: &str) -> Exchange {
        let exchange = self.next().unwrap_or_else(|| panic!("nothing is sent instead of {method}"));
        assert_eq!(exchange.request.verb, Verb::Post);
        assert_eq!(exchange.body["method"], method, "{}", exchange.body);
        exchange
    }

    /// The next request must be a GET.
    pub fn expect_get(&mut self) -> Exchange {
        let exchange = self.next().expect("nothing is sent");
        assert_eq!(exchange.request.verb, Verb::Get, "{}", exchange.body);
        exchange
    }

    /// An exchange must be held.
    pub fn expect_challenge(&mut self) -> AuthorizationRequired {
        self.drain();
        self.challenges.pop_front().expect("nothing is held")
    }

    pub fn expect_no_challenge(&mut self) {
        self.drain();
        assert!(self.challenges.is_empty(), "{:?}", self.challenges);
    }

    pub fn resume(&mut self, challenge: &AuthorizationRequired) {
        self.client.resume(self.now, challenge.exchange);
        self.drain();
    }

    pub fn give_up(&mut self, challenge: &AuthorizationRequired) {
        self.client.refuse(self.now, challenge.exchange, "nobody logged in");
        self.drain();
    }

    pub fn expect_silence(&mut self) {
        if let Some(exchange) = self.next() {
            panic!("unexpected: {} {}", exchange.request.verb.as_str(), exchange.body);
        }
    }

    pub fn expect_abort(&mut self, exchange: &Exchange) {
        self.drain();
        let at = self.aborted.iter().position(|&aborted| aborted == exchange.exchange());
        self.aborted.remove(at.expect("it was not aborted"));
    }

    pub fn expect_no_abort(&mut self) {
        self.drain();
        assert_eq!(self.aborted, []);
    }

    // --- Answers of the server ---

    pub fn head(&mut self, exchange: &Exchange, status: u16, headers: &[(&str, &str)]) {
        self.client.handle_head(self.now, exchange.exchange(), status, &headers);
        self.drain();
    }

    pub fn body(&mut self, exchange: &Exchange, text: &str) {
        match self.pieces {
            Pieces::Whole => {
                self.client.handle_body(
                    self.now,
                    exchange.exchange(),
                    Bytes::copy_from_slice(text.as_bytes()),
                );
            }
            Pieces::Bytes => {
                for byte in text.as_bytes() {
                    self.client.handle_body(self.now, exchange.exchange(), Bytes::copy_from_slice(&[*byte]));
                }
            }
        }
        self.drain();
    }

    pub fn end(&mut self, exchange: &Exchange) {
        self.client.handle_end(self.now, exchange.exchange(), ExchangeEnd::Complete);
        self.drain();
    }

    pub fn truncate(&mut self, exchange: &Exchange) {
        self.client.handle_end(self.now, exchange.exchange(), ExchangeEnd::Truncated("reset".into()));
        self.drain();
    }

    pub fn fail(&mut self, exchange: &Exchange, sent: SentState) {
        let end = ExchangeEnd::Failed { sent, detail: "refused".into() };
        self.client.handle_end(self.now, exchange.exchange(), end);
        self.drain();
    }

    /// A whole answer.
    pub fn reply(&mut self, exchange: &Exchange, status: u16, headers: &[(&str, &str)], body: &str) {
        self.head(exchange, status, headers);
        if !body.is_empty() {
            self.body(exchange, body);
        }
        self.end(exchange);
    }

    pub fn reply_json(&mut self, exchange: &Exchange, status: u16, body: &Value) {
        self.reply(
            exchange,
            status,
            &[("Content-Type", "application/json; charset=utf-8")],
            &body.to_string(),
        );
    }

    pub fn answer(&mut self, exchange: &Exchange, result: Value) {
        self.reply_json(exchange, 200, &answer(&exchange.id(), result));
    }

    pub fn refuse(&mut self, exchange: &Exchange, status: u16, code: i64, data: Option<Value>) {
        self.reply_json(exchange, status, &error_with(&exchange.id(), code, data));
    }

    pub fn accept(&mut self, exchange: &Exchange) {
        self.reply(exchange, 202, &[], "");
    }

    /// Begins a stream of events.
    pub fn stream(&mut self, exchange: &Exchange) {
        self.head(exchange, 200, &[("content-type", "text/event-stream")]);
    }

    pub fn event(&mut self, exchange: &Exchange, message: &Value) {
        self.body(exchange, &format!("event: message\ndata: {message}\n\n"));
    }

    pub fn event_answer(&mut self, exchange: &Exchange, id: &Value, result: Value) {
        self.event(exchange, &answer(id, result));
    }

    /// Answers `initialize` and takes the notification that it has been heard.
    pub fn open_session(&mut self, version: &str, session: &str) -> Exchange {
        let initialize = self.expect("initialize");
        self.answer_initialize(&initialize, version, session);
        let initialized = self.expect("notifications/initialized");
        self.accept(&initialized);
        initialized
    }

    pub fn answer_initialize(&mut self, initialize: &Exchange, version: &str, session: &str) {
        let mut headers = vec![("content-type", "application/json")];
        if !session.is_empty() {
            headers.push(("Mcp-Session-Id", session));
        }
        let body = answer(&initialize.id(), initialize_result(version));
        self.reply(initialize, 200, &headers, &body.to_string());
    }

    // --- The clock ---

    /// Lets time pass, timeout by timeout.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.client.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now);
            assert!(self.client.poll_timeout().is_none_or(|next| next > self.now), "contract 5: livelock");
            self.drain();
        }
        self.now = end;
        self.client.handle_timeout(self.now);
        self.drain();
    }

    /// Lets time pass until the next timeout.
    pub fn advance_to_timeout(&mut self) -> Duration {
        let due = self.client.poll_timeout().expect("nothing is waited for");
        let passed = due.saturating_since(self.now);
        self.advance(passed);
        passed
    }

    // --- Events of the client ---

    pub fn take_events(&mut self) -> Vec<Event> {
        self.drain();
        std::mem::take(&mut self.events)
    }

    /// How a request ended, which it must have done exactly once; other events are kept.
    pub fn outcome(&mut self, request: RequestId) -> Outcome {
        let mut found = None;
        for event in self.take_events() {
            match event {
                Event::Outcome { request: ended, outcome } if ended == request => {
                    assert!(found.is_none(), "a second outcome: {outcome:?}");
                    found = Some(outcome);
                }
                other => self.events.push(other),
            }
        }
        found.expect("no outcome")
    }

    /// The result of a request that must have one.
    pub fn result(&mut self, request: RequestId) -> Value {
        match self.outcome(request) {
            Outcome::Result(raw) => serde_json::from_str(raw.as_str()).expect("a result is JSON"),
            other => panic!("no result: {other:?}"),
        }
    }

    pub fn expect_pending(&mut self, request: RequestId) {
        self.drain();
        let ended =
            |event: &Event| matches!(event, Event::Outcome { request: ended, .. } if *ended == request);
        assert!(!self.events.iter().any(ended), "it has ended");
    }

    pub fn diagnostics(&mut self) -> Vec<Diagnostic> {
        let (taken, kept): (Vec<Event>, Vec<Event>) =
            self.take_events().into_iter().partition(|event| matches!(event, Event::Diagnostic(_)));
        self.events = kept;
        let diagnostics = taken.into_iter().filter_map(|event| match event {
            Event::Diagnostic(diagnostic) => Some(diagnostic),
            _ => None,
        });
        diagnostics.collect()
    }

    /// How the connection ended, if it has.
    pub fn closed(&mut self) -> Option<CloseReason> {
        self.drain();
        self.events.iter().find_map(|event| match event {
            Event::Closed(closed) => Some(closed.clone()),
            _ => None,
        })
    }
}
