//! The driver of a server's connection, which an adapter polls.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use crate::Instant;
use crate::front::clock::Entropy;
use crate::front::handler::connection::{Connection, InboundRequest, NewRequest, ServerCore, ServerWork};
use crate::front::handler::context::Context;
use crate::front::handler::inbound_request::RequestState;
use crate::front::handler::input_rounds::InputRounds;
use crate::front::handler_error::{HandlerPanic, catch_panic};
use crate::front::layer::{HandlerLink, MessageLayers, Side};
use crate::front::reply::Reply;
use crate::front::router::{ListenerGuard, ServedRouter, ToolTimeout};
use crate::front::running_handlers::RunningHandlers;
use crate::front::shared::{Core, Shared, driver_methods};
use crate::front::tasks::{TaskRunner, TaskService};
use crate::front::trace::RequestSpan;
#[cfg(feature = "http")]
use crate::front::wakers::Signal;
use crate::front::{Attachments, HandlerMode, SendHandlers};
use crate::lazy_box::{Initial, LazyBox};
use crate::ordered_map::OrderedMap;
use crate::peer::server::{Answer, Cancellation, CloseReason, ServerCommands, ServerTransport};
use crate::peer::{InboundId, LostReason};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Pending, code};

/// Drives one connection of a server: an adapter's future holds it beside its transport.
///
/// The adapter does the I/O; the driver does everything else. In each of its polls the adapter
///
/// 1. passes received input to the machine, by [`lock`](Self::lock), and reads only while the machine wants input
///    ([`Transport::wants_read`](crate::transport::Transport::wants_read));
/// 2. polls the machine for output and for its next timeout, by [`poll`](Self::poll), which also runs the router's
///    handlers;
/// 3. returns `Pending` once `poll` does and the transport has no input either.
///
/// The driver polls the handlers, each only after it was woken: a handler that computes for long blocks the connection,
/// and belongs on its own thread. [`ServerEvent::HandlerBlocked`](super::ServerEvent::HandlerBlocked) reports one that
/// takes more than a second; [`Router::spawn_handlers`](crate::front::Router::spawn_handlers) makes each a task of its
/// own. No handler is polled while the client leaves more than
/// [`Limits::queued_bytes`](crate::Limits::queued_bytes) of answers unread. If a handler panics, its tool
/// call is answered with a failed result, another request with [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR), both
/// without the text of the panic, and the connection goes on.
///
/// Dropping the driver ends the connection and drops its handlers.
#[must_use = "no request is answered until the driver is polled: await it, or spawn it on an executor"]
pub struct ServerDriver<M: ServerTransport, H: HandlerMode = SendHandlers> {
    shared: Arc<Shared<ServerCore, M>>,
    connection: Arc<Connection>,
    entropy: Arc<dyn Entropy>,
    router: ServedRouter<H>,
    held: LazyBox<HeldHandlers>,
    running: RunningHandlers<SuspendableHandler<H::HandlerFuture>>,
    handles_notifications: bool,
    /// The service for calls that become tasks, and the runner if this driver runs them.
    task_service: Option<Arc<TaskService>>,
    runner: Option<Box<TaskRunner<H>>>,
    /// The layers through which messages pass, if any of them reads messages.
    message_layers: Option<Box<MessageLayers<H>>>,
    /// Ends the machine when the driver is dropped; `None` if another driver may follow.
    end: Option<fn(&mut M, Instant)>,
    /// The registration with a live router, boxed: an exchange over HTTP has none.
    _listening: Option<Box<ListenerGuard>>,
}

