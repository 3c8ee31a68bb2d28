//! Servers over HTTP: one router behind any number of connections.
//!
//! [`http_server`] joins a router to a handle and a driver. An adapter makes an [`HttpExchange`] of each request that
//! its HTTP implementation reads, and sends what that answers:
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
//! What a request of 2026-07-28 starts lives and dies with its exchange: its handler is polled there, and dropped when
//! the client goes. A session of 2025-11-25 and before outlives connections; sessions and their handlers run in the
//! [`HttpServerDriver`], which is polled beside.
//!
//! Behind a load balancer, requests of 2026-07-28 may go to any instance, provided that all share the keys of their
//! request states (`Router::seal`). A session lives in the memory of one instance: the balancer has to send
//! its requests there, by the header `Mcp-Session-Id`.
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

mod driver;
mod events;
mod exchange;
mod hub;
mod modern_exchange;
mod service;
mod session;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::events::Events;
use super::router::Router;
use super::{Clock, Entropy, HandlerMode, SendHandlers};
use crate::peer::Principal;
use crate::peer::server::ListKind;
use crate::schema::tasks::TaskUpdatedParams;
use crate::transport::http::server::{HttpServerConfig, RequestHead};

pub use driver::HttpServerDriver;
pub use events::HttpServerEvent;
pub use exchange::HttpExchange;

use service::Service;

/// Joins a router to a handle for its application and its adapter, and to the driver of its sessions.
///
/// `config` is made from the router's [configuration](Router::config). One clock serves all of it.
pub fn http_server<H: HandlerMode>(
    router: impl Into<Arc<Router<H>>>,
    config: HttpServerConfig,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> (HttpServer<H>, HttpServerDriver<H>) {
    let router = router.into();
    let service = Arc::new(Service::new(config, clock, entropy, router.task_registry()));
    let driver = HttpServerDriver::new(service.clone(), router.clone());
    (HttpServer { handle: HttpHandle { service }, router }, driver)
}

/// A server over HTTP: it answers requests, and tells those who listen of changes.
///
/// It is cheap to clone, and with a [`SendHandlers`] router usable from any thread. Dropping it ends nothing.
pub struct HttpServer<H: HandlerMode = SendHandlers> {
    handle: HttpHandle,
    router: Arc<Router<H>>,
}

impl<H: HandlerMode> HttpServer<H> {
    /// A request has come: what answers it. Its body is handed over as it comes.
    ///
    /// `principal` is on whose behalf it is made, as was verified by its credentials, or none where there are no users to
    /// tell apart. Sessions, request states and tasks of one principal are unknown to every other.
    pub fn exchange(&self, head: &RequestHead<'_>, principal: Option<Principal>) -> HttpExchange<H> {
        HttpExchange::new(&self.handle.service, &self.router, head, principal, Default::default())
    }

    /// The same of a request that was [let in](super::guard): on behalf of whom its token names.
    #[cfg(feature = "auth")]
    pub fn exchange_for(
        &self,
        head: &RequestHead<'_>,
        authorized: crate::auth::server::GrantedAccess,
    ) -> HttpExchange<H> {
        let principal = Some(authorized.access().principal.clone());
        HttpExchange::new(&self.handle.service, &self.router, head, principal, Some(authorized))
    }

    /// The same of a request that was not let in, or asked for what is no message. Its body is not asked for.
    #[cfg(feature = "auth")]
    pub fn answered_exchange(&self, answer: crate::transport::http::server::HttpResponse) -> HttpExchange<H> {
        HttpExchange::from_answer(&self.handle.service, &self.router, answer)
    }

    /// The part of this that applications need: it goes to any thread whatever the router, and handlers may keep it.
    pub fn handle(&self) -> &HttpHandle {
        &self.handle
    }

    /// As [`HttpHandle::list_changed`].
    pub fn list_changed(&self, list: ListKind) {
        self.handle.list_changed(list);
    }

    /// As [`HttpHandle::resource_updated`].
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        self.handle.resource_updated(uri);
    }

    /// As [`HttpHandle::task_updated`].
    pub fn task_updated(&self, params: &TaskUpdatedParams) {
        self.handle.task_updated(params);
    }

    /// As [`HttpHandle::events`].
    pub fn events(&self) -> Events<HttpServerEvent> {
        self.handle.events()
    }

    /// As [`HttpHandle::close`].
    pub fn close(&self) {
        self.handle.close();
    }

    /// As [`HttpHandle::is_closing`].
    pub fn is_closing(&self) -> bool {
        self.handle.is_closing()
    }

    /// The configuration.
    pub fn config(&self) -> &HttpServerConfig {
        self.handle.service.setup.config()
    }
}

impl<H: HandlerMode> Clone for HttpServer<H> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), router: self.router.clone() }
    }
}

impl<H: HandlerMode> fmt::Debug for HttpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("router", &self.router).finish_non_exhaustive()
    }
}

/// What an application holds of its server over HTTP: to tell clients of changes, and to close it.
///
/// It is cheap to clone and usable from any thread. It knows nothing of the router, whose handlers may therefore keep
/// one.
#[derive(Clone)]
pub struct HttpHandle {
    service: Arc<Service>,
}

impl HttpHandle {
    /// Tells the clients that asked, and those of legacy sessions, that a list has changed. What the list is now is for
    /// the router's handlers to say.
    ///
    /// The capability must have been [declared](Router::declare). Whoever does not read for a while is told once.
    pub fn list_changed(&self, list: ListKind) {
        self.service.hub.list_changed(list);
    }

    /// Tells the clients that asked that a resource has changed. It costs as much as there are of them.
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        self.service.hub.resource_updated(uri.as_ref());
    }

    /// Tells the clients that listen for a task how it is doing (the tasks extension). Whoever does not read for a
    /// while is told the latest.
    pub fn task_updated(&self, params: &TaskUpdatedParams) {
        self.service.hub.task_updated(params);
    }

    /// Which resources become of interest to anybody from now on, and which are no more. What is of interest already is
    /// [`subscribed_resources`](Self::subscribed_resources).
    pub fn events(&self) -> Events<HttpServerEvent> {
        let hub = &self.service.hub;
        Events::new(Box::new(hub.clone()), hub.listen())
    }

    /// The resources that clients want to be told of now, in the order of their URIs.
    pub fn subscribed_resources(&self) -> Vec<String> {
        self.service.hub.resources()
    }

    /// How many bytes the server holds for all its clients, out of [`HttpServerConfig::byte_limits`].
    pub fn bytes_used(&self) -> usize {
        self.service.bytes_used()
    }

    /// Closes the server in an orderly way: ends subscriptions, lets what is being answered finish within
    /// [`close_timeout`](crate::peer::server::ServerConfig::close_timeout), and takes no requests any more. The
    /// driver is done once the sessions have ended.
    pub fn close(&self) {
        self.service.close();
    }

    /// Whether the server was closed.
    pub fn is_closing(&self) -> bool {
        self.service.is_closing()
    }
}

impl fmt::Debug for HttpHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandle").field("closing", &self.is_closing()).finish_non_exhaustive()
    }
}
