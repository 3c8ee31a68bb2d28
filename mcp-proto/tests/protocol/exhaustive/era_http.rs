//! Detection of the server's era over HTTP.

use mcp_proto::peer::Outcome;
use mcp_proto::schema::Era;
use mcp_proto::transport::http::Verb;
use mcp_proto::transport::http::client::HttpClient;
use serde_json::Value;

use super::http::{Fault, HttpWorld};
use super::world::{Script, Scripted, World};
use crate::common::exhaustive::{Drive, Search, explore};
use crate::common::http_client::config;
use crate::common::messages::{LEGACY, MODERN, answer, discover_result, error, initialize_result, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Modern,
    /// It speaks both eras.
    Dual,
    Legacy,
}

const SERVERS: [Server; 3] = [Server::Modern, Server::Dual, Server::Legacy];
const SESSION: &str = "s1";

#[derive(Clone, Copy, Debug)]
enum Choice {
    Answer(usize),
    Timeout,
    Call,
    Cancel,
    Close,
    Fault(usize, Fault),
}

struct EraModel {
    http: HttpWorld,
    server: Server,
    has_failed: bool,
    is_closing: bool,
    timeouts: usize,
}

impl EraModel {
    fn answer(&mut self, at: usize) {
        let exchange = self.http.open[at].clone();
        let id = &exchange.body["id"];
        let (status, session, body) = match (exchange.method(), self.server) {
            ("server/discover", Server::Legacy) => (400, "", Value::Null),
            ("server/discover", _) => (200, "", answer(id, discover_result())),
            ("initialize", Server::Modern) => (400, "", error(id, -32601)),
            ("initialize", _) => (200, SESSION, answer(id, initialize_result(LEGACY))),
            ("GET", _) => (405, "", Value::Null),
            ("DELETE", _) => (200, "", Value::Null),
            _ if id.is_null() => (202, "", Value::Null),
            _ => (200, "", answer(id, text("done"))),
        };
        self.http.reply(&exchange, status, session, &body);
    }
}

impl Script for EraModel {
    type Client = HttpClient;
    type Choice = Choice;

    fn new(case: usize, drive: Drive) -> Self {
        Self {
            http: HttpWorld::new(config(), drive),
            server: SERVERS[case],
            has_failed: false,
            is_closing: false,
            timeouts: 0,
        }
    }

    fn world(&mut self) -> &mut World<HttpClient> {
        &mut self.http.world
    }

    fn view(&self) -> &World<HttpClient> {
        &self.http.world
    }

    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        if self.http.world.is_closed() {
            return choices;
        }
        let each = 0..self.http.open.len().min(3);
        choices.extend(each.clone().map(Choice::Answer));
        if self.timeouts < 2 && self.http.world.deadline().is_some() {
            choices.push(Choice::Timeout);
        }
        if self.http.calls.is_empty() {
            choices.push(Choice::Call);
        } else if !self.http.has_ended(0) {
            choices.push(Choice::Cancel);
        }
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        if !self.has_failed {
            let faults = [Fault::Unavailable, Fault::NotSent, Fault::Truncated];
            choices.extend(each.flat_map(|at| faults.map(|fault| Choice::Fault(at, fault))));
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Answer(at) => self.answer(at),
            Choice::Timeout => {
                self.timeouts += 1;
                self.http.world.pass();
            }
            Choice::Call => self.http.call(),
            Choice::Cancel => self.http.cancel(0),
            Choice::Close => {
                self.is_closing = true;
                self.http.world.commands().close();
            }
            Choice::Fault(at, fault) => {
                self.has_failed = true;
                self.http.fail(at, fault);
            }
        }
    }

    fn receive(&mut self) {
        for exchange in self.http.receive() {
            let is_modern = exchange.header("mcp-protocol-version") == Some(MODERN);
            match exchange.method() {
                "server/discover" => assert!(is_modern),
                "initialize" => assert!(!is_modern && exchange.header("mcp-session-id").is_none()),
                method => {
                    assert!(!is_modern || self.server != Server::Legacy, "a legacy server is sent {method}");
                    assert!(is_modern || self.server != Server::Modern, "a modern server is sent {method}");
                    assert_eq!(exchange.header("mcp-session-id"), (!is_modern).then_some(SESSION));
                    assert!(!is_modern || exchange.verb == Verb::Post);
                }
            }
        }
    }

    fn serve(&mut self) -> bool {
        let any = !self.http.open.is_empty();
        if any {
            self.answer(0);
        }
        any
    }

    fn check(&self) {
        if let Some(known) = self.http.world.app.client.peer().known_era() {
            assert!(known.era == Era::Legacy || self.server != Server::Legacy, "{known:?}");
            assert!(known.era == Era::Modern || self.server != Server::Modern, "{known:?}");
            let is_exact = !self.has_failed && self.timeouts == 0;
            assert!(known.era == Era::Modern || self.server != Server::Dual || !is_exact, "{known:?}");
        }
    }

    fn check_recovered(&mut self) {
        if self.is_closing {
            return;
        }
        // The fault is transient: the client tries again, whatever it was.
        assert!(self.http.world.is_ready(), "the client has not connected");
        for call in &self.http.calls {
            let outcome = &self.http.world.ended[call];
            let is_expected = matches!(outcome, Outcome::Result(_) | Outcome::Cancelled);
            assert!(is_expected || self.has_failed || self.timeouts > 0, "{outcome:?}");
        }
    }
}

#[test]
fn client_detects_the_era_over_http_in_every_order() {
    explore::<Scripted<EraModel>>(Search {
        name: "era over HTTP",
        cases: SERVERS.len(),
        depth: 4,
        least_paths: 750,
        least_states: 650,
    });
}
