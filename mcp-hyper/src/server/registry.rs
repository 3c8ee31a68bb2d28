//! The registry of a server's open connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::quota::{FairTable, QuotaOwner};

use super::error::ConnectionLimit;
use super::monitor::{ConnectionMonitor, ShutdownOrder};

/// Maximum number of connections scanned for one without a request, when one must make room. If each of them has one,
/// the oldest is closed.
const MAX_SCANNED: usize = 16;

/// The open connections, whether the server or the application accepted them.
pub(super) struct ConnectionRegistry {
    inner: Mutex<Inner>,
}

struct Inner {
    next: u64,
    open: FairTable<u64, Arc<ConnectionMonitor>>,
    closing: Option<ShutdownOrder>,
    /// The task that waits for a connection to end.
    waker: Option<Waker>,
}

impl ConnectionRegistry {
    /// A registry for at most `most` open connections.
    pub(super) fn new(most: usize) -> Self {
        let inner = Inner { next: 0, open: FairTable::new(most), closing: None, waker: None };
        Self { inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this owner can open a connection, if need be by displacing one of the owner that has most.
    pub(super) fn has_room(&self, owner: &QuotaOwner) -> bool {
        self.inner().open.has_room(owner)
    }

    /// Registers a connection, which may displace another one. If the server is closing, the connection is retired at
    /// once.
    pub(super) fn register(
        self: &Arc<Self>,
        owner: &QuotaOwner,
        monitor: Arc<ConnectionMonitor>,
    ) -> RegistryEntry {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        for _ in 0..MAX_SCANNED {
            let Some(key) = inner.open.next_displaced(owner) else { break };
            if inner.open.get(key).is_none_or(|monitor| monitor.is_idle()) {
                break;
            }
            inner.open.renew(key);
        }
        let displaced = inner.open.insert(number, owner, monitor.clone());
        if displaced.is_err() {
            // The application accepted this connection, so the limit cannot refuse it.
            inner.open.insert_over(number, owner, monitor.clone());
        }
        let closing = inner.closing;
        drop(inner);
        if let Ok(Some((_, displaced))) = displaced {
            displaced.set_order(ShutdownOrder::Cut(ConnectionLimit::Displaced));
        }
        if let Some(order) = closing {
            monitor.set_order(order);
        }
        RegistryEntry { registry: self.clone(), number }
    }

    /// Ready if fewer than `most` connections are open.
    pub(super) fn poll_fewer(&self, most: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner();
        if inner.open.len() < most {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives an order to all open connections, and to later ones at once.
    pub(super) fn shut_down(&self, order: ShutdownOrder) {
        let mut inner = self.inner();
        inner.closing = Some(order);
        let open: Vec<_> = inner.open.iter().map(|(_, monitor)| monitor.clone()).collect();
        drop(inner);
        for monitor in open {
            monitor.set_order(order);
        }
    }
}

/// A connection's entry in the registry; dropping it removes the entry.
pub(super) struct RegistryEntry {
    registry: Arc<ConnectionRegistry>,
    number: u64,
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let mut inner = self.registry.inner();
        let monitor = inner.open.remove(self.number);
        let waker = inner.waker.take();
        drop(inner);
        drop(monitor);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
