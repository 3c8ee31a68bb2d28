//! A driver of the front on a simulated executor: it is polled only after it was woken.

use alloc::sync::Arc;
use core::task::Poll;

use super::clock::SimulatedTask;
use super::{CountingEntropy, PairSide, ServerSide, SimulatedClock};
use crate::Instant;
use crate::adapter::{self, ClientDriver, ServerDriver};
use crate::front::{HandlerMode, ServedRouter};
use crate::peer::client::ClientTransport;
use crate::transport::StreamServer;

/// The driver of a client.
pub(super) struct DrivenClient<M: ClientTransport, H: HandlerMode> {
    driver: ClientDriver<M, H>,
    task: SimulatedTask,
    clock: Arc<SimulatedClock>,
    link_is_down: bool,
}

impl<M: ClientTransport, H: HandlerMode> DrivenClient<M, H> {
    pub(super) fn new(driver: ClientDriver<M, H>, clock: Arc<SimulatedClock>) -> Self {
        Self { driver, task: SimulatedTask::new(), clock, link_is_down: false }
    }
}

impl<M: ClientTransport, H: HandlerMode> PairSide for DrivenClient<M, H> {
    type Machine = M;

    fn next_timeout(&self) -> Option<Instant> {
        self.driver.next_timeout().into_iter().chain(self.clock.next_wake()).min()
    }

    fn handle(&mut self, now: Instant, act: impl FnOnce(&mut M)) {
        self.clock.set(now);
        self.driver.lock(|machine, _| act(machine));
        self.task.wake();
    }

    fn poll<T>(&mut self, mut take: impl FnMut(&mut M) -> Option<T>) -> Option<T> {
        self.task.poll(|cx| self.driver.poll(cx, |machine, _| ready(take(machine))))
    }

    fn handle_link_down(&mut self) {
        if !self.link_is_down && self.driver.closed().is_some() {
            self.link_is_down = true;
            self.driver.handle_link_down();
        }
    }
}

fn ready<T>(output: Option<T>) -> Poll<T> {
    output.map_or(Poll::Pending, Poll::Ready)
}

/// The driver of a server, while there is one.
pub(super) struct DrivenServer<H: HandlerMode> {
    router: ServedRouter<H>,
    clock: Arc<SimulatedClock>,
    entropy: Arc<CountingEntropy>,
    driver: Option<ServerDriver<StreamServer, H>>,
    task: SimulatedTask,
}

impl<H: HandlerMode> DrivenServer<H> {
    pub(super) fn new(
        router: ServedRouter<H>,
        clock: Arc<SimulatedClock>,
        entropy: Arc<CountingEntropy>,
    ) -> Self {
        Self { router, clock, entropy, driver: None, task: SimulatedTask::new() }
    }
}

impl<H: HandlerMode> PairSide for DrivenServer<H> {
    type Machine = StreamServer;

    fn next_timeout(&self) -> Option<Instant> {
        self.driver.as_ref()?.next_timeout()
    }

    fn handle(&mut self, now: Instant, act: impl FnOnce(&mut StreamServer)) {
        self.clock.set(now);
        if let Some(driver) = &mut self.driver {
            driver.lock(|machine, _| act(machine));
            self.task.wake();
        }
    }

    fn poll<T>(&mut self, mut take: impl FnMut(&mut StreamServer) -> Option<T>) -> Option<T> {
        let driver = self.driver.as_mut()?;
        self.task.poll(|cx| driver.poll(cx, |machine, _| ready(take(machine))))
    }

    fn run(&mut self) {
        let _: Option<()> = self.poll(|_| None);
        // Their output is taken by the next poll.
        self.task.wake();
    }
}

impl<H: HandlerMode> ServerSide for DrivenServer<H> {
    fn is_closed(&self) -> bool {
        self.driver.as_ref().is_none_or(|driver| driver.closed().is_some())
    }

    fn start(&mut self) {
        let machine = StreamServer::new(self.router.router().config());
        let (clock, entropy) = (self.clock.clone(), self.entropy.clone());
        let (_, driver) = adapter::server(machine, clock, entropy, self.router.clone());
        self.driver = Some(driver);
        self.task.wake();
    }

    fn stop(&mut self, _now: Instant) {
        self.driver = None;
    }
}
