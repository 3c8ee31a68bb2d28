//! Output of one exchange: the peer's messages, as a JSON answer or an event stream.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::peer::{Denial, MessageKind, Outbox};
use crate::quota::{ByteAccount, BytePermit, BytePurpose};
use crate::rpc::{ErrorId, ErrorObject, Id, code, write};

use super::head::AcceptedTypes;
use super::response::{self, Chunk, ResponseHead, UNBUDGETED_BYTES};

/// Collects the peer's output for one exchange.
///
/// The first output decides the form of the answer: the response makes it one JSON value with a status, any other
/// message an event stream with status 200.
#[derive(Debug)]
pub(super) struct ExchangeOutput {
    accepts: AcceptedTypes,
    pub(super) stage: Stage,
    form: ResponseForm,
    /// Complete messages, followed by the one being written.
    buffer: Vec<u8>,
    complete_bytes: usize,
    /// Whether the response was written; nothing follows it.
    has_replied: bool,
    /// Why the request is denied, if it is.
    denial: Option<Box<Denial>>,
    /// The permit for the queued bytes and for the part taken last, which may still be unwritten.
    permit: Option<BytePermit>,
    taken_bytes: usize,
}

/// Which side handles the request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peer, which checks whether to dispatch the request.
    Admission,
    /// The application.
    Handling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseForm {
    Undecided,
    Json { status: u16, bytes: usize },
    Events,
}

/// The initial capacity of the buffer in bytes, enough for small answers.
const INITIAL_CAPACITY: usize = 512;

/// Written before each message, so that the message need not be moved to become an event.
const EVENT_PREFIX: &[u8] = b"data: ";

impl ExchangeOutput {
    pub(super) fn new(accepts: AcceptedTypes, account: Option<&ByteAccount>) -> Self {
        Self {
            permit: account.map(ByteAccount::permit),
            taken_bytes: 0,
            accepts,
            stage: Stage::Admission,
            form: ResponseForm::Undecided,
            buffer: Vec::new(),
            complete_bytes: 0,
            has_replied: false,
            denial: None,
        }
    }

    /// Returns whether the response was written or never will be.
    pub(super) fn is_over(&self) -> bool {
        self.has_replied
    }

    /// Writes a comment. An answer whose form is undecided becomes an event stream.
    pub(super) fn keep_alive(&mut self) {
        if self.has_replied || self.accepts == AcceptedTypes::Json {
            return;
        }
        self.form = ResponseForm::Events;
        self.buffer.truncate(self.complete_bytes);
        crate::codec::sse::write::comment(&mut self.buffer);
        self.complete_bytes = self.buffer.len();
    }

    /// Sets the denial, which the next answer reports.
    pub(super) fn deny(&mut self, denial: &Denial) {
        if !self.has_replied {
            self.denial = Some(Box::new(denial.clone()));
        }
    }

    /// Ends the output. A request without an answer is answered with an error if the form of the answer is undecided.
    pub(super) fn end(&mut self) {
        if !self.has_replied {
            self.has_replied = true;
            if self.form == ResponseForm::Undecided {
                let error =
                    ErrorObject::new(code::INTERNAL_ERROR, "the server has ended before it could answer");
                // The error has no data that could fail to encode.
                let _ = write::error(self.buffer(), ErrorId::Absent, &error);
                self.complete_bytes = self.buffer.len();
                self.form = self.json_form(503);
            }
        }
    }

    //= S3.16 "nothing more sent"
    /// Discards all output after the client has disconnected.
    pub(super) fn clear(&mut self) {
        self.end();
        self.buffer = Vec::new();
        (self.complete_bytes, self.taken_bytes) = (0, 0);
    }

    //= S3.7 "Request → application/json or text/event-stream"
    pub(super) fn head(&self) -> Option<ResponseHead> {
        match self.form {
            ResponseForm::Undecided => None,
            ResponseForm::Json { status, bytes } => {
                Some(response::json_head(status, bytes, self.denial.as_deref()))
            }
            ResponseForm::Events => Some(response::stream_head()),
        }
    }

