//! Reports of servers, and counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_proto::host::config::ServerId;
use mcp_proto::host::control::{CallOutcome, Failure, Status};
use mcp_proto::host::tools::Freshness;
use mcp_proto::peer::client::ServerInfo;

/// A server of a host: see [`Host::servers`](super::Host::servers).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerReport {
    /// Identifies it, also across reloads.
    pub id: ServerId,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Its status.
    pub status: Status,
    /// When it got this status, by the runtime's clock.
    pub since: Instant,
    /// Why it is not connected, or was not before the present connection.
    pub failure: Option<Failure>,
    /// The end of the running program's standard error, at most 4 KiB; empty for a server at a
    /// URL. That of a program that has ended is in `failure`.
    pub stderr: String,
    /// Attempts since the last stable connection.
    pub attempts: u32,
    /// When the next attempt is due, while the server waits for one.
    pub next_attempt: Option<Instant>,
    /// How long the last start took, from the attempt until the tools were listed, while the server is connected.
    pub start_time: Option<Duration>,
    /// How current its lists are.
    pub lists: Freshness,
    /// The server as it describes itself, while it is connected.
    pub info: Option<Arc<ServerInfo>>,
}

/// Counts since a host was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Attempts to start or reach a server.
    pub attempts: u64,
    /// Calls that were made.
    pub calls: u64,
    /// Calls that ended with a result or an error of their server.
    pub answered: u64,
    /// Calls that were sent and have no answer, because their connection ended.
    pub lost: u64,
    /// Calls that took too long.
    pub timed_out: u64,
    /// Calls that the application cancelled.
    pub cancelled: u64,
    /// Calls that ended in another way: their server was given up or removed, or the host was closed.
    pub failed: u64,
}

impl Counters {
    pub(super) fn count(&mut self, outcome: CallOutcome) {
        let counter = match outcome {
            CallOutcome::Answered => &mut self.answered,
            CallOutcome::Lost => &mut self.lost,
            CallOutcome::TimedOut => &mut self.timed_out,
            CallOutcome::Cancelled => &mut self.cancelled,
            _ => &mut self.failed,
        };
        *counter = counter.saturating_add(1);
    }
}
