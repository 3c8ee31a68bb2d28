//! A follower of one of the server's tasks until its end: one state machine for tasks of both eras.
//!
//! | input | action |
//! |---|---|
//! | the task was created, or is followed again | poll it after its interval, or at once if more may be known |
//! | `working` | poll it again after its interval |
//! | `input_required` (2026-07-28) | ask the application for the inputs with new keys |
//! | `input_required` (2025-11-25) | request its result, which lets the server send its requests |
//! | answers of the application | send `tasks/update`, with a few retries if it is lost |
//! | an error of the application instead | cancel the task, and resolve the request with that error |
//! | an error to `tasks/update` | poll the task; if it still waits for input, resolve with that error |
//! | `completed`, `failed` | resolve: with the result or the error in it, or that of `tasks/result` (2025-11-25) |
//! | `cancelled` | resolve |
//! | a permanent error | resolve |
//! | any other failure to poll | poll again after a pause, up to a number of consecutive failures |
//!
//! Notifications are handled like answers to polls, and are never relied upon. Input after the end is ignored.
//!
//! <https://modelcontextprotocol.io/extensions/tasks>
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::client::input_requests::InputSetId;
use crate::peer::event_queue::MakeOwned;
use crate::peer::task::{TaskReport, TaskSnapshot};
use crate::peer::{InvalidAnswerError, Outcome, RequestId, RetryAdvice};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::TaskStatus;
use crate::schema::{Era, ResultType, result_type};

/// The minimum poll interval, whatever the server asks for: a task shorter than this needs no task.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum poll interval, whatever the server asks for: bounds the delay until the end is noticed.
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// The first pause where the server sets no interval; it doubles with each poll that finds no change.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
/// The longest pause where the server sets no interval.
const DEFAULT_MAX_INTERVAL: Duration = Duration::from_secs(5);
/// The number of consecutive failures after which the task is given up.
const MAX_FAILURES: u32 = 5;

/// An action for the client to perform.
#[derive(Debug)]
pub(super) enum FollowAction {
    /// Query the status of the task.
    Get,
    /// Request the result of the task (2025-11-25).
    Result(ResultWait),
    /// Send these answers to the task (2026-07-28).
    Update(OrderedMap<String, Raw>),
    /// Cancel the task.
    Cancel,
    /// Ask the application for these inputs.
    RequestInput(OrderedMap<String, Raw>),
    /// Withdraw the open input requests to the application.
    WithdrawInput,
    /// Report the status of the task to the application.
    Report(Box<TaskReport>),
    /// Resolve the request with this outcome.
    Resolve(Outcome),
}

/// The timeout of a request for the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultWait {
    /// The usual timeout of a request: the result exists.
    Short,
    /// Until the task ends: the server holds the answer back, and sends its own requests meanwhile.
    UntilEnd,
}

/// How a task's input requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskInputMode {
    /// The client asks the application, and sends its answers to the task.
    Automatic,
    /// The application answers by itself when it sees that the task waits for input.
    Manual,
}

/// Answers for a task's input requests.
#[derive(Debug)]
struct InputUpdate {
    answers: OrderedMap<String, Raw>,
    failures: u32,
}

/// The state machine that follows a task.
#[derive(Debug)]
pub(in crate::peer::client) struct Follower {
    era: Era,
    id: String,
    /// The last report to the application.
    last_report: Option<Box<TaskReport>>,
    /// The keys of all inputs that the task has asked for.
    keys: OrderedSet<String>,
    max_keys: usize,
    /// Whether input requests are passed on to the application.
    input_mode: TaskInputMode,
    /// The number of input requests that the application has not answered.
    open_inputs: usize,
    getting: bool,
    fetching: Option<ResultWait>,
    /// Whether to request the result while the task waits for input; `false` once the server has answered that with an
    /// error.
    fetches_early: bool,
    /// The answers in flight: one update at a time.
    updating: Option<InputUpdate>,
    /// The updates that wait for that, or for a retry.
    unsent: VecDeque<InputUpdate>,
    /// The server's error in response to the last update, if any.
    refused: Option<ErrorObject>,
    failures: u32,
    /// The number of consecutive polls without a change.
    unchanged_polls: u32,
    /// When to poll next, if no poll is in flight.
    due: Option<Instant>,
    is_over: bool,
    actions: VecDeque<FollowAction>,
}

impl Follower {
    /// Follows the task `id`, whose status is unknown; polls it at once.
    ///
    /// It may ask for `most_keys` inputs in all, if it may ask for input.
    pub(super) fn resumed(era: Era, id: String, asks: TaskInputMode, most_keys: usize) -> Self {
        let mut follower = Self::new(era, id, asks, most_keys);
        follower.get();
        follower
    }

