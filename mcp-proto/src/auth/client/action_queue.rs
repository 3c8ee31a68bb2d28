//! Actions queued for the driver, and the answers that they await.

use alloc::collections::VecDeque;

use crate::auth::{Fetch, FetchId};

use super::event::{Action, AssertionRequest, RecordVersion};
use super::record::Record;

/// The queue of actions. The store and the host each answer one question at a time.
#[derive(Default)]
pub(super) struct ActionQueue {
    queue: VecDeque<Action>,
    store: Option<PendingAnswer>,
    host: Option<PendingAnswer>,
}

/// An answer that the store or the host owes.
struct PendingAnswer {
    question: Question,
    /// Whether the driver has polled the question. Before that, no answer is accepted.
    polled: bool,
}

#[derive(PartialEq, Eq)]
enum Question {
    Load,
    Store,
    Assertion,
}

impl PendingAnswer {
    fn new(question: Question) -> Option<Self> {
        Some(Self { question, polled: false })
    }

    /// Accepts the answer to `question`. Returns whether one was pending.
    fn accept(slot: &mut Option<Self>, question: Question) -> bool {
        slot.take_if(|pending| pending.polled && pending.question == question).is_some()
    }
}

impl ActionQueue {
    pub(super) fn pop(&mut self) -> Option<Action> {
        let action = self.queue.pop_front()?;
        let pending = match action {
            Action::Load | Action::Store { .. } => &mut self.store,
            Action::Assertion(_) => &mut self.host,
            _ => &mut None,
        };
        if let Some(pending) = pending {
            pending.polled = true;
        }
        Some(action)
    }

    pub(super) fn fetch(&mut self, fetch: Fetch) {
        self.queue.push_back(Action::Fetch(fetch));
    }

    /// Aborts a fetch, or removes it if the driver has not polled it yet.
    pub(super) fn abort(&mut self, id: FetchId) {
        let before = self.queue.len();
        self.queue.retain(|action| !matches!(action, Action::Fetch(queued) if queued.id == id));
        if self.queue.len() == before {
            self.queue.push_back(Action::Abort(id));
        }
    }

    pub(super) fn load(&mut self) {
        self.store = PendingAnswer::new(Question::Load);
        self.queue.push_back(Action::Load);
    }

    pub(super) fn store(&mut self, record: Option<Record>, expected: Option<RecordVersion>) {
        self.store = PendingAnswer::new(Question::Store);
        self.queue.push_back(Action::Store { record, expected });
    }

    pub(super) fn request_assertion(&mut self, request: AssertionRequest) {
        self.host = PendingAnswer::new(Question::Assertion);
        self.queue.push_back(Action::Assertion(request));
    }

    pub(super) fn is_store_busy(&self) -> bool {
        self.store.is_some()
    }

    pub(super) fn is_host_busy(&self) -> bool {
        self.host.is_some()
    }

    pub(super) fn accept_loaded(&mut self) -> bool {
        PendingAnswer::accept(&mut self.store, Question::Load)
    }

    pub(super) fn accept_stored(&mut self) -> bool {
        PendingAnswer::accept(&mut self.store, Question::Store)
    }

    pub(super) fn accept_assertion(&mut self) -> bool {
        PendingAnswer::accept(&mut self.host, Question::Assertion)
    }
}
