//! The server handle of one connection.

mod driver;

use alloc::sync::Arc;

use serde::Serialize;

use super::clock::Entropy;
use super::events::Events;
use super::handler::connection::{ServerCore, ServerEvent};
use super::handler::server_requests::ServerLink;
use super::params::{custom_params, log_params, request_params};
use super::request::Request;
use super::router::{ChangeListener, ServedRouter};
use super::shared::Shared;
use super::tasks::TaskService;
use super::wakers::wait_until;
use super::{Clock, Error, HandlerMode};
use crate::peer::AnyParams;
use crate::peer::server::{CloseReason, ListKind, ServerCommands, ServerTransport, Session};
use crate::prelude::*;
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{CustomMethod, LoggingLevel, Method, Notification};

pub use driver::ServerDriver;

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
    (handle, driver.with_task_runner().with_listener(listening).with_message_layers())
}

/// An application's handle of one connection of its server: to notify the client, send requests and await the end.
///
/// It is cheap to clone and usable from any thread. Dropping it does not end the connection.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    link: Arc<ServerLink>,
}

impl ServerHandle {
    /// Notifies the client, if it subscribed, that a list has changed. The router's handlers return the changed list.
    ///
    /// The capability must have been [declared](super::Router::declare).
    pub fn list_changed(&self, list: ListKind) {
        self.link.connection.act(|mut server| server.list_changed(list));
    }

    /// Notifies the client, if it subscribed, that a resource has changed.
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        let uri = uri.as_ref();
        self.link.connection.act(|mut server| server.resource_updated(uri));
    }

    /// Logs to the client independently of its requests, if it wants messages of this level (2025-11-25 and earlier).
    pub fn log(&self, level: LoggingLevel, logger: Option<String>, data: impl Serialize) {
        let Some(params) = log_params(level, logger, &data) else { return };
        self.link.connection.act(|mut server| server.log(None, &params));
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
        let key =
            self.link.connection.with_events(|core, _, _| core.common.add_listener(ServerEvent::Closed));
        Events::new(self.link.connection.clone(), key)
    }

    /// Waits until the connection has ended, without closing it.
    pub async fn closed(&self) -> CloseReason {
        wait_until(&*self.link.connection, |core| core.common.closed.clone()).await
    }

    /// Closes the connection gracefully, and waits until it has ended.
    pub async fn close(&self) -> CloseReason {
        self.link.connection.act(|mut server| server.close());
        self.closed().await
    }
}

impl<M: ServerTransport + Send> ChangeListener for Shared<ServerCore, M> {
    fn list_changed(&self, list: ListKind) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).list_changed(list));
    }

    fn resource_updated(&self, uri: &str) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).resource_updated(uri));
    }
}

impl ServerHandle {
    /// Sends a request by its name to the client, independently of its requests (2025-11-25 and earlier). `params` is
    /// any value that serializes to a JSON object, or to `null` for none; the result is passed on undecoded.
    ///
    /// If the protocol defines a method of this name, its rules apply.
    pub fn request_custom(&self, method: impl Into<String>, params: impl Serialize) -> Request<CustomMethod> {
        Request::by_name(self.link.clone(), method.into(), request_params(params))
    }

    /// Sends the client a notification that the protocol does not define, independently of its requests (2025-11-25 and
    /// earlier).
    ///
    /// # Errors
    /// If it cannot be sent: no session is ready, the client reads nothing, or the name is one of the protocol's
    /// ([`RequestError::Reserved`](crate::peer::RequestError::Reserved)), which other methods send.
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.send_notification(N::NAME, params)
    }

    /// Sends a notification of the protocol that belongs to no request of the client (2025-11-25 and earlier): for
    /// proxies, which pass on that a task has another status, or that a visit of a page is over. Returns whether it was
    /// sent: the session must be ready, and its revision must have the notification.
    ///
    /// ```
    /// # use mcp_proto::front::ServerHandle;
    /// use mcp_proto::schema::{ElicitationComplete, ElicitationCompleteParams};
    ///
    /// # fn example(handle: &ServerHandle) {
    /// let is_sent = handle.notify_session::<ElicitationComplete>(&ElicitationCompleteParams::new("page-1"));
    /// # let _ = is_sent;
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
    pub fn notify_session<N: Notification>(&self, params: &N::Params) -> bool {
        self.link.connection.act(|mut server| server.notify_session(N::INFO, params))
    }

    /// Sends the client a notification by its name, independently of its requests (2025-11-25 and earlier). `params` is
    /// any value that serializes to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::{Error, ServerHandle};
    /// # use serde_json::json;
    /// # fn example(handle: &ServerHandle) -> Result<(), Error> {
    /// handle.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        self.send_notification(method, &custom_params(params)?)
    }

    fn send_notification(&self, method: &str, params: &dyn AnyParams) -> Result<(), Error> {
        self.link.connection.command(|core, machine, now, _| {
            core.check_open()?;
            Ok(machine.at(now).notify_custom(None, method, params)?)
        })
    }
}
