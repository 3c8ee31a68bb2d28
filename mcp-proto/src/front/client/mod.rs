//! The client handle.

mod calls;
mod connection;
mod context;
mod driver;
mod handlers;
mod layers;
#[cfg(feature = "schema-validate")]
mod output_checks;
mod pages;
#[cfg(feature = "skills")]
mod skills;
mod tasks;
mod watch;

use alloc::sync::Arc;
#[cfg(feature = "schema-validate")]
use core::any::Any;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use crate::peer::client::{
    CacheContext, ClientCommands, CloseReason, ConnectProgress, KnownEra, ServerInfo, State, TaskCommand,
};
use crate::peer::{Leniency, LostReason, Outcome, OutgoingRequest, RequestError, RequestId, RequestOptions};
use crate::prelude::*;
use crate::rpc::Text;
use crate::schema::{Method, Notification as Notifies, Revision};

use self::connection::{ClientCore, Connection, FirstPoll};
use super::error::Error;
use super::events::{Events, QueuedItem};
use super::layer::{LayerRequest, Layers, Next};
use super::layered_call::DraftCall;
use super::reply::Reply;
use super::request::{DriverTimer, Request, RequestLink};
use super::request_slots::{FollowQueue, RequestTable};
use super::wakers::{SendFuture, WaitingTask, wait_until};
use super::{Clock, Notification};
pub use calls::call_once;
pub use connection::Event;
pub use context::ClientContext;
pub use driver::{CacheContextEnder, ClientDriver, client};
pub use handlers::ClientHandlers;
#[cfg(feature = "schema-validate")]
pub use output_checks::OutputChecks;
pub use pages::{Pages, PaginatedMethod};
pub use tasks::{TaskHandle, ToolCallOutcome};
pub use watch::{Subscription, SubscriptionUpdate, Watch, WatchRequest, WatchUpdate};

/// A client: an application's handle of its connection to a server.
///
/// It is cheap to clone and usable from any thread and any executor. Requests may be made at once; they wait until the
/// server is known. When the last clone is dropped and no request is pending, the connection closes gracefully.
///
/// A task must poll the connection's [driver](ClientDriver), usually one that an adapter spawned.
///
/// ```
/// use mcp_proto::front::{Client, Error};
/// use serde_json::json;
///
/// async fn weather(client: &Client) -> Result<String, Error> {
///     for tool in client.list_tools().await? {
///         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
///     }
///     let result = client.call_tool("weather", json!({ "city": "Bern" })).await?;
///     Ok(result.text_content())
/// }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
    skips_layers: bool,
}

/// The state that all clones of a client and its requests in flight share.
struct ClientInner {
    connection: Arc<Connection>,
    #[cfg(feature = "schema-validate")]
    outputs: output_checks::OutputChecker,
    first_poll: FirstPoll,
    layers: Layers,
}

impl ClientInner {
    /// Gives a command, unless the connection has ended.
    fn checked<T>(
        &self,
        act: impl FnOnce(&mut ClientCore, ClientCommands<'_>) -> Result<T, RequestError>,
    ) -> Result<T, Error> {
        self.connection.command(|core, machine, now, _| {
            core.check_open()?;
            Ok(act(core, machine.at(now))?)
        })
    }

    /// Sends a request, and opens its slot.
    fn open(
        &self,
        follow: FollowQueue,
        send: impl FnOnce(ClientCommands<'_>) -> Result<RequestId, RequestError>,
    ) -> Result<RequestId, Error> {
        self.checked(|core, client| {
            let request = send(client)?;
            core.common.slots.open(request, follow);
            Ok(request)
        })
    }

    fn poll_notification(&self, request: RequestId, waker: Waker) -> Poll<Option<QueuedItem<Notification>>> {
        self.connection.update(|core, _, wakers| core.common.slots.poll_notification(request, waker, wakers))
    }
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        self.connection.command(|_, machine, now, _| machine.at(now).close());
    }
}

impl Client {
    fn new(connection: Arc<Connection>, layers: Layers) -> Self {
        let inner = ClientInner {
            connection,
            #[cfg(feature = "schema-validate")]
            outputs: Default::default(),
            first_poll: FirstPoll::default(),
            layers,
        };
        Self { inner: Arc::new(inner), skips_layers: false }
    }

