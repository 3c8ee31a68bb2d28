//! The end, orderly or not.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::LinkAction;
use crate::transport::http::{ExchangeId, Verb};

use super::HttpClient;
use super::exchange::Purpose;
use super::session::Gate;

/// How far closing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Nobody has asked for it.
    No,
    /// What was said last is on its way.
    Finishing,
    /// The session is being ended.
    Deleting,
    /// Everything has been let go.
    Done,
}

impl HttpClient {
    /// What the peer wants of the link, which for it is all exchanges together.
    pub(super) fn follow_link(&mut self, now: Instant) -> bool {
        match self.peer.poll_link(true) {
            None => return false,
            Some(LinkAction::Open) => {}
            Some(LinkAction::CloseWrite) => {
                self.closing = Closing::Finishing;
                self.stop_listening();
                self.finish_closing(now);
            }
            Some(LinkAction::Abort) => self.let_go(),
        }
        true
    }

    /// Ends the session once everything has been said.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
    pub(super) fn finish_closing(&mut self, now: Instant) {
        if self.closing != Closing::Finishing || self.posting > 0 || self.out.has_posts() {
            return;
        }
        match self.session.id {
            Some(_) => {
                self.closing = Closing::Deleting;
                let headers = self.session_headers().delete();
                let url = self.url.clone();
                self.begin(Purpose::Delete, Verb::Delete, url, headers, Bytes::new());
            }
            None => self.end_closing(now),
        }
    }

    /// The session has ended, or the server does not let clients end sessions.
    pub(super) fn conclude_delete(&mut self, now: Instant) {
        self.end_closing(now);
    }

    fn end_closing(&mut self, now: Instant) {
        self.let_go();
        self.peer.handle_closed(now, "", &mut self.out);
    }

    /// Breaks off whatever is under way.
    pub(super) fn let_go(&mut self) {
        self.closing = Closing::Done;
        self.gate = Gate::Shut;
        let exchanges: Vec<ExchangeId> = self.exchanges.keys().copied().collect();
        for exchange in exchanges {
            self.abort_exchange(exchange);
        }
        self.calls.clear();
        self.busy = 0;
        self.posting = 0;
        self.paused.clear();
        self.opening = None;
        self.relisting = None;
        self.handshakes.clear();
        self.session.id = None;
        self.timers.clear_all();
        self.out.clear();
    }
}
