//! Observation of HTTP traffic.

use std::fmt;

use http::{HeaderMap, Method, StatusCode};
use mcp_proto::redact::url_without_secrets;
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

/// A part of an exchange as sent or received, without framing, chunking and encryption.
///
/// Values of secret headers, such as `authorization`, `set-cookie` and `mcp-session-id`, are marked as
/// [sensitive](http::HeaderValue::is_sensitive): their [`Debug`](fmt::Debug) form hides them. The `Debug` form of an
/// event also leaves out bodies and the queries of URLs, as those of HTTP+SSE identify a session. A program that prints
/// these parts hides their secrets by a [`Redactor`](mcp_proto::redact::Redactor).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// A request, sent as soon as it has a connection.
    Request {
        /// The exchange that it begins.
        exchange: ExchangeId,
        /// The method.
        method: &'a Method,
        /// The absolute URL.
        url: &'a str,
        /// All headers except those of the connection.
        headers: &'a HeaderMap,
        /// The whole body.
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
    /// This side aborted an exchange, such as a subscription that is no longer needed.
    Aborted {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// The end of an exchange, unless this side aborted it.
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
            Self::Request { exchange, method, url, headers, body } => f
                .debug_struct("Request")
                .field("exchange", exchange)
                .field("method", method)
                .field("url", &url_without_secrets(url))
                .field("headers", headers)
                .field("body_bytes", &body.len())
                .finish(),
            Self::Head { exchange, status, headers } => f
                .debug_struct("Head")
                .field("exchange", exchange)
                .field("status", status)
                .field("headers", headers)
                .finish(),
            Self::Body { exchange, bytes } => {
                f.debug_struct("Body").field("exchange", exchange).field("bytes", &bytes.len()).finish()
            }
            #[cfg(feature = "websocket")]
            Self::MessageSent(text) => f.debug_struct("MessageSent").field("bytes", &text.len()).finish(),
            #[cfg(feature = "websocket")]
            Self::MessageReceived(text) => {
                f.debug_struct("MessageReceived").field("bytes", &text.len()).finish()
            }
            Self::Aborted { exchange } => f.debug_struct("Aborted").field("exchange", exchange).finish(),
            Self::End { exchange, end } => {
                f.debug_struct("End").field("exchange", exchange).field("end", end).finish()
            }
        }
    }
}

/// The wire observer, if the application set one.
#[derive(Default)]
pub(super) struct Tap(pub(super) Option<Box<WireObserver>>);

pub(super) type WireObserver = dyn FnMut(WireEvent<'_>) + Send;

impl Tap {
    pub(super) fn show(&mut self, event: WireEvent<'_>) {
        if let Some(watch) = &mut self.0 {
            watch(event);
        }
    }
}
