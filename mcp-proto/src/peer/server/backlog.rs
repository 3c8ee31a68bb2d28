//! Requests held undispatched while the client leaves its answers unread.
//!
//! When a connection of its own (a stream or a channel) has more than
//! [`Limits::queued_bytes`](crate::Limits::queued_bytes) of unsent answers, it dispatches no further request: it holds
//! requests in the order of arrival. Responses, cancellations, progress and pings are handled at once. A held request
//! is dispatched when the client has taken enough answers.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};

use crate::Instant;
use crate::peer::Outbox;
use crate::peer::batch::BatchId;
use crate::peer::event_queue::Pressure;
use crate::quota::OverBudgetError;
use crate::rpc::{ErrorObject, Id, Message, Notification, Raw, Request};
use crate::schema::{Method, Ping};

use super::{Diagnostic, MessageCharge, Phase, Server, internal_error};

/// The size charged for a held message beside its own bytes: its entries in both maps.
const OVERHEAD: usize = 256;
/// The number of bytes that may be held beyond the window: the rest of one read after the driver stops reading.
const SLACK: usize = 1024 * 1024;

/// The held messages of one connection. `None` over HTTP, where each request is an exchange and none is held.
#[derive(Debug, Default)]
pub(super) struct Backlog(Option<Box<HeldMessages>>);

#[derive(Debug, Default)]
struct HeldMessages {
    /// The maximum number of bytes held.
    window: usize,
    messages: BTreeMap<u64, QueuedMessage>,
    /// The requests among them, by their ids.
    ids: BTreeMap<Id, u64>,
    next: u64,
    bytes: usize,
    /// Whether the client must take answers before anything else is dispatched.
    blocked: bool,
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

/// How an arriving request is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrivalAction {
    Dispatch,
    Queue,
    Refuse,
    /// The byte budget has no room for its message.
    RefuseOverBudget,
}

impl Backlog {
    pub(super) fn new(window: usize) -> Self {
        Self(Some(Box::new(HeldMessages { window, ..HeldMessages::default() })))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.messages.len())
    }

    /// Whether the driver should stop reading until a message was dispatched.
    pub(super) fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.bytes >= held.window && !held.messages.is_empty())
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.blocked)
    }

    pub(super) fn contains(&self, id: &Id) -> bool {
        self.0.as_ref().is_some_and(|held| held.ids.contains_key(id))
    }

    pub(super) fn clear(&mut self) {
        if let Some(held) = &mut self.0 {
            **held = HeldMessages { window: held.window, next: held.next, ..HeldMessages::default() };
        }
    }

    /// Whether the driver goes on reading although the window is full.
    fn is_overflowing(&self) -> bool {
        self.0.as_ref().is_none_or(|held| {
            held.bytes >= held.window.saturating_mul(2).max(held.window.saturating_add(SLACK))
        })
    }

    /// Copies the message: a held message must not keep the whole read in memory.
    fn push(&mut self, message: Message, batch: Option<BatchId>, charge: MessageCharge) {
        let Some(held) = &mut self.0 else { return };
        let params = |params: &Option<Raw>| params.as_ref().map_or(0, |params| params.as_bytes().len());
        let (message, bytes) = match message {
            Message::Request(Request { id, method, params: given }) => {
                let id_bytes = match &id {
                    Id::Number(_) => 0,
                    Id::String(text) => text.len().saturating_mul(2),
                };
                let bytes = id_bytes.saturating_add(method.len()).saturating_add(params(&given));
                held.ids.insert(id.clone(), held.next);
                let params = given.as_ref().map(Raw::detached);
                (Message::Request(Request { id, method: method.detached(), params }), bytes)
            }
            Message::Notification(Notification { method, params: given, deviation }) => {
                let bytes = method.len().saturating_add(params(&given));
                let params = given.as_ref().map(Raw::detached);
                let method = method.detached();
                (Message::Notification(Notification { method, params, deviation }), bytes)
            }
            // Responses are never held.
            Message::Response(_) => return,
        };
        let bytes = bytes.saturating_add(OVERHEAD);
        held.bytes = held.bytes.saturating_add(bytes);
        held.messages.insert(held.next, QueuedMessage { message, batch, bytes, charge });
        held.next = held.next.saturating_add(1);
    }

    fn pop(&mut self) -> Option<QueuedMessage> {
        let held = self.0.as_deref_mut()?;
        let (number, first) = held.messages.pop_first()?;
        held.bytes = held.bytes.saturating_sub(first.bytes);
        if let Message::Request(request) = &first.message
            && held.ids.get(&request.id) == Some(&number)
        {
            held.ids.remove(&request.id);
        }
        Some(first)
    }

    fn remove(&mut self, id: &Id) -> Option<QueuedMessage> {
        let held = self.0.as_deref_mut()?;
        let removed = held.messages.remove(&held.ids.remove(id)?)?;
        held.bytes = held.bytes.saturating_sub(removed.bytes);
        Some(removed)
    }
}

impl Server {
    /// The number of messages held undispatched because the client leaves too many answers unread. Always 0 over HTTP.
    pub fn backlog_len(&self) -> usize {
        self.backlog.len()
    }

