//! A running task: the state that its handler, the client's requests and the runner share.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::task::Wake;

use super::record::{matching_answers, tool_error};
use super::{StoreError, StoredTaskState, TaskRecord};
use crate::front::Clock;
use crate::front::wakers::{TaskWaker, WaitPoint, Waiters, Wakers, lock, update, wait_until};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::InboundId;
use crate::peer::event_queue::{ProgressPacer, ProgressRate};
use crate::peer::server::{Cancellation, exceeds};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{InputRequest, InputRequests, InputResponses, Json, Number};
use crate::sync::Mutex;
use crate::{Instant, UnixTime};

/// The key of a task within its runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskKey(pub(super) u64);

impl TaskKey {
    /// The key of the runner's own work.
    pub(super) const HOUSEKEEPING: Self = Self(0);
}

/// A running task.
pub(crate) struct RunningTask {
    /// The record at its creation.
    pub(super) initial: TaskRecord,
    clock: Arc<dyn Clock>,
    /// Schedules the task to be polled by the runner.
    pub(super) waker: Arc<TaskWaker<TaskKey>>,
    state: Mutex<RunningState>,
}

#[derive(Default)]
pub(crate) struct RunningState {
    updated_at: Option<UnixTime>,
    message: Option<String>,
    /// The final state.
    end: Option<StoredTaskState>,
    inputs: OrderedMap<String, TaskInput>,
    /// All keys of input requests so far: none is reused.
    used_keys: OrderedSet<String>,
    progress: TaskProgress,
    /// Whether the store created the task, once that is known.
    created: Option<Result<(), StoreError>>,
    /// The pending `tasks/result` requests of the client (2025-11-25).
    result_waiters: OrderedSet<InboundId>,
    /// Whether the store had no room for the result.
    result_lost: bool,
    /// Whether the last change is still unknown to listeners (`unpublished`) and to the store (`unsaved`).
    unpublished: bool,
    unsaved: bool,
    /// The number of changes, and how many of them the store has saved; one that is not shared may also have failed to.
    changes: u64,
    saved_changes: u64,
    /// Why a shared store did not save the last changes, until it does.
    save_error: Option<StoreError>,
    waiters: Waiters,
}

struct TaskInput {
    request: InputRequest,
    answer: Option<Raw>,
}

impl RunningState {
    fn current_state(&self) -> StoredTaskState {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let mut open = self.inputs.iter().filter(|(_, ask)| ask.answer.is_none()).peekable();
        if open.peek().is_none() {
            return StoredTaskState::Working;
        }
        let mut requests = InputRequests::default();
        for (key, ask) in open {
            requests.insert(key.as_str(), ask.request.clone());
        }
        StoredTaskState::InputRequired(requests)
    }

    fn note_change(&mut self) {
        self.changes = self.changes.saturating_add(1);
        self.unpublished = true;
        self.unsaved = true;
    }

    /// The input request under this key, if it is not answered.
    fn open(&self, key: &str) -> Option<&InputRequest> {
        self.inputs.get(key).filter(|ask| ask.answer.is_none()).map(|ask| &ask.request)
    }

    /// Takes the answers to open input requests. `None` if there are none.
    fn answer(&mut self, answers: BTreeMap<String, Json>) -> Option<()> {
        let mut any = None;
        for (key, answer) in answers {
            if let Some(ask) = self.inputs.get_mut(&key).filter(|ask| ask.answer.is_none()) {
                ask.answer = Some(answer.into());
                any = Some(());
            }
        }
        any
    }
}

impl RunningTask {
    pub(super) fn new(seed: TaskRecord, clock: Arc<dyn Clock>, waker: Arc<TaskWaker<TaskKey>>) -> Self {
        Self { initial: seed, clock, waker, state: Mutex::default() }
    }

    // --- Getters ---

    pub(in crate::front) fn id(&self) -> &str {
        &self.initial.id
    }

    /// The current record, whose version is not maintained here but by the store.
    pub(super) fn record(&self) -> TaskRecord {
        self.snapshot(&lock(&self.state))
    }

    fn snapshot(&self, state: &RunningState) -> TaskRecord {
        TaskRecord {
            updated_at: state.updated_at.unwrap_or(self.initial.updated_at),
            message: state.message.clone(),
            state: state.current_state(),
            ..self.initial.clone()
        }
    }

    pub(in crate::front) fn has_ended(&self) -> bool {
        lock(&self.state).end.is_some()
    }

    // --- Changes ---

    /// Changes a task that has not ended; `act` returns `None` if it changed nothing.
    fn change<R>(&self, act: impl FnOnce(&mut RunningState) -> Option<R>) -> Option<R> {
        let now = self.clock.unix_time();
        let changed = self.visit(|state, wakers| {
            //= S11.11 "valid state machine"
            let changed = if state.end.is_none() { act(state) } else { None };
            if changed.is_some() {
                state.updated_at = Some(state.updated_at.unwrap_or(self.initial.updated_at).max(now));
                state.note_change();
                wakers.wake_all(&mut state.waiters);
            }
            changed
        });
        if changed.is_some() {
            self.waker.wake_by_ref();
        }
        changed
    }

