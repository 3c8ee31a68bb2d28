//! What the peer writes, sorted to its lanes.

use alloc::vec::Vec;

use super::{GENERAL, Lanes, ROOM, SessionTransport};
use crate::peer::{MessageKind, Outbox};
use crate::quota::BytePurpose;
use crate::rpc::{ErrorId, Id, write};
use crate::transport::framing::write_cancelled;
use crate::transport::http::server::answer::{ALWAYS_SENT, over_budget};

impl Lanes {
    fn lane_of(&self, request: Option<&Id>) -> Option<u64> {
        self.requests.get(request?).copied()
    }

    /// Replaces an answer that the byte budget has no room for by an error.
    fn limit_answer(&mut self, id: Option<&Id>) {
        let bytes = self.scratch.len().saturating_sub(ROOM);
        if bytes > ALWAYS_SENT && !self.has_room(BytePurpose::Answer) {
            self.scratch = Vec::new();
            let id = id.map_or(ErrorId::Null, ErrorId::Known);
            // It has no data that could fail to encode.
            let _ = write::error(self.buffer(), id, &over_budget());
        }
    }
}

impl Outbox for Lanes {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.scratch.clear();
        self.scratch.resize(ROOM, 0);
        &mut self.scratch
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        self.recount();
        if let MessageKind::Reply(id) = about {
            self.limit_answer(id);
        }
        if self.transport == SessionTransport::OneStream {
            if let MessageKind::Reply(Some(id)) = about {
                self.bodies.remove(id);
            }
            return self.send_event(GENERAL);
        }
        match about {
            MessageKind::Reply(id) => {
                if let Some(lane) = id.and_then(|id| self.requests.remove(id)) {
                    self.answer(lane);
                }
            }
            MessageKind::Notification { request, .. } => match self.lane_of(request) {
                Some(lane) if self.carries(lane) => self.event(lane),
                Some(_) => {}
                None => self.send_event(GENERAL),
            },
            MessageKind::Request { id, related, .. } => {
                match self.lane_of(related).filter(|lane| self.carries(*lane)) {
                    Some(lane) => {
                        self.asked.insert(id, lane);
                        self.event(lane);
                    }
                    None => self.send_event(GENERAL),
                }
            }
        }
    }

    fn has_reader(&self) -> bool {
        self.lanes.get(&GENERAL).is_some_and(|general| general.connection.is_some())
    }

    fn queued(&self) -> usize {
        self.connections.queued().saturating_add(self.held)
    }

    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit || !self.has_room(BytePurpose::Request)
    }

    fn cancel(&mut self, id: i64, reason: Option<&str>) {
        let lane = self.asked.remove(&id).filter(|lane| self.carries(*lane));
        if write_cancelled(self.buffer(), id, reason).is_ok() {
            match lane {
                Some(lane) => self.event(lane),
                None => self.send_event(GENERAL),
            }
        }
    }
}
