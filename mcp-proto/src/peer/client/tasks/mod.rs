//! Requests that have become tasks, and the client's commands for tasks.
//!
//! A task belongs to the request that has become it or that follows it. Its [`Follower`] decides which requests about
//! the task to send; these are the machine's own requests, whose outcomes are handled here instead of becoming events.

pub(super) mod follower;

use alloc::collections::VecDeque;
use core::time::Duration;

use follower::{FollowAction, FollowedTask, Follower, ResultWait, TaskInputMode, TaskOrigin};

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::task::{TaskCommand, TaskSnapshot};
use crate::peer::{
    AnyParams, InputError, InputMode, InvalidAnswerError, Outbox, Outcome, RequestError, RequestId,
    RequestOptions, TaskMode, TaskReport,
};
use crate::prelude::*;
use crate::rpc::{JsonStr, Raw, decode_member, read_members};
use crate::schema::tasks::{CancelTask, GetTask, TaskIdParams, TaskUpdated, UpdateTask, legacy};
use crate::schema::{
    CallTool, CustomParams, Era, Json, ListTools, ListToolsResult, Method, MethodInfo, Notification,
    ResultType, Revision, ServerCapabilities, ServerCapability, TaskSupport, result_type,
};

use super::input_requests::{RawInputRequest, RawInputRequests, RawInputResponses};
use super::request_record::{ClientRequest, QueuedRequest, Removed, RequestOwner, Stage, TaskPart};
use super::{Client, Event, Phase};

/// The state of all tasks of a client.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// The followed tasks, each with a request that follows it.
    followed: OrderedSet<(String, RequestId)>,
    /// The outcomes of the machine's own requests that are not processed yet.
    completed: VecDeque<(RequestOwner, Outcome)>,
    pub(super) support: ToolTaskSupport,
}

impl Tasks {
    /// Adds a request that follows a task.
    pub(super) fn index(&mut self, request: RequestId, followed: &FollowedTask) {
        self.followed.insert((followed.follower.id().to_string(), request));
    }

    /// Removes a request that follows a task.
    pub(super) fn unindex(&mut self, request: RequestId, followed: &FollowedTask) {
        self.followed.remove(&(followed.follower.id().to_string(), request));
    }

    /// Whether a request follows this task.
    fn is_followed(&self, task: &str) -> bool {
        let first = (task.to_string(), RequestId::new(0));
        self.followed.range(first..).next().is_some_and(|(id, _)| id == task)
    }

    /// Whether the same requests follow the same tasks in both.
    #[cfg(feature = "fuzzing")]
    pub(super) fn has_followers_of(&self, other: &Self) -> bool {
        self.followed == other.followed
    }

    /// Queues the outcome of one of the machine's own requests.
    pub(super) fn queue_outcome(&mut self, owner: RequestOwner, outcome: Outcome) {
        self.completed.push_back((owner, outcome));
    }
}

impl Client {
    // --- Commands ---

    /// Follows, queries or cancels a task by its identifier.
    pub(crate) fn task(
        &mut self,
        now: Instant,
        id: &str,
        command: TaskCommand,
        options: RequestOptions,
        out: &mut dyn Outbox,
    ) -> Result<RequestId, RequestError> {
        self.check_room(out)?;
        let mut request = self.record(now, Some(GetTask::INFO), &options);
        if command == TaskCommand::Follow {
            request.info = None;
            request.progress = false;
            request.times.keep_only(options.hard_timeout);
        }
        request.task.mode = TaskMode::Await;
        match self.connection.phase {
            Phase::Ready => {
                let request_id = self.requests.mint();
                let mut removed = Removed { id: request_id, request };
                self.send_command(&mut removed, id, command, &options, out)?;
                self.restore(removed);
                self.perform_task(now, request_id, out);
                Ok(request_id)
            }
            Phase::Disconnected | Phase::Connecting | Phase::Detecting => {
                Ok(self.queue(request, QueuedRequest::Task { id: id.to_string(), command, options }))
            }
            Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed => Err(RequestError::Closed),
        }
    }

