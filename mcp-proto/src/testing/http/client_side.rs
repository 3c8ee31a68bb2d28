//! The client side of a simulated HTTP network.

use core::fmt;

use bytes::Bytes;

use crate::Instant;
use crate::transport::http::client::{Action, HttpClient};
use crate::transport::http::{ExchangeEnd, ExchangeId, Fields};

/// The client side of an [`HttpPair`](super::HttpPair): an [`HttpClient`], alone or behind a driver.
pub trait HttpClientSide: fmt::Debug {
    /// The next action for the network.
    fn poll_action(&mut self) -> Option<Action>;

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Handles the timeouts that are due.
    fn handle_timeout(&mut self, now: Instant);

    /// Handles the head of an answer.
    fn handle_head(&mut self, now: Instant, exchange: ExchangeId, status: u16, fields: &dyn Fields);

    /// Handles a part of an answer's body.
    fn handle_body(&mut self, now: Instant, exchange: ExchangeId, part: Bytes);

    /// Handles the end of an exchange.
    fn handle_end(&mut self, now: Instant, exchange: ExchangeId, end: ExchangeEnd);

    /// Ends an exchange that waits for authorization.
    fn refuse(&mut self, now: Instant, exchange: ExchangeId, detail: &str);
}

impl HttpClientSide for HttpClient {
    fn poll_action(&mut self) -> Option<Action> {
        Self::poll_action(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn handle_head(&mut self, now: Instant, exchange: ExchangeId, status: u16, fields: &dyn Fields) {
        Self::handle_head(self, now, exchange, status, fields);
    }

    fn handle_body(&mut self, now: Instant, exchange: ExchangeId, part: Bytes) {
        Self::handle_body(self, now, exchange, part);
    }

    fn handle_end(&mut self, now: Instant, exchange: ExchangeId, end: ExchangeEnd) {
        Self::handle_end(self, now, exchange, end);
    }

    fn refuse(&mut self, now: Instant, exchange: ExchangeId, detail: &str) {
        Self::refuse(self, now, exchange, detail);
    }
}
