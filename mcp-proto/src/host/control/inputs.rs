//! Reports of the driver.

use core::time::Duration;

use super::{ControlPlane, Failure, FailureKind, Generation, Lifecycle, Phase, Status, Then, Timer};
use crate::Instant;
use crate::host::config::{Fingerprint, ServerId};

/// How long a connection must live until the attempts before it are forgiven.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// # Inputs
impl ControlPlane {
    /// The server can be used over this connection.
    pub fn handle_connected(&mut self, now: Instant, server: ServerId, generation: Generation) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        if state.generation != generation
            || !matches!(state.phase, Phase::Connecting { .. })
            || state.action.is_some()
        {
            return;
        }
        state.phase = Phase::Connected { stable: Some(now + STABLE_AFTER) };
        state.last_used = now;
        self.set_status(now, server, Status::Connected);
        self.send_waiting(server);
        self.schedule(server);
    }

    /// A connection, or its attempt, is over: it failed, was lost, or ended as asked. Report what became of its calls
    /// before: those left over are [lost](super::Delivery::Lost).
    pub fn handle_ended(
        &mut self,
        now: Instant,
        server: ServerId,
        generation: Generation,
        failure: Option<Failure>,
    ) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        let is_announced =
            |phase| matches!(phase, Phase::Connecting { .. } | Phase::Connected { .. } | Phase::Ending(_));
        if state.generation != generation || !is_announced(state.phase) {
            return;
        }
        // Either an unpolled disconnection, which is done, or an unpolled connection, which no driver can have ended.
        if let Some(action) = state.action {
            if matches!(state.phase, Phase::Connecting { .. }) {
                return;
            }
            state.action = None;
            self.actions.withdraw(action);
        }
        if let Phase::Ending(then) = state.phase {
            // The reason is known; standard error may explain it.
            if let (Then::Retry, Some(kept), Some(failure)) = (then, &mut state.failure, failure) {
                kept.stderr = failure.stderr;
            }
            self.lose_sent(now, server);
            return self.follow(now, server, then);
        }
        let failure = failure.unwrap_or_else(|| Failure::new(FailureKind::Transient, "the connection ended"));
        state.failure = Some(failure);
        self.lose_sent(now, server);
        self.retry(now, server);
    }

    /// Whether the user approves the content that [`Action::AskApproval`](super::Action::AskApproval) named. Ignored if
    /// the server has another content by now.
    pub fn handle_approval(
        &mut self,
        now: Instant,
        server: ServerId,
        content: Fingerprint,
        is_approved: bool,
    ) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        if state.policy.approval == Some(content) && state.status == Status::Unapproved && is_approved {
            state.approved = true;
            self.end(now, server, Then::Begin);
        }
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come. Does nothing if it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((timer, ())) = self.timers.pop_expired(now) {
            match timer {
                Timer::Gate => {
                    if let Lifecycle::Starting { gate_passed } = &mut self.lifecycle {
                        *gate_passed = true;
                    }
                    self.check_ready();
                }
                Timer::Close => self.abandon(),
                Timer::Call(call) => self.end_call(now, call, super::CallOutcome::TimedOut),
                Timer::Attempts => {
                    while let Some(server) = self.attempts.pop(now) {
                        self.connect(now, server);
                        self.schedule(server);
                    }
                }
                Timer::Server(server) => self.server_timeout(now, server),
            }
        }
    }

    fn server_timeout(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        match &mut server.phase {
            Phase::Due { at, queued } => {
                if self.attempts.admit(now, *at, id) {
                    self.connect(now, id);
                } else {
                    *queued = true;
                }
            }
            Phase::Connecting { .. } => self.time_out_start(now, id),
            Phase::Connected { stable } => {
                if stable.is_some_and(|stable| stable <= now) {
                    *stable = None;
                    server.attempts = 0;
                } else {
                    // It worked until it was no longer needed.
                    server.attempts = 0;
                    self.set_status(now, id, Status::Idle);
                    self.end(now, id, Then::Idle);
                }
            }
            _ => {}
        }
        self.schedule(id);
    }
}
