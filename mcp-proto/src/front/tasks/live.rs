//! A task that runs: what its handler, the client's requests and the runner share.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::Mutex;

use super::answers::fitting;
use super::home::TaskKey;
use super::methods::related;
use super::wire::tool_error;
use super::{Standing, StoreError, TaskRecord};
use crate::UnixTime;
use crate::front::Clock;
use crate::front::signal::{TaskWaker, Waiters, Wakers, lock};
use crate::peer::server::exceeds;
use crate::peer::{InboundId, Principal};
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{InputRequest, InputRequests, InputResponses, Json, Meta, Number, meta};

/// A task that runs.
pub(crate) struct Live {
    /// As it began.
    seed: TaskRecord,
    clock: Arc<dyn Clock>,
    /// Has the runner look at it.
    waker: Arc<TaskWaker<TaskKey>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    updated_at: Option<UnixTime>,
    message: Option<String>,
    /// What the task has come to: it stays so.
    end: Option<Standing>,
    asks: BTreeMap<String, Ask>,
    /// The keys that were ever used: none is used again.
    used: BTreeSet<String>,
    /// The last progress that was reported.
    progress: Option<Number>,
    /// Whether the store has the task, once that is known.
    created: Option<Result<(), StoreError>>,
    /// The requests of the client that wait for the result (2025-11-25).
    awaiting: BTreeSet<InboundId>,
    /// Whether the store had no room for what it has come to.
    spoilt: bool,
    /// Whether those who listen have not been told of the last change, and whether the store has not.
    untold: bool,
    unsaved: bool,
    /// How many changes there were, and how many of them the store has been told, or has failed to take.
    changes: u64,
    kept: u64,
    waiters: Waiters,
}

struct Ask {
    request: InputRequest,
    answer: Option<Raw>,
}

impl State {
    fn standing(&self) -> Standing {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let mut open = self.asks.iter().filter(|(_, ask)| ask.answer.is_none()).peekable();
        if open.peek().is_none() {
            return Standing::Working;
        }
        let mut requests = InputRequests::default();
        for (key, ask) in open {
            requests.insert(key.as_str(), ask.request.clone());
        }
        Standing::InputRequired(requests)
    }

    fn note_change(&mut self) {
        self.changes = self.changes.saturating_add(1);
        self.untold = true;
        self.unsaved = true;
    }

    /// What is asked for under this key and was not answered.
    fn open(&self, key: &str) -> Option<&InputRequest> {
        self.asks.get(key).filter(|ask| ask.answer.is_none()).map(|ask| &ask.request)
    }

    /// Takes answers to what is open. `None` if there are none.
    fn answer(&mut self, answers: BTreeMap<String, Json>) -> Option<()> {
        let mut any = None;
        for (key, answer) in answers {
            if let Some(ask) = self.asks.get_mut(&key).filter(|ask| ask.answer.is_none()) {
                ask.answer = Some(answer.into());
                any = Some(());
            }
        }
        any
    }
}

impl Live {
    pub(super) fn new(seed: TaskRecord, clock: Arc<dyn Clock>, waker: Arc<TaskWaker<TaskKey>>) -> Self {
        Self { seed, clock, waker, state: Mutex::default() }
    }

    // --- What it is ---

    pub(super) fn id(&self) -> &str {
        &self.seed.id
    }

    pub(super) fn owner(&self) -> Option<&Principal> {
        self.seed.owner.as_ref()
    }

    /// Whose quota it uses.
    pub(super) fn quota_owner(&self) -> &QuotaOwner {
        &self.seed.quota_owner
    }

    /// As it began.
    pub(super) fn seed(&self) -> &TaskRecord {
        &self.seed
    }

    pub(super) fn ttl(&self) -> Option<Duration> {
        self.seed.ttl
    }

    /// What marks messages as those of the task (2025-11-25).
    pub(in crate::front) fn related(&self) -> Meta {
        [(meta::RELATED_TASK, related(self.id()))].into_iter().collect()
    }

    pub(super) fn waker(&self) -> &Arc<TaskWaker<TaskKey>> {
        &self.waker
    }

    /// As it is now; its version is the store's concern.
    pub(super) fn record(&self) -> TaskRecord {
        self.shown(&lock(&self.state))
    }

    fn shown(&self, state: &State) -> TaskRecord {
        TaskRecord {
            updated_at: state.updated_at.unwrap_or(self.seed.updated_at),
            message: state.message.clone(),
            standing: state.standing(),
            ..self.seed.clone()
        }
    }

