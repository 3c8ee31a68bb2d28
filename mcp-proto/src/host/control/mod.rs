//! Which servers run, when each is tried again, and which call goes where: the decisions of a host, without its I/O.
//!
//! A [`ControlPlane`] owns no connection. It asks for them by [`Action`]s, each with the [`Generation`] that it belongs
//! to, and its driver answers by inputs; answers of past generations are ignored. The driver keeps the
//! rest: the configuration, the clients, the parameters and results of calls.
//!
//! ```text
//! loop {
//!     drain poll_action → connect, disconnect, send, abort, ask for approval, look for a login
//!     drain poll_event  → tell the application
//!     again, until neither has anything
//!     wait for: an answer → handle_* | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! # Starting
//!
//! All servers start at once. After [`ControlConfig::startup_gate`] the application goes on ([`Event::Ready`]) with
//! those that are connected; only required ones are awaited longer. A lazy server starts with its first call, but
//! once before it if [its lists are not known](ServerPolicy::starts_to_list). A server that needs approval starts once
//! the user has given it.
//!
//! # Outages
//!
//! A lost connection, or a start that failed, is tried again after the pauses of [`ControlConfig::backoff`]; a remote
//! server then at the pace of [`ControlConfig::slow_backoff`]. An attempt counts until a connection has lived for
//! 30 seconds: a local server with too many is suspended, and a remote one if
//! [`ControlConfig::remote_outage_budget`] limits them, until [`reconnect`](ControlPlane::reconnect). After its faults have ended, a server that is not suspended is connected
//! within the longest of its pauses and the time of one start, or later if more servers than
//! [`ControlConfig::attempts_per_minute`] wait.
//!
//! A server that needs authorization waits for the user. If it [shares logins](ServerPolicy::shares_logins) with other
//! processes, it is connected once one of them has stored tokens: each call looks for them, and so does the control plane
//! at the pace of `slow_backoff`.
//!
//! # Ends
//!
//! A server that is closed, removed, restarted with another configuration or switched off takes no new calls, and nor does
//! one that [refuses the credentials](ControlPlane::handle_unauthorized) of its connection; those that it is working on may
//! finish within [`ControlConfig::grace`], and are aborted then.
//!
//! # Calls
//!
//! A call waits for its server, within its own deadline, and has exactly one end. A call that was certainly not
//! sent is sent again over the next connection; one that was sent and not answered only with [`CallOptions::repeat`], as it
//! may have been executed. No call moves to another server.
//!
//! ```
//! use mcp_proto::Instant;
//! use mcp_proto::host::config::{ServerEntry, ServerSpec, TimeoutOverrides};
//! use mcp_proto::host::control::{
//!     Action, CallOptions, CallOutcome, ControlConfig, ControlPlane, Delivery, Event, ServerPolicy,
//! };
//!
//! let entry = ServerEntry::user("files", ServerSpec::stdio("mcp-files", ["/srv"]));
//! let files = entry.id();
//! let now = Instant::ORIGIN;
//! let mut host = ControlPlane::new(ControlConfig::default());
//! host.configure(now, [(files, ServerPolicy::new(&entry, &TimeoutOverrides::default()))]);
//!
//! // The call waits for its server.
//! let call = host.call(now, files, CallOptions::default())?;
//! let Some(Action::Connect { generation, .. }) = host.poll_action() else { panic!() };
//! host.handle_connected(now, files, generation);
//! assert_eq!(host.poll_action(), Some(Action::Send { call, server: files, generation }));
//! host.handle_delivery(now, call, generation, Delivery::Answered);
//!
//! let events: Vec<Event> = std::iter::from_fn(|| host.poll_event()).collect();
//! assert!(events.contains(&Event::Ended { call, outcome: CallOutcome::Answered }));
//! # Ok::<(), mcp_proto::host::control::CallRefusal>(())
//! ```

mod commands;
mod server;
mod state;

use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, SplitMix64};
use crate::consent::SafeText;
use crate::host::config::{Fingerprint, Scope, ServerEntry, ServerId, TimeoutOverrides, TransportSpec};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::Pending;

