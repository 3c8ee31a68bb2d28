//! An HTTP client and a server on a simulated network with faults.
//!
//! It uses no socket and no time but the simulated one; the same seed gives the same run.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig, HttpRequest};
//! use mcp_proto::peer::client::{ClientConfig, State};
//! use mcp_proto::schema::Implementation;
//! use mcp_proto::testing::http::{HttpPair, HttpPeer, HttpOutput};
//! use mcp_proto::{Bytes, Instant};
//!
//! /// A server that knows one answer.
//! struct Server(Vec<(u64, HttpOutput)>);
//!
//! impl HttpPeer for Server {
//!     fn handle_request(&mut self, _now: Instant, exchange: u64, _request: &HttpRequest) {
//!         let body = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
//!         let headers = vec![("content-type".into(), "application/json".into())];
//!         self.0.push((exchange, HttpOutput::End));
//!         self.0.push((exchange, HttpOutput::Body(Bytes::from_static(body.as_bytes()))));
//!         self.0.push((exchange, HttpOutput::Head { status: 200, headers }));
//!     }
//!     fn handle_disconnect(&mut self, _now: Instant, _exchange: u64) {}
//!     fn handle_timeout(&mut self, _now: Instant) {}
//!     fn poll_timeout(&self) -> Option<Instant> {
//!         None
//!     }
//!     fn poll_output(&mut self, _now: Instant) -> Option<(u64, HttpOutput)> {
//!         self.0.pop()
//!     }
//! }
//!
//! let client = ClientConfig::new(Implementation::new("client", "1"));
//! let client = HttpClient::new(HttpClientConfig::new(client, "http://localhost/mcp"), Instant::ORIGIN)?;
//! let mut pair = HttpPair::new(client, Box::new(Server(Vec::new())), 7);
//! pair.advance(Duration::from_secs(1));
//! assert_eq!(pair.client.state(), State::Ready);
//! # Ok::<(), mcp_proto::transport::http::client::UrlError>(())
//! ```

mod conditions;
#[cfg(feature = "std")]
mod front_peer;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::num::NonZeroUsize;
use core::time::Duration;
use core::{fmt, mem};

use bytes::Bytes;

use crate::Instant;
use crate::prelude::*;
use crate::testing::PairSide;
use crate::transport::http::client::{Action, HttpClient, HttpRequest};
use crate::transport::http::{ExchangeEnd, ExchangeId, SentState};

pub use conditions::{ExchangePlan, Fault, NetworkConditions, SimulationRng, TruncationReport};
#[cfg(feature = "std")]
pub use front_peer::FrontPeer;

/// The server side of an [`HttpPair`]. The network numbers the exchanges.
pub trait HttpPeer {
    /// Handles a complete request.
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest);
    /// Handles a client's disconnect: the answer is no longer read.
    fn handle_disconnect(&mut self, now: Instant, exchange: u64);
    /// Handles the timeouts that are due.
    fn handle_timeout(&mut self, now: Instant);
    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The next part of an answer.
    fn poll_output(&mut self, now: Instant) -> Option<(u64, HttpOutput)>;
}

/// A part of an HTTP answer.
#[derive(Clone, Debug)]
pub enum HttpOutput {
    /// The head of the answer.
    Head {
        /// The status.
        status: u16,
        /// The headers.
        headers: Vec<(String, String)>,
    },
    /// A part of the body.
    Body(Bytes),
    /// The end of the answer.
    End,
}

/// An HTTP client and a server, with the network between them.
///
/// The test plays the applications; time passes by [`advance`](Self::advance) and [`step`](Self::step).
pub struct HttpPair<C = HttpClient> {
    /// The client.
    pub client: C,
    /// The conditions of the network. They may be changed at any time.
    pub conditions: NetworkConditions,
    /// The plans of the client's exchanges with these numbers, which override the conditions.
    pub plans: BTreeMap<u64, ExchangePlan>,
    /// The requests that the network has delivered twice.
    pub duplicated: Vec<HttpRequest>,
    /// A log of all traffic with its times, a line each: to compare runs and to read. It costs more than all the rest,
    /// and is filled only if set.
    pub log: Option<Vec<String>>,
    server: Box<dyn HttpPeer>,
    rng: SimulationRng,
    now: Instant,
    exchanges: BTreeMap<ExchangeId, SimulatedExchange>,
    /// The client's exchanges by the server's numbers; answers to other numbers are discarded.
    deliveries: BTreeMap<u64, ExchangeId>,
    in_flight: BTreeMap<(Instant, u64), NetworkEvent>,
    opened_count: u64,
    next_delivery: u64,
    /// Orders events that are due at the same time.
    next_sent: u64,
}