    /// Sends a command, or makes its request follow the task.
    pub(super) fn send_command(
        &mut self,
        removed: &mut Removed,
        id: &str,
        command: TaskCommand,
        options: &RequestOptions,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        let era = self.era().unwrap_or(Era::Modern);
        let info = match (command, era) {
            (TaskCommand::Cancel, Era::Modern) => CancelTask::INFO,
            (TaskCommand::Cancel, Era::Legacy) => legacy::CancelTask::INFO,
            (_, Era::Modern) => GetTask::INFO,
            (_, Era::Legacy) => legacy::GetTask::INFO,
        };
        self.admit(info.name, Some(info))?;
        if command == TaskCommand::Follow {
            let (mode, limit) = (task_input_mode(options.input), self.config.limits.task_inputs);
            let follower = Follower::resumed(era, id.to_string(), mode, limit);
            let followed = FollowedTask::new(follower, TaskOrigin::Existing);
            removed.request.stage = Stage::Following(Box::new(followed));
            return Ok(());
        }
        // Even where calls may not become tasks: the server refuses a command of a client that does not declare them.
        //= C14.1 "Declare `io.modelcontextprotocol/tasks` on each request"
        let options = &RequestOptions { task: Some(TaskMode::Await), ..options.clone() };
        let Removed { id: request_id, request } = removed;
        request.info = Some(info);
        self.transmit(*request_id, request, info.name, &TaskIdParams::new(id), options, out)
    }

    // --- Shared with the other modules ---

