//! Answers that the transport matches to requests by their exchange.
//!
//! Where each request has an exchange of its own, an answer belongs to the request of its exchange, whatever its id.
//! Requests are identified by their number here; their id on the wire changes when they are sent again.

use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{AnyParams, LostReason, Outbox, Outcome, ReissuePolicy, RequestError, Stage};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{MethodInfo, Revision};

use super::{Client, Event};

impl Client {
    /// The method of a request in flight, and whether it may be sent again.
    pub(crate) fn sent_request(&self, number: i64) -> Option<(Option<&'static MethodInfo>, ReissuePolicy)> {
        let entry = self.outbound.get(number).filter(|entry| entry.stage == Stage::Sent)?;
        Some((entry.info, entry.reissue))
    }

    /// The id on the wire of a request in flight; it changes with each input round.
    pub(crate) fn wire_id(&self, number: i64) -> Option<i64> {
        let entry = self.outbound.get(number).filter(|entry| entry.stage == Stage::Sent)?;
        Some(entry.wire_id(number))
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn number_for_wire(&self, wire: i64) -> i64 {
        self.outbound.number_for_wire(wire)
    }

    /// Assigns a new id on the wire to a request that is sent again, and returns it.
    pub(crate) fn renumber(&mut self, number: i64) -> i64 {
        self.outbound.renumber(number)
    }

    /// The outcome of a request whose last attempt could not be sent.
    ///
    /// It is unsent unless the server has received it before: an earlier attempt or input round has another id, and a poll
    /// of a task concerns a call that was sent.
    pub(crate) fn unsent_outcome(&self, number: i64, detail: &str) -> Outcome {
        if self.wire_id(number) == Some(number) && !self.tasks.is_own_request(number) {
            Outcome::Refused(RequestError::Connect(detail.into()))
        } else {
            Outcome::Lost(LostReason::Disconnected(detail.into()))
        }
    }

    /// Ends a request with its answer.
    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        number: i64,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        // The answer to a request that has become a task was processed already.
        if self.sent_request(number).is_some()
            && let Some(entry) = self.outbound.remove(number)
        {
            self.resolve_round(now, number, entry, answer, out);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
    }

    /// Ends a request whose exchange yielded no answer.
    pub(crate) fn handle_no_answer(
        &mut self,
        now: Instant,
        number: i64,
        outcome: Outcome,
        out: &mut dyn Outbox,
    ) {
        if self.sent_request(number).is_some() && self.take_outbound(number).is_some() {
            self.resolve(number, outcome);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
    }

    /// Writes one of the transport's own requests, and returns its id. The transport handles its answer.
    pub(crate) fn write_transport_request(
        &mut self,
        method: &'static str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> i64 {
        let number = self.outbound.mint();
        let protocol = self.meta.protocol().cloned();
        let entries = MetaEntries { protocol: protocol.as_ref(), ..MetaEntries::default() };
        let revision = self.revision().unwrap_or(Revision::LATEST);
        self.write_own_request(number, method, params, revision, entries, out);
        number
    }

    /// Queues an event of the transport with `bytes` of server-supplied content; drops it if the queue is full.
    pub(crate) fn push_event(&mut self, event: Event, bytes: usize) {
        self.events.push_or_drop(event, bytes);
    }
}
