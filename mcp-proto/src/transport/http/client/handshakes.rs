//! Detection requests in progress: several, if the server was slow to answer one.

use alloc::vec::Vec;

use crate::transport::http::ExchangeId;

/// A detection request in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    pub(super) exchange: ExchangeId,
    pub(super) wire_id: i64,
}

/// The detection requests in progress, the newest last.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    requests: Vec<Handshake>,
}

impl Handshakes {
    pub(super) fn push(&mut self, exchange: ExchangeId, wire_id: i64) {
        self.requests.push(Handshake { exchange, wire_id });
    }

    pub(super) fn remove(&mut self, wire_id: i64) {
        self.requests.retain(|request| request.wire_id != wire_id);
    }

    /// Moves a request to another exchange.
    pub(super) fn move_to(&mut self, exchange: ExchangeId, wire_id: i64) {
        self.remove(wire_id);
        self.push(exchange, wire_id);
    }

    /// Returns the request of the last step. The server may still answer earlier ones.
    pub(super) fn last(&self) -> Option<Handshake> {
        self.requests.last().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Removes all requests and returns their exchanges.
    pub(super) fn take_exchanges(&mut self) -> Vec<ExchangeId> {
        self.requests.drain(..).map(|request| request.exchange).collect()
    }
}
