//! A session of a legacy server over HTTP that the server forgets, in every order with two calls.

use mcp_proto::peer::Outcome;
use mcp_proto::transport::http::client::HttpClient;
use serde_json::Value;

use super::http::{Fault, HttpWorld};
use super::world::{Script, Scripted, World};
use crate::common::exhaustive::{Drive, Search, exhaust, explore};
use crate::common::http_client::legacy_config;
use crate::common::messages::{LEGACY, answer, initialize_result, text};

#[derive(Clone, Copy, Debug)]
enum Choice {
    Answer(usize),
    Timeout,
    Call,
    Cancel(usize),
    Close,
    /// The server forgets its sessions.
    Forget,
    Fault(usize, Fault),
}

struct SessionModel {
    http: HttpWorld,
    /// Whether the server has a stream of its own messages.
    listens: bool,
    /// The number of the latest session; the server knows no other.
    session: u32,
    forgets: bool,
    has_failed: bool,
    is_closing: bool,
    timeouts: usize,
}

impl SessionModel {
    fn answer(&mut self, at: usize) {
        let exchange = self.http.open[at].clone();
        let id = &exchange.body["id"];
        let session = format!("s{}", self.session);
        let is_known = exchange.header("mcp-session-id") == Some(&session);
        match exchange.method() {
            "initialize" => {
                self.session += 1;
                let session = format!("s{}", self.session);
                self.http.reply(&exchange, 200, &session, &answer(id, initialize_result(LEGACY)));
            }
            _ if !is_known => self.http.reply(&exchange, 404, "", &Value::Null),
            "GET" if self.listens => self.http.stream(at),
            "GET" => self.http.reply(&exchange, 405, "", &Value::Null),
            "DELETE" => self.http.reply(&exchange, 200, "", &Value::Null),
            _ if id.is_null() => self.http.reply(&exchange, 202, "", &Value::Null),
            _ => self.http.reply(&exchange, 200, "", &answer(id, text("done"))),
        }
    }

    /// The exchanges that the server can answer: all but the stream of its own messages.
    fn answerable(&self) -> impl Iterator<Item = usize> + Clone {
        let open = self.http.open.iter().enumerate();
        open.filter(|(_, exchange)| !exchange.is_streaming).map(|(at, _)| at).take(3)
    }
}

impl Script for SessionModel {
    type Client = HttpClient;
    type Choice = Choice;

    fn new(case: usize, drive: Drive) -> Self {
        let mut model = Self {
            http: HttpWorld::new(legacy_config(), drive),
            listens: case == 1,
            session: 0,
            forgets: false,
            has_failed: false,
            is_closing: false,
            timeouts: 0,
        };
        model.receive();
        exhaust(|| model.serve_once());
        assert!(model.http.world.is_ready());
        model
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
        choices.extend(self.answerable().map(Choice::Answer));
        if self.timeouts < 2 && self.http.world.deadline().is_some() {
            choices.push(Choice::Timeout);
        }
        if self.http.calls.len() < 2 && !self.is_closing {
            choices.push(Choice::Call);
        }
        choices.extend((0..self.http.calls.len()).filter(|&at| !self.http.has_ended(at)).map(Choice::Cancel));
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        if !self.forgets {
            choices.push(Choice::Forget);
        }
        if !self.has_failed {
            let faults = [Fault::NotSent, Fault::MaybeSent];
            choices.extend(self.answerable().flat_map(|at| faults.map(|fault| Choice::Fault(at, fault))));
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
            Choice::Cancel(at) => self.http.cancel(at),
            Choice::Close => {
                self.is_closing = true;
                self.http.world.commands().close();
            }
            Choice::Forget => {
                self.forgets = true;
                self.session += 1;
            }
            Choice::Fault(at, fault) => {
                self.has_failed = true;
                self.http.fail(at, fault);
            }
        }
    }

    fn receive(&mut self) {
        for exchange in self.http.receive() {
            let session = exchange.header("mcp-session-id");
            assert_eq!(session.is_none(), exchange.method() == "initialize", "{exchange:?}");
        }
    }

    fn serve(&mut self) -> bool {
        let next = self.answerable().next();
        if let Some(at) = next {
            self.answer(at);
        }
        next.is_some()
    }

    fn check_recovered(&mut self) {
        if self.is_closing {
            return;
        }
        // The session alone is no reason to lose a call.
        for call in &self.http.calls {
            let outcome = &self.http.world.ended[call];
            let is_expected = matches!(outcome, Outcome::Result(_) | Outcome::Cancelled);
            assert!(is_expected || self.has_failed || self.timeouts > 0, "{outcome:?}");
        }
        assert!(self.http.world.is_ready(), "the client has lost the server");
        let earlier = self.http.calls.len();
        self.http.call();
        self.http.world.drain();
        self.receive();
        exhaust(|| {
            exhaust(|| self.serve_once());
            if self.http.has_ended(earlier) {
                return false;
            }
            // The notification that opens the session may wait to be sent again, and the call for it.
            self.http.world.pass();
            self.http.world.drain();
            self.receive();
            true
        });
        let outcome = self.http.world.ended.get(&self.http.calls[earlier]);
        assert!(matches!(outcome, Some(Outcome::Result(_))), "{outcome:?}");
    }
}

#[test]
fn client_renews_its_session_in_every_order() {
    explore::<Scripted<SessionModel>>(Search {
        name: "sessions over HTTP",
        cases: 2,
        depth: 4,
        least_paths: 500,
        least_states: 380,
    });
}
