//! The transitions of a server between its phases.

use core::mem;
use core::time::Duration;

use super::state::{Action, CallOutcome, Finishing, Generation, Phase, Server, Then};
use super::{ControlPlane, Event, Lifecycle, Timer};
use super::{Failure, FailureKind, Location, Status};
use crate::Instant;
use crate::backoff::BackoffTimer;
use crate::host::config::ServerId;
use crate::prelude::*;

impl ControlPlane {
    /// Starts a server as if it were new: after it was configured, enabled, approved or reconnected.
    pub(super) fn begin(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        server.attempts = 0;
        match (server.first_status(), server.policy.approval) {
            (status @ Status::Disabled, _) => self.settle(now, id, Phase::Resting, status),
            (status @ Status::Unapproved, Some(content)) => {
                server.action = Some(self.actions.push(Action::AskApproval { server: id, content }));
                self.settle(now, id, Phase::Resting, status);
            }
            (status @ Status::Idle, _) if server.is_unused() => self.settle(now, id, Phase::Idle, status),
            _ => self.connect(now, id),
        }
    }

    /// Makes an attempt.
    pub(super) fn connect(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let generation = Generation(self.last_generation.0.saturating_add(1));
        (self.last_generation, server.generation) = (generation, generation);
        server.attempts = server.attempts.saturating_add(1);
        server.phase = Phase::Connecting { deadline: now.after(server.policy.start_timeout) };
        server.action = Some(self.actions.push(Action::Connect { server: id, generation }));
        let status = if server.attempts > 1 || server.status == Status::Reconnecting {
            Status::Reconnecting
        } else {
            Status::Starting
        };
        self.set_status(now, id, status);
    }

    //= F76 "let pending requests finish, clean up"
    /// Ends the calls of a server that were not sent, lets the others finish within `grace`, then ends what runs, and does
    /// what follows.
    pub(super) fn finish(
        &mut self,
        now: Instant,
        id: ServerId,
        grace: Duration,
        then: Then,
        outcome: CallOutcome,
    ) {
        self.end_unsent(now, id, outcome);
        let Some(server) = self.servers.get_mut(&id) else { return };
        let until = match server.phase {
            Phase::Connected { .. } => now + grace,
            Phase::Finishing(Finishing { until, .. }) => until.min(now + grace),
            _ => return self.end(now, id, then),
        };
        server.phase = Phase::Finishing(Finishing { until, then, outcome });
        self.changed.insert(id);
        if server.sent.is_empty() || until <= now {
            self.end_grace(now, id);
        } else {
            self.schedule(id);
        }
    }

