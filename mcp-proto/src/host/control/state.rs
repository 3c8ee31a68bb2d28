//! What a host knows of its servers and calls, and the actions for its driver.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{Failure, ServerPolicy, ServerState, Status};
use crate::Instant;
use crate::host::config::{Fingerprint, ServerId};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;

/// The number of a connection: each [`Action::Connect`] has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(super) u64);

display_text! { Generation(number) => "{number}" }

/// A task for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reach the server and read its lists, with its secrets looked up again. Answer with
    /// [`handle_connected`](super::ControlPlane::handle_connected) once it can be used, and in any case, once it is over,
    /// with [`handle_ended`](super::ControlPlane::handle_ended).
    Connect {
        /// The server.
        server: ServerId,
        /// The new connection.
        generation: Generation,
    },
    /// End the connection or its attempt, then [`handle_ended`](super::ControlPlane::handle_ended).
    Disconnect {
        /// The server.
        server: ServerId,
        /// The connection to end.
        generation: Generation,
    },
    /// Send the call. Answer with [`handle_delivery`](super::ControlPlane::handle_delivery).
    Send {
        /// The call.
        call: CallId,
        /// Its server.
        server: ServerId,
        /// The connection.
        generation: Generation,
    },
    /// Cancel the call, which has ended here. It needs no answer.
    Abort {
        /// The call.
        call: CallId,
    },
    /// Find out whether the user approves the server. Answer with
    /// [`handle_approval`](super::ControlPlane::handle_approval); no answer is no approval.
    AskApproval {
        /// The server.
        server: ServerId,
        /// The content that the user approves.
        content: Fingerprint,
    },
    /// Find out whether another process has stored tokens since this connection failed for lack of them. Answer with
    /// [`handle_login`](super::ControlPlane::handle_login).
    CheckLogin {
        /// The server.
        server: ServerId,
        /// The connection that failed.
        generation: Generation,
    },
}

/// A call. Ids are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

display_text! { CallId(number) => "{number}" }

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CallOptions {
    /// How long the call may take, the wait for its server included; `Duration::MAX` is no limit. Default: the
    /// server's [`call_timeout`](super::ServerPolicy::call_timeout).
    pub timeout: Option<Duration>,
    /// When it is sent again.
    pub repeat: Repeat,
}

//= K25 "repeated only if the server did not accept it"
/// When a call whose connection broke is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Repeat {
    /// Only if it certainly did not reach the server.
    #[default]
    IfNotSent,
    /// Also if the server may have executed it: it is read-only or idempotent, or the user accepts that it happens
    /// twice.
    IfLost,
}

/// What became of a call that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It has a result or an error, which the driver keeps.
    Answered,
    /// The driver refused to send it over this connection, and keeps the reason: the tool has changed, for example.
    Refused,
    /// It certainly did not reach the server. The end of the connection follows.
    NotSent,
    /// It may have reached the server, and has no answer. The end of the connection follows.
    Lost,
    /// It may have reached the server, and has no answer; the connection goes on, because each call has an exchange of
    /// its own.
    ExchangeLost,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// It has a result or an error, which the driver keeps.
    Answered,
    /// The driver refused to send it, and keeps the reason.
    Refused,
    /// It, or its server, took too long.
    TimedOut,
    /// The application cancelled it.
    Cancelled,
    /// It was sent, and its connection ended before the answer: it may have been executed.
    Lost,
    /// Its server does not run: why is its status.
    Unavailable(Status),
    /// Its server was removed from the configuration, or restarted with another one.
    Removed,
    /// The host was closed.
    Closed,
}

/// Why a call was not accepted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallRefusal {
    /// No server with this id is configured.
    UnknownServer,
    /// The server does not run: why is its status.
    Unavailable(Status),
    /// There are [`ControlConfig::calls`](super::ControlConfig::calls) calls already.
    TooMany,
    /// The host was closed.
    Closed,
}

