//! Peers joined on a simulated clock and network, for tests of applications and of the peers themselves.
//!
//! # Testing a server
//!
//! `pair` joins a router and a client in one line, by a byte stream or by HTTP (feature `std`):
//!
#![cfg_attr(feature = "std", doc = include_str!("router_pair.md"))]
//!
//! # Testing a machine
//!
//! [`Pair`] joins two machines by a byte stream, `http::HttpPair` joins them by HTTP. `SimulatedClock` and
//! `CountingEntropy` make a driver or an HTTP server of the front reproducible.
//!
//! ```
//! use mcp_proto::peer::RequestOptions;
//! use mcp_proto::peer::client::ClientConfig;
//! use mcp_proto::peer::server::{Answer, Event, ServerConfig};
//! use mcp_proto::schema::{Implementation, List, ListTools, ListToolsResult, PaginatedParams, ServerCapability};
//! use mcp_proto::testing::Pair;
//!
//! let mut config = ServerConfig::new(Implementation::new("server", "1"));
//! config.capabilities = config.capabilities.with(ServerCapability::Tools);
//! let mut pair = Pair::new(ClientConfig::new(Implementation::new("client", "1")), config);
//!
//! let options = RequestOptions::default();
//! let request = pair.client.at(pair.now()).request::<ListTools>(&PaginatedParams::default(), options)?;
//! pair.drive();
//! while let Some(event) = pair.server.poll_event() {
//!     if let Event::Request { id, .. } = event {
//!         pair.server.at(pair.now()).respond(id, Answer::Result(&ListToolsResult::new(List::new())));
//!     }
//! }
//! pair.drive();
//! assert!(pair.outcome(request).unwrap().decode::<ListTools>().is_ok());
//! # Ok::<(), mcp_proto::peer::RequestError>(())
//! ```
#![allow(clippy::expect_used, clippy::panic, reason = "a broken contract is reported by a panic")]

#[cfg(feature = "std")]
mod clock;
#[cfg(feature = "http")]
pub mod http;
mod network;
#[cfg(feature = "std")]
mod router_pair;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::client::{self, ClientConfig, LinkAction};
use crate::peer::server::ServerConfig;
use crate::peer::{Outcome, RequestId};
use crate::transport::{StreamClient, StreamServer};

#[cfg(feature = "std")]
pub use clock::{CountingEntropy, SimulatedClock};
pub use network::Network;
use network::Pipe;
#[cfg(feature = "std")]
pub use router_pair::{RouterPair, pair};

/// A client and a server, with the network between them.
///
/// Nothing happens by itself: [`step`](Self::step) moves to the next event, and [`drive`](Self::drive) continues until
/// nothing is in transit. The test plays the applications.
#[derive(Debug)]
pub struct Pair {
    /// The client.
    pub client: StreamClient,
    /// The server. Each time the client opens its link, a new one replaces it.
    pub server: StreamServer,
    /// The behaviour of the network. It may be changed at any time.
    pub network: Network,
    /// The client's events that [`outcome`](Self::outcome) has skipped.
    pub events: Vec<client::Event>,
    server_config: ServerConfig,
    now: Instant,
    to_server: Pipe,
    to_client: Pipe,
    open: bool,
    /// The number of times that the link was opened.
    opened: usize,
}

impl Pair {
    /// Creates two peers on a network that delivers everything after a millisecond.
    pub fn new(client: ClientConfig, server: ServerConfig) -> Self {
        Self {
            client: StreamClient::new(client),
            server: StreamServer::new(server.clone()),
            network: Network::default(),
            events: Vec::new(),
            server_config: server,
            now: Instant::ORIGIN,
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            open: false,
            opened: 0,
        }
    }

    /// The reading of the simulated clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The number of times that the client has opened its link.
    pub fn opened_count(&self) -> usize {
        self.opened
    }

    /// Cuts the link: both sides see its end, and bytes in transit are lost.
    pub fn cut(&mut self, detail: &str) {
        if self.open {
            self.open = false;
            self.to_server.clear();
            self.to_client.clear();
            self.client.handle_eof(self.now, detail);
            self.server.handle_eof(self.now, detail);
        }
    }

