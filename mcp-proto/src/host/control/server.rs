//! One server: its phase, the transitions between phases, and the bound on reconnections over all servers.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use core::mem;
use core::time::Duration;

use super::calls::{CallId, CallOutcome};
use super::policy::{Failure, FailureKind, Location, ServerPolicy, ServerState, Status};
use super::{Action, ControlPlane, Event, Generation, Lifecycle, Timer};
use crate::Instant;
use crate::backoff::BackoffTimer;
use crate::host::config::ServerId;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) policy: ServerPolicy,
    pub(super) phase: Phase,
    pub(super) status: Status,
    since: Instant,
    pub(super) failure: Option<Failure>,
    /// The present or last connection.
    pub(super) generation: Generation,
    /// Attempts since the last stable connection.
    pub(super) attempts: u32,
    /// How often the application holds it.
    pub(super) holds: u32,
    /// When the last call or hold ended.
    pub(super) last_used: Instant,
    pub(super) waiting: BTreeSet<CallId>,
    pub(super) sent: BTreeSet<CallId>,
    /// Its last [`Action`], which may not be polled yet. There is never more than one.
    pub(super) action: Option<ActionId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing happens until a command or an approval.
    Resting,
    /// A lazy server that was not called.
    Idle,
    /// The next attempt is due.
    Due {
        at: Instant,
        /// Whether it is in the queue of the attempts of all servers.
        queued: bool,
    },
    Connecting {
        deadline: Option<Instant>,
    },
    Connected {
        /// When the attempts before this connection are forgiven.
        stable: Option<Instant>,
    },
    /// A disconnection was asked for.
    Ending(Then),
}

/// What follows the end of a connection that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Start as if it were new.
    Begin,
    /// Decide by the failure.
    Retry,
    /// Make an attempt.
    Connect,
    /// Wait for a call.
    Idle,
    /// Forget the server.
    Remove,
}

impl Server {
    pub(super) fn new(now: Instant, policy: ServerPolicy) -> Self {
        Self {
            policy,
            phase: Phase::Resting,
            status: Status::Disabled,
            since: now,
            failure: None,
            generation: Generation(0),
            attempts: 0,
            holds: 0,
            last_used: now,
            waiting: BTreeSet::new(),
            sent: BTreeSet::new(),
            action: None,
        }
    }

    /// The status with which it begins: after it was configured, enabled, approved or reconnected.
    pub(super) fn first_status(&self) -> Status {
        if !self.policy.enabled {
            Status::Disabled
        } else if self.policy.approval.is_some() && !self.policy.is_approved {
            Status::Unapproved
        } else if self.policy.starts_idle() {
            Status::Idle
        } else {
            Status::Starting
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        self.phase == Phase::Ending(Then::Remove)
    }

    pub(super) fn state(&self) -> ServerState<'_> {
        let next_attempt = match self.phase {
            Phase::Due { at, .. } => Some(at),
            _ => None,
        };
        ServerState {
            status: self.status,
            since: self.since,
            failure: self.failure.as_ref(),
            attempts: self.attempts,
            next_attempt,
        }
    }

    fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty() && self.holds == 0
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due { at, queued: false } => Some(at),
            Phase::Connecting { deadline } => deadline,
            Phase::Connected { stable } => {
                let unused = self.policy.lazy.filter(|_| self.is_unused());
                let idle = unused.and_then(|unused| self.last_used.after(unused));
                [stable, idle].into_iter().flatten().min()
            }
            _ => None,
        }
    }
}

impl ControlPlane {
    /// Starts a server as if it were new: after it was configured, enabled, approved or reconnected.
    pub(super) fn begin(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        server.attempts = 0;
        match (server.first_status(), server.policy.approval) {
            (status @ Status::Disabled, _) => self.rest(now, id, status),
            (status @ Status::Unapproved, Some(content)) => {
                server.action = Some(self.actions.push(Action::AskApproval { server: id, content }));
                self.rest(now, id, status);
            }
            (status @ Status::Idle, _) if server.is_unused() => self.settle(now, id, Phase::Idle, status),
            _ => self.connect(now, id),
        }
    }

