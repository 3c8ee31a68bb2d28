//! Sessions whose client is silent.

use super::{ConnectionId, ResponseStreams, SessionTransport, StreamTable};
use crate::Instant;
#[cfg(feature = "trace-file")]
use crate::peer::server::ServerTransport as _;
use crate::peer::server::{IdleServer, Server};
use crate::quota::BytePermit;
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineRecorder, MachineStep, json};
#[cfg(feature = "trace-file")]
use crate::transport::http::server::SessionInput;
use crate::transport::http::server::Setup;
use crate::transport::http::server::session::Session;

/// The state of a session while nothing is in progress and no stream is open, in a form that takes little memory.
#[derive(Debug)]
pub(crate) struct IdleSession {
    setup: Setup,
    server: IdleServer,
    streams: IdleStreams,
    idle_since: Option<Instant>,
    #[cfg(feature = "trace-file")]
    recorder: Option<MachineRecorder>,
}

impl Session {
    /// Moves the state out of a session in which nothing is in progress; `None` if something is. The session is of no
    /// use afterwards.
    pub(crate) fn take_idle(&mut self) -> Option<IdleSession> {
        if self.idle_since.is_none() || !self.streams.is_idle() {
            return None;
        }
        let server = self.server.take_idle()?;
        record!(self, None, MachineStep::Http(json(&SessionInput::Pack)));
        let (setup, streams) = (self.streams.setup().clone(), self.streams.take_idle());
        Some(IdleSession {
            setup,
            server,
            streams,
            idle_since: self.idle_since,
            #[cfg(feature = "trace-file")]
            recorder: self.recorder.take(),
        })
    }

    /// Creates a session that goes on with the state of an idle one, which is of no use afterwards.
    pub(crate) fn from_idle(idle: &mut IdleSession) -> Self {
        let setup = idle.setup.clone();
        let prepared = setup.legacy();
        #[cfg(feature = "trace-file")]
        let recorded = idle.recorder.as_ref().map(|recorder| prepared.recorded(recorder));
        #[cfg(feature = "trace-file")]
        let prepared = recorded.as_ref().unwrap_or(prepared);
        Self {
            server: Server::from_idle(prepared, &mut idle.server),
            streams: ResponseStreams::from_idle(
                &setup,
                &mut idle.streams,
                idle.idle_since.unwrap_or_default(),
            ),
            idle_since: idle.idle_since,
            #[cfg(feature = "trace-file")]
            recorder: idle.recorder.take(),
        }
    }
}

/// The state of response streams while no connection carries one, and no event is stored for a client.
#[derive(Debug)]
struct IdleStreams {
    /// The streams that a client may resume, mostly none.
    streams: StreamTable,
    next_stream: u64,
    next_connection: ConnectionId,
    permit: Option<BytePermit>,
    primed: bool,
}

impl ResponseStreams {
    /// Whether no connection is open, no answer due, and nothing stored or queued.
    fn is_idle(&self) -> bool {
        self.transport == SessionTransport::Streamable
            && self.connections.is_unused()
            && self.store.is_empty()
            && self.requests.is_empty()
            && self.server_requests.as_ref().is_none_or(|requests| requests.is_empty())
            && self.body_permits.as_ref().is_none_or(|permits| permits.is_empty())
            && self.batched_bytes == 0
    }

    /// Moves the state out of idle streams.
    fn take_idle(&mut self) -> IdleStreams {
        IdleStreams {
            streams: core::mem::take(&mut self.streams),
            next_stream: self.next_stream,
            next_connection: self.connections.next_id(),
            permit: self.permit.take(),
            primed: self.primed,
        }
    }

    /// Creates streams that go on with the state of idle ones.
    fn from_idle(setup: &Setup, idle: &mut IdleStreams, now: Instant) -> Self {
        let mut streams = Self::new(setup, SessionTransport::Streamable, now);
        streams.streams = core::mem::take(&mut idle.streams);
        streams.next_stream = idle.next_stream;
        streams.connections.skip_to(idle.next_connection);
        streams.permit = idle.permit.take();
        streams.primed = idle.primed;
        streams
    }
}
