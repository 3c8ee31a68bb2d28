//! The connections of one server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::watch::{Order, Overrun, Watch};

/// Who is connected, whether the server itself accepted them or somebody else did.
#[derive(Default)]
pub(super) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    open: BTreeMap<u64, Arc<Watch>>,
    closing: Option<Order>,
    /// Waits for one of them to end.
    waker: Option<Waker>,
}

impl Registry {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic happens under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection. Once the server is closing it is told so at once.
    pub(super) fn enter(self: &Arc<Self>, watch: Arc<Watch>) -> Entry {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        inner.open.insert(number, watch.clone());
        let closing = inner.closing;
        drop(inner);
        if let Some(order) = closing {
            watch.order(order);
        }
        Entry { registry: self.clone(), number }
    }

    /// Ready if fewer than `most` are connected.
    pub(super) fn poll_fewer(&self, most: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner();
        if inner.open.len() < most {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Those that are connected finish what is under way; whoever comes later is sent away.
    pub(super) fn retire(&self) {
        self.tell(Order::Retire);
    }

    /// All connections end now.
    pub(super) fn cut(&self) {
        self.tell(Order::Cut(Overrun::Closed));
    }

    fn tell(&self, order: Order) {
        let mut inner = self.inner();
        inner.closing = Some(order);
        let open: Vec<_> = inner.open.values().cloned().collect();
        drop(inner);
        for watch in open {
            watch.order(order);
        }
    }
}

/// A place in the registry, given up when this is dropped.
pub(super) struct Entry {
    registry: Arc<Registry>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut inner = self.registry.inner();
        let watch = inner.open.remove(&self.number);
        let waker = inner.waker.take();
        drop(inner);
        drop(watch);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
