//! A simulated network with latency that delivers in chunks.

use alloc::collections::VecDeque;
use core::num::NonZeroUsize;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::prelude::*;

/// The behaviour of a simulated network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The time that bytes are in transit.
    pub latency: Duration,
    /// The maximum number of bytes that arrive at once; `None` delivers what was sent together in one piece.
    pub chunk: Option<NonZeroUsize>,
}

impl Default for Network {
    fn default() -> Self {
        Self { latency: Duration::from_millis(1), chunk: None }
    }
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Pipe {
    /// The mark of its lines in the log.
    direction: char,
    in_flight: VecDeque<(Instant, Bytes)>,
    sent: Vec<u8>,
}

impl Pipe {
    pub(super) const fn new(direction: char) -> Self {
        Self { direction, in_flight: VecDeque::new(), sent: Vec::new() }
    }

    /// Sends the bytes, and adds their lines to the log.
    pub(super) fn send(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
        network: &Network,
        log: &mut Vec<String>,
    ) {
        let (at, direction) = (now.since_origin(), self.direction);
        log.extend(String::from_utf8_lossy(bytes).lines().map(|line| format!("{at:?} {direction} {line}")));
        let size = network.chunk.map_or(bytes.len().max(1), NonZeroUsize::get);
        for chunk in bytes.chunks(size) {
            self.in_flight.push_back((now + network.latency, Bytes::copy_from_slice(chunk)));
        }
        self.sent.append(bytes);
    }

    pub(super) fn receive(&mut self, now: Instant) -> Option<Bytes> {
        self.in_flight.pop_front_if(|(due, _)| *due <= now).map(|(_, bytes)| bytes)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.in_flight.front().map(|(due, _)| *due)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.in_flight.clear();
    }

    pub(super) fn transcript(&self) -> String {
        String::from_utf8_lossy(&self.sent).into_owned()
    }
}
