//! The server handle of one connection.

mod core;
mod custom;
mod driver;
mod events;
mod link;
mod suspendable_handler;

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::task::{Poll, Waker};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use serde::Serialize;

use super::entropy::Entropy;
use super::events::{self as listening, EventSource, Events};
use super::request::Request;
use super::router::ServedRouter;
use super::shared::Shared;
use super::tasks::TaskService;
use super::{Clock, HandlerMode};
use crate::peer::server::{CloseReason, ListKind, ServerCommands, ServerTransport, Session};
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{Json, LoggingLevel, LoggingMessageParams, Method};

use self::link::{Connection, ServerLink};

pub(super) use self::core::ServerCore;
pub use driver::ServerDriver;
pub use events::ServerEvent;

/// Joins a machine to its router, a handle for the application and a driver for the transport.
///
/// The machine is made from the router's [configuration](super::Router::config). A router serves any number of
/// connections: clone it, or share it as an `Arc`. The changes of a [live](super::LiveRouter) router are published to the
/// client for as long as the driver exists.
///
/// Adapters call [`Router::check`](super::Router::check) and end with its error. An invalid router answers each request
/// with [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR).
pub fn server<M, H>(
    machine: M,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    router: impl Into<ServedRouter<H>>,
) -> (ServerHandle, ServerDriver<M, H>)
where
    M: ServerTransport + Send + 'static,
    H: HandlerMode,
{
    let router = router.into();
    let shared = Arc::new(Shared::new(ServerCore::default(), machine, clock.clone()));
    let handle =
        ServerHandle { link: Arc::new(ServerLink { connection: shared.clone(), on_behalf_of: None }) };
    let task_service = router.router().task_registry().map(|registry| {
        let connection = shared.clone();
        let listener = Box::new(move |params: &TaskUpdatedParams| {
            connection.command(|_, machine, now, _| ServerCommands::new(machine, now).task_updated(params));
        });
        Arc::new(TaskService::new(registry.clone(), clock, listener))
    });
    let listener = Arc::downgrade(&shared);
    let listening = router.listen(listener);
    let driver = ServerDriver::new(shared, entropy, router, task_service);
    (handle, driver.with_task_runner().with_listener(listening))
}

/// An application's handle of one connection of its server: to notify the client, send requests and await the end.
///
/// It is cheap to clone and usable from any thread. Dropping it does not end the connection.
#[derive(Clone)]
pub struct ServerHandle {
    link: Arc<ServerLink>,
}

impl ServerHandle {
    /// Notifies the client, if it subscribed, that a list has changed. The router's handlers return the changed list.
    ///
    /// The capability must have been [declared](super::Router::declare).
    pub fn list_changed(&self, list: ListKind) {
        self.link.connection.command(|_, machine, now, _| machine.at(now).list_changed(list));
    }

    /// Notifies the client, if it subscribed, that a resource has changed.
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        let uri = uri.as_ref();
        self.link.connection.command(|_, machine, now, _| machine.at(now).resource_updated(uri));
    }

    /// Logs to the client independently of its requests, if it wants messages of this level (2025-11-25 and earlier).
    pub fn log(&self, level: LoggingLevel, logger: Option<String>, data: impl Serialize) {
        // Data that does not serialize cannot be sent.
        let Ok(data) = Json::encode(&data) else { return };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger;
        self.link.connection.command(|_, machine, now, _| machine.at(now).log(None, &params));
    }

    /// Sends a request to the client independently of its requests (2025-11-25 and earlier).
    pub fn request<M: Method>(&self, params: M::Params) -> Request<M> {
        Request::new(self.link.clone(), Ok(params))
    }

    /// The legacy session, once the client has opened one.
    pub fn session(&self) -> Option<Session> {
        self.link.connection.read(|_, machine| machine.peer().session().cloned())
    }

    /// A stream of the connection's events from now on.
    pub fn events(&self) -> Events<ServerEvent> {
        let key = self.link.connection.with(|core, _, _, _| core.add_listener());
        Events::new(Box::new(ConnectionEvents(self.link.connection.clone())), key)
    }

    /// Waits until the connection has ended, without closing it.
    pub async fn closed(&self) -> CloseReason {
        let mut waiting = CloseWaiter { connection: &self.link.connection, key: None };
        poll_fn(|cx| waiting.poll(cx.waker())).await
    }

    /// Closes the connection gracefully, and waits until it has ended.
    pub async fn close(&self) -> CloseReason {
        self.link.connection.command(|_, machine, now, _| machine.at(now).close());
        self.closed().await
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").finish_non_exhaustive()
    }
}

/// A task that waits for the end of the connection.
struct CloseWaiter<'a> {
    connection: &'a Connection,
    key: Option<u64>,
}

impl CloseWaiter<'_> {
    fn poll(&mut self, waker: &Waker) -> Poll<CloseReason> {
        let left = waker.clone();
        self.connection.with(|core, _, _, wakers| match &core.closed {
            Some(closed) => {
                wakers.discard(Some(left));
                Poll::Ready(closed.clone())
            }
            None => {
                core.waiters.wait(&mut self.key, left, wakers);
                Poll::Pending
            }
        })
    }
}

impl Drop for CloseWaiter<'_> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.connection.with(|core, _, _, wakers| core.waiters.leave(self.key, wakers));
        }
    }
}

/// The connection as the source of an event stream.
struct ConnectionEvents(Arc<Connection>);

impl EventSource<ServerEvent> for ConnectionEvents {
    fn poll_event(&self, key: u64, waker: Waker) -> Poll<Option<listening::QueuedEvent<ServerEvent>>> {
        self.0.with(|core, _, _, wakers| match &mut core.listeners {
            Some(listeners) => listeners.poll(key, waker, wakers),
            None => {
                wakers.discard(Some(waker));
                Poll::Ready(None)
            }
        })
    }

    fn leave(&self, key: u64) {
        self.0.with(|core, _, _, wakers| {
            if let Some(listeners) = &mut core.listeners {
                listeners.remove(key, wakers);
            }
        });
    }
}
