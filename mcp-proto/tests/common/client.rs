//! A client on a byte stream, whose server the test plays.

use core::time::Duration;

use mcp_proto::peer::client::{ClientConfig, CloseReason, ConnectError, Event, LinkAction, State};
use mcp_proto::peer::{Outcome, RequestId};
use mcp_proto::schema::Implementation;
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Instant};
use serde_json::Value;

use super::messages::{
    LEGACY, answer, discover_result, error_with, initialize_result, notification, parse_lines,
};

/// A client together with the messages and events of its connection.
pub struct ClientHarness {
    pub client: StreamClient,
    pub now: Instant,
    lines: std::collections::VecDeque<Value>,
    pub events: Vec<Event>,
}

pub fn config() -> ClientConfig {
    ClientConfig::new(Implementation::new("test-client", "1.0"))
}

impl ClientHarness {
    /// A client that has not requested its link yet.
    pub fn new(config: ClientConfig) -> Self {
        Self {
            client: StreamClient::new(config),
            now: Instant::ORIGIN,
            lines: Default::default(),
            events: Vec::new(),
        }
    }

    /// A client whose link is open: it has written its first request.
    pub fn open(config: ClientConfig) -> Self {
        let mut scripted = Self::new(config);
        scripted.accept();
        scripted
    }

    /// A client connected to a modern server with every capability.
    pub fn modern(config: ClientConfig) -> Self {
        let mut scripted = Self::open(config);
        let id = scripted.expect("server/discover");
        scripted.answer(&id, discover_result());
        assert_eq!(scripted.client.state(), State::Ready);
        scripted.take_events();
        scripted
    }

    /// A client connected to a legacy server of `version` with every capability.
    pub fn legacy_at(mut config: ClientConfig, version: &str) -> Self {
        config.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
        let mut scripted = Self::open(config);
        let id = scripted.expect("initialize");
        scripted.answer(&id, initialize_result(version));
        assert_eq!(scripted.line()["method"], "notifications/initialized");
        assert_eq!(scripted.client.state(), State::Ready);
        scripted.take_events();
        scripted
    }

    pub fn legacy(config: ClientConfig) -> Self {
        Self::legacy_at(config, LEGACY)
    }

    /// Opens the link that the client requests.
    pub fn accept(&mut self) {
        assert_eq!(self.client.poll_link(), Some(LinkAction::Open));
        self.client.handle_open(self.now);
    }

    /// The next line that the client wrote.
    pub fn line(&mut self) -> Value {
        self.try_line().expect("the client wrote nothing")
    }

    pub fn try_line(&mut self) -> Option<Value> {
        let mut out = Vec::new();
        if self.client.poll_transmit(&mut out) {
            self.lines.extend(parse_lines(&out));
        }
        self.lines.pop_front()
    }

    /// Asserts that the next line is a request of `method`; returns its id.
    pub fn expect(&mut self, method: &str) -> Value {
        let line = self.line();
        assert_eq!(line["method"], method, "{line}");
        line["id"].clone()
    }

    /// Asserts that the client has written nothing more.
    pub fn expect_silence(&mut self) {
        assert_eq!(self.try_line(), None);
    }

    pub fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub fn send_text(&mut self, text: &str) {
        self.client.handle_input(self.now, Bytes::from(format!("{text}\n")));
    }

    pub fn answer(&mut self, id: &Value, result: Value) {
        self.send(&answer(id, result));
    }

    pub fn answer_error(&mut self, id: &Value, code: i64, data: Option<Value>) {
        self.send(&error_with(id, code, data));
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&notification(method, params));
    }

    /// The server ends the connection.
    pub fn end(&mut self, detail: &str) {
        self.client.handle_eof(self.now, detail);
    }

    /// Advances the clock, timeout by timeout.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.client.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now);
            assert!(self.client.poll_timeout().is_none_or(|next| next > self.now), "contract 5: livelock");
        }
        self.now = end;
        self.client.handle_timeout(self.now);
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
        std::mem::take(&mut self.events)
    }

    /// Asserts that a request has ended exactly once, and returns its outcome; keeps all other events.
    pub fn outcome(&mut self, request: RequestId) -> Outcome {
        let events = self.take_events();
        let mut found = None;
        for event in events {
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

    /// Asserts that the connection failed before it became ready, and returns the error.
    pub fn connect_error(&mut self) -> ConnectError {
        let closed = self.take_events().into_iter().find_map(|event| match event {
            Event::Closed(closed) => Some(closed),
            _ => None,
        });
        match closed {
            Some(CloseReason::Connect(error)) => error,
            other => panic!("expected a failure to connect, not {other:?}"),
        }
    }

    /// The states since the last call.
    pub fn states(&mut self) -> Vec<State> {
        let states = |event: Event| match event {
            Event::State(state) => Some(state),
            _ => None,
        };
        self.take_events().into_iter().filter_map(states).collect()
    }
}