pub use self::commands::UnknownServer;
pub use self::state::{Action, CallId, CallOptions, CallOutcome, CallRefusal, Delivery, Generation, Repeat};
use self::state::{Actions, AttemptLimit, Call, Server};

/// Decides which of many servers run, when each is tried again, and when calls are sent. See the
/// [module](self).
#[derive(Debug)]
pub struct ControlPlane {
    config: ControlConfig,
    servers: OrderedMap<ServerId, Server>,
    /// How often the application holds each server, also one that is removed and may come back.
    holds: OrderedMap<ServerId, u32>,
    calls: OrderedMap<CallId, Call>,
    next_call: u64,
    /// Those of a server that comes back are new too.
    last_generation: Generation,
    timers: Pending<(), Timer>,
    attempts: AttemptLimit,
    rng: SplitMix64,
    lifecycle: Lifecycle,
    /// The servers whose first attempt has not ended.
    starting: OrderedSet<ServerId>,
    actions: Actions,
    /// The servers whose status has changed.
    changed: OrderedSet<ServerId>,
    ended: VecDeque<(CallId, CallOutcome)>,
    /// [`Event::Ready`] or [`Event::Closed`].
    announcement: Option<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifecycle {
    /// Nothing was configured yet.
    New,
    /// The application waits for the first servers.
    Starting {
        /// Whether the gate's time has passed.
        gate_passed: bool,
    },
    Running,
    /// Servers are being stopped.
    Closing,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Gate,
    Close,
    Attempts,
    Server(ServerId),
    Call(CallId),
}

/// A message for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The startup has ended: the application goes on with the servers that are connected.
    Ready,
    /// The status of the server has changed, it lets its running calls finish, or it was removed:
    /// [`ControlPlane::server`]. Changes between two polls are one event.
    Status(ServerId),
    /// A call has ended.
    Ended {
        /// The call.
        call: CallId,
        /// How.
        outcome: CallOutcome,
    },
    /// All servers have ended, or had the time for it. No event follows.
    Closed,
}

impl ControlPlane {
    /// A host without servers.
    #[must_use]
    pub fn new(config: ControlConfig) -> Self {
        Self {
            servers: OrderedMap::new(),
            holds: OrderedMap::new(),
            calls: OrderedMap::new(),
            next_call: 0,
            last_generation: Generation(0),
            timers: Pending::new(),
            attempts: AttemptLimit::new(config.attempts_per_minute),
            rng: SplitMix64::new(config.seed),
            lifecycle: Lifecycle::New,
            starting: OrderedSet::new(),
            actions: Actions::default(),
            changed: OrderedSet::new(),
            ended: VecDeque::new(),
            announcement: None,
            config,
        }
    }
}

/// # Outputs
impl ControlPlane {
    /// The next action.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    /// The next event.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        let changed = self.changed.pop_first().map(Event::Status);
        let ended = || self.ended.pop_front().map(|(call, outcome)| Event::Ended { call, outcome });
        changed.or_else(ended).or_else(|| self.announcement.take())
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
}

/// # Getters
impl ControlPlane {
    /// The configured servers.
    pub fn servers(&self) -> impl Iterator<Item = (ServerId, ServerState<'_>)> {
        self.servers.keys().filter_map(|&id| Some((id, self.server(id)?)))
    }

    /// The state of a configured server; while the host closes, of one whose [running calls
    /// finish](ControlConfig::grace).
    #[must_use]
    pub fn server(&self, server: ServerId) -> Option<ServerState<'_>> {
        let is_finishing = |server: &Server| self.is_closing() && server.finishing().is_some();
        let is_shown = |server: &&Server| !server.is_removed() || is_finishing(server);
        self.servers.get(&server).filter(is_shown).map(Server::state)
    }

    fn is_closing(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closing | Lifecycle::Closed)
    }

    /// The number of calls that have not ended.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }
}

// How servers are started, kept and given up, and where each stands.

