//! Watches: change notifications from servers of either era, and their queues.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use futures_core::Stream;

use crate::front::Notification;
use crate::front::error::Error;
use crate::front::events::{MAX_BYTES, Queue, QueuedItem};
use crate::front::request::RequestLink;
use crate::front::request_slots::FollowQueue;
use crate::front::wakers::Wakers;
use crate::inline_map::InlineMap;
use crate::ordered_map::OrderedMap;
use crate::peer::client::{
    Change, ChangeEvidence, CloseReason, WatchEnd, WatchFilter, WatchId, WatchStart, WatchState,
};
use crate::peer::topic::Topic;
use crate::peer::{Outcome, OutgoingRequest, RequestId, RequestOptions};
use crate::schema::{
    SubscriptionFilter, SubscriptionsAcknowledged, SubscriptionsListen, SubscriptionsListenParams,
};

use super::Client;

impl Client {
    /// Creates a watch for changes on the server, of either era.
    ///
    /// ```
    /// use mcp_proto::front::{Client, Error, WatchUpdate};
    /// use mcp_proto::peer::client::Change;
    ///
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let mut watch = client.watch().tools().resource("file:///project/config.json").open()?;
    /// while let Some(update) = watch.next().await {
    ///     match update {
    ///         WatchUpdate::Changed { change: Change::Tools, .. } => println!("list the tools again"),
    ///         WatchUpdate::Changed { change: Change::Resource(uri), .. } => println!("read {uri} again"),
    ///         WatchUpdate::Active { missing } if !missing.is_empty() => println!("poll the rest"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// All watches of a connection share one subscription of 2026-07-28; at earlier revisions they use one
    /// `resources/subscribe` per resource. Do not mix them with [`subscribe`](Self::subscribe) and
    /// [`unsubscribe`](Self::unsubscribe) of the same resources. For a separate subscription, see
    /// [`listen`](Self::listen).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    pub fn watch(&self) -> WatchRequest {
        WatchRequest { client: self.clone(), filter: WatchFilter::new(), since: WatchStart::Now }
    }
}

/// A builder of a watch.
#[derive(Debug)]
#[must_use = "nothing is watched before `open`"]
pub struct WatchRequest {
    client: Client,
    filter: WatchFilter,
    since: WatchStart,
}

impl WatchRequest {
    /// Watches the list of tools.
    pub fn tools(self) -> Self {
        self.with(WatchFilter::tools)
    }

    /// Watches the list of prompts.
    pub fn prompts(self) -> Self {
        self.with(WatchFilter::prompts)
    }

    /// Watches the lists of resources and templates.
    pub fn resources(self) -> Self {
        self.with(WatchFilter::resources)
    }

    /// Watches the resource `uri` and the resources below it.
    pub fn resource(self, uri: impl AsRef<str>) -> Self {
        self.with(|filter| filter.resource(uri))
    }

    /// Watches the task `id`. The client must declare the tasks extension.
    pub fn task(self, id: impl AsRef<str>) -> Self {
        self.with(|filter| filter.task(id))
    }

    /// Watches what `filter` selects, in place of all earlier selections.
    pub fn filter(self, filter: WatchFilter) -> Self {
        self.with(|_| filter)
    }

    /// Sets which state the application knows already.
    pub fn since(mut self, since: WatchStart) -> Self {
        self.since = since;
        self
    }

    /// Opens the watch. The handshake need not be complete yet.
    ///
    /// # Errors
    /// If the connection has ended or is closing.
    pub fn open(self) -> Result<Watch, Error> {
        let Self { client, filter, since } = self;
        let requested = filter.clone();
        let id = client.inner.checked(|core, mut client| {
            let id = client.watch(requested, since)?;
            core.watch_queues.open(id);
            Ok(id)
        })?;
        Ok(Watch { client, id, filter, state: StreamState::Open })
    }

    fn with(mut self, change: impl FnOnce(WatchFilter) -> WatchFilter) -> Self {
        self.filter = change(self.filter);
        self
    }
}

/// A watch: a stream of changes.
///
/// Each change is queued once, however often it happens before it is taken; at most 1,024 updates and 16 MiB are
/// queued, and then [`Missed`](WatchUpdate::Missed) counts the oldest, which were dropped. The stream ends when the
/// server ends it gracefully or rejects it, or with the connection; [`outcome`](Self::outcome) then returns the reason.
/// The watch recovers from lost subscriptions by itself. Dropping it ends it; it keeps the connection open.
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct Watch {
    client: Client,
    id: WatchId,
    filter: WatchFilter,
    state: StreamState,
}

impl Watch {
    /// The next update; `None` once the watch has ended.
    pub async fn next(&mut self) -> Option<WatchUpdate> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The changes that are watched.
    pub fn filter(&self) -> &WatchFilter {
        &self.filter
    }

    /// Replaces the filter. Changes that both filters select are reported without a gap; an
    /// [`Active`](WatchUpdate::Active) tells when the others are reported too.
    pub fn set_filter(&mut self, filter: WatchFilter) {
        self.filter = filter.clone();
        let id = self.id;
        self.client.command(|mut client| client.set_watch_filter(id, filter));
    }

    /// Opens the same watch on another connection to the same server.
    ///
    /// Everything in its filter that the server reports counts as possibly changed.
    ///
    /// # Errors
    /// If that connection has ended or is closing.
    pub fn reopen(&self, client: &Client) -> Result<Self, Error> {
        //= C3.7 "stdio: re-send `subscriptions/listen` after the connection is re-established"
        client.watch().filter(self.filter.clone()).since(WatchStart::Before).open()
    }

    /// How the watch ended: `Ok` if the server ended it gracefully; `None` while it is active. It can be taken once.
    pub fn outcome(&mut self) -> Option<Result<(), Error>> {
        self.state.take_outcome()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        if !self.state.is_open() {
            return Poll::Ready(None);
        }
        let (id, waker) = (self.id, cx.waker().clone());
        let connection = &self.client.inner.connection;
        let polled = connection.with_events(|core, _, wakers| core.watch_queues.poll(id, waker, wakers));
        polled.map(|item| match item? {
            WatchItem::Update(update) => Some(update),
            WatchItem::End(end) => {
                self.state = StreamState::Ended(end);
                None
            }
        })
    }
}

impl Stream for Watch {
    type Item = WatchUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        self.poll(cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let id = self.id;
        self.client.inner.connection.command(|core, machine, now, wakers| {
            core.watch_queues.close(id, wakers);
            machine.at(now).unwatch(id);
        });
    }
}

// Subscriptions to change notifications.

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

// The updates of watches that wait for the application.

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
    positions: OrderedMap<Topic, u64>,
    end: Option<WatchResult>,
    waker: Option<Waker>,
}

impl WatchQueue {
    fn new() -> Self {
        Self {
            updates: Queue::new(MAX_UPDATES, MAX_BYTES),
            positions: OrderedMap::new(),
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
