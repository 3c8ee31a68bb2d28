//! For a binding that finds out the server's era itself, and brings answers to the requests that they are for.

use crate::Instant;
use crate::peer::{Outbox, Outcome, Stage};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::Revision;

use super::{Client, Closed, ConnectError, Diagnostic, Phase, ServerInfo, State, Verdict};

impl Client {
    /// Detection begins; the binding does it.
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
    pub(crate) fn become_unknown(&mut self) {
        if matches!(self.phase, Phase::Ready) {
            self.phase = Phase::Detecting;
            self.pings = None;
            self.set_state(State::Connected);
        }
    }

    /// Detection has failed.
    pub(crate) fn give_up(&mut self, error: ConnectError) {
        if !self.is_closed() {
            self.fail_connect(error);
        }
    }

    /// An id for a request that goes out once more, never used before.
    pub(crate) fn mint(&mut self) -> i64 {
        self.outbound.mint()
    }

    /// Whether a request was sent and has not ended.
    pub(crate) fn is_sent(&self, number: i64) -> bool {
        self.outbound.get(number).is_some_and(|entry| entry.stage == Stage::Sent)
    }

    /// The answer to a request, whatever id it bore.
    pub(crate) fn handle_answer(&mut self, now: Instant, number: i64, answer: Result<Raw, ErrorObject>) {
        let Some(entry) = self.take(number) else { return };
        let outcome = match answer {
            Ok(result) => self.classify(entry.info, result),
            Err(error) => Outcome::Error(error),
        };
        self.end(number, outcome);
        self.advance_close(now);
    }

    /// A request has ended without an answer.
    pub(crate) fn handle_no_answer(&mut self, now: Instant, number: i64, outcome: Outcome) {
        if self.take(number).is_some() {
            self.end(number, outcome);
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
