//! The front's client on a simulated HTTP network.

use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll};

use bytes::Bytes;

use super::HttpClientSide;
use crate::Instant;
use crate::adapter::ClientDriver;
use crate::front::HandlerMode;
use crate::testing::SimulatedClock;
use crate::testing::clock::SimulatedTask;
use crate::transport::http::client::{Action, HttpClient};
use crate::transport::http::{ExchangeEnd, ExchangeId, Fields};

/// The driver of an HTTP client, polled only after it was woken.
pub(in crate::testing) struct DrivenClient<H: HandlerMode> {
    driver: ClientDriver<HttpClient, H>,
    task: SimulatedTask,
    clock: Arc<SimulatedClock>,
    link_is_down: bool,
}

impl<H: HandlerMode> DrivenClient<H> {
    pub(in crate::testing) fn new(driver: ClientDriver<HttpClient, H>, clock: Arc<SimulatedClock>) -> Self {
        Self { driver, task: SimulatedTask::new(), clock, link_is_down: false }
    }

    /// Passes an input to the machine.
    fn handle(&mut self, now: Instant, act: impl FnOnce(&mut HttpClient)) {
        self.clock.set(now);
        self.driver.lock(|machine, _| act(machine));
        self.task.wake();
    }
}

impl<H: HandlerMode> HttpClientSide for DrivenClient<H> {
    fn poll_action(&mut self) -> Option<Action> {
        while self.task.take_woken() {
            let mut cx = Context::from_waker(self.task.waker());
            let polled = self.driver.poll(&mut cx, |machine, _| match machine.poll_action() {
                Some(action) => Poll::Ready(action),
                None => Poll::Pending,
            });
            if let Poll::Ready(action) = polled {
                // There may be more.
                self.task.wake();
                return Some(action);
            }
        }
        if !self.link_is_down && self.driver.closed().is_some() {
            self.link_is_down = true;
            self.driver.handle_link_down();
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.driver.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle(now, |machine| machine.handle_timeout(now));
    }

    fn handle_head(&mut self, now: Instant, exchange: ExchangeId, status: u16, fields: &dyn Fields) {
        self.handle(now, |machine| machine.handle_head(now, exchange, status, fields));
    }

    fn handle_body(&mut self, now: Instant, exchange: ExchangeId, part: Bytes) {
        self.handle(now, |machine| machine.handle_body(now, exchange, part));
    }

    fn handle_end(&mut self, now: Instant, exchange: ExchangeId, end: ExchangeEnd) {
        self.handle(now, |machine| machine.handle_end(now, exchange, end));
    }

    fn refuse(&mut self, now: Instant, exchange: ExchangeId, detail: &str) {
        self.handle(now, |machine| machine.refuse(now, exchange, detail));
    }
}

impl<H: HandlerMode> fmt::Debug for DrivenClient<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrivenClient").field("driver", &self.driver).finish_non_exhaustive()
    }
}
