//! Answers that the transport matches to requests by their exchange.
//!
//! Where each request has an exchange of its own, an answer belongs to the request of its exchange, whatever its id.
//! Requests are identified by their number here; their id on the wire changes when they are sent again.

use core::time::Duration;

use crate::Instant;
use crate::peer::{
    Carriage, LostReason, Outbox, Outcome, RequestError, RequestId, RequestRecord as _, WireId,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{ListTools, ListToolsParams, Method as _};

use super::request_record::{ClientRequest, RequestOwner};
use super::{Client, Event};

impl Client {
    // --- Carriages ---

    /// A request in flight.
    pub(crate) fn sent_request(&self, id: RequestId) -> Option<&ClientRequest> {
        self.requests.get(id).filter(|request| request.is_sent())
    }

    pub(crate) fn carriage(&self, id: RequestId) -> Option<&Carriage> {
        self.requests.get(id)?.carriage.as_deref()
    }

    /// A carriage, whose state and slot the caller does not change.
    pub(crate) fn carriage_mut(&mut self, id: RequestId) -> Option<&mut Carriage> {
        self.requests.get_mut(id)?.carriage.as_deref_mut()
    }

    /// Changes a carriage.
    pub(crate) fn update_carriage(&mut self, id: RequestId, act: impl FnOnce(&mut Carriage)) {
        self.requests.update(id, |request| request.carriage.as_deref_mut().map(act));
    }

    /// The numbers of the requests whose carriages match.
    pub(crate) fn carried(&self, matches: impl Fn(&Carriage) -> bool) -> Vec<RequestId> {
        let is_match = |request: &ClientRequest| request.carriage.as_deref().is_some_and(&matches);
        self.requests.iter().filter(|(_, request)| is_match(request)).map(|(id, _)| id).collect()
    }

    /// The next request that waits for an exchange, where `most` of them may have a slot.
    pub(crate) fn next_waiting(&self, most: usize) -> Option<RequestId> {
        self.requests.next_waiting(most)
    }

    /// The numbers of the requests whose delay is over.
    pub(crate) fn resumable(&self, now: Instant) -> Vec<RequestId> {
        let due = |id: &RequestId| self.carriage(*id).and_then(Carriage::due);
        self.requests.due(now).filter(|id| due(id).is_some_and(|due| due <= now)).collect()
    }

    /// The size in bytes of the requests that are not sent yet.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.requests.queued_bytes()
    }

    // --- Ids ---

    /// The id on the wire of a request in flight; it changes with each input round.
    pub(crate) fn wire_id(&self, id: RequestId) -> Option<i64> {
        Some(self.sent_request(id)?.wire_id(id).0)
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn number_for_wire(&self, wire: i64) -> RequestId {
        self.requests.find(WireId(wire))
    }

    /// Assigns a new id on the wire to a request that is sent again, and returns it.
    pub(crate) fn renumber(&mut self, id: RequestId) -> i64 {
        let wire = self.requests.mint().number();
        self.requests.update(id, |request| request.wire = Some(WireId(wire)));
        wire
    }

    // --- Outcomes ---

    /// The outcome of a request whose last attempt could not be sent.
    ///
    /// It is unsent unless the server has received it before: an earlier attempt or input round has another id, and a poll
    /// of a task concerns a call that was sent.
    pub(crate) fn unsent_outcome(&self, id: RequestId, detail: &str) -> Outcome {
        if self.sent_request(id).is_some_and(ClientRequest::is_first_attempt) {
            Outcome::Refused(RequestError::Connect(detail.into()))
        } else {
            Outcome::Lost(LostReason::Disconnected(detail.into()))
        }
    }

    /// Ends a request that the transport has sent: with its answer, or with an outcome without one. Its carriage ends in
    /// any case. One that has become a task was answered already; a ping without an answer counts as missed only at its deadline.
    pub(crate) fn end_sent(
        &mut self,
        now: Instant,
        id: RequestId,
        end: Result<Result<Raw, ErrorObject>, Outcome>,
        out: &mut dyn Outbox,
    ) {
        let is_over = |request: &ClientRequest| end.is_ok() || request.owner != RequestOwner::Ping;
        if !self.sent_request(id).is_some_and(is_over) {
            self.requests.update(id, |request| request.carriage = None);
            return;
        }
        let Some(mut removed) = self.take(id) else { return };
        removed.request.carriage = None;
        match end {
            Ok(answer) => self.answer(now, removed, answer, out),
            Err(outcome) => self.resolve(removed, outcome),
        }
        self.advance_tasks(now, out);
        self.advance_close(now);
    }

    /// Sends the transport's own request for a page of tools. The transport handles its answer.
    pub(crate) fn list_tools(
        &mut self,
        now: Instant,
        params: &ListToolsParams,
        out: &mut dyn Outbox,
    ) -> Option<RequestId> {
        self.own_request(now, RequestOwner::ToolListing, ListTools::INFO, params, Duration::MAX, out)
    }

    /// Queues an event of the transport with `bytes` of server-supplied content; drops it if the queue is full.
    pub(crate) fn push_event(&mut self, event: Event, bytes: usize) {
        self.events.push_or_drop(event, bytes);
    }

    // --- Deadlines ---

    /// The deadline of a request, if it has one.
    pub(crate) fn deadline_of(&self, id: RequestId) -> Option<Instant> {
        self.requests.deadline(id)
    }

    /// Counts the timeout of a request from `since`: the time before does not count.
    pub(crate) fn suspend_deadline_until(&mut self, id: RequestId, since: Instant) {
        self.requests.restart_timeout(id, since);
    }

    /// Counts expired timeouts of requests from the time that `since` returns for their carriages, if any.
    pub(crate) fn suspend_deadlines(
        &mut self,
        now: Instant,
        since: impl Fn(Option<&Carriage>) -> Option<Instant>,
    ) {
        let due: Vec<RequestId> = self.requests.due(now).collect();
        for id in due {
            self.requests.update(id, |request| {
                if let Some(since) = since(request.carriage.as_deref())
                    && request.has_expired(now)
                {
                    request.times.restart(since);
                }
            });
        }
    }
}
