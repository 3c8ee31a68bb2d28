//! Bounded queues of items for one listener, and the event streams of connections and servers.

use alloc::collections::VecDeque;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::wakers::Wakers;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

/// The listeners of a connection, each with its own queue.
pub(crate) struct Listeners<E> {
    listeners: OrderedMap<u64, Listener<E>>,
    next: u64,
    last: Option<E>,
}

struct Listener<E> {
    queue: Queue<E>,
    waker: Option<Waker>,
}

impl<E> Default for Listeners<E> {
    fn default() -> Self {
        Self { listeners: OrderedMap::new(), next: 0, last: None }
    }
}

impl<E: ListenerEvent> Listeners<E> {
    pub(crate) fn add(&mut self) -> u64 {
        let key = self.next;
        self.next = key.saturating_add(1);
        let mut queue = Queue::new(MAX_ITEMS, MAX_BYTES);
        if let Some(last) = &self.last {
            queue.push(last.clone(), 0);
        }
        self.listeners.insert(key, Listener { queue, waker: None });
        key
    }

    /// Whether there are no listeners.
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    pub(crate) fn remove(&mut self, key: u64, wakers: &mut Wakers) {
        if let Some(listener) = self.listeners.remove(&key) {
            wakers.discard(listener.waker);
        }
    }

    /// Queues an event for all listeners.
    pub(crate) fn publish(&mut self, event: &E, wakers: &mut Wakers) {
        let bytes = event.bytes();
        for listener in self.listeners.values_mut() {
            let mut event = event.clone();
            if listener.queue.wants_copies() {
                event.make_owned();
            }
            listener.queue.push(event, bytes);
            wakers.wake(listener.waker.take());
        }
    }

    /// Queues the last event for all listeners, including later ones.
    pub(crate) fn finish(&mut self, event: E, wakers: &mut Wakers) {
        self.publish(&event, wakers);
        self.last = Some(event);
    }

    pub(crate) fn poll(&mut self, key: u64, waker: Waker, wakers: &mut Wakers) -> Poll<Option<E>> {
        let Some(listener) = self.listeners.get_mut(&key) else {
            wakers.discard(Some(waker));
            return Poll::Ready(None);
        };
        let next = listener.queue.take().map(|next| match next {
            QueuedItem::Item(event) => Some(event),
            QueuedItem::Missed(count) => Some(E::missed(count)),
        });
        wakers.found_or_wait(next, &mut listener.waker, waker)
    }
}

/// A connection as the source of an event stream.
pub(crate) trait EventSource<E>: Send + Sync {
    fn poll_event(&self, key: u64, waker: Waker) -> Poll<Option<E>>;

    fn leave(&self, key: u64);
}

/// The common operations of event types.
pub(crate) trait ListenerEvent: Clone {
    /// The event that reports `count` lost events.
    fn missed(count: u64) -> Self;

    /// Whether this is the last event.
    fn is_last(&self) -> bool;

    /// Its approximate size in bytes.
    fn bytes(&self) -> usize;

    /// Copies slices of the input into separate memory.
    fn make_owned(&mut self) {}
}

/// A stream of events, in the order of the wire, from the moment of its creation.
///
/// It buffers the latest 1,024 events and 16 MiB; beyond that the oldest are dropped, and an event reports how many
/// were lost. It ends after the event that reports the end of the connection, and does not keep the connection open. It
/// is a [`Stream`]; [`next`](Self::next) needs no extension trait.
#[must_use = "events are lost unless they are taken"]
pub struct Events<E> {
    source: Box<dyn EventSource<E>>,
    key: u64,
    ended: bool,
}

#[expect(private_bounds, reason = "there are two kinds of events, one for each role")]
impl<E: ListenerEvent> Events<E> {
    pub(crate) fn new(source: impl EventSource<E> + 'static, key: u64) -> Self {
        Self { source: Box::new(source), key, ended: false }
    }