    pub(super) fn update_permit(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.set(self.buffer.len().saturating_add(self.taken_bytes));
        }
    }

    fn has_room(&self, usage: BytePurpose) -> bool {
        self.permit.as_ref().is_none_or(|permit| permit.account().has_room(usage))
    }

    pub(super) fn take(&mut self) -> Chunk {
        let chunk = self.next_chunk();
        self.taken_bytes = match &chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::Pending | Chunk::End => 0,
        };
        self.update_permit();
        chunk
    }

    fn next_chunk(&mut self) -> Chunk {
        self.buffer.truncate(self.complete_bytes);
        let bytes = match self.form {
            ResponseForm::Undecided => return Chunk::Pending,
            _ => Bytes::from(mem::take(&mut self.buffer)),
        };
        self.complete_bytes = 0;
        let bytes = match self.form {
            ResponseForm::Json { .. } => bytes.slice(EVENT_PREFIX.len().min(bytes.len())..),
            _ => bytes,
        };
        match () {
            () if !bytes.is_empty() => Chunk::Bytes(bytes),
            () if self.has_replied => Chunk::End,
            () => Chunk::Pending,
        }
    }

    /// Returns the JSON form of the buffered answer, with its length at this moment.
    fn json_form(&self, status: u16) -> ResponseForm {
        ResponseForm::Json { status, bytes: self.complete_bytes.saturating_sub(EVENT_PREFIX.len()) }
    }

    fn commit_event(&mut self) {
        self.form = ResponseForm::Events;
        self.buffer.extend_from_slice(b"\n\n");
        self.complete_bytes = self.buffer.len();
    }

    //= S3.13 "then the response, then ends (SHOULD)"
    fn commit_reply(&mut self, status: u16) {
        if self.has_replied {
            return;
        }
        self.has_replied = true;
        let is_plain = status == 200 && self.denial.is_none();
        if self.form == ResponseForm::Undecided && (self.accepts != AcceptedTypes::Events || !is_plain) {
            self.complete_bytes = self.buffer.len();
            self.form = self.json_form(status);
        } else {
            self.commit_event();
        }
    }
}

impl Outbox for ExchangeOutput {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.truncate(self.complete_bytes);
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(INITIAL_CAPACITY);
        }
        self.buffer.extend_from_slice(EVENT_PREFIX);
        &mut self.buffer
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        match about {
            MessageKind::Reply(id) => {
                let bytes = self.buffer.len().saturating_sub(self.complete_bytes);
                if bytes <= UNBUDGETED_BYTES || self.has_replied || self.has_room(BytePurpose::Answer) {
                    self.commit_reply(200);
                    return response::shrink(&mut self.buffer);
                }
                let id = id.map_or(ErrorId::Null, ErrorId::Known);
                // The error has no data that could fail to encode.
                let _ = write::error(self.buffer(), id, &response::over_budget());
                self.buffer.shrink_to_fit();
                self.commit_reply(503);
            }
            // The client does not read what follows the response, such as the cancellation of a subscription that has
            // ended.
            //= R11 "its result ends the stream; no `notifications/cancelled` follows it"
            MessageKind::Notification { .. } if !self.has_replied && self.accepts != AcceptedTypes::Json => {
                self.commit_event()
            }
            //= S1.9 "Never send JSON-RPC requests"
            MessageKind::Notification { .. } | MessageKind::Request { .. } => {}
        }
    }

    fn commit_error(&mut self, _: Option<&Id>, error: i64) {
        //= S1.5 "HTTP 400"
        //= S1.6 "HTTP 400"
        //= S3.12 "Unsupported version → 400 + -32022"
        self.commit_reply(match (error, self.stage) {
            (
                code::HEADER_MISMATCH
                | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                | code::UNSUPPORTED_PROTOCOL_VERSION,
                _,
            ) => 400,
            (_, Stage::Handling) => 200,
            //= S3.11 "Unknown method → 404 + -32601"
            (code::METHOD_NOT_FOUND, Stage::Admission) => 404,
            (code::INTERNAL_ERROR, Stage::Admission) => 503,
            //= S1.4 "HTTP 400"
            (_, Stage::Admission) => 400,
        });
    }

    fn queued(&self) -> usize {
        self.complete_bytes
    }

    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit || !self.has_room(BytePurpose::Request)
    }

    /// A modern server sends no requests, so none can be cancelled.
    fn cancel(&mut self, _: i64, _: Option<&str>) {}
}