error_text! { CallRefusal:
    UnknownServer => "no such server is configured";
    Unavailable(status) => "the server is unavailable: {status}";
    TooMany => "too many calls are open";
    Closed => "the host is closed";
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) server: ServerId,
    pub(super) repeat: Repeat,
    pub(super) resends_left: u32,
    /// The connection over which it was sent.
    pub(super) sent: Option<Generation>,
    /// Its last [`Action::Send`], which may not be polled yet.
    pub(super) action: Option<ActionId>,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) policy: ServerPolicy,
    pub(super) phase: Phase,
    pub(super) status: Status,
    pub(super) since: Instant,
    pub(super) failure: Option<Failure>,
    /// The present or last connection.
    pub(super) generation: Generation,
    /// Attempts since the last stable connection.
    pub(super) attempts: u32,
    /// Whether the application holds it.
    pub(super) is_held: bool,
    /// When the last call or hold ended.
    pub(super) last_used: Instant,
    pub(super) waiting: OrderedSet<CallId>,
    pub(super) sent: OrderedSet<CallId>,
    /// Its last [`Action`], which may not be polled yet. There is never more than one.
    pub(super) action: Option<ActionId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing happens until a command or an approval.
    Resting,
    /// A server that needs authorization, until another process has stored tokens.
    LoginRequired {
        /// When to look for them; `None` while that happens.
        check: Option<Instant>,
        /// How often that was in vain.
        checks: u32,
    },
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
    /// The connection is to end once the calls that were sent over it have ended, or the grace is over.
    Finishing(Finishing),
    /// A disconnection was asked for.
    Ending(Then),
}

/// How a connection ends over which calls still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finishing {
    pub(super) until: Instant,
    pub(super) then: Then,
    /// How calls end that have no answer until then.
    pub(super) outcome: CallOutcome,
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
    pub(super) fn new(now: Instant, policy: ServerPolicy, is_held: bool) -> Self {
        Self {
            policy,
            phase: Phase::Resting,
            status: Status::Disabled,
            since: now,
            failure: None,
            generation: Generation(0),
            attempts: 0,
            is_held,
            last_used: now,
            waiting: OrderedSet::new(),
            sent: OrderedSet::new(),
            action: None,
        }
    }

    /// The status with which it begins: after it was configured, enabled, approved or reconnected.
    pub(super) fn first_status(&self) -> Status {
        if !self.policy.enabled {
            Status::Disabled
        } else if self.policy.approval.is_some() && !self.policy.is_approved {
            Status::Unapproved
        } else if self.policy.lazy.is_some() && !self.policy.starts_to_list {
            Status::Idle
        } else {
            Status::Starting
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        matches!(
            self.phase,
            Phase::Ending(Then::Remove) | Phase::Finishing(Finishing { then: Then::Remove, .. })
        )
    }

    pub(super) fn finishing(&self) -> Option<Finishing> {
        match self.phase {
            Phase::Finishing(finishing) => Some(finishing),
            _ => None,
        }
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
            grace_ends: self.finishing().map(|finishing| finishing.until),
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty() && !self.is_held
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due { at, queued: false } => Some(at),
            Phase::Connecting { deadline } => deadline,
            Phase::LoginRequired { check, .. } => check,
            Phase::Finishing(Finishing { until, .. }) => Some(until),
            Phase::Connected { stable } => {
                let unused = self.policy.lazy.filter(|_| self.is_unused());
                let idle = unused.and_then(|unused| self.last_used.after(unused));
                [stable, idle].into_iter().flatten().min()
            }
            _ => None,
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
    queue: OrderedMap<ActionId, Action>,
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
    queued: OrderedSet<(Instant, ServerId)>,
}

impl AttemptLimit {
    /// At least one attempt a minute is allowed: with none a server would wait forever.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), recent: VecDeque::new(), queued: OrderedSet::new() }
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
