//! The two message framings: newline-delimited and whole messages.

use alloc::collections::VecDeque;
use core::mem;

use bytes::Bytes;

use crate::Limits;
use crate::codec::Lines;
use crate::peer::{MessageKind, Outbox};
use crate::prelude::*;
use crate::rpc::{Id, write};
use crate::schema::{Cancelled, Notification, Revision};

/// A message framing. Implemented by [`Newline`] and [`MessageFraming`].
pub trait Framing: Outbox {
    fn new(limits: &Limits) -> Self;
    /// Discards all buffered input and output.
    fn clear(&mut self);
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
}

impl Newline {
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> bool {
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
    fn new(limits: &Limits) -> Self {
        let message_bytes = limits.message_bytes;
        Self { lines: Lines::new(message_bytes), message_bytes, queue: Vec::new(), whole: 0 }
    }

    fn clear(&mut self) {
        self.lines = Lines::new(self.message_bytes);
        self.queue.clear();
        self.whole = 0;
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
        self.whole
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
}

impl MessageFraming {
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let message = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.len());
        Some(message)
    }
}

impl Framing for MessageFraming {
    fn new(_limits: &Limits) -> Self {
        Self { message: Vec::new(), queue: VecDeque::new(), bytes: 0 }
    }

    fn clear(&mut self) {
        self.message.clear();
        self.queue.clear();
        self.bytes = 0;
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
        self.bytes
    }

    fn cancel(&mut self, id: i64, reason: Option<&str>) {
        cancel_by_notification(self, id, reason);
    }
}

// Cancellation on the wire, where the end of an exchange does not say it: `notifications/cancelled`.
//
// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>

/// Sends `notifications/cancelled` for this side's request `id` on a channel of messages.
pub(super) fn cancel_by_notification(out: &mut impl Outbox, id: i64, reason: Option<&str>) {
    if write_cancelled(out.buffer(), id, reason).is_ok() {
        out.commit(MessageKind::Notification {
            method: Cancelled::NAME,
            request: None,
            revision: Revision::LATEST,
        });
    }
}

/// Appends `notifications/cancelled` for this side's request `id`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
pub(super) fn write_cancelled(
    out: &mut Vec<u8>,
    id: i64,
    reason: Option<&str>,
) -> Result<(), serde_json::Error> {
    #[derive(serde::Serialize)]
    struct Params<'a> {
        #[serde(rename = "requestId")]
        request_id: Id,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    }
    //= K4 "Cancellation goes on the wire: a notification"
    //= C3.4 "Cancel = `notifications/cancelled` with `requestId`"
    let params = Params { request_id: Id::Number(id), reason };
    write::notification(out, Cancelled::NAME, |buffer| write::json(buffer, &params))
}
