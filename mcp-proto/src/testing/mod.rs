//! Peers joined on a simulated clock and network, for tests of applications and of the peers themselves.
//!
//! # Testing a server
//!
//! `pair` joins a router and a client in one line, by a byte stream or by HTTP (feature `std`):
//!
#![cfg_attr(feature = "std", doc = include_str!("router_pair.md"))]
//!
//! # Testing a transport
//!
//! `check_transport` finds what a transport does not keep, whatever carries its messages (feature `std`).
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
#[cfg(feature = "std")]
mod driven;
#[cfg(feature = "http")]
pub mod http;
#[cfg(all(feature = "std", feature = "trace-file"))]
mod replay;
#[cfg(feature = "std")]
mod router_pair;
#[cfg(feature = "std")]
mod transport_checks;

use alloc::collections::VecDeque;
use core::num::NonZeroUsize;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::{self, ClientConfig, LinkAction};
use crate::peer::server::ServerConfig;
use crate::peer::{Outcome, RequestId};
use crate::prelude::*;
use crate::transport::{StreamClient, StreamServer};

#[cfg(feature = "std")]
pub use clock::{CountingEntropy, SimulatedClock};
#[cfg(all(feature = "std", feature = "trace-file"))]
pub use replay::replay;
#[cfg(feature = "std")]
pub use router_pair::{RouterPair, pair};
#[cfg(feature = "std")]
pub use transport_checks::{
    TransportDuty, TransportFault, check_transport, check_transport_failure, transport_router,
};

/// A client and a server, with the network between them.
///
/// Nothing happens by itself: [`step`](Self::step) moves to the next event, and [`drive`](Self::drive) continues until
/// nothing is in transit. The test plays the applications.
#[derive(Debug)]
pub struct Pair<C = StreamClient, S = StreamServer> {
    /// The client.
    pub client: C,
    /// The server. A new one takes its place when the client opens its link.
    pub server: S,
    /// The network.
    pub network: Network,
    /// The client's events that [`outcome`](Self::outcome) has skipped.
    pub events: Vec<client::Event>,
    now: Instant,
    to_server: Pipe,
    to_client: Pipe,
    open: bool,
    opened: usize,
    /// The lines sent, with times and directions.
    log: Vec<String>,
}

/// A side of a pair: a machine, alone or behind a driver.
pub trait PairSide {
    /// The machine.
    type Machine;
    /// When the machine's timeouts are due.
    fn next_timeout(&self) -> Option<Instant>;
    /// Has the machine handle what happens now.
    fn handle(&mut self, now: Instant, act: impl FnOnce(&mut Self::Machine));
    /// Takes an output of the machine.
    fn poll<T>(&mut self, take: impl FnMut(&mut Self::Machine) -> Option<T>) -> Option<T>;
    /// Runs what a driver has to do beside its machine: handlers and tasks.
    fn run(&mut self) {}
    /// Learns that a closed client has no link.
    fn handle_link_down(&mut self) {}
}

macro_rules! machines {
    ($($machine:ty),*) => { $(
        impl crate::testing::PairSide for $machine {
            type Machine = Self;

            fn next_timeout(&self) -> Option<Instant> {
                self.poll_timeout()
            }

            fn handle(&mut self, _now: Instant, act: impl FnOnce(&mut Self)) {
                act(self);
            }

            fn poll<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<T> {
                take(self)
            }
        }
    )* };
}

machines!(StreamClient, StreamServer);
#[cfg(feature = "http")]
machines!(crate::transport::http::client::HttpClient);

/// The server side of a [`Pair`].
pub trait ServerSide: PairSide<Machine = StreamServer> {
    /// Whether the server has ended.
    fn is_closed(&self) -> bool;
    /// Replaces the server by a new one.
    fn start(&mut self);
    /// Ends the server, whose link is gone.
    fn stop(&mut self, now: Instant);
}

impl ServerSide for StreamServer {
    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn start(&mut self) {
        *self = Self::new(self.peer().config().clone());
    }

    fn stop(&mut self, now: Instant) {
        self.handle_eof(now, "");
    }
}

impl Pair {
    /// Creates two peers on a network that delivers everything after a millisecond.
    pub fn new(client: ClientConfig, server: ServerConfig) -> Self {
        Self::join(StreamClient::new(client), StreamServer::new(server), Network::default())
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
}

impl<C: PairSide<Machine = StreamClient>, S: ServerSide> Pair<C, S> {
    fn join(client: C, server: S, network: Network) -> Self {
        Self {
            client,
            server,
            network,
            events: Vec::new(),
            now: Instant::ORIGIN,
            to_server: Pipe::new('>'),
            to_client: Pipe::new('<'),
            open: false,
            opened: 0,
            log: Vec::new(),
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
            let now = self.now;
            self.clear(false);
            self.client.handle(now, |client| client.handle_eof(now, detail));
            self.server.handle(now, |server| server.handle_eof(now, detail));
        }
    }

    /// Runs what is due now, then moves to the next deadline. Returns whether there is one.
    pub fn step(&mut self) -> bool {
        self.step_until(Instant::from_origin(Duration::MAX))
    }

    fn step_until(&mut self, end: Instant) -> bool {
        self.run_due();
        let Some(next) = self.next().filter(|&next| next <= end) else { return false };
        self.now = self.now.max(next);
        self.run_due();
        true
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
        while self.step_until(end) {}
        self.now = end;
        self.run_due();
    }

