//! What a host reports: events, errors of calls, states of servers, and counters.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use mcp_proto::front::Error;
use mcp_proto::host::config::{ServerEntry, ServerId};
use mcp_proto::host::consent::ApprovalRequest;
use mcp_proto::host::control::{CallOutcome, Failure, Status};
use mcp_proto::host::tools::{Collision, Freshness, ItemKind, LookupError, PinChange, RejectedItem};
use mcp_proto::peer::client::{Diagnostic, ServerInfo};
use mcp_proto::schema::Meta;
use mcp_smol::StderrLine;

/// An event of a host. No event has a secret in it, unless a server writes one into its standard error, its lists or a
/// message that a diagnostic quotes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HostEvent {
    /// The startup gate has passed: the application goes on with the servers that are connected. See
    /// [`Host::wait_for_gate`](super::Host::wait_for_gate).
    GatePassed,
    /// Something has waited for a second, and the [driver](super::HostDriver) was never polled: spawn it on an executor.
    DriverNotPolled,
    /// The status of a server has changed, or the server ends and its running calls may finish.
    Status {
        /// Its name.
        server: Arc<str>,
        /// Its status; `None` if it was removed from the configuration.
        status: Option<Status>,
        /// Why it is not connected.
        failure: Option<Arc<Failure>>,
    },
    /// A server is connected, and its lists were read. The record of the connection has its transport, the name and
    /// version of the server, its revision, how many items it has, and how long each step took.
    Connected {
        /// Its name.
        server: Arc<str>,
        /// The server as of now.
        report: Arc<ServerReport>,
    },
    /// A project's server waits for the user's approval: see [`Host::approve`](super::Host::approve).
    ApprovalNeeded {
        /// Its name.
        server: Arc<str>,
        /// What to show to the user.
        request: Arc<ApprovalRequest>,
    },
    /// A list of a server has changed.
    CatalogueChanged {
        /// Its name.
        server: Arc<str>,
        /// The kind of the changed items.
        kind: ItemKind,
    },
    /// Definitions of a server differ from those that were approved. Those of a project's server are hidden until
    /// [`Host::approve_changes`](super::Host::approve_changes).
    PinsChanged {
        /// Its name.
        server: Arc<str>,
        /// The changes.
        changes: Arc<[PinChange]>,
    },
    /// The approval of a skill has ended: its content is not what the user approved, or the application revoked it.
    SkillRevoked {
        /// The name of its server.
        server: Arc<str>,
        /// URI of its `SKILL.md`.
        skill: Arc<str>,
    },
    /// Two items have the same name for a model, and both are hidden.
    Collision(Arc<Collision>),
    /// A server has items that are left out.
    Rejected {
        /// Its name.
        server: Arc<str>,
        /// The first of them.
        items: Arc<[RejectedItem]>,
        /// How many there are.
        count: usize,
    },
    /// A call has ended.
    CallEnded {
        /// The server.
        server: Arc<str>,
        /// The method, such as `tools/call`.
        method: &'static str,
        /// The tool or prompt by the server's name of it, or the URI of the resource.
        item: Option<Arc<str>>,
        /// The `_meta` entries that the application gave the call, such as its
        /// [trace context](mcp_proto::schema::Meta::trace_context).
        meta: Option<Arc<Meta>>,
        /// The time since the call was made, the wait for the server included.
        latency: Duration,
        /// How it ended.
        end: CallEnd,
    },
    /// The client of a server noticed something that ended no call, such as a line that is no message, or a deviation
    /// from the specification. A listener has at most 256 of them in its queue.
    Diagnostic {
        /// Its name.
        server: Arc<str>,
        /// What it noticed; `Display` writes a line for a log.
        diagnostic: Arc<Diagnostic>,
    },
    /// Stored values could not be read or written.
    StorageFailed {
        /// The error.
        error: Arc<str>,
    },
    /// This listener lost so many events, because it did not take them in time. It comes before the events that are
    /// still queued.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// The host has closed. This is the last event.
    Closed,
}