/// An exchange of the client.
struct SimulatedExchange {
    plan: ExchangePlan,
    /// The server's number for it, once the request has arrived.
    delivery: Option<u64>,
    /// Whether the head of the answer is in transit.
    head_sent: bool,
    /// The number of bytes of the body in transit.
    bytes: usize,
    /// When the last of them arrives.
    last_arrival: Instant,
    /// The time of the last activity.
    last_activity: Instant,
    buffered: Vec<HttpOutput>,
}

enum NetworkEvent {
    Request {
        exchange: ExchangeId,
        first: bool,
        request: HttpRequest,
    },
    Answer {
        exchange: ExchangeId,
        part: HttpOutput,
    },
    /// The client learns that its exchange has ended.
    End {
        exchange: ExchangeId,
        end: ExchangeEnd,
    },
    /// An intermediary checks whether the exchange is idle.
    CheckIdle {
        exchange: ExchangeId,
    },
    /// The connection breaks.
    Break {
        exchange: ExchangeId,
    },
    /// The server learns that the client no longer reads.
    Disconnect {
        delivery: u64,
    },
}

impl<C: PairSide<Machine = HttpClient>> HttpPair<C> {
    /// Creates the pair on a network that delivers everything after a millisecond. The network's random choices follow
    /// from the seed.
    pub fn new(client: C, server: Box<dyn HttpPeer>, seed: u64) -> Self {
        Self {
            client,
            conditions: NetworkConditions::RELIABLE,
            plans: BTreeMap::new(),
            duplicated: Vec::new(),
            log: None,
            server,
            rng: SimulationRng::new(seed),
            now: Instant::ORIGIN,
            exchanges: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            opened_count: 0,
            next_delivery: 1,
            next_sent: 0,
        }
    }

    /// The reading of the simulated clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The number of the exchange that the client opened last.
    pub fn opened_count(&self) -> u64 {
        self.opened_count
    }

    /// The number of the client's open exchanges.
    pub fn open_exchange_count(&self) -> usize {
        self.exchanges.len()
    }

    /// Replaces the client by another one. The exchanges of the previous client break.
    pub fn reconnect(&mut self, client: C) {
        self.note(|| "another client".into());
        let exchanges: Vec<ExchangeId> = self.exchanges.keys().copied().collect();
        for exchange in exchanges {
            self.forget(exchange);
        }
        self.in_flight.retain(|_, under_way| matches!(under_way, NetworkEvent::Disconnect { .. }));
        self.client = client;
    }

    /// Replaces the server by another one. The exchanges in progress break.
    pub fn restart(&mut self, server: Box<dyn HttpPeer>, cut: TruncationReport) {
        self.note(|| format!("another server, {cut:?}"));
        self.server = server;
        self.deliveries.clear();
        let mut broken = Vec::new();
        for (&exchange, wire) in self.exchanges.iter_mut().filter(|(_, wire)| wire.delivery.is_some()) {
            wire.plan.truncation = cut;
            broken.push(exchange);
        }
        broken.into_iter().for_each(|exchange| self.break_connection(exchange));
    }

    /// Stops all faults, also for exchanges in progress.
    pub fn stop_faults(&mut self) {
        self.note(|| "calm".into());
        self.conditions = NetworkConditions::RELIABLE;
        let exchanges: Vec<ExchangeId> = self.exchanges.keys().copied().collect();
        for exchange in exchanges {
            let Some(wire) = self.exchanges.get_mut(&exchange) else { continue };
            wire.plan.idle_timeout = None;
            wire.plan.buffered = false;
            if let Some(Fault::Cut { .. }) = wire.plan.fault {
                wire.plan.fault = None;
            }
            for output in mem::take(&mut wire.buffered) {
                self.forward(exchange, output);
            }
        }
    }

