//! Subscriptions to change notifications.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;

use super::Client;
use crate::front::Notification;
use crate::front::error::Error;
use crate::front::events::QueuedItem;
use crate::front::request_slots::{FollowQueue, RequestLink};
use crate::peer::{Outcome, OutgoingRequest, RequestId, RequestOptions};
use crate::schema::{
    SubscriptionFilter, SubscriptionsAcknowledged, SubscriptionsListen, SubscriptionsListenParams,
};

/// An update of a subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubscriptionUpdate {
    /// The server accepted the subscription, and reports this part of the requested filter.
    Acknowledged(SubscriptionFilter),
    /// A change notification.
    Notification(Notification),
    /// Updates were dropped, because they were not taken in time.
    Missed {
        /// The number of dropped updates.
        count: u64,
    },
}

/// A subscription: the stream of its updates.
///
/// It buffers the latest 1,024 updates and 16 MiB. It ends when the server or the connection ends it, and
/// [`outcome`](Self::outcome) then returns the reason; dropping it ends it from the client. It keeps the connection
/// open.
#[derive(Debug)]
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    client: Client,
    id: RequestId,
    state: StreamState,
}

/// The state of a stream of updates.
#[derive(Debug)]
pub(super) enum StreamState {
    Open,
    Ended(Result<(), Error>),
    Reported,
}

impl StreamState {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(super) fn take_outcome(&mut self) -> Option<Result<(), Error>> {
        match core::mem::replace(self, Self::Reported) {
            Self::Ended(outcome) => Some(outcome),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Subscription {
    pub(super) fn open(client: Client, filter: SubscriptionFilter) -> Result<Self, Error> {
        let params = SubscriptionsListenParams::new(filter);
        let outgoing = OutgoingRequest::new::<SubscriptionsListen>(&params, RequestOptions::default());
        let id = client.inner.send(outgoing, FollowQueue::subscription())?;
        Ok(Self { client, id, state: StreamState::Open })
    }

    /// The next update; `None` once the subscription has ended.
    pub async fn next(&mut self) -> Option<SubscriptionUpdate> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// How the subscription ended: `Ok` if the server ended it gracefully; `None` while it is active. It can be taken
    /// once.
    pub fn outcome(&mut self) -> Option<Result<(), Error>> {
        self.state.take_outcome()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<SubscriptionUpdate>> {
        if !self.state.is_open() {
            return Poll::Ready(None);
        }
        let link = &*self.client.inner;
        match link.poll_notification(self.id, cx.waker().clone()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(QueuedItem::Missed(count))) => {
                Poll::Ready(Some(SubscriptionUpdate::Missed { count }))
            }
            Poll::Ready(Some(QueuedItem::Item(notification))) => {
                let update = match notification.decode::<SubscriptionsAcknowledged>() {
                    Some(Ok(acknowledged)) => SubscriptionUpdate::Acknowledged(acknowledged.notifications),
                    Some(Err(_)) | None => SubscriptionUpdate::Notification(notification),
                };
                Poll::Ready(Some(update))
            }
            Poll::Ready(None) => {
                let Poll::Ready(outcome) = link.table().poll_outcome(self.id, cx.waker().clone()) else {
                    return Poll::Pending;
                };
                self.state = StreamState::Ended(match outcome {
                    Outcome::Result(_) => Ok(()),
                    other => Err(link.error(other)),
                });
                Poll::Ready(None)
            }
        }
    }
}

impl Stream for Subscription {
    type Item = SubscriptionUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SubscriptionUpdate>> {
        self.poll(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.state.is_open() {
            self.client.inner.abandon(self.id, None);
        }
    }
}
