//! A call that becomes a task: polls, notifications, input, cancellation and failure, in both eras.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::peer::client::{EraPolicy, LinkAction};
use mcp_proto::peer::{Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitResult, ListTools, PaginatedParams,
};
use mcp_proto::transport::StreamClient;
use serde_json::{Value, json};

use super::world::{Script, Scripted, StreamOutput, World};
use crate::client::tasks::{asking, completed, created, legacy_capabilities, legacy_task, task, tools, with};
use crate::common::client::config;
use crate::common::exhaustive::{Drive, Search, explore};
use crate::common::messages::{
    LEGACY, answer, discover_result, error, initialize_result, notification, text,
};

/// The interval that the server asks for.
const INTERVAL: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Working,
    /// It waits for input.
    Asking,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Answer(usize),
    /// The task changes.
    Become(Status),
    /// The server reports the status of the task.
    Notify,
    Respond,
    Timeout,
    Cancel,
    Close,
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Lose(usize),
    Error(usize),
    AnswerTwice(usize),
    End,
}

struct TaskModel {
    world: World<StreamClient>,
    is_modern: bool,
    is_linked: bool,
    unanswered: Vec<Value>,
    call: RequestId,
    /// `None` before the server has created the task.
    status: Option<Status>,
    has_asked: bool,
    /// The client must not poll before.
    next_poll: Instant,
    is_cancelled: bool,
    notified: usize,
    has_failed: bool,
    is_closing: bool,
    timeouts: usize,
}

impl TaskModel {
    fn end(&mut self) {
        self.is_linked = false;
        self.unanswered.clear();
        self.world.end_link();
    }

    fn is_over(&self) -> bool {
        !matches!(self.status, None | Some(Status::Working | Status::Asking))
    }

    /// The status as the server reports it.
    fn report(&mut self) -> Value {
        let status = self.status.expect("there is a task");
        if matches!(status, Status::Working | Status::Asking) {
            self.next_poll = self.next_poll.max(self.world.now() + INTERVAL);
        }
        let name = match status {
            Status::Working => "working",
            Status::Asking => "input_required",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        };
        match status {
            _ if !self.is_modern => legacy_task(name),
            Status::Asking => asking(&["name"]),
            Status::Completed => completed(),
            Status::Failed => with(task(name), "error", json!({"code": 7, "message": "no"})),
            _ => task(name),
        }
    }

    /// Whether the server can answer: it holds the answer to a request for the result until the task ends.
    fn is_answerable(&self, asked: &Value) -> bool {
        asked["method"] != "tasks/result" || self.is_over()
    }

    fn answer(&mut self, at: usize) {
        let asked = self.unanswered.remove(at);
        let id = &asked["id"];
        let message = match asked["method"].as_str().unwrap() {
            "tools/call" => {
                self.status = self.status.or(Some(Status::Working));
                self.next_poll = self.world.now() + INTERVAL;
                let legacy = || json!({"task": legacy_task("working")});
                answer(id, if self.is_modern { created() } else { legacy() })
            }
            "tasks/get" => answer(id, self.report()),
            "tasks/update" => {
                if self.status == Some(Status::Asking) {
                    self.status = Some(Status::Working);
                }
                answer(id, json!({"resultType": "complete"}))
            }
            "tasks/cancel" => {
                if !self.is_over() {
                    self.status = Some(Status::Cancelled);
                }
                let task = legacy_task("cancelled");
                answer(id, if self.is_modern { json!({"resultType": "complete"}) } else { task })
            }
            "tasks/result" if self.status == Some(Status::Completed) => answer(id, text("done")),
            "tasks/result" => error(id, 7),
            method => panic!("{method}"),
        };
        self.world.send(&message);
    }
}

/// A client that knows the tools of its server.
fn connected(is_modern: bool, drive: Drive) -> World<StreamClient> {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::ElicitationForm);
    config.era_policy = if is_modern { EraPolicy::Auto } else { EraPolicy::LegacyOnly };
    let mut world = World::new(config, drive);
    if is_modern {
        world.connect(discover_result());
        return world;
    }
    let mut result = initialize_result(LEGACY);
    result["capabilities"] = legacy_capabilities();
    world.connect(result);
    world.output.clear();
    world.request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
    world.answer_next(tools());
    world
}

impl Script for TaskModel {
    type Client = StreamClient;
    type Choice = Choice;

