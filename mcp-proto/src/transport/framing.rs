//! The two message framings: newline-delimited and whole messages.

use alloc::collections::VecDeque;
use core::mem;

use bytes::Bytes;

use crate::Limits;
use crate::codec::{Line, Lines};
use crate::peer::{HeldPiece, MessageCharge};
use crate::peer::{MessageKind, Outbox};
use crate::prelude::*;

use super::cancellation::cancel_by_notification;

/// A message framing. Implemented by [`Newline`] and [`MessageFraming`].
pub trait Framing: Outbox {
    /// The kind of a client and that of a server with it, in traces.
    #[cfg(feature = "trace-file")]
    const CLIENT: &'static str;
    #[cfg(feature = "trace-file")]
    const SERVER: &'static str;
    fn new(limits: &Limits) -> Self;
    /// Discards all buffered input and output.
    fn clear(&mut self);
    /// Holds back input and output from now on, for [`poll_held`](Self::poll_held).
    fn hold(&mut self);
    /// Stops to hold back, unless output is released and not taken. Nothing may be held back. Returns whether it does.
    fn stop_holding(&mut self) -> bool;
    /// Holds back the end of the input. Returns whether it does.
    fn hold_end(&mut self, detail: &str) -> bool;
    /// Takes the next piece that is held back.
    fn poll_held(&mut self) -> Option<HeldPiece>;
    /// Lets the transport take output that was held back.
    fn release_output(&mut self, output: HeldPiece);
}

/// Newline-delimited framing: one message per line of a byte stream.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>
#[derive(Debug)]
pub struct Newline {
    pub(super) lines: Lines,
    message_bytes: usize,
    queue: Vec<u8>,
    /// How many bytes of the queue are whole messages; the message being written follows them.
    whole: usize,
    /// What is not held back, if everything else is.
    held: Option<Box<HeldLines>>,
}

#[derive(Debug, Default)]
struct HeldLines {
    /// The output that the transport may take.
    released: Vec<u8>,
    /// The end of the input, which follows the lines that have not been polled.
    end: Option<String>,
}

impl Newline {
    /// Whether received lines are held back.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(held) = &mut self.held {
            let has_output = !held.released.is_empty();
            match out.is_empty() {
                true => mem::swap(out, &mut held.released),
                false => out.append(&mut held.released),
            }
            return has_output;
        }
        self.take_queue(out)
    }

    fn take_queue(&mut self, out: &mut Vec<u8>) -> bool {
        self.queue.truncate(self.whole);
        if self.whole == 0 {
            return false;
        }
        self.whole = 0;
        if out.is_empty() {
            mem::swap(out, &mut self.queue);
        } else {
            out.append(&mut self.queue);
        }
        true
    }
}

impl Framing for Newline {
    #[cfg(feature = "trace-file")]
    const CLIENT: &'static str = "stream client";
    #[cfg(feature = "trace-file")]
    const SERVER: &'static str = "stream server";

    fn new(limits: &Limits) -> Self {
        let message_bytes = limits.message_bytes;
        Self { lines: Lines::new(message_bytes), message_bytes, queue: Vec::new(), whole: 0, held: None }
    }

    fn clear(&mut self) {
        self.lines = Lines::new(self.message_bytes);
        self.queue.clear();
        self.whole = 0;
        if let Some(held) = &mut self.held {
            **held = HeldLines::default();
        }
    }

    fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    fn stop_holding(&mut self) -> bool {
        self.held.take_if(|held| held.released.is_empty()).is_some()
    }

    fn hold_end(&mut self, detail: &str) -> bool {
        self.held.as_mut().map(|held| held.end = Some(detail.to_string())).is_some()
    }

    fn poll_held(&mut self) -> Option<HeldPiece> {
        let held = self.held.as_mut()?;
        if let Some(line) = self.lines.poll_line() {
            return Some(HeldPiece::Received(line, None));
        }
        if held.end.is_some() {
            // A last message without its newline comes before the end.
            let last = self.lines.handle_eof().map(|line| HeldPiece::Received(line, None));
            return last.or_else(|| held.end.take().map(HeldPiece::End));
        }
        // Further output waits in the queue until the transport has taken this.
        if !held.released.is_empty() {
            return None;
        }
        if self.whole == 0 {
            return None;
        }
        // The empty buffer of the transport's last block serves the next messages.
        let mut block = mem::take(&mut held.released);
        self.take_queue(&mut block).then_some(HeldPiece::Block(block))
    }