    //= F90 "Ending one server clears what waits for it"
    /// Ends what runs, then does what follows.
    pub(super) fn end(&mut self, now: Instant, id: ServerId, then: Then) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let withdrawn = server.action.take().and_then(|action| self.actions.withdraw(action));
        let phase = mem::replace(&mut server.phase, Phase::Ending(then));
        match phase {
            Phase::Due { at, queued: true } => self.attempts.remove(at, id),
            Phase::Connecting { .. } if matches!(withdrawn, Some(Action::Connect { .. })) => {}
            Phase::Connecting { .. } | Phase::Connected { .. } => {
                let generation = server.generation;
                server.action = Some(self.actions.push(Action::Disconnect { server: id, generation }));
                return self.schedule(id);
            }
            Phase::Ending(_) => {
                // The disconnection stays asked for.
                server.action = withdrawn.map(|action| self.actions.push(action));
                return;
            }
            _ => {}
        }
        self.follow(now, id, then);
    }

    /// Does what follows the end of a connection.
    pub(super) fn follow(&mut self, now: Instant, id: ServerId, then: Then) {
        match then {
            Then::Begin => self.begin(now, id),
            Then::Retry => self.retry(now, id),
            Then::Connect => self.connect(now, id),
            Then::Idle => {
                if let Some(server) = self.servers.get_mut(&id) {
                    // A call or a hold may have come in the meantime.
                    if server.is_unused() {
                        server.phase = Phase::Idle;
                    } else {
                        self.connect(now, id);
                    }
                }
            }
            Then::Remove => {
                self.servers.remove(&id);
                self.timers.remove(Timer::Server(id));
                self.check_closed();
                return;
            }
        }
        self.schedule(id);
    }

    //= K1 "a program that keeps ending is suspended"
    /// Decides by its failure whether and when a server is tried again.
    pub(super) fn retry(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let kind = server.failure.as_ref().map_or(FailureKind::Transient, |failure| failure.kind);
        let is_local = server.policy.location == Location::Local;
        let usual = if is_local { Some(self.config.outage_budget) } else { self.config.remote_outage_budget };
        let budget = server.policy.outage_budget.or(usual);
        match kind {
            FailureKind::NeedsAuthorization if server.policy.shares_logins => self.await_login(now, id, 0),
            FailureKind::NeedsAuthorization => self.give_up(now, id, Status::NeedsAuthorization),
            FailureKind::Permanent => self.give_up(now, id, Status::Failed),
            FailureKind::Transient if budget.is_some_and(|budget| server.attempts > budget) => {
                let last = server.failure.take();
                server.failure = Some(exhausted(server.attempts, last));
                self.give_up(now, id, Status::Suspended);
            }
            FailureKind::Transient if server.policy.lazy.is_some() && server.is_unused() => {
                self.settle(now, id, Phase::Idle, Status::Idle);
            }
            FailureKind::Transient => {
                let failures = server.attempts.saturating_sub(1);
                let slow = failures.checked_sub(self.config.backoff.attempts).filter(|_| !is_local);
                let pause = match slow {
                    Some(failures) => self.config.slow_backoff.pause(failures, &mut self.rng),
                    None => self.config.backoff.pause(failures, &mut self.rng),
                };
                let at = now + pause.max(BackoffTimer::MIN_PAUSE);
                self.settle(now, id, Phase::Due { at, queued: false }, Status::Reconnecting);
            }
        }
        self.schedule(id);
    }

    /// Stops trying, and ends the calls that wait.
    fn give_up(&mut self, now: Instant, id: ServerId, status: Status) {
        self.settle(now, id, Phase::Resting, status);
        self.end_unsent(now, id, CallOutcome::Unavailable(status));
    }

    /// Waits until another process has stored tokens, and ends the calls that wait.
    pub(super) fn await_login(&mut self, now: Instant, id: ServerId, checks: u32) {
        let pause = self.config.slow_backoff.pause(checks, &mut self.rng).max(BackoffTimer::MIN_PAUSE);
        let phase = Phase::LoginRequired { check: Some(now + pause), checks };
        self.settle(now, id, phase, Status::NeedsAuthorization);
        self.end_unsent(now, id, CallOutcome::Unavailable(Status::NeedsAuthorization));
    }

    /// Looks for tokens that another process has stored, unless that happens already.
    pub(super) fn check_login(&mut self, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let generation = server.generation;
        if let Phase::LoginRequired { check, .. } = &mut server.phase
            && check.take().is_some()
        {
            server.action = Some(self.actions.push(Action::CheckLogin { server: id, generation }));
        }
    }

    fn settle(&mut self, now: Instant, id: ServerId, phase: Phase, status: Status) {
        if let Some(server) = self.servers.get_mut(&id) {
            server.phase = phase;
            self.set_status(now, id, status);
        }
    }

    /// Ends an attempt that takes too long.
    pub(super) fn time_out_start(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let timeout = server.policy.start_timeout.as_secs_f64();
        let reason: String = alloc::format!("the server did not start within {timeout} s");
        server.failure = Some(Failure::new(FailureKind::Transient, reason));
        self.set_status(now, id, Status::Reconnecting);
        self.end(now, id, Then::Retry);
    }

    pub(super) fn set_status(&mut self, now: Instant, id: ServerId, status: Status) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        if server.status != status {
            server.status = status;
            server.since = now;
            self.changed.insert(id);
        }
        if status == Status::Starting {
            self.starting.insert(id);
        } else {
            self.starting.remove(&id);
        }
        self.check_ready();
    }

    //= K18 "Startup does not wait for a slow server, unless its entry requires it"
    /// Ends the startup if no awaited server is still starting.
    pub(super) fn check_ready(&mut self) {
        let Lifecycle::Starting { gate_passed } = self.lifecycle else { return };
        let awaits =
            |id: &ServerId| !gate_passed || self.servers.get(id).is_some_and(|server| server.policy.required);
        if !self.starting.iter().any(awaits) {
            self.timers.remove(Timer::Gate);
            self.lifecycle = Lifecycle::Running;
            self.announcement = Some(Event::Ready);
        }
    }

    pub(super) fn check_closed(&mut self) {
        if self.lifecycle == Lifecycle::Closing && self.servers.is_empty() {
            self.lifecycle = Lifecycle::Closed;
            self.timers.remove(Timer::Close);
            self.announcement = Some(Event::Closed);
        }
    }

    /// Sets the timers of a server after a change.
    pub(super) fn schedule(&mut self, id: ServerId) {
        let of_server = self.servers.get(&id).and_then(Server::deadline);
        for (timer, deadline) in [(Timer::Server(id), of_server), (Timer::Attempts, self.attempts.deadline())]
        {
            match deadline {
                Some(_) => _ = self.timers.insert(timer, deadline, ()),
                None => _ = self.timers.remove(timer),
            }
        }
    }
}

//= F72 "with a message when it is reached"
/// The failure of a server that is given up after as many attempts as it may have, the last of which failed so.
fn exhausted(attempts: u32, last: Option<Failure>) -> Failure {
    let Failure { reason, stderr, .. } =
        last.unwrap_or_else(|| Failure::new(FailureKind::Transient, "the connection ended"));
    let attempts = if attempts == 1 { "attempt".into() } else { alloc::format!("{attempts} attempts") };
    let reason = alloc::format!("given up after the maximum of {attempts}: {reason}");
    Failure::new(FailureKind::Transient, reason).with_stderr(stderr)
}