impl<M: ServerTransport + Send + 'static, H: HandlerMode> ServerDriver<M, H> {
    /// Creates a driver whose calls become tasks of `service`.
    pub(in crate::front) fn new(
        shared: Arc<Shared<ServerCore, M>>,
        entropy: Arc<dyn Entropy>,
        router: ServedRouter<H>,
        task_service: Option<Arc<TaskService>>,
    ) -> Self {
        let notifications = router.router().notification_queue();
        let handles_notifications = notifications.is_some();
        if handles_notifications {
            // Those of a retired driver may be waiting.
            shared.update(|core, _, _| {
                core.common.notifications = core.common.notifications.take().or(notifications)
            });
        }
        Self {
            handles_notifications,
            connection: shared.clone(),
            running: RunningHandlers::new(shared.signal().clone()),
            shared,
            entropy,
            router,
            held: LazyBox::new(),
            task_service,
            runner: None,
            message_layers: None,
            end: Some(|machine, now| ServerCommands::new(machine, now).abort(LostReason::DriverDropped)),
            _listening: None,
        }
    }

    /// Makes the drop of the driver end the machine by `end`. By default the driver is reported as dropped.
    #[cfg(feature = "http")]
    pub(in crate::front) fn set_end(&mut self, end: fn(&mut M, Instant)) {
        self.end = Some(end);
    }

    /// Lets the connection go on without this driver, if no request is active and no handler has work: another driver
    /// can follow. Returns whether this one can be dropped.
    #[cfg(feature = "http")]
    pub(in crate::front) fn retire(&mut self) -> bool {
        let is_idle = self.shared.read(|core, _| core.is_idle());
        if is_idle {
            self.end = None;
        }
        is_idle
    }

    /// The slot of the waker of the task that polls the driver.
    #[cfg(feature = "http")]
    pub(in crate::front) fn signal(&self) -> &Arc<Signal> {
        self.shared.signal()
    }

    /// Makes all messages of the machine pass through the layers of the router.
    pub(in crate::front) fn with_message_layers(mut self) -> Self {
        self.message_layers = MessageLayers::hold(self.router.router().layers(), Side::Server, &*self.shared);
        self
    }

    /// Makes the driver run the tasks of its service.
    pub(super) fn with_task_runner(mut self) -> Self {
        let runner =
            |service: &Arc<TaskService>| Box::new(TaskRunner::new(service.clone(), self.router.clone()));
        self.runner = self.task_service.as_ref().map(runner);
        self
    }

    /// Makes the driver keep its connection's registration with a live router.
    pub(super) fn with_listener(mut self, listening: Option<ListenerGuard>) -> Self {
        self._listening = listening.map(Box::new);
        self
    }
}

impl<M: ServerTransport, H: HandlerMode> ServerDriver<M, H> {
    /// Attaches values to all later requests of the connection, in place of those before: the address of the client,
    /// for example. Handlers read them with [`Context::attachments`].
    pub fn attach(&mut self, attachments: Attachments) {
        let replaced = self
            .shared
            .with_events(|core, _, _| core::mem::replace(&mut core.caller.attachments, attachments));
        // Outside the lock: its values have destructors of their own.
        drop(replaced);
    }

    /// Takes output of the machine that causes no events.
    #[cfg(feature = "http")]
    pub(in crate::front) fn take_output<R>(&mut self, take: impl FnOnce(&mut M) -> R) -> R {
        self.shared.update(|_, machine, _| take(machine))
    }

    /// Runs handlers, then runs `act` on the machine like [`lock`](Self::lock). If `act` returns `Pending`, because
    /// there is no work left, the next command or handler wakes the task.
    pub fn poll<R>(
        &mut self,
        cx: &mut TaskContext<'_>,
        act: impl FnOnce(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        let mut left_at = self.run_handlers();
        if let Some(runner) = &mut self.runner {
            runner.poll(cx);
            left_at = None;
        }
        let now = left_at.unwrap_or_else(|| self.shared.now());
        MessageLayers::park(&mut self.message_layers, &*self.shared, now, cx.waker(), act)
    }

    driver_methods!();

    /// The time at which the machine's `handle_timeout` is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let of_tasks = self.runner.as_ref().and_then(|runner| runner.next_timeout());
        let of_handlers = self.held.limits.next_deadline();
        let of_machine = self.shared.read(|_, machine| machine.poll_timeout());
        [of_machine, of_handlers, of_tasks].into_iter().flatten().min()
    }

