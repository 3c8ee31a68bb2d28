//! How messages travel: the machines that applications and adapters drive.
//!
//! A [`Transport`] joins one peer (client or server) to one way of framing:
//!
//! | | client | server |
//! |---|---|---|
//! | newline-delimited messages on a byte stream | [`StreamClient`] | [`StreamServer`] |
//! | whole messages, such as WebSocket frames | [`ChannelClient`] | [`ChannelServer`] |
//!
//! All of them are driven by the same loop: drain the outputs until none has anything, then wait for whatever comes first
//! of input, the next timeout and a command of the application.
//!
//! ```text
//! loop {
//!     drain poll_link      → open or close the link            (clients)
//!     drain poll_transmit  → write
//!     drain poll_event     → act
//!     again, until none of them has anything
//!     wait for: readable → handle_input | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! The outputs do not depend on each other's order, and draining them late costs latency, never correctness. But a
//! request made while acting on an event is output of its own: the loop goes round again before it waits, or that request
//! is sent only when something else happens.

#[cfg(feature = "client")]
mod client;
mod framing;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "server")]
mod server;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use crate::peer::Outbox;
use crate::rpc::{self, Frame, Malformed};
use crate::{Instant, Limits};

#[cfg(feature = "client")]
pub use client::{ChannelClient, StreamClient};
pub use framing::{Framing, MessageFraming, Newline};
#[cfg(feature = "server")]
pub use server::{ChannelServer, StreamServer};

/// Either role, as a transport needs it. It is implemented by the peers of this crate.
pub trait Peer: sealed::Sealed {
    /// What it tells its application.
    type Event;

    /// Takes a message or a batch.
    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox);
    /// Takes note of something that is no message, or one that was skipped because of its length.
    fn handle_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox);
    /// Takes note of the end of the link.
    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox);
    /// Acts on the time.
    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox);
    /// When to act on the time.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// Whether more input is welcome: whether events are being taken.
    fn wants_read(&self) -> bool;
    /// Dispatches held messages while the other side takes the output.
    fn dispatch_deferred(&mut self, _now: Instant, _out: &mut dyn Outbox) {}
    /// Takes note that the transport has taken output; `queued` bytes are left.
    fn handle_transmitted(&mut self, _queued: usize) {}
    /// Ends the connection for a reason of this side.
    fn fail(&mut self, why: String);
    /// Whether the connection is over.
    fn is_closed(&self) -> bool;
    /// The bounds of the connection.
    fn limits(&self) -> &Limits;
    /// How long queued bytes may wait without any being taken.
    fn write_timeout(&self) -> Duration;
}

mod sealed {
    pub trait Sealed {}
    #[cfg(feature = "client")]
    impl Sealed for crate::peer::client::Client {}
    #[cfg(feature = "server")]
    impl Sealed for crate::peer::server::Server {}
}

/// A peer on its transport.
///
/// **Inputs** are the `handle_*` methods: none of them fails, whatever comes. **Outputs** are the `poll_*` methods.
/// **Commands** are those of the role, given by `at`: [`ClientCommands`](crate::peer::client::ClientCommands),
/// [`ServerCommands`](crate::peer::server::ServerCommands).
pub struct Transport<P, F> {
    peer: P,
    framing: F,
    /// Since when something waits to be sent without anything being taken.
    waiting_since: Option<Instant>,
}

impl<P: Peer, F: Framing> Transport<P, F> {
    fn with(peer: P) -> Self {
        let framing = F::new(peer.limits());
        Self { peer, framing, waiting_since: None }
    }

    /// Runs an input on the peer, and settles what comes of it.
    fn run<R>(&mut self, now: Instant, act: impl FnOnce(&mut P, &mut F) -> R) -> R {
        let result = act(&mut self.peer, &mut self.framing);
        self.settle(now);
        result
    }

    /// Dispatches deferred messages, and looks after the write timeout.
    fn settle(&mut self, now: Instant) {
        self.peer.dispatch_deferred(now, &mut self.framing);
        if self.framing.queued() == 0 {
            self.waiting_since = None;
        } else {
            self.waiting_since.get_or_insert(now);
        }
    }

    fn write_deadline(&self) -> Option<Instant> {
        let since = self.waiting_since.filter(|_| !self.peer.is_closed())?;
        Some(since + self.peer.write_timeout())
    }

    fn handle_text(&mut self, now: Instant, text: &Bytes) {
        // An earlier message of the same input may have ended the connection.
        if self.peer.is_closed() {
            return;
        }
        let depth = self.peer.limits().depth;
        self.run(now, |peer, out| match rpc::read(text, depth) {
            Ok(frame) => peer.handle_frame(now, frame, out),
            Err(malformed) => peer.handle_malformed(now, malformed, out),
        });
    }