/// How a call ended, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEnd {
    /// With a result.
    Answered,
    /// With a result that reports a failure of the tool.
    ToolFailed,
    /// Its caller cancelled it.
    Cancelled {
        /// In which phase.
        phase: CallPhase,
    },
    /// With an error.
    Failed {
        /// In which phase.
        phase: CallPhase,
        /// The error, in words, at most 4 KiB.
        error: Arc<str>,
    },
}

/// The phase of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallPhase {
    /// It waited for its server.
    Waiting,
    /// It was sent.
    Sent,
}

impl HostEvent {
    /// The approximate size in bytes of what servers supplied.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Status { failure: Some(failure), .. } => {
                failure.reason.len().saturating_add(failure.stderr.len())
            }
            Self::Connected { report, .. } => report.stderr.len().saturating_add(1024),
            Self::PinsChanged { changes, .. } => {
                changes.iter().map(|change| change.item.len().saturating_add(256)).sum()
            }
            Self::Rejected { items, .. } => items.len().saturating_mul(512),
            Self::Diagnostic { diagnostic, .. } => diagnostic.bytes(),
            Self::SkillRevoked { skill, .. } => skill.len(),
            Self::CallEnded { item, end: CallEnd::Failed { error, .. }, .. } => {
                item.as_deref().map_or(0, str::len).saturating_add(error.len())
            }
            Self::CallEnded { item: Some(item), .. } => item.len(),
            Self::Collision(collision) => collision.items.iter().map(|(a, b)| a.len() + b.len()).sum(),
            _ => 0,
        }
    }
}

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
    /// While the server ends but its running calls may finish: when they are cancelled. See
    /// [`ControlConfig::grace`](mcp_proto::host::control::ControlConfig::grace).
    pub grace_ends: Option<Instant>,
    /// How long the last start took, from the attempt until the tools were listed, while the server is connected.
    pub start_time: Option<Duration>,
    /// How long each step of the present connection, or of the attempt to make one, took.
    pub steps: StartSteps,
    /// How current its lists are.
    pub lists: Freshness,
    /// How many of its tools, prompts, and resources with their templates, are visible.
    pub items: ItemCounts,
    /// The server as it describes itself, while it is connected: its name and version, the era and the revision.
    pub info: Option<Arc<ServerInfo>>,
    /// Its attempts and calls since the host was started.
    pub counters: Counters,
    /// How many [diagnostics](HostEvent::Diagnostic) its present connection has had.
    pub diagnostics: u64,
    /// Its entry: the [transport](mcp_proto::host::config::ServerSpec::transport), and the application, the file and the
    /// [line](ServerEntry::line) that it is from.
    pub entry: Arc<ServerEntry>,
}

/// How long the steps of a connection's start took; `None` before a step is done. Each begins with the end of the one
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartSteps {
    /// Values that the entry refers to were looked up.
    pub look_up: Option<Duration>,
    /// The program was started or the URL reached, and the handshake done.
    pub handshake: Option<Duration>,
    /// The tools were listed: calls are sent from then on.
    pub tools: Option<Duration>,
    /// Prompts and resources were listed.
    pub lists: Option<Duration>,
}

impl StartSteps {
    /// Returns how long it took until the client could be used.
    pub(super) fn until_ready(&self) -> Option<Duration> {
        Some(self.look_up? + self.handshake? + self.tools?)
    }
}

/// How many visible items a server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemCounts {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources and templates of resources.
    pub resources: usize,
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

/// The error of a call.
///
/// A tool reports its failure in its result, by [`failed`](mcp_proto::CallToolResult::failed): that is not an error of
/// the call.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// No item can be called by this name.
    Name(LookupError),
    /// The item that was called is not the one that the [layers](super::HostOptions::layer) let pass: one of them put the
    /// name of another into the parameters, or the server has changed its items meanwhile.
    OtherItem {
        /// The name or URI that the layers let pass.
        passed: String,
        /// That of the item that was called.
        found: Arc<str>,
    },
    /// No server of this name is configured.
    UnknownServer,
    /// The server does not run.
    Unavailable {
        /// Its name.
        server: Arc<str>,
        /// Why.
        status: Status,
        /// The failure behind that.
        failure: Option<Box<Failure>>,
    },
    /// The host has too many calls: see
    /// [`ControlConfig::calls`](mcp_proto::host::control::ControlConfig::calls).
    TooMany,
    /// The call, or its server, took too long.
    TimedOut,
    /// The call was sent, and its connection ended before the answer: the server may have executed it.
    Lost,
    /// The server was removed from the configuration, or restarted with another one.
    Removed,
    /// The host was closed, or its driver was dropped.
    Closed,
    /// The server's error, or an answer that is not valid.
    Call(Error),
}

