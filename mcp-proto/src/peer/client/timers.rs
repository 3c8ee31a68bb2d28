//! Timeouts of a client.

use core::time::Duration;

use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::{LostReason, Outbox, Outcome, RequestId, RequestRecord as _};
use crate::schema::{EmptyParams, Method as _, Ping, Revision};

use super::tasks::Tasks;
use super::{Client, CloseReason, Diagnostic, Keepalive, Phase};

impl Client {
    /// Handles the timeouts that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        self.note_time(now);
        // One step may lead to the next, which has expired as well if its timeout is zero.
        while self.detect.deadline().is_some_and(|deadline| deadline <= now) && !self.is_closed() {
            let act = self.detect.handle_timeout(now);
            self.perform_detect(now, act, out);
        }
        self.handle_due_requests(now, out);
        self.deliver_due_progress(now);
        self.advance_tasks(now, out);
        self.handle_due_requests(now, out);
        self.handle_pings(now, out);
        if matches!(self.connection.phase(), Phase::Finishing { until } if until <= now) {
            while let Some(removed) = self.requests.first().and_then(|id| self.take(id)) {
                // The task continues on the server: the application can follow it again.
                removed.notify_cancelled(None, out);
                self.resolve(removed, Outcome::Lost(LostReason::Closed));
            }
            self.tasks = Tasks::default();
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

    fn handle_due_requests(&mut self, now: Instant, out: &mut dyn Outbox) {
        // A request that is sent here may expire at once, if its timeout is zero.
        while let Some(id) = self.requests.next_due(now) {
            self.handle_due(now, id, out);
        }
    }

    fn handle_due(&mut self, now: Instant, id: RequestId, out: &mut dyn Outbox) {
        // The server may itself wait for an answer of this side, which may wait for a person.
        let may_wait = !self.inbound.is_empty();
        let has_expired = self.requests.update(id, |request| {
            if may_wait && request.is_sent() {
                request.times.restart(now);
            }
            request.has_expired(now)
        });
        if has_expired == Some(true) {
            let Some(mut removed) = self.take(id) else { return };
            let outcome = self.requests.timeout_outcome(now, &removed.request);
            self.abandon_task(now, &mut removed, out);
            removed.notify_cancelled(Some("timed out"), out);
            self.resolve(removed, outcome);
        } else if let Some(followed) = self.followed_task(id) {
            followed.follower.handle_timeout(now);
            self.perform_task(now, id, out);
        } else {
            self.send_round(now, id, out);
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
                let number = self.requests.mint().number();
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

/// The minimum interval between pings, regardless of the configuration: pings without a pause would block all other
/// work.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The pings of one client. They run between [`start`](Self::start) and [`stop`](Self::stop), if configured.
#[derive(Debug)]
pub(super) struct Pings {
    config: Option<Keepalive>,
    /// When the next ping is due; `None` while they do not run.
    next: Option<Instant>,
    /// The ping in flight: its number and its deadline.
    in_flight: Option<(i64, Instant)>,
    /// The number of consecutive pings without an answer.
    misses: u32,
}

/// The next action for the pings.
pub(super) enum PingAction {
    /// Send a ping, and [note its number](Pings::note_sent).
    Send,
    /// Report a ping without an answer, the last of `misses`. If it `is_final`, the connection is lost.
    Missed { misses: u32, is_final: bool },
}

impl Pings {
    pub(super) fn new(config: Option<Keepalive>) -> Self {
        Self { config, next: None, in_flight: None, misses: 0 }
    }

    pub(super) fn start(&mut self, now: Instant) {
        *self = Self::new(self.config);
        self.schedule(now);
    }

    pub(super) fn stop(&mut self) {
        *self = Self::new(self.config);
    }

    /// When [`poll`](Self::poll) has an action.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.in_flight.map(|(_, until)| until).or(self.next)
    }

    /// The action that is due, if any.
    pub(super) fn poll(&mut self, now: Instant) -> Option<PingAction> {
        let config = self.config?;
        if self.deadline()? > now {
            return None;
        }
        self.schedule(now);
        if self.in_flight.take().is_none() {
            return Some(PingAction::Send);
        }
        self.misses = self.misses.saturating_add(1);
        Some(PingAction::Missed { misses: self.misses, is_final: self.misses >= config.misses })
    }

    pub(super) fn note_sent(&mut self, now: Instant, number: i64) {
        self.in_flight = self.config.map(|config| (number, now + config.timeout));
    }

    /// Takes the answer to the request of this number, if it is the ping in flight. Returns whether it is.
    pub(super) fn take_answer(&mut self, number: i64) -> bool {
        let answered = self.in_flight.take_if(|(ping, _)| *ping == number).is_some();
        if answered {
            self.misses = 0;
        }
        answered
    }

    /// Counts the timeout of the ping in flight from the time that `since` returns for it, if that is later.
    pub(super) fn suspend_deadline(&mut self, since: impl Fn(i64) -> Option<Instant>) {
        if let (Some(config), Some((number, deadline))) = (self.config, &mut self.in_flight)
            && let Some(since) = since(*number)
        {
            *deadline = (*deadline).max(since + config.timeout);
        }
    }

    fn schedule(&mut self, now: Instant) {
        self.next = self.config.map(|config| now + config.interval.max(MIN_INTERVAL));
    }
}
