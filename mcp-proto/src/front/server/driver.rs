//! The part of a server that an adapter polls.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context as TaskContext, Poll};

use super::core::{NewRequest, ServerCore, ServerWork};
use super::suspendable_handler::SuspendableHandler;
use crate::Instant;
use crate::front::handler::connection::HandlerConnection;
use crate::front::handler::context::Context;
use crate::front::handler::inbound_request::InboundRequest;
use crate::front::handler::input_rounds::InputRounds;
use crate::front::handler::reply::Reply;
use crate::front::router::Router;
use crate::front::router::dispatch::Dispatch;
use crate::front::running_handlers::{RunningHandlers, catch_panic};
use crate::front::shared::{Core, Shared};
use crate::front::tasks::{TaskRunner, TaskService};
use crate::front::{Entropy, HandlerMode, SendHandlers};
use crate::inline_map::InlineMap;
use crate::peer::server::{Answer, CloseReason, RequestContext, ServerTransport};
use crate::peer::{InboundId, LostReason};
use crate::rpc::{Raw, Text};
#[cfg(feature = "seal")]
use crate::schema::Era;

/// Drives one connection of a server: what an adapter's future holds beside its transport.
///
/// The adapter does the I/O; everything else is here. In each of its polls it
///
/// 1. hands over what the transport brought, by [`lock`](Self::lock), and reads only while the machine wants it
///    ([`Transport::wants_read`](crate::transport::Transport::wants_read));
/// 2. asks the machine what to send and when its next timeout is, by [`poll`](Self::poll), which also runs the router's
///    handlers;
/// 3. returns `Pending` once `poll` does and the transport has nothing either.
///
/// Handlers are polled here, each only when it was woken: one that computes for long holds the connection up, and
/// belongs on a thread of its own. None is polled while the client leaves more than
/// [`Limits::queued_bytes`](crate::Limits::queued_bytes) of answers unread. One that panics is answered for with
/// [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR), and the connection goes on.
///
/// Dropping the driver ends the connection, and its handlers.
#[must_use = "nothing happens unless the driver is polled"]
pub struct ServerDriver<M: ServerTransport, H: HandlerMode = SendHandlers> {
    shared: Arc<Shared<ServerCore, M>>,
    connection: Arc<dyn HandlerConnection>,
    entropy: Arc<dyn Entropy>,
    router: Arc<Router<H>>,
    /// Requests whose handlers have not been started yet, because the client leaves too many answers unread.
    waiting: InlineMap<InboundId, NewRequest>,
    running: RunningHandlers<SuspendableHandler<H::HandlerFuture>>,
    /// Where calls that become tasks go, and who runs them if they run here.
    task_service: Option<Arc<TaskService>>,
    runner: Option<Box<TaskRunner<Router<H>>>>,
}

impl<M: ServerTransport + Send + 'static, H: HandlerMode> ServerDriver<M, H> {
    /// A driver whose calls become tasks at `service`.
    pub(in crate::front) fn new(
        shared: Arc<Shared<ServerCore, M>>,
        entropy: Arc<dyn Entropy>,
        router: Arc<Router<H>>,
        task_service: Option<Arc<TaskService>>,
    ) -> Self {
        Self {
            connection: shared.clone(),
            running: RunningHandlers::new(shared.signal().clone()),
            shared,
            entropy,
            router,
            waiting: InlineMap::new(),
            task_service,
            runner: None,
        }
    }

    /// The same driver, which also runs the tasks of its service.
    pub(super) fn with_task_runner(mut self) -> Self {
        let runner =
            |service: &Arc<TaskService>| Box::new(TaskRunner::new(service.clone(), self.router.clone()));
        self.runner = self.task_service.as_ref().map(runner);
        self
    }
}

