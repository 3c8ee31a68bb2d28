//! Requests held undispatched while the client leaves its answers unread.
//!
//! When a connection of its own (a stream or a channel) has more than
//! [`Limits::queued_bytes`](crate::Limits::queued_bytes) of unsent answers, it dispatches no further request: it holds
//! requests in the order of arrival. Responses, cancellations, progress and pings are handled at once. A held request
//! is dispatched when the client has taken enough answers.

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::peer::Outbox;
use crate::peer::event_queue::Pressure;
use crate::peer::inbound::BatchId;
use crate::prelude::*;
use crate::quota::OverBudgetError;
use crate::rpc::{ErrorObject, Id, Message, Notification, Raw, Request, Text};
use crate::schema::{Method, Ping};

use super::answer::internal_error;
use super::{Connection, Diagnostic, MessageCharge, Phase, Server, text_bytes};

/// The size charged for a held message beside its own bytes: its entries in both maps.
const OVERHEAD: usize = 256;
/// The number of bytes that may be held beyond the window: the rest of one read after the driver stops reading.
const SLACK: usize = 1024 * 1024;

/// The held messages of one connection.
#[derive(Debug)]
pub(super) struct Backlog {
    /// The maximum number of bytes held. `None` over HTTP, where each request is an exchange and none is held.
    window: Option<usize>,
    messages: OrderedMap<u64, QueuedMessage>,
    /// The requests among them, by their ids.
    ids: OrderedMap<Id, u64>,
    next: u64,
    bytes: usize,
    /// Whether the client must take answers before anything else is dispatched.
    pub(super) blocked: bool,
    /// Whether the client has taken enough since held messages were last released.
    has_resumed: bool,
}

#[derive(Debug)]
struct QueuedMessage {
    message: Message,
    batch: Option<BatchId>,
    bytes: usize,
    charge: MessageCharge,
}

impl Backlog {
    pub(super) const fn new(window: Option<usize>) -> Self {
        Self {
            window,
            messages: OrderedMap::new(),
            ids: OrderedMap::new(),
            next: 0,
            bytes: 0,
            blocked: false,
            has_resumed: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether the driver should stop reading until a message was dispatched.
    pub(super) fn is_full(&self) -> bool {
        self.window.is_some_and(|window| self.bytes >= window) && !self.is_empty()
    }

    pub(super) fn contains(&self, id: &Id) -> bool {
        self.ids.contains_key(id)
    }

    pub(super) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::new(self.window) };
    }

    /// Whether the driver goes on reading although the window is full.
    fn is_overflowing(&self) -> bool {
        let most = |window: usize| window.saturating_mul(2).max(window.saturating_add(SLACK));
        self.window.is_none_or(|window| self.bytes >= most(window))
    }

    /// Copies the message: a held message must not keep the whole read in memory.
    fn push(&mut self, message: Message, batch: Option<BatchId>, charge: MessageCharge) {
        let params = |params: &Option<Raw>| params.as_ref().map_or(0, |params| params.as_bytes().len());
        let (message, bytes) = match message {
            Message::Request(Request { id, method, params: given }) => {
                let id_bytes = text_bytes(&id).saturating_mul(2);
                let bytes = id_bytes.saturating_add(method.len()).saturating_add(params(&given));
                self.ids.insert(id.clone(), self.next);
                let params = given.as_ref().map(Raw::detached);
                (Message::Request(Request { id, method: Text::from(&*method), params }), bytes)
            }
            Message::Notification(Notification { method, params: given, deviation }) => {
                let bytes = method.len().saturating_add(params(&given));
                let params = given.as_ref().map(Raw::detached);
                let method = Text::from(&*method);
                (Message::Notification(Notification { method, params, deviation }), bytes)
            }
            // Responses are never held.
            Message::Response(_) => return,
        };
        let bytes = bytes.saturating_add(OVERHEAD);
        self.bytes = self.bytes.saturating_add(bytes);
        self.messages.insert(self.next, QueuedMessage { message, batch, bytes, charge });
        self.next = self.next.saturating_add(1);
    }

    fn pop(&mut self) -> Option<QueuedMessage> {
        let (number, first) = self.messages.pop_first()?;
        self.bytes = self.bytes.saturating_sub(first.bytes);
        if let Message::Request(request) = &first.message
            && self.ids.get(&request.id) == Some(&number)
        {
            self.ids.remove(&request.id);
        }
        Some(first)
    }

    fn remove(&mut self, id: &Id) -> Option<QueuedMessage> {
        let removed = self.messages.remove(&self.ids.remove(id)?)?;
        self.bytes = self.bytes.saturating_sub(removed.bytes);
        Some(removed)
    }
}

impl Server {
    /// The number of messages held undispatched because the client leaves too many answers unread. Always 0 over HTTP.
    pub fn backlog_len(&self) -> usize {
        self.connection.backlog.messages.len()
    }

