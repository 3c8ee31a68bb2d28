//! Answers that the transport matches to requests by their exchange.
//!
//! Where each request has an exchange of its own, an answer belongs to the request of its exchange, whatever its id.
//! Requests are identified by their number here; their id on the wire changes when they are sent again.

use alloc::vec::Vec;

use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{
    AnyParams, LostReason, Outbox, Outcome, ReissuePolicy, RequestError, RequestId, RequestRecord as _,
    WireId,
};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{MethodInfo, Revision};

use super::request_record::{ClientRequest, Removed};
use super::{Client, Event};

impl Client {
    /// The method of a request in flight, and whether it may be sent again.
    pub(crate) fn sent_request(&self, number: i64) -> Option<(Option<&'static MethodInfo>, ReissuePolicy)> {
        let request = self.requests.get(RequestId::new(number)).filter(|request| request.is_sent())?;
        Some((request.info, request.reissue))
    }

    /// The id on the wire of a request in flight; it changes with each input round.
    pub(crate) fn wire_id(&self, number: i64) -> Option<i64> {
        let id = RequestId::new(number);
        let request = self.requests.get(id).filter(|request| request.is_sent())?;
        Some(request.wire_id(id).0)
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn number_for_wire(&self, wire: i64) -> i64 {
        self.requests.find(WireId(wire)).number()
    }

    /// Assigns a new id on the wire to a request that is sent again, and returns it.
    pub(crate) fn renumber(&mut self, number: i64) -> i64 {
        let (id, wire) = (RequestId::new(number), self.requests.mint().number());
        if let Some(mut request) = self.requests.remove(id) {
            request.wire = Some(WireId(wire));
            self.requests.insert(id, request);
        }
        wire
    }

    /// The outcome of a request whose last attempt could not be sent.
    ///
    /// It is unsent unless the server has received it before: an earlier attempt or input round has another id, and a poll
    /// of a task concerns a call that was sent.
    pub(crate) fn unsent_outcome(&self, number: i64, detail: &str) -> Outcome {
        let request = self.requests.get(RequestId::new(number)).filter(|request| request.is_sent());
        let is_first = |request: &ClientRequest| request.wire.is_none() && !request.owner.is_for_task();
        if request.is_some_and(is_first) {
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

    /// Ends a request whose exchange yielded no answer.
    pub(crate) fn handle_no_answer(
        &mut self,
        now: Instant,
        number: i64,
        outcome: Outcome,
        out: &mut dyn Outbox,
    ) {
        if let Some(removed) = self.take_sent(number) {
            self.resolve(removed, outcome);
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
        let number = self.requests.mint().number();
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

impl Client {
    /// The deadline of a request, if it has one.
    pub(crate) fn deadline_of(&self, number: i64) -> Option<Instant> {
        self.requests.deadline(RequestId::new(number))
    }

    /// Counts the timeout of a request, or of a ping, from `since`: the time before does not count.
    pub(crate) fn suspend_deadline_until(&mut self, number: i64, since: Instant) {
        self.requests.restart_timeout(RequestId::new(number), since);
        self.pings.suspend_deadline(|ping| (ping == number).then_some(since));
    }

    /// Counts expired timeouts of requests, and of a ping, from the time that `since` returns for them, if any.
    pub(crate) fn suspend_deadlines(&mut self, now: Instant, since: impl Fn(i64) -> Option<Instant>) {
        let due: Vec<RequestId> = self.requests.due(now).collect();
        for id in due {
            if let Some(since) = since(id.number()) {
                self.requests.update(id, |request| {
                    if request.has_expired(now) {
                        request.times.restart(since);
                    }
                });
            }
        }
        self.pings.suspend_deadline(since);
    }
}
