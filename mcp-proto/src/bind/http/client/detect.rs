//! Stand-in.
use alloc::string::String;
use core::time::Duration;

use crate::Instant;
use crate::peer::HttpError;
use crate::peer::client::{ClientConfig, ConnectError, ServerInfo, Verdict, handshake};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{Era, Revision};

#[derive(Debug)]
pub(super) enum Reply {
    Result { status: u16, result: Raw },
    Error { status: u16, error: ErrorObject },
    Other(HttpError),
    Failed { detail: String, retry_after: Option<Duration> },
}

#[derive(Debug)]
pub(super) enum Act {
    Wait,
    Probe(Revision),
    Initialize(Revision),
    OpenEvents,
    Settle { server: ServerInfo, verdict: Verdict },
    Fail(ConnectError),
}

#[derive(Debug)]
pub(super) struct Detect {
    legacy: bool,
}

impl Detect {
    pub(super) fn new(config: &ClientConfig, _seed: u64) -> Self {
        Self { legacy: config.mode == crate::peer::client::Mode::LegacyOnly }
    }
    pub(super) fn begin(&mut self, _now: Instant) -> Act {
        if self.legacy { Act::Initialize(Revision::LATEST_LEGACY) } else { Act::Probe(Revision::LATEST) }
    }
    pub(super) fn renew(&mut self, _now: Instant, version: Revision) -> Act {
        Act::Initialize(version)
    }
    pub(super) fn forget(&mut self, _now: Instant) -> Act {
        Act::Probe(Revision::LATEST)
    }
    pub(super) fn handle_probe(&mut self, _now: Instant, reply: Reply) -> Act {
        match reply {
            Reply::Result { result, .. } => match handshake::discovered(&result) {
                Some(found) => Act::Settle {
                    server: found.server.into_info(Era::Modern, Revision::LATEST),
                    verdict: Verdict { era: Era::Modern, version: Revision::LATEST, probe_breaks_it: false },
                },
                None => Act::Initialize(Revision::LATEST_LEGACY),
            },
            Reply::Failed { detail, .. } => Act::Fail(ConnectError::Open(detail)),
            _ => Act::Initialize(Revision::LATEST_LEGACY),
        }
    }
    pub(super) fn handle_initialize(&mut self, _now: Instant, reply: Reply) -> Act {
        match reply {
            Reply::Result { result, .. } => match handshake::initialized(&result) {
                Some(found) => {
                    let version = Revision::parse(&found.version).unwrap_or(Revision::LATEST_LEGACY);
                    Act::Settle {
                        server: found.server.into_info(Era::Legacy, version),
                        verdict: Verdict { era: Era::Legacy, version, probe_breaks_it: false },
                    }
                }
                None => Act::Fail(ConnectError::Open("no endpoint".into())),
            },
            Reply::Other(error) if matches!(error.status, 400 | 404 | 405) => Act::OpenEvents,
            other => Act::Fail(ConnectError::Open(alloc::format!("{other:?}"))),
        }
    }
    pub(super) fn handle_events(&mut self, _now: Instant, result: Result<(), Reply>) -> Act {
        match result {
            Ok(()) => Act::Initialize(Revision::LATEST_LEGACY),
            Err(reply) => Act::Fail(ConnectError::Open(alloc::format!("{reply:?}"))),
        }
    }
    pub(super) fn handle_timeout(&mut self, _now: Instant) -> Act {
        Act::Wait
    }
    pub(super) fn deadline(&self) -> Option<Instant> {
        None
    }
}
