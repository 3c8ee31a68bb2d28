//! Handshakes that the transport runs: it detects the server's era itself, and notifies the peer of the start, the
//! progress and the result.
//!
//! Over HTTP detection needs statuses, redirects and sessions, which the peer does not know. The peer writes the
//! requests of the handshake and reports its progress; requests of the application wait until
//! [`finish_detection`](Client::finish_detection).

use crate::Instant;
use crate::peer::Outbox;

use super::{Client, CloseReason, ConnectError, ConnectProgress, KnownEra, Phase, ServerInfo, State};

impl Client {
    /// Starts a detection that the transport runs.
    pub(crate) fn begin_detection(&mut self) {
        if matches!(self.connection.phase(), Phase::Disconnected) {
            self.connection.clear_actions();
            self.connection.enter(Phase::Detecting);
            self.connection.set_state(State::Connected, &mut self.events);
        }
    }

    /// Finishes detection: the server is known, and queued requests are sent.
    pub(crate) fn finish_detection(
        &mut self,
        now: Instant,
        server: ServerInfo,
        verdict: KnownEra,
        out: &mut dyn Outbox,
    ) {
        if matches!(self.connection.phase(), Phase::Detecting) {
            self.start(now, server, verdict, out);
        }
    }

    /// Restarts detection because the server has lost the session, or proved to be of the other era: new requests wait
    /// until [`finish_detection`](Self::finish_detection), and those in flight stay in flight.
    ///
    /// Withdraws the server's own requests, which end with its session. Returns whether detection runs again: it does
    /// not for a client that is closing.
    pub(crate) fn restart_detection(&mut self) -> bool {
        if !matches!(self.connection.phase(), Phase::Ready) {
            return false;
        }
        self.connection.enter(Phase::Detecting);
        self.pings.stop();
        self.withdraw_all();
        self.interrupt_watches();
        self.connection.set_state(State::Connected, &mut self.events);
        true
    }

    /// Reports the progress of detection.
    pub(crate) fn set_connect_progress(&mut self, progress: Option<ConnectProgress>) {
        if let (Phase::Detecting, Some(progress)) = (self.connection.phase(), progress) {
            self.connection.report_progress(progress, &mut self.events);
        }
    }

    /// Detection failed: closes the connection.
    pub(crate) fn fail_detection(&mut self, error: ConnectError) {
        if !self.is_closed() {
            self.fail_connect(error);
        }
    }

    /// Closes a connection that the transport has lost.
    pub(crate) fn close_lost(&mut self, closed: CloseReason) {
        if !self.is_closed() {
            self.finish(closed);
        }
    }
}
