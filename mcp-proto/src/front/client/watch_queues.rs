//! The queues of updates for watches.

use alloc::collections::BTreeMap;
use core::task::{Poll, Waker};

use super::watch_update::WatchUpdate;
use crate::front::Error;
use crate::front::queue::MAX_BYTES;
use crate::front::signal::Wakers;
use crate::inline_map::InlineMap;
use crate::peer::client::{Change, ChangeEvidence, CloseReason, WatchEnd, WatchId, WatchState};
use crate::peer::topic::Topic;

/// The maximum number of updates queued for one watch. Each change is queued once, so only a server that reports ever
/// more resources below the watched ones can reach it.
const MAX_UPDATES: usize = 1024;

/// The bytes counted for an update beside its texts.
const UPDATE_OVERHEAD: usize = 128;

/// The outcome of a watch.
type WatchResult = Result<(), Error>;

/// An item that a watch receives.
pub(super) enum WatchItem {
    Update(WatchUpdate),
    End(WatchResult),
}

#[derive(Default)]
struct WatchQueue {
    /// The queued updates, in order.
    updates: BTreeMap<u64, WatchUpdate>,
    /// The position of each queued change.
    positions: BTreeMap<Topic, u64>,
    bytes: usize,
    next: u64,
    missed: u64,
    end: Option<WatchResult>,
    waker: Option<Waker>,
}

impl WatchQueue {
    fn push(&mut self, update: WatchUpdate) {
        if let WatchUpdate::Changed { change, evidence: why } = &update {
            let topic = change.topic();
            if let Some(waiting) = self.positions.get(&topic).and_then(|place| self.updates.get_mut(place)) {
                if *why == ChangeEvidence::MaybeMissed
                    || matches!(change, Change::Task { update: Some(_), .. })
                {
                    self.bytes =
                        self.bytes.saturating_sub(bytes_of(waiting)).saturating_add(bytes_of(&update));
                    *waiting = update;
                    self.drop_oldest();
                }
                return;
            }
            self.positions.insert(topic, self.next);
        }
        self.bytes = self.bytes.saturating_add(bytes_of(&update));
        self.updates.insert(self.next, update);
        self.next = self.next.saturating_add(1);
        self.drop_oldest();
    }

    /// Drops the oldest updates while the limits are exceeded. The last one is kept, however long it is.
    fn drop_oldest(&mut self) {
        while self.updates.len() > MAX_UPDATES || (self.bytes > MAX_BYTES && self.updates.len() > 1) {
            self.pop();
            self.missed = self.missed.saturating_add(1);
        }
    }

    fn pop(&mut self) -> Option<WatchUpdate> {
        let (_, update) = self.updates.pop_first()?;
        self.bytes = self.bytes.saturating_sub(bytes_of(&update));
        if let WatchUpdate::Changed { change, .. } = &update {
            self.positions.remove(&change.topic());
        }
        Some(update)
    }

    fn take(&mut self) -> Option<WatchItem> {
        if self.missed > 0 {
            let count = core::mem::take(&mut self.missed);
            return Some(WatchItem::Update(WatchUpdate::Missed { count }));
        }
        self.pop().map(WatchItem::Update).or_else(|| self.end.take().map(WatchItem::End))
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
        self.0.insert(watch, WatchQueue::default());
    }

    pub(super) fn close(&mut self, watch: WatchId, wakers: &mut Wakers) {
        if let Some(slot) = self.0.remove(&watch) {
            wakers.discard(slot.waker);
        }
    }

    pub(super) fn change(
        &mut self,
        watch: WatchId,
        change: Change,
        why: ChangeEvidence,
        wakers: &mut Wakers,
    ) {
        self.push(watch, WatchUpdate::Changed { change, evidence: why }, wakers);
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
        match slot.take() {
            Some(heard) => {
                wakers.discard(Some(waker));
                Poll::Ready(Some(heard))
            }
            None => {
                wakers.discard(slot.waker.replace(waker));
                Poll::Pending
            }
        }
    }

    fn push(&mut self, watch: WatchId, update: WatchUpdate, wakers: &mut Wakers) {
        if let Some(slot) = self.0.get_mut(&watch) {
            slot.push(update);
            wakers.wake(slot.waker.take());
        }
    }
}
