//! The inputs and outputs of a machine that its transport needs.

use core::time::Duration;

use crate::peer::Outbox;
use crate::prelude::*;
use crate::rpc::{Frame, Malformed};
use crate::{Instant, Limits};

/// A machine of either role, as a transport drives it.
pub trait Machine {
    /// The events for the application.
    type Event;

    /// Returns the length of the `_meta` that `text` begins with, if that is the one of the last message, which need not be
    /// scanned again.
    fn known_meta_length(&self, _text: &str) -> Option<usize> {
        None
    }
    /// Handles a message or a batch.
    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox);
    /// Handles input that is not a message, or a message skipped because of its length.
    fn handle_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox);
    /// Handles the end of the connection; `detail` is the transport's description of it.
    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox);
    /// Runs the timers that are due at `now`.
    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox);
    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;
    /// Returns the next event, in wire order.
    #[must_use]
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// Returns whether the machine wants more input, that is, whether the application takes its events.
    fn wants_read(&self) -> bool;
    /// Dispatches deferred messages as far as the remote side takes the output.
    fn dispatch_deferred(&mut self, _now: Instant, _out: &mut dyn Outbox) {}
    /// Records that the transport has taken output; `queued` bytes are left.
    fn handle_transmitted(&mut self, _queued: usize) {}
    /// Ends the connection because of a local failure; `why` describes it.
    fn fail(&mut self, why: String);
    /// Returns whether the connection is over.
    fn is_closed(&self) -> bool;
    /// Returns the limits of the connection.
    fn limits(&self) -> &Limits;
    /// Returns how long queued bytes may wait without the transport taking any.
    fn write_timeout(&self) -> Duration;
}
