//! The state of response streams while none is open.

use super::{ConnectionId, ResponseStreams, SessionTransport, StreamTable};
use crate::Instant;
use crate::quota::BytePermit;
use crate::transport::http::server::Setup;

/// The state of response streams while no connection carries one, and no event is stored for a client.
#[derive(Debug)]
pub(in super::super) struct IdleStreams {
    /// The streams that a client may resume, mostly none.
    streams: StreamTable,
    next_stream: u64,
    next_connection: ConnectionId,
    permit: Option<BytePermit>,
    primed: bool,
}

impl ResponseStreams {
    /// Whether no connection is open, no answer due, and nothing stored or queued.
    pub(in super::super) fn is_idle(&self) -> bool {
        self.connections.is_unused()
            && self.store.is_empty()
            && self.requests.is_empty()
            && self.server_requests.as_ref().is_none_or(|requests| requests.is_empty())
            && self.body_permits.as_ref().is_none_or(|permits| permits.is_empty())
            && self.batched_bytes == 0
    }

    /// Moves the state out of idle streams.
    pub(in super::super) fn take_idle(&mut self) -> IdleStreams {
        IdleStreams {
            streams: core::mem::take(&mut self.streams),
            next_stream: self.next_stream,
            next_connection: self.connections.next_id(),
            permit: self.permit.take(),
            primed: self.primed,
        }
    }

    /// Creates streams that go on with the state of idle ones.
    pub(in super::super) fn from_idle(setup: &Setup, idle: &mut IdleStreams, now: Instant) -> Self {
        let mut streams = Self::new(setup, SessionTransport::Streamable, now);
        streams.streams = core::mem::take(&mut idle.streams);
        streams.next_stream = idle.next_stream;
        streams.connections.skip_to(idle.next_connection);
        streams.permit = idle.permit.take();
        streams.primed = idle.primed;
        streams
    }
}