    /// Sets the status message.
    pub(in crate::front) fn status(&self, message: String) {
        self.change(|state| {
            state.message = Some(message);
            Some(())
        });
    }

    /// Ends the task, unless it has ended already.
    pub(super) fn end(&self, end: StoredTaskState) {
        self.send_last_progress();
        let message = match &end {
            StoredTaskState::Failed(error) => Some(error.message.clone()),
            StoredTaskState::Completed(result) => tool_error(result),
            _ => None,
        };
        self.change(|state| {
            state.inputs.clear();
            state.message = message.or(state.message.take());
            state.end = Some(end);
            Some(())
        });
    }

    /// Ends the task as another instance did; its local state is discarded.
    pub(super) fn force_end(&self, end: StoredTaskState) {
        self.end(end.clone());
        lock(&self.state).end = Some(end);
    }

    /// Replaces the result, which the store cannot save, with an error.
    pub(super) fn fail_unsaved(&self, why: ErrorObject) {
        let mut state = lock(&self.state);
        state.result_lost = true;
        state.message = Some(why.message.clone());
        state.end = Some(StoredTaskState::Failed(why));
        state.note_change();
    }

    /// Why the task has ended: cancelled by its client, or with an answer. `None` while it runs.
    pub(in crate::front) fn cancellation(&self) -> Option<Cancellation> {
        Some(match lock(&self.state).end.as_ref()? {
            StoredTaskState::Cancelled => Cancellation::Client { reason: None },
            _ => Cancellation::Answered,
        })
    }

    pub(super) fn is_result_lost(&self) -> bool {
        lock(&self.state).result_lost
    }

    // --- For the runner ---

    /// Returns the record if listeners have not been notified of its last change.
    pub(super) fn take_unpublished(&self) -> Option<TaskRecord> {
        let mut state = lock(&self.state);
        core::mem::take(&mut state.unpublished).then(|| self.snapshot(&state))
    }

    /// Returns the number of changes to save, if any is unsaved, and marks them as saved.
    pub(super) fn take_unsaved(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        core::mem::take(&mut state.unsaved).then_some(state.changes)
    }

    pub(super) fn mark_unsaved(&self) {
        lock(&self.state).unsaved = true;
    }

    /// Records that the store has saved the first `changes` changes, or failed to if it is not shared.
    pub(super) fn set_saved(&self, changes: u64) {
        self.visit(|state, wakers| {
            state.save_error = None;
            state.saved_changes = state.saved_changes.max(changes);
            wakers.wake_all(&mut state.waiters);
        });
    }

    /// Records that a shared store did not save the last changes, which it gets later.
    pub(super) fn set_save_error(&self, error: StoreError) {
        self.visit(|state, wakers| {
            state.save_error = Some(error);
            wakers.wake_all(&mut state.waiters);
        });
    }

    /// Marks all changes as saved.
    pub(super) fn mark_saved(&self) {
        self.visit(|state, wakers| {
            state.unsaved = false;
            state.save_error = None;
            state.saved_changes = state.changes;
            wakers.wake_all(&mut state.waiters);
        });
    }

    /// Records whether the store created the task.
    pub(super) fn set_created(&self, created: Result<(), StoreError>) {
        self.visit(|state, wakers| {
            state.created.get_or_insert(created);
            wakers.wake_all(&mut state.waiters);
        });
    }

    // --- Waiting ---

    /// Waits until all current changes are saved, and returns the record. A final state is the one that the store has.
    ///
    /// # Errors
    /// If a shared store has not saved them: the other instances do not know them, and this one may end before they do.
    pub(super) async fn saved_record(&self) -> Result<TaskRecord, StoreError> {
        let (record, changes) = {
            let state = lock(&self.state);
            (self.snapshot(&state), state.changes)
        };
        wait_until(self, |state| {
            let is_saved = state.saved_changes >= changes;
            if is_saved { Some(Ok(())) } else { state.save_error.clone().map(Err) }
        })
        .await?;
        Ok(if record.state.is_terminal() { self.record() } else { record })
    }

    /// Waits until the store has created or rejected the task.
    pub(super) async fn wait_created(&self) -> Result<(), StoreError> {
        wait_until(self, |state| state.created.clone()).await
    }

    /// Waits until the task has ended.
    pub(in crate::front) async fn wait_ended(&self) {
        wait_until(self, |state| state.end.as_ref().map(drop)).await;
    }

    /// Waits for a `tasks/result` request of the client, and returns its id.
    pub(in crate::front) async fn next_result_request(&self) -> InboundId {
        wait_until(self, |state| state.result_waiters.last().copied()).await
    }

    /// Registers a `tasks/result` request of the client, for the lifetime of the returned value.
    pub(super) fn add_result_waiter(self: &Arc<Self>, request: InboundId) -> ResultWaiter {
        self.visit(|state, wakers| {
            state.result_waiters.insert(request);
            wakers.wake_all(&mut state.waiters);
        });
        ResultWaiter { task: self.clone(), request }
    }

    // --- Input ---

