//! Detection of the server's era on byte streams.

use mcp_proto::Instant;
use mcp_proto::peer::client::{ConnectTimeouts, EraPolicy, LinkAction};
use mcp_proto::peer::{Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, Era};
use mcp_proto::transport::StreamClient;
use serde_json::Value;

use super::world::{Script, Scripted, StreamOutput, World};
use crate::common::client::config;
use crate::common::exhaustive::{Drive, Search, exhaust, explore};
use crate::common::messages::{LEGACY, answer, discover_result, error, initialize_result, request, text};

/// The kind of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// It speaks 2026-07-28 alone.
    Modern,
    /// It speaks both eras: a process serves the legacy era from an `initialize` on.
    Dual,
    /// It answers the probe by an error.
    Legacy,
    /// It does not answer the probe.
    Silent,
    /// It exits at the probe.
    Exiting,
}

/// The servers, and whether the client can open another link.
const CASES: [(Server, bool); 6] = [
    (Server::Modern, true),
    (Server::Dual, true),
    (Server::Legacy, true),
    (Server::Silent, true),
    (Server::Exiting, true),
    (Server::Dual, false),
];

#[derive(Clone, Copy, Debug)]
enum Choice {
    /// The server answers one of the requests that it has.
    Answer(usize),
    Open,
    Timeout,
    Call,
    Cancel,
    Close,
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The server loses a request.
    Lose(usize),
    AnswerTwice(usize),
    /// The process ends.
    End,
    OpenFails,
    ErrorWithoutId,
    EarlyRequest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    None,
    Wanted,
    Open,
}

struct EraModel {
    world: World<StreamClient>,
    server: Server,
    link: Link,
    /// The requests that the present process has not answered.
    unanswered: Vec<Value>,
    /// The ids of the requests that are never cancelled.
    handshakes: Vec<Value>,
    /// Whether the present process has accepted `initialize`.
    is_initialized: bool,
    /// The calls of the application.
    calls: Vec<RequestId>,
    has_failed: bool,
    /// Whether the application has ended the connection.
    is_closing: bool,
    timeouts: usize,
    /// Whether more has timed out than the probe: `initialize`, or connecting as a whole.
    is_late: bool,
}

impl EraModel {
    fn end_link(&mut self) {
        self.link = Link::None;
        self.unanswered.clear();
        self.world.end_link();
    }

    fn open(&mut self) {
        self.link = Link::Open;
        self.is_initialized = false;
        self.unanswered.clear();
        let now = self.world.now();
        self.world.app.client.handle_open(now);
    }

    fn answer(&mut self, at: usize) {
        let asked = self.unanswered.remove(at);
        let id = &asked["id"];
        let message = match (asked["method"].as_str().unwrap(), self.server) {
            ("server/discover", Server::Modern | Server::Dual) => answer(id, discover_result()),
            ("server/discover", Server::Exiting) => return self.end_link(),
            ("server/discover", _) | ("initialize", Server::Modern) => error(id, -32601),
            ("initialize", _) => {
                self.is_initialized = true;
                answer(id, initialize_result(LEGACY))
            }
            _ => answer(id, text("done")),
        };
        self.world.send(&message);
    }

    fn call(&mut self) {
        let call = self.world.request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default());
        self.calls.extend(call);
    }
}

impl Script for EraModel {
    type Client = StreamClient;
    type Choice = Choice;

    fn new(case: usize, drive: Drive) -> Self {
        let (server, can_reopen) = CASES[case];
        let mut config = config();
        config.can_reopen = can_reopen;
        config.era_policy = EraPolicy::Auto;
        Self {
            world: World::new(config, drive),
            server,
            link: Link::None,
            unanswered: Vec::new(),
            handshakes: Vec::new(),
            is_initialized: false,
            calls: Vec::new(),
            has_failed: false,
            is_closing: false,
            timeouts: 0,
            is_late: false,
        }
    }

    fn world(&mut self) -> &mut World<StreamClient> {
        &mut self.world
    }

    fn view(&self) -> &World<StreamClient> {
        &self.world
    }