    /// Both eras once the task is created, and the modern one before.
    fn new(case: usize, drive: Drive) -> Self {
        let is_modern = case != 1;
        let mut world = connected(is_modern, drive);
        let params = CallToolParams::new("required");
        let call = world.request::<CallTool>(&params, RequestOptions::default());
        let mut model = Self {
            world,
            is_modern,
            is_linked: true,
            unanswered: Vec::new(),
            call: call.expect("a ready client accepts requests"),
            status: None,
            has_asked: false,
            next_poll: Instant::ORIGIN,
            is_cancelled: false,
            notified: 0,
            has_failed: false,
            is_closing: false,
            timeouts: 0,
        };
        if case < 2 {
            model.world.drain();
            model.receive();
            model.answer(0);
        }
        model
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
        let each = 0..self.unanswered.len().min(3);
        choices
            .extend(each.clone().filter(|&at| self.is_answerable(&self.unanswered[at])).map(Choice::Answer));
        if self.status == Some(Status::Working) {
            let ends = [Status::Completed, Status::Failed, Status::Cancelled];
            choices.extend(ends.map(Choice::Become));
            if self.is_modern && !self.has_asked {
                choices.push(Choice::Become(Status::Asking));
            }
        }
        if self.status.is_some() && self.is_linked && self.notified < 1 {
            choices.push(Choice::Notify);
        }
        if !self.world.inputs.is_empty() {
            choices.push(Choice::Respond);
        }
        if self.timeouts < 2 && self.world.deadline().is_some() {
            choices.push(Choice::Timeout);
        }
        if !self.world.ended.contains_key(&self.call) {
            choices.push(Choice::Cancel);
        }
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        if !self.has_failed && self.is_linked {
            choices.push(Choice::Fault(Fault::End));
            let faults = |at| [Fault::Lose(at), Fault::Error(at), Fault::AnswerTwice(at)].map(Choice::Fault);
            let answerable = each.filter(|&at| self.is_answerable(&self.unanswered[at]));
            choices.extend(answerable.flat_map(faults));
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Answer(at) => self.answer(at),
            Choice::Become(status) => {
                self.status = Some(status);
                self.has_asked |= status == Status::Asking;
            }
            Choice::Notify => {
                self.notified += 1;
                let report = self.report();
                let method =
                    if self.is_modern { "notifications/tasks" } else { "notifications/tasks/status" };
                self.world.send(&notification(method, report));
            }
            Choice::Respond => {
                let input = *self.world.inputs.keys().next().expect("it is open");
                self.world.respond(input, Ok(&ElicitResult::accept([("name", "Ada".into())])));
            }
            Choice::Timeout => {
                self.timeouts += 1;
                self.world.pass();
            }
            Choice::Cancel => {
                self.is_cancelled = true;
                let call = self.call;
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
                    Fault::Error(at) => {
                        let id = self.unanswered.remove(at)["id"].clone();
                        self.world.send(&error(&id, -32603));
                    }
                    Fault::AnswerTwice(at) => {
                        let asked = self.unanswered[at].clone();
                        self.answer(at);
                        self.unanswered.insert(at, asked);
                    }
                    Fault::End => self.end(),
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
                StreamOutput::Message(message) if message["method"] == "notifications/cancelled" => {
                    let cancelled = &message["params"]["requestId"];
                    // A server may have created the task before it receives the cancellation.
                    let is_call = |asked: &Value| asked["method"] == "tools/call";
                    self.unanswered.retain(|asked| asked["id"] != *cancelled || is_call(asked));
                }
                StreamOutput::Message(message) if !message["id"].is_null() => {
                    if message["method"] == "tasks/get" && !self.has_failed {
                        let now = self.world.now();
                        assert!(now >= self.next_poll, "the client polls at {now:?}: {:?}", self.next_poll);
                        // The end of a client that closes may coincide with a poll.
                        let has_ended = self.world.ended.contains_key(&self.call);
                        assert!(self.is_closing || !has_ended, "the call has ended");
                    }
                    self.unanswered.push(message);
                }
                _ => {}
            }
        }
    }

    fn serve(&mut self) -> bool {
        let next = (0..self.unanswered.len()).find(|&at| self.is_answerable(&self.unanswered[at]));
        if !self.world.inputs.is_empty() {
            self.apply(Choice::Respond);
        } else if let Some(at) = next {
            self.answer(at);
        } else if self.status == Some(Status::Working) {
            self.status = Some(Status::Completed);
        } else {
            return false;
        }
        true
    }

    fn check_recovered(&mut self) {
        let is_lost = self.has_failed || self.is_closing || self.timeouts > 0;
        let outcome = &self.world.ended[&self.call];
        let is_expected = match outcome {
            Outcome::Result(_) => self.status == Some(Status::Completed),
            Outcome::Error(error) if error.code == 7 => self.status == Some(Status::Failed),
            Outcome::TaskCancelled { .. } => self.status == Some(Status::Cancelled),
            Outcome::Cancelled => self.is_cancelled,
            _ => is_lost,
        };
        assert!(is_expected, "{outcome:?} of a task that is {:?}", self.status);
        let runs_on = !self.is_over() && self.status.is_some();
        assert!(is_lost || !self.is_cancelled || !runs_on, "the task is not cancelled");
    }
}

#[test]
fn client_follows_a_task_in_every_order() {
    explore::<Scripted<TaskModel>>(Search {
        name: "tasks",
        cases: 3,
        depth: 3,
        least_paths: 780,
        least_states: 580,
    });
}
