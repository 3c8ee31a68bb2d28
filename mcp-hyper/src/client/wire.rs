//! Watching what goes over the wire.

use std::fmt;

use http::{HeaderMap, Method, StatusCode};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

/// What went over the wire, as far as the exchange is concerned: how it was cut into frames or chunks, and how it was
/// encrypted, is not shown.
///
/// Values of headers that are secret, such as `authorization`, `set-cookie` and `mcp-session-id`, are marked as
/// [sensitive](http::HeaderValue::is_sensitive): their [`Debug`](fmt::Debug) form hides them. That of an event leaves out
/// bodies as well, and queries of URLs: those of HTTP+SSE name a session. A program
/// that prints these parts must redact them itself.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// A request that is sent as soon as there is a connection for it.
    Request {
        /// The exchange that it begins.
        exchange: ExchangeId,
        /// What is to be done.
        method: &'a Method,
        /// With what.
        url: &'a str,
        /// All headers but those of the connection.
        headers: &'a HeaderMap,
        /// The whole body.
        body: &'a [u8],
    },
    /// The beginning of an answer.
    Head {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
    },
    /// A piece of an answer's body, wherever it was cut.
    Body {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// The piece; never empty.
        bytes: &'a [u8],
    },
    /// The end of an exchange, unless this side has aborted it.
    End {
        /// Which.
        exchange: ExchangeId,
        /// How.
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
                .field("url", &without_secrets(url))
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
            Self::End { exchange, end } => {
                f.debug_struct("End").field("exchange", exchange).field("end", end).finish()
            }
        }
    }
}

/// A URL without user, password and query.
fn without_secrets(url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => String::new(),
    }
}

/// Who watches the wire, if anybody does.
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
