//! For a transport that finds out the server's era itself, and brings answers to the requests that they are for.

use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{Entry, Outbox, Outcome, Reissue, RequestId, Stage};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{ListTools, ListToolsParams, Method, MethodInfo, Revision};

use super::{
    Client, Closed, ConnectError, ConnectProgress, Diagnostic, Event, Phase, ServerInfo, State, Verdict,
};

impl Client {
    /// Detection begins; the transport does it.
    pub(crate) fn begin(&mut self) {
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
    pub(crate) fn become_known(
        &mut self,
        now: Instant,
        server: ServerInfo,
        verdict: Verdict,
        out: &mut dyn Outbox,
    ) {
        if matches!(self.phase, Phase::Detecting) {
            self.start(now, server, verdict, out);
        }
    }

    /// The server has forgotten the session, or its era was another: requests wait until
    /// [`become_known`](Self::become_known). Those in flight stay so.
    ///
    /// What the server has asked for is withdrawn with its session. Returns whether there is anything to go on with:
    /// a client that closes does not begin anew.
    pub(crate) fn become_unknown(&mut self) -> bool {
        if !matches!(self.phase, Phase::Ready) {
            return false;
        }
        self.phase = Phase::Detecting;
        self.pings = None;
        self.forget_held();
        self.batches.clear();
        while let Some((id, _, _)) = self.inbound.pop() {
            self.events.push(Event::RequestCancelled { id, reason: None }, 0);
        }
        self.interrupt_watches();
        self.set_state(State::Connected);
        true
    }

    /// Detection has come to this.
    pub(crate) fn note_connecting(&mut self, progress: Option<ConnectProgress>) {
        if matches!(self.phase, Phase::Detecting) {
            self.report_connecting(progress);
        }
    }

    /// Detection has failed.
    pub(crate) fn give_up(&mut self, error: ConnectError) {
        if !self.is_closed() {
            self.fail_connect(error);
        }
    }

    /// A request has waited for the server since `until` only.
    pub(crate) fn excuse_until(&mut self, number: i64, until: Instant) {
        self.outbound.extend(number, until);
        self.excuse_ping(|ping| (ping == number).then_some(until));
    }

    /// Gives requests more time whose time is over, where `until` says that they have waited for the server since then
    /// only. The same goes for a ping.
    pub(crate) fn excuse(&mut self, now: Instant, until: impl Fn(i64) -> Option<Instant>) {
        self.outbound.excuse(now, |number, _| until(number));
        self.excuse_ping(until);
    }

    fn excuse_ping(&mut self, until: impl Fn(i64) -> Option<Instant>) {
        if let (Some(keepalive), Some(pings)) = (self.config.keepalive, self.pings.as_mut())
            && let Some((number, deadline)) = &mut pings.waiting
            && let Some(until) = until(*number)
        {
            *deadline = (*deadline).max(until + keepalive.timeout);
        }
    }

    /// An id for a request that goes out once more, never used before. Its answer is still known by its number.
    pub(crate) fn rename(&mut self, number: i64) -> i64 {
        self.outbound.rename(number)
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
        self.write(number, ListTools::NAME, &params, revision, entries, out);
        number
    }

    /// What is known of a request that was sent and has not ended.
    pub(crate) fn sent(&self, number: i64) -> Option<(Option<&'static MethodInfo>, Reissue)> {
        let entry = self.outbound.get(number).filter(|entry| entry.stage == Stage::Sent)?;
        Some((entry.info, entry.reissue))
    }

    /// When the time of a request is over, if it has an end.
    pub(crate) fn deadline_of(&self, number: i64) -> Option<Instant> {
        self.outbound.get(number).and_then(Entry::deadline)
    }

    /// The id under which a request is with the server: another in each round.
    pub(crate) fn wire(&self, number: i64) -> Option<i64> {
        let entry = self.outbound.get(number).filter(|entry| entry.stage == Stage::Sent)?;
        Some(entry.wire(number))
    }

    /// The number of the request that has this id on the wire.
    pub(crate) fn named(&self, wire: i64) -> i64 {
        self.outbound.named(wire)
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
        if self.sent(number).is_some()
            && let Some(entry) = self.outbound.remove(number)
        {
            self.conclude(now, number, entry, answer, out);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
    }

    /// A part of the answer to a request has come.
    pub(crate) fn tell_fragment(&mut self, number: i64, fragment: Raw) {
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
        if self.sent(number).is_some() && self.take(number).is_some() {
            self.end(number, outcome);
            self.advance_tasks(now, out);
            self.advance_close(now);
        }
    }

    /// Ends the connection, which was ready, for a reason of the transport.
    pub(crate) fn lose(&mut self, closed: Closed) {
        if !self.is_closed() {
            self.finish(closed);
        }
    }

    /// Something to tell that ended no request.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnose(diagnostic);
    }
}
