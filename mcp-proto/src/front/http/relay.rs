//! The relay of change notifications between the instances of a server.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use futures_core::Stream;

use super::HttpServerEvent;
use super::change_hub::Hub;
use super::service::Service;
use crate::Instant;
use crate::front::wakers::update;
use crate::ordered_set::OrderedSet;
use crate::peer::server::ListKind;
use crate::prelude::*;
use crate::sync::Mutex;

/// A change that one instance of a server reports to the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Change {
    /// A list has changed.
    List(ListKind),
    /// The resource with this URI has changed.
    Resource(String),
    /// Any list and any resource may have changed: reports of changes were lost.
    Any,
}

/// A relay of change notifications between the instances of a server: the publish and subscribe of a message broker.
///
/// A change that the application reports at one instance, by
/// [`HttpHandle::list_changed`](super::HttpHandle::list_changed) for example, then reaches the clients that listen at
/// another. [`HttpServerDriver::relay_changes`](super::HttpServerDriver::relay_changes) sets the relay of a server.
/// Without one, each instance notifies its own clients.
///
/// Delivery need not be reliable or in order: a notification makes clients read a list or a resource. After a loss, the
/// relay yields [`Change::Any`], by which clients are notified of every list and resource that they subscribed to.
/// Duplicates are harmless.
pub trait ChangeRelay: Send + Sync {
    /// Sends changes to the other instances. If that fails, the driver sends them again, with those of the meantime,
    /// after one second.
    fn publish(&self, changes: Vec<Change>) -> PublishFuture;

    /// Subscribes to the changes that other instances publish from now on. The changes of this instance may be among
    /// them, though they need not be.
    ///
    /// The stream does not end: it reconnects on its own, and then yields [`Change::Any`], because changes may have been
    /// published in between.
    fn subscribe(&self) -> ChangeStream;
}

/// The future of a [publication](ChangeRelay::publish); its error is a message for logs.
pub type PublishFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The stream of a [subscription](ChangeRelay::subscribe).
pub type ChangeStream = Pin<Box<dyn Stream<Item = Change> + Send>>;

/// The number of different changes that wait to be published. Beyond it, [`Change::Any`] replaces them.
const MAX_CHANGES: usize = 1024;
/// How many changes the driver receives before it polls other things again.
const RECEIVED_AT_ONCE: usize = 256;
/// The delay after a failed publication.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The changes that wait to be published, each once.
#[derive(Default)]
pub(super) struct RelayOutbox(Mutex<QueuedChanges>);

#[derive(Default)]
struct QueuedChanges {
    changes: OrderedSet<Change>,
    driver: Option<Waker>,
}

impl RelayOutbox {
    pub(super) fn add(&self, changes: impl IntoIterator<Item = Change>) {
        update(&self.0, |queued, wakers| {
            queued.changes.extend(changes);
            if queued.changes.len() > MAX_CHANGES {
                queued.changes = [Change::Any].into();
            }
            wakers.wake(queued.driver.take());
        });
    }

    fn poll_take(&self, waker: &Waker) -> Poll<Vec<Change>> {
        let waker = waker.clone();
        update(&self.0, |queued, wakers| {
            let changes = core::mem::take(&mut queued.changes);
            let found = (!changes.is_empty()).then(|| changes.into_iter().collect());
            wakers.found_or_wait(found, &mut queued.driver, waker)
        })
    }
}

/// The part of the driver that relays changes.
pub(super) struct RelayRun {
    relay: Arc<dyn ChangeRelay>,
    outbox: Arc<RelayOutbox>,
    /// `None` once it has ended.
    incoming: Option<ChangeStream>,
    /// The changes that are being published.
    publishing: Option<(Vec<Change>, PublishFuture)>,
    /// After a failed publication: the time of the next one.
    retry_at: Option<Instant>,
    /// Whether the last publication failed.
    has_failed: bool,
}

impl RelayRun {
    pub(super) fn new(relay: Arc<dyn ChangeRelay>, hub: &Hub) -> Self {
        let incoming = Some(relay.subscribe());
        let outbox = hub.relay_to_others();
        Self { relay, outbox, incoming, publishing: None, retry_at: None, has_failed: false }
    }

    pub(super) fn poll(&mut self, service: &Service, cx: &mut Context<'_>) {
        self.receive(&service.hub, cx);
        while self.poll_published(service, cx).is_ready() {
            let is_delayed = self.retry_at.is_some_and(|at| at > service.now());
            let queued = if is_delayed { Poll::Pending } else { self.outbox.poll_take(cx.waker()) };
            let Poll::Ready(changes) = queued else { return };
            self.retry_at = None;
            self.publishing = Some((changes.clone(), self.relay.publish(changes)));
        }
    }

    /// The time at which [`poll`](Self::poll) is due, if its waker is not called earlier.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    fn receive(&mut self, hub: &Hub, cx: &mut Context<'_>) {
        for _ in 0..RECEIVED_AT_ONCE {
            let Some(incoming) = &mut self.incoming else { return };
            match incoming.as_mut().poll_next(cx) {
                Poll::Ready(Some(change)) => hub.receive(&change),
                Poll::Ready(None) => self.incoming = None,
                Poll::Pending => return,
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Ready when no publication is in progress.
    fn poll_published(&mut self, service: &Service, cx: &mut Context<'_>) -> Poll<()> {
        let Some((_, publishing)) = &mut self.publishing else { return Poll::Ready(()) };
        let published = core::task::ready!(publishing.as_mut().poll(cx));
        let changes = self.publishing.take().map(|(changes, _)| changes);
        let has_failed = published.is_err();
        if let Err(message) = published {
            self.outbox.add(changes.unwrap_or_default());
            self.retry_at = service.now().after(RETRY_DELAY);
            if !self.has_failed {
                service.hub.report(&HttpServerEvent::RelayFailed { message });
            }
        }
        self.has_failed = has_failed;
        Poll::Ready(())
    }
}
