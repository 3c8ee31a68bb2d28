//! What outlives a connection: legacy sessions, and their handlers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll, Waker};

use super::service::Service;
use super::session::{SessionCell, SessionKey, SessionMachine};
use crate::Instant;
use crate::front::router::Router;
use crate::front::server::ServerDriver;
use crate::front::signal::{TaskWaker, Wakers};
use crate::front::{Mode, Multi};

/// Runs legacy sessions: their handlers, which outlive the connections that brought their requests, and their time.
///
/// Requests of 2026-07-28 are answered without it: each runs in its own [`HttpExchange`](super::HttpExchange). Sessions
/// can be opened only while it exists, and nothing happens in them unless it is polled; dropping it ends them all.
#[must_use = "nothing happens in legacy sessions unless the driver is polled"]
pub struct HttpServerDriver<H: Mode = Multi> {
    service: Arc<Service>,
    router: Arc<Router<H>>,
    sessions: BTreeMap<SessionKey, Running<H>>,
    /// When each of them is to be polled at the latest.
    timers: BTreeSet<(Instant, SessionKey)>,
}

struct Running<H: Mode> {
    cell: Arc<SessionCell>,
    driver: ServerDriver<SessionMachine, H>,
    state: Arc<TaskWaker<SessionKey>>,
    waker: Waker,
    deadline: Option<Instant>,
}

impl<H: Mode> HttpServerDriver<H> {
    pub(super) fn new(service: Arc<Service>, router: Arc<Router<H>>) -> Self {
        Self { service, router, sessions: BTreeMap::new(), timers: BTreeSet::new() }
    }

    /// Does what there is to do, and leaves the task's waker for when there is more. Ready once the server was closed
    /// and its sessions have ended.
    ///
    /// It is to be polled again at [`next_timeout`](Self::next_timeout) as well.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ready = self.service.roster().begin();
        for cell in self.service.take_arrivals() {
            self.start(cell);
        }
        for key in ready {
            self.run(key);
        }
        let now = self.service.now();
        while let Some(&(_, key)) = self.timers.first().filter(|(deadline, _)| *deadline <= now) {
            self.run(key);
        }
        if self.sessions.is_empty() && self.service.is_closing() && self.service.refuse_sessions() {
            return Poll::Ready(());
        }
        let mut wakers = Wakers::default();
        let rest = self.service.roster().park(cx.waker().clone(), &mut wakers);
        wakers.release();
        if !rest {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// When [`poll`](Self::poll) is due, if its waker is not called before.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// Takes in a session that was just opened.
    fn start(&mut self, cell: Arc<SessionCell>) {
        let key = cell.key();
        let state = TaskWaker::new(key, self.service.roster().clone());
        let driver = ServerDriver::new(cell.shared().clone(), self.router.clone());
        let waker = Waker::from(state.clone());
        self.sessions.insert(key, Running { cell, driver, state, waker, deadline: None });
        self.run(key);
    }

    /// Polls a session.
    fn run(&mut self, key: SessionKey) {
        let Some(running) = self.sessions.get_mut(&key) else { return };
        running.state.arm();
        let mut cx = Context::from_waker(&running.waker);
        let closing = self.service.is_closing();
        let polled = running.driver.poll(&mut cx, |machine, now| machine.turn(now, closing));
        if let Some(deadline) = running.deadline.take() {
            self.timers.remove(&(deadline, key));
        }
        match polled {
            Poll::Pending => {
                running.deadline = running.driver.next_timeout();
                self.timers.extend(running.deadline.map(|deadline| (deadline, key)));
            }
            Poll::Ready(()) => {
                running.state.retire();
                self.service.forget(&running.cell);
                self.sessions.remove(&key);
            }
        }
    }
}

impl<H: Mode> Drop for HttpServerDriver<H> {
    fn drop(&mut self) {
        self.service.refuse_sessions();
        for cell in self.service.take_arrivals() {
            self.start(cell);
        }
        while let Some((_, running)) = self.sessions.pop_first() {
            running.state.retire();
            self.service.forget(&running.cell);
        }
    }
}

impl<H: Mode> fmt::Debug for HttpServerDriver<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServerDriver").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}
