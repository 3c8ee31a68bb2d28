//! Memory accounting of response streams: their byte-budget permits and the eviction of stored events.

use bytes::Bytes;

use super::ResponseStreams;
use crate::Instant;
use crate::quota::{ByteAccount, BytePermit, BytePurpose};
use crate::rpc::Id;
use crate::transport::http::server::session::connections::ConnectionId;

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

    /// Holds the permit for a posted body until all requests of its stream are answered.
    pub(in super::super) fn retain_body_permit(&mut self, stream: u64, body: Option<BytePermit>) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.body_permit = body;
        }
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

    /// Marks the stream as delivered once this connection is written to its end.
    pub(super) fn set_last_connection(&mut self, stream: u64, connection: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.last_connection = Some(connection);
        }
    }

    /// Handles a connection written to its end, including the last event of its stream if it carried that.
    pub(super) fn handle_connection_end(&mut self, stream: u64, connection: ConnectionId, now: Instant) {
        let Some(known) =
            self.streams.get_mut(&stream).filter(|known| known.last_connection == Some(connection))
        else {
            return;
        };
        if !core::mem::replace(&mut known.is_delivered, true) {
            let expiry = now + self.setup.config().resume_grace;
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
        let config = self.setup.config();
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