    /// Makes an attempt.
    pub(super) fn connect(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let generation = Generation(server.generation.0.saturating_add(1));
        server.generation = generation;
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

    /// Decides by its failure whether and when a server is tried again.
    pub(super) fn retry(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let kind = server.failure.as_ref().map_or(FailureKind::Transient, |failure| failure.kind);
        let is_local = server.policy.location == Location::Local;
        match kind {
            FailureKind::NeedsAuthorization => self.give_up(now, id, Status::NeedsAuthorization),
            FailureKind::Permanent => self.give_up(now, id, Status::Failed),
            FailureKind::Transient if is_local && server.attempts > self.config.outage_budget => {
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
        self.rest(now, id, status);
        self.end_calls(now, id, CallOutcome::Unavailable(status));
    }

    fn rest(&mut self, now: Instant, id: ServerId, status: Status) {
        self.settle(now, id, Phase::Resting, status);
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
        if status.is_settled() {
            self.starting.remove(&id);
        } else {
            self.starting.insert(id);
        }
        self.check_ready();
    }

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

/// Names an action that was not polled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActionId(u64);

/// The actions that the driver has not polled yet, in order, each of which can be withdrawn.
#[derive(Debug, Default)]
pub(super) struct Actions {
    next: u64,
    queue: BTreeMap<ActionId, Action>,
}

impl Actions {
    pub(super) fn push(&mut self, action: Action) -> ActionId {
        let id = ActionId(self.next);
        self.next = self.next.saturating_add(1);
        self.queue.insert(id, action);
        id
    }

    pub(super) fn pop(&mut self) -> Option<Action> {
        self.queue.pop_first().map(|(_, action)| action)
    }

    pub(super) fn contains(&self, id: Option<ActionId>) -> bool {
        id.is_some_and(|id| self.queue.contains_key(&id))
    }

    pub(super) fn withdraw(&mut self, id: ActionId) -> Option<Action> {
        self.queue.remove(&id)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Counts the attempts of the last minute, and queues servers in the order in which their attempts were due.
#[derive(Debug)]
pub(super) struct AttemptLimit {
    limit: usize,
    /// The attempts of the last minute, the oldest first.
    recent: VecDeque<Instant>,
    queued: BTreeSet<(Instant, ServerId)>,
}

impl AttemptLimit {
    /// At least one attempt a minute is allowed: with none a server would wait forever.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), recent: VecDeque::new(), queued: BTreeSet::new() }
    }

    /// Whether an attempt that was due at `due` may be made at `now`. If not, it is queued.
    pub(super) fn admit(&mut self, now: Instant, due: Instant, server: ServerId) -> bool {
        self.queued.insert((due, server));
        self.queued.first() == Some(&(due, server)) && self.pop(now).is_some()
    }

    /// The next queued server whose attempt may be made at `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<ServerId> {
        if self.queued.is_empty() || !self.is_open(now) {
            return None;
        }
        let (_, server) = self.queued.pop_first()?;
        self.recent.push_back(now);
        Some(server)
    }

    pub(super) fn remove(&mut self, due: Instant, server: ServerId) {
        self.queued.remove(&(due, server));
    }

    /// When the next queued attempt may be made.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.queued.first()?;
        let oldest = self.recent.front().filter(|_| self.recent.len() >= self.limit);
        Some(oldest.map_or(Instant::ORIGIN, |&oldest| oldest + MINUTE))
    }

    fn is_open(&mut self, now: Instant) -> bool {
        while self.recent.front().is_some_and(|&oldest| oldest + MINUTE <= now) {
            self.recent.pop_front();
        }
        self.recent.len() < self.limit
    }
}