    /// Starts handlers of new requests and polls the ready handlers, one at a time: none runs while the client leaves
    /// too many answers unread, so that results do not accumulate. Returns the time when the last of them was left, if any
    /// ran.
    fn run_handlers(&mut self) -> Option<Instant> {
        let (mut work, mut congested) =
            self.shared.update(|core, machine, _| (core.common.take_work(), machine.is_congested()));
        // The clock is read after the code of each handler, which is when the next one begins.
        let mut left_at = None;
        // Mostly there are only new requests, which need not wait for the end of the list: none is cancelled there.
        self.running.take_ready();
        let is_plain = self.held.waiting.is_empty()
            && !self.running.has_ready()
            && work.iter().all(ServerWork::is_start);
        while let Some(item) = work.pop_front() {
            match item {
                ServerWork::Start(request) if is_plain && !congested => {
                    congested = self.begin(request, &mut left_at);
                }
                ServerWork::Start(request) => {
                    self.held.waiting.insert(request.id, request);
                }
                //= S2.3 "Work on a cancelled request stops (SHOULD)"
                ServerWork::Stop(id) => {
                    let held = self.held.used_mut();
                    if held.and_then(|held| held.waiting.remove(&id)).is_none() {
                        self.running.stop(id);
                        self.remove_limit(id);
                    }
                }
                ServerWork::Redirect(id, tool) => self.limit_redirected(id, tool, &mut left_at),
            }
        }
        if self.handles_notifications {
            self.start_notification(&mut left_at);
            self.running.take_ready();
        }
        // Those that have waited come before those that begin.
        while !congested
            && let Some((id, output, span)) = self.running.poll_next(
                |id, handler, cx| handler.poll_watched(&self.connection, &mut left_at, id, cx),
                SuspendableHandler::stalled,
            )
        {
            if id == InboundId::NO_REQUEST {
                self.shared.end_notification();
                self.start_notification(&mut left_at);
            } else {
                congested = self.answer_output(id, output, span, &mut left_at);
            }
        }
        while !congested
            && let Some((_, request)) = self.held.used_mut().and_then(|held| held.waiting.pop_first())
        {
            congested = self.begin(request, &mut left_at);
        }
        self.end_late_handlers(congested, &mut left_at);
        left_at
    }

    /// Ends the handlers whose time is over, and answers their calls. Those that wait for the client, or cannot go on
    /// because it leaves answers unread, have their time once more.
    fn end_late_handlers(&mut self, congested: bool, left_at: &mut Option<Instant>) {
        let Some(due) = self.held.limits.next_deadline() else { return };
        let now = *left_at.get_or_insert_with(|| self.shared.now());
        if due > now {
            return;
        }
        while let Some((id, limit)) = self.held.limits.pop_expired(now) {
            if congested || self.shared.read(|_, machine| machine.peer().awaits_client(id)) {
                // At the least, so that time passes.
                let time = limit.time.max(Duration::from_millis(1));
                self.limit(id, now + time, limit);
            } else if let Some(span) = self.running.end(id) {
                // The handler's destructors have run.
                *left_at = None;
                self.answer(id, limit.into_reply(), span, left_at);
            }
        }
    }

    /// Limits a call by the tool that a layer calls in place of the one that the client named.
    fn limit_redirected(&mut self, id: InboundId, tool: String, left_at: &mut Option<Instant>) {
        self.remove_limit(id);
        if let Some(limit) =
            self.router.router().tool_timeout_of(tool).filter(|_| self.connection.is_active(id))
        {
            let now = *left_at.get_or_insert_with(|| self.shared.now());
            self.limit(id, now + limit.time, limit);
        }
    }

