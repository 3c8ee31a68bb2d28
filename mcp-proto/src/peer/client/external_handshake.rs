//! For a transport that finds out the server's era itself, and brings answers to the requests that they are for.

use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{OutboundEntry, Outbox, Outcome, ReissuePolicy, RequestId, Stage};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{ListTools, ListToolsParams, Method, MethodInfo, Revision};

use super::{
    Client, CloseReason, ConnectError, ConnectProgress, Diagnostic, Event, KnownEra, Phase, ServerInfo, State,
};

impl Client {
    /// Detection begins; the transport does it.
    pub(crate) fn begin_detection(&mut self) {
        if matches!(self.phase, Phase::Disconnected) {
            self.link.clear();
            self.phase = Phase::Detecting;
            self.set_state(State::Connected);
        }
    }

    /// Sends the era probe, and returns its id.
    pub(crate) fn probe(&mut self, version: Revision, out: &mut dyn Outbox) -> i64 {
        self.write_probe(version, out)
    }

    /// Sends the legacy handshake's request, and returns its id.
    pub(crate) fn initialize(&mut self, version: Revision, out: &mut dyn Outbox) -> i64 {
        self.write_initialize(version, out)
    }

    /// Detection is over: the server is known, and requests go out.
    pub(crate) fn finish_detection(
        &mut self,
        now: Instant,
        server: ServerInfo,
        verdict: KnownEra,
        out: &mut dyn Outbox,
    ) {
        if matches!(self.phase, Phase::Detecting) {
            self.start(now, server, verdict, out);
        }
    }

    /// The server has forgotten the session, or its era was another: requests wait until
    /// [`finish_detection`](Self::finish_detection). Those in flight stay so.
    ///
    /// What the server has asked for is withdrawn with its session. Returns whether there is anything to go on with:
    /// a client that closes does not begin anew.
    pub(crate) fn restart_detection(&mut self) -> bool {
        if !matches!(self.phase, Phase::Ready) {
            return false;
        }
        self.phase = Phase::Detecting;
        self.pings = None;
        self.drop_early_requests();
        self.batches.clear();
        while let Some((id, _, _)) = self.inbound.pop() {
            self.events.push(Event::RequestCancelled { id, reason: None }, 0);
        }
        self.interrupt_watches();
        self.set_state(State::Connected);
        true
    }

    /// Detection has come to this.
    pub(crate) fn set_connect_progress(&mut self, progress: Option<ConnectProgress>) {
        if matches!(self.phase, Phase::Detecting) {
            self.report_connecting(progress);
        }
    }

    /// Detection has failed.
    pub(crate) fn fail_detection(&mut self, error: ConnectError) {
        if !self.is_closed() {
            self.fail_connect(error);
        }
    }

    /// A request has waited for the server since `until` only.
    pub(crate) fn suspend_deadline_until(&mut self, number: i64, until: Instant) {
        self.outbound.extend_deadline(number, until);
        self.suspend_ping_deadline(|ping| (ping == number).then_some(until));
    }

    /// Gives requests more time whose time is over, where `until` says that they have waited for the server since then
    /// only. The same goes for a ping.
    pub(crate) fn suspend_deadlines(&mut self, now: Instant, until: impl Fn(i64) -> Option<Instant>) {
        self.outbound.suspend_deadlines(now, |number, _| until(number));
        self.suspend_ping_deadline(until);
    }

    fn suspend_ping_deadline(&mut self, until: impl Fn(i64) -> Option<Instant>) {
        if let (Some(keepalive), Some(pings)) = (self.config.keepalive, self.pings.as_mut())
            && let Some((number, deadline)) = &mut pings.waiting
            && let Some(until) = until(*number)
        {
            *deadline = (*deadline).max(until + keepalive.timeout);
        }
    }

    /// An id for a request that goes out once more, never used before. Its answer is still known by its number.
    pub(crate) fn renumber(&mut self, number: i64) -> i64 {
        self.outbound.renumber(number)
    }

    /// Asks for a page of the server's tools on the transport's own account, and returns the request's id. The answer is
    /// the transport's as well.
    pub(crate) fn list_tools(&mut self, cursor: Option<&str>, out: &mut dyn Outbox) -> i64 {
        let number = self.outbound.mint();
        let protocol = self.protocol.clone();
        let entries = MetaEntries { protocol: protocol.as_ref(), ..MetaEntries::default() };
        let mut params = ListToolsParams::new();
        params.cursor = cursor.map(Into::into);
        let revision = self.revision().unwrap_or(Revision::LATEST);
        self.write_own_request(number, ListTools::NAME, &params, revision, entries, out);
        number
    }

    /// What is known of a request that was sent and has not ended.
    pub(crate) fn sent_request(&self, number: i64) -> Option<(Option<&'static MethodInfo>, ReissuePolicy)> {
        let entry = self.outbound.get(number).filter(|entry| entry.stage == Stage::Sent)?;
        Some((entry.info, entry.reissue))
    }

    /// When the time of a request is over, if it has an end.
    pub(crate) fn deadline_of(&self, number: i64) -> Option<Instant> {
        self.outbound.get(number).and_then(OutboundEntry::deadline)
    }

    /// The id under which a request is with the server: another in each round.
    pub(crate) fn wire_id(&self, number: i64) -> Option<i64> {
        let entry = self.outbound.get(number).filter(|entry| entry.stage == Stage::Sent)?;
        Some(entry.wire_id(number))
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn number_for_wire(&self, wire: i64) -> i64 {
        self.outbound.number_for_wire(wire)
    }

    /// The answer to a request, whatever id it bore.
    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        number: i64,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        // A request that has become a task has had its answer.
        if self.sent_request(number).is_some()
            && let Some(entry) = self.outbound.remove(number)
        {
            self.resolve_round(now, number, entry, answer, out);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
    }

    /// A part of the answer to a request has come.
    pub(crate) fn push_fragment(&mut self, number: i64, fragment: Raw) {
        let bytes = fragment.as_bytes().len();
        let request = RequestId::new(number);
        self.events.push_or_drop(Event::PartialResult { request, fragment }, bytes);
    }

    /// A request has ended without an answer.
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

    /// Ends the connection, which was ready, for a reason of the transport.
    pub(crate) fn close_lost(&mut self, closed: CloseReason) {
        if !self.is_closed() {
            self.finish(closed);
        }
    }

    /// Something to tell that ended no request.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnose(diagnostic);
    }
}