    /// Opens or closes the link, without bytes in transit.
    fn clear(&mut self, open: bool) {
        self.open = open;
        self.to_server.clear();
        self.to_client.clear();
    }

    fn server_timeout(&self) -> Option<Instant> {
        self.server.next_timeout().filter(|_| self.open)
    }

    fn next(&self) -> Option<Instant> {
        let timeouts = [self.client.next_timeout(), self.server_timeout()];
        timeouts.into_iter().chain([self.to_server.next(), self.to_client.next()]).flatten().min()
    }

    /// Runs everything that is due now.
    fn run_due(&mut self) {
        let now = self.now;
        while self.handle_timeouts(now) | self.transmit(now) | self.deliver(now) {}
    }

    fn handle_timeouts(&mut self, now: Instant) -> bool {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        let (client_is_due, server_is_due) =
            (is_due(self.client.next_timeout()), is_due(self.server_timeout()));
        if client_is_due {
            self.client.handle(now, |client| client.handle_timeout(now));
        }
        if server_is_due {
            self.server.handle(now, |server| server.handle_timeout(now));
            self.server.run();
        }
        let next = [self.client.next_timeout(), self.server_timeout()];
        assert!(!next.into_iter().any(is_due), "contract 5: {next:?} at {now:?}");
        client_is_due || server_is_due
    }

    fn handle_link_action(&mut self, action: LinkAction) {
        let now = self.now;
        match action {
            LinkAction::Open => {
                self.opened = self.opened.saturating_add(1);
                self.clear(true);
                self.server.start();
                self.client.handle(now, |client| client.handle_open(now));
            }
            LinkAction::CloseWrite => self.server.handle(now, |server| server.handle_eof(now, "")),
            LinkAction::Abort => {
                self.open = false;
                self.server.stop(now);
            }
        }
    }

    fn transmit(&mut self, now: Instant) -> bool {
        let mut moved = false;
        let mut out = Vec::new();
        while let Some(action) = self.client.poll(|client| match client.poll_link() {
            None => client.poll_transmit(&mut out).then_some(None),
            action => Some(action),
        }) {
            moved = true;
            match action {
                Some(action) => self.handle_link_action(action),
                None if self.open => self.to_server.send(now, &mut out, &self.network, &mut self.log),
                None => out.clear(),
            }
        }
        while self.server.poll(|server| server.poll_transmit(&mut out).then_some(())).is_some() {
            moved = true;
            match self.open {
                true => self.to_client.send(now, &mut out, &self.network, &mut self.log),
                false => out.clear(),
            }
        }
        moved
    }

    fn deliver(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(bytes) = self.to_server.receive(now) {
            moved = true;
            self.server.handle(now, |server| server.handle_input(now, bytes));
        }
        while let Some(bytes) = self.to_client.receive(now) {
            moved = true;
            self.client.handle(now, |client| client.handle_input(now, bytes));
        }
        if self.open && self.server.is_closed() && self.to_client.is_empty() {
            moved = true;
            self.open = false;
            self.server.stop(now);
            self.client.handle(now, |client| client.handle_eof(now, "the server has ended"));
        }
        if !self.open {
            self.client.handle_link_down();
        }
        moved
    }

    /// The bytes that the two sides have sent each other so far, to compare runs.
    pub fn transcript(&self) -> (String, String) {
        (self.to_server.transcript(), self.to_client.transcript())
    }
}

// A simulated network with latency that delivers in chunks.

config! {
    /// The behaviour of a simulated network.
    #[derive(Clone, Copy, Debug)]
    pub struct Network {
        /// The time that bytes are in transit.
        pub latency: Duration = Duration::from_millis(1),
        /// The maximum number of bytes that arrive at once; `None` delivers what was sent together in one piece.
        pub chunk: Option<NonZeroUsize> = None,
    }
}

/// One direction of a link.
#[derive(Debug)]
struct Pipe {
    /// The mark of its lines in the log.
    direction: char,
    in_flight: VecDeque<(Instant, Bytes)>,
    sent: Vec<u8>,
}

impl Pipe {
    const fn new(direction: char) -> Self {
        Self { direction, in_flight: VecDeque::new(), sent: Vec::new() }
    }

    /// Sends the bytes, and adds their lines to the log.
    fn send(&mut self, now: Instant, bytes: &mut Vec<u8>, network: &Network, log: &mut Vec<String>) {
        let (at, direction) = (now.since_origin(), self.direction);
        log.extend(String::from_utf8_lossy(bytes).lines().map(|line| format!("{at:?} {direction} {line}")));
        let size = network.chunk.map_or(bytes.len().max(1), NonZeroUsize::get);
        for chunk in bytes.chunks(size) {
            self.in_flight.push_back((now + network.latency, Bytes::copy_from_slice(chunk)));
        }
        self.sent.append(bytes);
    }

    fn receive(&mut self, now: Instant) -> Option<Bytes> {
        self.in_flight.pop_front_if(|(due, _)| *due <= now).map(|(_, bytes)| bytes)
    }

    fn next(&self) -> Option<Instant> {
        self.in_flight.front().map(|(due, _)| *due)
    }

    fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn clear(&mut self) {
        self.in_flight.clear();
    }

    fn transcript(&self) -> String {
        String::from_utf8_lossy(&self.sent).into_owned()
    }
}
