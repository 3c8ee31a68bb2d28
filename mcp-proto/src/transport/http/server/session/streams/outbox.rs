//! The peer's outbox: sends each message to its response stream.

use alloc::vec::Vec;

use super::{EVENT_PREFIX_ROOM, GENERAL_STREAM, ResponseStreams, SessionTransport};
use crate::peer::{MessageKind, Outbox};
use crate::quota::BytePurpose;
use crate::rpc::{ErrorId, Id, write};
use crate::transport::framing::write_cancelled;
use crate::transport::http::server::response::{UNBUDGETED_BYTES, over_budget};

/// The initial capacity of a message's buffer in bytes, enough for small messages.
const INITIAL_CAPACITY: usize = 512;

impl ResponseStreams {
    fn stream_of(&self, request: Option<&Id>) -> Option<u64> {
        self.requests.get(request?).copied()
    }

    /// Replaces an answer for which the byte budget has no room with an error.
    fn limit_answer(&mut self, id: Option<&Id>) {
        let bytes = self.scratch.len().saturating_sub(EVENT_PREFIX_ROOM);
        if bytes > UNBUDGETED_BYTES && !self.has_room(BytePurpose::Answer) {
            self.scratch = Vec::new();
            let id = id.map_or(ErrorId::Null, ErrorId::Known);
            // The error has no data that could fail to encode.
            let _ = write::error(self.buffer(), id, &over_budget());
        }
    }
}

impl Outbox for ResponseStreams {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.scratch.clear();
        if self.scratch.capacity() == 0 {
            self.scratch.reserve(INITIAL_CAPACITY);
        }
        self.scratch.resize(EVENT_PREFIX_ROOM, 0);
        &mut self.scratch
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        self.update_permit();
        if let MessageKind::Reply(id) = about {
            self.limit_answer(id);
        }
        if self.transport == SessionTransport::HttpSse {
            if let MessageKind::Reply(Some(id)) = about {
                self.release_request_permit(id);
            }
            //= R2 "answers on the stream"
            return self.send_event(GENERAL_STREAM);
        }
        //= S3.22 "never broadcast one message on several streams"
        match about {
            MessageKind::Reply(id) => {
                if let Some(stream) = id.and_then(|id| self.requests.remove(id)) {
                    self.send_answer(stream);
                }
            }
            MessageKind::Notification { request, .. } => match self.stream_of(request) {
                Some(stream) if self.is_readable(stream) => self.send_message(stream),
                Some(_) => {}
                None => self.send_event(GENERAL_STREAM),
            },
            MessageKind::Request { id, related, .. } => {
                match self.stream_of(related).filter(|stream| self.is_readable(*stream)) {
                    Some(stream) => {
                        self.server_requests.get_or_insert_default().insert(id, stream);
                        self.send_message(stream);
                    }
                    None => self.send_event(GENERAL_STREAM),
                }
            }
        }
    }

    fn has_reader(&self) -> bool {
        self.streams.get(&GENERAL_STREAM).is_some_and(|general| general.connection.is_some())
    }

    fn queued(&self) -> usize {
        self.connections.queued().saturating_add(self.batched_bytes)
    }

    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit || !self.has_room(BytePurpose::Request)
    }

    fn cancel(&mut self, id: i64, reason: Option<&str>) {
        let stream = self.server_requests.as_mut().and_then(|requests| requests.remove(&id));
        let stream = stream.filter(|stream| self.is_readable(*stream));
        if write_cancelled(self.buffer(), id, reason).is_ok() {
            match stream {
                Some(stream) => self.send_message(stream),
                None => self.send_event(GENERAL_STREAM),
            }
        }
    }
}