    /// Runs what is due now, then moves to the next deadline. Returns whether there is one.
    pub fn step(&mut self) -> bool {
        self.run_due();
        match self.next() {
            Some(next) => {
                self.now = self.now.max(next);
                self.run_due();
                true
            }
            None => false,
        }
    }

    /// Runs until nothing is in transit on the network; later timeouts are not awaited.
    pub fn drive(&mut self) {
        self.run_due();
        while let Some(next) = [self.to_server.next(), self.to_client.next()].into_iter().flatten().min() {
            self.now = self.now.max(next);
            self.run_due();
        }
    }

    /// Advances the time, one deadline after the other.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_due();
        while let Some(next) = self.next().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.run_due();
        }
        self.now = end;
        self.run_due();
    }

    /// The outcome of a request of the client, if it has ended. Other events are stored in [`events`](Self::events).
    ///
    /// # Panics
    /// If the request has ended twice.
    pub fn outcome(&mut self, request: RequestId) -> Option<Outcome> {
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
        let mut found = None;
        let mut rest = Vec::new();
        for event in self.events.drain(..) {
            match event {
                client::Event::Outcome { request: ended, outcome } if ended == request => {
                    assert!(found.is_none(), "{request:?} has ended twice");
                    found = Some(outcome);
                }
                other => rest.push(other),
            }
        }
        self.events = rest;
        found
    }

    fn next(&self) -> Option<Instant> {
        [
            self.client.poll_timeout(),
            self.server.poll_timeout().filter(|_| self.open),
            self.to_server.next(),
            self.to_client.next(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Runs everything that is due now.
    fn run_due(&mut self) {
        let now = self.now;
        loop {
            for (due, timeout) in [
                (self.client.poll_timeout(), true),
                (self.server.poll_timeout().filter(|_| self.open), false),
            ] {
                if due.is_none_or(|due| due > now) {
                    continue;
                }
                let next = if timeout {
                    self.client.handle_timeout(now);
                    self.client.poll_timeout()
                } else {
                    self.server.handle_timeout(now);
                    self.server.poll_timeout()
                };
                assert!(next.is_none_or(|next| next > now), "contract 5: {next:?} at {now:?}");
            }
            while let Some(action) = self.client.poll_link() {
                self.handle_link_action(action);
            }
            self.transmit();
            let mut moved = false;
            while let Some(bytes) = self.to_server.receive(now) {
                self.server.handle_input(now, bytes);
                moved = true;
            }
            while let Some(bytes) = self.to_client.receive(now) {
                self.client.handle_input(now, bytes);
                moved = true;
            }
            if self.open && self.server.is_closed() && self.to_client.is_empty() {
                self.open = false;
                self.client.handle_eof(now, "the server has ended");
                moved = true;
            }
            // Bytes taken by one side may unblock the other at once.
            let due = [self.client.poll_timeout(), self.server.poll_timeout().filter(|_| self.open)];
            if !moved && due.into_iter().flatten().all(|due| due > now) {
                return;
            }
        }
    }

    fn handle_link_action(&mut self, action: LinkAction) {
        match action {
            LinkAction::Open => {
                self.opened = self.opened.saturating_add(1);
                self.to_server.clear();
                self.to_client.clear();
                self.server = StreamServer::new(self.server_config.clone());
                self.open = true;
                self.client.handle_open(self.now);
            }
            LinkAction::CloseWrite => self.server.handle_eof(self.now, ""),
            LinkAction::Abort => {
                self.open = false;
                self.server.handle_eof(self.now, "");
            }
        }
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        if self.client.poll_transmit(&mut out) && self.open {
            self.to_server.send(self.now, &out, &self.network);
        }
        out.clear();
        if self.server.poll_transmit(&mut out) && self.open {
            self.to_client.send(self.now, &out, &self.network);
        }
    }

    /// The bytes that the two sides have sent each other so far, to compare runs.
    pub fn transcript(&self) -> (String, String) {
        (self.to_server.transcript(), self.to_client.transcript())
    }
}
