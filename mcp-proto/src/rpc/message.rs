//! Envelopes.

use alloc::boxed::Box;

use bytes::Bytes;

use super::read::element;
use super::scan::{Cursor, ScanMode};
use super::{ErrorObject, Id, Kind, Malformed, Raw, Text};

/// One JSON-RPC message.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Is one.
    Response(Response),
}

/// A call that the receiver answers with a [`Response`] of the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The sender's id for it.
    pub id: Id,
    /// What is called.
    pub method: Text,
    /// An object or an array; `null` counts as none.
    pub params: Option<Raw>,
}

/// A call that is never answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What is called.
    pub method: Text,
    /// An object or an array; `null` counts as none.
    pub params: Option<Raw>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The id of the request; none (absent or `null`) only for an error whose sender could not read it.
    pub id: Option<Id>,
    /// What came of it.
    pub outcome: Result<Raw, ErrorObject>,
    /// The first breach of JSON-RPC that was tolerated in reading it: an id that is an integral float, an error that
    /// is not an object or has no integer code or no string message. `None` for a valid response.
    pub deviation: Option<Box<Malformed>>,
}

impl Message {
    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Request(_) => Kind::Request,
            Self::Notification(_) => Kind::Notification,
            Self::Response(_) => Kind::Response,
        }
    }
}

/// What one line, or one body, holds.
#[derive(Clone, Debug)]
pub enum Frame {
    /// A message.
    Single(Message),
    /// An array of messages: revision 2025-03-26 only.
    Batch(Batch),
}

/// The messages of a batch, each read when it is asked for; a malformed one does not cost the others.
///
/// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
#[derive(Clone, Debug)]
pub struct Batch {
    frame: Bytes,
    /// Behind the opening bracket, or behind an element.
    at: usize,
    left: usize,
    first: bool,
    max_depth: usize,
}

impl Batch {
    /// The most elements accepted. Answers are held until the last one is there, and no peer is known to send
    /// more than a few.
    pub const MAX: usize = 1024;

    /// Takes an array of `note_closed` elements that has been scanned; `at` lies behind its opening bracket.
    pub(super) fn new(frame: Bytes, at: usize, left: usize, max_depth: usize) -> Self {
        Self { frame, at, left, first: true, max_depth }
    }

    /// How many messages are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether none is left: from the start, that is an error to answer with
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
        let mut cursor = Cursor::new(&self.frame, self.at, ScanMode::Strict { max_depth });
        // The array was scanned as a whole: its elements are there.
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
