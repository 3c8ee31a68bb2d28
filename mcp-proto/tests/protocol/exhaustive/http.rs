//! The exchanges of a client over HTTP, and what every server of the models checks about them.

use std::collections::BTreeSet;

use mcp_proto::peer::{RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams};
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState, Verb};
use serde_json::{Value, json};

use super::world::World;
use crate::common::exhaustive::Drive;

/// An exchange without its end.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) verb: Verb,
    pub(super) body: Value,
    headers: Vec<(String, String)>,
    /// Whether its response is a stream of events that has begun.
    pub(super) is_streaming: bool,
    /// The number of the server's events that it does not bring.
    pub(super) position: usize,
}

impl Exchange {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| &**value)
    }

    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or(self.verb.as_str())
    }

    /// The number of the tool call.
    fn call(&self) -> Option<u64> {
        self.body["params"]["arguments"]["call"].as_u64()
    }
}

/// A failure of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Unavailable,
    NotSent,
    /// The server acts on the request, and its response is lost.
    MaybeSent,
    /// The connection breaks after the head of the response.
    Truncated,
}

pub(super) const FAULTS: [Fault; 4] =
    [Fault::Unavailable, Fault::NotSent, Fault::MaybeSent, Fault::Truncated];

/// A client over HTTP with its open exchanges.
pub(super) struct HttpWorld {
    pub(super) world: World<HttpClient>,
    pub(super) open: Vec<Exchange>,
    /// The calls that the server has executed, by number.
    executed: BTreeSet<u64>,
    pub(super) calls: Vec<RequestId>,
}

impl HttpWorld {
    pub(super) fn new(config: HttpClientConfig, drive: Drive) -> Self {
        Self {
            world: World::new(config, drive),
            open: Vec::new(),
            executed: BTreeSet::new(),
            calls: Vec::new(),
        }
    }

    /// Calls the tool, which must not be executed twice.
    pub(super) fn call(&mut self) {
        let mut params = CallToolParams::new("pay");
        params = params.with_arguments(json!({"call": self.calls.len()}));
        self.calls.extend(self.world.request::<CallTool>(&params, RequestOptions::default()));
    }

    pub(super) fn cancel(&mut self, at: usize) {
        let call = self.calls[at];
        self.world.commands().cancel(call, None);
    }

    pub(super) fn has_ended(&self, at: usize) -> bool {
        self.calls.get(at).is_some_and(|call| self.world.ended.contains_key(call))
    }

    /// Takes the exchanges that the client opens and aborts; returns the new ones.
    pub(super) fn receive(&mut self) -> Vec<Exchange> {
        let mut opened = Vec::new();
        while let Some(action) = self.world.output.pop_front() {
            match action {
                Action::Open(request) => {
                    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
                    let headers = request.headers.iter();
                    let exchange = Exchange {
                        id: request.exchange,
                        verb: request.verb,
                        body,
                        headers: headers.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
                        is_streaming: false,
                        position: 0,
                    };
                    let is_again = exchange.call().is_some_and(|call| self.executed.contains(&call));
                    assert!(!is_again, "a call that the server has executed is sent again");
                    self.open.push(exchange.clone());
                    opened.push(exchange);
                }
                Action::Abort(exchange) => self.open.retain(|open| open.id != exchange),
                Action::AuthorizationRequired(_) => panic!("the server never refuses credentials"),
            }
        }
        opened
    }

    // --- Responses of the server ---

    pub(super) fn head(&mut self, exchange: &Exchange, status: u16, kind: &str, session: &str) {
        let mut headers = vec![("content-type", kind)];
        if !session.is_empty() {
            headers.push(("mcp-session-id", session));
        }
        self.world.app.client.handle_head(self.world.now(), exchange.id, status, &&headers[..]);
    }

    pub(super) fn body(&mut self, exchange: &Exchange, text: &str) {
        let now = self.world.now();
        for piece in self.world.split(text) {
            self.world.app.client.handle_body(now, exchange.id, piece);
        }
    }

    pub(super) fn end(&mut self, exchange: &Exchange, end: ExchangeEnd) {
        self.open.retain(|open| open.id != exchange.id);
        self.world.app.client.handle_end(self.world.now(), exchange.id, end);
    }

    /// A whole response. The server has executed the call if the status says so.
    pub(super) fn reply(&mut self, exchange: &Exchange, status: u16, session: &str, body: &Value) {
        if status == 200 {
            self.executed.extend(exchange.call());
        }
        self.head(exchange, status, if body.is_null() { "" } else { "application/json" }, session);
        if !body.is_null() {
            self.body(exchange, &body.to_string());
        }
        self.end(exchange, ExchangeEnd::Complete);
    }

    /// Begins a response that is a stream of events.
    pub(super) fn stream(&mut self, at: usize) {
        let exchange = self.open[at].clone();
        self.open[at].is_streaming = true;
        self.executed.extend(exchange.call());
        self.head(&exchange, 200, "text/event-stream", "");
    }

    pub(super) fn fail(&mut self, at: usize, fault: Fault) {
        let exchange = self.open[at].clone();
        let detail = || "it failed".to_owned();
        let end = match fault {
            Fault::Unavailable => return self.reply(&exchange, 503, "", &Value::Null),
            Fault::NotSent => ExchangeEnd::Failed { sent: SentState::NotSent, detail: detail() },
            Fault::MaybeSent => {
                self.executed.extend(exchange.call());
                ExchangeEnd::Failed { sent: SentState::MaybeSent, detail: detail() }
            }
            Fault::Truncated => {
                self.executed.extend(exchange.call());
                self.head(&exchange, 200, "application/json", "");
                ExchangeEnd::Truncated(detail())
            }
        };
        self.end(&exchange, end);
    }
}