    fn limit(&mut self, id: InboundId, deadline: Instant, limit: ToolTimeout) {
        self.held.limits.insert(id, Some(deadline), limit);
    }

    fn remove_limit(&mut self, id: InboundId) {
        if let Some(held) = self.held.used_mut() {
            held.limits.remove(id);
        }
    }

    /// Starts the handler of the next notification, unless one is running.
    fn start_notification(&mut self, left_at: &mut Option<Instant>) {
        let Some((notification, context)) = self.shared.begin_notification() else { return };
        // A handler that panics here is treated like one that panics later.
        let begun = left_at.take().unwrap_or_else(|| self.connection.now());
        let started = catch_panic(|| self.router.router().start_notification(notification, context));
        *left_at = Some(self.connection.report_if_blocked(begun, (InboundId::NO_REQUEST, None, None)));
        match started {
            Ok(Some(handler)) => {
                let handler = SuspendableHandler::of_notification(handler);
                self.running.start(InboundId::NO_REQUEST, handler, RequestSpan::none());
            }
            Ok(None) | Err(_) => self.shared.end_notification(),
        }
    }

    /// Starts to answer a request. Returns whether the client leaves too many answers unread.
    fn begin(&mut self, request: NewRequest, left_at: &mut Option<Instant>) -> bool {
        let NewRequest { id, method, params, caller, state } = request;
        let (router, era) = (self.router.router(), state.context.era);
        let input_rounds = InputRounds::of(&method, params.as_ref(), era, router.sealing());
        let wire_id = || self.shared.read(|_, machine| machine.peer().wire_id(id).cloned());
        let serves = |item: Option<&str>| router.serves(&method, item);
        let revision = Some(state.context.revision);
        let span = RequestSpan::of_request(&method, params.as_ref(), revision, wire_id, serves);
        let (connection, entropy) = (self.connection.clone(), self.entropy.clone());
        let request = InboundRequest { connection, id, caller, entropy, state };
        let context = Context::new(request, input_rounds, router.state().clone());
        let limit = router.timeout_of(&method, params.as_ref());
        let service = self.task_service.as_ref();
        let layered = (!router.layers().is_empty()).then(Arc::<HandlerLink>::default);
        let dispatch = || match &layered {
            None => router.dispatch(&method, params, context.clone(), service, true),
            Some(link) => {
                let aside = (service.cloned(), link.clone());
                router.dispatch_layered(method, params, context.clone(), aside)
            }
        };
        let begun = left_at.take().unwrap_or_else(|| self.connection.now());
        let dispatched = span.in_scope(|| catch_panic(dispatch));
        // The handler's first poll follows at once, and is part of the same time.
        *left_at = Some(begun);
        match dispatched.unwrap_or_else(|panicked| Err(self.reply_to_panic(id, panicked))) {
            Ok((answering, name)) => {
                if let Some(limit) = limit {
                    self.limit(id, begun + limit.time, limit);
                }
                let handler = match layered {
                    None => self.handler(answering, context, name),
                    Some(link) => SuspendableHandler::layered(answering, context, link),
                };
                self.start(id, handler, span, left_at)
            }
            Err(reply) => {
                *left_at = Some(self.connection.report_if_blocked(begun, (id, None, None)));
                self.answer(id, reply, span, left_at)
            }
        }
    }

    /// The reply to a request whose handler panicked.
    fn reply_to_panic(&self, id: InboundId, panicked: HandlerPanic) -> Reply {
        if self.shared.read(|_, machine| machine.peer().is_tool_call(id)) {
            Reply::tool_panic()
        } else {
            panicked.into()
        }
    }

