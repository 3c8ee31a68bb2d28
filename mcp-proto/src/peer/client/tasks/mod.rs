//! Requests that have become tasks, and the client's commands for tasks.
//!
//! A task belongs to the request that has become it or that follows it. Its [`Follower`] decides which requests about
//! the task to send; these are the machine's own requests, whose outcomes are handled here instead of becoming events.

mod followed_tasks;
mod follower;
mod support;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::task::TaskSnapshot;
use crate::peer::{
    AnyParams, InputError, InputMode, InvalidAnswerError, OutboundEntry, Outbox, Outcome, ProgressOption,
    RequestError, RequestId, RequestOptions, Stage, TaskMode, TaskOptions, TaskReport,
};
use crate::rpc::Raw;
use crate::schema::tasks::{CancelTask, GetTask, TaskIdParams, TaskUpdated, UpdateTask, legacy};
use crate::schema::{
    CustomParams, Era, Json, ListTools, Method, MethodInfo, Notification, ResultType, ServerCapability,
    result_type,
};

use super::commands::write_of;
use super::input_requests::{InputOwner, RawInputRequest, RawInputRequests, RawInputResponses};
use super::{Client, Event, Phase};
use followed_tasks::{FollowedTasks, TaskOrigin};
use follower::{FollowAction, Follower, ResultWait, TaskInputMode};
use support::ToolTaskSupport;

/// A command for a task that is known by its identifier alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskCommand {
    /// Follow the task to its end: the outcome is the task's result, as for the request that created it. Cancelling
    /// this request leaves the task running.
    Follow,
    /// Query the task's status. The outcome is a result, for [`TaskReport::read`](crate::peer::TaskReport::read).
    Status,
    /// Cancel the task. The outcome confirms that the server has received the command, not that the task has ended.
    Cancel,
}

/// The purpose of one of the machine's own requests.
#[derive(Clone, Copy, Debug)]
enum OwnRequest {
    /// To get the task status of this request.
    Get(i64),
    /// To get the task result of this request.
    Result(i64),
    /// To send input to the task of this request.
    Update(i64),
    /// A request whose outcome is ignored.
    Ignored,
    /// A request that was cancelled before the task that it becomes was known (2025-11-25).
    Orphan,
}

/// The state of all tasks of a client.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    followed: FollowedTasks,
    /// The machine's own requests.
    own_requests: BTreeMap<i64, OwnRequest>,
    /// The machine's own requests that have ended and are not processed yet.
    completed: VecDeque<(OwnRequest, Outcome)>,
    /// Commands queued until the server is known.
    queued: BTreeMap<i64, (String, TaskCommand, RequestOptions)>,
    pub(super) support: ToolTaskSupport,
}

