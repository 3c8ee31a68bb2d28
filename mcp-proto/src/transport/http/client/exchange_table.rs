//! The table of open exchanges.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::Instant;
use crate::transport::http::ExchangeId;

use super::address::Address;
use super::exchange::{ClientExchange, ExchangeKind, ResponseState};
use super::response::ExchangeOutcome;

/// The open exchanges, and counts of them by kind.
#[derive(Debug)]
pub(super) struct ExchangeTable {
    exchanges: BTreeMap<ExchangeId, ClientExchange>,
    next_id: u64,
    /// The number of open exchanges for notifications and replies.
    posts: usize,
    /// The number of parked exchanges.
    parked: usize,
    /// Whether a parked exchange has left the table since [`record_unparked`](Self::record_unparked).
    has_unparked: bool,
    /// When a parked exchange last left the table.
    last_unparked: Option<Instant>,
}

impl Default for ExchangeTable {
    fn default() -> Self {
        Self {
            exchanges: BTreeMap::new(),
            next_id: 1,
            posts: 0,
            parked: 0,
            has_unparked: false,
            last_unparked: None,
        }
    }
}

impl ExchangeTable {
    /// Adds an exchange under a new id.
    pub(super) fn open(&mut self, kind: ExchangeKind, url: Address, generation: u32) -> ExchangeId {
        let id = ExchangeId::new(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        self.insert(id, ClientExchange::new(kind, url, generation));
        id
    }

    fn insert(&mut self, id: ExchangeId, exchange: ClientExchange) {
        if matches!(exchange.kind, ExchangeKind::Post(_)) {
            self.posts = self.posts.saturating_add(1);
        }
        self.exchanges.insert(id, exchange);
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<ClientExchange> {
        let exchange = self.exchanges.remove(&id)?;
        if matches!(exchange.kind, ExchangeKind::Post(_)) {
            self.posts = self.posts.saturating_sub(1);
        }
        if exchange.is_parked() {
            self.parked = self.parked.saturating_sub(1);
            self.has_unparked = true;
        }
        Some(exchange)
    }

    pub(super) fn get(&self, id: ExchangeId) -> Option<&ClientExchange> {
        self.exchanges.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut ClientExchange> {
        self.exchanges.get_mut(&id)
    }

    pub(super) fn contains(&self, id: ExchangeId) -> bool {
        self.exchanges.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.exchanges.len()
    }

    pub(super) fn ids(&self) -> Vec<ExchangeId> {
        self.exchanges.keys().copied().collect()
    }

    /// Returns the number of open exchanges for notifications and replies.
    pub(super) fn posts(&self) -> usize {
        self.posts
    }

    // --- Parked exchanges ---

    /// Parks an exchange that was refused, until the client is authorized.
    pub(super) fn park(&mut self, id: ExchangeId, mut exchange: ClientExchange, refusal: ExchangeOutcome) {
        self.parked = self.parked.saturating_add(1);
        exchange.response = ResponseState::Parked(Box::new(refusal));
        self.insert(id, exchange);
    }

    pub(super) fn is_parked(&self, id: ExchangeId) -> bool {
        self.exchanges.get(&id).is_some_and(ClientExchange::is_parked)
    }

    /// Records when a parked exchange has left the table.
    pub(super) fn record_unparked(&mut self, now: Instant) {
        if core::mem::take(&mut self.has_unparked) {
            self.last_unparked = Some(now);
        }
    }

    /// Returns when a parked exchange last left the table.
    ///
    /// The waiting time of requests queued behind it counts from then on.
    pub(super) fn last_unparked(&self) -> Option<Instant> {
        self.last_unparked
    }

    pub(super) fn has_parked(&self) -> bool {
        self.parked > 0
    }
}