    /// Answers a request, or continues a tool call whose handler has finished the part before its task. Returns whether
    /// the client leaves too many answers unread.
    fn answer(
        &mut self,
        id: InboundId,
        reply: Reply,
        mut span: RequestSpan,
        left_at: &mut Option<Instant>,
    ) -> bool {
        let reply = match reply {
            Reply::Detached(detachment) => {
                let context = detachment.context.clone();
                let (router, service) = (self.router.router(), self.task_service.as_ref());
                let detached = catch_panic(|| router.detach(*detachment, service));
                *left_at = None;
                match detached.unwrap_or_else(|panicked| Err(self.reply_to_panic(id, panicked))) {
                    Ok(answering) => {
                        let handler = self.handler(answering, context, None);
                        return self.start(id, handler, span, left_at);
                    }
                    Err(reply) => reply,
                }
            }
            reply => reply,
        };
        self.remove_limit(id);
        span.resolve_reply(&reply);
        let now = *left_at.get_or_insert_with(|| self.shared.now());
        self.shared.with_events(|core, machine, wakers| {
            let answer = match &reply {
                Reply::Result(result) => Answer::Result(&**result),
                Reply::InputRequired(needed) => Answer::InputRequired(needed),
                Reply::Error(error) => Answer::Error(error.clone()),
                Reply::Denied(error, denial) => {
                    ServerCommands::new(machine, now).deny(id, error.clone(), denial);
                    core.remove_request(id, Cancellation::Answered, wakers);
                    return machine.is_congested();
                }
                // Its work continues.
                Reply::Detached(_) => return false,
                // Only calls of clients end so.
                Reply::Received(_) | Reply::Failed(_) => {
                    Answer::Error(ErrorObject::new(code::INTERNAL_ERROR, "no reply of a server"))
                }
            };
            ServerCommands::new(machine, now).respond(id, answer);
            core.remove_request(id, Cancellation::Answered, wakers);
            machine.is_congested()
        })
    }

    /// A handler, with its input rounds.
    fn handler(
        &self,
        handler: H::HandlerFuture,
        context: Context,
        name: Option<Arc<str>>,
    ) -> SuspendableHandler<H::HandlerFuture> {
        let rounds = context.input_rounds().map(|_| &context);
        let handler = self.router.router().spawned(handler, rounds);
        SuspendableHandler::new(handler, context, name)
    }

    /// Runs the handler of a request, and answers the request if the handler has finished. Returns whether the client
    /// leaves too many answers unread.
    fn start(
        &mut self,
        id: InboundId,
        handler: SuspendableHandler<H::HandlerFuture>,
        span: RequestSpan,
        left_at: &mut Option<Instant>,
    ) -> bool {
        let poll = |handler: &mut SuspendableHandler<H::HandlerFuture>, cx: &mut TaskContext<'_>| {
            handler.poll_watched(&self.connection, left_at, id, cx)
        };
        match self.running.run(id, handler, span, poll, SuspendableHandler::stalled) {
            Some((output, span)) => self.answer_output(id, output, span, left_at),
            None => false,
        }
    }

    /// Answers a request with the output of its handler, as [`answer`](Self::answer).
    fn answer_output(
        &mut self,
        id: InboundId,
        output: Result<Reply, HandlerPanic>,
        span: RequestSpan,
        left_at: &mut Option<Instant>,
    ) -> bool {
        // What a handler held that did not finish was dropped since.
        if matches!(output, Err(_) | Ok(Reply::InputRequired(_))) {
            *left_at = None;
        }
        let reply = output.unwrap_or_else(|panicked| self.reply_to_panic(id, panicked));
        self.answer(id, reply, span, left_at)
    }
}

impl<M: ServerTransport, H: HandlerMode> Drop for ServerDriver<M, H> {
    fn drop(&mut self) {
        let Some(end) = self.end else { return };
        let now = self.shared.now();
        let unstarted = self.shared.update(|core, machine, wakers| {
            end(machine, now);
            core.drain(machine, wakers);
            core.handle_driver_dropped(wakers)
        });
        if !unstarted.is_empty() {
            let _ = catch_panic(|| drop(unstarted));
        }
        self.running.stop_all();
    }
}

