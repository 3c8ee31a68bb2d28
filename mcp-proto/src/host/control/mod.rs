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
mod policy;
mod server;
mod state;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Instant;
use crate::backoff::SplitMix64;
use crate::host::config::ServerId;
use crate::rpc::Pending;

pub use self::commands::UnknownServer;
pub use self::policy::{ControlConfig, Failure, FailureKind, Location, ServerPolicy, ServerState, Status};
pub use self::state::{Action, CallId, CallOptions, CallOutcome, CallRefusal, Delivery, Generation, Repeat};
use self::state::{Actions, AttemptLimit, Call, Server};

/// Decides which of many servers run, when each is tried again, and when calls are sent. See the
/// [module](self).
#[derive(Debug)]
pub struct ControlPlane {
    config: ControlConfig,
    servers: BTreeMap<ServerId, Server>,
    /// How often the application holds each server, also one that is removed and may come back.
    holds: BTreeMap<ServerId, u32>,
    calls: BTreeMap<CallId, Call>,
    next_call: u64,
    /// Those of a server that comes back are new too.
    last_generation: Generation,
    timers: Pending<(), Timer>,
    attempts: AttemptLimit,
    rng: SplitMix64,
    lifecycle: Lifecycle,
    /// The servers whose first attempt has not ended.
    starting: BTreeSet<ServerId>,
    actions: Actions,
    /// The servers whose status has changed.
    changed: BTreeSet<ServerId>,
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
            servers: BTreeMap::new(),
            holds: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_call: 0,
            last_generation: Generation(0),
            timers: Pending::new(),
            attempts: AttemptLimit::new(config.attempts_per_minute),
            rng: SplitMix64::new(config.seed),
            lifecycle: Lifecycle::New,
            starting: BTreeSet::new(),
            actions: Actions::default(),
            changed: BTreeSet::new(),
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