impl Tasks {
    /// When the next task is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.followed.deadline()
    }

    /// Takes the outcome of one of the machine's own requests; returns that of any other request.
    pub(super) fn intercept(&mut self, number: i64, outcome: Outcome) -> Option<Outcome> {
        match self.own_requests.remove(&number) {
            Some(part) => {
                self.completed.push_back((part, outcome));
                None
            }
            None => Some(outcome),
        }
    }

    pub(super) fn forget_queued(&mut self, number: i64) {
        self.queued.remove(&number);
    }

    /// Clears all state, because the connection is over.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a request is one of the machine's own.
    pub(super) fn is_own_request(&self, number: i64) -> bool {
        self.own_requests.contains_key(&number)
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
        match self.connection.phase() {
            Phase::Ready => {
                let number = self.outbound.mint();
                self.begin_command(now, number, id, command, &options, out)?;
                Ok(RequestId::new(number))
            }
            Phase::Disconnected | Phase::Connecting | Phase::Detecting => {
                let number = self.outbound.mint();
                let mut entry = match command {
                    TaskCommand::Follow => follow_entry(now, &options),
                    TaskCommand::Status | TaskCommand::Cancel => {
                        self.entry(now, Some(GetTask::INFO), &options)
                    }
                };
                entry.stage = Stage::Queued;
                self.outbound.insert(number, entry);
                self.tasks.queued.insert(number, (id.to_string(), command, options));
                Ok(RequestId::new(number))
            }
            Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed => Err(RequestError::Closed),
        }
    }

    /// Sends the commands that were queued until the server was known.
    pub(super) fn flush_task_commands(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some((number, (id, command, options))) = self.tasks.queued.pop_first() {
            let before = self.outbound.remove(number);
            match self.begin_command(now, number, &id, command, &options, out) {
                // The command's timeout has run since it was given.
                Ok(()) => {
                    if let (Some(before), Some(entry)) = (before, self.outbound.remove(number)) {
                        self.outbound.insert(number, entry.with_times_of(&before));
                    }
                }
                Err(refusal) => self.resolve(number, Outcome::Refused(refusal)),
            }
        }
    }

    fn begin_command(
        &mut self,
        now: Instant,
        number: i64,
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
            let entry = follow_entry(now, options);
            self.outbound.insert(number, entry);
            let follower = Follower::resumed(
                era,
                id.to_string(),
                task_input_mode(options.input),
                self.config.limits.task_inputs,
            );
            self.tasks.followed.insert(number, follower, TaskOrigin::Existing);
            self.perform_task(now, number, out);
            return Ok(());
        }
        // Even where calls may not become tasks: the server refuses a command of a client that does not declare them.
        //= C14.1 "Declare `io.modelcontextprotocol/tasks` on each request"
        let options = &RequestOptions { task: Some(TaskMode::Await), ..options.clone() };
        let entry = self.entry(now, Some(info), options);
        self.transmit(number, entry, info.name, &write_of(&TaskIdParams::new(id)), options, out)
    }

    // --- Shared with the other modules ---

    /// Follows the task that the server has created for a request, if the request's options allow that.
    ///
    /// # Errors
    /// The outcome of the request, if it ends.
    pub(super) fn become_task(
        &mut self,
        now: Instant,
        number: i64,
        mut entry: OutboundEntry,
        report: Box<TaskReport>,
        out: &mut dyn Outbox,
    ) -> Result<(), Outcome> {
        if entry.task.mode != TaskMode::Await || self.tasks.is_own_request(number) {
            return Err(Outcome::Task(report));
        }
        self.forget_rounds(number);
        entry.become_task();
        let (era, asks) = (self.era().unwrap_or(Era::Modern), task_input_mode(entry.task.input));
        let follower = Follower::created(now, era, report, asks, self.config.limits.task_inputs);
        self.outbound.insert(number, entry);
        self.tasks.followed.insert(number, follower, TaskOrigin::ByRequest);
        self.perform_task(now, number, out);
        Ok(())
    }

    /// Learns from the outcome of a tool list which tools may run as tasks.
    pub(super) fn learn_task_tools(&mut self, entry: &OutboundEntry, outcome: &Outcome) {
        if let (Some(ListTools::NAME), Outcome::Result(page)) = (entry.info.map(|info| info.name), outcome) {
            self.tasks.support.learn(page, self.config.limits.task_tools);
        }
    }

    /// Handles the application's answers to a task's input requests, or its failure to give them.
    pub(super) fn handle_task_input(
        &mut self,
        now: Instant,
        number: i64,
        answers: Result<RawInputResponses, InputError>,
        out: &mut dyn Outbox,
    ) {
        let Some(followed) = self.tasks.followed.get_mut(number) else { return };
        followed.follower.handle_input(match answers {
            Ok(answers) => {
                Ok(answers.iter().map(|(key, answer)| (key.to_string(), answer.clone())).collect())
            }
            Err(fault) => Err(Outcome::Input(fault)),
        });
        self.perform_task(now, number, out);
    }

    /// The task that a result creates, as an outcome, if it creates one.
    pub(super) fn created_task(&self, entry: &OutboundEntry, result: &Raw) -> Option<Outcome> {
        let invalid = |what: String| Outcome::Invalid(InvalidAnswerError::Malformed(what));
        let of = |read: Result<TaskSnapshot, String>| match read {
            Ok(snapshot) => Outcome::Task(snapshot.report),
            Err(what) => invalid(what),
        };
        match self.era() {
            Some(Era::Modern) => {
                //= C14.14 "CreateTaskResult in answer to a request that cannot become a task is an invalid result"
                // The tasks extension is negotiated like any other; requests that may become tasks declare it.
                let may = entry.info.is_some_and(|info| info.can_be_task)
                    && entry.task.mode != TaskMode::Never
                    && self.server_declares_tasks();
                let is = may && matches!(result_type(result.as_str()), Ok(ResultType::Task));
                //= C14.1 "be ready for CallToolResult or CreateTaskResult for any tools/call"
                is.then(|| of(TaskSnapshot::read(result)))
            }
            _ if entry.task.requested => TaskSnapshot::read_created(result).map(of),
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
        if let Some(Ok(snapshot)) = created {
            self.cancel_task(now, &snapshot.report.id, out);
        }
    }

    /// Abandons the task of a request that has become one, or is about to.
    pub(super) fn abandon_task(&mut self, now: Instant, number: i64, out: &mut dyn Outbox) {
        let Some(followed) = self.tasks.followed.get_mut(number) else { return };
        match followed.origin {
            //= C14.5 "Cancel by tasks/cancel, never notifications/cancelled"
            TaskOrigin::ByRequest => followed.follower.cancel(),
            TaskOrigin::Existing => followed.follower.stop_following(),
        }
        self.perform_task(now, number, out);
        self.drop_task(number, out);
    }

    /// Notes that a request for a task was cancelled before the task existed. `notifications/cancelled` must not be
    /// used for it: the task is cancelled once its identifier is known.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>
    pub(super) fn make_orphan(&mut self, number: i64) {
        self.forget_rounds(number);
        if let Some(entry) = self.outbound.get_mut(number) {
            entry.stored_params = None;
        }
        self.tasks.own_requests.insert(number, OwnRequest::Orphan);
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
        for number in self.tasks.followed.requests_of(&snapshot.report.id) {
            if let Some(followed) = self.tasks.followed.get_mut(number) {
                followed.follower.handle_notification(now, snapshot.clone());
                self.perform_task(now, number, out);
            }
        }
    }

    /// Handles the timeouts of tasks.
    pub(super) fn wake_tasks(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some(number) = self.tasks.followed.pop_due(now) {
            if let Some(followed) = self.tasks.followed.get_mut(number) {
                followed.follower.handle_timeout(now);
                self.perform_task(now, number, out);
            }
        }
    }

    /// Processes the outcomes of the machine's own requests.
    pub(super) fn advance_tasks(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some((part, outcome)) = self.tasks.completed.pop_front() {
            let (OwnRequest::Get(number) | OwnRequest::Result(number) | OwnRequest::Update(number)) = part
            else {
                if let (OwnRequest::Orphan, Outcome::Task(report)) = (part, outcome) {
                    self.cancel_task(now, &report.id, out);
                }
                continue;
            };
            let Some(followed) = self.tasks.followed.get_mut(number) else { continue };
            match part {
                OwnRequest::Get(_) => followed.follower.handle_get(now, outcome),
                OwnRequest::Update(_) => followed.follower.handle_update(now, outcome),
                _ => {
                    followed.result = None;
                    followed.follower.handle_result(now, outcome);
                }
            }
            self.perform_task(now, number, out);
        }
    }

    // --- Actions ---

    /// Performs the actions of a task's follower.
    fn perform_task(&mut self, now: Instant, number: i64, out: &mut dyn Outbox) {
        while let Some(followed) = self.tasks.followed.get_mut(number)
            && let Some(act) = followed.follower.poll_action()
        {
            let id = followed.follower.id().to_string();
            match act {
                FollowAction::Report(report) => {
                    let bytes = report.bytes();
                    let request = RequestId::new(number);
                    self.events.push_or_drop(Event::TaskStatus { request, report }, bytes);
                }
                FollowAction::Cancel => self.cancel_task(now, &id, out),
                FollowAction::Resolve(outcome) => {
                    self.drop_task(number, out);
                    self.take_outbound(number);
                    return self.resolve(number, outcome);
                }
                FollowAction::RequestInput(requests) => self.ask_application(number, requests),
                FollowAction::WithdrawInput => self.withdraw_task_input(number),
                act => {
                    if !self.send_task_request(now, number, &id, &act, out)
                        && let Some(followed) = self.tasks.followed.get_mut(number)
                    {
                        followed.follower.postpone(now, &act);
                        // The follower retries later.
                        break;
                    }
                }
            }
        }
        self.tasks.followed.schedule(number);
    }

    /// Asks the application for the input that a task needs.
    fn ask_application(&mut self, number: i64, requests: BTreeMap<String, Raw>) {
        let asked: Result<Vec<_>, _> =
            requests.into_iter().map(|(key, request)| RawInputRequest::read(key, &request)).collect();
        let set = match asked {
            Ok(asked) => self
                .request_input(InputOwner::Task(number), RequestId::new(number), RawInputRequests(asked))
                .map_err(Outcome::Input),
            Err(what) => Err(Outcome::Invalid(InvalidAnswerError::Malformed(what))),
        };
        let Some(followed) = self.tasks.followed.get_mut(number) else { return };
        match set {
            Ok(set) => followed.input_sets.push(set),
            Err(outcome) => followed.follower.handle_input(Err(outcome)),
        }
    }

    fn withdraw_task_input(&mut self, number: i64) {
        let Some(followed) = self.tasks.followed.get_mut(number) else { return };
        for set in core::mem::take(&mut followed.input_sets) {
            self.withdraw_input(set);
        }
    }

    /// Sends a follower's request about its task; returns whether it could be sent.
    fn send_task_request(
        &mut self,
        now: Instant,
        number: i64,
        id: &str,
        act: &FollowAction,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some(followed) = self.tasks.followed.get(number) else { return false };
        let era = followed.follower.era();
        let own = TaskIdParams::new(id);
        let (part, info, params): (_, &'static MethodInfo, Box<dyn AnyParams>) = match (act, era) {
            (FollowAction::Update(answers), _) => {
                let mut params = CustomParams::new();
                params.extra.insert("taskId", id);
                let answers = Json::encode(answers).unwrap_or_else(|_| Json::empty_object());
                params.extra.insert("inputResponses", answers);
                (OwnRequest::Update(number), UpdateTask::INFO, Box::new(params))
            }
            (FollowAction::Result(_), _) => {
                (OwnRequest::Result(number), legacy::TaskResult::INFO, Box::new(own))
            }
            (_, Era::Modern) => (OwnRequest::Get(number), GetTask::INFO, Box::new(own)),
            (_, Era::Legacy) => (OwnRequest::Get(number), legacy::GetTask::INFO, Box::new(own)),
        };
        if let FollowAction::Result(_) = act
            && let Some(before) = followed.result
        {
            // The server has held it back for too long.
            self.tasks.own_requests.remove(&before);
            if self.take_outbound(before).is_some() {
                out.cancel(before, None);
            }
        }
        let timeout = match act {
            FollowAction::Result(ResultWait::UntilEnd) => Duration::MAX,
            _ => self.config.request_timeout,
        };
        let question = self.own_request(now, info, &*params, timeout, out);
        if let Some(question) = question {
            self.tasks.own_requests.insert(question, part);
            if let (FollowAction::Result(_), Some(followed)) = (act, self.tasks.followed.get_mut(number)) {
                followed.result = Some(question);
            }
        }
        question.is_some()
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
            if let Some(number) = self.own_request(now, info, &TaskIdParams::new(id), timeout, out) {
                self.tasks.own_requests.insert(number, OwnRequest::Ignored);
            }
        }
    }

    /// Sends one of the machine's own requests, if one can be sent now.
    fn own_request(
        &mut self,
        now: Instant,
        info: &'static MethodInfo,
        params: &dyn AnyParams,
        timeout: Duration,
        out: &mut dyn Outbox,
    ) -> Option<i64> {
        let ready = matches!(self.connection.phase(), Phase::Ready | Phase::Finishing { .. });
        let exists = self.revision().is_some_and(|revision| info.exists_in(revision));
        if !ready || !exists || self.check_room(out).is_err() {
            return None;
        }
        let options = RequestOptions {
            timeout: Some(timeout),
            hard_timeout: Some(timeout),
            progress: ProgressOption::Never,
            task: Some(TaskMode::Await),
            ..RequestOptions::default()
        };
        let number = self.outbound.mint();
        let entry = self.entry(now, Some(info), &options);
        self.transmit(number, entry, info.name, &write_of(params), &options, out).ok().map(|()| number)
    }

    /// Stops following a task. A pending `tasks/result` is cancelled; answers to other requests are ignored as they
    /// arrive.
    fn drop_task(&mut self, number: i64, out: &mut dyn Outbox) {
        let Some(followed) = self.tasks.followed.remove(number) else { return };
        if let Some(result) = followed.result {
            self.tasks.own_requests.remove(&result);
            if self.take_outbound(result).is_some() {
                out.cancel(result, None);
            }
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

/// The entry of a request that follows an existing task.
fn follow_entry(now: Instant, options: &RequestOptions) -> OutboundEntry {
    let mut entry = OutboundEntry::new(None, now, Duration::MAX, Duration::MAX, false);
    let RequestOptions { hard_timeout: maximum, input, .. } = *options;
    entry.task = TaskOptions { mode: TaskMode::Await, requested: false, hard_timeout: maximum, input };
    entry.become_task();
    entry
}
