//! One task of the server, followed until it ends: the one algorithm for both kinds of tasks, as a machine of its own.
//!
//! | what comes | what follows |
//! |---|---|
//! | the task was created, or is taken up again | it is asked for after its interval, or at once if there may be more to know |
//! | `working` | it is asked for again after its interval |
//! | `input_required` (2026-07-28) | what is asked for under keys never seen before is asked of the application |
//! | `input_required` (2025-11-25) | its result is asked for, which is how the server gets to ask |
//! | answers of the application | `tasks/update`, a few times if it does not get through |
//! | an error of the application instead | the task is given up, and the request ends with that error |
//! | an error to `tasks/update` | the task is asked for; if it still waits for input, that error is its end |
//! | `completed`, `failed` | its end: the result or the error in it, or what `tasks/result` brings (2025-11-25) |
//! | `cancelled` | its end |
//! | an error that asking again does not change | its end |
//! | any other failure to ask | once more after a pause, a few times in a row |
//!
//! Notifications tell the same as answers do, and are never relied upon. What comes after the end changes nothing.
//!
//! <https://modelcontextprotocol.io/extensions/tasks>
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use core::time::Duration;

use crate::Instant;
use crate::peer::event_queue::MakeOwned;
use crate::peer::task::{TaskReport, TaskSnapshot};
use crate::peer::{InvalidAnswerError, Outcome, RetryAdvice};
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::TaskStatus;
use crate::schema::{Era, ResultType, result_type};

/// The shortest time between two questions, whatever the server wishes: a task that takes less needs no task.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// The longest, whatever the server wishes: its end should not be known much later than it comes.
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// The first pause where the server has no wish; each that follows without news is twice as long.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
/// The longest pause where the server has no wish.
const DEFAULT_MAX_INTERVAL: Duration = Duration::from_secs(5);
/// How often in a row a question may fail.
const MAX_FAILURES: u32 = 5;

/// What is to be done.
#[derive(Debug)]
pub(super) enum FollowAction {
    /// Ask how the task is doing.
    Get,
    /// Ask what the task has come to (2025-11-25).
    Result(ResultWait),
    /// Hand these answers over (2026-07-28).
    Update(BTreeMap<String, Raw>),
    /// Say that the task is not wanted any more.
    Cancel,
    /// Get answers to these requests from the application.
    RequestInput(BTreeMap<String, Raw>),
    /// No answer is wanted any more.
    WithdrawInput,
    /// Tell the application how the task is doing.
    Report(Box<TaskReport>),
    /// The task has come to this.
    Resolve(Outcome),
}

/// How long a result may be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultWait {
    /// As for any answer: it is there.
    Short,
    /// Until the task ends: the server holds the answer back, and asks meanwhile.
    UntilEnd,
}

/// Who sees to what a task asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskInputMode {
    /// The application is asked, and its answers are handed over.
    Automatic,
    /// The application, by itself: it sees that the task waits.
    Manual,
}

/// Answers for a task.
#[derive(Debug)]
struct InputUpdate {
    answers: BTreeMap<String, Raw>,
    failures: u32,
}

/// A task that is being followed.
#[derive(Debug)]
pub(super) struct Follower {
    era: Era,
    id: String,
    /// What was told last.
    last_report: Option<Box<TaskReport>>,
    /// Everything that the task has asked for.
    keys: BTreeSet<String>,
    max_keys: usize,
    /// Whether what the task asks for is passed on.
    input_mode: TaskInputMode,
    /// How many questions to the application are open.
    open_inputs: usize,
    getting: bool,
    fetching: Option<ResultWait>,
    /// Whether the server answers `tasks/result` only at the end, and with an error before.
    fetches_early: bool,
    /// The answers on their way: one lot at a time.
    updating: Option<InputUpdate>,
    /// Those that wait for that, or to be sent once more.
    unsent: VecDeque<InputUpdate>,
    /// What the server said to the last answers, if it was an error.
    refused: Option<ErrorObject>,
    failures: u32,
    /// How many questions in a row brought nothing new.
    unchanged_polls: u32,
    /// When to ask next, if no question is on its way.
    due: Option<Instant>,
    is_over: bool,
    actions: VecDeque<FollowAction>,
}

impl Follower {
    /// Follows the task `id`, of which nothing else is known; it is asked for at once.
    ///
    /// It may ask for `most_keys` things in all, if it may ask at all.
    pub(super) fn resumed(era: Era, id: String, asks: TaskInputMode, most_keys: usize) -> Self {
        let mut follower = Self::new(era, id, asks, most_keys);
        follower.get();
        follower
    }