    fn release_output(&mut self, output: HeldPiece) {
        if let (Some(held), HeldPiece::Block(block)) = (&mut self.held, output) {
            held.released = block;
        }
    }
}

impl Outbox for Newline {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.queue.truncate(self.whole);
        &mut self.queue
    }

    fn commit(&mut self, _about: MessageKind<'_>) {
        //= F26 "Whole messages only"
        //= C3.1 "One message per line"
        //= S2.1 "one per line"
        self.queue.push(b'\n');
        self.whole = self.queue.len();
    }

    fn queued(&self) -> usize {
        self.whole.saturating_add(self.held.as_ref().map_or(0, |held| held.released.len()))
    }

    fn cancel(&mut self, id: i64, reason: Option<&str>) {
        cancel_by_notification(self, id, reason);
    }
}

/// Framing for channels that keep messages apart: one message per frame.
#[derive(Debug)]
pub struct MessageFraming {
    message: Vec<u8>,
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// What is not held back, if everything else is; and input that is.
    held: Option<Box<HeldMessages>>,
}

#[derive(Debug, Default)]
struct HeldMessages {
    received: VecDeque<(Bytes, Option<MessageCharge>)>,
    end: Option<String>,
    /// The output that the transport may take.
    released: Option<Bytes>,
}

impl MessageFraming {
    /// Holds back a received message. Returns whether it does; otherwise its charge.
    pub(super) fn hold_message(
        &mut self,
        message: &Bytes,
        charge: Option<MessageCharge>,
    ) -> Result<(), Option<MessageCharge>> {
        match &mut self.held {
            Some(held) => {
                held.received.push_back((message.clone(), charge));
                Ok(())
            }
            None => Err(charge),
        }
    }

    pub(super) fn take(&mut self) -> Option<Bytes> {
        match &mut self.held {
            Some(held) => held.released.take(),
            None => self.take_queue(),
        }
    }

    fn take_queue(&mut self) -> Option<Bytes> {
        let message = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.len());
        Some(message)
    }
}

impl Framing for MessageFraming {
    #[cfg(feature = "trace-file")]
    const CLIENT: &'static str = "channel client";
    #[cfg(feature = "trace-file")]
    const SERVER: &'static str = "channel server";

    fn new(_limits: &Limits) -> Self {
        Self { message: Vec::new(), queue: VecDeque::new(), bytes: 0, held: None }
    }

    fn clear(&mut self) {
        self.message.clear();
        self.queue.clear();
        self.bytes = 0;
        if let Some(held) = &mut self.held {
            **held = HeldMessages::default();
        }
    }

    fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    fn stop_holding(&mut self) -> bool {
        self.held.take_if(|held| held.released.is_none()).is_some()
    }

    fn hold_end(&mut self, detail: &str) -> bool {
        self.held.as_mut().map(|held| held.end = Some(detail.to_string())).is_some()
    }

    fn poll_held(&mut self) -> Option<HeldPiece> {
        let held = self.held.as_mut()?;
        if let Some((message, charge)) = held.received.pop_front() {
            return Some(HeldPiece::Received(Line::Whole(message), charge));
        }
        if let Some(detail) = held.end.take() {
            return Some(HeldPiece::End(detail));
        }
        if held.released.is_some() {
            return None;
        }
        self.take_queue().map(HeldPiece::Message)
    }

    fn release_output(&mut self, output: HeldPiece) {
        if let (Some(held), HeldPiece::Message(message)) = (&mut self.held, output) {
            held.released = Some(message);
        }
    }
}

impl Outbox for MessageFraming {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.message.clear();
        &mut self.message
    }

    fn commit(&mut self, _about: MessageKind<'_>) {
        self.bytes = self.bytes.saturating_add(self.message.len());
        self.queue.push_back(Bytes::from(mem::take(&mut self.message)));
    }

    fn queued(&self) -> usize {
        let released = self.held.as_ref().and_then(|held| held.released.as_ref());
        self.bytes.saturating_add(released.map_or(0, Bytes::len))
    }

    fn cancel(&mut self, id: i64, reason: Option<&str>) {
        cancel_by_notification(self, id, reason);
    }
}