    /// Moves all clocks to the later time at once, as after a suspension of the machine.
    pub fn jump_clock(&mut self, duration: Duration) {
        self.note(|| format!("{duration:?} later"));
        self.now = self.now + duration;
        self.run_due();
    }

    /// Runs everything that is due now, then moves to the next deadline up to `end`. Returns whether it has moved.
    pub fn step(&mut self, end: Instant) -> bool {
        self.run_due();
        let Some(next) = self.next().filter(|&next| next <= end) else { return false };
        self.now = self.now.max(next);
        self.run_due();
        true
    }

    /// Advances the time, one deadline after the other.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.step(end) {}
        self.now = end;
        self.run_due();
    }

    /// Adds a line to the log, if there is one.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:?} {}", self.now, line()));
        }
    }

    fn next(&self) -> Option<Instant> {
        let under_way = self.in_flight.first_key_value().map(|(&(due, _), _)| due);
        [self.client.next_timeout(), self.server.poll_timeout(), under_way].into_iter().flatten().min()
    }

    /// Runs everything that is due now.
    pub fn run_due(&mut self) {
        let now = self.now;
        for _ in 0..100_000 {
            if self.client.next_timeout().is_some_and(|due| due <= now) {
                self.client.handle(now, |client| client.handle_timeout(now));
                let next = self.client.next_timeout();
                assert!(next.is_none_or(|next| next > now), "contract 5, client: {next:?} at {now:?}");
            }
            if self.server.poll_timeout().is_some_and(|due| due <= now) {
                self.server.handle_timeout(now);
            }
            let mut moved = false;
            while let Some(action) = self.client.poll(HttpClient::poll_action) {
                moved = true;
                match action {
                    Action::Open(request) => self.open_exchange(request),
                    Action::AuthorizationRequired(challenge) => {
                        let refused = challenge.exchange;
                        self.client
                            .handle(now, |client| client.refuse(now, refused, "the simulation has no user"));
                    }
                    Action::Abort(exchange) => {
                        self.note(|| format!("{exchange:?} aborted"));
                        self.forget(exchange);
                    }
                }
            }
            self.client.handle_link_down();
            while let Some((delivery, output)) = self.server.poll_output(now) {
                moved = true;
                if let Some(&exchange) = self.deliveries.get(&delivery) {
                    self.handle_output(exchange, output);
                }
            }
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now) {
                moved = true;
                let under_way = entry.remove();
                self.arrive(under_way);
            }
            if !moved {
                let next = self.server.poll_timeout();
                assert!(next.is_none_or(|next| next > now), "contract 5, server: {next:?} at {now:?}");
                return;
            }
        }
        panic!("the peers do not come to rest at {now:?}");
    }

    fn send(&mut self, due: Instant, under_way: NetworkEvent) {
        self.next_sent = self.next_sent.saturating_add(1);
        self.in_flight.insert((due, self.next_sent), under_way);
    }

    fn answer(&mut self, due: Instant, exchange: ExchangeId, parts: impl IntoIterator<Item = HttpOutput>) {
        for part in parts {
            self.send(due, NetworkEvent::Answer { exchange, part });
        }
    }

    // --- Requests ---

    fn open_exchange(&mut self, request: HttpRequest) {
        let (now, exchange) = (self.now, request.exchange);
        self.opened_count = exchange.number();
        let plan = match self.plans.remove(&exchange.number()) {
            Some(plan) => plan,
            None => self.conditions.plan(&mut self.rng, &request.url),
        };
        self.note(|| {
            let (verb, body) = (request.verb.as_str(), String::from_utf8_lossy(&request.body));
            format!("{exchange:?} {verb} {} {body} {plan:?}", request.url)
        });
        let mut wire = SimulatedExchange {
            delivery: None,
            head_sent: false,
            bytes: 0,
            last_arrival: now,
            last_activity: now,
            buffered: Vec::new(),
            plan,
        };
        wire.plan.buffered &= !matches!(wire.plan.fault, Some(Fault::Cut { .. }));
        let (due, back) = (now + wire.plan.request, now + wire.plan.request + wire.plan.answer);
        let failed = |sent| Some(ExchangeEnd::Failed { sent, detail: "simulated".to_owned() });
        let (parts, end) = match &wire.plan.fault {
            Some(Fault::Refused) => (Vec::new(), failed(SentState::NotSent)),
            Some(Fault::Lost) => (Vec::new(), failed(SentState::MaybeSent)),
            Some(Fault::Replaced { status, reached_server: false }) => (proxy_response(*status), None),
            Some(Fault::Redirected { status, to }) => {
                let headers = Vec::from([("location".to_owned(), to.clone())]);
                (Vec::from([HttpOutput::Head { status: *status, headers }, HttpOutput::End]), None)
            }
            _ => (Vec::new(), None),
        };
        let again = wire.plan.duplicate_after;
        let unseen = !parts.is_empty() || end.is_some();
        self.exchanges.insert(exchange, wire);
        self.answer(back, exchange, parts);
        if let Some(end) = end {
            self.send(back, NetworkEvent::End { exchange, end });
        }
        if unseen {
            return;
        }
        if let Some(later) = again.filter(|_| !request.body.is_empty()) {
            self.duplicated.push(request.clone());
            self.send(
                due + later,
                NetworkEvent::Request { exchange, first: false, request: request.clone() },
            );
        }
        self.send(due, NetworkEvent::Request { exchange, first: true, request });
    }

    fn deliver(&mut self, exchange: ExchangeId, first: bool, mut request: HttpRequest) {
        let now = self.now;
        let delivery = self.next_delivery;
        self.next_delivery = self.next_delivery.saturating_add(1);
        if first {
            let Some(wire) = self.exchanges.get_mut(&exchange) else { return };
            wire.delivery = Some(delivery);
            wire.last_activity = now;
            let (plan, back) = (wire.plan.clone(), now + wire.plan.answer);
            self.deliveries.insert(delivery, exchange);
            match plan.fault {
                Some(Fault::Headless { after }) => self.send(now + after, NetworkEvent::Break { exchange }),
                Some(Fault::Replaced { status, .. }) => {
                    self.answer(back, exchange, proxy_response(status));
                }
                _ => {}
            }
            if let Some(idle) = plan.idle_timeout {
                self.send(now + idle, NetworkEvent::CheckIdle { exchange });
            }
        }
        request.url = Arc::from(request.url.replace(conditions::DETOUR, ""));
        self.note(|| format!("{exchange:?} delivered as {delivery}"));
        self.server.handle_request(now, delivery, &request);
    }

    // --- Answers ---

    /// Handles output of the server.
    fn handle_output(&mut self, exchange: ExchangeId, output: HttpOutput) {
        let now = self.now;
        let Some(wire) = self.exchanges.get_mut(&exchange) else { return };
        wire.last_activity = now;
        if matches!(wire.plan.fault, Some(Fault::Headless { .. } | Fault::Replaced { .. })) {
            return;
        }
        let whole = matches!(output, HttpOutput::End);
        if wire.plan.buffered {
            wire.buffered.push(output);
            if whole {
                for output in mem::take(&mut wire.buffered) {
                    self.forward(exchange, output);
                }
            }
            return;
        }
        self.forward(exchange, output);
    }

    fn forward(&mut self, exchange: ExchangeId, output: HttpOutput) {
        let Some(wire) = self.exchanges.get_mut(&exchange) else { return };
        let due = wire.last_arrival.max(self.now + wire.plan.answer);
        wire.last_arrival = due;
        match output {
            HttpOutput::Head { .. } => {
                assert!(!mem::replace(&mut wire.head_sent, true), "an answer begins once");
                self.answer(due, exchange, [output]);
            }
            HttpOutput::Body(body) => {
                assert!(wire.head_sent, "the head comes first");
                let before = wire.bytes;
                wire.bytes = before.saturating_add(body.len());
                let most = match wire.plan.fault {
                    Some(Fault::Cut { bytes }) => bytes.saturating_sub(before),
                    _ => usize::MAX,
                };
                let (arriving, cut) = (body.slice(..most.min(body.len())), most < body.len());
                let size = wire.plan.chunk.map_or(arriving.len().max(1), NonZeroUsize::get);
                let chunks = arriving.chunks(size).map(Bytes::copy_from_slice);
                self.answer(due, exchange, chunks.map(HttpOutput::Body));
                if cut {
                    self.break_connection(exchange);
                }
            }
            HttpOutput::End => {
                assert!(wire.head_sent, "the head comes first");
                if let Some(Fault::Cut { .. }) = wire.plan.fault {
                    return self.break_connection(exchange);
                }
                if let Some(delivery) = wire.delivery.take() {
                    self.deliveries.remove(&delivery);
                }
                self.answer(due, exchange, [output]);
            }
        }
    }

    /// Breaks the connection; bytes in transit still arrive.
    fn break_connection(&mut self, exchange: ExchangeId) {
        let now = self.now;
        let Some(wire) = self.exchanges.get_mut(&exchange) else { return };
        let detail = "simulated".to_owned();
        let end = match (wire.head_sent, wire.plan.truncation) {
            (false, _) => ExchangeEnd::Failed { sent: SentState::MaybeSent, detail },
            (true, TruncationReport::Noticed) => ExchangeEnd::Truncated(detail),
            (true, TruncationReport::Hidden) => ExchangeEnd::Complete,
        };
        let due = wire.last_arrival.max(now + wire.plan.answer);
        wire.last_arrival = due;
        if let Some(delivery) = wire.delivery.take() {
            self.deliveries.remove(&delivery);
            self.send(due, NetworkEvent::Disconnect { delivery });
        }
        self.send(due, NetworkEvent::End { exchange, end });
    }

    /// Drops an exchange that the client no longer waits for.
    fn forget(&mut self, exchange: ExchangeId) {
        let Some(wire) = self.exchanges.remove(&exchange) else { return };
        if let Some(delivery) = wire.delivery {
            self.deliveries.remove(&delivery);
            self.send(self.now + wire.plan.request, NetworkEvent::Disconnect { delivery });
        }
    }

    fn arrive(&mut self, under_way: NetworkEvent) {
        let now = self.now;
        match under_way {
            NetworkEvent::Request { exchange, first, request } => self.deliver(exchange, first, request),
            NetworkEvent::Disconnect { delivery } => self.server.handle_disconnect(now, delivery),
            NetworkEvent::Break { exchange } => self.break_connection(exchange),
            NetworkEvent::CheckIdle { exchange } => {
                let Some(wire) = self.exchanges.get(&exchange) else { return };
                let Some((idle, _)) = wire.plan.idle_timeout.zip(wire.delivery) else { return };
                match wire.last_activity + idle {
                    due if due <= now => self.break_connection(exchange),
                    due => self.send(due, NetworkEvent::CheckIdle { exchange }),
                }
            }
            NetworkEvent::End { exchange, end } => self.end_exchange(exchange, end),
            // The client has aborted it.
            NetworkEvent::Answer { exchange, .. } if !self.exchanges.contains_key(&exchange) => {}
            NetworkEvent::Answer { exchange, part: HttpOutput::Head { status, headers } } => {
                self.note(|| format!("{exchange:?} head {status} {headers:?}"));
                let headers = &headers.as_slice();
                self.client.handle(now, |client| client.handle_head(now, exchange, status, headers));
            }
            NetworkEvent::Answer { exchange, part: HttpOutput::Body(piece) } => {
                self.note(|| format!("{exchange:?} body {:?}", String::from_utf8_lossy(&piece)));
                self.client.handle(now, |client| client.handle_body(now, exchange, piece));
            }
            NetworkEvent::Answer { exchange, part: HttpOutput::End } => {
                self.end_exchange(exchange, ExchangeEnd::Complete);
            }
        }
    }

    fn end_exchange(&mut self, exchange: ExchangeId, end: ExchangeEnd) {
        let now = self.now;
        let Some(wire) = self.exchanges.remove(&exchange) else { return };
        self.note(|| format!("{exchange:?} end {end:?}"));
        if let Some(delivery) = wire.delivery {
            self.deliveries.remove(&delivery);
            self.send(now, NetworkEvent::Disconnect { delivery });
        }
        self.client.handle(now, |client| client.handle_end(now, exchange, end));
    }
}

debug_fields! { [C: fmt::Debug] HttpPair<C>(self) { now, client, open = self.exchanges.len() } }

fn proxy_response(status: u16) -> Vec<HttpOutput> {
    let headers = Vec::from([("content-type".to_owned(), "text/html".to_owned())]);
    let body = HttpOutput::Body(Bytes::from_static(b"<html>Bad gateway</html>"));
    Vec::from([HttpOutput::Head { status, headers }, body, HttpOutput::End])
}