    /// Follows the task that the server has created for a request. Only a hard timeout of its own ends it earlier.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        mut removed: Removed,
        report: Box<TaskReport>,
        out: &mut dyn Outbox,
    ) {
        let Removed { id, request } = &mut removed;
        let (id, era) = (*id, self.era().unwrap_or(Era::Modern));
        let (mode, limit) = (task_input_mode(request.task.input), self.config.limits.task_inputs);
        let follower = Follower::created(now, era, report, mode, limit);
        let followed = FollowedTask::new(follower, TaskOrigin::ByRequest);
        request.stage = Stage::Following(Box::new(followed));
        request.times.keep_only(request.task.hard_timeout);
        (request.stored_params, request.round) = (None, None);
        self.restore(removed);
        self.perform_task(now, id, out);
    }

    /// The task that a request follows; its [schedule](crate::peer::Requests::update) is the caller's to update.
    pub(super) fn followed_task(&mut self, id: RequestId) -> Option<&mut FollowedTask> {
        match &mut self.requests.get_mut(id)?.stage {
            Stage::Following(followed) => Some(followed),
            _ => None,
        }
    }

    /// Learns from the outcome of a tool list which tools may run as tasks.
    pub(super) fn learn_task_tools(&mut self, info: Option<&'static MethodInfo>, outcome: &Outcome) {
        if let (Some(ListTools::NAME), Outcome::Result(page)) = (info.map(|info| info.name), outcome) {
            self.tasks.support.learn(page, self.config.limits.task_tools);
        }
    }

    /// Handles the application's answers to a task's input requests, or its failure to give them.
    pub(super) fn handle_task_input(
        &mut self,
        now: Instant,
        id: RequestId,
        answers: Result<RawInputResponses, InputError>,
        out: &mut dyn Outbox,
    ) {
        let Some(followed) = self.followed_task(id) else { return };
        followed.follower.handle_input(match answers {
            Ok(answers) => {
                Ok(answers.iter().map(|(key, answer)| (key.to_string(), answer.clone())).collect())
            }
            Err(fault) => Err(Outcome::Input(fault)),
        });
        self.perform_task(now, id, out);
    }

    /// The task that a result creates, as an outcome, if it creates one.
    pub(super) fn created_task(&self, request: &ClientRequest, result: &Raw) -> Option<Outcome> {
        let invalid = |what: String| Outcome::Invalid(InvalidAnswerError::Malformed(what));
        let of = |read: Result<TaskSnapshot, String>| match read {
            Ok(snapshot) => Outcome::Task(snapshot.report),
            Err(what) => invalid(what),
        };
        match self.era() {
            Some(Era::Modern) => {
                //= C14.14 "CreateTaskResult in answer to a request that cannot become a task is an invalid result"
                // The tasks extension is negotiated like any other; requests that may become tasks declare it.
                let may = request.info.is_some_and(|info| info.can_be_task)
                    && request.task.mode != TaskMode::Never
                    && self.server_declares_tasks();
                let is = may && matches!(result_type(result.as_str()), Ok(ResultType::Task));
                //= C14.1 "be ready for CallToolResult or CreateTaskResult for any tools/call"
                is.then(|| of(TaskSnapshot::read(result)))
            }
            _ if request.task.requested => TaskSnapshot::read_created(result).map(of),
            _ => None,
        }
    }

    /// Handles a late answer to a request that was abandoned. If the server has made a task of it, the task is
    /// cancelled.
    pub(super) fn abandon_late_task(&mut self, now: Instant, result: &Raw, out: &mut dyn Outbox) {
        let created = match self.era() {
            Some(Era::Modern) => matches!(result_type(result.as_str()), Ok(ResultType::Task))
                .then(|| TaskSnapshot::read(result)),
            _ if self.tasks.support.is_offered() => TaskSnapshot::read_created(result),
            _ => None,
        };
        // A server may answer twice: the task that a request has become is not cancelled.
        if let Some(Ok(snapshot)) = created
            && !self.tasks.is_followed(&snapshot.report.id)
        {
            self.cancel_task(now, &snapshot.report.id, out);
        }
    }

    /// Stops following the task of a request that ends, if it follows one. A task that the request has become is
    /// cancelled.
    pub(super) fn abandon_task(&mut self, now: Instant, removed: &mut Removed, out: &mut dyn Outbox) {
        let Stage::Following(followed) = &mut removed.request.stage else { return };
        match followed.origin {
            //= C14.5 "Cancel by tasks/cancel, never notifications/cancelled"
            TaskOrigin::ByRequest => followed.follower.cancel(),
            TaskOrigin::Existing => followed.follower.stop_following(),
        }
        while let Some(act) = followed.follower.poll_action() {
            if matches!(act, FollowAction::Cancel) {
                self.cancel_task(now, followed.follower.id(), out);
            }
        }
        self.cancel_result(followed, out);
    }

    /// Handles a notification that may be about a followed task.
    pub(super) fn handle_task_notification(
        &mut self,
        now: Instant,
        method: &str,
        params: Option<&Raw>,
        out: &mut dyn Outbox,
    ) {
        let expected = match self.era() {
            Some(Era::Modern) => TaskUpdated::NAME,
            _ => legacy::TaskStatusChanged::NAME,
        };
        if self.tasks.followed.is_empty() || method != expected {
            return;
        }
        let Some(Ok(snapshot)) = params.map(TaskSnapshot::read) else { return };
        let task = &snapshot.report.id;
        let first = (task.clone(), RequestId::new(i64::MIN));
        let followers = self.tasks.followed.range(first..).take_while(|(id, _)| id == task);
        let followers: Vec<RequestId> = followers.map(|&(_, request)| request).collect();
        for id in followers {
            if let Some(followed) = self.followed_task(id) {
                followed.follower.handle_notification(now, snapshot.clone());
                self.perform_task(now, id, out);
            }
        }
    }

    /// Processes the outcomes of the machine's own requests.
    pub(super) fn advance_tasks(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some((owner, outcome)) = self.tasks.completed.pop_front() {
            let RequestOwner::Task { of, part } = owner else {
                if let Outcome::Task(report) = outcome {
                    self.cancel_task(now, &report.id, out);
                }
                continue;
            };
            let Some(followed) = self.followed_task(of) else { continue };
            match part {
                TaskPart::Get => followed.follower.handle_get(now, outcome),
                TaskPart::Update => followed.follower.handle_update(now, outcome),
                TaskPart::Result => {
                    followed.result = None;
                    followed.follower.handle_result(now, outcome);
                }
            }
            self.perform_task(now, of, out);
        }
    }

    // --- Actions ---

    /// Performs the actions of a task's follower.
    pub(super) fn perform_task(&mut self, now: Instant, id: RequestId, out: &mut dyn Outbox) {
        while let Some(followed) = self.followed_task(id)
            && let Some(act) = followed.follower.poll_action()
        {
            let task = followed.follower.id().to_string();
            match act {
                FollowAction::Report(report) => {
                    let bytes = report.bytes();
                    self.events.push_or_drop(Event::TaskStatus { request: id, report }, bytes);
                }
                FollowAction::Cancel => self.cancel_task(now, &task, out),
                FollowAction::Resolve(outcome) => {
                    let Some(mut removed) = self.take(id) else { return };
                    if let Stage::Following(followed) = &mut removed.request.stage {
                        self.cancel_result(followed, out);
                    }
                    return self.resolve(removed, outcome);
                }
                FollowAction::RequestInput(requests) => self.ask_application(id, requests),
                FollowAction::WithdrawInput => {
                    let sets = core::mem::take(&mut followed.input_sets);
                    sets.into_iter().for_each(|set| self.withdraw_input(set));
                }
                act => {
                    if !self.send_task_request(now, id, &task, &act, out)
                        && let Some(followed) = self.followed_task(id)
                    {
                        followed.follower.postpone(now, &act);
                        // The follower retries later.
                        break;
                    }
                }
            }
        }
        self.requests.update(id, |_| ());
    }

    /// Asks the application for the input that a task needs.
    fn ask_application(&mut self, id: RequestId, requests: OrderedMap<String, Raw>) {
        let asked: Result<Vec<_>, _> =
            requests.into_iter().map(|(key, request)| RawInputRequest::read(key, &request)).collect();
        let set = match asked {
            Ok(asked) => self.request_input(id, RawInputRequests(asked)).map_err(Outcome::Input),
            Err(what) => Err(Outcome::Invalid(InvalidAnswerError::Malformed(what))),
        };
        let Some(followed) = self.followed_task(id) else { return };
        match set {
            Ok(set) => followed.input_sets.push(set),
            Err(outcome) => followed.follower.handle_input(Err(outcome)),
        }
    }

    /// Sends a follower's request about its task; returns whether it could be sent.
    fn send_task_request(
        &mut self,
        now: Instant,
        of: RequestId,
        task: &str,
        act: &FollowAction,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some(followed) = self.followed_task(of) else { return false };
        let era = followed.follower.era();
        let (part, info, params): (_, &'static MethodInfo, Box<dyn AnyParams>) = match (act, era) {
            (FollowAction::Update(answers), _) => {
                let mut params = CustomParams::new();
                params.extra.insert("taskId", task);
                let answers = Json::encode(answers).unwrap_or_else(|_| Json::empty_object());
                params.extra.insert("inputResponses", answers);
                (TaskPart::Update, UpdateTask::INFO, Box::new(params))
            }
            (FollowAction::Result(_), _) => {
                (TaskPart::Result, legacy::TaskResult::INFO, Box::new(TaskIdParams::new(task)))
            }
            //= K24 "Tasks in both wire forms, chosen by the era"
            (_, Era::Modern) => (TaskPart::Get, GetTask::INFO, Box::new(TaskIdParams::new(task))),
            (_, Era::Legacy) => (TaskPart::Get, legacy::GetTask::INFO, Box::new(TaskIdParams::new(task))),
        };
        if part == TaskPart::Result
            && let Some(before) = followed.result.take()
        {
            // The server has held it back for too long.
            self.cancel_own(before, out);
        }
        let timeout = match act {
            FollowAction::Result(ResultWait::UntilEnd) => Duration::MAX,
            _ => self.config.request_timeout,
        };
        let sent = self.own_request(now, RequestOwner::Task { of, part }, info, &*params, timeout, out);
        if let (TaskPart::Result, Some(followed)) = (part, self.followed_task(of)) {
            followed.result = sent;
        }
        sent.is_some()
    }

    /// Asks the server to cancel a task. The answer is ignored.
    fn cancel_task(&mut self, now: Instant, id: &str, out: &mut dyn Outbox) {
        let (info, needed) = match self.era() {
            Some(Era::Modern) => (CancelTask::INFO, ServerCapability::TasksExtension),
            _ => (legacy::CancelTask::INFO, ServerCapability::TasksCancel),
        };
        // A modern server that creates tasks supports the extension, whether or not it declares so.
        if self.server.as_ref().is_some_and(|server| server.era == Era::Modern || server.allows(needed)) {
            let timeout = self.config.request_timeout;
            self.own_request(now, RequestOwner::Ignored, info, &TaskIdParams::new(id), timeout, out);
        }
    }

    /// Cancels the pending `tasks/result` of a task that is no longer followed. Answers to its other requests are
    /// ignored as they arrive.
    fn cancel_result(&mut self, followed: &mut FollowedTask, out: &mut dyn Outbox) {
        if let Some(result) = followed.result.take() {
            self.cancel_own(result, out);
        }
    }
}