    /// Follows a task that was just created.
    pub(super) fn created(
        now: Instant,
        era: Era,
        seed: Box<TaskReport>,
        asks: TaskInputMode,
        most_keys: usize,
    ) -> Self {
        let mut follower = Self::new(era, seed.id.clone(), asks, most_keys);
        let working = seed.status == TaskStatus::Working;
        follower.report(seed);
        // The created task contains only a status: everything else needs a poll.
        if working {
            follower.schedule_poll(now)
        } else {
            follower.get()
        }
        follower
    }

    fn new(era: Era, id: String, asks: TaskInputMode, most_keys: usize) -> Self {
        Self {
            era,
            id,
            last_report: None,
            keys: OrderedSet::new(),
            max_keys: most_keys,
            input_mode: asks,
            open_inputs: 0,
            getting: false,
            fetching: None,
            fetches_early: true,
            updating: None,
            unsent: VecDeque::new(),
            refused: None,
            failures: 0,
            unchanged_polls: 0,
            due: None,
            is_over: false,
            actions: VecDeque::new(),
        }
    }

    // --- Outputs ---

    pub(super) fn poll_action(&mut self) -> Option<FollowAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(in crate::peer::client) fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_over)
    }

    // --- Getters ---

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn era(&self) -> Era {
        self.era
    }

    // --- Inputs ---

    /// Handles the outcome of `FollowAction::Get`.
    pub(super) fn handle_get(&mut self, now: Instant, outcome: Outcome) {
        self.getting = false;
        if self.is_over {
            return;
        }
        match outcome {
            Outcome::Result(raw) => match self.read(&raw) {
                Ok(snapshot) => self.apply_snapshot(now, snapshot),
                Err(what) => self.fail(now, Outcome::Invalid(InvalidAnswerError::Malformed(what))),
            },
            outcome => self.fail(now, outcome),
        }
    }

    /// Handles a notification about the task.
    pub(super) fn handle_notification(&mut self, now: Instant, snapshot: TaskSnapshot) {
        if !self.is_over {
            self.apply_snapshot(now, snapshot);
        }
    }

    /// Handles the outcome of `FollowAction::Result`.
    pub(super) fn handle_result(&mut self, now: Instant, outcome: Outcome) {
        let Some(wait) = self.fetching.take() else { return };
        if self.is_over {
            return;
        }
        match outcome {
            Outcome::Result(_) => self.resolve(outcome),
            // Some servers do not hold the answer back. The meaning of the error is clear once the task is known to
            // have ended.
            Outcome::Error(_) if wait == ResultWait::UntilEnd && !self.has_ended() => {
                self.fetches_early = false;
                self.get();
            }
            Outcome::Error(_) => self.resolve(outcome),
            outcome => self.fail(now, outcome),
        }
    }

    /// Handles the application's answers to `FollowAction::RequestInput`, or its failure to give them.
    pub(super) fn handle_input(&mut self, answers: Result<OrderedMap<String, Raw>, Outcome>) {
        self.open_inputs = self.open_inputs.saturating_sub(1);
        if self.is_over {
            return;
        }
        match answers {
            Ok(answers) => {
                self.unsent.push_back(InputUpdate { answers, failures: 0 });
                self.send_update();
            }
            Err(outcome) => {
                self.actions.push_back(FollowAction::Cancel);
                self.resolve(outcome);
            }
        }
    }

    /// Handles the outcome of a `FollowAction::Update`, in their order.
    pub(super) fn handle_update(&mut self, now: Instant, outcome: Outcome) {
        let Some(mut update) = self.updating.take() else { return };
        if self.is_over {
            return;
        }
        match outcome {
            // The next poll will show a new status, soon.
            Outcome::Result(_) => {
                self.unchanged_polls = 0;
                if !self.getting {
                    self.schedule_poll(now);
                }
                self.send_update();
            }
            Outcome::Error(mut error) => {
                error.make_owned();
                self.refused = Some(error);
                self.get();
            }
            outcome => {
                update.failures = update.failures.saturating_add(1);
                if update.failures > MAX_FAILURES {
                    self.actions.push_back(FollowAction::Cancel);
                    self.resolve(outcome);
                } else {
                    self.unsent.push_front(update);
                    self.schedule_poll(now);
                }
            }
        }
    }

    /// Polls the task if that is due.
    pub(in crate::peer::client) fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        self.send_update();
        if self.era == Era::Legacy && self.has_ended() {
            self.fetch(ResultWait::Short);
        } else {
            self.get();
        }
    }

    /// Postpones an action that cannot be sent now. This does not count as a failure.
    pub(super) fn postpone(&mut self, now: Instant, act: &FollowAction) {
        match act {
            FollowAction::Get => self.getting = false,
            FollowAction::Result(_) => self.fetching = None,
            FollowAction::Update(_) => {
                if let Some(update) = self.updating.take() {
                    self.unsent.push_front(update);
                }
            }
            _ => {}
        }
        if !self.is_over {
            self.schedule_poll(now);
        }
    }

    /// Cancels the task and stops following it.
    pub(super) fn cancel(&mut self) {
        if !self.is_over {
            self.actions.push_back(FollowAction::Cancel);
            self.stop_following();
        }
    }

    /// Stops following the task, which continues on the server.
    pub(super) fn stop_following(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.actions.retain(|act| matches!(act, FollowAction::Cancel));
            if self.open_inputs > 0 {
                self.actions.push_back(FollowAction::WithdrawInput);
            }
        }
    }

    // --- Transitions ---

    fn read(&self, raw: &Raw) -> Result<TaskSnapshot, String> {
        let snapshot = TaskSnapshot::read(raw)?;
        if snapshot.report.id == self.id { Ok(snapshot) } else { Err("it is another task".to_string()) }
    }

    /// Applies a status of the task from an answer or a notification.
    fn apply_snapshot(&mut self, now: Instant, snapshot: TaskSnapshot) {
        let TaskSnapshot { report, requests, result, error } = snapshot;
        let status = report.status;
        let news = self.report(report);
        self.unchanged_polls = if news { 0 } else { self.unchanged_polls.saturating_add(1) };
        let refused = self.refused.take();
        match (self.era, status) {
            (_, TaskStatus::Working) => {}
            (Era::Modern, TaskStatus::InputRequired) => {
                if let Some(error) = refused {
                    self.actions.push_back(FollowAction::Cancel);
                    return self.resolve(Outcome::Error(error));
                }
                if !self.request_input(requests) {
                    return;
                }
            }
            (Era::Legacy, TaskStatus::InputRequired) if self.fetches_early => {
                self.fetch(ResultWait::UntilEnd)
            }
            (Era::Legacy, TaskStatus::InputRequired) => {}
            (_, TaskStatus::Cancelled) => {
                let message = self.last_report.as_ref().and_then(|report| report.message.clone());
                return self.resolve(Outcome::TaskCancelled { message });
            }
            (Era::Modern, TaskStatus::Completed) => match result {
                Some(result) if is_complete(&result) => return self.resolve(Outcome::Result(result)),
                Some(_) => {
                    return self.resolve(incomplete("the result of the task is not a complete result"));
                }
                None => return self.fail(now, incomplete("the task is completed and has no result")),
            },
            (Era::Modern, TaskStatus::Failed) => match error {
                Some(error) => return self.resolve(Outcome::Error(error)),
                None => return self.fail(now, incomplete("the task has failed and has no error")),
            },
            (Era::Legacy, TaskStatus::Completed | TaskStatus::Failed) => {
                self.failures = 0;
                return self.end_legacy(now);
            }
        }
        self.failures = 0;
        if !self.getting {
            self.schedule_poll(now);
        }
    }

    /// Handles the end of a task of 2025-11-25, whose result needs another request.
    fn end_legacy(&mut self, now: Instant) {
        match self.fetching {
            // The answer that was held back should arrive now; if it does not, the result is requested again.
            Some(ResultWait::UntilEnd) => self.due = Some(now + self.interval()),
            Some(ResultWait::Short) => {}
            None => {
                self.due = None;
                self.fetch(ResultWait::Short);
            }
        }
    }

    /// Passes on inputs with new keys to the application. Returns whether the task continues.
    ///
    /// Each key stands for one input request, permanently.
    fn request_input(&mut self, mut requests: OrderedMap<String, Raw>) -> bool {
        if self.input_mode == TaskInputMode::Manual {
            return true;
        }
        requests.retain(|key, _| !self.keys.contains(key));
        if requests.is_empty() {
            return true;
        }
        if self.keys.len().saturating_add(requests.len()) > self.max_keys {
            self.actions.push_back(FollowAction::Cancel);
            self.resolve(incomplete("the task asks for more than this side allows"));
            return false;
        }
        self.keys.extend(requests.keys().cloned());
        self.open_inputs = self.open_inputs.saturating_add(1);
        self.actions.push_back(FollowAction::RequestInput(requests));
        true
    }

    /// Reports the status of the task, if it has changed.
    fn report(&mut self, report: Box<TaskReport>) -> bool {
        let news = self.last_report.as_ref() != Some(&report);
        if news {
            self.last_report = Some(report.clone());
            self.actions.push_back(FollowAction::Report(report));
        }
        news
    }

    fn get(&mut self) {
        if !self.getting {
            self.getting = true;
            self.due = None;
            self.actions.push_back(FollowAction::Get);
        }
    }

    fn fetch(&mut self, wait: ResultWait) {
        if self.fetching.is_none_or(|before| before != wait) {
            self.fetching = Some(wait);
            //= C14.7 "poll tasks/get, tasks/result"
            self.actions.push_back(FollowAction::Result(wait));
        }
    }

    /// Sends the next update, unless one is in flight.
    fn send_update(&mut self) {
        if self.updating.is_none()
            && let Some(update) = self.unsent.pop_front()
        {
            self.actions.push_back(FollowAction::Update(update.answers.clone()));
            self.updating = Some(update);
        }
    }

    /// Whether the task is known to have ended, even if its result is not known yet.
    fn has_ended(&self) -> bool {
        self.last_report.as_ref().is_some_and(|report| report.status.is_terminal())
    }

    /// Handles a failed poll.
    fn fail(&mut self, now: Instant, outcome: Outcome) {
        // A retry cannot succeed for a task that does not exist, or on a server without tasks.
        let hopeless = match &outcome {
            Outcome::Error(error) => matches!(
                error.code,
                code::INVALID_PARAMS
                    | code::METHOD_NOT_FOUND
                    | code::INVALID_REQUEST
                    | code::MISSING_REQUIRED_CLIENT_CAPABILITY
            ),
            Outcome::Transport(error) => error.retry == RetryAdvice::Never,
            Outcome::Refused(_) | Outcome::Cancelled => true,
            _ => false,
        };
        self.failures = self.failures.saturating_add(1);
        if hopeless || self.failures > MAX_FAILURES {
            return self.resolve(outcome);
        }
        self.unchanged_polls = self.unchanged_polls.saturating_add(1);
        let wish = match &outcome {
            Outcome::Transport(error) => error.retry_after.unwrap_or_default().min(MAX_INTERVAL),
            _ => Duration::ZERO,
        };
        self.due = Some(now + self.interval().max(wish));
    }

    fn schedule_poll(&mut self, now: Instant) {
        if self.fetching != Some(ResultWait::Short) {
            self.due = Some(now + self.interval());
        }
    }

    /// The pause before the next poll.
    fn interval(&self) -> Duration {
        match self.last_report.as_ref().and_then(|report| report.poll_interval) {
            Some(wish) => wish.clamp(MIN_INTERVAL, MAX_INTERVAL),
            None => FIRST_INTERVAL.saturating_mul(1 << self.unchanged_polls.min(6)).min(DEFAULT_MAX_INTERVAL),
        }
    }

    fn resolve(&mut self, outcome: Outcome) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        self.due = None;
        // Nothing is sent for the sake of a request that is over, and nothing must wait behind it.
        self.actions.retain(|action| {
            matches!(action, FollowAction::Cancel | FollowAction::Report(_) | FollowAction::WithdrawInput)
        });
        if self.open_inputs > 0 {
            self.actions.push_back(FollowAction::WithdrawInput);
        }
        self.actions.push_back(FollowAction::Resolve(outcome));
    }
}

/// Whether the result is of the kind that ends a request.
fn is_complete(result: &Raw) -> bool {
    matches!(result_type(result.as_str()), Ok(ResultType::Complete))
}

/// The outcome for an inconsistent status report of the server.
fn incomplete(what: &str) -> Outcome {
    Outcome::Invalid(InvalidAnswerError::Malformed(what.to_string()))
}

/// How a request is related to the task that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOrigin {
    /// The request has become the task; cancelling the request cancels the task.
    ByRequest,
    /// The task existed before the request.
    Existing,
}

/// The task that a request follows.
#[derive(Debug)]
pub(in crate::peer::client) struct FollowedTask {
    pub(in crate::peer::client) follower: Follower,
    pub(super) origin: TaskOrigin,
    /// The `tasks/result` request in flight.
    pub(super) result: Option<RequestId>,
    /// The input sets that the application was asked for on behalf of the task.
    pub(in crate::peer::client) input_sets: Vec<InputSetId>,
}

impl FollowedTask {
    pub(super) fn new(follower: Follower, origin: TaskOrigin) -> Self {
        Self { follower, origin, result: None, input_sets: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
