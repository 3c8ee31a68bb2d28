//! Input that a server requires: by the result of a call (2026-07-28), and by a request (2025-11-25).

use std::collections::BTreeSet;

use mcp_proto::peer::client::{EraPolicy, LinkAction};
use mcp_proto::peer::{InputError, Outcome, RequestId, RequestOptions};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{CallTool, CallToolParams, ClientCapability, ListRootsResult};
use mcp_proto::transport::StreamClient;
use serde_json::{Value, json};

use super::world::{Script, Scripted, StreamOutput, World};
use crate::common::client::config;
use crate::common::exhaustive::{Drive, Search, explore};
use crate::common::messages::{
    LEGACY, answer, discover_result, initialize_result, notification, request, text,
};

#[derive(Clone, Copy, Debug)]
enum Choice {
    Call,
    /// The server answers a request by a result.
    Complete(usize),
    /// The server requires this number of inputs.
    Require(usize, usize),
    /// The server makes a request (2025-11-25).
    Ask,
    /// The server withdraws its request (2025-11-25).
    Withdraw,
    /// The application answers one of the inputs.
    Respond {
        at: usize,
        agrees: bool,
    },
    Timeout,
    Cancel(usize),
    Close,
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    End,
    AnswerTwice(usize),
}

struct InputModel {
    world: World<StreamClient>,
    is_modern: bool,
    is_linked: bool,
    /// The calls that the server has not answered.
    unanswered: Vec<Value>,
    calls: Vec<RequestId>,
    /// The number of times that the server has required input.
    rounds: usize,
    /// The states that the server has issued and the client has not returned, with the number of inputs.
    states: Vec<(String, usize)>,
    /// The number of the server's requests, and the ids of those that the client has answered.
    asked: usize,
    replies: BTreeSet<String>,
    is_withdrawn: bool,
    refuses: bool,
    has_failed: bool,
    is_closing: bool,
    timeouts: usize,
}

impl InputModel {
    fn complete(&mut self, at: usize) {
        let call = self.unanswered.remove(at);
        self.world.send(&answer(&call["id"], text("done")));
    }

    fn require(&mut self, at: usize, count: usize) {
        let call = self.unanswered.remove(at);
        self.rounds += 1;
        let state = format!("state {}", self.rounds);
        let mut inputs = json!({});
        for key in 0..count {
            inputs[format!("k{key}")] = json!({"method": "roots/list"});
        }
        let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": state});
        self.states.push((state, count));
        self.world.send(&answer(&call["id"], result));
    }

    fn respond(&mut self, at: usize, agrees: bool) {
        let input = *self.world.inputs.keys().nth(at).expect("it is open");
        let refusal = || Err(ErrorObject::new(code::USER_REJECTED, "no"));
        let roots = ListRootsResult::new([]);
        self.world.respond(input, if agrees { Ok(&roots) } else { refusal() });
    }

    fn end(&mut self) {
        self.is_linked = false;
        self.unanswered.clear();
        self.world.end_link();
    }
}

impl Script for InputModel {
    type Client = StreamClient;
    type Choice = Choice;

    fn new(case: usize, drive: Drive) -> Self {
        let is_modern = case == 0;
        let mut config = config();
        config.capabilities = config.capabilities.with(ClientCapability::Roots);
        config.era_policy = if is_modern { EraPolicy::Auto } else { EraPolicy::LegacyOnly };
        let mut world = World::new(config, drive);
        world.connect(if is_modern { discover_result() } else { initialize_result(LEGACY) });
        Self {
            world,
            is_modern,
            is_linked: true,
            unanswered: Vec::new(),
            calls: Vec::new(),
            rounds: 0,
            states: Vec::new(),
            asked: 0,
            replies: BTreeSet::new(),
            is_withdrawn: false,
            refuses: false,
            has_failed: false,
            is_closing: false,
            timeouts: 0,
        }
    }

    fn world(&mut self) -> &mut World<StreamClient> {
        &mut self.world
    }