    /// Opens an input request, under a new key like `key`.
    pub(in crate::front) fn open_input(
        self: &Arc<Self>,
        key: &str,
        request: InputRequest,
    ) -> Option<OpenInput> {
        let key = self.change(|state| {
            let mut unique = key.to_string();
            let mut next: u64 = 1;
            //= S11.8 "inputRequests keys unique for the task's life"
            while !state.used_keys.insert(unique.clone()) {
                next = next.saturating_add(1);
                unique = format!("{key}-{next}");
            }
            state.inputs.insert(unique.clone(), TaskInput { request, answer: None });
            Some(unique)
        })?;
        Some(OpenInput { task: self.clone(), key })
    }

    /// Takes the answers to open input requests. Others are ignored.
    ///
    /// # Errors
    /// The error for a response that does not match its request; then no answer is taken.
    pub(super) fn take_answers(&self, responses: &InputResponses) -> Result<(), ErrorObject> {
        let mut refused = None;
        self.change(|state| match matching_answers(responses, |key| state.open(key)) {
            Ok(answers) => state.answer(answers),
            Err(error) => {
                refused = Some(error);
                None
            }
        });
        refused.map_or(Ok(()), Err)
    }

    /// Merges the changes of other instances from the stored record.
    pub(super) fn merge(&self, kept: TaskRecord) {
        if kept.state.is_terminal() {
            return self.end(kept.state);
        }
        self.change(|state| state.answer(kept.answers));
    }
}

/// An open input request of a handler, which is withdrawn when dropped.
pub(in crate::front) struct OpenInput {
    task: Arc<RunningTask>,
    key: String,
}

impl OpenInput {
    /// Waits for the answer; `None` if the task ends without one.
    pub(in crate::front) async fn answer(&self) -> Option<Raw> {
        let key = self.key.as_str();
        wait_until(&*self.task, |state| match state.inputs.get(key) {
            Some(ask) => ask.answer.clone().map(Some),
            None => Some(None),
        })
        .await
    }
}

impl Drop for OpenInput {
    fn drop(&mut self) {
        self.task.change(|state| {
            // The client sees a change only if the request was unanswered.
            let ask = state.inputs.remove(&self.key)?;
            ask.answer.is_none().then_some(())
        });
    }
}

/// A `tasks/result` request of the client that is waiting.
pub(super) struct ResultWaiter {
    task: Arc<RunningTask>,
    request: InboundId,
}

impl Drop for ResultWaiter {
    fn drop(&mut self) {
        lock(&self.task.state).result_waiters.remove(&self.request);
    }
}

impl WaitPoint for RunningTask {
    type State = RunningState;

    fn visit<R>(&self, act: impl FnOnce(&mut RunningState, &mut Wakers) -> R) -> R {
        update(&self.state, act)
    }

    fn waiters<'s>(&self, state: &'s mut RunningState) -> Option<&'s mut Waiters> {
        Some(&mut state.waiters)
    }
}

/// Encodes the result of a tool's handler, at the revision of the call.
pub(super) fn encode_result(
    result: &dyn crate::peer::AnyResult,
    revision: crate::schema::Revision,
) -> Result<Json, serde_json::Error> {
    let mut text = alloc::vec::Vec::new();
    result.write_result(&mut text, revision, None)?;
    serde_json::from_slice(&text)
}

/// Sends a progress report.
type SendReport = Box<dyn FnOnce() + Send>;

/// The progress of one task.
#[derive(Default)]
struct TaskProgress {
    /// The last value sent or waiting to be sent.
    last: Option<Number>,
    /// Paces the reports, once there are any.
    pacer: Option<ProgressPacer<(), SendReport>>,
}

impl RunningTask {
    pub(in crate::front) fn report_progress(&self, progress: &Number, per_second: u32, send: SendReport) {
        let now = self.clock.now();
        let due = {
            let mut state = lock(&self.state);
            let has_ended = state.end.is_some();
            let TaskProgress { last, pacer } = &mut state.progress;
            if has_ended || last.as_ref().is_some_and(|last| !exceeds(progress, last)) {
                return;
            }
            *last = Some(progress.clone());
            //= S6.2 "rate limit"
            let pacer = pacer.get_or_insert_with(|| ProgressPacer::new(ProgressRate::spaced(per_second)));
            pacer.offer(now, (), send, 0)
        };
        match due {
            Some(send) => send(),
            // The runner's timer may have to fire earlier now.
            None => self.waker.wake_by_ref(),
        }
    }

    /// Sends the waiting report, if its time has come.
    pub(super) fn send_due_progress(&self, now: Instant) {
        let due = lock(&self.state).progress.pacer.as_mut().and_then(|pacer| pacer.pop_due(now));
        if let Some(((), send, _)) = due {
            send();
        }
    }

    /// Sends the waiting report before the task ends.
    fn send_last_progress(&self) {
        let last = lock(&self.state).progress.pacer.as_mut().and_then(|pacer| pacer.remove(())?.last);
        if let Some((send, _)) = last {
            send();
        }
    }

    /// When the waiting report is sent.
    pub(super) fn progress_due(&self) -> Option<Instant> {
        lock(&self.state).progress.pacer.as_ref()?.deadline()
    }
}
