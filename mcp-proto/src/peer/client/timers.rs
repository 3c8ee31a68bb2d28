//! Timeouts of a client.

use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{LostReason, Outbox, Outcome, Stage};
use crate::schema::{EmptyParams, Method as _, Ping, Revision};

use super::commands::notify_cancelled;
use super::keepalive::PingAction;
use super::{Client, CloseReason, Diagnostic, Phase};

impl Client {
    /// Handles the timeouts that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        self.note_time(now);
        // One step may lead to the next, which has expired as well if its timeout is zero.
        while self.detect.deadline().is_some_and(|deadline| deadline <= now) && !self.is_closed() {
            let act = self.detect.handle_timeout(now);
            self.perform_detect(now, act, out);
        }
        // A request that is sent here may expire at once, if its timeout is zero.
        loop {
            self.resolve_expired(now, out);
            if !self.send_due_round(now, out) {
                break;
            }
        }
        self.deliver_due_progress(now);
        self.advance_tasks(now, out);
        self.wake_tasks(now, out);
        self.handle_pings(now, out);
        if matches!(self.connection.phase(), Phase::Finishing { until } if until <= now) {
            while let Some((number, entry)) = self.outbound.pop() {
                // The task continues on the server: the application can follow it again.
                self.forget_rounds(number);
                notify_cancelled(number, &entry, None, out);
                self.resolve(number, Outcome::Lost(LostReason::Closed));
            }
            self.tasks.clear();
        }
        self.advance_watches(now, out);
        self.advance_close(now);
        if matches!(self.connection.phase(), Phase::Ending { until } if until <= now) {
            self.abort(CloseReason::Done);
        }
    }

    /// Starts the timeout of a link that is being opened at the first input that carries the time.
    pub(super) fn note_time(&mut self, now: Instant) {
        if matches!(self.connection.phase(), Phase::Connecting) {
            self.detect.begin(now);
        }
    }

    fn resolve_expired(&mut self, now: Instant, out: &mut dyn Outbox) {
        // The server may itself wait for an answer of this side, which may wait for a person.
        if !self.inbound.is_empty() {
            self.outbound.suspend_deadlines(now, |_, entry| (entry.stage == Stage::Sent).then_some(now));
        }
        while let Some(expired) = self.outbound.pop_expired(now) {
            // The request may be queued, waiting for input, or a task.
            self.abandon_task(now, expired.number, out);
            self.take_outbound(expired.number);
            notify_cancelled(expired.number, &expired.entry, Some("timed out"), out);
            self.resolve(expired.number, expired.outcome());
        }
    }

    fn handle_pings(&mut self, now: Instant, out: &mut dyn Outbox) {
        match self.pings.poll(now) {
            Some(PingAction::Missed { misses, is_final }) => {
                self.report(Diagnostic::PingMissed { misses });
                if is_final {
                    self.abort(CloseReason::Lost(LostReason::KeepaliveFailed));
                }
            }
            Some(PingAction::Send) => {
                let number = self.outbound.mint();
                self.pings.note_sent(now, number);
                self.write_own_request(
                    number,
                    Ping::NAME,
                    &EmptyParams::default(),
                    Revision::LATEST_LEGACY,
                    MetaEntries::default(),
                    out,
                );
            }
            None => {}
        }
    }
}
