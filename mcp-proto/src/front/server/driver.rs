//! The part of a server that an adapter polls.

use alloc::sync::Arc;
use core::fmt;
use core::task::{Context as TaskContext, Poll};

use super::Connection;
use super::context::Context;
use super::core::{ServerCore, Work};
use super::machine::ServerMachine;
use crate::Instant;
use crate::front::reply::Reply;
use crate::front::router::{Dispatch, Router};
use crate::front::shared::{Core, Shared};
use crate::front::tasks::{Tasks, contain};
use crate::front::{Entropy, Mode, Multi};
use crate::peer::server::{Answer, Closed};
use crate::peer::{InboundId, Lost};
use crate::small::SmallQueue;

/// Drives one connection of a server: what an adapter's future holds beside its transport.
///
/// The adapter does the I/O; everything else is here. In each of its polls it
///
/// 1. hands over what the transport brought, by [`lock`](Self::lock);
/// 2. asks the machine what to send and when its next timeout is, by [`poll`](Self::poll), which also runs the router's
///    handlers;
/// 3. returns `Pending` once `poll` does and the transport has nothing either.
///
/// Handlers are polled here, each only when it was woken: one that computes for long holds the connection up, and
/// belongs on a thread of its own. One that panics is answered for with
/// [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR), and the connection goes on.
///
/// Dropping the driver ends the connection, and its handlers.
#[must_use = "nothing happens unless the driver is polled"]
pub struct ServerDriver<M: ServerMachine, H: Mode = Multi> {
    shared: Arc<Shared<ServerCore, M>>,
    connection: Arc<Connection>,
    entropy: Arc<dyn Entropy>,
    router: Arc<Router<H>>,
    tasks: Tasks<H::Answering>,
}

impl<M: ServerMachine + Send + 'static, H: Mode> ServerDriver<M, H> {
    pub(in crate::front) fn new(
        shared: Arc<Shared<ServerCore, M>>,
        entropy: Arc<dyn Entropy>,
        router: Arc<Router<H>>,
    ) -> Self {
        let tasks = Tasks::new(shared.signal().clone());
        Self { connection: shared.clone(), shared, entropy, router, tasks }
    }
}

impl<M: ServerMachine, H: Mode> ServerDriver<M, H> {
    /// Gives the machine an input, or asks it for an output; what comes of it reaches those who wait for it.
    ///
    /// `act` runs under a lock that the handles take as well: it must not block, nor use them.
    pub fn lock<R>(&mut self, act: impl FnOnce(&mut M, Instant) -> R) -> R {
        self.shared.with(|_, machine, now, _| act(machine, now))
    }

    /// Runs handlers, then gives the machine to `act`, as [`lock`](Self::lock) does. If that returns `Pending`, because
    /// there is nothing to do, the task is woken by the next command or handler.
    pub fn poll<R>(
        &mut self,
        cx: &mut TaskContext<'_>,
        act: impl FnOnce(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        self.run_handlers();
        self.shared.park(cx.waker(), act)
    }

    /// When the machine's `handle_timeout` is due, if nothing else happens first.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.shared.look(|_, machine| machine.poll_timeout())
    }

    /// How the connection ended, once it is over.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.shared.look(|core, _| core.closed.clone())
    }

    fn run_handlers(&mut self) {
        let work = self.shared.with(|core, _, _, _| core.take_work());
        let mut replies: SmallQueue<(InboundId, Reply)> = SmallQueue::default();
        for item in work {
            match item {
                Work::Stop(id) => self.tasks.stop(id),
                Work::Start { id, method, params, context } => {
                    let context = Context::new(self.connection.clone(), id, context);
                    match contain(|| self.router.dispatch(&method, params, context)) {
                        Ok(Dispatch::Later(answering)) => self.tasks.start(id, answering),
                        Ok(Dispatch::Now(reply)) => replies.push_back((id, reply)),
                        Err(panicked) => replies.push_back((id, panicked.into())),
                    }
                }
            }
        }
        self.tasks.run(|id, output| replies.push_back((id, output.unwrap_or_else(Reply::from))));
        if replies.is_empty() {
            return;
        }
        self.shared.with(|core, machine, now, wakers| {
            for (id, reply) in replies.iter() {
                let answer = match reply {
                    Reply::Result(result) => Answer::Result(&**result),
                    Reply::InputRequired(needed) => Answer::InputRequired(needed),
                    Reply::Error(error) => Answer::Error(error.clone()),
                };
                machine.respond(now, *id, answer);
                core.end(*id, wakers);
            }
        });
    }
}

impl<M: ServerMachine, H: Mode> Drop for ServerDriver<M, H> {
    fn drop(&mut self) {
        self.shared.with(|core, machine, now, wakers| {
            machine.abort(now, Lost::DriverDropped);
            core.drain(machine, wakers);
            core.abandon(wakers);
        });
        self.tasks.stop_all();
    }
}

impl<M: ServerMachine, H: Mode> fmt::Debug for ServerDriver<M, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDriver").field("router", &self.router).finish_non_exhaustive()
    }
}
