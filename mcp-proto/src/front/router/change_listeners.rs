//! The servers that publish the changes of a live router.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use std::sync::Mutex;

use crate::front::signal::lock;
use crate::peer::server::ListKind;

/// A server that notifies its clients of changes.
pub(crate) trait ChangeListener: Send + Sync {
    fn list_changed(&self, list: ListKind);

    fn resource_updated(&self, uri: &str);
}

/// The servers of a live router.
#[derive(Default)]
pub(super) struct ChangeListeners(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    listeners: BTreeMap<u64, Weak<dyn ChangeListener>>,
    next: u64,
}

impl ChangeListeners {
    /// Adds a server until the returned value is dropped.
    pub(super) fn add(self: &Arc<Self>, listener: Weak<dyn ChangeListener>) -> ListenerGuard {
        let mut entries = lock(&self.0);
        let key = entries.next;
        entries.next = key.saturating_add(1);
        entries.listeners.insert(key, listener);
        ListenerGuard { listeners: self.clone(), key }
    }

    /// Notifies all servers, outside the lock.
    pub(super) fn publish(&self, publish: impl Fn(&dyn ChangeListener)) {
        let listeners: Vec<_> = lock(&self.0).listeners.values().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            publish(&*listener);
        }
    }
}

/// The registration of a server with its live router.
pub(crate) struct ListenerGuard {
    listeners: Arc<ChangeListeners>,
    key: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let removed = lock(&self.listeners.0).listeners.remove(&self.key);
        drop(removed);
    }
}
