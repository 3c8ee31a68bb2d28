//! Sessions whose client is silent.

use super::streams::{IdleStreams, ResponseStreams};
use super::{Session, SessionTransport};
use crate::Instant;
use crate::peer::server::{IdleServer, Server};
use crate::transport::http::server::Setup;

/// The state of a session while nothing is in progress and no stream is open, in a form that takes little memory.
#[derive(Debug)]
pub(crate) struct IdleSession {
    setup: Setup,
    server: IdleServer,
    streams: IdleStreams,
    idle_since: Option<Instant>,
}

impl Session {
    /// Moves the state out of a session in which nothing is in progress; `None` if something is. The session is of no
    /// use afterwards.
    pub(crate) fn take_idle(&mut self) -> Option<IdleSession> {
        let is_idle =
            self.idle_since.is_some() && !self.closed && self.transport == SessionTransport::Streamable;
        if !is_idle || !self.streams.is_idle() {
            return None;
        }
        let server = self.server.take_idle()?;
        let (setup, streams) = (self.setup.clone(), self.streams.take_idle());
        Some(IdleSession { setup, server, streams, idle_since: self.idle_since })
    }

    /// Creates a session that goes on with the state of an idle one, which is of no use afterwards.
    pub(crate) fn from_idle(idle: &mut IdleSession) -> Self {
        let setup = idle.setup.clone();
        Self {
            transport: SessionTransport::Streamable,
            server: Server::from_idle(setup.legacy(), &mut idle.server),
            streams: ResponseStreams::from_idle(
                &setup,
                &mut idle.streams,
                idle.idle_since.unwrap_or_default(),
            ),
            idle_since: idle.idle_since,
            closed: false,
            setup,
        }
    }
}