/// The input mode of a task for the input mode of its request.
fn task_input_mode(input: InputMode) -> TaskInputMode {
    match input {
        InputMode::Automatic => TaskInputMode::Automatic,
        InputMode::Manual => TaskInputMode::Manual,
    }
}

// Which tools of a legacy server run as tasks, and how a call asks for one.
//
// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation>

/// A legacy server's declarations about tools as tasks.
#[derive(Debug, Default)]
pub(in crate::peer::client) struct ToolTaskSupport {
    /// Whether tool calls can become tasks at all.
    is_offered: bool,
    /// The tools that can, and whether they must.
    tools: OrderedMap<String, TaskSupport>,
}

impl ToolTaskSupport {
    /// Takes over the declarations of a server that is now known, or known again.
    pub(in crate::peer::client) fn note(
        &mut self,
        revision: Revision,
        capabilities: Option<&ServerCapabilities>,
    ) {
        let tasks = capabilities.and_then(|capabilities| capabilities.tasks.as_ref());
        let requests = tasks.and_then(|tasks| tasks.requests.as_ref());
        let tools = requests.and_then(|requests| requests.tools.as_ref());
        self.is_offered =
            revision == Revision::V2025_11_25 && tools.is_some_and(|tools| tools.call.is_some());
    }

    pub(in crate::peer::client) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Learns from a page of the server's tools.
    pub(in crate::peer::client) fn learn(&mut self, page: &Raw, most: usize) {
        if !self.is_offered {
            return;
        }
        let Ok(page) = page.decode::<ListToolsResult>() else { return };
        for tool in page.tools {
            match tool.execution.and_then(|execution| execution.task_support) {
                Some(support @ (TaskSupport::Optional | TaskSupport::Required)) => {
                    if self.tools.len() < most || self.tools.contains_key(&tool.name) {
                        self.tools.insert(tool.name, support);
                    }
                }
                _ => _ = self.tools.remove(&tool.name),
            }
        }
    }

