//! The traffic of clients and servers over HTTP and WebSocket, for observers of the application.

use std::fmt;

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use mcp_proto::redact::{is_secret_header, url_without_secrets};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, header as fields};

/// A part of an exchange over HTTP, without framing, chunking and encryption, as a client or a server observes it.
///
/// Values of secret headers, such as `authorization`, `set-cookie` and `mcp-session-id`, are marked as
/// [sensitive](http::HeaderValue::is_sensitive): their [`Debug`](fmt::Debug) form hides them. The `Debug` form of an
/// event also leaves out bodies and the queries of URLs, as those of HTTP+SSE identify a session. A program that prints
/// these parts hides their secrets by a [`Redactor`](mcp_proto::redact::Redactor).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// A request: a client sends it as soon as it has a connection, and a server has read all of its body.
    Request {
        /// The exchange that it begins.
        exchange: ExchangeId,
        /// The method.
        method: &'a Method,
        /// The absolute URL. A server makes it of the host that the request names.
        url: &'a str,
        /// All headers; of a client's own request except those of the connection.
        headers: &'a HeaderMap,
        /// The whole body; on a server what it has read of one that it refused.
        body: &'a [u8],
    },
    /// The head of a response.
    Head {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
    },
    /// A piece of a response's body, split at an arbitrary position.
    Body {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// The piece; never empty.
        bytes: &'a [u8],
    },
    /// A message sent over WebSocket.
    #[cfg(feature = "websocket")]
    MessageSent(&'a [u8]),
    /// A message received over WebSocket.
    #[cfg(feature = "websocket")]
    MessageReceived(&'a [u8]),
    /// The client aborted an exchange, such as a subscription that is no longer needed, or the server lost it.
    Aborted {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// The end of an exchange, unless it was aborted.
    End {
        /// The exchange that ended.
        exchange: ExchangeId,
        /// How it ended.
        end: &'a ExchangeEnd,
    },
}

impl fmt::Debug for WireEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { exchange, method, url, headers, body } => {
                let (url, bytes) = (url_without_secrets(url), body.len());
                write!(f, "Request({exchange:?}, {method} {url}, {headers:?}, {bytes} bytes)")
            }
            Self::Head { exchange, status, headers } => {
                write!(f, "Head({exchange:?}, {status}, {headers:?})")
            }
            Self::Body { exchange, bytes } => write!(f, "Body({exchange:?}, {} bytes)", bytes.len()),
            #[cfg(feature = "websocket")]
            Self::MessageSent(text) => write!(f, "MessageSent({} bytes)", text.len()),
            #[cfg(feature = "websocket")]
            Self::MessageReceived(text) => write!(f, "MessageReceived({} bytes)", text.len()),
            Self::Aborted { exchange } => write!(f, "Aborted({exchange:?})"),
            Self::End { exchange, end } => write!(f, "End({exchange:?}, {end:?})"),
        }
    }
}

/// The observer of a connection.
pub(crate) type WireObserver = dyn FnMut(WireEvent<'_>) + Send;

/// The observer of a client, if the application set one.
#[cfg(feature = "client")]
#[derive(Default)]
pub(crate) struct Tap(pub(crate) Option<Box<WireObserver>>);

#[cfg(feature = "client")]
impl Tap {
    pub(crate) fn show(&mut self, event: WireEvent<'_>) {
        if let Some(watch) = &mut self.0 {
            watch(event);
        }
    }
}

/// Whether the header's value must not be shown.
pub(crate) fn is_secret(name: &HeaderName) -> bool {
    !PUBLIC_HEADERS.contains(name) && is_secret_header(name.as_str())
}

/// Headers of almost every request, which need neither be parsed nor searched for secret words.
pub(crate) static PUBLIC_HEADERS: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    HeaderName::from_static(fields::PROTOCOL_VERSION),
    HeaderName::from_static(fields::METHOD),
    HeaderName::from_static(fields::NAME),
];

/// Marks the values that must not be shown as sensitive.
pub(crate) fn mark_secrets(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if is_secret(name) {
            value.set_sensitive(true);
        }
    }
}