config! {
    /// The times and limits of a [`ControlPlane`], the same for all its servers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct ControlConfig {
        /// After this time the application goes on without the servers that are still starting, except required ones.
        /// Default 250 ms.
        pub startup_gate: Duration = Duration::from_millis(250),
        /// The pauses between attempts to reach a server again. Default: 500 ms, doubling up to 4 s. Its `attempts` are
        /// those after which a remote server is tried at the pace of `slow_backoff`: default 4.
        //= F71 "pauses of 500 ms to 4 s"
        //= K1 "500 ms doubling, jittered and capped"
        pub backoff: Backoff =
            Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(4), attempts: 4 },
        /// The pauses after the attempts of `backoff`, for remote servers, and between [checks for a
        /// login](Action::CheckLogin). Default: 15 s, doubling up to 5 minutes. Its `attempts` are unused:
        /// `remote_outage_budget` limits them.
        pub slow_backoff: Backoff =
            Backoff { first: Duration::from_secs(15), longest: Duration::from_secs(300), attempts: 0 },
        /// A local server that needs more attempts than this without a stable connection is suspended. Default 5.
        pub outage_budget: u32 = 5,
        /// The same of a remote server. Default: none, it is tried until it is reached.
        pub remote_outage_budget: Option<u32> = None,
        /// How many reconnections there may be in a minute, over all servers. First starts and
        /// [`reconnect`](ControlPlane::reconnect) do not count. Default 60.
        pub attempts_per_minute: usize = 60,
        /// How many calls there may be at once, over all servers, until their ends are polled. Default 10,000.
        pub calls: usize = 10_000,
        /// How long calls that a server is working on may go on before it is closed, removed, restarted with another
        /// configuration or switched off, or waits for a login. Default 5 s.
        pub grace: Duration = Duration::from_secs(5),
        /// How long [`close`](ControlPlane::close) waits for servers to end, after the grace. Default 5 s.
        pub shutdown: Duration = Duration::from_secs(5),
        /// The seed of the jitter of the pauses. Two hosts with different seeds do not reconnect at the same moment.
        pub seed: u64 = 0,
    }
}

/// How one server is started, kept and called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerPolicy {
    /// Equal as long as the server is reached in the same way; a new value restarts it.
    pub connection: Fingerprint,
    /// Where it runs, which decides how long it is tried again.
    pub location: Location,
    /// Whether it is used.
    pub enabled: bool,
    /// The content that the user must approve before it starts; a new value asks again.
    pub approval: Option<Fingerprint>,
    /// Whether the user has approved `approval` before. Default: no. Counts when `approval` is new.
    pub is_approved: bool,
    /// Whether the application waits for it at startup.
    pub required: bool,
    /// `Some` starts it with its first call, and stops it once it was unused for this time; `Duration::MAX` never.
    pub lazy: Option<Duration>,
    /// Whether the server starts once although it is lazy, because its lists are not known: without the names of its
    /// tools nothing can call them. If that attempt fails, the next one is that of a call. Default: no.
    pub starts_to_list: bool,
    /// Whether another process may store tokens for it. Then a server that needs authorization is connected once
    /// [`Action::CheckLogin`] finds new ones: with the next call, which waits for that, and at the
    /// pace of [`slow_backoff`](ControlConfig::slow_backoff). Default: no.
    pub shares_logins: bool,
    /// The number of attempts after which it is suspended, in place of [`ControlConfig::outage_budget`] or
    /// [`ControlConfig::remote_outage_budget`].
    pub outage_budget: Option<u32>,
    /// How long a start may take, its lists of tools and others included; `Duration::MAX` is no limit. Default 30 s.
    pub start_timeout: Duration,
    /// How long a call may take, the wait for its server included; `Duration::MAX` is no limit. Default 30 s.
    pub call_timeout: Duration,
}

impl ServerPolicy {
    /// The policy of an entry, with the timeouts of the environment. A project's entry needs approval of its whole
    /// meaning. A lazy server is stopped after 5 minutes without use.
    pub fn new(entry: &ServerEntry, overrides: &TimeoutOverrides) -> Self {
        let spec = entry.spec();
        let timeouts = spec.timeouts(overrides);
        let location = match spec.transport {
            TransportSpec::Stdio(_) => Location::Local,
            TransportSpec::Http(_) => Location::Remote,
        };
        Self {
            connection: entry.connection(),
            location,
            enabled: spec.enabled,
            approval: (entry.source().scope == Scope::Project).then(|| entry.meaning()),
            is_approved: false,
            required: spec.required,
            lazy: spec.lazy.then_some(Duration::from_secs(300)),
            starts_to_list: false,
            shares_logins: false,
            outage_budget: spec.reconnect_attempts,
            start_timeout: timeouts.start.unwrap_or(Duration::MAX),
            call_timeout: timeouts.call.unwrap_or(Duration::MAX),
        }
    }
}

