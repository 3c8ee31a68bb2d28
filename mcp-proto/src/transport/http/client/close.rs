//! Closing the client, orderly or by abort.

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::LinkAction;
use crate::transport::http::Verb;

use super::exchange::ExchangeKind;
use super::{CloseState, HttpClient};

impl HttpClient {
    /// Carries out the peer's link actions; for the peer, all exchanges together are its link.
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

    /// Deletes the session once all queued messages are sent.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
    pub(super) fn finish_closing(&mut self, now: Instant) {
        if self.closing != CloseState::Draining || self.exchanges.posts() > 0 || self.outbox.has_posts() {
            return;
        }
        match self.session.id() {
            Some(_) => {
                self.closing = CloseState::DeletingSession;
                let headers = self.session_headers().delete();
                let url = self.url.clone();
                self.begin_exchange(ExchangeKind::Delete, Verb::Delete, url, headers, Bytes::new());
            }
            None => self.end_closing(now),
        }
    }

    /// Handles the end of the DELETE: the session has ended, or the server does not let clients end sessions.
    pub(super) fn handle_delete_end(&mut self, now: Instant) {
        self.end_closing(now);
    }

    fn end_closing(&mut self, now: Instant) {
        self.abort_all();
        self.peer.handle_closed(now, "", &mut self.outbox);
    }

    /// Aborts every open exchange.
    pub(super) fn abort_all(&mut self) {
        self.closing = CloseState::Closed;
        for exchange in self.exchanges.ids() {
            self.abort_exchange(exchange);
        }
        self.calls.clear();
        self.session.end();
        self.tools.end_relisting();
        self.handshakes.clear();
        self.timers.clear_all();
        self.outbox.clear();
    }
}
