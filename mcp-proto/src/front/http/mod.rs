//! Servers over HTTP: one router behind any number of connections.
//!
//! [`http_server`] joins a router to a handle and a driver. An adapter makes an [`HttpExchange`] of each request that
//! its HTTP implementation reads, and sends the answer:
//!
//! ```text
//! let mut exchange = server.exchange(&head, principal);
//! while exchange.wants_body() { exchange.handle_body(bytes) … exchange.handle_body_end() }
//! exchange.poll_head(cx)  → status and headers
//! exchange.poll_body(cx)  → bytes, until there are no more
//! at exchange.next_timeout(): exchange.handle_timeout(), and poll again
//! drop(exchange)          the client has gone, or has been answered
//! ```
//!
//! With a future for a sleep, [`next_head`](HttpExchange::next_head) and [`next_body`](HttpExchange::next_body) poll and handle
//! the timeouts.
//!
//! An exchange owns all state of a 2026-07-28 request: it polls the handler, and drops it when the client disconnects.
//! A session of 2025-11-25 and earlier outlives connections; sessions and their handlers run in the
//! [`HttpServerDriver`], which the adapter polls as well.
//!
//! Behind a load balancer, requests of 2026-07-28 may go to any instance, provided that all share the keys of their
//! request states (`Router::seal`). A session is held in the memory of one instance: the balancer must route its
//! requests there, by the [prefix](HttpServerConfig::session_prefix) of `Mcp-Session-Id`.
//!
//! ```
//! use core::task::{Context, Poll, Waker};
//! use std::sync::Arc;
//!
//! use mcp_proto::Bytes;
//! use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead};
//! use mcp_proto::front::http::http_server;
//! use mcp_proto::adapter::{Entropy, SystemClock};
//! use mcp_proto::front::{NoArguments, Router};
//! use mcp_proto::schema::{Json, Tool};
//!
//! /// Where ids and keys come from. An adapter asks the operating system.
//! struct Fixed;
//!
//! impl Entropy for Fixed {
//!     fn fill(&self, bytes: &mut [u8]) {
//!         bytes.fill(4);
//!     }
//! }
//!
//! let router = Router::new("greeter", "1.0.0")
//!     .tool_with(Tool::new("greet", "Greets", Json::empty_object()), async |NoArguments {}, _| "Hello");
//! let config = HttpServerConfig::new(router.config());
//! let (server, _driver) = http_server(router, config, Arc::new(SystemClock::new()), Arc::new(Fixed));
//!
//! let headers = [
//!     ("host", "localhost:8080"),
//!     ("content-type", "application/json"),
//!     ("accept", "application/json, text/event-stream"),
//!     ("mcp-protocol-version", "2026-07-28"),
//!     ("mcp-method", "tools/call"),
//!     ("mcp-name", "greet"),
//! ];
//! let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
//! let mut exchange = server.exchange(&head, None);
//! exchange.handle_body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!     "name":"greet","_meta":{
//!         "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!         "io.modelcontextprotocol/clientCapabilities":{}}}}"#));
//! exchange.handle_body_end();
//! let mut cx = Context::from_waker(Waker::noop());
//! let Poll::Ready(head) = exchange.poll_head(&mut cx) else { panic!() };
//! assert_eq!(head.status, 200);
//! let Poll::Ready(Some(body)) = exchange.poll_body(&mut cx) else { panic!() };
//! assert!(body.windows(5).any(|part| part == b"Hello"));
//! ```

mod change_hub;
mod channel;
mod driver;
mod exchange;
mod relay;
mod service;
mod session;
mod session_table;

use alloc::sync::Arc;
use core::ops::Deref;
use core::time::Duration;

use change_hub::Broadcast;
use serde::Serialize;
use service::Service;

use crate::front::Error;
use crate::front::events::Events;
use crate::peer::admission::check_server_notification;
use crate::peer::server::ListKind;
use crate::peer::{AnyParams as _, Principal, RequestError};
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{CustomParams, Json, LoggingLevel, LoggingMessageParams, Notification};
use crate::transport::http::server::{HttpResponse, HttpServerConfig, RequestHead};

use super::clock::Entropy;
use super::router::{ChangeListener as _, ServedRouter};
use super::{Clock, HandlerMode, SendHandlers};
pub use change_hub::HttpServerEvent;
pub use channel::HttpChannel;
pub use driver::HttpServerDriver;
pub use exchange::HttpExchange;
pub use relay::{Change, ChangeRelay, ChangeStream, PublishFuture};

