//! The end, orderly or not.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::LinkAction;
use crate::transport::http::{ExchangeId, Verb};

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::session::SendGate;

/// How far closing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseState {
    /// Nobody has asked for it.
    Open,
    /// What was said last is on its way.
    Draining,
    /// The session is being ended.
    DeletingSession,
    /// Everything has been let go.
    Closed,
}

impl HttpClient {
    /// What the peer wants of the link, which for it is all exchanges together.
    pub(super) fn apply_link_actions(&mut self, now: Instant) -> bool {
        match self.peer.poll_link(true) {
            None => return false,
            Some(LinkAction::Open) => {}
            Some(LinkAction::CloseWrite) => {
                self.closing = CloseState::Draining;
                self.stop_listening();
                self.finish_closing(now);
            }
            Some(LinkAction::Abort) => self.abort_all(),
        }
        true
    }

    /// Ends the session once everything has been said.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
    pub(super) fn finish_closing(&mut self, now: Instant) {
        if self.closing != CloseState::Draining || self.posts_in_flight > 0 || self.outbox.has_posts() {
            return;
        }
        match self.session.id {
            Some(_) => {
                self.closing = CloseState::DeletingSession;
                let headers = self.session_headers().delete();
                let url = self.url.clone();
                self.begin_exchange(ExchangeKind::Delete, Verb::Delete, url, headers, Bytes::new());
            }
            None => self.end_closing(now),
        }
    }

    /// The session has ended, or the server does not let clients end sessions.
    pub(super) fn handle_delete_end(&mut self, now: Instant) {
        self.end_closing(now);
    }

    fn end_closing(&mut self, now: Instant) {
        self.abort_all();
        self.peer.handle_closed(now, "", &mut self.outbox);
    }

    /// Breaks off whatever is under way.
    pub(super) fn abort_all(&mut self) {
        self.closing = CloseState::Closed;
        self.gate = SendGate::Closed;
        let exchanges: Vec<ExchangeId> = self.exchanges.keys().copied().collect();
        for exchange in exchanges {
            self.abort_exchange(exchange);
        }
        self.calls.clear();
        self.used_slots = 0;
        self.posts_in_flight = 0;
        self.paused_posts.clear();
        self.pending_initialized = None;
        self.relisting = None;
        self.detection_requests.clear();
        self.session.id = None;
        self.timers.clear_all();
        self.outbox.clear();
    }
}
