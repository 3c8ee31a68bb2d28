//! Timeouts of a client: of its requests, and of its pings.

use core::time::Duration;

use crate::Instant;
use crate::peer::{LostReason, Outbox, Outcome, RequestId, RequestRecord as _};
use crate::schema::{EmptyParams, Method as _, Ping};

use super::request_record::RequestOwner;
use super::{Client, CloseReason, Diagnostic, Keepalive, Phase};

impl Client {
    /// Starts the timeout of a link that is being opened at the first input that carries the time.
    pub(super) fn note_time(&mut self, now: Instant) {
        if matches!(self.connection.phase, Phase::Connecting) {
            self.detect.begin(now);
        }
    }

    pub(super) fn handle_due_requests(&mut self, now: Instant, out: &mut dyn Outbox) {
        // A request that is sent here may expire at once, if its timeout is zero.
        let ping = self.pings.in_flight;
        while let Some(id) = self.requests.next_due(now) {
            self.handle_due(now, id, out);
        }
        // A missed ping may end the connection: whatever has timed out with it ends as such first.
        if let Some(ping) = ping
            && self.requests.get(ping).is_none()
        {
            self.handle_missed_ping(now, ping);
        }
    }

    fn handle_due(&mut self, now: Instant, id: RequestId, out: &mut dyn Outbox) {
        // The server may itself wait for an answer of this side, which may wait for a person.
        let may_wait = !self.inbound.is_empty();
        let has_expired = self.requests.update(id, |request| {
            if may_wait && request.is_sent() && !request.owner.is_own() {
                request.times.restart(now);
            }
            request.has_expired(now)
        });
        if has_expired == Some(true) {
            let Some(mut removed) = self.take(id) else { return };
            //= F63 "A timeout fails its request and forgets it"
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

    /// Counts a ping that has timed out, and closes the connection after too many of them.
    fn handle_missed_ping(&mut self, now: Instant, id: RequestId) {
        let works = || self.requests.iter().any(|(_, request)| request.is_sent() && !request.owner.is_own());
        let is_spared = self.config.keepalive.is_some_and(|config| config.spares_busy) && works();
        let Some(misses) = self.pings.take_missed(now, id, is_spared) else { return };
        self.report(Diagnostic::PingMissed { misses });
        if self.config.keepalive.is_some_and(|config| misses >= config.misses) {
            self.abort(CloseReason::Lost(LostReason::KeepaliveFailed));
        }
    }

    pub(super) fn send_due_ping(&mut self, now: Instant, out: &mut dyn Outbox) {
        if let Some(config) = self.config.keepalive
            && self.pings.deadline().is_some_and(|due| due <= now)
        {
            self.pings.schedule(now);
            let params = EmptyParams::default();
            self.pings.in_flight =
                self.own_request(now, RequestOwner::Ping, Ping::INFO, &params, config.timeout, out);
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
    in_flight: Option<RequestId>,
    /// The number of consecutive pings without an answer.
    misses: u32,
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

    /// When the next ping is due; `None` while one is in flight.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| self.in_flight.is_none())
    }

    /// Handles the outcome of a ping: any answer to the one in flight will do.
    pub(super) fn handle_outcome(&mut self, ping: RequestId, outcome: &Outcome) {
        if !matches!(outcome, Outcome::TimedOut { .. })
            && self.in_flight.take_if(|sent| *sent == ping).is_some()
        {
            self.misses = 0;
        }
    }

    /// Takes the ping in flight, which has timed out; returns the number of consecutive pings without an answer, unless the
    /// server is spared.
    fn take_missed(&mut self, now: Instant, ping: RequestId, is_spared: bool) -> Option<u32> {
        self.in_flight.take_if(|sent| *sent == ping)?;
        self.schedule(now);
        if is_spared {
            return None;
        }
        self.misses = self.misses.saturating_add(1);
        Some(self.misses)
    }

    fn schedule(&mut self, now: Instant) {
        self.next = self.config.map(|config| now + config.interval.max(MIN_INTERVAL));
    }
}
