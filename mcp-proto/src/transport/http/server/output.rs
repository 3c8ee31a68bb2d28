//! The answer to one request that stands alone, as the peer writes it.

use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::peer::{Denial, MessageKind, Outbox};
use crate::quota::{ByteAccount, BytePermit, BytePurpose};
use crate::rpc::{ErrorId, ErrorObject, Id, code, write};

use super::answer::{self, ALWAYS_SENT, Chunk, ResponseHead};
use super::intake::Accepts;

/// What comes first decides what the answer is: the reply makes it one JSON value with a status, anything else a stream
/// of events with status 200.
#[derive(Debug)]
pub(super) struct Output {
    accepts: Accepts,
    pub(super) stage: Stage,
    form: Form,
    /// Whole messages, then the one that is being written.
    buffer: Vec<u8>,
    whole: usize,
    /// Whether the reply is in it: nothing follows.
    replied: bool,
    /// Why the request is denied.
    denial: Option<Denial>,
    /// The permit for the queued bytes, and for the part taken last, which may not be written yet.
    permit: Option<BytePermit>,
    taken: usize,
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
enum Form {
    Undecided,
    Json { status: u16, bytes: usize },
    Events,
}

/// What a buffer begins with, in bytes: small answers need no more.
const SMALL_ANSWER: usize = 512;

/// What stands before each message, so that it need not be moved to make an event of it.
const DATA: &[u8] = b"data: ";

impl Output {
    pub(super) fn new(accepts: Accepts, account: Option<&ByteAccount>) -> Self {
        Self {
            permit: account.map(ByteAccount::permit),
            taken: 0,
            accepts,
            stage: Stage::Admission,
            form: Form::Undecided,
            buffer: Vec::new(),
            whole: 0,
            replied: false,
            denial: None,
        }
    }

    /// Whether the reply has been written, or never will be.
    pub(super) fn is_over(&self) -> bool {
        self.replied
    }

    /// Writes a comment, which makes it a stream if it is not decided yet.
    pub(super) fn keep_alive(&mut self) {
        if self.replied || self.accepts == Accepts::Json {
            return;
        }
        self.form = Form::Events;
        self.buffer.truncate(self.whole);
        crate::codec::sse::write::comment(&mut self.buffer);
        self.whole = self.buffer.len();
    }

    /// What is answered next says that the request is denied.
    pub(super) fn deny(&mut self, denial: &Denial) {
        if !self.replied {
            self.denial = Some(denial.clone());
        }
    }

    /// Nothing more comes. What was not answered never will be.
    pub(super) fn end(&mut self) {
        if !self.replied {
            self.replied = true;
            if self.form == Form::Undecided {
                let error =
                    ErrorObject::new(code::INTERNAL_ERROR, "the server has ended before it could answer");
                // It has no data that could fail to encode.
                let _ = write::error(self.buffer(), ErrorId::Absent, &error);
                self.whole = self.buffer.len();
                self.form = self.json(503);
            }
        }
    }

    /// The client is gone.
    pub(super) fn clear(&mut self) {
        self.end();
        self.buffer = Vec::new();
        (self.whole, self.taken) = (0, 0);
    }

    pub(super) fn head(&self) -> Option<ResponseHead> {
        match self.form {
            Form::Undecided => None,
            Form::Json { status, bytes } => Some(answer::json_head(status, bytes, self.denial.as_ref())),
            Form::Events => Some(answer::stream_head()),
        }
    }

    /// Charges the queued bytes to the byte budget.
    pub(super) fn recount(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.set(self.buffer.len().saturating_add(self.taken));
        }
    }

    fn has_room(&self, usage: BytePurpose) -> bool {
        self.permit.as_ref().is_none_or(|permit| permit.account().has_room(usage))
    }

    pub(super) fn take(&mut self) -> Chunk {
        let chunk = self.next_chunk();
        self.taken = match &chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::Pending | Chunk::End => 0,
        };
        self.recount();
        chunk
    }

    fn next_chunk(&mut self) -> Chunk {
        self.buffer.truncate(self.whole);
        let bytes = match self.form {
            Form::Undecided => return Chunk::Pending,
            _ => Bytes::from(mem::take(&mut self.buffer)),
        };
        self.whole = 0;
        let bytes = match self.form {
            Form::Json { .. } => bytes.slice(DATA.len().min(bytes.len())..),
            _ => bytes,
        };
        match () {
            () if !bytes.is_empty() => Chunk::Bytes(bytes),
            () if self.replied => Chunk::End,
            () => Chunk::Pending,
        }
    }

    /// The form of the answer in the buffer, whose length stands in its head whenever that is asked for.
    fn json(&self, status: u16) -> Form {
        Form::Json { status, bytes: self.whole.saturating_sub(DATA.len()) }
    }

    fn event(&mut self) {
        self.form = Form::Events;
        self.buffer.extend_from_slice(b"\n\n");
        self.whole = self.buffer.len();
    }

    fn reply(&mut self, status: u16) {
        if self.replied {
            return;
        }
        self.replied = true;
        let is_plain = status == 200 && self.denial.is_none();
        if self.form == Form::Undecided && (self.accepts != Accepts::Events || !is_plain) {
            self.whole = self.buffer.len();
            self.form = self.json(status);
        } else {
            self.event();
        }
    }
}

impl Outbox for Output {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.truncate(self.whole);
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(SMALL_ANSWER);
        }
        self.buffer.extend_from_slice(DATA);
        &mut self.buffer
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        match about {
            MessageKind::Reply(id) => {
                let bytes = self.buffer.len().saturating_sub(self.whole);
                if bytes <= ALWAYS_SENT || self.replied || self.has_room(BytePurpose::Answer) {
                    self.reply(200);
                    return answer::shrink(&mut self.buffer);
                }
                let id = id.map_or(ErrorId::Null, ErrorId::Known);
                // It has no data that could fail to encode.
                let _ = write::error(self.buffer(), id, &answer::over_budget());
                self.buffer.shrink_to_fit();
                self.reply(503);
            }
            // What follows the reply has nobody to read it, such as that a subscription which has ended is cancelled.
            MessageKind::Notification { .. } if !self.replied && self.accepts != Accepts::Json => {
                self.event()
            }
            MessageKind::Notification { .. } | MessageKind::Request { .. } => {}
        }
    }

    fn commit_error(&mut self, _: Option<&Id>, error: i64) {
        self.reply(match (error, self.stage) {
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
        self.whole
    }

    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit || !self.has_room(BytePurpose::Request)
    }

    /// A server has asked nothing here.
    fn cancel(&mut self, _: i64, _: Option<&str>) {}
}