    pub(in crate::front) fn is_over(&self) -> bool {
        lock(&self.state).end.is_some()
    }

    // --- Changes ---

    /// Changes a task that has not ended; `act` says whether there was anything to change.
    fn change<R>(&self, act: impl FnOnce(&mut State) -> Option<R>) -> Option<R> {
        let now = self.clock.unix_time();
        let mut wakers = Wakers::default();
        let changed = {
            let mut state = lock(&self.state);
            let changed = if state.end.is_none() { act(&mut state) } else { None };
            if changed.is_some() {
                state.updated_at = Some(state.updated_at.unwrap_or(self.seed.updated_at).max(now));
                state.note_change();
                wakers.wake_all(&mut state.waiters);
            }
            changed
        };
        wakers.release();
        if changed.is_some() {
            self.waker.wake_by_ref();
        }
        changed
    }

    /// Says how it is doing, in words.
    pub(in crate::front) fn status(&self, message: String) {
        self.change(|state| {
            state.message = Some(message);
            Some(())
        });
    }

    /// Ends it. One that has ended stays as it is.
    pub(super) fn end(&self, end: Standing) {
        let message = match &end {
            Standing::Failed(error) => Some(error.message.clone()),
            Standing::Completed(result) => tool_error(result),
            _ => None,
        };
        self.change(|state| {
            state.asks.clear();
            state.message = message.or(state.message.take());
            state.end = Some(end);
            Some(())
        });
    }

    /// Others have ended it; what was here is not what counts.
    pub(super) fn overrule(&self, end: Standing) {
        self.end(end.clone());
        lock(&self.state).end = Some(end);
    }

    /// Its result can not be kept.
    pub(super) fn spoil(&self, why: ErrorObject) {
        let mut state = lock(&self.state);
        state.spoilt = true;
        state.message = Some(why.message.clone());
        state.end = Some(Standing::Failed(why));
        state.note_change();
    }

    /// Whether a report of progress is further than the last.
    pub(in crate::front) fn advances(&self, progress: &Number) -> bool {
        let mut state = lock(&self.state);
        let further = state.progress.as_ref().is_none_or(|last| exceeds(progress, last));
        if further && state.end.is_none() {
            state.progress = Some(progress.clone());
        }
        further && state.end.is_none()
    }

    pub(super) fn is_spoilt(&self) -> bool {
        lock(&self.state).spoilt
    }

    // --- For the runner ---

    /// What those who listen have not been told.
    pub(super) fn take_untold(&self) -> Option<TaskRecord> {
        let mut state = lock(&self.state);
        core::mem::take(&mut state.untold).then(|| self.shown(&state))
    }

    /// After how many changes there is something that the store does not know, if there is; it is told then.
    pub(super) fn take_unsaved(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        core::mem::take(&mut state.unsaved).then_some(state.changes)
    }

    pub(super) fn mark_unsaved(&self) {
        lock(&self.state).unsaved = true;
    }

    /// The store has been told of so many changes, or has failed to take them.
    pub(super) fn set_kept(&self, changes: u64) {
        let mut wakers = Wakers::default();
        {
            let mut state = lock(&self.state);
            state.kept = state.kept.max(changes);
            wakers.wake_all(&mut state.waiters);
        }
        wakers.release();
    }

    /// There is nothing that the store would have to be told.
    pub(super) fn settle(&self) {
        let changes = {
            let mut state = lock(&self.state);
            state.unsaved = false;
            state.changes
        };
        self.set_kept(changes);
    }

    /// Whether the store has it.
    pub(super) fn set_created(&self, created: Result<(), StoreError>) {
        let mut wakers = Wakers::default();
        {
            let mut state = lock(&self.state);
            state.created.get_or_insert(created);
            wakers.wake_all(&mut state.waiters);
        }
        wakers.release();
    }

    // --- Waiting ---

    /// As it is now, once the store has been told. If it has ended by then, what it has come to is that of the store.
    pub(super) async fn kept(&self) -> TaskRecord {
        let (record, changes) = {
            let state = lock(&self.state);
            (self.shown(&state), state.changes)
        };
        self.until(|state| (state.kept >= changes).then_some(())).await;
        if record.standing.is_terminal() { self.record() } else { record }
    }

    /// Waits until the store has it, or has refused it.
    pub(super) async fn created(&self) -> Result<(), StoreError> {
        self.until(|state| state.created.clone()).await
    }

