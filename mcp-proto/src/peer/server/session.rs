//! Sessions of legacy clients: the state that a handshake establishes.
//!
//! | phase | input | reaction |
//! |---|---|---|
//! | none | `initialize` | answered; awaiting `initialized` |
//! | awaiting `initialized` | requests | answered; from the first on, this side may send notifications |
//! | awaiting `initialized` | `notifications/initialized` | operating: this side may send requests and notifications |
//! | any | `initialize` | answered again; the handshake restarts |

use alloc::sync::Arc;

use crate::schema::{ClientCapabilities, Era, Implementation, InitializeParams, LoggingLevel, Revision};

/// A legacy session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Session {
    /// The negotiated revision.
    pub revision: Revision,
    /// The client's self-reported name and version.
    pub info: Arc<Implementation>,
    /// The client's capabilities.
    pub capabilities: Arc<ClientCapabilities>,
    /// Whether the client has said that it is ready for requests.
    pub initialized: bool,
    /// The lowest severity of log messages that the client wants, if it has set one.
    pub log_level: Option<LoggingLevel>,
    /// Whether the client has sent a request: it has received the answer to `initialize`, even if `initialized` is
    /// missing.
    pub(super) has_requested: bool,
    /// Whether it stands for a single message without a session, of a client that is not known.
    pub(super) stateless: bool,
}

impl Session {
    /// Whether the client can be sent change notifications. A lost `initialized` must not block them for ever.
    pub(super) fn can_be_notified(&self) -> bool {
        self.initialized || self.has_requested
    }

    //= S1.17 "Answer initialize with the same version if supported, else another (SHOULD latest) supported"
    /// Opens the session that a client asks for. A version that is unknown or modern is answered with the newest legacy
    /// one.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation>
    pub(super) fn open(params: InitializeParams) -> Self {
        let requested = Revision::parse(&params.protocol_version);
        let revision = requested.filter(|revision| revision.era() == Era::Legacy);
        Self {
            revision: revision.unwrap_or(Revision::LATEST_LEGACY),
            info: Arc::new(params.client_info),
            capabilities: Arc::new(params.capabilities),
            initialized: false,
            log_level: None,
            has_requested: false,
            stateless: false,
        }
    }

    /// The state of a single message of this revision.
    #[cfg(feature = "http")]
    pub(super) fn stateless(revision: Revision) -> Self {
        let info = Implementation::new("unknown", "unknown");
        let params = InitializeParams::new(revision.as_str(), ClientCapabilities::default(), info);
        Self { stateless: true, ..Self::open(params) }
    }
}