    fn handle_too_long(&mut self, now: Instant, head: &[u8], tail: &[u8], bytes: usize) {
        if self.peer.is_closed() {
            return;
        }
        let malformed = Malformed::too_long(head, tail, bytes);
        self.run(now, |peer, out| peer.handle_malformed(now, malformed, out));
    }

    // --- Inputs ---

    /// Time has passed. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.write_deadline().is_some_and(|deadline| deadline <= now) {
            self.waiting_since = None;
            let waited = self.peer.write_timeout();
            self.peer.fail(alloc::format!("the other side took nothing of what was sent for {waited:?}"));
            self.framing.clear();
        }
        self.run(now, |peer, out| peer.handle_timeout(now, out));
    }

    /// Restarts the write timeout: the transport has written a part of the output that `poll_transmit` gave. Call it if a
    /// large buffer is written in parts, so that a peer that reads slowly but steadily does not count as stuck.
    pub fn handle_written(&mut self, now: Instant) {
        if let Some(since) = &mut self.waiting_since {
            *since = now;
        }
    }

    // --- Outputs ---

    /// The next event, in the order of the wire.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<P::Event> {
        self.peer.poll_event()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.peer.poll_timeout(), self.write_deadline()].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Whether more input is welcome. It is advice: input that comes nevertheless is taken, events that wait too long are
    /// shed, and requests that find no room refused.
    ///
    /// A server wants no more once the client leaves more than [`Limits::queued_bytes`] of answers unread *and* the
    /// requests that are therefore held undispatched fill a window of [`Limits::message_bytes`].
    pub fn wants_read(&self) -> bool {
        self.peer.wants_read()
    }

    /// Whether the connection is over. What is queued may still be sent.
    pub fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    /// How many bytes wait to be sent.
    pub fn queued(&self) -> usize {
        self.framing.queued()
    }

    /// The peer, for its getters.
    pub fn peer(&self) -> &P {
        &self.peer
    }
}

impl<P: Peer> Transport<P, Newline> {
    /// Bytes have come. However the stream is cut into chunks, the outcome is the same.
    pub fn handle_input(&mut self, now: Instant, bytes: Bytes) {
        use crate::codec::Line;
        self.framing.lines.handle_input(bytes);
        while let Some(line) = self.framing.lines.poll_line() {
            match line {
                Line::Whole(text) => self.handle_text(now, &text),
                Line::TooLong { head, tail, bytes } => self.handle_too_long(now, &head, &tail, bytes),
            }
        }
    }

    /// The stream has ended, by its own end or by an error; `detail` is what the transport knows about it, for people:
    /// an exit status, the last lines of standard error. It may be empty.
    pub fn handle_eof(&mut self, now: Instant, detail: &str) {
        use crate::codec::Line;
        match self.framing.lines.handle_eof() {
            // A last message without its newline is whole if it reads as one.
            Some(Line::Whole(text)) => self.handle_text(now, &text),
            Some(Line::TooLong { head, tail, bytes }) => self.handle_too_long(now, &head, &tail, bytes),
            None => {}
        }
        self.run(now, |peer, out| peer.handle_closed(now, detail, out));
    }

    /// Appends what is to be sent to `out`, whole messages only, and returns whether there was anything. An empty `out`
    /// is exchanged for the queue itself, without copying.
    ///
    /// Ask again only when everything has been written: bytes that stay in the machine are what its write timeout and
    /// its limits see.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        self.waiting_since = None;
        let taken = self.framing.take(out);
        self.peer.handle_transmitted(self.framing.queued());
        taken
    }
}

impl<P: Peer> Transport<P, MessageFraming> {
    /// A whole message has come.
    pub fn handle_message(&mut self, now: Instant, message: &Bytes) {
        if message.len() > self.peer.limits().message_bytes {
            self.handle_too_long(now, message, &[], message.len());
        } else {
            self.handle_text(now, message);
        }
    }

    /// The channel has ended; `detail` is what the transport knows about it, for people. It may be empty.
    pub fn handle_eof(&mut self, now: Instant, detail: &str) {
        self.run(now, |peer, out| peer.handle_closed(now, detail, out));
    }

    /// The next message to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        self.waiting_since = None;
        let taken = self.framing.take();
        self.peer.handle_transmitted(self.framing.queued());
        taken
    }
}

impl<P: fmt::Debug, F> fmt::Debug for Transport<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("peer", &self.peer).finish_non_exhaustive()
    }
}