    /// Waits until it has ended.
    pub(in crate::front) async fn over(&self) {
        self.until(|state| state.end.as_ref().map(drop)).await;
    }

    /// Waits until a request of the client waits for the result; says which.
    pub(super) async fn awaited(&self) -> InboundId {
        self.until(|state| state.awaiting.last().copied()).await
    }

    /// A request of the client waits for the result, as long as what is returned exists.
    pub(super) fn await_by(self: &Arc<Self>, request: InboundId) -> Awaiting {
        let mut wakers = Wakers::default();
        {
            let mut state = lock(&self.state);
            state.awaiting.insert(request);
            wakers.wake_all(&mut state.waiters);
        }
        wakers.release();
        Awaiting { live: self.clone(), request }
    }

    async fn until<R>(&self, mut found: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut waiting = Waiting { live: self, key: None };
        poll_fn(|cx| waiting.poll(cx.waker(), &mut found)).await
    }

    // --- Input ---

    /// Asks for something, under a key like `key` that was never used before.
    pub(super) fn ask(self: &Arc<Self>, key: &str, request: InputRequest) -> Option<Open> {
        let key = self.change(|state| {
            let mut unique = key.to_string();
            let mut next: u64 = 1;
            while !state.used.insert(unique.clone()) {
                next = next.saturating_add(1);
                unique = format!("{key}-{next}");
            }
            state.asks.insert(unique.clone(), Ask { request, answer: None });
            Some(unique)
        })?;
        Some(Open { live: self.clone(), key })
    }

    /// Takes answers to what is asked for. Others mean nothing.
    ///
    /// # Errors
    /// What to answer if one does not fit what was asked; then none is taken.
    pub(super) fn take_answers(&self, responses: &InputResponses) -> Result<(), ErrorObject> {
        let mut refused = None;
        self.change(|state| match fitting(responses, |key| state.open(key)) {
            Ok(answers) => state.answer(answers),
            Err(error) => {
                refused = Some(error);
                None
            }
        });
        refused.map_or(Ok(()), Err)
    }

    /// Learns what other instances have made of it, as the store has it.
    pub(super) fn learn(&self, kept: TaskRecord) {
        if kept.standing.is_terminal() {
            return self.end(kept.standing);
        }
        self.change(|state| state.answer(kept.answers));
    }
}

/// What a handler has asked for, as long as it waits for that.
pub(super) struct Open {
    live: Arc<Live>,
    key: String,
}

impl Open {
    /// Waits for the answer; `None` if the task ends without one.
    pub(super) async fn answer(&self) -> Option<Raw> {
        let key = self.key.as_str();
        self.live
            .until(|state| match state.asks.get(key) {
                Some(ask) => ask.answer.clone().map(Some),
                None => Some(None),
            })
            .await
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.live.change(|state| {
            // Whether it was answered is seen by the client only if it was not.
            let ask = state.asks.remove(&self.key)?;
            ask.answer.is_none().then_some(())
        });
    }
}

/// A request of the client that waits for the result of a task.
pub(super) struct Awaiting {
    live: Arc<Live>,
    request: InboundId,
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        lock(&self.live.state).awaiting.remove(&self.request);
    }
}

/// Somebody who waits for a change.
struct Waiting<'a> {
    live: &'a Live,
    key: Option<u64>,
}

impl Waiting<'_> {
    fn poll<R>(&mut self, waker: &Waker, found: &mut impl FnMut(&mut State) -> Option<R>) -> Poll<R> {
        let left = waker.clone();
        let mut wakers = Wakers::default();
        let polled = {
            let mut state = lock(&self.live.state);
            match found(&mut state) {
                Some(found) => {
                    wakers.spend(Some(left));
                    Poll::Ready(found)
                }
                None => {
                    state.waiters.wait(&mut self.key, left, &mut wakers);
                    Poll::Pending
                }
            }
        };
        wakers.release();
        polled
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut wakers = Wakers::default();
        lock(&self.live.state).waiters.leave(self.key, &mut wakers);
        wakers.release();
    }
}

/// The result of a tool's handler, at the revision of the call.
pub(super) fn encoded(
    result: &dyn crate::peer::AnyResult,
    revision: crate::schema::Revision,
) -> Result<Json, serde_json::Error> {
    let mut text = alloc::vec::Vec::new();
    result.write_result(&mut text, revision, None)?;
    serde_json::from_slice(&text)
}