/// Joins a router to a server handle and the driver of its sessions.
///
/// `config` must be made from the router's [configuration](super::Router::config). One clock serves all of it.
///
/// Adapters call [`Router::check`](super::Router::check) and end with its error. An invalid router answers each request
/// with [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR).
pub fn http_server<H: HandlerMode>(
    router: impl Into<ServedRouter<H>>,
    config: HttpServerConfig,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> (HttpServer<H>, HttpServerDriver<H>) {
    let router = router.into();
    let service = Arc::new(Service::new(config, clock, entropy, &router));
    let driver = HttpServerDriver::new(service.clone(), router.clone());
    (HttpServer { handle: HttpHandle { service }, router }, driver)
}

/// A server over HTTP: it answers requests, and notifies subscribed clients of changes.
///
/// It is cheap to clone, and with a [`SendHandlers`] router usable from any thread. Dropping it does not end the
/// server.
pub struct HttpServer<H: HandlerMode = SendHandlers> {
    handle: HttpHandle,
    router: ServedRouter<H>,
}

impl<H: HandlerMode> HttpServer<H> {
    /// Creates the exchange of a request, which takes the request's body as it arrives.
    ///
    /// `principal` is the authenticated principal of the request, or `None` where the server does not distinguish
    /// users. Sessions, request states and tasks of one principal are unknown to every other.
    ///
    /// [`HttpExchange::with_attachments`] adds values for its handlers, such as its head.
    pub fn exchange(&self, head: &RequestHead<'_>, principal: Option<Principal>) -> HttpExchange<H> {
        HttpExchange::new(&self.handle.service, self.router.router(), head, principal, Default::default())
    }

    /// Creates the exchange of a request that was answered before it reached the server: by a guard, or a health check. It
    /// does not want the request's body.
    pub fn answered_exchange(&self, head: &RequestHead<'_>, answer: HttpResponse) -> HttpExchange<H> {
        HttpExchange::from_answer(&self.handle.service, self.router.router(), head, answer)
    }

    /// The application's handle, whose methods the server has as well: usable from any thread with either kind of
    /// router, and handlers may keep it.
    pub fn handle(&self) -> &HttpHandle {
        &self.handle
    }

    /// The server's configuration.
    pub fn config(&self) -> &HttpServerConfig {
        self.handle.service.setup.config()
    }
}

#[cfg(feature = "auth")]
impl<H: HandlerMode> HttpServer<H> {
    /// Creates the exchange of a request that a [guard](super::guard) accepted, with the principal of its token.
    pub fn exchange_for(
        &self,
        head: &RequestHead<'_>,
        authorized: crate::auth::server::GrantedAccess,
    ) -> HttpExchange<H> {
        let principal = Some(authorized.access().principal.clone());
        HttpExchange::new(&self.handle.service, self.router.router(), head, principal, Some(authorized))
    }

    /// Returns whether a request is a browser's question whether a page of an
    /// [allowed origin](HttpServerConfig::cors) may send one: it bears no token for a guard to check.
    pub fn is_preflight(&self, head: &RequestHead<'_>) -> bool {
        self.handle.service.setup.is_preflight(head)
    }
}

impl<H: HandlerMode> Deref for HttpServer<H> {
    type Target = HttpHandle;

    fn deref(&self) -> &HttpHandle {
        &self.handle
    }
}

impl<H: HandlerMode> Clone for HttpServer<H> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), router: self.router.clone() }
    }
}

debug_fields! { [H: HandlerMode] HttpServer<H> { router } }

/// An application's handle of its server over HTTP, to publish changes and to close it.
///
/// It is cheap to clone and usable from any thread. It does not reference the router, so the router's handlers may keep
/// one.
#[derive(Clone)]
pub struct HttpHandle {
    service: Arc<Service>,
}

impl HttpHandle {
    /// Notifies subscribed clients and legacy sessions that a list has changed, at every instance that shares a
    /// [relay](ChangeRelay). The router's handlers return the changed list.
    ///
    /// The capability must have been [declared](super::Router::declare). A client that does not read for a while is notified
    /// once.
    pub fn list_changed(&self, list: ListKind) {
        self.service.hub.list_changed(list);
    }

