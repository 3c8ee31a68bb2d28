//! The requests of this side whose outcome somebody awaits.

use alloc::string::String;
use core::task::{Poll, Waker};

use super::Error;
#[cfg(feature = "client")]
use super::Notification;
use super::queue::Queue;
use super::signal::Wakers;
use crate::inline_map::InlineMap;
#[cfg(feature = "client")]
use crate::peer::client::TaskCommand;
use crate::peer::{LostReason, Outcome, OutgoingRequest, RequestId};
#[cfg(feature = "client")]
use crate::peer::{RequestError, RequestOptions};
use crate::schema::ProgressParams;

/// How many progress notifications wait for one call. Each tells all that the ones before it told, so the oldest go
/// first.
const PROGRESS: usize = 64;

/// What is kept of a request beside its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Nothing,
    Progress,
    #[cfg(feature = "client")]
    Subscription,
}

enum Stream {
    Nothing,
    Progress(Queue<ProgressParams>),
    #[cfg(feature = "client")]
    Subscription(Queue<Notification>),
}

struct Slot {
    outcome: Option<Outcome>,
    stream: Stream,
    waker: Option<Waker>,
}

/// Where outcomes and progress wait to be taken.
#[derive(Default)]
pub(crate) struct Slots(InlineMap<RequestId, Slot>);

impl Slots {
    pub(crate) fn open(&mut self, request: RequestId, follow: Follow) {
        let stream = match follow {
            Follow::Nothing => Stream::Nothing,
            Follow::Progress => Stream::Progress(Queue::with_items(PROGRESS)),
            #[cfg(feature = "client")]
            Follow::Subscription => Stream::Subscription(Queue::new()),
        };
        self.0.insert(request, Slot { outcome: None, stream, waker: None });
    }

    /// Forgets a request: nobody awaits it any more.
    pub(crate) fn close(&mut self, request: RequestId, wakers: &mut Wakers) {
        if let Some(slot) = self.0.remove(&request) {
            wakers.spend(slot.waker);
        }
    }

    pub(crate) fn settle(&mut self, request: RequestId, outcome: Outcome, wakers: &mut Wakers) {
        if let Some(slot) = self.0.get_mut(&request) {
            slot.outcome.get_or_insert(outcome);
            wakers.wake(slot.waker.take());
        }
    }

    /// Settles whatever is still open.
    pub(crate) fn settle_all(&mut self, lost: &LostReason, wakers: &mut Wakers) {
        for slot in self.0.values_mut() {
            slot.outcome.get_or_insert_with(|| Outcome::Lost(lost.clone()));
            wakers.wake(slot.waker.take());
        }
    }

    pub(crate) fn progress(&mut self, request: RequestId, params: ProgressParams, wakers: &mut Wakers) {
        let Some(slot) = self.0.get_mut(&request) else { return };
        if let Stream::Progress(queue) = &mut slot.stream {
            let bytes = bytes_of(&params);
            queue.push(params, bytes);
            wakers.wake(slot.waker.take());
        }
    }

    #[cfg(feature = "client")]
    /// Hands a notification to its subscription, and back if nobody follows that.
    pub(crate) fn notify(
        &mut self,
        request: RequestId,
        mut notification: Notification,
        wakers: &mut Wakers,
    ) -> Option<Notification> {
        let Some(slot) = self.0.get_mut(&request) else { return Some(notification) };
        let Stream::Subscription(queue) = &mut slot.stream else { return Some(notification) };
        if queue.wants_copies() {
            notification.keep();
        }
        let bytes = notification.bytes();
        queue.push(notification, bytes);
        wakers.wake(slot.waker.take());
        None
    }

    /// The next progress, or `None` once the outcome is there.
    pub(crate) fn poll_progress(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Option<ProgressParams>> {
        self.poll(request, waker, wakers, |slot| match &mut slot.stream {
            Stream::Progress(queue) => queue.pop(),
            _ => None,
        })
    }

    /// How many progress notifications of a request were dropped because they were not taken in time.
    pub(crate) fn missed_progress(&self, request: RequestId) -> u64 {
        match self.0.get(&request).map(|slot| &slot.stream) {
            Some(Stream::Progress(queue)) => queue.missed(),
            _ => 0,
        }
    }

    #[cfg(feature = "client")]
    /// The next notification of a subscription, or `None` once it has ended.
    pub(crate) fn poll_notification(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Option<Subscribed>> {
        self.poll(request, waker, wakers, |slot| match &mut slot.stream {
            Stream::Subscription(queue) => match queue.take_missed() {
                Some(count) => Some(Subscribed::Missed(count)),
                None => queue.pop().map(Subscribed::Notification),
            },
            _ => None,
        })
    }

    fn poll<T>(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
        take: impl FnOnce(&mut Slot) -> Option<T>,
    ) -> Poll<Option<T>> {
        let slot = match self.0.get_mut(&request) {
            Some(slot) => slot,
            None => {
                wakers.spend(Some(waker));
                return Poll::Ready(None);
            }
        };
        let polled = match take(slot) {
            Some(item) => Poll::Ready(Some(item)),
            None if slot.outcome.is_some() => Poll::Ready(None),
            None => {
                wakers.spend(slot.waker.replace(waker));
                return Poll::Pending;
            }
        };
        wakers.spend(Some(waker));
        polled
    }

    /// The outcome; the slot is gone with it.
    pub(crate) fn poll_outcome(
        &mut self,
        request: RequestId,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Poll<Outcome> {
        let Some(slot) = self.0.get_mut(&request) else {
            wakers.spend(Some(waker));
            return Poll::Ready(Outcome::Cancelled);
        };
        match slot.outcome.take() {
            Some(outcome) => {
                self.close(request, wakers);
                wakers.spend(Some(waker));
                Poll::Ready(outcome)
            }
            None => {
                wakers.spend(slot.waker.replace(waker));
                Poll::Pending
            }
        }
    }
}

/// About how many bytes a progress notification holds.
fn bytes_of(params: &ProgressParams) -> usize {
    let message = params.message.as_ref().map_or(0, String::len);
    let meta = params.meta.iter().map(|(key, value)| key.len().saturating_add(value.as_str().len()));
    meta.fold(size_of::<ProgressParams>().saturating_add(message), usize::saturating_add)
}

#[cfg(feature = "client")]
/// What a subscription has to tell.
pub(crate) enum Subscribed {
    Notification(Notification),
    Missed(u64),
}

/// A connection, as the futures of requests see it.
pub(crate) trait Link: Send + Sync {
    fn send(&self, request: OutgoingRequest<'_>, follow: Follow) -> Result<RequestId, Error>;

    /// Asks something about a task of the other side. Only servers have any that are followed.
    #[cfg(feature = "client")]
    fn task(&self, id: &str, command: TaskCommand, options: RequestOptions) -> Result<RequestId, Error> {
        let _ = (id, command, options);
        Err(Error::Refused(RequestError::NotReady))
    }

    fn poll_progress(&self, request: RequestId, waker: Waker) -> Poll<Option<ProgressParams>>;

    fn missed_progress(&self, request: RequestId) -> u64;

    fn poll_outcome(&self, request: RequestId, waker: Waker) -> Poll<Outcome>;

    /// Nobody awaits the request any more: it is cancelled if it has not ended.
    fn abandon(&self, request: RequestId, reason: Option<&str>);

    /// What is known of the tools of the other side, if results are checked.
    #[cfg(all(feature = "client", feature = "schema-validate"))]
    fn outputs(&self) -> Option<&super::outputs::Outputs> {
        None
    }
}
