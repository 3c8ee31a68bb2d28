//! Checks of the server's requests to the host, and of the outcomes of the host's requests.

use mcp_proto::Instant;
use mcp_proto::peer::client::TaskCommand;
use mcp_proto::peer::{InboundId, Outcome, RequestId, TaskReport};
use mcp_proto::rpc::{ErrorObject, Raw};
use mcp_proto::schema::tasks::TaskStatus;
use mcp_proto::schema::{ElicitResult, ElicitValue, Era, ListRootsResult};
use serde_json::Value;

use super::router::VERSION_PREFIX;
use super::world::{CallKind, Tool, World};

/// A task whose identifier the host knows.
pub struct KnownTask {
    pub id: String,
    /// The argument of the call that created it.
    n: u64,
    /// Its final status, if known.
    pub(super) final_status: Option<TaskStatus>,
}

/// Parts of a server's errors while its engine has faults.
const ENGINE_MESSAGES: [&str; 4] =
    ["was used before", "has lapsed", "cannot be checked now", "the task store failed"];

/// Parts of a server's errors for a task that it no longer has, or no longer runs.
const TASK_GONE_MESSAGES: [&str; 5] = [
    "unknown task",
    "did not end within its time to live",
    "the server ended",
    "the server has ended",
    "in another instance",
];

impl World<'_> {
    // --- Requests of the server ---

    /// Answers a request now, or parks it.
    pub(super) fn answer_or_park(&mut self, now: Instant, id: InboundId, method: &str, params: Option<&Raw>) {
        if method != "elicitation/create" {
            return self.pair.client.at(now).respond(id, Ok(&ListRootsResult::new(Vec::new())));
        }
        let params: Value = serde_json::from_slice(params.expect("a form").as_bytes()).unwrap();
        let message = params["message"].as_str().expect("a message").to_owned();
        self.tally.forms += 1;
        self.parked.push((id, message));
        if self.dice.chance(700) {
            self.answer_parked();
        }
    }

    /// Answers every parked form, with its own message or by declining.
    pub fn answer_parked(&mut self) {
        for (id, message) in std::mem::take(&mut self.parked) {
            let answer = match self.dice.chance(100) {
                true => ElicitResult::decline(),
                false => ElicitResult::accept([("answer", ElicitValue::from(message.as_str()))]),
            };
            self.pair.client.at(self.pair.now()).respond(id, Ok(&answer));
        }
    }

    // --- Outcomes ---

    pub(super) fn check_outcome(&mut self, request: RequestId, outcome: &Outcome) {
        let made = self.pending.get_mut(&request).expect("the request was made");
        assert!(!std::mem::replace(&mut made.ended, true), "contract 1: a second outcome: {outcome:?}");
        let (kind, failed_over) = (made.kind, made.failed_over);
        match outcome {
            Outcome::Result(raw) => self.result(kind, raw, failed_over),
            Outcome::Task(report) => {
                let CallKind::Call { n, tool: Tool::Job } = kind else {
                    panic!("{kind:?} has become a task")
                };
                self.tasks.push(KnownTask { id: report.id.clone(), n, final_status: None });
                self.tally.other += 1;
            }
            Outcome::TaskCancelled { .. } => {
                if let CallKind::Task { which, .. } = kind {
                    self.task_has_ended(which, TaskStatus::Cancelled, failed_over);
                }
                self.tally.other += 1;
            }
            Outcome::Lost(_) => self.tally.lost += 1,
            Outcome::TimedOut { .. } => self.tally.timed_out += 1,
            Outcome::Error(error) => {
                let is_engine_error = self.ledger.engine.is_used()
                    && ENGINE_MESSAGES.iter().any(|words| error.message.contains(words));
                assert!(is_engine_error || may_fail(kind, error), "unexpected error for {kind:?}: {error:?}");
                self.tally.other += 1;
            }
            _ => self.tally.other += 1,
        }
    }

    /// Checks a result. After a failover in the meantime, a task's status may be one that was forgotten.
    fn result(&mut self, kind: CallKind, raw: &Raw, failed_over: bool) {
        self.tally.results += 1;
        let result: Value = serde_json::from_slice(raw.as_bytes()).unwrap();
        match kind {
            CallKind::Call { n, tool } => self.check_run(n, tool, &result),
            CallKind::List { announced_version: announced } => {
                let description = result["tools"][0]["description"].as_str().unwrap_or_default();
                let Some(version) = description.strip_prefix(VERSION_PREFIX) else { return };
                let version: u64 = version.parse().unwrap();
                assert!(
                    version >= announced,
                    "the list of tools is stale: {version}, but version {announced} was announced"
                );
                self.tally.cached += u32::from(version < self.ledger.version());
            }
            CallKind::Task { which, command: TaskCommand::Status, known_ended: over } => {
                let report = TaskReport::read(raw).unwrap();
                assert_eq!(report.id, self.tasks[which].id, "status of another task");
                if !matches!(report.status, TaskStatus::Working | TaskStatus::InputRequired) {
                    self.task_has_ended(which, report.status, failed_over);
                } else {
                    assert!(!over || failed_over, "the task {} reports a status after its end", report.id);
                }
            }
            CallKind::Task { which, command: TaskCommand::Follow, .. } => {
                self.check_run(self.tasks[which].n, Tool::Job, &result);
                let legacy = self.pair.client.peer().server().is_some_and(|server| server.era == Era::Legacy);
                // In the legacy era, a tool's own error is a failure of the task as well.
                let failed = legacy && result["isError"] == true;
                let end = if failed { TaskStatus::Failed } else { TaskStatus::Completed };
                self.task_has_ended(which, end, failed_over);
            }
            CallKind::Task { command: TaskCommand::Cancel, .. } | CallKind::Other => {}
        }
    }

    fn check_run(&self, n: u64, tool: Tool, result: &Value) {
        // If the client a tool asks is gone, the tool returns an error as its result.
        if tool != Tool::Plain && result["isError"] == true {
            return;
        }
        assert_eq!(result["content"][0]["text"], format!("done {n}"), "answer to another call");
        assert!(self.ledger.count(n) > 0, "result of a call that never ran");
    }

    /// Records a task's final status, which never changes unless a failover forgets it.
    fn task_has_ended(&mut self, which: usize, end: TaskStatus, failed_over: bool) {
        if failed_over {
            return;
        }
        let seen = &mut self.tasks[which];
        match &seen.final_status {
            Some(before) => assert_eq!(*before, end, "the task {} has ended twice", seen.id),
            None => self.tally.tasks += 1,
        }
        seen.final_status = Some(end);
    }
}

/// Contract 11: no server sends errors here except for methods that its revision lacks, expired states, and tasks that
/// are gone.
fn may_fail(kind: CallKind, error: &ErrorObject) -> bool {
    let gone = || TASK_GONE_MESSAGES.iter().any(|words| error.message.contains(words));
    error.code == -32601
        || error.message.contains("ession")
        || match kind {
            CallKind::Call { tool: Tool::Plain, .. } => false,
            CallKind::Call { tool: Tool::Form, .. } => error.message.contains("has lapsed"),
            CallKind::Call { tool: Tool::Job, .. } => gone() || error.message.contains("has lapsed"),
            CallKind::Task { .. } | CallKind::List { .. } | CallKind::Other => true,
        }
}