    fn view(&self) -> &World<StreamClient> {
        &self.world
    }

    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        if self.world.is_closed() {
            return choices;
        }
        if self.calls.len() < 2 && !self.is_closing {
            choices.push(Choice::Call);
        }
        for at in 0..self.unanswered.len() {
            choices.push(Choice::Complete(at));
            if self.is_modern && self.rounds < 3 {
                choices.extend([Choice::Require(at, 1), Choice::Require(at, 2)]);
            }
        }
        if !self.is_modern && self.is_linked {
            if self.asked < 2 {
                choices.push(Choice::Ask);
            }
            if self.asked > 0 && !self.is_withdrawn {
                choices.push(Choice::Withdraw);
            }
        }
        for at in 0..self.world.inputs.len() {
            choices.push(Choice::Respond { at, agrees: true });
            if !self.refuses {
                choices.push(Choice::Respond { at, agrees: false });
            }
        }
        if self.timeouts < 2 && self.world.deadline().is_some() {
            choices.push(Choice::Timeout);
        }
        let open = self.calls.iter().enumerate().filter(|(_, call)| !self.world.ended.contains_key(call));
        choices.extend(open.map(|(at, _)| Choice::Cancel(at)));
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        if !self.has_failed && self.is_linked {
            choices.push(Choice::Fault(Fault::End));
            choices.extend((0..self.unanswered.len()).map(|at| Choice::Fault(Fault::AnswerTwice(at))));
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Call => {
                let call =
                    self.world.request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default());
                self.calls.extend(call);
            }
            Choice::Complete(at) => self.complete(at),
            Choice::Require(at, count) => self.require(at, count),
            Choice::Ask => {
                self.asked += 1;
                self.world.send(&request(&format!("s{}", self.asked).into(), "roots/list", json!({})));
            }
            Choice::Withdraw => {
                self.is_withdrawn = true;
                self.world.send(&notification("notifications/cancelled", json!({"requestId": "s1"})));
            }
            Choice::Respond { at, agrees } => {
                self.refuses |= !agrees;
                self.respond(at, agrees);
            }
            Choice::Timeout => {
                self.timeouts += 1;
                self.world.pass();
            }
            Choice::Cancel(at) => {
                let call = self.calls[at];
                self.world.commands().cancel(call, None);
            }
            Choice::Close => {
                self.is_closing = true;
                self.world.commands().close();
            }
            Choice::Fault(fault) => {
                self.has_failed = true;
                match fault {
                    Fault::End => self.end(),
                    Fault::AnswerTwice(at) => {
                        let id = self.unanswered[at]["id"].clone();
                        if self.is_modern {
                            self.require(at, 1);
                        } else {
                            self.complete(at);
                        }
                        self.world.send(&answer(&id, text("late")));
                    }
                }
            }
        }
    }

    fn receive(&mut self) {
        while let Some(output) = self.world.output.pop_front() {
            match output {
                StreamOutput::Link(LinkAction::CloseWrite | LinkAction::Abort) if self.is_linked => {
                    self.end()
                }
                StreamOutput::Message(message) if message["method"] == "tools/call" => {
                    let params = &message["params"];
                    if let Some(state) = params["requestState"].as_str() {
                        let known = self.states.iter().position(|(issued, _)| issued == state);
                        let (_, count) = self.states.remove(known.expect("each state returns once"));
                        let answers = params["inputResponses"].as_object().map_or(0, |all| all.len());
                        assert_eq!(answers, count, "{message}");
                    }
                    self.unanswered.push(message);
                }
                StreamOutput::Message(message) if message["method"].is_null() => {
                    let id = message["id"].as_str().expect("the id of a request of the server").to_owned();
                    assert!(self.replies.insert(id), "a second answer: {message}");
                }
                StreamOutput::Message(message) if message["method"] == "notifications/cancelled" => {
                    let cancelled = &message["params"]["requestId"];
                    self.unanswered.retain(|call| call["id"] != *cancelled);
                }
                _ => {}
            }
        }
    }

    fn serve(&mut self) -> bool {
        if !self.world.inputs.is_empty() {
            self.respond(0, true);
        } else if self.is_linked && !self.unanswered.is_empty() {
            self.complete(0);
        } else {
            return false;
        }
        true
    }

    fn check_recovered(&mut self) {
        let is_lost = self.has_failed || self.is_closing || self.timeouts > 0;
        for call in &self.calls {
            match &self.world.ended[call] {
                Outcome::Result(result) => assert!(result.as_str().contains("done"), "{result:?}"),
                Outcome::Cancelled => {}
                Outcome::Input(InputError::Failed { .. }) => assert!(self.refuses && self.is_modern),
                outcome => assert!(is_lost, "{outcome:?}"),
            }
        }
        let most = self.asked - usize::from(self.is_withdrawn);
        assert!(is_lost || self.replies.len() >= most, "a request of the server has no answer");
    }
}

#[test]
fn client_gathers_input_in_every_order() {
    explore::<Scripted<InputModel>>(Search {
        name: "input",
        cases: 2,
        depth: 4,
        least_paths: 550,
        least_states: 450,
    });
}