    /// Adds a request for a task to the parameters of a request, which start at `start` in `out`, if it is a tool call
    /// that should become a task. Returns whether the call requests a task.
    ///
    /// # Errors
    /// If the application requests a task itself, and the server does not run the tool as a task.
    pub(in crate::peer::client) fn request_task(
        &self,
        info: Option<&MethodInfo>,
        revision: Revision,
        mode: TaskMode,
        out: &mut Vec<u8>,
        start: usize,
    ) -> Result<bool, serde_json::Error> {
        let is_call = info.is_some_and(|info| info.name == CallTool::NAME);
        if !is_call || revision != Revision::V2025_11_25 {
            return Ok(false);
        }
        let params = core::str::from_utf8(out.get(start..).unwrap_or_default()).unwrap_or_default();
        let Ok([name, task]) = read_members(params, ["name", "task"]) else { return Ok(false) };
        let by_application = task.is_some();
        //= C14.7 "Experimental 2025 tasks: only with capability"
        if !self.is_offered {
            return if by_application {
                Err(refusal("the server runs no calls as tasks"))
            } else {
                Ok(false)
            };
        }
        let support = decode_member(name).and_then(|JsonStr(name)| self.tools.get(&*name));
        if by_application {
            //= C14.7 "taskSupport absent/forbidden → no task"
            return match support {
                Some(_) => Ok(mode != TaskMode::Never),
                None => Err(refusal("the server has listed no such tool that runs as a task")),
            };
        }
        if mode == TaskMode::Never {
            return Ok(false);
        }
        //= C14.7 "taskSupport absent/forbidden → no task, required → task"
        let wanted = match support {
            Some(TaskSupport::Required) => true,
            Some(TaskSupport::Optional) => mode == TaskMode::Handle,
            _ => false,
        };
        if wanted && out.last() == Some(&b'}') {
            out.pop();
            out.extend_from_slice(br#","task":{}}"#);
        }
        Ok(wanted)
    }
}

fn refusal(reason: &'static str) -> serde_json::Error {
    serde::ser::Error::custom(reason)
}
