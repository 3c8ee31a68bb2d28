//! The status of a server, and why it is not connected.

use alloc::string::String;
use core::fmt;

use crate::Instant;
use crate::consent::SafeText;

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
    /// It wants the user to log in; then [`reconnect`](super::ControlPlane::reconnect).
    NeedsAuthorization,
    /// It cannot work as it is configured. It is not tried again until its configuration changes or it is reconnected.
    Failed,
    /// It failed too often. It is not tried again until its configuration changes or it is reconnected.
    Suspended,
}

impl Status {
    /// Whether a call waits for the server rather than fails.
    pub const fn accepts_calls(self) -> bool {
        matches!(self, Self::Idle | Self::Starting | Self::Connected | Self::Reconnecting)
    }

    /// Whether the startup no longer waits for the server: it is connected, or an attempt has ended.
    pub(super) const fn is_settled(self) -> bool {
        !matches!(self, Self::Starting)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Unapproved => "not approved",
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::NeedsAuthorization => "needs authorization",
            Self::Failed => "failed",
            Self::Suspended => "suspended",
        })
    }
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
}

/// Why a start or a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What to do about it.
    pub kind: FailureKind,
    /// The reason, as a sentence for the user.
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