/// Where a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// A program of this machine: it is suspended when it does not keep running.
    Local,
    /// A server at a URL: it is tried until it is reached, unless [the attempts are limited](ControlConfig::remote_outage_budget).
    Remote,
}

//= F82 "Status: connected, connecting (starts and reconnections included), disconnected"
/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Status {
    /// It is switched off.
    Disabled,
    /// It waits for the user's approval.
    Unapproved,
    /// It starts with its first call.
    Idle,
    /// It starts for the first time since it was configured, enabled or idle.
    Starting,
    /// It answers.
    Connected,
    /// It was lost, or did not start, and is tried again.
    Reconnecting,
    /// It wants the user to log in; then [`reconnect`](ControlPlane::reconnect), unless it [shares
    /// logins](ServerPolicy::shares_logins).
    NeedsAuthorization,
    /// It cannot work as it is configured. It is not tried again until its configuration changes or it is reconnected.
    Failed,
    /// It failed too often. It is not tried again until its configuration changes or it is reconnected.
    Suspended,
}

impl Status {
    /// Whether a call waits for the server rather than fails. One to a server that needs authorization fails too, but only
    /// after a [check for a login](Action::CheckLogin), if the server shares logins.
    pub const fn accepts_calls(self) -> bool {
        matches!(self, Self::Idle | Self::Starting | Self::Connected | Self::Reconnecting)
    }
}

display_text! { Status:
    Disabled => "disabled";
    Unapproved => "not approved";
    Idle => "idle";
    Starting => "starting";
    Connected => "connected";
    Reconnecting => "reconnecting";
    NeedsAuthorization => "needs authorization";
    Failed => "failed";
    Suspended => "suspended";
}

/// A server's status with its reason.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerState<'a> {
    /// Where it stands.
    pub status: Status,
    /// Since when.
    pub since: Instant,
    /// Why it is not connected, or was not before the present connection.
    pub failure: Option<&'a Failure>,
    /// Attempts since the last stable connection.
    pub attempts: u32,
    /// When the next attempt is due, while it waits for one.
    pub next_attempt: Option<Instant>,
    /// While its connection is to end but [running calls may finish](ControlConfig::grace): when they are cancelled.
    pub grace_ends: Option<Instant>,
}

/// Why a start or a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What to do about it.
    pub kind: FailureKind,
    /// The reason, as a sentence for the user. Once the server is [`Suspended`](Status::Suspended) it also says after how many
    /// attempts.
    pub reason: String,
    /// The end of its standard error.
    pub stderr: String,
}

impl Failure {
    /// The most bytes of a reason or of standard error that are kept: the start of the one and the end of the other.
    pub const LIMIT: usize = 4096;

    /// A failure with nothing on standard error.
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        reason.truncate(reason.floor_char_boundary(Self::LIMIT));
        Self { kind, reason, stderr: String::new() }
    }

    /// The same with the end of standard error.
    #[must_use]
    pub fn with_stderr(mut self, stderr: impl Into<String>) -> Self {
        let mut stderr = stderr.into();
        let start = stderr.ceil_char_boundary(stderr.len().saturating_sub(Self::LIMIT));
        self.stderr = stderr.split_off(start);
        self
    }
}

impl fmt::Display for Failure {
    /// The reason, and the last line of standard error, without characters that a terminal would obey.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SafeText::line(&self.reason))?;
        match self.stderr.lines().rfind(|line| !line.trim().is_empty()) {
            Some(last) => write!(f, "; the last line of its standard error: {}", SafeText::line(last)),
            None => Ok(()),
        }
    }
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Try again: the server ended, was not reached, or did not answer in time.
    Transient,
    /// Trying again changes nothing: a program that does not exist, a variable without a value, a refused revision.
    Permanent,
    /// The user must log in.
    NeedsAuthorization,
}
