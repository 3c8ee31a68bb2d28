//! The servers that publish the changed lists of a live router.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use std::sync::Mutex;

use crate::front::signal::lock;
use crate::peer::server::ListKind;

/// A server that notifies its clients of changed lists.
pub(crate) trait ListListener: Send + Sync {
    fn list_changed(&self, list: ListKind);
}

/// The servers of a live router.
#[derive(Default)]
pub(super) struct ListListeners(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    listeners: BTreeMap<u64, Weak<dyn ListListener>>,
    next: u64,
}

impl ListListeners {
    /// Adds a server until the returned value is dropped.
    pub(super) fn add(self: &Arc<Self>, listener: Weak<dyn ListListener>) -> ListenerGuard {
        let mut entries = lock(&self.0);
        let key = entries.next;
        entries.next = key.saturating_add(1);
        entries.listeners.insert(key, listener);
        ListenerGuard { listeners: self.clone(), key }
    }

    /// Notifies all servers, outside the lock.
    pub(super) fn publish(&self, lists: &[ListKind]) {
        if lists.is_empty() {
            return;
        }
        let listeners: Vec<_> = lock(&self.0).listeners.values().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            for list in lists {
                listener.list_changed(*list);
            }
        }
    }
}

/// The registration of a server with its live router.
pub(crate) struct ListenerGuard {
    listeners: Arc<ListListeners>,
    key: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let removed = lock(&self.listeners.0).listeners.remove(&self.key);
        drop(removed);
    }
}
