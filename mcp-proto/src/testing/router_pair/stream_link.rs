//! Both drivers on a simulated byte stream.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll};

use super::{Link, PairOptions};
use crate::Instant;
use crate::adapter::{self, ClientDriver, ServerDriver};
use crate::front::{Client, ClientHandlers, Clock as _, HandlerMode, ServedRouter};
use crate::peer::client::LinkAction;
use crate::testing::clock::SimulatedTask;
use crate::testing::network::Pipe;
use crate::testing::{CountingEntropy, Network, SimulatedClock};
use crate::transport::{StreamClient, StreamServer};

pub(super) struct StreamLink<M: HandlerMode, H: HandlerMode> {
    router: ServedRouter<M>,
    clock: Arc<SimulatedClock>,
    entropy: Arc<CountingEntropy>,
    network: Network,
    client: ClientDriver<StreamClient, H>,
    client_task: SimulatedTask,
    link_is_down: bool,
    /// The server, while the link is open. Each time the client opens its link, a new one replaces it.
    server: Option<ServerDriver<StreamServer, M>>,
    server_task: SimulatedTask,
    to_server: Pipe,
    to_client: Pipe,
    log: Vec<String>,
}

impl<M: HandlerMode, H: HandlerMode> StreamLink<M, H> {
    pub(super) fn connect(
        router: ServedRouter<M>,
        handlers: ClientHandlers<H>,
        options: PairOptions,
        clock: Arc<SimulatedClock>,
        entropy: Arc<CountingEntropy>,
    ) -> (Client, Self) {
        let machine = StreamClient::new(options.client);
        let (client, driver) = adapter::client(machine, clock.clone(), handlers);
        let link = Self {
            router,
            clock,
            entropy,
            network: options.network,
            client: driver,
            client_task: SimulatedTask::new(),
            link_is_down: false,
            server: None,
            server_task: SimulatedTask::new(),
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            log: Vec::new(),
        };
        (client, link)
    }

    fn next(&self) -> Option<Instant> {
        [
            self.client.next_timeout(),
            self.server.as_ref().and_then(ServerDriver::next_timeout),
            self.to_server.next(),
            self.to_client.next(),
            self.clock.next_wake(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Handles the timeouts that are due.
    fn handle_timeouts(&mut self, now: Instant) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.client.next_timeout()) {
            self.client.lock(|machine, now| machine.handle_timeout(now));
            self.client_task.wake();
        }
        if let Some(server) = &mut self.server
            && is_due(server.next_timeout())
        {
            server.lock(|machine, now| machine.handle_timeout(now));
            self.server_task.wake();
        }
    }

    /// Polls the client's driver while it is woken. Returns whether it was.
    fn poll_client(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while self.client_task.take_woken() {
            moved = true;
            let mut out = Vec::new();
            let mut cx = Context::from_waker(self.client_task.waker());
            let polled = self.client.poll(&mut cx, |machine, _| {
                if let Some(action) = machine.poll_link() {
                    return Poll::Ready(Some(action));
                }
                if machine.poll_transmit(&mut out) { Poll::Ready(None) } else { Poll::Pending }
            });
            if let Poll::Ready(action) = polled {
                self.client_task.wake();
                if let Some(action) = action {
                    self.handle_link_action(action);
                } else if self.server.is_some() {
                    note(&mut self.log, now, '>', &out);
                    self.to_server.send(now, &out, &self.network);
                }
            }
        }
        moved
    }

    /// Polls the server's driver while it is woken. Returns whether it was.
    fn poll_server(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(server) = &mut self.server
            && self.server_task.take_woken()
        {
            moved = true;
            let mut out = Vec::new();
            let mut cx = Context::from_waker(self.server_task.waker());
            let polled = server.poll(&mut cx, |machine, _| {
                if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending }
            });
            if polled.is_ready() {
                self.server_task.wake();
                note(&mut self.log, now, '<', &out);
                self.to_client.send(now, &out, &self.network);
            }
        }
        moved
    }

    fn handle_link_action(&mut self, action: LinkAction) {
        match action {
            LinkAction::Open => {
                self.to_server.clear();
                self.to_client.clear();
                let machine = StreamServer::new(self.router.router().config());
                let (_, server) =
                    adapter::server(machine, self.clock.clone(), self.entropy.clone(), self.router.clone());
                self.server = Some(server);
                self.server_task.wake();
                self.client.lock(|machine, now| machine.handle_open(now));
            }
            LinkAction::CloseWrite => {
                if let Some(server) = &mut self.server {
                    server.lock(|machine, now| machine.handle_eof(now, ""));
                    self.server_task.wake();
                }
            }
            LinkAction::Abort => self.server = None,
        }
    }

    /// Delivers what has arrived. Returns whether there was anything.
    fn deliver(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(server) = &mut self.server
            && let Some(bytes) = self.to_server.receive(now)
        {
            moved = true;
            server.lock(|machine, now| machine.handle_input(now, bytes));
            self.server_task.wake();
        }
        while let Some(bytes) = self.to_client.receive(now) {
            moved = true;
            self.client.lock(|machine, now| machine.handle_input(now, bytes));
            self.client_task.wake();
        }
        if self.server.as_ref().is_some_and(|server| server.closed().is_some()) && self.to_client.is_empty() {
            moved = true;
            self.server = None;
            self.client.lock(|machine, now| machine.handle_eof(now, "the server has ended"));
            self.client_task.wake();
        }
        if self.server.is_none() {
            self.to_server.clear();
            if !self.link_is_down && self.client.closed().is_some() {
                self.link_is_down = true;
                self.client.handle_link_down();
            }
        }
        moved
    }
}

impl<M: HandlerMode, H: HandlerMode> Link for StreamLink<M, H> {
    fn run_due(&mut self) {
        let now = self.clock.now();
        self.handle_timeouts(now);
        while self.poll_client(now) | self.poll_server(now) | self.deliver(now) {}
    }

    fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.clock.set(next.max(self.clock.now()));
        self.run_due();
        true
    }

    fn transcript(&self) -> &[String] {
        &self.log
    }
}

/// Adds a line for each message: its time, its direction and its text.
fn note(log: &mut Vec<String>, now: Instant, direction: char, bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        log.push(format!("{:?} {direction} {line}", now.since_origin()));
    }
}
