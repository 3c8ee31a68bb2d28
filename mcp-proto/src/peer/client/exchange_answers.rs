//! Answers that the transport matches to requests by their exchange.
//!
//! Where each request has an exchange of its own, an answer belongs to the request of its exchange, whatever its id.
//! Requests are identified by their number here; their id on the wire changes when they are sent again.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::{
    Carriage, LostReason, Outbox, Outcome, RequestError, RequestId, RequestRecord as _, WireId,
};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{ListTools, ListToolsParams, Method as _};

use super::request_record::{ClientRequest, Removed, RequestOwner};
use super::{Client, Event};

impl Client {
    // --- Carriages ---

    /// A request in flight.
    pub(crate) fn sent_request(&self, number: i64) -> Option<&ClientRequest> {
        self.requests.get(RequestId::new(number)).filter(|request| request.is_sent())
    }

    pub(crate) fn carriage(&self, number: i64) -> Option<&Carriage> {
        self.requests.get(RequestId::new(number))?.carriage.as_deref()
    }

    /// A carriage, whose state and slot the caller does not change.
    pub(crate) fn carriage_mut(&mut self, number: i64) -> Option<&mut Carriage> {
        self.requests.get_mut(RequestId::new(number))?.carriage.as_deref_mut()
    }

    /// Changes a carriage.
    pub(crate) fn update_carriage(&mut self, number: i64, act: impl FnOnce(&mut Carriage)) {
        self.requests.update(RequestId::new(number), |request| request.carriage.as_deref_mut().map(act));
    }

    /// Takes the carriage of a request that the transport ends.
    pub(crate) fn take_carriage(&mut self, number: i64) -> Option<Box<Carriage>> {
        self.requests.update(RequestId::new(number), |request| request.carriage.take())?
    }

    /// The numbers of the requests whose carriages match.
    pub(crate) fn carried(&self, matches: impl Fn(&Carriage) -> bool) -> Vec<i64> {
        let is_match = |request: &ClientRequest| request.carriage.as_deref().is_some_and(&matches);
        self.requests.iter().filter(|(_, request)| is_match(request)).map(|(id, _)| id.number()).collect()
    }

    /// The next request that waits for an exchange, where `most` of them may have a slot.
    pub(crate) fn next_waiting(&self, most: usize) -> Option<i64> {
        self.requests.next_waiting(most).map(RequestId::number)
    }

    /// The numbers of the requests whose delay is over.
    pub(crate) fn resumable(&self, now: Instant) -> Vec<i64> {
        let numbers = self.requests.due(now).map(RequestId::number);
        let is_due = |&number: &i64| self.carriage(number)?.due().map(|due| due <= now);
        numbers.filter(|number| is_due(number) == Some(true)).collect()
    }

    /// The size in bytes of the requests that are not sent yet.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.requests.queued_bytes()
    }

    // --- Ids ---

    /// The id on the wire of a request in flight; it changes with each input round.
    pub(crate) fn wire_id(&self, number: i64) -> Option<i64> {
        Some(self.sent_request(number)?.wire_id(RequestId::new(number)).0)
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn number_for_wire(&self, wire: i64) -> i64 {
        self.requests.find(WireId(wire)).number()
    }

    /// Assigns a new id on the wire to a request that is sent again, and returns it.
    pub(crate) fn renumber(&mut self, number: i64) -> i64 {
        let wire = self.requests.mint().number();
        self.requests.update(RequestId::new(number), |request| request.wire = Some(WireId(wire)));
        wire
    }

    // --- Outcomes ---

    /// The outcome of a request whose last attempt could not be sent.
    ///
    /// It is unsent unless the server has received it before: an earlier attempt or input round has another id, and a poll
    /// of a task concerns a call that was sent.
    pub(crate) fn unsent_outcome(&self, number: i64, detail: &str) -> Outcome {
        let is_first = |request: &ClientRequest| request.wire.is_none() && !request.owner.is_for_task();
        if self.sent_request(number).is_some_and(is_first) {
            Outcome::Refused(RequestError::Connect(detail.into()))
        } else {
            Outcome::Lost(LostReason::Disconnected(detail.into()))
        }
    }

    /// Takes a request that the transport has sent. One that has become a task was answered already.
    fn take_sent(&mut self, number: i64) -> Option<Removed> {
        self.sent_request(number)?;
        self.take(RequestId::new(number))
    }

    /// Ends a request with its answer.
    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        number: i64,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        if let Some(removed) = self.take_sent(number) {
            self.answer(now, removed, answer, out);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
    }

    /// Ends a request whose exchange yielded no answer. A ping counts as missed only at its deadline.
    pub(crate) fn handle_no_answer(
        &mut self,
        now: Instant,
        number: i64,
        outcome: Outcome,
        out: &mut dyn Outbox,
    ) {
        if self.sent_request(number).is_some_and(|request| request.owner != RequestOwner::Ping)
            && let Some(removed) = self.take(RequestId::new(number))
        {
            self.resolve(removed, outcome);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
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
    pub(crate) fn deadline_of(&self, number: i64) -> Option<Instant> {
        self.requests.deadline(RequestId::new(number))
    }

    /// Counts the timeout of a request from `since`: the time before does not count.
    pub(crate) fn suspend_deadline_until(&mut self, number: i64, since: Instant) {
        self.requests.restart_timeout(RequestId::new(number), since);
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
