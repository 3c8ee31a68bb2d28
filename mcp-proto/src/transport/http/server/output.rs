//! The answer to one request that stands alone, as the peer writes it.

use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::peer::{Denial, MessageKind, Outbox};
use crate::quota::{ByteAccount, BytePermit, BytePurpose};
use crate::rpc::{ErrorId, ErrorObject, Id, code, write};

use super::request_intake::AcceptedTypes;
use super::response::{self, Chunk, ResponseHead, UNBUDGETED_BYTES};

/// What comes first decides what the answer is: the reply makes it one JSON value with a status, anything else a stream
/// of events with status 200.
#[derive(Debug)]
pub(super) struct ExchangeOutput {
    accepts: AcceptedTypes,
    pub(super) stage: Stage,
    form: ResponseForm,
    /// Whole messages, then the one that is being written.
    buffer: Vec<u8>,
    complete_bytes: usize,
    /// Whether the reply is in it: nothing follows.
    has_replied: bool,
    /// Why the request is denied.
    denial: Option<Denial>,
    /// The permit for the queued bytes, and for the part taken last, which may not be written yet.
    permit: Option<BytePermit>,
    taken_bytes: usize,
}

/// Who answers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peer, which looks whether the request is one to be answered.
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

/// What a buffer begins with, in bytes: small answers need no more.
const INITIAL_CAPACITY: usize = 512;

/// What stands before each message, so that it need not be moved to make an event of it.
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

    /// Whether the reply has been written, or never will be.
    pub(super) fn is_over(&self) -> bool {
        self.has_replied
    }

    /// Writes a comment, which makes it a stream if it is not decided yet.
    pub(super) fn keep_alive(&mut self) {
        if self.has_replied || self.accepts == AcceptedTypes::Json {
            return;
        }
        self.form = ResponseForm::Events;
        self.buffer.truncate(self.complete_bytes);
        crate::codec::sse::write::comment(&mut self.buffer);
        self.complete_bytes = self.buffer.len();
    }

    /// What is answered next says that the request is denied.
    pub(super) fn deny(&mut self, denial: &Denial) {
        if !self.has_replied {
            self.denial = Some(denial.clone());
        }
    }

    /// Nothing more comes. What was not answered never will be.
    pub(super) fn end(&mut self) {
        if !self.has_replied {
            self.has_replied = true;
            if self.form == ResponseForm::Undecided {
                let error =
                    ErrorObject::new(code::INTERNAL_ERROR, "the server has ended before it could answer");
                // It has no data that could fail to encode.
                let _ = write::error(self.buffer(), ErrorId::Absent, &error);
                self.complete_bytes = self.buffer.len();
                self.form = self.json_form(503);
            }
        }
    }

    /// The client is gone.
    pub(super) fn clear(&mut self) {
        self.end();
        self.buffer = Vec::new();
        (self.complete_bytes, self.taken_bytes) = (0, 0);
    }

    pub(super) fn head(&self) -> Option<ResponseHead> {
        match self.form {
            ResponseForm::Undecided => None,
            ResponseForm::Json { status, bytes } => {
                Some(response::json_head(status, bytes, self.denial.as_ref()))
            }
            ResponseForm::Events => Some(response::stream_head()),
        }
    }

    /// Charges the queued bytes to the byte budget.
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

    /// The form of the answer in the buffer, whose length stands in its head whenever that is asked for.
    fn json_form(&self, status: u16) -> ResponseForm {
        ResponseForm::Json { status, bytes: self.complete_bytes.saturating_sub(EVENT_PREFIX.len()) }
    }

    fn commit_event(&mut self) {
        self.form = ResponseForm::Events;
        self.buffer.extend_from_slice(b"\n\n");
        self.complete_bytes = self.buffer.len();
    }

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
                // It has no data that could fail to encode.
                let _ = write::error(self.buffer(), id, &response::over_budget());
                self.buffer.shrink_to_fit();
                self.commit_reply(503);
            }
            // What follows the reply has nobody to read it, such as that a subscription which has ended is cancelled.
            MessageKind::Notification { .. } if !self.has_replied && self.accepts != AcceptedTypes::Json => {
                self.commit_event()
            }
            MessageKind::Notification { .. } | MessageKind::Request { .. } => {}
        }
    }

    fn commit_error(&mut self, _: Option<&Id>, error: i64) {
        self.commit_reply(match (error, self.stage) {
            (
                code::HEADER_MISMATCH
                | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                | code::UNSUPPORTED_PROTOCOL_VERSION,
                _,
            ) => 400,
            (_, Stage::Handling) => 200,
            (code::METHOD_NOT_FOUND, Stage::Admission) => 404,
            (code::INTERNAL_ERROR, Stage::Admission) => 503,
            (_, Stage::Admission) => 400,
        });
    }

    fn queued(&self) -> usize {
        self.complete_bytes
    }

    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit || !self.has_room(BytePurpose::Request)
    }

    /// A server has asked nothing here.
    fn cancel(&mut self, _: i64, _: Option<&str>) {}
}
