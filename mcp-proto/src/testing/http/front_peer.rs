//! The front's HTTP server on a simulated executor: only woken tasks are polled.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::task::{Context, Poll};

use bytes::Bytes;

use super::{HttpOutput, HttpPeer};
use crate::Instant;
use crate::front::http::{ChangeRelay, HttpExchange, HttpServer, HttpServerDriver, http_server};
use crate::front::{HandlerMode, SendHandlers, ServedRouter};
use crate::peer::Principal;
use crate::prelude::*;
use crate::testing::clock::SimulatedTask;
use crate::testing::{CountingEntropy, SimulatedClock};
use crate::transport::http::client::HttpRequest;
use crate::transport::http::server::{HttpServerConfig, RequestHead};

struct RunningExchange<H: HandlerMode> {
    exchange: HttpExchange<H>,
    task: SimulatedTask,
    has_head: bool,
}

/// The [front's server](crate::front::http) on a simulated network.
pub struct FrontPeer<H: HandlerMode = SendHandlers> {
    /// The application's handle to the server.
    pub server: HttpServer<H>,
    /// The principal of the requests that start from now on. Default: `None`.
    pub principal: Option<Principal>,
    driver: Option<HttpServerDriver<H>>,
    task: SimulatedTask,
    clock: Arc<SimulatedClock>,
    exchanges: BTreeMap<u64, RunningExchange<H>>,
    out: VecDeque<(u64, HttpOutput)>,
}

impl<H: HandlerMode> FrontPeer<H> {
    /// Creates a server that answers with a router, whose handlers may wait on the clock. Its random numbers follow
    /// from the seed.
    pub fn new(
        router: impl Into<ServedRouter<H>>,
        config: HttpServerConfig,
        clock: Arc<SimulatedClock>,
        seed: u64,
    ) -> Self {
        let entropy = Arc::new(CountingEntropy::new(seed));
        let (server, driver) = http_server(router, config, clock.clone(), entropy);
        Self {
            server,
            principal: None,
            driver: Some(driver),
            task: SimulatedTask::new(),
            clock,
            exchanges: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// Relays change notifications between this instance and others
    /// ([`HttpServerDriver::relay_changes`](crate::front::http::HttpServerDriver::relay_changes)).
    #[must_use]
    pub fn relay_changes(mut self, relay: Arc<dyn ChangeRelay>) -> Self {
        self.driver = self.driver.map(|driver| driver.relay_changes(relay));
        self
    }

    /// The number of open exchanges.
    pub fn open(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether the server's driver has finished: it was closed, and every session has ended.
    pub fn is_done(&self) -> bool {
        self.driver.is_none()
    }

    // --- A request, part by part ---

    /// Handles the head of a request.
    pub fn begin(&mut self, now: Instant, exchange: u64, head: &RequestHead<'_>) {
        self.clock.set(now);
        let answering = self.server.exchange(head, self.principal.clone());
        self.exchanges.insert(
            exchange,
            RunningExchange { exchange: answering, task: SimulatedTask::new(), has_head: false },
        );
    }

    /// Handles a part of a request's body.
    pub fn handle_body(&mut self, now: Instant, exchange: u64, part: Bytes) {
        self.clock.set(now);
        if let Some(running) = self.exchanges.get_mut(&exchange)
            && running.exchange.wants_body()
            && !part.is_empty()
        {
            running.exchange.handle_body(part);
        }
    }

    /// Handles the end of a request's body.
    pub fn handle_body_end(&mut self, now: Instant, exchange: u64) {
        self.clock.set(now);
        if let Some(running) = self.exchanges.get_mut(&exchange)
            && running.exchange.wants_body()
        {
            running.exchange.handle_body_end();
        }
    }

    /// Polls woken tasks until there are none.
    fn poll_woken(&mut self) {
        // Bounded: a task that wakes itself for ever would block everything else.
        for _ in 0..100_000 {
            let mut moved = false;
            if let Some(driver) = &mut self.driver
                && self.task.take_woken()
            {
                moved = true;
                if driver.poll(&mut Context::from_waker(self.task.waker())).is_ready() {
                    self.driver = None;
                }
            }
            self.exchanges.retain(|&number, running| {
                let is_woken = running.task.take_woken();
                moved |= is_woken;
                !is_woken || running.poll(number, &mut self.out).is_pending()
            });
            if !moved {
                return;
            }
        }
        panic!("a task wakes itself for ever");
    }
}

impl<H: HandlerMode> RunningExchange<H> {
    /// Takes the available part of the answer; ready at its end.
    fn poll(&mut self, number: u64, out: &mut VecDeque<(u64, HttpOutput)>) -> Poll<()> {
        let mut cx = Context::from_waker(self.task.waker());
        if !self.has_head {
            let Poll::Ready(head) = self.exchange.poll_head(&mut cx) else { return Poll::Pending };
            self.has_head = true;
            let headers = head.headers.iter().map(|(name, value)| ((*name).to_owned(), (**value).to_owned()));
            out.push_back((number, HttpOutput::Head { status: head.status, headers: headers.collect() }));
        }
        loop {
            match self.exchange.poll_body(&mut cx) {
                Poll::Ready(Some(bytes)) => out.push_back((number, HttpOutput::Body(bytes))),
                Poll::Ready(None) => {
                    out.push_back((number, HttpOutput::End));
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<H: HandlerMode> HttpPeer for FrontPeer<H> {
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        self.clock.set(now);
        let behind = request.url.split_once("://").map_or(&*request.url, |(_, behind)| behind);
        let (host, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
        let mut fields: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        fields.push(("host", host));
        let head =
            RequestHead { method: request.verb.as_str(), path, fields: &fields.as_slice(), client: None };
        self.begin(now, exchange, &head);
        // In two parts, as a socket may deliver it.
        let (first, rest) = request.body.split_at(request.body.len() / 2);
        for part in [first, rest] {
            self.handle_body(now, exchange, Bytes::copy_from_slice(part));
        }
        self.handle_body_end(now, exchange);
    }

    fn handle_disconnect(&mut self, now: Instant, exchange: u64) {
        self.clock.set(now);
        self.exchanges.remove(&exchange);
        self.out.retain(|(number, _)| *number != exchange);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.clock.set(now);
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if self.driver.as_ref().is_some_and(|driver| is_due(driver.next_timeout())) {
            self.task.wake();
        }
        for running in self.exchanges.values_mut() {
            if is_due(running.exchange.next_timeout()) {
                running.exchange.handle_timeout();
                running.task.wake();
            }
        }
        self.poll_woken();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let exchanges = self.exchanges.values().filter_map(|running| running.exchange.next_timeout());
        let driver = self.driver.as_ref().and_then(HttpServerDriver::next_timeout);
        exchanges.chain(driver).chain(self.clock.next_wake()).min()
    }

    fn poll_output(&mut self, now: Instant) -> Option<(u64, HttpOutput)> {
        if self.out.is_empty() {
            self.clock.set(now);
            self.poll_woken();
        }
        self.out.pop_front()
    }
}

debug_fields! { [H: HandlerMode] FrontPeer<H>(self) { exchanges = self.exchanges.len() } }
