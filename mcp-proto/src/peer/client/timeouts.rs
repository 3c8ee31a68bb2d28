//! Timeouts of a client: of its requests, and of its pings.

use core::time::Duration;

use crate::Instant;
use crate::peer::event_queue::RemainingProgress;
use crate::peer::{LostReason, Outbox, Outcome, RequestId, RequestRecord as _};
use crate::prelude::*;
use crate::rpc::{Raw, Text};
use crate::schema::{EmptyParams, Method as _, Ping, ProgressParams};

use super::incoming_requests::{bytes_of, decode};
use super::request_record::{ClientRequest, RequestOwner};
use super::{Client, CloseReason, Diagnostic, Event, Keepalive, Phase};

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
        let tolerates_busy = self.config.keepalive.is_some_and(|config| config.tolerates_busy);
        let is_tolerated = tolerates_busy && self.requests.has_working();
        let Some(misses) = self.pings.take_missed(now, id, is_tolerated) else { return };
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
    /// server is tolerated.
    fn take_missed(&mut self, now: Instant, ping: RequestId, is_tolerated: bool) -> Option<u32> {
        self.in_flight.take_if(|sent| *sent == ping)?;
        self.schedule(now);
        if is_tolerated {
            return None;
        }
        self.misses = self.misses.saturating_add(1);
        Some(self.misses)
    }

    fn schedule(&mut self, now: Instant) {
        self.next = self.config.map(|config| now + config.interval.max(MIN_INTERVAL));
    }
}

// Progress reports of a server on the requests of this side.

impl Client {
    /// Handles a report: it extends the request's timeout, and reaches the application at once or, if it follows the
    /// previous one too fast, later and only if no newer one arrives by then.
    pub(super) fn handle_progress(&mut self, now: Instant, method: Text, params: Option<Raw>) {
        let bytes = bytes_of(params.as_ref());
        let params: Result<ProgressParams, String> = decode(params.as_ref());
        let params = match params {
            Ok(params) => params,
            Err(error) => return self.report(Diagnostic::InvalidNotification { method, error }),
        };
        // Progress of a request that is unknown or over is no error: it may have crossed the answer.
        //= C7.9 "Track active tokens; ignore progress of unknown/finished tokens"
        let Some(number) = self.config.strictness.number_of(&params.progress_token) else { return };
        let request = RequestId::new(number);
        if !self.requests.get(request).is_some_and(ClientRequest::reports_progress) {
            return;
        }
        self.note_number_as_string(&params.progress_token);
        self.requests.restart_timeout(request, now);
        // Waiting reports count like queued ones.
        if !self.events.has_room(self.progress.bytes().saturating_add(bytes)) {
            return self.events.note_dropped();
        }
        //= C7.9 "rate limit"
        if let Some(params) = self.progress.offer(now, request, params, bytes) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the waiting reports whose time has come.
    pub(super) fn deliver_due_progress(&mut self, now: Instant) {
        while let Some((request, params, bytes)) = self.progress.pop_due(now) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the last report on a request that is over, before its outcome.
    pub(super) fn deliver_last_progress(&mut self, request: RequestId) {
        let Some(RemainingProgress { last, replaced }) = self.progress.remove(request) else { return };
        if let Some((params, bytes)) = last {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
        if replaced > 0 {
            self.report(Diagnostic::ProgressSkipped { request, count: replaced });
        }
    }
}