    /// Returns a handle whose requests pass the [layers](crate::front::layer) of the client by, as far as those are around
    /// requests: for a host, which runs its layers [itself](crate::front::layer::Layers::run).
    pub fn outside_layers(&self) -> Self {
        Self { skips_layers: true, ..self.clone() }
    }

    /// Waits until the handshake has identified the server.
    ///
    /// # Errors
    /// [`Error::Closed`] if the connection cannot be made, or has ended. If nothing polls the driver, that is after
    /// [`ConnectTimeouts::total`](crate::peer::client::ConnectTimeouts::total).
    pub async fn ready(&self) -> Result<Arc<ServerInfo>, Error> {
        let connection = &self.inner.connection;
        let limit = connection.read(|_, machine| machine.peer().config().connect.total);
        let mut timer = self.inner.first_poll.timer(connection, Some(limit));
        let mut waiting = WaitingTask::new(&**connection);
        poll_fn(|cx| {
            let ended = waiting.poll(cx.waker(), |core| match (&core.common.closed, &core.server) {
                (Some(closed), _) => Some(Err(Error::Closed(closed.clone()))),
                (None, Some(server)) => Some(Ok(server.clone())),
                (None, None) => None,
            });
            let Some(Poll::Ready(expired)) = timer.as_mut().map(|timer| timer.as_mut().poll(cx)) else {
                return ended;
            };
            timer = None;
            if expired && ended.is_pending() { Poll::Ready(Err(ClientCore::unpolled_error())) } else { ended }
        })
        .await
    }

    /// Waits until the connection has ended, without closing it. Its transport may still be shutting down: see
    /// [`close`](Self::close).
    pub async fn closed(&self) -> CloseReason {
        wait_until(&*self.inner.connection, |core| core.common.closed.clone()).await
    }

    /// Closes the connection gracefully, and waits until its link is released. Requests in flight may finish within
    /// [`ClientConfig::close_timeout`](crate::peer::client::ClientConfig::close_timeout); new ones are rejected.
    ///
    /// It returns when the driver has released everything that it opened: a child process has ended and is reaped,
    /// which the steps of its shutdown bound in time; an HTTP session is deleted. If the driver is dropped, it returns
    /// at once.
    pub async fn close(&self) -> CloseReason {
        self.command(|mut client| client.close());
        wait_until(&*self.inner.connection, |core| core.link_released()).await
    }

    /// Ends the connection at once: requests in flight are lost.
    pub fn abort(&self) {
        self.command(|mut client| client.abort(LostReason::Closed));
    }

    /// The server's description, once the connection is ready.
    pub fn server(&self) -> Option<Arc<ServerInfo>> {
        self.inner.connection.read(|core, _| core.server.clone())
    }

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.inner.connection.read(|_, machine| machine.peer().state())
    }

    /// The last report on connecting, as of the last [`Event::Connecting`].
    ///
    /// `None` once the connection is ready or has ended.
    pub fn connecting(&self) -> Option<ConnectProgress> {
        self.inner.connection.read(|_, machine| machine.peer().connecting().cloned())
    }

    /// The era of the server as detected, for the configuration of the next connection to it.
    pub fn known_era(&self) -> Option<KnownEra> {
        self.inner.connection.read(|_, machine| machine.peer().known_era())
    }

    /// A stream of events from now on. It does not keep the connection open.
    pub fn events(&self) -> Events<Event> {
        let key = self.inner.connection.with_events(|core, _, _| core.common.add_listener(Event::Closed));
        Events::new(self.inner.connection.clone(), key)
    }