    /// Dispatches an arriving request, or holds it behind those that are held already.
    pub(super) fn receive_request(&mut self, request: Request, batch: Option<BatchId>, out: &mut dyn Outbox) {
        let Connection { backlog, is_over_budget, charge, .. } = &*self.connection;
        let held_elsewhere = backlog.window.is_none() || !matches!(self.phase, Phase::Open);
        let is_duplicate = || self.inbound.find(&request.id).is_some() || backlog.contains(&request.id);
        //= S1.20 "ping answered promptly"
        let refused = if request.method == *Ping::NAME || is_duplicate() {
            None
        } else if *is_over_budget {
            Some(OverBudgetError.to_string())
        } else if held_elsewhere || (backlog.is_empty() && !self.is_congested(out)) {
            None
        } else if backlog.is_overflowing() {
            Some("the server is overloaded".into())
        } else {
            let charge = charge.clone();
            return self.connection.backlog.push(Message::Request(request), batch, charge);
        };
        let Some(what) = refused else { return self.handle_request(request, batch, out) };
        let error = internal_error(what);
        self.reply_error(Some(&request.id), batch, &error, out);
        if !self.is_closed() {
            self.diagnose(Diagnostic::Refused { method: request.method, error });
        }
    }

    /// Holds a notification behind held requests; returns it if there are none.
    pub(super) fn queue_notification(&mut self, notification: Notification) -> Option<Notification> {
        let Connection { backlog, is_over_budget, .. } = &*self.connection;
        let has_room = !backlog.is_overflowing() && !is_over_budget;
        if backlog.is_empty() || !has_room || !matches!(self.phase, Phase::Open) {
            return Some(notification);
        }
        let Connection { backlog, charge, .. } = &mut *self.connection;
        backlog.push(Message::Notification(notification), None, charge.clone());
        None
    }

    /// Removes a held request that the client has cancelled.
    pub(super) fn cancel_queued(&mut self, id: &Id, out: &mut dyn Outbox) {
        let held = self.connection.used_mut().and_then(|connection| connection.backlog.remove(id));
        self.close_batch(held.and_then(|held| held.batch), out);
    }

    /// Dispatches held messages while the client takes its answers and the application its events. Does nothing if none
    /// are held.
    pub(crate) fn release(&mut self, now: Instant, out: &mut dyn Outbox) {
        let Some(connection) = self.connection.used_mut() else { return self.advance_close() };
        let mut waited = core::mem::take(&mut connection.backlog.has_resumed);
        while self.can_release() && !self.is_closed() && !self.is_congested(out) {
            let Some(held) = self.connection.backlog.pop() else { break };
            waited = true;
            match held.message {
                Message::Request(request) => {
                    self.connection.charge = held.charge;
                    self.handle_request(request, held.batch, out);
                    self.connection.charge = None;
                }
                Message::Notification(notification) => {
                    self.handle_notification(now, notification.method, notification.params, out);
                }
                Message::Response(_) => {}
            }
        }
        let is_blocked = self.is_congested(out);
        self.connection.backlog.blocked = is_blocked;
        // The time that the client takes to read does not count against the application.
        if (waited || is_blocked)
            && let Phase::Finishing { until, serves_backlog: true } = &mut self.phase
        {
            *until = now + self.config.close_timeout;
        }
        self.advance_close();
    }

    /// Notes that the transport has taken answers; `queued` bytes are left. Held messages may then be due at once.
    pub(super) fn note_transmitted(&mut self, queued: usize) {
        if self.connection.backlog.blocked && queued <= self.config.limits.queued_bytes {
            let backlog = &mut self.connection.backlog;
            (backlog.blocked, backlog.has_resumed) = (false, true);
        }
    }

    /// Whether the next held message could be dispatched if the client took its answers.
    fn can_release(&self) -> bool {
        !self.connection.backlog.is_empty()
            && self.events.pressure(0) == Pressure::None
            && self.unanswered() < self.config.limits.requests_in.max(1)
    }

    /// Whether held messages can be dispatched now.
    pub(super) fn is_release_due(&self) -> bool {
        self.can_release() && !self.connection.backlog.blocked
    }

    /// Whether the client leaves so much unread that no further request is dispatched.
    fn is_congested(&self, out: &dyn Outbox) -> bool {
        self.connection.backlog.window.is_some() && out.queued() > self.config.limits.queued_bytes
    }

    /// Answers every held request with an error, because no time is left to dispatch them.
    pub(super) fn refuse_queued(&mut self, error: &ErrorObject, out: &mut dyn Outbox) {
        while !self.is_closed()
            && let Some(held) = self.connection.used_mut().and_then(|connection| connection.backlog.pop())
        {
            if let Message::Request(request) = held.message {
                self.reply_error(Some(&request.id), held.batch, error, out);
            }
        }
    }
}