    /// The next event; `None` after the last event.
    pub async fn next(&mut self) -> Option<E> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Takes the events that are queued now.
    pub fn drain(&mut self) -> Vec<E> {
        let mut events = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(event)) = self.poll(&mut cx) {
            events.push(event);
        }
        events
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<E>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = self.source.poll_event(self.key, cx.waker().clone());
        self.ended = match &polled {
            Poll::Ready(Some(event)) => event.is_last(),
            Poll::Ready(None) => true,
            Poll::Pending => false,
        };
        polled
    }
}

impl<E: ListenerEvent> Stream for Events<E> {
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E>> {
        self.poll(cx)
    }
}

impl<E> Drop for Events<E> {
    fn drop(&mut self) {
        self.source.leave(self.key);
    }
}

debug_fields! { [E] Events<E> {} }

/// The maximum number of items queued for one listener.
pub(crate) const MAX_ITEMS: usize = 1024;
/// The maximum number of bytes queued for one listener, in each queue of the front.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of queued items that are slices of the input. Each may keep alive all the input that was read
/// with it, so later items are copied.
const MAX_SLICES: usize = 16;

/// A bounded queue that drops the oldest items and counts them.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<(T, usize)>,
    /// The number of items that were taken or dropped.
    gone: u64,
    bytes: usize,
    most_items: usize,
    most_bytes: usize,
    missed: u64,
}

/// The next item of a queue, or the number of items that were dropped before it.
pub(crate) enum QueuedItem<T> {
    Item(T),
    Missed(u64),
}

impl<T> Queue<T> {
    /// Creates a queue of at most `most_items` items and `most_bytes` bytes.
    pub(crate) fn new(most_items: usize, most_bytes: usize) -> Self {
        Self { items: VecDeque::new(), gone: 0, bytes: 0, most_items, most_bytes, missed: 0 }
    }

    pub(crate) fn push(&mut self, item: T, bytes: usize) {
        self.push_back(item, bytes);
        while self.pop_excess().is_some() {}
    }

    /// Adds an item, whatever the limits. Returns its position.
    pub(crate) fn push_back(&mut self, item: T, bytes: usize) -> u64 {
        let position = self.gone.saturating_add(u64::try_from(self.items.len()).unwrap_or(u64::MAX));
        self.items.push_back((item, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        position
    }

    /// Replaces the item at a position that [`push_back`](Self::push_back) returned, whatever the limits.
    pub(crate) fn replace(&mut self, position: u64, item: T, bytes: usize) {
        let index = usize::try_from(position.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        if let Some(slot) = self.items.get_mut(index) {
            self.bytes = self.bytes.saturating_sub(slot.1).saturating_add(bytes);
            *slot = (item, bytes);
        }
    }

    /// Drops the oldest item if a limit is exceeded. The newest item is kept, however long it is.
    pub(crate) fn pop_excess(&mut self) -> Option<T> {
        let is_over =
            self.items.len() > self.most_items || (self.bytes > self.most_bytes && self.items.len() > 1);
        let dropped = if is_over { self.pop() } else { None };
        self.missed = self.missed.saturating_add(u64::from(is_over));
        dropped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_front()?;
        self.gone = self.gone.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(item)
    }

    /// Whether the next item should be copied out of the input.
    pub(crate) fn wants_copies(&self) -> bool {
        self.items.len() >= MAX_SLICES
    }

    /// The number of items dropped since the last [`take_missed`](Self::take_missed).
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes the next item, or the number of those that were dropped before it.
    pub(crate) fn take(&mut self) -> Option<QueuedItem<T>> {
        let missed = self.take_missed().map(QueuedItem::Missed);
        missed.or_else(|| self.pop().map(QueuedItem::Item))
    }

    /// Returns and resets the number of dropped items, which preceded those in the queue; `None` if it is 0.
    pub(crate) fn take_missed(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.missed)).filter(|&missed| missed > 0)
    }
}
