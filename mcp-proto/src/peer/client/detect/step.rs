//! The steps of detection.

use alloc::boxed::Box;

use crate::peer::client::handshake::{DiscoverAnswer, InitializeAnswer};
use crate::peer::client::{ConnectError, ConnectStep, KnownEra, ServerInfo};
use crate::rpc::ErrorObject;
use crate::schema::Revision;

/// The next action of detection.
#[derive(Debug)]
pub(in crate::peer::client) enum DetectAction {
    /// Wait for input.
    Wait,
    /// Send `server/discover` with this version.
    Probe(Revision),
    /// Send `initialize` with this version.
    Initialize(Revision),
    /// Open a fresh link.
    Reopen,
    /// Detection has succeeded: continue with this server.
    Finish { server: Box<ServerInfo>, known_era: KnownEra },
    /// Detection has failed.
    Fail(ConnectError),
}

/// The status of the probe during the handshake.
#[derive(Debug)]
pub(super) enum ProbeStatus {
    NotSent,
    Outstanding,
    /// Answered, but not by a modern server.
    Refused,
    Answered(DiscoverAnswer),
}

#[derive(Debug)]
pub(super) enum DetectStep {
    /// No link is open.
    Idle,
    Probing {
        asked: Revision,
        repeated: bool,
    },
    Handshake {
        asked: Revision,
        probe: ProbeStatus,
    },
    /// `initialize` was rejected, and the probe may still be answered.
    LateProbe {
        refusal: ErrorObject,
    },
    /// `initialize` was accepted, and the probe may still be answered.
    Accepted {
        initialized: InitializeAnswer,
    },
    Finished,
}

impl DetectStep {
    /// The step in reports of progress.
    pub(super) fn public(&self) -> Option<ConnectStep> {
        match self {
            Self::Idle => Some(ConnectStep::Open),
            Self::Probing { .. } | Self::LateProbe { .. } => Some(ConnectStep::Probe),
            Self::Handshake { .. } | Self::Accepted { .. } => Some(ConnectStep::Initialize),
            Self::Finished => None,
        }
    }
}

/// Why the present link was opened, which determines the first request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkReason {
    /// The first link: the probe.
    First,
    /// The server is known to be modern, and the previous link served legacy already: the probe at this version alone.
    Modern(Revision),
    /// The previous link ended: the handshake.
    Handshake,
}
