//! The updates of watches that wait for the application.

use alloc::collections::BTreeMap;
use core::task::{Poll, Waker};

use crate::front::Error;
use crate::front::events::{MAX_BYTES, Queue, QueuedItem};
use crate::front::wakers::Wakers;
use crate::inline_map::InlineMap;
use crate::peer::client::{Change, ChangeEvidence, CloseReason, WatchEnd, WatchFilter, WatchId, WatchState};
use crate::peer::topic::Topic;

/// An update of a watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// The watch reports changes from now on: fetch the watched items after this, and again at each change.
    Active {
        /// The part of the filter for which the server sends no notifications.
        missing: WatchFilter,
    },
    /// The subscription was lost and is being renewed. Then [`Active`](Self::Active) follows, and a
    /// [`Changed`](Self::Changed) for each thing that the server reports. What `Active` names as missing gets none: fetch
    /// it again.
    Interrupted,
    /// Something has changed, or may have.
    Changed {
        /// The thing that changed.
        change: Change,
        /// The evidence of the change.
        evidence: ChangeEvidence,
    },
    /// Updates were dropped because they were not taken in time: anything may have changed.
    Missed {
        /// The number of updates.
        count: u64,
    },
}

/// The maximum number of updates queued for one watch. Each change is queued once, so only a server that reports ever
/// more resources below the watched ones can reach it.
const MAX_UPDATES: usize = 1024;

/// The bytes counted for an update beside its texts.
const UPDATE_OVERHEAD: usize = 128;

/// The outcome of a watch.
pub(super) type WatchResult = Result<(), Error>;

/// An item that a watch receives.
pub(super) enum WatchItem {
    Update(WatchUpdate),
    End(WatchResult),
}

struct WatchQueue {
    updates: Queue<WatchUpdate>,
    /// The position of each queued change.
    positions: BTreeMap<Topic, u64>,
    end: Option<WatchResult>,
    waker: Option<Waker>,
}

impl WatchQueue {
    fn new() -> Self {
        Self {
            updates: Queue::new(MAX_UPDATES, MAX_BYTES),
            positions: BTreeMap::new(),
            end: None,
            waker: None,
        }
    }

    fn push(&mut self, update: WatchUpdate) {
        let bytes = bytes_of(&update);
        let WatchUpdate::Changed { change, evidence } = &update else {
            self.updates.push_back(update, bytes);
            return self.drop_excess();
        };
        let topic = change.topic();
        if let Some(position) = self.positions.get(&topic) {
            let is_news = matches!(change, Change::Task { update: Some(_), .. });
            if is_news || *evidence == ChangeEvidence::MaybeMissed {
                self.updates.replace(*position, update, bytes);
                self.drop_excess();
            }
            return;
        }
        let position = self.updates.push_back(update, bytes);
        self.positions.insert(topic, position);
        self.drop_excess();
    }

    fn drop_excess(&mut self) {
        while let Some(dropped) = self.updates.pop_excess() {
            self.forget(&dropped);
        }
    }

    /// Forgets the position of an update that has left the queue.
    fn forget(&mut self, update: &WatchUpdate) {
        if let WatchUpdate::Changed { change, .. } = update {
            self.positions.remove(&change.topic());
        }
    }

    fn take(&mut self) -> Option<WatchItem> {
        match self.updates.take() {
            Some(QueuedItem::Missed(count)) => Some(WatchItem::Update(WatchUpdate::Missed { count })),
            Some(QueuedItem::Item(update)) => {
                self.forget(&update);
                Some(WatchItem::Update(update))
            }
            None => self.end.take().map(WatchItem::End),
        }
    }
}

/// The approximate size of an update in bytes.
fn bytes_of(update: &WatchUpdate) -> usize {
    let texts = match update {
        // The entry in `positions` holds its name once more.
        WatchUpdate::Changed { change: Change::Resource(uri), .. } => uri.len().saturating_mul(2),
        WatchUpdate::Changed { change: Change::Task { id, update }, .. } => {
            let update = update.as_ref().map_or(0, |update| update.as_bytes().len());
            id.len().saturating_mul(2).saturating_add(update)
        }
        _ => 0,
    };
    texts.saturating_add(UPDATE_OVERHEAD)
}

/// The open watches of a connection.
#[derive(Default)]
pub(super) struct WatchQueues(InlineMap<WatchId, WatchQueue>);

impl WatchQueues {
    pub(super) fn open(&mut self, watch: WatchId) {
        self.0.insert(watch, WatchQueue::new());
    }

    pub(super) fn close(&mut self, watch: WatchId, wakers: &mut Wakers) {
        if let Some(slot) = self.0.remove(&watch) {
            wakers.discard(slot.waker);
        }
    }

    pub(super) fn state(&mut self, watch: WatchId, state: WatchState, wakers: &mut Wakers) {
        match state {
            WatchState::On { missing } => self.push(watch, WatchUpdate::Active { missing }, wakers),
            WatchState::Interrupted => self.push(watch, WatchUpdate::Interrupted, wakers),
            WatchState::Ended(end) => {
                let Some(slot) = self.0.get_mut(&watch) else { return };
                slot.end = Some(match end {
                    WatchEnd::ByServer => Ok(()),
                    WatchEnd::Refused(outcome) => Err((*outcome).into()),
                });
                wakers.wake(slot.waker.take());
            }
        }
    }

    /// Ends all watches with the connection.
    pub(super) fn end_all(&mut self, closed: &CloseReason, wakers: &mut Wakers) {
        for slot in self.0.values_mut() {
            slot.end.get_or_insert_with(|| Err(Error::Closed(closed.clone())));
            wakers.wake(slot.waker.take());
        }
    }

    pub(super) fn poll(
        &mut self,
        watch: WatchId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Option<WatchItem>> {
        let Some(slot) = self.0.get_mut(&watch) else {
            wakers.discard(Some(waker));
            return Poll::Ready(None);
        };
        wakers.found_or_wait(slot.take().map(Some), &mut slot.waker, waker)
    }

    pub(super) fn push(&mut self, watch: WatchId, update: WatchUpdate, wakers: &mut Wakers) {
        if let Some(slot) = self.0.get_mut(&watch) {
            slot.push(update);
            wakers.wake(slot.waker.take());
        }
    }
}
