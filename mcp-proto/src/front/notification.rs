//! Notifications of the peer, their handlers, and the notifications that wait for them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use super::events::Queue;
use super::params::decode_as;
use super::reply::Reply;
use super::{Error, HandlerMode};
use crate::rpc::{Raw, Text};
use crate::schema;
use crate::schema::{EmptyResult, Params as _};

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
        Some(N::Params::from_json(raw.as_str()).map_err(|error| Error::Decode {
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

/// The handlers of notifications, by name; `C` is their context.
pub(super) struct NotificationHandlers<M: HandlerMode, C: 'static> {
    by_name: BTreeMap<Cow<'static, str>, M::Handler<Notification, C>>,
    fallback: Option<M::Handler<Notification, C>>,
}

impl<M: HandlerMode, C: 'static> Clone for NotificationHandlers<M, C> {
    fn clone(&self) -> Self {
        Self { by_name: self.by_name.clone(), fallback: self.fallback.clone() }
    }
}

impl<M: HandlerMode, C: 'static> NotificationHandlers<M, C> {
    pub(super) fn new() -> Self {
        Self { by_name: BTreeMap::new(), fallback: None }
    }

    /// Whether the same notifications have handlers.
    pub(super) fn handles_same(&self, other: &Self) -> bool {
        self.fallback.is_some() == other.fallback.is_some() && self.by_name.keys().eq(other.by_name.keys())
    }

    pub(super) fn insert(&mut self, name: Cow<'static, str>, handler: M::Handler<Notification, C>) {
        self.by_name.insert(name, handler);
    }

    pub(super) fn set_fallback(&mut self, handler: M::Handler<Notification, C>) {
        self.fallback = Some(handler);
    }

    /// Starts the handler of a notification, if there is one.
    pub(super) fn start(&self, notification: Notification, context: C) -> Option<M::HandlerFuture> {
        let handler = self.by_name.get(&*notification.method).or(self.fallback_of(&notification))?;
        Some(handler(notification, context))
    }

    /// The fallback, for a notification that the protocol does not define.
    fn fallback_of(&self, notification: &Notification) -> Option<&M::Handler<Notification, C>> {
        self.fallback.as_ref().filter(|_| !is_defined(&notification.method))
    }

    /// Creates the queue of the notifications that have handlers; `None` if there are no handlers.
    pub(super) fn queue<T>(&self) -> Option<Box<NotificationQueue<T>>> {
        if self.by_name.is_empty() && self.fallback.is_none() {
            return None;
        }
        Some(Box::new(NotificationQueue {
            names: self.by_name.keys().cloned().collect(),
            others: self.fallback.is_some(),
            waiting: Queue::with_limits(MAX_WAITING, MAX_WAITING_BYTES),
            is_running: false,
        }))
    }
}

/// Decodes the parameters of a notification for its handler; absent parameters count as an empty object.
pub(super) fn decode_notification<P: schema::Params, C>(
    notification: Notification,
    _: &C,
) -> Result<(P, ()), Reply> {
    let params = decode_as(&notification.method, notification.params).map_err(Reply::Error)?;
    Ok((params, ()))
}

/// The reply of a notification's handler, which is dropped: notifications get no answer.
pub(super) fn no_reply() -> Reply {
    Reply::result(EmptyResult::new())
}

/// Whether a revision of the protocol defines a notification of this name.
fn is_defined(name: &str) -> bool {
    schema::NotificationInfo::all().any(|info| info.name == name)
}

/// The notifications that wait for their handlers, which run one at a time in the order of arrival; `T` is what their
/// context needs.
pub(super) struct NotificationQueue<T> {
    names: BTreeSet<Cow<'static, str>>,
    /// Whether names that the protocol does not define have a handler too.
    others: bool,
    waiting: Queue<(Notification, T)>,
    is_running: bool,
}

impl<T> NotificationQueue<T> {
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