    /// Makes a request of any method.
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// use mcp_proto::schema::{Ping, PingParams};
    ///
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// client.request::<Ping>(PingParams::new()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn request<M: Method>(&self, params: M::Params) -> Request<M> {
        self.prepare(Ok(params))
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// If it cannot be sent: the connection is not ready or has ended, or the revision in use does not have it.
    pub fn notify<N: Notifies>(&self, params: &N::Params) -> Result<(), Error> {
        self.inner.checked(|_, mut client| client.notify::<N>(params))
    }

    /// Resends a request that waits for the user's visit of a page (2025-11-25), once the user is done with it. Other
    /// requests are not affected.
    ///
    /// Servers usually notify the client of that, so this is rarely needed. The request is the one of a
    /// [`Call`](crate::front::Call::id), or of a handler's [context](ClientContext::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
    pub fn retry(&self, request: RequestId) {
        self.command(|mut client| client.retry(request));
    }

    /// Makes later requests on behalf of another context, such as another login.
    ///
    /// Private answers of one context are never returned in another.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field>
    pub fn set_cache_context(&self, context: CacheContext) {
        self.command(|mut client| client.set_cache_context(context));
    }

    /// Ends the authorization context: deletes private cached answers, and caches none for requests made before.
    /// Adapters call it at login and logout; an application calls it when it changes its own credentials.
    pub fn end_cache_context(&self) {
        self.command(|mut client| client.end_cache_context());
    }

    /// Deletes all cached answers of the server.
    pub fn clear_cache(&self) {
        self.command(|mut client| client.clear_cache());
    }

    /// Reports a deviation of the server. Returns whether this client tolerates it.
    pub(super) fn tolerate(&self, leniency: Leniency) -> bool {
        self.command(|mut client| client.tolerate(leniency))
    }

    fn command<R>(&self, act: impl FnOnce(ClientCommands<'_>) -> R) -> R {
        self.inner.connection.command(|_, machine, now, _| act(machine.at(now)))
    }

    fn prepare<M: Method>(&self, params: Result<M::Params, Error>) -> Request<M> {
        Request::new(self.inner.clone(), params).skip_layers(self.skips_layers)
    }
}

debug_fields! { Client(self) { state = self.state() } }

impl RequestLink for ClientInner {
    fn send(&self, request: OutgoingRequest<'_>, follow: FollowQueue) -> Result<RequestId, Error> {
        self.open(follow, |mut client| client.send(request))
    }

    fn task(&self, id: &str, command: TaskCommand, options: RequestOptions) -> Result<RequestId, Error> {
        self.open(FollowQueue::Nothing, |mut client| client.task(id, command, options))
    }

    fn table(&self) -> &dyn RequestTable {
        &self.connection
    }

    fn driver_timer(&self) -> Option<DriverTimer> {
        self.first_poll.timer(&self.connection, None)
    }

    fn error(&self, outcome: Outcome) -> Error {
        self.connection.read(|core, _| core.error(outcome))
    }

    fn abandon(&self, request: RequestId, reason: Option<&str>) {
        self.connection.command(|core, machine, now, wakers| {
            core.common.slots.close(request, wakers);
            machine.at(now).cancel(request, reason);
        });
    }

    #[cfg(feature = "schema-validate")]
    fn check_output(&self, tool: Option<&str>, result: &dyn Any) -> Result<(), Error> {
        self.learn_or_check(tool, result)
    }

    fn has_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    fn pass_layers(self: Arc<Self>, method: Text, call: Box<dyn DraftCall>) -> SendFuture<Reply> {
        let layers = self.layers.clone();
        Next::call(layers).run(LayerRequest::of_application(method, call, self))
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.connection.clock()
    }

    fn server(&self) -> Option<Arc<ServerInfo>> {
        self.connection.read(|core, _| core.server.clone())
    }

    fn revision(&self) -> Option<Revision> {
        self.connection.read(|core, _| core.server.as_ref().map(|server| server.revision))
    }
}
