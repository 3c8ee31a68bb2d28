//! The events of a host.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_lite::Stream;
use mcp_proto::host::consent::ApprovalRequest;
use mcp_proto::host::control::{Failure, Status};
use mcp_proto::host::tools::{Collision, ItemKind, PinChange, RejectedItem};

use super::shared::Shared;

/// An event of a host. No event has a secret in it, unless a server writes one into its standard error or its lists.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HostEvent {
    /// The startup gate has passed: the application goes on with the servers that are connected. See
    /// [`Host::wait_for_gate`](super::Host::wait_for_gate).
    GatePassed,
    /// The status of a server has changed.
    Status {
        /// Its name.
        server: Arc<str>,
        /// Its status; `None` if it was removed from the configuration.
        status: Option<Status>,
        /// Why it is not connected.
        failure: Option<Arc<Failure>>,
    },
    /// A project's server waits for the user's approval: see [`Host::approve`](super::Host::approve).
    ApprovalNeeded {
        /// Its name.
        server: Arc<str>,
        /// What to show to the user.
        request: Arc<ApprovalRequest>,
    },
    /// A list of a server has changed.
    CatalogueChanged {
        /// Its name.
        server: Arc<str>,
        /// The kind of the changed items.
        kind: ItemKind,
    },
    /// Definitions of a server differ from those that were approved. Those of a project's server are hidden until
    /// [`Host::approve_changes`](super::Host::approve_changes).
    PinsChanged {
        /// Its name.
        server: Arc<str>,
        /// The changes.
        changes: Arc<[PinChange]>,
    },
    /// Two items have the same name for a model, and both are hidden.
    Collision(Arc<Collision>),
    /// A server has items that are left out.
    Rejected {
        /// Its name.
        server: Arc<str>,
        /// The first of them.
        items: Arc<[RejectedItem]>,
        /// How many there are.
        count: usize,
    },
    /// A call has ended.
    CallEnded {
        /// The server.
        server: Arc<str>,
        /// The method, such as `tools/call`.
        method: &'static str,
        /// The tool or prompt by the server's name of it, or the URI of the resource.
        item: Option<Arc<str>>,
        /// The time since the call was made, the wait for the server included.
        latency: Duration,
        /// How it ended.
        end: CallEnd,
    },
    /// Stored values could not be read or written.
    StorageFailed {
        /// The error.
        error: Arc<str>,
    },
    /// This listener lost so many events, because it did not take them in time.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// The host has closed. This is the last event.
    Closed,
}

/// How a call ended, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEnd {
    /// With a result.
    Answered,
    /// With a result that reports a failure of the tool.
    ToolFailed,
    /// Its caller cancelled it.
    Cancelled {
        /// In which phase.
        phase: CallPhase,
    },
    /// With an error.
    Failed {
        /// In which phase.
        phase: CallPhase,
        /// The error, in words, at most 4 KiB.
        error: Arc<str>,
    },
}

/// The phase of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallPhase {
    /// It waited for its server.
    Waiting,
    /// It was sent.
    Sent,
}

impl HostEvent {
    /// The approximate size in bytes of what servers supplied.
    fn bytes(&self) -> usize {
        match self {
            Self::Status { failure: Some(failure), .. } => {
                failure.reason.len().saturating_add(failure.stderr.len())
            }
            Self::PinsChanged { changes, .. } => {
                changes.iter().map(|change| change.item.len().saturating_add(256)).sum()
            }
            Self::Rejected { items, .. } => items.len().saturating_mul(512),
            Self::CallEnded { item, end: CallEnd::Failed { error, .. }, .. } => {
                item.as_deref().map_or(0, str::len).saturating_add(error.len())
            }
            Self::CallEnded { item: Some(item), .. } => item.len(),
            Self::Collision(collision) => collision.items.iter().map(|(a, b)| a.len() + b.len()).sum(),
            _ => 0,
        }
    }
}

/// Most events of a queue.
const MAX_EVENTS: usize = 1024;
/// Most bytes of a queue that servers supplied.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The listeners, each with its own queue.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    next: u64,
    queues: BTreeMap<u64, Queue>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<HostEvent>,
    bytes: usize,
    missed: u64,
    waker: Option<Waker>,
}

impl Queue {
    fn push(&mut self, event: HostEvent) {
        self.bytes = self.bytes.saturating_add(event.bytes());
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || (self.bytes > MAX_BYTES && self.events.len() > 1) {
            self.pop();
            self.missed = self.missed.saturating_add(1);
        }
    }

    fn pop(&mut self) -> Option<HostEvent> {
        let event = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(event.bytes());
        Some(event)
    }
}

impl Listeners {
    pub(super) fn add(&mut self) -> u64 {
        let key = self.next;
        self.next = key.saturating_add(1);
        let mut queue = Queue::default();
        if self.is_closed {
            queue.push(HostEvent::Closed);
        }
        self.queues.insert(key, queue);
        key
    }

    pub(super) fn publish(&mut self, event: &HostEvent, wakes: &mut Vec<Waker>) {
        self.is_closed |= matches!(event, HostEvent::Closed);
        for queue in self.queues.values_mut() {
            queue.push(event.clone());
            wakes.extend(queue.waker.take());
        }
    }

    fn poll(&mut self, key: u64, cx: &Context<'_>) -> Poll<Option<HostEvent>> {
        let Some(queue) = self.queues.get_mut(&key) else { return Poll::Ready(None) };
        if queue.missed > 0 {
            let count = std::mem::take(&mut queue.missed);
            return Poll::Ready(Some(HostEvent::Missed { count }));
        }
        if let Some(event) = queue.pop() {
            return Poll::Ready(Some(event));
        }
        if self.is_closed {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A stream of events of a host. It does not keep the host open.
///
/// At most 1,024 events are queued, and 4 MiB of what servers wrote; then [`HostEvent::Missed`] counts the oldest, which
/// were dropped.
#[must_use = "streams do nothing unless polled"]
pub struct HostEvents {
    shared: Arc<Shared>,
    key: u64,
}

impl HostEvents {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let key = shared.with(|state, _| state.listeners.add());
        Self { shared, key }
    }

    /// The next event; `None` after [`HostEvent::Closed`].
    pub async fn next(&mut self) -> Option<HostEvent> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<HostEvent>> {
        self.shared.with(|state, _| state.listeners.poll(self.key, cx))
    }
}

impl Stream for HostEvents {
    type Item = HostEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HostEvent>> {
        self.poll(cx)
    }
}

impl Drop for HostEvents {
    fn drop(&mut self) {
        self.shared.with(|state, _| _ = state.listeners.queues.remove(&self.key));
    }
}

impl fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostEvents")
    }
}