    fn choices(&self) -> Vec<Choice> {
        if self.world.is_closed() {
            return Vec::new();
        }
        let mut choices = Vec::new();
        choices.extend((0..self.unanswered.len().min(3)).map(Choice::Answer));
        if self.link == Link::Wanted {
            choices.push(Choice::Open);
        }
        if self.timeouts < 2 && self.world.deadline().is_some() {
            choices.push(Choice::Timeout);
        }
        if self.calls.is_empty() {
            choices.push(Choice::Call);
        } else if !self.world.ended.contains_key(&self.calls[0]) {
            choices.push(Choice::Cancel);
        }
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        if !self.has_failed {
            match self.link {
                Link::Wanted => choices.push(Choice::Fault(Fault::OpenFails)),
                Link::Open => {
                    let ends = [Fault::End, Fault::ErrorWithoutId, Fault::EarlyRequest];
                    choices.extend(ends.map(Choice::Fault));
                    let each = 0..self.unanswered.len().min(3);
                    choices.extend(each.clone().map(|at| Choice::Fault(Fault::Lose(at))));
                    choices.extend(each.take(1).map(|at| Choice::Fault(Fault::AnswerTwice(at))));
                }
                Link::None => {}
            }
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Answer(at) => self.answer(at),
            Choice::Open => self.open(),
            Choice::Timeout => {
                self.timeouts += 1;
                self.world.pass();
                self.is_late |= self.world.now() > Instant::ORIGIN + ConnectTimeouts::default().probe;
            }
            Choice::Call => self.call(),
            Choice::Cancel => {
                let call = self.calls[0];
                self.world.commands().cancel(call, None);
            }
            Choice::Close => {
                self.is_closing = true;
                self.world.commands().close();
            }
            Choice::Fault(fault) => {
                self.has_failed = true;
                match fault {
                    Fault::Lose(at) => _ = self.unanswered.remove(at),
                    Fault::AnswerTwice(at) => {
                        let asked = self.unanswered[at].clone();
                        self.answer(at);
                        if self.link == Link::Open {
                            self.unanswered.insert(at, asked);
                        }
                    }
                    Fault::End => self.end_link(),
                    Fault::OpenFails => {
                        self.link = Link::None;
                        self.world.app.client.handle_open_failed("no such file");
                    }
                    // The server could not read the last request.
                    Fault::ErrorWithoutId => {
                        self.unanswered.pop();
                        self.world.send(&error(&Value::Null, -32700));
                    }
                    Fault::EarlyRequest => {
                        self.world.send(&request(&"s".into(), "roots/list", serde_json::json!({})));
                    }
                }
            }
        }
    }

    fn receive(&mut self) {
        while let Some(output) = self.world.output.pop_front() {
            match output {
                StreamOutput::Link(LinkAction::Open) => self.link = Link::Wanted,
                // A process ends once nothing more is written to it.
                StreamOutput::Link(LinkAction::CloseWrite | LinkAction::Abort) => {
                    if self.link == Link::Open {
                        self.end_link();
                    }
                    self.link = Link::None;
                }
                StreamOutput::Message(message) => {
                    assert_eq!(self.link, Link::Open, "{message} is written to no link");
                    let method = message["method"].as_str().unwrap_or_default();
                    let cancelled = &message["params"]["requestId"];
                    assert!(!self.handshakes.contains(cancelled), "the handshake is cancelled: {message}");
                    if message["id"].is_null() || method.is_empty() {
                        continue;
                    }
                    if matches!(method, "server/discover" | "initialize") {
                        self.handshakes.push(message["id"].clone());
                    } else {
                        let version = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
                        assert!(
                            version.is_null() == self.is_initialized || self.is_late,
                            "the process serves the other era: {message}"
                        );
                    }
                    if (method, self.server) != ("server/discover", Server::Silent) {
                        self.unanswered.push(message);
                    }
                }
            }
        }
    }

    fn serve(&mut self) -> bool {
        match self.link {
            Link::Wanted => self.open(),
            Link::Open if !self.unanswered.is_empty() => self.answer(0),
            _ => return false,
        }
        true
    }

    fn check(&self) {
        let peer = self.world.app.client.peer();
        if let Some(known) = peer.known_era() {
            let is_modern = matches!(self.server, Server::Modern | Server::Dual);
            assert!(known.era == Era::Legacy || is_modern, "a legacy server is taken to be modern");
            assert!(known.era == Era::Modern || self.server != Server::Modern, "{known:?}");
        }
        if let Some(server) = peer.server().filter(|_| self.world.is_ready()) {
            // A client does not wait for ever whether a server that is modern accepts `initialize`.
            let is_right = (server.era == Era::Legacy) == self.is_initialized;
            assert!(is_right || self.is_late, "the process serves the other era: {server:?}");
        }
    }

    fn check_recovered(&mut self) {
        let ends = self.has_failed || self.is_closing || self.is_late;
        assert!(self.world.is_ready() || ends, "the client has not connected");
        for call in &self.calls {
            let outcome = &self.world.ended[call];
            assert!(
                ends || self.timeouts > 0 || matches!(outcome, Outcome::Result(_) | Outcome::Cancelled),
                "{outcome:?}"
            );
        }
        if self.world.is_ready() && !self.is_closing {
            let call = self.world.request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default());
            let call = call.expect("a ready client accepts requests");
            self.world.drain();
            self.receive();
            exhaust(|| self.serve_once());
            assert!(matches!(self.world.ended[&call], Outcome::Result(_)), "{:?}", self.world.ended[&call]);
        }
    }
}

#[test]
fn client_detects_the_era_of_a_stream_in_every_order() {
    explore::<Scripted<EraModel>>(Search {
        name: "era on streams",
        cases: CASES.len(),
        depth: 4,
        least_paths: 1_500,
        least_states: 1_300,
    });
}
