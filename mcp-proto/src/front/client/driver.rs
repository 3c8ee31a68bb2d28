//! The driver of a client's connection, which an adapter polls.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::Client;
use super::connection::{ClientCore, ClientWork, Connection};
use super::context::ClientContext;
use super::handlers::ClientHandlers;
use super::tasks::{ClientTasks, ReceiveOutcome, Timestamps};
use crate::Instant;
use crate::front::handler_error::catch_panic;
use crate::front::layer::{MessageLayers, Side};
use crate::front::reply::Reply;
use crate::front::running_handlers::RunningHandlers;
use crate::front::shared::{Core as _, Shared, driver_methods};
use crate::front::trace::RequestSpan;
use crate::front::{Clock, HandlerMode, SendHandlers};
use crate::inline_map::InlineQueue;
use crate::peer::client::{ClientCommands, ClientTransport, CloseReason, ServerInfo};
use crate::peer::{AnyResult, InboundId, LostReason};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};

/// Joins a machine to a handle for its application and a driver for its transport.
///
/// The machine's configuration must declare the [capabilities](ClientHandlers::capabilities) of `handlers`. There is
/// one driver per connection, and the connection ends with it.
pub fn client<M, H>(
    mut machine: M,
    clock: Arc<dyn Clock>,
    handlers: ClientHandlers<H>,
) -> (Client, ClientDriver<M, H>)
where
    M: ClientTransport + Send + 'static,
    H: HandlerMode,
{
    let mut commands = ClientCommands::new(&mut machine, clock.now());
    handlers.register(&mut commands);
    let is_refused = commands.refuse_invalid_extensions();
    let mut core = ClientCore::default();
    core.common.notifications = handlers.notification_queue();
    let shared = Arc::new(Shared::new(core, machine, clock));
    if is_refused {
        // Calls then fail for the reason for which the client has ended.
        shared.with_events(|_, _, _| ());
    }
    let client = Client::new(shared.clone(), handlers.layers().clone());
    (client, ClientDriver::new(shared, handlers))
}

/// Drives one connection of a client: an adapter's future holds it beside its transport.
///
/// The adapter does the I/O; the driver does everything else. In each of its polls the adapter
///
/// 1. passes received input to the machine, by [`lock`](Self::lock);
/// 2. polls the machine for output and for its next timeout, by [`poll`](Self::poll), which also runs the handlers of
///    the server's requests;
/// 3. returns `Pending` once `poll` does and the transport has no input either.
///
/// Dropping it ends the connection: requests in flight are lost as
/// [`DriverDropped`](crate::peer::LostReason::DriverDropped), and later requests are rejected.
#[must_use = "the client's calls wait until the driver is polled: spawn it on an executor"]
pub struct ClientDriver<M: ClientTransport, H: HandlerMode = SendHandlers> {
    shared: Arc<Shared<ClientCore, M>>,
    handlers: ClientHandlers<H>,
    handles_notifications: bool,
    running: RunningHandlers<H::HandlerFuture>,
    client_tasks: ClientTasks,
    /// The layers through which messages pass, if any of them reads messages.
    message_layers: Option<Box<MessageLayers<SendHandlers>>>,
}

impl<M: ClientTransport, H: HandlerMode> ClientDriver<M, H> {
    pub(super) fn new(shared: Arc<Shared<ClientCore, M>>, handlers: ClientHandlers<H>) -> Self {
        let tasks = RunningHandlers::new(shared.signal().clone());
        let handles_notifications = handlers.notification_queue().is_some();
        let message_layers = MessageLayers::hold(handlers.layers(), Side::Client, &*shared);
        let client_tasks = ClientTasks::default();
        Self { shared, handlers, handles_notifications, running: tasks, client_tasks, message_layers }
    }

    /// Returns a handle that ends the authorization context of the connection's cache.
    ///
    /// It works on any thread and does not keep the connection open.
    #[must_use]
    pub fn cache_context_ender(&self) -> CacheContextEnder
    where
        M: Send + 'static,
    {
        CacheContextEnder(self.shared.clone())
    }