debug_fields! { [M: ServerTransport, H: HandlerMode] ServerDriver<M, H> { router } }

/// The requests and handlers that a driver acts on without their wakers: mostly none.
struct HeldHandlers {
    /// Requests whose handlers have not started yet, because the client leaves too many answers unread.
    waiting: OrderedMap<InboundId, NewRequest>,
    /// The time limits of running handlers.
    limits: Pending<ToolTimeout, InboundId>,
}

impl Initial for HeldHandlers {
    const INITIAL: &'static Self = &Self { waiting: OrderedMap::new(), limits: Pending::new() };

    fn initial() -> Self {
        Self { waiting: OrderedMap::new(), limits: Pending::new() }
    }
}

/// A running handler, which ends early if it needs input from a 2026-07-28 client.
pub(super) struct SuspendableHandler<F> {
    future: F,
    /// The context with the handler's input rounds.
    context: Option<Context>,
    /// The state of the request, until the handler first waits.
    state: Option<Arc<RequestState>>,
    /// The tool, the prompt or the resource of the handler.
    name: Option<Arc<str>>,
    /// Ends a handler within layers, which polls its input rounds itself.
    link: Option<Arc<HandlerLink>>,
}

impl<F: Future<Output = Reply> + Unpin> SuspendableHandler<F> {
    pub(super) fn new(future: F, context: Context, name: Option<Arc<str>>) -> Self {
        let state = Some(context.inbound_request().state.clone());
        let context = context.input_rounds().is_some().then_some(context);
        Self { future, context, state, name, link: None }
    }

    /// Wraps the outermost layer around a handler.
    pub(super) fn layered(future: F, context: Context, link: Arc<HandlerLink>) -> Self {
        Self { link: Some(link), ..Self::new(future, context, None) }
    }

    /// Wraps the handler of a notification, which has no rounds.
    pub(super) fn of_notification(future: F) -> Self {
        Self { future, context: None, state: None, name: None, link: None }
    }

    /// Polls the handler of `request`, and reports it to `connection` if that takes long. `left_at` is when the handler
    /// before it was left.
    pub(super) fn poll_watched(
        &mut self,
        connection: &Connection,
        left_at: &mut Option<Instant>,
        request: InboundId,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Reply> {
        let begun = left_at.take().unwrap_or_else(|| connection.now());
        let polled = Pin::new(&mut *self).poll(cx);
        *left_at = Some(connection.report_if_blocked(begun, (request, None, self.name.as_deref())));
        polled
    }

    /// Returns the reply to a handler that waits and has not woken itself, if only the client can help.
    pub(super) fn stalled(&mut self) -> Option<Reply> {
        let rounds = self.context.as_ref().and_then(Context::input_rounds);
        if let Some(state) = self.state.take() {
            state.release_message();
            rounds.iter().for_each(|rounds| rounds.release_message());
        }
        let context = self.context.as_ref()?;
        let reply = match rounds?.suspend_if_stalled(context.inbound_request())? {
            Ok(needed) => Reply::InputRequired(needed),
            Err(error) => error.into_reply(context.revision()),
        };
        match &self.link {
            None => Some(reply),
            Some(link) => {
                link.end(reply);
                None
            }
        }
    }
}

impl<F: Future<Output = Reply> + Unpin> Future for SuspendableHandler<F> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let Self { future, context, link, .. } = &mut *self;
        let future = Pin::new(future);
        let Some(context) = context else { return future.poll(cx) };
        if let Some(link) = link {
            return link.poll_by_driver(|| future.poll(cx));
        }
        let Some(rounds) = context.input_rounds() else { return future.poll(cx) };
        let revision = context.revision();
        rounds.poll(future, cx).map(|reply| reply.unwrap_or_else(|error| error.into_reply(revision)))
    }
}
