//! The peer's outbox: sends each message to its response stream.

use bytes::Bytes;

use super::{AcceptedTypes, EVENT_PREFIX_ROOM, GENERAL_STREAM, Priming, ResponseStreams, SessionTransport};
use crate::Instant;
use crate::peer::{Denial, MessageKind, Outbox};
use crate::prelude::*;
use crate::quota::{ByteAccount, BytePermit, BytePurpose};
use crate::rpc::{ErrorId, Id, write};
use crate::transport::cancellation::write_cancelled;
use crate::transport::http::server::response::{COMPLETE, ERROR, RESULT, UNBUDGETED_BYTES, over_budget};
use crate::transport::http::server::session::connections::ConnectionId;

/// The initial capacity of a message's buffer in bytes, enough for small messages.
const INITIAL_CAPACITY: usize = 512;

impl ResponseStreams {
    fn stream_of(&self, request: Option<&Id>) -> Option<u64> {
        self.requests.get(request?).copied()
    }

    /// Sends an answer. One for which the byte budget has no room is replaced with an error.
    fn commit_answer(&mut self, id: Option<&Id>, mut last_part: &'static str) {
        self.update_permit();
        let bytes = self.scratch.len().saturating_sub(EVENT_PREFIX_ROOM);
        if bytes > UNBUDGETED_BYTES && !self.has_room(BytePurpose::Answer) {
            self.scratch = Vec::new();
            // The error has no data that could fail to encode.
            let _ = write::error(self.buffer(), id.map_or(ErrorId::Null, ErrorId::Known), &over_budget());
            last_part = ERROR;
        }
        if self.transport == SessionTransport::HttpSse {
            if let Some(id) = id {
                self.release_request_permit(id);
            }
            self.send_event(GENERAL_STREAM);
        } else if let Some(stream) = id.and_then(|id| self.requests.remove(id)) {
            self.send_answer(stream, last_part);
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
        if let MessageKind::Reply(id) = about {
            return self.commit_answer(id, COMPLETE);
        }
        self.update_permit();
        //= R2 "answers on the stream"
        if self.transport == SessionTransport::HttpSse {
            return self.send_event(GENERAL_STREAM);
        }
        //= S3.22 "never broadcast one message on several streams"
        match about {
            MessageKind::Reply(_) => {}
            MessageKind::PartialResult(id) => {
                if let Some(stream) = self.stream_of(Some(id)) {
                    self.send_named_message(stream, RESULT);
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

    fn commit_error(&mut self, id: Option<&Id>, _: i64) {
        self.commit_answer(id, ERROR);
    }

    fn takes_parts(&self, request: &Id) -> bool {
        let stream = self.stream_of(Some(request)).filter(|stream| self.is_readable(*stream));
        let has_parts = |stream| self.streams.get(&stream).is_some_and(|stream| stream.has_parts);
        self.transport == SessionTransport::Streamable && stream.is_some_and(has_parts)
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

    fn has_streams(&self) -> bool {
        true
    }

    fn deny(&mut self, denial: Option<&Denial>) {
        self.denial = denial.cloned().map(Box::new);
    }

    /// Ends the connection of a request's stream, so that the client resumes the stream later.
    fn close_sse_stream(&mut self, id: &Id) {
        let Some(&stream) = self.requests.get(id).filter(|_| self.primed) else { return };
        let Some(known) = self.streams.get(&stream) else { return };
        let Some(connection) = known.connection.filter(|_| known.accepts != AcceptedTypes::Json) else {
            return;
        };
        self.begin_events(stream, Priming::Retry);
        self.connections.end(connection, self.now);
        self.clear_connection(stream);
    }
}

impl ResponseStreams {
    // --- The byte budget ---

    /// Charges queued bytes and stored events to an account of the byte budget from now on.
    pub(in super::super) fn charge(&mut self, account: &ByteAccount) {
        self.permit = Some(account.permit());
        self.update_permit();
    }

    /// Updates the permit to the current number of bytes.
    pub(in super::super) fn update_permit(&mut self) {
        if let Some(permit) = &mut self.permit {
            let waiting = self.connections.queued().saturating_add(self.connections.taken_bytes());
            permit.set(waiting.saturating_add(self.batched_bytes).saturating_add(self.store.bytes()));
        }
    }

    pub(super) fn has_room(&self, usage: BytePurpose) -> bool {
        self.permit.as_ref().is_none_or(|permit| permit.account().has_room(usage))
    }

    /// Holds the permit for a posted body until its request, which has no stream of its own, is answered.
    pub(in super::super) fn retain_request_permit(&mut self, id: Id, body: Option<BytePermit>) {
        if let Some(body) = body {
            self.body_permits.get_or_insert_default().insert(id, body);
        }
    }

    pub(super) fn release_request_permit(&mut self, id: &Id) {
        if let Some(permits) = &mut self.body_permits {
            permits.remove(id);
        }
    }

    // --- Delivered streams ---

    /// Handles a connection written to its end, including the last event of its stream if it carried that.
    pub(super) fn handle_connection_end(&mut self, stream: u64, connection: ConnectionId, now: Instant) {
        let Some(known) =
            self.streams.get_mut(&stream).filter(|known| known.last_connection == Some(connection))
        else {
            return;
        };
        if !core::mem::replace(&mut known.is_delivered, true) {
            let expiry = now + self.setup().config().resume_grace;
            if let Some(store) = self.store.used_mut() {
                store.mark_delivered(stream, expiry);
            }
            self.evict();
        }
    }

    /// Drops delivered events whose grace period is over.
    pub(super) fn expire(&mut self) {
        let now = self.now;
        while let Some(stream) = self.store.used_mut().and_then(|store| store.expire(now)) {
            self.forget(stream);
        }
        if self.store.is_empty() {
            self.store.reset();
        }
    }

    /// Drops events while there are more than the limits allow.
    fn evict(&mut self) {
        let config = self.setup().config();
        let (max_events, max_bytes) = (config.stored_events, config.stored_bytes);
        while let Some(stream) = self.store.used_mut().and_then(|store| store.evict(max_events, max_bytes)) {
            self.forget(stream);
        }
    }

    /// Stores an event for a client that reconnects.
    ///
    /// While the byte budget has no room for stored events, each one replaces older ones of this session.
    pub(super) fn store(&mut self, stream: u64, number: u64, event: Bytes) {
        self.update_permit();
        let most = if self.has_room(BytePurpose::Stored) { usize::MAX } else { self.store.bytes() };
        self.store.push(stream, number, event);
        while self.store.bytes() > most
            && let Some(stream) = self.store.evict_any()
        {
            self.forget(stream);
        }
        self.evict();
    }

    /// Removes a stream that has ended if none of its events is stored.
    pub(super) fn forget(&mut self, stream: u64) {
        if !self.store.has_stream(stream) && self.streams.get(&stream).is_some_and(|stream| stream.is_over) {
            self.streams.remove(&stream);
        }
    }
}