    /// Sets how a handle sleeps while this driver has not been polled. Without it, calls wait for the first poll for ever.
    ///
    /// With it, they report [`Diagnostic::DriverNotPolled`](crate::peer::client::Diagnostic::DriverNotPolled) after a
    /// second, and end at their timeouts with [`LostReason::DriverNotPolled`]. `sleep` is called, and its future polled, by
    /// the tasks of calls, which may run outside of the adapter's runtime: it must not panic there.
    pub fn set_handle_timer(
        &mut self,
        sleep: impl Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) {
        self.shared.update(|core, _, _| core.start_sleep = Some(Arc::new(sleep)));
    }

    /// Runs handlers, then runs `act` on the machine like [`lock`](Self::lock). If `act` returns `Pending`, because
    /// there is no work left, the next command or handler wakes the task.
    pub fn poll<R>(&mut self, cx: &mut Context<'_>, act: impl FnOnce(&mut M, Instant) -> Poll<R>) -> Poll<R> {
        self.run_handlers();
        let now = self.shared.now();
        MessageLayers::park(&mut self.message_layers, &*self.shared, now, cx.waker(), act)
    }

    driver_methods!();

    /// The time at which the machine's `handle_timeout` is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.shared.read(|_, machine| machine.poll_timeout())
    }

    /// Reports that the adapter has released everything that it opened for this connection.
    ///
    /// Then [`Client::close`](super::Client::close) returns. Call it once [`closed`](Self::closed) returns the end,
    /// just before the adapter's future completes, and after the child process has ended. Dropping the driver has the
    /// same effect.
    pub fn handle_link_down(&mut self) {
        self.shared.with_events(|core, _, wakers| core.handle_link_down(wakers));
    }

    fn run_handlers(&mut self) {
        let (mut work, server) = self.shared.update(|core, _, _| {
            core.driver_polled = true;
            (core.common.take_work(), core.server.clone())
        });
        let mut replies: InlineQueue<(InboundId, Reply)> = InlineQueue::default();
        while let Some(item) = work.pop_front() {
            match item {
                ClientWork::Stop(id) if self.client_tasks.stop_waiting(id) => {}
                ClientWork::Stop(id) => self.running.stop(id),
                ClientWork::Start { id, method, params, on_behalf_of: of } => {
                    let context = ClientContext::new(server.clone(), of);
                    self.take_request(id, &method, params, context, &mut replies);
                }
            }
        }
        if self.handles_notifications {
            self.start_notification(server.clone());
        }
        self.running.take_ready();
        let poll = |_, handler: &mut H::HandlerFuture, cx: &mut Context<'_>| Pin::new(handler).poll(cx);
        let mut notified = false;
        while let Some((id, output, mut span)) = self.running.poll_next(poll, |_| None) {
            if id == InboundId::NO_REQUEST {
                notified = true;
                continue;
            }
            let reply = output.unwrap_or_else(Reply::from);
            span.resolve_reply(&reply);
            if self.client_tasks.is_empty() {
                replies.push_back((id, reply));
                continue;
            }
            match self.client_tasks.finish(self.timestamps(), id, reply) {
                Ok(waiting) => waiting.into_iter().for_each(|waiting| replies.push_back(waiting)),
                Err(reply) => replies.push_back((id, reply)),
            }
        }
        if notified {
            self.shared.end_notification();
            self.start_notification(server);
        }
        if replies.is_empty() {
            return;
        }
        self.shared.with(|_, machine, now, _| {
            for (id, reply) in replies.iter() {
                let answer = match reply {
                    Reply::Result(result) => Ok(&**result as &dyn AnyResult),
                    Reply::Error(error) | Reply::Denied(error, _) => Err(error.clone()),
                    // The replies of servers, and to the calls of clients: a layer has taken one for an answer.
                    Reply::InputRequired(_) | Reply::Detached(_) | Reply::Received(_) | Reply::Failed(_) => {
                        let error = reply.error_object().cloned();
                        Err(error.unwrap_or_else(|| {
                            ErrorObject::new(code::INTERNAL_ERROR, "no reply of a client")
                        }))
                    }
                };
                ClientCommands::new(machine, now).respond(*id, answer);
            }
        });
    }

    /// Starts the handler of the next notification, unless one is running.
    fn start_notification(&mut self, server: Option<Arc<ServerInfo>>) {
        let Some((notification, ())) = self.shared.begin_notification() else { return };
        let context = ClientContext::new(server, None);
        // A handler that panics here is treated like one that panics later.
        match catch_panic(|| self.handlers.start_notification(notification, context)) {
            Ok(Some(handler)) => self.running.start(InboundId::NO_REQUEST, handler, RequestSpan::none()),
            Ok(None) | Err(_) => self.shared.end_notification(),
        }
    }

    /// Notes that the handler of a notification has finished.
    fn timestamps(&self) -> Timestamps {
        Timestamps { now: self.shared.now(), unix: self.shared.unix_time() }
    }

    /// Answers a request of the server, or starts its handler.
    fn take_request(
        &mut self,
        id: InboundId,
        method: &str,
        params: Option<Raw>,
        context: ClientContext,
        replies: &mut InlineQueue<(InboundId, Reply)>,
    ) {
        let received = match self.handlers.accepts_tasks(context.server()) {
            true => {
                let (now, handlers) = (self.timestamps(), &self.handlers);
                let offers = |method: &str| handlers.has_handler(method);
                self.client_tasks.receive(now, id, method, params.as_ref(), offers)
            }
            false => ReceiveOutcome::Ordinary,
        };
        let begun = match received {
            ReceiveOutcome::Ordinary => None,
            ReceiveOutcome::Task(reply) => Some(reply),
            ReceiveOutcome::Deferred => return,
            ReceiveOutcome::Answered(reply) => return replies.push_back((id, reply)),
            ReceiveOutcome::Cancelled { reply, handler, waiting } => {
                self.running.stop(handler);
                waiting.into_iter().for_each(|waiting| replies.push_back(waiting));
                return replies.push_back((id, reply));
            }
        };
        let revision = context.server().map(|server| server.revision);
        let wire_id = || self.shared.read(|_, machine| machine.peer().request_wire_id(id).cloned());
        let serves = |item: Option<&str>| item.is_none() && self.handlers.has_handler(method);
        let mut span = RequestSpan::of_request(method, params.as_ref(), revision, wire_id, serves);
        let start = || self.handlers.start(method, params, context, self.shared.clock());
        match span.in_scope(|| catch_panic(start)).unwrap_or_else(|why| Err(why.into())) {
            Ok(answering) => {
                begun.into_iter().for_each(|reply| replies.push_back((id, reply)));
                self.running.start(id, answering, span);
            }
            Err(reply) => {
                span.resolve_reply(&reply);
                self.client_tasks.forget(id);
                replies.push_back((id, reply));
            }
        }
    }
}

/// Ends the authorization context of a connection's cache, from any thread.
///
/// See [`ClientCommands::end_cache_context`](crate::peer::client::ClientCommands::end_cache_context). It may be used
/// under a lock of the adapter, so that credentials and context change together: it takes no other lock and wakes no
/// task.
#[derive(Clone, Debug)]
pub struct CacheContextEnder(Arc<Connection>);

impl CacheContextEnder {
    /// Deletes private cached answers, and caches none for the requests made so far.
    pub fn end(&self) {
        self.0.with(|_, machine, now, _| machine.at(now).end_cache_context());
    }
}

impl<M: ClientTransport, H: HandlerMode> Drop for ClientDriver<M, H> {
    fn drop(&mut self) {
        self.shared.with(|core, machine, now, wakers| {
            ClientCommands::new(machine, now).abort(LostReason::DriverDropped);
            core.drain(machine, wakers);
            core.handle_driver_dropped(wakers);
        });
        self.running.stop_all();
    }
}

debug_fields! { [M: ClientTransport, H: HandlerMode] ClientDriver<M, H> {} }
