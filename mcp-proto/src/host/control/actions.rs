//! The actions that the driver has not polled yet, in order, each of which can be withdrawn.

use alloc::collections::BTreeMap;

use super::Action;

/// Names an action that was not polled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActionId(u64);

#[derive(Debug, Default)]
pub(super) struct Actions {
    next: u64,
    queue: BTreeMap<ActionId, Action>,
}

impl Actions {
    pub(super) fn push(&mut self, action: Action) -> ActionId {
        let id = ActionId(self.next);
        self.next = self.next.saturating_add(1);
        self.queue.insert(id, action);
        id
    }

    pub(super) fn pop(&mut self) -> Option<Action> {
        self.queue.pop_first().map(|(_, action)| action)
    }

    pub(super) fn withdraw(&mut self, id: ActionId) -> Option<Action> {
        self.queue.remove(&id)
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }
}