impl CallError {
    /// Whether the call certainly did not reach the server.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Name(_) | Self::OtherItem { .. } | Self::UnknownServer => true,
            Self::Unavailable { .. } | Self::TooMany => true,
            Self::Call(error) => error.is_unsent(),
            Self::TimedOut | Self::Lost | Self::Removed | Self::Closed => false,
        }
    }
}

display_text! { CallError:
    Name(error) => "{error}";
    OtherItem { passed, found } => "the layers let {passed:?} pass, which is not the called item {found:?}";
    UnknownServer => "no server of this name is configured";
    Unavailable { server, status, failure } =>
        |f| {
            write!(f, "the server \"{}\" is unavailable: {status}", server.escape_debug())?;
            failure.as_ref().map_or(Ok(()), |failure| write!(f, ": {}", failure.reason))
        };
    TooMany => "too many calls are open";
    TimedOut => "the server did not answer in time";
    Lost => "the connection ended before the answer: the call may have had effects";
    Removed => "the server was removed from the configuration, or changed there";
    Closed => "the host is closed";
    Call(error) => "{error}";
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::Call(error) => error.source(),
            _ => None,
        }
    }
}

/// Most events of a queue.
const MAX_EVENTS: usize = 1024;

/// Most diagnostics of a queue: a server can make any number of them, and other events matter more.
const MAX_DIAGNOSTICS: usize = 256;

/// Most bytes of a queue that servers supplied.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The events of one listener.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<HostEvent>,
    diagnostics: usize,
    bytes: usize,
    pub(super) missed: u64,
    pub(super) waker: Option<Waker>,
}

impl EventQueue {
    pub(super) fn push(&mut self, event: HostEvent) {
        if matches!(event, HostEvent::Diagnostic { .. }) {
            if self.diagnostics >= MAX_DIAGNOSTICS {
                self.missed = self.missed.saturating_add(1);
                return;
            }
            self.diagnostics += 1;
        }
        self.bytes = self.bytes.saturating_add(event.bytes());
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || (self.bytes > MAX_BYTES && self.events.len() > 1) {
            self.pop();
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub(super) fn pop(&mut self) -> Option<HostEvent> {
        let event = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(event.bytes());
        if matches!(event, HostEvent::Diagnostic { .. }) {
            self.diagnostics = self.diagnostics.saturating_sub(1);
        }
        Some(event)
    }
}

/// The last lines that a program wrote to its standard error, at most [`Failure::LIMIT`] bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct StderrTail(Arc<Mutex<String>>);

impl StderrTail {
    pub(super) fn push(&self, line: &StderrLine) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&line.text);
        text.push('\n');
        // Half as much again may gather before the start is removed.
        if text.len() > Failure::LIMIT + Failure::LIMIT / 2 {
            let start = text.ceil_char_boundary(text.len() - Failure::LIMIT);
            text.drain(..start);
        }
    }

    pub(super) fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = text.ceil_char_boundary(text.len().saturating_sub(Failure::LIMIT));
        text.get(start..).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_of_standard_error_keeps_the_last_lines_within_its_limit() {
        let tail = StderrTail::default();
        for text in ["é".repeat(3000), "x".repeat(3000), "last".to_owned()] {
            tail.0.lock().unwrap().push_str(&text);
            let mut text = tail.0.lock().unwrap();
            text.push('\n');
        }
        let text = tail.text();
        assert!(text.ends_with("x\nlast\n") && text.len() <= Failure::LIMIT);
    }
}