impl<M: ServerTransport, H: HandlerMode> ServerDriver<M, H> {
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
        if let Some(runner) = &mut self.runner {
            runner.poll(cx);
        }
        self.shared.park(cx.waker(), act)
    }

    /// When the machine's `handle_timeout` is due, if nothing else happens first.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let of_tasks = self.runner.as_ref().and_then(|runner| runner.next_timeout());
        [self.shared.read(|_, machine| machine.poll_timeout()), of_tasks].into_iter().flatten().min()
    }

    /// How the connection ended, once it is over.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.shared.read(|core, _| core.closed.clone())
    }

    /// Begins to answer new requests and polls the handlers that are ready, one at a time: none runs while the client
    /// leaves too many answers unread, so that their results do not pile up.
    fn run_handlers(&mut self) {
        let (work, mut congested) =
            self.shared.with(|core, machine, _, _| (core.take_work(), machine.is_congested()));
        for item in work {
            match item {
                ServerWork::Start(request) => {
                    self.waiting.insert(request.id, request);
                }
                ServerWork::Stop(id) => {
                    if self.waiting.remove(&id).is_none() {
                        self.running.stop(id);
                    }
                }
            }
        }
        while !congested && let Some((_, request)) = self.waiting.pop_first() {
            congested = self.begin(request);
        }
        self.running.take_ready();
        while !congested && let Some((id, output)) = self.running.poll_next(SuspendableHandler::stalled) {
            congested = self.answer(id, output.unwrap_or_else(Reply::from));
        }
    }

    /// Begins to answer a request. Returns whether the client leaves too many answers unread.
    fn begin(&mut self, request: NewRequest) -> bool {
        let NewRequest { id, method, params, context, caller } = request;
        let input_rounds = self.input_rounds(&method, params.as_ref(), &context);
        let request = InboundRequest {
            connection: self.connection.clone(),
            id,
            context,
            caller,
            entropy: self.entropy.clone(),
        };
        let context = Context::new(request, input_rounds);
        let service = self.task_service.as_ref();
        match catch_panic(|| self.router.dispatch(&method, params, context.clone(), service)) {
            Ok(Dispatch::Later(answering)) => self.start(id, answering, context),
            Ok(Dispatch::Now(reply)) => return self.answer(id, reply),
            Err(panicked) => return self.answer(id, panicked.into()),
        }
        false
    }

    /// Answers a request, or goes on with a tool that is done with what it does before there is a task. Returns whether
    /// the client leaves too many answers unread.
    fn answer(&mut self, id: InboundId, reply: Reply) -> bool {
        let reply = match reply {
            Reply::Detached(detachment) => {
                let context = detachment.context.clone();
                match catch_panic(|| self.router.detach(*detachment, self.task_service.as_ref())) {
                    Ok(Dispatch::Later(answering)) => {
                        self.start(id, answering, context);
                        return false;
                    }
                    Ok(Dispatch::Now(reply)) => reply,
                    Err(panicked) => panicked.into(),
                }
            }
            reply => reply,
        };
        self.shared.with(|core, machine, now, wakers| {
            let answer = match &reply {
                Reply::Result(result) => Answer::Result(&**result),
                Reply::InputRequired(needed) => Answer::InputRequired(needed),
                Reply::Error(error) => Answer::Error(error.clone()),
                Reply::Denied(error, denial) => {
                    machine.at(now).deny(id, error.clone(), denial);
                    core.remove_request(id, wakers);
                    return machine.is_congested();
                }
                // It has gone on.
                Reply::Detached(_) => return false,
            };
            machine.at(now).respond(id, answer);
            core.remove_request(id, wakers);
            machine.is_congested()
        })
    }
}

impl<M: ServerTransport, H: HandlerMode> ServerDriver<M, H> {
    fn start(&mut self, id: InboundId, handler: H::HandlerFuture, context: Context) {
        self.running.start(id, SuspendableHandler::new(handler, context));
    }

    /// The input rounds of a request, at the revision that has them.
    #[cfg(feature = "seal")]
    fn input_rounds(
        &self,
        method: &Text,
        params: Option<&Raw>,
        request: &RequestContext,
    ) -> Option<InputRounds> {
        (request.era == Era::Modern).then(|| {
            let (sealing, entropy) = (self.router.sealing().clone(), self.entropy.clone());
            InputRounds::new(method.clone(), params.cloned(), sealing, entropy)
        })
    }

    #[cfg(not(feature = "seal"))]
    fn input_rounds(&self, _: &Text, _: Option<&Raw>, _: &RequestContext) -> Option<InputRounds> {
        None
    }
}

impl<M: ServerTransport, H: HandlerMode> Drop for ServerDriver<M, H> {
    fn drop(&mut self) {
        self.shared.with(|core, machine, now, wakers| {
            machine.at(now).abort(LostReason::DriverDropped);
            core.drain(machine, wakers);
            core.handle_driver_dropped(wakers);
        });
        self.running.stop_all();
    }
}

impl<M: ServerTransport, H: HandlerMode> fmt::Debug for ServerDriver<M, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDriver").field("router", &self.router).finish_non_exhaustive()
    }
}