    /// Notifies subscribed clients that a resource has changed, at every instance that shares a [relay](ChangeRelay).
    /// The cost is linear in their number.
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        self.service.hub.resource_updated(uri.as_ref());
    }

    /// Notifies clients that listen for a task of its status (the tasks extension). A client that does not read for a
    /// while receives the latest status.
    pub fn task_updated(&self, params: &TaskUpdatedParams) {
        self.service.hub.task_updated(params);
    }

    /// A stream of changes in resource subscriptions from now on. For the current subscriptions, use
    /// [`subscribed_resources`](Self::subscribed_resources).
    pub fn events(&self) -> Events<HttpServerEvent> {
        let hub = &self.service.hub;
        Events::new(hub.clone(), hub.listen())
    }

    /// The resources that clients are subscribed to now, in the order of their URIs.
    pub fn subscribed_resources(&self) -> Vec<String> {
        self.service.hub.resources()
    }

    /// The number of bytes that the server buffers for all its clients, out of [`HttpServerConfig::byte_limits`].
    pub fn bytes_used(&self) -> usize {
        self.service.bytes_used()
    }

    /// Drains the server: it takes nothing new that lasts, and closes after `notice`, in which a balancer learns of it.
    ///
    /// From now on [`is_draining`](Self::is_draining) is true, for the balancer's health checks. New sessions,
    /// subscriptions and WebSockets are refused with 503 and `Retry-After`; all other requests are served, also those
    /// that the balancer still sends here. After `notice`, the driver [closes](Self::close) the server: clients whose
    /// streams end then reconnect, and the balancer leads them to another instance.
    ///
    /// With `Duration::MAX` the application closes it. A second call can only shorten the notice.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use mcp_proto::front::http::HttpHandle;
    /// # fn example(server: &HttpHandle) {
    /// // On SIGTERM. The balancer checks each second, and gives up after the second failure.
    /// server.drain(Duration::from_secs(3));
    /// # }
    /// ```
    pub fn drain(&self, notice: Duration) {
        self.service.drain(notice);
    }

    /// Whether the server drains, or was closed: a balancer should send no more requests.
    pub fn is_draining(&self) -> bool {
        self.service.is_draining()
    }

    /// Closes the server gracefully.
    ///
    /// It ends subscriptions, lets running requests finish within
    /// [`close_timeout`](crate::peer::server::ServerConfig::close_timeout), and accepts no new requests: they are refused
    /// with 503 and `Retry-After`, in sessions with 404, after which clients open new ones. The driver is ready once the sessions have ended. Behind a balancer, [drain](Self::drain)
    /// it first.
    pub fn close(&self) {
        self.service.close();
    }

    /// Whether the server was closed.
    pub fn is_closing(&self) -> bool {
        self.service.is_closing()
    }
}

debug_fields! { HttpHandle(self) { closing = self.is_closing() } }

/// Messages outside of requests.
impl HttpHandle {
    /// Logs to the clients of legacy sessions, independently of their requests: to each that has set a log level which
    /// includes `level`, and that has the stream for such messages open (GET). Other clients never receive the message.
    ///
    /// A client of 2026-07-28 receives none: its log messages belong to a request, for which the handler
    /// [logs](crate::front::Context::log). The capability must have been [declared](crate::front::Router::declare).
    ///
    /// The message goes to clients of all principals: it must contain no secrets, and nothing about one of them. A
    /// client that does not read loses messages and delays no other.
    ///
    /// ```
    /// # use mcp_proto::front::http::HttpHandle;
    /// # use mcp_proto::schema::LoggingLevel;
    /// # fn example(server: &HttpHandle) {
    /// server.log(LoggingLevel::Warning, Some("disk".into()), "almost full");
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, logger: Option<String>, data: impl Serialize) {
        // Data that does not serialize cannot be sent.
        let Ok(data) = Json::encode(&data) else { return };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger;
        //= S8.18 "only on that request's stream"
        self.service.hub.broadcast(Broadcast::Log(params));
    }

    /// Sends a notification that the protocol does not define to all legacy sessions.
    ///
    /// A session without an open stream for such messages (GET) receives it when the stream is opened; a client that
    /// does not read loses notifications and delays no other. A client of 2026-07-28 receives only the notifications
    /// that it subscribed to, so none of these.
    ///
    /// # Errors
    /// If the parameters do not serialize, or the name is one of the protocol's, which other methods send.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#opening-a-stream>
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.broadcast(N::NAME, params.to_raw())
    }

    /// Sends a notification by its name to all legacy sessions, like [`notify`](Self::notify). `params` is any value
    /// that serializes to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::Error;
    /// # use mcp_proto::front::http::HttpHandle;
    /// # use serde_json::json;
    /// # fn example(server: &HttpHandle) -> Result<(), Error> {
    /// server.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        self.broadcast(method, Raw::encode(&params))
    }

    fn broadcast(&self, method: &str, params: Result<Raw, serde_json::Error>) -> Result<(), Error> {
        let unencodable = |error: serde_json::Error| RequestError::Encode(error.to_string());
        check_server_notification(method)?;
        let raw = params.map_err(unencodable)?;
        let bytes = raw.as_bytes().len();
        let params = match raw.as_str() {
            "null" => CustomParams::new(),
            _ => raw.decode().map_err(unencodable)?,
        };
        self.service.hub.broadcast(Broadcast::Notification { method: method.into(), params, bytes });
        Ok(())
    }
}
