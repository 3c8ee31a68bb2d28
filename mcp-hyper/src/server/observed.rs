//! Shows the traffic of a server to the application's observers, of which each connection has its own.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;
use http::{HeaderMap, Method, Response, header};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

use crate::wire::{WireEvent, WireObserver, mark_secrets};

/// Makes the observer of a connection from its client's address.
pub(super) type ObserverOf = Box<dyn Fn(Option<IpAddr>) -> Option<Box<WireObserver>> + Send + Sync>;

/// Makes the connections of a server that are observed.
pub(super) struct ObservedConnections {
    observer: ObserverOf,
    /// How many exchanges began on all of them.
    exchanges: Arc<AtomicU64>,
}

impl ObservedConnections {
    pub(super) fn new(observer: ObserverOf) -> Self {
        Self { observer, exchanges: Arc::default() }
    }

    /// A connection of this client, if the application observes it.
    pub(super) fn open(&self, client: Option<IpAddr>) -> Option<ObservedConnection> {
        let observer = Arc::new(Mutex::new((self.observer)(client)?));
        Some(ObservedConnection { observer, exchanges: self.exchanges.clone() })
    }
}

/// A connection that is observed. Its exchanges share the observer.
#[derive(Clone)]
pub(super) struct ObservedConnection {
    observer: Arc<Mutex<Box<WireObserver>>>,
    exchanges: Arc<AtomicU64>,
}

impl ObservedConnection {
    /// Begins an exchange with the head of its request.
    pub(super) fn exchange(&self, parts: &Parts, scheme: &str) -> ObservedExchange {
        let mut headers = parts.headers.clone();
        mark_secrets(&mut headers);
        let named = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = parts.uri.authority().map(|host| host.as_str()).or_else(named).unwrap_or_default();
        // The target of OPTIONS may be `*`.
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path } else { "/" };
        let (method, url) = (parts.method.clone(), format!("{scheme}://{host}{path}"));
        let id = ExchangeId::new(self.exchanges.fetch_add(1, Ordering::Relaxed).saturating_add(1));
        let is_head = method == Method::HEAD;
        let request = Some(ObservedRequest { method, url, headers, body: Vec::new() });
        ObservedExchange { connection: self.clone(), id, request, is_head, is_over: false }
    }

    pub(super) fn show(&self, event: WireEvent<'_>) {
        // It goes on after a panic of the application's observer.
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)(event);
    }
}

/// An exchange that is observed. Dropping it before its end shows that it was aborted.
pub(super) struct ObservedExchange {
    connection: ObservedConnection,
    id: ExchangeId,
    /// Until its body is complete.
    request: Option<ObservedRequest>,
    is_head: bool,
    is_over: bool,
}

struct ObservedRequest {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl ObservedExchange {
    /// Takes a piece of the request's body.
    pub(super) fn handle_body(&mut self, piece: &[u8]) {
        if let Some(request) = &mut self.request {
            request.body.extend_from_slice(piece);
        }
    }

    /// Shows the request, of which no more is read.
    pub(super) fn end_request(&mut self) {
        if let Some(ObservedRequest { method, url, headers, body }) = self.request.take() {
            let (method, url, headers, body) = (&method, &*url, &headers, &*body);
            self.connection.show(WireEvent::Request { exchange: self.id, method, url, headers, body });
        }
    }

    /// Shows the head of the response. That to a HEAD request has no body.
    pub(super) fn show_head<B>(&mut self, response: &Response<B>) {
        let mut headers = response.headers().clone();
        mark_secrets(&mut headers);
        let (status, headers) = (response.status(), &headers);
        self.connection.show(WireEvent::Head { exchange: self.id, status, headers });
        if self.is_head {
            self.end();
        }
    }

    /// Shows a piece of the response's body.
    pub(super) fn show_body(&self, bytes: &[u8]) {
        if !self.is_over {
            self.connection.show(WireEvent::Body { exchange: self.id, bytes });
        }
    }

    /// Shows that the response is complete.
    pub(super) fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.connection.show(WireEvent::End { exchange: self.id, end: &ExchangeEnd::Complete });
        }
    }
}

impl Drop for ObservedExchange {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.end_request();
        if !self.is_over {
            self.connection.show(WireEvent::Aborted { exchange: self.id });
        }
    }
}