    /// Dispatches an arriving request, or holds it behind those that are held already.
    pub(super) fn receive_request(&mut self, request: Request, batch: Option<BatchId>, out: &mut dyn Outbox) {
        match self.arrival_action(&request, out) {
            ArrivalAction::Dispatch => self.handle_request(request, None, batch, out),
            ArrivalAction::Queue => {
                self.backlog.push(Message::Request(request), batch, self.charge.clone());
            }
            ArrivalAction::Refuse => {
                self.refuse_arrival(request, batch, "the server is overloaded".into(), out)
            }
            ArrivalAction::RefuseOverBudget => {
                self.refuse_arrival(request, batch, OverBudgetError.to_string(), out);
            }
        }
    }

    fn refuse_arrival(
        &mut self,
        request: Request,
        batch: Option<BatchId>,
        what: String,
        out: &mut dyn Outbox,
    ) {
        let error = internal_error(what);
        self.reply_error(Some(&request.id), batch, &error, out);
        if !self.is_closed() {
            self.diagnose(Diagnostic::Refused { method: request.method, error });
        }
    }

    /// Holds a notification behind held requests; returns it if there are none.
    pub(super) fn queue_notification(&mut self, notification: Notification) -> Option<Notification> {
        let has_room = !self.backlog.is_overflowing() && !self.is_over_budget;
        if self.backlog.is_empty() || !has_room || !matches!(self.phase, Phase::Open) {
            return Some(notification);
        }
        self.backlog.push(Message::Notification(notification), None, self.charge.clone());
        None
    }

    fn arrival_action(&self, request: &Request, out: &dyn Outbox) -> ArrivalAction {
        let held_elsewhere = self.backlog.0.is_none() || !matches!(self.phase, Phase::Open);
        let is_duplicate = || self.inbound.find(&request.id).is_some() || self.backlog.contains(&request.id);
        //= S1.20 "ping answered promptly"
        if request.method == *Ping::NAME || is_duplicate() {
            return ArrivalAction::Dispatch;
        }
        if self.is_over_budget {
            return ArrivalAction::RefuseOverBudget;
        }
        if held_elsewhere || (self.backlog.is_empty() && !self.is_congested(out)) {
            return ArrivalAction::Dispatch;
        }
        if self.backlog.is_overflowing() { ArrivalAction::Refuse } else { ArrivalAction::Queue }
    }

    /// Removes a held request that the client has cancelled. Returns whether there was one.
    pub(super) fn cancel_queued(&mut self, id: &Id, out: &mut dyn Outbox) -> bool {
        let Some(held) = self.backlog.remove(id) else { return false };
        if let Some(batch) = held.batch {
            self.close_batch(batch, out);
        }
        true
    }

    /// Dispatches held messages while the client takes its answers and the application its events. Does nothing if none
    /// are held.
    pub(crate) fn release(&mut self, now: Instant, out: &mut dyn Outbox) {
        let mut waited = self.backlog.0.as_mut().is_some_and(|held| core::mem::take(&mut held.has_resumed));
        while self.can_release() && !self.is_closed() && !self.is_congested(out) {
            let Some(held) = self.backlog.pop() else { break };
            waited = true;
            match held.message {
                Message::Request(request) => {
                    self.charge = held.charge;
                    self.handle_request(request, None, held.batch, out);
                    self.charge = None;
                }
                Message::Notification(notification) => {
                    self.handle_notification(now, notification.method, notification.params, out);
                }
                Message::Response(_) => {}
            }
        }
        let is_blocked = self.is_congested(out);
        if let Some(held) = &mut self.backlog.0 {
            held.blocked = is_blocked;
        }
        // The time that the client takes to read does not count against the application.
        if (waited || is_blocked)
            && let Phase::Finishing { until, serves_backlog: true } = &mut self.phase
        {
            *until = now + self.config.close_timeout;
        }
        self.advance_close();
    }

    /// Notes that the transport has taken answers; `queued` bytes are left. Held messages may then be due at once.
    pub fn handle_transmitted(&mut self, queued: usize) {
        if let Some(held) = &mut self.backlog.0
            && held.blocked
            && queued <= self.config.limits.queued_bytes
        {
            held.blocked = false;
            held.has_resumed = true;
        }
    }

    /// Whether the next held message could be dispatched if the client took its answers.
    fn can_release(&self) -> bool {
        !self.backlog.is_empty()
            && self.events.pressure(0) == Pressure::None
            && self.unanswered() < self.config.limits.requests_in.max(1)
    }

    /// Whether held messages can be dispatched now.
    pub(super) fn is_release_due(&self) -> bool {
        self.can_release() && !self.backlog.is_blocked()
    }

    /// Whether the client leaves so much unread that no further request is dispatched.
    fn is_congested(&self, out: &dyn Outbox) -> bool {
        self.backlog.0.is_some() && out.queued() > self.config.limits.queued_bytes
    }

    /// Answers every held request with an error, because no time is left to dispatch them.
    pub(super) fn refuse_queued(&mut self, error: &ErrorObject, out: &mut dyn Outbox) {
        while !self.is_closed()
            && let Some(held) = self.backlog.pop()
        {
            if let Message::Request(request) = held.message {
                self.reply_error(Some(&request.id), held.batch, error, out);
            }
        }
    }
}
