//! The slots of sent requests whose outcome a future awaits.

use core::task::{Poll, Waker};

#[cfg(feature = "client")]
use super::events::MAX_ITEMS;
use super::events::{MAX_BYTES, Queue, QueuedItem};
use super::notification::Notification;
use super::wakers::Wakers;
use crate::inline_map::InlineMap;
use crate::peer::{LostReason, Outcome, RequestId};
use crate::prelude::*;
use crate::schema::ProgressParams;

/// The maximum number of progress notifications queued for one call. Each supersedes those before it, so the oldest are
/// dropped first.
const MAX_PROGRESS: usize = 64;

/// The items that a slot queues beside the outcome.
pub(crate) enum FollowQueue {
    Nothing,
    Progress(Queue<ProgressParams>),
    Subscription(Queue<Notification>),
}

impl FollowQueue {
    pub(crate) fn progress() -> Self {
        Self::Progress(Queue::new(MAX_PROGRESS, MAX_BYTES))
    }

    #[cfg(feature = "client")]
    pub(crate) fn subscription() -> Self {
        Self::Subscription(Queue::new(MAX_ITEMS, MAX_BYTES))
    }
}

struct RequestSlot {
    outcome: Option<Outcome>,
    stream: FollowQueue,
    waker: Option<Waker>,
}

/// The queued outcomes and progress notifications by request. The map is allocated with the first: most servers send no
/// requests.
#[derive(Default)]
pub(crate) struct RequestSlots(Option<Box<InlineMap<RequestId, RequestSlot>>>);

impl RequestSlots {
    pub(crate) fn open(&mut self, request: RequestId, stream: FollowQueue) {
        let slot = RequestSlot { outcome: None, stream, waker: None };
        self.0.get_or_insert_default().insert(request, slot);
    }

    fn get(&self, request: RequestId) -> Option<&RequestSlot> {
        self.0.as_ref()?.get(&request)
    }

    fn get_mut(&mut self, request: RequestId) -> Option<&mut RequestSlot> {
        self.0.as_mut()?.get_mut(&request)
    }

    /// Removes the slot of a request that is no longer awaited.
    pub(crate) fn close(&mut self, request: RequestId, wakers: &mut Wakers) {
        if let Some(slot) = self.0.as_mut().and_then(|slots| slots.remove(&request)) {
            wakers.discard(slot.waker);
        }
    }

    pub(crate) fn resolve(&mut self, request: RequestId, outcome: Outcome, wakers: &mut Wakers) {
        if let Some(slot) = self.get_mut(request) {
            slot.outcome.get_or_insert(outcome);
            wakers.wake(slot.waker.take());
        }
    }

    /// Resolves all open requests as lost.
    pub(crate) fn resolve_all(&mut self, lost: &LostReason, wakers: &mut Wakers) {
        for slot in self.0.iter_mut().flat_map(|slots| slots.values_mut()) {
            slot.outcome.get_or_insert_with(|| Outcome::Lost(lost.clone()));
            wakers.wake(slot.waker.take());
        }
    }

    pub(crate) fn progress(&mut self, request: RequestId, params: ProgressParams, wakers: &mut Wakers) {
        let Some(slot) = self.get_mut(request) else { return };
        if let FollowQueue::Progress(queue) = &mut slot.stream {
            let bytes = progress_bytes(&params);
            queue.push(params, bytes);
            wakers.wake(slot.waker.take());
        }
    }

    /// Queues a notification for its subscription; returns it if no future follows that.
    pub(crate) fn notify(
        &mut self,
        request: RequestId,
        mut notification: Notification,
        wakers: &mut Wakers,
    ) -> Option<Notification> {
        let Some(slot) = self.get_mut(request) else { return Some(notification) };
        let FollowQueue::Subscription(queue) = &mut slot.stream else { return Some(notification) };
        if queue.wants_copies() {
            notification.make_owned();
        }
        let bytes = notification.bytes();
        queue.push(notification, bytes);
        wakers.wake(slot.waker.take());
        None
    }

    /// Polls for the next progress notification; `None` once the outcome has arrived.
    pub(crate) fn poll_progress(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Option<ProgressParams>> {
        self.poll(request, waker, wakers, |slot| match &mut slot.stream {
            FollowQueue::Progress(queue) => queue.pop(),
            _ => None,
        })
    }

    /// The number of a request's progress notifications that were dropped because they were not taken in time.
    pub(crate) fn missed_progress(&self, request: RequestId) -> u64 {
        match self.get(request).map(|slot| &slot.stream) {
            Some(FollowQueue::Progress(queue)) => queue.missed(),
            _ => 0,
        }
    }

    /// Polls for the next notification of a subscription; `None` once it has ended.
    pub(crate) fn poll_notification(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Option<QueuedItem<Notification>>> {
        self.poll(request, waker, wakers, |slot| match &mut slot.stream {
            FollowQueue::Subscription(queue) => queue.take(),
            _ => None,
        })
    }

    fn poll<T>(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
        take: impl FnOnce(&mut RequestSlot) -> Option<T>,
    ) -> Poll<Option<T>> {
        let Some(slot) = self.get_mut(request) else {
            wakers.discard(Some(waker));
            return Poll::Ready(None);
        };
        let found = match take(slot) {
            None if slot.outcome.is_some() => Some(None),
            item => item.map(Some),
        };
        wakers.found_or_wait(found, &mut slot.waker, waker)
    }

    /// Polls for the outcome, which removes the slot.
    pub(crate) fn poll_outcome(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Outcome> {
        let Some(slot) = self.get_mut(request) else {
            wakers.discard(Some(waker));
            return Poll::Ready(Outcome::Cancelled);
        };
        let Some(outcome) = slot.outcome.take() else {
            wakers.discard(slot.waker.replace(waker));
            return Poll::Pending;
        };
        wakers.discard(Some(waker));
        self.close(request, wakers);
        Poll::Ready(outcome)
    }
}

/// The approximate size of a progress notification in bytes.
pub(crate) fn progress_bytes(params: &ProgressParams) -> usize {
    let message = params.message.as_ref().map_or(0, String::len);
    let meta = params.meta.iter().map(|(key, value)| key.len().saturating_add(value.as_str().len()));
    meta.fold(size_of::<ProgressParams>().saturating_add(message), usize::saturating_add)
}

/// The requests in flight of a connection.
pub(crate) trait RequestTable {
    fn poll_progress(&self, request: RequestId, waker: Waker) -> Poll<Option<ProgressParams>>;

    fn missed_progress(&self, request: RequestId) -> u64;

    fn poll_outcome(&self, request: RequestId, waker: Waker) -> Poll<Outcome>;
}
