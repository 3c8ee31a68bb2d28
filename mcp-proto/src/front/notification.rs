//! Notifications of the peer, and those that wait for their handlers.

use alloc::borrow::Cow;

use super::Error;
use super::events::Queue;
use crate::ordered_set::OrderedSet;
use crate::rpc::{Raw, Text};
use crate::schema::{self, Params as _};

/// A notification of the peer, with undecoded parameters.
///
/// ```
/// use mcp_proto::front::Notification;
/// use mcp_proto::schema::{ResourceUpdated, ToolListChanged};
///
/// fn handle(notification: &Notification) {
///     if notification.is::<ToolListChanged>() {
///         println!("list the tools again");
///     } else if let Some(Ok(updated)) = notification.decode::<ResourceUpdated>() {
///         println!("read {} again", updated.uri);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Its method.
    pub method: Text,
    /// Its parameters, not decoded.
    pub params: Option<Raw>,
}

impl Notification {
    /// Whether its method is that of `N`.
    pub fn is<N: schema::Notification>(&self) -> bool {
        self.method == *N::NAME
    }

    /// Decodes its parameters, if its method is that of `N`.
    ///
    /// # Errors
    /// If the parameters do not match `N`.
    pub fn decode<N: schema::Notification>(&self) -> Option<Result<N::Params, Error>> {
        if !self.is::<N>() {
            return None;
        }
        let empty = || Raw::new("{}");
        let raw = match self.params.clone().map_or_else(empty, Ok) {
            Ok(raw) => raw,
            Err(_) => return None,
        };
        Some(N::Params::from_raw(&raw).map_err(|error| Error::Decode {
            method: N::NAME,
            error,
            raw: raw.clone(),
        }))
    }

    /// The approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let params = self.params.as_ref().map_or(0, |params| params.as_bytes().len());
        self.method.len().saturating_add(params)
    }

    /// Copies slices of the input into separate memory.
    pub(crate) fn make_owned(&mut self) {
        self.method = Text::from(&*self.method);
        self.params = self.params.as_ref().map(Raw::detached);
    }
}

/// The maximum number of notifications of a connection that wait for their handlers.
const MAX_WAITING: usize = 256;
/// The maximum number of bytes of them, unless one alone is longer.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// Whether a revision of the protocol defines a notification of this name.
pub(super) fn is_defined(name: &str) -> bool {
    schema::NotificationInfo::all().any(|info| info.name == name)
}

/// The notifications that wait for their handlers, which run one at a time in the order of arrival; `T` is what their
/// context needs.
pub(crate) struct NotificationQueue<T> {
    names: OrderedSet<Cow<'static, str>>,
    /// Whether names that the protocol does not define have a handler too.
    others: bool,
    waiting: Queue<(Notification, T)>,
    is_running: bool,
}

impl<T> NotificationQueue<T> {
    pub(super) fn new(names: OrderedSet<Cow<'static, str>>, others: bool) -> Self {
        let waiting = Queue::new(MAX_WAITING, MAX_WAITING_BYTES);
        Self { names, others, waiting, is_running: false }
    }

    /// Queues a notification, if it has a handler. Returns the number of notifications that were dropped for it.
    pub(super) fn push(&mut self, notification: &Notification, context: impl FnOnce() -> T) -> Option<u64> {
        let name = &*notification.method;
        if !(self.names.contains(name) || (self.others && !is_defined(name))) {
            return None;
        }
        let mut notification = notification.clone();
        if self.waiting.wants_copies() {
            notification.make_owned();
        }
        let bytes = notification.bytes();
        self.waiting.push((notification, context()), bytes);
        self.waiting.take_missed()
    }

    /// Whether a handler can start.
    pub(super) fn is_ready(&self) -> bool {
        !(self.is_running || self.waiting.is_empty())
    }

    /// Whether no notification waits and no handler is running.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(super) fn is_idle(&self) -> bool {
        !self.is_running && self.waiting.is_empty()
    }

    /// Takes the next notification for its handler, unless one is running.
    pub(super) fn begin(&mut self) -> Option<(Notification, T)> {
        if self.is_running {
            return None;
        }
        let next = self.waiting.pop();
        self.is_running = next.is_some();
        next
    }

    /// Notes that the handler has finished.
    pub(super) fn finish(&mut self) {
        self.is_running = false;
    }
}
