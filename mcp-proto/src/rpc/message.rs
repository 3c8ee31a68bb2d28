//! JSON-RPC envelopes: requests, notifications, responses and batches.

use alloc::boxed::Box;

use super::read::element;
use super::scan::{Cursor, ScanMode};
use super::{EnvelopeKind, ErrorObject, Id, Malformed, Raw, Text};

/// One JSON-RPC message.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A call that the receiver answers.
    Request(Request),
    /// A call that is never answered.
    Notification(Notification),
    /// The answer to a request.
    Response(Response),
}

/// A call that the receiver answers with a [`Response`] of the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id that the sender chose.
    pub id: Id,
    /// The method.
    pub method: Text,
    /// An object or an array; `null` counts as none.
    pub params: Option<Raw>,
}

/// A call that is never answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The method.
    pub method: Text,
    /// An object or an array; `null` counts as none.
    pub params: Option<Raw>,
    /// The tolerated breach of JSON-RPC: the id of a method `notifications/…` is `null`. `None` for a valid notification.
    pub deviation: Option<Box<Malformed>>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The id of the request; `None` (absent or `null`) only for an error whose sender could not read the id.
    pub id: Option<Id>,
    /// The result or the error.
    pub outcome: Result<Raw, ErrorObject>,
    /// The first tolerated breach of JSON-RPC: an id that is an integral float, an error that is not an object or has
    /// no integer code or no string message, text that is not Unicode. `None` for a valid response.
    pub deviation: Option<Box<Malformed>>,
}

impl Message {
    /// The kind of the message.
    #[must_use]
    pub fn kind(&self) -> EnvelopeKind {
        match self {
            Self::Request(_) => EnvelopeKind::Request,
            Self::Notification(_) => EnvelopeKind::Notification,
            Self::Response(_) => EnvelopeKind::Response,
        }
    }
}

/// The content of one line or one body: a message or a batch.
#[derive(Clone, Debug)]
pub enum Frame {
    /// A message.
    Single(Message),
    /// An array of messages: revision 2025-03-26 only.
    Batch(Batch),
}

/// An iterator over the messages of a batch, which parses each on demand; a malformed one does not affect the others.
///
/// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
#[derive(Clone, Debug)]
pub struct Batch {
    frame: Text,
    /// The offset behind the opening bracket or behind the last element returned.
    at: usize,
    left: usize,
    first: bool,
    max_depth: usize,
}

impl Batch {
    /// The greatest number of elements accepted. The answers are held until the last one is ready, and no known peer
    /// sends more than a few.
    pub const MAX: usize = 1024;

    /// A batch over an array of `left` elements that has been scanned; `at` is the offset behind its opening bracket.
    pub(super) fn new(frame: Text, at: usize, left: usize, max_depth: usize) -> Self {
        Self { frame, at, left, first: true, max_depth }
    }

    /// The number of messages left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether no message is left. A batch that is empty from the start is an error: answer it with
    /// [`INVALID_REQUEST`](super::code::INVALID_REQUEST).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Batch {
    type Item = Result<Message, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let max_depth = self.max_depth;
        let mut cursor = Cursor::new(self.frame.as_bytes(), self.at, ScanMode::Strict { max_depth });
        // The array was scanned as a whole: each element is complete.
        cursor.item(self.first, b']', "a comma").ok()?;
        let value = cursor.value().ok()?;
        self.first = false;
        self.at = value.end;
        Some(element(&self.frame, value, max_depth))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Batch {}