    /// Follows a task that has just been created.
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
        // A seed says no more than a status: the rest has to be asked for.
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
            keys: BTreeSet::new(),
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
    pub(super) fn deadline(&self) -> Option<Instant> {
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

    /// The answer to `Act::Get`.
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

    /// A notification about the task.
    pub(super) fn handle_notification(&mut self, now: Instant, snapshot: TaskSnapshot) {
        if !self.is_over {
            self.apply_snapshot(now, snapshot);
        }
    }

    /// The answer to `Act::Result`.
    pub(super) fn handle_result(&mut self, now: Instant, outcome: Outcome) {
        let Some(wait) = self.fetching.take() else { return };
        if self.is_over {
            return;
        }
        match outcome {
            Outcome::Result(_) => self.resolve(outcome),
            // Some servers do not hold it back. What the error means shows once the task is known to have ended.
            Outcome::Error(_) if wait == ResultWait::UntilEnd && !self.has_ended() => {
                self.fetches_early = false;
                self.get();
            }
            Outcome::Error(_) => self.resolve(outcome),
            outcome => self.fail(now, outcome),
        }
    }

    /// The application has answered an `Act::Ask`, or has said why it does not.
    pub(super) fn handle_input(&mut self, answers: Result<BTreeMap<String, Raw>, Outcome>) {
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

    /// The answer to an `FollowAction::Update`, in their order.
    pub(super) fn handle_update(&mut self, now: Instant, outcome: Outcome) {
        let Some(mut update) = self.updating.take() else { return };
        if self.is_over {
            return;
        }
        match outcome {
            // The news is in the task's status, soon.
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

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
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

    /// Nothing can be sent now. It is tried again later, and does not count as a failure.
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

    /// Nobody wants the task any more.
    pub(super) fn cancel(&mut self) {
        if !self.is_over {
            self.actions.push_back(FollowAction::Cancel);
            self.stop_following();
        }
    }

    /// Nobody follows the task any more; it goes on.
    pub(super) fn stop_following(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.actions.retain(|act| matches!(act, FollowAction::Cancel));
            if self.open_inputs > 0 {
                self.actions.push_back(FollowAction::WithdrawInput);
            }
        }
    }

    // --- What follows ---

    fn read(&self, raw: &Raw) -> Result<TaskSnapshot, String> {
        let snapshot = TaskSnapshot::read(raw)?;
        if snapshot.report.id == self.id { Ok(snapshot) } else { Err("it is another task".to_string()) }
    }

    /// How the task is doing has become known.
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
                Some(_) => return self.resolve(incomplete("the result of the task is none")),
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

    /// A task of 2025-11-25 has ended: what it has come to is another question.
    fn end_legacy(&mut self, now: Instant) {
        match self.fetching {
            // The answer that was held back should come now; if it does not, it is asked for anew.
            Some(ResultWait::UntilEnd) => self.due = Some(now + self.interval()),
            Some(ResultWait::Short) => {}
            None => {
                self.due = None;
                self.fetch(ResultWait::Short);
            }
        }
    }

    /// Passes on what was not asked for before. Returns whether the task goes on.
    ///
    /// Each key stands for one request, for good.
    fn request_input(&mut self, mut requests: BTreeMap<String, Raw>) -> bool {
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

    /// Tells how the task is doing, if that is news.
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
            self.actions.push_back(FollowAction::Result(wait));
        }
    }

    /// Hands answers over, unless others are on their way.
    fn send_update(&mut self) {
        if self.updating.is_none()
            && let Some(update) = self.unsent.pop_front()
        {
            self.actions.push_back(FollowAction::Update(update.answers.clone()));
            self.updating = Some(update);
        }
    }

    /// Whether the task is known to have ended, be it without what it has come to.
    fn has_ended(&self) -> bool {
        self.last_report.as_ref().is_some_and(|report| report.status.is_terminal())
    }

    /// A question has failed.
    fn fail(&mut self, now: Instant, outcome: Outcome) {
        // Asking again changes nothing about a task that is not there, or about a server that has none.
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

    /// How long to leave the server alone.
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
        if self.open_inputs > 0 {
            self.actions.push_back(FollowAction::WithdrawInput);
        }
        self.actions.push_back(FollowAction::Resolve(outcome));
    }
}

/// Whether it is a result of the kind that ends a request.
fn is_complete(result: &Raw) -> bool {
    matches!(result_type(result.as_str()), Ok(ResultType::Complete))
}

/// What the server says of the task can not be.
fn incomplete(what: &str) -> Outcome {
    Outcome::Invalid(InvalidAnswerError::Malformed(what.to_string()))
}

#[cfg(test)]
mod tests;
