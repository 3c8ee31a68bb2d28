//! Shows the traffic of a server to the application's observers, of which each connection has its own.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;
use http::{HeaderMap, Method, Response, header};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

use crate::wire::{WireEvent, WireObserver, mark_secrets};

/// Makes the observer of a connection from its client's address.
pub(super) type ObserverOf = Box<dyn Fn(Option<IpAddr>) -> Option<Box<WireObserver>> + Send + Sync>;

/// A connection that is observed. Its exchanges share the observer.
#[derive(Clone)]
pub(super) struct ObservedConnection(Arc<Mutex<Observation>>);

struct Observation {
    observer: Box<WireObserver>,
    exchanges: u64,
}

impl ObservedConnection {
    pub(super) fn new(observer: Box<WireObserver>) -> Self {
        Self(Arc::new(Mutex::new(Observation { observer, exchanges: 0 })))
    }

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
        let mut observation = self.observation();
        observation.exchanges = observation.exchanges.saturating_add(1);
        let id = ExchangeId::new(observation.exchanges);
        drop(observation);
        let is_head = method == Method::HEAD;
        let request = Some(ObservedRequest { method, url, headers, body: Vec::new() });
        ObservedExchange { connection: self.clone(), id, request, is_head, is_over: false }
    }

    pub(super) fn show(&self, event: WireEvent<'_>) {
        (self.observation().observer)(event);
    }

    /// Goes on after a panic of the application's observer.
    fn observation(&self) -> std::sync::MutexGuard<'_, Observation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
