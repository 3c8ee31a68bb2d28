//! A random walk of a server and an application with tasks, which checks the contracts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mcp_proto::peer::client::{Event, TaskCommand};
use mcp_proto::peer::{InboundId, Outcome, ProgressOption, RequestId, RequestOptions, TaskMode};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{CallTool, CallToolParams, ClientCapability, ElicitResult};
use serde_json::{Value, json};

use super::{asking, completed, legacy_task, task, with};
use crate::common::client::{ClientHarness, config};

struct RandomWalk {
    s: ClientHarness,
    rng_state: u64,
    modern: bool,
    /// The accepted requests, and whether each has ended.
    requests: BTreeMap<RequestId, bool>,
    /// The requests that wait for a response of the server.
    waiting: VecDeque<(Value, String)>,
    asked: Vec<InboundId>,
    /// How often each method was sent.
    sent: BTreeMap<String, usize>,
    resolved: usize,
}

impl RandomWalk {
    fn new(modern: bool, seed: u64) -> Self {
        let mut config = config();
        config.capabilities = config.capabilities.with(ClientCapability::ElicitationForm);
        config.limits.task_inputs = 4;
        let mut s = if modern { ClientHarness::open(config) } else { super::legacy_of(config) };
        if modern {
            let probe = s.expect("server/discover");
            let mut discovered = crate::common::messages::discover_result();
            discovered["capabilities"]["extensions"] = json!({super::EXTENSION: {}});
            s.answer(&probe, discovered);
        }
        s.take_events();
        Self {
            s,
            rng_state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            modern,
            requests: BTreeMap::new(),
            waiting: VecDeque::new(),
            asked: Vec::new(),
            sent: BTreeMap::new(),
            resolved: 0,
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.rng_state ^= self.rng_state << 13;
        self.rng_state ^= self.rng_state >> 7;
        self.rng_state ^= self.rng_state << 17;
        usize::try_from((self.rng_state >> 16) % below as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.random(from.len())]) }
    }

    fn begin(&mut self) {
        let mode = self.pick(&[TaskMode::Await, TaskMode::Await, TaskMode::Handle, TaskMode::Never]).unwrap();
        let mut options = RequestOptions::default().task(mode).progress(ProgressOption::Always);
        if self.random(4) == 0 {
            options = options.hard_timeout(Duration::from_secs(20));
        }
        let begun = match self.random(4) {
            0 => self.s.client.at(self.s.now).task("task-1", TaskCommand::Follow, options),
            _ => self.s.client.at(self.s.now).request::<CallTool>(&CallToolParams::new("required"), options),
        };
        if let Ok(request) = begun {
            assert!(self.requests.insert(request, false).is_none(), "a handle is used twice");
        }
    }

    fn state(&mut self) -> Value {
        let key = ["a", "b", "c", "d", "e", "f"][self.random(6)];
        if self.modern {
            match self.random(6) {
                0 | 1 => asking(&["a", key]),
                2 => completed(),
                3 => with(task("failed"), "error", json!({"code": 1, "message": "no"})),
                4 => task("cancelled"),
                _ => task("working"),
            }
        } else {
            legacy_task(["working", "input_required", "completed", "failed", "cancelled"][self.random(5)])
        }
    }

    fn answer(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.random(self.waiting.len());
        let (id, method) = self.waiting.remove(at).unwrap();
        if self.random(8) == 0 {
            let code = self.pick(&[code::INTERNAL_ERROR, code::INVALID_PARAMS]).unwrap();
            return self.s.answer_error(&id, code, None);
        }
        let result = match &*method {
            "tools/call" if self.modern => with(task("working"), "resultType", json!("task")),
            "tools/call" => json!({"task": legacy_task("working")}),
            "tasks/get" => self.state(),
            "tasks/result" => json!({"content": []}),
            _ => json!({"resultType": "complete"}),
        };
        self.s.answer(&id, result);
    }

    fn step(&mut self) {
        match self.random(12) {
            0 => self.begin(),
            1..=4 => self.answer(),
            5 => {
                let method = if self.modern { "notifications/tasks" } else { "notifications/tasks/status" };
                let state = self.state();
                self.s.notify(method, state);
            }
            6 => {
                let requests: Vec<RequestId> = self.requests.keys().copied().collect();
                if let Some(request) = self.pick(&requests) {
                    self.s.client.at(self.s.now).cancel(request, None);
                }
            }
            7 | 8 => {
                let asked = self.asked.clone();
                if let Some(asked) = self.pick(&asked) {
                    match self.random(6) {
                        0 => self.s.client.at(self.s.now).respond(asked, Err(ErrorObject::new(1, "no"))),
                        _ => self.s.client.at(self.s.now).respond(asked, Ok(&ElicitResult::decline())),
                    }
                }
            }
            _ => {
                let time = Duration::from_millis(self.random(3000).try_into().unwrap());
                // Checks contract 5 on the way.
                self.s.advance(time);
            }
        }
        self.look();
    }

    fn look(&mut self) {
        while let Some(line) = self.s.try_line() {
            let method = line["method"].as_str().unwrap_or_default().to_string();
            if !line["id"].is_null() && !method.is_empty() {
                self.waiting.push_back((line["id"].clone(), method.clone()));
            }
            *self.sent.entry(method).or_default() += 1;
        }
        for event in self.s.take_events() {
            match event {
                Event::Outcome { request, outcome } => {
                    let ended = self.requests.get_mut(&request).expect("an outcome of an accepted request");
                    assert!(!core::mem::replace(ended, true), "contract 1: ended twice");
                    self.resolved += usize::from(matches!(outcome, Outcome::Result(_)));
                }
                Event::TaskStatus { request, .. } => {
                    assert_eq!(self.requests.get(&request), Some(&false), "a status after the end");
                }
                Event::Request { id, .. } => {
                    if let Some(of) = self.s.client.peer().on_behalf_of(id) {
                        assert_eq!(
                            self.requests.get(&of),
                            Some(&false),
                            "the client asks on behalf of an ended request"
                        );
                    }
                    self.asked.push(id);
                }
                Event::RequestCancelled { id, .. } => self.asked.retain(|&asked| asked != id),
                _ => {}
            }
        }
    }

    fn finish(mut self) -> (BTreeMap<String, usize>, usize) {
        match self.random(3) {
            0 => self.s.end("gone"),
            1 => self.s.client.at(self.s.now).close(),
            _ => {
                // From here on the server is silent, and every request must end.
                self.s.advance(Duration::from_secs(3600));
                self.look();
                assert!(self.requests.values().all(|&ended| ended), "a request waits for ever");
                assert_eq!(self.s.client.peer().in_flight(), 0);
                return (self.sent, self.resolved);
            }
        }
        self.s.advance(Duration::from_secs(60));
        self.look();
        assert!(self.requests.values().all(|&ended| ended), "contract 1: no outcome");
        assert_eq!(self.s.client.poll_timeout(), None);
        (self.sent, self.resolved)
    }
}

/// Contracts 1, 2, 5; C14.5
#[test]
fn client_keeps_its_contracts_in_any_sequence_of_task_events() {
    for modern in [true, false] {
        let mut sent = BTreeMap::<String, usize>::new();
        let mut settled = 0;
        for seed in 0..100 {
            let mut walk = RandomWalk::new(modern, seed);
            for _ in 0..150 {
                walk.step();
            }
            let (lines, results) = walk.finish();
            lines.into_iter().for_each(|(method, count)| *sent.entry(method).or_default() += count);
            settled += results;
        }
        // The walk must reach every method, or it proves nothing.
        let step = if modern { "tasks/update" } else { "tasks/result" };
        for method in ["tools/call", "tasks/get", "tasks/cancel", step] {
            assert!(sent.get(method).is_some_and(|&count| count > 20), "{method}: {sent:?}");
        }
        assert!(settled > 20, "{settled}");
    }
}
