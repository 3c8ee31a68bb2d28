//! The connections of one server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::quota::{FairTable, QuotaOwner};

use super::monitor::{ConnectionLimit, ConnectionMonitor, ShutdownOrder};

/// How many connections are looked at to find one without a request that makes room for another. If all of them have one,
/// the oldest goes.
const MAX_SCANNED: usize = 16;

/// The open connections, whether the server itself accepted them or the application did.
pub(super) struct ConnectionRegistry {
    inner: Mutex<Inner>,
}

struct Inner {
    next: u64,
    open: FairTable<u64, Arc<ConnectionMonitor>>,
    closing: Option<ShutdownOrder>,
    /// Waits for one of them to end.
    waker: Option<Waker>,
}

impl ConnectionRegistry {
    /// Of a server that has `most` connections at a time.
    pub(super) fn new(most: usize) -> Self {
        let inner = Inner { next: 0, open: FairTable::new(most), closing: None, waker: None };
        Self { inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic happens under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for a connection of this owner, if need be in place of one of the owner that has most.
    pub(super) fn has_room(&self, owner: &QuotaOwner) -> bool {
        self.inner().open.has_room(owner)
    }

    /// A new connection. It may displace another one. It is retired at once if the server is closing.
    pub(super) fn register(
        self: &Arc<Self>,
        owner: &QuotaOwner,
        watch: Arc<ConnectionMonitor>,
    ) -> RegistryEntry {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        for _ in 0..MAX_SCANNED {
            let Some(key) = inner.open.next_displaced(owner) else { break };
            if inner.open.get(key).is_none_or(|watch| watch.is_idle()) {
                break;
            }
            inner.open.renew(key);
        }
        let displaced = inner.open.insert(number, owner, watch.clone());
        if displaced.is_err() {
            // The application has accepted it.
            inner.open.insert_over(number, owner, watch.clone());
        }
        let closing = inner.closing;
        drop(inner);
        if let Ok(Some((_, displaced))) = displaced {
            displaced.set_order(ShutdownOrder::Cut(ConnectionLimit::Displaced));
        }
        if let Some(order) = closing {
            watch.set_order(order);
        }
        RegistryEntry { registry: self.clone(), number }
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
    pub(super) fn retire_all(&self) {
        self.broadcast(ShutdownOrder::Retire);
    }

    /// All connections end now.
    pub(super) fn cut_all(&self) {
        self.broadcast(ShutdownOrder::Cut(ConnectionLimit::Closed));
    }

    fn broadcast(&self, order: ShutdownOrder) {
        let mut inner = self.inner();
        inner.closing = Some(order);
        let open: Vec<_> = inner.open.iter().map(|(_, watch)| watch.clone()).collect();
        drop(inner);
        for watch in open {
            watch.set_order(order);
        }
    }
}

/// A place in the registry, given up when this is dropped.
pub(super) struct RegistryEntry {
    registry: Arc<ConnectionRegistry>,
    number: u64,
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let mut inner = self.registry.inner();
        let watch = inner.open.remove(self.number);
        let waker = inner.waker.take();
        drop(inner);
        drop(watch);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
